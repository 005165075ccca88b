//! Habits of the web: errors of RFC 9457, links of RFC 8288, QUERY of RFC 10008, and what headers say.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Answer, TestApp, on_each_store, send};

fn query() -> Method {
    Method::from_bytes(b"QUERY").expect("a method")
}

/// The links of an answer by their relation.
fn link(answer: &Answer, relation: &str) -> Option<String> {
    let part = answer.header("link").split(", <").find(|part| part.ends_with(&format!("rel=\"{relation}\"")))?;
    Some(part.trim_start_matches('<').split('>').next()?.to_owned())
}

/// The ids on all pages, by following one relation from a first answer.
async fn follow(app: &TestApp, mut answer: Answer, relation: &str, body: Option<&Value>) -> Vec<Value> {
    let mut ids = answer.results("/public_id");
    let mut pages = 1;
    while let Some(url) = link(&answer, relation) {
        answer = match body {
            Some(body) => send(app.request(query(), &url).json(body)).await,
            None => app.get(&url).await,
        };
        assert_eq!(answer.status, 200, "{}", answer.text);
        ids.extend(answer.results("/public_id"));
        pages += 1;
        assert!(pages < 20, "the pages do not end: {url}");
    }
    ids
}

async fn five_types(app: &TestApp) {
    for name in ["aa", "bb", "cc", "dd", "ee"] {
        app.create_type(name, &[("city", "text")]).await;
    }
}

on_each_store! {
    async fn an_error_is_a_problem_of_rfc_9457_too(app) {
        let answer = app.get("/types/77").await;
        let body = answer.error(404, "type_not_found");
        assert_eq!(answer.header("content-type"), "application/json");
        assert_eq!(body["type"], format!("{}/docs/errors#type_not_found", app.origin));
        assert_eq!((&body["title"], &body["detail"]), (&json!("there is no such type"), &body["message"]));
        assert_eq!(body["instance"], format!("/rest/types/77#{}", answer.header("x-request-id")));
        for (accept, kind) in [
            ("application/problem+json", "application/problem+json"),
            ("application/json, application/problem+json", "application/problem+json"),
            ("application/json, Application/Problem+JSON;q=0.5", "application/json"),
            ("application/problem+json;q=0, */*", "application/json"),
            ("*/*", "application/json"),
        ] {
            let answer = send(app.request(Method::GET, "/types/77").header("Accept", accept)).await;
            answer.error(404, "type_not_found");
            assert_eq!(answer.header("content-type"), kind, "{accept}");
        }
        let bad = app.get("/objects/?filter={\"$foo\":1}").await.json();
        assert_eq!(bad["type"], format!("{}/docs/errors#query_", app.origin));
        let page = send(app.anonymous(Method::GET, &format!("{}/docs/errors", app.origin))).await;
        assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
        for anchor in ["type_not_found", "query_", "precondition_required"] {
            assert!(page.text.contains(&format!("<tr id=\"{anchor}\">")), "{anchor}");
        }
    }

    async fn links_lead_through_a_list_and_end(app) {
        five_types(app).await;
        let first = app.get("/types/?limit=2&sort=-name").await;
        assert_eq!(link(&first, "prev"), None);
        assert_eq!(link(&first, "last"), Some(format!("{}/rest/types/?page=3&limit=2&sort=-name", app.origin)));
        assert_eq!(follow(app, first, "next", None).await, [5, 4, 3, 2, 1]);
        let last = app.get("/types/?limit=2&page=3").await;
        assert_eq!(link(&last, "next"), None);
        // The member of the body stays as the specification has it.
        assert_eq!(last.json()["pagination"]["next"], last.json()["pagination"]["last"]);
        assert_eq!(follow(app, last, "prev", None).await, [5, 3, 4, 1, 2]);
        let only = app.get("/types/").await;
        assert_eq!((link(&only, "next"), link(&only, "prev")), (None, None));
        assert_eq!(link(&only, "first"), link(&only, "last"));
        // Beyond the end there is no next page either.
        assert_eq!(link(&app.get("/types/?page=99").await, "next"), None);
    }

    async fn every_list_takes_its_parameters_in_the_body_of_a_query(app) {
        five_types(app).await;
        let id = app.create_object(1, &json!({"city": "Oslo"})).await;
        app.post("/users/1/settings/", &json!({"identifier": "theme", "setting_type": "GLOBAL"})).await;
        for (path, total) in [
            ("/objects/".to_owned(), 1), ("/types/".to_owned(), 5), ("/categories/".to_owned(), 0), ("/users/".to_owned(), 1),
            ("/groups/".to_owned(), 2), ("/rights/".to_owned(), 62), (format!("/objects/{id}/references"), 0),
            ("/objects/clean/1".to_owned(), 0), ("/users/1/settings/".to_owned(), 1),
        ] {
            let answer = send(app.request(query(), &path).json(&json!({"limit": 3, "page": 1}))).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text);
            assert_eq!((&answer.json()["total"], &answer.json()["parameters"]["limit"]), (&json!(total), &json!(3)), "{path}");
            assert_eq!(answer.header("accept-query"), "application/json", "{path}");
            assert_eq!(app.get(&path).await.header("accept-query"), "application/json", "{path}");
            let wrong = send(app.request(query(), &path).json(&json!({"limt": 3, "page": 1}))).await;
            wrong.error(400, "parameter_invalid");
            send(app.request(query(), &path).body("{}")).await.error(415, "not_json");
        }
        let filter = json!({"filter": {"name": {"$in": ["bb", "dd"]}}, "sort": {"name": -1}});
        let answer = send(app.request(query(), "/types/").json(&filter)).await;
        assert_eq!(answer.results("/name"), ["dd", "bb"]);
        assert_eq!(send(app.anonymous(query(), "/types/").json(&filter)).await.status, 401);
    }

    async fn the_links_of_a_query_are_usable(app) {
        five_types(app).await;
        let body = json!({"filter": {"public_id": {"$gt": 0}}, "limit": 2});
        let first = send(app.request(query(), "/types/").json(&body)).await;
        assert_eq!(follow(app, first, "next", None).await, [1, 2, 3, 4, 5]);
        // A filter that no URL can hold is sent in the same body.
        let long: Vec<i64> = (1..=900).map(|id| id * 1_000_000_000_000_007).chain(1..=5).collect();
        let body = json!({"filter": {"public_id": {"$in": long}}, "limit": 2});
        let first = send(app.request(query(), "/types/").json(&body)).await;
        assert_eq!(link(&first, "next"), Some(format!("{}/rest/types/?page=2", app.origin)));
        assert_eq!(follow(app, first, "next", Some(&body)).await, [1, 2, 3, 4, 5]);
        let beside = send(app.request(query(), "/types/?filter={}").json(&body)).await;
        beside.error(400, "parameter_invalid");
        let posted = app.post("/objects/query?page=2", &json!({})).await;
        assert_eq!(posted.json()["parameters"]["page"], 2);
    }

    async fn a_resource_says_which_patches_it_takes(app) {
        let id = app.create_type("rack", &[]).await;
        let taken = "application/merge-patch+json, application/json";
        for answer in [app.get(&format!("/types/{id}")).await, app.get("/types/77").await, app.get("/objects/").await] {
            assert_eq!(answer.header("accept-patch"), taken);
        }
        let wrong = app.request(Method::PATCH, &format!("/types/{id}")).header("Content-Type", "text/plain").body("{}");
        let wrong = send(wrong).await;
        wrong.error(415, "not_json");
        assert_eq!(wrong.header("accept-patch"), taken);
        assert_eq!(app.get("/rights/").await.header("accept-patch"), "");
    }

    async fn a_token_that_is_refused_is_told_from_one_that_is_missing(app) {
        let challenge = async |token: Option<&str>| {
            let request = app.anonymous(Method::GET, "/types/");
            send(token.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth)).await.header("www-authenticate").to_owned()
        };
        assert_eq!(challenge(None).await, "Bearer");
        assert_eq!(challenge(Some("x.y.z")).await, "Bearer error=\"invalid_token\"");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_asks_for_if_match() {
    let app = TestApp::embedded_with(&[("api.require_if_match", "true")]).await;
    let rack = app.create_type("rack", &[("city", "text")]).await;
    let id = app.create_object(rack, &json!({"city": "Oslo"})).await;
    for path in [format!("/types/{rack}"), format!("/objects/{id}")] {
        app.patch(&path, &json!({})).await.error(428, "precondition_required");
        app.put(&path, &json!({})).await.error(428, "precondition_required");
        app.delete(&path).await.error(428, "precondition_required");
    }
    app.put(&format!("/objects/{id}/state"), &json!(false)).await.error(428, "precondition_required");
    let tag = app.get(&format!("/objects/{id}/native")).await.header("etag").to_owned();
    let change = app.request(Method::PATCH, &format!("/objects/{id}")).json(&json!({"fields": {"city": "Bergen"}}));
    assert_eq!(send(change.header("If-Match", &tag)).await.status, 202);
    let stale = app.request(Method::DELETE, &format!("/objects/{id}")).header("If-Match", &tag);
    send(stale).await.error(412, "precondition_failed");
    // Requests about several objects take no If-Match.
    let filter = "/objects/?filter={}&expected_count=1";
    assert_eq!(app.patch(filter, &json!({"active": true})).await.status, 202);
    assert_eq!(app.delete(&format!("/objects/delete/{id},99")).await.status, 200);
    let any = app.request(Method::DELETE, &format!("/types/{rack}")).header("If-Match", "*");
    assert_eq!(send(any).await.status, 202);
}
