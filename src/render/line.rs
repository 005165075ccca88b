//! Lines of text that sum up an object.

use bson::spec::ElementType;

use super::stored::{FieldValues, StoredObject};
use crate::domain::object_type::{ObjectType, ReferenceSummary};
use crate::json::write::{DateStyle, write_date_text, write_value};
use crate::raw::{CorruptBson, Value};

const SEPARATOR: &str = " | ";
/// Most lines are not longer than this.
const LENGTH: usize = 64;

/// The object's line after its type's own summary.
pub(super) fn of_object(
    stored: &StoredObject<'_>,
    object_type: &ObjectType,
    values: &FieldValues<'_>,
) -> Result<String, CorruptBson> {
    let positions = object_type.layout.summary.iter().map(|&position| Some(position));
    Ok(joined(positions, values)?.unwrap_or_else(|| label_and_id(stored, object_type)))
}

/// The line of an object if the reference has its own summary: the values in the placeholders of `line`.
///
/// A placeholder without a field, or with an unknown field, stays empty. Without a line the values are joined. If they
/// are empty too, it is the object's own line.
pub(super) fn of_reference(
    summary: &ReferenceSummary,
    stored: &StoredObject<'_>,
    object_type: &ObjectType,
    values: &FieldValues<'_>,
) -> Result<String, CorruptBson> {
    let mut positions = summary.fields.iter().map(|name| object_type.position(name));
    let Some((first, others)) = summary.line.split_first() else {
        return match joined(positions, values)? {
            Some(line) => Ok(line),
            None => of_object(stored, object_type, values),
        };
    };
    let mut line = String::with_capacity(LENGTH);
    line.push_str(first);
    for piece in others {
        if let Some(position) = positions.next().flatten() {
            push_text(values.at(position), &mut line)?;
        }
        line.push_str(piece);
    }
    Ok(line)
}

/// Appends the readable form of a value: strings unchanged, nothing for null, ISO 8601 for times, JSON for the rest.
pub(super) fn push_text(value: Value<'_>, line: &mut String) -> Result<(), CorruptBson> {
    const NOT_TEXT: CorruptBson = CorruptBson("text that is not UTF-8");
    match value.element_type() {
        ElementType::Null | ElementType::Undefined => {}
        ElementType::String => line.push_str(value.as_str().ok_or(NOT_TEXT)?),
        _ => {
            let mut text = Vec::new();
            match value.as_millis() {
                Some(millis) => write_date_text(millis, DateStyle::Iso, &mut text),
                None => write_value(value, DateStyle::Iso, &mut text)?,
            }
            line.push_str(str::from_utf8(&text).map_err(|_| NOT_TEXT)?);
        }
    }
    Ok(())
}

/// The values joined; `None` if all are empty.
fn joined(
    positions: impl Iterator<Item = Option<usize>>,
    values: &FieldValues<'_>,
) -> Result<Option<String>, CorruptBson> {
    let mut line = String::with_capacity(LENGTH);
    let mut says_something = false;
    for (index, position) in positions.flatten().enumerate() {
        if index > 0 {
            line.push_str(SEPARATOR);
        }
        let before = line.len();
        push_text(values.at(position), &mut line)?;
        says_something |= line.len() > before;
    }
    Ok(says_something.then_some(line))
}

fn label_and_id(stored: &StoredObject<'_>, object_type: &ObjectType) -> String {
    let id = stored.public_id.unwrap_or(0);
    format!("{} #{id}", object_type.label).trim_start().to_owned()
}
