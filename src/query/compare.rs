//! MongoDB's order of BSON values: the only comparison of this package.
//!
//! Filters, sorts and index keys all use it. Types come first (see [`type_rank`]), numbers compare by
//! their exact values whatever their type, documents member by member: type, then name, then value.
//! See "Comparison/Sort Order" in MongoDB's manual.

use std::cmp::Ordering;

use bson::Bson;
use bson::raw::RawBsonRef;

use super::number::{Decimal, Number};
use super::raw::{Elements, Owned, Value, View, kind};

/// Orders two values, decoded ones.
pub fn compare_bson(left: &Bson, right: &Bson) -> Ordering {
    match (left, right) {
        (Bson::Document(left), Bson::Document(right)) => compare_documents(left, right),
        (Bson::Array(left), Bson::Array(right)) => compare_lists(left, right),
        (Bson::JavaScriptCodeWithScope(left), Bson::JavaScriptCodeWithScope(right)) => {
            left.code.as_bytes().cmp(right.code.as_bytes()).then_with(|| compare_documents(&left.scope, &right.scope))
        }
        (Bson::DbPointer(_), Bson::DbPointer(_)) | (Bson::Binary(_), Bson::Binary(_)) => compare_encoded(left, right),
        _ => compare_views(left.into(), right.into()),
    }
}

/// A value in MongoDB's order, in which 1 and 1.0 are the same. Of equal values a set keeps the first.
#[derive(Debug, Clone)]
pub struct Ordered(pub Bson);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_bson(&self.0, &other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

/// Orders two values where they lie.
pub fn compare_raw(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> Ordering {
    if matches!(
        (left, right),
        (RawBsonRef::DbPointer(_), RawBsonRef::DbPointer(_)) | (RawBsonRef::Binary(_), RawBsonRef::Binary(_))
    ) {
        return match (Bson::try_from(left), Bson::try_from(right)) {
            (Ok(left), Ok(right)) => compare_encoded(&left, &right),
            _ => Ordering::Equal,
        };
    }
    compare_views(left.into(), right.into())
}

/// The `bson` crate does not show what is in its pointers, nor the inner length of the binary subtype 2,
/// which MongoDB compares; but it encodes them.
fn compare_encoded(left: &Bson, right: &Bson) -> Ordering {
    match (Owned::encode(left), Owned::encode(right)) {
        (Ok(left), Ok(right)) => compare_values(left.value(), right.value()),
        _ => Ordering::Equal,
    }
}

/// Orders two values of the walker.
#[inline]
pub fn compare_values(left: Value<'_>, right: Value<'_>) -> Ordering {
    compare_views(left.view(), right.view())
}

/// Orders two values that were read.
#[inline]
pub fn compare_views(left: View<'_>, right: View<'_>) -> Ordering {
    match (left, right) {
        (View::Text(left), View::Text(right)) | (View::Code(left), View::Code(right)) => left.cmp(right),
        (View::Document(left), View::Document(right)) => compare_members(left, right, true),
        (View::Array(left), View::Array(right)) => compare_members(left, right, false),
        (View::Binary(left_type, left), View::Binary(right_type, right)) => {
            left.len().cmp(&right.len()).then(left_type.cmp(&right_type)).then_with(|| left.cmp(right))
        }
        (View::ObjectId(left), View::ObjectId(right)) => left.cmp(&right),
        (View::Bool(left), View::Bool(right)) => left.cmp(&right),
        (View::Date(left), View::Date(right)) => left.cmp(&right),
        (View::Timestamp(left), View::Timestamp(right)) => left.cmp(&right),
        (View::Regex(left, left_options), View::Regex(right, right_options)) => {
            left.cmp(right).then_with(|| left_options.cmp(right_options))
        }
        (View::DbPointer(left, left_id), View::DbPointer(right, right_id)) => {
            left.len().cmp(&right.len()).then_with(|| left.cmp(right)).then_with(|| left_id.cmp(&right_id))
        }
        (View::CodeWithScope(left, left_scope), View::CodeWithScope(right, right_scope)) => {
            left.cmp(right).then_with(|| compare_members(left_scope, right_scope, true))
        }
        _ => match (number(left), number(right)) {
            (Some(left), Some(right)) => left.compare(right),
            _ => type_rank(left).cmp(&type_rank(right)),
        },
    }
}

/// Whether two values are in the same type bracket; ordinary comparisons stay in it.
#[inline]
pub fn same_bracket(left: View<'_>, right: View<'_>) -> bool {
    type_rank(left) == type_rank(right)
}

/// The place of the value's type in the order of types. All numbers share one, as do strings and symbols.
#[inline]
pub fn type_rank(value: View<'_>) -> i8 {
    let kind = match value {
        View::MinKey => kind::MIN_KEY,
        View::Undefined => kind::UNDEFINED,
        View::Null => kind::NULL,
        View::Int32(_) | View::Int64(_) | View::Double(_) | View::Decimal(_) => return NUMBERS,
        View::Text(_) => kind::STRING,
        View::Document(_) => kind::DOCUMENT,
        View::Array(_) => kind::ARRAY,
        View::Binary(..) => kind::BINARY,
        View::ObjectId(_) => kind::OBJECT_ID,
        View::Bool(_) => kind::BOOL,
        View::Date(_) => kind::DATE,
        View::Timestamp(_) => kind::TIMESTAMP,
        View::Regex(..) => kind::REGEX,
        View::DbPointer(..) => kind::DB_POINTER,
        View::Code(_) => kind::CODE,
        View::CodeWithScope(..) => kind::CODE_WITH_SCOPE,
        View::MaxKey => kind::MAX_KEY,
    };
    rank_of_kind(kind)
}

/// The same place by the type byte alone, see [`kind`].
#[inline]
pub fn rank_of_kind(kind: u8) -> i8 {
    match kind {
        kind::INT32 | kind::INT64 | kind::DOUBLE | kind::DECIMAL => NUMBERS,
        kind::STRING | kind::SYMBOL => 15,
        kind::NULL => 5,
        kind::DOCUMENT => 20,
        kind::ARRAY => 25,
        kind::BINARY => 30,
        kind::OBJECT_ID => 35,
        kind::BOOL => 40,
        kind::DATE => 45,
        kind::TIMESTAMP => 47,
        kind::REGEX => 50,
        kind::DB_POINTER => 55,
        kind::CODE => 60,
        kind::CODE_WITH_SCOPE => 65,
        kind::MIN_KEY => -1,
        kind::MAX_KEY => 127,
        _ => 0,
    }
}

/// The place of all numbers.
pub(super) const NUMBERS: i8 = 10;

/// The value as a number, if it is one.
#[inline]
pub fn number(value: View<'_>) -> Option<Number> {
    Some(match value {
        View::Int32(value) => Number::Int(i64::from(value)),
        View::Int64(value) => Number::Int(value),
        View::Double(value) => Number::Double(value),
        View::Decimal(bytes) => Number::Decimal(Decimal::from_bytes(bytes)),
        _ => return None,
    })
}

/// Member by member: type, then (in documents) name, then value; the shorter one is below.
fn compare_members(left: &[u8], right: &[u8], with_names: bool) -> Ordering {
    let mut right = Elements::within(right);
    for left in Elements::within(left) {
        let Some(right) = right.next() else { return Ordering::Greater };
        let order = rank_of_kind(left.value.kind())
            .cmp(&rank_of_kind(right.value.kind()))
            .then_with(|| if with_names { left.name.cmp(right.name) } else { Ordering::Equal })
            .then_with(|| compare_values(left.value, right.value));
        if order.is_ne() {
            return order;
        }
    }
    if right.next().is_some() { Ordering::Less } else { Ordering::Equal }
}

fn compare_documents(left: &bson::Document, right: &bson::Document) -> Ordering {
    let mut right = right.iter();
    for (left_name, left_value) in left {
        let Some((right_name, right_value)) = right.next() else { return Ordering::Greater };
        let order = type_rank(left_value.into())
            .cmp(&type_rank(right_value.into()))
            .then_with(|| left_name.as_bytes().cmp(right_name.as_bytes()))
            .then_with(|| compare_bson(left_value, right_value));
        if order.is_ne() {
            return order;
        }
    }
    if right.next().is_some() { Ordering::Less } else { Ordering::Equal }
}

fn compare_lists(left: &[Bson], right: &[Bson]) -> Ordering {
    left.iter()
        .zip(right)
        .map(|(left, right)| compare_bson(left, right))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Documents and arrays give an empty view: [`compare_bson`] looks into them itself.
impl<'a> From<&'a Bson> for View<'a> {
    fn from(value: &'a Bson) -> Self {
        match value {
            Bson::Double(number) => View::Double(*number),
            Bson::String(text) | Bson::Symbol(text) => View::Text(text.as_bytes()),
            Bson::Array(_) => View::Array(&[]),
            Bson::Document(_) => View::Document(&[]),
            Bson::Boolean(truth) => View::Bool(*truth),
            Bson::Null => View::Null,
            Bson::RegularExpression(regex) => {
                View::Regex(regex.pattern.as_str().as_bytes(), regex.options.as_str().as_bytes())
            }
            Bson::JavaScriptCode(code) => View::Code(code.as_bytes()),
            Bson::JavaScriptCodeWithScope(code) => View::CodeWithScope(code.code.as_bytes(), &[]),
            Bson::Int32(number) => View::Int32(*number),
            Bson::Int64(number) => View::Int64(*number),
            Bson::Timestamp(time) => View::Timestamp(u64::from(time.time) << 32 | u64::from(time.increment)),
            Bson::Binary(binary) => View::Binary(binary.subtype.into(), &binary.bytes),
            Bson::ObjectId(id) => View::ObjectId(id.bytes()),
            Bson::DateTime(date) => View::Date(date.timestamp_millis()),
            Bson::Decimal128(decimal) => View::Decimal(decimal.bytes()),
            Bson::Undefined => View::Undefined,
            Bson::MaxKey => View::MaxKey,
            Bson::MinKey => View::MinKey,
            Bson::DbPointer(_) => View::DbPointer(&[], [0; 12]),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::{DateTime, Decimal128, RawDocumentBuf, Timestamp, doc};

    use super::*;

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse::<Decimal128>().unwrap())
    }

    /// Each one below the next.
    fn ladder() -> Vec<Bson> {
        vec![
            Bson::MinKey,
            Bson::Undefined,
            Bson::Null,
            Bson::Double(f64::NAN),
            Bson::Double(f64::NEG_INFINITY),
            decimal("-1E+400"),
            Bson::Double(f64::MIN),
            Bson::Int64(i64::MIN),
            Bson::Int32(-1),
            decimal("-1E-6000"),
            Bson::Int32(0),
            Bson::Double(5e-324),
            decimal("0.1"),
            Bson::Double(0.1),
            Bson::Int32(1),
            decimal("9007199254740992.5"),
            Bson::Int64(9_007_199_254_740_993),
            decimal("1.000000000000000000000000000000001E+300"),
            Bson::Double(1e300),
            Bson::Double(f64::INFINITY),
            "".into(),
            "B".into(),
            "b".into(),
            doc! {}.into(),
            doc! { "w": 9 }.into(),
            doc! { "x": 0 }.into(),
            doc! { "y": 2, "x": 1 }.into(),
            doc! { "x": "a" }.into(),
            Bson::Array(vec![]),
            Bson::Array(vec![Bson::Int32(1)]),
            Bson::Array(vec![Bson::Int32(1), Bson::Int32(0)]),
            Bson::ObjectId(ObjectId::from_bytes([0; 12])),
            Bson::Boolean(false),
            Bson::Boolean(true),
            Bson::DateTime(DateTime::from_millis(-1)),
            Bson::DateTime(DateTime::from_millis(0)),
            Bson::Timestamp(Timestamp { time: 0, increment: 1 }),
            Bson::Timestamp(Timestamp { time: 1, increment: 0 }),
            Bson::MaxKey,
        ]
    }

    #[test]
    fn values_are_ordered_by_type_and_value() {
        let ladder = ladder();
        for (i, left) in ladder.iter().enumerate() {
            for (j, right) in ladder.iter().enumerate() {
                let pair = RawDocumentBuf::try_from(&doc! { "l": left.clone(), "r": right.clone() }).unwrap();
                let (raw_left, raw_right) = (pair.get("l").unwrap().unwrap(), pair.get("r").unwrap().unwrap());
                assert_eq!(compare_bson(left, right), i.cmp(&j), "{left} and {right}");
                assert_eq!(compare_raw(raw_left, raw_right), i.cmp(&j), "{left} and {right}, raw");
            }
        }
    }

    #[test]
    fn equal_numbers_of_different_types_are_equal() {
        let ones =
            [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0), decimal("1"), decimal("1.000"), decimal("10E-1")];
        for left in &ones {
            for right in &ones {
                assert_eq!(compare_bson(left, right), Ordering::Equal, "{left} and {right}");
            }
        }
        assert_eq!(compare_bson(&Bson::Double(-0.0), &decimal("0E+10")), Ordering::Equal);
        assert_eq!(compare_bson(&Bson::Double(f64::NAN), &decimal("NaN")), Ordering::Equal);
        assert_eq!(compare_bson(&Bson::Double(0.5), &decimal("0.5")), Ordering::Equal);
        assert_eq!(compare_bson(&Bson::Double(1e22), &decimal("1E+22")), Ordering::Equal);
    }
}
