//! The condition that a document comes after a position in an order: for pages that continue where the last one ended.
//!
//! A position is the sort key of a document. Comparison operators of filters look at values of one kind only, and at any
//! element of an array. An order looks at all kinds, and at the lowest element of an array (descending: the highest). So
//! "after" is written as "no element up to here": `$nor` of the same kind up to the value, and of all kinds before it.

use bson::{Bson, Document, doc};

use super::compare::number;
use super::error::{QueryError, code};
use super::filter::{Filter, Limits};
use super::number::Number;
use super::parse_context::Location;
use super::path::Path;
use super::sort::{Sort, SortKey};

/// The kinds of values in their order.
const KINDS: [Kind; 17] = [
    Kind::Type("minKey"),
    Kind::EmptyArray,
    Kind::Null,
    Kind::Number,
    Kind::Text,
    Kind::Type("object"),
    Kind::Array,
    Kind::Type("binData"),
    Kind::Type("objectId"),
    Kind::Type("bool"),
    Kind::Type("date"),
    Kind::Type("timestamp"),
    // No comparison takes these, but documents may have them before a position.
    Kind::Type("regex"),
    Kind::Type("dbPointer"),
    Kind::Type("javascript"),
    Kind::Type("javascriptWithScope"),
    Kind::Type("maxKey"),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Type(&'static str),
    /// It is ordered as `undefined`.
    EmptyArray,
    /// Null, or nothing.
    Null,
    /// Numbers of all widths.
    Number,
    /// Strings and symbols.
    Text,
    /// An array in an array; the outer one is ordered by its elements.
    Array,
}

impl Kind {
    fn of(value: &Bson) -> Option<Self> {
        Some(match value {
            Bson::MinKey => Self::Type("minKey"),
            Bson::Undefined => Self::EmptyArray,
            Bson::Null => Self::Null,
            Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => Self::Number,
            Bson::String(_) | Bson::Symbol(_) => Self::Text,
            Bson::Document(_) => Self::Type("object"),
            Bson::Binary(_) => Self::Type("binData"),
            Bson::ObjectId(_) => Self::Type("objectId"),
            Bson::Boolean(_) => Self::Type("bool"),
            Bson::DateTime(_) => Self::Type("date"),
            Bson::Timestamp(_) => Self::Type("timestamp"),
            Bson::MaxKey => Self::Type("maxKey"),
            _ => return None,
        })
    }

    /// Adds what says that some value is of this kind: a type, or a condition.
    fn say(self, path: &Path, types: &mut Vec<&'static str>, conditions: &mut Vec<Document>) {
        match self {
            Self::Type(name) => types.push(name),
            Self::EmptyArray => {
                types.push("undefined");
                conditions.push(path.condition(doc! { "$size": 0 }));
            }
            Self::Null => {
                types.push("null");
                conditions.extend(nothing(path));
            }
            Self::Number => types.push("number"),
            Self::Text => types.extend(["string", "symbol"]),
            Self::Array => conditions.push(path.condition(doc! { "$elemMatch": { "$type": "array" } })),
        }
    }
}

/// Conditions on a path, each of which makes a missing value one of its values.
fn nothing(path: &Path) -> Vec<Document> {
    let mut conditions = vec![path.condition(doc! { "$exists": false })];
    for (array, rest) in path.on_the_way() {
        if !rest.starts_with(|digit: char| digit.is_ascii_digit()) {
            // An element without the member, next to elements that have it; and one in which there are no members.
            conditions.push(array.condition(doc! { "$elemMatch": { rest: { "$exists": false } } }));
            conditions.push(array.condition(doc! { "$elemMatch": { "$not": { "$type": "object" } } }));
        }
    }
    conditions
}

impl Sort {
    /// The condition that a document comes after the position `key`. `unique` is the path that ends the order: no two
    /// documents have the same value there, and it is a number or a text.
    ///
    /// # Errors
    /// A value that no condition can compare: an array in an array, a regular expression, code.
    pub fn seek(&self, key: &[Bson], unique: &str) -> Result<Filter, QueryError> {
        let mut branches = Vec::new();
        let mut equal: Vec<Document> = Vec::new();
        for (SortKey { path, descending }, value) in self.keys().iter().zip(key) {
            let (after, here) = if path.as_str() == unique {
                let operator = if *descending { "$lt" } else { "$gt" };
                (doc! { unique: { operator: value.clone() } }, None)
            } else {
                let up_to = |inclusive| up_to(path, value, *descending, inclusive);
                let (before, with) = (up_to(false)?, up_to(true)?);
                (doc! { "$nor": [with.clone()] }, Some(doc! { "$and": [{ "$nor": [before] }, with] }))
            };
            let mut branch = equal.clone();
            branch.push(after);
            branches.push(if branch.len() == 1 {
                branch.remove(0)
            } else {
                doc! { "$and": branch }
            });
            match here {
                Some(here) => equal.push(here),
                None => break,
            }
        }
        let condition = if branches.len() == 1 {
            branches.remove(0)
        } else {
            doc! { "$or": branches }
        };
        Filter::parse(&condition, &Limits::NONE)
    }
}

/// The condition that some value at the path comes before `value`, or is equal to it if that is included.
fn up_to(path: &Path, value: &Bson, descending: bool, inclusive: bool) -> Result<Document, QueryError> {
    let place = Kind::of(value).and_then(|kind| KINDS.iter().position(|known| *known == kind));
    let Some(place) = place else {
        let text = path.as_str();
        let message = format!("a list cannot go on behind a value of this kind at {text}; use page, or another sort");
        return Err(Location::new("after").malformed(code::BAD_VALUE, message));
    };
    let kinds = if descending { &KINDS[place + 1..] } else { &KINDS[..place] };
    let (mut types, mut parts) = (Vec::new(), Vec::new());
    for kind in kinds {
        kind.say(path, &mut types, &mut parts);
    }
    // As a double or as a decimal, which are equal.
    let is_nan = number(value.into()).is_some_and(Number::is_nan);
    match KINDS[place] {
        // These kinds have one value.
        kind @ (Kind::EmptyArray | Kind::Null | Kind::Type("minKey" | "maxKey")) => {
            if inclusive {
                kind.say(path, &mut types, &mut parts);
            }
        }
        // Not a number comes before all numbers, and is compared with none of them.
        Kind::Number if is_nan && descending => {
            parts.push(path.condition(doc! { "$gte": f64::NEG_INFINITY }));
            parts.extend(inclusive.then(|| path.condition(f64::NAN)));
        }
        Kind::Number if is_nan => parts.extend(inclusive.then(|| path.condition(f64::NAN))),
        kind => {
            let operator = match (descending, inclusive) {
                (false, true) => "$lte",
                (false, false) => "$lt",
                (true, true) => "$gte",
                (true, false) => "$gt",
            };
            parts.push(path.condition(doc! { operator: value.clone() }));
            if kind == Kind::Number && !descending {
                parts.push(path.condition(f64::NAN));
            }
        }
    }
    if !types.is_empty() {
        parts.push(path.condition(doc! { "$type": types }));
    }
    Ok(match parts.len() {
        0 => doc! { "$nor": [{}] },
        1 => parts.remove(0),
        _ => doc! { "$or": parts },
    })
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use bson::raw::RawDocumentBuf;
    use bson::spec::BinarySubtype;
    use bson::{Binary, DateTime, Timestamp, oid::ObjectId};

    use super::*;

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().expect("a decimal"))
    }

    /// Values of many kinds, alone and in arrays.
    fn documents() -> Vec<Document> {
        let values: Vec<Bson> = vec![
            Bson::Null,
            1.into(),
            2_i64.into(),
            2.5.into(),
            f64::NAN.into(),
            decimal("NaN"),
            decimal("-NaN"),
            decimal("2.50"),
            decimal("-Infinity"),
            f64::NEG_INFINITY.into(),
            f64::INFINITY.into(),
            decimal("Infinity"),
            "".into(),
            "a".into(),
            "b".into(),
            true.into(),
            false.into(),
            DateTime::from_millis(5).into(),
            ObjectId::from_bytes([7; 12]).into(),
            doc! { "x": 1 }.into(),
            doc! {}.into(),
            Bson::MinKey,
            Bson::MaxKey,
            Bson::Undefined,
            Bson::Symbol("a".to_owned()),
            Bson::Timestamp(Timestamp { time: 1, increment: 2 }),
            Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2] }.into(),
            doc! { "x": decimal("NaN") }.into(),
            doc! { "x": f64::NAN, "y": 1 }.into(),
            Bson::Array(vec![]),
            vec![decimal("NaN"), 3.into()].into(),
            vec![Bson::Undefined, "a".into()].into(),
            vec![Bson::from(1), "b".into()].into(),
            vec![Bson::from("a"), Bson::Null].into(),
            vec![Bson::from(true), 2.into(), doc! { "y": 1 }.into()].into(),
        ];
        let mut documents = vec![doc! {}];
        documents.extend(values.iter().map(|value| doc! { "a": value.clone() }));
        // A path through arrays: an element may be no document, or have no such member.
        let elements = |value: &Bson| {
            let member = Bson::from(doc! { "b": value.clone() });
            [vec![member.clone()], vec![member.clone(), doc! { "c": 1 }.into()], vec![member, 5.into()]]
        };
        let inner: Vec<Bson> =
            values.iter().filter(|value| value.as_array().is_none()).flat_map(elements).map(Bson::Array).collect();
        documents.extend(inner.into_iter().map(|value| doc! { "p": value }));
        documents.extend([
            doc! { "p": { "b": [] } },
            doc! { "p": [] },
            doc! { "p": [[]] },
            doc! { "p": { "b": decimal("NaN") } },
        ]);
        let with_id = |(id, mut document): (i64, Document)| {
            document.insert("public_id", id);
            document.insert("q", doc! { "p": document.get("p").cloned() });
            document.insert("b", id % 2);
            document.insert("fields", vec![doc! { "name": "f", "value": document.get("a").cloned() }]);
            document
        };
        (1..).zip(documents).map(with_id).collect()
    }

    #[test]
    fn after_a_position_is_what_the_order_puts_there() {
        let documents: Vec<RawDocumentBuf> =
            documents().iter().map(|document| RawDocumentBuf::try_from(document).expect("a document")).collect();
        let order = |path: &str| [false, true].map(|down| Sort::by(path, down).then("public_id", false));
        let orders = ["a", "p", "p.b", "q.p.b"].into_iter().flat_map(order);
        let entry = |down| Sort::default().then_by(Path::of_field("f", None), down);
        let entries = [false, true].into_iter().flat_map(|down| {
            [
                entry(down).then("public_id", true),
                entry(down).then("public_id", false),
                entry(down).then("b", true).then("public_id", false),
            ]
        });
        let both = Sort::by("b", true).then("a", false).then("public_id", false);
        for sort in orders.chain(entries).chain([both, Sort::by("public_id", true)]) {
            for position in &documents {
                let key = sort.key_of(position).expect("a key");
                let key_values = key.to_bson();
                let is_nested = key_values.iter().any(|value| value.as_array().is_some());
                let filter = match sort.seek(&key_values, "public_id") {
                    Ok(filter) => filter,
                    Err(_) if is_nested => continue,
                    Err(error) => panic!("{error:?}"),
                };
                for document in &documents {
                    let is_after = sort.compare(&sort.key_of(document).expect("a key"), &key) == Ordering::Greater;
                    let matches = filter.matches(document).expect("a verdict");
                    assert_eq!(matches, is_after, "{sort:?}: {document:?} after {position:?}");
                }
            }
        }
    }

    /// Values in the order of their kinds that no position can have, but a document before one.
    fn incomparable() -> Vec<Bson> {
        let pointer =
            serde_json::json!({ "$dbPointer": { "$ref": "a.b", "$id": { "$oid": "070707070707070707070707" } } });
        let code = || "f()".to_owned();
        vec![
            Bson::Array(vec![1.into()]),
            Bson::RegularExpression(bson::Regex {
                pattern: "^a".try_into().expect("a pattern"),
                options: "i".try_into().expect("options"),
            }),
            Bson::try_from(pointer).expect("a pointer"),
            Bson::JavaScriptCode(code()),
            Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code: code(), scope: doc! { "x": 1 } }),
        ]
    }

    #[test]
    fn what_no_condition_compares_is_on_its_side_of_each_position() {
        let others = incomparable().into_iter().map(|value| doc! { "a": [value], "public_id": 0 });
        let others: Vec<RawDocumentBuf> =
            others.map(|document| RawDocumentBuf::try_from(&document).expect("a document")).collect();
        for down in [false, true] {
            let sort = Sort::by("a", down).then("public_id", false);
            for position in documents() {
                let position = RawDocumentBuf::try_from(&position).expect("a document");
                let key = sort.key_of(&position).expect("a key");
                let filter = sort.seek(&key.to_bson(), "public_id").expect("a condition");
                for document in &others {
                    let is_after = sort.compare(&sort.key_of(document).expect("a key"), &key) == Ordering::Greater;
                    assert_eq!(
                        filter.matches(document).expect("a verdict"),
                        is_after,
                        "{sort:?}: {document:?} after {position:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_value_that_no_condition_compares_is_refused() {
        for value in incomparable() {
            let key = [value.clone(), 1.into()];
            assert!(Sort::by("a", false).then("public_id", false).seek(&key, "public_id").is_err(), "{value}");
        }
    }
}
