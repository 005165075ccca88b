//! Opens the file of a store: makes it, recovers it, refuses it with words.
//!
//! A file that takes the place of another one (a new store, a compacted or repaired one) is written beside it as
//! `inventory.redb.new`, made durable and renamed: whatever happens on the way, the old file is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::Document;
use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, StorageError,
    TableError,
};

use crate::store::StoreError;
use crate::store::embedded::catalog::collections::{Catalog, CatalogError, Collection};
use crate::store::embedded::catalog::meta::{self, FORMAT, META, META_COLLECTION, META_COMMIT, OLDEST};
use crate::store::embedded::failure;
use crate::store::embedded::file::acknowledged::{self, Acknowledged};
use crate::store::embedded::file::names::{ACKNOWLEDGED, FILE, NEW_FILE, UNSYNCED};
use crate::store::embedded::file::overlay::Overlay;
use crate::store::embedded::file::pages::{self, BESIDE, Opened, Pages, Unopened};
use crate::store::embedded::file::storage::{Disk, Named, Storage};
use crate::store::embedded::open::engine::Engine;
use crate::store::embedded::open::format;
use crate::store::embedded::open::presence::has_store;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::options::Options;
use crate::store::embedded::write::batch::BatchLimits;
use crate::store::embedded::write::copy;
use crate::store::embedded::write::journal::Journal;
use crate::store::embedded::write::replay::{self, Records};
use crate::store::embedded::write::room::Room;

/// Where redb's files have their flags, and the one of a file that was not closed.
const FLAGS: u64 = 9;
const WAS_NOT_CLOSED: u8 = 2;
/// How far recovery is when it finds that the last commit is not whole, in redb's terms.
const LAST_COMMIT_IS_TORN: f64 = 0.3;

/// What to do about a last commit that is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Torn {
    /// Give up.
    Refuse,
    /// Take the commit before it.
    GoBack,
}

/// A store that can be worked with.
pub(crate) struct Ready {
    pub(crate) database: Engine,
    pub(crate) catalog: Catalog,
    /// Takes nothing where the file is only looked at.
    pub(crate) journal: Journal,
}

/// A file that was opened. Before its indexes are asked, [`Location::bring_up`] has to follow.
pub(crate) struct Found {
    pub(crate) database: Engine,
    /// As the tables have it.
    pub(crate) catalog: Catalog,
    /// What was acknowledged beyond that.
    pub(crate) records: Records,
}

/// Where a store is and how it is opened; kept to open it again after a failure of the storage.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    directory: PathBuf,
    file: PathBuf,
    cache_bytes: usize,
    filter_budget: Duration,
    quick_repair_from: u64,
    storage: Arc<dyn Storage>,
    /// Whether the file is only looked at: it stays as it is, and what is written goes into an [`Overlay`].
    is_aside: bool,
    /// Whether this process has had the store open. A file that is not there any more was lost since.
    was_open: Arc<AtomicBool>,
}

impl Location {
    /// For work on a store that is there; nothing is made where there is none.
    pub(crate) fn existing(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        if !has_store(directory)? {
            return Err(OpenError::NoStore(directory.to_owned()));
        }
        Self::prepare(directory, options)
    }

    /// Makes the directory if there is none.
    pub(crate) fn prepare(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        Self::on(Arc::new(Disk), directory, options)
    }

    /// The same on another storage.
    pub(crate) fn on(storage: Arc<dyn Storage>, directory: &Path, options: &Options) -> Result<Self, OpenError> {
        let location = Self {
            directory: directory.to_owned(),
            file: directory.join(FILE),
            cache_bytes: options.cache_bytes,
            filter_budget: options.filter_budget,
            quick_repair_from: options.quick_repair_from_bytes,
            storage,
            is_aside: false,
            was_open: Arc::default(),
        };
        match location.storage.make_directory(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Err(OpenError::NotADirectory(location.directory))
            }
            made => made.map(|()| location.clone()).map_err(|error| location.io(error)),
        }
    }

    /// A place where there is a store, to look at it.
    pub(crate) fn aside(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        if !has_store(directory)? {
            return Err(OpenError::NoStore(directory.to_owned()));
        }
        Ok(Self { is_aside: true, ..Self::prepare(directory, options)? })
    }

    /// The same place, to look at it.
    #[cfg(test)]
    pub(crate) fn looked_at(self) -> Self {
        Self { is_aside: true, ..self }
    }

    /// Whether the file is only looked at.
    pub(crate) fn is_aside(&self) -> bool {
        self.is_aside
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// How much memory may hold pages of the file.
    pub(crate) fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    /// What the units of a batch may take.
    pub(crate) fn limits(&self) -> BatchLimits {
        BatchLimits { filter_budget: self.filter_budget }
    }

    /// A file without a name in the directory of the store.
    pub(crate) fn scratch(&self) -> Result<File, OpenError> {
        self.storage.scratch(&self.directory).map_err(|error| self.io(error))
    }

    /// Keeps every process from opening the store that is there; `None` when there is none.
    pub(crate) fn hold(&self) -> Result<Option<Box<dyn StorageBackend>>, OpenError> {
        if self.is_missing()? {
            return Ok(None);
        }
        let known = self.file_id()?;
        let file = self.storage.open(&self.file).map_err(|error| self.io(error))?;
        pages::lock(&*file).map_err(|error| self.unopened(error))?;
        self.is_still(known)?;
        Ok(Some(file))
    }

    fn file_id(&self) -> Result<u64, OpenError> {
        self.storage.id(&self.file).map_err(|error| self.io(error))
    }

    /// The lock is on the file that was opened. Another process may have put a new one in its place meanwhile, and what is
    /// written to the old one then is lost.
    fn is_still(&self, known: u64) -> Result<(), OpenError> {
        if self.file_id()? == known { Ok(()) } else { Err(OpenError::InUse(self.directory.clone())) }
    }

    /// The file that is to take the place of the store's, as a store of its own.
    pub(crate) fn for_replacement(&self) -> Self {
        Self { file: self.directory.join(NEW_FILE), ..self.clone() }
    }

    /// Puts the file of [`Location::for_replacement`], which is on disk, in the place of the store's. What was noted about the
    /// old one is no longer true.
    pub(crate) fn take(&self, new: &Self) -> Result<(), OpenError> {
        let io = |error| self.io(error);
        self.storage.remove(&self.directory.join(ACKNOWLEDGED)).map_err(io)?;
        self.storage.replace(&self.file, &new.file).map_err(io)
    }

    /// How large the file is.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.storage.len(&self.file).ok().flatten().unwrap_or_default()
    }

    /// Whether the file is so large that each commit that is durable in the tables is to save what makes opening after a kill quick.
    pub(crate) fn is_large(&self) -> bool {
        self.file_bytes() >= self.quick_repair_from
    }

    /// What the file takes on disk. redb doubles the length of a small file when it is full, ahead of what it writes.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.storage.taken(&self.file).unwrap_or_default()
    }

    /// Opens the database, after recovering it where the last process was killed, and reads its catalog.
    pub(crate) fn open(&self) -> Result<Ready, OpenError> {
        if self.is_aside {
            let is_log = self.is_log()?;
            let mut found = self.open_aside()?;
            if !is_log {
                // redb does not compare checksums when it reads.
                self.verify(&mut found.database)?;
            }
            let catalog = self.bring_up(&found)?;
            return Ok(Ready { database: found.database, catalog, journal: Journal::default() });
        }
        self.guarded(|| {
            if self.is_missing()? {
                if self.was_open.load(Ordering::Relaxed) {
                    return Err(OpenError::Gone(self.file.clone()));
                }
                log::info!("making a new store: {}", self.file.display());
                self.write_anew(|database| lay_down(database).map_err(failure::of_engine))?;
            }
            let (found, log) = match self.open_log()? {
                Some(opened) => opened,
                None => {
                    log::info!("{} is written anew, as a log of pages", self.file.display());
                    self.make_anew()?;
                    self.open_log()?.ok_or_else(|| self.damaged(&"it could not be made a log of pages"))?
                }
            };
            // Whoever put the file in its place may have been killed before the name was on disk, or the sync failed.
            self.storage.sync_directory(&self.directory).map_err(|error| self.io(error))?;
            let room = Room::counted(&log);
            let catalog = match self.bring_up_in(&found, &room) {
                Err(OpenError::NoRoom { source, .. } | OpenError::Io { source, .. })
                    if room.missing() > 0 || log.is_full() =>
                {
                    return Err(self.no_room(source, room.missing()));
                }
                brought => brought?,
            };
            self.was_open.store(true, Ordering::Relaxed);
            let mut journal = Journal::of(log);
            journal.release(catalog.commit);
            journal.make_room().map_err(|error| self.unusable(error))?;
            // What a process that was killed left; the lock that opening takes keeps others from needing it.
            for left in [NEW_FILE, UNSYNCED] {
                self.storage.remove(&self.directory.join(left)).map_err(|error| self.io(error))?;
            }
            Ok(Ready { database: found.database, catalog, journal })
        })
    }

    /// Opens the database to look at it: the file stays as it is, whatever is done to the database.
    pub(crate) fn open_aside(&self) -> Result<Found, OpenError> {
        self.guarded(|| {
            if self.is_missing()? {
                return Err(OpenError::NoStore(self.directory.clone()));
            }
            let (file, log, was_killed) = self.overlay()?;
            // In a log a commit is there as a whole or not at all, and a torn one is damage. In a file of redb's own nobody was
            // told of it, or what was noted says so.
            let torn = if log.is_some() { Torn::Refuse } else { Torn::GoBack };
            let database = self.builder(torn).create_with_backend(file).map_err(|error| self.refused(error))?;
            self.found(database, log.as_ref(), was_killed)
        })
    }

    /// Reads what a database has, and what its log has beyond that.
    fn found(&self, database: Database, log: Option<&Pages>, was_killed: bool) -> Result<Found, OpenError> {
        let database = Engine::from(database);
        let (catalog, _) = self.read_catalog(&database)?;
        let records = log.map_or(Ok(Vec::new()), |log| log.records_after(catalog.commit));
        let records = records.map_err(|error| self.failed(error.into()))?;
        if was_killed {
            self.lacks_nothing(&catalog, records.last().map_or(catalog.commit, |(number, _)| *number))?;
        }
        Ok(Found { database, catalog, records })
    }

    /// Whether the file is a log of pages, each with its checksum.
    pub(crate) fn is_log(&self) -> Result<bool, OpenError> {
        let file = self.storage.open(&self.file).map_err(|error| self.io(error))?;
        Pages::open(file).map(|opened| matches!(opened, Opened::Log(_))).map_err(|error| self.unopened(error))
    }

    /// The file to be looked at, its log unless it is redb's own, and whether the process that wrote it was killed.
    fn overlay(&self) -> Result<(Overlay, Option<Pages>, bool), OpenError> {
        let file = self.storage.open(&self.file).map_err(|error| self.io(error))?;
        let (file, log, was_killed): (Box<dyn StorageBackend>, _, _) =
            match Pages::open(file).map_err(|error| self.unopened(error))? {
                Opened::Log(log) => (Box::new(log.clone()), Some(log.clone()), !log.was_closed()),
                Opened::Plain(file) => {
                    let mut flags = [0];
                    file.read(FLAGS, &mut flags).map_err(|error| match error.kind() {
                        io::ErrorKind::UnexpectedEof => OpenError::UnknownFormat(self.file.clone()),
                        _ => self.io(error),
                    })?;
                    (file, None, flags[0] & WAS_NOT_CLOSED != 0)
                }
            };
        let location = self.clone();
        let overlay = Overlay::new(file, move || location.storage.scratch(&location.directory));
        Ok((overlay.map_err(|error| self.io(error))?, log, was_killed))
    }

    /// Opens the file to work with it; `None` when it is redb's own, as backups are.
    fn open_log(&self) -> Result<Option<(Found, Pages)>, OpenError> {
        let known = self.file_id()?;
        let file = self.storage.open(&self.file).map_err(|error| self.io(error))?;
        let file = Named::new(file, &self.storage, &self.file, known);
        let opened = Pages::open(Box::new(file)).map_err(|error| self.unopened(error))?;
        self.is_still(known)?;
        match opened {
            Opened::Plain(_) => Ok(None),
            Opened::Log(log) => {
                // redb writes pages before a commit when they take half of its cache.
                log.set_bounds(self.cache_bytes / 2, self.quick_repair_from);
                let database = self.builder(Torn::Refuse).create_with_backend(log.clone());
                let database = database.map_err(|error| self.refused(error))?;
                Ok(Some((self.found(database, Some(&log), !log.was_closed())?, log)))
            }
        }
    }

    /// A commit that was acknowledged is on disk: if it is not there, something has taken it away since. See [`acknowledged`].
    fn lacks_nothing(&self, catalog: &Catalog, last: u64) -> Result<(), OpenError> {
        let known = self.directory.join(ACKNOWLEDGED);
        if acknowledged::read(&self.storage, &known, catalog.identity) > last {
            return Err(self.lacks_the_last_commit(&known));
        }
        Ok(())
    }

    fn lacks_the_last_commit(&self, known: &Path) -> OpenError {
        self.damaged(&format!(
            "the last write was acknowledged and is not whole any more (to go on without it, remove {})",
            known.display()
        ))
    }

    /// Makes the database one of this version and applies what its log has beyond its tables; gives its catalog then. What was
    /// opened to be looked at has to be verified before: a changed page gets a new checksum.
    pub(crate) fn bring_up(&self, found: &Found) -> Result<Catalog, OpenError> {
        self.bring_up_in(found, &Room::boundless())
    }

    fn bring_up_in(&self, Found { database, records, .. }: &Found, room: &Room) -> Result<Catalog, OpenError> {
        self.guarded(|| {
            let (mut catalog, version) = self.read_catalog(database)?;
            if version != FORMAT {
                log::info!("bringing {} from format {version} up to {FORMAT}", self.file.display());
                format::bring_up(database, &mut catalog, version).map_err(|error| self.unusable(error))?;
                catalog = self.read_catalog(database)?.0;
            }
            if records.is_empty() {
                return Ok(catalog);
            }
            log::info!("{} commits of {} are in its log alone, applying them", records.len(), self.file.display());
            replay::replay(database, catalog, records, self.limits(), self.is_large(), room)
                .map_err(|error| self.unusable(error))
        })
    }

    /// Where to note what was acknowledged of the file that this catalog was read from.
    pub(crate) fn acknowledged(&self, catalog: &Catalog) -> Acknowledged {
        if self.is_aside {
            return Acknowledged::nowhere();
        }
        let mut file = Acknowledged::open(&self.storage, &self.directory.join(ACKNOWLEDGED), catalog.identity);
        // What it said of a file that was in this place before, or of writes that a restored copy does not have, is over.
        file.note(catalog.commit);
        file
    }

    /// Puts a new file in the place of the old one: all of it, on disk, or nothing. Its users must have closed it.
    pub(crate) fn write_anew(&self, fill: impl FnOnce(&Database) -> Result<(), StoreError>) -> Result<(), OpenError> {
        let new = self.directory.join(NEW_FILE);
        let written = self.write_beside(&new, fill).map_err(|error| match error {
            // It may become as large as what it is made from.
            OpenError::NoRoom { path, source, .. } => {
                OpenError::NoRoom { path, source, needed: self.taken_bytes().saturating_add(BESIDE) }
            }
            other => other,
        });
        if written.is_err() {
            // Room matters more than this error: the next start removes the file as well.
            let _ = self.storage.remove(&new);
        }
        written?;
        self.storage.replace(&self.file, &new).map_err(|error| self.io(error))
    }

    fn write_beside(
        &self,
        new: &Path,
        fill: impl FnOnce(&Database) -> Result<(), StoreError>,
    ) -> Result<(), OpenError> {
        let storage = &self.storage;
        let file = (storage.remove(new))
            .and_then(|()| storage.create(new))
            .and_then(|()| storage.open(new))
            .and_then(Pages::create)
            .map_err(|error| self.io(error))?;
        let database = self.builder(Torn::Refuse).create_with_backend(file).map_err(|error| self.refused(error))?;
        fill(&database).map_err(|error| self.unusable(error))?;
        database.close().map_err(|error| self.unusable(failure::of_engine(error.into())))
    }

    /// Keeps the file under another name as well, and returns that name.
    pub(crate) fn keep_a_copy(&self) -> Result<PathBuf, OpenError> {
        let mut number = 1;
        loop {
            let name = self.directory.join(format!("{FILE}.damaged-{number}"));
            match self.storage.link(&self.file, &name) {
                Ok(()) => return Ok(name),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(self.io(error)),
            }
        }
    }

    /// Removes a name that [`Location::keep_a_copy`] gave, unless a new file has the place of the one that is kept.
    pub(crate) fn forget(&self, kept: &Path) {
        let ids = self.storage.id(kept).and_then(|kept| Ok((kept, self.storage.id(&self.file)?)));
        if !ids.is_ok_and(|(kept, current)| kept == current) {
            return;
        }
        if let Err(error) = self.storage.remove(kept) {
            log::warn!("{} is not needed any more and could not be removed: {error}", kept.display());
        }
    }

    fn is_missing(&self) -> Result<bool, OpenError> {
        let length = self.storage.len(&self.file).map_err(|error| self.io(error))?;
        Ok(length.unwrap_or_default() == 0)
    }

    /// Verifies everything and writes it to a new file.
    pub(crate) fn make_anew(&self) -> Result<(), OpenError> {
        let (database, catalog) = self.open_verified()?;
        self.write_anew(|target| copy::everything(&database, &catalog, target))
    }

    /// Opens the database to look at all of it, after comparing all checksums.
    pub(crate) fn open_verified(&self) -> Result<(Engine, Catalog), OpenError> {
        let mut found = self.open_aside()?;
        self.verify(&mut found.database)?;
        let catalog = self.bring_up(&found)?;
        Ok((found.database, catalog))
    }

    /// Reads the whole file and compares its checksums.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] when one does not agree.
    pub(crate) fn verify(&self, database: &mut Database) -> Result<(), OpenError> {
        self.guarded(|| match database.check_integrity() {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.damaged(&"its pages do not add up")),
            Err(error) => Err(self.refused(error)),
        })
    }

    /// Runs what may panic on damaged pages: redb verifies them when it recovers, not whenever it reads.
    fn guarded<T>(&self, work: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
        failure::caught(work).unwrap_or_else(|panic| Err(self.damaged(&panic)))
    }

    fn builder(&self, torn: Torn) -> Builder {
        let mut builder = Database::builder();
        let file = self.file.display().to_string();
        builder.set_cache_size(self.cache_bytes).set_repair_callback(move |repair| {
            let progress = repair.progress();
            if (progress - LAST_COMMIT_IS_TORN).abs() < 1e-9 {
                if torn == Torn::Refuse {
                    return repair.abort();
                }
                log::warn!(
                    "{file}: the last commit is not whole, as after a loss of power; looking at the one before it"
                );
            }
            log::warn!("{file} was not closed properly; checking it, {:.0} % done", progress * 100.0);
        });
        builder
    }

    /// The catalog, and the version of the layout.
    fn read_catalog(&self, database: &Database) -> Result<(Catalog, i64), OpenError> {
        let transaction = database.begin_read().map_err(|error| self.failed(error.into()))?;
        self.catalog_of(&transaction)
    }

    fn catalog_of(&self, transaction: &ReadTransaction) -> Result<(Catalog, i64), OpenError> {
        let meta = match transaction.open_table(META) {
            Ok(meta) => meta,
            Err(TableError::Storage(error)) => return Err(self.failed(error.into())),
            Err(_) => return Err(OpenError::UnknownFormat(self.file.clone())),
        };
        let version = self.check_format(&meta)?;
        let entries = meta.range(META_COLLECTION..).map_err(|error| self.failed(error.into()))?;
        let mut collections = Vec::new();
        for entry in entries {
            let (name, stored) = entry.map_err(|error| self.failed(error.into()))?;
            if name.value().starts_with(META_COLLECTION) {
                collections.push(read_collection(stored.value()).map_err(|error| self.damaged(&error))?);
            }
        }
        let commit = meta.get(META_COMMIT).map_err(|error| self.failed(error.into()))?;
        let commit = commit.and_then(|stored| Some(u64::from_le_bytes(stored.value().try_into().ok()?)));
        let identity = meta::identity(&meta).map_err(|error| self.failed(error.into()))?;
        let catalog = Catalog::of(collections, commit.unwrap_or_default(), identity);
        Ok((catalog.map_err(|error| self.damaged(&error))?, version))
    }

    fn check_format(&self, meta: &impl ReadableTable<&'static str, &'static [u8]>) -> Result<i64, OpenError> {
        match meta::version(meta).map_err(|error| self.failed(error.into()))? {
            Some(found) if (OLDEST..=FORMAT).contains(&found) => Ok(found),
            Some(found) if found > FORMAT => Err(OpenError::NewerFormat { path: self.file.clone(), found }),
            _ => Err(OpenError::UnknownFormat(self.file.clone())),
        }
    }

    fn unopened(&self, error: Unopened) -> OpenError {
        match error {
            Unopened::InUse => OpenError::InUse(self.directory.clone()),
            Unopened::NoLocks => OpenError::NoLocks(self.directory.clone()),
            Unopened::Newer(found) => OpenError::NewerPages { path: self.file.clone(), found },
            Unopened::Damaged(what) => self.damaged(&what),
            Unopened::Io(error) => self.io(error),
        }
    }

    fn refused(&self, error: DatabaseError) -> OpenError {
        match error {
            DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(self.directory.clone()),
            DatabaseError::UpgradeRequired(found) => OpenError::OlderStorage { path: self.file.clone(), found },
            // redb's words for a file that does not begin as its files do.
            DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                OpenError::UnknownFormat(self.file.clone())
            }
            other => self.failed(other.into()),
        }
    }

    fn failed(&self, error: redb::Error) -> OpenError {
        match error {
            // The file ends before its pages do.
            redb::Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.damaged(&error),
            redb::Error::Io(error) => self.io(error),
            other => self.damaged(&other),
        }
    }

    /// An error of work on a whole file.
    pub(crate) fn unusable(&self, error: StoreError) -> OpenError {
        match error {
            StoreError::Corrupt { what } => self.damaged(&what),
            StoreError::NoRoom { .. } => self.io(io::ErrorKind::StorageFull.into()),
            StoreError::Backend { source } => match source.downcast::<io::Error>() {
                Ok(source) => self.io(*source),
                Err(source) => self.io(io::Error::other(source)),
            },
            other => self.io(io::Error::other(other)),
        }
    }

    /// With what a log keeps free, whose own errors do not say more.
    fn no_room(&self, source: io::Error, missing: u64) -> OpenError {
        OpenError::NoRoom { path: self.file.clone(), needed: missing.saturating_add(BESIDE), source }
    }

    fn damaged(&self, what: &dyn std::fmt::Display) -> OpenError {
        OpenError::Damaged { path: self.file.clone(), what: what.to_string() }
    }

    fn io(&self, source: io::Error) -> OpenError {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                OpenError::NotWritable { path: self.directory.clone(), source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                self.no_room(source, 0)
            }
            _ => OpenError::Io { path: self.file.clone(), source },
        }
    }
}

/// What a new store has.
fn lay_down(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    meta::sign(&transaction)?;
    transaction.commit()?;
    Ok(())
}

fn read_collection(stored: &[u8]) -> Result<Collection, CatalogError> {
    Collection::from_document(&Document::from_reader(stored)?)
}
