//! A store whose calls are counted and timed.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bson::DateTime;
use bson::raw::RawDocumentBuf;

use crate::metrics::Metrics;

use super::inspection::Finding;
use super::{
    AggregateQuery, ChunkedPage, Chunks, CollectionSpec, Explanation, FindQuery, Health, Page, Store, StoreError,
    Total, Traits, Unit,
};

/// Passes everything on to another store.
pub struct Measured {
    inner: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl Measured {
    /// The store, with its calls noted in `metrics`.
    pub fn around(inner: Arc<dyn Store>, metrics: Arc<Metrics>) -> Arc<dyn Store> {
        Arc::new(Self { inner, metrics })
    }

    async fn timed<T>(
        &self,
        operation: &str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let outcome = call.await;
        let name = outcome.as_ref().map_or_else(name_of, |_| "ok");
        self.metrics.store_call(operation, name, begun.elapsed());
        outcome
    }
}

fn name_of(error: &StoreError) -> &'static str {
    match error {
        StoreError::Duplicate { .. } => "duplicate",
        StoreError::Shared(_) => "shared",
        StoreError::Stale => "stale",
        StoreError::Condition { .. } => "condition",
        StoreError::Query { .. } => "query",
        StoreError::Timeout => "timeout",
        StoreError::Busy => "busy",
        StoreError::TooLarge => "too_large",
        StoreError::UnitTooLarge => "unit_too_large",
        StoreError::Unsupported { .. } => "unsupported",
        StoreError::Unavailable { .. } => "unavailable",
        StoreError::NoRoom { .. } => "no_room",
        StoreError::Corrupt { .. } => "corrupt",
        StoreError::Backend { .. } => "backend",
    }
}

#[async_trait]
impl Store for Measured {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        self.timed("prepare", self.inner.prepare(collections)).await
    }

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        let name = match total {
            Total::Unasked => "find",
            Total::Asked => "page",
            Total::Alone => "count",
        };
        self.timed(name, self.inner.read(collection, query, total)).await
    }

    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError> {
        let inner = self.timed("frozen", self.inner.frozen(max_time)).await?;
        Ok(Self::around(inner, Arc::clone(&self.metrics)))
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        self.timed("chunks", self.inner.chunks(collection, query)).await
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        self.timed("explain", self.inner.explain(collection, query)).await
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        self.timed("aggregate", self.inner.aggregate(collection, query)).await
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        self.timed("reserve_ids", self.inner.reserve_ids(collection, count)).await
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        self.timed("commit", self.inner.commit(unit)).await
    }

    fn revision(&self, collection: &str) -> u64 {
        self.inner.revision(collection)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.timed("ping", self.inner.health()).await
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError> {
        self.timed("inspect", self.inner.inspect(collections, now)).await
    }

    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
        self.inner.edits_of_others().await
    }

    fn traits(&self) -> Traits {
        self.inner.traits()
    }
}
