//! Syncs that fail. The operating system reports it once, and then treats the pages as written, although they are not.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::memory::{Fate, Memory, PowerDisk};
use super::{Random, directory, options, start, store_files, up};
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::{Change, CollectionSpec, IndexSpec, Store, StoreError, Unit};

const THINGS: &str = "things";
const COLLECTIONS: &[CollectionSpec] =
    &[CollectionSpec { name: THINGS, indexes: &[IndexSpec::unique("public_id", &[up("public_id")])] }];

/// Inserts documents; gives the ids of those that were acknowledged.
async fn insert(store: &EmbeddedStore, ids: std::ops::Range<i64>) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    for id in ids {
        // Some are more than a record may be.
        let text = "x".repeat(if id % 3 == 0 { 20_000 } else { 100 });
        let document = RawDocumentBuf::try_from(doc! { "_id": id, "public_id": id, "text": text }).expect("it is BSON");
        match store.commit(Unit::of(Change::Insert { collection: THINGS, document })).await {
            Ok(_) => acknowledged.push(id),
            Err(StoreError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    acknowledged
}

/// What a loss of power leaves: nothing of what no sync has made durable.
fn after_a_loss_of_power(memory: &Arc<Memory>) -> Arc<Memory> {
    let mut disk = PowerDisk::default();
    memory.events().iter().for_each(|event| disk.follow(event));
    Memory::of(disk.cut(Fate::Lost, &mut Random(1)))
}

async fn assert_there(memory: &Arc<Memory>, acknowledged: &[i64], when: &str) {
    let store = EmbeddedStore::start(store_files(memory), &options()).unwrap_or_else(|error| panic!("{when}: {error}"));
    for id in acknowledged {
        let found = store.count(THINGS, &Filter::equals("public_id", *id), Duration::from_secs(10)).await;
        assert_eq!(found.expect("it can be read"), 1, "{when}: {id} was acknowledged");
    }
    assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new(), "{when}");
}

#[tokio::test]
async fn a_sync_that_fails_loses_nothing_where_no_file_can_be_made_to_remember_it() {
    let mut refused = 0;
    for round in 0..40 {
        let (is_restarted, when) = (round % 2 == 1, format!("round {round}"));
        let memory = Memory::recording();
        let mut store = start(&memory, &options());
        store.prepare(COLLECTIONS).await.expect("it can be declared");
        let mut acknowledged = insert(&store, 0..4).await;
        memory.set_directory_unwritable(true);
        memory.fail_after(round / 2);
        acknowledged.extend(insert(&store, 4..12).await);
        if is_restarted {
            memory.set_killed(true);
            drop(store);
            memory.set_killed(false);
            // The sync may fail only now.
            let again = || EmbeddedStore::start(store_files(&memory), &options());
            store = again().or_else(|_| again()).expect("it can be opened");
        }
        acknowledged.extend(insert(&store, 12..16).await);
        memory.fail_after(usize::MAX);
        acknowledged.extend(insert(&store, 16..18).await);
        refused += 18 - acknowledged.len();
        assert!(acknowledged.ends_with(&[16, 17]), "{when}: it works again");
        assert_there(&after_a_loss_of_power(&memory), &acknowledged, &when).await;
    }
    assert!(refused > 10, "{refused} syncs of a write failed");
}

#[tokio::test]
async fn a_file_is_not_written_to_before_its_name_is_on_disk() {
    let memory = Memory::recording();
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    let acknowledged = insert(&store, 0..4).await;
    drop(store);
    memory.set_directory_unsynced(true);
    let refused = EmbeddedStore::start(store_files(&memory), &options()).err();
    assert!(matches!(refused, Some(OpenError::Io { .. })), "{refused:?}");
    memory.set_directory_unsynced(false);
    assert_there(&memory, &acknowledged, "synced").await;
}

#[tokio::test]
async fn the_mark_of_an_older_version_is_taken_away() {
    let memory = Memory::recording();
    let store = start(&memory, &options());
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    let acknowledged = insert(&store, 0..4).await;
    drop(store);
    let mut files = memory.contents();
    let mark: PathBuf = directory().join("inventory.redb.unsynced");
    files.insert(mark.clone(), Vec::new());
    let memory = Memory::of(files);
    assert_there(&memory, &acknowledged, "marked").await;
    assert!(!memory.contents().contains_key(&mark));
}
