//! A snapshot: the whole store as of one commit.
//!
//! The writer publishes a new snapshot after each commit. Readers share it, because a separate transaction costs more
//! than most reads. A snapshot keeps old pages from being reused, so nobody holds one longer than a query takes, or a
//! request about the past.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use redb::{Database, ReadTransaction, ReadableDatabase, TransactionError};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::{Catalog, Collection};
use crate::store::embedded::failure;
use crate::store::embedded::index::table::Published as Committed;
use crate::store::embedded::index::tables::Tables;

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
