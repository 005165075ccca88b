//! Queries for one key of a unique index, or a few: most reads.
//!
//! All look-ups of references of a page are of this kind. The filter has no other condition, so nothing needs planning.

use bson::Bson;
use bson::raw::RawBsonRef;

use crate::query::{Node, Operand, Test};
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::index::key;
use crate::store::embedded::plan::planner::FEW;

/// A key of a unique index.
pub(crate) struct Point {
    /// The position of the index.
    pub(crate) index: usize,
    pub(crate) key: Vec<u8>,
}

impl Point {
    /// The key of the filter, if a document matches exactly when it has this key.
    pub(crate) fn of(collection: &Collection, filter: &Node) -> Option<Self> {
        let Node::Path(path, Test::Eq(operand)) = filter else { return None };
        // The operand first, because it excludes most filters.
        let value = plain(operand)?;
        let index = unique_index(collection, path.as_str())?;
        Some(Self { index, key: key_of(collection, index, value)? })
    }
}

/// A few keys of a unique index.
pub(crate) struct Points {
    /// The position of the index.
    pub(crate) index: usize,
    pub(crate) keys: Vec<Vec<u8>>,
}

impl Points {
    /// The keys of the filter, if documents match exactly when they have one of these keys.
    pub(crate) fn of(collection: &Collection, filter: &Node) -> Option<Self> {
        let Node::Path(path, Test::In(set)) = filter else { return None };
        if !set.regexes().is_empty() || set.values().len() as u64 > FEW {
            return None;
        }
        let index = unique_index(collection, path.as_str())?;
        let mut keys = Vec::with_capacity(set.values().len());
        for operand in set.values() {
            keys.push(key_of(collection, index, plain(operand)?)?);
        }
        Some(Self { index, keys })
    }
}

/// A value that matches neither an array nor a missing member.
fn plain(operand: &Operand) -> Option<RawBsonRef<'_>> {
    Some(match operand.bson() {
        Bson::Int32(number) => RawBsonRef::Int32(*number),
        Bson::Int64(number) => RawBsonRef::Int64(*number),
        Bson::String(text) => RawBsonRef::String(text),
        Bson::ObjectId(id) => RawBsonRef::ObjectId(*id),
        _ => return None,
    })
}

/// The position of the unique index on this member, without arrays.
fn unique_index(collection: &Collection, path: &str) -> Option<usize> {
    collection.indexes.iter().position(|index| {
        let [component] = index.components.as_slice() else { return false };
        index.unique
            && index.partial.is_none()
            && component.path == path
            && !component.path.contains('.')
            && !component.is_multikey()
    })
}

fn key_of(collection: &Collection, index: usize, value: RawBsonRef<'_>) -> Option<Vec<u8>> {
    let mut key = key::of_value(value).ok()?;
    if collection.indexes[index].components[0].descending {
        key::invert(&mut key);
    }
    (key.len() <= key::MAX_KEY).then_some(key)
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::query::{Filter, Limits};
    use crate::store::embedded::catalog::collections::Index;

    fn collection() -> Collection {
        let unique = |name: &str, paths: &[&str]| {
            let mut index = Index::over(name, paths);
            index.unique = true;
            index
        };
        let mut listed = unique("listed", &["listed"]);
        listed.components[0].arrays = 1;
        Collection::with_indexes(vec![
            unique("public_id", &["public_id"]),
            unique("pair", &["user", "name"]),
            Index::over("size", &["size"]),
            unique("deep", &["a.0"]),
            listed,
        ])
    }

    fn leads_to(filter: Document) -> Option<usize> {
        let filter = Filter::parse(&filter, &Limits::default()).expect("filters of tests are right");
        Point::of(&collection(), filter.tree()).map(|point| point.index)
    }

    #[test]
    fn one_value_of_a_unique_index_is_a_point() {
        assert_eq!(leads_to(doc! { "public_id": 7 }), Some(1));
        assert_eq!(leads_to(doc! { "public_id": { "$eq": 7_i64 } }), Some(1));
        assert_eq!(leads_to(doc! { "public_id": { "$in": ["x"] } }), Some(1));
        assert_eq!(leads_to(doc! { "_id": bson::oid::ObjectId::from_bytes([7; 12]) }), Some(0));
    }

    #[test]
    fn equal_numbers_of_all_whole_types_lead_to_one_key() {
        let of = |value: Bson| {
            let filter = Filter::equals("public_id", value);
            Point::of(&collection(), filter.tree()).expect("a point").key
        };
        assert_eq!(of(Bson::Int32(7)), of(Bson::Int64(7)));
    }

    #[test]
    fn a_few_values_of_a_unique_index_are_points() {
        let keys = |filter: Document| {
            let filter = Filter::parse(&filter, &Limits::default()).expect("filters of tests are right");
            Points::of(&collection(), filter.tree()).map(|points| (points.index, points.keys.len()))
        };
        assert_eq!(keys(doc! { "public_id": { "$in": [7, 8_i64, 7, "x"] } }), Some((1, 3)));
        for other in [
            doc! { "public_id": { "$in": [7, Bson::Null] } },
            doc! { "public_id": { "$in": [7, [8]] } },
            doc! { "public_id": { "$in": [7, 8.5] } },
            doc! { "public_id": { "$in": [7, 8] }, "size": 1 },
            doc! { "public_id": { "$in": (0..200).collect::<Vec<i32>>() } },
            doc! { "size": { "$in": [1, 2] } },
            doc! { "public_id": { "$nin": [1, 2] } },
        ] {
            assert_eq!(keys(other.clone()), None, "{other}");
        }
    }

    #[test]
    fn everything_else_is_planned() {
        for filter in [
            doc! {},
            doc! { "public_id": 7, "size": 1 },
            doc! { "public_id": { "$gte": 7 } },
            doc! { "public_id": Bson::Null },
            doc! { "public_id": [7] },
            doc! { "public_id": { "$in": [7, 8] } },
            doc! { "user": 1 },
            doc! { "size": 1 },
            doc! { "a.0": 1 },
            doc! { "listed": 1 },
            doc! { "public_id": "x".repeat(2000) },
        ] {
            assert_eq!(leads_to(filter.clone()), None, "{filter}");
        }
    }
}
