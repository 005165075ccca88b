//! The store port: one trait over documents and query values, implemented by every store.
//!
//! Laws that every adapter keeps, and that `tests/it/contract` checks on each of them:
//!
//! - A query means what MongoDB's manual says it means; the adapters give equal answers.
//! - An acknowledged write is on disk (MongoDB: on the disks of a majority).
//! - A [`Unit`] happens as a whole or leaves no trace, and its conditions hold when it takes effect.
//! - Units take effect one after the other, on all instances together. [`Numbered`] documents have numbers in this order.
//! - No adapter reads the clock or generates identifiers: both come with the call.

mod aggregate;
mod around;
mod best;
pub mod collections;
pub mod copying;
pub mod embedded;
mod error;
pub(crate) mod evaluate;
mod explanation;
mod hint;
pub mod inspection;
mod measured;
#[expect(clippy::disallowed_types, reason = "the one place that talks to the driver")]
pub mod mongo;
mod question;

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{DateTime, Document};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use self::inspection::Finding;
use crate::query::{Filter, Projection, Sort, Update};

pub use self::aggregate::{AggregateQuery, Reach, gathered};
pub use self::around::{Around, Located};
pub(crate) use self::best::Best;
pub use self::collections::{CollectionSpec, Equals, IndexKey, IndexSpec, Literal};
pub use self::copying::FileStore;
pub use self::copying::{Copying, Dump};
pub use self::error::{Shared, StoreError};
pub use self::explanation::{Explanation, IndexUse, KeyUse, LookedUp, SortedBy, Step, TotalFrom};
pub use self::hint::Hint;
pub use self::measured::Measured;

/// Where the documents live.
///
/// Collections are addressed by the name that MongoDB tools see, for instance `framework.objects`.
/// A collection that was never written to is empty, not an error.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Creates the collections and indexes that do not exist yet.
    ///
    /// Call it before anything else. May be called again, also with other collections.
    ///
    /// # Errors
    /// MUST be [`StoreError::Duplicate`] when stored documents violate a unique index that it creates.
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError>;

    /// The documents that the query selects, in the order of its sort, and the number of all that its filter matches, as far as
    /// that is asked for.
    ///
    /// Without a sort the embedded store gives insertion order, and MongoDB its own order. All come from one point in
    /// time (on MongoDB not through a router). The embedded store takes the total from the same snapshot; on MongoDB it is a
    /// query of its own.
    ///
    /// # Errors
    /// MUST be [`StoreError::Query`] when evaluating the query failed on a document. MUST be [`StoreError::Timeout`]
    /// when its time budget ran out, and [`StoreError::Busy`] when there is no memory or no turn for it.
    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError>;

    /// This store as it is now, for questions alone: all its answers come from one point in time, whatever is written
    /// meanwhile. It is held no longer than a request lasts.
    ///
    /// MongoDB has no such point of a collection or an index that was made within the last seconds: then each answer is of
    /// its own time.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError>;

    /// Like [`Store::read`], with the total, for answers that are too large for memory: gives them in chunks.
    ///
    /// The chunks come from one point in time, as there. On the embedded store, chunks that are read after
    /// a minute come from the newest snapshot, without documents that no longer match.
    ///
    /// # Errors
    /// As [`Store::read`]; the same errors may come instead of a chunk.
    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        Ok(ChunkedPage::of(self.read(collection, query, Total::Asked).await?))
    }

    /// Runs the query as [`Store::read`] does, with the total, and returns how the answer was found instead of the answer.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError>;

    /// The results of a pipeline, in chunks.
    ///
    /// Results that need no others come one after the other, as in [`Store::chunks`]; all others are made first. Without a
    /// sort the embedded store reads documents in insertion order, and MongoDB in its own order. All documents, those of other
    /// collections included, come from one point in time while the results are made (on MongoDB not through a router).
    ///
    /// # Errors
    /// As [`Store::read`]; [`StoreError::TooLarge`] when results that must be held have more than `max_bytes`. MUST be
    /// [`StoreError::Query`] when the pipeline reads a collection beyond its reach. The same errors may come instead of a chunk.
    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError>;

    /// Takes `count` consecutive `public_id`s out of the collection's counter and returns the first.
    ///
    /// No two calls ever get the same id, on any instance. An id that was ever stored is never given again. One exception: a primary of
    /// MongoDB that is lost can take along the last ids that it gave for single documents. Its successor can give them to another
    /// instance, and of two units that store the same one, the later is refused as a duplicate.
    ///
    /// # Errors
    /// MUST be [`StoreError::Unavailable`] when the store is away.
    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError>;

    /// Commits a unit of changes: all of them, or none.
    ///
    /// Returns for each change how many documents it touched. Inserting a document raises the collection's counter to
    /// at least its `public_id`, in the same step.
    ///
    /// # Errors
    /// - MUST be [`StoreError::Duplicate`] when a unique index refuses a document;
    /// - MUST be [`StoreError::Stale`] when a document to replace or remove differs from the one in the change;
    /// - MUST be [`StoreError::Condition`] when a condition does not hold.
    ///
    /// After each of these nothing has changed.
    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError>;

    /// A number that differs after each change of the collection; equal numbers mean that nothing changed. No number
    /// repeats, not even after a restart. While the store cannot be read each call gives a new number, so no cache
    /// counts as current.
    ///
    /// Costs no round trip. Changes made through this store show at once, those of other instances
    /// and tools within one second.
    fn revision(&self, collection: &str) -> u64;

    /// Waits for documents of collections [`WITH_HISTORY`](collections::WITH_HISTORY) that somebody else changed, without an entry
    /// of the history in the same unit, since this was first called. Each has `public_id` and `type_id`, as they are or
    /// were last. Never returns on a store that nobody else changes, or that does not report it.
    ///
    /// # Errors
    /// As [`Store::find`]; the next call then gives the same documents. Also once when some may have been missed, as at the
    /// first call.
    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError>;

    /// What is wrong with the store, as far as it is in use.
    ///
    /// # Errors
    /// MUST be [`StoreError::Unavailable`] when it cannot be reached.
    async fn health(&self) -> Result<Health, StoreError>;

    /// Findings for an operator: missing indexes of these collections, clocks that disagree with `now`, free space on
    /// the disk. Changes nothing.
    ///
    /// # Errors
    /// MUST be [`StoreError::Unavailable`] when the store cannot be reached.
    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError>;

    /// What sort of store it is.
    fn traits(&self) -> Traits;

    // The following is built on the methods above; no adapter writes it.

    /// The documents alone, see [`Store::read`].
    ///
    /// # Errors
    /// As there.
    async fn find(&self, collection: &str, query: &FindQuery) -> Result<Documents, StoreError> {
        Ok(self.read(collection, query, Total::Unasked).await?.documents)
    }

    /// The documents and the total, see [`Store::read`].
    ///
    /// # Errors
    /// As there.
    async fn page(&self, collection: &str, query: &FindQuery) -> Result<Page, StoreError> {
        self.read(collection, query, Total::Asked).await
    }

    /// The first document of the query.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn first(&self, collection: &str, query: FindQuery) -> Result<Option<RawDocumentBuf>, StoreError> {
        Ok(self.find(collection, &query.limited(1)).await?.first().map(RawDocument::to_owned))
    }

    /// Whether any document matches.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn has_any(&self, collection: &str, filter: Filter, max_time: Duration) -> Result<bool, StoreError> {
        Ok(!self.find(collection, &FindQuery::new(filter, max_time).limited(1)).await?.is_empty())
    }

    /// How many documents match.
    ///
    /// # Errors
    /// As [`Store::read`].
    async fn count(&self, collection: &str, filter: &Filter, max_time: Duration) -> Result<u64, StoreError> {
        Ok(self.read(collection, &FindQuery::new(filter.clone(), max_time), Total::Alone).await?.total)
    }

    /// Whether each query goes over the network, so that fetching a little more at once saves time.
    fn is_remote(&self) -> bool {
        self.traits().is_remote
    }

    /// See [`Traits::largest_unit`].
    fn largest_unit(&self) -> usize {
        self.traits().largest_unit
    }

    /// `embedded` or `mongodb`.
    fn kind(&self) -> &'static str {
        self.traits().kind
    }
}

/// Whether the number of all documents is wanted that a filter matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// No: the documents alone.
    Unasked,
    /// Yes, in addition to the documents.
    Asked,
    /// Without documents. The page of the query does not matter.
    Alone,
}

/// What sort of store it is.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// `embedded` or `mongodb`.
    pub kind: &'static str,
    /// Whether each query goes over the network.
    pub is_remote: bool,
    /// How many changes one unit may have; larger work takes several units. With [`usize::MAX`], only memory bounds a unit.
    pub largest_unit: usize,
    /// Whether [`Store::edits_of_others`] gives all edits, or nobody else can make any.
    pub tells_edits: bool,
}

/// What is wrong with a store in use.
#[derive(Debug, Clone, Default)]
pub struct Health {
    /// Unique indexes that are missing, in words. Such a store MUST refuse units that only they could check, as
    /// [`StoreError::Unavailable`].
    pub lacks: Vec<String>,
    /// Whether this process has read stored bytes that are not what was written. Stays so until the process ends.
    pub is_damaged: bool,
    /// Whether the last write that adds something found no room on the disk.
    pub is_full: bool,
}

impl Health {
    /// Whether every kind of write can succeed.
    pub fn is_writable(&self) -> bool {
        self.lacks.is_empty() && !self.is_damaged && !self.is_full
    }
}

/// A query on a collection.
#[derive(Debug, Clone)]
pub struct FindQuery {
    /// Which documents.
    pub filter: Filter,
    /// Which of their fields; `None`: whole documents, byte for byte as stored.
    pub projection: Option<Projection>,
    /// In which order; an empty sort is insertion order.
    pub sort: Sort,
    /// How many to pass over, after sorting.
    pub skip: u64,
    /// The maximum number of documents; 0: all.
    pub limit: u64,
    /// The time budget.
    pub max_time: Duration,
    /// How many bytes of documents [`Store::read`] may give; more are [`StoreError::TooLarge`].
    pub max_bytes: usize,
    /// Whether [`Store::chunks`] counts how many documents match in all. A store may count where it costs nothing.
    pub is_counted: bool,
    /// Whether documents may come in any order where there is no sort. Then a limit ends the search.
    pub any_order: bool,
}

impl FindQuery {
    /// All documents that `filter` matches, whole, in insertion order.
    pub fn new(filter: Filter, max_time: Duration) -> Self {
        let (projection, sort, max_bytes) = (None, Sort::default(), usize::MAX);
        Self { filter, projection, sort, skip: 0, limit: 0, max_time, max_bytes, is_counted: true, any_order: false }
    }

    /// The same query for these members alone, which the code names.
    ///
    /// # Panics
    /// When it is not a projection.
    #[must_use]
    pub fn showing(mut self, members: &Document) -> Self {
        self.projection = Some(Projection::parse(members, &self.filter).expect("the members are plain names"));
        self
    }

    /// The same query with a sort.
    #[must_use]
    pub fn sorted(mut self, sort: Sort) -> Self {
        self.sort = sort;
        self
    }

    /// The same query for documents in any order, if it has no sort.
    #[must_use]
    pub fn in_any_order(mut self) -> Self {
        self.any_order = self.sort.is_empty() && !self.sort.is_reversed();
        self
    }

    /// The same query with at most `limit` documents (0: all).
    #[must_use]
    pub fn limited(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// The same query for at most this many bytes of documents.
    #[must_use]
    pub fn within(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }
}

/// Documents in one piece of memory, in order.
#[derive(Debug, Clone, Default)]
pub struct Documents {
    bytes: Vec<u8>,
    /// Where the second and each later document begins. No document is empty. A single one needs no list.
    starts: Vec<usize>,
}

impl Documents {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of this document alone.
    pub fn of_one(document: &RawDocument) -> Self {
        Self { bytes: document.as_bytes().to_vec(), starts: Vec::new() }
    }

    /// Reserves memory for this number of documents of about this size in bytes each, within a bound. It reserves half as
    /// much again, because moving all documents costs more than unused memory.
    pub fn reserve(&mut self, documents: usize, bytes: usize) {
        self.starts.reserve(documents.min(10_000));
        self.bytes.reserve(documents.saturating_mul(bytes + bytes / 2).min(1024 * 1024));
    }

    /// Appends a copy of the document.
    pub fn push(&mut self, document: &RawDocument) {
        if !self.is_empty() {
            self.starts.push(self.bytes.len());
        }
        self.bytes.extend_from_slice(document.as_bytes());
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        if self.is_empty() { 0 } else { 1 + self.starts.len() }
    }

    /// How many bytes they have together.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The document at `index`.
    pub fn get(&self, index: usize) -> Option<&RawDocument> {
        if index >= self.len() {
            return None;
        }
        let start = if index == 0 { 0 } else { self.starts[index - 1] };
        let end = self.starts.get(index).copied().unwrap_or(self.bytes.len());
        Some(RawDocument::from_bytes(&self.bytes[start..end]).expect("only whole documents are pushed"))
    }

    /// The first document.
    pub fn first(&self) -> Option<&RawDocument> {
        self.get(0)
    }

    /// The documents in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &RawDocument> {
        (0..self.len()).map(|index| self.get(index).expect("the index is below the length"))
    }
}

impl<'a> FromIterator<&'a RawDocument> for Documents {
    fn from_iter<I: IntoIterator<Item = &'a RawDocument>>(documents: I) -> Self {
        let mut all = Self::new();
        for document in documents {
            all.push(document);
        }
        all
    }
}

/// One page of a query's answer.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The documents of this page.
    pub documents: Documents,
    /// How many documents the filter matches in all.
    pub total: u64,
    /// The hint about the work of the query. Always empty if the store would need a second query for it.
    pub hint: Option<Hint>,
}

/// Changes that belong together, with what must hold for them.
#[derive(Debug, Clone, Default)]
pub struct Unit {
    /// The conditions that must hold when the unit takes effect. They are checked before its changes.
    pub conditions: Vec<Condition>,
    /// The changes, in this order; later changes see the earlier ones.
    pub changes: Vec<Change>,
}

impl Unit {
    /// A unit of one change without conditions.
    pub fn of(change: Change) -> Self {
        Self { conditions: Vec::new(), changes: vec![change] }
    }

    /// The same unit with a further change.
    #[must_use]
    pub fn and(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }

    /// The same unit with a further condition.
    #[must_use]
    pub fn given(mut self, condition: Condition) -> Self {
        self.conditions.push(condition);
        self
    }
}

/// What must hold for a [`Unit`] to take effect.
///
/// Two units that contradict each other never both succeed, however they overlap. For instance, one inserts an object
/// if its type [`Exists`](Condition::Exists), and the other deletes the type if [`None`](Condition::None) of its
/// objects exists.
#[derive(Debug, Clone)]
pub enum Condition {
    /// At least one document of the collection matches.
    Exists {
        /// The collection's name.
        collection: &'static str,
        /// What the document must match. Use a key (`public_id`), because each write runs this query.
        filter: Filter,
    },
    /// No document of the collection matches. The unit must remove or replace the document that such documents would
    /// refer to, by [`Change::Delete`] or [`Change::Replace`]. Otherwise the condition holds only at one moment of the
    /// write, and another unit may store such a document right after.
    None {
        /// The collection's name.
        collection: &'static str,
        /// What no document may match.
        filter: Filter,
    },
    /// No other unit with the same `scope` took effect since [`scope_version`] gave the number `at`.
    /// Taking effect moves the number on. For rules that no filter can state, such as "no cycles".
    Unchanged {
        /// What is being serialised, for instance `framework.categories`.
        scope: Cow<'static, str>,
        /// The number that [`scope_version`] gave before the caller looked at the data.
        at: i64,
    },
}

/// One change of stored documents.
#[derive(Debug, Clone)]
pub enum Change {
    /// Stores a new document. It has an `_id`.
    Insert {
        /// The collection's name.
        collection: &'static str,
        /// The document.
        document: RawDocumentBuf,
    },
    /// Replaces `before` with `after`; both have the same `_id`.
    Replace {
        /// The collection's name.
        collection: &'static str,
        /// The document as it was read. Another one by now: [`StoreError::Stale`].
        before: RawDocumentBuf,
        /// The document as it shall be.
        after: RawDocumentBuf,
    },
    /// Removes a document.
    Delete {
        /// The collection's name.
        collection: &'static str,
        /// The document as it was read. Another one by now: [`StoreError::Stale`].
        before: RawDocumentBuf,
    },
    /// Removes all documents that match.
    DeleteMany {
        /// The collection's name.
        collection: &'static str,
        /// Which ones.
        filter: Filter,
    },
    /// Changes members of all documents that match.
    UpdateMany {
        /// The collection's name.
        collection: &'static str,
        /// Which ones.
        filter: Filter,
        /// What to change in them.
        update: Update,
    },
    /// Stores new documents with numbers that follow the order of units.
    Append(Numbered),
}

/// New documents, each with a number of the one order in which units take effect.
///
/// A unit that takes effect later has larger numbers, on whatever instance. So a reader who has met a number will meet no
/// smaller one later. Numbers may be missing.
#[derive(Clone)]
pub struct Numbered {
    /// The collection's name.
    pub collection: &'static str,
    /// The numbers are larger than this one.
    pub floor: i64,
    /// How many documents there are.
    pub count: u32,
    /// About how many bytes they have together.
    pub bytes: usize,
    /// Gives the documents for consecutive numbers from this one on. A unit that is tried again gets other numbers.
    pub documents: Arc<dyn Fn(i64) -> Vec<RawDocumentBuf> + Send + Sync>,
}

impl fmt::Debug for Numbered {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} documents of {} with numbers after {}", self.count, self.collection, self.floor)
    }
}

impl Condition {
    /// There is a document with this id.
    pub fn exists(collection: &'static str, public_id: i64) -> Self {
        Self::Exists { collection, filter: Filter::equals("public_id", public_id) }
    }
}

impl Change {
    /// Stores a document, in place of the one that was read, if there was one.
    pub fn put(collection: &'static str, before: Option<RawDocumentBuf>, after: RawDocumentBuf) -> Self {
        match before {
            Some(before) => Self::Replace { collection, before, after },
            None => Self::Insert { collection, document: after },
        }
    }

    /// What makes one state of a document the other; nothing where there is no document before and after.
    pub fn between(
        collection: &'static str,
        before: Option<RawDocumentBuf>,
        after: Option<RawDocumentBuf>,
    ) -> Option<Self> {
        match (before, after) {
            (before, Some(after)) => Some(Self::put(collection, before, after)),
            (Some(before), None) => Some(Self::Delete { collection, before }),
            (None, None) => None,
        }
    }

    /// The collection that it is about.
    pub fn collection(&self) -> &'static str {
        match self {
            Self::Append(Numbered { collection, .. })
            | Self::Insert { collection, .. }
            | Self::Replace { collection, .. }
            | Self::Delete { collection, .. }
            | Self::DeleteMany { collection, .. }
            | Self::UpdateMany { collection, .. } => collection,
        }
    }
}

/// The first documents of a query with a limit: as many as fit into the given bytes, but one in any case.
///
/// # Errors
/// As [`Store::find`].
pub async fn as_fits(
    store: &dyn Store,
    collection: &str,
    query: FindQuery,
    max_bytes: usize,
) -> Result<Documents, StoreError> {
    let mut query = query.within(max_bytes);
    loop {
        match store.find(collection, &query).await {
            Err(StoreError::TooLarge) if query.limit > 1 => query.limit /= 2,
            Err(StoreError::TooLarge) => query.max_bytes = usize::MAX,
            found => return found,
        }
    }
}

/// The collection that holds the counters of [`Condition::Unchanged`]: `{_id: scope, at: Int64}`.
pub const SCOPES: &str = "service.scopes";

/// Reads the number of a scope for [`Condition::Unchanged`]; 0 for a scope that was never used.
///
/// # Errors
/// As [`Store::find`]; [`StoreError::Corrupt`] when the stored number is not one.
pub async fn scope_version(store: &dyn Store, scope: &str, max_time: Duration) -> Result<i64, StoreError> {
    match store.first(SCOPES, FindQuery::new(Filter::equals("_id", scope), max_time)).await? {
        None => Ok(0),
        Some(document) => document
            .get_i64("at")
            .map_err(|_| StoreError::Corrupt { what: format!("the counter of the scope {scope}") }),
    }
}

/// The next number for [`Store::revision`].
///
/// *Invariant:* no number repeats: not for two moments of one collection, nor in two stores, nor after a restart. The first
/// number of a process is random, so that two processes have different numbers. Half of all numbers lie above it.
static NEXT_REVISION: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(rand::random::<u64>() >> 1));

/// A number for [`Store::revision`] that was never given out.
fn fresh_revision() -> u64 {
    NEXT_REVISION.fetch_add(1, Ordering::Relaxed)
}

/// A chunk ends with the document that brings it to this many bytes. A slow reader keeps the JSON of one chunk in
/// memory.
pub const CHUNK_BYTES: usize = 128 * 1024;
/// A chunk has at most this many documents.
pub const CHUNK_DOCUMENTS: usize = 500;

/// Documents in order, in chunks; no chunk is empty. An error ends the stream.
pub type Chunks = BoxStream<'static, Result<Documents, StoreError>>;

/// Documents that are in memory already, as chunks.
pub fn chunks_of(documents: Documents) -> Chunks {
    stream::iter((!documents.is_empty()).then_some(Ok(documents))).boxed()
}

/// The documents of an answer in chunks, and their total number.
pub struct ChunkedPage {
    /// How many documents the filter matches, those before and after the answer included.
    pub total: u64,
    /// The hint about the work of finding them, see [`Page::hint`].
    pub hint: Option<Hint>,
    /// The documents in order; no chunk is empty. An error ends the stream.
    pub documents: Chunks,
}

impl ChunkedPage {
    /// An answer that is in memory already.
    pub fn of(page: Page) -> Self {
        Self { total: page.total, hint: page.hint, documents: chunks_of(page.documents) }
    }
}

impl std::fmt::Debug for ChunkedPage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ChunkedPage").field("total", &self.total).finish_non_exhaustive()
    }
}
