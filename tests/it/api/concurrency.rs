//! Many clients at once: what is promised holds whatever overlaps.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{fields, on_each_store, send};

const CLIENTS: usize = 32;
const POSTS: usize = 8;
const ROUNDS: usize = 20;

on_each_store! {
    async fn objects_posted_at_once_all_get_ids_of_their_own(app) {
        let kind = app.create_type("kind", &[("client", "number"), ("turn", "number")]).await;
        let client = |client: usize| async move {
            let mut ids = Vec::new();
            for turn in 0..POSTS {
                ids.push(app.create_object(kind, &json!({"client": client, "turn": turn})).await);
            }
            ids
        };
        let ids: BTreeSet<i64> = join_all((0..CLIENTS).map(client)).await.into_iter().flatten().collect();
        assert_eq!(ids.len(), CLIENTS * POSTS);
        let list = app.get("/objects/?limit=0").await;
        assert_eq!(list.json()["total"], CLIENTS * POSTS);
        let stored: BTreeSet<i64> = list.results("/public_id").iter().filter_map(Value::as_i64).collect();
        assert_eq!(stored, ids);
    }

    async fn an_inactive_type_gets_no_object_though_its_creation_had_begun(app) {
        let kind = app.create_type("kind", &[("turn", "number")]).await;
        let (path, body) = (format!("/types/{kind}"), json!({"type_id": kind, "author_id": 1, "fields": []}));
        let total = async || app.get("/objects/?limit=1").await.json()["total"].as_u64().expect("a number");
        for _ in 0..ROUNDS {
            let is_over = AtomicBool::new(false);
            let client = async || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = app.post("/objects/", &body).await;
                    assert!(answer.status == 200 || answer.status == 403, "{}", answer.text);
                }
            };
            let switch = async {
                assert_eq!(app.patch(&path, &json!({"active": false})).await.status, 202);
                let stored = total().await;
                is_over.store(true, Ordering::Relaxed);
                stored
            };
            let clients = join_all((0..8).map(|_| client()));
            let (stored, _) = tokio::join!(switch, clients);
            // MongoDB shows for a moment what is taken back.
            assert!(total().await <= stored);
            assert_eq!(app.patch(&path, &json!({"active": true})).await.status, 202);
        }
        let many = json!([body, body]);
        assert_eq!(app.patch(&path, &json!({"active": false})).await.status, 202);
        assert_eq!(app.post("/objects/bulk", &many).await.json()["created"], 0);
    }

    async fn of_two_puts_with_one_tag_exactly_one_succeeds(app) {
        let kind = app.create_type("kind", &[("colour", "text")]).await;
        let id = app.create_object(kind, &json!({"colour": "red"})).await;
        let path = format!("/objects/{id}");
        for round in 0..10 {
            let tag = app.get(&path).await.header("etag").to_owned();
            let put = |name: &str| {
                let body = json!({"author_id": 1, "fields": fields(&json!({"colour": format!("{name} {round}")}))});
                send(app.request(Method::PUT, &path).header("If-Match", &tag).json(&body))
            };
            let (first, second) = tokio::join!(put("green"), put("blue"));
            let mut statuses = [first.status.as_u16(), second.status.as_u16()];
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 412]);
        }
    }

    async fn puts_without_a_tag_all_succeed_one_after_the_other(app) {
        let kind = app.create_type("kind", &[("turn", "number")]).await;
        let id = app.create_object(kind, &json!({"turn": 0})).await;
        let put = |turn: usize| async move {
            let body = json!({"author_id": 1, "fields": fields(&json!({"turn": turn + 1}))});
            app.put(&format!("/objects/{id}"), &body).await
        };
        let answers = join_all((0..8).map(put)).await;
        assert!(answers.iter().all(|answer| answer.status == 200));
    }

    async fn of_equal_names_posted_at_once_one_is_taken(app) {
        let body = json!({"name": "same", "author_id": 1});
        let post = |_| app.post("/types/", &body);
        let answers = join_all((0..16).map(post)).await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
        assert!(answers.iter().filter(|answer| answer.status != 201).all(|answer| answer.error(400, "type_name_taken")["status"] == 400));
    }

    async fn a_type_never_goes_while_it_gets_an_object(app) {
        for round in 0..6 {
            let kind = app.create_type(&format!("kind-{round}"), &[]).await;
            let body = json!({"type_id": kind, "author_id": 1});
            let post = |_| app.post("/objects/", &body);
            let path = format!("/types/{kind}");
            let (posted, deleted) = tokio::join!(join_all((0..8).map(post)), app.delete(&path));
            let stored = posted.iter().filter(|answer| answer.status == 200).count();
            let filter = json!({"type_id": kind}).to_string();
            let total = app.get_with("/objects/", &[("filter", &filter)]).await.json()["total"].clone();
            assert_eq!(total, stored);
            match deleted.status.as_u16() {
                202 => assert_eq!(stored, 0, "objects of a type that is gone"),
                400 => assert!(app.get(&format!("/types/{kind}")).await.status == 200),
                other => panic!("{other}: {}", deleted.text),
            }
        }
    }

    async fn an_object_never_goes_while_it_gets_a_reference_that_is_refused(app) {
        let target = app.create_type("target", &[]).await;
        let fields = json!([{"type": "ref", "name": "to", "label": "To", "ref_types": [target]}]);
        let referring = app.created("/types/", &json!({"name": "referring", "author_id": 1, "fields": fields})).await;
        for _ in 0..10 {
            let id = app.create_object(target, &json!({})).await;
            let body = json!({"type_id": referring, "author_id": 1, "fields": [{"name": "to", "value": id}]});
            let post = |_| app.post("/objects/", &body);
            let path = format!("/objects/{id}?on_references=refuse");
            let (posted, deleted) = tokio::join!(join_all((0..4).map(post)), app.delete(&path));
            let referred = posted.iter().any(|answer| answer.status == 200);
            assert!(!(referred && deleted.status == 200), "{}", deleted.text);
        }
    }

    async fn categories_moved_at_once_never_close_a_cycle(app) {
        let first = app.created("/categories/", &json!({"name": "first"})).await;
        let second = app.created("/categories/", &json!({"name": "second"})).await;
        for _ in 0..6 {
            let (first_path, second_path) = (format!("/categories/{first}"), format!("/categories/{second}"));
            let (below_second, below_first) = (json!({"parent": second}), json!({"parent": first}));
            let (one, other) = tokio::join!(app.patch(&first_path, &below_second), app.patch(&second_path, &below_first));
            assert!(one.status != 202 || other.status != 202, "both moved: {} {}", one.text, other.text);
            for path in [first_path, second_path] {
                app.patch(&path, &json!({"parent": null})).await;
            }
        }
    }
}
