//! Tricks with paths, parameters and headers.

use reqwest::Method;

use super::{assert_refused, assert_well};
use crate::support::app::{TestApp, on_each_store, send};
use crate::support::wire::Wire;

/// A request as it goes over the wire, without the help of a client that would tidy it up.
fn over_the_wire(app: &TestApp, path: &[u8], headers: &str) -> u16 {
    let mut wire = Wire::connect(&app.origin);
    let mut request = b"GET ".to_vec();
    request.extend_from_slice(path);
    request.extend_from_slice(format!(" HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes());
    wire.send_bytes(&request);
    wire.expect_answer().status
}

#[tokio::test(flavor = "multi_thread")]
async fn no_spelling_of_a_path_gets_past_the_token() {
    let app = TestApp::embedded().await;
    for path in [
        "/rest/objects/", "/rest//objects/", "//rest/objects/", "/rest/./objects/", "/rest/../rest/objects/",
        "/health/../rest/objects/", "/docs/../rest/objects/", "/docs/..%2frest%2fobjects%2f",
        "/docs/%2e%2e/%2e%2e/etc/passwd", "/rest/%6fbjects/", "/rest/objects%2f", "/rest/objects/;a=b",
        "/rest/objects/%00", "/REST/objects/", "/rest/object/", "/rest/auth/login/../../objects/",
        "/rest/objects/1/native/..", "/rest/objects/%2e%2e", "/metrics", "/rest/service.credentials/",
    ] {
        let status = over_the_wire(&app, path.as_bytes(), "");
        assert!((400..500).contains(&status), "{path}: {status}");
    }
    assert_well(&app, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_text_are_refused_wherever_they_stand() {
    let app = TestApp::embedded().await;
    for path in [
        &b"/rest/objects/\xff\xfe"[..],
        b"/rest/objects/?filter=\xff",
        b"/rest/\xc3\x28/",
        b"/rest/types/\x00",
        b"/rest/types/\x7f\x1b[2J",
    ] {
        let status = over_the_wire(&app, path, "");
        assert!((400..500).contains(&status), "{path:?}: {status}");
    }
    for path in ["/objects/?filter=%FF%FE", "/objects/?sort=%C3%28", "/objects/%FF", "/users/1/settings/%FF%FE"] {
        assert_refused(&app.get(path).await, path);
    }
    for header in [&b"Bearer \xff\xfe"[..], b"\xf0\x28\x8c\x28", b"Basic //79/A=="] {
        let request = app.anonymous(Method::GET, "/objects/").header("Authorization", header);
        send(request).await.error(401, "token_missing");
    }
    assert_well(&app, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_of_a_request_carries_nothing_into_answers_and_logs() {
    let app = TestApp::embedded().await;
    for id in ["a b", "<script>", "{\"a\":1}", "x".repeat(65).as_str(), "a;b", ""] {
        let answer = send(app.request(Method::GET, "/types/").header("X-Request-ID", id)).await;
        assert_eq!(answer.status, 200);
        let given = answer.header("x-request-id");
        assert_ne!(given, id);
        assert!(given.len() == 32 && given.bytes().all(|byte| byte.is_ascii_hexdigit()), "{given}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_is_made_up_is_refused() {
    let app = TestApp::embedded().await;
    for method in ["TRACE", "CONNECT", "PROPFIND", "GETS", "get", "X-A"] {
        let method = Method::from_bytes(method.as_bytes()).expect("a token");
        let mut wire = Wire::connect(&app.origin);
        wire.send(&format!("{method} /rest/objects/ HTTP/1.1\r\nHost: x\r\n\r\n"));
        let status = wire.expect_answer().status;
        assert!((400..500).contains(&status), "{method}: {status}");
    }
    for method in ["X-HTTP-Method-Override", "X-Method-Override"] {
        let answer = send(app.request(Method::GET, "/types/").header(method, "DELETE")).await;
        assert_eq!(answer.status, 200);
    }
}

on_each_store! {
    async fn a_parameter_that_is_sent_twice_or_not_known_is_refused(app) {
        for query in [
            "filter={}&filter={}", "limit=1&limit=2", "page=1&page=1", "sort=a&sort=b", "view=native&view=render",
            "filters={}", "Filter={}", "filter[]={}", "filter[$gt]=", "limit[]=1", "limit=", "limit=1e3", "limit=0x10",
            "limit=1.0", "limit=-1", "page=0", "page=-1", "order=2", "order=asc", "active=yes", "explain=1",
            "view=all", "__proto__=1", "&&&limit=a",
        ] {
            assert_refused(&app.get(&format!("/objects/?{query}")).await, query);
        }
        assert_well(app, 0).await;
    }
}
