//! What DATAGERRY's front end was seen to ask, in its order. `observed.json` has the requests, their status, and the members of
//! the answers that it reads; pipelines with joins are in [`pipelines`](super::pipelines).

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, on_each_compatible_store};

/// What each list has in addition to its items.
const PAGE: [&str; 10] = [
    "count", "total", "pager.page", "pager.page_size", "pager.total_pages", "pagination.current", "pagination.first",
    "pagination.prev", "pagination.next", "pagination.last",
];

/// A member that the answer lacks, or that has another form. `a[].b date`: each item of the list `a` has `b`, a date.
fn lacking<'m>(answer: &Value, member: &'m str) -> Option<&'m str> {
    let (path, form) = member.split_once(' ').unwrap_or((member, ""));
    let mut values = vec![answer];
    for part in path.split('.') {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |name| (name, true));
        let mut inner = Vec::new();
        for value in values {
            // What has no value has no members.
            let (false, found) = (value.is_null(), value.get(name)) else { continue };
            let Some(found) = found else { return Some(member) };
            match found.as_array() {
                Some(items) if is_list => inner.extend(items),
                None if is_list && !found.is_null() => return Some(member),
                _ => inner.push(found),
            }
        }
        values = inner;
    }
    let is_date = |value: &Value| value.get("$date").is_some_and(Value::is_i64);
    let is_iso = |value: &Value| value.as_str().is_some_and(|text| text.as_bytes().get(10) == Some(&b'T'));
    let is_right = |value: &&Value| match form {
        _ if value.is_null() => true,
        "date" => is_date(value),
        "text" => is_iso(value),
        _ => true,
    };
    values.iter().any(|value| !is_right(value)).then_some(member)
}

on_each_compatible_store! {
    async fn the_front_end_is_answered_as_it_was(app) {
        crate::demo::fill(app).await;
        let last = super::get(app, "/objects/?limit=1&sort=public_id&order=-1").await.body["results"][0]["public_id"].clone();
        let next = last.as_i64().expect("an id") + 1;
        let observed: Value = serde_json::from_str(include_str!("observed.json")).expect("JSON");
        let calls = observed["calls"].as_array().expect("calls");
        let mut wrong = Vec::new();
        for call in calls {
            let mut text = call.to_string();
            for new in 0..4 {
                let id = (next + new).to_string();
                text = text.replace(&format!("\"{{{new}}}\""), &id).replace(&format!("{{{new}}}"), &id);
            }
            let call: Value = serde_json::from_str(&text).expect("JSON");
            let (method, path) = (call[0].as_str().expect("a method"), call[1].as_str().expect("a path"));
            let request = app.request(Method::from_bytes(method.as_bytes()).expect("a method"), path);
            let answer = ask(if call[2].is_null() && method == "GET" { request } else { request.json(&call[2]) }).await;
            if call[3] != answer.status {
                wrong.push(format!("{method} {path}: {}, not {}: {}", answer.status, call[3], answer.body));
                continue;
            }
            let members = call[4].as_str().map(|shape| observed["shapes"][shape].as_array().expect("members"));
            let members = members.into_iter().flatten().filter_map(Value::as_str);
            let members = members.flat_map(|member| if member == "(page)" { PAGE.to_vec() } else { vec![member] });
            let lacking: Vec<&str> = members.filter_map(|member| lacking(&answer.body, member)).collect();
            if !lacking.is_empty() {
                wrong.push(format!("{method} {path}: {lacking:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), calls.len(), wrong.join("\n"));
    }

    async fn the_page_to_sign_in_asks_without_a_token(app) {
        for (path, expected) in [
            ("/date/", json!({"_id": "date", "date_format": "YYYY-MM-DDThh:mm:ssZ", "timezone": "UTC"})),
            ("/", json!({"title": "DATAGERRY", "connected": true})),
        ] {
            let answer = ask(app.anonymous(Method::GET, path)).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.body);
            for (name, value) in expected.as_object().expect("members") {
                assert_eq!(&answer.body[name], value, "{path}");
            }
            assert_eq!(ask(app.anonymous(Method::GET, path).bearer_auth("an old token")).await.status, 200, "{path}");
        }
    }
}
