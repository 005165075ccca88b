//! The shortest way: a filter that asks for one value of a unique index, or for a few, and nothing else.
//!
//! Most reads are of this kind, and all look-ups of what a page refers to. A value leads to its row and the row to the
//! document; nothing is planned, and the filter has nothing left to say.

use std::sync::Arc;

use bson::Bson;
use bson::raw::{RawBsonRef, RawDocument};
use redb::ReadableTable;

use crate::query::{Node, Operand, Test};
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::failure;
use crate::store::embedded::index::key;
use crate::store::embedded::index::table::Access;
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::read::execute::{Deadline, Reader};
use crate::store::embedded::read::find::{Answer, push};
use crate::store::{Documents, FindQuery, StoreError};

/// A key of a unique index.
pub(crate) struct Point {
    /// The position of the index.
    index: usize,
    key: Vec<u8>,
}

impl Point {
    /// What the filter asks for, if that is one key that a document has exactly when it matches.
    pub(crate) fn of(collection: &Collection, filter: &Node) -> Option<Self> {
        let Node::Path(path, Test::Eq(operand)) = filter else { return None };
        // The operand first: most of those that are no keys can be told by it.
        let value = plain(operand)?;
        let index = unique_index(collection, path.as_str())?;
        Some(Self { index, key: key_of(collection, index, value)? })
    }

    /// The row of the document that has the key.
    pub(crate) fn row<A: Access>(&self, tables: &Tables<A>) -> Result<Option<u64>, StoreError> {
        tables.indexes[self.index].row_of(&self.key).map_err(failure::of_storage)
    }

    /// Answers the query, whose filter this point was made of.
    pub(crate) fn ask<A: Access>(
        &self,
        collection: &Collection,
        tables: &Tables<A>,
        query: &FindQuery,
        with_total: bool,
    ) -> Result<Answer, StoreError> {
        let Some(row) = self.row(tables)? else { return Ok(Answer::none(with_total)) };
        let mut answer = Answer { total: with_total.then_some(1), ..Answer::default() };
        answer.work.keys = 1;
        if query.skip > 0 {
            return Ok(answer);
        }
        let stored =
            tables.data.get(row).map_err(failure::of_storage)?.ok_or_else(|| failure::lost(&collection.name, row))?;
        let document = RawDocument::from_bytes(stored.value()).map_err(|_| failure::damaged(&collection.name, row))?;
        answer.work.documents = 1;
        match &query.projection {
            None => answer.documents = Documents::of_one(document),
            Some(projection) => {
                let budget = Deadline::after(query.max_time).budget();
                let shown = projection.apply_within(document, &query.filter, &budget);
                answer.documents = Documents::of_one(&shown.map_err(failure::of_evaluation)?);
            }
        }
        Ok(answer)
    }
}

/// More keys than this are looked up by a plan, on a thread of their own.
const FEW: usize = 128;

/// A few keys of a unique index.
pub(crate) struct Points {
    /// The position of the index.
    index: usize,
    keys: Vec<Vec<u8>>,
}

impl Points {
    /// What the filter asks for, if those are keys that documents have exactly when they match.
    pub(crate) fn of(collection: &Collection, filter: &Node) -> Option<Self> {
        let Node::Path(path, Test::In(set)) = filter else { return None };
        if !set.regexes().is_empty() || set.values().len() > FEW {
            return None;
        }
        let index = unique_index(collection, path.as_str())?;
        let mut keys = Vec::with_capacity(set.values().len());
        for operand in set.values() {
            keys.push(key_of(collection, index, plain(operand)?)?);
        }
        Some(Self { index, keys })
    }

    /// Answers the query, whose filter these were made of and which asks for no order, in insertion order.
    pub(crate) fn ask<A: Access>(
        &self,
        collection: &Collection,
        tables: &Tables<A>,
        query: &FindQuery,
        with_total: bool,
    ) -> Result<Answer, StoreError> {
        let rows = self.rows(tables)?;
        let total = with_total.then_some(rows.len() as u64);
        let first = usize::try_from(query.skip).unwrap_or(usize::MAX).min(rows.len());
        let limit = if query.limit == 0 { usize::MAX } else { usize::try_from(query.limit).unwrap_or(usize::MAX) };
        let page = &rows[first..first.saturating_add(limit).min(rows.len())];
        let deadline = Deadline::after(query.max_time);
        let budget = deadline.budget();
        let mut reader = Reader::new(collection, tables, deadline);
        reader.work.keys = self.keys.len() as u64;
        let mut documents = Documents::new();
        reader.each_of(page, &mut |document| {
            if documents.is_empty() {
                documents.reserve(page.len(), document.as_bytes().len());
            }
            push(query, document, &budget, &mut documents)
        })?;
        Ok(Answer { documents, total, work: reader.work, hint: None })
    }

    /// The rows that have the keys, in insertion order.
    fn rows<A: Access>(&self, tables: &Tables<A>) -> Result<Arc<[u64]>, StoreError> {
        let places = tables.places.as_ref();
        if let Some(rows) = places.and_then(|places| places.rows_of(self.index, &self.keys)) {
            return Ok(rows);
        }
        let mut rows = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            rows.extend(tables.indexes[self.index].row_of(key).map_err(failure::of_storage)?);
        }
        rows.sort_unstable();
        let rows = Arc::from(rows);
        if let Some(places) = places {
            places.note_rows(self.index, &self.keys, &rows);
        }
        Ok(rows)
    }
}

/// A value behind which no array may hide, nor a missing member.
fn plain(operand: &Operand) -> Option<RawBsonRef<'_>> {
    Some(match operand.bson() {
        Bson::Int32(number) => RawBsonRef::Int32(*number),
        Bson::Int64(number) => RawBsonRef::Int64(*number),
        Bson::String(text) => RawBsonRef::String(text),
        Bson::ObjectId(id) => RawBsonRef::ObjectId(*id),
        _ => return None,
    })
}

/// The position of the index that has one key for each document with this member, and no two of them alike.
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
