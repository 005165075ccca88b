//! Copies a store into a new file: as it is, in the order of its keys, or with its indexes built anew.

use std::ops::Bound;

use bson::raw::RawDocument;
use redb::{
    Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableError, Value,
    WriteTransaction,
};

use crate::store::StoreError;

use super::batch::public_id;
use super::catalog::{Catalog, Collection};
use super::failure;
use super::format;
use super::prepare;
use super::tables::{
    DataDefinition, META, PlainDefinition, Tables, UniqueDefinition, Working, counts_name, data_name, index_name,
};
use super::validate;
use super::writer::store_collections;

/// Copies all tables as they are. What is not reached from the catalog is left behind.
///
/// # Errors
/// [`StoreError::Corrupt`] when the pages of the source are not what they have to be, [`StoreError::Backend`] with an
/// [`std::io::Error`] when the target cannot be written.
pub(super) fn everything(from: &Database, catalog: &Catalog, to: &mut Database) -> Result<(), StoreError> {
    let copy = || -> Result<(), redb::Error> {
        let (source, target) = (from.begin_read()?, to.begin_write()?);
        table(&source, &target, META)?;
        for collection in catalog.iter() {
            documents(&source, &target, collection)?;
            for index in &collection.indexes {
                let name = index_name(collection.number, index.number);
                if index.unique {
                    table(&source, &target, UniqueDefinition::new(&name))?;
                } else {
                    table(&source, &target, PlainDefinition::new(&name))?;
                }
            }
            table(&source, &target, UniqueDefinition::new(&counts_name(collection.number)))?;
        }
        format::sign(&target)?;
        target.commit()?;
        trim(to)
    };
    failure::caught(copy)
        .map_err(|panic| StoreError::Corrupt { what: panic })
        .and_then(|copied| copied.map_err(failure::of_engine))
}

/// Copies the documents; makes indexes, counters and the catalog's notes from them.
///
/// # Errors
/// As [`everything`]; [`StoreError::Duplicate`] when documents break a unique index.
pub(super) fn rebuilt(from: &Database, catalog: &Catalog, to: &mut Database) -> Result<(), StoreError> {
    failure::guarded(|| {
        let source = from.begin_read().map_err(|error| failure::of_engine(error.into()))?;
        let target = to.begin_write().map_err(|error| failure::of_engine(error.into()))?;
        table(&source, &target, META).map_err(failure::of_engine)?;
        let mut catalog = catalog.clone();
        let numbers: Vec<u32> = catalog.iter().map(|collection| collection.number).collect();
        for number in &numbers {
            documents(&source, &target, catalog.at(*number)).map_err(failure::of_engine)?;
            rebuild_collection(&target, &mut catalog, *number)?;
        }
        store_collections(&target, &mut catalog, numbers)?;
        format::sign(&target).map_err(failure::of_engine)?;
        target.commit().map_err(|error| failure::of_engine(error.into()))?;
        trim(to).map_err(failure::of_engine)
    })
}

/// Ends a new file behind its last page: redb has made it longer ahead of what it wrote.
fn trim(new: &mut Database) -> Result<(), redb::Error> {
    new.compact()?;
    Ok(())
}

fn rebuild_collection(target: &WriteTransaction, catalog: &mut Catalog, number: u32) -> Result<(), StoreError> {
    let own = catalog.at_mut(number);
    own.forget_what_was_seen();
    let mut tables = Tables::<Working<'_>>::open(target, own).map_err(failure::of_table)?;
    for entry in tables.data.iter().map_err(failure::of_storage)? {
        let (row, stored) = entry.map_err(failure::of_storage)?;
        let document = RawDocument::from_bytes(stored.value()).map_err(|_| failure::damaged(&own.name, row.value()))?;
        own.next_row = own.next_row.max(row.value() + 1);
        if let Some(id) = public_id(document) {
            own.note_id(id);
        }
    }
    let indexes: Vec<u32> = own.indexes.iter().map(|index| index.number).collect();
    indexes.into_iter().try_for_each(|index| prepare::build(catalog, number, index, &mut tables))?;
    prepare::count_entries(catalog.at(number), &mut tables, &[]).map(drop)
}

/// Whether every document of every collection can be read.
pub(super) fn documents_decode(database: &Database, catalog: &Catalog) -> Result<bool, redb::Error> {
    let transaction = database.begin_read()?;
    for collection in catalog.iter() {
        let documents = transaction.open_table(DataDefinition::new(&data_name(collection.number)))?;
        for entry in documents.iter()? {
            let (_, stored) = entry?;
            let document = RawDocument::from_bytes(stored.value());
            if !document.is_ok_and(|document| validate::document(document).is_ok()) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn documents(from: &ReadTransaction, to: &WriteTransaction, collection: &Collection) -> Result<(), redb::Error> {
    table(from, to, DataDefinition::new(&data_name(collection.number)))
}

/// Copies one table; a table that was never made is none to copy.
fn table<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
) -> Result<(), redb::Error> {
    let source = match from.open_table(definition) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        opened => opened?,
    };
    let mut target = to.open_table(definition)?;
    let mut end = target.upper_bound_mut(Bound::<K::SelfType<'_>>::Unbounded)?;
    for entry in source.iter()? {
        let (key, value) = entry?;
        end.insert_before(key.value(), value.value())?;
    }
    end.close()?;
    Ok(())
}
