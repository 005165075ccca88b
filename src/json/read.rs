//! Reads MongoDB Extended JSON v2, relaxed and canonical, into BSON.
//!
//! Laws: members keep their order, a repeated member is an error, every error of a text has its place. A number that would
//! be rounded is an error, see [`exact`]. `{"$regex": ..,
//! "$options": ..}` stays as it is, because in a filter it is an operator. `{"$date": <integer>}` is accepted in
//! addition to the forms of the specification. Values of clients are counted while reading, so a document with too many
//! values is never built.

use std::cell::Cell;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp, Uuid};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::exact::{self, NumberScan, Rounded, Scanned};
use super::spelling::{in_words, remedy};

/// The maximum number of values in one document of a client: objects, arrays and their content. Each takes some hundred
/// bytes of memory, even if its text is short.
pub const MOST_VALUES: usize = 50_000;

/// The maximum number of values in a list of documents with a text of this number of bytes: even short fields have more than
/// 6 bytes per value.
pub fn most_values(bytes: usize) -> usize {
    (bytes / 6).max(MOST_VALUES)
}

/// Text that is not Extended JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct JsonError {
    /// From 1; 0 when there is no text to point into.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead, if that is known.
    pub remedy: Option<&'static str>,
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)?;
        if self.line > 0 {
            write!(formatter, " at line {}, column {}", self.line, self.column)?;
        }
        self.remedy.map_or(Ok(()), |remedy| write!(formatter, "; {remedy}"))
    }
}

impl From<serde_json::Error> for JsonError {
    fn from(error: serde_json::Error) -> Self {
        let text = error.to_string();
        // The place is kept apart from the sentence.
        let message = in_words(text.split_once(" at line ").map_or(text.as_str(), |(message, _)| message));
        Self { line: error.line(), column: error.column().max(1), message, remedy: None }
    }
}

impl From<Rounded> for JsonError {
    fn from(Rounded { line, column, text }: Rounded) -> Self {
        Self { line, column, message: format!("the number {text} would be rounded"), remedy: Some(exact::REMEDY) }
    }
}

/// Reads one document.
///
/// # Errors
/// Text that is no JSON or no object, a repeated member, a malformed special value such as `{"$oid": 5}`, a number that
/// would be rounded, more than [`MOST_VALUES`].
pub fn document_from_str(text: &str) -> Result<Document, JsonError> {
    only_document(value_from_str(text)?)
}

/// Reads one document of this service or of an operator, with any number of values.
///
/// # Errors
/// As [`document_from_str`], but for the number of values.
pub fn trusted_document_from_str(text: &str) -> Result<Document, JsonError> {
    only_document(value_within(text, &Cell::new(usize::MAX))?)
}

/// Reads one of several documents, which have at most `left` values together; 0 are left when there are more.
///
/// # Errors
/// As [`document_from_str`].
pub fn document_counted(text: &str, left: &mut usize) -> Result<Document, JsonError> {
    let here = Cell::new((*left).min(MOST_VALUES));
    let before = here.get();
    let document = value_within(text, &here).and_then(only_document);
    *left -= before - here.get();
    document
}

fn only_document(value: Bson) -> Result<Document, JsonError> {
    match value {
        Bson::Document(document) => Ok(document),
        Bson::Array(_) => Err(not_an_object("an array")),
        _ => Err(not_an_object("a single value")),
    }
}

fn not_an_object(found: &str) -> JsonError {
    JsonError { line: 1, column: 1, message: format!("expected an object, found {found}"), remedy: None }
}

/// Reads one value of any type.
///
/// # Errors
/// As [`document_from_str`], but for the type.
pub fn value_from_str(text: &str) -> Result<Bson, JsonError> {
    value_within(text, &Cell::new(MOST_VALUES))
}

fn value_within(text: &str, left: &Cell<usize>) -> Result<Bson, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = JsonReader { left }.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    let value = read.map_err(|error| {
        let error = JsonError::from(error);
        JsonError { remedy: remedy(text, error.line, error.column), ..error }
    })?;
    NumberScan::of(text.as_bytes()).map_or(Ok(value), |rounded| Err(rounded.into()))
}

/// How much of a list is read.
#[derive(Debug, Clone, Copy)]
pub struct ListLimits {
    /// The maximum number of items.
    pub items: usize,
    /// The maximum number of values in all items together; one item has at most [`MOST_VALUES`].
    pub values: usize,
}

/// Why a list is not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It has more items than it may have.
    #[error("there are more than {0} items")]
    TooMany(usize),
    /// It is no JSON, no array, or has too many values.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// Who takes the items wants no more.
    #[error("stopped")]
    Stopped,
    /// Its bytes cannot be had.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<serde_json::Error> for ListError {
    fn from(error: serde_json::Error) -> Self {
        if error.is_io() { Self::Io(error.into()) } else { Self::Json(error.into()) }
    }
}

/// Reads an array item by item, as long as `each` wants more; nothing of it is kept here.
///
/// # Errors
/// See [`ListError`].
pub fn array_items(text: &[u8], limits: ListLimits, each: impl FnMut(Bson) -> bool) -> Result<(), ListError> {
    let read = items_of(serde_json::Deserializer::from_slice(text), limits, each);
    read.and_then(|()| kept(NumberScan::of(text)))
}

/// As [`array_items`], from a reader. A number that would be rounded is an error at the end.
///
/// # Errors
/// See [`ListError`].
pub fn array_items_from(
    reader: impl Read,
    limits: ListLimits,
    each: impl FnMut(Bson) -> bool,
) -> Result<(), ListError> {
    let mut scan = NumberScan::new();
    let reader = BufReader::new(Scanned::over(reader, &mut scan));
    let read = items_of(serde_json::Deserializer::from_reader(reader), limits, each);
    read.and_then(|()| kept(scan.end()))
}

fn kept(rounded: Option<Rounded>) -> Result<(), ListError> {
    rounded.map_or(Ok(()), |rounded| Err(JsonError::from(rounded).into()))
}

fn items_of<'de, R: serde_json::de::Read<'de>>(
    mut reader: serde_json::Deserializer<R>,
    limits: ListLimits,
    each: impl FnMut(Bson) -> bool,
) -> Result<(), ListError> {
    let mut end = None;
    let outcome = reader.deserialize_seq(List { limits, each, end: &mut end }).and_then(|()| reader.end());
    match end {
        Some(end) => Err(end),
        None => Ok(outcome?),
    }
}

/// Reads one document per line, as long as `each` wants more; empty lines are skipped. An error concerns only its line,
/// unless there are too many values.
///
/// # Errors
/// See [`ListError`].
pub fn line_items(
    mut reader: impl BufRead,
    limits: ListLimits,
    mut each: impl FnMut(Result<Document, JsonError>) -> bool,
) -> Result<(), ListError> {
    let (mut line, mut count, mut values) = (Vec::new(), 0, limits.values);
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = std::str::from_utf8(&line).map_err(|_| not_utf8());
        if text.as_ref().map_or(true, |text| !text.trim().is_empty()) {
            if count == limits.items {
                return Err(ListError::TooMany(limits.items));
            }
            count += 1;
            let document = text.and_then(|text| document_counted(text, &mut values));
            if values == 0 {
                return Err(too_many_values().into());
            }
            if !each(document) {
                return Err(ListError::Stopped);
            }
        }
        line.clear();
    }
    Ok(())
}

fn not_utf8() -> JsonError {
    JsonError { line: 1, column: 1, message: "it is not UTF-8".to_owned(), remedy: None }
}

fn too_many_values() -> JsonError {
    JsonError { line: 0, column: 0, message: TOO_MANY_VALUES.to_owned(), remedy: None }
}

/// The message about too many values.
pub const TOO_MANY_VALUES: &str =
    "there are too many values; a document has at most 50000, a list of documents one for each 6 bytes";

/// An array while it is read.
struct List<'b, F> {
    limits: ListLimits,
    each: F,
    /// Why the array was not read to its end.
    end: &'b mut Option<ListError>,
}

impl<'de, F: FnMut(Bson) -> bool> Visitor<'de> for List<'_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<(), A::Error> {
        let mut values = self.limits.values;
        for count in 0.. {
            let left = Cell::new(values.min(MOST_VALUES));
            let before = left.get();
            let item = Item { reader: JsonReader { left: &left }, is_wanted: count < self.limits.items };
            let Some(item) = access.next_element_seed(item)? else { break };
            values -= before - left.get();
            *self.end = match item.map(&mut self.each) {
                Some(true) => continue,
                Some(false) => Some(ListError::Stopped),
                None => Some(ListError::TooMany(self.limits.items)),
            };
            return Err(A::Error::custom("the list is not read to its end"));
        }
        Ok(())
    }
}

/// An item of an array, which is not even begun when it is not wanted.
struct Item<'b> {
    reader: JsonReader<'b>,
    is_wanted: bool,
}

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = Option<Bson>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Bson>, D::Error> {
        if self.is_wanted { self.reader.deserialize(deserializer).map(Some) } else { Ok(None) }
    }
}

/// Converts JSON that was read already.
///
/// # Errors
/// A malformed special value. There is no place to name.
pub fn bson_from_value(value: serde_json::Value) -> Result<Bson, JsonError> {
    Ok(JsonReader { left: &Cell::new(MOST_VALUES) }.deserialize(value)?)
}

/// Reads a value, and subtracts each value in it from the rest.
#[derive(Clone, Copy)]
struct JsonReader<'b> {
    left: &'b Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for JsonReader<'_> {
    type Value = Bson;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Bson, D::Error> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| D::Error::custom(TOO_MANY_VALUES))?;
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonReader<'_> {
    type Value = Bson;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Bson, E> {
        Ok(Bson::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Bson, E> {
        Ok(i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32))
    }

    #[expect(clippy::cast_precision_loss, reason = "beyond 64 bits a JSON number is a double")]
    fn visit_u64<E: Error>(self, value: u64) -> Result<Bson, E> {
        i64::try_from(value).map_or(Ok(Bson::Double(value as f64)), |value| self.visit_i64(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Bson, E> {
        Ok(Bson::Double(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Bson, E> {
        Ok(Bson::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Bson, E> {
        Ok(Bson::String(value))
    }

    fn visit_unit<E>(self) -> Result<Bson, E> {
        Ok(Bson::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Bson, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Bson::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Bson, A::Error> {
        let mut document = Document::new();
        while let Some(name) = access.next_key::<String>()? {
            if name.contains('\0') {
                return Err(A::Error::custom(format_args!("the member {name:?} has a zero byte in its name")));
            }
            if document.contains_key(&name) {
                return Err(A::Error::custom(format_args!("the member {name:?} is there twice")));
            }
            let value = access.next_value_seed(self)?;
            document.insert(name, value);
        }
        special(document).map_err(A::Error::custom)
    }
}

/// Converts `{"$oid": ..}` and similar documents into their values; other documents stay.
fn special(document: Document) -> Result<Bson, String> {
    let mut members = document.iter();
    let value = match (members.next(), members.next(), members.next()) {
        (Some((name, value)), None, None) => wrapped(name, value)?,
        (Some((first, code)), Some((second, scope)), None) => match (first.as_str(), second.as_str()) {
            ("$code", "$scope") => Some(code_with_scope(code, scope)?),
            ("$scope", "$code") => Some(code_with_scope(scope, code)?),
            _ => None,
        },
        _ => None,
    };
    Ok(value.unwrap_or(Bson::Document(document)))
}

fn wrapped(name: &str, value: &Bson) -> Result<Option<Bson>, String> {
    let fail = |expected: &str| Err(format!("{name} must be {expected}"));
    let text = value.as_str();
    Ok(Some(match name {
        "$oid" => match text.and_then(|text| ObjectId::parse_str(text).ok()) {
            Some(id) => Bson::ObjectId(id),
            None => return fail("24 hexadecimal digits"),
        },
        "$numberInt" => match text.and_then(|text| text.parse().ok()) {
            Some(number) => Bson::Int32(number),
            None => return fail("a text with a whole number of 32 bits"),
        },
        "$numberLong" => match text.and_then(|text| text.parse().ok()) {
            Some(number) => Bson::Int64(number),
            None => return fail("a text with a whole number of 64 bits"),
        },
        "$numberDouble" => match text.and_then(double) {
            Some(number) => Bson::Double(number),
            None => return fail("a text with a number that a double holds, NaN, Infinity or -Infinity"),
        },
        "$numberDecimal" => match text.and_then(decimal) {
            Some(number) => Bson::Decimal128(number),
            None => return fail("a text with a number of at most 34 digits"),
        },
        "$date" => match date(value) {
            Some(date) => Bson::DateTime(date),
            None => return fail("milliseconds since 1970, or a time such as 2024-05-06T07:08:09.123Z"),
        },
        "$binary" => match value.as_document().and_then(binary) {
            Some(binary) => Bson::Binary(binary),
            None => return fail("{\"base64\": text, \"subType\": one or two hexadecimal digits}"),
        },
        "$uuid" => match text.and_then(|text| Uuid::parse_str(text).ok()) {
            Some(uuid) => Bson::from(uuid),
            None => return fail("a UUID of 32 hexadecimal digits"),
        },
        "$regularExpression" => match value.as_document().and_then(regex) {
            Some(regex) => Bson::RegularExpression(regex),
            None => return fail("{\"pattern\": text, \"options\": text}"),
        },
        "$timestamp" => match value.as_document().and_then(timestamp) {
            Some(timestamp) => Bson::Timestamp(timestamp),
            None => return fail("{\"t\": seconds, \"i\": counter}, both whole numbers of 32 bits"),
        },
        "$minKey" if is_one(value) => Bson::MinKey,
        "$maxKey" if is_one(value) => Bson::MaxKey,
        "$minKey" | "$maxKey" => return fail("1"),
        "$undefined" if *value == Bson::Boolean(true) => Bson::Undefined,
        "$undefined" => return fail("true"),
        "$symbol" => match text {
            Some(text) => Bson::Symbol(text.to_owned()),
            None => return fail("a text"),
        },
        "$code" => match text {
            Some(text) => Bson::JavaScriptCode(text.to_owned()),
            None => return fail("a text"),
        },
        "$dbPointer" => match db_pointer(value) {
            Some(pointer) => pointer,
            None => return fail("{\"$ref\": text, \"$id\": {\"$oid\": text}}"),
        },
        _ => return Ok(None),
    }))
}

fn code_with_scope(code: &Bson, scope: &Bson) -> Result<Bson, String> {
    match (code, scope) {
        (Bson::String(code), Bson::Document(scope)) => {
            Ok(Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code: code.clone(), scope: scope.clone() }))
        }
        _ => Err("$code must be a text and $scope an object".to_owned()),
    }
}

/// There is one NaN, as there is for doubles: a sign of it could not be written again.
fn decimal(text: &str) -> Option<Decimal128> {
    let number: Decimal128 = text.parse().ok()?;
    if number.to_string() == "NaN" { "NaN".parse().ok() } else { Some(number) }
}

/// `f64::from_str` reads more names of the special values than the specification has.
fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ if !exact::is_kept(text) => None,
        _ if text.ends_with(|end: char| end.is_ascii_digit() || end == '.') => text.parse().ok(),
        _ => None,
    }
}

fn date(value: &Bson) -> Option<DateTime> {
    match value {
        Bson::Int32(milliseconds) => Some(DateTime::from_millis(i64::from(*milliseconds))),
        Bson::Int64(milliseconds) => Some(DateTime::from_millis(*milliseconds)),
        Bson::String(text) => DateTime::parse_rfc3339_str(text).ok(),
        _ => None,
    }
}

fn binary(document: &Document) -> Option<Binary> {
    let (2, Ok(base64), Ok(subtype)) = (document.len(), document.get_str("base64"), document.get_str("subType")) else {
        return None;
    };
    let hexadecimal = (1..=2).contains(&subtype.len()) && subtype.bytes().all(|byte| byte.is_ascii_hexdigit());
    let subtype = u8::from_str_radix(subtype, 16).ok().filter(|_| hexadecimal)?;
    Binary::from_base64(base64, BinarySubtype::from(subtype)).ok()
}

fn regex(document: &Document) -> Option<Regex> {
    match (document.len(), document.get_str("pattern"), document.get_str("options")) {
        (2, Ok(pattern), Ok(options)) => {
            // BSON wants the options in alphabetical order.
            let mut options: Vec<char> = options.chars().collect();
            options.sort_unstable();
            let options = options.into_iter().collect::<String>();
            Some(Regex { pattern: pattern.to_owned().try_into().ok()?, options: options.try_into().ok()? })
        }
        _ => None,
    }
}

fn timestamp(document: &Document) -> Option<Timestamp> {
    let part = |name| match document.get(name)? {
        Bson::Int32(part) => u32::try_from(*part).ok(),
        Bson::Int64(part) => u32::try_from(*part).ok(),
        _ => None,
    };
    (document.len() == 2).then_some(Timestamp { time: part("t")?, increment: part("i")? })
}

fn is_one(value: &Bson) -> bool {
    *value == Bson::Int32(1)
}

/// The `bson` crate has no way to make a pointer but its own reader.
fn db_pointer(value: &Bson) -> Option<Bson> {
    let document = value.as_document()?;
    let (2, Ok(namespace), Ok(id)) = (document.len(), document.get_str("$ref"), document.get_object_id("$id")) else {
        return None;
    };
    let json = serde_json::json!({ "$dbPointer": { "$ref": namespace, "$id": { "$oid": id.to_hex() } } });
    Bson::try_from(json).ok()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn read(text: &str) -> Bson {
        value_from_str(text).expect("the text is valid")
    }

    fn error(text: &str) -> String {
        value_from_str(text).expect_err("the text is not valid").to_string()
    }

    #[test]
    fn whole_numbers_take_the_smallest_type() {
        assert_eq!(
            read("[1, 2147483648, 9223372036854775808, 1.0, -2147483648]"),
            Bson::Array(vec![
                Bson::Int32(1),
                Bson::Int64(2_147_483_648),
                Bson::Double(9_223_372_036_854_775_808.0),
                Bson::Double(1.0),
                Bson::Int32(i32::MIN),
            ])
        );
    }

    #[test]
    fn special_values_are_read() {
        let id = ObjectId::parse_str("0123456789abcdef01234567").expect("24 digits");
        assert_eq!(read(r#"{"$oid": "0123456789abcdef01234567"}"#), Bson::ObjectId(id));
        assert_eq!(read(r#"{"$numberLong": "5"}"#), Bson::Int64(5));
        assert_eq!(read(r#"{"$numberInt": "5"}"#), Bson::Int32(5));
        assert_eq!(read(r#"{"$numberDouble": "-Infinity"}"#), Bson::Double(f64::NEG_INFINITY));
        let decimal = |text: &str| Bson::Decimal128(text.parse().expect("a decimal"));
        assert_eq!(read(r#"{"$numberDecimal": "1.00"}"#), decimal("1.00"));
        assert_eq!(read(r#"{"$numberDecimal": "-NaN"}"#), decimal("NaN"));
        assert_eq!(read(r#"{"$date": 5}"#), Bson::DateTime(DateTime::from_millis(5)));
        assert_eq!(read(r#"{"$date": {"$numberLong": "-5"}}"#), Bson::DateTime(DateTime::from_millis(-5)));
        assert_eq!(read(r#"{"$date": "1970-01-01T00:00:00.005Z"}"#), Bson::DateTime(DateTime::from_millis(5)));
        assert_eq!(
            read(r#"{"$timestamp": {"t": 4294967295, "i": 1}}"#),
            Bson::Timestamp(Timestamp { time: u32::MAX, increment: 1 })
        );
        assert_eq!(read(r#"{"$minKey": 1}"#), Bson::MinKey);
        assert_eq!(read(r#"{"$maxKey": 1}"#), Bson::MaxKey);
        assert_eq!(read(r#"{"$undefined": true}"#), Bson::Undefined);
        assert_eq!(read(r#"{"$symbol": "s"}"#), Bson::Symbol("s".into()));
        assert_eq!(read(r#"{"$code": "s"}"#), Bson::JavaScriptCode("s".into()));
        assert!(matches!(read(r#"{"$code": "s", "$scope": {"a": 1}}"#), Bson::JavaScriptCodeWithScope(_)));
        assert!(matches!(
            read(r#"{"$dbPointer": {"$ref": "c", "$id": {"$oid": "0123456789abcdef01234567"}}}"#),
            Bson::DbPointer(_)
        ));
        assert!(matches!(
            read(r#"{"$regularExpression": {"pattern": "a", "options": "i"}}"#),
            Bson::RegularExpression(_)
        ));
        assert!(matches!(read(r#"{"$uuid": "c8edabc3-f738-4ca3-b68d-ab92a91478a3"}"#), Bson::Binary(_)));
        assert!(matches!(read(r#"{"$binary": {"base64": "AAA=", "subType": "0"}}"#), Bson::Binary(_)));
    }

    #[test]
    fn operators_stay_documents() {
        assert_eq!(
            read(r#"{"a": {"$regex": "x", "$options": "i"}}"#),
            doc! {"a": {"$regex": "x", "$options": "i"}}.into()
        );
    }

    #[test]
    fn members_keep_their_order() {
        assert_eq!(document_from_str(r#"{"b": 1, "a": 2}"#).expect("valid").keys().collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(error("{\"a\": 1,\n \"a\": 2}"), "the member \"a\" is there twice at line 2, column 4");
        assert_eq!(error(r#"{"a": {"$oid": 5}}"#), "$oid must be 24 hexadecimal digits at line 1, column 17");
        assert_eq!(error("{\"a\": tru}"), "expected true, false or null at line 1, column 10");
        assert_eq!(error("{a: 1}"), "expected the name of a member in double quotes at line 1, column 2");
        assert_eq!(error("{} x"), "there is more text after the end of the JSON at line 1, column 4");
        assert_eq!(error(r#"{"a\u0000": 1}"#), "the member \"a\\0\" has a zero byte in its name at line 1, column 10");
    }

    #[test]
    fn an_array_is_not_a_document() {
        assert_eq!(
            document_from_str("[]").expect_err("no object").to_string(),
            "expected an object, found an array at line 1, column 1"
        );
    }

    #[test]
    fn a_number_that_would_be_rounded_is_an_error_with_its_place() {
        let told = "the number 12345678901234567890 would be rounded at line 1, column 7; send it as a text, or as \
                    {\"$numberDecimal\": \"...\"}";
        assert_eq!(error(r#"{"a": 12345678901234567890}"#), told);
        for rounded in ["5e-400", "[1, 0.12345678901234567890123]", r#"{"$numberDouble": "5e-400"}"#, "1e400"] {
            assert!(value_from_str(rounded).is_err(), "{rounded}");
        }
        for digits in ["12345678901234567890123456789012345", "1E+7000", "1E-7000"] {
            let text = format!(r#"{{"$numberDecimal": "{digits}"}}"#);
            assert!(value_from_str(&text).is_err(), "{digits}: {:?}", value_from_str(&text));
        }
        assert_eq!(read("[0.1, 1.10, -0, 9007199254740993]").as_array().map(Vec::len), Some(4));
    }

    #[test]
    fn a_list_with_a_number_that_would_be_rounded_is_an_error() {
        let limits = ListLimits { items: 9, values: 99 };
        let text = r#"[{"a": 1}, {"a": 5e-400}]"#;
        for read in
            [array_items(text.as_bytes(), limits, |_| true), array_items_from(text.as_bytes(), limits, |_| true)]
        {
            let told = read.expect_err("it would be rounded").to_string();
            assert!(told.starts_with("the number 5e-400 would be rounded at line 1, column 18; "), "{told}");
        }
        let mut lines = Vec::new();
        line_items("{\"a\": 1}\n{\"a\": 5e-400}\n".as_bytes(), limits, |line| {
            lines.push(line.is_ok());
            true
        })
        .expect("lines");
        assert_eq!(lines, [true, false]);
    }

    #[test]
    fn deep_nesting_is_an_error() {
        assert!(error(&"[".repeat(100_000)).contains("nested too deeply"));
    }
}
