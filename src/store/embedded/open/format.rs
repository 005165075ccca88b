//! The format of the tables: the catalog with its version, and how an older version becomes this one. The layout of the pages below
//! has a version of its own, see [`pages`](crate::store::embedded::file::pages).
//!
//! | version | what is different |
//! |---|---|
//! | 1 | entries of indexes may be counted wrongly: builds from before there were counts wrote such files as well |
//! | 2 | counts are right |
//! | 3 | the newest entries of indexes with arrays may be missing: marks of the index say which |
//! | 4 | entries of indexes with arrays are in blocks, see [`packed`](crate::store::embedded::index::packed); the newest may be missing |
//! | 5 | every entry is in its table |

use bson::Document;
use bson::raw::RawDocument;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, TableError, WriteTransaction};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::{Catalog, CatalogError, Collection};
use crate::store::embedded::catalog::meta::{
    self, FORMAT, META, META_COLLECTION, META_COMMIT, OLDEST, restate_collections, sign,
};
use crate::store::embedded::failure;
use crate::store::embedded::index::entries::with_row;
use crate::store::embedded::index::keys::keys_of;
use crate::store::embedded::index::table::Working;
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::open::paths::StorePaths;
use crate::store::embedded::open::refusal::OpenError;

/// From this version on entries are counted rightly.
const COUNTED: i64 = 2;
/// From this version on all entries are in their tables.
const COMPLETE: i64 = 5;

/// Reads the catalog of a database, and the version of its format.
pub(super) fn read_catalog(database: &Database, paths: &StorePaths) -> Result<(Catalog, i64), OpenError> {
    let transaction = database.begin_read().map_err(|error| paths.engine_error(error.into()))?;
    catalog_of(&transaction, paths)
}

fn catalog_of(transaction: &ReadTransaction, paths: &StorePaths) -> Result<(Catalog, i64), OpenError> {
    let meta = match transaction.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(paths.engine_error(error.into())),
        Err(_) => return Err(paths.unknown_format()),
    };
    let version = check_version(&meta, paths)?;
    let entries = meta.range(META_COLLECTION..).map_err(|error| paths.engine_error(error.into()))?;
    let mut collections = Vec::new();
    for entry in entries {
        let (name, stored) = entry.map_err(|error| paths.engine_error(error.into()))?;
        if name.value().starts_with(META_COLLECTION) {
            collections.push(read_collection(stored.value()).map_err(|error| paths.damaged(&error))?);
        }
    }
    let commit = meta.get(META_COMMIT).map_err(|error| paths.engine_error(error.into()))?;
    let commit = commit.and_then(|stored| Some(u64::from_le_bytes(stored.value().try_into().ok()?)));
    let catalog = Catalog::of(collections, commit.unwrap_or_default());
    Ok((catalog.map_err(|error| paths.damaged(&error))?, version))
}

fn check_version(meta: &impl ReadableTable<&'static str, &'static [u8]>, paths: &StorePaths) -> Result<i64, OpenError> {
    match meta::version(meta).map_err(|error| paths.engine_error(error.into()))? {
        Some(found) if (OLDEST..=FORMAT).contains(&found) => Ok(found),
        Some(found) if found > FORMAT => Err(OpenError::NewerFormat { path: paths.file().to_owned(), found }),
        _ => Err(paths.unknown_format()),
    }
}

fn read_collection(stored: &[u8]) -> Result<Collection, CatalogError> {
    Collection::from_document(&Document::from_reader(stored)?)
}

/// Brings a file of an older version up to this one, in one transaction.
///
/// # Errors
/// As work on a whole file; nothing has changed then.
pub(super) fn bring_up(database: &Database, catalog: &mut Catalog, version: i64) -> Result<(), StoreError> {
    let transaction = database.begin_write().map_err(|error| failure::of_engine(error.into()))?;
    if version < COMPLETE {
        complete(&transaction, catalog)?;
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

/// Which entries of an index with arrays are not in its table, as stores of the formats 3 and 4 say it.
struct Marks {
    /// All entries of rows below this are in the table.
    settled: u64,
    /// No entry of a row from here on is.
    settling: u64,
    /// Of the rows between the two, the entries below this are.
    reached: Vec<u8>,
    /// How many entries the blocks have; nothing where there are no blocks yet.
    stored: Option<u64>,
}

impl Marks {
    fn of(index: &Document) -> Option<Self> {
        let marks = index.get_document("recent").ok()?;
        Some(Self {
            settled: marks.get_i64("settled").ok()?.cast_unsigned(),
            settling: marks.get_i64("settling").ok()?.cast_unsigned(),
            reached: marks.get_binary_generic("reached").ok()?.clone(),
            stored: marks.get_i64("stored").ok().map(i64::cast_unsigned),
        })
    }

    fn lack(&self, key: &[u8], row: u64) -> bool {
        row >= self.settling || (row >= self.settled && with_row(key, row) >= self.reached)
    }
}

/// Puts all entries of indexes with arrays into blocks.
fn complete(transaction: &WriteTransaction, catalog: &mut Catalog) -> Result<(), StoreError> {
    let numbers: Vec<u32> = catalog.iter().map(|collection| collection.number).collect();
    for number in &numbers {
        let marks = marks(transaction, *number)?;
        let Some(first) = marks.iter().flatten().map(|marks| marks.settled).min() else { continue };
        let own = catalog.at_mut(*number);
        log::info!("completing the indexes of {}", own.name);
        for (index, marks) in own.indexes.iter_mut().zip(&marks) {
            index.packed = marks.as_ref().and_then(|marks| marks.stored);
        }
        let mut tables = Tables::<Working<'_>>::open(transaction, own).map_err(failure::of_table)?;
        let mut lacking = vec![Vec::new(); marks.len()];
        for entry in tables.data.range(first..).map_err(failure::of_storage)? {
            let (row, stored) = entry.map_err(failure::of_storage)?;
            let row = row.value();
            let document = RawDocument::from_bytes(stored.value()).map_err(|_| failure::damaged(&own.name, row))?;
            for ((index, marks), lacking) in own.indexes.iter().zip(&marks).zip(&mut lacking) {
                let Some(marks) = marks else { continue };
                let keys = keys_of(index, document)?.distinct.into_iter();
                lacking.extend(keys.filter(|key| marks.lack(key, row)).map(|key| (key, row)));
            }
        }
        let indexes = own.indexes.iter_mut().zip(&mut tables.indexes).zip(marks).zip(lacking);
        for (((index, table), marks), lacking) in indexes {
            if marks.is_some() {
                table.add_all(lacking.into_iter())?;
                table.pack(transaction, *number, index.number).map_err(failure::of_table)?;
                index.packed = table.packed_entries();
            }
        }
    }
    // The commit keeps its number: records that the log has beyond the tables continue from there.
    restate_collections(transaction, catalog, numbers)
}

/// The marks of the indexes of a collection, in their order.
fn marks(transaction: &WriteTransaction, collection: u32) -> Result<Vec<Option<Marks>>, StoreError> {
    let meta = transaction.open_table(META).map_err(failure::of_table)?;
    let stored = meta.get(format!("{META_COLLECTION}{collection}").as_str()).map_err(failure::of_storage)?;
    let stored = stored.and_then(|stored| Document::from_reader(stored.value()).ok());
    let indexes = stored.as_ref().and_then(|stored| stored.get_array("indexes").ok());
    Ok(indexes.into_iter().flatten().map(|index| index.as_document().and_then(Marks::of)).collect())
}
