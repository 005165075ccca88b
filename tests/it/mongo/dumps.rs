//! Everything that is stored, read as of one moment while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use futures::StreamExt;
use inventory_service::app::open_aside;
use inventory_service::domain::document::integer;
use inventory_service::moving::migrate::migrate;
use inventory_service::progress::Silent;
use inventory_service::query::Sort;
use inventory_service::store::collections::{OBJECTS, TYPES};
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::mongo::MongoStore;
use inventory_service::store::{Copying, Dump, Store, StoreError, Unit};

use super::{connect, database, insert, object, object_type, store_on};
use crate::moving::settings;
use crate::support::mongod::{Deployment, Mongod, program, shared};

/// Stores an object and a type with the same number in one unit, again and again.
async fn write_pairs(store: Arc<MongoStore>, last: Arc<AtomicI64>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let number = last.load(Ordering::Relaxed) + 1;
        let pair = Unit::of(insert(OBJECTS, object(number, 1))).and(insert(TYPES, object_type(number)));
        store.commit(pair).await.expect("nothing speaks against it");
        last.store(number, Ordering::Relaxed);
    }
}

async fn later(last: &AtomicI64) {
    let now = last.load(Ordering::Relaxed);
    while last.load(Ordering::Relaxed) < now + 1 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The numbers of the documents of a collection; after each chunk others have written something.
async fn numbers(dump: &mut dyn Dump, collection: &str, last: &AtomicI64) -> Result<Vec<i64>, StoreError> {
    let mut chunks = dump.documents(collection, &Sort::by("public_id", false)).await?;
    let mut numbers = Vec::new();
    while let Some(chunk) = chunks.next().await {
        numbers.extend(chunk?.iter().filter_map(|document| integer(document, "public_id")));
        later(last).await;
    }
    Ok(numbers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_collections_are_read_as_of_one_moment_while_others_write() {
    let Some((store, ..)) = store_on().await else { return };
    // More than the server packs into one answer.
    for some in 0..5 {
        let numbers = || (1..=500).map(|number| some * 500 + number);
        let objects = numbers().map(|number| insert(OBJECTS, object(number, 1)));
        let types = numbers().map(|number| insert(TYPES, object_type(number)));
        let changes = objects.chain(types).collect();
        store.commit(Unit { conditions: Vec::new(), changes }).await.expect("new ones");
    }
    let (last, stop) = (Arc::new(AtomicI64::new(2500)), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn(write_pairs(Arc::clone(&store), Arc::clone(&last), Arc::clone(&stop)));
    later(&last).await;
    let mut dump = store.dump().await.expect("a dump");
    assert!(dump.is_of_one_moment());
    later(&last).await;
    let objects = numbers(&mut *dump, OBJECTS, &last).await.expect("objects");
    let types = numbers(&mut *dump, TYPES, &last).await.expect("types");
    stop.store(true, Ordering::Relaxed);
    writer.await.expect("it wrote");
    assert_eq!(objects, types);
    assert!(objects.len() > 2500 && objects.last() < Some(&last.load(Ordering::Relaxed)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_not_migrated_into_itself_under_another_name() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let (store, again) = (connect(&uri).await, connect(&uri.replace("127.0.0.1", "localhost")).await);
    store.prepare(inventory_service::store::collections::ALL).await.expect("a new store");
    store.commit(Unit::of(insert(OBJECTS, object(7, 1)))).await.expect("nothing speaks against it");
    let refused = migrate(&*store, &*again, "there", true, &Silent).await.expect_err("it is one store");
    assert_eq!(
        refused.to_string(),
        "--from and --to name the same store, in two ways; nothing was changed; name another one"
    );
    assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("an id"), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moment_that_the_server_has_forgotten_is_an_error_with_the_remedy() {
    let Some(program) = program() else { return };
    let server = Mongod::start(program, Deployment::ReplicaSet).await;
    let store = connect(&server.fresh_uri()).await;
    store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.expect("an object");
    let mut dump = store.dump().await.expect("a dump");
    let admin = server.client().await.database("admin");
    let forget = doc! { "setParameter": 1, "minSnapshotHistoryWindowInSeconds": 0 };
    admin.run_command(forget).await.expect("it forgets soon");
    let mut number = 1;
    let error = loop {
        number += 1;
        store.commit(Unit::of(insert(OBJECTS, object(number, 1)))).await.expect("an object");
        match dump.documents(OBJECTS, &Sort::default()).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.contains("setParameter: 1, minSnapshotHistoryWindowInSeconds"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_of_the_same_key_keep_a_store_from_being_migrated_and_are_told() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let types = database(server, &uri).await.collection::<Document>(TYPES);
    let pair = [doc! { "_id": 1, "public_id": 1, "name": "a" }, doc! { "_id": 2, "public_id": 2, "name": "a" }];
    types.insert_many(pair).await.expect("stored by another tool");
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let target = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
    let refused = migrate(&*connect(&uri).await, &target, "there", false, &Silent).await;
    let refused = refused.expect_err("they clash").to_string();
    let expected =
        "two documents of framework.types in the source have the same name; inventory-service check names them";
    assert!(refused.starts_with(expected), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whether_there_is_a_store_is_found_without_reading_what_others_keep_there() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let database = database(server, &uri).await;
    let foreign = database.collection::<Document>("of.another.tool");
    foreign.insert_one(doc! { "a": 1 }).await.expect("stored by another tool");
    database.run_command(doc! { "profile": 2 }).await.expect("the server notes questions");
    let settings = settings(&uri);
    let refused = open_aside(&settings.store).await.err().expect("it is none of ours");
    assert!(refused.to_string().starts_with("there is no store in "), "{refused}");
    connect(&uri).await.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.expect("an object");
    open_aside(&settings.store).await.expect("there is one");
    database.run_command(doc! { "profile": 0 }).await.expect("it stops");
    let asked = doc! { "op": "query", "ns": format!("{}.of.another.tool", database.name()) };
    let notes = database.collection::<Document>("system.profile");
    assert_eq!(notes.count_documents(asked).await.expect("a number"), 0);
}
