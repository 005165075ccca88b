//! Replays the records that the tables lack.

use redb::Database;

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::catalog::meta::store_collections;
use crate::store::embedded::failure;
use crate::store::embedded::index::table::{DataDefinition, data_name};
use crate::store::embedded::write::batch::{Batch, BatchLimits, Parts, Undo};
use crate::store::embedded::write::record::{RecordEntries, RecordEntry};
use crate::store::embedded::write::room::Room;

/// The records that the tables lack, with the numbers of their commits.
pub(crate) type Records = Vec<(u64, Vec<u8>)>;

/// Applies records to the tables, durably, and returns the new catalog.
///
/// # Errors
/// The storage failed, or the records do not belong to this catalog; [`StoreError::NoRoom`] when there is no room for that.
pub(crate) fn replay(
    database: &Database,
    catalog: Catalog,
    records: &[(u64, Vec<u8>)],
    limits: BatchLimits,
    quick_repair: bool,
    room: &Room,
) -> Result<Catalog, StoreError> {
    let mut transaction = database.begin_write().map_err(|error| failure::of_engine(error.into()))?;
    transaction.set_quick_repair(quick_repair);
    let replayed = failure::guarded(|| {
        let mut commit = catalog.commit;
        let mut batch = Batch::new(&transaction, catalog, limits, Undo::Transaction, room);
        for (number, record) in records {
            if *number != commit + 1 {
                return Err(StoreError::Corrupt { what: format!("the write {} is not in the log", commit + 1) });
            }
            commit = *number;
            RecordEntries::of(record).try_for_each(|entry| batch.redo(entry?))?;
        }
        let Parts { mut catalog, touched, .. } = batch.into_parts()?;
        catalog.commit = commit - 1;
        store_collections(&transaction, &mut catalog, touched)?;
        Ok(catalog)
    });
    if room.missing() > 0 {
        let _ = failure::caught(|| transaction.abort());
        return Err(StoreError::NoRoom { what: format!("{} commits that are in the log alone", records.len()) });
    }
    let catalog = replayed?;
    transaction.commit().map_err(|error| failure::of_engine(error.into()))?;
    Ok(catalog)
}

/// Stores and removes only the documents of records: indexes and their catalog entries must then be rebuilt.
///
/// # Errors
/// As [`replay`].
pub(crate) fn store_documents(
    database: &Database,
    catalog: &mut Catalog,
    records: &[(u64, Vec<u8>)],
) -> Result<(), StoreError> {
    failure::guarded(|| {
        let transaction = database.begin_write().map_err(|error| failure::of_engine(error.into()))?;
        for (number, record) in records {
            catalog.commit = *number;
            for entry in RecordEntries::of(record) {
                match entry? {
                    RecordEntry::LastId { collection, id } => catalog.at(collection).note_id(id),
                    RecordEntry::Row { collection, row, document } => {
                        let name = data_name(collection);
                        let table = transaction.open_table(DataDefinition::new(&name));
                        let mut table = table.map_err(failure::of_table)?;
                        match document {
                            Some(document) => table.insert(row, document.as_bytes()).map(drop),
                            None => table.remove(row).map(drop),
                        }
                        .map_err(failure::of_storage)?;
                    }
                }
            }
        }
        transaction.commit().map_err(|error| failure::of_engine(error.into()))
    })
}
