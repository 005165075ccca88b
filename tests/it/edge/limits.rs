//! Heads and bodies that are too large, and too many connections.

use std::io;
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use crate::support::app::{TestApp, send};
use crate::support::wire::Wire;

const GET_LIVE: &str = "GET /health/live HTTP/1.1\r\nHost: x\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_uri_that_is_too_long_is_414_and_the_way_out_is_named() {
    let app = TestApp::embedded_with(&[("server.limits.max_uri_bytes", "300")]).await;
    let long = format!("/types/?filter={}", "x".repeat(300));
    let error = app.get(&long).await.error(414, "uri_too_long");
    assert!(error["message"].as_str().expect("a message").contains("/objects/query"));
    assert_eq!(app.get("/types/").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_are_too_large_are_431() {
    let app = TestApp::embedded_with(&[("server.limits.max_header_bytes", "2000")]).await;
    let large = app.request(Method::GET, "/types/").header("X-Large", "x".repeat(2000));
    send(large).await.error(431, "headers_too_large");
    // What is larger than the parser can hold does not reach the part that knows the shape of errors.
    let mut wire = Wire::connect(&app.origin);
    wire.send(&format!("{GET_LIVE}X-Large: {}\r\n\r\n", "x".repeat(140_000)));
    assert_eq!(wire.expect_answer().status, 431);
    wire.expect_close();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_says_that_it_is_too_large_is_not_waited_for() {
    let app = TestApp::embedded().await;
    let mut wire = Wire::connect(&app.origin);
    wire.send("POST /rest/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n");
    let answer = wire.expect_answer();
    assert_eq!(answer.status, 413, "{}", answer.body);
    assert!(answer.head.contains("connection: close"), "{}", answer.head);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_nested_and_wide_at_the_price_of_an_error() {
    let app = TestApp::embedded().await;
    for body in [
        format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)),
        format!("{{\"a\": {}1{}}}", "[".repeat(5_000), "]".repeat(5_000)),
    ] {
        let request = app.request(Method::POST, "/types/").header("Content-Type", "application/json").body(body);
        send(request).await.error(400, "json_malformed");
    }
    for (count, code) in [(49_000, "validation_failed"), (50_000, "json_malformed")] {
        let members: serde_json::Map<_, _> = (0..count).map(|number| (format!("m{number}"), json!(0))).collect();
        app.post("/types/", &members.into()).await.error(400, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_http_is_turned_away_and_the_service_goes_on() {
    let app = TestApp::embedded().await;
    let broken = [
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        "POST /rest/types/ HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        "POST /rest/types/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST /rest/types/ HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /rest/types/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    ];
    let many = (0..97).map(|number| format!("X-{number}: 1\r\n")).collect::<Vec<_>>().concat();
    let many = format!("GET /rest/ HTTP/1.1\r\nHost: x\r\n{many}\r\n");
    let raw = "GET /rest/types/?filter={\"a\":1} HTTP/1.1\r\nHost: x\r\n\r\n";
    for text in broken.into_iter().chain([many.as_str(), raw]) {
        let mut wire = Wire::connect(&app.origin);
        wire.send(text);
        let answer = wire.expect_answer();
        let (status, code) = if text == many { (431, "headers_too_large") } else { (400, "bad_request") };
        assert_eq!(answer.status, status, "{text:?}");
        // The refusal of the parser has the shape of every error.
        assert!(
            answer.head.contains("content-type: application/json") && answer.head.contains("x-request-id: "),
            "{answer:?}"
        );
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        assert_eq!((&body["status"], &body["code"]), (&status.into(), &code.into()), "{text:?}");
        wire.expect_close();
    }
    assert_eq!(app.get("/types/").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_beyond_the_limit_wait_for_one_to_end() {
    // One of the two is the one that the administrator signed in over.
    let app = TestApp::embedded_with(&[("server.limits.max_connections", "2")]).await;
    let mut first = Wire::connect(&app.origin);
    first.send(&format!("{GET_LIVE}\r\n"));
    assert_eq!(first.expect_answer().status, 200);
    let mut second = Wire::connect(&app.origin);
    second.send(&format!("{GET_LIVE}\r\n"));
    second.wait_for(Duration::from_millis(200));
    let waited = second.answer().expect_err("the connection is not served");
    assert!(matches!(waited.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{waited}");
    drop(first);
    second.wait_for(Duration::from_mins(1));
    assert_eq!(second.expect_answer().status, 200);
}
