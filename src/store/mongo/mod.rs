//! The store on MongoDB, through the official driver.
//!
//! - The plain part of a question reaches the server as the client wrote it: see [`read`]. Documents come back as the bytes of
//!   the server. The rest of the question is evaluated on them in the service: see [`answer`].
//! - Reads go to the primary and return only data that a majority has. On a replica set all documents of one answer come
//!   from one point in time. A write is acknowledged when it is on the disks of a majority.
//! - A standalone server, without a replica set, is refused: it has no transactions and no reads at one point in time.
//! - Operations are separate tasks, so a client that hangs up does not stop one halfway: see [`waiting`]. Waiting for
//!   an operation has a bound, and ends at once while no server is there: see [`presence`].
//!
//! [`commit`] describes how units keep their conditions.

mod answer;
mod change;
mod commit;
mod conditions;
mod connect;
mod counters;
mod dump;
mod error;
mod explain;
mod footprint;
mod indexes;
mod inspect;
mod keeper;
mod order;
mod others;
mod planned;
mod presence;
mod read;
mod revision;
mod rounds;
mod totals;
mod transaction;
mod views;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::raw::RawDocumentBuf;
use bson::{DateTime, Timestamp, doc};
use mongodb::options::{Acknowledgment, CollectionOptions, WriteConcern};
use mongodb::{Collection, Database};

use self::commit::Waiting;
use self::connect::Topology;
use self::counters::Counters;
use self::error::{IndexNames, command_error};
use self::keeper::Keeper;
use self::order::Writers;
use self::others::Others;
use self::presence::{Epoch, Presence};
use self::revision::{Listeners, Revisions};
use self::totals::Totals;
use self::waiting::query_bound;
use super::inspection::Finding;
use super::{
    AggregateQuery, ChunkedPage, Chunks, CollectionSpec, Copying, Documents, Dump, Explanation, FindQuery, Health,
    Page, Store, StoreError, Total, Traits, Unit,
};
use crate::admission::Turn;

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
    others: Arc<Others>,
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
        let (keeper, others) = (Arc::new(Keeper::default()), Arc::new(Others::default()));
        if topology.tells_changes_at_once() {
            let following = Listeners {
                revisions: Arc::downgrade(&revisions),
                keeper: Arc::clone(&keeper),
                others: Arc::clone(&others),
            };
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
            others,
        };
        let inner = Arc::new(inner);
        tokio::spawn(keeper::run(Arc::downgrade(&inner), keeper));
        Ok(Self { inner, moment: None })
    }

    /// Whether one of the collections exists. Reads no document.
    ///
    /// # Errors
    /// As [`Store::health`].
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

    /// The moment that documents are read at; the present one if there is none yet.
    async fn now(&self, max_time: Duration) -> Result<Option<Timestamp>, StoreError> {
        if self.moment.is_some() {
            return Ok(self.moment);
        }
        let now = |inner: Arc<Inner>, _, ()| async move { dump::present_moment(&inner).await };
        self.ask(query_bound(max_time), (super::SCOPES, &()), None, now).await
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
                // A query runs on at the server when nobody waits for it any more, so it keeps its turn.
                drop(turn);
                outcome
            }
        };
        self.inner.presence.ask(bound, ask).await
    }
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

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        if total == Total::Alone {
            let total = self.counted(collection, &query.filter, query.max_time).await?;
            return Ok(Page { total, ..Page::default() });
        }
        self.page_of(collection, query, total == Total::Asked).await
    }

    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(Self { inner: Arc::clone(&self.inner), moment: self.now(max_time).await? }))
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        self.chunked_page(collection, query).await
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        self.pipeline(collection, query).await
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        self.explained(collection, query).await
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

    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
        others::next(&self.inner).await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.run(PING_BOUND, async |inner| {
            let answer = inner.database.run_command(doc! { "ping": 1 }).await;
            answer.map(drop).map_err(|error| command_error(&error))
        })
        .await?;
        Ok(Health { lacks: self.inner.keeper.lacks(), ..Health::default() })
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError> {
        let collections = collections.to_vec();
        self.run(INSPECT_BOUND, async move |inner| inspect::inspect(&inner, &collections, now).await).await
    }

    fn traits(&self) -> Traits {
        let tells_edits = self.inner.topology.tells_changes_at_once();
        Traits { kind: KIND, is_remote: true, largest_unit: UNIT_CHANGES, tells_edits }
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
