//! The watermark beside a file that it does not belong to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::memory::{Event, Fate, Memory, PowerDisk};
use super::workload::{self, COLLECTIONS};
use super::{Random, directory, options, start, store_files};
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::acknowledged;
use crate::store::embedded::open::recovery::{self, Unreplayed};
use crate::store::embedded::open::refusal::OpenError;

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
fn with_note(files: &Files, identity: u128) -> Arc<Memory> {
    let mut files = files.clone();
    let name = directory().join("inventory.redb.acknowledged");
    files.insert(name, acknowledged::bytes_of(identity, 1_000_000).to_vec());
    Memory::of(files)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_about_another_file_refuses_nothing() {
    let (mut torn, mut refused) = (0, 0);
    for files in cuts().await {
        let known = Memory::of(files.clone());
        let Ok(Unreplayed { catalog, .. }) = recovery::open_overlay(&store_files(&known)) else { continue };
        // Whether the last commit is whole: only then is a note of no account.
        match EmbeddedStore::start(store_files(&with_note(&files, catalog.identity)), &options()) {
            Ok(_) => {}
            Err(OpenError::Damaged { what, .. }) => {
                assert!(what.contains("inventory.redb.acknowledged"), "{what}");
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
        let other = with_note(&files, catalog.identity ^ 1);
        let opened = EmbeddedStore::start(store_files(&other), &options());
        assert!(opened.is_ok(), "a note about another file was believed: {:?}", opened.err());
        torn += 1;
    }
    assert!(torn > 0 && refused > 0, "{refused} of {torn} had a last commit that was not whole");
}

#[tokio::test]
async fn opening_a_file_begins_its_note_anew() {
    let memory = Memory::of(Files::new());
    drop(start(&memory, &options()));
    let Unreplayed { catalog, .. } = recovery::open_overlay(&store_files(&memory)).expect("it is sound");
    // As after putting an older copy of the same file in its place.
    let memory = with_note(&memory.contents(), catalog.identity);
    let store = start(&memory, &options());
    let note = &memory.contents()[&directory().join("inventory.redb.acknowledged")];
    assert_eq!(*note, acknowledged::bytes_of(catalog.identity, catalog.commit));
    drop(store);
}

#[tokio::test]
async fn each_file_has_an_identity_of_its_own() {
    let memory = Memory::of(Files::new());
    drop(start(&memory, &options()));
    let identity = || recovery::open_overlay(&store_files(&memory)).expect("it is sound").catalog.identity;
    let first = identity();
    crate::store::embedded::upkeep::space::compact(&store_files(&memory)).expect("it is sound");
    assert_ne!(identity(), first);
}
