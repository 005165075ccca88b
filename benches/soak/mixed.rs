//! Reads and writes of many clients at once, on one store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use serde_json::Value;

use crate::api::{Api, Outcome, object};
use crate::harness::process;
use crate::harness::timing::Error;
use crate::ledger::Ledger;
use crate::servers::Server;

const WRITERS: usize = 16;
const READERS: usize = 8;
const PAGE: u64 = 50;

/// What everybody counts.
#[derive(Default)]
struct Counts {
    reads: AtomicUsize,
    writes: AtomicUsize,
    refused: AtomicUsize,
}

pub(crate) async fn run(store: &'static str, uri: &str, time: Duration) -> Result<(), Error> {
    let server = Server::product(uri, &[]).await?;
    let mut api = Api::sign_in(server.port).await?;
    let type_id = api.create_type("soak").await?;
    let (ledger, counts) = (Arc::new(Ledger::default()), Arc::new(Counts::default()));
    let until = Instant::now() + time;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        tasks.push(tokio::spawn(write(api.again(), type_id, writer, until, Arc::clone(&ledger), Arc::clone(&counts))));
    }
    for reader in 0..READERS {
        tasks.push(tokio::spawn(read(api.again(), reader, store == "embedded", until, Arc::clone(&counts))));
    }
    tokio::time::sleep(time / 4).await;
    let early = process::memory(server.pid(), "VmRSS") >> 20;
    for outcome in try_join_all(tasks).await? {
        outcome?;
    }
    let late = process::memory(server.pid(), "VmRSS") >> 20;
    let verdict = ledger.compare(&mut api, type_id).await?;
    println!(
        "mixed on {store}, {time:?}: {} writes and {} reads, {} refused; {} keys, {} objects, {} lost, {} doubled, {} wrong; \
         memory {early} MiB after a quarter, {late} MiB at the end",
        counts.writes.load(Ordering::Relaxed),
        counts.reads.load(Ordering::Relaxed),
        counts.refused.load(Ordering::Relaxed),
        ledger.len(),
        verdict.objects,
        verdict.lost,
        verdict.doubled,
        verdict.changed,
    );
    verdict.passed()?;
    if counts.refused.load(Ordering::Relaxed) > 0 {
        return Err("a request was refused though nothing was wrong".into());
    }
    server.stop()
}

/// Creates objects, changes most of them, and deletes some.
async fn write(
    mut api: Api,
    type_id: i64,
    writer: usize,
    until: Instant,
    ledger: Arc<Ledger>,
    counts: Arc<Counts>,
) -> Result<(), Error> {
    let refused = |outcome: Outcome| {
        eprintln!("refused: {outcome:?}");
        counts.refused.fetch_add(1, Ordering::Relaxed);
    };
    for number in 0_usize.. {
        if Instant::now() >= until {
            break;
        }
        let key = format!("{writer}-{number}");
        let id = match api.send("POST", "/objects/", Some(&object(type_id, &key, "new"))).await? {
            Outcome::Answer(200, said) => said["result_id"].as_i64().ok_or("no id")?,
            other => {
                ledger.uncertain(&key, Some("new"));
                refused(other);
                continue;
            }
        };
        ledger.acknowledged(&key, id, Some("new"));
        counts.writes.fetch_add(1, Ordering::Relaxed);
        let path = format!("/objects/{id}");
        let (method, body, value) = match number % 4 {
            0 => continue,
            3 => ("DELETE", None, None),
            _ => ("PUT", Some(object(type_id, &key, "changed")), Some("changed")),
        };
        match api.send(method, &path, body.as_ref()).await? {
            Outcome::Answer(200, _) => ledger.acknowledged(&key, id, value),
            other => {
                ledger.uncertain(&key, value);
                refused(other);
            }
        }
        counts.writes.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Takes pages; each has to fit its own total where both come from one moment.
async fn read(mut api: Api, reader: usize, exact: bool, until: Instant, counts: Arc<Counts>) -> Result<(), Error> {
    let mut total = 0;
    for round in reader.. {
        if Instant::now() >= until {
            break;
        }
        let page = u64::try_from(round)? % (total / PAGE + 1) + 1;
        let order = if round.is_multiple_of(2) { 1 } else { -1 };
        let view = if round.is_multiple_of(3) { "render" } else { "native" };
        let path = format!("/objects/?limit={PAGE}&page={page}&sort=public_id&order={order}&view={view}");
        let list = api.expect("GET", &path, None).await?;
        total = list["total"].as_u64().ok_or("no total")?;
        let ids: Vec<i64> = list["results"].as_array().ok_or("no results")?.iter().filter_map(id_of).collect();
        let count = ids.len() as u64;
        let fits = count == total.saturating_sub((page - 1) * PAGE).min(PAGE);
        let in_order = ids.is_sorted_by(|left, right| if order == 1 { left < right } else { left > right });
        if !in_order || list["count"] != count || (exact && !fits) {
            return Err(format!("page {page} has {count} of {total}, in order: {in_order}").into());
        }
        counts.reads.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn id_of(item: &Value) -> Option<i64> {
    item["public_id"].as_i64().or_else(|| item["object_information"]["object_id"].as_i64())
}
