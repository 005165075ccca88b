//! Values as bytes whose order is MongoDB's order of values: the contents of indexes.
//!
//! Laws, held by the property tests below against [`compare_raw`](crate::query::compare::compare_raw):
//!
//! - the order of keys never contradicts the order of values, and equal values have equal keys;
//! - no key is a prefix of another one, so keys of several values can be joined into one.

use std::borrow::Cow;

use bson::Bson;
use bson::raw::{RawArray, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use bson::spec::BinarySubtype;
use xxhash_rust::xxh3::xxh3_128;

use crate::store::embedded::index::number;

pub use crate::store::embedded::index::number::invert;

/// Keys longer than this are cut. A reader of a cut key also reads the document.
pub const MAX_KEY: usize = 1024;

/// The first byte of a key, by type; in MongoDB's order. 0 ends documents, 255 is above every key.
pub(crate) mod kind {
    pub(crate) const MIN_KEY: u8 = 0x08;
    pub(crate) const UNDEFINED: u8 = 0x10;
    pub(crate) const NULL: u8 = 0x18;
    pub(crate) const NUMBER: u8 = 0x20;
    pub(crate) const STRING: u8 = 0x28;
    pub(crate) const DOCUMENT: u8 = 0x30;
    pub(crate) const ARRAY: u8 = 0x38;
    pub(crate) const BINARY: u8 = 0x40;
    pub(crate) const OBJECT_ID: u8 = 0x48;
    pub(crate) const BOOLEAN: u8 = 0x50;
    pub(crate) const DATE: u8 = 0x58;
    pub(crate) const TIMESTAMP: u8 = 0x60;
    pub(crate) const REGEX: u8 = 0x68;
    pub(crate) const DB_POINTER: u8 = 0x70;
    pub(crate) const CODE: u8 = 0x78;
    pub(crate) const CODE_WITH_SCOPE: u8 = 0x80;
    pub(crate) const MAX_KEY: u8 = 0xf0;
    pub(crate) const ABOVE_ALL: u8 = 0xff;
}

/// The buffer of keys. It writes hardly any bytes that [`cut`] would remove.
pub(crate) struct BoundedKey {
    pub(crate) bytes: Vec<u8>,
    /// How many bytes may be written.
    most: usize,
}

impl BoundedKey {
    /// For the keys of an index. A unique index needs all bytes, because the hash in its cut keys is that of the whole
    /// key.
    pub(crate) fn keys_of(is_unique: bool) -> Self {
        Self { bytes: Vec::new(), most: if is_unique { usize::MAX } else { MAX_KEY + 1 } }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= self.most
    }

    fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    fn extend_from_slice(&mut self, bytes: &[u8]) {
        let room = self.most.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// Appends the key of a value.
///
/// # Errors
/// The bytes of a document or array inside the value are not BSON.
pub(crate) fn push_value(value: RawBsonRef<'_>, out: &mut BoundedKey) -> Result<(), bson::error::Error> {
    out.push(kind_of(value));
    push_body(value, out)
}

/// The key of a value.
///
/// # Errors
/// As [`push_value`].
pub fn of_value(value: RawBsonRef<'_>) -> Result<Vec<u8>, bson::error::Error> {
    let mut key = BoundedKey { bytes: Vec::with_capacity(24), most: usize::MAX };
    push_value(value, &mut key)?;
    Ok(key.bytes)
}

/// The first byte of the keys of values of this type.
pub(crate) fn kind_of(value: RawBsonRef<'_>) -> u8 {
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

fn push_body(value: RawBsonRef<'_>, out: &mut BoundedKey) -> Result<(), bson::error::Error> {
    match value {
        RawBsonRef::MinKey | RawBsonRef::MaxKey | RawBsonRef::Undefined | RawBsonRef::Null => {}
        RawBsonRef::Double(number) => number::push_f64(number, &mut out.bytes),
        RawBsonRef::Int32(number) => number::push_f64(f64::from(number), &mut out.bytes),
        RawBsonRef::Int64(number) => number::push_i64(number, &mut out.bytes),
        RawBsonRef::Decimal128(number) => number::push_decimal(number, &mut out.bytes),
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
fn push_text(text: &str, out: &mut BoundedKey) {
    // A key of a text is never shorter than the text.
    let text = &text.as_bytes()[..text.len().min(out.most)];
    if text.contains(&0) {
        for &byte in text {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
    } else {
        out.extend_from_slice(text);
    }
    out.extend_from_slice(&[0, 0]);
}

/// The text that [`push_text`] appended, without its end.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.contains(&0) {
        return Cow::Borrowed(bytes);
    }
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        text.push(byte);
        if byte == 0 {
            rest.next();
        }
    }
    Cow::Owned(text)
}

/// Appends text that cannot hold zero bytes.
fn push_name(name: &str, out: &mut BoundedKey) {
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

/// Appends a document: of each member first the type, then the name, then the value, as MongoDB compares them.
fn push_document(document: &RawDocument, out: &mut BoundedKey) -> Result<(), bson::error::Error> {
    for element in document.iter_elements() {
        if out.is_full() {
            return Ok(());
        }
        let element = element?;
        let value = element.value()?;
        out.push(kind_of(value));
        push_name(element.key().as_str(), out);
        push_body(value, out)?;
    }
    out.push(0);
    Ok(())
}

fn push_array(array: &RawArray, out: &mut BoundedKey) -> Result<(), bson::error::Error> {
    for element in array {
        if out.is_full() {
            return Ok(());
        }
        push_value(element?, out)?;
    }
    out.push(0);
    Ok(())
}

/// Appends binary data: first its length, then its subtype, then its bytes.
fn push_binary(subtype: BinarySubtype, bytes: &[u8], out: &mut BoundedKey) {
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

/// Appends the length of a value's stored form, then that form; MongoDB compares `DBPointer`s that way.
fn push_stored_bytes(value: RawBsonRef<'_>, out: &mut BoundedKey) {
    let mut holder = RawDocumentBuf::new();
    holder.append(bson::raw::cstr!(""), value);
    // Length (4), type (1), empty name (1), the value, end (1).
    let bytes = &holder.as_bytes()[6..holder.as_bytes().len() - 1];
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The smallest bytes above every key that begins with `prefix`; `None` if there are none.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut above = prefix[..=last].to_vec();
    above[last] += 1;
    Some(above)
}

/// Cuts a key that is too long; returns whether it was.
///
/// In a unique index the cut key ends with a hash of the whole one, so that it still distinguishes values.
pub fn cut(key: &mut Vec<u8>, unique: bool) -> bool {
    if key.len() <= MAX_KEY {
        return false;
    }
    let hash = unique.then(|| xxh3_128(key));
    key.truncate(MAX_KEY);
    key.shrink_to_fit();
    if let Some(hash) = hash {
        key.extend_from_slice(&hash.to_be_bytes());
    }
    true
}

/// The key of a decoded value; `None` for one that BSON cannot hold.
pub(crate) fn of_bson(value: &Bson) -> Option<Vec<u8>> {
    let encoded = RawBson::try_from(value.clone()).ok()?;
    of_value(encoded.as_raw_bson_ref()).ok()
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use bson::oid::ObjectId;
    use bson::{Binary, Bson, Decimal128, Document, JavaScriptCodeWithScope, Regex, Timestamp};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::query::compare::compare_raw;

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().expect("a decimal"))
    }

    /// Numbers that are near each other in different types, where order is easily lost.
    fn numbers() -> Vec<Bson> {
        let mut all: Vec<Bson> = Vec::new();
        for whole in [
            0,
            1,
            -1,
            1 << 53,
            (1 << 53) + 1,
            (1 << 53) + 2,
            -(1 << 53) - 1,
            i64::MAX,
            i64::MAX - 1,
            i64::MIN,
            i64::MIN + 1,
        ] {
            all.extend([Bson::Int64(whole), decimal(&whole.to_string()), decimal(&format!("{whole}.5"))]);
            #[expect(clippy::cast_precision_loss, reason = "the neighbours are what is looked for")]
            let near = whole as f64;
            all.extend([near, near.next_up(), near.next_down(), near + 0.5].map(Bson::Double));
        }
        for text in
            ["0.1", "-0.1", "0.10", "1E-6176", "-1E-6176", "9.999999999999999999999999999999999E+6144", "-9E+6144"]
        {
            all.push(decimal(text));
        }
        for text in [
            "NaN", "Infinity", "-Infinity", "-0", "0E+6000", "1E+308", "2E+308", "5E-324", "4.9E-324",
            "0.30000000000000004",
        ] {
            all.push(decimal(text));
        }
        let doubles = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            -5e-324,
            0.1,
            -0.0,
            0.3,
        ];
        all.extend(doubles.map(Bson::Double));
        all.extend([0, 1, -1, i32::MAX, i32::MIN].map(Bson::Int32));
        all
    }

    fn any_scalar() -> impl Strategy<Value = Bson> {
        prop_oneof![
            4 => proptest::sample::select(numbers()),
            1 => any::<f64>().prop_map(Bson::Double),
            1 => any::<i64>().prop_map(Bson::Int64),
            1 => any::<i32>().prop_map(Bson::Int32),
            1 => any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
            3 => "[ab\0\u{ff}]{0,3}".prop_map(Bson::String),
            1 => "[ab\0]{0,2}".prop_map(Bson::Symbol),
            1 => "[ab\0]{0,2}".prop_map(Bson::JavaScriptCode),
            1 => (any::<u8>(), vec(any::<u8>(), 0..3))
                .prop_map(|(subtype, bytes)| Bson::Binary(Binary { subtype: if subtype == 2 { 3 } else { subtype }.into(), bytes })),
            1 => any::<[u8; 12]>().prop_map(|bytes| Bson::ObjectId(ObjectId::from_bytes(bytes))),
            1 => any::<bool>().prop_map(Bson::Boolean),
            1 => any::<i64>().prop_map(|millis| Bson::DateTime(bson::DateTime::from_millis(millis))),
            1 => (any::<u32>(), any::<u32>()).prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
            1 => ("[ab]{0,2}", "[imsx]?").prop_map(|(pattern, options)| Bson::RegularExpression(Regex {
                pattern: pattern.try_into().expect("no zero byte"),
                options: options.try_into().expect("no zero byte"),
            })),
            1 => proptest::sample::select(vec![Bson::Null, Bson::Undefined, Bson::MinKey, Bson::MaxKey]),
        ]
    }

    fn any_value() -> impl Strategy<Value = Bson> {
        any_scalar().prop_recursive(3, 12, 3, |inner| {
            let document = || {
                vec(("[ab]{0,2}", inner.clone()), 0..3).prop_map(|members| members.into_iter().collect::<Document>())
            };
            prop_oneof![
                document().prop_map(Bson::Document),
                vec(inner.clone(), 0..3).prop_map(Bson::Array),
                ("[ab]{0,1}", document())
                    .prop_map(|(code, scope)| Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })),
            ]
        })
    }

    /// The law for one pair of values.
    fn check(left: &Bson, right: &Bson) -> Result<(), TestCaseError> {
        let raw = |value: &Bson| RawBson::try_from(value.clone()).expect("values of tests are BSON");
        let order = compare_raw(raw(left).as_raw_bson_ref(), raw(right).as_raw_bson_ref());
        let (left_key, right_key) = (of_bson(left).expect("a key"), of_bson(right).expect("a key"));
        prop_assert_eq!(
            left_key.cmp(&right_key),
            order,
            "{:?} {:?}: {:02x?} {:02x?}",
            left,
            right,
            left_key,
            right_key
        );
        if order != Ordering::Equal {
            prop_assert!(
                !left_key.starts_with(&right_key) && !right_key.starts_with(&left_key),
                "{:?} {:?}",
                left,
                right
            );
        }
        let (mut left_turned, mut right_turned) = (left_key, right_key);
        invert(&mut left_turned);
        invert(&mut right_turned);
        prop_assert_eq!(left_turned.cmp(&right_turned), order.reverse());
        Ok(())
    }

    #[test]
    fn keys_of_neighbouring_numbers_order_as_the_numbers_do() {
        let numbers = numbers();
        for left in &numbers {
            for right in &numbers {
                check(left, right).expect("the law holds");
            }
        }
    }

    #[test]
    fn equal_numbers_of_all_types_have_equal_keys() {
        let keys = [Bson::Int32(5), Bson::Int64(5), Bson::Double(5.0), decimal("5"), decimal("5.000")]
            .map(|value| of_bson(&value));
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn a_cut_key_of_a_unique_index_still_tells_values_apart() {
        let long = |end: &str| of_bson(&Bson::String(format!("{}{end}", "x".repeat(2000)))).expect("a key");
        let (mut first, mut second) = (long("a"), long("b"));
        assert!(cut(&mut first, true) && cut(&mut second, true));
        assert_ne!(first, second);
        assert_eq!(first.len(), MAX_KEY + 16);
        let (mut first, mut second) = (long("a"), long("b"));
        assert!(cut(&mut first, false) && cut(&mut second, false));
        assert_eq!(first, second);
    }

    #[test]
    fn the_successor_is_above_everything_that_begins_alike() {
        assert_eq!(successor(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(successor(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(successor(&[0xff]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn keys_order_as_values_do(left in any_value(), right in any_value()) {
            check(&left, &right)?;
        }

        #[test]
        fn joined_keys_order_as_pairs_do(first in [any_scalar(), any_scalar()], second in [any_scalar(), any_scalar()]) {
            let [a, b] = &first;
            let [c, d] = &second;
            let join = |one: &Bson, other: &Bson| [of_bson(one).expect("a key"), of_bson(other).expect("a key")].concat();
            let order = crate::query::compare::compare_bson(a, c).then_with(|| crate::query::compare::compare_bson(b, d));
            prop_assert_eq!(join(a, b).cmp(&join(c, d)), order);
        }
    }
}
