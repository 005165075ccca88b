//! Answers questions: the server answers the plain part, and the evaluator works on its answer. See
//! [`question`](crate::store::question).

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::raw::RawDocument;
use bson::{Document, Timestamp};
use futures::{StreamExt, stream};

use super::read::{self, Reading};
use super::waiting::query_bound;
use super::{Inner, MongoStore, explain, totals};
use crate::admission::{self, Means, Share, Turn};
use crate::query::pipeline::Flow;
use crate::query::{Budget, Filter};
use crate::store::evaluate::{self, Evaluation, Reads, Results, Visit, Within, find_query, shown};
use crate::store::question::{NOT_ALLOWED, Split};
use crate::store::{
    AggregateQuery, ChunkedPage, Chunks, Documents, Explanation, FindQuery, Page, StoreError, chunks_of,
};

/// How many bytes of the documents that a `$lookup` has read are kept, in case that the next document asks for the same.
const MOST_KEPT: usize = 16 * 1024 * 1024;

/// A turn for a query that may take long.
async fn turn_unless(is_light: bool) -> Result<Option<Turn>, StoreError> {
    if is_light { Ok(None) } else { Ok(Some(admission::turn().await?)) }
}

/// The documents that the query selects, and with `counts` how many there are in all.
///
/// The server counts only if the page does not tell the number, and nobody remembers it.
async fn page(
    inner: &Arc<Inner>,
    moment: Option<Timestamp>,
    collection: &str,
    query: &FindQuery,
    counts: bool,
) -> Result<Page, StoreError> {
    let started = Instant::now();
    let remembered = async {
        match moment {
            None if counts => totals::remembered(inner, collection, &query.filter).await,
            _ => Ok(None),
        }
    };
    let (documents, remembered) = tokio::join!(read::documents(inner, moment, collection, query), remembered);
    let documents = documents?;
    let left = query.max_time.saturating_sub(started.elapsed());
    let total = match totals::total_from(query, documents.len() as u64) {
        Some(total) => total,
        None if counts => match remembered? {
            Some(total) => total,
            None => totals::count(inner, moment, collection, &query.filter, left).await?,
        },
        None => 0,
    };
    // The server tells the work of a query only in `explain`, which would run it again.
    Ok(Page { documents, total, hint: None })
}

impl MongoStore {
    /// The documents that the query selects, and with `counts` how many there are in all.
    pub(super) async fn page_of(&self, collection: &str, query: &FindQuery, counts: bool) -> Result<Page, StoreError> {
        let Split { plain, rest } = Split::of(query)?;
        if rest.is_nothing() {
            let (turn, moment) = (turn_unless(read::is_light(query)).await?, self.moment);
            let page = move |inner: Arc<Inner>, collection: String, query: FindQuery| async move {
                page(&inner, moment, &collection, &query, counts).await
            };
            return self.ask(query_bound(query.max_time), (collection, &plain), turn, page).await;
        }
        let is_filtered = rest.is_filtered();
        let evaluation = Evaluation::of(rest, counts && is_filtered);
        let (documents, matching) = evaluate::page(self.opened(collection, &plain).await?, evaluation, query).await?;
        let total = match totals::total_from(query, documents.len() as u64) {
            _ if is_filtered => matching,
            Some(total) => total,
            None if counts => self.counted(collection, &query.filter, query.max_time).await?,
            None => 0,
        };
        Ok(Page { documents, total, hint: None })
    }

    /// How many documents match.
    pub(super) async fn counted(
        &self,
        collection: &str,
        filter: &Filter,
        max_time: Duration,
    ) -> Result<u64, StoreError> {
        let all = FindQuery { skip: u64::MAX, ..FindQuery::new(filter.clone(), max_time) };
        let Split { plain, rest } = Split::of(&all)?;
        if !rest.is_nothing() {
            let chunks = self.opened(collection, &plain).await?;
            return Ok(evaluate::page(chunks, Evaluation::of(rest, true), &all).await?.1);
        }
        let turn = turn_unless(read::is_by_key(filter)).await?;
        self.ask(query_bound(max_time), (collection, filter), turn, counting(self.moment, max_time)).await
    }

    /// The documents that the query selects, in chunks.
    pub(super) async fn streamed(&self, collection: &str, query: &FindQuery) -> Result<Chunks, StoreError> {
        let Split { plain, rest } = Split::of(query)?;
        let chunks = self.opened(collection, &plain).await?;
        Ok(evaluate::stream(chunks, Evaluation::of(rest, false), query.max_time))
    }

    /// See [`Store::chunks`](crate::store::Store::chunks).
    pub(super) async fn chunked_page(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        let total = if query.is_counted { self.counted(collection, &query.filter, query.max_time).await? } else { 0 };
        Ok(ChunkedPage { total, hint: None, documents: self.streamed(collection, query).await? })
    }

    /// See [`Store::explain`](crate::store::Store::explain): the plan is that of the part sent to the server.
    pub(super) async fn explained(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        let begun = Instant::now();
        let is_filtered = Split::of(query)?.rest.is_filtered();
        let evaluated = if is_filtered { Some(self.page_of(collection, query, true).await?) } else { None };
        let evaluated = evaluated.map(|page| (page.documents.len() as u64, page.total));
        let taken = u64::try_from(begun.elapsed().as_micros()).ok().filter(|_| is_filtered);
        let explain = move |inner: Arc<Inner>, collection: String, query: FindQuery| async move {
            explain::explain(&inner, &collection, &query, evaluated).await
        };
        let (bound, turn) = (query_bound(query.max_time.saturating_mul(3)), Some(admission::turn().await?));
        let explanation = self.ask(bound, (collection, query), turn, explain).await?;
        Ok(Explanation { time_us: taken.or(explanation.time_us), ..explanation })
    }

    /// See [`Store::aggregate`](crate::store::Store::aggregate).
    pub(super) async fn pipeline(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        query.check_reach()?;
        let pipeline = &query.pipeline;
        let front = pipeline.front();
        if let Some(operator) = pipeline.needs_server_behind(front.stages) {
            let message =
                format!("{operator} selects documents at the front of a pipeline alone; put its $match there");
            return Err(StoreError::Query { code: NOT_ALLOWED, message });
        }
        let max_time = query.max_time;
        let streams = |done| pipeline.is_streaming(done) && pipeline.collections().is_empty();
        let grouped = query.grouped_front();
        if let Some((stages, done)) = grouped
            && streams(done)
        {
            let chunks = self.opened_stages(collection, stages, max_time).await?;
            return Ok(evaluate::applied(chunks, (pipeline.clone(), done), max_time));
        }
        if grouped.is_none() && streams(front.stages) {
            let asked = FindQuery { max_time, ..find_query(&front, &query.guard) };
            let chunks = self.streamed(collection, &asked).await?;
            return Ok(evaluate::applied(chunks, (pipeline.clone(), front.stages), max_time));
        }
        self.gathered(collection, query).await
    }

    /// All results of a pipeline, made on one thread in a turn of the request.
    async fn gathered(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        let end = Instant::now().checked_add(query.max_time);
        // With one moment for all collections that are read.
        let moment =
            if query.pipeline.collections().is_empty() { self.moment } else { self.now(query.max_time).await? };
        let store = Self { inner: Arc::clone(&self.inner), moment };
        let (collection, query) = (collection.to_owned(), query.clone());
        let results = admission::work(move |means| {
            let budget = Budget::until(end).within(means);
            let kept = Lookups { share: means.share(), ..Lookups::default() };
            let reads = OnThread { store: &store, means, end, kept: RefCell::new(kept) };
            let documents = match query.grouped_front() {
                Some((stages, done)) => {
                    let source = Within(&reads, &query.reach, &budget);
                    let results = Results::new(query.max_bytes, means);
                    evaluate::piped((&query.pipeline, done), &source, &budget, results, |visit| {
                        reads.stages(&collection, stages, visit)
                    })
                }
                None => evaluate::results(&reads, &collection, &query, (&budget, means)),
            }?;
            means.hold(documents.bytes())?;
            Ok::<_, StoreError>(documents)
        });
        Ok(chunks_of(results.await??))
    }

    /// What the server gives for a plain question, in chunks.
    async fn opened(&self, collection: &str, plain: &FindQuery) -> Result<Chunks, StoreError> {
        let (bound, turn) = (query_bound(plain.max_time), Some(admission::turn().await?));
        let reading = self.ask(bound, (collection, plain), turn, opening(self.moment)).await?;
        Ok(self.chunked(bound, reading))
    }

    /// The same for stages.
    async fn opened_stages(
        &self,
        collection: &str,
        stages: &[Document],
        max_time: Duration,
    ) -> Result<Chunks, StoreError> {
        let (bound, turn) = (query_bound(max_time), Some(admission::turn().await?));
        let stages = (stages.to_vec(), max_time);
        let reading = self.ask(bound, (collection, &stages), turn, opening_stages(self.moment)).await?;
        Ok(self.chunked(bound, reading))
    }

    /// The chunks of an answer, each read when it is wanted.
    ///
    /// A slow reader neither asks for the next chunk nor gives up. A task of its own ends in time, and holds no
    /// connection.
    fn chunked(&self, bound: Duration, reading: Reading) -> Chunks {
        let store = Self { inner: Arc::clone(&self.inner), moment: self.moment };
        let steps = stream::unfold(Some((store, reading)), move |rest| async move {
            let (store, reading) = rest?;
            let turn = match admission::turn().await {
                Ok(turn) => turn,
                Err(denied) => return Some((Err(denied.into()), None)),
            };
            let step = tokio::spawn(async move {
                let chunk = store.inner.presence.read(bound, next(reading)).await;
                drop(turn);
                (store, chunk)
            });
            match step.await {
                Ok((_, Ok((chunk, _)))) if chunk.is_empty() => None,
                Ok((store, Ok((chunk, reading)))) => Some((Ok(chunk), Some((store, reading)))),
                Ok((_, Err(error))) => Some((Err(error), None)),
                Err(error) => Some((Err(StoreError::backend(error)), None)),
            }
        });
        steps.boxed()
    }
}

async fn next(mut reading: Reading) -> Result<(Documents, Reading), StoreError> {
    Ok((reading.chunk().await?, reading))
}

fn counting(
    moment: Option<Timestamp>,
    max_time: Duration,
) -> impl Fn(Arc<Inner>, String, Filter) -> futures::future::BoxFuture<'static, Result<u64, StoreError>> {
    move |inner, collection, filter| {
        Box::pin(async move { totals::count(&inner, moment, &collection, &filter, max_time).await })
    }
}

fn opening(
    moment: Option<Timestamp>,
) -> impl Fn(Arc<Inner>, String, FindQuery) -> futures::future::BoxFuture<'static, Result<Reading, StoreError>> {
    move |inner, collection, query| Box::pin(async move { read::open(&inner, moment, &collection, &query).await })
}

type Stages = (Vec<Document>, Duration);

fn opening_stages(
    moment: Option<Timestamp>,
) -> impl Fn(Arc<Inner>, String, Stages) -> futures::future::BoxFuture<'static, Result<Reading, StoreError>> {
    move |inner, collection, (stages, max_time)| {
        Box::pin(async move {
            read::open_command(&inner, moment, read::stages_command(&collection, &stages), max_time).await
        })
    }
}

/// The documents of the server, read on the thread of a piece of work, in its turn.
struct OnThread<'a> {
    store: &'a MongoStore,
    means: &'a Means,
    end: Option<Instant>,
    kept: RefCell<Lookups>,
}

/// What was read for the documents before, by the command.
#[derive(Default)]
struct Lookups {
    answers: HashMap<Vec<u8>, Arc<Documents>>,
    bytes: usize,
    share: Share,
}

/// Gets a chunk, and says whether it wants more.
type Take<'t> = &'t mut dyn FnMut(&Documents) -> Result<Flow, StoreError>;

impl Lookups {
    /// Keeps an answer, if there is memory for it.
    fn add(&mut self, command: Vec<u8>, answer: Documents) {
        let bytes = self.bytes + command.len() + answer.bytes();
        if self.share.cover(bytes).is_ok() {
            self.bytes = bytes;
            self.answers.insert(command, Arc::new(answer));
        }
    }
}

impl OnThread<'_> {
    /// Shows what the server makes of these stages.
    fn stages(&self, collection: &str, stages: &[Document], visit: Visit<'_>) -> Result<(), StoreError> {
        let stages = (stages.to_vec(), self.left());
        let asked =
            self.store.ask(query_bound(stages.1), (collection, &stages), None, opening_stages(self.store.moment));
        self.chunks(self.wait(asked)?, &mut |chunk| shown(chunk, visit))
    }

    /// Shows each chunk until `take` has enough.
    fn chunks(&self, mut reading: Reading, take: Take<'_>) -> Result<(), StoreError> {
        loop {
            let (chunk, rest) = self.wait(self.store.inner.presence.read(query_bound(self.left()), next(reading)))?;
            reading = rest;
            if chunk.is_empty() || take(&chunk)?.is_break() {
                return Ok(());
            }
        }
    }

    /// Reads the plain part of a question by `read`, and shows what the rest of it selects.
    fn evaluated(
        &self,
        query: &FindQuery,
        visit: Visit<'_>,
        read: impl FnOnce(&FindQuery, Take<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let query = FindQuery { max_time: self.left(), ..query.clone() };
        let Split { plain, rest } = Split::of(&query)?;
        let (mut evaluation, budget) = (Evaluation::of(rest, false), Budget::until(self.end).within(self.means));
        read(&plain, &mut |chunk| {
            for document in chunk.iter() {
                if evaluation.take(document, &budget, visit)?.is_break() {
                    return Ok(Flow::Break(()));
                }
            }
            Ok(Flow::Continue(()))
        })?;
        evaluation.finish(&budget, visit)
    }

    /// Shows the documents of a plain question.
    fn plain(&self, collection: &str, plain: &FindQuery, take: Take<'_>) -> Result<(), StoreError> {
        let asked = self.store.ask(query_bound(plain.max_time), (collection, plain), None, opening(self.store.moment));
        self.chunks(self.wait(asked)?, take)
    }

    /// The same; documents that were read before are not read again.
    fn plain_once(&self, collection: &str, plain: &FindQuery, take: Take<'_>) -> Result<(), StoreError> {
        let command = bson::serialize_to_vec(&read::command(collection, plain)).map_err(StoreError::backend)?;
        let known = self.kept.borrow().answers.get(&command).cloned();
        if let Some(known) = known {
            return take(&known).map(drop);
        }
        let mut answer = Some(Documents::new());
        self.plain(collection, plain, &mut |chunk| {
            let fits = |answer: &Documents| self.kept.borrow().bytes + answer.bytes() + chunk.bytes() <= MOST_KEPT;
            answer = answer.take().filter(fits);
            if let Some(answer) = &mut answer {
                chunk.iter().for_each(|document| answer.push(document));
            }
            let flow = take(chunk)?;
            if flow.is_break() {
                answer = None;
            }
            Ok(flow)
        })?;
        if let Some(answer) = answer {
            self.kept.borrow_mut().add(command, answer);
        }
        Ok(())
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

impl Reads for OnThread<'_> {
    fn read(&self, collection: &str, query: &FindQuery, visit: Visit<'_>) -> Result<(), StoreError> {
        self.evaluated(query, visit, |plain, take| self.plain(collection, plain, take))
    }

    fn look_up(&self, collection: &str, query: &FindQuery, visit: Visit<'_>) -> Result<(), StoreError> {
        self.evaluated(query, visit, |plain, take| self.plain_once(collection, plain, take))
    }

    fn count(&self, collection: &str, filter: &Filter) -> Result<u64, StoreError> {
        let query = FindQuery::new(filter.clone(), self.left());
        if Split::of(&query)?.rest.is_nothing() {
            let count = counting(self.store.moment, query.max_time);
            return self.wait(self.store.ask(query_bound(query.max_time), (collection, filter), None, count));
        }
        let mut count = 0;
        self.read(collection, &query, &mut |_: &RawDocument| {
            count += 1;
            Ok(Flow::Continue(()))
        })?;
        Ok(count)
    }
}
