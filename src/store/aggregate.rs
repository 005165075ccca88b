//! A pipeline on a collection, with what it may see.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::raw::RawDocument;
use futures::TryStreamExt;

use super::chunks::Chunks;
use super::{Documents, FindQuery, StoreError};
use crate::admission::Share;
use crate::query::pipeline::{Flow, Front, Nothing};
use crate::query::{Budget, Filter, Pipeline};

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
pub struct Reach(BTreeMap<String, Filter>);

/// MongoDB's number for a collection that the user may not read: `Unauthorized`.
const UNAUTHORIZED: i32 = 13;

impl Reach {
    /// The same reach with one more collection.
    #[must_use]
    pub fn with(mut self, collection: &str, guard: Filter) -> Self {
        self.0.insert(collection.to_owned(), guard);
        self
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
        self.0.get(collection).ok_or_else(|| {
            let message = match self.names().collect::<Vec<_>>().as_slice() {
                [] => format!("{collection} cannot be read from here"),
                known => format!("{collection} cannot be read from here; what can is {}", known.join(", ")),
            };
            StoreError::Query { code: UNAUTHORIZED, message }
        })
    }
}

/// The query for the front of a pipeline, behind a guard.
pub(crate) fn find_query(front: &Front, guard: &Filter) -> FindQuery {
    let filter = behind(&front.filter, guard);
    let (sort, skip, limit) = (front.sort.clone(), front.skip, front.limit);
    FindQuery { sort, skip, limit, ..FindQuery::new(filter, Duration::MAX) }
}

/// The filter, evaluated only where the guard holds.
pub(crate) fn behind(filter: &Filter, guard: &Filter) -> Filter {
    if guard.document().is_empty() { filter.clone() } else { filter.clone().guarded_by(guard.clone()) }
}

/// All documents of the chunks together; [`StoreError::TooLarge`] for more than so many bytes.
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

/// What the stages behind the first `done` make of some documents. They read no collection.
///
/// # Errors
/// Failures on documents, and those of [`Results::push`].
pub(crate) fn piped<'d>(
    (pipeline, done): (&Pipeline, usize),
    documents: impl Iterator<Item = &'d RawDocument>,
    budget: &Budget,
    mut results: Results,
) -> Result<Documents, StoreError> {
    let mut give = |document: &RawDocument| results.push(document);
    let mut run = pipeline.run(done, budget);
    for document in documents {
        if run.push(document, &Nothing::default(), &mut give)?.is_break() {
            break;
        }
    }
    run.finish(&Nothing::default(), &mut give)?;
    Ok(results.documents)
}

/// Results that are held until all are there.
pub(crate) struct Results {
    documents: Documents,
    max_bytes: usize,
    share: Share,
    covered: usize,
}

impl Results {
    /// None yet; their memory comes from the share.
    pub(crate) fn new(max_bytes: usize, share: Share) -> Self {
        Self { documents: Documents::new(), max_bytes, share, covered: 0 }
    }

    /// One more.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], and [`StoreError::Busy`] when there is no memory.
    pub(crate) fn push(&mut self, document: &RawDocument) -> Result<Flow, StoreError> {
        self.documents.push(document);
        let bytes = self.documents.bytes();
        if bytes > self.max_bytes {
            return Err(StoreError::TooLarge);
        }
        if bytes > self.covered {
            self.covered = self.share.cover(bytes)?;
        }
        Ok(Flow::Continue(()))
    }

    pub(crate) fn into_documents(self) -> Documents {
        self.documents
    }
}
