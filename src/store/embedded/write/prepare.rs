//! Creates declared collections and indexes, also over existing documents.

use redb::{ReadableTable, ReadableTableMetadata, WriteTransaction};

use bson::raw::RawDocument;

use crate::store::embedded::catalog::collections::{Catalog, Collection, Index, UNKNOWN};
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::Use;
use crate::store::embedded::index::keys::keys_of;
use crate::store::embedded::index::table::{
    DataDefinition, IndexTable, UniqueDefinition, Working, counts_name, data_name, delete_index,
};
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::write::room::{self, Room};
use crate::store::{CollectionSpec, StoreError, fresh_revision};

/// Progress is logged each time this many documents were indexed.
const DOCUMENTS_PER_REPORT: u64 = 100_000;

/// The bytes that a key takes in a table in addition to its own.
const KEY_BESIDE: usize = 32;
/// A new index gets its keys in order, in batches of this many bytes: a page is written once for all its keys, not once
/// for each.
const SORTED_BYTES: usize = if cfg!(test) { 512 } else { 32 * 1024 * 1024 };

/// Creates missing collections and indexes; returns the numbers of the changed collections.
///
/// # Errors
/// [`StoreError::Duplicate`] when stored documents violate a unique index, [`StoreError::NoRoom`]. The transaction must
/// then be aborted.
pub(crate) fn declare(
    transaction: &WriteTransaction,
    catalog: &mut Catalog,
    collections: &[CollectionSpec],
    room: &Room,
) -> Result<Vec<u32>, StoreError> {
    let mut changed = Vec::new();
    for spec in collections {
        let known = catalog.len();
        let number = catalog.number_of(spec.name);
        let declared = catalog.at_mut(number).declare(spec);
        let is_new = catalog.len() > known || !declared.added.is_empty();
        if is_new {
            let collection = catalog.at(number);
            room.promise(room::of_tables(collection.indexes.len()), Use::Changing, || collection.name.clone())?;
        }
        if !declared.dropped.is_empty() {
            let pages = room.of_dropped_tables(declared.dropped.len());
            room.promise(pages, Use::Removing(0), || format!("the change of {}", spec.name))?;
        }
        for index in &declared.dropped {
            delete_index(transaction, number, *index).map_err(failure::of_table)?;
        }
        let mut tables = Tables::<Working<'_>>::open(transaction, catalog.at(number)).map_err(failure::of_table)?;
        for index in declared.added {
            build(transaction, catalog, number, index, &mut tables, room)?;
        }
        let is_looked_through = look_for_documents(catalog.at_mut(number), &tables, room);
        if count_entries(catalog.at(number), &mut tables, &declared.dropped)? || is_looked_through || is_new {
            changed.push(number);
        }
    }
    Ok(changed)
}

/// Notes where the documents of a store from before have documents and no arrays. Whether there is something to keep. Without
/// room, or with a document that cannot be read, it stays unknown: keys then decide less, and the store is open.
fn look_for_documents(collection: &mut Collection, tables: &Tables<Working<'_>>, room: &Room) -> bool {
    let is_unknown = |index: &&mut Index| {
        index.is_multikey() && index.components.iter().any(|component| component.documents == UNKNOWN)
    };
    let (name, mut is_looked_through) = (&collection.name, false);
    for index in collection.indexes.iter_mut().filter(is_unknown) {
        log::info!("looking through the documents of {name} for the index {}", index.name);
        let seen = room
            .promise(room::of_tables(0), Use::Changing, || name.clone())
            .and_then(|()| documents_of(name, index, tables));
        match seen {
            Ok(seen) => {
                index.components.iter_mut().zip(seen).for_each(|(component, seen)| component.documents = seen);
                is_looked_through = true;
            }
            Err(error) => log::warn!("the index {} of {name} decides less than it could: {error}", index.name),
        }
    }
    is_looked_through
}

/// At which names documents have documents and no arrays, for each component of an index.
fn documents_of(name: &str, index: &Index, tables: &Tables<Working<'_>>) -> Result<Vec<u64>, StoreError> {
    let mut seen = vec![0; index.components.len()];
    for entry in tables.data.iter().map_err(failure::of_storage)? {
        let (row, stored) = entry.map_err(failure::of_storage)?;
        let document = RawDocument::from_bytes(stored.value()).map_err(|_| failure::damaged(name, row.value()))?;
        seen.iter_mut().zip(keys_of(index, document)?.documents).for_each(|(seen, found)| *seen |= found);
    }
    Ok(seen)
}

/// Removes everything in a collection; its declaration stays.
///
/// # Errors
/// The storage failed; [`StoreError::NoRoom`].
pub(crate) fn empty(
    transaction: &WriteTransaction,
    catalog: &mut Catalog,
    number: u32,
    room: &Room,
) -> Result<(), StoreError> {
    let own = catalog.at_mut(number);
    let pages = room.of_dropped_tables(own.indexes.len() + 2) + room::of_tables(own.indexes.len());
    room.promise(pages, Use::Removing(0), || format!("the removal of {}", own.name))?;
    transaction.delete_table(DataDefinition::new(&data_name(number))).map_err(failure::of_table)?;
    transaction.delete_table(UniqueDefinition::new(&counts_name(number))).map_err(failure::of_table)?;
    for index in &own.indexes {
        delete_index(transaction, number, index.number).map_err(failure::of_table)?;
    }
    own.forget_what_was_seen();
    own.forget_ids();
    own.revision = fresh_revision();
    let mut tables = Tables::<Working<'_>>::open(transaction, own).map_err(failure::of_table)?;
    count_entries(own, &mut tables, &[]).map(drop)
}

/// Counts the entries of indexes without counts: new ones, and those of stores from before count blocks.
pub(crate) fn count_entries(
    collection: &Collection,
    tables: &mut Tables<Working<'_>>,
    dropped: &[u32],
) -> Result<bool, StoreError> {
    let mut news = false;
    for position in (0..collection.indexes.len()).filter(|position| collection.is_counted(*position)) {
        if let Some(mut blocks) = tables.blocks_mut(collection, position) {
            news |= blocks.complete()?;
        }
    }
    for number in dropped {
        if let Some(mut blocks) = tables.blocks_mut(collection, 0) {
            blocks.number = *number;
            blocks.forget()?;
        }
    }
    Ok(news)
}

/// Fills a new index with the keys of the documents that are stored.
///
/// # Errors
/// As [`declare`].
pub(crate) fn build<'t>(
    transaction: &'t WriteTransaction,
    catalog: &mut Catalog,
    collection: u32,
    index: u32,
    tables: &mut Tables<Working<'t>>,
    room: &Room,
) -> Result<(), StoreError> {
    let own = catalog.at_mut(collection);
    let position = own.indexes.iter().position(|known| known.number == index).expect("it was just declared");
    let name = &own.name;
    let index = &mut own.indexes[position];
    let table = &mut tables.indexes[position];
    let mut known = 0;
    let mut add = |keys: &mut Vec<(Vec<u8>, u64)>, index: &Index| {
        let bytes = keys.iter().map(|(key, _)| (key.len() + KEY_BESIDE) as u64).sum::<u64>();
        // What is there may be packed now.
        let pages = room::of_sorted_keys(bytes, 2 * known);
        room.promise(pages, Use::Adding(2 * bytes), || format!("the index {} of {name}", index.name))?;
        known += bytes;
        if index.is_multikey() {
            table.pack(transaction, collection, index.number).map_err(failure::of_table)?;
        }
        add_sorted(table, keys, name, index)
    };
    let total = tables.data.len().map_err(failure::of_storage)?;
    let (mut done, mut waiting, mut bytes) = (0, Vec::new(), 0);
    for entry in tables.data.iter().map_err(failure::of_storage)? {
        let (row, stored) = entry.map_err(failure::of_storage)?;
        let row = row.value();
        let document = RawDocument::from_bytes(stored.value()).map_err(|_| failure::damaged(name, row))?;
        let found = keys_of(index, document)?;
        for key in found.distinct {
            bytes += size_of::<(Vec<u8>, u64)>() + key.len();
            waiting.push((key, row));
        }
        index.has_cut_keys |= found.cut;
        for (component, (arrays, documents)) in
            index.components.iter_mut().zip(found.arrays.iter().zip(&found.documents))
        {
            component.arrays |= arrays;
            component.documents |= documents;
        }
        if bytes >= SORTED_BYTES {
            add(&mut waiting, index)?;
            bytes = 0;
        }
        done += 1;
        if done % DOCUMENTS_PER_REPORT == 0 {
            log::info!("index {} of {name}: {done} of {total} documents", index.name);
        }
    }
    add(&mut waiting, index)?;
    index.packed = table.packed_entries();
    Ok(())
}

/// Adds keys of rows to an index.
fn add_sorted(
    table: &mut IndexTable<Working<'_>>,
    keys: &mut Vec<(Vec<u8>, u64)>,
    collection: &str,
    index: &Index,
) -> Result<(), StoreError> {
    keys.sort_unstable();
    if !index.unique {
        return table.add_all(keys.drain(..));
    }
    for (key, row) in keys.drain(..) {
        if table.row_of(&key).map_err(failure::of_storage)?.is_some() {
            return Err(StoreError::Duplicate { collection: collection.to_owned(), key: index.name.clone() });
        }
        table.add(&key, row).map_err(failure::of_storage)?;
    }
    Ok(())
}
