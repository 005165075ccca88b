//! Reads documents by keys of a unique index: a key leads to its row, and the row to the document.

use std::sync::Arc;

use bson::raw::RawDocument;
use redb::ReadableTable;

use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::failure;
use crate::store::embedded::index::table::TableAccess;
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::plan::point::{Point, Points};
use crate::store::embedded::read::execute::{CollectionReader, Deadline};
use crate::store::embedded::read::find::{Answer, push};
use crate::store::{Documents, FindQuery, StoreError};

impl Point {
    /// The row of the document that has the key.
    pub(crate) fn row<A: TableAccess>(&self, tables: &Tables<A>) -> Result<Option<u64>, StoreError> {
        tables.indexes[self.index].row_of(&self.key).map_err(failure::of_storage)
    }

    /// Answers the query that this point was made from.
    pub(crate) fn ask<A: TableAccess>(
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

impl Points {
    /// Answers the query that these points were made from and that has no sort, in insertion order.
    pub(crate) fn ask<A: TableAccess>(
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
        let mut reader = CollectionReader::new(collection, tables, deadline);
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
    fn rows<A: TableAccess>(&self, tables: &Tables<A>) -> Result<Arc<[u64]>, StoreError> {
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
