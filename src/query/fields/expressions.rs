//! `$f.<name>` in expressions.

use bson::{Bson, Document, doc};

use super::{FieldPath, Fields};
use crate::query::entry;
use crate::query::error::QueryError;
use crate::query::parse_context::Location;

/// The prefix of a text in an expression that refers to a field.
pub(super) const PREFIX: &str = "$f.";

/// An expression without `$f.`; `array` is the path of the entries.
pub(super) fn rewritten(fields: &Fields, array: &str, value: &Bson, at: &mut Location) -> Result<Bson, QueryError> {
    Ok(match value {
        Bson::String(text) if text.starts_with(PREFIX) => match fields.resolved(&text[1..], at)? {
            Some(path) => Bson::Document(value_of(&path, array)),
            None => value.clone(),
        },
        Bson::Document(members) => {
            let mut written = Document::new();
            for (name, value) in members {
                at.enter(name.as_str());
                let value = if ["$literal", "$const"].contains(&name.as_str()) {
                    value.clone()
                } else {
                    rewritten(fields, array, value, at)?
                };
                written.insert(name, value);
                at.leave();
            }
            Bson::Document(written)
        }
        Bson::Array(items) => {
            let mut written = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                at.enter(index.to_string());
                written.push(rewritten(fields, array, item, at)?);
                at.leave();
            }
            Bson::Array(written)
        }
        other => other.clone(),
    })
}

/// The expression for the value of a field.
pub(super) fn value_of(path: &FieldPath<'_>, array: &str) -> Document {
    let value = entry::value_of(array, path.name);
    match path.rest {
        Some(rest) => doc! { "$let": { "vars": { "value": value }, "in": format!("$$value.{rest}") } },
        None => value,
    }
}
