//! The service killed in the middle of an import: nothing is left of it, or whole groups that repeating completes.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::app::{ADMIN_PASSWORD, send};
use crate::support::mongod::{self, Deployment};
use crate::support::process::ServiceProcess;

const LINES: i64 = 6000;

struct Session {
    client: Client,
    origin: String,
    token: String,
}

impl Session {
    async fn begin(service: &ServiceProcess) -> Self {
        let client = Client::builder().timeout(Duration::from_mins(2)).build().expect("a client");
        let mut session = Self { client, origin: service.origin.clone(), token: String::new() };
        let body = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
        let answer = send(session.request(Method::POST, "/auth/login").json(&body)).await;
        answer.json()["token"].as_str().expect("a token").clone_into(&mut session.token);
        session
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/rest{path}", self.origin)).bearer_auth(&self.token)
    }

    fn import(&self, parameters: &str) -> RequestBuilder {
        let lines = (0..LINES).map(|number| format!("h{number},{number}\n"));
        let file: String = std::iter::once("hostname,cores\n".to_owned()).chain(lines).collect();
        let request = self.request(Method::POST, &format!("/import/objects?{parameters}"));
        request.header("Content-Type", "text/csv").body(file)
    }

    async fn create_type(&self) -> i64 {
        let field = |name: &str, kind: &str| json!({"type": kind, "name": name, "label": name});
        let body =
            json!({"name": "server", "author_id": 1, "fields": [field("hostname", "text"), field("cores", "number")]});
        let answer = send(self.request(Method::POST, "/types/").json(&body)).await;
        answer.json()["result_id"].as_i64().expect("an id")
    }

    async fn total(&self) -> i64 {
        let answer = send(self.request(Method::GET, "/objects/?limit=1")).await;
        answer.json()["total"].as_i64().expect("a total")
    }
}

async fn repeat(session: &Session, parameters: &str) -> Value {
    let answer = send(session.import(parameters)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_leaves_all_or_nothing_on_the_embedded_store() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let type_id = Session::begin(&service).await.create_type().await;
    service.kill();
    let parameters = format!("type_id={type_id}&key=hostname");
    for pause in [20, 200, 500, 1000] {
        let service = ServiceProcess::start(directory.path(), "embedded:data");
        let session = Arc::new(Session::begin(&service).await);
        assert!([0, LINES].contains(&session.total().await), "part of the file is stored");
        let (importing, parameters) = (Arc::clone(&session), parameters.clone());
        let import = tokio::spawn(async move { importing.import(&parameters).send().await.is_ok() });
        tokio::time::sleep(Duration::from_millis(pause)).await;
        service.kill();
        import.await.expect("the client ends");
    }
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let session = Session::begin(&service).await;
    let report = repeat(&session, &parameters).await;
    let counted = |name: &str| report[name].as_i64().expect("a number");
    assert_eq!(counted("created") + counted("unchanged"), LINES);
    assert_eq!(session.total().await, LINES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_leaves_what_repeating_completes_on_mongodb() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let uri = server.fresh_uri();
    let service = ServiceProcess::start(directory.path(), &uri);
    let session = Arc::new(Session::begin(&service).await);
    // Neither ids nor a key: only the note of the import knows which lines are stored.
    let parameters = format!("type_id={}", session.create_type().await);
    let (importing, file) = (Arc::clone(&session), parameters.clone());
    let import = tokio::spawn(async move { importing.import(&file).send().await.is_ok() });
    while session.total().await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    service.kill();
    let was_answered = import.await.expect("the client ends");
    let service = ServiceProcess::start(directory.path(), &uri);
    let session = Session::begin(&service).await;
    let stored = session.total().await;
    assert!(!was_answered && stored > 0 && stored < LINES, "{stored} lines were stored before the kill");
    let report = repeat(&session, &parameters).await;
    assert_eq!((report["created"].as_i64(), report["unchanged"].as_i64()), (Some(LINES - stored), Some(stored)));
    assert_eq!(session.total().await, LINES);
}

/// Kills the service at each of these moments (milliseconds) in the middle of an import under a key, of a file without ids and key
/// field, and sends the same again: each line becomes one object.
async fn each_line_becomes_one_object(directory: &TempDir, uri: &str, moments: &[u64]) {
    let service = ServiceProcess::start(directory.path(), uri);
    let parameters = format!("type_id={}", Session::begin(&service).await.create_type().await);
    service.kill();
    for moment in moments {
        let service = ServiceProcess::start(directory.path(), uri);
        let session = Arc::new(Session::begin(&service).await);
        let (importing, parameters) = (Arc::clone(&session), parameters.clone());
        let import = tokio::spawn(async move {
            importing.import(&parameters).header("Idempotency-Key", "the file").send().await.is_ok()
        });
        tokio::time::sleep(Duration::from_millis(*moment)).await;
        service.kill();
        let was_answered = import.await.expect("the client ends");
        println!("killed after {moment} ms, {}", if was_answered { "answered" } else { "without an answer" });
    }
    let service = ServiceProcess::start(directory.path(), uri);
    let session = Session::begin(&service).await;
    println!("{} of {LINES} lines are stored before the last repetition", session.total().await);
    for _ in 0..2 {
        let answer = send(session.import(&parameters).header("Idempotency-Key", "the file")).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(session.total().await, LINES);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_ids_is_stored_once_under_its_key_on_the_embedded_store() {
    let directory = TempDir::new().expect("a temporary directory");
    each_line_becomes_one_object(&directory, "embedded:data", &[50, 300, 600, 1200, 2500]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_without_ids_is_stored_once_under_its_key_on_mongodb() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    each_line_becomes_one_object(&directory, &server.fresh_uri(), &[50, 300, 600, 1200, 2500]).await;
}
