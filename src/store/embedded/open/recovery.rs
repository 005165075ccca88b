//! Recovery: what is found at the path of a store's file, and how it becomes current.
//!
//! A log of pages holds commits that its tables do not have yet, as records. redb recovers the tables. Then [`bring_up_to_date`]
//! upgrades an older format and replays the records. redb's own file, as a backup is, has tables alone.

use std::sync::Arc;

use redb::{Database, StorageBackend};

use crate::plural::counted;
use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::catalog::meta::FORMAT;
use crate::store::embedded::file::acknowledged;
use crate::store::embedded::file::acknowledged::Acknowledged;
use crate::store::embedded::file::overlay::Overlay;
use crate::store::embedded::file::pages::{Opened, Pages};
use crate::store::embedded::open::engine::{Engine, Torn};
use crate::store::embedded::open::files::{Access, StoreFiles};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::open::{engine, files, format};
use crate::store::embedded::write::batch::BatchLimits;
use crate::store::embedded::write::replay;
use crate::store::embedded::write::replay::Records;
use crate::store::embedded::write::room::Room;

/// What is at the path of a store's file.
pub(super) enum Finding {
    /// No file, or an empty one.
    Nothing,
    /// A log of pages; its tables are open.
    Log(Unreplayed, Pages),
    /// redb's own file: a backup, or a store from before there were logs.
    EngineFile,
}

/// A database that redb has recovered. Its tables lack the records: before its indexes are read, [`bring_up_to_date`] has to follow.
pub(crate) struct Unreplayed {
    pub(crate) database: Engine,
    /// As the tables have it.
    pub(crate) catalog: Catalog,
    /// The commits beyond the tables.
    pub(crate) records: Records,
    /// Whether reading compares each page with its checksum. redb itself does not.
    pub(crate) has_page_checksums: bool,
}

/// Finds what is at the path. A log is opened to write to it.
pub(super) fn find(files: &StoreFiles) -> Result<Finding, OpenError> {
    if files.is_missing()? {
        return Ok(Finding::Nothing);
    }
    let Opened::Log(log) = files.open_to_write()? else { return Ok(Finding::EngineFile) };
    log.report_damage_to(files.damage());
    let options = files.options();
    // redb writes pages before a commit when they take half of its cache.
    log.set_bounds(options.cache_bytes / 2, options.quick_repair_from_bytes);
    let database = engine::builder(files, Torn::Refuse).create_with_backend(log.clone());
    let database = database.map_err(|error| files.paths().database_error(error))?;
    Ok(Finding::Log(read_tables(files, database, Some(&log))?, log))
}

/// Opens the database in an overlay: the file stays as it is, whatever is done to the database.
pub(crate) fn open_overlay(files: &StoreFiles) -> Result<Unreplayed, OpenError> {
    let paths = files.paths();
    paths.guarded(|| {
        if files.is_missing()? {
            files::check_nothing(files.storage(), paths)?;
            return Err(OpenError::NoStore(paths.directory().to_owned()));
        }
        let (file, log): (Box<dyn StorageBackend>, _) = match files.open_to_read()? {
            Opened::Log(log) => {
                log.report_damage_to(files.damage());
                (Box::new(log.clone()), Some(log))
            }
            Opened::Plain(file) => (file, None),
        };
        // In a log a commit is there as a whole or not at all, and a torn one is damage. In redb's own file either it was
        // never acknowledged, or the watermark refuses it.
        let torn = if log.is_some() { Torn::Refuse } else { Torn::GoBack };
        let (storage, directory) = (Arc::clone(files.storage()), paths.directory().to_owned());
        let overlay = Overlay::new(file, move || storage.scratch(&directory)).map_err(|error| paths.io_error(error))?;
        let database = engine::builder(files, torn).create_with_backend(overlay);
        let database = database.map_err(|error| paths.database_error(error))?;
        read_tables(files, database, log.as_ref())
    })
}

/// Reads the catalog of a database and the records of its log. The last acknowledged commit must be among them.
fn read_tables(files: &StoreFiles, database: Database, log: Option<&Pages>) -> Result<Unreplayed, OpenError> {
    let database = Engine::from(database);
    let (catalog, _) = format::read_catalog(&database, files.paths())?;
    let records = log.map_or(Ok(Vec::new()), |log| log.records_after(catalog.commit));
    let records = records.map_err(|error| files.paths().engine_error(error.into()))?;
    check_watermark(files, records.last().map_or(catalog.commit, |(number, _)| *number))?;
    Ok(Unreplayed { database, catalog, records, has_page_checksums: log.is_some() })
}

/// Upgrades an older format and replays the records; returns the catalog that follows. A database in an overlay has to be
/// verified before: a changed page gets a new checksum.
pub(crate) fn bring_up_to_date(files: &StoreFiles, tables: &Unreplayed) -> Result<Catalog, OpenError> {
    bring_up_to_date_in(files, tables, &Room::boundless())
}

/// The same, with the room that the log has promised.
pub(super) fn bring_up_to_date_in(
    files: &StoreFiles,
    Unreplayed { database, records, .. }: &Unreplayed,
    room: &Room,
) -> Result<Catalog, OpenError> {
    let paths = files.paths();
    paths.guarded(|| {
        let file = paths.file().display();
        let (mut catalog, version) = format::read_catalog(database, paths)?;
        if version != FORMAT {
            log::info!("bringing {file} from format {version} up to {FORMAT}");
            format::bring_up(database, &mut catalog, version).map_err(|error| paths.store_error(error))?;
            catalog = format::read_catalog(database, paths)?.0;
        }
        if records.is_empty() {
            return Ok(catalog);
        }
        log::info!("applying {} of {file}, which its log alone has", counted(records.len(), "commit"));
        let limits = BatchLimits::of(files.options());
        replay::replay(database, catalog, records, limits, files.is_large(), room)
            .map_err(|error| paths.store_error(error))
    })
}

/// Opens the database in an overlay, after comparing all checksums, and brings it up to date.
pub(crate) fn open_verified(files: &StoreFiles) -> Result<(Engine, Catalog), OpenError> {
    let mut tables = open_overlay(files)?;
    verify(files, &mut tables.database)?;
    let catalog = bring_up_to_date(files, &tables)?;
    Ok((tables.database, catalog))
}

/// Reads the whole file and compares its checksums.
///
/// # Errors
/// [`OpenError::Damaged`] when one does not agree.
pub(crate) fn verify(files: &StoreFiles, database: &mut Database) -> Result<(), OpenError> {
    let paths = files.paths();
    paths.guarded(|| match database.check_integrity() {
        Ok(true) => Ok(()),
        Ok(false) => Err(paths.damaged(&"its pages do not add up")),
        Err(error) => Err(paths.database_error(error)),
    })
}

/// An acknowledged commit was on disk. If the last commit that was found is older, something has taken it away since.
///
/// # Errors
/// [`OpenError::Damaged`] then.
pub(super) fn check_watermark(files: &StoreFiles, last: u64) -> Result<(), OpenError> {
    let watermark = files.paths().acknowledged();
    let acknowledged = acknowledged::read(files.storage(), watermark);
    if acknowledged <= last {
        return Ok(());
    }
    Err(files.paths().damaged(&format!(
        "write {acknowledged} was acknowledged, and the last one that it holds is {last}: it is an older copy or \
         backup, or its end is not whole any more (to go on without the writes between, remove {})",
        watermark.display()
    )))
}

/// Opens the watermark, and moves it to the commit of the catalog.
pub(crate) fn open_watermark(files: &StoreFiles, catalog: &Catalog) -> Acknowledged {
    if files.access() == Access::Overlay {
        return Acknowledged::nowhere();
    }
    let mut watermark = Acknowledged::open(files.storage(), files.paths().acknowledged());
    // It may be out of date, or new.
    watermark.note(catalog.commit);
    watermark
}
