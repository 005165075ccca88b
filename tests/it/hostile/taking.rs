//! One caller who wants all the memory and all the processors: this one waits, others do not.

use std::sync::atomic::{AtomicU32, Ordering};

use inventory_service::admission::{Admission, Ticket, Turn};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;
use serde_json::{Value, json};

use super::assert_well;
use crate::support::app::{Answer, TestApp, send};
use crate::support::mongod::{Deployment, shared};
use crate::support::wire::Wire;

/// The first administrator, who asks in these tests.
const ADMIN: i64 = 1;

/// Two turns, of which a user has one, and no patience.
const NARROW: [(&str, &str); 3] =
    [("admission.at_once", "2"), ("admission.wait_ms", "1"), ("admission.memory_mib", "64")];

/// Makes of each `async fn name(app)` two tests, with [`NARROW`] settings.
macro_rules! on_each_narrow_store {
    ($(async fn $name:ident($app:ident) $body:block)*) => {
        $(
            async fn $name($app: &TestApp) $body

            mod $name {
                use super::*;

                #[tokio::test(flavor = "multi_thread")]
                async fn on_the_embedded_store() {
                    super::$name(&TestApp::embedded_with(&NARROW).await).await;
                }

                #[tokio::test(flavor = "multi_thread")]
                async fn on_mongodb() {
                    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
                    super::$name(&TestApp::on(&server.fresh_uri(), &NARROW).await).await;
                }
            }
        )*
    };
}

async fn some_objects(app: &TestApp) -> i64 {
    let of_type = app.create_type("thing", &[("text", "text")]).await;
    for number in 0..5 {
        app.create_object(of_type, &json!({"text": format!("number {number}")})).await;
    }
    5
}

/// As if a request of the user worked.
async fn working(app: &TestApp, user_id: i64) -> Turn {
    app.admission.ticket(user_id).turn().await.expect("a turn")
}

/// As if a request of the user held all that the user may have, except `left` bytes.
fn holding_all_but(app: &TestApp, user_id: i64, left: usize) -> Ticket {
    let ticket = app.admission.ticket(user_id);
    ticket.hold(64 * 1024 * 1024 / 4 * 3 - left).expect("nobody else holds anything");
    ticket
}

async fn asked(app: &TestApp, path: &str, filter: &Value) -> Answer {
    app.get_with(path, &[("filter", filter.to_string().as_str())]).await
}

/// Whether nothing works.
fn idle(admission: &Admission) -> bool {
    admission.free_turns() == 2
}

/// Values of some megabytes, on one right alone.
fn many_values(count: i32) -> Value {
    let values = json!({"$map": {"input": {"$range": [0, count]}, "in": {"$add": ["$$this", 1]}}});
    json!({"name": "base.*", "$expr": {"$gt": [{"$size": values}, 0]}})
}

/// What is computed when a filter is read, as it needs no document.
fn constants(count: i32) -> Value {
    json!({"$expr": {"$gt": [{"$size": {"$setUnion": [{"$range": [0, count]}, {"$range": [count, 2 * count]}]}}, 0]}})
}

on_each_narrow_store! {
    async fn what_is_costly_waits_for_its_turn_and_light_reads_do_not(app) {
        let objects = some_objects(app).await;
        let pattern = json!({"fields.value": {"$regex": "[a-z]+ [0-4]"}});
        let turn = working(app, ADMIN).await;
        for (path, filter) in [("/objects/", &pattern), ("/rights/", &many_values(1000)), ("/objects/", &constants(10_000))] {
            let refused = asked(app, path, filter).await;
            refused.error(503, "busy");
            assert_eq!(refused.header("retry-after"), "2");
        }
        assert_eq!(app.get("/objects/1").await.status, 200);
        assert_eq!(app.get("/objects/1/native").await.status, 200);
        assert_well(app, objects).await;
        assert_eq!(asked(app, "/rights/", &json!({"name": "base.*"})).await.json()["total"], 1);
        drop(turn);
        assert_eq!(asked(app, "/objects/", &pattern).await.json()["total"], objects);
        assert_eq!(asked(app, "/rights/", &many_values(1000)).await.status, 200);
        assert!(idle(&app.admission));
    }

    async fn a_user_who_works_keeps_no_other_user_from_it(app) {
        let objects = some_objects(app).await;
        let _turn = working(app, ADMIN + 1).await;
        let pattern = json!({"fields.value": {"$regex": "[a-z]+ [0-4]"}});
        assert_eq!(asked(app, "/objects/", &pattern).await.json()["total"], objects);
    }

    async fn without_memory_a_question_is_told_to_come_back_and_takes_none(app) {
        let objects = some_objects(app).await;
        let held = holding_all_but(app, ADMIN, 2 * 1024 * 1024);
        let free = app.admission.memory().free();
        asked(app, "/rights/", &many_values(30_000)).await.error(503, "busy");
        asked(app, "/rights/", &constants(50_000)).await.error(503, "busy");
        assert_eq!(app.admission.memory().free(), free);
        assert_well(app, objects).await;
        drop(held);
        assert_eq!(asked(app, "/rights/", &many_values(30_000)).await.status, 200);
    }

    async fn what_is_refused_while_a_filter_is_read_is_refused_at_once(app) {
        let _turn = working(app, ADMIN).await;
        asked(app, "/objects/", &json!({"$expr": {"$divide": [1, 0]}})).await.error(400, "query_2");
        asked(app, "/objects/", &json!({"a": {"$regex": "(", "$options": "q"}})).await.error(503, "busy");
    }

    async fn patterns_are_compiled_as_work(app) {
        let patterns: Vec<Value> =
            (0..490).map(|number| json!({"$regularExpression": {"pattern": format!("^{number}[a-z]{{1,9}}$"), "options": "i"}})).collect();
        let filter = json!({"fields.value": {"$in": patterns}});
        let turn = working(app, ADMIN).await;
        app.post("/objects/query", &json!({"filter": filter})).await.error(503, "busy");
        drop(turn);
        assert_eq!(app.post("/objects/query", &json!({"filter": filter})).await.status, 200);
    }
}

async fn assert_that_answers_count_until_they_are_read(app: &TestApp) {
    let of_type = app.create_type("thing", &[("text", "text")]).await;
    for _ in 0..16 {
        app.create_object(of_type, &json!({"text": "x".repeat(900_000)})).await;
    }
    let _held = holding_all_but(app, ADMIN, 3 * 1024 * 1024);
    let free = app.admission.memory().free();
    let token = app.login("admin", crate::support::app::ADMIN_PASSWORD).await;
    let mut readers = Vec::new();
    let refused = loop {
        let mut wire = Wire::connect(&app.origin);
        wire.send(&format!(
            "GET /rest/objects/?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        ));
        let head = wire.head();
        if head.starts_with("HTTP/1.1 503") {
            break head;
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        readers.push(wire);
        assert!(readers.len() < 10, "answers that wait are not counted");
    };
    assert!(refused.contains("retry-after: 2"), "{refused}");
    assert!(app.admission.memory().free() < free);
    assert_eq!(app.get("/objects/1/native").await.status, 503, "it is 900,000 bytes long");
    drop(readers);
    while app.admission.memory().free() < free {
        tokio::task::yield_now().await;
    }
    assert_eq!(app.get("/objects/1/native").await.status, 200);
}

/// With patience: what is refused is refused for memory.
const PATIENT: [(&str, &str); 2] = [("admission.memory_mib", "64"), ("admission.wait_ms", "60000")];

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_counts_on_the_embedded_store() {
    assert_that_answers_count_until_they_are_read(&TestApp::embedded_with(&PATIENT).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_reads_counts_on_mongodb() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    assert_that_answers_count_until_they_are_read(&TestApp::on(&server.fresh_uri(), &PATIENT).await).await;
}

/// Longer than any test takes: only what ends it can end it.
const ENDLESS: [(&str, &str); 3] =
    [("admission.at_once", "2"), ("query.max_time_ms", "3600000"), ("server.request_timeout_s", "3600")];

/// Steps without end.
fn endless() -> Value {
    // As much as a question may do on each document.
    let range = json!({"$range": [0, 4_000]});
    let inner = json!({"$size": {"$map": {"input": range, "as": "b", "in": {"$add": ["$$a", "$$b"]}}}});
    json!({"$expr": {"$eq": [{"$sum": {"$map": {"input": range, "as": "a", "in": inner}}}, {"$strLenCP": {"$ifNull": ["$name", "x"]}}]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn work_ends_when_its_client_has_gone() {
    let app = TestApp::embedded_with(&ENDLESS).await;
    some_objects(&app).await;
    let token = app.login("admin", crate::support::app::ADMIN_PASSWORD).await;
    for path in ["/rest/rights/", "/rest/objects/"] {
        let filter = endless().to_string();
        let filter = utf8_percent_encode(&filter, NON_ALPHANUMERIC);
        let mut wire = Wire::connect(&app.origin);
        wire.send(&format!("GET {path}?filter={filter} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"));
        while idle(&app.admission) {
            tokio::task::yield_now().await;
        }
        drop(wire);
        while !idle(&app.admission) {
            tokio::task::yield_now().await;
        }
    }
    assert_well(&app, 5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_ends_when_the_time_of_its_request_is_over() {
    let settings = [ENDLESS[0], ENDLESS[1], ("server.request_timeout_s", "1")];
    let app = TestApp::embedded_with(&settings).await;
    some_objects(&app).await;
    asked(&app, "/rights/", &endless()).await.error(503, "request_timeout");
    while !idle(&app.admission) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_questions_together_have_the_memory_of_the_pool() {
    let app = TestApp::embedded_with(&[NARROW[0], ("query.max_time_ms", "60000")]).await;
    let all = app.admission.memory().free();
    let busy = AtomicU32::new(0);
    // Each of them alone may have it.
    let asked = (0..24).map(|_| async {
        let answer = asked(&app, "/rights/", &many_values(100_000)).await;
        match answer.status.as_u16() {
            200 => {}
            _ => {
                answer.error(503, "busy");
                busy.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    futures::future::join_all(asked).await;
    assert!(busy.load(Ordering::Relaxed) < 24, "one at a time they have room");
    assert_eq!(app.admission.memory().free(), all);
    let request = app.request(Method::GET, "/rights/");
    assert_eq!(send(request).await.status, 200);
}
