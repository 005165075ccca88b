//! The shortest way: a filter that asks for one value of a unique index, and nothing else.
//!
//! Most reads are of this kind. The value leads to the row and the row to the document; nothing is planned, and
//! the filter has nothing left to say.

use bson::Bson;
use bson::raw::{RawBsonRef, RawDocument};
use redb::ReadableTable;

use crate::query::{Node, Test};
use crate::store::{Documents, FindQuery, StoreError};

use super::catalog::Collection;
use super::execute::Deadline;
use super::failure;
use super::find::Answer;
use super::key;
use super::tables::{Access, Tables};

/// A key of a unique index.
pub(super) struct Point {
    /// The position of the index.
    index: usize,
    key: Vec<u8>,
}

impl Point {
    /// What the filter asks for, if that is one key that a document has exactly when it matches.
    pub(super) fn of(collection: &Collection, filter: &Node) -> Option<Self> {
        let Node::Path(path, Test::Eq(operand)) = filter else { return None };
        // Behind other values an array may hide, or a missing member.
        let value = match operand.bson() {
            Bson::Int32(number) => RawBsonRef::Int32(*number),
            Bson::Int64(number) => RawBsonRef::Int64(*number),
            Bson::String(text) => RawBsonRef::String(text),
            Bson::ObjectId(id) => RawBsonRef::ObjectId(*id),
            _ => return None,
        };
        let index = collection.indexes.iter().position(|index| {
            let [component] = index.components.as_slice() else { return false };
            index.unique
                && index.partial.is_none()
                && component.path == path.as_str()
                && !component.path.contains('.')
                && !component.is_multikey()
        })?;
        let mut key = key::of_value(value).ok()?;
        if collection.indexes[index].components[0].descending {
            key::invert(&mut key);
        }
        (key.len() <= key::MAX_KEY).then_some(Self { index, key })
    }

    /// The row of the document that has the key.
    pub(super) fn row<A: Access>(&self, tables: &Tables<A>) -> Result<Option<u64>, StoreError> {
        tables.indexes[self.index].row_of(&self.key).map_err(failure::of_storage)
    }

    /// Answers the query, whose filter this point was made of.
    pub(super) fn ask<A: Access>(
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
            tables.data.get(row).map_err(failure::of_storage)?.ok_or_else(|| failure::lost(collection, row))?;
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

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::super::catalog::Index;
    use super::*;
    use crate::query::{Filter, Limits};

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
