//! Headers that every answer has.

use reqwest::Method;
use serde_json::json;

use crate::support::app::{Answer, TestApp, send};

fn assert_safe(answer: &Answer) {
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("x-frame-options"), "DENY");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
    assert!(answer.header("content-security-policy").contains("frame-ancestors 'none'"));
    assert_eq!(answer.header("strict-transport-security"), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_tells_browsers_to_do_nothing_with_it() {
    let app = TestApp::embedded().await;
    let id = app.create_type("rack", &[]).await;
    let single = app.get(&format!("/types/{id}")).await;
    let known = app.request(Method::GET, &format!("/types/{id}")).header("If-None-Match", single.header("etag"));
    let answers = [
        app.get("/types/").await,
        app.get("/nothing").await,
        app.get("/types").await,
        send(app.anonymous(Method::GET, "/types/")).await,
        send(app.request(Method::POST, "/types/").body("{}")).await,
        send(known).await,
        app.patch(&format!("/types/{id}"), &json!({"label": "Rack"})).await,
        single,
    ];
    let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
    assert_eq!(statuses, [200, 404, 308, 401, 415, 304, 202, 200]);
    for answer in &answers {
        assert_safe(answer);
        assert!(answer.header("content-security-policy").starts_with("default-src 'none'; frame"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_stores_what_has_no_tag_to_ask_again_with() {
    let app = TestApp::embedded().await;
    let id = app.create_type("rack", &[]).await;
    assert_eq!(app.get("/types/").await.header("cache-control"), "no-store");
    assert_eq!(app.get("/nothing").await.header("cache-control"), "no-store");
    assert_eq!(app.get(&format!("/types/{id}")).await.header("cache-control"), "private, no-cache");
    let token = app.post("/users/1/tokens/", &json!({"name": "machine"})).await;
    assert_eq!((token.status.as_u16(), token.header("cache-control")), (201, "no-store"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_description_may_run_what_the_service_serves() {
    let app = TestApp::embedded().await;
    let answer = send(app.anonymous(Method::GET, &format!("{}/docs/none.js", app.origin))).await;
    assert_safe(&answer);
    assert!(answer.header("content-security-policy").contains("script-src 'self';"));
    let other = send(app.anonymous(Method::GET, &format!("{}/docsx", app.origin))).await;
    assert!(!other.header("content-security-policy").contains("script-src"));
}
