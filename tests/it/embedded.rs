//! The embedded store: the contract, and what only it promises.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::{Document, doc};
use inventory_service::query::{Filter, Limits, Projection, Sort, Update};
use inventory_service::store::embedded::{EmbeddedStore, OpenError, Options};
use inventory_service::store::{
    Change, CollectionSpec, Condition, FindQuery, IndexKey, IndexSpec, SortedBy, Step, Store, StoreError, TotalFrom,
    Unit,
};
use tempfile::TempDir;

use crate::contract::support::{BUDGET, ids, ids_of, insertion, numbers, query, raw, sort, store_all, thing};
use crate::contract::{COLLECTIONS, Fixture, PLAIN, THINGS};
use crate::support::plain::made_plain;

#[expect(clippy::unused_async, reason = "the contract awaits stores that take longer to make")]
async fn fresh() -> Option<Fixture> {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new directory can be opened");
    Some(Fixture { store: Arc::new(store), keep: Box::new(directory), differences: &[] })
}

mod contract {
    store_contract!(crate::embedded::fresh);
}

fn open(directory: &Path) -> EmbeddedStore {
    EmbeddedStore::open(directory, &Options::default()).expect("the store can be opened")
}

async fn prepared() -> (TempDir, EmbeddedStore) {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let store = open(directory.path());
    store.prepare(COLLECTIONS).await.expect("a new store can be prepared");
    (directory, store)
}

async fn assert_whole(store: &EmbeddedStore) {
    assert_eq!(store.check().await.expect("the store can be read"), Vec::<String>::new());
}

#[tokio::test]
async fn a_store_that_is_opened_again_has_everything() {
    let (directory, store) = prepared().await;
    let documents: Vec<Document> = (1..=50).map(|id| thing(id, doc! { "kind": id % 3, "tags": [id, "x"] })).collect();
    store_all(&store, THINGS, &documents).await;
    assert_eq!(store.reserve_ids(THINGS, 10).await.expect("ids"), 51);
    drop(store);

    let store = open(directory.path());
    store.prepare(COLLECTIONS).await.expect("nothing is new");
    assert_eq!(ids(&store, THINGS, &query(doc! { "tags": 7 })).await, numbers(&[7]));
    assert_eq!(store.count(THINGS, &Filter::all(), BUDGET).await.expect("an answer"), 50);
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 61);
    assert_whole(&store).await;
}

#[tokio::test]
async fn rows_are_not_used_again_after_a_restart() {
    let (directory, store) = prepared().await;
    store_all(&store, PLAIN, &[thing(1, doc! {}), thing(2, doc! {})]).await;
    store
        .commit(Unit::of(Change::DeleteMany { collection: PLAIN, filter: Filter::all() }))
        .await
        .expect("no condition");
    drop(store);
    let store = open(directory.path());
    store_all(&store, PLAIN, &[thing(4, doc! {}), thing(3, doc! {})]).await;
    assert_eq!(ids(&store, PLAIN, &query(doc! {})).await, numbers(&[4, 3]));
    assert_eq!(store.reserve_ids(PLAIN, 1).await.expect("an id"), 5);
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_second_store_on_the_directory_is_refused() {
    let (directory, _store) = prepared().await;
    let second = EmbeddedStore::open(directory.path(), &Options::default()).err();
    assert!(matches!(second, Some(OpenError::InUse(_))), "{second:?}");
}

#[tokio::test]
async fn what_is_no_store_is_refused() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let file = directory.path().join("inventory.redb");
    fs::write(&file, "not a database, but longer than a few bytes. ".repeat(500)).expect("it can be written");
    let refused = EmbeddedStore::open(directory.path(), &Options::default()).err();
    assert!(matches!(refused, Some(OpenError::UnknownFormat(_) | OpenError::Damaged { .. })), "{refused:?}");
    let refused = EmbeddedStore::open(&file, &Options::default()).err();
    assert!(matches!(refused, Some(OpenError::NotADirectory(_))), "{refused:?}");
}

#[tokio::test]
async fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    drop(open(directory.path()));
    let database = made_plain(directory.path());
    let meta: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("meta");
    let transaction = database.begin_write().expect("a transaction");
    let format = doc! { "version": 9_i64 }.to_vec().expect("it is BSON");
    transaction.open_table(meta).expect("the table").insert("format", format.as_slice()).expect("written");
    transaction.commit().expect("committed");
    drop(database);
    let refused = EmbeddedStore::open(directory.path(), &Options::default()).err();
    assert!(matches!(refused, Some(OpenError::NewerFormat { found: 9, .. })), "{refused:?}");
}

const SIZE_UP: &[IndexKey] = &[IndexKey { path: "size", descending: false }];
const SIZE_DOWN: &[IndexKey] = &[IndexKey { path: "size", descending: true }];

async fn prepare_plain(store: &EmbeddedStore, index: &'static [IndexSpec]) -> Result<(), StoreError> {
    store.prepare(&[CollectionSpec { name: PLAIN, indexes: index }]).await
}

#[tokio::test]
async fn a_new_index_holds_the_documents_that_are_there() {
    let (directory, store) = prepared().await;
    let documents: Vec<Document> = (1..=30).map(|id| thing(id, doc! { "size": [id % 7, 100 + id] })).collect();
    store_all(&store, PLAIN, &documents).await;
    let question = query(doc! { "size": 110 });
    assert_eq!(store.explain(PLAIN, &question).await.expect("an answer").plan, Step::Scan);
    prepare_plain(&store, &[IndexSpec { name: "size", keys: SIZE_UP, unique: false, partial: &[] }])
        .await
        .expect("it can be made");
    let explained = store.explain(PLAIN, &question).await.expect("an answer");
    assert_eq!((explained.documents_examined.unwrap(), explained.returned), (1, 1), "{explained:?}");
    assert_eq!(ids(&store, PLAIN, &query(doc! { "size": 3 })).await, numbers(&[3, 10, 17, 24]));
    assert_whole(&store).await;
    // Declared otherwise, it is built again.
    prepare_plain(&store, &[IndexSpec { name: "size", keys: SIZE_DOWN, unique: false, partial: &[] }])
        .await
        .expect("it can be made");
    drop(store);
    let store = open(directory.path());
    assert_eq!(ids(&store, PLAIN, &query(doc! { "size": 110 })).await, numbers(&[10]));
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_unique_index_over_equal_documents_is_refused() {
    let (_directory, store) = prepared().await;
    store_all(&store, PLAIN, &[thing(1, doc! { "size": 1 }), thing(2, doc! { "size": 1.0 })]).await;
    let refused = prepare_plain(&store, &[IndexSpec { name: "size", keys: SIZE_UP, unique: true, partial: &[] }]).await;
    assert!(matches!(refused, Err(StoreError::Duplicate { ref key, .. }) if key == "size"), "{refused:?}");
    store_all(&store, PLAIN, &[thing(3, doc! { "size": 1 })]).await;
    assert_whole(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_units_of_a_group_do_not_disturb_their_neighbours() {
    let (_directory, store) = prepared().await;
    let store = Arc::new(store);
    let mut tasks = tokio::task::JoinSet::new();
    for id in 1..=300 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            // Every third unit inserts, updates, and then breaks a key.
            let mut unit = Unit::of(insertion(THINGS, &thing(id, doc! { "kind": id, "tags": [id, -id] })));
            if id % 3 == 0 {
                let filter = Filter::equals("kind", id - 1);
                unit = unit
                    .and(Change::DeleteMany { collection: THINGS, filter })
                    .and(insertion(THINGS, &doc! { "_id": -id, "public_id": id, "name": "taken" }));
            }
            (id, store.commit(unit).await)
        });
    }
    while let Some(result) = tasks.join_next().await {
        let (id, result) = result.expect("no task panics");
        assert_eq!(result.is_ok(), id % 3 != 0, "{id}: {result:?}");
    }
    assert_eq!(store.count(THINGS, &Filter::all(), BUDGET).await.expect("an answer"), 200);
    assert_eq!(store.count(THINGS, &Filter::equals("tags", -299), BUDGET).await.expect("an answer"), 1);
    assert_whole(&store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_refused_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let options = Options { queue_length: 1, ..Options::default() };
    let store = Arc::new(EmbeddedStore::open(directory.path(), &options).expect("a new store"));
    store.prepare(COLLECTIONS).await.expect("a new store can be prepared");
    let mut tasks = tokio::task::JoinSet::new();
    for id in 1..=200 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.commit(Unit::of(insertion(THINGS, &thing(id, doc! {})))).await });
    }
    let results = tasks.join_all().await;
    let stored = results.iter().filter(|result| result.is_ok()).count();
    let refused = results.iter().filter(|result| matches!(result, Err(StoreError::Unavailable { .. }))).count();
    assert_eq!(stored + refused, 200);
    assert!(refused > 0);
    assert_eq!(store.count(THINGS, &Filter::all(), BUDGET).await.expect("an answer"), stored as u64);
}

#[tokio::test]
async fn a_sort_without_an_index_has_a_bound() {
    let (_directory, store) = prepared().await;
    for id in 1..=15 {
        let unit =
            Unit::of(insertion(PLAIN, &thing(id, doc! { "text": format!("{id}{}", "x".repeat(8 * 1024 * 1024)) })));
        store.commit(unit).await.expect("it can be stored");
    }
    let sorted = query(doc! {}).sorted(sort(doc! { "text": 1 }));
    let refused = store.find(PLAIN, &sorted).await;
    assert!(matches!(refused, Err(StoreError::Query { code: 292, .. })), "{:?}", refused.map(|found| found.len()));
    assert_eq!(ids(&store, PLAIN, &sorted.limited(2)).await, numbers(&[10, 11]));
}

#[tokio::test]
async fn what_only_a_server_can_do_is_unsupported() {
    let (_directory, store) = prepared().await;
    let refused = store.find(THINGS, &query(doc! { "$text": { "$search": "x" } })).await;
    assert!(matches!(refused, Err(StoreError::Unsupported { .. })), "{refused:?}");
}

#[tokio::test]
async fn broken_documents_are_refused() {
    let (_directory, store) = prepared().await;
    let two_arrays = doc! { "_id": 1, "public_id": 1, "name": "a", "fields": [{ "name": [1], "value": [2] }] };
    for document in [doc! { "public_id": 1 }, doc! { "_id": [1] }, two_arrays] {
        let refused = store.commit(Unit::of(insertion(THINGS, &document))).await;
        assert!(matches!(refused, Err(StoreError::Query { .. })), "{refused:?}");
    }
    assert_whole(&store).await;
}

#[tokio::test]
async fn explain_tells_the_work() {
    let (_directory, store) = prepared().await;
    let documents: Vec<Document> = (1..=100).map(|id| thing(id, doc! { "kind": id % 4, "size": id })).collect();
    store_all(&store, THINGS, &documents).await;
    let page = query(doc! { "kind": 1 }).sorted(Sort::by("public_id", true)).limited(5);
    let explained = store.explain(THINGS, &page).await.expect("an answer");
    assert!(matches!(&explained.plan, Step::Index(used) if used.index == "kind"), "{explained:?}");
    assert_eq!((explained.documents_examined.unwrap(), explained.returned), (5, 5));
    let all = FindQuery::new(Filter::all(), BUDGET);
    assert_eq!(store.explain(THINGS, &all).await.expect("an answer").documents_examined.unwrap(), 100);
}

/// Planning ends in time with this, and an expression without an end does not.
const ENOUGH_TO_BEGIN: Duration = Duration::from_millis(100);

/// An expression on which a document takes longer than anybody waits.
fn endless() -> Document {
    let round = |inner| doc! { "$size": { "$map": { "input": { "$range": [0, 4_000] }, "in": inner } } };
    round(round(doc! { "$add": ["$$this", 1] }))
}

#[tokio::test]
async fn expensive_conditions_on_few_documents_end_with_the_time_of_the_query() {
    let (_directory, store) = prepared().await;
    store_all(&store, THINGS, &[thing(1, doc! {}), thing(2, doc! {})]).await;
    let mut question = query(doc! { "$expr": { "$gt": [endless(), 5] } });
    question.max_time = ENOUGH_TO_BEGIN;
    assert!(matches!(store.find(THINGS, &question).await, Err(StoreError::Timeout)));
    assert!(matches!(store.page(THINGS, &question).await, Err(StoreError::Timeout)));
    let count = store.count(THINGS, &question.filter, ENOUGH_TO_BEGIN).await;
    assert!(matches!(count, Err(StoreError::Timeout)));
}

#[tokio::test]
async fn expensive_projections_of_few_documents_end_with_the_time_of_the_query() {
    let (_directory, store) = prepared().await;
    store_all(&store, THINGS, &[thing(1, doc! {}), thing(2, doc! {})]).await;
    let mut question = query(doc! {});
    question.projection = Some(Projection::parse(&doc! { "a": endless() }, &question.filter).expect("a projection"));
    question.max_time = ENOUGH_TO_BEGIN;
    assert!(matches!(store.find(THINGS, &question).await, Err(StoreError::Timeout)));
}

/// Stores many documents, some hundred in a unit.
async fn store_many(store: &EmbeddedStore, collection: &'static str, documents: &[Document]) {
    for part in documents.chunks(500) {
        let changes = part.iter().map(|document| insertion(collection, document)).collect();
        store.commit(Unit { changes, ..Unit::default() }).await.expect("the documents can be stored");
    }
}

#[tokio::test]
async fn totals_by_an_index_read_few_keys_and_stay_right() {
    let (directory, store) = prepared().await;
    let documents: Vec<Document> =
        (1..=5000).map(|id| thing(id, doc! { "kind": i32::from(id > 200), "size": id })).collect();
    store_many(&store, THINGS, &documents).await;
    let page = query(doc! { "kind": 1 }).sorted(Sort::by("public_id", false)).limited(10);
    let explained = store.explain(THINGS, &page).await.expect("an answer");
    assert_eq!(
        (explained.total, explained.total_from, explained.documents_examined.unwrap()),
        (4800, TotalFrom::Keys, 10)
    );
    // At most a block at each end, and the page.
    assert!(explained.keys_examined.unwrap() < 4200, "{explained:?}");
    let gone = Filter::parse(&doc! { "size": { "$gt": 1000, "$lte": 2500 } }, &Limits::default()).expect("a filter");
    store.commit(Unit::of(Change::DeleteMany { collection: THINGS, filter: gone })).await.expect("no condition");
    assert_eq!(store.page(THINGS, &page).await.expect("an answer").total, 3300);
    assert_whole(&store).await;
    drop(store);
    let store = open(directory.path());
    assert_eq!(store.page(THINGS, &page).await.expect("an answer").total, 3300);
}

/// Things whose order of insertion is none of the orders that they are asked for in, with many of each size.
fn scattered() -> Vec<Document> {
    (0..3000).map(|number| number * 7 % 3000 + 1).map(|id| thing(id, doc! { "kind": id % 2, "size": id % 4 })).collect()
}

#[tokio::test]
async fn a_page_far_behind_is_the_one_that_walking_would_come_to() {
    let (_directory, store) = prepared().await;
    let documents = scattered();
    store_many(&store, THINGS, &documents).await;
    for (filter, order) in [
        (doc! {}, doc! { "public_id": 1 }),
        (doc! {}, doc! { "public_id": -1 }),
        (doc! { "kind": 1 }, doc! { "public_id": 1 }),
        (doc! { "kind": 1 }, doc! { "public_id": -1 }),
        (doc! { "public_id": { "$gt": 300, "$lte": 2900 } }, doc! { "public_id": -1 }),
        (doc! {}, doc! { "size": 1 }),
        (doc! {}, doc! { "size": -1 }),
    ] {
        let mut page = query(filter.clone());
        let wanted = |document: &&Document| page.filter.matches(&raw(document)).expect("a plain filter");
        let mut expected: Vec<&Document> = documents.iter().filter(wanted).collect();
        let (path, direction) = order.iter().next().expect("a path");
        expected.sort_by_key(|document| {
            let value = document.get_i64(path).or(document.get_i32(path).map(i64::from)).expect("a number");
            value * direction.as_i32().map_or(1, i64::from)
        });
        let expected: Vec<i32> = expected.iter().map(|document| document.get_i32("_id").expect("an _id")).collect();
        page = page.sorted(sort(order.clone())).limited(20);
        for skip in (0..expected.len() + 150).step_by(130) {
            page.skip = skip as u64;
            let expected: Vec<i32> = expected.iter().skip(skip).take(20).copied().collect();
            // The second time the place of the page is known.
            for _ in 0..2 {
                let found = store.page(THINGS, &page).await.expect("an answer");
                assert_eq!(ids_of(&found.documents), numbers(&expected), "{filter} {order} {skip}");
                assert_eq!(found.total, store.count(THINGS, &page.filter, BUDGET).await.expect("a number"));
            }
        }
    }
    let mut last = query(doc! {}).sorted(Sort::by("public_id", true)).limited(20);
    last.skip = 2900;
    let explained = store.explain(THINGS, &last).await.expect("an answer");
    // Less than two blocks, and the page.
    assert!(explained.keys_examined.unwrap() < 1100, "{explained:?}");
    assert_eq!(
        store.explain(THINGS, &last).await.expect("an answer").keys_examined.unwrap(),
        explained.keys_examined.unwrap()
    );
}

#[tokio::test]
async fn a_page_that_was_asked_for_before_shows_what_has_changed() {
    let (_directory, store) = prepared().await;
    store_many(&store, THINGS, &scattered()).await;
    let mut page = query(doc! {}).sorted(Sort::by("public_id", true)).limited(3);
    page.skip = 2;
    for _ in 0..2 {
        assert_eq!(ids(&store, THINGS, &page).await, numbers(&[2998, 2997, 2996]));
    }
    let gone = Change::DeleteMany { collection: THINGS, filter: Filter::equals("public_id", 2999) };
    store.commit(Unit::of(gone)).await.expect("no condition");
    assert_eq!(ids(&store, THINGS, &page).await, numbers(&[2997, 2996, 2995]));
    store_all(&store, THINGS, &[thing(4000, doc! {})]).await;
    assert_eq!(ids(&store, THINGS, &page).await, numbers(&[2998, 2997, 2996]));
    let update = Update::set("size", 77);
    let filter = Filter::equals("public_id", 2997);
    store.commit(Unit::of(Change::UpdateMany { collection: THINGS, filter, update })).await.expect("no condition");
    let found = store.find(THINGS, &page).await.expect("an answer");
    assert_eq!(found.get(1).expect("a document").get_i32("size").expect("a number"), 77);
}

#[tokio::test]
async fn several_types_in_one_order_are_merged() {
    let (_directory, store) = prepared().await;
    let documents: Vec<Document> = (1..=900).map(|id| thing(id, doc! { "kind": id % 9 })).collect();
    store_many(&store, THINGS, &documents).await;
    let mut page = query(doc! { "kind": { "$in": [1, 4, 7] } }).sorted(Sort::by("public_id", true)).limited(4);
    page.skip = 2;
    let explained = store.explain(THINGS, &page).await.expect("an answer");
    // What is skipped is not looked at.
    assert_eq!((explained.sort, explained.total, explained.documents_examined.unwrap()), (SortedBy::Merge, 300, 4));
    assert_eq!(ids(&store, THINGS, &page).await, numbers(&[892, 889, 886, 883]));
}

#[tokio::test]
async fn keys_that_lead_to_most_documents_are_given_up() {
    let (_directory, store) = prepared().await;
    let documents: Vec<Document> = (1..=4000).map(|id| thing(id, doc! { "tags": [99, id + 1000] })).collect();
    store_many(&store, THINGS, &documents).await;
    // The first values have no keys, so the index looks good.
    let question =
        query(doc! { "tags": { "$in": (0..100).collect::<Vec<i32>>() }, "public_id": { "$mod": [1000, 1] } });
    let explained = store.explain(THINGS, &question).await.expect("an answer");
    assert_eq!((&explained.plan, explained.documents_examined.unwrap(), explained.total), (&Step::Scan, 4000, 4));
    assert_eq!(ids(&store, THINGS, &question).await, numbers(&[1, 1001, 2001, 3001]));
}

#[tokio::test]
async fn a_unit_whose_filter_takes_too_long_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let options = Options { filter_budget: Duration::ZERO, ..Options::default() };
    let store = EmbeddedStore::open(directory.path(), &options).expect("a new store");
    store.prepare(COLLECTIONS).await.expect("a new store can be prepared");
    let documents: Vec<Document> = (1..=1500).map(|id| thing(id, doc! { "x": id })).collect();
    store_many(&store, PLAIN, &documents).await;
    let filter = || Filter::equals("x", 0);
    let condition = Condition::None { collection: PLAIN, filter: filter() };
    for unit in [
        Unit::of(insertion(PLAIN, &thing(2000, doc! {})))
            .and(Change::DeleteMany { collection: PLAIN, filter: filter() }),
        Unit::of(insertion(PLAIN, &thing(2000, doc! {}))).given(condition),
    ] {
        assert!(matches!(store.commit(unit).await, Err(StoreError::Timeout)));
    }
    assert_eq!(store.count(PLAIN, &Filter::all(), BUDGET).await.expect("an answer"), 1500);
    let by_key = Condition::Exists { collection: PLAIN, filter: Filter::equals("_id", 1500) };
    let unit = Unit::of(insertion(PLAIN, &thing(2000, doc! {}))).given(by_key);
    store.commit(unit).await.expect("a key is found at once");
    assert_whole(&store).await;
}
