//! Reads a snapshot for pipelines. The first stages of one are planned as a query, and answered from indexes.

use crate::query::{Filter, Sort};
use crate::store::embedded::plan::planner::Wanted;
use crate::store::embedded::read::execute::{CollectionReader, Deadline};
use crate::store::embedded::read::find::Question;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::evaluate::{Reads, Visit};
use crate::store::{FindQuery, StoreError};

/// The collections of a snapshot.
pub(crate) struct Reading<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) deadline: Deadline,
}

impl Reads for Reading<'_> {
    fn read(&self, name: &str, query: &FindQuery, visit: Visit<'_>) -> Result<(), StoreError> {
        let Some(collection) = self.snapshot.collection(name) else { return Ok(()) };
        let tables = self.snapshot.tables(collection)?;
        let question = Question::new(collection, tables, query, false, self.deadline.clone())?;
        question.each(&mut CollectionReader::new(collection, tables, self.deadline.clone()), visit)
    }

    fn count(&self, name: &str, filter: &Filter) -> Result<u64, StoreError> {
        let Some(collection) = self.snapshot.collection(name) else { return Ok(0) };
        let mut reader = CollectionReader::new(collection, self.snapshot.tables(collection)?, self.deadline.clone());
        let wanted = Wanted { first: Some(0), total: true };
        let choice = reader.plan(filter.tree(), &Sort::default(), wanted)?;
        reader.count(&choice, filter)
    }
}
