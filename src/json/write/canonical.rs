//! Raw BSON as canonical Extended JSON v2: text that reads back to the very same bytes, number types included.

use bson::raw::RawDocument;
use bson::spec::ElementType;

use super::extended::{CUT_OFF, split_string, write_extended};
use super::{CorruptBson, DateStyle, MAX_DEPTH, ObjectWriter, array, object, text, write_f64};
use crate::raw::{Elements, Value};

/// Appends the document as canonical Extended JSON, every member, in one line.
///
/// # Errors
/// When the bytes are not BSON; `out` is then as it was.
pub fn write_canonical(document: &RawDocument, out: &mut Vec<u8>) -> Result<(), CorruptBson> {
    let start = out.len();
    let written = object(out, |members| write_members(Elements::of(document), 0, members));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn write_members(mut elements: Elements<'_>, depth: u32, members: &mut ObjectWriter<'_>) -> Result<(), CorruptBson> {
    while let Some(element) = elements.next_element()? {
        write_value(element.value, depth, members.stored_name(element.name)?)?;
    }
    Ok(())
}

fn write_value(value: Value<'_>, depth: u32, out: &mut Vec<u8>) -> Result<(), CorruptBson> {
    if depth > MAX_DEPTH {
        return Err(CorruptBson(super::TOO_DEEP));
    }
    match value.element_type() {
        ElementType::String => text::write_utf8(value.text_bytes(), out)?,
        ElementType::Int32 => {
            number(out, "$numberInt", &i32::from_le_bytes(value.fixed()).to_string());
        }
        ElementType::Int64 => number(out, "$numberLong", &i64::from_le_bytes(value.fixed()).to_string()),
        ElementType::Double => number(out, "$numberDouble", &double(f64::from_le_bytes(value.fixed()))),
        ElementType::Boolean => out.extend_from_slice(if value.bytes == [0] { b"false" } else { b"true" }),
        ElementType::Null => out.extend_from_slice(b"null"),
        ElementType::DateTime => object(out, |members| {
            number(members.name("$date"), "$numberLong", &i64::from_le_bytes(value.fixed()).to_string());
        }),
        ElementType::EmbeddedDocument => {
            let elements = Elements::within(value.bytes);
            object(out, |members| write_members(elements, depth + 1, members))?;
        }
        ElementType::Array => {
            let mut elements = Elements::within(value.bytes);
            array(out, |items| {
                while let Some(element) = elements.next_element()? {
                    write_value(element.value, depth + 1, items.item())?;
                }
                Ok(())
            })?;
        }
        ElementType::JavaScriptCodeWithScope => {
            let (code, scope) = split_string(value.bytes.get(4..).ok_or(CUT_OFF)?)?;
            let elements = Elements::checked(scope)?;
            object(out, |members| {
                text::write_utf8(code, members.name("$code"))?;
                members.object("$scope", |members| write_members(elements, depth + 1, members))
            })?;
        }
        // Their notation is the same in both forms.
        _ => write_extended(value, DateStyle::Millis, depth, out)?,
    }
    Ok(())
}

fn number(out: &mut Vec<u8>, kind: &str, digits: &str) {
    object(out, |members| members.string(kind, digits));
}

fn double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let mut digits = Vec::new();
    write_f64(number, &mut digits);
    String::from_utf8_lossy(&digits).into_owned()
}

#[cfg(test)]
mod tests {
    use bson::{Bson, DateTime, Document, doc};
    use proptest::prelude::*;

    use super::super::tests::any_value;
    use super::*;
    use crate::json::read::document_from_str;

    fn text(document: &Document) -> String {
        let raw = bson::raw::RawDocumentBuf::try_from(document).expect("it is BSON");
        let mut out = Vec::new();
        write_canonical(&raw, &mut out).expect("it can be written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn every_number_keeps_its_type() {
        let document = doc! {"a": 1_i32, "b": [2_i64, 3.0, -0.0, f64::INFINITY], "c": DateTime::from_millis(-5)};
        let expected = concat!(
            r#"{"a":{"$numberInt":"1"},"b":[{"$numberLong":"2"},{"$numberDouble":"3.0"},{"$numberDouble":"-0.0"},"#,
            r#"{"$numberDouble":"Infinity"}],"c":{"$date":{"$numberLong":"-5"}}}"#
        );
        assert_eq!(text(&document), expected);
    }

    proptest! {
        #[test]
        fn the_text_reads_back_to_the_very_same_bytes(value in any_value()) {
            // Two names of one document, and names that mean a type, are not stored by this service.
            let document = doc! {"value": value};
            let read = document_from_str(&text(&document)).expect("it can be read");
            if !has_odd_names(&Bson::Document(document.clone())) {
                prop_assert_eq!(read.to_vec().expect("BSON"), document.to_vec().expect("BSON"));
            }
        }
    }

    fn has_odd_names(value: &Bson) -> bool {
        match value {
            Bson::Document(members) => {
                members.iter().any(|(name, value)| name.starts_with('$') || has_odd_names(value))
            }
            Bson::Array(items) => items.iter().any(has_odd_names),
            Bson::JavaScriptCodeWithScope(code) => has_odd_names(&Bson::Document(code.scope.clone())),
            // Their text form is one for several patterns of bits.
            Bson::Decimal128(_) => true,
            Bson::RegularExpression(regex) => regex.options.as_str() != "i",
            _ => false,
        }
    }
}
