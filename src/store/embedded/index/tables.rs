//! The tables of the file, and how they are opened: by readers of a snapshot and by the writer.
//!
//! - `meta`: text -> BSON; the format and the catalog.
//! - `d<collection>`: row -> the bytes of a document. Rows ascend in the order of insertion.
//! - `x<collection>.<index>`: of a unique index key -> row, of another one key and row -> nothing.
//! - `m<collection>.<index>`: of an index with arrays: keys with their rows, in blocks; see `packed`. There is no table
//!   `x` then.
//! - `n<collection>`: the numbers of entries of all indexes without arrays, see `counts`.

use std::sync::Arc;

use redb::{ReadTransaction, TableError, WriteTransaction};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::index::counts::{Blocks, BlocksMut};
use crate::store::embedded::index::gathered::Gathered;
use crate::store::embedded::index::packed::table as packed;
use crate::store::embedded::index::range_counts::RangeCounts;
use crate::store::embedded::index::row_cache::Places;
use crate::store::embedded::index::table::{
    DataDefinition, IndexTable, PlainDefinition, Published, TableAccess, UniqueDefinition, Working, counts_name,
    data_name, table_name,
};

/// The open tables of one collection.
pub(crate) struct Tables<A: TableAccess> {
    /// The documents.
    pub(crate) data: A::Data,
    /// In the order of [`Collection::indexes`].
    pub(crate) indexes: Vec<IndexTable<A>>,
    /// Count blocks; a store from before count blocks lacks them until it is prepared.
    pub(crate) counts: Option<A::Unique>,
    /// The row cache; only for tables that do not change.
    pub(crate) places: Option<Places>,
    /// Counted ranges; only for those of a published snapshot.
    pub(crate) counted: Option<Arc<RangeCounts>>,
}

impl Tables<Published> {
    pub(crate) fn open(transaction: &ReadTransaction, collection: &Collection) -> Result<Self, TableError> {
        let data = transaction.open_table(DataDefinition::new(&data_name(collection.number)))?;
        let indexes = collection.indexes.iter().map(|index| {
            let name = table_name(collection.number, index);
            Ok(match index.packed {
                _ if index.unique => IndexTable::Unique(transaction.open_table(UniqueDefinition::new(&name))?),
                None => IndexTable::Plain(transaction.open_table(PlainDefinition::new(&name))?),
                Some(entries) => IndexTable::Packed(
                    transaction.open_table(packed::Definition::new(&name))?,
                    Gathered::beside(entries),
                ),
            })
        });
        let counts = match transaction.open_table(UniqueDefinition::new(&counts_name(collection.number))) {
            Ok(counts) => Some(counts),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error),
        };
        let indexes = indexes.collect::<Result<_, TableError>>()?;
        Ok(Self { data, indexes, counts, places: Some(Places::default()), counted: None })
    }
}

impl<'t> Tables<Working<'t>> {
    /// Opens the tables for writing and makes those that do not exist.
    pub(crate) fn open(transaction: &'t WriteTransaction, collection: &Collection) -> Result<Self, TableError> {
        let data = transaction.open_table(DataDefinition::new(&data_name(collection.number)))?;
        let indexes = collection.indexes.iter().map(|index| IndexTable::create(transaction, collection.number, index));
        let counts = transaction.open_table(UniqueDefinition::new(&counts_name(collection.number)))?;
        let indexes = indexes.collect::<Result<_, TableError>>()?;
        Ok(Self { data, indexes, counts: Some(counts), places: None, counted: None })
    }

    /// Merges the gathered entries into the tables; they cannot be read before. See [`Gathered::settle`].
    pub(crate) fn settle(&mut self, ask: &mut dyn FnMut(usize) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.indexes.iter_mut().try_for_each(|index| index.settle(ask))
    }

    /// The numbers of entries of an index, to change them.
    pub(crate) fn blocks_mut(&mut self, collection: &Collection, position: usize) -> Option<BlocksMut<'_, 't>> {
        let number = collection.indexes[position].number;
        Some(BlocksMut { table: self.counts.as_mut()?, number, entries: &self.indexes[position] })
    }
}

impl<A: TableAccess> Tables<A> {
    /// The numbers of entries of an index, if there are any.
    pub(crate) fn blocks(&self, collection: &Collection, position: usize) -> Option<Blocks<'_, A::Unique, A>> {
        let counts = self.counts.as_ref().filter(|_| collection.is_counted(position))?;
        Some(Blocks::of(collection.indexes[position].number, &self.indexes[position], counts))
    }
}
