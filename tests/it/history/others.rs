//! Changes by other tools on a replica set: noted when they happen.

use std::time::Duration;

use bson::{Document, doc, oid::ObjectId};
use mongodb::{Client, Database};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::reader::Reader;
use crate::support::app::TestApp;
use crate::support::mongod::{self, Deployment};
use crate::support::process::ServiceProcess;
use crate::webhooks::receiver::{ALLOWED, Receiver};

/// Much longer than a note takes.
const AT_ONCE: Duration = Duration::from_secs(30);

/// The entries of changes by other tools.
fn outside() -> Document {
    doc! { "action": "OUTSIDE" }
}

async fn noted(database: &Database) -> u64 {
    database.collection::<Document>("framework.logs").count_documents(outside()).await.expect("a number")
}

/// Edits an object until somebody notes it: a service begins to listen soon after its start.
async fn until_somebody_listens(database: &Database, id: i64) {
    let objects = database.collection::<Document>("framework.objects");
    for views in 1_i64.. {
        objects.update_one(doc! { "public_id": id }, doc! { "$set": { "views": views } }).await.expect("edited");
        tokio::time::sleep(Duration::from_millis(500)).await;
        if noted(database).await > 0 {
            // The last edit is noted, too.
            return tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// The next events of changes by other tools, in any order: resource, id, kind, the value of the first field.
async fn told(reader: &mut Reader, count: usize) -> Vec<String> {
    let events = async {
        let mut told = Vec::new();
        while told.len() < count {
            let (resource, _, data) = reader.event().await.expect("an event");
            if data["action"] == "OUTSIDE" {
                let (id, kind) = (&data["public_id"], data["kind"].as_str().expect("a kind"));
                let value = data["document"].pointer("/fields/0/value").unwrap_or(&Value::Null);
                told.push(format!("{resource} {id} {kind} {value}"));
            }
        }
        told.sort();
        told
    };
    tokio::time::timeout(AT_ONCE, events).await.expect("events that come at once")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_tool_changes_is_noted_at_once_and_once() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let (uri, directory) = (server.fresh_uri(), TempDir::new().expect("a temporary directory"));
    let app = TestApp::on(&uri, &[ALLOWED]).await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let mut ids = Vec::new();
    for name in ["listened", "updated", "replaced", "deleted", "own"] {
        ids.push(app.create_object(kind, &json!({"hostname": name})).await);
    }
    let allowed = [("INVENTORY__WEBHOOKS__ALLOWED_NETWORKS", ALLOWED.1)];
    let services = [(); 2].map(|()| ServiceProcess::start_with(directory.path(), &uri, &allowed));
    let database = Client::with_uri_str(&uri).await.expect("a client").default_database().expect("a database");
    until_somebody_listens(&database, ids[0]).await;
    let before = noted(&database).await;
    let receiver = Receiver::start();
    let hook = json!({"name": "a", "url": receiver.url(), "resources": ["objects"]});
    assert_eq!(app.post("/webhooks/", &hook).await.status, 201);
    let mut reader = Reader::open(app.request(Method::GET, "/changes/"), None).await.expect("a stream");

    let objects = database.collection::<Document>("framework.objects");
    let by_id = |id: i64| doc! { "public_id": id };
    let mut replaced = objects.find_one(by_id(ids[2])).await.expect("an answer").expect("an object");
    objects.delete_one(by_id(ids[3])).await.expect("deleted");
    objects.update_one(by_id(ids[1]), doc! { "$set": { "fields.0.value": "x" } }).await.expect("updated");
    replaced.insert("fields", vec![doc! { "name": "hostname", "value": "y" }]);
    objects.replace_one(by_id(ids[2]), &replaced).await.expect("replaced");
    replaced.extend(doc! { "_id": ObjectId::new(), "public_id": 900_i64 });
    objects.insert_one(&replaced).await.expect("inserted");
    let mut expected = vec![
        format!("objects {} change \"x\"", ids[1]),
        format!("objects {} change \"y\"", ids[2]),
        format!("objects {} leave null", ids[3]),
        "objects 900 change \"y\"".to_owned(),
    ];
    expected.sort();
    assert_eq!(told(&mut reader, 4).await, expected);
    // Values of objects are hidden as long as the state of their type is unknown, so it comes last.
    let types = database.collection::<Document>("framework.types");
    types.update_one(by_id(kind), doc! { "$set": { "label": "Edited" } }).await.expect("updated");
    assert_eq!(told(&mut reader, 1).await, [format!("types {kind} change null")]);
    let mut sent: Vec<Value> = (0..4).map(|_| receiver.next().json()["data"]["public_id"].clone()).collect();
    sent.sort_by_key(Value::as_i64);
    assert_eq!(sent, [json!(ids[1]), json!(ids[2]), json!(ids[3]), json!(900)]);
    let history = app.get(&format!("/objects/{}/history?limit=0", ids[1])).await;
    assert_eq!(history.results("/action"), ["CREATE", "OUTSIDE"]);
    assert_eq!(app.get("/objects/900/history").await.results("/user_id"), [Value::Null]);

    // What the service writes itself is noted by nobody.
    for number in 0..20 {
        let id = app.create_object(kind, &json!({"hostname": number.to_string()})).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": "own"}})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
    }
    objects.update_one(by_id(ids[4]), doc! { "$set": { "fields.0.value": "z" } }).await.expect("updated");
    assert_eq!(told(&mut reader, 1).await, [format!("objects {} change \"z\"", ids[4])]);
    assert_eq!(noted(&database).await, before + 6);

    // What nobody sees comes with the next change.
    services.into_iter().for_each(ServiceProcess::kill);
    objects.update_one(by_id(ids[4]), doc! { "$set": { "views": 7_i64 } }).await.expect("updated");
    assert_eq!(app.patch(&format!("/objects/{}", ids[4]), &json!({"fields": {"hostname": "b"}})).await.status, 202);
    let history = app.get(&format!("/objects/{}/history?limit=0", ids[4])).await;
    assert_eq!(history.results("/action"), ["CREATE", "OUTSIDE", "OUTSIDE", "EDIT"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_tool_changes_comes_into_the_indexes_of_its_type() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let (uri, directory) = (server.fresh_uri(), TempDir::new().expect("a temporary directory"));
    let app = TestApp::on(&uri, &[]).await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let mut ids = Vec::new();
    for name in ["b", "c", "d"] {
        ids.push(app.create_object(kind, &json!({"hostname": name})).await);
    }
    let indexes = json!({"indexes": [["hostname"]]});
    assert_eq!(app.patch(&format!("/types/{kind}"), &indexes).await.status, 202);
    let _service = ServiceProcess::start(directory.path(), &uri);
    let database = Client::with_uri_str(&uri).await.expect("a client").default_database().expect("a database");
    let objects = database.collection::<Document>("framework.objects");
    let listed = async || {
        let path = format!("/objects/?filter={{\"type_id\":{kind}}}&sort=f.hostname");
        let explained = app.get(&format!("{path}&explain=true")).await.json();
        let is_by_index = explained["plan"]["index"] == format!("type {kind}: hostname");
        (is_by_index, app.get(&path).await.results("/public_id"))
    };
    let until = async |expected: Vec<i64>| {
        let expected = (true, expected.into_iter().map(Value::from).collect::<Vec<_>>());
        let met = async {
            while listed().await != expected {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(AT_ONCE, met).await.unwrap_or_else(|_| panic!("{expected:?}"));
    };
    until(ids.clone()).await;
    let rename = doc! { "$set": { "fields.0.value": "a" } };
    objects.update_one(doc! { "public_id": ids[2] }, rename).await.expect("updated");
    until(vec![ids[2], ids[0], ids[1]]).await;
    objects.delete_one(doc! { "public_id": ids[0] }).await.expect("deleted");
    until(vec![ids[2], ids[1]]).await;
}
