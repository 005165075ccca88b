//! The files of a store: the disk, or a test's replacement of it.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::ops::{Bound, Range};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend, StorageError};

/// The unit of a file in memory: one of redb's pages.
pub(crate) const BLOCK: usize = 4096;

/// Where the files of a store are.
pub(crate) trait Storage: Debug + Send + Sync {
    /// Makes sure that the directory is there.
    fn make_directory(&self, directory: &Path) -> io::Result<()>;
    /// Keeps other processes from opening a store in this directory until it is dropped. Waits for one that does. Nothing where
    /// the file system has no such locks.
    fn turn_to_open(&self, _directory: &Path) -> Option<File> {
        None
    }
    /// How long a file is; `None` when there is none.
    fn len(&self, file: &Path) -> io::Result<Option<u64>>;
    /// The bytes that a file takes on disk; less than its length if parts were never written.
    fn taken(&self, file: &Path) -> io::Result<u64>;
    /// The identity of a file, as opposed to another one that had its name before.
    fn id(&self, file: &Path) -> io::Result<u64>;
    /// Creates a file that only its owner can read and write. An existing file keeps its content.
    fn create(&self, file: &Path) -> io::Result<()>;
    /// Opens a file that is there.
    fn open(&self, file: &Path) -> io::Result<Box<dyn StorageBackend>>;
    /// Gives a file a second name, which must be free.
    fn link(&self, file: &Path, name: &Path) -> io::Result<()>;
    /// Replaces a file with another one; the change is on disk when this returns.
    fn replace(&self, file: &Path, by: &Path) -> io::Result<()>;
    /// Syncs a directory, so that the names of its files are durable.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;
    /// Removes a file, if it is there.
    fn remove(&self, file: &Path) -> io::Result<()>;
    /// Creates an unnamed file, which vanishes when it is closed.
    fn scratch(&self, directory: &Path) -> io::Result<File> {
        tempfile::tempfile_in(directory)
    }
    /// The bytes on the disk of a directory that the process may still take; nothing where the system does not say.
    fn free(&self, directory: &Path) -> Option<u64> {
        let found = rustix::fs::statvfs(directory).ok();
        found.map(|found| found.f_bavail.saturating_mul(found.f_frsize))
    }
}

/// The file system.
#[derive(Debug)]
pub(crate) struct Disk;

impl Storage for Disk {
    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        match fs::metadata(directory) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(directory)
            }
            Err(error) => Err(error),
        }
    }

    fn turn_to_open(&self, directory: &Path) -> Option<File> {
        let directory = File::open(directory).ok()?;
        directory.lock().ok()?;
        Some(directory)
    }

    fn len(&self, file: &Path) -> io::Result<Option<u64>> {
        match fs::metadata(file) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn taken(&self, file: &Path) -> io::Result<u64> {
        Ok(fs::metadata(file)?.blocks().saturating_mul(512))
    }

    fn id(&self, file: &Path) -> io::Result<u64> {
        Ok(fs::metadata(file)?.ino())
    }

    /// The file holds hashes of passwords and the keys of tokens.
    fn create(&self, file: &Path) -> io::Result<()> {
        let made = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(file)?;
        made.set_permissions(Permissions::from_mode(0o600))?;
        give_to_owner(&made, file)
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn StorageBackend>> {
        let opened = OpenOptions::new().read(true).write(true).open(file)?;
        Ok(Box::new(FileBackend::new(opened).map_err(io_of)?))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        fs::hard_link(file, name)
    }

    fn replace(&self, file: &Path, by: &Path) -> io::Result<()> {
        fs::rename(by, file)?;
        self.sync_directory(file.parent().ok_or(io::ErrorKind::NotFound)?)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Files that root creates get the owner of the directory, because the service could not open them otherwise. If root
/// may not change the owner, the log says so.
///
/// # Errors
/// When the system fails.
pub(crate) fn give_to_owner(made: &File, place: &Path) -> io::Result<()> {
    let Some(directory) = place.parent().filter(|_| rustix::process::geteuid().is_root()) else { return Ok(()) };
    let owner = fs::metadata(directory)?;
    match fchown(made, Some(owner.uid()), Some(owner.gid())) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            log::warn!("{} stays root's: it cannot be given to the owner of its directory", place.display());
            Ok(())
        }
        outcome => outcome,
    }
}

fn io_of(error: DatabaseError) -> io::Error {
    match error {
        DatabaseError::Storage(StorageError::Io(error)) => error,
        other => io::Error::other(other),
    }
}

/// The blocks that a range of a file touches: number, part of the block, part of the range.
pub(crate) fn blocks(offset: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = usize::try_from(at % BLOCK as u64).unwrap_or_default();
        let count = (BLOCK - start).min(length - done);
        let piece = done..done + count;
        done += count;
        (count > 0).then_some((at / BLOCK as u64, start..start + count, piece))
    })
}

/// A file that takes writes only while it has its name. Writes to a removed or replaced file are lost with it, so they
/// must not be acknowledged.
#[derive(Debug)]
pub(crate) struct Named {
    file: Box<dyn StorageBackend>,
    storage: Arc<dyn Storage>,
    name: PathBuf,
    id: u64,
}

impl Named {
    /// `id` is the file's.
    pub(crate) fn new(file: Box<dyn StorageBackend>, storage: &Arc<dyn Storage>, name: &Path, id: u64) -> Self {
        Self { file, storage: Arc::clone(storage), name: name.to_owned(), id }
    }
}

impl StorageBackend for Named {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        if self.storage.id(&self.name)? == self.id {
            return Ok(());
        }
        Err(io::Error::other(format!("{} is not the file any more that was opened", self.name.display())))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
