//! The line of a request in the log.

use std::time::Duration;

use bson::{Document, doc};
use inventory_service::app::open_store;
use inventory_service::domain::document::raw;
use inventory_service::query::Filter;
use inventory_service::store::collections::TYPES;
use inventory_service::store::{Change, FindQuery, Unit};
use serde_json::json;
use tempfile::TempDir;

use crate::moving::settings;
use crate::support::app::{ADMIN_PASSWORD, fields, send};
use crate::support::process::ServiceProcess;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Asks with values that no log has to show, and with a line end on the way.
async fn ask(service: &ServiceProcess) {
    let client = reqwest::Client::new();
    let url = format!("{}/rest/types/?filter=%7B%22name%22%3A%22confidential%22%7D%0A", service.origin);
    let request = client
        .get(url)
        .bearer_auth("no-good-token")
        .header("x-request-id", "probe-1")
        .header("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01"));
    assert_eq!(request.send().await.expect("an answer").status(), 401);
}

fn service(directory: &TempDir, format: &str) -> ServiceProcess {
    let variables = [("INVENTORY__LOG__FORMAT", format), ("INVENTORY__LOG__LEVEL", "info")];
    ServiceProcess::start_with(directory.path(), "embedded:data", &variables)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_of_a_request_names_id_route_status_and_trace_and_nothing_of_its_query() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = service(&directory, "text");
    ask(&service).await;
    let line = service.wait_for_line("probe-1");
    let (_, message) = line.split_once("] ").expect("a message");
    assert!(message.starts_with("probe-1 address=127.0.0.1 user=- GET /rest/types/ 401 "), "{line}");
    assert!(message.ends_with(&format!(" ms trace={TRACE} parent=b7ad6b7169203331")), "{line}");
    assert!(!line.contains("confidential") && !line.contains("no-good-token"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sign_in_is_a_warning_with_name_and_address_and_without_the_password() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = service(&directory, "text");
    let body = serde_json::json!({"user_name": "ada\nlovelace", "password": "not-the-password"});
    let login = reqwest::Client::new().post(format!("{}/rest/auth/login", service.origin)).json(&body);
    assert_eq!(login.send().await.expect("an answer").status(), 401);
    let line = service.wait_for_line("sign-in of");
    assert!(line.contains("WARN"), "{line}");
    assert!(line.ends_with(r#"sign-in of "ada\nlovelace" from 127.0.0.1 refused: wrong name or password"#), "{line}");
    assert!(!line.contains("not-the-password"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_json_when_a_setting_says_so() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = service(&directory, "json");
    ask(&service).await;
    let line: serde_json::Value = serde_json::from_str(&service.wait_for_line("probe-1")).expect("a line of JSON");
    let request = line["request"].as_object().expect("members");
    let names: Vec<&str> = request.keys().map(String::as_str).collect();
    assert_eq!(names, ["id", "address", "method", "route", "status", "ms", "trace_id", "parent_id"]);
    assert_eq!(
        (&line["level"], &request["route"], &request["status"]),
        (&"INFO".into(), &"/rest/types/".into(), &401.into())
    );
    assert_eq!(request["trace_id"], TRACE);
}

async fn token(service: &ServiceProcess) -> String {
    let body = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
    let login = send(reqwest::Client::new().post(format!("{}/rest/auth/login", service.origin)).json(&body)).await;
    login.json()["token"].as_str().expect("a token").to_owned()
}

async fn post(service: &ServiceProcess, path: &str, body: &serde_json::Value) -> u16 {
    let request = reqwest::Client::new().post(format!("{}/rest{path}", service.origin)).json(body);
    send(request.bearer_auth(token(service).await)).await.status.as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stored_pattern_that_is_no_regular_expression_is_told_with_type_and_field() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let field = json!({"type": "text", "name": "hostname", "label": "Host", "regex": "[a-z]+"});
    let rack = json!({"name": "rack", "author_id": 1, "fields": [field]});
    assert_eq!(post(&service, "/types/", &rack).await, 201);
    service.terminate();
    let uri = format!("embedded:{}", directory.path().join("data").display());
    let store = open_store(&settings(&uri).store).await.expect("the store opens");
    let query = FindQuery::new(Filter::equals("name", "rack"), Duration::from_secs(9));
    let found = store.find(TYPES, &query).await.expect("an answer");
    let before = found.first().expect("the type").to_owned();
    let mut after = Document::try_from(&before).expect("a document");
    let id = after.get_i64("public_id").expect("an id");
    after.insert("fields", vec![doc! {"type": "text", "name": "hostname", "label": "Host", "regex": "a)|(?:b"}]);
    let change = Change::Replace { collection: TYPES, before, after: raw(&after) };
    store.commit(Unit::of(change)).await.expect("as an older version stored it");
    drop(store);
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let object = json!({"type_id": id, "author_id": 1, "fields": fields(&json!({"hostname": "anything"}))});
    assert_eq!(post(&service, "/objects/", &object).await, 200);
    let line = service.wait_for_line("is no regular expression");
    assert!(line.contains(&format!("the pattern of the field hostname of type rack ({id})")), "{line}");
}
