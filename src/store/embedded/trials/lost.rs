//! A store whose file loses its name while it is open: somebody removed it, or put another one in its place.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::options;
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::open::paths::{ACKNOWLEDGED, FILE};
use crate::store::{Change, CollectionSpec, Store, StoreError, Unit};

const THINGS: &str = "things";

async fn insert(store: &EmbeddedStore, id: i64) -> Result<Vec<u64>, StoreError> {
    let document = RawDocumentBuf::try_from(doc! { "_id": id }).expect("it is BSON");
    store.commit(Unit::of(Change::Insert { collection: THINGS, document })).await
}

async fn count(store: &EmbeddedStore) -> Result<u64, StoreError> {
    store.count(THINGS, &Filter::all(), Duration::from_secs(10)).await
}

async fn store_of_one(directory: &Path) -> EmbeddedStore {
    let store = EmbeddedStore::open(directory, &options()).expect("a new store");
    store.prepare(&[CollectionSpec { name: THINGS, indexes: &[] }]).await.expect("it can be declared");
    insert(&store, 1).await.expect("nothing is wrong");
    store
}

fn assert_unavailable<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    assert!(matches!(answer, Err(StoreError::Unavailable { .. })), "{answer:?}");
}

#[tokio::test]
async fn what_is_written_to_a_file_that_was_removed_is_not_acknowledged_and_no_empty_store_takes_its_place() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let (file, kept) = (directory.path().join(FILE), directory.path().join("kept"));
    let store = store_of_one(directory.path()).await;
    fs::hard_link(&file, &kept).expect("a second name");
    fs::remove_file(&file).expect("it is there");
    assert_eq!(count(&store).await.expect("reading goes on"), 1);
    for _ in 0..3 {
        assert_unavailable(insert(&store, 2).await);
        assert_unavailable(count(&store).await);
        assert!(!file.exists());
    }
    // It is put back, and the next write finds it.
    fs::rename(&kept, &file).expect("it is there");
    insert(&store, 3).await.expect("it is there again");
    let there = count(&store).await.expect("it is there again");
    drop(store);
    let store = EmbeddedStore::open(directory.path(), &options()).expect("it is sound");
    assert_eq!(count(&store).await.expect("it can be read"), there);
    assert!((2..=3).contains(&there), "{there}");
}

#[tokio::test]
async fn what_is_written_to_a_file_that_was_replaced_is_not_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let (file, other) = (directory.path().join(FILE), directory.path().join("other"));
    drop(store_of_one(directory.path()).await);
    fs::copy(&file, &other).expect("it can be copied");
    let store = EmbeddedStore::open(directory.path(), &options()).expect("it is sound");
    insert(&store, 2).await.expect("nothing is wrong");
    fs::rename(&other, &file).expect("it is there");
    for _ in 0..3 {
        assert_unavailable(insert(&store, 3).await);
        assert_unavailable(count(&store).await);
    }
    // An operator decides to use the file that was put in its place.
    fs::remove_file(directory.path().join(ACKNOWLEDGED)).expect("it is there");
    insert(&store, 4).await.expect("it was opened");
    assert_eq!(count(&store).await.expect("it was opened"), 2);
    drop(store);
    let store = EmbeddedStore::open(directory.path(), &options()).expect("it is sound");
    assert_eq!(count(&store).await.expect("it can be read"), 2);
}
