//! Clients that take their time, stop half-way, or hang up in one direction.

use std::iter::repeat_n;

use crate::support::app::TestApp;
use crate::support::wire::Wire;

const LIVE: &str = "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";
const LOGIN: &str = "POST /rest/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

/// A service with little patience for one thing; `setting` is below `server.limits`.
async fn impatient(setting: &str) -> TestApp {
    TestApp::embedded_with(&[(&format!("server.limits.{setting}"), "200")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_head_that_does_not_end_is_408() {
    let app = impatient("head_timeout_ms").await;
    let mut wire = Wire::connect(&app.origin);
    wire.send("GET /health/live HTTP/1.1\r\nHost: x\r\nX-Slow: ");
    assert_eq!(wire.expect_answer().status, 408);
    wire.expect_close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_head_that_does_not_end_closes_the_connection() {
    let app = impatient("head_timeout_ms").await;
    let mut wire = Wire::connect(&app.origin);
    wire.send(LIVE);
    assert_eq!(wire.expect_answer().status, 200);
    wire.send_while_open(
        ["GET /health/live HTTP/1.1\r\n".to_owned()].into_iter().chain(repeat_n("X-A: b\r\n".to_owned(), 500)),
    );
    wire.expect_close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_at_rest_is_closed() {
    let app = impatient("keep_alive_ms").await;
    let mut wire = Wire::connect(&app.origin);
    wire.send(LIVE);
    assert_eq!(wire.expect_answer().status, 200);
    wire.expect_close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_trickles_or_stops_is_408() {
    let app = impatient("body_timeout_ms").await;
    for head in ["Content-Length: 1000", "Transfer-Encoding: chunked"] {
        let mut stopped = Wire::connect(&app.origin);
        stopped.send(&format!("{LOGIN}{head}\r\n\r\n"));
        let answer = stopped.expect_answer();
        assert_eq!(answer.status, 408, "{head}");
        assert!(answer.body.contains("\"code\":\"body_too_slow\""), "{}", answer.body);
    }
    let mut trickling = Wire::connect(&app.origin);
    trickling.send(&format!("{LOGIN}Content-Length: 1000\r\n\r\n"));
    trickling.send_while_open(repeat_n(" ".to_owned(), 20));
    assert_eq!(trickling.expect_answer().status, 408);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_nobody_wants_is_not_taken_for_ever() {
    let app = impatient("head_timeout_ms").await;
    let mut wire = Wire::connect(&app.origin);
    wire.send("GET /health/live HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(wire.expect_answer().status, 200);
    wire.send_while_open(repeat_n("1\r\nx\r\n".to_owned(), 500));
    wire.expect_close();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_hangs_up_in_one_direction_gets_the_answer() {
    let app = TestApp::embedded().await;
    let mut wire = Wire::connect(&app.origin);
    wire.send(LIVE);
    wire.half_close();
    assert_eq!(wire.expect_answer().status, 200);
    wire.expect_close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_ends_before_its_length_is_400() {
    let app = TestApp::embedded().await;
    for (head, piece) in [("Content-Length: 1000", "{\"user_name\""), ("Transfer-Encoding: chunked", "5\r\n{\"use")] {
        let mut wire = Wire::connect(&app.origin);
        wire.send(&format!("{LOGIN}{head}\r\n\r\n{piece}"));
        wire.half_close();
        let answer = wire.expect_answer();
        assert_eq!(answer.status, 400, "{head}");
        assert!(answer.body.contains("\"code\":\"body_unreadable\""), "{}", answer.body);
        wire.expect_close();
    }
}
