//! Evaluates what is left of questions and pipelines on documents as they come: filters, orders, projections and stages.
//!
//! Both adapters use it. It works in turns of the request, within its memory and its time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};
use futures::{StreamExt, TryStreamExt, future, stream};

use super::question::Rest;
use super::{
    AggregateQuery, CHUNK_BYTES, CHUNK_DOCUMENTS, Chunks, Documents, FindQuery, Page, Reach, StoreError, collections,
};
use crate::admission::{self, Means, Share};
use crate::query::pipeline::{Flow, Front, Nothing, Source};
use crate::query::{Budget, EvalError, Filter, Pipeline, QueryError, SortValue};

/// How many bytes of documents may be kept to be ordered, as in MongoDB.
const MOST_KEPT: usize = 100 * 1024 * 1024;
/// MongoDB's number for an order that needs more.
const EXCEEDED_MEMORY_LIMIT: i32 = 292;

/// Gets documents, and says whether it wants more.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&RawDocument) -> Result<Flow, StoreError>;

/// The rest of a question, while it is evaluated.
pub(crate) struct Evaluation {
    rest: Rest,
    /// Whether all documents are examined, so that they are counted.
    counts: bool,
    matching: u64,
    passed: u64,
    given: u64,
    kept: Kept,
}

/// Documents that are to be ordered.
#[derive(Default)]
struct Kept {
    documents: Vec<(SortValue, RawDocumentBuf)>,
    bytes: usize,
    share: Option<Share>,
    is_ordered: bool,
}

impl Kept {
    fn add(&mut self, key: SortValue, document: &RawDocument, budget: &Budget) -> Result<(), StoreError> {
        self.bytes += key.size() + document.as_bytes().len();
        if self.bytes > MOST_KEPT {
            let message = "the order needs more than 100 MiB of memory; ask for less, or order by one path".to_owned();
            return Err(StoreError::Query { code: EXCEEDED_MEMORY_LIMIT, message });
        }
        self.share.get_or_insert_with(|| budget.share()).cover(self.bytes)?;
        self.documents.push((key, document.to_owned()));
        Ok(())
    }
}

impl Evaluation {
    /// Evaluates that. With `counts` it continues after the page.
    pub(crate) fn of(rest: Rest, counts: bool) -> Self {
        let counts = counts || rest.examines_all;
        Self { rest, counts, matching: 0, passed: 0, given: 0, kept: Kept::default() }
    }

    fn is_full(&self) -> bool {
        self.rest.limit > 0 && self.given == self.rest.limit
    }

    /// Whether no more documents are wanted.
    fn is_done(&self) -> bool {
        self.is_full() && !self.counts
    }

    fn flow(&self) -> Flow {
        if self.is_done() { Flow::Break(()) } else { Flow::Continue(()) }
    }

    /// The next document of the plain part.
    ///
    /// # Errors
    /// Failures on the document, and those of `give`.
    pub(crate) fn take(
        &mut self,
        document: &RawDocument,
        budget: &Budget,
        give: Visit<'_>,
    ) -> Result<Flow, StoreError> {
        if self.rest.is_filtered && !self.rest.filter.matches_within(document, budget)? {
            return Ok(Flow::Continue(()));
        }
        self.matching += 1;
        match &self.rest.sort {
            Some(sort) => {
                self.kept.add(sort.key_of(document)?, document, budget)?;
                Ok(Flow::Continue(()))
            }
            None => self.pass(document, budget, give),
        }
    }

    /// A document in its order.
    fn pass(&mut self, document: &RawDocument, budget: &Budget, give: Visit<'_>) -> Result<Flow, StoreError> {
        self.passed += 1;
        if self.passed <= self.rest.skip || self.is_full() {
            return Ok(self.flow());
        }
        self.given += 1;
        let flow = match &self.rest.projection {
            None => give(document)?,
            Some(projection) => give(&projection.apply_within(document, &self.rest.filter, budget)?)?,
        };
        Ok(if self.is_done() { Flow::Break(()) } else { flow })
    }

    /// Gives what had to be ordered, after the last document. A caller that breaks may call it again, for the remaining
    /// documents.
    ///
    /// # Errors
    /// As [`Evaluation::take`].
    pub(crate) fn finish(&mut self, budget: &Budget, give: Visit<'_>) -> Result<(), StoreError> {
        if let Some(sort) = self.rest.sort.as_ref().filter(|_| !self.kept.is_ordered) {
            self.kept.is_ordered = true;
            if sort.is_reversed() {
                self.kept.documents.reverse();
            }
            self.kept.documents.sort_by(|(left, _), (right, _)| sort.compare(left, right));
            // The first one is taken first.
            self.kept.documents.reverse();
        }
        while let Some((_, document)) = self.kept.documents.pop() {
            if self.pass(&document, budget, give)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// What comes of a chunk; without one, of what was kept.
    fn chunk(&mut self, chunk: Option<&Documents>, budget: &Budget) -> Result<Documents, StoreError> {
        let mut passed = Documents::new();
        let Some(chunk) = chunk else {
            let is_full = |chunk: &Documents| chunk.len() >= CHUNK_DOCUMENTS || chunk.bytes() >= CHUNK_BYTES;
            self.finish(budget, &mut |document| {
                passed.push(document);
                Ok(if is_full(&passed) { Flow::Break(()) } else { Flow::Continue(()) })
            })?;
            return Ok(passed);
        };
        for document in chunk.iter() {
            let mut give = |document: &RawDocument| {
                passed.push(document);
                Ok(Flow::Continue(()))
            };
            if self.take(document, budget, &mut give)?.is_break() {
                break;
            }
        }
        Ok(passed)
    }

    /// The same in a turn of the request.
    async fn turn(mut self, chunk: Option<Documents>, end: Option<Instant>) -> Result<(Documents, Self), StoreError> {
        if self.rest.is_nothing() {
            self.matching += chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
            return Ok((chunk.unwrap_or_default(), self));
        }
        if chunk.is_none() && self.kept.documents.is_empty() {
            return Ok((Documents::new(), self));
        }
        if end.is_some_and(admission::is_over) {
            return Err(StoreError::Timeout);
        }
        admission::work(move |means| {
            let passed = self.chunk(chunk.as_ref(), &Budget::until(end).within(means))?;
            Ok((passed, self))
        })
        .await?
    }
}

/// The documents of an answer together, and how many match.
///
/// # Errors
/// Those of the chunks, failures on documents; [`StoreError::TooLarge`] for more bytes than the query allows.
pub(crate) async fn page(
    chunks: Chunks,
    mut evaluation: Evaluation,
    query: &FindQuery,
) -> Result<(Documents, u64), StoreError> {
    let mut chunks = chunks.fuse();
    let end = Instant::now().checked_add(query.max_time);
    let mut all = Documents::new();
    loop {
        let chunk = if evaluation.is_done() { None } else { chunks.try_next().await? };
        let is_last = chunk.is_none();
        let (passed, rest) = evaluation.turn(chunk, end).await?;
        evaluation = rest;
        passed.iter().for_each(|document| all.push(document));
        if all.bytes() > query.max_bytes {
            return Err(StoreError::TooLarge);
        }
        if is_last && passed.is_empty() {
            return Ok((all, evaluation.matching));
        }
    }
}

/// The documents of an answer in chunks.
pub(crate) fn stream(chunks: Chunks, evaluation: Evaluation, max_time: Duration) -> Chunks {
    if evaluation.rest.is_nothing() {
        return chunks;
    }
    let passed = stream::try_unfold((chunks.fuse(), evaluation), move |(mut chunks, mut evaluation)| async move {
        loop {
            let chunk = if evaluation.is_done() { None } else { chunks.try_next().await? };
            let is_last = chunk.is_none();
            // Between two chunks the reader decides how long it takes.
            let (passed, rest) = evaluation.turn(chunk, Instant::now().checked_add(max_time)).await?;
            evaluation = rest;
            if !passed.is_empty() {
                return Ok(Some((passed, (chunks, evaluation))));
            }
            if is_last {
                return Ok(None);
            }
        }
    });
    passed.boxed()
}

/// The answer to a question about documents that are in memory.
///
/// # Errors
/// Failures on documents; [`StoreError::Unsupported`] for what only a server evaluates.
pub(crate) fn page_of<'d>(
    documents: impl Iterator<Item = &'d RawDocument>,
    query: &FindQuery,
    means: &Means,
) -> Result<Page, StoreError> {
    if let Some(operator) = query.filter.needs_server() {
        return Err(StoreError::Unsupported { what: operator.to_owned() });
    }
    let budget = Budget::until(Instant::now().checked_add(query.max_time)).within(means);
    let mut evaluation = Evaluation::of(Rest::all_of(query), true);
    let mut page = Documents::new();
    let mut give = |document: &RawDocument| {
        page.push(document);
        Ok(Flow::Continue(()))
    };
    for document in documents {
        let _ = evaluation.take(document, &budget, &mut give)?;
    }
    evaluation.finish(&budget, &mut give)?;
    Ok(Page { documents: page, total: evaluation.matching, hint: None })
}

/// The documents of a store, read on the thread of a piece of work.
pub(crate) trait Reads {
    /// Shows the documents that a query selects, in its order, until `visit` breaks.
    ///
    /// # Errors
    /// Those of the store and of `visit`.
    fn read(&self, collection: &str, query: &FindQuery, visit: Visit<'_>) -> Result<(), StoreError>;

    /// The same for a stage that may ask again and again.
    ///
    /// # Errors
    /// As [`Reads::read`].
    fn look_up(&self, collection: &str, query: &FindQuery, visit: Visit<'_>) -> Result<(), StoreError> {
        self.read(collection, query, visit)
    }

    /// How many documents match.
    ///
    /// # Errors
    /// Those of the store.
    fn count(&self, collection: &str, filter: &Filter) -> Result<u64, StoreError>;
}

/// The collections of a store, as far as a pipeline may see them.
pub(crate) struct Within<'a, R>(pub(crate) &'a R, pub(crate) &'a Reach, pub(crate) &'a Budget);

impl<R: Reads> Source for Within<'_, R> {
    type Error = StoreError;

    fn each(&self, collection: &str, front: &Front, visit: Visit<'_>) -> Result<(), StoreError> {
        let Self(reads, reach, budget) = self;
        let Some(table) = reach.table(collection) else {
            return reads.look_up(collection, &find_query(front, reach.guard_of(collection)?), visit);
        };
        let refused = |error: QueryError| EvalError::new(error.code, error.message);
        let (front, rest) = table.front(front.clone(), &budget.effort()).map_err(refused)?;
        let (mut rows, mut rest) = (table.view().run(0, budget), rest.run(0, budget));
        reads.look_up(
            collections::OBJECTS,
            &find_query(&front, reach.guard_of(collections::OBJECTS)?),
            &mut |object| rows.push(object, self, &mut |row| rest.push(row, self, visit)),
        )?;
        rows.finish(self, &mut |row| rest.push(row, self, visit))?;
        rest.finish(self, visit)
    }
}

/// All results of a pipeline. Its first stages are one query.
///
/// # Errors
/// Failures on documents, those of the store, and those of [`Results`].
pub(crate) fn results<R: Reads>(
    reads: &R,
    collection: &str,
    query: &AggregateQuery,
    (budget, means): (&Budget, &Means),
) -> Result<Documents, StoreError> {
    let (pipeline, source) = (&query.pipeline, Within(reads, &query.reach, budget));
    let front = pipeline.front();
    let results = Results::new(query.max_bytes, means);
    if front.is_filter()
        && let Some(member) = pipeline.counts(front.stages)
    {
        return piped((pipeline, front.stages + 1), &source, budget, results, |visit| {
            let counted = reads.count(collection, &behind(&front.filter, &query.guard))?;
            if counted > 0 {
                let _ = visit(&Pipeline::counted(member, counted)?)?;
            }
            Ok(())
        });
    }
    let asked = find_query(&front, &query.guard);
    piped((pipeline, front.stages), &source, budget, results, |visit| reads.read(collection, &asked, visit))
}

/// What the stages after the first `done` make of the documents that `read` shows.
///
/// # Errors
/// Failures on documents, those of `read` and of the source, and those of [`Results`].
pub(crate) fn piped<S: Source<Error = StoreError>>(
    (pipeline, done): (&Pipeline, usize),
    source: &S,
    budget: &Budget,
    mut results: Results,
    read: impl FnOnce(Visit<'_>) -> Result<(), StoreError>,
) -> Result<Documents, StoreError> {
    let mut give = |document: &RawDocument| results.push(document);
    let mut run = pipeline.run(done, budget);
    read(&mut |document| run.push(document, source, &mut give))?;
    run.finish(source, &mut give)?;
    Ok(results.documents)
}

/// What stages make of documents in memory. They read no collection.
///
/// # Errors
/// As [`piped`].
pub(crate) fn piped_of(
    stages: (&Pipeline, usize),
    documents: &Documents,
    budget: &Budget,
    results: Results,
) -> Result<Documents, StoreError> {
    piped(stages, &Nothing::default(), budget, results, |visit| shown(documents, visit).map(drop))
}

/// What the stages after the first `done` make of chunks, one by one. Each document gives its own results, and they read no
/// collection.
pub(crate) fn applied(chunks: Chunks, (pipeline, done): (Pipeline, usize), max_time: Duration) -> Chunks {
    if pipeline.is_done(done) {
        return chunks;
    }
    let apply = move |documents: &Documents, budget: &Budget, means: &Means| {
        piped_of((&pipeline, done), documents, budget, Results::new(usize::MAX, means))
    };
    applied_by(chunks, Arc::new(apply), max_time)
}

/// The function that is applied to each chunk.
pub(crate) type Apply = dyn Fn(&Documents, &Budget, &Means) -> Result<Documents, StoreError> + Send + Sync;

/// The chunks after the function was applied to each of them.
pub(crate) fn applied_by(chunks: Chunks, apply: Arc<Apply>, max_time: Duration) -> Chunks {
    let applied = chunks.and_then(move |documents| {
        let apply = Arc::clone(&apply);
        async move {
            let end = Instant::now().checked_add(max_time);
            admission::work(move |means| apply(&documents, &Budget::until(end).within(means), means)).await?
        }
    });
    applied.try_filter(|chunk| future::ready(!chunk.is_empty())).boxed()
}

/// Shows documents until `visit` breaks.
///
/// # Errors
/// Those of `visit`.
pub(crate) fn shown(documents: &Documents, visit: Visit<'_>) -> Result<Flow, StoreError> {
    for document in documents.iter() {
        if visit(document)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

/// The query for the front of a pipeline, after a guard.
pub(crate) fn find_query(front: &Front, guard: &Filter) -> FindQuery {
    let filter = behind(&front.filter, guard);
    let (sort, skip, limit) = (front.sort.clone(), front.skip, front.limit);
    FindQuery { sort, skip, limit, ..FindQuery::new(filter, Duration::MAX) }
}

/// The filter, evaluated only where the guard holds.
fn behind(filter: &Filter, guard: &Filter) -> Filter {
    if guard.document().is_empty() { filter.clone() } else { filter.clone().guarded_by(guard.clone()) }
}

/// Results that are held until all are there.
pub(crate) struct Results {
    documents: Documents,
    max_bytes: usize,
    share: Share,
    covered: usize,
}

impl Results {
    /// None yet; their memory is that of the work.
    pub(crate) fn new(max_bytes: usize, means: &Means) -> Self {
        Self { documents: Documents::new(), max_bytes, share: means.share(), covered: 0 }
    }

    /// One more.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`], and [`StoreError::Busy`] when there is no memory.
    fn push(&mut self, document: &RawDocument) -> Result<Flow, StoreError> {
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
}
