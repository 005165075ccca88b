//! Aggregation pipelines: parsed once, run over a stream of documents.
//!
//! Laws, in addition to those of `query`:
//! - A stage that writes, runs code or needs a server is refused when the pipeline is parsed.
//! - Documents of other collections come only from a [`Source`]. It decides which of them the caller may see.
//! - Documents pass the stages one by one. Only stages that need several documents keep some, within a memory bound.

mod accumulator;
mod bucket;
mod columns;
mod fields;
mod front;
mod group;
mod grouping;
mod held;
mod lookup;
mod parse;
mod parser;
mod ranked;
mod redact;
mod run;
mod sorter;
mod stage;
mod state;
mod unwind;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::ops::ControlFlow;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};

use super::budget::{Budget, Effort};
use super::demand::Demand;
use super::error::{EvalError, QueryError};
use super::filter::{Filter, Limits};
use super::projection::encoded;
use super::sort::Sort;

pub use self::accumulator::ACCUMULATORS;
pub use self::columns::{Column, Columns, Source as ColumnSource};
pub use self::front::Front;
use self::group::{count_document, is_plain_group};
pub use self::parse::STAGES;
use self::parser::PipelineParser;
pub use self::run::Run;
use self::stage::Stage;

/// Whether a stage wants more documents.
pub type Flow = ControlFlow<()>;

/// A pipeline: as the client sent it, and compiled.
#[derive(Debug, Clone, Default)]
pub struct Pipeline {
    documents: Vec<Document>,
    stages: Vec<Stage>,
}

/// How a client's pipeline is read.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// What messages call it.
    pub place: &'static str,
    /// The collection that it is about.
    pub collection: &'static str,
    /// What it does not see.
    pub unseen: Unseen,
    /// How large it may be.
    pub limits: Limits,
    /// What it calls `$$NOW`.
    pub now: DateTime,
}

/// Members of documents that a pipeline does not see.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unseen {
    /// A member that all documents lose, after an index has answered.
    pub everywhere: Option<&'static str>,
    /// One that the documents of a collection lose before anything is evaluated on them, as `(collection, member)`.
    pub of: Option<(&'static str, &'static str)>,
}

impl Unseen {
    fn of_collection(&self, name: &str) -> Option<&'static str> {
        self.of.filter(|(collection, _)| *collection == name).map(|(_, member)| member)
    }
}

/// Where the documents of collections come from.
pub trait Source {
    /// Why no documents come.
    type Error: From<EvalError>;

    /// Shows `visit` the documents of a collection that the caller may see, in the order of the query, until it breaks.
    ///
    /// # Errors
    /// Those of the source, and of `visit`.
    fn each(
        &self,
        collection: &str,
        query: &Front,
        visit: &mut dyn FnMut(&RawDocument) -> Result<Flow, Self::Error>,
    ) -> Result<(), Self::Error>;
}

/// A source without collections, for stages that read none.
pub struct Nothing<E>(PhantomData<E>);

impl<E> Default for Nothing<E> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<E: From<EvalError>> Source for Nothing<E> {
    type Error = E;

    fn each(&self, _: &str, _: &Front, _: &mut dyn FnMut(&RawDocument) -> Result<Flow, E>) -> Result<(), E> {
        Ok(())
    }
}

impl Pipeline {
    /// Compiles a client's pipeline; `now` is `$$NOW`.
    ///
    /// # Errors
    /// Everything that MongoDB refuses before it reads a document, exceeded `limits`, and stages that are not offered, with the
    /// place.
    pub fn parse(stages: &[Bson], limits: &Limits, now: DateTime) -> Result<Self, QueryError> {
        PipelineParser::new(*limits, Some(now)).pipeline(stages, None)
    }

    /// The same on these terms, with no more effort than that.
    ///
    /// # Errors
    /// As [`Pipeline::parse`]; when it takes too long or too much.
    pub fn read_with(stages: &[Bson], terms: &Terms, effort: &Effort) -> Result<Self, QueryError> {
        let parser = PipelineParser::at(terms.place, terms.limits, Some(terms.now)).without(terms.unseen);
        parser.with_effort(effort).pipeline(stages, Some(terms.collection))
    }

    /// The documents for which a filter holds.
    pub fn matching(filter: Filter) -> Self {
        if filter.document().is_empty() {
            return Self::empty();
        }
        Self { documents: vec![doc! { "$match": filter.document() }], stages: vec![Stage::Match(filter)] }
    }

    /// These stages, followed by those of another pipeline.
    #[must_use]
    pub fn then(mut self, more: Self) -> Self {
        self.documents.extend(more.documents);
        self.stages.extend(more.stages);
        self
    }

    /// The filter that selects the same documents, if its stages are filters and orders.
    pub fn as_filter(&self) -> Option<Filter> {
        let mut filters = Vec::new();
        for stage in &self.stages {
            match stage {
                Stage::Match(filter) => filters.push(filter.clone()),
                Stage::Sort(_) => {}
                _ => return None,
            }
        }
        Some(Filter::all_of(filters))
    }

    /// The stages as MongoDB is sent them.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The other collections that its stages read.
    pub fn collections(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        self.add_collections(&mut names);
        names
    }

    /// The operator that only a MongoDB server can answer, if it has one.
    pub fn needs_server(&self) -> Option<&str> {
        self.needs_server_behind(0)
    }

    /// The same of the stages after the first `done`.
    pub fn needs_server_behind(&self, done: usize) -> Option<&str> {
        self.stages[done..].iter().find_map(Stage::needs_server)
    }

    /// The first stages that can be answered from indexes; [`Front::stages`] of the pipeline are in it.
    pub fn front(&self) -> Front {
        Front::of(&self.stages)
    }

    /// The stages up to a `$group` that a server may be asked for, and how many these are; nothing where it may not.
    pub fn grouped_front(&self) -> Option<(&[Document], usize)> {
        let front = self.front();
        let plain = |stage: &&Stage| matches!(stage, Stage::Project(projection) if projection.is_plain());
        let group = front.stages + self.stages[front.stages..].iter().take_while(plain).count();
        // Each stage so far is a document of its own.
        let is_plain = self.documents.get(group).is_some_and(is_plain_group);
        let is_asked = is_plain && front.filter.demand() < Demand::Service;
        is_asked.then(|| (&self.documents[..=group], group + 1))
    }

    /// Whether each document gives its own results, whatever the others are, after the first `done` stages.
    pub fn is_streaming(&self, done: usize) -> bool {
        self.stages[done..].iter().all(Stage::is_streaming)
    }

    /// The name of the member, if the stage after the first `done` is `$count`.
    pub fn counts(&self, done: usize) -> Option<&str> {
        match self.stages.get(done) {
            Some(Stage::Count(name)) => Some(name),
            _ => None,
        }
    }

    /// What `$count` gives under this name.
    ///
    /// # Errors
    /// A name that BSON cannot hold.
    pub fn counted(name: &str, count: u64) -> Result<RawDocumentBuf, EvalError> {
        encoded(&count_document(name, count))
    }

    /// Begins to run the stages after the first `done`.
    pub fn run<'p>(&'p self, done: usize, budget: &'p Budget) -> Run<'p> {
        Run::new(&self.stages[done..], budget)
    }

    /// Whether nothing is left after the first `done` stages.
    pub fn is_done(&self, done: usize) -> bool {
        self.stages.len() <= done
    }

    fn add_collections<'p>(&'p self, names: &mut BTreeSet<&'p str>) {
        self.stages.iter().for_each(|stage| stage.add_collections(names));
    }
}
