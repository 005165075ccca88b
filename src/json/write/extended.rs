//! The types that JSON has no notation for, as relaxed Extended JSON v2.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::Decimal128;
use bson::spec::ElementType;

use super::{CorruptBson, DateStyle, ObjectWriter, Shape, object, text, write_members};
use crate::raw::{Elements, Value, split_c_string, string_size};

pub(super) const CUT_OFF: CorruptBson = CorruptBson("a value is cut off");

/// Appends a value of one of the rarer types.
#[cold]
pub(super) fn write_extended(
    value: Value<'_>,
    dates: DateStyle,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), CorruptBson> {
    object(out, |members| write_notation(value, dates, depth, members))
}

fn write_notation(
    value: Value<'_>,
    dates: DateStyle,
    depth: u32,
    members: &mut ObjectWriter<'_>,
) -> Result<(), CorruptBson> {
    match value.element_type() {
        ElementType::ObjectId => members.string("$oid", &hex::encode(value.bytes)),
        ElementType::Decimal128 => {
            members.string("$numberDecimal", &Decimal128::from_bytes(value.fixed()).to_string());
        }
        ElementType::Binary => write_binary(value.bytes, members)?,
        ElementType::RegularExpression => {
            let (pattern, rest) = split_c_string(value.bytes)?;
            let (options, _) = split_c_string(rest)?;
            members.object("$regularExpression", |parts| {
                text::write_utf8(pattern, parts.name("pattern"))?;
                text::write_utf8(options, parts.name("options"))
            })?;
        }
        ElementType::Timestamp => {
            let both = u64::from_le_bytes(value.fixed());
            members.object("$timestamp", |parts| {
                parts.integer("t", i64::from((both >> 32) as u32));
                #[expect(clippy::cast_possible_truncation, reason = "the lower half is the increment")]
                parts.integer("i", i64::from(both as u32));
            });
        }
        ElementType::JavaScriptCode => text::write_utf8(value.text_bytes(), members.name("$code"))?,
        ElementType::Symbol => text::write_utf8(value.text_bytes(), members.name("$symbol"))?,
        ElementType::JavaScriptCodeWithScope => write_scoped_code(value.bytes, dates, depth, members)?,
        ElementType::DbPointer => {
            let (namespace, id) = split_string(value.bytes)?;
            members.object("$dbPointer", |parts| {
                text::write_utf8(namespace, parts.name("$ref"))?;
                parts.object("$id", |members| members.string("$oid", &hex::encode(id)));
                Ok(())
            })?;
        }
        ElementType::MinKey => members.integer("$minKey", 1),
        ElementType::MaxKey => members.integer("$maxKey", 1),
        // Undefined; the other types have a notation of their own and never come here.
        _ => members.boolean("$undefined", true),
    }
    Ok(())
}

/// A length, the subtype, the bytes; the old generic subtype repeats the length before the bytes.
fn write_binary(bytes: &[u8], members: &mut ObjectWriter<'_>) -> Result<(), CorruptBson> {
    const OLD_GENERIC: u8 = 2;
    let (&subtype, content) = bytes.get(4..).and_then(<[u8]>::split_first).ok_or(CUT_OFF)?;
    let content = if subtype == OLD_GENERIC { content.get(4..).ok_or(CUT_OFF)? } else { content };
    members.object("$binary", |parts| {
        parts.string("base64", &STANDARD.encode(content));
        parts.string("subType", &hex::encode([subtype]));
    });
    Ok(())
}

/// A length, the code as a string, the scope as a document.
fn write_scoped_code(
    bytes: &[u8],
    dates: DateStyle,
    depth: u32,
    members: &mut ObjectWriter<'_>,
) -> Result<(), CorruptBson> {
    let (code, scope) = split_string(bytes.get(4..).ok_or(CUT_OFF)?)?;
    text::write_utf8(code, members.name("$code"))?;
    let elements = Elements::checked(scope)?;
    members.object("$scope", |members| write_members(elements, Shape::whole(dates), depth + 1, members))
}

/// The content of the string that the bytes begin with, and what follows it.
pub(super) fn split_string(bytes: &[u8]) -> Result<(&[u8], &[u8]), CorruptBson> {
    let (string, rest) = bytes.split_at_checked(string_size(bytes)?).ok_or(CUT_OFF)?;
    Ok((&string[4..string.len() - 1], rest))
}
