//! Every change has its entry.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::DateTime;
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::history::entry::{Action, After, Author, Changes, Draft, Place, with_sequences};
use inventory_service::store::collections::LOGS;
use inventory_service::store::{Change, Unit};
use serde_json::{Value, json};

use crate::support::app::{TestApp, fields, on_each_store};
use crate::support::counting::CountingStore;

/// The actions in the history of a resource, the oldest first.
async fn actions(app: &TestApp, path: &str) -> Vec<String> {
    let list = app.get(&format!("{path}/history?limit=0")).await;
    assert_eq!(list.status, 200, "{}", list.text);
    list.results("/action").iter().map(|action| action.as_str().expect("a text").to_owned()).collect()
}

on_each_store! {
    async fn each_change_of_an_object_has_an_entry(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("units", "number")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1", "units": 2})).await;
        let path = format!("/objects/{id}");
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "web-2"}})).await.status, 202);
        assert_eq!(app.put(&format!("{path}/state"), &json!(false)).await.status, 202);
        assert_eq!(app.put(&format!("{path}/state"), &json!(true)).await.status, 202);
        assert_eq!(app.delete(&path).await.status, 200);
        assert_eq!(actions(app, &path).await, ["CREATE", "EDIT", "ACTIVE_CHANGE", "ACTIVE_CHANGE", "DELETE"]);
        let list = app.get(&format!("{path}/history?limit=0")).await.json();
        let entry = &list["results"][1];
        assert_eq!(entry["resource"], "objects");
        assert_eq!(entry["public_id"], id);
        assert_eq!(entry["type_id"], kind);
        assert_eq!(entry["user_id"], 1);
        assert_eq!(entry["user_name"], "admin");
        assert_eq!(entry["changes"]["was"]["/fields/hostname/value"], "web-1");
        assert_eq!(entry["changes"]["was"]["/version"], "1.0.0");
        assert!(entry["request_id"].is_string(), "{entry}");
        let numbers: Vec<&Value> = list["results"].as_array().expect("a list").iter().map(|it| &it["number"]).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
    }

    async fn types_and_categories_have_a_history_too(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let category = app.post("/categories/", &json!({"name": "all", "label": "All", "types": [kind]})).await;
        assert_eq!(category.status, 201, "{}", category.text);
        let category = category.json()["result_id"].as_i64().expect("an id");
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"label": "Servers"})).await.status, 202);
        assert_eq!(app.delete(&format!("/types/{kind}")).await.status, 202);
        assert_eq!(actions(app, &format!("/types/{kind}")).await, ["CREATE", "EDIT", "DELETE"]);
        // The type left the category.
        assert_eq!(actions(app, &format!("/categories/{category}")).await, ["CREATE", "EDIT"]);
        assert_eq!(app.get(&format!("/categories/{category}")).await.json()["result"]["types"], json!([]));
    }

    async fn what_happens_to_many_objects_has_an_entry_for_each(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let body = |name: &str| json!({"type_id": kind, "author_id": 1, "fields": fields(&json!({"hostname": name}))});
        let made = app.post("/objects/bulk", &json!([body("a"), body("b"), body("c")])).await;
        assert_eq!(made.json()["created"], 3, "{}", made.text);
        let all: Vec<i64> = app.get("/objects/?limit=0").await.results("/public_id").iter().filter_map(Value::as_i64).collect();
        let changed = app.patch("/objects/?filter={}&expected_count=3", &json!({"fields": {"hostname": "x"}})).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        for id in all {
            assert_eq!(actions(app, &format!("/objects/{id}")).await, ["CREATE", "EDIT", "DELETE"]);
        }
    }

    async fn a_change_that_changes_nothing_and_one_that_is_refused_have_none(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1"})).await;
        let path = format!("/objects/{id}");
        assert_eq!(app.put(&format!("{path}/state"), &json!(true)).await.status, 204);
        assert_eq!(app.patch(&path, &json!({"type_id": kind + 1})).await.status, 400);
        assert_eq!(app.put(&format!("/objects/clean/{kind}"), &json!(null)).await.status, 202);
        assert_eq!(actions(app, &path).await, ["CREATE"]);
        assert_eq!(app.get("/logs/?limit=0").await.json()["total"], 2);
    }

    async fn all_entries_are_listed_filtered_and_sorted(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1"})).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": "b"}})).await.status, 202);
        let list = app.get("/logs/?sort=-sequence").await;
        assert_eq!(list.results("/action"), ["EDIT", "CREATE", "CREATE"]);
        let list = app.get_with("/logs/", &[("filter", r#"{"resource": "objects", "action": {"$in": ["EDIT"]}}"#)]).await;
        assert_eq!(list.json()["total"], 1, "{}", list.text);
        for filter in [r#"{"changes.was./fields/hostname/value": "web-1"}"#, r#"{"$expr": {"$eq": ["$public_id", 1]}}"#, r#"{"$or": [{"state": 1}]}"#] {
            let list = app.get_with("/logs/", &[("filter", filter)]).await;
            assert_eq!(list.status, 400, "{filter}: {}", list.text);
        }
        assert_eq!(app.get("/logs/?sort=changes").await.status, 400);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_all_entries_reads_what_it_shows() {
    let app = TestApp::embedded().await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    for name in ["a", "b", "c"] {
        app.create_object(kind, &json!({"hostname": name})).await;
    }
    let told = app.get("/logs/?limit=1&sort=-sequence&explain=true").await.json();
    assert_eq!(
        (&told["documents_examined"], &told["total"], &told["total_from"]),
        (&json!(1), &json!(4), &json!("keys")),
        "{told}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_asks_the_history_once_and_a_new_object_never() {
    let counter = CountingStore::counter();
    let app = &TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    counter.after_commits(Duration::ZERO);
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let id = app.create_object(kind, &json!({"hostname": "a"})).await;
    let asked = Arc::new(Mutex::new(0));
    let asks = Arc::clone(&asked);
    counter.before_finds(move |collection| {
        *asks.lock().expect("a lock") += u32::from(collection == LOGS);
        Box::pin(async {})
    });
    app.create_object(kind, &json!({"hostname": "b"})).await;
    assert_eq!(*asked.lock().expect("a lock"), 0);
    assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
    assert_eq!(*asked.lock().expect("a lock"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_with_entries_from_before_the_start_goes_on_behind_them() {
    let app = TestApp::embedded().await;
    let (author, now) = (Author::default(), DateTime::from_chrono(SystemClock.now()));
    let pending = |action, changes, last: Option<&Place>| {
        let (resource, public_id, type_id, after) = ("objects", 9, Some(1), After::default());
        let draft = Draft { resource, public_id, type_id, action, author: &author, cause: None, changes, after };
        draft.pending(last, now)
    };
    let created = pending(Action::Create, Changes::Created, None);
    let deleted = pending(Action::Delete, Changes::Unknown, Some(&created.place(0)));
    for document in with_sequences(&[created, deleted], 1) {
        app.store.commit(Unit::of(Change::Insert { collection: LOGS, document })).await.expect("stored");
    }
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let again = json!({"public_id": 9, "type_id": kind, "author_id": 1, "fields": {"hostname": "b"}});
    assert_eq!(app.post("/objects/", &again).await.status, 200);
    assert_eq!(actions(&app, "/objects/9").await, ["CREATE", "DELETE", "CREATE"]);
    assert_eq!(app.get("/objects/9/history").await.results("/number"), [1, 2, 3]);
}
