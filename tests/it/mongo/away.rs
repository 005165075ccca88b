//! A server that goes away and comes back: what clients see, and that the service needs no restart.

use std::time::Duration;

use bson::doc;
use inventory_service::app::Application;
use inventory_service::settings::Settings;
use serde_json::json;

use crate::support::app::{ADMIN_PASSWORD, TestApp};
use crate::support::mongod::{Deployment, Mongod, program};

/// A service on a server of its own that gives up soon.
async fn app_on(server: &Mongod) -> TestApp {
    let settings = [("store.connect_timeout_ms", "1000"), ("query.max_time_ms", "1000")];
    TestApp::on(&server.fresh_uri(), &settings).await
}

/// Asks until the answer is a good one again; a service that needed a restart would never give it.
async fn assert_recovers(app: &TestApp) {
    let mut answer = app.get("/types/").await;
    for _ in 0..600 {
        if answer.status == 200 {
            break;
        }
        answer.error(503, "store_unavailable");
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = app.get("/types/").await;
    }
    assert_eq!(answer.status, 200, "{}", answer.text);
    app.create_type("after", &[]).await;
    let ready = app.get(&format!("{}/health/ready", app.origin)).await;
    assert_eq!(ready.status, 200, "{}", ready.text);
}

async fn assert_away(app: &TestApp) {
    let read = app.get("/types/").await;
    read.error(503, "store_unavailable");
    assert_eq!(read.header("retry-after"), "2");
    let write = app.post("/types/", &json!({"name": "during", "author_id": 1})).await;
    write.error(503, "store_unavailable");
    assert_eq!(write.header("retry-after"), "2");
    let ready = app.get(&format!("{}/health/ready", app.origin)).await;
    ready.error(503, "store_unavailable");
    assert_eq!(app.get(&format!("{}/health/live", app.origin)).await.status, 200);
    let root = app.get("/").await;
    assert_eq!(root.json()["store"], json!({"kind": "mongodb", "reachable": false}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_killed_comes_back_without_a_restart_of_the_service() {
    let Some(program) = program() else { return };
    let mut server = Mongod::start(program, Deployment::ReplicaSet).await;
    let app = app_on(&server).await;
    app.create_type("before", &[]).await;
    server.stop().await;
    assert_away(&app).await;
    server.start_again().await;
    assert_recovers(&app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_comes_back_without_a_restart_of_the_service() {
    let Some(program) = program() else { return };
    let mut server = Mongod::start(program, Deployment::ReplicaSet).await;
    let app = app_on(&server).await;
    app.create_type("before", &[]).await;
    server.freeze();
    while server.is_primary().await {}
    assert_away(&app).await;
    server.thaw();
    assert_recovers(&app).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_a_server_which_answers_others_does_not_end_in_time_took_too_long() {
    let Some(program) = program() else { return };
    let server = Mongod::start_with_failpoints(program, Deployment::ReplicaSet).await;
    let app = app_on(&server).await;
    app.create_type("before", &[]).await;
    let hold = doc! { "failCommands": ["find", "aggregate"], "blockConnection": true, "blockTimeMS": 5000 };
    let admin = server.client().await.database("admin");
    let command = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": hold };
    admin.run_command(command).await.expect("the server has failpoints");
    let read = app.get("/objects/?filter={\"type_id\":1}").await;
    read.error(503, "query_timeout");
    let command = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    admin.run_command(command).await.expect("the server has failpoints");
    let read = app.get("/types/").await;
    assert_eq!(read.status, 200, "{}", read.text);
}

/// Which of them takes writes, once one does.
async fn primary(servers: &[Mongod]) -> usize {
    loop {
        for (index, server) in servers.iter().enumerate() {
            if server.is_primary().await {
                return index;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_frozen_primary_does_not_answer_is_answered_by_its_successor() {
    let Some(program) = program() else { return };
    let mut servers = Mongod::start_three(program).await;
    let hosts = servers.iter().map(Mongod::address).collect::<Vec<_>>().join(",");
    // The driver's default is to wait ten minutes for a sign of life.
    let uri = format!("mongodb://{hosts}/successor?replicaSet=rs0&connectTimeoutMS=600000");
    primary(&servers).await;
    let settings = [("store.connect_timeout_ms", "50000"), ("query.max_time_ms", "50000")];
    let app = TestApp::on(&uri, &settings).await;
    app.create_type("before", &[]).await;
    let primary = primary(&servers).await;
    let frozen = &mut servers[primary];
    frozen.freeze();
    while frozen.is_primary().await {}
    let read = app.get("/types/").await;
    assert_eq!(read.status, 200, "{}", read.text);
    assert_eq!(read.json()["total"], 1);
    app.create_type("after", &[]).await;
    assert_eq!(app.get("/types/").await.json()["total"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_waits_for_a_server() {
    let Some(program) = program() else { return };
    let mut server = Mongod::start(program, Deployment::ReplicaSet).await;
    let uri = server.fresh_uri();
    server.stop().await;
    let settings = |wait: &str| {
        let pairs = [
            ("server.port", "0"),
            ("store.uri", uri.as_str()),
            ("store.connect_timeout_ms", "100"),
            ("store.start_wait_s", wait),
            ("auth.initial_admin_password", ADMIN_PASSWORD),
            ("auth.argon2.memory_kib", "8"),
        ];
        Settings::defaults(&pairs).expect("valid settings")
    };
    let refusal = Application::build(settings("0")).await.err().expect("nobody is there").to_string();
    assert!(refusal.contains("the store is not available"), "{refusal}");
    let start = tokio::spawn(Application::build(settings("60")));
    server.start_again().await;
    start.await.expect("no panic").expect("the service starts");
}
