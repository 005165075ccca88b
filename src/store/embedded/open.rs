//! Opens the file of a store: makes it, repairs it, refuses it with words.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use bson::{Document, doc};
use redb::{Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageError, TableError};

use super::Options;
use super::catalog::{Catalog, CatalogError, Collection};
use super::tables::{META, META_COLLECTION, META_FORMAT};

/// The file in the directory of a store.
pub(super) const FILE: &str = "inventory.redb";
/// The version of the layout that this build reads and writes.
const FORMAT: i64 = 1;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path leads to something else.
    #[error("{} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// Another process works on the same directory, or this one has it open already.
    #[error("the store in {} is in use by another process; a store has one process at a time", .0.display())]
    InUse(PathBuf),
    /// The directory or the file cannot be written.
    #[error("{} cannot be written: {source}; give the user of this service the right to write there", path.display())]
    NotWritable {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
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
    /// The file is not a store of this service.
    #[error("{} is not a store of this service", .0.display())]
    UnknownFormat(PathBuf),
    /// The file is a store, and damaged.
    #[error("{} is damaged: {what}; restore a backup", path.display())]
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
        /// What the operating system said.
        source: io::Error,
    },
}

/// Where a store is and how it is opened; kept to open it again after a failure of the storage.
#[derive(Debug, Clone)]
pub(super) struct Location {
    directory: PathBuf,
    file: PathBuf,
    cache_bytes: usize,
    #[cfg(test)]
    faults: Option<std::sync::Arc<super::faults::Faults>>,
}

impl Location {
    /// Makes the directory if there is none.
    pub(super) fn prepare(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        let location = Self {
            directory: directory.to_owned(),
            file: directory.join(FILE),
            cache_bytes: options.cache_bytes,
            #[cfg(test)]
            faults: None,
        };
        match fs::metadata(directory) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(OpenError::NotADirectory(location.directory)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
                made.map_err(|error| location.io(error))?;
            }
            Err(error) => return Err(location.io(error)),
        }
        Ok(location)
    }

    /// How large the file is.
    pub(super) fn file_bytes(&self) -> u64 {
        fs::metadata(&self.file).map_or(0, |found| found.len())
    }

    /// Opens the database, after repairing it where the last process was killed, and reads its catalog.
    pub(super) fn open(&self) -> Result<(Database, Catalog), OpenError> {
        let is_new = self.file_bytes() == 0;
        if is_new {
            self.make_private().map_err(|error| self.io(error))?;
        }
        let database = self.create().map_err(|error| self.refused(error))?;
        if is_new {
            self.lay_down(&database).map_err(|error| self.failed(error))?;
            // The entry of the new file in its directory must be on disk as well.
            File::open(&self.directory).and_then(|directory| directory.sync_all()).map_err(|error| self.io(error))?;
        }
        let catalog = self.read_catalog(&database)?;
        Ok((database, catalog))
    }

    /// The file holds hashes of passwords and the keys of tokens: its owner alone reads and writes it.
    fn make_private(&self) -> io::Result<()> {
        let options = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&self.file);
        options.and_then(|file| file.set_permissions(Permissions::from_mode(0o600)))
    }

    fn create(&self) -> Result<Database, DatabaseError> {
        #[cfg(test)]
        if let Some(faults) = &self.faults {
            return self.builder().create_with_backend(faults.backend(&self.file)?);
        }
        self.builder().create(&self.file)
    }

    /// The same place, on a storage that fails when told to.
    #[cfg(test)]
    pub(super) fn with_faults(mut self, faults: std::sync::Arc<super::faults::Faults>) -> Self {
        self.faults = Some(faults);
        self
    }

    fn builder(&self) -> Builder {
        let mut builder = Database::builder();
        let file = self.file.display().to_string();
        builder.set_cache_size(self.cache_bytes).set_repair_callback(move |repair| {
            log::warn!("{file} was not closed properly; checking it, {:.0} % done", repair.progress() * 100.0);
        });
        builder
    }

    fn lay_down(&self, database: &Database) -> Result<(), redb::Error> {
        log::info!("making a new store: {}", self.file.display());
        let format = doc! { "version": FORMAT }.to_vec().expect("a number is BSON");
        let transaction = database.begin_write()?;
        transaction.open_table(META)?.insert(META_FORMAT, format.as_slice())?;
        transaction.commit()?;
        Ok(())
    }

    fn read_catalog(&self, database: &Database) -> Result<Catalog, OpenError> {
        let transaction = database.begin_read().map_err(|error| self.failed(error.into()))?;
        let meta = match transaction.open_table(META) {
            Ok(meta) => meta,
            Err(TableError::Storage(error)) => return Err(self.failed(error.into())),
            Err(_) => return Err(OpenError::UnknownFormat(self.file.clone())),
        };
        self.check_format(&meta)?;
        let entries = meta.range(META_COLLECTION..).map_err(|error| self.failed(error.into()))?;
        let mut collections = Vec::new();
        for entry in entries {
            let (name, stored) = entry.map_err(|error| self.failed(error.into()))?;
            if name.value().starts_with(META_COLLECTION) {
                collections.push(read_collection(stored.value()).map_err(|error| self.damaged(&error))?);
            }
        }
        Catalog::of(collections).map_err(|error| self.damaged(&error))
    }

    fn check_format(&self, meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<(), OpenError> {
        let stored = meta.get(META_FORMAT).map_err(|error| self.failed(error.into()))?;
        let version = stored
            .and_then(|stored| Document::from_reader(stored.value()).ok())
            .and_then(|format| format.get_i64("version").ok());
        match version {
            Some(FORMAT) => Ok(()),
            Some(found) if found > FORMAT => Err(OpenError::NewerFormat { path: self.file.clone(), found }),
            _ => Err(OpenError::UnknownFormat(self.file.clone())),
        }
    }

    fn refused(&self, error: DatabaseError) -> OpenError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(self.directory.clone()),
            DatabaseError::UpgradeRequired(_) => OpenError::UnknownFormat(self.file.clone()),
            // redb's words for a file that does not begin as its files do.
            DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                OpenError::UnknownFormat(self.file.clone())
            }
            other => self.failed(other.into()),
        }
    }

    fn failed(&self, error: redb::Error) -> OpenError {
        match error {
            redb::Error::Io(error) => self.io(error),
            other => self.damaged(&other),
        }
    }

    fn damaged(&self, what: &dyn std::fmt::Display) -> OpenError {
        OpenError::Damaged { path: self.file.clone(), what: what.to_string() }
    }

    fn io(&self, source: io::Error) -> OpenError {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::NotWritable { path: self.directory.clone(), source }
            }
            _ => OpenError::Io { path: self.file.clone(), source },
        }
    }
}

fn read_collection(stored: &[u8]) -> Result<Collection, CatalogError> {
    Collection::from_document(&Document::from_reader(stored)?)
}
