//! The stream of changes of several instances on one MongoDB database.

use std::time::Duration;

use bson::doc;
use inventory_service::domain::document::raw;
use inventory_service::query::Filter;
use inventory_service::store::collections::HISTORY;
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use super::now;
use super::reader::Reader;
use crate::support::app::TestApp;
use crate::support::mongod::{self, Deployment};

/// Much longer than events of another instance take.
const AT_ONCE: Duration = Duration::from_secs(20);
/// How many objects each writer creates.
const CREATED: usize = 25;

async fn uri() -> Option<String> {
    mongod::shared(Deployment::ReplicaSet).await.map(mongod::Mongod::fresh_uri)
}

/// The ids of the next events, which come at once.
async fn told(reader: &mut Reader, count: usize) -> Vec<Value> {
    let events = async {
        let mut ids = Vec::new();
        while ids.len() < count {
            let (_, _, data) = reader.event().await.expect("an event");
            ids.push(data["public_id"].clone());
        }
        ids
    };
    tokio::time::timeout(AT_ONCE, events).await.expect("events that do not wait for what never comes")
}

async fn open(app: &TestApp, last: Option<&str>) -> Reader {
    Reader::open(app.request(Method::GET, "/changes/?resource=objects"), last).await.expect("a stream")
}

/// Refused when it is committed.
async fn refused(app: &TestApp, name: &str) {
    assert_eq!(app.post("/types/", &json!({"name": name, "author_id": 1, "fields": []})).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_instance_refuses_delays_nobody_on_another_one() {
    let Some(uri) = uri().await else { return };
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on(&uri, &[]).await);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    let before = now(&one).await;
    let mut reader = open(&other, None).await;
    let mut made = Vec::new();
    for number in 0..4 {
        refused(&one, "server").await;
        made.push(json!(one.create_object(kind, &json!({"hostname": number.to_string()})).await));
    }
    assert_eq!(told(&mut reader, 4).await, made);
    let third = TestApp::on(&uri, &[]).await;
    assert_eq!(third.get("/changes/").await.json()["next"], now(&one).await.to_string());
    let page = third.get(&format!("/changes/?since={before}&resource=objects")).await;
    assert_eq!(page.results("/public_id"), made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sequence_of_the_past_is_taken_where_the_counter_is_behind() {
    let Some(uri) = uri().await else { return };
    let old = TestApp::on(&uri, &[]).await;
    let kind = old.create_type("server", &[("hostname", "text")]).await;
    let begun = now(&old).await;
    refused(&old, "server").await;
    for name in ["a", "b", "c"] {
        old.create_object(kind, &json!({"hostname": name})).await;
    }
    let last = now(&old).await;
    // The sequence of the refused change is the next one of this counter.
    let (collection, counter) = ("service.counters", raw(&doc! { "_id": HISTORY, "value": begun }));
    let clear = Unit::of(Change::DeleteMany { collection, filter: Filter::equals("_id", HISTORY) });
    old.store.commit(clear.and(Change::Insert { collection, document: counter })).await.expect("stored");
    let app = TestApp::on(&uri, &[]).await;
    let mut reader = open(&app, None).await;
    let made = app.create_object(kind, &json!({"hostname": "d"})).await;
    assert!(now(&app).await > last);
    assert_eq!(told(&mut reader, 1).await, [made]);
}

/// Two instances write at once. Readers of both receive each change once, in the order of the sequences.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_two_instances_come_once_and_in_order() {
    let Some(uri) = uri().await else { return };
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on(&uri, &[]).await);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    let mut readers = [open(&one, None).await, open(&other, None).await];
    let create = async |app: &TestApp, name: &str| {
        let mut made = Vec::new();
        for number in 0..CREATED {
            made.push(app.create_object(kind, &json!({"hostname": format!("{name}-{number}")})).await);
        }
        made
    };
    let created = tokio::join!(create(&one, "a"), create(&one, "b"), create(&other, "c"), create(&other, "d"),);
    let mut created: Vec<i64> = [created.0, created.1, created.2, created.3].concat();
    created.sort_unstable();
    for reader in &mut readers {
        let (mut ids, mut last) = (Vec::new(), 0);
        while ids.len() < created.len() {
            let (_, cursor, data) = reader.event().await.expect("an event");
            let cursor: i64 = cursor.parse().expect("a sequence");
            assert!(cursor > last, "{cursor} came after {last}");
            last = cursor;
            ids.push(data["public_id"].as_i64().expect("an id"));
        }
        ids.sort_unstable();
        assert_eq!(ids, created);
    }
}
