//! A new file takes the place of the store's: for a new store, and for a compacted, repaired or restored one.
//!
//! *Invariant:* a new file is written next to the old one as `inventory.redb.new`, made durable, and renamed. Until the
//! rename the old file stays whole, whatever fails.

use std::io;
use std::path::{Path, PathBuf};

use redb::Database;

use crate::store::StoreError;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::{BESIDE, Pages};
use crate::store::embedded::open::engine::{self, Torn};
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::recovery;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::write::copy;

/// Writes a new file and replaces the store's with it: all of it, on disk, or nothing. Its users must have closed the old file.
pub(crate) fn write_new(
    files: &StoreFiles,
    fill: impl FnOnce(&Database) -> Result<(), StoreError>,
) -> Result<(), OpenError> {
    let (storage, paths, new) = (files.storage(), files.paths(), files.paths().new_file());
    let written = write_beside(files, &new, fill).map_err(|error| match error {
        // It may become as large as the old file.
        OpenError::NoRoom { path, source, .. } => {
            OpenError::NoRoom { path, source, needed: files.taken_bytes().saturating_add(BESIDE) }
        }
        other => other,
    });
    if written.is_err() {
        // The first error counts. The next start removes the file as well.
        let _ = storage.remove(&new);
    }
    written?;
    storage.replace(paths.file(), &new).map_err(|error| paths.io_error(error))
}

fn write_beside(
    files: &StoreFiles,
    new: &Path,
    fill: impl FnOnce(&Database) -> Result<(), StoreError>,
) -> Result<(), OpenError> {
    let (storage, paths) = (files.storage(), files.paths());
    let file = (storage.remove(new))
        .and_then(|()| storage.create(new))
        .and_then(|()| storage.open(new))
        .and_then(Pages::create)
        .map_err(|error| paths.io_error(error))?;
    let database = engine::builder(files, Torn::Refuse).create_with_backend(file);
    let database = database.map_err(|error| paths.database_error(error))?;
    fill(&database).map_err(|error| paths.store_error(error))?;
    database.close().map_err(|error| paths.store_error(failure::of_engine(error.into())))
}

/// Verifies the store and writes all of it to a new file.
pub(crate) fn rewrite(files: &StoreFiles) -> Result<(), OpenError> {
    let (database, catalog) = recovery::open_verified(files)?;
    write_new(files, |target| copy::everything(&database, &catalog, target))
}

/// Replaces the store's file with [`StoreFiles::replacement`], which is on disk, and removes the watermark of the old file.
pub(crate) fn install(files: &StoreFiles, new: &StoreFiles) -> Result<(), OpenError> {
    let (storage, paths) = (files.storage(), files.paths());
    let io_error = |error| paths.io_error(error);
    storage.remove(paths.acknowledged()).map_err(io_error)?;
    // It would refuse an older file.
    storage.sync_directory(paths.directory()).map_err(io_error)?;
    storage.replace(paths.file(), new.paths().file()).map_err(io_error)
}

/// Keeps the file under a second name, and returns that name.
pub(crate) fn keep_copy(files: &StoreFiles) -> Result<PathBuf, OpenError> {
    let mut number = 1;
    loop {
        let name = files.paths().damaged_copy(number);
        match files.storage().link(files.paths().file(), &name) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(files.paths().io_error(error)),
        }
    }
}

/// Removes the name that [`keep_copy`] gave, unless a new file has replaced the one it names.
pub(crate) fn forget_copy(files: &StoreFiles, kept: &Path) {
    let storage = files.storage();
    let ids = storage.id(kept).and_then(|kept| Ok((kept, storage.id(files.paths().file())?)));
    if !ids.is_ok_and(|(kept, current)| kept == current) {
        return;
    }
    if let Err(error) = storage.remove(kept) {
        log::warn!("{} is not needed any more and could not be removed: {error}", kept.display());
    }
}

/// Removes what a killed process left. The lock on the open store keeps other processes from needing it.
pub(super) fn remove_leftovers(files: &StoreFiles) -> Result<(), OpenError> {
    let remove = |left: PathBuf| files.storage().remove(&left).map_err(|error| files.paths().io_error(error));
    files.paths().leftovers().into_iter().try_for_each(remove)
}
