//! What was acknowledged and is in the log alone, when the store was killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::formats::{set_format_3, tamper, version};
use super::memory::Memory;
use super::{directory, options, start, store_files, up};
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::catalog::meta::FORMAT;
use crate::store::embedded::file::pages::{Opened, Pages};
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::index::table::{UniqueDefinition, index_name};
use crate::store::embedded::open::paths::FILE;
use crate::store::embedded::open::recovery;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::upkeep::{repair, space};
use crate::store::{Change, CollectionSpec, FindQuery, IndexSpec, Store, StoreError, Unit};

const THINGS: &str = "things";
const COLLECTIONS: &[CollectionSpec] = &[CollectionSpec {
    name: THINGS,
    indexes: &[IndexSpec::unique("public_id", &[up("public_id")]), IndexSpec::plain("tags", &[up("tags")])],
}];

fn document(id: i64, version: i64) -> RawDocumentBuf {
    let document = doc! { "_id": id, "public_id": id, "tags": [id % 5, version], "version": version };
    RawDocumentBuf::try_from(document).expect("it is BSON")
}

fn insertion(id: i64) -> Change {
    Change::Insert { collection: THINGS, document: document(id, 0) }
}

fn replacement(id: i64, version: i64) -> Change {
    Change::Replace { collection: THINGS, before: document(id, version), after: document(id, version + 1) }
}

/// The public ids of what is found, with their versions.
async fn found(store: &EmbeddedStore, filter: Filter) -> Result<BTreeSet<(i64, i64)>, StoreError> {
    let found = store.find(THINGS, &FindQuery::new(filter, Duration::from_secs(20))).await?;
    let numbers =
        |document: &bson::RawDocument| Some((document.get_i64("public_id").ok()?, document.get_i64("version").ok()?));
    Ok(found.iter().map(|document| numbers(document).expect("both are there")).collect())
}

/// How many commits of these files are in the log alone.
fn in_the_log_alone(memory: &Arc<Memory>) -> usize {
    recovery::open_overlay(&store_files(memory)).expect("it is sound").records.len()
}

/// A store that was killed after a few units, and what it has.
async fn killed() -> (Arc<Memory>, BTreeSet<(i64, i64)>) {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    for id in 1..=9 {
        store.commit(Unit::of(insertion(id)).and(insertion(id + 100))).await.expect("ids are free");
    }
    store.commit(Unit::of(replacement(3, 0))).await.expect("it is there");
    store.commit(Unit::of(replacement(3, 1))).await.expect("it is there");
    let refused = store.commit(Unit::of(insertion(50)).and(insertion(3))).await;
    assert!(matches!(refused, Err(StoreError::Duplicate { .. })), "{refused:?}");
    store.commit(Unit::of(Change::Delete { collection: THINGS, before: document(4, 0) })).await.expect("it is there");
    let first = Change::DeleteMany { collection: THINGS, filter: Filter::equals("tags", 2) };
    store.commit(Unit::of(first)).await.expect("no condition");
    let there = found(&store, Filter::all()).await.expect("an answer");
    assert!(there.contains(&(1, 0)) && !there.contains(&(4, 0)) && !there.contains(&(50, 0)), "{there:?}");
    (Memory::of(memory.contents()), there)
}

#[tokio::test]
async fn what_is_in_the_log_alone_is_found_after_a_kill_by_each_index() {
    let (memory, there) = killed().await;
    assert!(in_the_log_alone(&memory) > 3);
    for round in 0..3 {
        let store = start(&memory, &options());
        assert_eq!(found(&store, Filter::all()).await.expect("an answer"), there, "round {round}");
        for (id, version) in &there {
            let by_id = found(&store, Filter::equals("public_id", *id)).await.expect("an answer");
            assert_eq!(by_id, BTreeSet::from([(*id, *version)]));
        }
        for tag in 0..5 {
            let expected = there.iter().filter(|(id, version)| id % 5 == tag || *version == tag).copied().collect();
            assert_eq!(found(&store, Filter::equals("tags", tag)).await.expect("an answer"), expected, "tag {tag}");
        }
        assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new());
        assert_eq!(in_the_log_alone(&Memory::of(memory.contents())), 0, "opening made it durable in the tables");
    }
}

#[tokio::test]
async fn whatever_reads_the_file_reads_what_is_in_the_log_alone() {
    let (memory, there) = killed().await;
    let files = memory.contents();
    let findings = repair::check_at(&store_files(&memory)).expect("it can be opened");
    assert_eq!((findings.problems, findings.documents), (Vec::new(), there.len() as u64));
    assert!(memory.contents() == files, "checking changed the file");
    let aside = EmbeddedStore::start(store_files(&memory).overlaid(), &options()).expect("it can be looked at");
    assert_eq!(found(&aside, Filter::all()).await.expect("an answer"), there);
    drop(aside);
    assert!(memory.contents() == files, "looking changed the file");
    space::compact(&store_files(&memory)).expect("it is sound");
    assert_eq!(in_the_log_alone(&memory), 0);
    assert_eq!(found(&start(&memory, &options()), Filter::all()).await.expect("an answer"), there);
}

fn lose_an_entry(memory: &Arc<Memory>) {
    tamper(memory, |transaction| {
        let name = index_name(0, 1);
        let mut index = transaction.open_table(UniqueDefinition::new(&name)).expect("it is there");
        let entry =
            redb::ReadableTable::first(&index).expect("it can be read").expect("it has entries").0.value().to_vec();
        index.remove(entry.as_slice()).expect("it can be written");
    });
}

#[tokio::test]
async fn a_repair_whose_name_is_not_on_disk_keeps_the_old_file_and_takes_no_write() {
    let (memory, there) = killed().await;
    lose_an_entry(&memory);
    memory.set_directory_unsynced(true);
    repair::repair_at(&store_files(&memory)).expect_err("the directory cannot be synced");
    assert!(memory.contents().contains_key(&directory().join(format!("{FILE}.damaged-1"))));
    let refused = EmbeddedStore::start(store_files(&memory), &options()).err();
    assert!(matches!(refused, Some(OpenError::Io { .. })), "{refused:?}");
    memory.set_directory_unsynced(false);
    assert_eq!(found(&start(&memory, &options()), Filter::all()).await.expect("an answer"), there);
}

#[tokio::test]
async fn a_repair_passes_on_what_is_in_the_log_alone() {
    let (memory, there) = killed().await;
    lose_an_entry(&memory);
    assert!(in_the_log_alone(&memory) > 3);
    let repaired = repair::repair_at(&store_files(&memory)).expect("the documents are sound");
    assert!(!repaired.before.is_sound() && repaired.after.is_sound(), "{repaired:?}");
    assert_eq!(found(&start(&memory, &options()), Filter::all()).await.expect("an answer"), there);
}

#[tokio::test]
async fn a_store_of_format_3_that_was_killed_is_brought_up_with_what_is_in_the_log_alone() {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    for id in 1..=60 {
        store.commit(Unit::of(insertion(id))).await.expect("it is free");
    }
    drop(store);
    let store = start(&memory, &options());
    for id in 61..=80 {
        store.commit(Unit::of(insertion(id)).and(replacement(id - 60, 0))).await.expect("it is as it was");
    }
    store.commit(Unit::of(Change::Delete { collection: THINGS, before: document(30, 0) })).await.expect("it is there");
    let there = found(&store, Filter::all()).await.expect("an answer");
    let memory = Memory::of(memory.contents());
    set_format_3(&memory);
    assert!(in_the_log_alone(&memory) > 3);
    let files = memory.contents();
    assert_eq!(repair::check_at(&store_files(&memory)).expect("it can be opened").problems, []);
    assert!(memory.contents() == files, "checking changed the file");
    let store = start(&memory, &options());
    assert_eq!(found(&store, Filter::all()).await.expect("an answer"), there);
    for tag in 0..5 {
        let expected = there.iter().filter(|(id, version)| id % 5 == tag || *version == tag).copied().collect();
        assert_eq!(found(&store, Filter::equals("tags", tag)).await.expect("an answer"), expected, "tag {tag}");
    }
    assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new());
    drop(store);
    assert_eq!(version(&memory), FORMAT);
}

#[tokio::test]
async fn ids_that_were_given_out_before_a_kill_are_not_given_out_again() {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    assert_eq!(store.reserve_ids(THINGS, 50).await.expect("ids"), 1);
    store.commit(Unit::of(insertion(2))).await.expect("it is free");
    let memory = Memory::of(memory.contents());
    assert_eq!(in_the_log_alone(&memory), 1);
    assert_eq!(start(&memory, &options()).reserve_ids(THINGS, 1).await.expect("an id"), 51);
}

#[tokio::test]
async fn a_write_in_the_log_that_was_damaged_is_told_and_nothing_goes_on_without_it() {
    let (memory, _) = killed().await;
    let name = directory().join(FILE);
    let Opened::Log(log) = Pages::open(memory.open(&name).expect("it is there")).expect("it is sound") else {
        panic!("it is a log");
    };
    let records = log.records_after(0).expect("they are sound");
    let (_, second) = &records[records.len() - 2];
    let mut files: BTreeMap<PathBuf, Vec<u8>> = memory.contents();
    let bytes = files.get_mut(&name).expect("it is there");
    let at = bytes.windows(second.len()).position(|piece| piece == second.as_slice()).expect("it is in the file");
    bytes[at + 30] ^= 1;
    let memory = Memory::of(files);
    for _ in 0..2 {
        assert!(!repair::check_at(&store_files(&memory)).expect("damage is a finding").is_sound());
        match EmbeddedStore::start(store_files(&memory), &options()) {
            Err(OpenError::Damaged { what, .. }) => assert!(what.contains("a write in the log"), "{what}"),
            other => panic!("{:?}", other.err()),
        }
    }
}

#[tokio::test]
async fn when_nothing_is_written_the_tables_catch_up() {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    store.commit(Unit::of(insertion(1))).await.expect("it is free");
    let in_the_log = || in_the_log_alone(&Memory::of(memory.contents()));
    while in_the_log() > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    store.commit(Unit::of(insertion(2))).await.expect("it is free");
    assert_eq!(found(&store, Filter::all()).await.expect("an answer"), BTreeSet::from([(1, 0), (2, 0)]));
}
