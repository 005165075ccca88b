//! A snapshot: the whole store as of one commit.
//!
//! The writer publishes a new snapshot after each commit. Readers share it, because a separate transaction costs more
//! than most reads. A snapshot keeps old pages from being reused, so nobody holds one longer than a query takes, or a
//! request about the past.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use redb::{Database, ReadTransaction, ReadableDatabase, TransactionError};

use crate::store::embedded::catalog::collections::{Catalog, Collection};
use crate::store::embedded::failure;
use crate::store::embedded::index::table::Published as Committed;
use crate::store::embedded::index::tables::Tables;
use crate::store::inspection::{Finding, indexes};
use crate::store::{CollectionSpec, StoreError};

/// The current snapshot; none while the storage fails.
pub(crate) type Published = Arc<ArcSwapOption<Snapshot>>;

/// The store as of one commit.
pub(crate) struct Snapshot {
    transaction: ReadTransaction,
    catalog: Catalog,
    /// By the number of the collection, opened when first asked for.
    tables: Vec<OnceLock<Tables<Committed>>>,
}

impl Snapshot {
    /// The store as of the last commit, which `catalog` describes.
    pub(crate) fn take(database: &Database, catalog: Catalog) -> Result<Self, TransactionError> {
        let tables = (0..catalog.len()).map(|_| OnceLock::new()).collect();
        Ok(Self { transaction: database.begin_read()?, catalog, tables })
    }

    /// The catalog as of this commit.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Reads any table as of this commit.
    pub(crate) fn transaction(&self) -> &ReadTransaction {
        &self.transaction
    }

    /// The collection of this name.
    pub(crate) fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.catalog.get(name)
    }

    /// All collections.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.catalog.iter()
    }

    /// The tables of a collection.
    pub(crate) fn tables(&self, collection: &Collection) -> Result<&Tables<Committed>, StoreError> {
        let slot = &self.tables[collection.number as usize];
        if let Some(tables) = slot.get() {
            return Ok(tables);
        }
        let opened = Tables::<Committed>::open(&self.transaction, collection).map_err(failure::of_table)?;
        Ok(slot.get_or_init(|| opened))
    }
}

/// Reads the catalog, not the documents.
pub(crate) fn inspect(snapshot: &Snapshot, collections: &[CollectionSpec]) -> Vec<Finding> {
    let is_there = |collection: &str, index: &str| {
        let known = snapshot.collection(collection);
        known.is_some_and(|known| known.indexes.iter().any(|own| own.name == index))
    };
    let declared = collections.iter().flat_map(|spec| spec.indexes.iter().map(|index| (spec.name, index.name)));
    let missing: Vec<String> = declared
        .clone()
        .filter(|(collection, index)| !is_there(collection, index))
        .map(|(collection, index)| format!("{collection}.{index}"))
        .collect();
    let is_new = !collections.iter().any(|spec| snapshot.collection(spec.name).is_some());
    vec![indexes(declared.count(), &missing, is_new)]
}
