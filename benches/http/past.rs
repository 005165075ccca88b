//! The history: what reading the past costs, how soon a change reaches its followers, and what streams and pruning take.

use std::time::{Duration, Instant};

use bson::{DateTime, Document, doc};
use inventory_service::history::entry::{Action, After, Author, Changes, Draft, PendingEntry, with_sequences};
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{Change, Store, Unit, collections};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::Connection;
use crate::drive::{Load, percentile, rate};
use crate::harness::process;
use crate::harness::timing::Error;
use crate::servers::Server;
use crate::world::{World, changes, get, stream};

/// How long each kind of request is sent.
const TIME: Duration = Duration::from_secs(3);
/// The number of changes since the version in the first figure.
const VERSIONS: usize = 10;
/// How many changes there are since the moment of a list.
const SINCE: usize = 1_000;
const STREAMS: usize = 1_000;
const PRUNED: i64 = 1_000_000;
/// When the entries were made that are pruned, in milliseconds since 1970.
const PRUNED_TIME: i64 = 1_600_000_000_000;

/// One figure.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Past {
    store: &'static str,
    objects: u32,
    figure: &'static str,
    measured: f64,
    /// The maximum of the figure.
    bound: f64,
}

/// What the columns are.
pub(crate) const HEAD: &str =
    "history                                                       store      objects   measured      bound";

impl Past {
    pub(crate) fn line(&self) -> String {
        let Self { store, objects, figure, measured, bound } = self;
        let verdict = if measured <= bound { "holds" } else { "MISSED" };
        format!("{figure:<60}  {store:<9} {objects:>8} {measured:>10.2} {bound:>10.2}  {verdict}")
    }
}

/// Measures all figures on one store.
pub(crate) async fn measure(world: &mut World, done: &mut impl FnMut(Past)) -> Result<(), Error> {
    let mut told = |world: &World, figure, measured, bound| {
        done(Past { store: world.store, objects: world.objects, figure, measured, bound });
    };
    told(world, "object ten versions ago, times the present one", ago(world).await?, 2.0);
    told(world, "list 1,000 changes ago, milliseconds more", list_ago(world).await?, 20.0);
    let bound = if world.store == "embedded" { 50.0 } else { 1_000.0 };
    told(world, "from the request to the event, p99 in milliseconds", until_told(world).await?, bound);
    let (memory, loss) = beside_streams(world).await?;
    told(world, "1,000 streams, MiB more", memory, 64.0);
    told(world, "1,000 streams, percent of a writer's rate lost", loss, 5.0);
    Ok(())
}

/// The medians of two kinds of requests in turn, in milliseconds.
async fn in_turn(port: u16, kinds: [&[Vec<u8>]; 2]) -> Result<[f64; 2], Error> {
    let mut connection = Connection::open(port).await?;
    let (mut latencies, begun) = ([Vec::new(), Vec::new()], Instant::now());
    let mut number = 0;
    while begun.elapsed() < TIME {
        for (kind, requests) in kinds.iter().enumerate() {
            let asked = Instant::now();
            let answer = connection.ask(&requests[number % requests.len()]).await?;
            if answer.status != 200 {
                return Err(format!("{}: {}", answer.status, String::from_utf8_lossy(answer.body)).into());
            }
            latencies[kind].push(u32::try_from(asked.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        number += 1;
    }
    Ok(latencies.map(|mut latencies| {
        latencies.sort_unstable();
        percentile(&latencies, 500) / 1e3
    }))
}

async fn change(world: &World, requests: &[Vec<u8>], count: usize) -> Result<(), Error> {
    let mut connection = Connection::open(world.server.port).await?;
    for request in requests.iter().cycle().take(count) {
        let answer = connection.ask(request).await?;
        if answer.status >= 300 {
            return Err(format!("{}: {}", answer.status, String::from_utf8_lossy(answer.body)).into());
        }
    }
    Ok(())
}

async fn last_sequence(world: &World) -> Result<i64, Error> {
    let list: Value = serde_json::from_slice(&world.read("/rest/logs/?sort=-sequence&limit=1").await?)?;
    list["results"][0]["sequence"].as_i64().ok_or_else(|| "no entry".into())
}

async fn ago(world: &World) -> Result<f64, Error> {
    let changes = changes(world, 64, "versions");
    change(world, &changes, 64).await?;
    let then = last_sequence(world).await?;
    change(world, &changes, 64 * VERSIONS).await?;
    let paths = world.native_paths(world.token());
    let now: Vec<_> = paths.into_iter().take(64).collect();
    let past: Vec<_> = world.paths().take(64).map(|path| get(&format!("{path}?at={then}"), world.token())).collect();
    let [now, past] = in_turn(world.server.port, [&now, &past]).await?;
    Ok(past / now)
}

async fn list_ago(world: &World) -> Result<f64, Error> {
    let then = last_sequence(world).await?;
    change(world, &changes(world, 512, "lists"), SINCE).await?;
    let list = |more: &str| vec![get(&format!("/rest/objects/?limit=10&sort=-public_id{more}"), world.token())];
    let [now, past] = in_turn(world.server.port, [&list(""), &list(&format!("&at={then}"))]).await?;
    Ok(past - now)
}

/// The time from a change to its event in a stream.
async fn until_told(world: &World) -> Result<f64, Error> {
    let mut reader = EventReader::open(world, "resource=objects&view=ids").await?;
    let mut connection = Connection::open(world.server.port).await?;
    let mut latencies = Vec::new();
    for request in changes(world, 512, "events").iter().cycle().take(SINCE) {
        let asked = Instant::now();
        if connection.ask(request).await?.status >= 300 {
            return Err("a change was refused".into());
        }
        reader.event().await?;
        latencies.push(u32::try_from(asked.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    latencies.sort_unstable();
    Ok(percentile(&latencies, 990) / 1e3)
}

/// The memory of many idle streams, and what a steady writer loses while they are open. The writer is alone
/// before and after: machines change their pace.
async fn beside_streams(world: &World) -> Result<(f64, f64), Error> {
    let server = &world.server;
    let load = Load {
        port: server.port,
        requests: changes(world, 512, "streams"),
        status: 202,
        service: server.pid(),
        mongod: None,
    };
    rate(&load, 16, TIME).await?;
    let alone = rate(&load, 16, TIME).await?;
    let before = process::memory(server.pid(), "VmRSS");
    let mut readers = Vec::with_capacity(STREAMS);
    for _ in 0..STREAMS {
        readers.push(EventReader::open(world, "resource=categories").await?);
    }
    let beside = rate(&load, 16, TIME).await?;
    let after = process::memory(server.pid(), "VmRSS");
    drop(readers);
    tokio::time::sleep(TIME).await;
    let again = rate(&load, 16, TIME).await?;
    Ok((mib(after) - mib(before), (1.0 - beside / f64::midpoint(alone, again)) * 100.0))
}

fn mib(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

/// A stream of changes that is being read.
struct EventReader {
    stream: TcpStream,
    text: Vec<u8>,
}

impl EventReader {
    async fn open(world: &World, parameters: &str) -> Result<Self, Error> {
        let mut tcp = TcpStream::connect(("127.0.0.1", world.server.port)).await?;
        tcp.write_all(&stream(&format!("/rest/changes/?{parameters}"), world.token())).await?;
        let mut reader = Self { stream: tcp, text: Vec::new() };
        reader.until(b"changes behind").await?;
        Ok(reader)
    }

    async fn event(&mut self) -> Result<(), Error> {
        self.until(b"data: ").await
    }

    /// Reads up to these bytes and forgets what came before.
    async fn until(&mut self, wanted: &[u8]) -> Result<(), Error> {
        loop {
            if let Some(found) = self.text.windows(wanted.len()).position(|window| window == wanted) {
                self.text.drain(..found + wanted.len());
                return Ok(());
            }
            if self.stream.read_buf(&mut self.text).await? == 0 {
                return Err(format!("a stream ended: {}", String::from_utf8_lossy(&self.text)).into());
            }
        }
    }
}

/// The memory that pruning a million old entries takes, in MiB: compared with a service in which somebody has signed in,
/// which takes some MiB of its own.
pub(crate) async fn pruning(folder: &std::path::Path) -> Result<Past, Error> {
    let directory = folder.join("pruned");
    fill(&directory).await?;
    let uri = format!("embedded:{}", directory.display());
    let at_rest = Server::product(&uri, &[]).await?;
    crate::world::sign_in(at_rest.port).await?;
    tokio::time::sleep(TIME).await;
    let before = process::memory(at_rest.pid(), "VmHWM");
    drop(at_rest);
    let server = Server::product(&uri, &[("INVENTORY__HISTORY__KEEP_DAYS", "30")]).await?;
    let token = crate::world::sign_in(server.port).await?;
    let mut connection = Connection::open(server.port).await?;
    let count = get("/rest/logs/?limit=1", &token);
    let begun = Instant::now();
    loop {
        tokio::time::sleep(TIME).await;
        let answer = connection.ask(&count).await?;
        let total = serde_json::from_slice::<Value>(answer.body)?["total"].as_i64().unwrap_or(i64::MAX);
        // The first entry of each resource stays.
        if total <= PRUNED / 10 + 1_000 {
            break;
        }
        if begun.elapsed() > Duration::from_mins(15) {
            return Err(format!("{total} entries are still there").into());
        }
    }
    let peak = process::memory(server.pid(), "VmHWM");
    Ok(Past {
        store: "embedded",
        objects: 0,
        figure: "pruning a million entries, MiB more than at rest",
        measured: mib(peak) - mib(before),
        bound: 64.0,
    })
}

/// Old entries, ten of each resource.
async fn fill(directory: &std::path::Path) -> Result<(), Error> {
    let store = EmbeddedStore::open(directory, &Options::default())?;
    store.prepare(collections::ALL).await?;
    let author = Author::default();
    let then = DateTime::from_millis(PRUNED_TIME);
    let mut sequence = 0;
    while sequence < PRUNED {
        let (first, mut pending) = (sequence + 1, Vec::<PendingEntry>::with_capacity(10_000));
        for _ in 0..1_000 {
            let (public_id, mut last) = (sequence / 10 + 1, None);
            for _ in 0..10 {
                sequence += 1;
                let patch: Document = doc! { "was": { "/fields/0/value": format!("the value number {sequence}") } };
                let changes = if last.is_none() { Changes::Created } else { Changes::Patched(patch) };
                let action = if last.is_none() { Action::Create } else { Action::Edit };
                let draft = Draft {
                    resource: "objects",
                    public_id,
                    type_id: Some(1),
                    action,
                    author: &author,
                    cause: None,
                    changes,
                    after: After::default(),
                };
                let entry = draft.pending(last.as_ref(), then);
                last = Some(entry.place(pending.len()));
                pending.push(entry);
            }
        }
        let entries = with_sequences(&pending, first).into_iter();
        let changes = entries.map(|document| Change::Insert { collection: collections::LOGS, document }).collect();
        store.commit(Unit { conditions: Vec::new(), changes }).await?;
    }
    Ok(())
}
