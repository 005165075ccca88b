//! BSON bytes read in place: the walker under the matcher, the comparison and the projections.
//!
//! Laws:
//! - Nothing is copied and nothing is decoded before it is asked for.
//! - Broken bytes end a walk early; they never panic.
//!
//! `RawDocument::iter` checks every element on its way. Stored documents were checked when they were
//! stored, and a filter passes over most of what it reads, so this walker only finds where elements end.

use bson::Bson;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::ElementType;

/// The type byte of an element, as the BSON specification numbers them.
pub mod kind {
    /// 64-bit floating point.
    pub const DOUBLE: u8 = 0x01;
    /// UTF-8 text.
    pub const STRING: u8 = 0x02;
    /// An embedded document.
    pub const DOCUMENT: u8 = 0x03;
    /// An array: a document whose names are the positions.
    pub const ARRAY: u8 = 0x04;
    /// Bytes with a subtype.
    pub const BINARY: u8 = 0x05;
    /// The deprecated `undefined`.
    pub const UNDEFINED: u8 = 0x06;
    /// The 12 bytes of an `ObjectId`.
    pub const OBJECT_ID: u8 = 0x07;
    /// `true` or `false`.
    pub const BOOL: u8 = 0x08;
    /// Milliseconds since 1970.
    pub const DATE: u8 = 0x09;
    /// `null`.
    pub const NULL: u8 = 0x0A;
    /// A regular expression: pattern and options.
    pub const REGEX: u8 = 0x0B;
    /// The deprecated reference to a document of another collection.
    pub const DB_POINTER: u8 = 0x0C;
    /// JavaScript.
    pub const CODE: u8 = 0x0D;
    /// The deprecated symbol; it compares as text.
    pub const SYMBOL: u8 = 0x0E;
    /// JavaScript with variables.
    pub const CODE_WITH_SCOPE: u8 = 0x0F;
    /// 32-bit integer.
    pub const INT32: u8 = 0x10;
    /// Replication's timestamp.
    pub const TIMESTAMP: u8 = 0x11;
    /// 64-bit integer.
    pub const INT64: u8 = 0x12;
    /// 128-bit decimal floating point.
    pub const DECIMAL: u8 = 0x13;
    /// Nothing at all. It is never stored; projections hold the places of dropped elements with it.
    pub const MISSING: u8 = 0x7E;
    /// Above everything.
    pub const MAX_KEY: u8 = 0x7F;
    /// Below everything.
    pub const MIN_KEY: u8 = 0xFF;
}

/// One BSON value where it lies.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    /// The type byte, see [`kind`].
    pub kind: u8,
    /// The bytes after the name, of exactly this value.
    pub bytes: &'a [u8],
}

/// A named value of a document.
#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    /// The name without its end byte; in arrays the position in decimal.
    pub name: &'a [u8],
    /// The value.
    pub value: Value<'a>,
}

/// The elements of a document or an array in their order.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Of the bytes of a whole document, length prefix included.
    #[inline]
    pub fn of(document: &'a [u8]) -> Self {
        Self { rest: document.get(4..).unwrap_or_default() }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (&kind, after_kind) = self.rest.split_first()?;
        let name_length = end_of_name(after_kind)?;
        let (name, after_name) = after_kind.split_at(name_length);
        let after_name = &after_name[1..];
        let Some(size) = size_of(kind, after_name).filter(|&size| size <= after_name.len()) else {
            self.rest = &[];
            return None;
        };
        let (bytes, rest) = after_name.split_at(size);
        self.rest = rest;
        Some(Element { name, value: Value { kind, bytes } })
    }
}

/// The value of the member of that name.
#[inline]
pub fn member<'a>(document: &'a [u8], name: &[u8]) -> Option<Value<'a>> {
    let mut rest = document.get(4..)?;
    loop {
        let (&kind, after_kind) = rest.split_first()?;
        let name_length = end_of_name(after_kind)?;
        let after_name = after_kind.get(name_length + 1..)?;
        let size = size_of(kind, after_name)?;
        // Lengths first: most names differ in them.
        if name_length == name.len() && after_kind.get(..name_length)? == name {
            return after_name.get(..size).map(|bytes| Value { kind, bytes });
        }
        rest = after_name.get(size..)?;
    }
}

/// Where the zero byte is that ends a name, eight bytes at a time.
#[inline]
fn end_of_name(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut at = 0;
    while let Some(eight) = bytes.get(at..)?.first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        // The lowest bit that is left belongs to the first byte that is zero.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at + zeros.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    bytes.get(at..)?.iter().position(|&byte| byte == 0).map(|rest| at + rest)
}

/// How many bytes the value at the start of `bytes` takes; nothing when the type byte is no type.
#[inline]
fn size_of(kind: u8, bytes: &[u8]) -> Option<usize> {
    Some(match kind {
        kind::INT32 => 4,
        kind::STRING | kind::CODE | kind::SYMBOL => length_at(bytes, 0)?.checked_add(4)?,
        kind::DOCUMENT | kind::ARRAY | kind::CODE_WITH_SCOPE => length_at(bytes, 0)?,
        kind::DOUBLE | kind::DATE | kind::INT64 | kind::TIMESTAMP => 8,
        kind::BOOL => 1,
        kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY | kind::MISSING => 0,
        kind::OBJECT_ID => 12,
        kind::BINARY => length_at(bytes, 0)?.checked_add(5)?,
        kind::DECIMAL => 16,
        kind::REGEX => {
            let pattern = bytes.iter().position(|&byte| byte == 0)? + 1;
            pattern + bytes[pattern..].iter().position(|&byte| byte == 0)? + 1
        }
        kind::DB_POINTER => length_at(bytes, 0)?.checked_add(16)?,
        _ => return None,
    })
}

#[inline]
fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk::<4>)
        .and_then(|length| usize::try_from(i32::from_le_bytes(*length)).ok())
}

impl<'a> Value<'a> {
    /// A whole document as a value.
    pub fn of_document(document: &'a RawDocument) -> Self {
        Self { kind: kind::DOCUMENT, bytes: document.as_bytes() }
    }

    /// Whether it is an array.
    #[inline]
    pub fn is_array(self) -> bool {
        self.kind == kind::ARRAY
    }

    /// Whether it is a document.
    #[inline]
    pub fn is_document(self) -> bool {
        self.kind == kind::DOCUMENT
    }

    /// The members of a document or an array, nothing for other types.
    #[inline]
    pub fn elements(self) -> Elements<'a> {
        if self.is_document() || self.is_array() { Elements::of(self.bytes) } else { Elements { rest: &[] } }
    }

    /// The value as its type says. Broken bytes read as `undefined`.
    #[inline]
    pub fn view(self) -> View<'a> {
        self.checked_view().unwrap_or(View::Undefined)
    }

    fn checked_view(self) -> Option<View<'a>> {
        let bytes = self.bytes;
        Some(match self.kind {
            kind::DOUBLE => View::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
            kind::STRING | kind::SYMBOL => View::Text(text(bytes)?),
            kind::DOCUMENT => View::Document(bytes),
            kind::ARRAY => View::Array(bytes),
            kind::BINARY => View::Binary(*bytes.get(4)?, bytes.get(5..)?),
            kind::UNDEFINED => View::Undefined,
            kind::OBJECT_ID => View::ObjectId(*bytes.first_chunk()?),
            kind::BOOL => View::Bool(*bytes.first()? != 0),
            kind::DATE => View::Date(i64::from_le_bytes(*bytes.first_chunk()?)),
            kind::NULL => View::Null,
            kind::REGEX => {
                let end = bytes.iter().position(|&byte| byte == 0)?;
                View::Regex(&bytes[..end], bytes[end + 1..].strip_suffix(&[0])?)
            }
            kind::DB_POINTER => View::DbPointer(text(bytes)?, *bytes.last_chunk()?),
            kind::CODE => View::Code(text(bytes)?),
            kind::CODE_WITH_SCOPE => {
                let code = bytes.get(4..)?;
                let scope = code.get(length_at(code, 0)?.checked_add(4)?..)?;
                View::CodeWithScope(text(code)?, scope)
            }
            kind::INT32 => View::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
            kind::TIMESTAMP => View::Timestamp(u64::from_le_bytes(*bytes.first_chunk()?)),
            kind::INT64 => View::Int64(i64::from_le_bytes(*bytes.first_chunk()?)),
            kind::DECIMAL => View::Decimal(*bytes.first_chunk()?),
            kind::MAX_KEY => View::MaxKey,
            kind::MIN_KEY => View::MinKey,
            _ => return None,
        })
    }

    /// The value as the `bson` crate represents it; nothing for broken bytes.
    pub fn to_bson(self) -> Option<Bson> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + 7);
        append(&mut bytes, b"", self);
        let document = RawDocumentBuf::from_bytes(framed(&bytes)).ok()?;
        let value = document.iter().next()?.ok()?.1;
        Bson::try_from(value).ok()
    }
}

/// Text with its length in front and its end byte.
fn text(bytes: &[u8]) -> Option<&[u8]> {
    let length = length_at(bytes, 0)?;
    bytes.get(4..length.checked_add(4)?)?.split_last().map(|(_, text)| text)
}

/// Appends an element to the inside of a document.
pub fn append(bytes: &mut Vec<u8>, name: &[u8], value: Value<'_>) {
    bytes.push(value.kind);
    bytes.extend_from_slice(name);
    bytes.push(0);
    bytes.extend_from_slice(value.bytes);
}

/// Begins a document or an array inside `bytes`; give what this returns to [`end`].
pub fn begin(bytes: &mut Vec<u8>) -> usize {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    start
}

/// Ends what [`begin`] began.
pub fn end(bytes: &mut Vec<u8>, start: usize) {
    bytes.push(0);
    let size = i32::try_from(bytes.len() - start).unwrap_or(i32::MAX);
    bytes[start..start + 4].copy_from_slice(&size.to_le_bytes());
}

/// A document around the elements in `inside`.
pub fn framed(inside: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(inside.len() + 5);
    let start = begin(&mut bytes);
    bytes.extend_from_slice(inside);
    end(&mut bytes, start);
    bytes
}

/// A value read: what a comparison looks at. Text stands for strings and symbols.
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the variants are the BSON types")]
pub enum View<'a> {
    MinKey,
    Undefined,
    Null,
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal([u8; 16]),
    Text(&'a [u8]),
    Document(&'a [u8]),
    Array(&'a [u8]),
    Binary(u8, &'a [u8]),
    ObjectId([u8; 12]),
    Bool(bool),
    Date(i64),
    Timestamp(u64),
    Regex(&'a [u8], &'a [u8]),
    DbPointer(&'a [u8], [u8; 12]),
    Code(&'a [u8]),
    CodeWithScope(&'a [u8], &'a [u8]),
    MaxKey,
}

impl<'a> From<RawBsonRef<'a>> for View<'a> {
    fn from(value: RawBsonRef<'a>) -> Self {
        match value {
            RawBsonRef::Double(number) => View::Double(number),
            RawBsonRef::String(text) | RawBsonRef::Symbol(text) => View::Text(text.as_bytes()),
            RawBsonRef::Array(array) => View::Array(array.as_bytes()),
            RawBsonRef::Document(document) => View::Document(document.as_bytes()),
            RawBsonRef::Boolean(truth) => View::Bool(truth),
            RawBsonRef::Null => View::Null,
            RawBsonRef::RegularExpression(regex) => {
                View::Regex(regex.pattern.as_str().as_bytes(), regex.options.as_str().as_bytes())
            }
            RawBsonRef::JavaScriptCode(code) => View::Code(code.as_bytes()),
            RawBsonRef::JavaScriptCodeWithScope(code) => {
                View::CodeWithScope(code.code.as_bytes(), code.scope.as_bytes())
            }
            RawBsonRef::Int32(number) => View::Int32(number),
            RawBsonRef::Int64(number) => View::Int64(number),
            RawBsonRef::Timestamp(time) => View::Timestamp(u64::from(time.time) << 32 | u64::from(time.increment)),
            RawBsonRef::Binary(binary) => View::Binary(binary.subtype.into(), binary.bytes),
            RawBsonRef::ObjectId(id) => View::ObjectId(id.bytes()),
            RawBsonRef::DateTime(date) => View::Date(date.timestamp_millis()),
            RawBsonRef::Decimal128(decimal) => View::Decimal(decimal.bytes()),
            RawBsonRef::Undefined => View::Undefined,
            RawBsonRef::MaxKey => View::MaxKey,
            RawBsonRef::MinKey => View::MinKey,
            RawBsonRef::DbPointer(_) => View::DbPointer(b"", [0; 12]),
        }
    }
}

/// A value with its own memory: the operand of a test, a part of a sort key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owned {
    kind: u8,
    bytes: Box<[u8]>,
}

impl Owned {
    /// A copy of the value.
    pub fn copy(value: Value<'_>) -> Self {
        Self { kind: value.kind, bytes: value.bytes.into() }
    }

    /// The encoded form of the value.
    ///
    /// # Errors
    /// A text with a zero byte where BSON cannot have one (names, patterns), or nesting that the encoder refuses.
    pub fn encode(value: &Bson) -> Result<Self, bson::error::Error> {
        // What is asked for by key, with each request.
        match value {
            Bson::Int32(number) => return Ok(Self { kind: kind::INT32, bytes: number.to_le_bytes().into() }),
            Bson::Int64(number) => return Ok(Self { kind: kind::INT64, bytes: number.to_le_bytes().into() }),
            Bson::ObjectId(id) => return Ok(Self { kind: kind::OBJECT_ID, bytes: id.bytes().into() }),
            _ => {}
        }
        let mut document = bson::Document::new();
        document.insert("", value.clone());
        let bytes = document.to_vec()?;
        Ok(member(&bytes, b"").map_or(Self { kind: ElementType::Null as u8, bytes: Box::default() }, Self::copy))
    }

    /// The value to look at.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        Value { kind: self.kind, bytes: &self.bytes }
    }
}
