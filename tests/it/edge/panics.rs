//! A handler that panics.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use inventory_service::query::Filter;
use inventory_service::store::{CollectionSpec, Documents, FindQuery, Page, Store, StoreError, Unit};

use crate::support::app::TestApp;

/// A store that panics when it is asked for a page.
struct PanickingStore(Arc<dyn Store>);

#[async_trait]
impl Store for PanickingStore {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        self.0.prepare(collections).await
    }

    async fn find(&self, collection: &str, query: &FindQuery) -> Result<Documents, StoreError> {
        self.0.find(collection, query).await
    }

    async fn page(&self, _: &str, _: &FindQuery) -> Result<Page, StoreError> {
        panic!("a defect of the store")
    }

    async fn count(&self, collection: &str, filter: &Filter, max_time: Duration) -> Result<u64, StoreError> {
        self.0.count(collection, filter, max_time).await
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        self.0.reserve_ids(collection, count).await
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        self.0.commit(unit).await
    }

    fn revision(&self, collection: &str) -> u64 {
        self.0.revision(collection)
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.0.ping().await
    }

    fn kind(&self) -> &'static str {
        self.0.kind()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_answered_in_the_one_shape_and_the_service_goes_on() {
    let app = TestApp::embedded_around(|store| Arc::new(PanickingStore(store))).await;
    for _ in 0..3 {
        let error = app.get("/types/").await.error(500, "internal");
        assert!(!error["message"].as_str().expect("a message").contains("defect"));
    }
    let id = app.create_type("rack", &[]).await;
    assert_eq!(app.get(&format!("/types/{id}")).await.status, 200);
}
