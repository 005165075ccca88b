//! What an attacker sends: every answer is a refusal in the one shape of errors, and the service keeps running.
//!
//! The layers before the routes (slow, half-closed and broken connections, heads and bodies that are too large, packed
//! bombs) are tested in `edge`; who may do what in `accounts` and `api`.

mod accounts;
mod bodies;
mod heads;
mod keeping;
mod oracles;
#[cfg(target_os = "linux")]
mod past;
mod queries;
mod taking;
mod unread;
mod values;

use crate::support::app::{Answer, TestApp};

/// Asserts that this is a refusal of what was sent, in the one shape.
#[track_caller]
fn assert_refused(answer: &Answer, sent: &str) {
    let sent: String = sent.chars().take(200).collect();
    assert!(answer.status.is_client_error(), "{sent}: {} {}", answer.status, answer.text);
    let body = answer.json();
    assert_eq!(body["status"], answer.status.as_u16(), "{sent}: {body}");
    let is_said = body["code"].is_string() && body["message"].is_string() && body["request_id"].is_string();
    assert!(is_said, "{sent}: {body}");
}

/// Asserts that the service answers, and holds what it held.
async fn assert_well(app: &TestApp, objects: i64) {
    let list = app.get("/objects/").await;
    assert_eq!(list.status, 200, "{}", list.text);
    assert_eq!(list.json()["total"], objects);
}
