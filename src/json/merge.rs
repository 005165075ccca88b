//! Merge patches (RFC 7396) for stored documents.

use bson::Document;
use bson::raw::RawDocument;
use serde_json::{Map, Value};

use super::read::{JsonError, trusted_document_from_str};
use super::write::{DateStyle, Shape, write_document};
use crate::raw::CorruptBson;

/// Why there is no merged document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The stored document is damaged.
    #[error(transparent)]
    Corrupt(#[from] CorruptBson),
    /// The patched document is not Extended JSON, for instance `{"$date": null}`.
    #[error(transparent)]
    Unreadable(#[from] JsonError),
}

/// The patched document as clients see it, without `_id`.
///
/// # Errors
/// See [`MergeError`].
pub fn merged(stored: &RawDocument, patch: &Value) -> Result<Document, MergeError> {
    let mut text = Vec::new();
    write_document(stored, Shape::new(DateStyle::Millis), &mut text)?;
    let mut body: Value = serde_json::from_slice(&text).map_err(JsonError::from)?;
    merge(&mut body, patch);
    Ok(trusted_document_from_str(&body.to_string())?)
}

/// Applies the patch to the target: `null` removes a member, an object is merged, anything else replaces.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(members) = target else { return };
    for (name, change) in patch {
        if change.is_null() {
            members.shift_remove(name);
        } else {
            merge(members.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_merges_as_its_standard_says() {
        // Appendix A of RFC 7396.
        for (mut target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            merge(&mut target, &patch);
            assert_eq!(target, result, "{patch}");
        }
    }

    #[test]
    fn what_is_left_keeps_its_order() {
        let mut target = json!({"c": 1, "a": 2, "b": 3});
        merge(&mut target, &json!({"c": null, "a": 4}));
        assert_eq!(target.to_string(), r#"{"a":4,"b":3}"#);
    }
}
