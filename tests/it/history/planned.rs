//! The plans of the service's own questions: none reads all objects or the whole history.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use inventory_service::store::collections::{LOGS, OBJECTS};
use inventory_service::store::{AggregateQuery, FindQuery, Step, Store, StoreError, Total};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, fields, send};
use crate::support::mongod::{Deployment, shared};
use crate::support::watched::{Watched, Watcher};

/// Has each question explained, and notes those that scan.
#[derive(Default)]
struct Plans(Mutex<Vec<String>>);

/// Whether a plan examines all documents somewhere.
fn scans(plan: &Step) -> bool {
    match plan {
        Step::Scan => true,
        Step::Union { of } | Step::Other { of, .. } => of.iter().any(scans),
        _ => false,
    }
}

#[async_trait]
impl Watcher for Plans {
    async fn find(&self, store: &dyn Store, collection: &str, query: &FindQuery, _: Total) -> Result<(), StoreError> {
        if [LOGS, OBJECTS].contains(&collection) {
            let plan = store.explain(collection, query).await?.plan;
            if scans(&plan) {
                let (filter, sort) = (query.filter.document(), query.sort.keys());
                let sort: Vec<&str> = sort.iter().map(|key| key.path.as_str()).collect();
                self.0.lock().expect("a lock").push(format!("{collection}: {filter} by {sort:?}"));
            }
        }
        Ok(())
    }

    async fn pipeline(&self, store: &dyn Store, collection: &str, query: &AggregateQuery) -> Result<(), StoreError> {
        let front = query.pipeline.front();
        let mut asked = FindQuery::new(front.filter, Duration::from_secs(10)).sorted(front.sort).limited(front.limit);
        asked.skip = front.skip;
        self.find(store, collection, &asked, Total::Unasked).await
    }
}

/// What was scanned since the last call.
fn scanned(plans: &Plans) -> Vec<String> {
    std::mem::take(&mut *plans.0.lock().expect("a lock"))
}

async fn no_question_scans(app: &TestApp, noted: &Plans) {
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let definitions = json!([
        {"type": "text", "name": "host", "label": "H", "unique": true},
        {"type": "ref", "name": "rack", "label": "R", "ref_types": [rack], "on_delete": "clear"},
    ]);
    let server = app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": definitions})).await;
    let first = app.create_object(rack, &json!({"name": "r1"})).await;
    let object = |number: i64| json!({"type_id": server, "author_id": 1, "fields": fields(&json!({"host": format!("h{number}"), "rack": first}))});
    let many: Vec<Value> = (0..400).map(object).collect();
    let sent = app.request(Method::POST, "/objects/bulk").header("X-Request-ID", "bulk-1").json(&json!(many));
    let made = send(sent).await;
    assert!(made.status.is_success(), "{}", made.text);
    let id = app.get("/objects/?filter=%7B%22f.host%22%3A%22h7%22%7D").await.json()["results"][0]["public_id"].clone();
    scanned(noted);
    let under = |method: Method, path: String| app.request(method, &path).header("X-Request-ID", "edit-1");
    for (method, path, body) in [
        (Method::GET, "/logs/?sort=-time".to_owned(), None),
        (Method::GET, "/logs/?sort=time&limit=5".to_owned(), None),
        (Method::GET, "/logs/".to_owned(), None),
        (Method::GET, format!("/objects/{id}"), None),
        (Method::GET, format!("/objects/{id}/history"), None),
        (Method::GET, format!("/objects/{first}/references"), None),
        (Method::GET, format!("/objects/{id}/graph?depth=2"), None),
        (Method::GET, "/changes/?since=1&limit=5".to_owned(), None),
        (Method::PATCH, format!("/objects/{id}"), Some(json!({"fields": {"host": "other"}}))),
        (Method::POST, "/objects/".to_owned(), Some(object(1000))),
        (Method::DELETE, format!("/objects/{id}"), None),
        (Method::POST, format!("/objects/{id}/restore"), None),
        (Method::GET, format!("/objects/{id}/history"), None),
        (Method::POST, "/logs/undo".to_owned(), Some(json!({"request_id": "edit-1", "dry_run": true}))),
        (Method::DELETE, format!("/objects/{first}"), None),
    ] {
        let request = under(method.clone(), path.clone());
        let answer = send(match &body {
            Some(body) => request.json(body),
            None => request,
        })
        .await;
        assert!(answer.status.is_success(), "{method} {path}: {}", answer.text);
        assert_eq!(scanned(noted), Vec::<String>::new(), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_question_of_the_service_scans_on_the_embedded_store() {
    let noted = Arc::<Plans>::default();
    let app = TestApp::embedded_around(|inner| Arc::new(Watched { inner, watcher: Arc::clone(&noted) })).await;
    no_question_scans(&app, &noted).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_question_of_the_service_scans_on_mongodb() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let noted = Arc::<Plans>::default();
    let app =
        TestApp::around(&server.fresh_uri(), |inner| Arc::new(Watched { inner, watcher: Arc::clone(&noted) })).await;
    no_question_scans(&app, &noted).await;
}
