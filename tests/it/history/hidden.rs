//! What is hidden from a caller has no past.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::app::{on_each_store, send};

on_each_store! {
    async fn a_hidden_object_has_no_past_and_no_events(app) {
        let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        let body = json!({"name": "secret", "label": "Secret", "author_id": 1, "fields": [{"type": "text", "name": "note", "label": "Note"}],
            "acl": {"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}}});
        let kind = app.created("/types/", &body).await;
        let id = app.create_object(kind, &json!({"note": "treasure-one"})).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"note": "treasure-two"}})).await.status, 202);
        let user = json!({"user_name": "reader", "password": "a-long-password", "group_id": 2});
        app.created("/users/", &user).await;
        let rights = json!({"rights": ["base.framework.*"]});
        assert_eq!(app.patch("/groups/2", &rights).await.status, 202);
        let token = app.login("reader", "a-long-password").await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let ask = async |path: &str| send(app.anonymous(Method::GET, path).bearer_auth(&token)).await;
        let all = [
            format!("/objects/{id}/history"),
            format!("/objects/{id}?at={sequence}"),
            format!("/objects/{id}/native?at={sequence}"),
            format!("/objects/{id}/diff?from={sequence}"),
        ];
        let look = async || {
            for path in &all {
                let (hidden, unknown) = (ask(path).await, ask(&path.replace(&format!("/{id}"), "/4711")).await);
                assert_eq!((hidden.status, unknown.status), (StatusCode::FORBIDDEN, StatusCode::FORBIDDEN), "{path}: {} {}", hidden.text, unknown.text);
            }
            for path in ["/logs/?limit=0".to_owned(), format!("/changes/?since={since}&limit=100"), format!("/objects/?limit=0&at={sequence}")] {
                let answer = ask(&path).await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.text);
                assert!(!answer.text.contains("treasure"), "{path}: {}", answer.text);
                let results = answer.json()["results"].as_array().expect("a list").clone();
                let of_objects = results.iter().filter(|it| it["resource"] == "objects" || it["type_id"] == kind);
                assert_eq!(of_objects.collect::<Vec<&Value>>(), Vec::<&Value>::new(), "{path}");
            }
        };
        look().await;
        // Nor when the type is gone.
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        for path in ["/logs/?limit=0".to_owned(), format!("/changes/?since={since}&limit=100")] {
            let answer = ask(&path).await;
            let results = answer.json()["results"].as_array().expect("a list").clone();
            assert!(results.iter().all(|it| it["resource"] != "objects"), "{path}: {}", answer.text);
            assert!(!answer.text.contains("treasure"), "{path}: {}", answer.text);
        }
    }
}
