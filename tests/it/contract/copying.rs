//! Copying everything out of a store, and into one that nobody else uses.

use std::sync::Arc;

use bson::{Document, doc};
use futures::TryStreamExt;
use inventory_service::query::{Filter, Sort};
use inventory_service::store::copying::COUNTERS;
use inventory_service::store::{Change, Copying, Documents, Dump, StoreError, Unit};

use super::support::{BUDGET, raw, store_all, thing};
use super::{COLLECTIONS, PLAIN, THINGS};

async fn read(dump: &mut dyn Dump, collection: &str, order: &Sort) -> Vec<Document> {
    let chunks = dump.documents(collection, order).await.expect("they can be read");
    let chunks: Vec<Documents> = chunks.try_collect().await.expect("they can be read");
    let decode = |document| Document::try_from(document).expect("a document");
    chunks.iter().flat_map(|chunk| chunk.iter().map(decode).collect::<Vec<_>>()).collect()
}

fn packed(documents: &[Document]) -> Documents {
    let mut packed = Documents::new();
    for document in documents {
        packed.push(&raw(document));
    }
    packed
}

pub(crate) async fn a_dump_shows_one_moment_in_the_order_of_an_index(store: Arc<dyn Copying>) {
    let things: Vec<Document> = [3, 1, 2].into_iter().map(|id| thing(id, doc! {})).collect();
    store_all(&*store, THINGS, &things).await;
    let mut dump = store.dump().await.expect("a dump");
    assert!(dump.collections().iter().any(|name| name == THINGS));
    if dump.is_of_one_moment() {
        store_all(&*store, THINGS, &[thing(4, doc! {})]).await;
        let removal = Change::DeleteMany { collection: THINGS, filter: Filter::equals("_id", 1) };
        store.commit(Unit::of(removal)).await.expect("a removal");
    }
    let sorted = [things[1].clone(), things[2].clone(), things[0].clone()];
    assert_eq!(read(&mut *dump, THINGS, &Sort::by("public_id", false)).await, sorted);
    let mut found = read(&mut *dump, THINGS, &Sort::default()).await;
    found.sort_by_key(|document| document.get_i32("_id").expect("an _id"));
    assert_eq!(found, sorted);
    assert_eq!(read(&mut *dump, "contract.never.used", &Sort::default()).await, Vec::<Document>::new());
}

pub(crate) async fn what_is_appended_is_found_by_its_keys(store: Arc<dyn Copying>) {
    let things: Vec<Document> = (1..=1500).map(|id| thing(id, doc! {"kind": id % 3})).collect();
    store.append(THINGS, packed(&things)).await.expect("they can be stored");
    let of_kind = store.count(THINGS, &Filter::equals("kind", 1), BUDGET).await.expect("a number");
    let with_id = store.count(THINGS, &Filter::equals("public_id", 77_i64), BUDGET).await.expect("a number");
    assert_eq!((of_kind, with_id), (500, 1));
    let twice = store.append(THINGS, packed(&[thing(5, doc! {})])).await;
    assert!(matches!(twice, Err(StoreError::Duplicate { .. })), "{twice:?}");
    store.append(PLAIN, packed(&[doc! {"_id": 5}])).await.expect("another collection");
}

pub(crate) async fn a_cleared_collection_begins_anew(store: Arc<dyn Copying>) {
    store_all(&*store, THINGS, &[thing(7, doc! {"tags": ["a", "b"]})]).await;
    store.clear(THINGS).await.expect("it can be cleared");
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    assert_eq!(store.count(THINGS, &Filter::all(), BUDGET).await.expect("a number"), 0);
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 1);
    store_all(&*store, THINGS, &[thing(7, doc! {})]).await;
    assert_eq!(store.count(THINGS, &Filter::equals("public_id", 7_i64), BUDGET).await.expect("a number"), 1);
}

pub(crate) async fn counters_travel_as_documents(store: Arc<dyn Copying>) {
    store.append(COUNTERS, packed(&[doc! {"_id": THINGS, "value": 41_i64}])).await.expect("a counter");
    let mut dump = store.dump().await.expect("a dump");
    let counters = read(&mut *dump, COUNTERS, &Sort::default()).await;
    assert!(counters.contains(&doc! {"_id": THINGS, "value": 41_i64}), "{counters:?}");
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 42);
}
