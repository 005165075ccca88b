//! The stream of changes of several instances on one MongoDB database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{DateTime, doc};
use chrono::TimeDelta;
use inventory_service::clock::{Clock, ManualClock, SystemClock};
use inventory_service::domain::document::raw;
use inventory_service::history::entry::{Action, After, Author, Changes, Draft};
use inventory_service::query::Filter;
use inventory_service::service::history::vain;
use inventory_service::store::collections::{HISTORY, LOGS};
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use super::kept::stored;
use super::now;
use super::reader::Reader;
use crate::support::app::{TestApp, on_each_store};
use crate::support::mongod::{self, Deployment};

/// Much longer than events of another instance take, and much shorter than an unexplained gap is waited for.
const AT_ONCE: Duration = Duration::from_secs(20);

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

/// Takes sequences that are missing afterwards, as those of an instance that died.
async fn taken(app: &TestApp, count: u32) -> i64 {
    app.store.reserve_ids(HISTORY, count).await.expect("sequences")
}

/// Stores an entry with a sequence that was taken before, of an object that goes. Returns the id of the object.
async fn stored_late(app: &TestApp, sequence: i64, type_id: i64) -> i64 {
    let (public_id, author) = (5_000, Author::default());
    let changes = Changes::Deleted(doc! { "public_id": public_id, "type_id": type_id, "fields": [] });
    let (resource, action, after) = ("objects", Action::Delete, After::default());
    let draft = Draft { resource, public_id, type_id: Some(type_id), action, author: &author, changes, after };
    let document = draft.entry(None, sequence, DateTime::from_chrono(SystemClock.now())).0;
    app.store.commit(Unit::of(Change::Insert { collection: LOGS, document })).await.expect("stored");
    public_id
}

/// Refused when it is committed: it takes a sequence in vain.
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
    assert_eq!(now(&one).await, before + 8, "a refused change takes a sequence");
    assert_eq!(told(&mut reader, 4).await, made);
    // One that starts now knows it too, and begins behind all of them.
    let third = TestApp::on(&uri, &[]).await;
    assert_eq!(third.get("/changes/").await.json()["next"], (before + 8).to_string());
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notes_of_what_was_taken_in_vain_are_few() {
    let Some(uri) = uri().await else { return };
    let app = TestApp::on(&uri, &[]).await;
    app.create_type("server", &[]).await;
    for _ in 0..20 {
        refused(&app, "server").await;
    }
    let last = now(&app).await + 20;
    let begun = Instant::now();
    loop {
        let notes: Vec<_> = stored(&app, HISTORY, Filter::all()).await;
        let told: Vec<_> = notes.iter().filter_map(|note| note.get_array("ranges").ok()).collect();
        match &told[..] {
            [ranges] if **ranges == [(last - 19).into(), last.into()] => break,
            notes => assert!(notes.len() <= 1 && begun.elapsed() < AT_ONCE, "{notes:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_what_is_missing_before_an_old_entry() {
    let Some(uri) = uri().await else { return };
    let clock = Arc::new(ManualClock::new(SystemClock.now() - TimeDelta::minutes(10)));
    let old = TestApp::on_with_clock(&uri, &[], clock).await;
    let app = TestApp::on(&uri, &[]).await;
    let kind = old.create_type("server", &[("hostname", "text")]).await;
    let mut reader = open(&app, None).await;
    let mut made = Vec::new();
    for name in ["a", "b"] {
        taken(&app, 3).await;
        made.push(json!(old.create_object(kind, &json!({"hostname": name})).await));
    }
    assert_eq!(told(&mut reader, 2).await, made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_late_is_told_in_its_place() {
    let Some(uri) = uri().await else { return };
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on(&uri, &[]).await);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    let begun = now(&one).await.to_string();
    let mut reader = open(&other, Some(&begun)).await;
    let missing = taken(&one, 1).await;
    let first = one.create_object(kind, &json!({"hostname": "a"})).await;
    assert_eq!(other.get(&format!("/changes/?since={begun}")).await.json()["results"], json!([]));
    let late = stored_late(&one, missing, kind).await;
    assert_eq!(told(&mut reader, 2).await, [json!(late), json!(first)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gaps_that_nobody_explains_are_waited_for_at_the_same_time() {
    let Some(uri) = uri().await else { return };
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on_with_clock(&uri, &[], Arc::clone(&clock) as _).await);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    let behind = format!("/changes/?since={}", now(&one).await);
    assert_eq!(other.get(&behind).await.json()["results"], json!([]));
    let mut made = Vec::new();
    for name in ["a", "b", "c"] {
        taken(&one, 1).await;
        made.push(json!(one.create_object(kind, &json!({"hostname": name})).await));
    }
    assert_eq!(other.get(&behind).await.json()["results"], json!([]));
    clock.advance(TimeDelta::seconds(61));
    assert_eq!(other.get(&behind).await.results("/public_id"), made);
}

/// Stores so many entries at once, each of another object.
async fn many_stored(app: &TestApp, count: u32, type_id: i64) {
    let (first, author) = (taken(app, count).await, Author::default());
    let changes = (first..first + i64::from(count)).map(|sequence| {
        let changes = Changes::Deleted(doc! { "public_id": sequence, "type_id": type_id, "fields": [] });
        let (resource, public_id, action, after) = ("objects", 100_000 + sequence, Action::Delete, After::default());
        let draft = Draft { resource, public_id, type_id: Some(type_id), action, author: &author, changes, after };
        let document = draft.entry(None, sequence, DateTime::from_chrono(SystemClock.now())).0;
        Change::Insert { collection: LOGS, document }
    });
    app.store.commit(Unit { changes: changes.collect(), ..Unit::default() }).await.expect("stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gaps_that_are_far_apart_are_waited_for_at_the_same_time() {
    let Some(uri) = uri().await else { return };
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on_with_clock(&uri, &[], Arc::clone(&clock) as _).await);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    let mut position = now(&one).await.to_string();
    let page =
        async |position: &str| other.get(&format!("/changes/?since={position}&view=ids&limit=1000")).await.json();
    for _ in 0..3 {
        taken(&one, 1).await;
        many_stored(&one, 700, kind).await;
    }
    assert_eq!(page(&position).await["results"], json!([]));
    clock.advance(TimeDelta::seconds(61));
    let mut count = 0;
    loop {
        let page = page(&position).await;
        match page["results"].as_array().expect("events").len() {
            0 => break,
            more => count += more,
        }
        page["next"].as_str().expect("a cursor").clone_into(&mut position);
    }
    assert_eq!(count, 2100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_a_gap_does_not_wait_anew() {
    let Some(uri) = uri().await else { return };
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on_with_clock(&uri, &[], Arc::clone(&clock) as _).await);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    let behind = format!("/changes/?since={}", now(&one).await);
    assert_eq!(other.get(&behind).await.json()["results"], json!([]));
    let missing = taken(&one, 3).await;
    let made = one.create_object(kind, &json!({"hostname": "a"})).await;
    assert_eq!(other.get(&behind).await.json()["results"], json!([]));
    clock.advance(TimeDelta::seconds(50));
    let late = stored_late(&one, missing + 1, kind).await;
    assert_eq!(other.get(&behind).await.json()["results"], json!([]));
    clock.advance(TimeDelta::seconds(11));
    assert_eq!(other.get(&behind).await.results("/public_id"), [late, made]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_another_instance_is_taken_before_all_is_settled_here() {
    let Some(uri) = uri().await else { return };
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on(&uri, &[]).await);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    let begun = now(&one).await.to_string();
    let missing = taken(&one, 1).await;
    let first = one.create_object(kind, &json!({"hostname": "a"})).await;
    let cursor = now(&one).await;
    let page = other.get(&format!("/changes/?since={cursor}")).await;
    assert_eq!((page.status.as_u16(), page.json()), (200, json!({"results": [], "next": cursor.to_string()})));
    other.get(&format!("/changes/?since={}", cursor + 1)).await.error(400, "parameter_invalid");
    let mut behind = open(&other, Some(&begun)).await;
    let mut ahead = open(&other, Some(&cursor.to_string())).await;
    let mut all_ahead =
        Reader::open(other.request(Method::GET, "/changes/"), Some(&cursor.to_string())).await.expect("a stream");
    let late = stored_late(&one, missing, kind).await;
    let second = one.create_object(kind, &json!({"hostname": "b"})).await;
    assert_eq!(told(&mut behind, 3).await, [json!(late), json!(first), json!(second)]);
    assert_eq!(told(&mut ahead, 1).await, [json!(second)]);
    assert_eq!(told(&mut all_ahead, 1).await, [json!(second)]);
    let page = other.get(&format!("/changes/?since={cursor}")).await;
    assert_eq!(page.results("/public_id"), [json!(second)]);
}

on_each_store! {
    async fn a_store_of_one_process_keeps_no_notes_of_another_one(app) {
        let note = raw(&doc! { "_id": "vain 7", "last": 9_i64, "ranges": [7_i64, 9_i64] });
        app.store.commit(Unit::of(Change::Insert { collection: HISTORY, document: note })).await.expect("stored");
        vain::remove_from_local(&*app.store, Duration::from_secs(30)).await.expect("a look");
        let left = stored(app, HISTORY, Filter::all()).await;
        assert_eq!(left.len(), if app.store.is_remote() { 2 } else { 1 }, "{left:?}");
    }
}
