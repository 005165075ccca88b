//! Examples of requests and answers: `examples.json` is a session on an initially empty store, which a test repeats.
//!
//! Requests that succeed are filled in on the page. They succeed on the store of `inventory-service demo` too.

use std::sync::LazyLock;

use percent_encoding::percent_decode_str;
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
    /// The body of the request; a text is used unchanged.
    pub request: Option<Value>,
    /// The media type of a body that is no JSON.
    pub media_type: Option<String>,
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

impl Example {
    /// Whether the request is a body of this media type.
    fn is_body_of(&self, media_type: &str) -> bool {
        match &self.media_type {
            Some(own) => own == media_type,
            None => media_type.ends_with("json") && !media_type.ends_with("ndjson"),
        }
    }

    /// The value of a parameter of the operation at `route`.
    fn parameter(&self, name: &str, route: &str) -> Option<String> {
        let (path, query) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let segments = route.split('/').zip(path.split('/'));
        let variables = segments.filter_map(|(variable, value)| {
            Some((variable.strip_prefix('{')?.strip_suffix('}')?.to_owned(), value.to_owned()))
        });
        let sent = query.split('&').filter_map(|pair| pair.split_once('='));
        let sent =
            sent.map(|(name, value)| (name.to_owned(), percent_decode_str(value).decode_utf8_lossy().into_owned()));
        variables.chain(sent).find(|(known, _)| known == name).map(|(_, value)| value)
    }
}

/// Puts the operation's examples into it. The first request that succeeds is filled in.
pub(super) fn add(operation: &mut Value, id: &str, route: &str) {
    let own = || all().iter().filter(|example| example.operation == id);
    for example in own() {
        let pointer = format!("/responses/{}/content/application~1json", example.status);
        if let Some(media_type) = operation.pointer_mut(&pointer) {
            media_type["example"] = example.answer.clone();
        }
    }
    if let Some(Value::Object(content)) = operation.pointer_mut("/requestBody/content") {
        let good: Vec<&Example> = own().filter(|example| example.status < 400).collect();
        let place = |media_type: &str| good.iter().position(|example| example.is_body_of(media_type));
        let mut ordered: Vec<(String, Value)> = std::mem::take(content).into_iter().collect();
        // The page chooses the first media type, which has to be one with an example.
        ordered.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        for (name, mut media_type) in ordered {
            if let Some(body) = place(&name).and_then(|place| good[place].request.clone()) {
                media_type["example"] = body;
            }
            content.insert(name, media_type);
        }
    }
    let Some(good) = own().find(|example| example.status < 400) else { return };
    for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
        let value = parameter["name"].as_str().and_then(|name| good.parameter(name, route));
        if let Some(value) = value {
            let is_text = parameter["schema"]["type"] == "string";
            let typed = if is_text { None } else { serde_json::from_str(&value).ok() };
            parameter["example"] = typed.unwrap_or(Value::String(value));
        }
    }
}
