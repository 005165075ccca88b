//! The primary of a replica set is killed, frozen, cut off from everybody and from the other servers, while clients read and
//! write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use crate::api::{Api, Outcome, object};
use crate::harness::timing::Error;
use crate::ledger::Ledger;
use crate::replicas::{Cut, Replicas};
use crate::servers::Server;
use crate::writing::{Tally, Writer};

const WRITERS: usize = 8;
const READERS: usize = 4;
/// How long a fault lasts, and how long everything is well after it.
const FAULT: Duration = Duration::from_secs(20);
const WELL: Duration = Duration::from_secs(8);
const WRITES_WITHIN: Duration = Duration::from_secs(15);
const READS_WITHIN: Duration = Duration::from_secs(5);

/// When requests succeeded.
#[derive(Default)]
struct Pulse(Mutex<Vec<Instant>>);

impl Pulse {
    fn beat(&self) {
        self.0.lock().expect("nobody panicked").push(Instant::now());
    }

    /// The longest time without a success between two moments.
    fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        let mut beats: Vec<Instant> = self.0.lock().expect("nobody panicked").clone();
        beats.sort_unstable();
        let within = beats.into_iter().filter(|beat| (from..=to).contains(beat));
        let moments: Vec<Instant> = std::iter::once(from).chain(within).chain([to]).collect();
        moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

#[derive(Default)]
struct Shared {
    writes: Pulse,
    reads: Pulse,
    refused: AtomicUsize,
    over: AtomicBool,
}

pub(crate) async fn run(replicas: &mut Replicas) -> Result<(), Error> {
    let server = Server::product(&replicas.uri("failover"), &[]).await?;
    let mut api = Api::sign_in(server.port).await?;
    let type_id = api.create_type("failover").await?;
    api.expect("POST", "/objects/", Some(&object(type_id, "first", "new"))).await?;
    let (shared, ledger, tally) = (Arc::new(Shared::default()), Arc::<Ledger>::default(), Arc::<Tally>::default());
    ledger.acknowledged("first", 1, Some("new"));
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let writer = Writer::new(api.again(), type_id, writer.to_string(), &ledger, &tally);
        tasks.push(tokio::spawn(write(writer, Arc::clone(&shared))));
    }
    for _ in 0..READERS {
        tasks.push(tokio::spawn(read(api.again(), Arc::clone(&shared))));
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut missed = Vec::new();
    for fault in ["killed", "frozen", "cut off", "cut off from the other servers"] {
        let primary = replicas.primary().await?;
        let begun = Instant::now();
        match fault {
            "killed" => replicas.kill(primary)?,
            "frozen" => replicas.signal(primary, "STOP")?,
            "cut off" => replicas.cut(primary, Cut::FromAll),
            _ => replicas.cut(primary, Cut::FromServers),
        }
        tokio::time::sleep(FAULT).await;
        match fault {
            "killed" => replicas.start_again(primary)?,
            "frozen" => replicas.signal(primary, "CONT")?,
            _ => replicas.cut(primary, Cut::Not),
        }
        tokio::time::sleep(WELL).await;
        let (writes, reads) =
            (shared.writes.longest_gap(begun, Instant::now()), shared.reads.longest_gap(begun, Instant::now()));
        println!("failover, primary {fault}: writes again after {writes:.1?}, reads after {reads:.1?}");
        if writes > WRITES_WITHIN || reads > READS_WITHIN {
            missed.push(fault);
        }
    }
    shared.over.store(true, Ordering::Relaxed);
    for outcome in try_join_all(tasks).await? {
        outcome?;
    }
    let verdict = ledger.compare(&api, type_id).await?;
    println!(
        "failover: {} writes acknowledged, {} keys, {} objects, {} requests refused or broken off, {} acknowledged writes lost, {} doubled, {} wrong; the \
         service was not started again",
        tally.acknowledged(),
        ledger.len(),
        verdict.objects,
        shared.refused.load(Ordering::Relaxed),
        verdict.lost,
        verdict.doubled,
        verdict.changed,
    );
    verdict.passed()?;
    server.stop()?;
    if missed.is_empty() { Ok(()) } else { Err(format!("too slow when the primary was {}", missed.join(", ")).into()) }
}

async fn write(mut writer: Writer, shared: Arc<Shared>) -> Result<(), Error> {
    while !shared.over.load(Ordering::Relaxed) {
        match writer.step().await? {
            None => shared.writes.beat(),
            // It may have happened or not; what it must not do is happen twice.
            Some(Outcome::Answer(503, _) | Outcome::Refused | Outcome::Unknown) => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Some(Outcome::Answer(status, said)) => return Err(format!("{status}: {said}").into()),
        }
    }
    Ok(())
}

async fn read(mut api: Api, shared: Arc<Shared>) -> Result<(), Error> {
    while !shared.over.load(Ordering::Relaxed) {
        match api.send("GET", "/objects/1", None).await? {
            Outcome::Answer(200, _) => shared.reads.beat(),
            Outcome::Answer(503, _) | Outcome::Refused | Outcome::Unknown => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Answer(status, said) => return Err(format!("{status}: {said}").into()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}
