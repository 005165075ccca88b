//! Raw BSON to JSON text, straight from the stored bytes: no document is built on the way.
//!
//! Numbers are plain JSON numbers and times take the [`DateStyle`]; everything that JSON cannot say is written
//! as relaxed Extended JSON v2 does.

mod canonical;
mod dates;
mod extended;
mod members;
mod text;

use bson::raw::RawDocument;
use bson::spec::ElementType;

pub use self::canonical::write_canonical;
pub(crate) use self::dates::write_date_text;
pub use self::dates::{DateStyle, write_date};
pub use self::members::{ArrayWriter, ObjectWriter, array, object};
pub use self::text::{write_f64, write_i64, write_string};
pub use crate::raw::CorruptBson;
use crate::raw::{Elements, Value};

/// The maximum nesting of documents. MongoDB stores at most 100 levels; deeper bytes are an attack on the stack.
const MAX_DEPTH: u32 = 200;
/// The message about deeper documents.
pub const TOO_DEEP: &str = "documents within documents without end";

/// How a document is shown.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a> {
    /// How times look, on every level.
    pub dates: DateStyle,
    /// Members that are left out, on the top level only.
    pub without: &'a [&'a str],
}

impl Shape<'_> {
    /// All members but MongoDB's `_id`, which the interface does not know.
    pub const fn new(dates: DateStyle) -> Shape<'static> {
        Shape { dates, without: &["_id"] }
    }

    /// Every member, `_id` too.
    pub const fn whole(dates: DateStyle) -> Shape<'static> {
        Shape { dates, without: &[] }
    }
}

/// Appends the document as a JSON object.
///
/// # Errors
/// When the bytes are not BSON; `out` is then as it was.
pub fn write_document(document: &RawDocument, shape: Shape<'_>, out: &mut Vec<u8>) -> Result<(), CorruptBson> {
    let start = out.len();
    out.reserve(document.as_bytes().len() * 5 / 4);
    let written = object(out, |members| write_members(Elements::of(document), shape, 0, members));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Appends one stored value as JSON.
///
/// # Errors
/// When the bytes are not BSON; `out` may then end in the middle of a value.
pub fn write_value(value: Value<'_>, dates: DateStyle, out: &mut Vec<u8>) -> Result<(), CorruptBson> {
    write_at_depth(value, dates, 0, out)
}

fn write_members(
    mut elements: Elements<'_>,
    shape: Shape<'_>,
    depth: u32,
    members: &mut ObjectWriter<'_>,
) -> Result<(), CorruptBson> {
    while let Some(element) = elements.next_element()? {
        if shape.without.iter().any(|name| name.as_bytes() == element.name) {
            continue;
        }
        let out = members.stored_name(element.name)?;
        write_at_depth(element.value, shape.dates, depth, out)?;
    }
    Ok(())
}

fn write_items(
    mut elements: Elements<'_>,
    dates: DateStyle,
    depth: u32,
    items: &mut ArrayWriter<'_>,
) -> Result<(), CorruptBson> {
    while let Some(element) = elements.next_element()? {
        write_at_depth(element.value, dates, depth, items.item())?;
    }
    Ok(())
}

fn write_at_depth(value: Value<'_>, dates: DateStyle, depth: u32, out: &mut Vec<u8>) -> Result<(), CorruptBson> {
    if depth > MAX_DEPTH {
        return Err(CorruptBson(TOO_DEEP));
    }
    match value.element_type() {
        ElementType::String => text::write_utf8(value.text_bytes(), out)?,
        ElementType::Int32 => write_i64(i64::from(i32::from_le_bytes(value.fixed())), out),
        ElementType::Int64 => write_i64(i64::from_le_bytes(value.fixed()), out),
        ElementType::Double => write_f64(f64::from_le_bytes(value.fixed()), out),
        ElementType::Boolean => out.extend_from_slice(if value.bytes == [0] { b"false" } else { b"true" }),
        ElementType::Null => out.extend_from_slice(b"null"),
        ElementType::DateTime => write_date(i64::from_le_bytes(value.fixed()), dates, out),
        ElementType::EmbeddedDocument => {
            let elements = Elements::within(value.bytes);
            object(out, |members| write_members(elements, Shape::whole(dates), depth + 1, members))?;
        }
        ElementType::Array => {
            let elements = Elements::within(value.bytes);
            array(out, |items| write_items(elements, dates, depth + 1, items))?;
        }
        _ => extended::write_extended(value, dates, depth, out)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, Document, doc, rawdoc};
    use proptest::prelude::*;
    use serde_json::{Value as Json, json};

    use super::*;

    fn text(document: &Document, shape: Shape<'_>) -> String {
        let raw = RawDocument::from_bytes(&document.to_vec().unwrap()).unwrap().to_owned();
        let mut out = b"before:".to_vec();
        write_document(&raw, shape, &mut out).unwrap();
        String::from_utf8(out).unwrap().split_off("before:".len())
    }

    fn millis(document: &Document) -> String {
        text(document, Shape::new(DateStyle::Millis))
    }

    #[test]
    fn the_id_of_mongodb_is_left_out_on_the_top_level_only() {
        let document = doc! { "_id": 1, "a": { "_id": 2 }, "b": [] };
        assert_eq!(millis(&document), r#"{"a":{"_id":2},"b":[]}"#);
        assert_eq!(text(&document, Shape::whole(DateStyle::Millis)), r#"{"_id":1,"a":{"_id":2},"b":[]}"#);
        assert_eq!(millis(&doc! { "_id": 1 }), "{}");
    }

    #[test]
    fn members_can_be_left_out() {
        let shape = Shape { dates: DateStyle::Iso, without: &["_id", "password"] };
        assert_eq!(text(&doc! { "_id": 1, "password": "x", "name": "y" }, shape), r#"{"name":"y"}"#);
    }

    #[test]
    fn numbers_keep_their_kind() {
        let document = doc! { "a": 1_i32, "b": i64::MIN, "c": 1.0, "d": 0.1 };
        assert_eq!(millis(&document), r#"{"a":1,"b":-9223372036854775808,"c":1.0,"d":0.1}"#);
    }

    #[test]
    fn what_is_no_number_in_json_is_spelt_out() {
        let document = doc! { "e": f64::NAN, "f": f64::NEG_INFINITY };
        assert_eq!(millis(&document), r#"{"e":{"$numberDouble":"NaN"},"f":{"$numberDouble":"-Infinity"}}"#);
    }

    #[test]
    fn dates_follow_the_style_on_every_level() {
        let document = doc! { "at": DateTime::from_millis(1_000), "in": [{ "at": DateTime::from_millis(0) }] };
        assert_eq!(millis(&document), r#"{"at":{"$date":1000},"in":[{"at":{"$date":0}}]}"#);
        assert_eq!(
            text(&document, Shape::new(DateStyle::Iso)),
            r#"{"at":"1970-01-01T00:00:01","in":[{"at":"1970-01-01T00:00:00"}]}"#
        );
    }

    #[test]
    fn nesting_without_end_is_an_error_and_leaves_nothing_behind() {
        let mut document = rawdoc! {};
        for _ in 0..1000 {
            document = rawdoc! { "a": document };
        }
        let mut out = b"kept".to_vec();
        assert!(write_document(&document, Shape::new(DateStyle::Millis), &mut out).is_err());
        assert_eq!(out, b"kept");
    }

    /// What the text must parse to, built without the writer.
    fn expected(value: &Bson) -> Json {
        match value {
            Bson::Document(members) => Json::Object(members.iter().map(|(k, v)| (k.clone(), expected(v))).collect()),
            Bson::Array(items) => items.iter().map(expected).collect(),
            Bson::DateTime(time) => json!({ "$date": time.timestamp_millis() }),
            Bson::JavaScriptCodeWithScope(code) => {
                json!({ "$code": code.code, "$scope": expected(&Bson::Document(code.scope.clone())) })
            }
            other => other.clone().into_relaxed_extjson(),
        }
    }

    pub(super) fn any_value() -> impl Strategy<Value = Bson> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(Bson::Int32),
            any::<i64>().prop_map(Bson::Int64),
            // Few digits: the reader of these tests is not exact on the last one.
            any::<i32>().prop_map(|number| Bson::Double(f64::from(number) / 8.0)),
            any::<bool>().prop_map(Bson::Boolean),
            any::<i64>().prop_map(|ms| Bson::DateTime(DateTime::from_millis(ms))),
            any::<String>().prop_map(Bson::String),
            "[ -~]{0,40}".prop_map(Bson::String),
            any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(bson::oid::ObjectId::from_bytes(bytes))),
            any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(bson::Decimal128::from_bytes(bytes))),
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| {
                Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes })
            }),
            (any::<u32>(), any::<u32>())
                .prop_map(|(time, increment)| { Bson::Timestamp(bson::Timestamp { time, increment }) }),
            "[a-z\"^$]{0,9}".prop_map(|pattern| {
                Bson::RegularExpression(bson::Regex {
                    pattern: pattern.try_into().unwrap(),
                    options: "i".try_into().unwrap(),
                })
            }),
            "[a-z]{0,9}".prop_map(Bson::JavaScriptCode),
            "[a-z]{0,9}".prop_map(Bson::Symbol),
            Just(Bson::Null),
            Just(Bson::Undefined),
            Just(Bson::MinKey),
            Just(Bson::MaxKey),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Bson::Array),
                proptest::collection::vec(("[^\0]{0,12}", inner.clone()), 0..6)
                    .prop_map(|members| Bson::Document(members.into_iter().collect())),
                inner.prop_map(|value| {
                    Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
                        code: "x\"".into(),
                        scope: doc! { "v": value },
                    })
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_text_reads_back_to_the_same_values(value in any_value()) {
            let document = doc! { "value": value };
            let read: Json = serde_json::from_str(&millis(&document)).unwrap();
            prop_assert_eq!(read, expected(&Bson::Document(document)));
        }

        #[test]
        fn broken_bytes_never_panic(value in any_value(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = doc! { "value": value, "more": { "a": ["b", 1] } }.to_vec().unwrap();
            let at = 4 + at.index(bytes.len() - 5);
            bytes[at] = byte;
            let document = RawDocument::from_bytes(&bytes).unwrap();
            let mut out = Vec::new();
            match write_document(document, Shape::new(DateStyle::Iso), &mut out) {
                Ok(()) => { serde_json::from_slice::<Json>(&out).unwrap(); }
                Err(_) => prop_assert!(out.is_empty()),
            }
        }
    }
}
