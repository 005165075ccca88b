//! Why a store is not opened, in words for the operator, and which error below leads to which refusal.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use redb::{DatabaseError, StorageError};

use crate::store::StoreError;
use crate::store::embedded::catalog::meta::FORMAT;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::{BESIDE, LAYOUT, Unopened};
use crate::store::embedded::open::paths::StorePaths;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path leads to something else.
    #[error("{} is not a directory; name the directory that shall hold the store", .0.display())]
    NotADirectory(PathBuf),
    /// There is nothing to look at.
    #[error("there is no store in {}; the first start of the service makes one, or see store.uri", .0.display())]
    NoStore(PathBuf),
    /// There was a store when this process opened it.
    #[error("{} is gone: somebody removed it, or its file system is not mounted any more; put it back, nothing is made in its place", .0.display())]
    Gone(PathBuf),
    /// There was a store, and writes to it were acknowledged.
    #[error(
        "{} is gone or empty, and {} says that it held data: put the file back, or restore a backup with inventory-service \
         restore (to begin anew without that data, remove {})",
        path.display(), watermark.display(), watermark.display()
    )]
    Lost {
        /// The file.
        path: PathBuf,
        /// The file next to the store with the number of the last acknowledged commit.
        watermark: PathBuf,
    },
    /// Whether there is a store cannot be seen.
    #[error("{} cannot be read: {source}; give the user of this service the right to read and search it", path.display())]
    NotReadable {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Another process works on the same directory, or this one has it open already.
    #[error("the store in {} is in use by another process; a store has one process at a time, stop that one first", .0.display())]
    InUse(PathBuf),
    /// The file system has no locks: two processes could write to the same file, and each would lose what the other writes.
    #[error("{} is on a file system that has no locks, and nothing would keep a second process from the store; name a directory on another one in store.uri, a local disk for instance", .0.display())]
    NoLocks(PathBuf),
    /// The directory or a file in it cannot be written.
    #[error("{} or a file in it cannot be written: {source}; give the user of this service the right to write both, or copy the directory to a disk that can be written and name the copy in store.uri", path.display())]
    NotWritable {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The disk is full.
    #[error("there is no room left for {}: {source}; nothing is lost, make room for {needed} bytes and start again, or copy the file to another disk: restore takes the copy", path.display())]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// The maximum number of bytes that are missing.
        needed: u64,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file was written by a newer version of this service.
    #[error("{} has the format {found}, this version reads up to {FORMAT}; use the version that wrote it", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
    },
    /// A newer version of this service lays the pages of the file out differently.
    #[error("{} has the page layout {found}, this version reads up to {LAYOUT}; use the version that wrote it", path.display())]
    NewerPages {
        /// The file.
        path: PathBuf,
        /// Its layout.
        found: u32,
    },
    /// The file was written by an old version of the storage engine.
    #[error("{} has the storage format {found}, which this version no longer reads; restore a backup that this version can read, or copy the data with the version that wrote it", path.display())]
    OlderStorage {
        /// The file.
        path: PathBuf,
        /// The version of the storage format.
        found: u8,
    },
    /// The file is not a store of this service.
    #[error("{} is not a store of this service; move it away, or name another directory in store.uri", .0.display())]
    UnknownFormat(PathBuf),
    /// The file is a store, and damaged.
    #[error("{} is damaged: {what}; it stays as it is: look at it with inventory-service check --deep, or restore a backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The operating system refused.
    #[error("{} cannot be opened: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// Each error below the store, as the refusal of the store at these paths.
impl StorePaths {
    /// The file is damaged.
    pub(super) fn damaged(&self, what: &dyn Display) -> OpenError {
        OpenError::Damaged { path: self.file().to_owned(), what: what.to_string() }
    }

    /// The disk is full: this number of bytes is missing, in addition to what a log keeps free.
    pub(super) fn no_room(&self, source: io::Error, missing: u64) -> OpenError {
        OpenError::NoRoom { path: self.file().to_owned(), needed: missing.saturating_add(BESIDE), source }
    }

    /// The file is none of this service.
    pub(super) fn unknown_format(&self) -> OpenError {
        OpenError::UnknownFormat(self.file().to_owned())
    }

    /// The storage failed.
    pub(super) fn io_error(&self, source: io::Error) -> OpenError {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::NotWritable { path: self.directory().to_owned(), source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                self.no_room(source, 0)
            }
            _ => OpenError::Io { path: self.file().to_owned(), source },
        }
    }

    /// The log of pages was not opened.
    pub(super) fn log_error(&self, error: Unopened) -> OpenError {
        match error {
            Unopened::InUse => OpenError::InUse(self.directory().to_owned()),
            Unopened::NoLocks => OpenError::NoLocks(self.directory().to_owned()),
            Unopened::Newer(found) => OpenError::NewerPages { path: self.file().to_owned(), found },
            Unopened::Damaged(what) => self.damaged(&what),
            Unopened::Io(error) => self.io_error(error),
        }
    }

    /// redb did not open its database.
    pub(super) fn database_error(&self, error: DatabaseError) -> OpenError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(self.directory().to_owned()),
            DatabaseError::UpgradeRequired(found) => OpenError::OlderStorage { path: self.file().to_owned(), found },
            // redb's words for a file that does not begin as its files do.
            DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                self.unknown_format()
            }
            other => self.engine_error(other.into()),
        }
    }

    /// redb failed to read or write.
    pub(super) fn engine_error(&self, error: redb::Error) -> OpenError {
        match error {
            // The file ends before its pages do.
            redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.damaged(&error),
            redb::Error::Io(error) => self.io_error(error),
            // redb's words are for those who know its file.
            redb::Error::Corrupted(what) => self.damaged(&format!("its tables do not add up ({what})")),
            other => self.damaged(&other),
        }
    }

    /// Work on the whole file failed.
    pub(crate) fn store_error(&self, error: StoreError) -> OpenError {
        match error {
            StoreError::Corrupt { what } => self.damaged(&what),
            StoreError::NoRoom { .. } => self.io_error(io::ErrorKind::StorageFull.into()),
            StoreError::Backend { cause } => match cause.downcast::<io::Error>() {
                Ok(source) => self.io_error(*source),
                Err(source) => self.io_error(io::Error::other(source)),
            },
            other => self.io_error(io::Error::other(other)),
        }
    }

    /// Runs work that may panic on damaged pages: redb verifies them when it recovers, not whenever it reads.
    pub(super) fn guarded<T>(&self, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
        failure::caught(work).unwrap_or_else(|panic| Err(self.damaged(&panic)))
    }
}
