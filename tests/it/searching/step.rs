//! Search is in step with objects and types, whatever changes them.

use std::time::Duration;

use bson::{Bson, doc};
use inventory_service::domain::document::raw;
use inventory_service::query::{Filter, Update};
use inventory_service::store::collections::{OBJECTS, SEARCH, SEARCH_WORK};
use inventory_service::store::{Change, Store, Unit};
use reqwest::Method;
use serde_json::json;

use super::support::{MAX_TIME, asked, found, made_again, settled};
use crate::support::app::{TestApp, fields, on_each_store, send};

async fn notes(app: &TestApp) -> i64 {
    app.create_type("note", &[("text", "text"), ("more", "text")]).await
}

async fn documents(store: &dyn Store) -> u64 {
    store.count(SEARCH, &Filter::all(), MAX_TIME).await.expect("a number")
}

on_each_store! {
    async fn what_changes_an_object_changes_what_is_found(app) {
        let note = notes(app).await;
        let id = app.create_object(note, &json!({"text": "first", "more": "kept"})).await;
        let path = format!("/objects/{id}");
        let body = |text: &str| json!({"type_id": note, "author_id": 1, "fields": fields(&json!({"text": text, "more": "kept"}))});
        assert!(app.put(&path, &body("second")).await.status.is_success());
        assert_eq!((found(app, "first").await, found(app, "second kept").await), (vec![], vec![id]));
        assert!(app.patch(&path, &json!({"fields": {"text": "third"}})).await.status.is_success());
        assert_eq!((found(app, "second").await, found(app, "third").await), (vec![], vec![id]));
        assert!(app.put(&format!("{path}/state"), &json!(false)).await.status.is_success());
        assert_eq!(found(app, "third").await, [id]);
        let history = app.get(&format!("{path}/history?sort=sequence&order=1")).await.results("/sequence");
        assert!(app.post(&format!("{path}/revert"), &json!({"to": history[0]})).await.status.is_success());
        assert_eq!((found(app, "third").await, found(app, "first").await), (vec![], vec![id]));
        let filter = format!(r#"/objects/?filter={{"public_id":{id}}}&expected_count=1"#);
        assert!(app.patch(&filter, &json!({"fields": {"text": "fourth"}})).await.status.is_success());
        assert_eq!((found(app, "first").await, found(app, "fourth").await), (vec![], vec![id]));
        assert!(app.delete(&path).await.status.is_success());
        assert_eq!((found(app, "fourth").await, documents(&*app.store).await), (vec![], 0));
        assert!(app.post(&format!("{path}/restore"), &json!({})).await.status.is_success());
        assert_eq!(found(app, "fourth").await, [id]);
        let undone = app.patch(&path, &json!({"fields": {"text": "fifth"}})).await;
        let undo = json!({"request_id": undone.header("x-request-id")});
        assert!(app.post("/logs/undo", &undo).await.status.is_success());
        assert_eq!((found(app, "fifth").await, found(app, "fourth").await), (vec![], vec![id]));
    }

    async fn a_file_and_a_cascade_keep_it_in_step(app) {
        let note = notes(app).await;
        let csv = app.request(Method::POST, &format!("/import/objects?type_id={note}"));
        let imported = send(csv.header("Content-Type", "text/csv").body("text,more\nalpha,one\nbeta,two\n")).await;
        assert!(imported.status.is_success(), "{}", imported.text);
        assert_eq!((found(app, "alpha").await.len(), found(app, "two").await.len()), (1, 1));
        assert!(app.delete(&format!("/types/{note}?cascade=true")).await.status.is_success());
        assert_eq!((found(app, "alpha").await, documents(&*app.store).await), (vec![], 0));
    }

    async fn a_change_of_a_type_changes_the_words_of_its_objects(app) {
        let option = |label: &str| json!([{"name": "p", "label": label}]);
        let of = |kind: &str, label: &str| json!({"name": "server", "author_id": 1, "fields": [
            {"type": kind, "name": "host", "label": "Host"},
            {"type": "select", "name": "state", "label": "State", "options": option(label)},
        ]});
        let server = app.created("/types/", &of("text", "Production")).await;
        let ids: Vec<i64> = {
            let mut ids = Vec::new();
            for number in 0..3 {
                ids.push(app.create_object(server, &json!({"host": format!("web-{number}"), "state": "p"})).await);
            }
            ids
        };
        assert_eq!(found(app, "production").await, ids);
        assert!(app.put(&format!("/types/{server}"), &of("text", "Live")).await.status.is_success());
        settled(&*app.store).await;
        assert_eq!((found(app, "production").await, found(app, "live").await), (vec![], ids.clone()));
        assert!(app.put(&format!("/types/{server}"), &of("password", "Live")).await.status.is_success());
        let new = app.create_object(server, &json!({"host": "web-9", "state": "p"})).await;
        settled(&*app.store).await;
        assert_eq!(found(app, "web").await, Vec::<i64>::new(), "a password is not found");
        assert_eq!(found(app, "live").await.last(), Some(&new));
    }

    async fn a_store_from_before_is_searched_after_a_while(app) {
        let note = notes(app).await;
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(app.create_object(note, &json!({"text": format!("word {number}")})).await);
        }
        let all = |collection| Change::DeleteMany { collection, filter: Filter::all() };
        let stranger = raw(&doc! { "_id": bson::Timestamp { time: 0, increment: 999 }, "type_id": note, "terms": ["", "word"] });
        let unit = Unit::of(all(SEARCH)).and(all(SEARCH_WORK));
        app.store.commit(unit).await.expect("they are removed");
        app.store.commit(Unit::of(Change::Insert { collection: SEARCH, document: stranger })).await.expect("it is stored");
        assert_eq!(found(app, "word").await, Vec::<i64>::new());
        // Changes meanwhile count.
        assert!(app.patch(&format!("/objects/{}", ids[0]), &json!({"fields": {"text": "changed word"}})).await.status.is_success());
        assert!(app.delete(&format!("/objects/{}", ids[4])).await.status.is_success());
        assert_eq!(found(app, "changed").await, [ids[0]]);
        made_again(&*app.store).await;
        assert_eq!(found(app, "word").await, ids[..4]);
        assert_eq!(documents(&*app.store).await, 4, "what belongs to no object is gone");
    }

    async fn an_incomplete_answer_says_so(app) {
        notes(app).await;
        // A type that nobody completes: the worker finds none of its objects, and is done at once; so it is held up.
        let lease = doc! { "_id": "search", "holder": "somebody else", "beat": 1_i64 };
        let lease = Change::Insert { collection: "service.migrations", document: raw(&lease) };
        app.store.commit(Unit::of(lease)).await.expect("it is stored");
        let work = Change::Insert { collection: SEARCH_WORK, document: raw(&doc! { "_id": 5_i64, "after": 0_i64 }) };
        app.store.commit(Unit::of(work)).await.expect("it is stored");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let answer = asked(app, "word", &[]).await;
        assert_eq!(answer.header("inventory-warning"), "the index of words is being made; objects may be missing");
    }

    async fn an_unchanged_object_leaves_its_words_alone(app) {
        let note = notes(app).await;
        let id = app.create_object(note, &json!({"text": "word"})).await;
        let mark = Update::set("mark", Bson::Boolean(true));
        let change = Change::UpdateMany { collection: SEARCH, filter: Filter::all(), update: mark };
        app.store.commit(Unit::of(change)).await.expect("it is marked");
        for state in [false, true] {
            assert!(app.put(&format!("/objects/{id}/state"), &json!(state)).await.status.is_success());
        }
        let marked = Filter::equals("mark", true);
        assert_eq!(app.store.count(SEARCH, &marked, MAX_TIME).await.expect("a number"), 1, "it was written");
        // A change of the words takes the document as it is.
        assert!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"text": "other"}})).await.status.is_success());
        assert_eq!(app.store.count(SEARCH, &marked, MAX_TIME).await.expect("a number"), 0);
        assert_eq!(found(app, "other").await, [id]);
        assert_eq!(app.store.count(OBJECTS, &Filter::all(), MAX_TIME).await.expect("a number"), 1);
    }
}
