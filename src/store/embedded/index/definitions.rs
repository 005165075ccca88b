//! The names and the kinds of the tables of a collection. `tables` says what they hold.

use redb::{TableDefinition, TableError, WriteTransaction};

use crate::store::embedded::catalog::collections::Index;
use crate::store::embedded::index::packed::table as packed;

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
