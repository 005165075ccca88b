//! The tables of the file, and how they are opened: by readers of a snapshot and by the writer.
//!
//! - `meta`: text -> BSON; the format and the catalog.
//! - `d<collection>`: row -> the bytes of a document. Rows ascend in the order of insertion.
//! - `x<collection>.<index>`: of a unique index key -> row, of another one key and row -> nothing.
//! - `m<collection>.<index>`: of an index with arrays: keys with their rows, in blocks; see `packed`. There is no table
//!   `x` then.
//! - `n<collection>`: the numbers of entries of all indexes without arrays, see `counts`.

use std::ops::Bound;

use redb::{
    ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, WriteTransaction,
};

use crate::store::StoreError;

use super::catalog::{Collection, Index};
use super::counts::{Blocks, BlocksMut};
use super::entries::Entries;
use super::failure;
use super::gathered::Gathered;
use super::packed::table as packed;
use super::places::Places;
use super::room;

/// Text -> BSON.
pub(super) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
/// In [`META`]: the version of the layout of the file.
pub(super) const META_FORMAT: &str = "format";
/// In [`META`]: what tells the file from others.
pub(super) const META_IDENTITY: &str = "identity";
/// In [`META`]: how many commits there were.
pub(super) const META_COMMIT: &str = "commit";
/// In [`META`]: what the names of collection entries begin with.
pub(super) const META_COLLECTION: &str = "collection/";

/// How many bytes a row takes at the end of a key.
const ROW: usize = 8;

/// The table of a collection's documents.
pub(super) type DataDefinition<'n> = TableDefinition<'n, u64, &'static [u8]>;
/// The table of a unique index.
pub(super) type UniqueDefinition<'n> = TableDefinition<'n, &'static [u8], u64>;
/// The table of another index.
pub(super) type PlainDefinition<'n> = TableDefinition<'n, &'static [u8], ()>;

/// The name of the table of a collection's documents.
pub(super) fn data_name(collection: u32) -> String {
    format!("d{collection}")
}

/// The name of the table of an index.
pub(super) fn index_name(collection: u32, index: u32) -> String {
    format!("x{collection}.{index}")
}

/// The name of the table of an index with arrays.
pub(super) fn packed_name(collection: u32, index: u32) -> String {
    format!("m{collection}.{index}")
}

/// The name of the table of a collection's numbers of entries.
pub(super) fn counts_name(collection: u32) -> String {
    format!("n{collection}")
}

/// Which kind of handles tables are read through.
pub(super) trait Access {
    type Data: ReadableTable<u64, &'static [u8]>;
    type Unique: ReadableTable<&'static [u8], u64>;
    type Plain: ReadableTable<&'static [u8], ()>;
    type Packed: ReadableTable<&'static [u8], &'static [u8]>;
}

/// Tables as of the last commit.
pub(super) struct Published;

impl Access for Published {
    type Data = ReadOnlyTable<u64, &'static [u8]>;
    type Unique = ReadOnlyTable<&'static [u8], u64>;
    type Plain = ReadOnlyTable<&'static [u8], ()>;
    type Packed = ReadOnlyTable<&'static [u8], &'static [u8]>;
}

/// Tables inside a write transaction, with its changes.
pub(super) struct Working<'t>(std::marker::PhantomData<&'t ()>);

impl<'t> Access for Working<'t> {
    type Data = Table<'t, u64, &'static [u8]>;
    type Unique = Table<'t, &'static [u8], u64>;
    type Plain = Table<'t, &'static [u8], ()>;
    type Packed = Table<'t, &'static [u8], &'static [u8]>;
}

/// The open tables of one collection.
pub(super) struct Tables<A: Access> {
    /// The documents.
    pub(super) data: A::Data,
    /// In the order of [`Collection::indexes`].
    pub(super) indexes: Vec<IndexTable<A>>,
    /// Numbers of entries; not in a store that was made before there were any, until it is prepared.
    pub(super) counts: Option<A::Unique>,
    /// Where pages lie; only for tables that do not change.
    pub(super) places: Option<Places>,
}

/// The open table of an index.
pub(super) enum IndexTable<A: Access> {
    Unique(A::Unique),
    Plain(A::Plain),
    /// Of an index with arrays, with what the batch that goes on has for it.
    Packed(A::Packed, Gathered),
}

impl Tables<Published> {
    pub(super) fn open(transaction: &ReadTransaction, collection: &Collection) -> Result<Self, TableError> {
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
        Ok(Self { data, indexes, counts, places: Some(Places::default()) })
    }
}

impl<'t> Tables<Working<'t>> {
    /// Opens the tables for writing and makes those that do not exist.
    pub(super) fn open(transaction: &'t WriteTransaction, collection: &Collection) -> Result<Self, TableError> {
        let data = transaction.open_table(DataDefinition::new(&data_name(collection.number)))?;
        let indexes = collection.indexes.iter().map(|index| IndexTable::create(transaction, collection.number, index));
        let counts = transaction.open_table(UniqueDefinition::new(&counts_name(collection.number)))?;
        let indexes = indexes.collect::<Result<_, TableError>>()?;
        Ok(Self { data, indexes, counts: Some(counts), places: None })
    }

    /// Puts what was gathered into the tables: nothing can be asked of them before.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        self.indexes.iter_mut().try_for_each(IndexTable::settle).map_err(failure::of_storage)
    }

    /// The numbers of entries of an index, to change them.
    pub(super) fn blocks_mut(&mut self, collection: &Collection, position: usize) -> Option<BlocksMut<'_, 't>> {
        let number = collection.indexes[position].number;
        Some(BlocksMut { table: self.counts.as_mut()?, number, entries: &self.indexes[position] })
    }
}

impl<A: Access> Tables<A> {
    /// The numbers of entries of an index, if there are any.
    pub(super) fn blocks(&self, collection: &Collection, position: usize) -> Option<Blocks<'_, A::Unique, A>> {
        let counts = self.counts.as_ref().filter(|_| collection.is_counted(position))?;
        Some(Blocks::of(collection.indexes[position].number, &self.indexes[position], counts))
    }
}

impl<'t> IndexTable<Working<'t>> {
    pub(super) fn create(
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
    pub(super) fn add(&mut self, key: &[u8], row: u64) -> Result<(), StorageError> {
        match self {
            Self::Unique(table) => table.insert(key, row).map(drop),
            Self::Plain(table) => table.insert(with_row(key, row).as_slice(), ()).map(drop),
            Self::Packed(_, gathered) => {
                gathered.add(with_row(key, row));
                Ok(())
            }
        }
    }

    /// Adds keys of rows that have all been there before.
    pub(super) fn add_all(&mut self, mut keys: impl Iterator<Item = (Vec<u8>, u64)>) -> Result<(), StorageError> {
        match self {
            Self::Unique(_) | Self::Plain(_) => keys.try_for_each(|(key, row)| self.add(&key, row)),
            Self::Packed(table, gathered) => {
                keys.for_each(|(key, row)| gathered.add(with_row(&key, row)));
                gathered.settle(table)
            }
        }
    }

    /// Takes a key of a row away.
    pub(super) fn remove(&mut self, key: &[u8], row: u64) -> Result<(), StorageError> {
        match self {
            Self::Unique(table) => table.remove(key).map(drop),
            Self::Plain(table) => table.remove(with_row(key, row).as_slice()).map(drop),
            Self::Packed(_, gathered) => {
                gathered.remove(with_row(key, row));
                Ok(())
            }
        }
    }

    /// Puts what was gathered into the table.
    pub(super) fn settle(&mut self) -> Result<(), StorageError> {
        match self {
            Self::Packed(table, gathered) => gathered.settle(table),
            Self::Plain(_) | Self::Unique(_) => Ok(()),
        }
    }

    /// How many pages [`IndexTable::pack`] may change.
    pub(super) fn pages_to_pack(&self) -> Result<u64, StorageError> {
        let Self::Plain(plain) = self else { return Ok(0) };
        let stats = plain.stats()?;
        Ok(2 * (stats.leaf_pages() + stats.branch_pages()) + room::of_tables(0))
    }

    /// Makes the table one of an index with arrays, if it could be one and is none. Returns how many entries that took.
    pub(super) fn pack(
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

/// So many entries are packed at once.
const PIECE: usize = 8192;

/// The name of the table that an index has.
pub(super) fn table_name(collection: u32, index: &Index) -> String {
    if index.packed.is_some() { packed_name(collection, index.number) } else { index_name(collection, index.number) }
}

/// Makes the tables of an index disappear.
pub(super) fn delete_index(transaction: &WriteTransaction, collection: u32, index: u32) -> Result<(), TableError> {
    // Only the name counts for deleting, and a table that was never made is none to delete.
    transaction.delete_table(PlainDefinition::new(&index_name(collection, index)))?;
    transaction.delete_table(packed::Definition::new(&packed_name(collection, index))).map(drop)
}

impl<A: Access> IndexTable<A> {
    /// How many entries the blocks of an index with arrays hold.
    pub(super) fn packed_entries(&self) -> Option<u64> {
        match self {
            Self::Packed(_, gathered) => Some(gathered.stored()),
            Self::Unique(_) | Self::Plain(_) => None,
        }
    }

    /// The row that has this key in a unique index.
    pub(super) fn row_of(&self, key: &[u8]) -> Result<Option<u64>, StorageError> {
        match self {
            Self::Unique(table) => Ok(table.get(key)?.map(|row| row.value())),
            Self::Plain(_) | Self::Packed(..) => Ok(None),
        }
    }

    /// The entry that a key of a row is stored as.
    pub(super) fn entry_of(&self, key: &[u8], row: u64) -> Vec<u8> {
        match self {
            Self::Unique(_) => key.to_vec(),
            Self::Plain(_) | Self::Packed(..) => with_row(key, row),
        }
    }

    /// The key of a stored entry, where other rows may have the same one.
    pub(super) fn shared_key<'e>(&self, entry: &'e [u8]) -> Option<&'e [u8]> {
        match self {
            Self::Unique(_) => None,
            Self::Plain(_) | Self::Packed(..) => entry.len().checked_sub(ROW).map(|length| &entry[..length]),
        }
    }

    /// Whether the row has this key.
    pub(super) fn contains(&self, key: &[u8], row: u64) -> Result<bool, StorageError> {
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
    pub(super) fn len(&self) -> Result<u64, StorageError> {
        match self {
            Self::Unique(table) => table.len(),
            Self::Plain(table) => table.len(),
            Self::Packed(_, gathered) => gathered.is_settled().map(|()| gathered.stored()),
        }
    }

    /// All entries.
    pub(super) fn all(&self) -> Result<Entries<'_>, StorageError> {
        self.range((Bound::Unbounded, Bound::Unbounded))
    }

    /// The entries with keys from `start` to below `end`.
    pub(super) fn entries(&self, start: &[u8], end: &[u8]) -> Result<Entries<'_>, StorageError> {
        self.range((Bound::Included(start), Bound::Excluded(end)))
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

/// A key with its row behind it.
pub(super) fn with_row(key: &[u8], row: u64) -> Vec<u8> {
    let mut entry = Vec::with_capacity(key.len() + ROW);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&row.to_be_bytes());
    entry
}

/// How long the key of an entry is that has its row behind it.
pub(super) fn length_of_key(entry: &[u8]) -> usize {
    entry.len().saturating_sub(ROW)
}

/// The row behind a key.
pub(super) fn row_behind(entry: &[u8]) -> u64 {
    entry[length_of_key(entry)..].iter().fold(0, |row, byte| row << 8 | u64::from(*byte))
}
