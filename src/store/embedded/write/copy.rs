//! Copies a store into a new file: unchanged in key order, or with rebuilt indexes.

use std::io;
use std::ops::Bound;
use std::time::Instant;

use bson::raw::RawDocument;
use redb::{
    AccessGuard, Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, StorageError, TableDefinition,
    TableError, Value, WriteTransaction,
};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::{Catalog, Collection};
use crate::store::embedded::catalog::meta::{self, META, store_collections};
use crate::store::embedded::failure;
use crate::store::embedded::index::packed::table as packed;
use crate::store::embedded::index::table::{
    DataDefinition, PlainDefinition, UniqueDefinition, Working, counts_name, data_name, table_name,
};
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::embedded::write::batch::public_id;
use crate::store::embedded::write::room::Room;
use crate::store::embedded::write::{prepare, validate};

/// How many entries one transaction copies, if several are allowed.
const ENTRIES_PER_STEP: usize = 10_000;
/// How many entries are copied between two reads of the clock.
const ENTRIES_PER_LOOK: usize = 1000;

/// Copies all tables unchanged. Tables that the catalog does not name are left out.
///
/// # Errors
/// [`StoreError::Corrupt`] when the pages of the source are damaged, [`StoreError::Backend`] with an [`std::io::Error`]
/// when the target cannot be written.
pub(crate) fn everything(from: &Database, catalog: &Catalog, to: &Database) -> Result<(), StoreError> {
    let copy = || -> Result<(), redb::Error> {
        let source = from.begin_read()?;
        for part in CopiedTable::all(catalog) {
            part.copy(&source, CopyTarget::Steps(to))?;
        }
        let target = to.begin_write()?;
        meta::sign(&target)?;
        target.commit()?;
        Ok(())
    };
    failure::caught(copy)
        .map_err(|panic| StoreError::Corrupt { what: panic.to_owned() })
        .and_then(|copied| copied.map_err(failure::of_engine))
}

/// Copies a snapshot; an [`io::ErrorKind::TimedOut`] when it takes too long.
///
/// # Errors
/// As [`everything`].
pub(crate) fn as_of(from: &Snapshot, to: &mut Database, until: Option<Instant>) -> Result<(), StoreError> {
    let mut copy = || -> Result<(), redb::Error> {
        let target = to.begin_write()?;
        CopiedTable::all(from.catalog())
            .iter()
            .try_for_each(|part| part.copy(from.transaction(), CopyTarget::Transaction(&target, until)))?;
        meta::sign(&target)?;
        target.commit()?;
        // A file of redb's own is longer than its written part.
        to.compact()?;
        Ok(())
    };
    failure::guarded(|| copy().map_err(failure::of_engine))
}

/// A table that belongs to a store.
enum CopiedTable {
    Meta,
    Data(String),
    Unique(String),
    Plain(String),
    Packed(String),
}

impl CopiedTable {
    /// All that the catalog leads to.
    fn all(catalog: &Catalog) -> Vec<Self> {
        let of_collection = |collection: &Collection| {
            let mut parts =
                vec![Self::Data(data_name(collection.number)), Self::Unique(counts_name(collection.number))];
            parts.extend(collection.indexes.iter().map(|index| {
                let name = table_name(collection.number, index);
                match index.packed {
                    _ if index.unique => Self::Unique(name),
                    None => Self::Plain(name),
                    Some(_) => Self::Packed(name),
                }
            }));
            parts
        };
        std::iter::once(Self::Meta).chain(catalog.iter().flat_map(|collection| of_collection(collection))).collect()
    }

    fn copy(&self, from: &ReadTransaction, to: CopyTarget<'_>) -> Result<(), redb::Error> {
        match self {
            Self::Meta => table(from, to, META),
            Self::Data(name) => table(from, to, DataDefinition::new(name)),
            Self::Unique(name) => table(from, to, UniqueDefinition::new(name)),
            Self::Plain(name) => table(from, to, PlainDefinition::new(name)),
            Self::Packed(name) => table(from, to, packed::Definition::new(name)),
        }
    }
}

/// Where a table is copied to.
#[derive(Clone, Copy)]
enum CopyTarget<'a> {
    /// One transaction for all, which somebody else commits; an [`io::ErrorKind::TimedOut`] after this moment.
    Transaction(&'a WriteTransaction, Option<Instant>),
    /// A transaction for each [`ENTRIES_PER_STEP`]: the next one reuses the pages that this one wrote twice.
    Steps(&'a Database),
}

/// Copies the documents; makes indexes, counters and the catalog's notes from them.
///
/// # Errors
/// As [`everything`]; [`StoreError::Duplicate`] when documents break a unique index.
pub(crate) fn rebuilt(from: &Database, catalog: &Catalog, to: &Database) -> Result<(), StoreError> {
    failure::guarded(|| {
        let source = from.begin_read().map_err(|error| failure::of_engine(error.into()))?;
        let target = to.begin_write().map_err(|error| failure::of_engine(error.into()))?;
        table(&source, CopyTarget::Transaction(&target, None), META).map_err(failure::of_engine)?;
        let mut catalog = catalog.clone();
        let numbers: Vec<u32> = catalog.iter().map(|collection| collection.number).collect();
        for number in &numbers {
            documents(&source, &target, catalog.at(*number)).map_err(failure::of_engine)?;
            rebuild_collection(&target, &mut catalog, *number)?;
        }
        store_collections(&target, &mut catalog, numbers)?;
        meta::sign(&target).map_err(failure::of_engine)?;
        target.commit().map_err(|error| failure::of_engine(error.into()))
    })
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
    let room = Room::boundless();
    indexes.into_iter().try_for_each(|index| prepare::build(target, catalog, number, index, &mut tables, &room))?;
    prepare::count_entries(catalog.at(number), &mut tables, &[]).map(drop)
}

/// Whether every document of every collection can be read.
pub(crate) fn documents_decode(database: &Database, catalog: &Catalog) -> Result<bool, redb::Error> {
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
    table(from, CopyTarget::Transaction(to, None), DataDefinition::new(&data_name(collection.number)))
}

/// Copies one table, if it exists.
fn table<K: Key + 'static, V: Value + 'static>(
    from: &ReadTransaction,
    to: CopyTarget<'_>,
    definition: TableDefinition<'_, K, V>,
) -> Result<(), redb::Error> {
    let source = match from.open_table(definition) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        opened => opened?,
    };
    let mut entries = source.iter()?.peekable();
    match to {
        CopyTarget::Transaction(transaction, until) => append(entries, transaction, definition, until),
        CopyTarget::Steps(database) => loop {
            let transaction = database.begin_write()?;
            append(entries.by_ref().take(ENTRIES_PER_STEP), &transaction, definition, None)?;
            transaction.commit()?;
            if entries.peek().is_none() {
                return Ok(());
            }
        },
    }
}

/// Appends entries to a table.
fn append<'e, K: Key + 'static, V: Value + 'static>(
    entries: impl Iterator<Item = Result<(AccessGuard<'e, K>, AccessGuard<'e, V>), StorageError>>,
    to: &WriteTransaction,
    definition: TableDefinition<'_, K, V>,
    until: Option<Instant>,
) -> Result<(), redb::Error> {
    let mut target = to.open_table(definition)?;
    let mut end = target.upper_bound_mut(Bound::<K::SelfType<'_>>::Unbounded)?;
    for (number, entry) in entries.enumerate() {
        if number % ENTRIES_PER_LOOK == 0 && until.is_some_and(|until| Instant::now() > until) {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        let (key, value) = entry?;
        end.insert_before(key.value(), value.value())?;
    }
    end.close()?;
    Ok(())
}
