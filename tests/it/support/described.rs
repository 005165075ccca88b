//! Answers against the description of the interface: whatever a test sees has to stand in it.

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
    let operation = item.get(&member).or_else(|| item.get(format!("x-{member}"))).expect("an operation");
    let status = answer.status.as_u16();
    let response = operation["responses"].get(status.to_string());
    let response =
        response.unwrap_or_else(|| panic!("{method} {}: {status} is not described: {}", route.path, answer.text));
    let Ok(Value::Object(body)) = serde_json::from_str(&answer.text) else { return };
    let Some(code) = body.get("code").and_then(Value::as_str).filter(|_| status >= 400) else { return };
    let codes = response["x-codes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let pattern = ErrorCode::named(code).map(ErrorCode::pattern);
    let is_described = codes.into_iter().any(|known| Some(known) == pattern);
    assert!(is_described, "{method} {}: the code {code} is not described", route.path);
}
