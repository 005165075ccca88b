//! Values as bytes whose order is MongoDB's order of values: what indexes are made of.
//!
//! Laws, held by the property tests below against [`compare_raw`](crate::query::compare::compare_raw):
//!
//! - the order of keys never contradicts the order of values, and equal values have equal keys;
//! - no key is the beginning of another one, so keys of several values can be joined into one.

use bson::Bson;
use bson::raw::{RawArray, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use xxhash_rust::xxh3::xxh3_128;

use super::number;

/// Keys longer than this are cut; whoever reads a cut key looks at the document as well.
pub(super) const MAX_KEY: usize = 1024;

/// The first byte of a key, by type; in MongoDB's order. 0 ends documents, 255 is above every key.
pub(super) mod kind {
    pub(in super::super) const MIN_KEY: u8 = 0x08;
    pub(in super::super) const UNDEFINED: u8 = 0x10;
    pub(in super::super) const NULL: u8 = 0x18;
    pub(in super::super) const NUMBER: u8 = 0x20;
    pub(in super::super) const STRING: u8 = 0x28;
    pub(in super::super) const DOCUMENT: u8 = 0x30;
    pub(in super::super) const ARRAY: u8 = 0x38;
    pub(in super::super) const BINARY: u8 = 0x40;
    pub(in super::super) const OBJECT_ID: u8 = 0x48;
    pub(in super::super) const BOOLEAN: u8 = 0x50;
    pub(in super::super) const DATE: u8 = 0x58;
    pub(in super::super) const TIMESTAMP: u8 = 0x60;
    pub(in super::super) const REGEX: u8 = 0x68;
    pub(in super::super) const DB_POINTER: u8 = 0x70;
    pub(in super::super) const CODE: u8 = 0x78;
    pub(in super::super) const CODE_WITH_SCOPE: u8 = 0x80;
    pub(in super::super) const MAX_KEY: u8 = 0xf0;
    pub(in super::super) const ABOVE_ALL: u8 = 0xff;
}

/// Appends the key of a value.
///
/// # Errors
/// The bytes of a document or array inside the value are not BSON.
pub(super) fn push_value(value: RawBsonRef<'_>, out: &mut Vec<u8>) -> Result<(), bson::error::Error> {
    out.push(kind_of(value));
    push_body(value, out)
}

/// The key of a value.
///
/// # Errors
/// As [`push_value`].
pub(super) fn of_value(value: RawBsonRef<'_>) -> Result<Vec<u8>, bson::error::Error> {
    let mut key = Vec::with_capacity(24);
    push_value(value, &mut key)?;
    Ok(key)
}

/// The byte that the keys of values like this one begin with.
pub(super) fn kind_of(value: RawBsonRef<'_>) -> u8 {
    match value {
        RawBsonRef::MinKey => kind::MIN_KEY,
        RawBsonRef::Undefined => kind::UNDEFINED,
        RawBsonRef::Null => kind::NULL,
        RawBsonRef::Double(_) | RawBsonRef::Int32(_) | RawBsonRef::Int64(_) | RawBsonRef::Decimal128(_) => kind::NUMBER,
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => kind::STRING,
        RawBsonRef::Document(_) => kind::DOCUMENT,
        RawBsonRef::Array(_) => kind::ARRAY,
        RawBsonRef::Binary(_) => kind::BINARY,
        RawBsonRef::ObjectId(_) => kind::OBJECT_ID,
        RawBsonRef::Boolean(_) => kind::BOOLEAN,
        RawBsonRef::DateTime(_) => kind::DATE,
        RawBsonRef::Timestamp(_) => kind::TIMESTAMP,
        RawBsonRef::RegularExpression(_) => kind::REGEX,
        RawBsonRef::DbPointer(_) => kind::DB_POINTER,
        RawBsonRef::JavaScriptCode(_) => kind::CODE,
        RawBsonRef::JavaScriptCodeWithScope(_) => kind::CODE_WITH_SCOPE,
        RawBsonRef::MaxKey => kind::MAX_KEY,
    }
}

fn push_body(value: RawBsonRef<'_>, out: &mut Vec<u8>) -> Result<(), bson::error::Error> {
    match value {
        RawBsonRef::MinKey | RawBsonRef::MaxKey | RawBsonRef::Undefined | RawBsonRef::Null => {}
        RawBsonRef::Double(number) => number::push_f64(number, out),
        RawBsonRef::Int32(number) => number::push_f64(f64::from(number), out),
        RawBsonRef::Int64(number) => number::push_i64(number, out),
        RawBsonRef::Decimal128(number) => number::push_decimal(number, out),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) | RawBsonRef::JavaScriptCode(text) => push_text(text, out),
        RawBsonRef::Document(document) => push_document(document, out)?,
        RawBsonRef::Array(array) => push_array(array, out)?,
        RawBsonRef::Binary(binary) => push_binary(binary.subtype, binary.bytes, out),
        RawBsonRef::ObjectId(id) => out.extend_from_slice(&id.bytes()),
        RawBsonRef::Boolean(flag) => out.push(u8::from(flag)),
        RawBsonRef::DateTime(date) => out.extend_from_slice(&flip_sign(date.timestamp_millis())),
        RawBsonRef::Timestamp(stamp) => {
            out.extend_from_slice(&stamp.time.to_be_bytes());
            out.extend_from_slice(&stamp.increment.to_be_bytes());
        }
        RawBsonRef::RegularExpression(regex) => {
            push_name(regex.pattern.as_str(), out);
            push_name(regex.options.as_str(), out);
        }
        RawBsonRef::DbPointer(_) => push_stored_bytes(value, out),
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            push_text(code.code, out);
            push_document(code.scope, out)?;
        }
    }
    Ok(())
}

/// Signed order as unsigned order.
fn flip_sign(number: i64) -> [u8; 8] {
    (number.cast_unsigned() ^ 1 << 63).to_be_bytes()
}

/// Appends text that may hold zero bytes: each as 00 FF, the end as 00 00.
fn push_text(text: &str, out: &mut Vec<u8>) {
    if text.as_bytes().contains(&0) {
        for byte in text.bytes() {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
    } else {
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(&[0, 0]);
}

/// Appends text that cannot hold zero bytes.
fn push_name(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

/// Appends a document: of each member first the type, then the name, then the value, as MongoDB compares them.
fn push_document(document: &RawDocument, out: &mut Vec<u8>) -> Result<(), bson::error::Error> {
    for element in document.iter_elements() {
        let element = element?;
        let value = element.value()?;
        out.push(kind_of(value));
        push_name(element.key().as_str(), out);
        push_body(value, out)?;
    }
    out.push(0);
    Ok(())
}

fn push_array(array: &RawArray, out: &mut Vec<u8>) -> Result<(), bson::error::Error> {
    for element in array {
        push_value(element?, out)?;
    }
    out.push(0);
    Ok(())
}

/// Appends binary data: first its length, then its subtype, then its bytes.
fn push_binary(subtype: BinarySubtype, bytes: &[u8], out: &mut Vec<u8>) {
    // Subtype 2 stores its length a second time, and MongoDB compares that as part of the data.
    let inner_length = matches!(subtype, BinarySubtype::BinaryOld).then_some(bytes.len());
    let length = bytes.len() + inner_length.map_or(0, |_| 4);
    out.extend_from_slice(&(length as u64).to_be_bytes());
    out.push(subtype.into());
    if let Some(inner) = inner_length {
        out.extend_from_slice(&u32::try_from(inner).unwrap_or(u32::MAX).to_le_bytes());
    }
    out.extend_from_slice(bytes);
}

/// Appends the stored form of a value behind its length; MongoDB compares `DBPointer`s that way.
fn push_stored_bytes(value: RawBsonRef<'_>, out: &mut Vec<u8>) {
    let mut holder = RawDocumentBuf::new();
    holder.append(bson::raw::cstr!(""), value);
    // Length (4), type (1), empty name (1), the value, end (1).
    let bytes = &holder.as_bytes()[6..holder.as_bytes().len() - 1];
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Turns the key of one component around, for descending indexes.
pub(super) fn invert(key: &mut [u8]) {
    key.iter_mut().for_each(|byte| *byte = !*byte);
}

/// The smallest bytes above every key that begins with `prefix`; `None` if there are none.
pub(super) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut above = prefix[..=last].to_vec();
    above[last] += 1;
    Some(above)
}

/// Cuts a key that is too long; returns whether it was.
///
/// In a unique index the cut key ends with a hash of the whole one, so that it still tells values apart.
pub(super) fn cut(key: &mut Vec<u8>, unique: bool) -> bool {
    if key.len() <= MAX_KEY {
        return false;
    }
    let hash = unique.then(|| xxh3_128(key));
    key.truncate(MAX_KEY);
    if let Some(hash) = hash {
        key.extend_from_slice(&hash.to_be_bytes());
    }
    true
}

/// The key of a decoded value; `None` for one that BSON cannot hold.
pub(super) fn of_bson(value: &Bson) -> Option<Vec<u8>> {
    let encoded = RawBson::try_from(value.clone()).ok()?;
    of_value(encoded.as_raw_bson_ref()).ok()
}
