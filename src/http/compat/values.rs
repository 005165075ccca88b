//! The values of an object's fields, each in the kind of its field: DATAGERRY stores whatever it is sent.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::domain::object_fields::ValueKind;
use crate::domain::object_type::{Field, ObjectType};

/// The number of digits that a double keeps of any decimal number.
const DIGITS: usize = 15;

/// Translates the values of these fields, the `fields` of the body `bytes`.
///
/// - An empty text is null, except for a field that holds texts.
/// - A number or a boolean is text for a field that holds texts, with the digits that were sent.
/// - A text that is a number is this number for a field that holds numbers.
///
/// All else stays as it is, and is checked as usual.
pub(super) fn translate(fields: &mut [Value], bytes: &[u8], object_type: Option<&ObjectType>) {
    let mut digits: Option<Vec<Option<String>>> = None;
    for (index, field) in fields.iter_mut().enumerate() {
        let Some(field) = field.as_object_mut() else { continue };
        let name = field.get("name").and_then(Value::as_str);
        let definition = object_type.and_then(|object_type| object_type.field(name?));
        let kind = definition.map(ValueKind::of);
        let value = field.entry("value").or_insert(Value::Null);
        let translated = match (kind, &*value) {
            (_, Value::String(text)) if text.is_empty() && !definition.is_none_or(may_be_empty) => Some(Value::Null),
            (Some(ValueKind::Text), Value::Bool(sent)) => Some(Value::String(sent.to_string())),
            (Some(ValueKind::Text), Value::Number(_)) => {
                let digits = digits.get_or_insert_with(|| as_written(bytes));
                digits.get_mut(index).and_then(Option::take).map(Value::String)
            }
            (Some(ValueKind::Number), Value::String(text)) => number(text).map(Value::Number),
            _ => None,
        };
        if let Some(translated) = translated {
            *value = translated;
        }
    }
}

fn may_be_empty(field: &Field) -> bool {
    ValueKind::of(field) == ValueKind::Text && !matches!(field.kind.as_str(), "select" | "radio")
}

/// The values of the fields as the body writes them. A parsed number has lost what a double cannot hold.
fn as_written(bytes: &[u8]) -> Vec<Option<String>> {
    let read = || {
        let body: HashMap<String, &RawValue> = serde_json::from_slice(bytes).ok()?;
        let fields: Vec<HashMap<String, &RawValue>> = serde_json::from_str(body.get("fields")?.get()).ok()?;
        Some(fields.into_iter().map(|field| field.get("value").map(|value| value.get().to_owned())).collect())
    };
    read().unwrap_or_default()
}

/// The number that a text writes as JSON does, if it has no more digits than are stored.
fn number(text: &str) -> Option<Number> {
    let number: Number = serde_json::from_str(text).ok().filter(|_| !text.contains(char::is_whitespace))?;
    if number.is_i64() {
        return Some(number);
    }
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_matches('0').len();
    let double = number.as_f64().filter(|double| if digits == 0 { *double == 0.0 } else { double.is_normal() });
    double.filter(|_| digits <= DIGITS).map(|_| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_number_if_no_digit_is_lost() {
        for (text, expected) in [
            ("42", Some("42")),
            ("-9223372036854775808", Some("-9223372036854775808")),
            ("1.50", Some("1.5")),
            ("1e3", Some("1000.0")),
            ("0.0", Some("0.0")),
            ("9223372036854775808", None),
            ("0.1234567890123456", None),
            ("1e-400", None),
            ("1e400", None),
            ("007", None),
            (".5", None),
            (" 1", None),
            ("1\n", None),
            ("", None),
            ("Infinity", None),
        ] {
            assert_eq!(number(text).map(|number| number.to_string()).as_deref(), expected, "{text:?}");
        }
    }
}
