//! The table of one index, of whichever kind it is: for readers of a snapshot and for the writer. The names of tables.

use std::ops::Bound;

use redb::{
    ReadOnlyTable, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition, TableError,
    WriteTransaction,
};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::Index;
use crate::store::embedded::failure;
use crate::store::embedded::index::entries::{Entries, ROW, length_of_key, row_behind, with_row};
use crate::store::embedded::index::gathered::Gathered;
use crate::store::embedded::index::packed::table as packed;

/// Which kind of handles tables are read through.
pub(crate) trait TableAccess {
    type Data: ReadableTable<u64, &'static [u8]>;
    type Unique: ReadableTable<&'static [u8], u64>;
    type Plain: ReadableTable<&'static [u8], ()>;
    type Packed: ReadableTable<&'static [u8], &'static [u8]>;
}

/// Tables as of the last commit.
pub(crate) struct Published;

impl TableAccess for Published {
    type Data = ReadOnlyTable<u64, &'static [u8]>;
    type Unique = ReadOnlyTable<&'static [u8], u64>;
    type Plain = ReadOnlyTable<&'static [u8], ()>;
    type Packed = ReadOnlyTable<&'static [u8], &'static [u8]>;
}

/// Tables inside a write transaction, with its changes.
pub(crate) struct Working<'t>(std::marker::PhantomData<&'t ()>);

impl<'t> TableAccess for Working<'t> {
    type Data = Table<'t, u64, &'static [u8]>;
    type Unique = Table<'t, &'static [u8], u64>;
    type Plain = Table<'t, &'static [u8], ()>;
    type Packed = Table<'t, &'static [u8], &'static [u8]>;
}

/// The open table of an index.
pub(crate) enum IndexTable<A: TableAccess> {
    Unique(A::Unique),
    Plain(A::Plain),
    /// The table of an index with arrays, with the gathered entries of the current batch.
    Packed(A::Packed, Gathered),
}

impl<'t> IndexTable<Working<'t>> {
    pub(crate) fn create(
        transaction: &'t WriteTransaction,
        collection: u32,
        index: &Index,
    ) -> Result<Self, TableError> {
        let name = table_name(collection, index);
        Ok(match index.packed {
            _ if index.unique => Self::Unique(transaction.open_table(UniqueDefinition::new(&name))?),
            None => Self::Plain(transaction.open_table(PlainDefinition::new(&name))?),
            Some(entries) => {
                Self::Packed(transaction.open_table(packed::Definition::new(&name))?, Gathered::beside(entries))
            }
        })
    }

    /// Adds a key of a row.
    pub(crate) fn add(&mut self, key: &[u8], row: u64) -> Result<(), StorageError> {
        match self {
            Self::Unique(table) => table.insert(key, row).map(drop),
            Self::Plain(table) => table.insert(with_row(key, row).as_slice(), ()).map(drop),
            Self::Packed(_, gathered) => {
                gathered.add(with_row(key, row));
                Ok(())
            }
        }
    }

    /// Adds keys of rows that all existed before.
    pub(crate) fn add_all(&mut self, mut keys: impl Iterator<Item = (Vec<u8>, u64)>) -> Result<(), StoreError> {
        match self {
            Self::Unique(_) | Self::Plain(_) => {
                keys.try_for_each(|(key, row)| self.add(&key, row)).map_err(failure::of_storage)
            }
            Self::Packed(table, gathered) => {
                keys.for_each(|(key, row)| gathered.add(with_row(&key, row)));
                gathered.settle(table, &mut |_| Ok(()))
            }
        }
    }

    /// Takes a key of a row away.
    pub(crate) fn remove(&mut self, key: &[u8], row: u64) -> Result<(), StorageError> {
        match self {
            Self::Unique(table) => table.remove(key).map(drop),
            Self::Plain(table) => table.remove(with_row(key, row).as_slice()).map(drop),
            Self::Packed(_, gathered) => {
                gathered.remove(with_row(key, row));
                Ok(())
            }
        }
    }

    /// Merges the gathered entries into the table, see [`Gathered::settle`].
    pub(crate) fn settle(&mut self, ask: &mut dyn FnMut(usize) -> Result<(), StoreError>) -> Result<(), StoreError> {
        match self {
            Self::Packed(table, gathered) => gathered.settle(table, ask),
            Self::Plain(_) | Self::Unique(_) => Ok(()),
        }
    }

    /// The maximum number of pages that [`IndexTable::pack`] changes, in addition to those of opening a table.
    pub(crate) fn pages_to_pack(&self) -> Result<u64, StorageError> {
        let Self::Plain(plain) = self else { return Ok(0) };
        let stats = plain.stats()?;
        Ok(2 * (stats.leaf_pages() + stats.branch_pages()))
    }

    /// Converts the table to that of an index with arrays, if it is not one yet. Returns the number of converted
    /// entries.
    pub(crate) fn pack(
        &mut self,
        transaction: &'t WriteTransaction,
        collection: u32,
        index: u32,
    ) -> Result<u64, TableError> {
        let Self::Plain(plain) = self else { return Ok(0) };
        let (plain_name, name) = (index_name(collection, index), packed_name(collection, index));
        let mut table = transaction.open_table(packed::Definition::new(&name))?;
        let mut stored = 0;
        let mut entries = plain.iter()?.map(|entry| entry.map(|(entry, _)| entry.value().to_vec())).peekable();
        while entries.peek().is_some() {
            let piece = entries.by_ref().take(PIECE).collect::<Result<Vec<_>, _>>()?;
            stored += packed::insert_all(&mut table, &piece)?;
        }
        drop(entries);
        *self = Self::Packed(table, Gathered::beside(stored));
        transaction.delete_table(PlainDefinition::new(&plain_name))?;
        Ok(stored)
    }
}

/// The number of entries that are packed at once.
const PIECE: usize = 8192;

impl<A: TableAccess> IndexTable<A> {
    /// How many entries the blocks of an index with arrays hold.
    pub(crate) fn packed_entries(&self) -> Option<u64> {
        match self {
            Self::Packed(_, gathered) => Some(gathered.stored()),
            Self::Unique(_) | Self::Plain(_) => None,
        }
    }

    /// The row that has this key in a unique index.
    pub(crate) fn row_of(&self, key: &[u8]) -> Result<Option<u64>, StorageError> {
        match self {
            Self::Unique(table) => Ok(table.get(key)?.map(|row| row.value())),
            Self::Plain(_) | Self::Packed(..) => Ok(None),
        }
    }

    /// The entry that a key of a row is stored as.
    pub(crate) fn entry_of(&self, key: &[u8], row: u64) -> Vec<u8> {
        match self {
            Self::Unique(_) => key.to_vec(),
            Self::Plain(_) | Self::Packed(..) => with_row(key, row),
        }
    }

    /// The key of a stored entry of an index that is not unique.
    pub(crate) fn shared_key<'e>(&self, entry: &'e [u8]) -> Option<&'e [u8]> {
        match self {
            Self::Unique(_) => None,
            Self::Plain(_) | Self::Packed(..) => entry.len().checked_sub(ROW).map(|length| &entry[..length]),
        }
    }

    /// Whether the row has this key.
    pub(crate) fn contains(&self, key: &[u8], row: u64) -> Result<bool, StorageError> {
        match self {
            Self::Unique(_) => Ok(self.row_of(key)? == Some(row)),
            Self::Plain(table) => Ok(table.get(with_row(key, row).as_slice())?.is_some()),
            Self::Packed(table, gathered) => {
                gathered.is_settled()?;
                packed::contains(table, &with_row(key, row))
            }
        }
    }

    /// How many keys there are in all.
    pub(crate) fn len(&self) -> Result<u64, StorageError> {
        match self {
            Self::Unique(table) => table.len(),
            Self::Plain(table) => table.len(),
            Self::Packed(_, gathered) => gathered.is_settled().map(|()| gathered.stored()),
        }
    }

    /// All entries.
    pub(crate) fn all(&self) -> Result<Entries<'_>, StorageError> {
        self.range((Bound::Unbounded, Bound::Unbounded))
    }

    /// The entries with keys from `start` to below `end`.
    pub(crate) fn entries(&self, start: &[u8], end: &[u8]) -> Result<Entries<'_>, StorageError> {
        self.range((Bound::Included(start), Bound::Excluded(end)))
    }

    /// Shows `visit` the key and the row of each entry from `start` to below `end`, until it breaks.
    pub(crate) fn each(
        &self,
        (start, end): (&[u8], &[u8]),
        visit: &mut dyn FnMut(&[u8], u64) -> packed::Flow,
    ) -> Result<(), StoreError> {
        if let Self::Packed(table, gathered) = self {
            gathered.is_settled().map_err(failure::of_storage)?;
            let mut visit = |entry: &[u8]| visit(&entry[..length_of_key(entry)], row_behind(entry));
            return packed::each(table, (start, end), &mut visit);
        }
        for entry in self.entries(start, end).map_err(failure::of_storage)? {
            let entry = entry.map_err(failure::of_storage)?;
            if visit(entry.key(), entry.row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn range(&self, keys: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Entries<'_>, StorageError> {
        Ok(match self {
            Self::Unique(table) => Entries::Unique(table.range::<&[u8]>(keys)?),
            Self::Plain(table) => Entries::Plain(table.range::<&[u8]>(keys)?),
            Self::Packed(table, gathered) => {
                gathered.is_settled()?;
                Entries::Packed(packed::range(table, keys)?)
            }
        })
    }
}

/// The table of a collection's documents.
pub(crate) type DataDefinition<'n> = TableDefinition<'n, u64, &'static [u8]>;
/// The table of a unique index.
pub(crate) type UniqueDefinition<'n> = TableDefinition<'n, &'static [u8], u64>;
/// The table of another index.
pub(crate) type PlainDefinition<'n> = TableDefinition<'n, &'static [u8], ()>;

/// The name of the table of a collection's documents.
pub(crate) fn data_name(collection: u32) -> String {
    format!("d{collection}")
}

/// The name of the table of an index.
pub(crate) fn index_name(collection: u32, index: u32) -> String {
    format!("x{collection}.{index}")
}

/// The name of the table of an index with arrays.
pub(crate) fn packed_name(collection: u32, index: u32) -> String {
    format!("m{collection}.{index}")
}

/// The name of the table of a collection's numbers of entries.
pub(crate) fn counts_name(collection: u32) -> String {
    format!("n{collection}")
}

/// The name of the table that an index has.
pub(crate) fn table_name(collection: u32, index: &Index) -> String {
    if index.packed.is_some() { packed_name(collection, index.number) } else { index_name(collection, index.number) }
}

/// Makes the tables of an index disappear.
pub(crate) fn delete_index(transaction: &WriteTransaction, collection: u32, index: u32) -> Result<(), TableError> {
    // Deleting needs only the name. A table that was never created needs no deleting.
    transaction.delete_table(PlainDefinition::new(&index_name(collection, index)))?;
    transaction.delete_table(packed::Definition::new(&packed_name(collection, index))).map(drop)
}
