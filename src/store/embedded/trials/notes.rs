//! The watermark next to a file that lacks acknowledged commits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::memory::{Event, Fate, Memory, PowerDisk};
use super::workload::{self, COLLECTIONS};
use super::{Random, directory, options, start, store_files};
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::acknowledged;
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::open::paths::{ACKNOWLEDGED, FILE};
use crate::store::embedded::open::recovery::{self, Unreplayed};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::upkeep::{repair, space};

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What disks hold after losses of power in the middle of commits.
async fn cuts() -> Vec<Files> {
    let memory = Memory::recording();
    let store = Arc::new(start(&memory, &options()));
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    workload::run(&store, &memory, 10, 3).await;
    let (mut disk, mut cuts, mut random) = (PowerDisk::default(), Vec::new(), Random(5));
    for event in memory.events() {
        if matches!(event, Event::Sync(_)) {
            cuts.push(disk.cut(Fate::Random, &mut random));
        }
        disk.follow(&event);
    }
    cuts
}

/// The files with a note that a commit far ahead was acknowledged.
fn with_note(files: &Files) -> Arc<Memory> {
    let mut files = files.clone();
    let name = directory().join("inventory.redb.acknowledged");
    files.insert(name, acknowledged::bytes_of(1_000_000).to_vec());
    Memory::of(files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_last_commit_is_not_whole_is_refused_when_that_was_acknowledged() {
    let mut refused = 0;
    for files in cuts().await {
        if recovery::open_overlay(&store_files(&Memory::of(files.clone()))).is_err() {
            continue;
        }
        match EmbeddedStore::start(store_files(&with_note(&files)), &options()) {
            Err(OpenError::Damaged { what, .. }) => assert!(what.contains("inventory.redb.acknowledged"), "{what}"),
            other => panic!("{:?}", other.map(drop)),
        }
        refused += 1;
    }
    assert!(refused > 0, "no cut left a file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_keeps_the_note_true() {
    let (_, files) = older_and_newer().await;
    let memory = Memory::of(files);
    space::compact(&store_files(&memory)).expect("it is sound");
    let Unreplayed { catalog, .. } = recovery::open_overlay(&store_files(&memory)).expect("it is sound");
    let note = &memory.contents()[&directory().join(ACKNOWLEDGED)];
    assert_eq!(*note, acknowledged::bytes_of(catalog.commit));
}

/// What a closed store left, with some commits, and with more of them.
async fn older_and_newer() -> (Files, Files) {
    let memory = Memory::recording();
    let run = async |seed| {
        let store = Arc::new(start(&memory, &options()));
        store.prepare(COLLECTIONS).await.expect("it can be prepared");
        workload::run(&store, &memory, 10, seed).await;
    };
    run(3).await;
    let older = memory.contents();
    run(4).await;
    (older, memory.contents())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_gone_empty_or_older_than_its_note_is_refused_and_nothing_is_made_in_its_place() {
    let (older, newer) = older_and_newer().await;
    let (file, note) = (directory().join(FILE), directory().join(ACKNOWLEDGED));
    let places = [None, Some(Vec::new()), Some(older[&file].clone())];
    for (number, place) in places.into_iter().enumerate() {
        let mut files = Files::from([(note.clone(), newer[&note].clone())]);
        files.extend(place.map(|bytes| (file.clone(), bytes)));
        let memory = Memory::of(files.clone());
        let opened = EmbeddedStore::start(store_files(&memory), &options()).map(drop);
        let read = recovery::open_overlay(&store_files(&memory)).map(drop);
        let compacted = space::compact(&store_files(&memory)).map(drop);
        for refused in [opened, read, compacted] {
            let told = refused.expect_err("a file without its last writes").to_string();
            assert!(told.contains(&format!("remove {}", note.display())), "{number}: {told}");
            assert!(told.contains("restore"), "{number}: {told}");
        }
        let sound = repair::check_at(&store_files(&memory)).is_ok_and(|findings| findings.is_sound());
        assert!(!sound, "{number}: a check passed");
        let left = memory.contents();
        assert_eq!(left[&note], files[&note], "{number}: the note was changed");
        assert_eq!(left.contains_key(&file), files.contains_key(&file), "{number}: a store was made");
        // The remedy that the message names.
        memory.remove(&note).expect("it is there");
        drop(start(&memory, &options()));
    }
}
