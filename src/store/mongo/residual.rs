//! Questions with expressions that no server is asked to run: these could occupy it without end, see
//! [`Node::is_bounded`](crate::query::Node::is_bounded).
//!
//! The server is asked for the rest of the question. What it gives is read in chunks, and the expressions are evaluated here,
//! within the memory and the time of the request, as the embedded store does it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::RawDocument;
use futures::{StreamExt, TryStreamExt, stream};

use super::guarded::cheap_part;
use super::waiting::query_bound;
use super::{Inner, MongoStore, aggregate, explain, find};
use crate::admission::{self, Means, Turn};
use crate::query::pipeline::{Flow, Front, Source};
use crate::query::{Budget, Filter, Pipeline, Projection};
use crate::store::{
    AggregateQuery, ChunkedPage, Chunks, Documents, Explanation, FindQuery, Page, Reach, Results, Store, StoreError,
    TotalFrom, find_query,
};

/// MongoDB's number for what is not allowed.
const NOT_ALLOWED: i32 = 224;

/// Whether the server may be asked for all of a query.
pub(super) fn is_bounded(query: &FindQuery) -> bool {
    query.filter.is_bounded() && query.projection.as_ref().is_none_or(Projection::is_bounded)
}

/// Refuses an operator that only the server has, beside an expression that is evaluated here.
fn check_server(operator: Option<&str>) -> Result<(), StoreError> {
    operator.map_or(Ok(()), |operator| {
        let message = format!(
            "{operator} cannot stand beside an expression that may occupy the server without end; ask in two requests, or go over \
             stored arrays alone and nest less"
        );
        Err(StoreError::Query { code: NOT_ALLOWED, message })
    })
}

/// What is left of a query to do here.
struct Residue {
    query: FindQuery,
    /// Whether the filter is still to be evaluated, and then pages are cut.
    is_filtered: bool,
    end: Option<Instant>,
    /// How many documents match so far, and how many of these were given.
    matching: u64,
    given: u64,
}

impl Residue {
    /// The query for the server, and the rest.
    fn of(query: &FindQuery) -> Result<(FindQuery, Self), StoreError> {
        Self::after(query, !query.filter.is_bounded())
    }

    /// The same; what `is_filtered` says is left of the filter.
    fn after(query: &FindQuery, is_filtered: bool) -> Result<(FindQuery, Self), StoreError> {
        let mut asked = FindQuery { projection: None, ..query.clone() };
        if is_filtered {
            check_server(query.filter.needs_server())?;
            asked = FindQuery { filter: cheap_part(&query.filter), skip: 0, limit: 0, ..asked };
        }
        let end = Instant::now().checked_add(query.max_time);
        Ok((asked, Self { query: query.clone(), is_filtered, end, matching: 0, given: 0 }))
    }

    /// Whether the page is complete.
    fn is_full(&self) -> bool {
        self.query.limit > 0 && self.given == self.query.limit
    }

    /// What the query selects of a chunk, and makes of it.
    fn pass(&mut self, chunk: &Documents, means: &Means) -> Result<Documents, StoreError> {
        let budget = Budget::until(self.end).within(means);
        let mut passed = Documents::new();
        for document in chunk.iter() {
            if self.is_filtered {
                if !self.query.filter.matches_within(document, &budget)? {
                    continue;
                }
                self.matching += 1;
                if self.matching <= self.query.skip || self.is_full() {
                    continue;
                }
            }
            self.given += 1;
            match &self.query.projection {
                None => passed.push(document),
                Some(projection) => passed.push(&projection.apply_within(document, &self.query.filter, &budget)?),
            }
        }
        Ok(passed)
    }

    /// The same in a turn of the request.
    async fn pass_in_turn(mut self, chunk: Documents) -> Result<(Documents, Self), StoreError> {
        admission::work(move |means| {
            let passed = self.pass(&chunk, means)?;
            Ok((passed, self))
        })
        .await?
    }

    fn check_time(&self) -> Result<(), StoreError> {
        if self.end.is_some_and(admission::is_over) { Err(StoreError::Timeout) } else { Ok(()) }
    }
}

impl MongoStore {
    /// See [`Store::page`]. Without `is_counted` it ends with the page, and the total is wrong.
    pub(super) async fn residual_page(
        &self,
        collection: &str,
        query: &FindQuery,
        is_counted: bool,
    ) -> Result<Page, StoreError> {
        let (asked, mut residue) = Residue::of(query)?;
        let mut chunks = self.opened(collection, &asked).await?;
        let mut documents = Documents::new();
        while let Some(chunk) = chunks.try_next().await? {
            residue.check_time()?;
            let (passed, rest) = residue.pass_in_turn(chunk).await?;
            residue = rest;
            passed.iter().for_each(|document| documents.push(document));
            if documents.bytes() > query.max_bytes {
                return Err(StoreError::TooLarge);
            }
            if residue.is_full() && !(is_counted && residue.is_filtered) {
                break;
            }
        }
        let total = match find::total_from(query, documents.len() as u64) {
            _ if residue.is_filtered => residue.matching,
            Some(total) => total,
            None if is_counted => Store::count(self, collection, &query.filter, query.max_time).await?,
            None => 0,
        };
        Ok(Page { documents, total, hint: None })
    }

    /// See [`Store::count`].
    pub(super) async fn residual_count(
        &self,
        collection: &str,
        filter: &Filter,
        max_time: Duration,
    ) -> Result<u64, StoreError> {
        let query = FindQuery { skip: u64::MAX, ..FindQuery::new(filter.clone(), max_time) };
        Ok(self.residual_page(collection, &query, true).await?.total)
    }

    /// See [`Store::chunks`].
    pub(super) async fn residual_chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        let total =
            if query.is_counted { Store::count(self, collection, &query.filter, query.max_time).await? } else { 0 };
        let (asked, residue) = Residue::of(query)?;
        let chunks = self.opened(collection, &asked).await?;
        // Between two chunks the reader decides how long it takes.
        let residue = Residue { end: None, ..residue };
        let passed = stream::try_unfold((chunks, residue), async |(mut chunks, mut residue)| {
            while !residue.is_full() {
                let Some(chunk) = chunks.try_next().await? else { break };
                let end = Instant::now().checked_add(residue.query.max_time);
                let (passed, rest) = Residue { end, ..residue }.pass_in_turn(chunk).await?;
                residue = rest;
                if !passed.is_empty() {
                    return Ok(Some((passed, (chunks, residue))));
                }
            }
            Ok(None)
        });
        Ok(ChunkedPage { total, hint: None, documents: passed.boxed() })
    }

    /// See [`Store::explain`]: the plan is that of what the server is asked.
    pub(super) async fn residual_explanation(
        &self,
        collection: &str,
        query: &FindQuery,
    ) -> Result<Explanation, StoreError> {
        let begun = Instant::now();
        let page = self.residual_page(collection, query, true).await?;
        let time_us = u64::try_from(begun.elapsed().as_micros()).ok();
        let (asked, _) = Residue::of(query)?;
        let explained = async move |inner: Arc<Inner>, collection: String, query: FindQuery| {
            explain::explain(&inner, &collection, &query).await
        };
        let (bound, turn) = (query_bound(query.max_time.saturating_mul(3)), admission::turn().await?);
        let plan = self.ask(bound, (collection, &asked), Some(turn), explained).await?;
        let (returned, total) = (page.documents.len() as u64, page.total);
        Ok(Explanation { returned, total, total_from: TotalFrom::Documents, time_us, ..plan })
    }

    /// The chunks of what the server is asked.
    async fn opened(&self, collection: &str, asked: &FindQuery) -> Result<Chunks, StoreError> {
        let reading = self.begun(collection, asked, Some(admission::turn().await?)).await?;
        let chunk = async move |mut reading: find::CursorReading| (reading.chunk().await, reading);
        Ok(self.chunked(query_bound(asked.max_time), reading, chunk))
    }

    async fn begun(
        &self,
        collection: &str,
        asked: &FindQuery,
        turn: Option<Turn>,
    ) -> Result<find::CursorReading, StoreError> {
        let moment = self.moment;
        let begin = move |inner: Arc<Inner>, collection: String, query: FindQuery| async move {
            find::open(&inner, moment, &collection, &query).await
        };
        self.ask(query_bound(asked.max_time), (collection, asked), turn, begin).await
    }

    /// See [`Store::aggregate`]. The server runs the stages of `front`, and so many stages of
    /// the pipeline are done then.
    pub(super) async fn residual_stages(
        &self,
        collection: &str,
        query: &AggregateQuery,
        (front, done): (Pipeline, usize),
    ) -> Result<Chunks, StoreError> {
        let needs_server = query.pipeline.needs_server().filter(|_| front.needs_server().is_none());
        check_server(needs_server)?;
        let front = match query.pipeline.filter_behind(done) {
            Some(filter) => front.then(Pipeline::matching(cheap_part(filter))),
            None => front,
        };
        let (asked, query) = (AggregateQuery { pipeline: front, ..query.clone() }, query.clone());
        let store = Self { inner: Arc::clone(&self.inner), moment: self.moment };
        let collection = collection.to_owned();
        let end = Instant::now().checked_add(query.max_time);
        let results = admission::work(move |means| {
            let budget = Budget::until(end).within(means);
            let reads = Reads { store: &store, reach: &query.reach, means, end };
            let mut results = Results::new(query.max_bytes, means.share());
            let mut give = |document: &RawDocument| results.push(document);
            let mut run = query.pipeline.run(done, &budget);
            reads.stages(&collection, &asked, &mut |document| run.push(document, &reads, &mut give))?;
            run.finish(&reads, &mut give)?;
            Ok::<_, StoreError>(results.into_documents())
        });
        let results = results.await??;
        Ok(stream::iter((!results.is_empty()).then_some(Ok(results))).boxed())
    }
}

/// Collections that are read on the thread of a piece of work, in its turn.
struct Reads<'a> {
    store: &'a MongoStore,
    reach: &'a Reach,
    means: &'a Means,
    end: Option<Instant>,
}

type Visit<'v> = &'v mut dyn FnMut(&RawDocument) -> Result<Flow, StoreError>;

impl Reads<'_> {
    /// Shows what the server makes of these stages.
    fn stages(&self, collection: &str, asked: &AggregateQuery, visit: Visit<'_>) -> Result<(), StoreError> {
        let begin = async move |inner: Arc<Inner>, collection: String, query: AggregateQuery| {
            aggregate::open(&inner, &collection, &query).await
        };
        let bound = query_bound(asked.max_time);
        let reading = self.wait(self.store.ask(bound, (collection, asked), None, begin))?;
        let next = async |mut reading: aggregate::Reading| Ok((reading.chunk().await?, reading));
        self.chunks(bound, reading, next, &mut |chunk| shown(&chunk, visit))
    }

    /// Shows each chunk until `take` has enough.
    fn chunks<R, F>(
        &self,
        bound: Duration,
        mut reading: R,
        next: impl Fn(R) -> F,
        take: &mut dyn FnMut(Documents) -> Result<Flow, StoreError>,
    ) -> Result<(), StoreError>
    where
        R: Send + 'static,
        F: Future<Output = Result<(Documents, R), StoreError>> + Send + 'static,
    {
        loop {
            let (chunk, rest) = self.wait(self.store.inner.presence.read(bound, next(reading)))?;
            reading = rest;
            if chunk.is_empty() || take(chunk)?.is_break() {
                return Ok(());
            }
        }
    }

    /// Waits for the server as long as somebody waits for the work.
    fn wait<T>(&self, asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.means.is_gone() || self.end.is_some_and(admission::is_over) {
            return Err(StoreError::Timeout);
        }
        self.store.inner.presence.runtime().block_on(asked)
    }

    fn left(&self) -> Duration {
        self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }
}

fn shown(documents: &Documents, visit: Visit<'_>) -> Result<Flow, StoreError> {
    for document in documents.iter() {
        if visit(document)?.is_break() {
            return Ok(Flow::Break(()));
        }
    }
    Ok(Flow::Continue(()))
}

impl Source for Reads<'_> {
    type Error = StoreError;

    fn each(&self, collection: &str, front: &Front, visit: Visit<'_>) -> Result<(), StoreError> {
        let query = FindQuery { max_time: self.left(), ..find_query(front, self.reach.guard_of(collection)?) };
        // Expressions in it may have variables of the pipeline, which the server does not know here.
        let (asked, mut residue) =
            Residue::after(&query, query.filter.tree().is_costly() || !query.filter.is_bounded())?;
        let reading = self.wait(self.store.begun(collection, &asked, None))?;
        let next = async |mut reading: find::CursorReading| Ok((reading.chunk().await?, reading));
        self.chunks(query_bound(asked.max_time), reading, next, &mut |chunk| {
            let flow = shown(&residue.pass(&chunk, self.means)?, visit)?;
            Ok(if residue.is_full() { Flow::Break(()) } else { flow })
        })
    }
}
