//! Clients that send too many requests.

use reqwest::Method;

use crate::support::app::{Answer, TestApp, send};

fn allowance(answer: &Answer) -> (&str, &str, &str) {
    (answer.header("ratelimit-limit"), answer.header("ratelimit-remaining"), answer.header("ratelimit-reset"))
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_limited_by_default() {
    let app = TestApp::embedded().await;
    assert_eq!(allowance(&app.get("/types/").await), ("", "", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_is_told_what_is_left_and_then_refused() {
    let settings = [("server.rate_limit.user_per_minute", "1"), ("server.rate_limit.user_burst", "2")];
    let app = TestApp::embedded_with(&settings).await;
    let first = app.get("/types/").await;
    assert_eq!(allowance(&first), ("2", "1", "60"));
    assert_eq!(
        (first.header("ratelimit"), first.header("ratelimit-policy")),
        (r#""user";r=1;t=60"#, r#""user";q=2;w=120"#)
    );
    assert_eq!(allowance(&app.get("/nothing/").await), ("", "", ""));
    assert_eq!(allowance(&app.get("/types/77").await), ("2", "0", "120"));
    let refused = app.get("/types/").await;
    refused.error(429, "rate_limited");
    assert_eq!(allowance(&refused), ("2", "0", "120"));
    assert_eq!(refused.header("ratelimit"), r#""user";r=0;t=120"#);
    let wait: u64 = refused.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    // Who is not signed in is not that user.
    send(app.anonymous(Method::GET, "/types/")).await.error(401, "token_missing");
    app.login("admin", crate::support::app::ADMIN_PASSWORD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_is_limited_but_may_always_ask_whether_the_service_is_well() {
    let settings = [("server.rate_limit.address_per_minute", "1"), ("server.rate_limit.address_burst", "3")];
    let app = TestApp::embedded_with(&settings).await;
    // Signing in was the first.
    assert_eq!(allowance(&send(app.anonymous(Method::GET, "/types/")).await), ("3", "1", "120"));
    assert_eq!(allowance(&app.get("/nothing").await), ("3", "0", "180"));
    send(app.anonymous(Method::GET, "/types/")).await.error(429, "rate_limited");
    app.get("/types/").await.error(429, "rate_limited");
    let ready = send(app.anonymous(Method::GET, &format!("{}/health/ready", app.origin))).await;
    assert_eq!(ready.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_trusted_proxy_the_clients_are_told_apart() {
    let settings = [
        ("server.rate_limit.address_per_minute", "1"),
        ("server.rate_limit.address_burst", "2"),
        ("server.trusted_proxies", "127.0.0.1"),
    ];
    let app = TestApp::embedded_with(&settings).await;
    let from = |way: &'static str| send(app.request(Method::GET, "/types/").header("X-Forwarded-For", way));
    for _ in 0..2 {
        assert_eq!(from("198.51.100.1").await.status, 200);
    }
    from("198.51.100.1").await.error(429, "rate_limited");
    // A client that makes up a way of its own is still the one that the proxy heard from.
    from("203.0.113.9, 198.51.100.1").await.error(429, "rate_limited");
    assert_eq!(from("198.51.100.2").await.status, 200);
}
