//! What differs between two moments of an object: field by field, and as RFC 6902.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use bson::raw::RawDocumentBuf;
use serde_json::{Map, Value, json};

use crate::http::call::{Answer, Call};
use crate::http::envelope::{self, Wire};
use crate::http::error::ApiError;
use crate::http::params::Parameters;
use crate::http::path::PathId;
use crate::http::schema::{Diff, Moments, operation};
use crate::pointer::escaped;
use crate::service::history::diff::{self as history, FieldChange};
use crate::service::history::moments::moment;
use crate::service::resource::Objects;

operation! {
    /// Tell what differs between two moments of an object.
    diff_object: params(Moments), responses((status = 200, body = Diff))
}
pub(in crate::http) async fn diff_object(Call { state, request, caller }: Call, id: PathId) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["from", "to"], state.params.unknown)?;
    let from = sent.get("from").ok_or_else(|| {
        ApiError::parameter(
            "from",
            "is required: a time of RFC 3339, as 2026-01-31T12:00:00Z, or the sequence of a log entry",
        )
    })?;
    let from = moment(&state.services, "from", from).await?;
    let to = match sent.get("to") {
        Some(to) => Some(moment(&state.services, "to", to).await?),
        None => None,
    };
    let diff = history::diff_object(&state.services, &caller, id.0, from, to).await?;
    let (before, after) = (value(diff.before)?, value(diff.after)?);
    let mut patch = Vec::new();
    difference("", &before, &after, &mut patch);
    let fields: Vec<Value> = diff.fields.into_iter().map(field).collect::<Result<_, ApiError>>()?;
    Ok(HttpResponse::build(StatusCode::OK).json(json!({ "fields": fields, "patch": patch })))
}

/// A stored object as native reads show it; null for none.
fn value(document: Option<RawDocumentBuf>) -> Result<Value, ApiError> {
    let Some(document) = document else { return Ok(Value::Null) };
    let mut text = Vec::with_capacity(document.as_bytes().len() * 2);
    envelope::write_document(&document, Objects::DATES, &mut text)?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

fn field(change: FieldChange) -> Result<Value, ApiError> {
    let mut shown = Map::new();
    shown.insert("name".to_owned(), change.name.into());
    shown.insert("label".to_owned(), change.label.into());
    for (name, side) in [("from", change.from), ("to", change.to)] {
        let wrapped = value(side)?;
        shown.insert(name.to_owned(), wrapped.get("value").cloned().unwrap_or_default());
    }
    Ok(Value::Object(shown))
}

/// Adds the operations of RFC 6902 that turn `before` into `after`.
fn difference(place: &str, before: &Value, after: &Value, patch: &mut Vec<Value>) {
    match (before, after) {
        _ if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            for name in old.keys().filter(|name| !new.contains_key(*name)) {
                patch.push(json!({ "op": "remove", "path": format!("{place}/{}", escaped(name)) }));
            }
            for (name, value) in new {
                let place = format!("{place}/{}", escaped(name));
                match old.get(name) {
                    Some(before) => difference(&place, before, value, patch),
                    None => patch.push(json!({ "op": "add", "path": place, "value": value })),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for (index, (before, after)) in old.iter().zip(new).enumerate() {
                difference(&format!("{place}/{index}"), before, after, patch);
            }
            for index in (new.len()..old.len()).rev() {
                patch.push(json!({ "op": "remove", "path": format!("{place}/{index}") }));
            }
            for value in new.iter().skip(old.len()) {
                patch.push(json!({ "op": "add", "path": format!("{place}/-"), "value": value }));
            }
        }
        _ => patch.push(json!({ "op": "replace", "path": place, "value": after })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_name_what_was_added_removed_and_replaced() {
        let mut patch = Vec::new();
        let before = json!({"a": 1, "b": [1, 2, 3], "c/d": {"e": 1}, "gone": true});
        let after = json!({"a": 2, "b": [1, 9], "c/d": {"e": 1, "f": [2]}, "g": null});
        difference("", &before, &after, &mut patch);
        let expected = json!([
            {"op": "remove", "path": "/gone"},
            {"op": "replace", "path": "/a", "value": 2},
            {"op": "replace", "path": "/b/1", "value": 9},
            {"op": "remove", "path": "/b/2"},
            {"op": "add", "path": "/c~1d/f", "value": [2]},
            {"op": "add", "path": "/g", "value": null},
        ]);
        assert_eq!(Value::from(patch), expected);
    }

    #[test]
    fn an_object_that_was_not_there_replaces_nothing() {
        let mut patch = Vec::new();
        difference("", &Value::Null, &json!({"a": 1}), &mut patch);
        assert_eq!(patch, [json!({"op": "replace", "path": "", "value": {"a": 1}})]);
    }
}
