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
    let told = preflight.error(400, "bad_request");
    assert_eq!(told["message"], format!("server.cors.allowed_origins does not name the origin {PAGE}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_an_allowed_origin_may_use_the_interface_and_read_its_headers() {
    let app = TestApp::embedded_with(&[("server.cors.allowed_origins", PAGE)]).await;
    for path in ["/types/", "/nothing"] {
        let answer = send(app.request(Method::GET, path).header("Origin", PAGE)).await;
        assert_eq!(answer.header("access-control-allow-origin"), PAGE);
        let exposed = answer.header("access-control-expose-headers").to_lowercase();
        for name in [
            "etag", "location", "x-total-count", "x-request-id", "retry-after", "ratelimit-remaining",
            "content-disposition",
        ] {
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
        let told = answer.error(400, "bad_request")["message"].as_str().expect("a message").to_owned();
        assert_eq!(told, format!("server.cors.allowed_origins does not name the origin {origin}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preflight_says_what_is_allowed_whatever_it_asks_for() {
    let app = TestApp::embedded_with(&[("server.cors.allowed_origins", PAGE)]).await;
    let allowed = |answer: &Answer, name: &str| {
        let names = answer.header("access-control-allow-headers").to_lowercase();
        names.split(',').any(|known| known.trim() == name)
    };
    for headers in ["authorization,cache-control,content-type,pragma", "x-requested-with", "Idempotency-Key, accept"] {
        let answer = preflight(&app, PAGE, "GET", headers).await;
        assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-origin")), (200, PAGE), "{headers}");
        assert!(headers.split(',').all(|name| allowed(&answer, &name.trim().to_lowercase())), "{headers}");
    }
    let answer = preflight(&app, PAGE, "GET", "authorization, x-strange").await;
    assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-origin")), (200, PAGE));
    assert!(allowed(&answer, "authorization") && !allowed(&answer, "x-strange"));
    let answer = preflight(&app, PAGE, "PROPFIND", "authorization").await;
    assert_eq!((answer.status.as_u16(), answer.header("access-control-allow-origin")), (200, PAGE));
    assert!(!answer.header("access-control-allow-methods").contains("PROPFIND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_names_the_headers_that_pages_may_send() {
    let settings = [("server.cors.allowed_origins", PAGE), ("server.cors.allowed_headers", "X-Own")];
    let app = TestApp::embedded_with(&settings).await;
    let answer = preflight(&app, PAGE, "GET", "x-own").await;
    assert_eq!(
        (answer.status.as_u16(), answer.header("access-control-allow-headers").to_lowercase()),
        (200, "x-own".to_owned())
    );
    let settings = [("server.cors.allowed_origins", PAGE), ("server.cors.allowed_headers", "*")];
    let app = TestApp::embedded_with(&settings).await;
    assert!(preflight(&app, PAGE, "GET", "x-any").await.header("access-control-allow-headers").contains("x-any"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_star_allows_all_origins() {
    let app = TestApp::embedded_with(&[("server.cors.allowed_origins", "*")]).await;
    let answer = send(app.request(Method::GET, "/types/").header("Origin", "https://any.example")).await;
    assert_eq!(answer.header("access-control-allow-origin"), "*");
}
