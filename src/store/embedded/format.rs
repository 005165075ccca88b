//! The layout of the tables (that of the pages below them is in [`pages`](super::pages)): its version, what every file of this service says of itself, and how an older one is brought
//! up to this version.
//!
//! | version | what is different |
//! |---|---|
//! | 1 | entries of indexes may be counted wrongly: builds from before there were counts wrote such files as well |
//! | 2 | counts are right; each file has an identity of its own |
//! | 3 | the newest entries of indexes with arrays may be missing, see [`recent`](super::recent) |
//! | 4 | entries of indexes with arrays are in blocks, see [`packed`](super::packed) |

use bson::{Document, doc};
use redb::{Database, ReadableTable, StorageError, WriteTransaction};

use crate::store::StoreError;

use super::catalog::Catalog;
use super::failure;
use super::tables::{IndexTable, META, META_FORMAT, META_IDENTITY, Tables, Working};
use super::writer::restate_collections;

/// The version that this build writes. It reads older ones too.
pub(super) const FORMAT: i64 = 4;
/// From this version on entries are counted rightly.
const COUNTED: i64 = 2;
/// From this version on indexes with arrays have blocks.
const PACKED: i64 = 4;
/// The oldest version that this build reads.
pub(super) const OLDEST: i64 = 1;

/// What tells a file from every other one, its own copies included; 0 for a file that says nothing.
pub(super) type Identity = u128;

/// The version that a file says it has, if it says one.
pub(super) fn version(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Option<i64>, StorageError> {
    let stored = meta.get(META_FORMAT)?.and_then(|stored| Document::from_reader(stored.value()).ok());
    Ok(stored.and_then(|format| format.get_i64("version").ok()))
}

/// The identity of a file.
pub(super) fn identity(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Identity, StorageError> {
    let stored = meta.get(META_IDENTITY)?.and_then(|stored| stored.value().try_into().ok());
    Ok(stored.map_or(0, Identity::from_le_bytes))
}

/// Makes the file one of this version, with an identity of its own. Copies need that too: what is noted beside one file must
/// not be taken for a note about another one.
pub(super) fn sign(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let format = doc! { "version": FORMAT }.to_vec().expect("a number is BSON");
    let mut meta = transaction.open_table(META)?;
    meta.insert(META_FORMAT, format.as_slice())?;
    meta.insert(META_IDENTITY, rand::random::<Identity>().to_le_bytes().as_slice())?;
    Ok(())
}

/// Brings a file of an older version up to this one, in one transaction.
///
/// # Errors
/// As work on a whole file; nothing has changed then.
pub(super) fn bring_up(database: &Database, catalog: &mut Catalog, version: i64) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(|error| failure::of_engine(error.into()))?;
    if version < PACKED {
        pack(&transaction, catalog)?;
    }
    for collection in catalog.iter().filter(|_| version < COUNTED) {
        let mut tables = Tables::<Working<'_>>::open(&transaction, collection).map_err(failure::of_table)?;
        for position in (0..collection.indexes.len()).filter(|position| collection.is_counted(*position)) {
            if let Some(mut blocks) = tables.blocks_mut(collection, position) {
                blocks.count_anew()?;
            }
        }
    }
    sign(&transaction).map_err(failure::of_engine)?;
    transaction.commit().map_err(|error| failure::of_engine(error.into()))
}

/// Puts the entries of indexes with arrays into blocks. Which of them are in the table stays as it is.
fn pack(transaction: &WriteTransaction, catalog: &mut Catalog) -> Result<(), StoreError> {
    let numbers: Vec<u32> = catalog.iter().map(|collection| collection.number).collect();
    for number in &numbers {
        for index in &mut catalog.at_mut(*number).indexes {
            // Its table was like those of all others.
            let Some(mut marks) = index.recent.take() else { continue };
            log::info!("packing the index {}", index.name);
            let mut table = IndexTable::create(transaction, *number, index).map_err(failure::of_table)?;
            marks.stored = table.pack(transaction, *number, index.number, 0).map_err(failure::of_table)?;
            index.recent = Some(marks);
        }
    }
    // The commit keeps its number: what the log has beyond the tables goes on from there.
    restate_collections(transaction, catalog, numbers)
}
