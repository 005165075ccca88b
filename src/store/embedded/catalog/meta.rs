//! The table `meta`: the format of the file, and the stored catalog.

use bson::{Document, doc};
use redb::{ReadableTable, StorageError, TableDefinition, WriteTransaction};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::failure;

/// The version that this build writes. It reads older ones too.
pub(crate) const FORMAT: i64 = 5;
/// The oldest version that this build reads.
pub(crate) const OLDEST: i64 = 1;

/// Text -> BSON.
pub(crate) const META: TableDefinition<'static, &str, &[u8]> = TableDefinition::new("meta");
/// In [`META`]: the version of the layout of the file.
pub(crate) const META_FORMAT: &str = "format";
/// In [`META`]: how many commits there were.
pub(crate) const META_COMMIT: &str = "commit";
/// In [`META`]: the prefix of the keys of collections.
pub(crate) const META_COLLECTION: &str = "collection/";

/// The version that a file states, if it states one.
pub(crate) fn version(meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<Option<i64>, StorageError> {
    let stored = meta.get(META_FORMAT)?.and_then(|stored| Document::from_reader(stored.value()).ok());
    Ok(stored.and_then(|format| format.get_i64("version").ok()))
}

/// Gives the file the current version.
pub(crate) fn sign(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let format = doc! { "version": FORMAT }.to_vec().expect("a number is BSON");
    let mut meta = transaction.open_table(META)?;
    meta.insert(META_FORMAT, format.as_slice())?;
    Ok(())
}

/// Stores the catalog entries of these collections, and counts the commit.
pub(crate) fn store_collections(
    transaction: &WriteTransaction,
    catalog: &mut Catalog,
    numbers: impl IntoIterator<Item = u32>,
) -> Result<(), StoreError> {
    catalog.commit += 1;
    {
        let mut meta = transaction.open_table(META).map_err(failure::of_table)?;
        meta.insert(META_COMMIT, catalog.commit.to_le_bytes().as_slice()).map_err(failure::of_storage)?;
    }
    restate_collections(transaction, catalog, numbers)
}

/// Stores the catalog entries of these collections in another form, without a commit of a caller.
pub(crate) fn restate_collections(
    transaction: &WriteTransaction,
    catalog: &Catalog,
    numbers: impl IntoIterator<Item = u32>,
) -> Result<(), StoreError> {
    let mut meta = transaction.open_table(META).map_err(failure::of_table)?;
    for number in numbers {
        let name = format!("{META_COLLECTION}{number}");
        meta.insert(name.as_str(), catalog.at(number).to_document().as_bytes()).map_err(failure::of_storage)?;
    }
    Ok(())
}
