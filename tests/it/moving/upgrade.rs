//! Stores of older versions, as `tests/fixtures/make` has kept them, open and are right.

use std::fs::{self, File};
use std::path::Path;

use bson::Document;
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::backup::{run, succeeds};
use crate::support::app::{TestApp, send};
use crate::support::mongod::{self, Deployment};
use crate::support::process::ServiceProcess;

/// The versions, and how many entries of the history each has of the object that was changed: 0.1.0 had no history.
const VERSIONS: [(&str, u64); 2] = [("0.1.0", 0), ("0.2.0", 2)];

/// What a version left in a file.
fn kept(version: &str, name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{version}/{name}.zst"));
    let file = File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    zstd::stream::decode_all(file).expect("a compressed file")
}

/// Whether the answer of today has everything that the older one had.
fn has(today: &Value, older: &Value) -> bool {
    match (today, older) {
        (Value::Object(today), Value::Object(older)) => {
            older.iter().all(|(name, value)| today.get(name).is_some_and(|it| has(it, value)))
        }
        (Value::Array(today), Value::Array(older)) => {
            today.len() == older.len() && today.iter().zip(older).all(|(today, older)| has(today, older))
        }
        _ => today == older,
    }
}

/// Compares what the service answers with what the version answered, and changes something.
async fn is_right(app: &TestApp, (version, entries): (&str, u64)) {
    let told: Value = serde_json::from_slice(&kept(version, "answers.json")).expect("JSON");
    for (path, older) in told["answers"].as_object().expect("answers by path") {
        let today = app.get(&format!("{path}?limit=100&sort=public_id")).await.json()["results"].clone();
        for (position, older) in older.as_array().expect("a list").iter().enumerate() {
            let today = &today[position];
            assert!(has(today, older), "{version}, {path}:\n{today:#}\ninstead of\n{older:#}");
        }
    }
    let token = told["token"].as_str().expect("a token");
    let asked = send(app.anonymous(Method::GET, "/objects/?limit=1").bearer_auth(token)).await;
    let objects = told["answers"]["/objects/"].as_array().expect("objects");
    assert_eq!(
        (asked.status.as_u16(), &asked.json()["total"]),
        (200, &json!(objects.len())),
        "{version}: {}",
        asked.text
    );
    app.login("ada", "correct horse battery").await;
    let found = app.get_with("/objects/", &[("filter", r#"{"f.hostname": "web-7", "f.units": {"$gt": 9e15}}"#)]).await;
    let id = found.json()["results"][0]["public_id"].as_i64().expect("an object");
    let kept = app.get(&format!("/objects/{id}/history")).await.json();
    assert_eq!(kept["total"], entries, "{version}: {kept:#}");
    let changed = app.patch(&format!("/objects/{id}"), &json!({"fields": {"note": "changed by this version"}})).await;
    assert_eq!(changed.status, 202, "{version}: {}", changed.text);
    let history = app.get(&format!("/objects/{id}/history")).await.json();
    assert_eq!(history["total"], entries + 1, "{version}: {history:#}");
    let made = app.create_object(1, &json!({"name": "Genf 3"})).await;
    let last = objects.iter().filter_map(|object| object["public_id"].as_i64()).max();
    assert_eq!(Some(made - 1), last, "{version}: ids go on, also after a deletion");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_store_of_an_older_version_is_right_after_the_start() {
    for (version, entries) in VERSIONS {
        let directory = TempDir::new().expect("a temporary directory");
        let data = directory.path().join("data");
        fs::create_dir(&data).expect("a directory");
        fs::write(data.join("inventory.redb"), kept(version, "inventory.redb")).expect("a file");
        assert_eq!(ServiceProcess::start(directory.path(), "embedded:data").terminate(), Some(0), "{version}");
        succeeds(&run(directory.path(), &["check", "--deep"]));
        is_right(&TestApp::on(&format!("embedded:{}", data.display()), &[]).await, (version, entries)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_of_an_older_version_is_right_after_the_start() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    for (version, entries) in VERSIONS {
        let uri = server.fresh_uri();
        let client = mongodb::Client::with_uri_str(&uri).await.expect("a client");
        let database = client.default_database().expect("the URI names one");
        for line in String::from_utf8(kept(version, "mongodb.ndjson")).expect("text").lines() {
            let line: serde_json::Map<String, Value> = serde_json::from_str(line).expect("JSON");
            let line = Document::try_from(line).expect("extended JSON");
            let (name, document) = (line.get_str("collection"), line.get_document("document"));
            let (name, document) = (name.expect("a name"), document.expect("a document"));
            database.collection::<Document>(name).insert_one(document).await.expect("it is stored");
        }
        is_right(&TestApp::on(&uri, &[]).await, (version, entries)).await;
    }
}
