//! Files in memory that record each write, sync and rename. So a trial can build the state of a disk after a loss of
//! power at any moment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use redb::{BackendError, StorageBackend};
use rustix::io::Errno;

use super::Random;
use super::workload::Documents;
use crate::store::embedded::file::storage::Storage;
use crate::store::embedded::open::paths::FILE;

/// What happened, in order.
#[derive(Debug, Clone)]
pub(super) enum Event {
    Create(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    SetLen(PathBuf, u64),
    /// What is written from here on is not what the sync makes durable.
    SyncBegun(PathBuf),
    Sync(PathBuf),
    /// The operating system failed to write pages, reports it once, and treats them as clean from then on.
    SyncFailed(PathBuf),
    /// On disk when it returns, like the rename and the sync of the directory that it is.
    Replace(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    /// See [`Journal`](super::workload::Journal).
    Begun(usize, Documents),
    /// See [`Journal`](super::workload::Journal).
    Settled(usize, Documents),
}

type Bytes = Arc<Mutex<Vec<u8>>>;
type Log = Arc<Mutex<Vec<Event>>>;

/// A directory in memory.
#[derive(Debug, Default)]
pub(super) struct Memory {
    files: Mutex<BTreeMap<PathBuf, Bytes>>,
    log: Option<Log>,
    /// This many syncs go well, then one fails.
    syncs_before_failure: Arc<AtomicUsize>,
    /// How long a sync takes, in microseconds.
    sync_takes: Arc<AtomicU64>,
    /// Syncs do not return any more: their outcomes stay unknown.
    is_killed: Arc<AtomicBool>,
    /// A file has replaced another one, but the directory cannot be synced.
    is_directory_unsynced: AtomicBool,
    /// No file can be made.
    is_directory_unwritable: AtomicBool,
    /// What the system says when a file is to be locked; 0: that it is.
    lock_error: Arc<AtomicI32>,
    /// No file can be written beyond this.
    room: Arc<AtomicU64>,
    /// How often files were opened.
    opened: AtomicUsize,
}

impl Memory {
    /// Keeps nothing but the files.
    pub(super) fn of(files: BTreeMap<PathBuf, Vec<u8>>) -> Arc<Self> {
        let files = files.into_iter().map(|(name, bytes)| (name, Arc::new(Mutex::new(bytes))));
        Arc::new(Self { files: Mutex::new(files.collect()), ..Self::with_log(None) })
    }

    /// Remembers what happens to the files.
    pub(super) fn recording() -> Arc<Self> {
        Arc::new(Self::with_log(Some(Log::default())))
    }

    fn with_log(log: Option<Log>) -> Self {
        let syncs_before_failure = Arc::new(AtomicUsize::new(usize::MAX));
        let room = Arc::new(AtomicU64::new(u64::MAX));
        Self { log, syncs_before_failure, room, ..Self::default() }
    }

    /// Lets no file be written beyond this.
    pub(super) fn set_room(&self, bytes: u64) {
        self.room.store(bytes, Ordering::SeqCst);
    }

    /// How often files were opened.
    pub(super) fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    /// Sets the time that each sync takes.
    pub(super) fn set_sync_time(&self, time: Duration) {
        self.sync_takes.store(u64::try_from(time.as_micros()).expect("it is short"), Ordering::SeqCst);
    }

    /// Lets no sync return any more, or lets them return again: as for a process killed in a sync, and for the next
    /// process.
    pub(super) fn set_killed(&self, is_killed: bool) {
        self.is_killed.store(is_killed, Ordering::SeqCst);
    }

    /// Has each sync of the directory fail.
    pub(super) fn set_directory_unsynced(&self, is_unsynced: bool) {
        self.is_directory_unsynced.store(is_unsynced, Ordering::SeqCst);
    }

    /// Keeps everybody from making files, and removing or renaming them.
    pub(super) fn set_directory_unwritable(&self, is_unwritable: bool) {
        self.is_directory_unwritable.store(is_unwritable, Ordering::SeqCst);
    }

    /// Has no file be locked any more, or each one again.
    pub(super) fn set_lockless(&self, errno: Option<Errno>) {
        self.lock_error.store(errno.map_or(0, Errno::raw_os_error), Ordering::SeqCst);
    }

    /// Has the next sync but `syncs` fail.
    pub(super) fn fail_after(&self, syncs: usize) {
        self.syncs_before_failure.store(syncs, Ordering::SeqCst);
    }

    /// Opens a file that is there.
    pub(super) fn file(&self, file: &Path) -> io::Result<MemoryFile> {
        let bytes = self.files.lock().unwrap().get(file).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(MemoryFile {
            name: file.to_owned(),
            bytes,
            log: self.log.clone(),
            syncs_before_failure: Arc::clone(&self.syncs_before_failure),
            sync_takes: Arc::clone(&self.sync_takes),
            is_killed: Arc::clone(&self.is_killed),
            lock_error: Arc::clone(&self.lock_error),
            room: Arc::clone(&self.room),
        })
    }

    pub(super) fn note(&self, event: Event) {
        if let Some(log) = &self.log {
            log.lock().unwrap().push(event);
        }
    }

    fn check_directory(&self) -> io::Result<()> {
        let is_unwritable = self.is_directory_unwritable.load(Ordering::SeqCst);
        if is_unwritable { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }

    /// What happened so far.
    pub(super) fn events(&self) -> Vec<Event> {
        self.log.as_ref().expect("it is recording").lock().unwrap().clone()
    }

    /// What the files hold.
    pub(super) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = self.files.lock().unwrap();
        files.iter().map(|(name, bytes)| (name.clone(), bytes.lock().unwrap().clone())).collect()
    }
}

impl Storage for Memory {
    fn make_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn len(&self, file: &Path) -> io::Result<Option<u64>> {
        Ok(self.files.lock().unwrap().get(file).map(|bytes| bytes.lock().unwrap().len() as u64))
    }

    fn free(&self, directory: &Path) -> Option<u64> {
        let length = self.len(&directory.join(FILE)).ok()?;
        Some(self.room.load(Ordering::SeqCst).saturating_sub(length.unwrap_or_default()))
    }

    fn taken(&self, file: &Path) -> io::Result<u64> {
        Ok(self.len(file)?.unwrap_or_default())
    }

    fn id(&self, file: &Path) -> io::Result<u64> {
        let files = self.files.lock().unwrap();
        Ok(Arc::as_ptr(files.get(file).ok_or(io::ErrorKind::NotFound)?).addr() as u64)
    }

    fn create(&self, file: &Path) -> io::Result<()> {
        if self.len(file)?.is_none() {
            self.check_directory()?;
        }
        self.files.lock().unwrap().entry(file.to_owned()).or_insert_with(|| {
            self.note(Event::Create(file.to_owned()));
            Bytes::default()
        });
        Ok(())
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn StorageBackend>> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(self.file(file)?))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.check_directory()?;
        let mut files = self.files.lock().unwrap();
        if files.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let bytes = files.get(file).cloned().ok_or(io::ErrorKind::NotFound)?;
        files.insert(name.to_owned(), bytes);
        self.note(Event::Link(file.to_owned(), name.to_owned()));
        Ok(())
    }

    fn replace(&self, file: &Path, by: &Path) -> io::Result<()> {
        self.check_directory()?;
        let mut files = self.files.lock().unwrap();
        let bytes = files.remove(by).ok_or(io::ErrorKind::NotFound)?;
        files.insert(file.to_owned(), bytes);
        self.note(Event::Replace(file.to_owned(), by.to_owned()));
        self.sync_directory(file)
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        if self.is_directory_unsynced.load(Ordering::SeqCst) {
            return Err(io::Error::other("a fault of the test"));
        }
        Ok(())
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        if self.len(file)?.is_some() {
            self.check_directory()?;
        }
        if self.files.lock().unwrap().remove(file).is_some() {
            self.note(Event::Remove(file.to_owned()));
        }
        Ok(())
    }

    fn scratch(&self, _: &Path) -> io::Result<File> {
        self.check_directory()?;
        tempfile::tempfile()
    }
}

/// A file of a [`Memory`].
#[derive(Debug)]
pub(super) struct MemoryFile {
    /// The name when the file was opened; nobody renames an open file and then writes to it.
    name: PathBuf,
    bytes: Bytes,
    log: Option<Log>,
    syncs_before_failure: Arc<AtomicUsize>,
    sync_takes: Arc<AtomicU64>,
    is_killed: Arc<AtomicBool>,
    lock_error: Arc<AtomicI32>,
    room: Arc<AtomicU64>,
}

impl MemoryFile {
    fn note(&self, event: impl FnOnce(PathBuf) -> Event) {
        if let Some(log) = &self.log {
            log.lock().unwrap().push(event(self.name.clone()));
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("files of tests are small")
}

impl StorageBackend for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.lock().unwrap();
        let end = index(offset).checked_add(out.len());
        let chunk = end.and_then(|end| bytes.get(index(offset)..end)).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(chunk);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.lock().unwrap().resize(index(len), 0);
        self.note(|name| Event::SetLen(name, len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_killed.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.note(Event::SyncBegun);
        thread::sleep(Duration::from_micros(self.sync_takes.load(Ordering::SeqCst)));
        let left = self.syncs_before_failure.load(Ordering::SeqCst);
        self.syncs_before_failure.store(left.wrapping_sub(usize::from(left != usize::MAX)), Ordering::SeqCst);
        if left == 0 {
            self.note(Event::SyncFailed);
            return Err(io::Error::other("a sync that fails"));
        }
        self.note(Event::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.bytes.lock().unwrap();
        let end = index(offset) + data.len();
        if end as u64 > self.room.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[index(offset)..end].copy_from_slice(data);
        self.note(|name| Event::Write(name, offset, data.to_vec()));
        Ok(())
    }

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        match self.lock_error.load(Ordering::SeqCst) {
            0 => Ok(true),
            errno => Err(io::Error::from_raw_os_error(errno).into()),
        }
    }
}

/// The outcome, when the power goes, for writes that no sync has made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// None reaches the disk.
    Lost,
    /// All reach it.
    Kept,
    /// Each one or not, as chance has it.
    Random,
    /// Each sector of this many bytes or not.
    Torn(usize),
}

/// A disk that follows a recording.
#[derive(Debug, Default, Clone)]
pub(super) struct PowerDisk {
    durable: BTreeMap<PathBuf, Vec<u8>>,
    pending: BTreeMap<PathBuf, Vec<Event>>,
    /// How much of that a sync covers that is under way. A file has one at a time.
    covered: BTreeMap<PathBuf, usize>,
}

impl PowerDisk {
    pub(super) fn follow(&mut self, event: &Event) {
        match event {
            // The entry of a new file may exist or not. Users must expect both, and an empty file is the worse case.
            Event::Create(name) => drop(self.durable.insert(name.clone(), Vec::new())),
            Event::Write(name, ..) | Event::SetLen(name, _) => {
                self.pending.entry(name.clone()).or_default().push(event.clone());
            }
            Event::SyncBegun(name) => {
                let pending = self.pending.get(name).map_or(0, Vec::len);
                let before = self.covered.insert(name.clone(), pending);
                assert_eq!(before, None, "two syncs of {} at once", name.display());
            }
            Event::Sync(name) => {
                let covered = self.end_sync(name);
                let bytes = self.durable.entry(name.clone()).or_default();
                for event in &covered {
                    apply(bytes, event);
                }
            }
            Event::SyncFailed(name) => drop(self.end_sync(name)),
            Event::Replace(name, by) => {
                let bytes = self.durable.remove(by).unwrap_or_default();
                self.durable.insert(name.clone(), bytes);
                let pending = self.pending.remove(by).unwrap_or_default();
                self.pending.insert(name.clone(), pending);
            }
            Event::Link(name, other) => {
                let bytes = self.durable.get(name).cloned().unwrap_or_default();
                self.durable.insert(other.clone(), bytes);
            }
            Event::Remove(name) => {
                self.durable.remove(name);
                self.pending.remove(name);
            }
            Event::Begun(..) | Event::Settled(..) => {}
        }
    }

    /// What the sync of this file covers that ends now.
    fn end_sync(&mut self, name: &Path) -> Vec<Event> {
        let covered = self.covered.remove(name).expect("it has begun");
        self.pending.get_mut(name).map_or_else(Vec::new, |pending| pending.drain(..covered).collect())
    }

    /// What is on disk when the power goes now.
    pub(super) fn cut(&self, fate: Fate, random: &mut Random) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = self.durable.clone();
        for (name, events) in &self.pending {
            let bytes = files.entry(name.clone()).or_default();
            for event in events {
                let survives = match fate {
                    Fate::Lost => false,
                    Fate::Kept => true,
                    Fate::Random => random.below(2) == 0,
                    Fate::Torn(sector) => {
                        tear(bytes, event, sector, random);
                        false
                    }
                };
                if survives {
                    apply(bytes, event);
                }
            }
        }
        files
    }
}

fn apply(bytes: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Write(_, offset, data) => write(bytes, index(*offset), data),
        Event::SetLen(_, len) => bytes.resize(index(*len), 0),
        _ => {}
    }
}

fn write(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    if bytes.len() < at + data.len() {
        bytes.resize(at + data.len(), 0);
    }
    bytes[at..at + data.len()].copy_from_slice(data);
}

/// Lets some sectors of a write reach the disk.
fn tear(bytes: &mut Vec<u8>, event: &Event, sector: usize, random: &mut Random) {
    let Event::Write(_, offset, data) = event else {
        if random.below(2) == 0 {
            apply(bytes, event);
        }
        return;
    };
    let mut at = index(*offset);
    let mut rest = data.as_slice();
    while !rest.is_empty() {
        let (chunk, further) = rest.split_at((sector - at % sector).min(rest.len()));
        if random.below(2) == 0 {
            write(bytes, at, chunk);
        }
        at += chunk.len();
        rest = further;
    }
}
