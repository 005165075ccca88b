//! Runs a pipeline on a snapshot. What stands at its front is planned as a query, and answered from indexes.

use bson::doc;
use bson::raw::{RawDocument, RawDocumentBuf};

use crate::query::pipeline::{Flow, Front, Source};
use crate::query::{Filter, Pipeline};
use crate::store::embedded::plan::planner::Wanted;
use crate::store::embedded::read::execute::{CollectionReader, Deadline};
use crate::store::embedded::read::find::Question;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::{AggregateQuery, Documents, FindQuery, Reach, Results, StoreError, behind, find_query, piped};

/// The collections of a snapshot, as far as the caller may see them.
pub(crate) struct Reading<'a> {
    snapshot: &'a Snapshot,
    reach: &'a Reach,
    deadline: Deadline,
}

impl Source for Reading<'_> {
    type Error = StoreError;

    fn each(
        &self,
        collection: &str,
        front: &Front,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        self.read(collection, &find_query(front, self.reach.guard_of(collection)?), visit)
    }
}

impl<'a> Reading<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, reach: &'a Reach, deadline: Deadline) -> Self {
        Self { snapshot, reach, deadline }
    }

    fn read(
        &self,
        name: &str,
        query: &FindQuery,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(collection) = self.snapshot.collection(name) else { return Ok(()) };
        let tables = self.snapshot.tables(collection)?;
        let question = Question::new(collection, tables, query, false, self.deadline.clone())?;
        question.each(&mut CollectionReader::new(collection, tables, self.deadline.clone()), visit)
    }

    fn count(&self, name: &str, filter: &Filter) -> Result<u64, StoreError> {
        let Some(collection) = self.snapshot.collection(name) else { return Ok(0) };
        let mut reader = CollectionReader::new(collection, self.snapshot.tables(collection)?, self.deadline.clone());
        let wanted = Wanted { first: Some(0), total: true };
        let choice = reader.plan(filter.tree(), &crate::query::Sort::default(), wanted)?;
        reader.count(&choice, filter)
    }
}

/// All results of a pipeline.
pub(crate) fn run(reading: &Reading<'_>, name: &str, query: &AggregateQuery) -> Result<Documents, StoreError> {
    let budget = reading.deadline.budget();
    let pipeline = &query.pipeline;
    let front = pipeline.front();
    let mut results = Results::new(query.max_bytes, reading.deadline.share());
    let mut give = |document: &RawDocument| results.push(document);
    let counted = pipeline.counts(front.stages).filter(|_| front.is_filter());
    if let Some(member) = counted {
        let count = reading.count(name, &behind(&front.filter, &query.guard))?;
        let mut run = pipeline.run(front.stages + 1, &budget);
        if count > 0 {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            let count = i32::try_from(count).map_or(bson::Bson::Int64(count), bson::Bson::Int32);
            let document = RawDocumentBuf::try_from(&doc! { member: count }).map_err(StoreError::backend)?;
            let _ = run.push(&document, reading, &mut give)?;
        }
        run.finish(reading, &mut give)?;
    } else {
        let mut run = pipeline.run(front.stages, &budget);
        let asked = find_query(&front, &query.guard);
        reading.read(name, &asked, &mut |document| run.push(document, reading, &mut give))?;
        run.finish(reading, &mut give)?;
    }
    Ok(results.into_documents())
}

/// What the stages behind the front make of some documents; each gives its own results.
pub(crate) fn apply(
    deadline: &Deadline,
    (pipeline, done): (&Pipeline, usize),
    documents: &Documents,
) -> Result<Documents, StoreError> {
    piped((pipeline, done), documents.iter(), &deadline.budget(), Results::new(usize::MAX, deadline.share()))
}
