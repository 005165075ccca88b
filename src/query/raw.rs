//! Values of the walk for filters and comparisons, and the bytes that projections assemble.

use bson::Bson;
use bson::raw::{RawBsonRef, RawDocumentBuf};

pub use crate::raw::{Element, Elements, Value, kind, member};

impl<'a> Value<'a> {
    /// The value as its type says. Broken bytes read as `undefined`.
    #[inline]
    pub fn view(self) -> View<'a> {
        self.checked_view().unwrap_or(View::Undefined)
    }

    fn checked_view(self) -> Option<View<'a>> {
        let bytes = self.bytes;
        Some(match self.kind() {
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

#[inline]
fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk::<4>)
        .and_then(|length| usize::try_from(i32::from_le_bytes(*length)).ok())
}

/// Appends an element to the inside of a document.
pub fn append(bytes: &mut Vec<u8>, name: &[u8], value: Value<'_>) {
    bytes.push(value.kind());
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

/// A decoded value for comparisons. Strings and symbols are both text.
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
        Self { kind: value.kind(), bytes: value.bytes.into() }
    }

    /// The encoded form of the value.
    ///
    /// # Errors
    /// A text with a zero byte where BSON cannot have one (names, patterns), or nesting that the encoder refuses.
    pub fn encode(value: &Bson) -> Result<Self, bson::error::Error> {
        // Values of keys, which each request needs.
        match value {
            Bson::Int32(number) => return Ok(Self { kind: kind::INT32, bytes: number.to_le_bytes().into() }),
            Bson::Int64(number) => return Ok(Self { kind: kind::INT64, bytes: number.to_le_bytes().into() }),
            Bson::ObjectId(id) => return Ok(Self { kind: kind::OBJECT_ID, bytes: id.bytes().into() }),
            _ => {}
        }
        let mut document = bson::Document::new();
        document.insert("", value.clone());
        let bytes = document.to_vec()?;
        Ok(member(&bytes, b"").map_or(Self { kind: kind::NULL, bytes: Box::default() }, Self::copy))
    }

    /// The value to look at.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        Value::new(self.kind, &self.bytes)
    }
}
