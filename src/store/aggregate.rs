//! A pipeline on a collection, with what it may see.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bson::Document;
use futures::TryStreamExt;

use super::{Chunks, Documents, StoreError};
use crate::query::{Filter, Pipeline, Table};

/// A pipeline to run on a collection.
#[derive(Debug, Clone)]
pub struct AggregateQuery {
    /// What is done with the documents. Parsed, so it is valid.
    pub pipeline: Pipeline,
    /// Which documents of the collection may be seen. No part of the pipeline is evaluated on others.
    pub guard: Filter,
    /// Which other collections the pipeline may read.
    pub reach: Reach,
    /// The time budget.
    pub max_time: Duration,
    /// How many bytes of results may be held in memory at a time, if they cannot be given one by one.
    pub max_bytes: usize,
}

impl AggregateQuery {
    /// A pipeline on a whole collection, and on no other.
    pub fn new(pipeline: Pipeline, max_time: Duration) -> Self {
        Self { pipeline, guard: Filter::all(), reach: Reach::default(), max_time, max_bytes: usize::MAX }
    }

    /// The stages up to a `$group` that a server may be asked for, and how many these are: none where something is hidden.
    pub(super) fn grouped_front(&self) -> Option<(&[Document], usize)> {
        self.pipeline.grouped_front().filter(|_| self.guard.document().is_empty())
    }

    /// Refuses a pipeline that reads a collection beyond its reach.
    ///
    /// # Errors
    /// [`StoreError::Query`] with the name of the collection.
    pub fn check_reach(&self) -> Result<(), StoreError> {
        self.pipeline.collections().into_iter().try_for_each(|name| self.reach.guard_of(name).map(drop))
    }
}

/// The collections that `$lookup` and `$unionWith` may read, each with a filter for the documents that may be seen.
#[derive(Debug, Clone, Default)]
pub struct Reach(BTreeMap<String, (Filter, Option<Arc<Table>>)>);

/// MongoDB's number for a collection that the user may not read: `Unauthorized`.
const UNAUTHORIZED: i32 = 13;

impl Reach {
    /// The same reach with one more collection.
    #[must_use]
    pub fn with(mut self, collection: &str, guard: Filter) -> Self {
        self.0.insert(collection.to_owned(), (guard, None));
        self
    }

    /// The same reach with a table. Its name is that of no collection.
    #[must_use]
    pub fn with_table(mut self, name: &str, table: Arc<Table>) -> Self {
        self.0.insert(name.to_owned(), (Filter::all(), Some(table)));
        self
    }

    /// The table of this name.
    pub(super) fn table(&self, name: &str) -> Option<&Table> {
        self.0.get(name).and_then(|(_, table)| table.as_deref())
    }

    /// The names of the collections.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Which documents of a collection may be seen.
    ///
    /// # Errors
    /// [`StoreError::Query`] when none may.
    pub fn guard_of(&self, collection: &str) -> Result<&Filter, StoreError> {
        self.0.get(collection).map(|(guard, _)| guard).ok_or_else(|| {
            let message = match self.names().collect::<Vec<_>>().as_slice() {
                [] => format!("{collection} cannot be read here"),
                known => format!("{collection} cannot be read here; you can read {}", known.join(", ")),
            };
            StoreError::Query { code: UNAUTHORIZED, message }
        })
    }
}

/// All documents of the chunks together; [`StoreError::TooLarge`] when they have more bytes than the bound.
///
/// # Errors
/// As the chunks.
pub async fn gathered(mut chunks: Chunks, max_bytes: usize) -> Result<Documents, StoreError> {
    let mut all = Documents::new();
    while let Some(chunk) = chunks.try_next().await? {
        if all.bytes() + chunk.bytes() > max_bytes {
            return Err(StoreError::TooLarge);
        }
        chunk.iter().for_each(|document| all.push(document));
    }
    Ok(all)
}
