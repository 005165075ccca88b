//! A store that passes everything on to another one, and shows its questions to somebody first.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::DateTime;
use bson::raw::RawDocumentBuf;
use inventory_service::store::inspection::Finding;
use inventory_service::store::{
    AggregateQuery, ChunkedPage, Chunks, CollectionSpec, Explanation, FindQuery, Health, Page, Store, StoreError,
    Total, Traits, Unit,
};

/// Who looks at the questions.
#[async_trait]
pub(crate) trait Watcher: Send + Sync + 'static {
    /// Looks at a question for documents before `store` answers it.
    async fn find(
        &self,
        store: &dyn Store,
        collection: &str,
        query: &FindQuery,
        total: Total,
    ) -> Result<(), StoreError>;

    /// Looks at a pipeline before `store` runs it.
    async fn pipeline(&self, _store: &dyn Store, _collection: &str, _query: &AggregateQuery) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The store.
pub(crate) struct Watched<W> {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) watcher: Arc<W>,
}

#[async_trait]
impl<W: Watcher> Store for Watched<W> {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        self.inner.prepare(collections).await
    }

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        self.watcher.find(&*self.inner, collection, query, total).await?;
        self.inner.read(collection, query, total).await
    }

    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError> {
        let inner = self.inner.frozen(max_time).await?;
        Ok(Arc::new(Self { inner, watcher: Arc::clone(&self.watcher) }))
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        self.watcher.find(&*self.inner, collection, query, Total::Asked).await?;
        self.inner.chunks(collection, query).await
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        self.inner.explain(collection, query).await
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        self.watcher.pipeline(&*self.inner, collection, query).await?;
        self.inner.aggregate(collection, query).await
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        self.inner.reserve_ids(collection, count).await
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        self.inner.commit(unit).await
    }

    fn revision(&self, collection: &str) -> u64 {
        self.inner.revision(collection)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        self.inner.health().await
    }

    async fn inspect(&self, collections: &[CollectionSpec], now: DateTime) -> Result<Vec<Finding>, StoreError> {
        self.inner.inspect(collections, now).await
    }

    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
        self.inner.edits_of_others().await
    }

    fn traits(&self) -> Traits {
        self.inner.traits()
    }
}
