//! What is never sent to a server. The server's own list of its commands shows what was sent.
//!
//! All questions here are harmless to every server.

use bson::Document;
use serde_json::{Value, json};

use super::{commands_of, database};
use crate::support::app::TestApp;
use crate::support::mongod::{Deployment, shared};

/// In each question, and in nothing that the service asks of its own.
const MARK: &str = "unsent";

/// Iterations that take more than the service lets a question take, and what older servers could crash on: with the status of the
/// service's own answer.
fn unsent() -> [(&'static str, Value, u16); 5] {
    let steps = |count: i32, initial: Value, body: Value| json!({"$reduce": {"input": {"$range": [0, count]}, "initialValue": initial, "in": body}});
    let deep = steps(220, json!({"n": "$fields"}), json!({MARK: "$$value"}));
    let wide = steps(22, json!([MARK, "$fields"]), json!({"$concatArrays": ["$$value", "$$value"]}));
    let holder =
        json!([{"$set": {MARK: {"b": 1}}}, {"$unwind": {"path": format!("${MARK}.b"), "includeArrayIndex": MARK}}]);
    [
        ("query", json!({"filter": {"$expr": {"$eq": [{"$type": deep.clone()}, "zz"]}}}), 400),
        ("query", json!({"filter": {"$expr": {"$isArray": [wide]}}}), 400),
        ("aggregate", json!({"pipeline": [{"$set": {"a": deep}}]}), 400),
        ("query", json!({"filter": {"": {"$elemMatch": {"$jsonSchema": {"title": MARK}}}}}), 200),
        ("aggregate", json!({"pipeline": holder}), 400),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_takes_too_much_or_could_crash_a_server_is_not_sent() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let app = TestApp::on(&uri, &[]).await;
    let of_type = app.create_type("thing", &[("text", "text")]).await;
    app.create_object(of_type, &json!({"text": "a"})).await;
    let database = database(server, &uri).await;
    let ask = async {
        for (path, question, status) in unsent() {
            let answer = app.post(&format!("/objects/{path}"), &question).await;
            assert_eq!(answer.status, status, "{question}: {}", answer.text);
        }
        app.post("/objects/query", &json!({"filter": {"text": format!("{MARK} no more")}})).await;
    };
    let commands = commands_of(&database, ask).await;
    let marked: Vec<&Document> = commands.iter().filter(|command| command.to_string().contains(MARK)).collect();
    assert!(!marked.is_empty(), "the server lists nothing that it was asked");
    assert!(marked.iter().all(|command| command.to_string().contains("no more")), "{marked:#?}");
}
