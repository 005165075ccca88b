//! The service killed while it makes the index of words, under writers: afterwards the index fits the objects.
//!
//! `INVENTORY_KILLS` sets how often.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::differential::number;
use crate::support::app::{fields, send};
use crate::support::mongod::{self, Deployment};
use crate::support::process::ServiceProcess;
use crate::support::remote::Client;

const WRITERS: usize = 4;
const OBJECTS: usize = 600;

/// Runs a command of the program on the store, and gives what it said.
fn said(directory: &Path, store_uri: &str, arguments: &[&str]) -> (bool, String) {
    let uri = format!("store.uri={store_uri}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    let ended =
        command.current_dir(directory).args(["--set", &uri]).args(arguments).output().expect("the binary starts");
    let text = [ended.stdout, ended.stderr].concat();
    (ended.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Makes, changes and deletes objects until the service is gone.
async fn write_until_gone(client: Arc<Client>, type_id: i64, writer: usize) {
    for round in 0.. {
        let body = |word: &str| json!({"type_id": type_id, "author_id": 1, "fields": fields(&json!({"text": word}))});
        let Some(made) = client.post("/objects/", &body(&format!("writer {writer} made {round}"))).await else {
            return;
        };
        let id = made.json()["result_id"].as_i64().unwrap_or_else(|| panic!("no id: {}", made.text));
        let path = format!("/objects/{id}");
        let put = client.request(Method::PUT, &path).json(&body(&format!("writer {writer} changed {round}")));
        let Some(changed) = Client::answer(put).await else { return };
        assert_eq!(changed.status, 200, "{}", changed.text);
        if round % 2 == 0 && Client::answer(client.request(Method::DELETE, &path)).await.is_none() {
            return;
        }
    }
}

async fn survives(directory: &Path, store_uri: &str) {
    let service = ServiceProcess::start(directory, store_uri);
    let client = Client::sign_in(&service.origin).await;
    let text = json!([{"type": "text", "name": "text", "label": "Text"}]);
    let made = client
        .post("/types/", &json!({"name": "note", "author_id": 1, "fields": text, "indexes": [["text"]]}))
        .await
        .expect("an answer");
    let type_id = made.json()["result_id"].as_i64().expect("an id");
    let bodies: Vec<Value> = (0..OBJECTS)
        .map(|number| json!({"type_id": type_id, "author_id": 1, "fields": fields(&json!({"text": format!("old {number}")}))}))
        .collect();
    let made = client.post("/objects/bulk", &json!(bodies)).await.expect("an answer");
    assert_eq!(made.status, 200, "{}", made.text);
    service.kill();
    let kills = number("INVENTORY_KILLS").unwrap_or(4);
    for round in 0..kills {
        let (is_noted, text) = said(directory, store_uri, &["reindex"]);
        assert!(is_noted, "{text}");
        let service = ServiceProcess::start(directory, store_uri);
        let client = Arc::new(Client::sign_in(&service.origin).await);
        let writers: Vec<_> =
            (0..WRITERS).map(|writer| tokio::spawn(write_until_gone(Arc::clone(&client), type_id, writer))).collect();
        tokio::time::sleep(Duration::from_millis(20 + 45 * (round % 6))).await;
        service.kill();
        for writer in writers {
            writer.await.expect("the writer ends");
        }
    }
    let service = ServiceProcess::start(directory, store_uri);
    let client = Client::sign_in(&service.origin).await;
    loop {
        let answer = send(client.request(Method::GET, "/search/?q=old&limit=100")).await;
        if answer.header("inventory-warning").is_empty() {
            assert_eq!(answer.json()["count"], 100, "{}", answer.text);
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(service.terminate(), Some(0));
    let (is_sound, text) = said(directory, store_uri, &["check", "--deep"]);
    assert!(is_sound && !text.contains("not complete"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_was_being_made_fits_after_kills_of_the_embedded_store() {
    let directory = TempDir::new().expect("a temporary directory");
    survives(directory.path(), "embedded:data").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_was_being_made_fits_after_kills_on_mongodb() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    survives(directory.path(), &server.fresh_uri()).await;
}
