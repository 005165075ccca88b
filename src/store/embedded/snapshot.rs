//! What readers see: the whole store as of one commit.
//!
//! The writer publishes a new snapshot after each commit. Readers share it, as a transaction of one's own
//! costs more than most reads. A snapshot keeps the pages of its time from being used again, so nobody
//! holds one longer than a question takes.

use std::sync::{Arc, OnceLock};

use redb::{Database, ReadTransaction, ReadableDatabase, TransactionError};

use crate::store::StoreError;

use super::catalog::{Catalog, Collection};
use super::failure;
use super::tables::{Published, Tables};

/// The store as of one commit.
pub(super) struct Snapshot {
    transaction: ReadTransaction,
    catalog: Catalog,
    /// By the number of the collection, opened when first asked for.
    tables: Vec<OnceLock<Tables<Published>>>,
}

impl Snapshot {
    /// The store as of the last commit, which `catalog` describes.
    pub(super) fn take(database: &Database, catalog: Catalog) -> Result<Self, TransactionError> {
        let tables = (0..catalog.len()).map(|_| OnceLock::new()).collect();
        Ok(Self { transaction: database.begin_read()?, catalog, tables })
    }

    /// The catalog as of this commit.
    pub(super) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Reads any table as of this commit.
    pub(super) fn transaction(&self) -> &ReadTransaction {
        &self.transaction
    }

    /// The collection of this name.
    pub(super) fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.catalog.get(name)
    }

    /// All collections.
    pub(super) fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.catalog.iter()
    }

    /// The tables of a collection.
    pub(super) fn tables(&self, collection: &Collection) -> Result<&Tables<Published>, StoreError> {
        let slot = &self.tables[collection.number as usize];
        if let Some(tables) = slot.get() {
            return Ok(tables);
        }
        let opened = Tables::<Published>::open(&self.transaction, collection).map_err(failure::of_table)?;
        Ok(slot.get_or_init(|| opened))
    }
}
