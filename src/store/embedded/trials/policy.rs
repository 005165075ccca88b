//! The behaviour of each operation when documents are damaged, or when the directory is not writable any more.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::memory::Memory;
use super::{directory, options, start, store_files, up};
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::open::paths::FILE;
use crate::store::embedded::open::recovery;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::upkeep::repair::{self, RepairError};
use crate::store::embedded::upkeep::space;
use crate::store::{Change, CollectionSpec, FileStore, FindQuery, IndexSpec, Store, StoreError, Unit};

const THINGS: &str = "things";
const COLLECTIONS: &[CollectionSpec] =
    &[CollectionSpec { name: THINGS, indexes: &[IndexSpec::unique("public_id", &[up("public_id")])] }];
const DOCUMENTS: i64 = 300;
/// The document that is damaged.
const DAMAGED: i64 = 150;

fn document(id: i64, version: i64) -> RawDocumentBuf {
    let text = format!("needle {id:06} {}", "x".repeat(900));
    let document = doc! { "_id": id, "public_id": id, "version": version, "text": text };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

fn insertion(id: i64) -> Unit {
    Unit::of(Change::Insert { collection: THINGS, document: document(id, 0) })
}

fn replacement(id: i64) -> Unit {
    Unit::of(Change::Replace { collection: THINGS, before: document(id, 0), after: document(id, 1) })
}

async fn read(store: &EmbeddedStore, filter: Filter) -> Result<usize, StoreError> {
    store.find(THINGS, &FindQuery::new(filter, Duration::from_mins(1))).await.map(|found| found.len())
}

async fn read_one(store: &EmbeddedStore, id: i64) -> Result<usize, StoreError> {
    read(store, Filter::equals("public_id", id)).await
}

async fn filled() -> Arc<Memory> {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    for id in 0..DOCUMENTS {
        store.commit(insertion(id)).await.expect("ids are free");
    }
    drop(store);
    memory
}

/// The files of a store with one document whose page is not what was written.
async fn damaged() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = filled().await.contents();
    let bytes = files.get_mut(&directory().join(FILE)).expect("the file");
    let needle = format!("needle {DAMAGED:06}");
    // Old versions of the page are there as well.
    let places: Vec<usize> =
        (0..bytes.len() - needle.len()).filter(|at| bytes[*at..].starts_with(needle.as_bytes())).collect();
    for at in places {
        bytes[at] ^= 1;
    }
    files
}

fn assert_corrupt<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Corrupt { .. })), "{answer:?}");
}

#[tokio::test]
async fn damage_refuses_what_meets_it_and_nothing_else() {
    let sound = start(&filled().await, &options());
    assert_eq!(read(&sound, Filter::all()).await.ok(), usize::try_from(DOCUMENTS).ok());
    assert!(!sound.is_damaged(), "there is none");
    let memory = Memory::of(damaged().await);
    // This may meet an old version of the page, when it moves pages.
    let store = start(&memory, &options());
    for _ in 0..2 {
        assert_corrupt(read_one(&store, DAMAGED).await);
        assert!(store.is_damaged(), "it is remembered");
        assert_corrupt(read(&store, Filter::equals("version", 0)).await);
        assert_eq!(read_one(&store, 5).await.expect("it is sound"), 1);
        assert_corrupt(store.commit(replacement(DAMAGED)).await);
    }
    store.commit(replacement(5)).await.expect("it is sound");
    store.commit(insertion(DOCUMENTS)).await.expect("it is sound");
    store.health().await.expect("the storage works");
    assert_corrupt(store.backup().await);
    drop(store);
    let store = start(&memory, &options());
    assert_eq!(read_one(&store, DOCUMENTS).await.expect("it is sound"), 1);
    assert_corrupt(read_one(&store, DAMAGED).await);
}

/// Deleting merges a page with its neighbour. If that one is damaged, its documents must not be lost.
#[tokio::test]
async fn what_is_deleted_beside_a_damaged_page_takes_nothing_with_it() {
    let files = damaged().await;
    for (from, to) in [(DAMAGED - 8, DAMAGED), (DAMAGED + 1, DAMAGED + 9)] {
        let memory = Memory::of(files.clone());
        let store = start(&memory, &options());
        let mut deleted = 0;
        for id in from..to {
            let unit = Unit::of(Change::Delete { collection: THINGS, before: document(id, 0) });
            deleted += usize::from(store.commit(unit).await.is_ok());
        }
        assert!(deleted > 0, "what is away from the damage can be deleted");
        assert_corrupt(read(&store, Filter::all()).await);
        assert_corrupt(read_one(&store, DAMAGED).await);
        drop(store);
        let findings = repair::check_at(&store_files(&memory)).expect("damage is a finding");
        assert!(!findings.is_sound(), "the damage is still there");
        let repaired = repair::repair_at(&store_files(&memory)).err();
        assert!(repaired.is_some(), "documents are damaged");
    }
}

#[tokio::test]
async fn damage_is_found_by_a_check_and_goes_into_no_other_file() {
    let files = damaged().await;
    let memory = Memory::of(files.clone());
    let findings = repair::check_at(&store_files(&memory)).expect("damage is a finding");
    assert!(!findings.is_sound() && !findings.documents_are_sound(), "{findings:?}");
    let compacted = space::compact(&store_files(&memory)).err();
    assert!(matches!(compacted, Some(OpenError::Damaged { .. })), "{compacted:?}");
    let repaired = repair::repair_at(&store_files(&memory)).err();
    let is_refused = matches!(repaired, Some(RepairError::Documents(_) | RepairError::Open(OpenError::Damaged { .. })));
    assert!(is_refused, "{repaired:?}");
    let copied = recovery::open_verified(&store_files(&memory)).err();
    assert!(matches!(copied, Some(OpenError::Damaged { .. })), "{copied:?}");
    assert!(memory.contents() == files);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_keeps_nobody_from_reading_and_writing() {
    let memory = filled().await;
    let store = start(&memory, &options());
    memory.set_directory_unwritable(true);
    store.commit(replacement(5)).await.expect("the file can be written");
    store.commit(insertion(DOCUMENTS)).await.expect("the file can be written");
    assert_eq!(read_one(&store, DOCUMENTS).await.expect("it is there"), 1);
    let refused = store.backup().await.expect_err("there is no place for a copy").to_string();
    assert!(
        refused.contains("/store or a file in it cannot be written") && refused.contains("give the user"),
        "{refused}"
    );
    memory.fail_after(0);
    let refused = store.commit(insertion(DOCUMENTS + 1)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    store.commit(insertion(DOCUMENTS + 2)).await.expect("it was opened again");
    // As a kill leaves it, and then closed.
    let killed = Memory::of(memory.contents());
    killed.set_directory_unwritable(true);
    drop(store);
    for files in [&killed, &memory] {
        assert!(repair::check_at(&store_files(files)).expect("it can be opened").is_sound());
        let store = start(files, &options());
        for id in [5, DOCUMENTS, DOCUMENTS + 2] {
            assert_eq!(read_one(&store, id).await.expect("it is there"), 1);
        }
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_takes_no_other_file_in_the_place_of_the_store() {
    let memory = filled().await;
    memory.set_directory_unwritable(true);
    let files = memory.contents();
    let compacted = space::compact(&store_files(&memory)).err();
    assert!(matches!(compacted, Some(OpenError::NotWritable { .. })), "{compacted:?}");
    assert!(memory.contents() == files);
    let damaged = Memory::of(damaged().await);
    damaged.set_directory_unwritable(true);
    let files = damaged.contents();
    repair::repair_at(&store_files(&damaged)).expect_err("nothing can be made");
    assert!(damaged.contents() == files);
    let nothing = Memory::of(BTreeMap::new());
    nothing.set_directory_unwritable(true);
    let started = EmbeddedStore::start(store_files(&nothing), &options()).err();
    assert!(matches!(started, Some(OpenError::NotWritable { .. })), "{started:?}");
    assert!(nothing.contents().is_empty());
}
