//! A walk over raw BSON: elements in stored order, borrowed and decoded only on demand.
//!
//! The only walk of this package: filters, projections and the JSON writer use it. Law: no input makes it panic. Bytes
//! that are not BSON end the walk, with [`CorruptBson`] for those who ask.
//!
//! `RawDocument::iter` checks every element. Stored documents were checked when they were stored, and most elements are
//! skipped, so this walk only finds where elements end.

use bson::raw::RawDocument;
use bson::spec::ElementType;

/// Bytes that are not the BSON document they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("corrupt BSON: {0}")]
pub struct CorruptBson(pub &'static str);

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
    /// No value. It is never stored; projections keep the places of dropped elements with it.
    pub const MISSING: u8 = 0x7E;
    /// Above everything.
    pub const MAX_KEY: u8 = 0x7F;
    /// Below everything.
    pub const MIN_KEY: u8 = 0xFF;
}

/// A member of a document, or an item of an array (whose name is its position in digits).
#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    /// The name's bytes without the closing zero. BSON requires UTF-8; callers that need text check it.
    pub name: &'a [u8],
    /// The value.
    pub value: Value<'a>,
}

/// A value as it is stored: its type, and exactly the bytes that belong to it.
#[derive(Debug, Clone, Copy)]
pub struct Value<'a> {
    /// The type's tag, a word wide. After a single byte there would be padding, and copying it in parts is slow
    /// (measured: a third of a walk).
    tag: u64,
    /// The bytes after the name, length prefix included.
    pub bytes: &'a [u8],
}

/// The elements of a document or an array, in stored order.
///
/// As an iterator it ends early on bytes that are not BSON; [`Elements::next_element`] distinguishes the two ends.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The elements of a document.
    pub fn of(document: &'a RawDocument) -> Self {
        Self::within(document.as_bytes())
    }

    /// The elements of the bytes of a whole document or array, length prefix included.
    #[inline]
    pub fn within(bytes: &'a [u8]) -> Self {
        Self { rest: bytes.get(4..).unwrap_or_default() }
    }

    /// No elements.
    pub fn none() -> Self {
        Self { rest: &[0] }
    }

    /// The elements of bytes whose length prefix and closing zero were not checked yet.
    pub(crate) fn checked(bytes: &'a [u8]) -> Result<Self, CorruptBson> {
        let document = RawDocument::from_bytes(bytes).map_err(|_| CorruptBson("a length is wrong"))?;
        Ok(Self::of(document))
    }

    /// The next element; `None` after the last one.
    ///
    /// # Errors
    /// When the bytes are not BSON. Later elements cannot be found then, and the same error comes again.
    #[expect(clippy::inline_always, reason = "handing elements over in memory costs as much as finding them")]
    #[inline(always)]
    pub fn next_element(&mut self) -> Result<Option<Element<'a>>, CorruptBson> {
        let Some((&tag, after_tag)) = self.rest.split_first() else {
            return Err(CorruptBson("a document does not end"));
        };
        if tag == 0 {
            return if after_tag.is_empty() { Ok(None) } else { Err(CorruptBson("bytes after the end of a document")) };
        }
        let (name, after_name) = split_c_string(after_tag)?;
        let size = value_size(tag, after_name)?;
        let (bytes, rest) = after_name.split_at_checked(size).ok_or(CorruptBson("a value is cut off"))?;
        self.rest = rest;
        Ok(Some(Element { name, value: Value { tag: u64::from(tag), bytes } }))
    }

    /// The member called `name`: the first one, should there be several.
    ///
    /// # Errors
    /// When the bytes up to there are not BSON.
    pub fn member(mut self, name: &str) -> Result<Option<Value<'a>>, CorruptBson> {
        while let Some(element) = self.next_element()? {
            if element.name == name.as_bytes() {
                return Ok(Some(element.value));
            }
        }
        Ok(None)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        self.next_element().ok().flatten()
    }
}

impl<'a> Value<'a> {
    /// The value used for a missing member.
    pub const NULL: Value<'static> = Value { tag: ElementType::Null as u64, bytes: &[] };

    /// A value of these bytes.
    #[inline]
    pub const fn new(kind: u8, bytes: &'a [u8]) -> Self {
        Self { tag: kind as u64, bytes }
    }

    /// A whole document as a value.
    pub fn of_document(document: &'a RawDocument) -> Self {
        Self::new(kind::DOCUMENT, document.as_bytes())
    }

    /// The type byte, see [`kind`].
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it was a byte")]
    pub fn kind(self) -> u8 {
        self.tag as u8
    }

    /// The type.
    #[inline]
    pub fn element_type(self) -> ElementType {
        // The walk yields no other tags, and a missing value is never written.
        ElementType::from(self.kind()).unwrap_or(ElementType::Undefined)
    }

    /// Whether it is an array.
    #[inline]
    pub fn is_array(self) -> bool {
        self.kind() == kind::ARRAY
    }

    /// Whether it is a document.
    #[inline]
    pub fn is_document(self) -> bool {
        self.kind() == kind::DOCUMENT
    }

    /// The members of a document or an array, nothing for other types.
    #[inline]
    pub fn elements(self) -> Elements<'a> {
        if self.is_document() || self.is_array() { Elements::within(self.bytes) } else { Elements::none() }
    }

    /// Whether this is null, or the deprecated undefined.
    #[inline]
    pub fn is_null(self) -> bool {
        matches!(self.element_type(), ElementType::Null | ElementType::Undefined)
    }

    /// The text, for a string of valid UTF-8.
    #[inline]
    pub fn as_str(self) -> Option<&'a str> {
        if self.element_type() == ElementType::String { str::from_utf8(self.text_bytes()).ok() } else { None }
    }

    /// The bytes of a string that is compared, not shown.
    #[inline]
    pub fn as_text_bytes(self) -> Option<&'a [u8]> {
        if self.element_type() == ElementType::String { Some(self.text_bytes()) } else { None }
    }

    /// The boolean.
    #[inline]
    pub fn as_bool(self) -> Option<bool> {
        if self.element_type() == ElementType::Boolean { self.bytes.first().map(|&byte| byte != 0) } else { None }
    }

    /// The whole number, of any stored number type.
    #[inline]
    pub fn as_integer(self) -> Option<i64> {
        match self.element_type() {
            ElementType::Int64 => Some(i64::from_le_bytes(self.fixed())),
            ElementType::Int32 => Some(i64::from(i32::from_le_bytes(self.fixed()))),
            ElementType::Double => whole(f64::from_le_bytes(self.fixed())),
            _ => None,
        }
    }

    /// The time in milliseconds since 1970.
    #[inline]
    pub fn as_millis(self) -> Option<i64> {
        if self.element_type() == ElementType::DateTime { Some(i64::from_le_bytes(self.fixed())) } else { None }
    }

    /// The items, for an array.
    #[inline]
    pub fn as_array(self) -> Option<Elements<'a>> {
        if self.element_type() == ElementType::Array { Some(Elements::within(self.bytes)) } else { None }
    }

    /// The members, for a document.
    #[inline]
    pub fn as_document(self) -> Option<Elements<'a>> {
        if self.element_type() == ElementType::EmbeddedDocument { Some(Elements::within(self.bytes)) } else { None }
    }

    /// The content of a string, code or symbol: without its length and closing zero.
    #[inline]
    pub(crate) fn text_bytes(self) -> &'a [u8] {
        self.bytes.get(4..self.bytes.len().saturating_sub(1)).unwrap_or_default()
    }

    /// The first `N` bytes, or zeros if there are fewer; the walk has excluded that for these types.
    #[inline]
    pub(crate) fn fixed<const N: usize>(self) -> [u8; N] {
        self.bytes.first_chunk().copied().unwrap_or([0; N])
    }
}

/// The member of that name, without an error: none if the bytes are not BSON.
#[inline]
pub fn member<'a>(document: &'a [u8], name: &[u8]) -> Option<Value<'a>> {
    let mut rest = document.get(4..)?;
    loop {
        let (&tag, after_tag) = rest.split_first()?;
        let name_length = first_zero(after_tag)?;
        let after_name = after_tag.get(name_length + 1..)?;
        let size = value_size(tag, after_name).ok()?;
        // Lengths first: most names differ in them.
        if name_length == name.len() && after_tag.get(..name_length)? == name {
            return after_name.get(..size).map(|bytes| Value::new(tag, bytes));
        }
        rest = after_name.get(size..)?;
    }
}

/// The name and the value of a document of the form `{name: <text>, value: <anything>}`, which most fields of objects
/// have. It takes a fraction of the time of a walk. `None` means that a walk must decide.
#[inline]
pub(crate) fn entry(document: &[u8]) -> Option<(&[u8], Value<'_>)> {
    const NAME: &[u8; 6] = b"\x02name\0";
    const VALUE: &[u8; 6] = b"value\0";
    let (_, members) = document.split_first_chunk::<4>()?;
    let (first, string) = members.split_first_chunk::<6>()?;
    let size = if first == NAME { string_size(string).ok()? } else { return None };
    let (&tag, second) = string.get(size..)?.split_first()?;
    let (second, rest) = second.split_first_chunk::<6>()?;
    let bytes = if second == VALUE { rest.get(..value_size(tag, rest).ok()?)? } else { return None };
    // Nothing but the closing zero is left.
    (rest.len() == bytes.len() + 1 && rest.last() == Some(&0)).then(|| (&string[4..size - 1], Value::new(tag, bytes)))
}

/// The name and the value of an entry of `fields`; `None` for a malformed one.
///
/// # Errors
/// When the bytes are not BSON.
pub(crate) fn named_value(stored: Value<'_>) -> Result<Option<(&[u8], Value<'_>)>, CorruptBson> {
    if stored.is_document()
        && let Some(plain) = entry(stored.bytes)
    {
        return Ok(Some(plain));
    }
    let mut name = None;
    let mut value = Value::NULL;
    let mut members = stored.as_document().unwrap_or(Elements::none());
    while let Some(member) = members.next_element()? {
        match member.name {
            b"name" => name = member.value.as_text_bytes(),
            b"value" => value = member.value,
            _ => {}
        }
    }
    Ok(name.map(|name| (name, value)))
}

/// Splits at the first zero byte, which belongs to neither part.
#[inline]
pub(crate) fn split_c_string(bytes: &[u8]) -> Result<(&[u8], &[u8]), CorruptBson> {
    let end = first_zero(bytes).ok_or(CorruptBson("a name does not end"))?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

/// Where the first zero byte is, looking at eight bytes at once: names are short, and there is one for each value.
#[inline]
fn first_zero(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES * 0x80;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The top bit of the lowest byte that is zero; borrows can only mark bytes above it.
        let zeros = word.wrapping_sub(ONES) & !word & TOPS;
        if zeros != 0 {
            return Some(index * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| byte == 0).map(|at| words.len() * 8 + at)
}

/// The number as an integer when it is one and small enough to be exact.
pub(crate) fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and within the exact range")]
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

/// How many of the bytes that begin with a value belong to it. Checks prefixes and closing zeros, not contents.
#[inline]
fn value_size(tag: u8, bytes: &[u8]) -> Result<usize, CorruptBson> {
    match tag {
        kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY | kind::MISSING => Ok(0),
        kind::BOOL => Ok(1),
        kind::INT32 => Ok(4),
        kind::DOUBLE | kind::DATE | kind::TIMESTAMP | kind::INT64 => Ok(8),
        kind::OBJECT_ID => Ok(12),
        kind::DECIMAL => Ok(16),
        kind::STRING | kind::CODE | kind::SYMBOL => string_size(bytes),
        kind::DB_POINTER => Ok(string_size(bytes)? + 12),
        kind::DOCUMENT | kind::ARRAY => closed(bytes, length(bytes)?, 5),
        kind::CODE_WITH_SCOPE => length(bytes),
        kind::BINARY => Ok(length(bytes)? + 5),
        kind::REGEX => {
            let (_, options) = split_c_string(bytes)?;
            let (_, rest) = split_c_string(options)?;
            Ok(bytes.len() - rest.len())
        }
        _ => Err(CorruptBson("a value of an unknown type")),
    }
}

/// The size of a string: its length prefix, its bytes, its closing zero.
#[inline]
pub(crate) fn string_size(bytes: &[u8]) -> Result<usize, CorruptBson> {
    closed(bytes, length(bytes)? + 4, 5)
}

/// `size`, if it is at least `least`, the bytes reach so far, and the last of them is zero.
#[inline]
fn closed(bytes: &[u8], size: usize, least: usize) -> Result<usize, CorruptBson> {
    match bytes.get(size.wrapping_sub(1)) {
        Some(0) if size >= least => Ok(size),
        _ => Err(CorruptBson("a length is wrong")),
    }
}

#[inline]
fn length(bytes: &[u8]) -> Result<usize, CorruptBson> {
    let prefix = bytes.first_chunk().ok_or(CorruptBson("a length is cut off"))?;
    usize::try_from(i32::from_le_bytes(*prefix)).map_err(|_| CorruptBson("a length is negative"))
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn values_are_read_as_what_they_are() {
        let document = rawdoc! { "text": "a", "int": 5_i32, "long": 6_i64, "double": 7.0, "part": 7.5, "yes": true };
        let integer = |name| Elements::of(&document).member(name).unwrap().and_then(Value::as_integer);
        assert_eq!((integer("int"), integer("long"), integer("double")), (Some(5), Some(6), Some(7)));
        assert_eq!((integer("part"), integer("text"), integer("absent")), (None, None, None));
        assert_eq!(Elements::of(&document).member("text").unwrap().and_then(Value::as_str), Some("a"));
        assert_eq!(Elements::of(&document).member("yes").unwrap().and_then(Value::as_bool), Some(true));
    }

    #[test]
    fn names_of_every_length_are_found() {
        for length in 0..30 {
            let name = "n".repeat(length);
            let bytes = doc! { &name: 1 }.to_vec().unwrap();
            let document = RawDocument::from_bytes(&bytes).unwrap();
            let mut elements = Elements::of(document);
            assert_eq!(elements.next_element().unwrap().map(|element| element.name.len()), Some(length));
            assert!(elements.next_element().unwrap().is_none());
            assert_eq!(first_zero(name.as_bytes()), None);
        }
    }

    #[test]
    fn an_entry_is_a_name_and_a_value_and_nothing_else() {
        let of = |document: bson::RawDocumentBuf| {
            entry(document.as_bytes()).map(|(name, value)| (name.to_vec(), value.kind(), value.bytes.to_vec()))
        };
        assert_eq!(of(rawdoc! { "name": "a", "value": 5_i32 }), Some((b"a".to_vec(), kind::INT32, vec![5, 0, 0, 0])));
        assert_eq!(of(rawdoc! { "name": "", "value": null }), Some((Vec::new(), kind::NULL, Vec::new())));
        let nested = of(rawdoc! { "name": "list", "value": [1_i32] });
        assert_eq!(nested.map(|(_, kind, _)| kind), Some(kind::ARRAY));
        for other in [
            rawdoc! {},
            rawdoc! { "name": "a" },
            rawdoc! { "value": 5_i32, "name": "a" },
            rawdoc! { "name": 1_i32, "value": 5_i32 },
            rawdoc! { "name": "a", "valve": 5_i32 },
            rawdoc! { "name": "a", "value": 5_i32, "more": 1_i32 },
        ] {
            assert_eq!(of(other), None);
        }
    }

    #[test]
    fn bytes_that_are_no_document_are_no_entry_either() {
        let whole = rawdoc! { "name": "abc", "value": "text" }.into_bytes();
        assert!(entry(&whole).is_some());
        for end in 0..whole.len() {
            assert!(entry(&whole[..end]).is_none(), "{end}");
        }
        let (mut open, mut unknown) = (whole.clone(), whole.clone());
        *open.last_mut().unwrap() = 1;
        unknown[18] = 0x55;
        assert!(entry(&open).is_none() && entry(&unknown).is_none());
    }

    #[test]
    fn an_error_ends_the_walk() {
        let mut bytes = rawdoc! { "a": 1_i32, "b": 2_i32 }.into_bytes();
        bytes[11] = 0x55;
        let document = RawDocument::from_bytes(&bytes).unwrap();
        let mut elements = Elements::of(document);
        assert!(elements.next_element().is_ok());
        assert!(elements.next_element().is_err() && elements.next_element().is_err());
    }

    #[test]
    fn large_doubles_are_not_whole_numbers() {
        assert_eq!(whole(9_007_199_254_740_993.0 * 2.0), None);
        assert_eq!(whole(f64::NAN), None);
        assert_eq!(whole(-3.0), Some(-3));
    }
}
