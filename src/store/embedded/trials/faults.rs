//! For tests: a file that fails on demand, and what the store must do then.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;
use redb::{BackendError, StorageBackend};

use super::assert_whole;
use super::memory::Memory;
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::storage::{Disk, Storage};
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::options::Options;
use crate::store::{
    Change, CollectionSpec, Copying, FileStore, FindQuery, IndexKey, IndexSpec, Store, StoreError, Unit,
};

/// An operation on storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// Asks for a length, or for what distinguishes a file from another one.
    Look,
    Create,
    Open,
    Read,
    Write,
    SetLen,
    Sync,
    Link,
    Rename,
    SyncDirectory,
    Remove,
}

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Failure {
    /// The disk does not do it.
    #[default]
    Error,
    /// There is no room.
    NoRoom,
    /// Half of it is written.
    Short,
}

impl Failure {
    fn concerns(self, operation: Operation) -> bool {
        use Operation::{Create, Link, Rename, SetLen, Sync, Write};
        match self {
            Self::Error => true,
            Self::NoRoom => matches!(operation, Create | Write | SetLen | Sync | Link | Rename),
            Self::Short => operation == Write,
        }
    }

    fn error(self) -> io::Error {
        match self {
            Self::Error | Self::Short => io::Error::other("a fault of the test"),
            Self::NoRoom => io::ErrorKind::StorageFull.into(),
        }
    }
}

/// Which operations fail.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) failure: Failure,
    /// The number of operations that succeed, of those that the failure concerns, before one fails.
    pub(super) after: Option<u64>,
    /// Whether all later ones fail as well.
    pub(super) lasts: bool,
    /// Those alone are counted.
    pub(super) only: Option<Operation>,
    /// How many there were that the failure concerns, of each kind.
    pub(super) seen: BTreeMap<Operation, u64>,
    /// Which ones failed.
    pub(super) failed: Vec<Operation>,
}

impl Plan {
    fn meets(&mut self, operation: Operation) -> bool {
        let is_concerned = self.only.is_none_or(|only| only == operation) && self.failure.concerns(operation);
        let Some(after) = self.after.filter(|_| is_concerned) else { return false };
        let before: u64 = self.seen.values().sum();
        *self.seen.entry(operation).or_default() += 1;
        let meets = before == after || before > after && self.lasts;
        if meets {
            self.failed.push(operation);
        }
        meets
    }
}

/// What is wrong with the storage; shared with the test.
#[derive(Debug)]
pub(super) struct Faults {
    /// Writing fails.
    broken: AtomicBool,
    /// Making durable fails.
    unsynced: AtomicBool,
    /// Asking for a length panics.
    panicking: AtomicBool,
    /// After this many opened files, the next one is replaced at once, as by a compaction.
    opened_before_replaced: AtomicU64,
    /// The file cannot grow beyond this.
    room: AtomicU64,
    plan: Mutex<Plan>,
    /// The disk in memory below, which forgets what a sync was to write that failed.
    memory: Option<Arc<Memory>>,
}

impl Faults {
    fn none() -> Arc<Self> {
        Arc::new(Self {
            broken: AtomicBool::new(false),
            unsynced: AtomicBool::new(false),
            panicking: AtomicBool::new(false),
            opened_before_replaced: AtomicU64::new(u64::MAX),
            room: AtomicU64::new(u64::MAX),
            plan: Mutex::default(),
            memory: None,
        })
    }

    /// A disk in memory with the faults of a plan.
    pub(super) fn planned(memory: &Arc<Memory>) -> (Arc<Self>, Arc<impl Storage + 'static>) {
        let none = Arc::into_inner(Self::none()).expect("nobody else has it");
        let faults = Arc::new(Self { memory: Some(Arc::clone(memory)), ..none });
        let disk = FaultyDisk { below: Arc::clone(memory) as Arc<dyn Storage>, faults: Arc::clone(&faults) };
        (faults, Arc::new(disk))
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("no test panics while it holds it")
    }

    fn check(&self, operation: Operation) -> io::Result<()> {
        let mut plan = self.plan();
        if plan.meets(operation) { Err(plan.failure.error()) } else { Ok(()) }
    }
}

/// A disk, as far as the faults let it.
#[derive(Debug)]
struct FaultyDisk {
    below: Arc<dyn Storage>,
    faults: Arc<Faults>,
}

impl FaultyDisk {
    fn on_disk(faults: &Arc<Faults>) -> Arc<Self> {
        Arc::new(Self { below: Arc::new(Disk), faults: Arc::clone(faults) })
    }
}

impl Storage for FaultyDisk {
    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        self.below.make_directory(directory)
    }

    fn len(&self, file: &Path) -> io::Result<Option<u64>> {
        assert!(!self.faults.panicking.load(Ordering::SeqCst), "a fault of the test");
        self.faults.check(Operation::Look)?;
        self.below.len(file)
    }

    fn taken(&self, file: &Path) -> io::Result<u64> {
        self.faults.check(Operation::Look)?;
        self.below.taken(file)
    }

    fn id(&self, file: &Path) -> io::Result<u64> {
        self.faults.check(Operation::Look)?;
        self.below.id(file)
    }

    fn create(&self, file: &Path) -> io::Result<()> {
        self.faults.check(Operation::Create)?;
        self.below.create(file)
    }

    fn open(&self, file: &Path) -> io::Result<Box<dyn StorageBackend>> {
        self.faults.check(Operation::Open)?;
        let opened = self.below.open(file)?;
        if self.faults.opened_before_replaced.fetch_sub(1, Ordering::SeqCst) == 0 {
            let other = file.with_extension("other");
            std::fs::copy(file, &other)?;
            std::fs::rename(other, file)?;
        }
        Ok(Box::new(FaultyFile { file: opened, faults: Arc::clone(&self.faults) }))
    }

    fn link(&self, file: &Path, name: &Path) -> io::Result<()> {
        self.faults.check(Operation::Link)?;
        self.below.link(file, name)
    }

    fn replace(&self, file: &Path, by: &Path) -> io::Result<()> {
        self.faults.check(Operation::Rename)?;
        self.below.replace(file, by)?;
        self.faults.check(Operation::SyncDirectory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.faults.check(Operation::SyncDirectory)?;
        self.below.sync_directory(directory)
    }

    fn scratch(&self, directory: &Path) -> io::Result<File> {
        self.faults.check(Operation::Create)?;
        self.below.scratch(directory)
    }

    fn remove(&self, file: &Path) -> io::Result<()> {
        self.faults.check(Operation::Remove)?;
        self.below.remove(file)
    }
}

/// A file with faults.
#[derive(Debug)]
struct FaultyFile {
    file: Box<dyn StorageBackend>,
    faults: Arc<Faults>,
}

impl FaultyFile {
    fn check(fault: &AtomicBool) -> io::Result<()> {
        if fault.load(Ordering::SeqCst) { Err(io::Error::other("a fault of the test")) } else { Ok(()) }
    }
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.faults.check(Operation::Look)?;
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.faults.check(Operation::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.check(Operation::SetLen)?;
        if len > self.faults.room.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Self::check(&self.faults.unsynced)?;
        if let Err(error) = self.faults.check(Operation::Sync) {
            if let Some(memory) = &self.faults.memory {
                memory.fail_after(0);
                self.file.sync_data().expect_err("it is to fail");
            }
            return Err(error);
        }
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Self::check(&self.faults.broken)?;
        if let Err(error) = self.faults.check(Operation::Write) {
            if self.faults.plan().failure == Failure::Short {
                self.file.write(offset, &data[..data.len() / 2])?;
            }
            return Err(error);
        }
        if offset + data.len() as u64 > self.faults.room.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
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

const BUDGET: Duration = Duration::from_secs(10);

fn faulty_store() -> (tempfile::TempDir, Arc<Faults>, EmbeddedStore) {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let faults = Faults::none();
    let options = Options::default();
    let disk = FaultyDisk::on_disk(&faults);
    let files = StoreFiles::on(disk, directory.path(), &options).expect("a directory");
    let store = EmbeddedStore::start(files, &options).expect("nothing is wrong yet");
    (directory, faults, store)
}

async fn insert(store: &EmbeddedStore, id: i64, bytes: usize) -> Result<Vec<u64>, StoreError> {
    let document = doc! { "_id": id, "public_id": id, "text": "x".repeat(bytes) };
    let document = RawDocumentBuf::try_from(document).expect("it is BSON");
    store.commit(Unit::of(Change::Insert { collection: "things", document })).await
}

async fn count(store: &EmbeddedStore) -> Result<u64, StoreError> {
    store.count("things", &Filter::all(), BUDGET).await
}

#[tokio::test]
async fn a_storage_that_fails_and_recovers_loses_nothing() {
    let (_directory, faults, store) = faulty_store();
    insert(&store, 1, 10).await.expect("nothing is wrong");
    for (fault, acknowledged) in [(&faults.broken, 2), (&faults.unsynced, 3)] {
        let revision = store.revision("things");
        fault.store(true, Ordering::SeqCst);
        let refused = insert(&store, 100, 10).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
        fault.store(false, Ordering::SeqCst);
        // The next write opens the file again, whatever the reads say meanwhile.
        insert(&store, acknowledged, 10).await.expect("it works again");
        for id in 1..=acknowledged {
            let found = store.count("things", &Filter::equals("_id", id), BUDGET).await.expect("it works again");
            assert_eq!(found, 1, "{id}");
        }
        // Writes refused as unavailable may have reached the disk all the same, but no other ones.
        let all = count(&store).await.expect("it works again").cast_signed();
        assert!((acknowledged..=acknowledged + 1).contains(&all), "{all}");
        assert!(store.revision("things") > revision);
        assert_whole(&store).await;
    }
    assert!(store.reserve_ids("things", 1).await.expect("an id") > 3);
}

#[tokio::test]
async fn a_read_that_fails_spoils_one_backup_and_no_other() {
    let (directory, _faults, store) = faulty_store();
    for id in 1..=300 {
        insert(&store, id, 10_000).await.expect("nothing is wrong");
    }
    drop(store);
    let faults = Faults::none();
    // Less than the documents take.
    let options = Options { cache_bytes: 1024 * 1024, ..Options::default() };
    let files = StoreFiles::on(FaultyDisk::on_disk(&faults), directory.path(), &options).expect("a directory");
    let mut refused = 0;
    for after in (0_u64..).step_by(40) {
        let store = EmbeddedStore::start(files.clone(), &options).expect("nothing is wrong yet");
        *faults.plan() = Plan { after: Some(after), only: Some(Operation::Read), ..Plan::default() };
        let copied = store.backup().await;
        let plan = std::mem::take(&mut *faults.plan());
        let is_done = plan.failed.is_empty();
        assert!(copied.is_ok() == is_done, "{copied:?}");
        assert!(
            is_done || matches!(copied, Err(StoreError::Unavailable { .. } | StoreError::Backend { .. })),
            "{copied:?}"
        );
        refused += usize::from(!is_done);
        insert(&store, 1000 + i64::try_from(after).expect("few reads"), 10).await.expect("it works again");
        store.backup().await.expect("it works again");
        if is_done {
            break;
        }
    }
    assert!(refused > 3, "{refused}");
}

#[tokio::test]
async fn reads_answer_as_unavailable_or_rightly_while_the_storage_fails() {
    let (_directory, faults, store) = faulty_store();
    insert(&store, 1, 10).await.expect("nothing is wrong");
    faults.broken.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        let _ = insert(&store, 2, 10).await;
        match store.find("things", &FindQuery::new(Filter::all(), BUDGET)).await {
            Ok(found) => assert_eq!(found.len(), 1),
            Err(StoreError::Unavailable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    faults.broken.store(false, Ordering::SeqCst);
    insert(&store, 3, 10).await.expect("it works again");
    assert_eq!(count(&store).await.expect("it works again"), 2);
}

#[tokio::test]
async fn a_full_disk_refuses_writes_and_keeps_what_is_there() {
    let (_directory, faults, store) = faulty_store();
    faults.room.store(16 * 1024 * 1024, Ordering::SeqCst);
    let mut stored = 0;
    for id in 1..200 {
        match insert(&store, id, 100_000).await {
            Ok(_) => stored += 1,
            Err(StoreError::NoRoom { .. }) => break,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!((10..199).contains(&stored), "{stored}");
    assert_eq!(count(&store).await.expect("reading goes on"), stored);
    faults.room.store(u64::MAX, Ordering::SeqCst);
    insert(&store, 500, 100_000).await.expect("there is room again");
    assert_eq!(count(&store).await.expect("nothing is wrong"), stored + 1);
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_writer_that_panicked_is_noticed_and_loses_nothing() {
    let (directory, faults, store) = faulty_store();
    insert(&store, 1, 10).await.expect("nothing is wrong");
    store.health().await.expect("nothing is wrong");
    faults.panicking.store(true, Ordering::SeqCst);
    let refused = insert(&store, 2, 10).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    faults.panicking.store(false, Ordering::SeqCst);
    // The thread has answered before it has ended.
    let noticed = loop {
        match store.health().await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert!(noticed.to_string().contains("start the service again"), "{noticed}");
    // Nothing is read from a file that is closed, but the error says so.
    let read = count(&store).await;
    assert!(matches!(read, Ok(1) | Err(StoreError::Unavailable { .. })), "{read:?}");
    let refused = insert(&store, 3, 10).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    drop(store);
    let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("it can be opened again");
    assert_eq!(count(&store).await.expect("nothing is wrong"), 1);
    assert_whole(&store).await;
}

const BY_TEXT: &[IndexSpec] = &[IndexSpec::plain("text", &[IndexKey { path: "text", descending: false }])];

/// Stores small documents by several clients at once until all are refused. Returns the acknowledged ids.
async fn fill(store: &Arc<EmbeddedStore>, from: i64) -> Vec<i64> {
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..8 {
        let store = Arc::clone(store);
        clients.spawn(async move {
            let (mut stored, mut refused, mut id) = (Vec::new(), 0, from + client);
            while refused < 3 {
                match insert(&store, id, 600).await {
                    Ok(_) => stored.push(id),
                    Err(StoreError::NoRoom { .. }) => refused += 1,
                    Err(other) => panic!("{other:?}"),
                }
                id += 8;
            }
            stored
        });
    }
    clients.join_all().await.concat()
}

async fn assert_there(store: &EmbeddedStore, acknowledged: &[i64]) {
    for id in acknowledged {
        let found = store.count("things", &Filter::equals("_id", *id), BUDGET).await.expect("reading goes on");
        assert_eq!(found, 1, "{id} was acknowledged");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_writes_fill_a_disk_until_they_are_refused_and_it_can_be_emptied_then() {
    let (directory, faults, store) = faulty_store();
    let store = Arc::new(store);
    store.prepare(&[CollectionSpec { name: "things", indexes: BY_TEXT }]).await.expect("it is declared");
    faults.room.store(10 * 1024 * 1024, Ordering::SeqCst);
    let mut acknowledged = fill(&store, 1).await;
    assert!(acknowledged.len() > 500, "{}", acknowledged.len());
    assert_there(&store, &acknowledged).await;
    // A quarter of it makes room.
    for _ in 0..2 {
        let gone = acknowledged.split_off(acknowledged.len() / 4 * 3);
        for id in gone {
            let filter = Filter::equals("_id", id);
            let gone = Unit::of(Change::DeleteMany { collection: "things", filter });
            // While another client does not give up.
            let (removed, _) = tokio::join!(store.commit(gone), insert(&store, -id, 100_000));
            removed.unwrap_or_else(|error| panic!("{id} can be removed: {error}"));
        }
        let more = fill(&store, 1_000_000 + acknowledged.last().copied().unwrap_or_default()).await;
        acknowledged.extend(more);
        assert_there(&store, &acknowledged).await;
    }
    drop(store);
    let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("it can be opened");
    assert_there(&store, &acknowledged).await;
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_revision_is_never_one_that_there_was_before() {
    let (directory, _faults, store) = faulty_store();
    insert(&store, 1, 10).await.expect("nothing is wrong");
    let mut seen = vec![store.revision("things")];
    drop(store);
    // The next process caches a document, somebody changes it, and then the storage fails.
    let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("it is sound");
    seen.push(store.revision("things"));
    insert(&store, 2, 10).await.expect("nothing is wrong");
    seen.push(store.revision("things"));
    assert_eq!(store.revision("things"), seen[2], "nothing changed");
    let published = store.published.swap(None);
    // No later revision may equal one that was read during an outage.
    seen.extend([store.revision("things"), store.revision("things")]);
    store.published.store(published);
    assert_eq!(store.revision("things"), seen[2], "nothing changed");
    let distinct: std::collections::BTreeSet<u64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}

#[tokio::test]
async fn ids_do_not_begin_anew_when_clearing_fails() {
    let (_directory, faults, store) = faulty_store();
    insert(&store, 5, 10).await.expect("nothing is wrong");
    let reserved = store.reserve_ids("things", 10).await.expect("ids");
    faults.broken.store(true, Ordering::SeqCst);
    store.clear("things").await.expect_err("writing fails");
    faults.broken.store(false, Ordering::SeqCst);
    // The first one meets the failure, and has the file opened again.
    let _ = insert(&store, 2, 10).await;
    insert(&store, 3, 10).await.expect("it works again");
    assert_eq!(store.reserve_ids("things", 1).await.expect("an id"), reserved + 10);
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_opened_takes_no_write() {
    for opened in 0..6 {
        let (directory, faults, store) = faulty_store();
        insert(&store, 1, 10).await.expect("nothing is wrong");
        drop(store);
        faults.opened_before_replaced.store(opened, Ordering::SeqCst);
        let disk = FaultyDisk::on_disk(&faults);
        let files = StoreFiles::on(disk, directory.path(), &Options::default()).expect("a directory");
        let acknowledged = match EmbeddedStore::start(files, &Options::default()) {
            Ok(store) => insert(&store, 2, 10).await.map(|_| 2).expect("nothing is wrong"),
            Err(OpenError::InUse(_)) => 1,
            Err(other) => panic!("{other:?}"),
        };
        let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("it is sound");
        assert_eq!(count(&store).await.expect("it can be read"), acknowledged, "{opened}");
    }
}
