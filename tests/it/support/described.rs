//! Answers against the description of the interface: whatever a test sees has to be described.

use inventory_service::http::openapi::document;
use inventory_service::http::{route_table, routes};
use inventory_service::service::ErrorCode;
use reqwest::Method;
use serde_json::Value;

use super::app::Answer;

/// Asserts that the description has the status of this answer for its operation and, if it is an error, the code.
#[track_caller]
pub(crate) fn assert_described(method: &Method, path: &str, answer: &Answer) {
    let method = actix_web::http::Method::from_bytes(method.as_str().as_bytes()).expect("a method");
    // No operation, no description: wrong methods, wrong paths, aliases.
    let Some(route) = route_table::find(routes::infos(), &method, path).filter(|_| path.starts_with('/')) else {
        return;
    };
    let item = &document()["paths"][route.path];
    let member = route.method.as_str().to_ascii_lowercase();
    let operation = item.get(&member).expect("an operation");
    let status = answer.status.as_u16();
    let response = operation["responses"].get(status.to_string());
    let response =
        response.unwrap_or_else(|| panic!("{method} {}: {status} is not described: {}", route.path, answer.text));
    let Ok(Value::Object(body)) = serde_json::from_str(&answer.text) else { return };
    let explanation = response.pointer("/content/application~1json/x-explain");
    if let Some(schema) = explanation.filter(|_| body.contains_key("plan")) {
        assert_fits(&Value::Object(body), schema, "");
        return;
    }
    let Some(code) = body.get("code").and_then(Value::as_str).filter(|_| status >= 400) else { return };
    let codes = response["x-codes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pattern = ErrorCode::named(code).map(ErrorCode::pattern);
    let is_described = codes.into_iter().any(|known| Some(known) == pattern);
    assert!(is_described, "{method} {}: the code {code} is not described", route.path);
}

/// Asserts that a value has the types, members and words of its schema: as much of JSON Schema as explanations need.
#[track_caller]
fn assert_fits(value: &Value, schema: &Value, place: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document().pointer(reference.trim_start_matches('#')).expect("a reference leads somewhere");
        return assert_fits(value, target, place);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if let Some(expected) = schema["type"].as_str() {
        assert_eq!(kind, expected, "{place}: {value}");
    }
    if let Some(words) = schema["enum"].as_array() {
        assert!(words.contains(value), "{place}: {value} is not one of {words:?}");
    }
    let Some(members) = value.as_object().filter(|_| schema["properties"].is_object()) else { return };
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        assert!(members.contains_key(required), "{place}: {required} is missing");
    }
    for (name, member) in members {
        let described = schema["properties"].get(name);
        let described = described.unwrap_or_else(|| panic!("{place}/{name} is not described"));
        assert_fits(member, described, &format!("{place}/{name}"));
    }
}
