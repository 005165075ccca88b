//! Requests that newcomers write out of habit: each refusal names the right way.

use reqwest::Method;
use serde_json::{Value, json};

use super::people::PASSWORD;
use crate::compat::{COMPATIBLE, ask};
use crate::support::app::{Answer, TestApp, on_each_store, send};
use crate::support::wire::Wire;

fn message(answer: &Answer, status: u16, code: &str) -> String {
    answer.error(status, code)["message"].as_str().expect("a message").to_owned()
}

/// The message of a refused parameter.
async fn refusal(app: &TestApp, path: &str, name: &str, value: &str) -> String {
    message(&app.get_with(path, &[(name, value)]).await, 400, "parameter_invalid")
}

on_each_store! {
    async fn a_get_with_a_body_is_refused_with_the_ways_to_send_one(app) {
        let body = json!({"filter": {"type_id": 1}});
        for (method, path) in [(Method::GET, "/objects/"), (Method::GET, "/types/1"), (Method::GET, "/")] {
            let told = message(&send(app.request(method, path).json(&body)).await, 400, "body_unexpected");
            assert!(told.contains("QUERY") && told.contains("POST /rest/objects/query"), "{told}");
        }
        assert_eq!(send(app.request(Method::HEAD, "/objects/").json(&body)).await.status, 400);
        assert_eq!(send(app.request(Method::GET, "/objects/").body("")).await.status, 200);
        send(app.anonymous(Method::GET, "/objects/").json(&body)).await.error(401, "token_missing");
        let chunked = |body: &str| {
            let mut wire = Wire::connect(&app.origin);
            wire.send(&format!("GET /rest/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{body}0\r\n\r\n"));
            wire.expect_answer().status
        };
        assert_eq!((chunked("2\r\n{}\r\n"), chunked("")), (400, 200));
    }

    async fn a_write_with_a_body_that_nobody_reads_is_refused_and_changes_nothing(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let kept = app.create_object(kind, &json!({"hostname": "web-1"})).await;
        let gone = app.create_object(kind, &json!({"hostname": "web-2"})).await;
        assert_eq!(app.delete(&format!("/objects/{gone}")).await.status, 200);
        for (method, path) in [
            (Method::POST, format!("/objects/{gone}/restore")),
            (Method::DELETE, format!("/objects/{kept}")),
            (Method::DELETE, format!("/objects/delete/{kept}")),
            (Method::PUT, format!("/objects/clean/{kind}")),
            (Method::DELETE, format!("/types/{kind}")),
        ] {
            for body in [json!({"dry_run": true}), json!([]), json!(1)] {
                let told = message(&send(app.request(method.clone(), &path).json(&body)).await, 400, "body_unexpected");
                assert!(told.contains("takes no body"), "{told}");
            }
        }
        assert_eq!(app.get(&format!("/objects/{kept}")).await.status, 200);
        assert_eq!(app.get(&format!("/objects/{gone}")).await.status, 404);
        // Some clients send an empty document with each request.
        let restored = send(app.request(Method::POST, &format!("/objects/{gone}/restore")).json(&json!({}))).await;
        assert_eq!(restored.status, 200, "{}", restored.text);
    }

    async fn a_condition_as_a_parameter_is_answered_with_the_filter_that_is_meant(app) {
        for (path, name, value, meant) in [
            ("/objects/", "type_id", "3", r#"filter={"type_id":3}"#),
            ("/objects/", "hostname", "web", r#"filter={"f.hostname":"web"}"#),
            ("/objects/", "fields.hostname", "web", r#"filter={"f.hostname":"web"}"#),
            ("/objects/", "f.units", "2.5", r#"filter={"f.units":2.5}"#),
            ("/objects/", "id", "7", r#"filter={"public_id":7}"#),
            ("/objects/1/references", "type_id", "3", r#"filter={"type_id":3}"#),
            ("/export/objects", "hostname", "web", r#"filter={"f.hostname":"web"}"#),
            ("/types/", "name", "server", r#"filter={"name":"server"}"#),
            ("/users/", "user_name", "admin", r#"filter={"user_name":"admin"}"#),
        ] {
            let told = refusal(app, path, name, value).await;
            let words = if meant.contains("f.") { format!("; for the field of that name use {meant}") } else { format!("; did you mean {meant}?") };
            assert!(told.ends_with(&words), "{path} {name}: {told}");
        }
        assert!(refusal(app, "/objects/", "hostname", &"x".repeat(900)).await.len() < 300);
        assert!(refusal(app, "/objects/", "sortt", "x").await.ends_with("did you mean sort?"));
        assert!(refusal(app, "/objects/", "q", "x").await.ends_with("did you mean filter?"));
        assert!(refusal(app, "/export/objects", "type", "3").await.ends_with("did you mean type_id?"));
        for (said, meant) in [("f.units desc", "-f.units"), ("public_id:ASC", "public_id")] {
            let told = refusal(app, "/objects/", "sort", said).await;
            assert_eq!(told, format!("sort: \"{said}\" is no field path; write {meant}"));
        }
        let bulk = send(app.request(Method::DELETE, "/objects/?type_id=3&expected_count=1")).await;
        assert!(message(&bulk, 400, "parameter_invalid").ends_with(r#"did you mean filter={"type_id":3}?"#));
    }

    async fn a_parameter_of_other_routes_is_no_member(app) {
        for (path, name, value, meant) in [
            ("/types/", "projection", "name", "lists of objects take it"),
            ("/types/", "view", "tree", "lists of objects, GET /rest/categories/ and GET /rest/changes/ take it"),
            ("/changes/", "after", "1", "did you mean since?"),
            ("/export/objects", "at", "10", "lists and single reads of objects, types and categories take it"),
            ("/export/objects", "limit", "10", "lists and GET /rest/changes/ take it"),
            ("/objects/", "cursor", "x", "did you mean after?"),
        ] {
            let told = refusal(app, path, name, value).await;
            assert_eq!(told, format!("{name}: is no parameter of this route; {meant}"), "{path}");
        }
        let told = message(&app.post("/objects/query", &json!({"pipeline": []})).await, 400, "parameter_invalid");
        assert!(told.ends_with("; a pipeline goes to POST /rest/objects/aggregate, or into filter on a list of objects"), "{told}");
    }

    async fn an_empty_body_is_called_empty(app) {
        let id = app.create_type("rack", &[]).await;
        for (method, path) in [
            (Method::POST, "/objects/".to_owned()),
            (Method::POST, "/objects/query".to_owned()),
            (Method::PATCH, format!("/types/{id}")),
            (Method::PUT, "/objects/1/state".to_owned()),
        ] {
            let request = app.request(method, &path).header("Content-Type", "application/json");
            let told = message(&send(request).await, 400, "json_malformed");
            assert!(told.contains("it is empty; send a JSON "), "{path}: {told}");
        }
    }

    async fn a_field_or_an_id_in_a_wrong_form_is_answered_with_the_right_one(app) {
        let rack = app.create_type("rack", &[("pages", "number")]).await;
        let id = app.create_object(rack, &json!({"pages": 1})).await;
        let told = async |body: Value| {
            let answer = app.patch(&format!("/objects/{id}"), &body).await;
            answer.error(400, "validation_failed")["errors"][0]["message"].as_str().expect("a message").to_owned()
        };
        assert!(told(json!({"pages": 14})).await.ends_with("; a field is sent as fields: {\"pages\": ...}"));
        assert_eq!(told(json!({"type_id": "2"})).await, "must be a whole number without a fraction; write 2 without quotes");
        assert_eq!(told(json!({"type_id": "x"})).await, "must be a whole number without a fraction");
    }

    async fn a_field_beside_fields_is_no_misspelt_member(app) {
        let kind = app.create_type("server", &[("state", "text"), ("versions", "text")]).await;
        let id = app.create_object(kind, &json!({"state": "spare"})).await;
        let body = json!({"type_id": kind, "author_id": 1, "state": "live"});
        let path = format!("/objects/{id}");
        let selected = format!(r#"/objects/?filter={{"public_id":{id}}}&expected_count=1"#);
        for (method, path, sent) in [
            (Method::PATCH, path.as_str(), json!({"state": "live"})),
            (Method::PUT, &path, body.clone()),
            (Method::POST, "/objects/", body.clone()),
            (Method::POST, "/objects/bulk?atomic=true", json!([body])),
            (Method::PATCH, &selected, json!({"state": "live"})),
        ] {
            let refused = send(app.request(method.clone(), path).json(&sent)).await.error(400, "validation_failed");
            let told = refused["errors"][0]["message"].as_str().expect("a message").to_owned();
            assert!(told.ends_with("is unknown here; a field is sent as fields: {\"state\": ...}"), "{method} {path}: {told}");
        }
        let told = async |body: Value| app.patch(&path, &body).await.json()["errors"][0]["message"].clone();
        assert_eq!(told(json!({"versions": "2"})).await, "is unknown here; a field is sent as fields: {\"versions\": ...}");
        assert_eq!(told(json!({"statuss": true})).await, "is unknown here; did you mean status?");
    }

    async fn a_moment_in_a_wrong_form_is_answered_with_the_right_one(app) {
        for (sent, meant) in [
            ("2026-01-31", "2026-01-31T00:00:00Z"),
            ("2026-01-31T12:00:00 01:00", "2026-01-31T12:00:00%2B01:00"),
            ("yesterday", "2026-01-31T12:00:00Z"),
        ] {
            let told = refusal(app, "/objects/", "at", sent).await;
            assert!(told.contains(&format!("{sent} is neither a time of RFC 3339, as {meant}, nor")), "{told}");
        }
    }

    async fn a_date_in_a_wrong_form_is_answered_with_the_right_one(app) {
        let kind = app.create_type("server", &[("bought", "date")]).await;
        let id = app.create_object(kind, &json!({})).await;
        let sent = "26.11.2026 10:00";
        let answer = app.patch(&format!("/objects/{id}"), &json!({"fields": {"bought": sent}})).await;
        let told = answer.error(400, "validation_failed")["errors"][0]["message"].as_str().expect("a message").to_owned();
        assert!(told.contains("2026-01-31") && told.contains("2026-01-31T12:00:00Z"), "{told}");
        let table = app.request(Method::POST, &format!("/import/objects?type_id={kind}")).header("Content-Type", "text/csv");
        let told = send(table.body(format!("bought\n{sent}\n"))).await.text;
        assert!(told.contains("2026-01-31") && told.contains("2026-01-31T12:00:00Z"), "{told}");
        assert!(refusal(app, "/objects/", "at", sent).await.contains("as 2026-01-31T12:00:00Z, nor"));
        let answer = app.post(&format!("/objects/{id}/revert"), &json!({"to": true})).await;
        let told = answer.error(400, "validation_failed")["errors"][0]["message"].as_str().expect("a message").to_owned();
        assert!(told.contains("as 2026-01-31T12:00:00Z"), "{told}");
    }

    async fn a_path_with_a_slash_too_many_or_without_rest_is_answered_with_the_right_one(app) {
        for (path, meant) in [
            ("/rest/objects/1/", "/rest/objects/1"),
            ("/rest/objects/bulk/", "/rest/objects/bulk"),
            ("/rest/auth/login/", "/rest/auth/login"),
            ("/rest//types/", "/rest/types/"),
            ("/objects/", "/rest/objects/"),
            ("/objects/1", "/rest/objects/1"),
            ("/type/1", "/rest/types/1"),
            ("/auth/login", "/rest/auth/login"),
            ("/rest/login", "/rest/auth/login"),
            ("/login/", "/rest/auth/login"),
            ("/rest/objekts/", "/rest/objects/"),
            ("/rest/objet/1", "/rest/objects/1"),
            ("/catgories", "/rest/categories/"),
            ("/rest/Objects/1/references", "/rest/objects/1/references"),
        ] {
            let answer = ask(app.request(Method::GET, &format!("{}{path}", app.origin))).await;
            assert_eq!((answer.status, &answer.body["code"]), (404, &json!("not_found")), "{path}: {}", answer.body);
            assert_eq!(answer.body["message"], format!("there is nothing under this path; did you mean {meant}?"), "{path}");
        }
        for path in ["/nothing/", "/objekts/1/nothing", "/objects/1/nothing"] {
            let told = message(&app.get(path).await, 404, "not_found");
            assert_eq!(told, "there is nothing under this path; /docs/ lists the routes", "{path}");
        }
    }

    async fn a_search_by_post_is_answered_with_the_method_for_it(app) {
        let told = message(&app.post("/types/query", &json!({})).await, 405, "method_not_allowed");
        assert!(told.ends_with("; a list with its parameters in a body is QUERY /rest/types/"), "{told}");
        let told = message(&app.post("/types/1", &json!({})).await, 405, "method_not_allowed");
        assert!(!told.contains("QUERY"), "{told}");
    }

    async fn a_number_that_is_too_large_is_called_so(app) {
        let told = refusal(app, "/objects/", "page", "99999999999999999999").await;
        assert_eq!(told, "page: must be at most 9007199254740991");
        assert!(refusal(app, "/objects/", "page", "two").await.contains("whole number"));
    }

    async fn a_filter_that_is_no_json_is_answered_with_an_example(app) {
        for (filter, meant) in [
            ("type_id=7", "; write a JSON object, for instance {\"type_id\": 7}"),
            ("7", "; write a JSON object, for instance {\"type_id\": 7}"),
            (r#"{"_id": ObjectId("65f0a1b2c3d4e5f60718293a")}"#, r#"; write {"$oid": "..."} in place of ObjectId("...")"#),
            (r#"{"creation_time": {"$gt": ISODate("2024-01-01")}}"#, r#"; write {"$date": "2026-01-31T00:00:00Z"} in place of ISODate("...")"#),
            (r#"{"f.hostname": /^ber/}"#, r#"; write {"$regex": "^a", "$options": "i"} in place of /^a/i"#),
        ] {
            let told = refusal(app, "/objects/", "filter", filter).await;
            assert!(told.ends_with(meant), "{filter}: {told}");
        }
        let request = app.request(Method::POST, "/objects/query").header("Content-Type", "application/json");
        let answer = send(request.body(r#"{"filter": {"f.hostname": /^ber/}}"#)).await;
        assert!(message(&answer, 400, "json_malformed").contains("{\"$regex\": "));
    }

    async fn an_operator_of_another_language_is_answered_with_ours(app) {
        app.create_type("rack", &[("hostname", "text")]).await;
        for operator in ["$like", "$contains", "$startsWith", "$ilike"] {
            let filter = json!({"f.hostname": {operator: "web"}}).to_string();
            let answer = app.get_with("/objects/", &[("filter", &filter)]).await;
            assert!(answer.text.contains("did you mean $regex?"), "{operator}: {}", answer.text);
        }
        let filter = json!({"f.hostname": {"$between": [1, 2]}}).to_string();
        let answer = app.get_with("/objects/", &[("filter", &filter)]).await;
        assert!(!answer.text.contains("$regex"), "{}", answer.text);
    }

    async fn an_empty_parameter_counts_as_absent(app) {
        app.create_type("rack", &[]).await;
        for name in ["filter", "projection"] {
            let answer = app.get_with("/objects/", &[(name, "")]).await;
            assert_eq!(answer.status, 200, "{name}: {}", answer.text);
            assert_eq!(answer.json()["parameters"].get("projection"), None);
        }
    }

    async fn one_object_and_a_list_of_them_name_each_others_route(app) {
        let rack = app.create_type("rack", &[]).await;
        let object = json!({"type_id": rack, "author_id": 1});
        let told = message(&app.post("/objects/bulk", &object).await, 400, "json_malformed");
        assert!(told.contains("expected an array of objects, found an object") && told.contains("POST /rest/objects/,"), "{told}");
        let told = message(&app.post("/objects/", &json!([object])).await, 400, "json_malformed");
        assert!(told.contains("POST /rest/objects/bulk"), "{told}");
        let told = message(&app.post("/types/", &json!([])).await, 400, "json_malformed");
        assert!(told.contains("expected an object, found an array") && !told.contains("bulk"), "{told}");
    }

    async fn a_sign_in_names_what_is_missing(app) {
        let answer = send(app.anonymous(Method::POST, "/auth/login").json(&json!({"user_name": "admin"}))).await;
        let errors = answer.error(400, "validation_failed")["errors"].clone();
        assert_eq!(errors, json!([{"pointer": "/password", "message": "is required: a string of 1 to 1024 characters"}]));
        let answer = send(app.anonymous(Method::POST, "/auth/login").json(&json!({"user_name": 5, "password": ""}))).await;
        assert_eq!(answer.pointers(), ["/user_name", "/password"]);
    }

    async fn a_password_in_the_place_of_a_token_is_told_what_counts(app) {
        let request = app.anonymous(Method::GET, "/types/").basic_auth("admin", Some(PASSWORD));
        let told = message(&send(request).await, 401, "token_missing");
        assert!(told.contains("auth.basic") && told.contains("POST /rest/auth/login"), "{told}");
        let request = app.anonymous(Method::GET, "/types/").header("Authorization", "Digest x");
        assert!(message(&send(request).await, 401, "token_missing").contains("Authorization: Bearer <token>"));
    }

    async fn a_weak_tag_is_told_that_it_never_matches(app) {
        let id = app.create_type("rack", &[]).await;
        let path = format!("/types/{id}");
        let tag = app.get(&path).await.header("etag").to_owned();
        let request = app.request(Method::PATCH, &path).header("If-Match", format!("W/{tag}"));
        let told = message(&send(request.json(&json!({"label": "x"}))).await, 412, "precondition_failed");
        assert!(told.contains("weak") && told.contains("without the W/") && !told.contains("has changed"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_datagerry_may_send_a_body_with_a_get() {
    let app = TestApp::embedded_with(&[COMPATIBLE]).await;
    for path in ["/types/", "/object/", "/"] {
        let answer = ask(app.request(Method::GET, path).json(&json!({"any": 1}))).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_that_the_parser_cannot_hold_is_too_long() {
    let app = TestApp::embedded().await;
    let answer = |head: &str| -> (u16, Value) {
        let mut wire = Wire::connect(&app.origin);
        wire.send(head);
        let answer = wire.expect_answer();
        (answer.status, serde_json::from_str(&answer.body).expect("JSON"))
    };
    let long = "x".repeat(70_000);
    let (status, body) = answer(&format!("GET /rest/objects/?filter={long} HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_eq!((status, &body["code"]), (414, &json!("uri_too_long")), "{body}");
    // A long header makes no URL long.
    let (status, body) = answer(&format!("GET /rest/objects/?filter=\" HTTP/1.1\r\nHost: x\r\nA: {long}\r\n\r\n"));
    assert_eq!((status, &body["code"]), (400, &json!("bad_request")), "{body}");
}
