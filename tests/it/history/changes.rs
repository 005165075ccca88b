//! The changes as they happen, as pages and as a stream.

use std::process::Command;
use std::time::Duration;

use chrono::TimeDelta;
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::domain::document::raw;
use inventory_service::query::Filter;
use inventory_service::store::collections::OBJECTS;
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::json;

use super::kept::{changed_outside, stored};
use super::reader::Reader;
use crate::support::app::{ADMIN_PASSWORD, TestApp, on_each_store, send};
use crate::support::counting::CountingStore;
use crate::support::process::ServiceProcess;

/// Begins to read a stream.
async fn open(app: &TestApp, path: &str, last: Option<&str>) -> Reader {
    Reader::open(app.request(Method::GET, path), last).await.expect("a stream")
}

on_each_store! {
    async fn a_page_of_changes_goes_on_from_its_cursor(app) {
        let begun = app.get("/changes/").await.json();
        assert_eq!(begun["results"], json!([]));
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": "b"}})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        let since = begun["next"].as_str().expect("a cursor");
        let page = app.get(&format!("/changes/?since={since}&limit=3")).await;
        assert_eq!(page.results("/kind"), ["enter", "enter", "change"], "{}", page.text);
        assert_eq!(page.results("/resource"), ["types", "objects", "objects"]);
        assert_eq!(page.results("/document/fields/0/value")[1..], ["a", "b"]);
        let next = page.json()["next"].as_str().expect("a cursor").to_owned();
        let rest = app.get(&format!("/changes/?since={next}&view=ids")).await;
        assert_eq!(rest.results("/kind"), ["leave"]);
        assert!(rest.json()["results"][0].get("document").is_none());
        let next = rest.json()["next"].as_str().expect("a cursor").to_owned();
        assert_eq!(app.get(&format!("/changes/?since={next}")).await.json()["results"], json!([]));
    }

    async fn a_page_of_changes_begins_at_a_time(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        // Times have milliseconds: changes within one millisecond cannot be distinguished.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let since = SystemClock.now();
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": "b"}})).await.status, 202);
        let new = app.create_object(kind, &json!({"hostname": "c"})).await;
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        let text = since.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
        let page = app.get(&format!("/changes/?since={text}&resource=objects")).await;
        assert_eq!(page.results("/kind"), ["change", "enter", "leave"], "{}", page.text);
        assert_eq!(page.results("/public_id"), [json!(id), json!(new), json!(id)]);
        let from_begin = app.get(&format!("/changes/?since={}", (since - TimeDelta::hours(1)).format("%Y-%m-%dT%H:%M:%SZ"))).await;
        from_begin.error(410, "history_gone");
        let later = (since + TimeDelta::hours(1)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
        app.get(&format!("/changes/?since={later}")).await.error(400, "parameter_invalid");
        let odd = app.get("/changes/?since=yesterday").await.error(400, "parameter_invalid");
        let message = "since: yesterday is neither a time of RFC 3339, as 2026-01-31T12:00:00Z, nor a cursor of changes: the id of an event, or next of a page";
        assert_eq!(odd["message"], message);
    }

    async fn a_filter_tells_what_comes_changes_and_goes(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("units", "number")]).await;
        let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        let id = app.create_object(kind, &json!({"hostname": "a", "units": 1})).await;
        for units in [5, 6, 1, 2] {
            assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"units": units}})).await.status, 202);
        }
        let parameters = [("since", since.as_str()), ("resource", "objects"), ("filter", r#"{"f.units": {"$gt": 3}}"#), ("view", "render")];
        let page = app.get_with("/changes/", &parameters).await;
        assert_eq!(page.results("/kind"), ["enter", "change", "leave"], "{}", page.text);
        assert_eq!(page.json()["results"][0]["document"]["type_information"]["type_id"], kind, "{}", page.text);
    }

    async fn a_stream_tells_each_change_once_and_goes_on_where_it_ended(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let mut reader = open(app, "/changes/?resource=objects", None).await;
        let id = app.create_object(kind, &json!({"hostname": "0"})).await;
        let (event, first, data) = reader.event().await.expect("an event");
        assert_eq!((event.as_str(), &data["kind"], &data["public_id"]), ("objects", &json!("enter"), &json!(id)));
        for number in 1..=20 {
            assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": number.to_string()}})).await.status, 202);
        }
        let mut last = first.clone();
        for number in 1..=10 {
            let (_, cursor, data) = reader.event().await.expect("an event");
            assert_eq!(data["document"]["fields"][0]["value"], number.to_string(), "behind {last}: {data}");
            last = cursor;
        }
        drop(reader);
        let mut reader = open(app, "/changes/?resource=objects", Some(&last)).await;
        for number in 11..=20 {
            let (_, _, data) = reader.event().await.expect("an event");
            assert_eq!(data["document"]["fields"][0]["value"], number.to_string(), "behind {last}: {data}");
        }
    }

    async fn a_change_whose_document_another_tool_has_changed_since_is_told_without_it(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": "b"}})).await.status, 202);
        let before = stored(app, OBJECTS, Filter::equals("public_id", id)).await.remove(0);
        let mut after = before.clone();
        after.insert("views", 7_i64);
        changed_outside(app, OBJECTS, &before, &after).await;
        for filter in [r#"{"f.hostname": "b"}"#, r#"{"f.hostname": "c"}"#] {
            let page = app.get_with("/changes/", &[("since", since.as_str()), ("resource", "objects"), ("filter", filter)]).await;
            assert_eq!(page.results("/public_id"), [json!(id)], "{}", page.text);
            assert_eq!((page.results("/kind"), page.results("/document")), (vec![json!("change")], vec![json!(null)]));
        }
    }

    async fn what_another_tool_changed_is_told_whatever_it_was_before(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("note", "text")]).await;
        let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        let changed = app.create_object(kind, &json!({"hostname": "a"})).await;
        let deleted = app.create_object(kind, &json!({"hostname": "a"})).await;
        let before = stored(app, OBJECTS, Filter::equals("public_id", changed)).await.remove(0);
        let mut after = before.clone();
        after.get_array_mut("fields").expect("fields")[0].as_document_mut().expect("a field").insert("value", "b");
        changed_outside(app, OBJECTS, &before, &after).await;
        assert_eq!(app.patch(&format!("/objects/{changed}"), &json!({"fields": {"note": "x"}})).await.status, 202);
        let gone = stored(app, OBJECTS, Filter::equals("public_id", deleted)).await.remove(0);
        app.store.commit(Unit::of(Change::Delete { collection: OBJECTS, before: raw(&gone) })).await.expect("deleted");
        let again = json!({"public_id": deleted, "type_id": kind, "author_id": 1, "fields": {"hostname": "c"}});
        assert_eq!(app.created("/objects/", &again).await, deleted);
        let told = async |filter: Option<&str>| {
            let mut parameters = vec![("since", since.as_str()), ("resource", "objects")];
            parameters.extend(filter.map(|filter| ("filter", filter)));
            let page = app.get_with("/changes/", &parameters).await;
            let events = page.json()["results"].as_array().expect("a list").clone();
            events.iter().map(|event| json!([event["public_id"], event["kind"], event["action"], event["document"]["fields"][0]["value"]])).collect::<Vec<_>>()
        };
        let not_known = [json!([changed, "change", "CREATE", null]), json!([deleted, "change", "CREATE", null])];
        let went = json!([deleted, "leave", "OUTSIDE", null]);
        let of_a = [json!([changed, "leave", "OUTSIDE", null]), went.clone()];
        assert_eq!(told(Some(r#"{"f.hostname": "a"}"#)).await, [&not_known[..], &of_a].concat());
        // A follower of this change may have had the object or not.
        let edited = [json!([changed, "change", "OUTSIDE", "b"]), json!([changed, "change", "EDIT", "b"]), went];
        assert_eq!(told(Some(r#"{"f.hostname": "b"}"#)).await, [&not_known[..], &edited].concat());
        let again = [json!([deleted, "enter", "CREATE", "c"])];
        assert_eq!(told(None).await, [&not_known[..], &edited, &again].concat());
    }

    async fn passwords_of_what_an_object_refers_to_show_in_no_event(app) {
        let body = json!({"name": "account", "author_id": 1,
            "fields": [{"type": "text", "name": "login", "label": "Login"}, {"type": "password", "name": "secret", "label": "Secret"}],
            "render_meta": {"summary": {"fields": ["login", "secret"]}, "sections": [{"type": "section", "name": "all", "label": "All", "fields": ["login", "secret"]}]}});
        let account = app.created("/types/", &body).await;
        let section = json!({"type": "ref-section", "name": "of", "label": "Of", "fields": [],
            "reference": {"type_id": account, "section_name": "all", "selected_fields": ["login", "secret"]}});
        let body = json!({"name": "server", "author_id": 1,
            "fields": [{"type": "ref", "name": "plain", "label": "Plain", "ref_types": [account]},
                {"type": "ref", "name": "own", "label": "Own", "ref_types": [account], "summaries": [{"type_id": account, "label": "Account", "icon": "", "line": "{} has {}", "fields": ["login", "secret"]}]},
                {"type": "ref-section-field", "name": "of-field", "label": "Of", "ref_types": [account]}],
            "render_meta": {"sections": [section]}});
        let kind = app.created("/types/", &body).await;
        let target = app.create_object(account, &json!({"login": "root", "secret": "hunter-one"})).await;
        let mut reader = open(app, "/changes/?resource=objects&view=render", None).await;
        let id = app.create_object(kind, &json!({"plain": target, "own": target, "of-field": target})).await;
        let rendered = app.get(&format!("/objects/{id}")).await.text;
        assert_eq!(rendered.matches("hunter-one").count(), 7, "an editor sees it elsewhere: {rendered}");
        let (_, cursor, data) = reader.event().await.expect("an event");
        let since = cursor.parse::<i64>().expect("a number") - 2;
        let page = app.get(&format!("/changes/?since={since}&resource=objects&view=render")).await;
        for told in [data.to_string(), page.text] {
            assert!(told.contains("root") && !told.contains("hunter"), "{told}");
        }
    }

    async fn a_refused_change_moves_no_cursor(app) {
        app.create_type("server", &[("hostname", "text")]).await;
        let begun = app.get("/changes/").await.json();
        for _ in 0..3 {
            let body = json!({"name": "server", "author_id": 1, "fields": []});
            assert_eq!(app.post("/types/", &body).await.status, 400);
        }
        assert_eq!(app.get("/changes/").await.json()["next"], begun["next"]);
        let kind = app.create_type("rack", &[("hostname", "text")]).await;
        let since = begun["next"].as_str().expect("a cursor");
        let page = app.get(&format!("/changes/?since={since}")).await;
        assert_eq!(page.results("/public_id"), [json!(kind)], "{}", page.text);
    }

    async fn cursors_that_were_never_given_are_refused(app) {
        for (name, value) in [("since", "x"), ("since", "99999999"), ("since", "-1"), ("resource", "users"), ("filter", "{}"), ("view", "x"), ("limit", "0")] {
            let answer = app.get_with("/changes/", &[(name, value)]).await;
            assert_eq!(answer.status, 400, "{name}={value}: {}", answer.text);
        }
        let wrong = app.request(Method::GET, "/changes/").header("Accept", "text/event-stream").header("Last-Event-ID", "x");
        assert_eq!(send(wrong).await.status, 400);
    }

    async fn a_stream_ends_when_its_user_is_locked(app) {
        let body = json!({"user_name": "reader", "password": "a-long-password", "group_id": 2});
        let user = app.created("/users/", &body).await;
        let token = app.login("reader", "a-long-password").await;
        let request = app.anonymous(Method::GET, "/changes/").bearer_auth(token).header("Accept", "text/event-stream");
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        let mut reader = Reader::of(response);
        reader.part().await.expect("a beginning");
        assert_eq!(app.patch(&format!("/users/{user}"), &json!({"active": false})).await.status, 202);
        let (event, _, _) = reader.event().await.expect("a last event");
        assert_eq!(event, "error");
        assert!(reader.part().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_was_stored_long_before_its_answer_is_told() {
    let counter = CountingStore::counter();
    let app = &TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    counter.after_commits(Duration::ZERO);
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let mut reader = open(app, "/changes/?resource=objects", None).await;
    // Longer than the feed waits between two looks at the store.
    counter.after_commits(Duration::from_secs(1));
    let id = app.create_object(kind, &json!({"hostname": "a"})).await;
    let (_, _, data) = reader.event().await.expect("an event");
    assert_eq!(data["public_id"], id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_changes_of_an_object_are_told_by_the_questions_of_one() {
    let counter = CountingStore::counter();
    let app = &TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[("units", "number")]).await;
    let id = app.create_object(kind, &json!({"units": 0})).await;
    let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
    let mut questions = Vec::new();
    for units in 1..=20 {
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"units": units}})).await.status, 202);
        let before = counter.calls();
        let page = app.get(&format!("/changes/?since={since}")).await;
        questions.push(counter.calls() - before);
        let told = page.results("/document/fields/0/value");
        assert_eq!(told, (1..=units).map(|units| json!(units)).collect::<Vec<_>>(), "{}", page.text);
    }
    // The first events are read alone, as their documents may be large; the others together.
    assert_eq!(questions[19], questions[8], "{questions:?}");
    assert_eq!(questions[7], questions[1], "{questions:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_too_large_to_be_read_at_once_is_told_piece_by_piece() {
    let counter = CountingStore::counter();
    let app = &TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[("units", "number")]).await;
    let ids =
        [app.create_object(kind, &json!({"units": 0})).await, app.create_object(kind, &json!({"units": 0})).await];
    let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
    for units in 1..=2 {
        for id in ids {
            assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"units": units}})).await.status, 202);
        }
    }
    counter.exceed_bounds();
    let page = app.get(&format!("/changes/?since={since}")).await;
    assert_eq!(page.results("/document/fields/0/value"), [1, 1, 2, 2], "{}", page.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_stops_ends_its_streams_and_closes_its_store() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let client = reqwest::Client::new();
    let login = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
    let login = send(client.post(format!("{}/rest/auth/login", service.origin)).json(&login)).await;
    let token = login.json()["token"].as_str().expect("a token").to_owned();
    let stream = client.get(format!("{}/rest/changes/", service.origin)).bearer_auth(token);
    let mut stream = stream.header("Accept", "text/event-stream").send().await.expect("an answer");
    let begun = stream.chunk().await.expect("the stream begins").expect("with a line");
    assert!(String::from_utf8_lossy(&begun).contains("changes behind"), "{begun:?}");
    let ended = tokio::task::spawn_blocking(move || service.terminate());
    stream.text().await.expect("the stream ends as a whole answer does");
    assert_eq!(ended.await.expect("it ends"), Some(0));
    let mut check = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    let check = check.arg("check").current_dir(directory.path()).output().expect("the binary starts");
    let said = String::from_utf8_lossy(&check.stderr).into_owned() + &String::from_utf8_lossy(&check.stdout);
    assert!(check.status.success() && !said.contains("not closed properly"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_whose_time_is_over_ends_with_a_cursor_that_leads_on() {
    let counter = CountingStore::counter();
    let settings = [("query.max_time_ms", "400")];
    let app = TestApp::embedded_around_with(&settings, |store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[("units", "number")]).await;
    let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
    for units in 0..80 {
        app.create_object(kind, &json!({"units": units})).await;
    }
    let last = app.get("/changes/").await.json()["next"].clone();
    // Each look for documents takes long.
    counter.before_finds(|collection| {
        let pause = Duration::from_millis(if collection == OBJECTS { 250 } else { 0 });
        Box::pin(tokio::time::sleep(pause))
    });
    let filter = r#"{"f.units":{"$regex":"none"}}"#;
    let (mut next, mut pages) = (json!(since), 0);
    while next != last {
        let cursor = next.as_str().expect("a cursor").to_owned();
        let query = [("resource", "objects"), ("limit", "1000"), ("since", cursor.as_str()), ("filter", filter)];
        let page = app.get_with("/changes/", &query).await;
        assert_eq!(page.status, 200, "{}", page.text);
        assert_eq!(page.json()["results"], json!([]));
        next = page.json()["next"].clone();
        assert_ne!(next, json!(cursor), "it leads on");
        pages += 1;
    }
    assert!(pages > 1, "one page had time for all");
}
