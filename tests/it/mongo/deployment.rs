//! Indexes of operators, edits of other tools, a server that goes away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc, rawdoc};
use inventory_service::query::Filter;
use inventory_service::store::collections::{ALL, OBJECTS, SETTINGS, TYPES, USERS};
use inventory_service::store::mongo::{MongoOptions, MongoStore};
use inventory_service::store::{Change, FindQuery, Store, StoreError, Unit};

use super::{connect, count, database, insert, no_objects_of, object, object_type, store_on, type_exists};
use crate::support::mongod::{Deployment, Mongod, program, shared};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_of_an_operator_are_kept_and_used() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let types = database(server, &uri).await.collection::<Document>(TYPES);
    let with_name = |name: &str| mongodb::options::IndexOptions::builder().name(name.to_owned()).build();
    let mut unique = with_name("by hand");
    unique.unique = Some(true);
    let by_hand = mongodb::IndexModel::builder().keys(doc! { "public_id": 1.0 }).options(unique).build();
    types.create_index(by_hand).await.expect("made by an operator");
    let taken = mongodb::IndexModel::builder().keys(doc! { "label": 1 }).options(with_name("name")).build();
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
    // An index as an earlier version made it, over settings without an identifier too, is replaced.
    let settings = database(server, &uri).await.collection::<Document>(SETTINGS);
    settings.drop_indexes().await.expect("dropped");
    let mut unique = with_name("identifier");
    unique.unique = Some(true);
    let whole = mongodb::IndexModel::builder().keys(doc! { "user_id": 1, "identifier": 1 }).options(unique).build();
    settings.create_index(whole).await.expect("made by an earlier version");
    store.prepare(ALL).await.expect("it is replaced");
    settings.insert_many([doc! { "user_id": 1 }, doc! { "user_id": 1 }]).await.expect("without an identifier");
    let users = database(server, &uri).await.collection::<Document>(USERS);
    users.drop_indexes().await.expect("dropped by an operator");
    users.insert_many([doc! { "public_id": 1 }, doc! { "public_id": 1 }]).await.expect("stored by another tool");
    let refused = store.prepare(ALL).await;
    assert!(
        matches!(&refused, Err(StoreError::Duplicate { collection, key }) if collection == USERS && key == "public_id"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revisions_move_on_a_foreign_edit_within_a_second() {
    let Some((store, server, uri)) = store_on().await else { return };
    let foreign = database(server, &uri).await.collection::<Document>(TYPES);
    let before = store.revision(TYPES);
    store.commit(Unit::of(insert(TYPES, object_type(1)))).await.expect("new");
    assert_ne!(store.revision(TYPES), before, "a change of one's own shows at once");
    wait_until_calm(&store).await;
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

/// Waits until the revisions do not move, as while the stream of changes is followed and nothing happens.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_and_totals_outlive_a_crash_of_the_server() {
    let Some(program) = program() else { return };
    let mut server = Mongod::start(program, Deployment::ReplicaSet).await;
    let uri = server.fresh_uri();
    let store = connect(&uri).await;
    store.prepare(ALL).await.expect("the collections can be made");
    store.commit(Unit::of(insert(TYPES, object_type(1)))).await.expect("new");
    // The number that the server keeps is trusted from here on.
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
    let is_over = Arc::new(AtomicBool::new(false));
    let task = || insert_through_a_crash(Arc::clone(&store), Arc::clone(&is_over));
    let inserting: Vec<_> = (0..8).map(|_| tokio::spawn(task())).collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    server.crash_and_restart().await;
    is_over.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for task in inserting {
        acknowledged.extend(task.await.expect("no task panics"));
    }
    let objects = database(&server, &uri).await.collection::<Document>(OBJECTS);
    let stored = objects.count_documents(doc! {}).await.expect("the server counts");
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, stored);
    let ids: Vec<Bson> = acknowledged.iter().copied().map(Bson::from).collect();
    assert_eq!(count(&store, OBJECTS, Filter::one_of("public_id", ids)).await, acknowledged.len() as u64);
    println!("{} acknowledged, {stored} stored", acknowledged.len());
}

/// Inserts objects until the outage is over and some more; returns the ids of all that were acknowledged.
async fn insert_through_a_crash(store: Arc<MongoStore>, is_over: Arc<AtomicBool>) -> Vec<i64> {
    let mut acknowledged = Vec::new();
    let mut left = 10;
    while left > 0 {
        left -= i32::from(is_over.load(Ordering::Relaxed));
        let outcome = match store.reserve_ids(OBJECTS, 1).await {
            Ok(id) => store.commit(Unit::of(insert(OBJECTS, object(id, 1))).given(type_exists(1))).await.map(|_| id),
            Err(error) => Err(error),
        };
        match outcome {
            Ok(id) => acknowledged.push(id),
            Err(StoreError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    acknowledged
}

/// How often the server made its journal durable.
async fn syncs(server: &Mongod) -> i64 {
    let status =
        server.client().await.database("admin").run_command(doc! { "serverStatus": 1 }).await.expect("a status");
    let log =
        status.get_document("wiredTiger").and_then(|engine| engine.get_document("log")).expect("it has a journal");
    let syncs = log.get("log sync operations").expect("it counts them");
    syncs.as_i64().or_else(|| syncs.as_i32().map(i64::from)).expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_of_many_steps_does_not_wait_for_the_disk_at_each_of_them() {
    let Some(program) = program() else { return };
    let server = Mongod::start(program, Deployment::ReplicaSet).await;
    let store = connect(&server.fresh_uri()).await;
    let objects: Vec<RawDocumentBuf> = (1..=1000).map(|id| object(id, 1)).collect();
    let there = objects.iter().map(|object| insert(OBJECTS, object.clone())).collect();
    store.commit(Unit { conditions: Vec::new(), changes: there }).await.expect("new objects");
    let before = syncs(&server).await;
    let removal = |before: &RawDocumentBuf| Change::Delete { collection: OBJECTS, before: before.clone() };
    let removals = Unit { conditions: vec![no_objects_of(2)], changes: objects.iter().map(removal).collect() };
    assert_eq!(store.commit(removals).await.expect("nothing speaks against it"), [1; 1000]);
    let needed = syncs(&server).await - before;
    assert!(needed < 1000, "{needed} times");
    assert_eq!(count(&store, OBJECTS, Filter::all()).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_replica_set_is_refused_with_the_command_for_it() {
    let Some(server) = shared(Deployment::Standalone).await else { return };
    let refused = MongoStore::connect(&server.fresh_uri(), MongoOptions::default()).await.map(drop);
    let refused = refused.expect_err("it has no transactions");
    assert!(matches!(refused, StoreError::Unsupported { .. }), "{refused:?}");
    assert!(refused.to_string().contains("run rs.initiate() once"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_set_that_nobody_initiated_is_refused_with_the_command_for_it() {
    let Some(program) = program() else { return };
    let server = Mongod::start_uninitiated(program).await;
    let options = MongoOptions { server_selection_timeout: Duration::from_secs(3), ..MongoOptions::default() };
    let place = format!("mongodb://{}/fresh", server.address());
    for uri in [format!("{place}?directConnection=true"), format!("{place}?replicaSet=rs0"), place] {
        let refused = MongoStore::connect(&uri, options.clone()).await.map(drop).expect_err("it takes no writes");
        assert!(matches!(refused, StoreError::Unavailable { .. }), "{uri}: {refused:?}");
        assert!(refused.to_string().contains("in no replica set yet; run rs.initiate() there"), "{uri}: {refused}");
    }
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
    store.health().await.expect("the server answers");
    server.kill();
    let query = FindQuery::new(Filter::all(), Duration::from_millis(500));
    for _ in 0..2 {
        let asked = Instant::now();
        let outcomes = [
            store.find(OBJECTS, &query).await.map(drop),
            store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.map(drop),
            store.reserve_ids(OBJECTS, 1).await.map(drop),
            store.health().await.map(drop),
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

/// Waits until the store lacks something, or lacks nothing any more.
async fn wait_until_it_lacks(store: &MongoStore, something: bool) -> Vec<String> {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let lacks = store.health().await.expect("the server answers").lacks;
        if lacks.is_empty() != something {
            return lacks;
        }
        assert!(Instant::now() < until, "it lacks {lacks:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unique_indexes_that_another_tool_drops_are_missed_until_the_next_start() {
    let Some((store, server, uri)) = store_on().await else { return };
    let types = database(server, &uri).await.collection::<Document>(TYPES);
    for way in 0..2 {
        if way == 0 {
            types.drop().await.expect("dropped by another tool");
        } else {
            types.drop_indexes().await.expect("dropped by another tool");
        }
        let lacks = wait_until_it_lacks(&store, true).await;
        assert_eq!(
            lacks,
            [format!("{TYPES} lacks the unique index public_id, name: start the service again, to make it")]
        );
        let refused = store.commit(Unit::of(insert(TYPES, object_type(7)))).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
        connect(&uri).await.prepare(ALL).await.expect("the next start makes them");
        wait_until_it_lacks(&store, false).await;
        let id = i64::from(way) + 1;
        store.commit(Unit::of(insert(TYPES, object_type(id)))).await.expect("new");
        let twice = store.commit(Unit::of(insert(TYPES, object_type(id)))).await;
        assert!(matches!(&twice, Err(StoreError::Duplicate { key, .. }) if key == "public_id"), "{twice:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_that_another_tool_replaces_lacks_its_indexes() {
    let Some((store, server, uri)) = store_on().await else { return };
    let types = database(server, &uri).await.collection::<Document>(TYPES);
    // As one tool would that replaces the collection by one with two types of a name.
    let other = database(server, &uri).await.collection::<Document>("other");
    other.insert_many([doc! { "_id": 1, "public_id": 1 }, doc! { "_id": 2, "public_id": 1 }]).await.expect("stored");
    let (from, to) = (format!("{}.other", other.namespace().db), format!("{}.{TYPES}", types.namespace().db));
    let rename = doc! { "renameCollection": from, "to": to, "dropTarget": true };
    server.client().await.database("admin").run_command(rename).await.expect("renamed");
    wait_until_it_lacks(&store, true).await;
    let start = connect(&uri).await.prepare(ALL).await;
    assert!(matches!(&start, Err(StoreError::Duplicate { .. })), "{start:?}");
    let refused = store.commit(Unit::of(insert(TYPES, object_type(7)))).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.expect("other collections are whole");
    types.delete_one(doc! { "_id": 2 }).await.expect("put right");
    connect(&uri).await.prepare(ALL).await.expect("they can be made now");
    wait_until_it_lacks(&store, false).await;
    store.commit(Unit::of(insert(TYPES, object_type(7)))).await.expect("it is whole again");
}
