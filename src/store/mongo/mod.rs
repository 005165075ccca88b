//! The store on MongoDB, through the official driver.
//!
//! - Filters and projections of clients reach the server unchanged. Documents come back as the bytes of the server, and
//!   are not decoded here. But expressions that could occupy a server without end are evaluated here: see [`residual`].
//! - Reads go to the primary and return only data that a majority has. On a replica set all documents of one answer come
//!   from one point in time. A write is acknowledged when it is on the disks of a majority.
//! - A server by itself, without a replica set, is refused: it has no transactions and no reads at one point in time.
//! - Operations are separate tasks, so a client that hangs up does not stop one halfway: see [`carried`]. Waiting for
//!   an operation has a bound, and ends at once while no server is there: see [`presence`] and [`waiting`].
//!
//! [`commit`] describes how units keep their conditions.

mod aggregate;
mod carried;
mod change;
mod commit;
mod conditions;
mod connect;
mod counters;
mod dump;
mod error;
mod explain;
mod find;
mod guarded;
mod indexes;
mod inspect;
mod keeper;
mod listing;
mod moment;
mod order;
mod presence;
mod residual;
mod revision;
mod rights;
mod rounds;
mod totals;
mod transaction;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::raw::RawDocumentBuf;
use bson::{DateTime, Timestamp, doc};
use futures::{StreamExt, stream};
use mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use mongodb::{Collection, Database};

use self::commit::Waiting;
use self::connect::Topology;
use self::counters::Counters;
use self::error::command_error;
use self::indexes::IndexNames;
use self::keeper::Keeper;
use self::order::Writers;
use self::presence::Presence;
use self::revision::Revisions;
use self::totals::{Epoch, Totals};
use self::waiting::query_bound;
use super::inspection::Finding;
use super::{
    AggregateQuery, ChunkedPage, Chunks, CollectionSpec, Copying, Documents, Dump, Explanation, FindQuery, Page, Store,
    StoreError, Unit,
};
use crate::admission::{self, Turn};
use crate::query::Filter;

pub use self::connect::MongoOptions;

/// See [`Store::kind`].
const KIND: &str = "mongodb";
/// Units wait for each other and are tried again, for at most this long.
const UNIT_BOUND: Duration = Duration::from_mins(1);
/// A transaction has a minute, and one that waits makes others wait too.
const UNIT_CHANGES: usize = 1000;
const PING_BOUND: Duration = Duration::from_secs(2);
const INSPECT_BOUND: Duration = Duration::from_secs(30);
/// One step of copying a whole store.
const COPY_BOUND: Duration = Duration::from_mins(2);
/// Making an index on a large collection takes its time.
const PREPARE_BOUND: Duration = Duration::from_hours(6);

/// A database on a MongoDB deployment: a replica set, of whatever size, or a sharded cluster.
#[derive(Debug)]
pub struct MongoStore {
    inner: Arc<Inner>,
    /// What documents are read at; as they are now without it.
    moment: Option<Timestamp>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    topology: Topology,
    options: MongoOptions,
    presence: Presence,
    revisions: Arc<Revisions>,
    counters: Counters,
    totals: Totals,
    waiting: Waiting,
    writers: Writers,
    indexes: IndexNames,
    keeper: Arc<Keeper>,
}

impl Inner {
    fn collection(&self, name: &str) -> Collection<RawDocumentBuf> {
        self.database.collection(name)
    }

    /// The same, with writes that do not wait for the server's disk.
    fn unjournaled(&self, name: &str) -> Collection<RawDocumentBuf> {
        let concern = WriteConcern::builder().w(Acknowledgment::Nodes(1)).journal(false).build();
        self.database.collection_with_options(name, CollectionOptions::builder().write_concern(concern).build())
    }

    /// How long one query of a write may take.
    fn write_bound(&self) -> Duration {
        self.options.write_timeout
    }
}

impl MongoStore {
    /// Connects to the deployment and begins to follow its changes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no server answers in time. [`StoreError::Unsupported`] when it is older than
    /// MongoDB 5.0. [`StoreError::Backend`] when the URI is malformed or the login fails.
    pub async fn connect(uri: &str, options: MongoOptions) -> Result<Self, StoreError> {
        let (epoch, presence) = (Epoch::default(), Presence::new(options.server_selection_timeout));
        let (database, topology) = connect::open(uri, &options, &epoch, &presence).await?;
        let revisions = Arc::new(Revisions::new());
        tokio::spawn(revision::tick(Arc::downgrade(&revisions)));
        let keeper = Arc::new(Keeper::default());
        if topology.tells_changes_at_once() {
            let following = (Arc::downgrade(&revisions), Arc::clone(&keeper));
            tokio::spawn(revision::follow(database.clone(), presence.clone(), following));
        }
        let inner = Inner {
            database,
            topology,
            options,
            presence,
            revisions,
            counters: Counters::default(),
            totals: Totals::new(epoch),
            waiting: Waiting::default(),
            writers: Writers::default(),
            indexes: IndexNames::default(),
            keeper: Arc::clone(&keeper),
        };
        let inner = Arc::new(inner);
        tokio::spawn(keeper::run(Arc::downgrade(&inner), keeper));
        Ok(Self { inner, moment: None })
    }

    /// Whether one of the collections exists. Reads no document.
    ///
    /// # Errors
    /// As [`Store::ping`].
    pub async fn has_any(&self, collections: &[CollectionSpec]) -> Result<bool, StoreError> {
        let wanted: Vec<&'static str> = collections.iter().map(|spec| spec.name).collect();
        self.run(INSPECT_BOUND, async move |inner| {
            let named = inner.database.list_collection_names().filter(doc! { "name": { "$in": wanted } });
            Ok(!named.await.map_err(|error| command_error(&error))?.is_empty())
        })
        .await
    }

    /// Runs an operation, see [`Presence::run`].
    async fn run<T, F>(&self, bound: Duration, operation: impl FnOnce(Arc<Inner>) -> F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        self.inner.presence.run(bound, operation(Arc::clone(&self.inner))).await
    }

    /// Runs a query on the collection `about`, see [`Presence::ask`].
    async fn ask<Q, T, F>(
        &self,
        bound: Duration,
        (collection, about): (&str, &Q),
        turn: Option<Turn>,
        question: impl Fn(Arc<Inner>, String, Q) -> F,
    ) -> Result<T, StoreError>
    where
        Q: Clone,
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let turn = Arc::new(turn);
        let ask = || {
            let (turn, asked) =
                (Arc::clone(&turn), question(Arc::clone(&self.inner), collection.to_owned(), about.clone()));
            async move {
                let outcome = asked.await;
                // A query goes on at the server when nobody waits for it any more, and so does its turn.
                drop(turn);
                outcome
            }
        };
        self.inner.presence.ask(bound, ask).await
    }
}

impl MongoStore {
    /// The chunks of an answer, each read when it is wanted.
    ///
    /// A slow reader neither asks for the next chunk nor gives up. A task of its own ends in time, and holds no
    /// connection.
    fn chunked<R, F>(&self, bound: Duration, reading: R, chunk: impl Fn(R) -> F + Clone + Send + 'static) -> Chunks
    where
        R: Send + 'static,
        F: Future<Output = (Result<Documents, StoreError>, R)> + Send + 'static,
    {
        let store = Self { inner: Arc::clone(&self.inner), moment: self.moment };
        let steps = stream::unfold(Some((store, reading)), move |rest| {
            let chunk = chunk.clone();
            async move {
                let (store, reading) = rest?;
                let turn = match admission::turn().await {
                    Ok(turn) => turn,
                    Err(denied) => return Some((Err(denied.into()), None)),
                };
                let reads = chunk(reading);
                let step = tokio::spawn(async move {
                    let chunk = store.inner.presence.read(bound, async move { Ok(reads.await) }).await;
                    drop(turn);
                    (store, chunk)
                });
                let (store, chunk) = match step.await {
                    Ok(outcome) => outcome,
                    Err(error) => return Some((Err(StoreError::backend(error)), None)),
                };
                match chunk {
                    Ok((Ok(chunk), _)) if chunk.is_empty() => None,
                    Ok((Ok(chunk), reading)) => Some((Ok(chunk), Some((store, reading)))),
                    Ok((Err(error), _)) | Err(error) => Some((Err(error), None)),
                }
            }
        });
        steps.boxed()
    }
}

/// A turn for a query that may take long.
async fn turn_unless(is_light: bool) -> Result<Option<Turn>, StoreError> {
    if is_light { Ok(None) } else { Ok(Some(admission::turn().await?)) }
}

#[async_trait]
impl Store for MongoStore {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        let collections = collections.to_vec();
        self.run(PREPARE_BOUND, async move |inner| {
            indexes::prepare(&inner, &collections).await?;
            order::forget_ended(&inner).await?;
            inner.keeper.watch(&collections);
            Ok(())
        })
        .await
    }

    async fn find(&self, collection: &str, query: &FindQuery) -> Result<Documents, StoreError> {
        if !residual::is_bounded(query) {
            return Ok(self.residual_page(collection, query, false).await?.documents);
        }
        let (turn, moment) = (turn_unless(find::is_light(query)).await?, self.moment);
        let find = move |inner: Arc<Inner>, collection: String, query: FindQuery| async move {
            find::find(&inner, moment, &collection, &query).await
        };
        self.ask(query_bound(query.max_time), (collection, query), turn, find).await
    }

    async fn page(&self, collection: &str, query: &FindQuery) -> Result<Page, StoreError> {
        if !residual::is_bounded(query) {
            return self.residual_page(collection, query, true).await;
        }
        let (turn, moment) = (turn_unless(find::is_light(query)).await?, self.moment);
        let page = move |inner: Arc<Inner>, collection: String, query: FindQuery| async move {
            find::page(&inner, moment, &collection, &query).await
        };
        self.ask(query_bound(query.max_time), (collection, query), turn, page).await
    }

    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError> {
        let moment = match self.moment {
            Some(moment) => Some(moment),
            None => {
                let now = |inner: Arc<Inner>, _, ()| async move { moment::now(&inner).await };
                self.ask(query_bound(max_time), (super::SCOPES, &()), None, now).await?
            }
        };
        Ok(Arc::new(Self { inner: Arc::clone(&self.inner), moment }))
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        if !residual::is_bounded(query) {
            return self.residual_chunks(collection, query).await;
        }
        let (bound, moment) = (query_bound(query.max_time), self.moment);
        let begin = move |inner: Arc<Inner>, collection: String, query: FindQuery| async move {
            find::chunks(&inner, moment, &collection, &query).await
        };
        let (total, reading) = self.ask(bound, (collection, query), Some(admission::turn().await?), begin).await?;
        let chunk = async move |mut reading: find::CursorReading| (reading.chunk().await, reading);
        Ok(ChunkedPage { total, hint: None, documents: self.chunked(bound, reading, chunk) })
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        query.check_reach()?;
        if let Some(front) = query.pipeline.bounded_front() {
            return self.residual_stages(collection, query, front).await;
        }
        let bound = query_bound(query.max_time);
        let begin = async move |inner: Arc<Inner>, collection: String, query: AggregateQuery| {
            aggregate::open(&inner, &collection, &query).await
        };
        let reading = self.ask(bound, (collection, query), Some(admission::turn().await?), begin).await?;
        let chunk = async move |mut reading: aggregate::Reading| (reading.chunk().await, reading);
        Ok(self.chunked(bound, reading, chunk))
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        if !residual::is_bounded(query) {
            return self.residual_explanation(collection, query).await;
        }
        let bound = query_bound(query.max_time.saturating_mul(3));
        let turn = Some(admission::turn().await?);
        self.ask(bound, (collection, query), turn, async move |inner, collection, query| {
            explain::explain(&inner, &collection, &query).await
        })
        .await
    }

    async fn count(&self, collection: &str, filter: &Filter, max_time: Duration) -> Result<u64, StoreError> {
        if !filter.is_bounded() {
            return self.residual_count(collection, filter, max_time).await;
        }
        let moment = self.moment;
        let count = move |inner: Arc<Inner>, collection: String, filter: Filter| async move {
            totals::count(&inner, moment, &collection, &filter, max_time).await
        };
        let turn = turn_unless(find::is_by_key(filter)).await?;
        self.ask(query_bound(max_time), (collection, filter), turn, count).await
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        let collection = collection.to_owned();
        let bound = query_bound(self.inner.write_bound());
        self.run(bound, async move |inner| counters::reserve(&inner, &collection, count).await).await
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        self.inner.keeper.admit(&unit)?;
        self.run(UNIT_BOUND, async move |inner| commit::commit(&inner, unit).await).await
    }

    fn revision(&self, collection: &str) -> u64 {
        self.inner.revisions.of(collection)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.run(PING_BOUND, async |inner| {
            let answer = inner.database.run_command(doc! { "ping": 1 }).await;
            answer.map(drop).map_err(|error| command_error(&error))
        })
        .await
    }

    fn lacks(&self) -> Vec<String> {
        self.inner.keeper.lacks()
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError> {
        let collections = collections.to_vec();
        self.run(INSPECT_BOUND, async move |inner| inspect::inspect(&inner, &collections, now).await).await
    }

    fn largest_unit(&self) -> usize {
        UNIT_CHANGES
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn kind(&self) -> &'static str {
        KIND
    }
}

#[async_trait]
impl Copying for MongoStore {
    async fn dump(&self) -> Result<Box<dyn Dump>, StoreError> {
        let session = self.run(COPY_BOUND, async |inner| dump::SessionDump::open(&inner).await).await?;
        Ok(Box::new(session))
    }

    async fn live_dump(&self) -> Result<Box<dyn Dump>, StoreError> {
        let session = self.run(COPY_BOUND, async |inner| dump::SessionDump::open_live(&inner).await).await?;
        Ok(Box::new(session))
    }

    async fn append(&self, collection: &str, documents: Documents) -> Result<(), StoreError> {
        let collection = collection.to_owned();
        self.run(COPY_BOUND, async move |inner| dump::append(&inner, &collection, &documents).await).await
    }

    async fn clear(&self, collection: &str) -> Result<(), StoreError> {
        let collection = collection.to_owned();
        self.run(COPY_BOUND, async move |inner| {
            inner.keeper.let_go(&collection);
            dump::clear(&inner, &collection).await
        })
        .await
    }
}
