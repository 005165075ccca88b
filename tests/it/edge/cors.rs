//! Pages of other origins.

use reqwest::Method;

use crate::support::app::{Answer, TestApp, send};

const PAGE: &str = "https://app.example.org";

async fn preflight(app: &TestApp, origin: &str, method: &str, headers: &str) -> Answer {
    let request = app.anonymous(Method::OPTIONS, "/types/1").header("Origin", origin);
    let request = request.header("Access-Control-Request-Method", method);
    send(request.header("Access-Control-Request-Headers", headers)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_other_origin_is_allowed_by_default() {
    let app = TestApp::embedded().await;
    let answer = send(app.request(Method::GET, "/types/").header("Origin", PAGE)).await;
    assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-origin")), (200, ""));
    let preflight = preflight(&app, PAGE, "GET", "authorization").await;
    assert_eq!(preflight.header("access-control-allow-origin"), "");
    preflight.error(405, "method_not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_an_allowed_origin_may_use_the_interface_and_read_its_headers() {
    let app = TestApp::embedded_with(&[("server.cors.allowed_origins", PAGE)]).await;
    for path in ["/types/", "/nothing"] {
        let answer = send(app.request(Method::GET, path).header("Origin", PAGE)).await;
        assert_eq!(answer.header("access-control-allow-origin"), PAGE);
        let exposed = answer.header("access-control-expose-headers").to_lowercase();
        for name in ["etag", "location", "x-total-count", "x-request-id", "retry-after", "ratelimit-remaining"] {
            assert!(exposed.contains(name), "{exposed}");
        }
        assert!(
            answer.headers.get_all("vary").iter().any(|value| value.to_str().is_ok_and(|vary| vary.contains("Origin")))
        );
        assert_eq!(answer.header("access-control-allow-credentials"), "");
    }
    for method in ["GET", "PUT", "PATCH", "DELETE", "QUERY"] {
        let answer = preflight(&app, PAGE, method, "authorization, content-type, if-match").await;
        assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-origin")), (200, PAGE), "{method}");
        assert!(answer.header("access-control-allow-methods").contains(method));
        assert_eq!(
            (answer.header("access-control-max-age"), answer.header("x-content-type-options")),
            ("3600", "nosniff")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_may_not() {
    let app = TestApp::embedded_with(&[("server.cors.allowed_origins", PAGE)]).await;
    for origin in ["https://evil.example", "http://app.example.org", "https://app.example.org.evil.example", "null"] {
        let answer = send(app.request(Method::GET, "/types/").header("Origin", origin)).await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{origin}");
        let answer = preflight(&app, origin, "DELETE", "authorization").await;
        assert_eq!(answer.header("access-control-allow-origin"), "", "{origin}");
        answer.error(400, "bad_request");
    }
    preflight(&app, PAGE, "GET", "x-strange").await.error(400, "bad_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_star_allows_all_origins() {
    let app = TestApp::embedded_with(&[("server.cors.allowed_origins", "*")]).await;
    let answer = send(app.request(Method::GET, "/types/").header("Origin", "https://any.example")).await;
    assert_eq!(answer.header("access-control-allow-origin"), "*");
}
