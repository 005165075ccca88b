//! Numbers and dates at every edge, names that are there twice, bytes that are no text.

use reqwest::Method;
use serde_json::{Value, json};

use super::{assert_refused, assert_well};
use crate::support::app::{Answer, TestApp, on_each_store, send};

/// Whole numbers that no id has, as they are written.
const NO_IDS: &[&str] = &[
    "0", "-1", "-0", "+1", "1.0", "1e0", "9223372036854775808", "18446744073709551616", "-9223372036854775809",
    "99999999999999999999999999", "0x1", "NaN", "null", "1,", "", "%20", "١",
];

async fn raw(app: &TestApp, method: Method, path: &str, body: impl Into<Vec<u8>>) -> Answer {
    send(app.request(method, path).header("Content-Type", "application/json").body(body.into())).await
}

on_each_store! {
    async fn an_id_is_a_whole_number_from_1_on(app) {
        for id in NO_IDS.iter().filter(|id| !id.is_empty()) {
            for path in [format!("/objects/{id}/native"), format!("/types/{id}"), format!("/users/{id}/settings/")] {
                assert_refused(&app.get(&path).await, &path);
            }
            let path = format!("/objects/{id}");
            assert_refused(&app.delete(&path).await, &path);
        }
        for id in ["9223372036854775807", "9007199254740993", "2147483648"] {
            let path = format!("/objects/{id}/native");
            app.get(&path).await.error(404, "object_not_found");
        }
        assert_well(app, 0).await;
    }

    async fn numbers_at_the_edges_are_kept_or_refused_but_never_changed(app) {
        let of_type = app.create_type("edge", &[("number", "number"), ("text", "text")]).await;
        let mut kept = 0;
        for number in [
            "0", "-0", "9223372036854775807", "-9223372036854775808", "9007199254740993", "4294967296", "1e308", "-1e-308",
            "9223372036854775808", "18446744073709551615", "1e309", "-1e400", "0.1e-400",
            "123456789012345678901234567890123456789012345678901234567890",
        ] {
            let body = format!(
                r#"{{"type_id": {of_type}, "author_id": 1, "fields": [{{"name": "number", "value": {number}}}]}}"#
            );
            let answer = raw(app, Method::POST, "/objects/", body).await;
            if answer.status == 200 {
                kept += 1;
                let read = app.get(&format!("/objects/{}/native", answer.json()["result_id"])).await;
                let value = &read.json()["fields"][0]["value"];
                if let Ok(whole) = number.parse::<i64>() {
                    assert_eq!(value.as_f64(), Some(json!(whole).as_f64().expect("a number")), "{number}: {value}");
                } else {
                    assert!(value.as_f64().is_some_and(f64::is_finite), "{number}: {value}");
                }
            } else {
                assert_refused(&answer, number);
            }
        }
        assert_well(app, kept).await;
    }

    async fn ids_in_bodies_are_no_larger_than_an_id_can_be(app) {
        let of_type = app.create_type("edge", &[("text", "text")]).await;
        for id in ["-1", "0", "1.5", "1e30", "9223372036854775808", "\"1\"", "[1]", "{\"$gt\": 0}", "true", "null"] {
            for (name, others) in
                [("type_id", "\"author_id\": 1".to_owned()), ("author_id", format!("\"type_id\": {of_type}"))]
            {
                let body = format!(r#"{{"{name}": {id}, {others}, "fields": []}}"#);
                assert_refused(&raw(app, Method::POST, "/objects/", body.clone()).await, &body);
            }
        }
        assert_well(app, 0).await;
    }

    async fn dates_out_of_range_are_refused_or_read_back(app) {
        let of_type = app.create_type("edge", &[("day", "date")]).await;
        let mut kept = 0;
        for date in [
            json!({"$date": i64::MAX}), json!({"$date": i64::MIN}), json!({"$date": {"$numberLong": "9223372036854775808"}}),
            json!({"$date": "9999-12-31T23:59:59.999Z"}), json!({"$date": "10000-01-01T00:00:00Z"}),
            json!({"$date": "0000-00-00T00:00:00Z"}), json!({"$date": "2024-02-30T00:00:00Z"}), json!({"$date": "-1"}),
            json!({"$date": {}}), json!({"$date": null}), json!({"$date": 1e300}), json!("2024-13-45"), json!(""),
        ] {
            let body = json!({"type_id": of_type, "author_id": 1, "fields": [{"name": "day", "value": date}]});
            let answer = app.post("/objects/", &body).await;
            if answer.status == 200 {
                kept += 1;
                let id = answer.json()["result_id"].clone();
                for view in ["native", "render"] {
                    let list = app.get_with("/objects/", &[("view", view), ("sort", "fields.day")]).await;
                    assert_eq!(list.status, 200, "{date}: {}", list.text);
                }
                assert_eq!(app.get(&format!("/objects/{id}")).await.status, 200, "{date}");
            } else {
                assert_refused(&answer, &date.to_string());
            }
        }
        assert_well(app, kept).await;
    }

    async fn a_name_that_is_there_twice_is_refused(app) {
        let of_type = app.create_type("edge", &[("text", "text")]).await;
        let field = r#"{"name": "text", "value": "a"}"#;
        for body in [
            format!(r#"{{"type_id": {of_type}, "type_id": 2, "author_id": 1, "fields": []}}"#),
            format!(r#"{{"type_id": {of_type}, "author_id": 1, "fields": [{field}, {field}]}}"#),
            format!(r#"{{"type_id": {of_type}, "author_id": 1, "fields": [], "fields": [{field}]}}"#),
            format!(r#"{{"type_id": {of_type}, "author_id": 1, "fields": [{{"name": "text", "name": "b", "value": 1}}]}}"#),
        ] {
            assert_refused(&raw(app, Method::POST, "/objects/", body.clone()).await, &body);
        }
        assert_well(app, 0).await;
    }

    async fn bodies_that_are_no_json_text_are_refused(app) {
        for body in [
            &b"\xff\xfe{\x00}\x00"[..], b"{\"name\": \"\xff\"}", b"{\"name\": \"\\ud800\"}", b"{\"name\": \"a\x00b\"}", b"", b" ",
            b"null", b"1", b"\"\"", b"[]", b"{", b"{}{}", b"{\"a\": 1,}", b"{'a': 1}", b"{\"a\": NaN}", b"{\"a\": 01}",
            b"\xef\xbb\xbf{}", b"{\"na\\u0000me\": 1}", b"{\"$where\": \"1\"}", b"{\"a.b\": 1}", b"{\"\": {\"\": {}}}",
        ] {
            for path in ["/types/", "/objects/", "/categories/", "/users/", "/groups/", "/objects/query"] {
                let answer = raw(app, Method::POST, path, body).await;
                if path == "/objects/query" && answer.status == 200 {
                    continue;
                }
                assert_refused(&answer, &format!("{path} {}", String::from_utf8_lossy(body)));
            }
        }
        assert_well(app, 0).await;
    }

    async fn patches_that_make_no_document_are_refused(app) {
        let of_type = app.create_type("edge", &[("text", "text")]).await;
        let object = app.create_object(of_type, &json!({"text": "a"})).await;
        let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
        for patch in [
            "", "null", "1", "[]", "[{\"op\": \"remove\", \"path\": \"/name\"}]", "{", "{\"a\": 1,}", &deep, r#"{"name": "b", "name": "c"}"#,
            r#"{"name": {"$date": null}}"#, r#"{"name": {"$oid": "x"}}"#, r#"{"author_id": {"$numberLong": "x"}}"#,
            r#"{"fields": {"$where": "1"}}"#, r#"{"fields": [{"name": {"$gt": ""}, "value": 1}]}"#, r#"{"author_id": 1e400}"#,
            r#"{"author_id": 9223372036854775808}"#,
        ] {
            for path in [format!("/objects/{object}"), format!("/types/{of_type}")] {
                assert_refused(&raw(app, Method::PATCH, &path, patch).await, &format!("{path} {patch}"));
            }
        }
        assert_well(app, 1).await;
        assert_eq!(app.get(&format!("/types/{of_type}")).await.json()["result"]["name"], "edge");
    }

    async fn lists_and_files_of_objects_are_held_to_the_same(app) {
        let of_type = app.create_type("edge", &[("text", "text")]).await;
        let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
        let twice = format!(r#"[{{"type_id": {of_type}, "type_id": 1, "author_id": 1}}]"#);
        for body in [&b"\xff\xfe"[..], b"[\"\xff\"]", b"{}", b"null", b"[", b"", b"[1,]", deep.as_bytes(), twice.as_bytes()] {
            let answer = raw(app, Method::POST, "/objects/bulk", body).await;
            assert_refused(&answer, &String::from_utf8_lossy(body));
        }
        for line in [&b"\xff"[..], b"{", b"[]", b"7", deep.as_bytes()] {
            let request = app.request(Method::POST, "/objects/bulk?atomic=true").header("Content-Type", "application/x-ndjson");
            assert_refused(&send(request.body(line.to_vec())).await, &String::from_utf8_lossy(line));
        }
        let wide = "text,".repeat(20_000);
        for (kind, file) in [
            ("text/csv", &b"text\n\xff\xfe\n"[..]), ("text/csv", b""), ("text/csv", b"\n\n"), ("text/csv", b"text\n\"a"),
            ("text/csv", b"text,text\na,b\n"), ("text/csv", b"\0\n\0\n"), ("text/csv", wide.as_bytes()),
            ("text/csv", b"text=edge/text\na\n"), ("text/csv", b"public_id,text\n9223372036854775808,a\n"),
            ("text/csv", b"public_id,text\n-1,a\n"), ("text/csv", b"text\na,b,c\n"), ("application/x-ndjson", b"\xff\n"),
            ("application/x-ndjson", b"{\"public_id\": {\"$gt\": 0}}\n"), ("application/x-ndjson", b"{\"fields\": 7}\n"),
            ("application/x-ndjson", deep.as_bytes()),
        ] {
            let request = app.request(Method::POST, &format!("/import/objects?type_id={of_type}")).header("Content-Type", kind);
            assert_refused(&send(request.body(file.to_vec())).await, &String::from_utf8_lossy(file));
        }
        assert_well(app, 0).await;
    }

    async fn a_pattern_of_a_type_that_never_ends_refuses_the_value(app) {
        for (number, pattern) in ["(a+)+", "(a|aa)+", "(?=(a+)+$)(a+)+", "(a*)*\\1"].iter().enumerate() {
            let field = json!({"type": "text", "name": "text", "label": "Text", "regex": pattern});
            let made = app.post("/types/", &json!({"name": format!("edge-{number}"), "author_id": 1, "fields": [field]})).await;
            let of_type = made.json()["result_id"].clone();
            let value = format!("{}!", "a".repeat(5000));
            let body = json!({"type_id": of_type, "author_id": 1, "fields": [{"name": "text", "value": value}]});
            assert_refused(&app.post("/objects/", &body).await, pattern);
        }
        assert_well(app, 0).await;
    }

    async fn signing_in_takes_texts_and_nothing_else(app) {
        for name in [json!({"$ne": ""}), json!({"$gt": ""}), json!(["admin"]), json!({"$regex": ".*"}), json!(null), json!(1),
            json!({"$where": "1"}), json!(true), json!({"$numberLong": "1"})]
        {
            for body in [json!({"user_name": name, "password": name}), json!({"user_name": "admin", "password": name})] {
                let answer = send(app.anonymous(Method::POST, "/auth/login").json(&body)).await;
                answer.error(400, "validation_failed");
            }
        }
        let long: Value = json!({"user_name": "a".repeat(2000), "password": "b".repeat(2000)});
        send(app.anonymous(Method::POST, "/auth/login").json(&long)).await.error(400, "validation_failed");
    }
}
