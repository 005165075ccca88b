//! Answers queries: a plan's documents, ordered, skipped, limited, projected, counted. Pipelines read by them.

use std::ops::ControlFlow;

use bson::raw::RawDocument;

use crate::query::{Budget, Filter, Node, Sort, Test};
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::failure;
use crate::store::embedded::index::ranges::IndexScan;
use crate::store::embedded::index::row_cache::CachedPage;
use crate::store::embedded::index::table::TableAccess;
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::plan::planner::{Choice, Plan, TotalBy, Wanted};
use crate::store::embedded::read::execute::{CollectionReader, Deadline, Flow, Work};
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::evaluate::{Reads, Visit};
use crate::store::{Best, Documents, FindQuery, Hint, StoreError, TotalFrom};

/// The answer to a query, and its cost.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) documents: Documents,
    /// How many documents match in all, if the caller needs it.
    pub(crate) total: Option<u64>,
    pub(crate) work: Work,
    /// The hint about the work, if it was much.
    pub(crate) hint: Option<Hint>,
}

impl Answer {
    /// The answer of a collection that was never written to.
    pub(crate) fn none(with_total: bool) -> Self {
        Self { total: with_total.then_some(0), ..Self::default() }
    }
}

/// The rows of an answer, its documents to be read.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// In the order of the answer.
    pub(crate) list: Vec<u64>,
    /// How many documents match in all, if the caller needs it.
    pub(crate) matched: u64,
    pub(crate) work: Work,
}

/// A query on one collection, with its plan.
pub(crate) struct Question<'a> {
    pub(crate) query: &'a FindQuery,
    pub(crate) choice: Choice,
    pub(crate) with_total: bool,
    /// The end of its time budget. The budget includes planning and waiting for a thread.
    pub(crate) deadline: Deadline,
}

impl<'a> Question<'a> {
    /// Plans with a look at how many keys there are.
    ///
    /// # Errors
    /// As [`CollectionReader::plan`].
    pub(crate) fn new<A: TableAccess>(
        collection: &Collection,
        tables: &Tables<A>,
        query: &'a FindQuery,
        with_total: bool,
        deadline: Deadline,
    ) -> Result<Self, StoreError> {
        let first = (query.limit > 0).then(|| query.skip.saturating_add(query.limit));
        let wanted = Wanted { first, total: with_total, any_order: query.any_order };
        let choice = CollectionReader::new(collection, tables, deadline.clone()).plan(
            query.filter.tree(),
            &query.sort,
            wanted,
        )?;
        Ok(Self { query, choice, with_total, deadline })
    }

    /// Runs the query.
    pub(crate) fn ask<A: TableAccess>(
        &self,
        collection: &Collection,
        tables: &Tables<A>,
    ) -> Result<Answer, StoreError> {
        let budget = self.deadline.budget();
        let mut reader = CollectionReader::new(collection, tables, self.deadline.clone());
        if self.query.any_order {
            reader = reader.in_any_order();
        }
        let mut answer =
            if self.streams() { self.stream(&mut reader, &budget) } else { self.sort(&mut reader, &budget) }?;
        answer.hint = self.hint(collection, answer.work, answer.documents.len() as u64, answer.total);
        Ok(answer)
    }

    /// Where the total comes from.
    pub(crate) fn total_from(&self) -> TotalFrom {
        match self.choice.total {
            TotalBy::Collection => TotalFrom::Collection,
            TotalBy::Keys(_) => TotalFrom::Keys,
            TotalBy::Documents if matches!(self.choice.plan, Plan::Sets(_)) => TotalFrom::Keys,
            TotalBy::Documents => TotalFrom::Documents,
        }
    }

    /// The rows of the answer, in its order, and how many documents match.
    pub(crate) fn rows<A: TableAccess>(&self, collection: &Collection, tables: &Tables<A>) -> Result<Rows, StoreError> {
        let mut reader = CollectionReader::new(collection, tables, self.deadline.clone());
        if self.wants_all()
            && let Some(list) = reader.all_rows()?
        {
            return Ok(Rows { matched: list.len() as u64, list, work: reader.work });
        }
        self.examined_rows(&mut reader)
    }

    fn examined_rows<A: TableAccess>(&self, reader: &mut CollectionReader<'_, A>) -> Result<Rows, StoreError> {
        let query = self.query;
        if let Plan::Sets(sets) = &self.choice.plan {
            return reader.page_of_sets(sets, query);
        }
        let mut found = Rows::default();
        if self.streams() {
            self.turn(reader);
            let read_on = self.with_total && !self.counts_apart();
            let mut stopped = false;
            reader.each(&self.choice.plan, &query.filter, &mut |row, _| {
                found.matched += 1;
                let is_full = |rows: &[u64]| query.limit != 0 && rows.len() as u64 >= query.limit;
                if found.matched > query.skip && !is_full(&found.list) {
                    found.list.push(row);
                }
                stopped = is_full(&found.list) && !read_on;
                Ok(if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if self.with_total && stopped {
                found.matched = reader.count(&self.choice, &query.filter)?;
            }
        } else {
            let mut best = Best::new(query, self.deadline.share());
            reader.each(&self.choice.plan, &query.filter, &mut |row, document| {
                found.matched += 1;
                best.offer(query.sort.key_of(document).map_err(failure::of_evaluation)?, row)?;
                Ok(ControlFlow::Continue(()))
            })?;
            found.list = best.into_page().collect();
        }
        found.work = reader.work;
        Ok(found)
    }

    /// Shows `visit` the documents of the answer in its order, whole, until it breaks.
    pub(crate) fn each<A: TableAccess>(
        &self,
        reader: &mut CollectionReader<'_, A>,
        visit: &mut dyn FnMut(&RawDocument) -> Flow,
    ) -> Result<(), StoreError> {
        let query = self.query;
        if !self.streams() {
            for row in self.examined_rows(reader)?.list {
                let flow = reader.document(row, &mut *visit)?;
                if flow.ok_or_else(|| failure::damaged("a sorted answer", row))??.is_break() {
                    break;
                }
            }
            return Ok(());
        }
        self.turn(reader);
        let (mut passed, mut shown) = (0, 0);
        reader.each(&self.choice.plan, &query.filter, &mut |_, document| {
            if passed < query.skip {
                passed += 1;
                return Ok(ControlFlow::Continue(()));
            }
            let flow = visit(document)?;
            shown += 1;
            Ok(if query.limit != 0 && shown >= query.limit { ControlFlow::Break(()) } else { flow })
        })
    }

    /// Whether the total is known without looking at each document.
    fn counts_apart(&self) -> bool {
        self.choice.total != TotalBy::Documents
    }

    /// The hint about the work for this many documents, of those that match.
    pub(crate) fn hint(&self, collection: &Collection, work: Work, returned: u64, total: Option<u64>) -> Option<Hint> {
        let whole = || collection.indexes.iter().filter(|index| index.partial.is_none());
        let known = whole().map(|index| index.components.iter().map(|part| part.path.as_str()).collect());
        let hint = Hint::about(self.query, work.documents, returned, total, known)?;
        Some(hint.among(whole().filter_map(|index| index.components.first()).map(|part| part.path.as_str())))
    }

    /// Whether nothing is left to order.
    fn comes_in_order(&self) -> bool {
        self.choice.plan.is_ordered(&self.query.sort) || self.is_about_one_id()
    }

    /// Whether the documents are read backwards until there are enough: earlier ones are not examined.
    fn ends_early_from_the_end(&self) -> bool {
        self.query.sort.is_reversed() && self.query.limit != 0 && (!self.with_total || self.counts_apart())
    }

    /// Whether the answer is all documents in the order of their rows.
    fn wants_all(&self) -> bool {
        let (query, is_scan) = (self.query, self.choice.plan == Plan::Scan);
        let is_all = matches!(query.filter.tree(), Node::Always) && query.skip == 0 && query.limit == 0;
        is_all && is_scan && self.comes_in_order()
    }

    /// Whether nothing has to be ordered here.
    fn streams(&self) -> bool {
        !matches!(self.choice.plan, Plan::Sets(_)) && (self.comes_in_order() || self.ends_early_from_the_end())
    }

    fn turn<A: TableAccess>(&self, reader: &mut CollectionReader<'_, A>) {
        if self.ends_early_from_the_end() {
            reader.set_backward();
        }
    }

    /// Whether the query is for one document by its `_id` alone. As in MongoDB there is nothing to sort then, not even
    /// if the sort keys are ambiguous.
    fn is_about_one_id(&self) -> bool {
        let filter = self.query.filter.tree();
        // Written as a plain value: operators are planned like those of any other path.
        let is_plain = matches!(self.query.filter.document().get("_id"), Some(value) if value.as_document().is_none());
        is_plain && self.query.skip == 0 && matches!(filter, Node::Path(path, Test::Eq(_)) if path.as_str() == "_id")
    }

    /// The documents come in the right order. Stops after the last one, unless the others must be counted.
    fn stream<A: TableAccess>(
        &self,
        reader: &mut CollectionReader<'_, A>,
        budget: &Budget,
    ) -> Result<Answer, StoreError> {
        self.turn(reader);
        let query = self.query;
        if let Some(scan) = self.choice.answering_keys(query, self.with_total) {
            return self.stream_by_keys(scan, reader, budget);
        }
        let read_on = self.with_total && !self.counts_apart();
        let mut documents = Documents::new();
        let (mut matched, mut stopped) = (0, false);
        reader.each(&self.choice.plan, &query.filter, &mut |_, document| {
            matched += 1;
            if matched > query.skip && !self.is_full(&documents) {
                self.push(document, budget, &mut documents)?;
            }
            stopped = self.is_full(&documents) && !read_on;
            Ok(if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        let total = match (self.with_total, stopped) {
            (true, true) => Some(reader.count(&self.choice, &query.filter)?),
            (true, false) => Some(matched),
            (false, _) => None,
        };
        Ok(Answer { documents, total, work: reader.work, hint: None })
    }

    /// The same, if skipped documents need not be examined.
    fn stream_by_keys<A: TableAccess>(
        &self,
        scan: &IndexScan,
        reader: &mut CollectionReader<'_, A>,
        budget: &Budget,
    ) -> Result<Answer, StoreError> {
        let CachedPage { rows, passed, .. } = reader.page_of_rows(scan, self.query.skip, self.query.limit)?;
        let is_full = self.query.limit != 0 && rows.len() as u64 >= self.query.limit;
        let total = match (self.with_total, is_full) {
            (true, true) => Some(reader.count(&self.choice, &self.query.filter)?),
            (true, false) => Some(passed + rows.len() as u64),
            (false, _) => None,
        };
        let mut documents = Documents::new();
        reader.each_of(&rows, &mut |document| {
            if documents.is_empty() {
                documents.reserve(rows.len(), document.as_bytes().len());
            }
            self.push(document, budget, &mut documents)
        })?;
        Ok(Answer { documents, total, work: reader.work, hint: None })
    }

    /// Sorts the documents here. It keeps only keys, and reads the documents of the page a second time.
    fn sort<A: TableAccess>(
        &self,
        reader: &mut CollectionReader<'_, A>,
        budget: &Budget,
    ) -> Result<Answer, StoreError> {
        let found = self.examined_rows(reader)?;
        let documents = self.read(found.list, reader, budget)?;
        Ok(Answer { documents, total: self.with_total.then_some(found.matched), work: found.work, hint: None })
    }

    /// The documents of these rows.
    pub(crate) fn read<A: TableAccess>(
        &self,
        rows: Vec<u64>,
        reader: &CollectionReader<'_, A>,
        budget: &Budget,
    ) -> Result<Documents, StoreError> {
        let mut documents = Documents::new();
        for row in rows {
            reader
                .document(row, |document| self.push(document, budget, &mut documents))?
                .ok_or_else(|| failure::damaged("a sorted answer", row))??;
        }
        Ok(documents)
    }

    fn is_full(&self, documents: &Documents) -> bool {
        self.query.limit != 0 && documents.len() as u64 >= self.query.limit
    }

    fn push(&self, document: &RawDocument, budget: &Budget, documents: &mut Documents) -> Result<(), StoreError> {
        push(self.query, document, budget, documents)
    }
}

/// Appends the projected document.
pub(crate) fn push(
    query: &FindQuery,
    document: &RawDocument,
    budget: &Budget,
    documents: &mut Documents,
) -> Result<(), StoreError> {
    match &query.projection {
        None => documents.push(document),
        Some(projection) => {
            let shown = projection.apply_within(document, &query.filter, budget);
            documents.push(&shown.map_err(failure::of_evaluation)?);
        }
    }
    if documents.bytes() > query.max_bytes { Err(StoreError::TooLarge) } else { Ok(()) }
}

// Reads a snapshot for pipelines. The first stages of one are planned as a query, and answered from indexes.

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
        let wanted = Wanted { first: Some(0), total: true, any_order: false };
        let choice = reader.plan(filter.tree(), &Sort::default(), wanted)?;
        reader.count(&choice, filter)
    }
}
