//! Questions that try to disclose what an access list hides: by an error, by a count of work, by a hint.
//!
//! `hidden` holds the law for all routes; here are the attacks that were once successful.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store, send};

const SECRET: i64 = 4_242;

/// Somebody who may view objects, and an object of a type that is hidden from this user; one more is not.
async fn outsider(app: &TestApp) -> (Person, i64) {
    let open = app.create_type("open", &[]).await;
    app.create_object(open, &json!({})).await;
    let closed = app.create_type("closed", &[("salary", "number"), ("text", "text")]).await;
    let text = format!("{}!", "a".repeat(30));
    let hidden = app.create_object(closed, &json!({"salary": SECRET, "text": text})).await;
    let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
    assert_eq!(app.patch(&format!("/types/{closed}"), &acl).await.status, 202);
    let rights = ["base.framework.object.*", "base.export.object.*"];
    (Person::with_rights(app, "outsider", &rights).await, hidden)
}

/// Divides by zero on the hidden object, if its number is above `bound`.
fn bisecting(hidden: i64, bound: i64) -> Value {
    let is_above = json!({"$gt": [{"$arrayElemAt": ["$fields.value", 0]}, bound]});
    let divides = json!({"$eq": [1, {"$divide": [1, {"$cond": [is_above, 0, 1]}]}]});
    json!({"public_id": hidden, "$or": [{"type_id": -1}, {"$expr": divides}]})
}

/// The answer without the number of its request.
fn said(answer: &Answer) -> (u16, Value) {
    let mut body = serde_json::from_str(&answer.text).unwrap_or(Value::Null);
    if let Some(members) = body.as_object_mut() {
        members.retain(|name, _| {
            !["request_id", "instance", "time", "parameters", "pager", "pagination"].contains(&name.as_str())
        });
    }
    (answer.status.as_u16(), body)
}

on_each_store! {
    async fn a_number_is_not_read_by_dividing_by_zero(app) {
        let (outsider, hidden) = outsider(app).await;
        for (method, path) in [
            (Method::GET, "/objects/?limit=3"), (Method::GET, "/objects/?limit=500"), (Method::GET, "/objects/?view=render"),
            (Method::GET, "/objects/?sort=fields.salary"), (Method::GET, "/export/objects?format=ndjson"),
            (Method::PATCH, "/objects/?expected_count=9"), (Method::DELETE, "/objects/?expected_count=9"),
        ] {
            let mut answers = Vec::new();
            for bound in [SECRET - 1, SECRET] {
                let filter = bisecting(hidden, bound).to_string();
                let request = outsider.request(app, method.clone(), path).query(&[("filter", filter)]);
                let patch = json!({"fields": []});
                answers.push(said(&send(if method == Method::PATCH { request.json(&patch) } else { request }).await));
            }
            assert_eq!(answers[0], answers[1], "{method} {path}");
        }
    }

    async fn neither_projections_nor_conversions_nor_memory_tell_of_hidden_objects(app) {
        let (outsider, hidden) = outsider(app).await;
        let with = |hit: &str| {
            let is_it = json!({"$in": [hit, {"$ifNull": ["$fields.name", []]}]});
            [
                json!({"$toInt": {"$cond": [is_it, "x", "1"]}}),
                json!({"$size": {"$range": [0, {"$cond": [is_it, 90_000_000, 1]}]}}),
                json!({"$regexMatch": {"input": "a", "regex": {"$cond": [is_it, "(", "a"]}}}),
            ]
        };
        for (hit, miss) in with("salary").into_iter().zip(with("nothing")) {
            let mut answers = Vec::new();
            for expression in [hit, miss] {
                let filter = json!({"$or": [{"public_id": -1}, {"$expr": {"$eq": ["none", &expression]}}]});
                let body = json!({"filter": {"$and": [{"public_id": hidden}, filter]}, "projection": {"made": expression}});
                answers.push(said(&outsider.send(app, Method::POST, "/objects/query", &body).await));
            }
            assert_eq!(answers[0], answers[1]);
        }
        for pattern in ["(a|a)*(a|a)*(a|a)*b", "nothing"] {
            let filter = json!({"public_id": hidden, "fields.value": {"$regex": pattern}});
            let answer = outsider.send(app, Method::POST, "/objects/query", &json!({"filter": filter})).await;
            assert_eq!((answer.status.as_u16(), &answer.json()["total"]), (200, &json!(0)), "{pattern}");
        }
    }

    async fn a_caller_from_whom_something_is_hidden_gets_a_plan_without_counts(app) {
        let (outsider, hidden) = outsider(app).await;
        for filter in [json!({"public_id": hidden}), json!({"fields.value": SECRET}), json!({"$expr": {"$gt": ["$views", -1]}})] {
            let asked = format!("/objects/?explain=true&filter={filter}");
            let body = outsider.get(app, &asked).await.json();
            for name in ["keys_examined", "documents_examined", "time_us", "hint"] {
                assert!(body.get(name).is_none(), "{name}: {body}");
            }
            assert!(body["plan"]["kind"].is_string() && body["returned"].is_u64() && body["total"].is_u64(), "{body}");
            assert!(app.get(&asked).await.json()["documents_examined"].is_u64());
        }
    }

    async fn a_hidden_id_and_one_that_does_not_exist_are_answered_alike(app) {
        let (outsider, hidden) = outsider(app).await;
        for path in ["", "/native", "/references"] {
            let answer = outsider.get(app, &format!("/objects/{hidden}{path}")).await.error(404, "object_not_found");
            let nobodys = outsider.get(app, &format!("/objects/999{path}")).await.error(404, "object_not_found");
            let text = |body: &Value, id: i64| body["message"].as_str().expect("a message").replace(&id.to_string(), "N");
            assert_eq!(text(&answer, hidden), text(&nobodys, 999));
        }
        app.get("/objects/999").await.error(404, "object_not_found");
    }
}
