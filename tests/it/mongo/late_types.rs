//! Two instances on one database: what one of them has just made is known to the other one before that has read the types
//! again.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::Person;
use crate::support::app::{TestApp, send};
use crate::support::mongod::{Deployment, shared};

/// Often enough that the other instance does not read the types on its own in between.
const ROUNDS: i64 = 6;

const READER: &[&str] =
    &["base.framework.object.*", "base.framework.type.view", "base.framework.log.view", "base.export.object.*"];

async fn instances() -> Option<(TestApp, TestApp)> {
    let uri = shared(Deployment::ReplicaSet).await?.fresh_uri();
    Some((TestApp::on(&uri, &[]).await, TestApp::on(&uri, &[]).await))
}

/// Waits until the other instance has read the types, and remembers them from here on.
async fn remembered(other: &TestApp) {
    tokio::time::sleep(Duration::from_millis(20)).await;
    let answer = other.get("/objects/?view=render&limit=1").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

fn secret(name: &str) -> Value {
    let all = ["CREATE", "READ", "UPDATE", "DELETE"];
    json!({"name": name, "author_id": 1, "fields": [{"type": "text", "name": "word", "label": "Word"}],
        "acl": {"activated": true, "groups": {"includes": {"1": all}}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_type_hides_its_objects_on_the_other_instance() {
    let Some((one, other)) = instances().await else { return };
    let open = one.create_type("open", &[("word", "text"), ("other", "ref")]).await;
    // Ids of types are no ids of objects here.
    let body = json!({"public_id": 7_000, "type_id": open, "author_id": 1, "fields": {"word": "seen"}});
    let seen = one.created("/objects/", &body).await;
    let ada = Person::with_rights(&one, "ada", READER).await;
    // Each question in rounds of its own: the first one makes the types known.
    let lists = [
        "/objects/?sort=-public_id",
        "/objects/?sort=-public_id&limit=500",
        "/objects/?sort=-public_id&view=render",
        r#"/objects/?sort=-public_id&projection={"fields":1}"#,
        r#"/objects/?sort=-public_id&projection={"type_id":0}"#,
        r#"/objects/?sort=-public_id&projection={"type_id":"$fields"}"#,
        r#"/objects/?sort=-public_id&projection={"fields":1}&limit=500"#,
        r#"/objects/?sort=-public_id&projection={"type_id":"$fields"}&limit=500"#,
        "/objects/?sort=-public_id&limit=10&after=",
        "/export/objects?format=ndjson",
        r#"/logs/?sort=-sequence&filter={"resource":"objects"}"#,
        "/objects/?sort=-public_id&at=NOW",
        "/objects/?sort=-public_id&at=NOW&limit=500",
        "/changes/?since=0&resource=objects",
    ];
    for round in 0..ROUNDS {
        for (number, list) in lists.iter().enumerate() {
            remembered(&other).await;
            let hidden = one.created("/types/", &secret(&format!("secret-{round}-{number}"))).await;
            let object = one.create_object(hidden, &json!({"word": "hush"})).await;
            let now = one.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].to_string();
            let answer = ada.get(&other, &list.replace("NOW", &now)).await;
            assert_eq!(answer.status, 200, "{list}: {}", answer.text);
            assert!(!answer.text.contains("hush"), "{list}: {}", answer.text);
            let names_it = answer.text.contains(&format!("\"public_id\":{object},"))
                || answer.text.contains(&format!("\"public_id\":{object}}}"));
            assert!(!names_it, "{list}: {}", answer.text);
            let is_log = list.starts_with("/logs") || list.starts_with("/changes");
            assert!(is_log || answer.text.contains("seen"), "{list}: {}", answer.text);
        }
        remembered(&other).await;
        let hidden = one.created("/types/", &secret(&format!("secret-{round}-object"))).await;
        let object = one.create_object(hidden, &json!({"word": "hush"})).await;
        let path = format!("/objects/{object}");
        let refused = match round % 5 {
            0 => ada.get(&other, &path).await,
            1 => ada.get(&other, &format!("{path}/native")).await,
            2 => ada.get(&other, &format!("{path}/history")).await,
            3 => ada.delete(&other, &path).await,
            _ => ada.send(&other, Method::PATCH, &path, &json!({"fields": {"word": "loud"}})).await,
        };
        assert_eq!(refused.status, 404, "{round}: {}", refused.text);
        let filter = format!(r#"/objects/?filter={{"public_id":{object}}}&expected_count=1"#);
        ada.delete(&other, &filter).await.error(412, "precondition_failed");
        assert_eq!(one.get(&format!("{path}/native")).await.json()["fields"][0]["value"], "hush");
        // What refers to it shows nothing of it.
        let link = one.create_object(open, &json!({"word": "seen", "other": null})).await;
        assert_eq!(ada.get(&other, &format!("/objects/{link}")).await.status, 200);
    }
    assert_eq!(ada.get(&other, &format!("/objects/{seen}")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_a_new_type_are_taken_by_the_other_instance() {
    let Some((one, other)) = instances().await else { return };
    for round in 0..ROUNDS {
        remembered(&other).await;
        let kind = one.create_type(&format!("rack-{round}"), &[("units", "number")]).await;
        let body = json!({"type_id": kind, "author_id": 1, "fields": {"units": round}});
        match round % 6 {
            0 => drop(other.created("/objects/", &body).await),
            1 => {
                let answer = other.post("/objects/bulk", &json!([body, {"type_id": 9999, "author_id": 1}])).await;
                let outcomes = answer.json()["results"].clone();
                assert!(outcomes[0]["result_id"].is_i64(), "{}", answer.text);
                assert_eq!(outcomes[1]["errors"][0]["pointer"], "/type_id", "{}", answer.text);
            }
            2 => {
                let answer = other.post("/objects/bulk?atomic=true", &json!([body])).await;
                assert!(answer.status.is_success(), "{}", answer.text);
            }
            3 => {
                let table = other.request(Method::POST, &format!("/import/objects?type_id={kind}&format=csv"));
                let answer = send(table.header("Content-Type", "text/csv").body("units\n4\n")).await;
                assert!(answer.status.is_success(), "{}", answer.text);
            }
            4 => {
                let category = json!({"name": format!("racks-{round}"), "types": [kind]});
                assert!(other.post("/categories/", &category).await.status.is_success());
            }
            _ => assert_eq!(other.get(&format!("/export/objects?format=csv&type_id={kind}")).await.status, 200),
        }
    }
    other
        .post("/objects/", &json!({"type_id": 9999, "author_id": 1, "fields": []}))
        .await
        .error(400, "validation_failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_field_is_known_to_the_other_instance() {
    let Some((one, other)) = instances().await else { return };
    let kind = one.create_type("rack", &[("units", "number")]).await;
    let object = one.create_object(kind, &json!({"units": 1})).await;
    let mut fields = vec![json!({"type": "number", "name": "units", "label": "Units"})];
    for round in 0..10 {
        let name = format!("extra{round}");
        remembered(&other).await;
        fields.push(json!({"type": "number", "name": name, "label": name}));
        let changed = one.patch(&format!("/types/{kind}"), &json!({"fields": fields})).await;
        assert!(changed.status.is_success(), "{}", changed.text);
        let body = json!({"type_id": kind, "author_id": 1, "fields": {&name: 7}});
        let filter = format!(r#"{{"f.{name}":{{"$ne":7}}}}"#);
        let answer = match round {
            0 => other.patch(&format!("/objects/{object}"), &json!({"fields": {&name: 7}})).await,
            1 => other.post("/objects/", &body).await,
            2 => other.post("/objects/bulk?atomic=true", &json!([body])).await,
            3 => other.get(&format!("/objects/?filter={filter}")).await,
            4 => other.get(&format!("/objects/?sort=f.{name}")).await,
            5 => {
                let pipeline = json!({"pipeline": [{"$match": {format!("f.{name}"): null}}, {"$limit": 1}]});
                other.post("/objects/aggregate", &pipeline).await
            }
            6 => other.get(&format!("/export/objects?format=ndjson&filter={filter}")).await,
            7 => {
                let path = format!(r#"/objects/?filter={{"public_id":{object}}}&expected_count=1"#);
                other.patch(&path, &json!({"fields": {&name: 7}})).await
            }
            8 => other.get(&format!("/changes/?resource=objects&filter={filter}")).await,
            _ => {
                let table = other.request(Method::POST, &format!("/import/objects?type_id={kind}&format=csv"));
                send(table.header("Content-Type", "text/csv").body(format!("{name}\n4\n"))).await
            }
        };
        assert!(answer.status.is_success(), "{round}: {}", answer.text);
    }
    other.get(r#"/objects/?filter={"f.nothing":1}"#).await.error(400, "query_2");
    other
        .patch(&format!("/objects/{object}"), &json!({"fields": {"nothing": 7}}))
        .await
        .error(400, "validation_failed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_without_a_type_is_seen_as_before() {
    let Some((one, other)) = instances().await else { return };
    let kind = one.create_type("rack", &[("units", "number")]).await;
    let object = one.create_object(kind, &json!({"units": 1})).await;
    let filter = inventory_service::query::Filter::equals("public_id", kind);
    let collection = inventory_service::store::collections::TYPES;
    let gone = inventory_service::store::Change::DeleteMany { collection, filter };
    one.store.commit(inventory_service::store::Unit::of(gone)).await.expect("it is removed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    for app in [&one, &other] {
        assert_eq!(app.get("/objects/").await.results("/public_id"), [object]);
        assert_eq!(app.get(&format!("/objects/{object}")).await.status, 200);
    }
    assert_eq!(other.delete(&format!("/objects/{object}")).await.status, 200);
}
