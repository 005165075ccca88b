//! Stores that change units on their way to another store.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::DateTime;
use bson::raw::RawDocumentBuf;

use super::inspection::Finding;
use super::{
    AggregateQuery, ChunkedPage, Chunks, CollectionSpec, Documents, Explanation, FindQuery, Health, Page, Store,
    StoreError, Total, Traits, Unit,
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

    /// Locates the documents of a query by keys of its own, if this store has such keys.
    ///
    /// # Errors
    /// Those of [`Store::read`].
    async fn locate(&self, _: &str, _: &FindQuery, _: Total) -> Result<Option<Located>, StoreError> {
        Ok(None)
    }

    /// How they are located, see [`Store::explain`].
    ///
    /// # Errors
    /// Those of [`Store::explain`].
    async fn explain_located(&self, _: &str, _: &FindQuery) -> Result<Option<Explanation>, StoreError> {
        Ok(None)
    }

    /// Ids of a collection were reserved through this store: the first of them, and how many.
    fn note_reserved(&self, _collection: &str, _first: i64, _count: u32) {}
}

/// A question for documents that were found by their keys.
pub struct Located {
    /// The store in the moment in which they were found.
    pub store: Arc<dyn Store>,
    /// The question for the documents of the page.
    pub query: FindQuery,
    /// How many they are.
    pub count: usize,
    /// How many match in all.
    pub total: u64,
}

impl Located {
    /// The page; nothing where the store has other documents than were found.
    async fn page(self, collection: &str) -> Result<Option<Page>, StoreError> {
        let documents = match self.count {
            0 => Documents::new(),
            _ => self.store.find(collection, &self.query).await?,
        };
        Ok((documents.len() == self.count).then_some(Page { documents, total: self.total, hint: None }))
    }
}

#[async_trait]
impl<S: Around> Store for S {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        self.inner().prepare(collections).await
    }

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        if let Some(located) = self.locate(collection, query, total).await?
            && let Some(page) = located.page(collection).await?
        {
            return Ok(page);
        }
        self.inner().read(collection, query, total).await
    }

    async fn frozen(&self, max_time: Duration) -> Result<Arc<dyn Store>, StoreError> {
        self.inner().frozen(max_time).await
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        match self.locate(collection, query, Total::Asked).await? {
            Some(Located { count: 0, total, .. }) => {
                Ok(ChunkedPage::of(Page { documents: Documents::new(), total, hint: None }))
            }
            Some(Located { store, query, total, .. }) => {
                Ok(ChunkedPage { total, ..store.chunks(collection, &query).await? })
            }
            None => self.inner().chunks(collection, query).await,
        }
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        match self.explain_located(collection, query).await? {
            Some(explanation) => Ok(explanation),
            None => self.inner().explain(collection, query).await,
        }
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
