//! Loss of power: a recorded history of writes and syncs is cut. Unsynced writes are lost, kept at random or torn. Then
//! a store is opened on the rest.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::memory::{Event, Fate, Memory, PowerDisk};
use super::workload::{self, CLIENTS, COLLECTIONS, Documents, Journal, Known, stored};
use super::{Random, options, rounds, start, store_files};
use crate::store::Store;
use crate::store::embedded::open::paths::FILE;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::options::Options;
use crate::store::embedded::upkeep::check::Findings;
use crate::store::embedded::upkeep::repair;

/// The number of power cuts at random moments, in addition to those at the syncs.
const CUTS: &str = "INVENTORY_POWER_CUTS";
/// Of clients that rewrite documents of a store that does not fit into the cache.
const WRITERS: usize = 4;
const READERS: usize = 3;
const SMALL_CACHE: usize = 256 * 1024;
/// What is written in this time is not what the sync makes durable.
const SYNC_TIME: Duration = Duration::from_millis(4);

impl Journal for Memory {
    fn begun(&self, client: usize, attempted: &Documents) {
        self.note(Event::Begun(client, attempted.clone()));
    }

    fn settled(&self, client: usize, documents: &Documents) {
        self.note(Event::Settled(client, documents.clone()));
    }
}

/// A history of four processes one after the other: ordinary commits, one that is killed, one with quick repair, and a compaction.
async fn history(operations: usize) -> Vec<Event> {
    let memory = Memory::recording();
    memory.set_sync_time(SYNC_TIME);
    for (session, quick_repair_from_bytes) in [(0, u64::MAX), (1, u64::MAX), (2, 0), (3, u64::MAX)] {
        let store = Arc::new(start(&memory, &Options { quick_repair_from_bytes, ..options() }));
        store.prepare(COLLECTIONS).await.expect("it can be prepared");
        workload::run(&store, &memory, operations, session).await;
        // As the next one finds the file that a killed one left.
        memory.set_killed(session == 1);
        drop(store);
        memory.set_killed(false);
        if session == 2 {
            crate::store::embedded::upkeep::space::compact(&store_files(&memory)).expect("it can be compacted");
        }
    }
    memory.events()
}

/// Follows a history up to a moment.
#[derive(Default)]
struct Moment {
    disk: PowerDisk,
    known: BTreeMap<usize, Known>,
    settled: u64,
}

impl Moment {
    fn follow(&mut self, event: &Event) {
        self.disk.follow(event);
        match event {
            Event::Begun(client, attempted) => self.known.entry(*client).or_default().begun(attempted.clone()),
            Event::Settled(client, documents) => {
                self.known.entry(*client).or_default().settled(documents.clone());
                self.settled += 1;
            }
            _ => {}
        }
    }
}

/// Looks at what is left, opens a store on it and looks at everything.
async fn check(files: BTreeMap<PathBuf, Vec<u8>>, known: &BTreeMap<usize, Known>) -> Result<(), String> {
    let memory = Memory::of(files);
    match repair::check_at(&store_files(&memory)) {
        Err(OpenError::NoStore(_)) => {}
        found => sound(found)?,
    }
    let store = super::EmbeddedStore::start(store_files(&memory), &options()).map_err(|error| error.to_string())?;
    let problems = store.check().await.map_err(|error| error.to_string())?;
    if !problems.is_empty() {
        return Err(format!("{problems:?}"));
    }
    let mut found = stored(&store).await.map_err(|error| error.to_string())?;
    for client in 0..CLIENTS {
        let found = found.remove(&client).unwrap_or_default();
        known.get(&client).cloned().unwrap_or_default().check(&found)?;
    }
    store.prepare(COLLECTIONS).await.map_err(|error| error.to_string())?;
    drop(store);
    sound(repair::check_at(&store_files(&memory)))
}

fn sound(found: Result<Findings, OpenError>) -> Result<(), String> {
    let findings = found.map_err(|error| error.to_string())?;
    if findings.is_sound() { Ok(()) } else { Err(format!("{:?}", findings.problems)) }
}

/// Loses the power at these moments. Returns the number of losses, and of acknowledged writes that it looked for.
async fn lose_power(events: &[Event], mut moments: Vec<usize>, fates: &[Fate]) -> (usize, u64) {
    moments.sort_unstable();
    let (mut moment, mut at, mut acknowledged, mut random) = (Moment::default(), 0, 0, Random(7));
    for (round, end) in moments.iter().enumerate() {
        for event in &events[at..*end] {
            moment.follow(event);
        }
        at = *end;
        let fate = fates[round % fates.len()];
        let files = moment.disk.cut(fate, &mut random);
        if let Err(error) = check(files, &moment.known).await {
            panic!("the power went at event {end} of {}, {fate:?}: {error}", events.len());
        }
        acknowledged += moment.settled;
    }
    (moments.len(), acknowledged)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_outlive_a_loss_of_power() {
    let cuts = rounds(CUTS, 250);
    let events = history(20).await;
    let syncs: Vec<usize> = (0..events.len()).filter(|at| matches!(events[*at], Event::Sync(_))).collect();
    let mut random = Random(8);
    // Just before and just after each sync, and anywhere.
    let near = syncs.iter().flat_map(|at| [*at, at + 1]);
    let anywhere = (0..cuts).map(|_| random.below(events.len()));
    let fates = [Fate::Lost, Fate::Kept, Fate::Random, Fate::Torn(512), Fate::Torn(4096)];
    let (lost, acknowledged) = lose_power(&events, near.chain(anywhere).collect(), &fates).await;
    eprintln!(
        "{lost} losses of power, {} syncs, {} events, {acknowledged} acknowledged writes looked for, none lost",
        syncs.len(),
        events.len()
    );
}

/// A history in which readers have redb write pages that it has no room for, also while a record goes to disk.
async fn crowded_history() -> Vec<Event> {
    let memory = Memory::recording();
    let store = Arc::new(start(&memory, &Options { cache_bytes: SMALL_CACHE, ..options() }));
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    memory.set_sync_time(SYNC_TIME);
    let (mut writers, mut readers) = (JoinSet::new(), JoinSet::new());
    for number in 0..WRITERS {
        let (store, memory) = (Arc::clone(&store), Arc::clone(&memory));
        writers.spawn(async move { workload::rewrite(&*store, &*memory, number, 60).await });
    }
    for _ in 0..READERS {
        let store = Arc::clone(&store);
        readers.spawn(async move {
            loop {
                stored(&*store).await.expect("it can be read");
            }
        });
    }
    writers.join_all().await;
    readers.shutdown().await;
    drop(store);
    memory.events()
}

/// The moments after each write that happened while a sync was under way.
fn written_in_syncs(events: &[Event]) -> Vec<usize> {
    let (mut is_syncing, mut moments) = (false, Vec::new());
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::SyncBegun(_) => is_syncing = true,
            Event::Sync(_) => is_syncing = false,
            Event::Write(name, ..) if is_syncing && name.ends_with(FILE) => moments.push(at + 1),
            _ => {}
        }
    }
    moments
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acknowledged_writes_outlive_a_loss_of_power_in_a_sync_beside_readers() {
    let cuts = rounds(CUTS, 250) / 5;
    // Whether readers come in time is up to the machine.
    let (mut events, mut moments) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        events = crowded_history().await;
        moments = written_in_syncs(&events);
        if !moments.is_empty() {
            break;
        }
    }
    assert!(!moments.is_empty(), "nothing was written in a sync");
    let cut: Vec<usize> = moments.iter().copied().cycle().take(cuts).collect();
    // Of what is written as a whole a part has to be lost.
    let fates = [Fate::Torn(4096), Fate::Torn(512), Fate::Random, Fate::Torn(4096), Fate::Torn(512)];
    let (lost, acknowledged) = lose_power(&events, cut, &fates).await;
    eprintln!(
        "{lost} losses of power at {} moments in syncs, {} events, {acknowledged} acknowledged writes looked for, none lost",
        moments.len(),
        events.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_fails_and_then_lies_loses_nothing() {
    let mut refused = 0;
    for seed in 0..rounds("INVENTORY_SYNC_FAILURES", 12) {
        let memory = Memory::recording();
        let store = Arc::new(start(&memory, &options()));
        store.prepare(COLLECTIONS).await.expect("it can be prepared");
        workload::run(&store, &memory, 3, seed as u64).await;
        memory.fail_after(seed % 7);
        workload::run(&store, &memory, 4, 100 + seed as u64).await;
        let events = memory.events();
        refused += events.iter().filter(|event| matches!(event, Event::SyncFailed(_))).count();
        let mut moment = Moment::default();
        for event in &events {
            moment.follow(event);
        }
        let files = moment.disk.cut(Fate::Lost, &mut Random(seed as u64));
        if let Err(error) = check(files, &moment.known).await {
            panic!("the disk failed to sync, seed {seed}: {error}");
        }
    }
    assert!(refused > 0, "no sync failed");
}

#[tokio::test]
async fn a_new_store_is_there_as_a_whole_or_can_be_made_again() {
    let memory = Memory::recording();
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    drop(store);
    let events = memory.events();
    for fate in [Fate::Lost, Fate::Kept, Fate::Random, Fate::Torn(512)] {
        let mut moment = Moment::default();
        for (at, event) in events.iter().enumerate() {
            let files = moment.disk.cut(fate, &mut Random(at as u64));
            if let Err(error) = check(files, &moment.known).await {
                panic!("the power went at event {at}, {fate:?}: {error}");
            }
            moment.follow(event);
        }
    }
}
