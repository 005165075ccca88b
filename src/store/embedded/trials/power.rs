//! Loss of power: a recorded history of writes and syncs is cut, what was not synced is lost, kept at random or torn,
//! and a store is opened on what is left.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::memory::{Event, Fate, Memory, PowerDisk};
use super::workload::{self, CLIENTS, COLLECTIONS, Documents, Journal, Known, stored};
use super::{Random, location, options, rounds, start};
use crate::store::Store;
use crate::store::embedded::{Options, maintenance};

/// How many cuts there are at random moments, beside those at the syncs.
const CUTS: &str = "INVENTORY_POWER_CUTS";

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
    for (session, quick_repair_from_bytes) in [(0, u64::MAX), (1, u64::MAX), (2, 0), (3, u64::MAX)] {
        let store = Arc::new(start(&memory, &Options { quick_repair_from_bytes, ..options() }));
        store.prepare(COLLECTIONS).await.expect("it can be prepared");
        workload::run(&store, &memory, operations, session).await;
        // As the next one finds the file that a killed one left.
        memory.set_killed(session == 1);
        drop(store);
        memory.set_killed(false);
        if session == 2 {
            super::super::space::compact(&location(&memory)).expect("it can be compacted");
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

/// Opens a store on what is left and looks at everything.
async fn check(files: BTreeMap<PathBuf, Vec<u8>>, known: &BTreeMap<usize, Known>) -> Result<(), String> {
    let memory = Memory::of(files);
    let store = super::EmbeddedStore::start(location(&memory), &options()).map_err(|error| error.to_string())?;
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
    let findings = maintenance::check_at(&location(&memory)).map_err(|error| error.to_string())?;
    if findings.is_sound() { Ok(()) } else { Err(format!("{:?}", findings.problems)) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_outlive_a_loss_of_power() {
    let cuts = rounds(CUTS, 250);
    let events = history(20).await;
    let syncs: Vec<usize> = (0..events.len()).filter(|at| matches!(events[*at], Event::Sync(_))).collect();
    let mut random = Random(7);
    // Just before and just after each sync, and anywhere.
    let near: Vec<usize> = syncs.iter().flat_map(|at| [*at, at + 1]).collect();
    let anywhere: Vec<usize> = (0..cuts).map(|_| random.below(events.len())).collect();
    let mut moments: Vec<usize> = near.iter().chain(&anywhere).copied().collect();
    moments.sort_unstable();
    let fates = [Fate::Lost, Fate::Kept, Fate::Random, Fate::Torn(512), Fate::Torn(4096)];
    let (mut moment, mut at, mut acknowledged) = (Moment::default(), 0, 0);
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
    eprintln!(
        "{} losses of power ({} at syncs), {} syncs, {} events, {} acknowledged writes looked for, none lost",
        moments.len(),
        near.len(),
        syncs.len(),
        events.len(),
        acknowledged
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
