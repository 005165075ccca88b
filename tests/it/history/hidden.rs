//! What is hidden from a caller has no past.

use inventory_service::query::Filter;
use inventory_service::store::collections::TYPES;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::kept::{changed_outside, stored};
use crate::api::people::Person;
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

    async fn a_type_that_another_tool_changed_hides_its_objects_at_earlier_moments_too(app) {
        let body = json!({"name": "secret", "label": "Secret", "author_id": 1, "fields": [{"type": "text", "name": "note", "label": "Note"}],
            "acl": {"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}}});
        let kind = app.created("/types/", &body).await;
        let id = app.create_object(kind, &json!({"note": "treasure-one"})).await;
        let gone = app.create_object(kind, &json!({"note": "treasure-two"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let before = stored(app, TYPES, Filter::equals("public_id", kind)).await.remove(0);
        let mut after = before.clone();
        after.insert("description", "by another tool");
        changed_outside(app, TYPES, &before, &after).await;
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"label": "Secrets"})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{gone}")).await.status, 200);
        let reader = Person::with_rights(app, "reader", &["base.framework.*"]).await;
        let look = async || {
            let list = reader.get(app, &format!("/objects/?limit=0&at={sequence}")).await;
            assert_eq!((list.status, &list.json()["total"]), (StatusCode::OK, &json!(0)), "{}", list.text);
            for path in ["native?at=AT", "native", "diff?from=AT", "restore"] {
                let said = async |id: i64| {
                    let path = format!("/objects/{id}/{}", path.replace("AT", &sequence.to_string()));
                    let method = if path.ends_with("restore") { Method::POST } else { Method::GET };
                    let answer = send(reader.request(app, method, &path)).await;
                    assert!([403, 404].contains(&answer.status.as_u16()), "{path}: {}", answer.text);
                    (answer.status, answer.json()["message"].to_string().replacen(&id.to_string(), "ID", 1))
                };
                assert_eq!(said(gone).await, said(4711).await, "{path}");
                assert_eq!(said(id).await, said(4711).await, "{path}");
            }
        };
        look().await;
        // Nor when the type is gone.
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        look().await;
    }
}
