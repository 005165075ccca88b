//! Values of one kind as values of another, for changes of types.

use bson::Bson;
use chrono::SecondsFormat;

use super::object_fields::ValueKind;

/// What a value is as one of this kind; nothing if it stands for none. Whether the field takes the result is for its rules.
pub fn converted(value: &Bson, kind: ValueKind) -> Option<Bson> {
    match (kind, value) {
        (_, Bson::Null) | (ValueKind::Any, _) => Some(value.clone()),
        (ValueKind::Text, value) => text(value).map(Bson::String),
        (_, Bson::String(text)) if text.trim().is_empty() => Some(Bson::Null),
        (kind, Bson::String(text)) => match kind.default_value(&Bson::from(text.trim())) {
            Bson::Null => None,
            read => Some(read),
        },
        (ValueKind::References, Bson::Int32(_) | Bson::Int64(_)) => Some(Bson::Array(vec![value.clone()])),
        (ValueKind::Reference, Bson::Array(items)) => match &items[..] {
            [] => Some(Bson::Null),
            [only] => Some(only.clone()),
            _ => None,
        },
        (ValueKind::Checkbox, Bson::Int32(0) | Bson::Int64(0)) => Some(false.into()),
        (ValueKind::Checkbox, Bson::Int32(1) | Bson::Int64(1)) => Some(true.into()),
        _ => Some(value.clone()),
    }
}

/// A value as people write it.
fn text(value: &Bson) -> Option<String> {
    Some(match value {
        Bson::String(text) => text.clone(),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => number.to_string(),
        Bson::Double(number) if number.is_finite() => number.to_string(),
        Bson::Decimal128(number) => number.to_string(),
        Bson::Boolean(flag) => flag.to_string(),
        Bson::DateTime(moment) => moment.to_chrono().to_rfc3339_opts(SecondsFormat::AutoSi, true),
        Bson::Array(items) => {
            let parts: Option<Vec<String>> =
                items.iter().map(|item| if matches!(item, Bson::Array(_)) { None } else { text(item) }).collect();
            parts?.join(", ")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, bson};

    use super::*;

    #[test]
    fn values_become_those_of_another_kind() {
        let day = DateTime::from_millis(1_769_817_600_000);
        let pairs = [
            (Bson::from("12"), ValueKind::Number, Some(Bson::Int64(12))),
            (Bson::from(" 2.5 "), ValueKind::Number, Some(Bson::Double(2.5))),
            (Bson::from("two"), ValueKind::Number, None),
            (Bson::from(""), ValueKind::Number, Some(Bson::Null)),
            (Bson::from(""), ValueKind::Text, Some(Bson::from(""))),
            (Bson::Int64(7), ValueKind::Text, Some(Bson::from("7"))),
            (Bson::Double(2.0), ValueKind::Text, Some(Bson::from("2"))),
            (day.into(), ValueKind::Text, Some(Bson::from("2026-01-31T00:00:00Z"))),
            (Bson::from("2026-01-31"), ValueKind::Date, Some(day.into())),
            (Bson::from("2001:DB8::7"), ValueKind::Ip, Some(Bson::from("2001:db8::7"))),
            (Bson::from("7, 9"), ValueKind::References, Some(bson!([7_i64, 9_i64]))),
            (Bson::Int64(7), ValueKind::References, Some(bson!([7_i64]))),
            (bson!([7_i64]), ValueKind::Reference, Some(Bson::Int64(7))),
            (bson!([7_i64, 9_i64]), ValueKind::Reference, None),
            (bson!([]), ValueKind::Reference, Some(Bson::Null)),
            (bson!(["a", "b"]), ValueKind::Text, Some(Bson::from("a, b"))),
            (bson!({"a": 1}), ValueKind::Text, None),
            (Bson::from("a"), ValueKind::Options, Some(bson!(["a"]))),
            (Bson::from("true"), ValueKind::Checkbox, Some(true.into())),
            (Bson::Int64(1), ValueKind::Checkbox, Some(true.into())),
            (Bson::Null, ValueKind::Checkbox, Some(Bson::Null)),
        ];
        for (value, kind, expected) in pairs {
            assert_eq!(converted(&value, kind), expected, "{value} as {kind:?}");
        }
    }
}
