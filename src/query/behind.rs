//! The condition that a document comes behind a position in an order: for pages that go on where the last one ended.
//!
//! A position is the sort key of a document. Comparison operators of filters look at values of one kind only, and at any
//! element of an array. An order looks at all kinds, and at the lowest element of an array (descending: the highest). So
//! "behind" is said as "no element up to here": `$nor` of the same kind up to the value, and of all kinds before it.

use bson::{Bson, Document, doc};

use super::error::{Location, QueryError, code};
use super::fields::first_entry;
use super::filter::{Filter, Limits};
use super::sort::{Sort, SortKey};

/// The kinds of values in their order, each as a condition on a path: some value is of this kind.
const KINDS: [Kind; 13] = [
    Kind::Type("minKey"),
    Kind::EmptyArray,
    Kind::Null,
    Kind::Number,
    Kind::Type("string"),
    Kind::Type("object"),
    Kind::Array,
    Kind::Type("binData"),
    Kind::Type("objectId"),
    Kind::Type("bool"),
    Kind::Type("date"),
    Kind::Type("timestamp"),
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
            Bson::String(_) => Self::Type("string"),
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

    fn condition(self, path: &str) -> Document {
        match self {
            Self::Type(name) => doc! { path: { "$type": name } },
            Self::EmptyArray => doc! { "$or": [{ path: { "$type": "undefined" } }, { path: { "$size": 0 } }] },
            Self::Null => doc! { "$or": [{ path: { "$type": "null" } }, { path: { "$exists": false } }] },
            Self::Number => doc! { path: { "$type": "number" } },
            Self::Array => doc! { path: { "$elemMatch": { "$type": "array" } } },
        }
    }
}

impl Sort {
    /// The condition that a document comes behind the position `key`. `unique` is the path that ends the order: no two
    /// documents have the same value there, and it is a number or a text.
    ///
    /// # Errors
    /// A value that no condition can compare: an array in an array, a regular expression, code.
    pub fn behind(&self, key: &[Bson], unique: &str) -> Result<Filter, QueryError> {
        let mut branches = Vec::new();
        let mut equal: Vec<Document> = Vec::new();
        for (part, value) in self.keys().iter().zip(key) {
            let (behind, here) = match part {
                SortKey::Path { path, descending } if path.as_str() == unique => {
                    let operator = if *descending { "$lt" } else { "$gt" };
                    (doc! { unique: { operator: value.clone() } }, None)
                }
                SortKey::Path { path, descending } => {
                    let up_to = |inclusive| up_to(path.as_str(), value, *descending, inclusive);
                    let (before, with) = (up_to(false)?, up_to(true)?);
                    (doc! { "$nor": [with.clone()] }, Some(doc! { "$and": [{ "$nor": [before] }, with] }))
                }
                SortKey::Entry { array, name, descending } => {
                    let entry = doc! { "$let": { "vars": { "entry": first_entry(array.as_str(), name) }, "in": "$$entry.value" } };
                    let compared = |operator: &str| {
                        doc! { "$expr": { operator: [{ "$ifNull": [entry.clone(), Bson::Null] }, { "$literal": value.clone() }] } }
                    };
                    (compared(if *descending { "$lt" } else { "$gt" }), Some(compared("$eq")))
                }
            };
            let mut branch = equal.clone();
            branch.push(behind);
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
fn up_to(path: &str, value: &Bson, descending: bool, inclusive: bool) -> Result<Document, QueryError> {
    let place = Kind::of(value).and_then(|kind| KINDS.iter().position(|known| *known == kind));
    let Some(place) = place else {
        let message = format!("a list cannot go on behind a value of this kind at {path}; use page, or another sort");
        return Err(Location::new("after").malformed(code::BAD_VALUE, message));
    };
    let kinds = if descending { &KINDS[place + 1..] } else { &KINDS[..place] };
    let mut parts: Vec<Document> = kinds.iter().map(|kind| kind.condition(path)).collect();
    let is_nan = |value: &Bson| value.as_f64().is_some_and(f64::is_nan);
    match KINDS[place] {
        // These kinds have one value.
        kind @ (Kind::EmptyArray | Kind::Null | Kind::Type("minKey" | "maxKey")) => {
            parts.extend(inclusive.then(|| kind.condition(path)));
        }
        // Not a number comes before all numbers, and is compared with none of them.
        Kind::Number if is_nan(value) && descending => {
            parts.push(doc! { path: { "$gte": f64::NEG_INFINITY } });
            parts.extend(inclusive.then(|| doc! { path: f64::NAN }));
        }
        Kind::Number if is_nan(value) => parts.extend(inclusive.then(|| doc! { path: f64::NAN })),
        kind => {
            let operator = match (descending, inclusive) {
                (false, true) => "$lte",
                (false, false) => "$lt",
                (true, true) => "$gte",
                (true, false) => "$gt",
            };
            parts.push(doc! { path: { operator: value.clone() } });
            if kind == Kind::Number && !descending {
                parts.push(doc! { path: f64::NAN });
            }
        }
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
    use bson::{DateTime, oid::ObjectId};

    use super::*;

    /// Values of many kinds, alone and in arrays.
    fn documents() -> Vec<Document> {
        let values: Vec<Bson> = vec![
            Bson::Null,
            1.into(),
            2_i64.into(),
            2.5.into(),
            f64::NAN.into(),
            f64::NEG_INFINITY.into(),
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
            Bson::Array(vec![]),
            vec![Bson::from(1), "b".into()].into(),
            vec![Bson::from("a"), Bson::Null].into(),
            vec![Bson::from(true), 2.into(), doc! { "y": 1 }.into()].into(),
        ];
        let mut documents = vec![doc! {}];
        documents.extend(values.into_iter().map(|value| doc! { "a": value }));
        let with_id = |(id, mut document): (i64, Document)| {
            document.insert("public_id", id);
            document.insert("b", id % 2);
            document.insert("fields", vec![doc! { "name": "f", "value": document.get("a").cloned() }]);
            document
        };
        (1..).zip(documents).map(with_id).collect()
    }

    #[test]
    fn behind_a_position_is_what_the_order_puts_there() {
        let documents: Vec<RawDocumentBuf> =
            documents().iter().map(|document| RawDocumentBuf::try_from(document).expect("a document")).collect();
        let orders = [false, true].map(|down| Sort::by("a", down).then("public_id", false));
        let entries = [false, true].map(|down| Sort::by_entry("fields", "f", down).then("public_id", true));
        let both = Sort::by("b", true).then("a", false).then("public_id", false);
        for sort in orders.into_iter().chain(entries).chain([both, Sort::by("public_id", true)]) {
            for position in &documents {
                let key = sort.key_of(position).expect("a key");
                let filter = sort.behind(&key.to_bson(), "public_id").expect("a condition");
                for document in &documents {
                    let is_behind = sort.compare(&sort.key_of(document).expect("a key"), &key) == Ordering::Greater;
                    let matches = filter.matches(document).expect("a verdict");
                    assert_eq!(matches, is_behind, "{sort:?}: {document:?} behind {position:?}");
                }
            }
        }
    }

    #[test]
    fn a_value_that_no_condition_compares_is_refused() {
        let nested = Bson::Array(vec![1.into()]);
        assert!(Sort::by("a", false).then("public_id", false).behind(&[nested, 1.into()], "public_id").is_err());
    }
}
