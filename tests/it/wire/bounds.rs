//! What one user takes of the listener: memory of cursors that wait, and the pace of commands.

use bson::raw::RawDocumentBuf;
use bson::{Document, doc};
use inventory_service::store::{Change, Unit};
use mongodb::Database;
use mongodb::error::ErrorKind;
use reqwest::Method;

use super::support::{DATABASE, ToolApp, found, refused};
use crate::support::app::{ADMIN_PASSWORD, send};

const VIEW: &str = "base.framework.object.view";
const MIB: usize = 1024 * 1024;

/// Stores objects of this many bytes each.
async fn objects_of(tools: &ToolApp, number: i64, bytes: usize) {
    let insert = |id: i64| {
        let object = doc! { "_id": id, "public_id": id, "type_id": 1, "fields": [], "text": "x".repeat(bytes) };
        Change::Insert {
            collection: "framework.objects",
            document: RawDocumentBuf::try_from(object).expect("it is BSON"),
        }
    };
    let changes = (1..=number).map(insert).collect();
    tools.app.store.commit(Unit { changes, ..Unit::default() }).await.expect("the objects can be stored");
}

fn opening() -> Document {
    doc! { "find": "framework.objects", "batchSize": 1 }
}

async fn opened(database: &Database, command: Document) -> i64 {
    let answer = database.run_command(command).await.expect("a batch");
    answer.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor")
}

async fn killed(database: &Database, ids: &[i64]) {
    let kill = doc! { "killCursors": "framework.objects", "cursors": ids };
    let answer = database.run_command(kill).await.expect("an answer");
    assert_eq!(answer.get_array("cursorsKilled").ok().map(Vec::len), Some(ids.len()));
}

#[tokio::test]
async fn what_a_waiting_cursor_holds_is_counted_until_it_ends() {
    let tools = ToolApp::start().await;
    objects_of(&tools, 30_000, 10).await;
    let database = tools.admin().await;
    let free = tools.app.admission.memory().free();
    let sorted = doc! { "find": "framework.objects", "sort": { "text": 1 }, "batchSize": 1 };
    let stage = vec![doc! { "$addFields": { "more": 1 } }];
    let streamed = doc! { "aggregate": "framework.objects", "pipeline": stage, "cursor": { "batchSize": 0 } };
    let grouped = vec![doc! { "$group": { "_id": "$public_id" } }];
    let grouped = doc! { "aggregate": "framework.objects", "pipeline": grouped, "cursor": { "batchSize": 1 } };
    for command in [opening(), sorted, streamed, grouped] {
        let id = opened(&database, command.clone()).await;
        let held = free - tools.app.admission.memory().free();
        // Eight bytes for each row, if not the whole result.
        assert!(held >= 30_000 * 8, "{held}: {command}");
        killed(&database, &[id]).await;
        assert_eq!(tools.app.admission.memory().free(), free, "{command}");
    }
}

#[tokio::test]
async fn cursors_that_nobody_reads_take_no_more_memory_than_their_user_has() {
    let tools = ToolApp::start_with(&[("admission.memory_mib", "64")]).await;
    objects_of(&tools, 4, 7 * MIB).await;
    let (_, token) = tools.user("ada", &[VIEW]).await;
    let ada = tools.client_with("ada", &token, "maxPoolSize=1").await.database(DATABASE);
    let admin = tools.admin().await;
    let free = tools.app.admission.memory().free();
    // Three quarters of the memory have room for six documents.
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(opened(&ada, opening()).await);
    }
    let (code, message) = refused(&ada, opening()).await;
    assert_eq!(code, 365, "{message}");
    assert!(message.contains("close others"), "{message}");
    killed(&admin, &[opened(&admin, opening()).await]).await;
    let more = doc! { "getMore": ids[0], "collection": "framework.objects", "batchSize": 1 };
    ada.run_command(more).await.expect("a cursor that is kept goes on");
    killed(&ada, &ids).await;
    assert_eq!(tools.app.admission.memory().free(), free);
    killed(&ada, &[opened(&ada, opening()).await]).await;
}

#[tokio::test]
async fn commands_and_requests_of_a_user_take_from_one_allowance() {
    let settings = [("server.rate_limit.user_per_minute", "1"), ("server.rate_limit.user_burst", "6")];
    let tools = ToolApp::start_with(&settings).await;
    let (_, token) = tools.user("ada", &[VIEW]).await;
    let ada = tools.client("ada", &token).await.database(DATABASE);
    let question = || doc! { "find": "framework.objects" };
    for _ in 0..4 {
        assert!(found(&ada, question()).await.is_empty());
    }
    let session = tools.app.login("ada", "a long password").await;
    let rest = || send(tools.app.anonymous(Method::GET, "/objects/").bearer_auth(&session));
    let answer = rest().await;
    assert_eq!((answer.status.as_u16(), answer.header("ratelimit-remaining")), (200, "1"));
    assert!(found(&ada, question()).await.is_empty());
    let error = ada.run_command(question()).await.expect_err("the allowance is used up");
    let ErrorKind::Command(refusal) = &*error.kind else { panic!("{error:?}") };
    assert_eq!((refusal.code, refusal.code_name.as_str()), (462, "IngressRequestRateLimitExceeded"));
    assert!(refusal.message.starts_with("this user sends requests faster than"), "{}", refusal.message);
    assert!(error.contains_label("RetryableError") && error.contains_label("SystemOverloadedError"));
    rest().await.error(429, "rate_limited");
    // What was opened can still be closed.
    let closing = doc! { "killCursors": "framework.objects", "cursors": [5_i64] };
    ada.run_command(closing).await.expect("no allowance is needed");
    // Another user has a separate allowance.
    tools.app.login("admin", ADMIN_PASSWORD).await;
    assert_eq!(tools.app.get("/objects/").await.status, 200);
}

#[tokio::test]
async fn an_address_has_one_allowance_over_both_listeners() {
    let settings = [("server.rate_limit.address_per_minute", "1"), ("server.rate_limit.address_burst", "3")];
    let tools = ToolApp::start_with(&settings).await;
    let uri = format!("mongodb://{}/?directConnection=true&serverSelectionTimeoutMS=2000", tools.address);
    // Signing in over REST was the first request.
    assert_eq!(tools.app.get("/types/").await.header("ratelimit-remaining"), "1");
    let stranger = mongodb::Client::with_uri_str(uri).await.expect("a well-formed URI").database(DATABASE);
    stranger.run_command(doc! { "ping": 1 }).await.expect_err("it says hello, and that is all");
    tools.app.get("/types/").await.error(429, "rate_limited");
}
