//! Backup and restore: copies a store while it is in use, and replaces a store that nobody has open.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redb::Database;
use redb::backends::FileBackend;

use crate::store::StoreError;
use crate::store::embedded::failure;
use crate::store::embedded::file::storage::give_to_owner;
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::open::{recovery, replace};
use crate::store::embedded::options::Options;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::embedded::upkeep::check::Findings;
use crate::store::embedded::upkeep::repair;
use crate::store::embedded::write::copy;

/// What files of redb begin with.
const OF_THE_ENGINE: &[u8; 4] = b"redb";

/// A snapshot keeps old pages from being reused, so no copy may take longer.
pub(crate) const LONGEST: Duration = Duration::from_mins(15);

/// Why a backup was not put in place.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// There is a store.
    #[error("there is a store in {}; say --force to put the backup in its place", .0.display())]
    Exists(PathBuf),
    /// The input is not a backup.
    #[error("is no backup of this service; nothing was changed: name a file that inventory-service backup wrote")]
    NoBackup,
    /// It is one that this version cannot read.
    #[error("this is no backup that can be used; nothing was changed: {0}")]
    Unusable(OpenError),
    /// It is one, and damaged.
    #[error("the backup is damaged; nothing was changed: {0}")]
    Damaged(String),
    /// The directory of the store is unusable or in use.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be read or written.
    #[error("{}: {source}; nothing was changed", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Copies the snapshot into an unnamed file in the directory.
///
/// # Errors
/// See [`FileStore::backup`](crate::store::FileStore::backup).
pub(crate) fn copy_of(files: &StoreFiles, snapshot: &Snapshot, longest: Option<Duration>) -> Result<File, StoreError> {
    room_for_another(files)?;
    let mut file = files.scratch().map_err(|error| failure::unavailable(&error))?;
    let copied = failure::guarded(|| {
        let until = longest.map(|longest| Instant::now() + longest);
        let backend = FileBackend::new(file.try_clone().map_err(StoreError::backend)?)
            .map_err(|error| failure::of_engine(error.into()))?;
        let mut database = Database::builder()
            .set_cache_size(files.options().cache_bytes)
            .create_with_backend(backend)
            .map_err(|error| failure::of_engine(error.into()))?;
        copy::as_of(snapshot, &mut database, until)
    });
    copied.map_err(timed_out)?;
    file.rewind().map_err(StoreError::backend)?;
    Ok(file)
}

/// A full disk would block all writes.
fn room_for_another(files: &StoreFiles) -> Result<(), StoreError> {
    let taken = files.taken_bytes();
    let free = files.free_bytes().unwrap_or(u64::MAX);
    if free < taken.saturating_add(taken / 8) {
        let place = files.paths().directory().display();
        return Err(StoreError::NoRoom { what: format!("a copy of {taken} bytes in {place}, where {free} are free") });
    }
    Ok(())
}

fn timed_out(error: StoreError) -> StoreError {
    let is_late = match &error {
        StoreError::Backend { cause } => {
            cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        }
        _ => false,
    };
    if is_late { StoreError::Timeout } else { error }
}

/// Copies a store that nobody has open, after comparing all checksums. The file itself is only read.
///
/// # Errors
/// When there is no store, it is in use or damaged, or the copy cannot be written.
pub fn backup(directory: &Path, options: &Options) -> Result<File, OpenError> {
    let files = StoreFiles::existing(directory, options)?;
    let (database, catalog) = recovery::open_verified(&files)?;
    let snapshot = Snapshot::take(&database, catalog)
        .map_err(|error| files.paths().store_error(failure::of_engine(error.into())))?;
    copy_of(&files, &snapshot, None).map_err(|error| files.paths().store_error(error))
}

/// Replaces the store in a directory with a backup. It reads and checks the backup completely, and only then replaces
/// the file, in one step. An existing store needs `force`.
///
/// # Errors
/// [`RestoreError`]; the store is as it was.
pub fn restore(
    directory: &Path,
    options: &Options,
    backup: &mut dyn Read,
    force: bool,
) -> Result<Findings, RestoreError> {
    let files = StoreFiles::prepare(directory, options)?;
    let held = files.lock()?;
    if held.is_some() && !force {
        return Err(RestoreError::Exists(directory.to_owned()));
    }
    let new = files.replacement();
    let read = write(new.paths().file(), backup).and_then(|()| check(&new));
    match read {
        Ok(findings) => {
            replace::install(&files, &new)?;
            Ok(findings)
        }
        Err(error) => {
            // The next start removes it as well.
            let _ = std::fs::remove_file(new.paths().file());
            Err(error)
        }
    }
}

/// Whether a new backup may take the place of this file: of an earlier one or an empty file, and no link to one.
pub fn may_be_replaced(path: &Path) -> bool {
    let Ok(found) = path.symlink_metadata() else { return false };
    let mut beginning = [0; OF_THE_ENGINE.len()];
    let begins_rightly = |mut file: File| file.read_exact(&mut beginning).is_ok() && beginning == *OF_THE_ENGINE;
    found.is_file() && (found.len() == 0 || File::open(path).is_ok_and(begins_rightly))
}

fn write(path: &Path, backup: &mut dyn Read) -> Result<(), RestoreError> {
    let mut copy = || -> io::Result<()> {
        // A link that somebody else has put there is not followed.
        if path.symlink_metadata().is_ok() {
            std::fs::remove_file(path)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        give_to_owner(&file, path)?;
        io::copy(backup, &mut file)?;
        file.sync_all()
    };
    copy().map_err(|source| RestoreError::Io { path: path.to_owned(), source })
}

fn check(new: &StoreFiles) -> Result<Findings, RestoreError> {
    let findings = repair::check_at(new).map_err(|error| match error {
        OpenError::UnknownFormat(_) | OpenError::NoStore(_) => RestoreError::NoBackup,
        error => RestoreError::Unusable(error),
    })?;
    // The name of the copy is unknown.
    let own = new.paths().file().display().to_string();
    match findings.problems.first() {
        None => Ok(findings),
        Some(problem) if problem.place == own => Err(RestoreError::Damaged(problem.what.clone())),
        Some(problem) => Err(RestoreError::Damaged(problem.to_string())),
    }
}
