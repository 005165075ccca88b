//! What the server is asked for a request, and with which index it answers. The server's own list of its commands shows it.

use std::time::Duration;

use bson::{Bson, DateTime, Document, doc};
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::query::{Filter, Limits, Sort};
use inventory_service::store::collections::{LOGS, OBJECTS};
use inventory_service::store::{FindQuery, KeyUse, Step, Store, Unit};
use serde_json::json;

use super::{BUDGET, commands_of, connect, database, insert, object, store_on};
use crate::support::app::TestApp;
use crate::support::mongod::{Deployment, shared};

const COUNTERS: &str = "service.counters";

/// The name of a command and its collection.
fn name_of(command: &Document) -> (String, String) {
    let collection = command.get_str("ns").expect("a collection").split_once('.').expect("a database").1.to_owned();
    let name = command.get_document("command").ok().and_then(|command| command.keys().next().cloned());
    (name.unwrap_or_default(), collection)
}

fn concern_of(command: &Document) -> Option<Document> {
    command.get_document("command").ok()?.get_document("writeConcern").ok().cloned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_object_is_one_transaction_and_waits_for_the_disk_once() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let app = TestApp::on(&uri, &[]).await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    app.create_object(kind, &json!({"hostname": "a"})).await;
    let database = database(server, &uri).await;
    let commands = commands_of(&database, app.create_object(kind, &json!({"hostname": "b"}))).await;
    let (inside, outside): (Vec<&Document>, Vec<&Document>) = commands
        .iter()
        .partition(|command| command.get_document("command").is_ok_and(|command| command.contains_key("autocommit")));
    // A transaction that met another one is carried out again under its next number.
    let number = |command: &Document| command.get_document("command").ok().and_then(|it| it.get_i64("txnNumber").ok());
    let last = inside.last().and_then(|command| number(command));
    let names: Vec<(String, String)> = inside.into_iter().filter(|it| number(it) == last).map(name_of).collect();
    let expected = [
        ("findAndModify", COUNTERS),
        ("aggregate", COUNTERS),
        ("insert", OBJECTS),
        ("insert", "service.search"),
        ("insert", LOGS),
    ];
    assert_eq!(names, expected.map(|(name, collection)| (name.to_owned(), collection.to_owned())));
    let concerns: Vec<Document> = outside.iter().filter_map(|command| concern_of(command)).collect();
    assert!(concerns.iter().all(|concern| concern.get("w") == Some(&Bson::Int32(1))), "{concerns:?}");
    assert!(outside.iter().all(|command| name_of(command).1 != LOGS), "a reserved id has no entries: {outside:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_a_lost_primary_reserved_is_not_given_again_once_it_is_stored() {
    let Some((store, server, uri)) = store_on().await else { return };
    let counters = database(server, &uri).await.collection::<Document>(COUNTERS);
    for id in 1..=3_i64 {
        assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("the server answers"), id);
        let lost = counters.update_one(doc! { "_id": OBJECTS }, doc! { "$set": { "value": id - 1 } }).await;
        assert_eq!(lost.expect("the server answers").modified_count, 1);
        store.commit(Unit::of(insert(OBJECTS, object(id, 1)))).await.expect("the id is free");
    }
    assert_eq!(store.reserve_ids(OBJECTS, 2).await.expect("the server answers"), 4);
    counters.update_one(doc! { "_id": OBJECTS }, doc! { "$set": { "value": 3_i64 } }).await.expect("set back");
    assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("the server answers"), 6, "a process gets no id twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_gets_another_id_than_one_that_has_a_history() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let app = TestApp::on(&uri, &[]).await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let gone = app.create_object(kind, &json!({"hostname": "a"})).await;
    assert_eq!(app.delete(&format!("/objects/{gone}")).await.status, 200);
    let counters = database(server, &uri).await.collection::<Document>(COUNTERS);
    counters.update_one(doc! { "_id": OBJECTS }, doc! { "$set": { "value": gone - 1 } }).await.expect("set back");
    // Another instance knows nothing of the ids that this one was given.
    let other = TestApp::on(&uri, &[]).await;
    assert_eq!(other.create_object(kind, &json!({"hostname": "b"})).await, gone + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counter_passes_objects_of_other_tools_that_have_a_history_at_once() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let app = TestApp::on(&uri, &[]).await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    for _ in 0..6 {
        app.create_object(kind, &json!({"hostname": "a"})).await;
    }
    let database = database(server, &uri).await;
    let counters = database.collection::<Document>(COUNTERS);
    counters.update_one(doc! { "_id": OBJECTS }, doc! { "$set": { "value": 0_i64 } }).await.expect("set back");
    // Another instance knows nothing of the ids that this one was given.
    let other = TestApp::on(&uri, &[]).await;
    let mut created = 0;
    let create = async { created = other.create_object(kind, &json!({"hostname": "b"})).await };
    let commands = commands_of(&database, create).await;
    assert_eq!(created, 7);
    // A step for the id and one of the order, both twice.
    let steps = commands.iter().filter(|command| name_of(command) == ("findAndModify".to_owned(), COUNTERS.to_owned()));
    assert!(steps.count() < 8, "{commands:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_total_that_moves_with_the_time_is_counted_each_time() {
    let Some((store, server, uri)) = store_on().await else { return };
    let database = database(server, &uri).await;
    store.commit(Unit::of(insert(OBJECTS, object(1, 1)))).await.expect("new");
    let before_now = doc! { "$expr": { "$lt": ["$last_edit_time", "$$NOW"] } };
    let filter =
        Filter::parse_at(&before_now, &Limits::NONE, DateTime::from_chrono(SystemClock.now())).expect("a filter");
    for _ in 0..3 {
        let ask = async { assert_eq!(store.count(OBJECTS, &filter, BUDGET).await.expect("a number"), 1) };
        let commands = commands_of(&database, ask).await;
        assert!(commands.iter().any(|command| name_of(command).1 == OBJECTS), "{commands:#?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_total_is_counted_once_and_again_after_a_write_of_another_instance() {
    let Some((store, server, uri)) = store_on().await else { return };
    let (other, database) = (connect(&uri).await, database(server, &uri).await);
    let unit = (1..=25_i64).fold(Unit::default(), |unit, id| unit.and(insert(OBJECTS, object(id, 1))));
    store.commit(unit).await.expect("new");
    let list = FindQuery::new(Filter::equals("type_id", 1_i64), BUDGET).sorted(Sort::by("public_id", false));
    let list = list.limited(10);
    let ask = async || assert_eq!(store.page(OBJECTS, &list).await.expect("an answer").total, 25);
    let mut commands = Vec::new();
    // The stream may still report the unit.
    for _ in 0..100 {
        ask().await;
        commands = commands_of(&database, ask()).await.iter().map(name_of).collect();
        if commands.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    commands.sort();
    let find = |collection: &str| ("find".to_owned(), collection.to_owned());
    assert_eq!(commands, [find(OBJECTS), find(COUNTERS)]);
    for total in 26..=30_i64 {
        other.commit(Unit::of(insert(OBJECTS, object(total, 1)))).await.expect("new");
        let page = store.page(OBJECTS, &list).await.expect("an answer");
        assert_eq!(page.total, total.unsigned_abs());
        let count = store.count(OBJECTS, &list.filter, BUDGET).await.expect("a number");
        assert_eq!(count, total.unsigned_abs());
    }
}

/// A list of objects of a type whose host matches.
fn list_of(type_id: i64, pattern: &str) -> FindQuery {
    let host = doc! { "fields": { "$elemMatch": { "name": "host", "value": { "$regex": pattern } } } };
    let filter = doc! { "$and": [{ "type_id": type_id }, host] };
    let filter = Filter::parse(&filter, &Limits::NONE).expect("a filter");
    FindQuery::new(filter, BUDGET).sorted(Sort::by("public_id", false)).limited(10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_for_a_part_of_a_text_does_not_slow_down_one_for_its_beginning() {
    let Some((store, server, uri)) = store_on().await else { return };
    let database = database(server, &uri).await;
    let objects = database.collection::<Document>(OBJECTS);
    let many = (0..3000_i64).map(|id| {
        let fields = [doc! { "name": "host", "value": format!("web-{id:04}") }, doc! { "name": "site", "value": "a" }];
        doc! { "public_id": id + 1, "type_id": 1, "fields": fields.to_vec() }
    });
    objects.insert_many(many).await.expect("stored by another tool");
    for _ in 0..5 {
        let page = store.page(OBJECTS, &list_of(1, "none of them")).await.expect("an answer");
        assert_eq!((page.total, page.documents.len()), (0, 0));
    }
    let list = list_of(1, "^web-012");
    let ask = async || {
        let page = store.page(OBJECTS, &list).await.expect("an answer");
        assert_eq!((page.total, page.documents.len()), (10, 10));
        let first = page.documents.first().and_then(|it| it.get_i64("public_id").ok());
        assert_eq!(first, Some(121));
    };
    let commands = commands_of(&database, ask()).await;
    let plans: Vec<&str> = commands.iter().filter_map(|command| command.get_str("planSummary").ok()).collect();
    let by_field = |plan: &&&str| plan.contains("fields.name");
    assert_eq!(plans.iter().filter(by_field).count(), 2, "{commands:#?}");
    let explanation = store.explain(OBJECTS, &list).await.expect("an answer");
    assert!(explanation.documents_examined.is_some_and(|examined| examined <= 20), "{explanation:?}");
    let Step::Index(used) = explanation.plan else { panic!("{:?}", explanation.plan) };
    assert!(used.keys.iter().map(|key: &KeyUse| &*key.path).eq(["fields.name", "fields.value"]));
    let few = (5000..5020_i64).map(|id| {
        let fields = [doc! { "name": "host", "value": format!("web-{id:04}") }, doc! { "name": "site", "value": "a" }];
        doc! { "public_id": id + 1, "type_id": 2, "fields": fields.to_vec() }
    });
    objects.insert_many(few).await.expect("stored by another tool");
    let of_few = list_of(2, "^web");
    let page = store.page(OBJECTS, &of_few).await.expect("an answer");
    assert_eq!((page.total, page.documents.len()), (20, 10));
    let commands = commands_of(&database, store.page(OBJECTS, &of_few)).await;
    let examined = commands.iter().map(|command| command.get_i32("docsExamined").unwrap_or_default()).max();
    assert!(examined.is_some_and(|examined| examined <= 20), "{commands:#?}");
}
