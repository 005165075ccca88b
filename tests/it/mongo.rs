//! What only a real MongoDB can show: topologies, races between units, foreign edits, a server that goes away.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Document, doc, rawdoc};
use inventory_service::query::{Filter, Projection, Sort, Update};
use inventory_service::store::collections::{ALL, CATEGORIES, OBJECTS, TYPES, USERS};
use inventory_service::store::mongo::{MongoOptions, MongoStore};
use inventory_service::store::{Change, Condition, FindQuery, SCOPES, Store, StoreError, Unit, scope_version};

use crate::support::mongod::{Deployment, Mongod, program, shared};

const BUDGET: Duration = Duration::from_secs(10);
const TASKS: usize = 32;

/// A prepared store on a database of its own, and the server behind it.
async fn store_on(deployment: Deployment) -> Option<(Arc<MongoStore>, &'static Mongod, String)> {
    let server = shared(deployment).await?;
    let uri = server.fresh_uri();
    let store = connect(&uri).await;
    store.prepare(ALL).await.expect("the collections can be made");
    Some((store, server, uri))
}

async fn connect(uri: &str) -> Arc<MongoStore> {
    Arc::new(MongoStore::connect(uri, MongoOptions::default()).await.expect("the server answers"))
}

async fn database(server: &Mongod, uri: &str) -> mongodb::Database {
    let name = uri.rsplit('/').next().and_then(|rest| rest.split('?').next()).expect("the URI names a database");
    server.client().await.database(name)
}

fn object(public_id: i64, type_id: i64) -> RawDocumentBuf {
    rawdoc! { "_id": ObjectId::new(), "public_id": public_id, "type_id": type_id }
}

fn object_type(public_id: i64) -> RawDocumentBuf {
    rawdoc! { "_id": ObjectId::new(), "public_id": public_id, "name": format!("type {public_id}") }
}

fn insert(collection: &'static str, document: RawDocumentBuf) -> Change {
    Change::Insert { collection, document }
}

fn type_exists(type_id: i64) -> Condition {
    Condition::Exists { collection: TYPES, filter: Filter::equals("public_id", type_id) }
}

fn no_objects_of(type_id: i64) -> Condition {
    Condition::None { collection: OBJECTS, filter: Filter::equals("type_id", type_id) }
}

fn all() -> FindQuery {
    FindQuery::new(Filter::all(), BUDGET)
}

async fn count(store: &MongoStore, collection: &str, filter: Filter) -> u64 {
    store.count(collection, &filter, BUDGET).await.expect("the server counts")
}

macro_rules! on_both {
    ($($name:ident),+ $(,)?) => {
        mod replica_set {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Deployment::ReplicaSet).await; })+
        }
        mod standalone {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { super::$name(super::Deployment::Standalone).await; })+
        }
    };
}

on_both!(
    no_object_is_acknowledged_whose_type_was_removed,
    objects_given_their_type_refuse_a_missing_one_and_leave_nothing,
    a_cascade_leaves_no_object_behind,
    a_removal_too_large_for_a_transaction_goes_through,
    a_unit_that_fails_in_the_middle_leaves_nothing,
    ids_taken_by_many_at_once_are_distinct_and_without_gaps,
    the_counter_follows_ids_of_the_client_and_of_other_tools,
    only_one_of_many_units_of_the_same_scope_takes_effect,
    only_one_of_many_replaces_of_the_same_document_takes_effect,
    duplicates_name_the_declared_index,
    indexes_of_an_operator_are_kept_and_used,
    documents_come_back_byte_for_byte,
    entries_of_arrays_order_documents,
    totals_are_right_on_every_page,
    totals_stay_right_when_other_tools_write,
    revisions_move_on_a_foreign_edit_within_a_second,
    a_mark_that_was_left_behind_is_cleared,
    errors_of_a_query_carry_the_code_of_the_server,
    a_query_over_its_time_is_a_timeout,
);

/// Many insert objects of a type while others remove it.
async fn no_object_is_acknowledged_whose_type_was_removed(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    // Marks and commits of another instance count just as well.
    let other = connect(&uri).await;
    let ids = Arc::new(AtomicI64::new(1));
    let (mut kept, mut removed) = (0, 0);
    for round in 1..=24_i64 {
        let document = object_type(round);
        store.commit(Unit::of(insert(TYPES, document.clone()))).await.expect("the type is new");
        let is_over = Arc::new(AtomicBool::new(false));
        let inserting: Vec<_> = (0..TASKS)
            .map(|task| {
                let store = Arc::clone(if task % 2 == 0 { &store } else { &other });
                let (ids, is_over) = (Arc::clone(&ids), Arc::clone(&is_over));
                tokio::spawn(async move {
                    // The first rounds begin with the removal, the later ones with ever more inserts.
                    tokio::time::sleep(Duration::from_micros(u64::try_from(round).expect("small") * 150)).await;
                    let mut acknowledged = Vec::new();
                    while !is_over.load(Ordering::Relaxed) && acknowledged.len() < 2 {
                        let id = ids.fetch_add(1, Ordering::Relaxed);
                        let unit = Unit::of(insert(OBJECTS, object(id, round))).given(type_exists(round));
                        match store.commit(unit).await {
                            Ok(_) => acknowledged.push(id),
                            Err(StoreError::Condition { index: 0 }) => break,
                            Err(other) => panic!("round {round}: {other:?}"),
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let unit = Unit::of(Change::Delete { collection: TYPES, before: document }).given(no_objects_of(round));
        let is_removed = match store.commit(unit).await {
            Ok(touched) => {
                assert_eq!(touched, [1]);
                true
            }
            Err(StoreError::Condition { index: 0 }) => false,
            Err(other) => panic!("round {round}: {other:?}"),
        };
        is_over.store(true, Ordering::Relaxed);
        let mut acknowledged = BTreeSet::new();
        for task in inserting {
            acknowledged.extend(task.await.expect("no task panics"));
        }
        if is_removed {
            removed += 1;
            assert_eq!(acknowledged.len(), 0, "round {round}: acknowledged and removed");
        } else {
            kept += 1;
        }
        let query = FindQuery::new(Filter::equals("type_id", round), BUDGET);
        let found = store.find(OBJECTS, &query).await.expect("the server answers");
        let stored: BTreeSet<i64> = found.iter().map(|object| object.get_i64("public_id").expect("an id")).collect();
        assert_eq!(stored, acknowledged, "round {round}: stored and acknowledged differ");
    }
    println!("{kept} types kept, {removed} removed");
    let marks = database(server, &uri).await.collection::<Document>("service.removals");
    assert_eq!(marks.count_documents(doc! {}).await.expect("the server counts"), 0, "marks were left");
}

async fn objects_given_their_type_refuse_a_missing_one_and_leave_nothing(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
    store.commit(Unit::of(insert(TYPES, object_type(1)))).await.expect("the type is new");
    let unit = Unit::of(insert(OBJECTS, object(1, 1)))
        .and(insert(OBJECTS, object(2, 2)))
        .given(type_exists(1))
        .given(type_exists(2));
    assert!(matches!(store.commit(unit.clone()).await, Err(StoreError::Condition { index: 1 })));
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
    store.commit(Unit::of(insert(TYPES, object_type(2)))).await.expect("the type is new");
    assert_eq!(store.commit(unit).await.expect("both types exist"), [1, 1]);
    // What does not hold comes before what the changes run into.
    let unit = Unit::of(insert(OBJECTS, object(2, 3))).given(type_exists(3));
    assert!(matches!(store.commit(unit).await, Err(StoreError::Condition { index: 0 })));
}

/// A type and its objects go in one unit, without a condition on objects, while objects are inserted.
async fn a_cascade_leaves_no_object_behind(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
    let ids = Arc::new(AtomicI64::new(1));
    for round in 1..=8_i64 {
        let document = object_type(round);
        store.commit(Unit::of(insert(TYPES, document.clone()))).await.expect("the type is new");
        let inserting: Vec<_> = (0..8)
            .map(|_| {
                let (store, ids) = (Arc::clone(&store), Arc::clone(&ids));
                tokio::spawn(async move {
                    loop {
                        let id = ids.fetch_add(1, Ordering::Relaxed);
                        let unit = Unit::of(insert(OBJECTS, object(id, round))).given(type_exists(round));
                        match store.commit(unit).await {
                            Ok(_) => {}
                            Err(StoreError::Condition { .. }) => return,
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let unit = Unit::of(Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("type_id", round) })
            .and(Change::Delete { collection: TYPES, before: document });
        store.commit(unit).await.expect("the cascade goes through");
        for task in inserting {
            task.await.expect("no task panics");
        }
        assert_eq!(count(&store, OBJECTS, Filter::equals("type_id", round)).await, 0, "round {round}");
    }
}

async fn a_removal_too_large_for_a_transaction_goes_through(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    let many = (1..=22_000_i64).map(|id| doc! { "public_id": id, "type_id": 1 + id % 2 });
    foreign.insert_many(many).await.expect("stored by another tool");
    let document = object_type(1);
    store.commit(Unit::of(insert(TYPES, document.clone()))).await.expect("new");
    let cascade = |before: RawDocumentBuf| {
        Unit::of(insert(OBJECTS, object(30_000, 1)))
            .and(Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("type_id", 1_i64) })
            .and(Change::Delete { collection: TYPES, before })
    };
    let mut other = Document::try_from(&document).expect("a document");
    other.insert("name", "changed");
    let stale = store.commit(cascade(RawDocumentBuf::try_from(&other).expect("a document"))).await;
    assert!(matches!(stale, Err(StoreError::Stale)), "{stale:?}");
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 22_000);
    assert_eq!(store.commit(cascade(document)).await.expect("nothing speaks against it"), [1, 11_001, 1]);
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 11_000);
    assert_eq!(count(&store, OBJECTS, Filter::equals("type_id", 1_i64)).await, 0);
}

async fn a_unit_that_fails_in_the_middle_leaves_nothing(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
    let (one, two) = (object_type(1), object_type(2));
    let category =
        rawdoc! { "_id": ObjectId::new(), "public_id": 1_i64, "name": "c", "types": [1_i64, 2_i64], "parent": 5_i64 };
    store.commit(Unit::of(insert(TYPES, one.clone())).and(insert(TYPES, two.clone()))).await.expect("new");
    store.commit(Unit::of(insert(CATEGORIES, category.clone())).and(insert(OBJECTS, object(1, 1)))).await.expect("new");
    let before = snapshot(&store).await;
    let unit = Unit::of(insert(OBJECTS, object(2, 1)))
        .and(Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("type_id", 1_i64) })
        .and(Change::UpdateMany {
            collection: CATEGORIES,
            filter: Filter::equals("types", 1_i64),
            update: Update::pull("types", 1_i64).and_set("parent", 7_i64),
        })
        .and(Change::Replace { collection: TYPES, before: two.clone(), after: two.clone() })
        .and(Change::Delete { collection: TYPES, before: one })
        .and(insert(CATEGORIES, rawdoc! { "_id": ObjectId::new(), "public_id": 1_i64, "name": "d" }));
    let failed = store.commit(unit).await;
    assert!(
        matches!(&failed, Err(StoreError::Duplicate { collection, key }) if collection == CATEGORIES && key == "public_id"),
        "{failed:?}"
    );
    assert_eq!(snapshot(&store).await, before);
}

async fn snapshot(store: &MongoStore) -> Vec<Vec<u8>> {
    let mut documents = Vec::new();
    for collection in [OBJECTS, TYPES, CATEGORIES] {
        let query = all().sorted(Sort::by("public_id", false));
        let found = store.find(collection, &query).await.expect("the server answers");
        documents.extend(found.iter().map(|document| document.as_bytes().to_vec()));
    }
    documents
}

async fn ids_taken_by_many_at_once_are_distinct_and_without_gaps(deployment: Deployment) {
    let Some((store, _, uri)) = store_on(deployment).await else { return };
    let other = connect(&uri).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(if task % 2 == 0 { &store } else { &other });
            tokio::spawn(async move {
                let mut taken = Vec::new();
                for count in 1..=8_u32 {
                    let first = store.reserve_ids(OBJECTS, count).await.expect("the server answers");
                    taken.extend(first..first + i64::from(count));
                }
                taken
            })
        })
        .collect();
    let mut taken = Vec::new();
    for task in tasks {
        taken.extend(task.await.expect("no task panics"));
    }
    taken.sort_unstable();
    let expected: Vec<i64> = (1..=i64::try_from(TASKS * 36).expect("small")).collect();
    assert_eq!(taken, expected);
}

async fn the_counter_follows_ids_of_the_client_and_of_other_tools(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    foreign.insert_one(doc! { "public_id": 40 }).await.expect("stored by another tool");
    assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("the server answers"), 41);
    store.commit(Unit::of(insert(OBJECTS, object(100, 1)))).await.expect("the id is free");
    assert_eq!(store.reserve_ids(OBJECTS, 2).await.expect("the server answers"), 101);
    foreign.insert_one(doc! { "public_id": 103.0 }).await.expect("stored by another tool");
    foreign.insert_one(doc! { "public_id": 110_i64 }).await.expect("stored by another tool");
    let id = store.reserve_ids(OBJECTS, 1).await.expect("the server answers");
    let refused = store.commit(Unit::of(insert(OBJECTS, object(id, 1)))).await;
    assert!(matches!(refused, Err(StoreError::Duplicate { key, .. }) if key == "public_id"));
    assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("the server answers"), 111);
}

async fn only_one_of_many_units_of_the_same_scope_takes_effect(deployment: Deployment) {
    let Some((store, _, uri)) = store_on(deployment).await else { return };
    let other = connect(&uri).await;
    for round in 0..4_i64 {
        let at = scope_version(&*store, CATEGORIES, BUDGET).await.expect("the server answers");
        let tasks: Vec<_> = (0..8_i64)
            .map(|task| {
                let store = Arc::clone(if task % 2 == 0 { &store } else { &other });
                let id = round * 8 + task + 1;
                let document = rawdoc! { "_id": ObjectId::new(), "public_id": id, "name": format!("category {id}") };
                let unit = Unit::of(insert(CATEGORIES, document)).given(Condition::Unchanged { scope: CATEGORIES, at });
                tokio::spawn(async move { store.commit(unit).await })
            })
            .collect();
        let mut taken = 0;
        for task in tasks {
            match task.await.expect("no task panics") {
                Ok(_) => taken += 1,
                Err(StoreError::Condition { index: 0 }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(taken, 1);
        assert_ne!(scope_version(&*store, CATEGORIES, BUDGET).await.expect("the server answers"), at);
    }
    assert_eq!(count(&store, CATEGORIES, Filter::all()).await, 4);
    assert_eq!(count(&store, SCOPES, Filter::all()).await, 1);
}

async fn only_one_of_many_replaces_of_the_same_document_takes_effect(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
    let before =
        rawdoc! { "_id": ObjectId::new(), "public_id": 1_i64, "odd": { "$add": [1, 2], "a.b": f64::NAN, "": "$_id" } };
    store.commit(Unit::of(insert(OBJECTS, before.clone()))).await.expect("new");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let mut after = Document::try_from(&before).expect("a document");
            after.insert("task", i64::try_from(task).expect("small"));
            let after = RawDocumentBuf::try_from(&after).expect("a document");
            let unit = Unit::of(Change::Replace { collection: OBJECTS, before: before.clone(), after });
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(unit).await })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        match task.await.expect("no task panics") {
            Ok(touched) => {
                assert_eq!(touched, [1]);
                taken += 1;
            }
            Err(StoreError::Stale) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(taken, 1);
    let gone = store.commit(Unit::of(Change::Delete { collection: OBJECTS, before })).await;
    assert!(matches!(gone, Err(StoreError::Stale)));
}

async fn duplicates_name_the_declared_index(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
    let first = object_type(1);
    let id = first.get_object_id("_id").expect("an id");
    store.commit(Unit::of(insert(TYPES, first))).await.expect("new");
    let same_name = rawdoc! { "_id": ObjectId::new(), "public_id": 2_i64, "name": "type 1" };
    let same_id = rawdoc! { "_id": id, "public_id": 3_i64, "name": "type 3" };
    for (document, expected) in [(object_type(1), "public_id"), (same_name, "name"), (same_id, "_id")] {
        for unit in [
            Unit::of(insert(TYPES, document.clone())),
            Unit::of(insert(OBJECTS, object(9, 9))).and(insert(TYPES, document.clone())),
        ] {
            match store.commit(unit).await {
                Err(StoreError::Duplicate { collection, key }) => assert_eq!((&*collection, &*key), (TYPES, expected)),
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
}

async fn indexes_of_an_operator_are_kept_and_used(deployment: Deployment) {
    let Some(server) = shared(deployment).await else { return };
    let uri = server.fresh_uri();
    let types = database(server, &uri).await.collection::<Document>(TYPES);
    let named = |name: &str| mongodb::options::IndexOptions::builder().name(name.to_owned()).build();
    let mut unique = named("by hand");
    unique.unique = Some(true);
    let by_hand = mongodb::IndexModel::builder().keys(doc! { "public_id": 1.0 }).options(unique).build();
    types.create_index(by_hand).await.expect("made by an operator");
    let taken = mongodb::IndexModel::builder().keys(doc! { "label": 1 }).options(named("name")).build();
    types.create_index(taken).await.expect("made by an operator");
    let store = connect(&uri).await;
    for _ in 0..2 {
        store.prepare(ALL).await.expect("what is there does not stand in the way");
    }
    let mut names = types.list_index_names().await.expect("the server answers");
    names.sort();
    assert_eq!(names, ["_id_", "by hand", "inventory_name", "name"]);
    store.commit(Unit::of(insert(TYPES, object_type(1)))).await.expect("new");
    let same_name = rawdoc! { "_id": ObjectId::new(), "public_id": 2_i64, "name": "type 1" };
    for (document, expected) in [(object_type(1), "public_id"), (same_name, "name")] {
        let refused = store.commit(Unit::of(insert(TYPES, document))).await;
        assert!(matches!(&refused, Err(StoreError::Duplicate { key, .. }) if key == expected), "{refused:?}");
    }
    let users = database(server, &uri).await.collection::<Document>(USERS);
    users.drop_indexes().await.expect("dropped by an operator");
    users.insert_many([doc! { "public_id": 1 }, doc! { "public_id": 1 }]).await.expect("stored by another tool");
    let refused = store.prepare(ALL).await;
    assert!(
        matches!(&refused, Err(StoreError::Duplicate { collection, key }) if collection == USERS && key == "public_id"),
        "{refused:?}"
    );
}

async fn documents_come_back_byte_for_byte(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
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

async fn entries_of_arrays_order_documents(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
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
        let sort = Sort::by_entry("fields", "b", descending).then("public_id", false);
        let store = Arc::clone(&store);
        async move {
            let query = FindQuery { skip, limit, ..all().sorted(sort) };
            let page = store.page(OBJECTS, &query).await.expect("the server answers");
            assert_eq!(page.total, 5);
            page.documents.iter().map(|document| document.get_i64("public_id").expect("an id")).collect::<Vec<_>>()
        }
    };
    assert_eq!(order(false, 0, 0).await, [3, 4, 1, 5, 2]);
    assert_eq!(order(true, 0, 0).await, [2, 5, 1, 3, 4]);
    assert_eq!(order(false, 2, 2).await, [1, 5]);
    let query = all().sorted(Sort::by_entry("fields", "b", false).then("public_id", true)).limited(3);
    let found = store.find(OBJECTS, &query).await.expect("the server answers");
    assert_eq!(found.get(2).expect("three").as_bytes(), documents[0].as_bytes());
    let projection = Projection::parse(&doc! { "public_id": 1, "_id": 0 }, &Filter::all()).expect("a projection");
    let query = FindQuery { projection: Some(projection), ..query };
    let found = store.find(OBJECTS, &query).await.expect("the server answers");
    assert_eq!(found.first().expect("three").as_bytes(), rawdoc! { "public_id": 4_i64 }.as_bytes());
}

async fn totals_are_right_on_every_page(deployment: Deployment) {
    let Some((store, ..)) = store_on(deployment).await else { return };
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

async fn totals_stay_right_when_other_tools_write(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    for expected in 1..=5_i64 {
        foreign.insert_one(doc! { "public_id": expected }).await.expect("stored by another tool");
        assert_eq!(count(&store, OBJECTS, Filter::all()).await, u64::try_from(expected).expect("positive"));
    }
    foreign.delete_many(doc! {}).await.expect("removed by another tool");
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
}

async fn revisions_move_on_a_foreign_edit_within_a_second(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(TYPES);
    let before = store.revision(TYPES);
    store.commit(Unit::of(insert(TYPES, object_type(1)))).await.expect("new");
    assert_ne!(store.revision(TYPES), before, "a change of one's own shows at once");
    if deployment == Deployment::ReplicaSet {
        wait_until_calm(&store).await;
    }
    for round in 0..5 {
        let before = store.revision(TYPES);
        foreign.update_one(doc! { "public_id": 1 }, doc! { "$set": { "round": round } }).await.expect("edited");
        let edited = Instant::now();
        while store.revision(TYPES) == before {
            assert!(edited.elapsed() < Duration::from_secs(1), "round {round}: no new revision within a second");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Waits until the revisions stand still, as they do while the stream of changes is followed and nothing happens.
async fn wait_until_calm(store: &MongoStore) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let before = store.revision(TYPES);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        if store.revision(TYPES) == before {
            return;
        }
        assert!(Instant::now() < until, "the revision moves though nothing changes");
    }
}

async fn a_mark_that_was_left_behind_is_cleared(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    let document = object_type(1);
    store.commit(Unit::of(insert(TYPES, document.clone()))).await.expect("new");
    let marks = database(server, &uri).await.collection::<Document>("service.removals");
    let id = doc! { "collection": TYPES, "document": document.get_object_id("_id").expect("an id") };
    let long_ago = bson::DateTime::from_millis(bson::DateTime::now().timestamp_millis() - 60_000);
    let mark = doc! { "_id": id, "token": ObjectId::new(), "at": long_ago };
    marks.insert_one(&mark).await.expect("left by a process that died");
    store.commit(Unit::of(insert(OBJECTS, object(1, 1))).given(type_exists(1))).await.expect("the type exists");
    assert_eq!(marks.count_documents(doc! {}).await.expect("the server counts"), 0);
    marks.insert_one(&mark).await.expect("left by a process that died");
    let removal = Unit::of(Change::Delete { collection: TYPES, before: document }).given(no_objects_of(1));
    assert!(matches!(store.commit(removal.clone()).await, Err(StoreError::Condition { index: 0 })));
    store.commit(Unit::of(Change::DeleteMany { collection: OBJECTS, filter: Filter::all() })).await.expect("emptied");
    assert_eq!(store.commit(removal).await.expect("nothing relies on it"), [1]);
    assert_eq!(marks.count_documents(doc! {}).await.expect("the server counts"), 0);
}

async fn errors_of_a_query_carry_the_code_of_the_server(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.expect("new");
    // No text index: something only the server can know.
    let filter = doc! { "$text": { "$search": "x" } };
    let expected = database(server, &uri).await.collection::<Document>(OBJECTS).find_one(filter.clone()).await;
    let expected = match *expected.expect_err("refused").kind {
        mongodb::error::ErrorKind::Command(refused) => refused.code,
        other => panic!("{other:?}"),
    };
    let Ok(filter) = Filter::parse(&filter, &inventory_service::query::Limits::NONE) else { return };
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

async fn a_query_over_its_time_is_a_timeout(deployment: Deployment) {
    let Some((store, server, uri)) = store_on(deployment).await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(OBJECTS);
    let many = (0..20_000).map(|id| doc! { "public_id": id, "text": "abc".repeat(60) });
    foreign.insert_many(many).await.expect("stored by another tool");
    let filter = doc! { "text": { "$regex": "(a|b|c)+(a|b|c)+(a|b|c)+d$" } };
    let filter = Filter::parse(&filter, &inventory_service::query::Limits::NONE).expect("a filter");
    let query = FindQuery::new(filter, Duration::from_millis(1));
    let outcome = store.find(OBJECTS, &query).await;
    assert!(matches!(outcome, Err(StoreError::Timeout)), "{:?}", outcome.map(|found| found.len()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_unavailable_within_the_bound() {
    let Some(program) = program() else { return };
    let mut server = Mongod::start(program, Deployment::ReplicaSet).await;
    let bound = Duration::from_millis(500);
    let options = MongoOptions { server_selection_timeout: bound, ..MongoOptions::default() };
    let uri = server.fresh_uri();
    let store = MongoStore::connect(&uri, options.clone()).await.expect("the server answers");
    store.prepare(ALL).await.expect("the collections can be made");
    store.ping().await.expect("the server answers");
    server.kill();
    let query = FindQuery::new(Filter::all(), Duration::from_millis(500));
    for _ in 0..2 {
        let asked = Instant::now();
        let outcomes = [
            store.find(OBJECTS, &query).await.map(drop),
            store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.map(drop),
            store.reserve_ids(OBJECTS, 1).await.map(drop),
            store.ping().await,
        ];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
        }
        assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
    }
    let before = store.revision(OBJECTS);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_ne!(store.revision(OBJECTS), before, "what may have changed unseen counts as changed");
    let refused = MongoStore::connect(&uri, options).await.map(drop);
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
}
