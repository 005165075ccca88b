//! Examples of requests and answers, kept as data in `examples.json` by the operation's id.

use std::sync::LazyLock;

use serde_json::Value;

static EXAMPLES: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).expect("examples.json is JSON"));

/// Puts the operation's examples into it.
pub(super) fn add(operation: &mut Value, id: &str) {
    let Some(examples) = EXAMPLES.get(id) else { return };
    if let (Some(request), Some(content)) = (examples.get("request"), operation.pointer_mut("/requestBody/content")) {
        for media_type in content.as_object_mut().into_iter().flat_map(|content| content.values_mut()) {
            media_type["example"] = request.clone();
        }
    }
    for (status, answer) in examples.get("answers").and_then(Value::as_object).into_iter().flatten() {
        if let Some(media_type) = operation.pointer_mut(&format!("/responses/{status}/content/application~1json")) {
            media_type["example"] = answer.clone();
        }
    }
}
