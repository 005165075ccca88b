//! The innocent reader: how long single reads take while eight attackers are active on another account, and what memory the
//! service takes for them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::attacks::{Attack, Attacker, How};
use crate::client::{Connection, request};
use crate::drive::percentile;
use crate::harness::process;
use crate::harness::timing::Error;
use crate::servers::PASSWORD;
use crate::world::{World, get, sign_in_as};

/// How long the reader reads during an attack.
const TIME: Duration = Duration::from_secs(4);
/// How long an attack runs before that.
const BEFORE: Duration = Duration::from_millis(500);
/// The reader's p99 during an attack, as a multiple of that during single reads.
const TIMES: f64 = 20.0;
/// How many large objects there are.
const LARGE: usize = 400;
/// The maximum of the service's memory, in MiB.
const MEMORY: f64 = 512.0;

/// The reader's figures during an attack.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Beside {
    store: &'static str,
    attack: &'static str,
    p50_us: f64,
    p99_us: f64,
    /// As a multiple of the p99 during single reads.
    times: f64,
    memory_mib: f64,
    /// Answers to the attackers: below 300, refused as busy, others.
    answered: [u64; 3],
}

/// What the columns are.
pub(crate) const HEAD: &str =
    "innocent reader beside                  store         p50 us     p99 us    times  memory MiB   2xx / 503 / other";

impl Beside {
    pub(crate) fn line(&self) -> String {
        let Self { store, attack, p50_us, p99_us, times, memory_mib, answered: [good, busy, other] } = self;
        let verdict = if *times <= TIMES && *memory_mib <= MEMORY { "holds" } else { "MISSED" };
        format!(
            "{attack:<38}  {store:<9} {p50_us:>10.0} {p99_us:>10.0} {times:>8.1} {memory_mib:>11.0}   {good} / {busy} / {other}  {verdict}"
        )
    }
}

/// Measures during single reads and then during each wanted attack, with a service started for each.
pub(crate) async fn measure(
    world: &mut World,
    wants: impl Fn(&str) -> bool,
    done: &mut impl FnMut(Beside),
) -> Result<(), Error> {
    let attacker_id = make_user(world, "attacker").await?;
    make_user(world, "reader").await?;
    let type_id = world.type_of_machines();
    let since = change_large(world).await?;
    let mut usual = 0.0;
    for number in 0.. {
        world.restart().await?;
        let (token, reader) =
            (sign_in_as(world.server.port, "attacker").await?, sign_in_as(world.server.port, "reader").await?);
        let attacker = Attacker { token: &token, user_id: attacker_id, type_id, since: &since };
        let attack = match number {
            0 => Attack { name: "single reads", requests: world.native_paths(&token), attackers: 8, how: How::Kept },
            _ => match attacker.attacks()?.into_iter().nth(number - 1) {
                Some(attack) if wants(attack.name) => attack,
                Some(_) => continue,
                None => return Ok(()),
            },
        };
        let mut beside = beside(world, attack, world.native_paths(&reader)).await?;
        if number == 0 {
            usual = beside.p99_us;
        }
        beside.times = beside.p99_us / usual;
        done(beside);
    }
    Ok(())
}

async fn beside(world: &World, attack: Attack, reads: Vec<Vec<u8>>) -> Result<Beside, Error> {
    let (port, pid, name) = (world.server.port, world.server.pid(), attack.name);
    // The peak so far is forgotten.
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
    let over = Arc::new(AtomicBool::new(false));
    let answered: Arc<[AtomicU64; 3]> = Arc::default();
    // On a thread of their own, so that what they read does not delay the reader.
    let attackers = thread::spawn({
        let (over, answered) = (Arc::clone(&over), Arc::clone(&answered));
        move || attack_until(&over, port, attack, &answered)
    });
    tokio::time::sleep(BEFORE).await;
    let latencies = read(port, &reads).await;
    over.store(true, Ordering::Relaxed);
    let memory = process::memory(pid, "VmHWM");
    attackers.join().map_err(|_| "the attackers broke off")?;
    let mut latencies = latencies?;
    latencies.sort_unstable();
    Ok(Beside {
        store: world.store,
        attack: name,
        p50_us: percentile(&latencies, 500),
        p99_us: percentile(&latencies, 990),
        times: 0.0,
        memory_mib: f64::from(u32::try_from(memory / 1024)?) / 1024.0,
        answered: answered.each_ref().map(|count| count.load(Ordering::Relaxed)),
    })
}

/// Reads one object after the other, and says how long each took, in nanoseconds.
async fn read(port: u16, reads: &[Vec<u8>]) -> Result<Vec<u32>, Error> {
    let mut connection = Connection::open(port).await?;
    let (mut latencies, begun) = (Vec::new(), Instant::now());
    for request in reads.iter().cycle() {
        if begun.elapsed() >= TIME {
            break;
        }
        let asked = Instant::now();
        let answer = connection.ask(request).await?;
        if answer.status != 200 {
            return Err(format!("the reader got {}: {}", answer.status, String::from_utf8_lossy(answer.body)).into());
        }
        latencies.push(u32::try_from(asked.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(latencies)
}

fn attack_until(over: &Arc<AtomicBool>, port: u16, attack: Attack, answered: &Arc<[AtomicU64; 3]>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let attack = Arc::new(attack);
    runtime.block_on(async {
        for number in 0..attack.attackers {
            let (over, attack, answered) = (Arc::clone(over), Arc::clone(&attack), Arc::clone(answered));
            tokio::spawn(async move {
                if matches!(attack.how, How::Kept) {
                    return ask_on(port, &attack.requests, &over, &answered[0]).await.unwrap_or(());
                }
                for request in attack.requests.iter().cycle().skip(number % attack.requests.len()) {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    // Who is refused or cut off comes again.
                    let kind = send(port, request, attack.how).await.map_or(2, kind_of);
                    answered[kind].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while !over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

/// Asks again and again on one connection.
async fn ask_on(port: u16, requests: &[Vec<u8>], over: &AtomicBool, count: &AtomicU64) -> Result<(), Error> {
    let mut connection = Connection::open(port).await?;
    for request in requests.iter().cycle().take_while(|_| !over.load(Ordering::Relaxed)) {
        connection.ask(request).await?;
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn kind_of(status: u16) -> usize {
    match status {
        200..300 => 0,
        503 => 1,
        _ => 2,
    }
}

/// Sends a request and takes the answer to its end, or nothing of it.
async fn send(port: u16, request: &[u8], how: How) -> Result<u16, Error> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(request).await?;
    let mut buffer = vec![0; 64 * 1024];
    if matches!(how, How::Unread) {
        tokio::time::sleep(TIME * 2).await;
    }
    let taken = timeout(TIME * 4, stream.read(&mut buffer)).await??;
    let status = std::str::from_utf8(buffer.get(9..12).filter(|_| taken >= 12).ok_or("no status")?)?.parse()?;
    while timeout(TIME * 4, stream.read(&mut buffer)).await?? > 0 {}
    if kind_of(status) == 1 {
        // As a client that heeds `Retry-After` would not do: at once again, but not without end.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(status)
}

/// Makes large objects and changes each of them a little, and gives the cursor in between.
async fn change_large(world: &World) -> Result<String, Error> {
    let mut connection = Connection::open(world.server.port).await?;
    let bearer = format!("Bearer {}", world.token());
    let mut ask = async |method: &str, path: &str, body: Option<String>| {
        let headers = [("authorization", bearer.as_str())];
        let answer = connection.ask(&request(method, path, &headers, body.as_deref())).await?;
        if answer.status >= 300 {
            return Err(format!("{path}: {}", String::from_utf8_lossy(answer.body)).into());
        }
        Ok::<Value, Error>(serde_json::from_slice(answer.body)?)
    };
    let fields =
        json!([{"type": "text", "name": "text", "label": "Text"}, {"type": "number", "name": "n", "label": "N"}]);
    let object_type = json!({"name": "large", "label": "Large", "author_id": 1, "fields": fields}).to_string();
    let type_id = ask("POST", "/rest/types/", Some(object_type)).await?["result_id"].clone();
    let object = json!({"type_id": type_id, "author_id": 1, "fields": {"text": "x".repeat(900_000), "n": 0}});
    let mut ids = Vec::with_capacity(LARGE);
    for _ in 0..LARGE {
        ids.push(ask("POST", "/rest/objects/", Some(object.to_string())).await?["result_id"].clone());
    }
    let since = ask("GET", "/rest/changes/", None).await?["next"].as_str().ok_or("no cursor")?.to_owned();
    for id in ids {
        ask("PATCH", &format!("/rest/objects/{id}"), Some(json!({"fields": {"n": 1}}).to_string())).await?;
    }
    Ok(since)
}

/// Makes a user in the group of administrators, and returns the user's id.
async fn make_user(world: &World, name: &str) -> Result<i64, Error> {
    let mut connection = Connection::open(world.server.port).await?;
    let body = json!({"user_name": name, "password": PASSWORD, "group_id": 1}).to_string();
    let headers = [("authorization", &*format!("Bearer {}", world.token()))];
    let answer = connection.ask(&request("POST", "/rest/users/", &headers, Some(&body))).await?;
    let said: Value = serde_json::from_slice(answer.body)?;
    if let Some(id) = said["result_id"].as_i64() {
        return Ok(id);
    }
    // A store that was kept has the user.
    let path = format!("/rest/users/?limit=1&filter=%7B%22user_name%22:%22{name}%22%7D");
    let found: Value = serde_json::from_slice(connection.ask(&get(&path, world.token())).await?.body)?;
    found["results"][0]["public_id"].as_i64().ok_or_else(|| format!("no user {name}: {said}").into())
}
