//! What was, as it was read then.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use inventory_service::clock::{Clock, ManualClock, SystemClock};
use reqwest::Method;
use serde_json::{Value, json};

use super::now;
use crate::support::app::{TestApp, fields, on_each_store, send};
use crate::support::counting::CountingStore;
use crate::support::mongod::{self, Deployment};

/// A rendered view without the moment at which it was made.
fn timeless(mut view: Value) -> Value {
    if let Some(members) = view.as_object_mut() {
        members.remove("current_render_time");
    }
    view
}

on_each_store! {
    async fn fields_can_be_asked_for_by_the_names_that_they_had_then(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("rack", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a", "rack": "r-1"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let without = json!({"name": "server", "label": "server", "author_id": 1, "fields": [{"type": "text", "name": "hostname", "label": "Host"}]});
        assert_eq!(app.put(&format!("/types/{kind}"), &without).await.status, 202);
        let filter = format!("/objects/?filter={{\"type_id\":{kind},\"f.rack\":\"r-1\"}}");
        assert_eq!(app.get(&filter).await.status, 400);
        for at in ["", "&sort=f.rack"] {
            let then = app.get(&format!("{filter}{at}&at={sequence}")).await;
            assert_eq!(then.results("/public_id"), [id], "{}", then.text);
        }
    }

    async fn a_moment_before_an_object_was_made_says_so(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let before = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        let error = app.get(&format!("/objects/{id}/native?at={before}")).await.error(404, "object_not_found");
        let told = error["message"].as_str().expect("a message");
        assert!(told.starts_with(&format!("object {id} was not there then")), "{told}");
    }

    async fn at_each_moment_reads_and_lists_are_what_they_were_then(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("units", "number"), ("rack", "ref")]).await;
        let rack = app.create_object(kind, &json!({"hostname": "rack", "units": 40})).await;
        let mut ids = vec![rack];
        for number in 0..6 {
            ids.push(app.create_object(kind, &json!({"hostname": format!("web-{number}"), "units": number, "rack": rack})).await);
        }
        let lists = [
            "/objects/?limit=3&page=1",
            "/objects/?limit=3&page=2&sort=-f.units",
            "/objects/?limit=0&view=render&sort=f.hostname",
            "/types/?limit=0",
            "/categories/?limit=0",
        ];
        let filter = [("filter", r#"{"f.units": {"$gte": 2}, "active": true}"#), ("limit", "2"), ("sort", "-f.hostname")];
        let mut moments: Vec<(i64, Vec<String>)> = Vec::new();
        let steps = [
            ("PATCH", format!("/objects/{}", ids[2]), json!({"fields": {"hostname": "new", "units": 9}})),
            ("DELETE", format!("/objects/{}", ids[3]), Value::Null),
            ("PATCH", format!("/types/{kind}"), json!({"label": "Machines"})),
            ("PUT", format!("/objects/{}/state", ids[4]), json!(false)),
            ("POST", "/categories/".to_owned(), json!({"name": "all", "label": "All", "types": [kind]})),
            ("PATCH", format!("/objects/{rack}"), json!({"fields": {"hostname": "rack-2"}})),
            ("POST", "/objects/".to_owned(), json!({"type_id": kind, "author_id": 1, "fields": fields(&json!({"hostname": "last"}))})),
            ("PATCH", format!("/objects/{}", ids[2]), json!({"fields": {"units": 1}})),
            ("DELETE", format!("/objects/{}", ids[5]), Value::Null),
        ];
        let read = async |at: Option<i64>| {
            let at = at.map(|at| format!("at={at}"));
            let mut answers = Vec::new();
            for list in lists {
                let path = at.as_ref().map_or_else(|| list.to_owned(), |at| format!("{list}&{at}"));
                let answer = app.get(&path).await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.text);
                let json = answer.json();
                let results: Vec<Value> = json["results"].as_array().expect("a list").iter().cloned().map(timeless).collect();
                answers.push(format!("{list} {} {}", json["total"], Value::from(results)));
            }
            let mut pairs = filter.to_vec();
            let at_value = at.as_ref().map(|at| at["at=".len()..].to_owned());
            pairs.extend(at_value.as_deref().map(|at| ("at", at)));
            let answer = app.get_with("/objects/", &pairs).await.json();
            answers.push(format!("{} {}", answer["total"], answer["results"]));
            for id in &ids {
                for path in [format!("/objects/{id}"), format!("/objects/{id}/native"), format!("/objects/{id}/references")] {
                    let question = at.as_ref().map(|at| format!("?{at}")).unwrap_or_default();
                    let answer = app.get(&format!("{path}{question}")).await;
                    // Of the present alone they are there for a deleted object, too.
                    if path.ends_with("/references") && answers.last().is_some_and(|native| native.contains(" 404 ")) {
                        continue;
                    }
                    let shown = if answer.status == 200 { timeless(answer.json()) } else { Value::Null };
                    let shown = shown.get("results").cloned().unwrap_or(shown);
                    answers.push(format!("{path} {} {shown}", answer.status));
                }
            }
            answers
        };
        moments.push((now(app).await, read(None).await));
        for (method, path, body) in &steps {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let answer = send(app.request(method, path).json(body)).await;
            assert!(answer.status.is_success(), "{path}: {}", answer.text);
            moments.push((now(app).await, read(None).await));
        }
        for (sequence, then) in &moments {
            for (was, is) in then.iter().zip(read(Some(*sequence)).await) {
                assert_eq!(*was, is, "at {sequence}");
            }
        }
    }

    async fn moments_that_cannot_be_asked_for_are_refused(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        for (at, status) in [("2999-01-01T00:00:00Z", 400), ("1999-01-01T00:00:00Z", 410), ("99999999", 400), ("yesterday", 400), ("", 400), ("-1", 400)] {
            for path in [format!("/objects/{id}"), "/objects/".to_owned(), format!("/types/{kind}")] {
                let answer = app.get_with(&path, &[("at", at)]).await;
                assert_eq!(answer.status, status, "{path} {at}: {}", answer.text);
            }
        }
        assert_eq!(app.get_with(&format!("/objects/{id}"), &[("at", "0")]).await.status, 404);
        assert_eq!(app.get_with("/objects/", &[("at", "1"), ("explain", "true")]).await.status, 400);
        assert_eq!(app.get_with("/users/", &[("at", "1")]).await.status, 400);
    }
}

/// Reads what an object was, while it changes before each question for it, after `before` changes.
async fn read_beside_changes(before: usize) {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[("units", "number")]).await;
    let id = app.create_object(kind, &json!({"units": 0})).await;
    let then = now(&app).await;
    let change = async |request: reqwest::RequestBuilder, units: usize| {
        let answer = send(request.json(&json!({"fields": {"units": units}}))).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    };
    let path = format!("/objects/{id}");
    for units in 1..=before {
        change(app.request(Method::PATCH, &path), units).await;
    }
    let (patch, changes) = (app.request(Method::PATCH, &path), Arc::new(AtomicUsize::new(before)));
    let counted = Arc::clone(&changes);
    counter.before_finds(move |collection| {
        let units = (collection == "framework.objects").then(|| counted.fetch_add(1, Ordering::SeqCst) + 1);
        let patch = patch.try_clone().expect("it has no body yet");
        Box::pin(async move {
            if let Some(units) = units {
                change(patch, units).await;
            }
        })
    });
    let answer = app.get(&format!("{path}/native?at={then}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json()["fields"][0]["value"], 0);
    assert!(changes.load(Ordering::SeqCst) > before, "it changed between the questions");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_changes_during_each_question_has_a_past() {
    read_beside_changes(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_changes_for_the_first_time_during_the_question_has_a_past() {
    read_beside_changes(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_the_past_is_the_same_while_objects_change_and_come_during_its_questions() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[("units", "number")]).await;
    for units in 0..5 {
        app.create_object(kind, &json!({"units": units})).await;
    }
    let (then, ids) = (now(&app).await, [1, 2, 3, 4, 5]);
    let questions = [
        "", "&sort=-public_id&limit=2&page=2", "&filter={\"f.units\":{\"$gte\":1}}", "&view=render",
        "&filter={\"public_id\":3}",
    ];
    let list = async |question: &str| {
        let answer = app.get(&format!("/objects/?at={then}{question}")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let mut view = answer.json();
        for result in view["results"].as_array_mut().expect("results") {
            *result = timeless(result.take());
        }
        (view["results"].clone(), view["total"].clone())
    };
    let mut expected = Vec::new();
    for question in questions {
        expected.push(list(question).await);
    }
    let (patch, post) =
        (ids.map(|id| app.request(Method::PATCH, &format!("/objects/{id}"))), app.request(Method::POST, "/objects/"));
    let changes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&changes);
    counter.before_finds(move |_| {
        let place = counted.fetch_add(1, Ordering::SeqCst);
        let requests = [
            patch[place % ids.len()].try_clone().expect("no body yet").json(&json!({"fields": {"units": 100 + place}})),
            post.try_clone()
                .expect("no body yet")
                .json(&json!({"type_id": kind, "author_id": 1, "fields": {"units": 7}})),
        ];
        Box::pin(async move {
            for request in requests {
                let answer = send(request).await;
                assert!(answer.status.is_success(), "{}", answer.text);
            }
        })
    });
    for (question, expected) in questions.iter().zip(&expected) {
        assert_eq!(&list(question).await, expected, "{question}");
    }
    assert!(changes.load(Ordering::SeqCst) > questions.len(), "there were changes between the questions");
}

/// A clock that advances by a tenth of a second with each look at it.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> DateTime<Utc> {
        let ticks = self.0.fetch_add(1, Ordering::SeqCst);
        DateTime::from_timestamp_millis(1_800_000_000_000 + 100 * ticks).expect("a time")
    }

    fn steady(&self) -> Duration {
        SystemClock.steady()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_moment_that_stands_in_a_document_is_one_after_its_change() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let uri = format!("embedded:{}", directory.path().join("data").display());
    let app = TestApp::on_with_clock(&uri, &[], Arc::new(Ticking(AtomicI64::new(0)))).await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let path = format!("/objects/{}", app.create_object(kind, &json!({"hostname": "a"})).await);
    let read = async |query: &str| app.get(&format!("{path}/native{query}")).await.json();
    let created = read("").await;
    assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "b"}})).await.status, 202);
    let edited = read("").await;
    for (document, member) in [(&created, "creation_time"), (&edited, "last_edit_time")] {
        let stamp = document[member]["$date"].as_i64().and_then(DateTime::from_timestamp_millis).expect("a time");
        let at = stamp.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        assert_eq!(&read(&format!("?at={at}")).await, document, "{member}");
    }
}

/// What an object was called at a time, alone and in a list.
async fn called(app: &TestApp, id: i64, time: DateTime<Utc>) -> Value {
    let at = time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let alone = app.get(&format!("/objects/{id}/native?at={at}")).await;
    assert_eq!(alone.status, 200, "{}", alone.text);
    let name = alone.json()["fields"][0]["value"].clone();
    let list = app.get(&format!("/objects/?at={at}&filter={{\"public_id\":{id}}}")).await;
    assert_eq!(list.results("/fields/0/value"), std::slice::from_ref(&name), "{}", list.text);
    name
}

async fn entries_follow_their_order(uri: &str) {
    let begun = SystemClock.now();
    let clock = Arc::new(ManualClock::new(begun));
    let app = TestApp::on_with_clock(uri, &[], Arc::clone(&clock) as _).await;
    let after = |minutes: i64| begun + TimeDelta::minutes(minutes);
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let one = app.create_object(kind, &json!({"hostname": "a"})).await;
    let other = app.create_object(kind, &json!({"hostname": "a"})).await;
    let call = async |id: i64, name: &str| {
        let answer = app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": name}})).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    };
    // The clock is an hour ahead, and is set back.
    clock.set(after(60));
    call(one, "b").await;
    call(other, "b").await;
    clock.set(after(2));
    assert_eq!(called(&app, one, after(2)).await, "b");
    clock.set(after(3));
    call(one, "c").await;
    clock.set(after(5));
    assert_eq!((called(&app, one, after(5)).await, called(&app, other, after(5)).await), (json!("c"), json!("b")));
    assert_eq!(called(&app, one, after(2)).await, "b");
    call(one, "d").await;
    // Real time has caught up.
    clock.set(after(90));
    assert_eq!((called(&app, one, after(4)).await, called(&app, other, after(4)).await), (json!("c"), json!("b")));
    assert_eq!(called(&app, one, after(6)).await, "d");
    assert_eq!((called(&app, one, after(80)).await, called(&app, other, after(80)).await), (json!("d"), json!("b")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_that_a_clock_ahead_began_answers_for_the_present() {
    let begun = SystemClock.now();
    let clock = Arc::new(ManualClock::new(begun + TimeDelta::hours(2)));
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let uri = format!("embedded:{}", directory.path().join("data").display());
    let app = TestApp::on_with_clock(&uri, &[], Arc::clone(&clock) as _).await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let id = app.create_object(kind, &json!({"hostname": "a"})).await;
    clock.set(begun + TimeDelta::minutes(1));
    let now = begun + TimeDelta::seconds(30);
    assert_eq!(called(&app, id, now).await, "a");
    let since = now.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    assert_eq!(app.get(&format!("/changes/?since={since}")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_clock_that_was_ahead_follow_their_order_on_the_embedded_store() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    entries_follow_their_order(&format!("embedded:{}", directory.path().join("data").display())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_a_clock_that_was_ahead_follow_their_order_on_mongodb() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    entries_follow_their_order(&server.fresh_uri()).await;
}
