//! Bounds of keys in readable form: `[5, 5]`, `("a", "b"]`, `[MinKey, MaxKey]`.

use bson::oid::ObjectId;

use crate::store::embedded::index::bounds::{KeyBounds, Span};
use crate::store::embedded::index::key::kind;
use crate::store::embedded::index::number;

/// More intervals than this are counted, not listed.
const MAX_INTERVALS: usize = 20;

/// The intervals of a component of an index; without bounds it is all of its keys.
pub(crate) fn intervals(bounds: Option<&KeyBounds>) -> Vec<String> {
    let Some(bounds) = bounds else { return vec!["[MinKey, MaxKey]".to_owned()] };
    let mut shown: Vec<String> = bounds.spans.iter().take(MAX_INTERVALS).map(interval).collect();
    if bounds.spans.len() > MAX_INTERVALS {
        shown.push(format!("and {} more", bounds.spans.len() - MAX_INTERVALS));
    }
    shown
}

fn interval(span: &Span) -> String {
    if span.point {
        let value = value(&span.start).unwrap_or_else(|| named(&span.start, "some"));
        return format!("[{value}, {value}]");
    }
    format!("{}, {}", lower(&span.start), upper(&span.end))
}

/// Where an interval begins: the key itself, or the first bytes above one.
fn lower(start: &[u8]) -> String {
    if let Some(value) = value(start).or_else(|| beginning(start)) {
        return format!("[{value}");
    }
    match below(start).as_deref().and_then(value) {
        Some(nan) if nan == "NaN" => "[-Infinity".to_owned(),
        Some(value) => format!("({value}"),
        None => format!("[{}", named(start, "first")),
    }
}

/// Where an interval ends: below the key itself, or below the first bytes above one.
fn upper(end: &[u8]) -> String {
    if let Some(value) = value(end) {
        return format!("{value})");
    }
    let below = below(end);
    if let Some(value) = below.as_deref().and_then(value) {
        return format!("{value}]");
    }
    match beginning(end) {
        Some(text) => format!("{text})"),
        None => format!("{}]", named(below.as_deref().unwrap_or(end), "last")),
    }
}

/// The bytes whose successor these are.
fn below(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut below = bytes.to_vec();
    let last = below.last_mut()?;
    *last = last.checked_sub(1)?;
    Some(below)
}

/// The dates of the years 0 to 9999, which RFC 3339 has a text for.
const WITH_A_TEXT: std::ops::RangeInclusive<i64> = -62_167_219_200_000..=253_402_300_799_999;

/// The value whose whole key this is.
fn value(key: &[u8]) -> Option<String> {
    let (kind, body) = key.split_first()?;
    match *kind {
        kind::MIN_KEY if body.is_empty() => Some("MinKey".to_owned()),
        kind::MAX_KEY if body.is_empty() => Some("MaxKey".to_owned()),
        kind::UNDEFINED if body.is_empty() => Some("undefined".to_owned()),
        kind::NULL if body.is_empty() => Some("null".to_owned()),
        kind::NUMBER => number::shown(body),
        kind::STRING => {
            let text = body.strip_suffix(&[0, 0]).filter(|text| !text.windows(2).any(|pair| pair == [0, 0]))?;
            Some(quoted(text))
        }
        kind::OBJECT_ID => Some(format!("ObjectId({})", ObjectId::from_bytes(body.try_into().ok()?))),
        kind::BOOLEAN if body == [0] => Some("false".to_owned()),
        kind::BOOLEAN if body == [1] => Some("true".to_owned()),
        kind::DATE => {
            let millis = (u64::from_be_bytes(body.try_into().ok()?) ^ 1 << 63).cast_signed();
            // The text of a later or earlier year would be that of another date.
            let text =
                WITH_A_TEXT.contains(&millis).then(|| bson::DateTime::from_millis(millis).try_to_rfc3339_string());
            Some(text.and_then(Result::ok).unwrap_or_else(|| format!("Date({millis})")))
        }
        _ => None,
    }
}

/// The text of a key that is a text without its end.
fn beginning(key: &[u8]) -> Option<String> {
    let text = key.strip_prefix(&[kind::STRING])?;
    (!text.is_empty() && !text.contains(&0)).then(|| quoted(text))
}

fn quoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let short: String = text.chars().take(60).collect();
    let end = if short.len() < text.len() { "..." } else { "" };
    format!("{short:?}{end}")
}

/// A place among the values of a type.
fn named(key: &[u8], which: &str) -> String {
    let kind = key.first().copied().unwrap_or_default();
    let name = match kind {
        kind::MIN_KEY => return "MinKey".to_owned(),
        0..kind::NULL => "undefined",
        kind::NULL => "null",
        kind::NUMBER => "number",
        kind::STRING => "string",
        kind::DOCUMENT => "object",
        kind::ARRAY => "array",
        kind::BINARY => "binary",
        kind::OBJECT_ID => "objectId",
        kind::BOOLEAN => "boolean",
        kind::DATE => "date",
        kind::TIMESTAMP => "timestamp",
        kind::REGEX => "regex",
        kind::DB_POINTER => "dbPointer",
        kind::CODE | kind::CODE_WITH_SCOPE => "code",
        _ => return "MaxKey".to_owned(),
    };
    format!("{which} {name}")
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::*;
    use crate::query::{Filter, Limits};
    use crate::store::embedded::catalog::collections::{Collection, Index};
    use crate::store::embedded::plan::conditions::{Conditions, choices};

    fn shown(test: impl Into<Bson>) -> Vec<String> {
        let filter: Document = doc! { "a": test.into() };
        let filter = Filter::parse(&filter, &Limits::default()).expect("filters of tests are right");
        let collection = Collection::with_indexes(vec![Index::over("a", &["a"])]);
        let chosen = choices(&collection.indexes[1], &Conditions::of(filter.tree()));
        intervals(chosen[0].by_component[0].as_ref())
    }

    #[test]
    fn values_are_shown_as_they_were_sent() {
        let id = ObjectId::from_bytes([7; 12]);
        for (value, text) in [
            (Bson::Int32(5), "5"),
            (Bson::Double(-0.5), "-0.5"),
            (Bson::Int64(i64::MAX), "9223372036854775807"),
            (Bson::Int64(i64::MIN + 1), "-9223372036854775807"),
            (Bson::from("a\"b"), r#""a\"b""#),
            (Bson::Boolean(true), "true"),
            (Bson::ObjectId(id), "ObjectId(070707070707070707070707)"),
            (Bson::DateTime(bson::DateTime::from_millis(0)), "1970-01-01T00:00:00Z"),
            (Bson::DateTime(bson::DateTime::from_millis(253_402_300_799_999)), "9999-12-31T23:59:59.999Z"),
            (Bson::DateTime(bson::DateTime::from_millis(253_402_300_800_000)), "Date(253402300800000)"),
            (Bson::DateTime(bson::DateTime::from_millis(i64::MIN)), "Date(-9223372036854775808)"),
        ] {
            assert_eq!(shown(value), [format!("[{text}, {text}]")]);
        }
    }

    #[test]
    fn the_ends_of_an_interval_say_whether_they_belong_to_it() {
        assert_eq!(shown(doc! { "$gt": 3, "$lte": 9 }), ["(3, 9]"]);
        assert_eq!(shown(doc! { "$gte": -3.5, "$lt": 9 }), ["[-3.5, 9)"]);
        assert_eq!(shown(doc! { "$gt": "a", "$lte": "b" }), [r#"("a", "b"]"#]);
        assert_eq!(shown(doc! { "$gte": false, "$lt": true }), ["[false, true)"]);
    }

    #[test]
    fn an_interval_ends_with_the_type_of_its_values() {
        assert_eq!(shown(doc! { "$gt": 3 }), ["(3, last number]"]);
        assert_eq!(shown(doc! { "$lt": 3 }), ["[-Infinity, 3)"]);
        assert_eq!(shown(doc! { "$lt": "b" }), [r#"[first string, "b")"#]);
        assert_eq!(shown(doc! { "$regex": "^ab" }), [r#"["ab", "ac")"#, "[first regex, last regex]"]);
        assert_eq!(shown(Bson::Null), ["[undefined, null]"]);
    }

    #[test]
    fn a_path_without_a_condition_has_all_values() {
        assert_eq!(shown(doc! { "$exists": true }), ["[MinKey, MaxKey]"]);
    }

    #[test]
    fn long_lists_are_counted() {
        let many = shown(doc! { "$in": (0..30).collect::<Vec<i32>>() });
        assert_eq!((many.len(), many[20].as_str()), (21, "and 10 more"));
    }
}
