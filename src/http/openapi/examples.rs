//! Examples of requests and answers: `examples.json` is a session on an initially empty store, which a test repeats.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

/// A request and its answer.
#[derive(Debug, Deserialize)]
pub struct Example {
    /// The id of its operation.
    pub operation: String,
    /// The method.
    pub method: String,
    /// The path, with parameters.
    pub path: String,
    /// The body of the request.
    pub request: Option<Value>,
    /// The status of the answer.
    pub status: u16,
    /// The body of the answer.
    pub answer: Value,
}

static EXAMPLES: LazyLock<Vec<Example>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("examples.json holds examples"));

/// All examples, in the order of the session.
pub fn all() -> &'static [Example] {
    &EXAMPLES
}

/// Puts the operation's examples into it.
pub(super) fn add(operation: &mut Value, id: &str) {
    for example in all().iter().filter(|example| example.operation == id) {
        if let (Some(request), Some(content)) = (&example.request, operation.pointer_mut("/requestBody/content")) {
            for media_type in content.as_object_mut().into_iter().flat_map(|content| content.values_mut()) {
                media_type["example"] = request.clone();
            }
        }
        let pointer = format!("/responses/{}/content/application~1json", example.status);
        if let Some(media_type) = operation.pointer_mut(&pointer) {
            media_type["example"] = example.answer.clone();
        }
    }
}
