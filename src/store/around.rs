//! Stores that change units on their way to another store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::DateTime;
use bson::raw::RawDocumentBuf;

use super::inspection::Finding;
use super::{
    AggregateQuery, ChunkedPage, Chunks, CollectionSpec, Explanation, FindQuery, Health, Page, Store, StoreError,
    Total, Traits, Unit,
};

/// A [`Store`] that passes everything on to another one, and units in its own way.
#[async_trait]
pub trait Around: Send + Sync + 'static {
    /// The other store.
    fn inner(&self) -> &dyn Store;

    /// [`Store::commit`].
    ///
    /// # Errors
    /// Those of [`Store::commit`].
    async fn commit_around(&self, unit: Unit) -> Result<Vec<u64>, StoreError>;

    /// Ids of a collection were reserved through this store: the first of them, and how many.
    fn note_reserved(&self, _collection: &str, _first: i64, _count: u32) {}
}

#[async_trait]
impl<S: Around> Store for S {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        self.inner().prepare(collections).await
    }

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        self.inner().read(collection, query, total).await
    }

    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError> {
        self.inner().frozen(max_time).await
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        self.inner().chunks(collection, query).await
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        self.inner().explain(collection, query).await
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        self.inner().aggregate(collection, query).await
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        let first = self.inner().reserve_ids(collection, count).await?;
        self.note_reserved(collection, first, count);
        Ok(first)
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        self.commit_around(unit).await
    }

    fn revision(&self, collection: &str) -> u64 {
        self.inner().revision(collection)
    }

    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
        self.inner().edits_of_others().await
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.inner().health().await
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError> {
        self.inner().inspect(collections, now).await
    }

    fn traits(&self) -> Traits {
        self.inner().traits()
    }
}
