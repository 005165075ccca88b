//! The adapter for MongoDB reads the embedded store through the listener: what the contract says of reading holds.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::DateTime;
use inventory_service::query::Filter;
use inventory_service::store::inspection::Finding;
use inventory_service::store::mongo::{MongoOptions, MongoStore};
use inventory_service::store::{
    AggregateQuery, Change, ChunkedPage, Chunks, CollectionSpec, Condition, Copying, Documents, Dump, Explanation,
    FindQuery, Numbered, Page, Store, StoreError, Unit,
};
use serde_json::json;

use super::support::{DATABASE, ToolApp};
use crate::contract::{ACTIVE, Fixture, KINDS, PLAIN, THINGS};

/// The collections of the contract under names that tools know.
const NAMES: [(&str, &str); 5] = [
    (THINGS, "framework.objects"),
    (KINDS, "framework.types"),
    (PLAIN, "framework.categories"),
    (ACTIVE, "management.users.settings"),
    ("listed", "framework.categories"),
];

/// Writes into the embedded store, and reads it as a tool does.
struct OverTheWire {
    tools: Arc<ToolApp>,
    read: Arc<MongoStore>,
}

fn named(collection: &str) -> &str {
    NAMES.iter().find(|(ours, _)| *ours == collection).map_or(collection, |(_, known)| known)
}

fn known(collection: &'static str) -> &'static str {
    NAMES.iter().find(|(ours, _)| *ours == collection).map_or(collection, |(_, known)| known)
}

fn renamed(change: Change) -> Change {
    match change {
        Change::Insert { collection, document } => Change::Insert { collection: known(collection), document },
        Change::Replace { collection, before, after } => {
            Change::Replace { collection: known(collection), before, after }
        }
        Change::Delete { collection, before } => Change::Delete { collection: known(collection), before },
        Change::DeleteMany { collection, filter } => Change::DeleteMany { collection: known(collection), filter },
        Change::UpdateMany { collection, filter, update } => {
            Change::UpdateMany { collection: known(collection), filter, update }
        }
        Change::Append(numbered) => Change::Append(Numbered { collection: known(numbered.collection), ..numbered }),
    }
}

fn condition(condition: Condition) -> Condition {
    match condition {
        Condition::Exists { collection, filter } => Condition::Exists { collection: known(collection), filter },
        Condition::None { collection, filter } => Condition::None { collection: known(collection), filter },
        unchanged @ Condition::Unchanged { .. } => unchanged,
    }
}

#[async_trait]
impl Store for OverTheWire {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        let shown: Vec<CollectionSpec> =
            collections.iter().map(|spec| CollectionSpec { name: known(spec.name), indexes: spec.indexes }).collect();
        self.tools.app.store.prepare(&shown).await
    }

    async fn find(&self, collection: &str, query: &FindQuery) -> Result<Documents, StoreError> {
        self.read.find(named(collection), query).await
    }

    async fn page(&self, collection: &str, query: &FindQuery) -> Result<Page, StoreError> {
        self.read.page(named(collection), query).await
    }

    /// The listener is a server by itself, and has no moments.
    async fn frozen(&self, _: Duration) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(Self { tools: Arc::clone(&self.tools), read: Arc::clone(&self.read) }))
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        self.read.chunks(named(collection), query).await
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        self.read.explain(named(collection), query).await
    }

    async fn count(&self, collection: &str, filter: &Filter, max_time: Duration) -> Result<u64, StoreError> {
        self.read.count(named(collection), filter, max_time).await
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        self.read.aggregate(named(collection), query).await
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        self.tools.app.store.reserve_ids(named(collection), count).await
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        let conditions = unit.conditions.into_iter().map(condition).collect();
        let changes = unit.changes.into_iter().map(renamed).collect();
        self.tools.app.store.commit(Unit { conditions, changes }).await
    }

    fn revision(&self, collection: &str) -> u64 {
        self.tools.app.store.revision(named(collection))
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.read.ping().await
    }

    async fn inspect(&self, _: &[CollectionSpec], _: DateTime) -> Result<Vec<Finding>, StoreError> {
        Ok(Vec::new())
    }

    fn largest_unit(&self) -> usize {
        self.tools.app.store.largest_unit()
    }

    fn kind(&self) -> &'static str {
        self.read.kind()
    }
}

#[async_trait]
impl Copying for OverTheWire {
    async fn dump(&self) -> Result<Box<dyn Dump>, StoreError> {
        self.read.dump().await
    }

    async fn append(&self, collection: &str, documents: Documents) -> Result<(), StoreError> {
        self.read.append(collection, documents).await
    }

    async fn clear(&self, collection: &str) -> Result<(), StoreError> {
        self.read.clear(collection).await
    }
}

async fn fresh() -> Option<Fixture> {
    let tools = ToolApp::start_with(&[("query.max_in_items", "3000"), ("query.max_nodes", "10000")]).await;
    let token = tools.token(1, &json!({})).await;
    let uri = format!("mongodb://admin:{token}@{}/{DATABASE}?directConnection=true&authSource=admin", tools.address);
    let read = MongoStore::connect(&uri, MongoOptions::default()).await.expect("the listener answers");
    let store = Arc::new(OverTheWire { tools: Arc::new(tools), read: Arc::new(read) });
    let differences = &[
        ("units", "they write"),
        ("copying", "it writes"),
        ("concurrency", "it writes"),
        ("other_collections_show_what_is_not_hidden", "its pipelines name collections, which have other names here"),
        ("unbounded_stages_see_nothing_that_is_hidden", "its pipelines name collections, which have other names here"),
        ("explain_names_the_index_and_its_bounds", "the listener does not explain how documents are counted"),
    ];
    Some(Fixture { store, keep: Box::new(()), differences })
}

mod contract {
    store_contract!(crate::wire::adapter::fresh);
}
