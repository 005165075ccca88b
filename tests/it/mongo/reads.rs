//! Questions, totals, and what goes wrong with them.

use std::sync::Arc;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::{Document, doc, rawdoc};
use futures::{FutureExt, StreamExt, TryStreamExt};
use inventory_service::query::{Filter, Limits, Path, Projection, Sort};
use inventory_service::store::collections::OBJECTS;
use inventory_service::store::mongo::{MongoOptions, MongoStore};
use inventory_service::store::{Documents, FindQuery, Store, StoreError, Unit};

use super::{BUDGET, all, count, database, insert, object, store_on};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_come_back_byte_for_byte() {
    let Some((store, ..)) = store_on().await else { return };
    let document = rawdoc! {
        "z": 1_i32, "_id": ObjectId::new(), "public_id": 1_i64, "a": [1.0, null, { "$x": "$y", "b.c": { "": [] } }],
        "regex": bson::Regex { pattern: bson::cstr!("a").into(), options: bson::cstr!("i").into() },
    };
    store.commit(Unit::of(insert(OBJECTS, document.clone()))).await.expect("new");
    let found = store.find(OBJECTS, &all()).await.expect("the server answers");
    let found = Document::try_from(found.first().expect("one document")).expect("a document");
    let mut expected = Document::try_from(&document).expect("a document");
    // The server moves `_id` to the front, and nothing else.
    let id = expected.remove("_id").expect("an id");
    let expected: Document = std::iter::once(("_id".to_owned(), id)).chain(expected).collect();
    assert!(found.iter().map(|(name, _)| name).eq(["_id", "z", "public_id", "a", "regex"]));
    assert_eq!(found.get("a"), expected.get("a"));
    assert_eq!(found.get("regex"), expected.get("regex"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_arrays_order_documents() {
    let Some((store, ..)) = store_on().await else { return };
    let entry = |name: &str, value: i64| rawdoc! { "name": name, "value": value };
    let documents = [
        rawdoc! { "_id": 1, "public_id": 1_i64, "key0": "mine", "fields": [entry("a", 5), entry("b", 1)] },
        rawdoc! { "_id": 2, "public_id": 2_i64, "fields": [entry("b", 3), entry("b", 0)] },
        rawdoc! { "_id": 3, "public_id": 3_i64, "fields": "none" },
        rawdoc! { "_id": 4, "public_id": 4_i64 },
        rawdoc! { "_id": 5, "public_id": 5_i64, "fields": [entry("b", 2)] },
    ];
    let mut unit = Unit::default();
    for document in &documents {
        unit = unit.and(insert(OBJECTS, document.clone()));
    }
    assert_eq!(store.commit(unit).await.expect("new"), [1; 5]);
    let order = |descending, skip, limit| {
        let sort = Sort::default().then_by(Path::of_field("b", None), descending).then("public_id", false);
        let store = Arc::clone(&store);
        async move {
            let query = FindQuery { skip, limit, ..all().sorted(sort) };
            let page = store.page(OBJECTS, &query).await.expect("the server answers");
            assert_eq!(page.total, 5);
            page.documents.iter().map(|document| document.get_i64("public_id").expect("an id")).collect::<Vec<_>>()
        }
    };
    assert_eq!(order(false, 0, 0).await, [3, 4, 2, 1, 5]);
    assert_eq!(order(true, 0, 0).await, [2, 5, 1, 3, 4]);
    assert_eq!(order(false, 2, 2).await, [2, 1]);
    let query =
        all().sorted(Sort::default().then_by(Path::of_field("b", None), false).then("public_id", true)).limited(3);
    let found = store.find(OBJECTS, &query).await.expect("the server answers");
    assert_eq!(found.get(2).expect("three").as_bytes(), documents[1].as_bytes());
    let projection = Projection::parse(&doc! { "public_id": 1, "_id": 0 }, &Filter::all()).expect("a projection");
    let query = FindQuery { projection: Some(projection), ..query };
    let found = store.find(OBJECTS, &query).await.expect("the server answers");
    assert_eq!(found.first().expect("three").as_bytes(), rawdoc! { "public_id": 4_i64 }.as_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_are_right_on_every_page() {
    let Some((store, ..)) = store_on().await else { return };
    let mut unit = Unit::default();
    for id in 1..=25_i64 {
        unit = unit.and(insert(OBJECTS, object(id, id % 2)));
    }
    store.commit(unit).await.expect("new");
    for filter in [Filter::all(), Filter::equals("type_id", 1_i64)] {
        let expected = if filter.document().is_empty() { 25 } else { 13 };
        for (skip, limit) in [(0, 10), (10, 10), (20, 10), (30, 10), (0, 0), (5, 0), (40, 0), (0, 25), (0, 13)] {
            let query =
                FindQuery { skip, limit, ..FindQuery::new(filter.clone(), BUDGET).sorted(Sort::by("public_id", true)) };
            let page = store.page(OBJECTS, &query).await.expect("the server answers");
            assert_eq!(page.total, expected, "{:?}, {skip}, {limit}", filter.document());
            let rest = expected.saturating_sub(skip);
            assert_eq!(page.documents.len() as u64, if limit == 0 { rest } else { rest.min(limit) });
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn totals_stay_right_when_other_tools_write() {
    let Some((store, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    for expected in 1..=5_i64 {
        foreign.insert_one(doc! { "public_id": expected }).await.expect("stored by another tool");
        assert_eq!(count(&store, OBJECTS, Filter::all()).await, u64::try_from(expected).expect("positive"));
    }
    foreign.delete_many(doc! {}).await.expect("removed by another tool");
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_a_query_carry_the_code_of_the_server() {
    let Some((store, server, uri)) = store_on().await else { return };
    store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.expect("new");
    // No text index: something only the server can know.
    let filter = doc! { "$text": { "$search": "x" } };
    let expected = database(server, &uri).await.collection::<Document>(OBJECTS).find_one(filter.clone()).await;
    let expected = match *expected.expect_err("refused").kind {
        mongodb::error::ErrorKind::Command(refused) => refused.code,
        other => panic!("{other:?}"),
    };
    let Ok(filter) = Filter::parse(&filter, &Limits::NONE) else { return };
    let query = FindQuery::new(filter.clone(), BUDGET);
    for outcome in [store.find(OBJECTS, &query).await.map(drop), store.count(OBJECTS, &filter, BUDGET).await.map(drop)]
    {
        match outcome {
            Err(StoreError::Query { code, message }) => {
                assert_eq!(code, expected);
                assert!(message.contains("text index"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_over_its_time_is_a_timeout() {
    let Some((store, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    let many = (0..20_000).map(|id| doc! { "public_id": id, "text": "abc".repeat(60) });
    foreign.insert_many(many).await.expect("stored by another tool");
    let filter = doc! { "text": { "$regex": "(a|b|c)+(a|b|c)+(a|b|c)+d$" } };
    let filter = Filter::parse(&filter, &Limits::NONE).expect("a filter");
    let query = FindQuery::new(filter, Duration::from_millis(1));
    let outcome = store.find(OBJECTS, &query).await;
    assert!(matches!(outcome, Err(StoreError::Timeout)), "{:?}", outcome.map(|found| found.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_pieces_slowly_gets_all_of_them() {
    let Some((store, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    foreign.insert_many((0..5000).map(|id| doc! { "public_id": id })).await.expect("stored by another tool");
    let budget = Duration::from_secs(1);
    let mut chunks = store.chunks(OBJECTS, &FindQuery::new(Filter::all(), budget)).await.expect("an answer").documents;
    let first = chunks.try_next().await.expect("a chunk").expect("a chunk");
    // The next one is asked for, and taken long after the server's answers had their time: a chunk is more than one of them.
    assert!(chunks.next().now_or_never().is_none());
    tokio::time::sleep(budget * 3).await;
    let rest: Vec<Documents> = chunks.try_collect().await.expect("the other chunks");
    assert_eq!(first.len() + rest.iter().map(Documents::len).sum::<usize>(), 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_pieces_slowly_keeps_no_connection() {
    // On a replica set the change stream has one of its own.
    let Some((_, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    foreign.insert_many((0..5000).map(|id| doc! { "public_id": id })).await.expect("stored by another tool");
    let options = MongoOptions { max_pool_size: 1, ..MongoOptions::default() };
    let store = MongoStore::connect(&uri, options).await.expect("the server answers");
    let mut chunks = store.chunks(OBJECTS, &all()).await.expect("an answer").documents;
    chunks.try_next().await.expect("a chunk").expect("a chunk");
    assert!(chunks.next().now_or_never().is_none());
    assert_eq!(count(&store, OBJECTS, Filter::equals("public_id", 7)).await, 1);
    assert_eq!(chunks.try_collect::<Vec<_>>().await.expect("the other chunks").len(), 9);
}
