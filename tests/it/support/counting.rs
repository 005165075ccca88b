//! A store that counts the questions it is asked, and on demand panics or does something first.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bson::raw::{RawDocument, RawDocumentBuf};
use futures::future::BoxFuture;
use inventory_service::store::inspection::Finding;
use inventory_service::store::{
    AggregateQuery, Change, Chunks, CollectionSpec, Explanation, FindQuery, Health, Page, Store, StoreError, Total,
    Traits, Unit,
};

/// Passes everything on to another store.
pub(crate) struct CountingStore {
    inner: Arc<dyn Store>,
    counter: Counter,
}

/// How many calls there were, and what the store shall do.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<Told>);

#[derive(Default)]
struct Told {
    calls: AtomicUsize,
    panics: AtomicBool,
    is_local: AtomicBool,
    exceeds: AtomicBool,
    is_full: AtomicBool,
    is_slow: AtomicBool,
    largest: AtomicI64,
    others: Mutex<Option<Other>>,
    before_finds: Mutex<Option<Before>>,
    after_commits: Mutex<Duration>,
}

/// What is done before a `find`, by the collection that it asks.
type Before = Arc<dyn Fn(&str) -> BoxFuture<'static, ()> + Send + Sync>;

/// Whether somebody else is faster than a unit.
type Other = Arc<dyn Fn(&Unit) -> bool + Send + Sync>;

impl Counter {
    /// From now on units of which this is true come too late: somebody changed what they rest on.
    pub(crate) fn be_faster(&self, other: impl Fn(&Unit) -> bool + Send + Sync + 'static) {
        *self.0.others.lock().expect("a lock") = Some(Arc::new(other));
    }

    /// Nobody is faster any more.
    pub(crate) fn be_slower(&self) {
        *self.0.others.lock().expect("a lock") = None;
    }

    /// From now on a `find` that has less than a second runs out of time.
    pub(crate) fn be_slow(&self) {
        self.0.is_slow.store(true, Ordering::SeqCst);
    }

    /// How many bytes the largest unit added.
    pub(crate) fn largest_unit(&self) -> i64 {
        self.0.largest.load(Ordering::SeqCst)
    }

    pub(crate) fn calls(&self) -> usize {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// Has the next question panic.
    pub(crate) fn panic_next(&self) {
        self.0.panics.store(true, Ordering::SeqCst);
    }

    /// Has `work` done before each `find` that is not one of its own.
    pub(crate) fn before_finds(&self, work: impl Fn(&str) -> BoxFuture<'static, ()> + Send + Sync + 'static) {
        *self.0.before_finds.lock().expect("a lock") = Some(Arc::new(work));
    }

    /// From now on the store is one of this process, and answers a unit after this pause.
    pub(crate) fn after_commits(&self, pause: Duration) {
        self.0.is_local.store(true, Ordering::SeqCst);
        *self.0.after_commits.lock().expect("a lock") = pause;
    }

    /// From now on a `find` with a bound on its bytes exceeds it.
    pub(crate) fn exceed_bounds(&self) {
        self.0.exceeds.store(true, Ordering::SeqCst);
    }

    /// From now on there is room for units alone that leave less than there was, as on a full disk.
    pub(crate) fn fill_up(&self) {
        self.0.is_full.store(true, Ordering::SeqCst);
    }

    /// There is room again.
    pub(crate) fn make_room(&self) {
        self.0.is_full.store(false, Ordering::SeqCst);
    }

    async fn prepared(&self, collection: &str) {
        // Taken out, so that its own questions do not do it again.
        let work = self.0.before_finds.lock().expect("a lock").take();
        if let Some(work) = work {
            work(collection).await;
            *self.0.before_finds.lock().expect("a lock") = Some(work);
        }
    }

    fn count(&self) {
        assert!(!self.0.panics.swap(false, Ordering::SeqCst), "a defect of the store");
        self.0.calls.fetch_add(1, Ordering::SeqCst);
    }
}

impl CountingStore {
    pub(crate) fn counter() -> Counter {
        Counter::default()
    }

    pub(crate) fn around(inner: Arc<dyn Store>, counter: &Counter) -> Arc<dyn Store> {
        Arc::new(Self { inner, counter: counter.clone() })
    }
}

/// How many bytes of documents a unit adds.
fn growth(unit: &Unit) -> i64 {
    let size = |document: &RawDocument| i64::try_from(document.as_bytes().len()).expect("it is small");
    let growth = |change: &Change| match change {
        Change::Insert { document, .. } => size(document),
        Change::Replace { before, after, .. } => size(after) - size(before),
        Change::Delete { before, .. } => -size(before),
        Change::Append(numbered) => i64::try_from(numbered.bytes).expect("they are small"),
        Change::DeleteMany { .. } | Change::UpdateMany { .. } => 0,
    };
    unit.changes.iter().map(growth).sum()
}

#[async_trait]
impl Store for CountingStore {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        self.inner.prepare(collections).await
    }

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        self.counter.count();
        if total == Total::Unasked {
            self.counter.prepared(collection).await;
            if query.max_bytes < usize::MAX && self.counter.0.exceeds.load(Ordering::SeqCst) {
                return Err(StoreError::TooLarge);
            }
            if query.max_time < Duration::from_secs(1) && self.counter.0.is_slow.load(Ordering::SeqCst) {
                return Err(StoreError::Timeout);
            }
        }
        self.inner.read(collection, query, total).await
    }

    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError> {
        self.counter.count();
        Ok(Self::around(self.inner.frozen(max_time).await?, &self.counter))
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        self.counter.count();
        self.inner.explain(collection, query).await
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        self.counter.count();
        self.inner.aggregate(collection, query).await
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        self.counter.count();
        self.inner.reserve_ids(collection, count).await
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        self.counter.count();
        if self.counter.0.is_full.load(Ordering::SeqCst) && growth(&unit) > 0 {
            return Err(StoreError::NoRoom { what: "a document".to_owned() });
        }
        let other = self.counter.0.others.lock().expect("a lock").clone();
        if other.is_some_and(|is_faster| is_faster(&unit)) {
            return Err(StoreError::Stale);
        }
        self.counter.0.largest.fetch_max(growth(&unit), Ordering::SeqCst);
        let answer = self.inner.commit(unit).await;
        let pause = *self.counter.0.after_commits.lock().expect("a lock");
        tokio::time::sleep(pause).await;
        answer
    }

    fn revision(&self, collection: &str) -> u64 {
        self.inner.revision(collection)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        Ok(Health { is_full: self.counter.0.is_full.load(Ordering::SeqCst), ..self.inner.health().await? })
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: bson::DateTime) -> Result<Vec<Finding>, StoreError> {
        self.inner.inspect(collections, now).await
    }

    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
        self.inner.edits_of_others().await
    }

    fn traits(&self) -> Traits {
        // A test that counts questions counts each of them.
        Traits { is_remote: !self.counter.0.is_local.load(Ordering::SeqCst), ..self.inner.traits() }
    }
}
