//! Indexes that the server is still building, for another instance of the service or for another tool.

use std::time::{Duration, Instant};

use bson::{Document, doc};
use inventory_service::store::collections::{ALL, OBJECTS, TYPES};
use inventory_service::store::inspection::Verdict;
use inventory_service::store::mongo::MongoStore;
use inventory_service::store::{Store, StoreError, Unit};

use super::{connect, database, insert, object, object_type};
use crate::support::mongod::{Deployment, Mongod, program};

/// Longer than the time between two looks of an instance.
const LOOKS: Duration = Duration::from_secs(5);

/// Holds all builds of indexes, or releases them.
async fn hold_builds(server: &Mongod, mode: &str) {
    let command = doc! { "configureFailPoint": "hangAfterStartingIndexBuild", "mode": mode };
    server.client().await.database("admin").run_command(command).await.expect("the server has failpoints");
}

/// Waits until the store names what it lacks in this many collections, in words with `words` in them.
async fn wait_until_it_lacks(store: &MongoStore, collections: usize, words: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let lacks = store.health().await.expect("the server answers").lacks;
        if lacks.len() == collections && lacks.iter().any(|lack| lack.contains(words)) == (collections > 0) {
            return;
        }
        assert!(Instant::now() < until, "it lacks {lacks:?}, and not {words:?} in {collections}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn is_refused(store: &MongoStore, id: i64) {
    let refused = store.commit(Unit::of(insert(TYPES, object_type(id)))).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unique_index_that_is_being_built_is_missing() {
    let Some(program) = program() else { return };
    let server = Mongod::start_with_failpoints(program, Deployment::ReplicaSet).await;
    let uri = server.fresh_uri();
    let instances = [connect(&uri).await, connect(&uri).await];
    for store in &instances {
        store.prepare(ALL).await.expect("the collections can be made");
    }
    // Indexes of an empty collection are there at once.
    for change in [insert(TYPES, object_type(1)), insert(OBJECTS, object(5, 1))] {
        instances[0].commit(Unit::of(change)).await.expect("new");
    }
    let types = database(&server, &uri).await.collection::<Document>(TYPES);
    hold_builds(&server, "alwaysOn").await;
    types.drop_index("name").await.expect("dropped by another tool");
    for store in &instances {
        wait_until_it_lacks(store, 1, "name").await;
    }
    // Another instance starts, and waits for its build.
    let third = connect(&uri).await;
    let starting = tokio::spawn(async move { third.prepare(ALL).await });
    let until = Instant::now() + LOOKS;
    while Instant::now() < until {
        for store in &instances {
            let lacks = store.health().await.expect("the server answers").lacks;
            assert_eq!(lacks.len(), 1, "{lacks:?}");
            is_refused(store, 1).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let findings = instances[0].inspect(ALL, bson::DateTime::from_millis(0)).await.expect("the server answers");
    let indexes = findings.iter().find(|finding| finding.subject == "indexes").expect("it is looked at");
    assert_eq!(indexes.verdict, Verdict::Wrong, "{indexes}");
    assert!(indexes.text.contains("framework.types.name"), "{indexes}");
    // Meanwhile other collections are looked at, too.
    let objects = database(&server, &uri).await.collection::<Document>(OBJECTS);
    objects.drop_index("public_id").await.expect("dropped by another tool");
    for store in &instances {
        wait_until_it_lacks(store, 2, OBJECTS).await;
        let refused = store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    }
    // The build fails.
    types.insert_one(doc! { "_id": 7, "public_id": 7, "name": "type 1" }).await.expect("stored by another tool");
    hold_builds(&server, "off").await;
    let outcome = starting.await.expect("no task panics");
    assert!(matches!(&outcome, Err(StoreError::Duplicate { key, .. }) if key == "name"), "{outcome:?}");
    for store in &instances {
        is_refused(store, 1).await;
    }
    types.delete_one(doc! { "_id": 7 }).await.expect("put right");
    connect(&uri).await.prepare(ALL).await.expect("it can be made now");
    for store in &instances {
        wait_until_it_lacks(store, 0, "").await;
        let twice = store.commit(Unit::of(insert(TYPES, object_type(1)))).await;
        assert!(matches!(&twice, Err(StoreError::Duplicate { .. })), "{twice:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_the_build_of_another_instance() {
    let Some(program) = program() else { return };
    let server = Mongod::start_with_failpoints(program, Deployment::ReplicaSet).await;
    let uri = server.fresh_uri();
    connect(&uri).await.prepare(ALL).await.expect("the collections can be made");
    let types = database(&server, &uri).await.collection::<Document>(TYPES);
    types.insert_one(doc! { "_id": 1, "public_id": 1, "name": "a" }).await.expect("stored");
    for is_in_vain in [true, false] {
        hold_builds(&server, "alwaysOn").await;
        types.drop_index("name").await.expect("dropped by another tool");
        // Of the same documents, under a name that an operator chose.
        let options = mongodb::options::IndexOptions::builder().name("by hand".to_owned()).unique(true).build();
        let by_hand = mongodb::IndexModel::builder().keys(doc! { "name": 1 }).options(options).build();
        let building = {
            let types = types.clone();
            tokio::spawn(async move { types.create_index(by_hand).await })
        };
        let store = connect(&uri).await;
        let until = Instant::now() + Duration::from_secs(20);
        while !types.list_index_names().await.expect("the server answers").contains(&"by hand".to_owned()) {
            assert!(Instant::now() < until, "the build does not begin");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let starting = tokio::spawn(async move { store.prepare(ALL).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!starting.is_finished(), "the start does not wait for the build");
        if is_in_vain {
            types.insert_one(doc! { "_id": 2, "public_id": 2, "name": "a" }).await.expect("stored by another tool");
        }
        hold_builds(&server, "off").await;
        let outcome = starting.await.expect("no task panics");
        assert_eq!(building.await.expect("no task panics").is_err(), is_in_vain);
        if is_in_vain {
            assert!(matches!(&outcome, Err(StoreError::Duplicate { key, .. }) if key == "name"), "{outcome:?}");
            types.delete_one(doc! { "_id": 2 }).await.expect("put right");
            connect(&uri).await.prepare(ALL).await.expect("it can be made now");
        } else {
            outcome.expect("the other one built it");
            let mut names = types.list_index_names().await.expect("the server answers");
            names.sort();
            assert_eq!(names, ["_id_", "by hand", "public_id"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_does_not_wait_for_a_plain_index() {
    let Some(program) = program() else { return };
    let server = Mongod::start_with_failpoints(program, Deployment::ReplicaSet).await;
    let uri = server.fresh_uri();
    let stores = [connect(&uri).await, connect(&uri).await];
    stores[0].prepare(ALL).await.expect("the collections can be made");
    let objects = database(&server, &uri).await.collection::<Document>(OBJECTS);
    objects.insert_one(doc! { "_id": 1, "public_id": 1, "type_id": 1 }).await.expect("stored");
    hold_builds(&server, "alwaysOn").await;
    objects.drop_index("fields").await.expect("dropped by another tool");
    stores[1].prepare(ALL).await.expect("what is only for speed does not hold up the start");
    let findings = stores[0].inspect(ALL, bson::DateTime::from_millis(0)).await.expect("the server answers");
    let indexes = findings.iter().find(|finding| finding.subject == "indexes").expect("it is looked at");
    assert_eq!(indexes.verdict, Verdict::Note, "{indexes}");
    assert!(indexes.text.contains("is building framework.objects.fields;"), "{indexes}");
    for (store, id) in stores.iter().zip(2..) {
        let lacks = store.health().await.expect("the server answers").lacks;
        assert!(lacks.is_empty(), "{lacks:?}");
        store.commit(Unit::of(insert(OBJECTS, object(id, 1)))).await.expect("a plain index checks nothing");
    }
    hold_builds(&server, "off").await;
}
