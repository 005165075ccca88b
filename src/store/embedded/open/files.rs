//! The files of a store on its storage: whether there are any, opens and locks them, and asks the storage about them.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{fs, io};

use redb::StorageBackend;

use crate::store::embedded::file::pages::{Opened, Pages};
use crate::store::embedded::file::storage::{Disk, Named, Storage};
use crate::store::embedded::file::{acknowledged, pages};
use crate::store::embedded::open::paths::{FILE, StorePaths};
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::options::Options;

/// How a process uses the file of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Writes go to the file.
    ReadWrite,
    /// The file stays as it is: writes go to an [`Overlay`](crate::store::embedded::file::overlay::Overlay).
    Overlay,
}

/// The files of a store, the storage they are on, and how they are opened. Kept to open them again after a failure of the storage.
#[derive(Debug, Clone)]
pub(crate) struct StoreFiles {
    paths: StorePaths,
    storage: Arc<dyn Storage>,
    options: Options,
    access: Access,
    /// Whether this process has read a damaged page, however often it has opened the file.
    damage: Arc<AtomicBool>,
}

impl StoreFiles {
    /// Those of a store on disk; makes the directory if there is none.
    pub(crate) fn prepare(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        Self::on(Arc::new(Disk), directory, options)
    }

    /// Those of a store on disk that exists; makes nothing.
    pub(crate) fn existing(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        if !has_store(directory)? {
            return Err(OpenError::NoStore(directory.to_owned()));
        }
        Self::prepare(directory, options)
    }

    /// As [`StoreFiles::prepare`], on any storage.
    pub(crate) fn on(storage: Arc<dyn Storage>, directory: &Path, options: &Options) -> Result<Self, OpenError> {
        let paths = StorePaths::of(directory);
        match storage.make_directory(directory) {
            Ok(()) => Ok(Self { paths, storage, options: *options, access: Access::ReadWrite, damage: Arc::default() }),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(OpenError::NotADirectory(directory.to_owned()))
            }
            Err(error) => Err(paths.io_error(error)),
        }
    }

    /// The same files, for a process that must not change them.
    pub(crate) fn overlaid(self) -> Self {
        Self { access: Access::Overlay, ..self }
    }

    /// The file that is to replace the store's, as a store of its own.
    pub(crate) fn replacement(&self) -> Self {
        Self { paths: self.paths.replacement(), ..self.clone() }
    }

    /// Where the files are.
    pub(crate) fn paths(&self) -> &StorePaths {
        &self.paths
    }

    /// What the files are on.
    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// How the store is opened.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Set when a damaged page is read.
    pub(crate) fn damage(&self) -> &Arc<AtomicBool> {
        &self.damage
    }

    /// How this process uses the file.
    pub(crate) fn access(&self) -> Access {
        self.access
    }

    /// Makes a file without a name in the directory of the store.
    pub(crate) fn scratch(&self) -> Result<File, OpenError> {
        self.storage.scratch(self.paths.directory()).map_err(|error| self.paths.io_error(error))
    }

    /// The length of the file; 0 where the storage cannot say.
    pub(crate) fn length(&self) -> u64 {
        self.storage.len(self.paths.file()).ok().flatten().unwrap_or_default()
    }

    /// The bytes that the file takes on disk. redb doubles the length of a small file when it is full, ahead of what it writes.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.storage.taken(self.paths.file()).unwrap_or_default()
    }

    /// The bytes on the disk that the process may still take; nothing where the system does not say.
    pub(crate) fn free_bytes(&self) -> Option<u64> {
        self.storage.free(self.paths.directory())
    }

    /// Whether the file is so large that each durable commit of its tables is also to save redb's allocator state, see
    /// [`Options::quick_repair_from_bytes`].
    pub(crate) fn is_large(&self) -> bool {
        self.length() >= self.options.quick_repair_from_bytes
    }

    /// Whether there is no file, or an empty one.
    pub(super) fn is_missing(&self) -> Result<bool, OpenError> {
        let length = self.storage.len(self.paths.file()).map_err(|error| self.paths.io_error(error))?;
        Ok(length.unwrap_or_default() == 0)
    }

    /// Keeps every process from opening the store until the answer is dropped; `None` when there is no store.
    pub(crate) fn lock(&self) -> Result<Option<Box<dyn StorageBackend>>, OpenError> {
        if self.is_missing()? {
            return Ok(None);
        }
        let id = self.id()?;
        let file = self.open_file()?;
        pages::lock(&*file).map_err(|error| self.paths.log_error(error))?;
        self.check_id(id)?;
        Ok(Some(file))
    }

    /// Opens and locks the file to read it.
    pub(super) fn open_to_read(&self) -> Result<Opened, OpenError> {
        Pages::open(self.open_file()?).map_err(|error| self.paths.log_error(error))
    }

    /// Opens and locks the file to write to it. Its syncs fail from the moment when it loses its name.
    pub(super) fn open_to_write(&self) -> Result<Opened, OpenError> {
        let id = self.id()?;
        let file = Named::new(self.open_file()?, &self.storage, self.paths.file(), id);
        let opened = Pages::open(Box::new(file)).map_err(|error| self.paths.log_error(error))?;
        self.check_id(id)?;
        Ok(opened)
    }

    fn open_file(&self) -> Result<Box<dyn StorageBackend>, OpenError> {
        self.storage.open(self.paths.file()).map_err(|error| self.paths.io_error(error))
    }

    fn id(&self) -> Result<u64, OpenError> {
        self.storage.id(self.paths.file()).map_err(|error| self.paths.io_error(error))
    }

    /// The lock is on the opened file. Another process may have replaced that file before the lock; writes to it would be lost.
    fn check_id(&self, id: u64) -> Result<(), OpenError> {
        if self.id()? == id { Ok(()) } else { Err(OpenError::InUse(self.paths.directory().to_owned())) }
    }
}

/// Whether there is a store in the directory.
///
/// # Errors
/// [`OpenError::NotReadable`] when that cannot be seen, [`OpenError::Lost`] when there was one.
pub fn has_store(directory: &Path) -> Result<bool, OpenError> {
    match fs::metadata(directory.join(FILE)) {
        Ok(found) if found.len() > 0 => Ok(true),
        // The directory is a file: there is nothing in it.
        Err(error) if error.kind() == ErrorKind::NotADirectory => Ok(false),
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(OpenError::NotReadable { path: directory.to_owned(), source })
        }
        _ => {
            let disk: Arc<dyn Storage> = Arc::new(Disk);
            check_nothing(&disk, &StorePaths::of(directory))?;
            Ok(false)
        }
    }
}

/// There is no file, or an empty one. If a write to it was acknowledged, somebody has taken the file away.
///
/// # Errors
/// [`OpenError::Lost`] then.
pub(super) fn check_nothing(storage: &Arc<dyn Storage>, paths: &StorePaths) -> Result<(), OpenError> {
    if acknowledged::read(storage, paths.acknowledged()) == 0 {
        return Ok(());
    }
    Err(OpenError::Lost { path: paths.file().to_owned(), watermark: paths.acknowledged().to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_not_taken_for_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        assert!(!has_store(path).expect("it can be seen"));
        assert!(!has_store(&path.join("none")).expect("it can be seen"));
        // Like a directory without the right to search it, and so for every user: the system does not get to the file.
        symlink(FILE, path.join(FILE)).expect("a link to itself");
        let told = has_store(path).expect_err("nobody knows").to_string();
        assert!(
            told.contains("cannot be read: ") && told.contains("give the user of this service the right"),
            "{told}"
        );
        fs::remove_file(path.join(FILE)).expect("it is there");
        fs::write(path.join(FILE), "").expect("a file");
        assert!(!has_store(path).expect("it can be seen"), "an empty file is no store");
        fs::write(path.join(FILE), "x").expect("a file");
        assert!(has_store(path).expect("it can be seen"));
        assert!(!has_store(&path.join(FILE)).expect("it can be seen"));
    }
}
