//! The one thread that writes. It applies all waiting units in one transaction. It makes the transaction durable, by a
//! record of the [`journal`](crate::store::embedded::write::journal) or in the tables. Then it publishes the new
//! snapshot, and only then answers.
//!
//! No group waits for a timer: while one goes to disk, the next one gathers in the queue. After a while without writes,
//! the tables catch up with the journal. When the storage fails, the file is closed and reopened, and the units of the
//! group are answered as unavailable.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use redb::{Database, Durability, WriteTransaction};
use tokio::sync::oneshot;

use crate::metrics::Metrics;
use crate::store::embedded::catalog::collections::Catalog;
use crate::store::embedded::catalog::meta::store_collections;
use crate::store::embedded::failure;
use crate::store::embedded::file::acknowledged::Acknowledged;
use crate::store::embedded::file::pages::Use;
use crate::store::embedded::index::range_counts::Moved;
use crate::store::embedded::open::engine::Engine;
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::open::opening::{self, IfMissing, Ready};
use crate::store::embedded::open::recovery;
use crate::store::embedded::open::refusal::OpenError;
use crate::store::embedded::options::Options;
use crate::store::embedded::read::snapshot::{Published, Snapshot};
use crate::store::embedded::upkeep::space;
use crate::store::embedded::write::batch::{Batch, BatchLimits, Parts, Refusal, Undo};
use crate::store::embedded::write::journal::Journal;
use crate::store::embedded::write::{prepare, room};
use crate::store::{Change, CollectionSpec, Documents, StoreError, Unit};

/// How many units go into one transaction.
const GROUP_UNITS: usize = 256;
/// How many bytes of documents go into one transaction.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// How often the writer measures the unused part of the file, if there are writes.
const MEASURED_EVERY: Duration = Duration::from_mins(10);

/// After this time without writes, a table commit follows.
const QUIET: Duration = Duration::from_millis(500);

/// The disk has room again with this many more free bytes than at the refusal, even before the next write.
const ROOM_AGAIN: u64 = 64 << 20;

/// The handle of the thread. Dropping it closes it.
pub(crate) struct Handle {
    jobs: SyncSender<Job>,
    /// Units without an answer.
    waiting: AtomicU64,
    reporter: Reporter,
    unused: Arc<ArcSwapOption<Unused>>,
    /// Whether a reader reported a failure, and the thread has not retried since.
    is_reopening: Arc<AtomicBool>,
    files: StoreFiles,
    /// The free bytes of the disk when the last unit that adds something found no room.
    refused_at: Mutex<Option<u64>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

fn note_room_again(refused_at: &mut Option<u64>) {
    if refused_at.take().is_some() {
        log::info!("the disk of the store has room again");
    }
}

/// The estimated unused bytes of the file at a moment.
struct Unused {
    bytes: u64,
    at: Instant,
}

/// The receiver of figures about commits, if there is one.
type Reporter = Arc<OnceLock<Arc<Metrics>>>;

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

enum Job {
    Commit {
        unit: Unit,
        reply: Reply<Vec<u64>>,
    },
    Prepare {
        collections: Vec<CollectionSpec>,
        reply: Reply<()>,
    },
    Append {
        collection: String,
        documents: Documents,
        reply: Reply<()>,
    },
    Clear {
        collection: String,
        reply: Reply<()>,
    },
    /// A reader had a failure of the storage.
    Reopen,
    Stop,
}

impl Handle {
    /// Whether nothing can be written any more, because the thread gave up.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread().as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread, and waits until everything is written.
    pub(crate) fn close(&self) {
        // Waits for a place in the queue; a thread that has ended needs no message.
        let _ = self.jobs.send(Job::Stop);
        let thread = self.thread().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::error!("the writing thread of the store had panicked");
        }
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file and starts the thread.
    pub(crate) fn start(files: StoreFiles, options: &Options, published: Published) -> Result<Self, OpenError> {
        let Ready { database, catalog, journal } = space::open_compacted(&files)?;
        let (acknowledged, limits) = (recovery::open_watermark(&files, &catalog), BatchLimits::of(options));
        let (sender, jobs) = sync_channel(options.queue_length);
        let (reporter, unused) = (Reporter::default(), Arc::default());
        let is_reopening = Arc::<AtomicBool>::default();
        let kept = files.clone();
        let mut writer = Writer {
            reporter: Arc::clone(&reporter),
            unused: Arc::clone(&unused),
            is_reopening: Arc::clone(&is_reopening),
            files,
            published,
            catalog,
            database: Some(database),
            journal,
            acknowledged,
            limits,
        };
        writer.publish(None);
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer.run(&jobs));
        let thread = thread.map_err(|source| OpenError::Io { path: "the writing thread".into(), source })?;
        Ok(Self {
            jobs: sender,
            waiting: AtomicU64::new(0),
            reporter,
            unused,
            is_reopening,
            files: kept,
            refused_at: Mutex::default(),
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        let _waiting = WaitingUnit::begin(&self.waiting);
        // A unit that removes something has room that is kept for it.
        let removes = |change: &Change| matches!(change, Change::Delete { .. } | Change::DeleteMany { .. });
        let adds = !unit.changes.iter().any(removes);
        let outcome = self.ask(|reply| Job::Commit { unit, reply }).await;
        self.note_room(adds, &outcome);
        outcome
    }

    /// Whether the last unit that adds something found no room, and the disk has not got [`ROOM_AGAIN`] since.
    pub(crate) fn is_full(&self) -> bool {
        let mut refused_at = self.refused_at();
        let Some(then) = *refused_at else { return false };
        if self.files.free_bytes().is_some_and(|free| free >= then.saturating_add(ROOM_AGAIN)) {
            note_room_again(&mut refused_at);
        }
        refused_at.is_some()
    }

    fn note_room(&self, adds: bool, outcome: &Result<Vec<u64>, StoreError>) {
        match outcome {
            Err(StoreError::NoRoom { .. }) => {
                let before = self.refused_at().replace(self.files.free_bytes().unwrap_or_default());
                if before.is_none() {
                    log::error!("the disk of the store is full: writes are refused until there is room; reads go on");
                }
            }
            Ok(_) if adds => note_room_again(&mut self.refused_at()),
            _ => {}
        }
    }

    fn refused_at(&self) -> MutexGuard<'_, Option<u64>> {
        self.refused_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn prepare(&self, collections: Vec<CollectionSpec>) -> Result<(), StoreError> {
        self.ask(|reply| Job::Prepare { collections, reply }).await
    }

    pub(crate) async fn append(&self, collection: String, documents: Documents) -> Result<(), StoreError> {
        self.ask(|reply| Job::Append { collection, documents, reply }).await
    }

    pub(crate) async fn clear(&self, collection: String) -> Result<(), StoreError> {
        self.ask(|reply| Job::Clear { collection, reply }).await
    }

    pub(crate) fn report_to(&self, metrics: &Arc<Metrics>) {
        // The first one stays; a process has only one.
        let _ = self.reporter.set(Arc::clone(metrics));
    }

    /// How many units wait for their answer.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The estimated unused bytes of the file, and the age of the estimate.
    pub(crate) fn unused(&self) -> Option<(u64, Duration)> {
        self.unused.load().as_ref().map(|unused| (unused.bytes, unused.at.elapsed()))
    }

    /// Has the file reopened, once for all callers. With a full queue the writer notices without a message.
    pub(crate) fn reopen(&self) {
        if !self.is_reopening.swap(true, Ordering::AcqRel) && self.jobs.try_send(Job::Reopen).is_err() {
            self.is_reopening.store(false, Ordering::Release);
        }
    }

    async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(job(reply)).map_err(|error| match error {
            TrySendError::Full(_) => failure::unavailable(&"too many writes are waiting"),
            TrySendError::Disconnected(_) => failure::unavailable(&"the writing thread has ended"),
        })?;
        answer.await.unwrap_or_else(|_| Err(failure::unavailable(&"the writing thread has ended")))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

/// A unit without an answer, whose caller may give up.
struct WaitingUnit<'a>(&'a AtomicU64);

impl<'a> WaitingUnit<'a> {
    fn begin(waiting: &'a AtomicU64) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for WaitingUnit<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The state of the thread.
struct Writer {
    reporter: Reporter,
    unused: Arc<ArcSwapOption<Unused>>,
    is_reopening: Arc<AtomicBool>,
    files: StoreFiles,
    published: Published,
    /// As of the last commit.
    catalog: Catalog,
    /// None while the storage fails.
    database: Option<Engine>,
    journal: Journal,
    acknowledged: Acknowledged,
    limits: BatchLimits,
}

/// The units of one transaction, with their callers.
struct Group {
    units: Vec<Unit>,
    replies: Vec<Reply<Vec<u64>>>,
    bytes: usize,
    undo: Undo,
}

/// The outcome of a unit.
enum Outcome {
    Done(Result<Vec<u64>, StoreError>),
    /// It needs a transaction of its own.
    TooLarge,
}

impl Group {
    fn of(unit: Unit, reply: Reply<Vec<u64>>, undo: Undo) -> Self {
        let mut group = Self { units: Vec::new(), replies: Vec::new(), bytes: 0, undo };
        group.push(unit, reply);
        group
    }

    fn push(&mut self, unit: Unit, reply: Reply<Vec<u64>>) {
        self.bytes += unit.changes.iter().map(bytes_of).sum::<usize>();
        self.units.push(unit);
        self.replies.push(reply);
    }

    /// The units, each with its caller.
    fn into_waiting(self) -> Vec<(Unit, Reply<Vec<u64>>)> {
        self.units.into_iter().zip(self.replies).collect()
    }

    fn is_full(&self) -> bool {
        self.units.len() >= GROUP_UNITS || self.bytes >= GROUP_BYTES
    }
}

impl Outcome {
    fn is_refusal(&self) -> bool {
        !matches!(self, Self::Done(Ok(_)))
    }
}

fn bytes_of(change: &Change) -> usize {
    match change {
        Change::Insert { document, .. } => document.as_bytes().len(),
        Change::Replace { after, .. } => after.as_bytes().len(),
        Change::Append(numbered) => numbered.bytes,
        Change::Delete { .. } | Change::DeleteMany { .. } | Change::UpdateMany { .. } => 0,
    }
}

impl Writer {
    fn run(mut self, jobs: &Receiver<Job>) {
        self.measure();
        let mut measured = Instant::now();
        let mut next = jobs.recv().ok();
        while let Some(job) = next.take() {
            if measured.elapsed() >= MEASURED_EVERY {
                self.measure();
                measured = Instant::now();
            }
            match job {
                Job::Commit { unit, reply } => {
                    let mut group = Group::of(unit, reply, Undo::Notes);
                    next = gather(&mut group, jobs);
                    self.commit(group);
                }
                Job::Prepare { collections, reply } => {
                    let result = self.with_room(|writer| writer.prepare(&collections));
                    self.look_at(&result);
                    // Nobody waits any more, but the work is done all the same.
                    let _ = reply.send(result);
                }
                Job::Append { collection, documents, reply } => {
                    let append = |batch: &mut Batch<'_>| batch.append(&collection, &documents);
                    let result = self.with_room(|writer| writer.in_batch(Undo::Transaction, append, |()| false));
                    self.look_at(&result);
                    let _ = reply.send(result);
                }
                Job::Clear { collection, reply } => {
                    let result = self.with_room(|writer| writer.clear(&collection));
                    self.look_at(&result);
                    let _ = reply.send(result);
                }
                Job::Reopen => {
                    self.check();
                    self.is_reopening.store(false, Ordering::Release);
                }
                Job::Stop => break,
            }
            next = next.or_else(|| self.next(jobs));
        }
        self.stop();
    }

    /// Waits for a job.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        if self.journal.holds() {
            match jobs.recv_timeout(QUIET) {
                Err(RecvTimeoutError::Timeout) => self.catch_up(),
                received => return received.ok(),
            }
        }
        jobs.recv().ok()
    }

    /// Makes the log commits durable in the tables, so that opening after a kill has nothing to replay.
    fn catch_up(&mut self) {
        let mut catalog = self.catalog.clone();
        let done = self.begin().and_then(|transaction| {
            failure::guarded(|| store_collections(&transaction, &mut catalog, []))?;
            self.finish(transaction, catalog, None, Some(&Moved::default()))
        });
        if let Err(error) = done {
            self.fail(&error);
        }
    }

    /// Does work. If there was no room, it tries again after a table commit, which frees room.
    fn with_room<T>(&mut self, work: impl Fn(&mut Self) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let done = work(self);
        if matches!(done, Err(StoreError::NoRoom { .. })) && self.journal.holds() {
            self.catch_up();
            return work(self);
        }
        done
    }

    /// Measures the unused part of the file: some hundred samples, some milliseconds.
    fn measure(&self) {
        let Some(database) = &self.database else { return };
        if let Some(bytes) = space::unused(database, &self.catalog, self.files.taken_bytes()) {
            self.unused.store(Some(Arc::new(Unused { bytes, at: Instant::now() })));
        }
    }

    /// Commits a group and answers everyone in it.
    fn commit(&mut self, group: Group) {
        let has_all_room = group.units.len() == 1 && !self.journal.holds();
        let undo = group.undo;
        match self.commit_units(&group.units, undo) {
            Ok(outcomes) => {
                let (mut large, mut crowded) = (Vec::new(), Vec::new());
                let units = outcomes.len();
                for ((unit, reply), outcome) in group.into_waiting().into_iter().zip(outcomes) {
                    match outcome {
                        Outcome::Done(Err(StoreError::NoRoom { .. })) if !has_all_room => crowded.push((unit, reply)),
                        Outcome::Done(result) => drop(reply.send(result)),
                        Outcome::TooLarge => large.push((unit, reply)),
                    }
                }
                let left = large.len() + crowded.len();
                if let Some(metrics) = self.reporter.get()
                    && units > left
                {
                    metrics.committed(units - left);
                }
                self.commit_with_room(crowded, undo);
                self.commit_each(large, Undo::Transaction);
            }
            // One of them read damaged pages; the others may still succeed.
            Err(StoreError::Corrupt { .. }) if group.units.len() > 1 => self.commit_each(group.into_waiting(), undo),
            // Together they have no room; each one may have it.
            Err(StoreError::NoRoom { .. }) if !has_all_room => self.commit_with_room(group.into_waiting(), undo),
            Err(StoreError::NoRoom { what }) => refuse(group.replies, || StoreError::NoRoom { what: what.clone() }),
            Err(StoreError::Corrupt { what }) => {
                // The storage works, and undamaged pages can still be read and written.
                log::error!("a write met damaged pages, nothing was written: {what}");
                refuse(group.replies, || StoreError::Corrupt { what: what.clone() });
            }
            Err(error) => {
                self.fail(&error);
                refuse(group.replies, || failure::unavailable(&error));
            }
        }
    }

    /// Commits units one by one.
    fn commit_each(&mut self, waiting: Vec<(Unit, Reply<Vec<u64>>)>, undo: Undo) {
        for (unit, reply) in waiting {
            self.commit(Group::of(unit, reply, undo));
        }
    }

    /// The same, each with all free room: log commits in the tables need none any more.
    fn commit_with_room(&mut self, waiting: Vec<(Unit, Reply<Vec<u64>>)>, undo: Undo) {
        for (unit, reply) in waiting {
            if self.journal.holds() {
                self.catch_up();
            }
            self.commit(Group::of(unit, reply, undo));
        }
    }

    /// One transaction for all units. An error is one of the storage; nothing was written then.
    fn commit_units(&mut self, units: &[Unit], undo: Undo) -> Result<Vec<Outcome>, StoreError> {
        let is_given_up =
            |outcomes: &Vec<Outcome>| undo == Undo::Transaction && outcomes.iter().any(Outcome::is_refusal);
        self.in_batch(undo, |batch| apply(batch, units), is_given_up)
    }

    /// One transaction for all that `work` does. After an error or an abort nothing was written.
    fn in_batch<T>(
        &mut self,
        undo: Undo,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T, StoreError>,
        is_given_up: impl FnOnce(&T) -> bool,
    ) -> Result<T, StoreError> {
        // Beginning may reopen the file, and then there is another log.
        let transaction = self.begin()?;
        let room = self.journal.room();
        let mut batch = Batch::new(&transaction, self.catalog.clone(), self.limits, undo, &room);
        // The batch outlives a panic, so that its transaction is aborted in order and not while unwinding.
        let applied = match failure::guarded(|| work(&mut batch)) {
            Ok(results) => failure::guarded(|| batch.into_parts()).map(|parts| (results, parts)),
            Err(error) => {
                drop(batch);
                Err(error)
            }
        };
        let (outcomes, Parts { mut catalog, touched, record, moved }) = match applied {
            Ok(applied) => applied,
            Err(error) => {
                // A transaction whose abort fails is lost all the same, and the first error says why.
                let _ = failure::caught(|| transaction.abort());
                self.journal.forget(self.catalog.commit);
                return Err(error);
            }
        };
        if touched.is_empty() || is_given_up(&outcomes) {
            transaction.abort().map_err(failure::of_storage)?;
            self.journal.forget(self.catalog.commit);
        } else {
            failure::guarded(|| store_collections(&transaction, &mut catalog, touched))?;
            self.finish(transaction, catalog, record.as_deref(), Some(&moved))?;
        }
        Ok(outcomes)
    }

    fn prepare(&mut self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        let transaction = self.begin()?;
        let (mut catalog, room) = (self.catalog.clone(), self.journal.room());
        let changed = match failure::guarded(|| prepare::declare(&transaction, &mut catalog, collections, &room)) {
            Ok(changed) if !changed.is_empty() => changed,
            nothing => {
                let aborted = transaction.abort().map_err(failure::of_storage);
                self.journal.forget(self.catalog.commit);
                return nothing.and(aborted);
            }
        };
        failure::guarded(|| store_collections(&transaction, &mut catalog, changed))?;
        self.finish(transaction, catalog, None, None)
    }

    /// See [`Copying::clear`](crate::store::Copying::clear).
    fn clear(&mut self, collection: &str) -> Result<(), StoreError> {
        let mut catalog = self.catalog.clone();
        let Some(number) = catalog.get(collection).map(|known| known.number) else { return Ok(()) };
        let (transaction, room) = (self.begin()?, self.journal.room());
        if let Err(error) = failure::guarded(|| prepare::empty(&transaction, &mut catalog, number, &room)) {
            let _ = failure::caught(|| transaction.abort());
            self.journal.forget(self.catalog.commit);
            return Err(error);
        }
        failure::guarded(|| store_collections(&transaction, &mut catalog, [number]))?;
        self.finish(transaction, catalog, None, None)
    }

    fn begin(&mut self) -> Result<WriteTransaction, StoreError> {
        let error = match self.database()?.begin_write() {
            Ok(transaction) => return Ok(transaction),
            Err(error) => error,
        };
        // A read has failed before. Nothing of this write was tried yet, and it continues when the file is opened again.
        self.fail(&error);
        self.database()?.begin_write().map_err(|error| failure::unavailable(&error))
    }

    fn database(&mut self) -> Result<&Database, StoreError> {
        if self.database.is_none() {
            self.reopen()?;
        }
        self.database.as_deref().ok_or_else(|| failure::unavailable(&"the storage is out of order"))
    }

    /// Makes the transaction durable, by its record if there is one, and publishes it to readers. `moved` has all entries
    /// that it moved, if that is known.
    fn finish(
        &mut self,
        mut transaction: WriteTransaction,
        catalog: Catalog,
        record: Option<&[u8]>,
        moved: Option<&Moved>,
    ) -> Result<(), StoreError> {
        let append = |record| self.journal.append(catalog.commit, record, self.files.length());
        let appended = record.map_or(Ok(false), append);
        let is_durable = match appended {
            Ok(is_durable) => is_durable,
            Err(error) => {
                let _ = failure::caught(|| transaction.abort());
                return Err(error);
            }
        };
        if is_durable {
            transaction.set_durability(Durability::None).map_err(|error| failure::unavailable(&error))?;
        } else {
            // Makes opening after a kill quick, and each such commit slower: worth it where repairing would take long.
            transaction.set_quick_repair(self.files.is_large());
        }
        let committed = failure::caught(|| transaction.commit()).map_err(|panic| failure::unavailable(&panic))?;
        committed.map_err(|error| failure::unavailable(&error))?;
        self.acknowledged.note(catalog.commit);
        if !is_durable {
            self.journal.release(catalog.commit);
        }
        self.catalog = catalog;
        self.publish(moved);
        Ok(())
    }

    fn publish(&mut self, moved: Option<&Moved>) {
        let Some(database) = &self.database else { return };
        let before = self.published.load_full();
        let taken = || {
            let snapshot =
                Snapshot::take(database, self.catalog.clone()).map_err(|error| failure::unavailable(&error))?;
            Ok(match (&before, moved) {
                (Some(before), Some(moved)) => snapshot.counted_as(before, moved),
                _ => snapshot,
            })
        };
        match failure::guarded(taken) {
            Ok(snapshot) => self.published.store(Some(Arc::new(snapshot))),
            Err(error) => self.fail(&error),
        }
    }

    /// Reopens the file if it is closed, or if the storage refuses writes since a read failed.
    fn check(&mut self) {
        let usable = self.begin().and_then(|transaction| transaction.abort().map_err(failure::of_storage));
        if let Err(error) = usable {
            self.fail(&error);
        }
    }

    /// Has the file reopened if this is a failure of the storage.
    fn look_at(&mut self, result: &Result<(), StoreError>) {
        if let Err(error @ (StoreError::Unavailable { .. } | StoreError::Backend { .. })) = result {
            self.fail(error);
        }
    }

    /// Closes the file and tries to reopen it.
    fn fail(&mut self, error: &dyn std::fmt::Display) {
        log::error!("the storage failed, opening it again: {error}");
        self.close();
        if let Err(error) = self.reopen() {
            log::error!("the store stays out of order, each write tries again: {error}");
        }
    }

    fn close(&mut self) {
        self.published.store(None);
        self.journal = Journal::default();
        self.database = None;
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        let opened = opening::open(&self.files, IfMissing::Refuse).map_err(|error| failure::unavailable(&error))?;
        let Ready { database, mut catalog, journal } = opened;
        self.journal = journal;
        catalog.continue_after(&self.catalog);
        // It may be a new file, written after a sync that failed.
        self.acknowledged = recovery::open_watermark(&self.files, &catalog);
        self.catalog = catalog;
        let snapshot = Snapshot::take(&database, self.catalog.clone()).map_err(|error| failure::unavailable(&error))?;
        self.published.store(Some(Arc::new(snapshot)));
        self.database = Some(database);
        Ok(())
    }

    /// Prevents the next process from giving out the same ids again.
    fn stop(mut self) {
        let numbers: Vec<u32> = self.catalog.iter().map(|collection| collection.number).collect();
        let mut catalog = self.catalog.clone();
        let stored = self.begin().and_then(|transaction| {
            let pages = room::of_tables(numbers.len());
            self.journal.room().promise(pages, Use::Removing(0), || "the last ids".to_owned())?;
            store_collections(&transaction, &mut catalog, numbers)?;
            self.finish(transaction, catalog, None, None)
        });
        match stored {
            // The records still fit into the tables.
            Err(StoreError::NoRoom { .. }) if self.journal.holds() => self.catch_up(),
            Err(error) => log::error!("closing the store: {error}"),
            Ok(()) => {}
        }
        self.published.store(None);
    }
}

/// Answers all waiting callers with the same error.
fn refuse(replies: Vec<Reply<Vec<u64>>>, error: impl Fn() -> StoreError) {
    for reply in replies {
        let _ = reply.send(Err(error()));
    }
}

/// Applies units in turn; an error is one of the storage.
fn apply(batch: &mut Batch<'_>, units: &[Unit]) -> Result<Vec<Outcome>, StoreError> {
    let apply = |unit| match batch.apply(unit) {
        Ok(counts) => Ok(Outcome::Done(Ok(counts))),
        Err(Refusal::Unit(error)) => Ok(Outcome::Done(Err(error))),
        Err(Refusal::TooLarge) => Ok(Outcome::TooLarge),
        Err(Refusal::Batch(error)) => Err(error),
    };
    units.iter().map(apply).collect()
}

/// Adds waiting units to the group; returns a job that does not fit.
fn gather(group: &mut Group, jobs: &Receiver<Job>) -> Option<Job> {
    while !group.is_full() {
        match jobs.try_recv() {
            Ok(Job::Commit { unit, reply }) => group.push(unit, reply),
            Ok(other) => return Some(other),
            Err(_) => return None,
        }
    }
    None
}
