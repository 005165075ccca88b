//! Bodies that are small on the wire and large in memory, wrong in very many places, or never there as a whole.

use std::sync::mpsc;
use std::thread;

use reqwest::Method;
use serde_json::{Value, json};

use super::{assert_refused, assert_well};
use crate::support::app::{Answer, TestApp, fields, on_each_store, send};
use crate::support::wire::{RawAnswer, Wire};

/// `head`, then `count` times `piece`, then `tail`.
fn long(head: &str, piece: &str, count: usize, tail: &str) -> String {
    [head, &piece.repeat(count), tail].concat()
}

async fn json_text(app: &TestApp, method: Method, path: &str, body: String) -> Answer {
    send(app.request(method, path).header("Content-Type", "application/json").body(body)).await
}

/// A bulk request whose body comes packed with zstd.
async fn packed_bulk(app: &TestApp, media_type: &str, body: &str) -> Answer {
    let packed = zstd::stream::encode_all(body.as_bytes(), 3).expect("it can be packed");
    assert!(packed.len() < 16 * 1024, "{}", packed.len());
    let request = app.request(Method::POST, "/objects/bulk").header("Content-Type", media_type);
    send(request.header("Content-Encoding", "zstd").body(packed)).await
}

async fn import(app: &TestApp, token: Option<&str>, type_id: i64, file: String) -> Answer {
    let path = format!("/import/objects?type_id={type_id}");
    let request = match token {
        Some(token) => app.anonymous(Method::POST, &path).bearer_auth(token),
        None => app.request(Method::POST, &path),
    };
    send(request.header("Content-Type", "text/csv").body(file)).await
}

/// A user of the group of administrators, signed in.
async fn second_user(app: &TestApp) -> (i64, String) {
    let body = json!({"user_name": "ada", "password": "correct horse battery", "group_id": 1});
    (app.created("/users/", &body).await, app.login("ada", "correct horse battery").await)
}

/// The answer to that of several unfinished requests which is answered first; the others stay as they are.
fn first_answer(app: &TestApp, requests: &[String]) -> RawAnswer {
    let (sender, answers) = mpsc::channel();
    for request in requests {
        let (mut wire, sender) = (Wire::connect(&app.origin), sender.clone());
        wire.send(request);
        thread::spawn(move || sender.send(wire.answer()));
    }
    answers.recv().expect("an answer").expect("an answer in time").expect("an answer")
}

on_each_store! {
    async fn a_packed_list_is_read_no_further_than_it_may_be_long(app) {
        let millions = 16 * 1024 * 1024 - 2;
        packed_bulk(app, "application/json", &long("[1", ",1", millions, "]")).await.error(400, "too_many_objects");
        packed_bulk(app, "application/x-ndjson", &"1\n".repeat(millions)).await.error(400, "too_many_objects");
        packed_bulk(app, "application/json", &long("[[1", ",1", millions, "]]")).await.error(400, "json_malformed");
        let fields = long("[{\"fields\": [{\"a\": 1}", ",{\"a\": 1}", 3_700_000, "]}]");
        packed_bulk(app, "application/json", &fields).await.error(400, "json_malformed");
        packed_bulk(app, "application/json", &long("[", " ", 40_000_000, "]")).await.error(413, "body_too_large");
        assert_well(app, 0).await;
    }

    async fn a_body_has_a_bounded_number_of_values(app) {
        let many = long("{\"type_id\": 1, \"author_id\": 1, \"fields\": [1", ",1", 400_000, "]}");
        for (method, path) in [
            (Method::POST, "/objects/"),
            (Method::POST, "/objects/query"),
            (Method::PATCH, "/objects/?filter=%7B%7D&expected_count=0"),
            (Method::POST, "/types/"),
            (Method::POST, "/users/1/settings/"),
        ] {
            let answer = json_text(app, method, path, many.clone()).await;
            answer.error(400, "json_malformed");
            assert!(answer.text.len() < 2000, "{path}: {}", answer.text.len());
        }
        json_text(app, Method::PATCH, "/users/1", long("[1", ",1", 400_000, "]")).await.error(400, "json_malformed");
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let path = format!("/import/objects?type_id={rack}&format=ndjson");
        let lines = long("", &format!("{}\n", long("{\"a\": [1", ",1", 45_000, "]}")), 10, "");
        let request = app.request(Method::POST, &path).header("Content-Type", "application/x-ndjson");
        send(request.body(lines)).await.error(400, "import_refused");
        assert_well(app, 0).await;
    }

    async fn a_list_of_violations_ends_at_100_and_counts_the_others(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let body = long(&format!("{{\"type_id\": {rack}, \"author_id\": 1, \"fields\": [{{}}"), ",{}", 20_000, "]}");
        let answer = json_text(app, Method::POST, "/objects/", body).await;
        let error = answer.error(400, "validation_failed");
        assert_eq!(error["errors"].as_array().map(Vec::len), Some(100));
        assert_eq!(error["errors_left_out"], 2 * 20_001 - 100);
        assert!(answer.text.len() < 20_000, "{}", answer.text.len());
        let short = app.post("/objects/", &json!({"type_id": rack, "author_id": 1, "fields": [{}]})).await;
        assert!(short.error(400, "validation_failed").get("errors_left_out").is_none(), "{}", short.text);
        let names: Vec<Value> = (0..5000).map(|index| json!({"type": "text", "name": format!("-{index}"), "label": 1})).collect();
        let answer = app.post("/types/", &json!({"name": "many", "author_id": 1, "fields": names})).await;
        assert_eq!(answer.error(400, "validation_failed")["errors"].as_array().map(Vec::len), Some(100));
        let many: Vec<String> = (0..20_000).map(|index| format!("base.no.{index}")).collect();
        let answer = app.post("/groups/", &json!({"name": "many", "rights": many})).await;
        assert_eq!(answer.error(400, "validation_failed")["errors_left_out"], 19_900);
    }

    async fn all_items_of_a_request_name_1000_violations_together(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let unknown: Value = (0..150).map(|index| (format!("f{index}"), json!(1))).collect::<serde_json::Map<_, _>>().into();
        let items: Vec<Value> =
            (0..50).map(|_| json!({"type_id": rack, "author_id": 1, "fields": fields(&unknown)})).collect();
        let each = app.post("/objects/bulk", &json!(items)).await;
        assert_eq!(each.status, 207, "{}", each.text);
        let results = each.json()["results"].as_array().cloned().expect("results");
        let listed: usize = results.iter().map(|item| item["errors"].as_array().map_or(0, Vec::len)).sum();
        let left_out: u64 = results.iter().map(|item| item["errors_left_out"].as_u64().unwrap_or(0)).sum();
        assert_eq!((listed, left_out), (1000, 50 * 150 - 1000));
        let together = app.post("/objects/bulk?atomic=true", &json!(items)).await;
        let error = together.error(400, "validation_failed");
        assert_eq!((error["errors"].as_array().map(Vec::len), &error["errors_left_out"]), (Some(100), &json!(7400)));
        assert_well(app, 0).await;
    }

    async fn an_import_lists_1000_errors_and_counts_the_others(app) {
        let rack = app.create_type("rack", &[("units", "number")]).await;
        let file = long("units\n", "many\n", 3000, "");
        let report = import(app, None, rack, file).await.error(400, "import_refused")["report"].clone();
        assert_eq!(report["errors"].as_array().map(Vec::len), Some(1000));
        assert_eq!((&report["errors_left_out"], &report["failed"]), (&json!(2000), &json!(3000)));
        assert_eq!((&report["errors"][0]["line"], &report["errors"][999]["line"]), (&json!(2), &json!(1001)));
    }

    async fn an_answer_repeats_no_long_text(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let name = "x".repeat(500_000);
        for (path, body) in [
            ("/objects/".to_owned(), json!({"type_id": rack, "author_id": 1, "fields": [{"name": name, "value": 1}]})),
            ("/groups/".to_owned(), json!({"name": "a", "rights": [name]})),
            ("/users/1/settings/".to_owned(), json!({"identifier": name, "setting_type": "GLOBAL"})),
            ("/users/1/settings/".to_owned(), json!({"identifier": "a", "setting_type": "GLOBAL", "payload": {format!("${name}"): 1}})),
            ("/objects/query".to_owned(), json!({"filter": {"a": {format!("${name}"): 1}}})),
            ("/objects/query".to_owned(), json!({&name: 1})),
        ] {
            let answer = app.post(&path, &body).await;
            assert_refused(&answer, &path);
            assert!(answer.text.len() < 8000, "{path}: {}", answer.text.len());
        }
        let twice = format!("{{\"{name}\": 1, \"{name}\": 2}}");
        let answer = json_text(app, Method::POST, "/types/", twice).await;
        answer.error(400, "json_malformed");
        assert!(answer.text.len() < 8000, "{}", answer.text.len());
        let answer = import(app, None, rack, format!("{name}\n1\n")).await;
        answer.error(400, "import_refused");
        assert!(answer.text.len() < 8000, "{}", answer.text.len());
    }

    async fn a_body_without_a_token_is_short(app) {
        let send_login = async |body: String| {
            send(app.anonymous(Method::POST, "/auth/login").header("Content-Type", "application/json").body(body)).await
        };
        let list = long("{\"user_name\": [1", ",1", 500_000, "], \"password\": \"a\"}");
        send_login(list).await.error(413, "body_too_large");
        let packed = zstd::stream::encode_all(long("[", " ", 9000, "]").as_bytes(), 3).expect("it can be packed");
        let request = app.anonymous(Method::POST, "/auth/login").header("Content-Type", "application/json");
        send(request.header("Content-Encoding", "zstd").body(packed)).await.error(413, "body_too_large");
        for wrong in [json!([1]), json!({"a": 1}), json!(1), json!(null), json!(true), json!("x".repeat(2000))] {
            let body = json!({"user_name": wrong, "password": wrong}).to_string();
            let answer = send_login(body).await;
            answer.error(400, "validation_failed");
            assert!(answer.text.len() < 1000, "{}", answer.text);
        }
        app.login("admin", crate::support::app::ADMIN_PASSWORD).await;
    }

    async fn an_import_that_trickles_takes_no_place_from_others(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let (_, ada) = second_user(app).await;
        let head = format!(
            "POST /rest/import/objects?type_id={rack} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ada}\r\nContent-Type: \
             text/csv\r\nContent-Length: 1000\r\n\r\nname\n"
        );
        // Two have begun when the same user is refused a third one.
        let answer = first_answer(app, &[head.clone(), head.clone(), head]);
        assert_eq!(answer.status, 503);
        assert!(answer.body.contains("imports_busy") && answer.head.contains("retry-after"), "{answer:?}");
        import(app, Some(&ada), rack, "name\na\n".to_owned()).await.error(503, "imports_busy");
        for name in ["b", "c", "d"] {
            let answer = import(app, None, rack, format!("name\n{name}\n")).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
    }

    async fn nothing_of_a_body_is_read_before_its_sender_is_known(app) {
        let description = app.get(&format!("{}/openapi.json", app.origin)).await.json();
        let mut seen = 0;
        for (path, item) in description["paths"].as_object().expect("paths") {
            let methods = item.as_object().expect("operations").iter().filter(|(_, operation)| operation["requestBody"].is_object());
            for (method, _) in methods.filter(|_| path != "/rest/auth/login") {
                let method = method.trim_start_matches("x-").to_uppercase();
                let path = path.replace(['{', '}'], "");
                let mut wire = Wire::connect(&app.origin);
                // The body never comes.
                wire.send(&format!(
                    "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
                ));
                assert_eq!(wire.expect_answer().status, 401, "{method} {path}");
                seen += 1;
            }
        }
        assert!(seen > 20, "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_of_one_user_leave_room_for_others() {
    let app = TestApp::embedded_with(&[
        ("api.max_import_bytes", "40000"),
        ("api.max_bulk_body_bytes", "40000"),
        ("server.max_body_bytes", "40000"),
    ])
    .await;
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let (_, ada) = second_user(&app).await;
    let head = |length: usize| {
        format!(
            "POST /rest/objects/bulk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ada}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let begun = format!("{}{}", head(39_999), " ".repeat(30_000));
    // One of the two is over the bound of their user.
    let answer = first_answer(&app, &[begun.clone(), begun]);
    assert_eq!(answer.status, 503);
    assert!(answer.body.contains("bodies_busy") && answer.head.contains("retry-after"), "{answer:?}");
    let answer = import(&app, None, rack, format!("name\n{}\n", "x".repeat(30_000))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}
