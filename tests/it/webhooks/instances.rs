//! Several instances, and restarts.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::receiver::{ALLOWED, Receiver};
use crate::support::app::{ADMIN_PASSWORD, TestApp};
use crate::support::mongod::{self, Deployment, Mongod};
use crate::support::process::ServiceProcess;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_instances_one_delivers_each_event() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let one = TestApp::on(&uri, &[ALLOWED]).await;
    let other = TestApp::on(&uri, &[ALLOWED]).await;
    let receiver = Receiver::start();
    let hook = json!({"name": "a", "url": receiver.url(), "resources": ["objects"]});
    assert_eq!(one.post("/webhooks/", &hook).await.status, 201);
    let kind = one.create_type("server", &[("hostname", "text")]).await;
    for number in 0..20 {
        let app = if number % 2 == 0 { &one } else { &other };
        app.create_object(kind, &json!({"hostname": number.to_string()})).await;
    }
    one.create_object(kind, &json!({"hostname": "last"})).await;
    let mut ids = Vec::new();
    loop {
        let came = receiver.next();
        ids.push(came.id().to_owned());
        if came.data("/document/fields/0/value") == "last" {
            break;
        }
    }
    ids.extend(receiver.rest().iter().map(|message| message.id().to_owned()));
    assert_eq!((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (21, 21), "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_lost_the_store_goes_on_when_it_is_back() {
    let Some(program) = mongod::program() else { return };
    let mut server = Mongod::start(program, Deployment::ReplicaSet).await;
    let settings = [ALLOWED, ("store.connect_timeout_ms", "1000"), ("query.max_time_ms", "1000")];
    let app = TestApp::on(&server.fresh_uri(), &settings).await;
    let receiver = Receiver::start();
    let hook = json!({"name": "a", "url": receiver.url(), "resources": ["objects"]});
    assert_eq!(app.post("/webhooks/", &hook).await.status, 201);
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    app.create_object(kind, &json!({"hostname": "before"})).await;
    assert_eq!(receiver.next().data("/document/fields/0/value"), "before");
    server.stop().await;
    // Too long to keep the lease.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(6) {
        app.get("/types/").await.error(503, "store_unavailable");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server.start_again().await;
    while app.get("/types/").await.status != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    app.create_object(kind, &json!({"hostname": "after"})).await;
    let begun = Instant::now();
    // What was sent and could not be noted comes again.
    while receiver.next().data("/document/fields/0/value") != "after" {}
    assert!(begun.elapsed() < Duration::from_secs(20), "another instance would take over after half a minute");
}

/// A service that is started again and again on one store.
struct Restarted {
    directory: TempDir,
    uri: String,
    client: Client,
}

impl Restarted {
    fn start(&self) -> ServiceProcess {
        let allowed = [("INVENTORY__WEBHOOKS__ALLOWED_NETWORKS", ALLOWED.1)];
        ServiceProcess::start_with(self.directory.path(), &self.uri, &allowed)
    }

    async fn post(&self, service: &ServiceProcess, path: &str, body: &Value) -> Value {
        let login = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
        let request = |path: &str| self.client.request(Method::POST, format!("{}/rest{path}", service.origin));
        let token = request("/auth/login").json(&login).send().await.expect("an answer");
        let token: Value = token.json().await.expect("JSON");
        let made = request(path).bearer_auth(token["token"].as_str().expect("a token")).json(body).send().await;
        let made = made.expect("an answer");
        assert!(made.status().is_success(), "{path}: {}", made.status());
        made.json().await.expect("JSON")
    }

    async fn object(&self, service: &ServiceProcess, name: &str) {
        let body = json!({"type_id": 1, "author_id": 1, "fields": [{"name": "hostname", "value": name}]});
        self.post(service, "/objects/", &body).await;
    }
}

/// Loses nothing over an end of the service, by a signal or by a crash.
async fn nothing_is_lost(uri: String, directory: TempDir, end: fn(ServiceProcess)) {
    let world = Restarted { directory, uri, client: Client::new() };
    let receiver = Receiver::start();
    let service = world.start();
    let kind =
        json!({"name": "server", "author_id": 1, "fields": [{"type": "text", "name": "hostname", "label": "Name"}]});
    world.post(&service, "/types/", &kind).await;
    let hook = json!({"name": "a", "url": receiver.url(), "resources": ["objects"]});
    world.post(&service, "/webhooks/", &hook).await;
    world.object(&service, "a").await;
    assert_eq!(receiver.next().data("/document/fields/0/value"), "a");
    receiver.answer(&["500 Broken"]);
    for name in ["b", "c"] {
        world.object(&service, name).await;
    }
    let refused = receiver.next();
    assert_eq!(refused.data("/document/fields/0/value"), "b");
    end(service);
    let service = world.start();
    world.object(&service, "d").await;
    let (mut came, mut ids) = (Vec::new(), Vec::new());
    while came.last().is_none_or(|name: &Value| name != "d") {
        let message = receiver.next();
        came.push(message.data("/document/fields/0/value"));
        ids.push(message.id().to_owned());
    }
    // The end may have come before "a" was noted; then it comes again under its id.
    came.retain(|name| name != "a");
    assert_eq!(came, ["b", "c", "d"]);
    assert!(ids.contains(&refused.id().to_owned()), "{ids:?}");
    drop(service);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_store_loses_no_event_over_a_crash() {
    let directory = TempDir::new().expect("a temporary directory");
    let uri = format!("embedded:{}", directory.path().join("data").display());
    nothing_is_lost(uri, directory, ServiceProcess::kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_on_mongodb_loses_no_event() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let directory = TempDir::new().expect("a temporary directory");
    nothing_is_lost(server.fresh_uri(), directory, |service| assert_eq!(service.terminate(), Some(0))).await;
}
