//! Opens a store: creates or recovers its file, and brings it up to date.

use redb::Database;

use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::catalog::meta;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::Pages;
use crate::store::embedded::open::engine::Engine;
use crate::store::embedded::open::files::{Access, StoreFiles};
use crate::store::embedded::open::recovery::{self, Finding, Unreplayed};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::open::{files, replace};
use crate::store::embedded::write::journal::Journal;
use crate::store::embedded::write::room::Room;

/// What to do where there is no file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfMissing {
    /// Create a new store.
    Create,
    /// Refuse: this process has had the store open, and its file was lost since.
    Refuse,
}

/// A store that can be read and written.
pub(crate) struct Ready {
    pub(crate) database: Engine,
    pub(crate) catalog: Catalog,
    /// Takes nothing where the database is in an overlay.
    pub(crate) journal: Journal,
}

/// Opens the database, after recovering it where the last process was killed, and reads its catalog.
pub(crate) fn open(files: &StoreFiles, if_missing: IfMissing) -> Result<Ready, OpenError> {
    match files.access() {
        Access::Overlay => open_overlay(files),
        Access::ReadWrite => files.paths().guarded(|| open_log(files, if_missing)),
    }
}

fn open_overlay(files: &StoreFiles) -> Result<Ready, OpenError> {
    let mut tables = recovery::open_overlay(files)?;
    if !tables.has_page_checksums {
        recovery::verify(files, &mut tables.database)?;
    }
    let catalog = recovery::bring_up_to_date(files, &tables)?;
    Ok(Ready { database: tables.database, catalog, journal: Journal::default() })
}

fn open_log(files: &StoreFiles, if_missing: IfMissing) -> Result<Ready, OpenError> {
    let (storage, paths) = (files.storage(), files.paths());
    // The file of a new store gets its name before it can be locked. Two first starts would take it from each other.
    let turn = storage.turn_to_open(paths.directory());
    let (tables, log) = found_or_made(files, if_missing)?;
    drop(turn);
    // The process that put the file there may have been killed before the name was on disk, or its sync failed.
    storage.sync_directory(paths.directory()).map_err(|error| paths.io_error(error))?;
    let room = Room::counted(&log);
    let catalog = match recovery::bring_up_to_date_in(files, &tables, &room) {
        Err(OpenError::NoRoom { source, .. } | OpenError::Io { source, .. }) if room.missing() > 0 || log.is_full() => {
            return Err(paths.no_room(source, room.missing()));
        }
        brought => brought?,
    };
    let mut journal = Journal::of(log);
    journal.release(catalog.commit);
    journal.make_room().map_err(|error| paths.store_error(error))?;
    replace::remove_leftovers(files)?;
    Ok(Ready { database: tables.database, catalog, journal })
}

/// What is at the path as a log of pages: a new one where there is nothing, a rewritten one where redb's own file is.
fn found_or_made(files: &StoreFiles, if_missing: IfMissing) -> Result<(Unreplayed, Pages), OpenError> {
    let file = files.paths().file();
    let mut finding = recovery::find(files)?;
    if let Finding::Nothing = finding {
        if if_missing == IfMissing::Refuse {
            return Err(OpenError::Gone(file.to_owned()));
        }
        files::check_nothing(files.storage(), files.paths())?;
        log::info!("making a new store: {}", file.display());
        replace::write_new(files, |database| sign(database).map_err(failure::of_engine))?;
        finding = recovery::find(files)?;
    }
    if let Finding::EngineFile = finding {
        replace::rewrite(files)?;
        log::info!("{} was written anew, as a log of pages", file.display());
        finding = recovery::find(files)?;
    }
    match finding {
        Finding::Log(tables, log) => Ok((tables, log)),
        _ => Err(files.paths().damaged(&"it could not be made a log of pages")),
    }
}

/// Writes what a new store has.
fn sign(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    meta::sign(&transaction)?;
    transaction.commit()?;
    Ok(())
}
