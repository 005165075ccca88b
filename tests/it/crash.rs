//! The service killed while clients write: nothing that was acknowledged is lost, nothing is there by half.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::RawDocument;
use inventory_service::query::Filter;
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{FindQuery, Store, collections};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use crate::support::app::{fields, send};
use crate::support::process::ServiceProcess;
use crate::support::remote::Client;

const ROUNDS: u64 = 20;
const CLIENTS: usize = 16;

/// Posts until the service is gone; gives id and serial of what was acknowledged.
async fn post_until_gone(client: Arc<Client>, type_id: i64, serials: Arc<AtomicU64>) -> Vec<(i64, u64)> {
    let mut acknowledged = Vec::new();
    loop {
        let serial = serials.fetch_add(1, Ordering::Relaxed);
        let values = json!({"serial": serial, "text": format!("object {serial} ").repeat(20)});
        let body = json!({"type_id": type_id, "author_id": 1, "fields": fields(&values)});
        let Some(answer) = client.post("/objects/", &body).await else { return acknowledged };
        assert_eq!(answer.status, 200, "{}", answer.text);
        acknowledged.push((answer.json()["result_id"].as_i64().expect("an id"), serial));
    }
}

/// Every object in the store, by id: serial and text.
async fn stored(client: &Client) -> HashMap<i64, (u64, String)> {
    let mut objects = HashMap::new();
    let mut page = 1;
    loop {
        let answer = send(client.request(Method::GET, &format!("/objects/?limit=5000&page={page}"))).await;
        let body = answer.json();
        for object in body["results"].as_array().expect("results") {
            let serial = object["fields"][0]["value"].as_u64().expect("a serial");
            let text = object["fields"][1]["value"].as_str().expect("a text").to_owned();
            let id = object["public_id"].as_i64().expect("an id");
            assert!(objects.insert(id, (serial, text)).is_none(), "the id {id} is there twice");
        }
        if body["count"].as_u64() < Some(5000) {
            assert_eq!(body["total"].as_u64(), u64::try_from(objects.len()).ok());
            return objects;
        }
        page += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_after_kill() {
    let directory = TempDir::new().expect("a temporary directory");
    let serials = Arc::new(AtomicU64::new(1));
    let mut acknowledged: HashMap<i64, u64> = HashMap::new();
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let client = Client::sign_in(&service.origin).await;
    let text = |name: &str, kind: &str| json!({"type": kind, "name": name, "label": name});
    let body = json!({"name": "thing", "author_id": 1, "fields": [text("serial", "number"), text("text", "text")]});
    let type_id = client.post("/types/", &body).await.expect("an answer").json()["result_id"].as_i64().expect("an id");
    service.kill();
    for round in 0..ROUNDS {
        let service = ServiceProcess::start(directory.path(), "embedded:data");
        let client = Arc::new(Client::sign_in(&service.origin).await);
        let objects = stored(&client).await;
        for (id, serial) in &acknowledged {
            let (stored_serial, text) = objects.get(id).unwrap_or_else(|| panic!("object {id} is lost"));
            assert_eq!(stored_serial, serial);
            assert_eq!(*text, format!("object {serial} ").repeat(20));
        }
        let posting = |_| tokio::spawn(post_until_gone(Arc::clone(&client), type_id, Arc::clone(&serials)));
        let posting: Vec<_> = (0..CLIENTS).map(posting).collect();
        // Kills at many different moments of a group commit.
        tokio::time::sleep(Duration::from_millis(60 + 37 * (round % 7))).await;
        service.kill();
        for client in posting {
            for (id, serial) in client.await.expect("the client ends") {
                assert!(acknowledged.insert(id, serial).is_none(), "the id {id} was given twice");
            }
        }
    }
    assert!(acknowledged.len() > 200, "only {} writes were acknowledged", acknowledged.len());
    unique_index_agrees_with_documents(&directory, &acknowledged).await;
}

/// Opens the store as the last kill left it; each document is found by its key, and by that key alone.
async fn unique_index_agrees_with_documents(directory: &TempDir, acknowledged: &HashMap<i64, u64>) {
    let store = EmbeddedStore::open(&directory.path().join("data"), &Options::default()).expect("the store opens");
    store.prepare(collections::ALL).await.expect("the collections are there");
    let patience = Duration::from_mins(1);
    let all = store.find(collections::OBJECTS, &FindQuery::new(Filter::all(), patience)).await.expect("a scan");
    assert!(all.len() >= acknowledged.len());
    for document in all.iter() {
        let id = document.get_i64("public_id").expect("an id");
        let by_key = FindQuery::new(Filter::equals("public_id", id), patience);
        let found = store.find(collections::OBJECTS, &by_key).await.expect("an answer");
        assert_eq!(found.iter().map(RawDocument::as_bytes).collect::<Vec<_>>(), [document.as_bytes()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminated_service_ends_well() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    assert_eq!(service.terminate(), Some(0));
}
