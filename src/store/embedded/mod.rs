//! The embedded store: documents in one file, served from inside the process.
//!
//! Its modules are called rooms. They are listed from the lowest to the highest. Each may import those before it, and no
//! other.
//!
//! | room | what lives there |
//! |---|---|
//! | [`failure`], [`options`] | errors of the engine as errors of the store; how a store is opened |
//! | [`file`](mod@file) | bytes on disk: the log of pages, the files next to it, read-only views |
//! | [`catalog`] | the catalog: collections, indexes, versions |
//! | [`index`] | keys, entries, their tables and numbers |
//! | [`plan`] | plans a query: the ranges of an index |
//! | [`read`] | runs a plan on a snapshot |
//! | [`write`](mod@write) | units become changes of tables and records of the log |
//! | [`open`] | a file becomes a store: recovery, older formats, refusals |
//! | [`upkeep`] | check, repair, compact, backup |
//! | [`writer`] | the thread that writes |
//!
//! A read: [`plan`] chooses an `AccessPath` to the documents, and [`read`] follows it on the published snapshot.
//! A write: its unit waits in a queue. [`writer`] applies it to a batch and makes the batch durable: by a record in the log,
//! or by a table commit. Then it publishes a new snapshot and answers. docs/embedded-store.md explains these terms.
//!
//! *Invariants:*
//! - A write that was answered is on disk.
//! - Row numbers ascend in the order of insertion and are never reused.
//! - Every key of every document is in its index, and the index has no other entries.
//! - A plan only narrows the set of documents: the filter checks each document again, unless the bounds are exact.

mod catalog;
mod failure;
mod file;
mod index;
mod open;
mod options;
mod plan;
mod read;
#[cfg(test)]
mod trials;
mod upkeep;
mod write;
mod writer;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use bson::DateTime;
use bson::raw::RawDocumentBuf;

use crate::admission::{self, Means, Turn};
use crate::metrics::{EmbeddedFigures, Metrics};
use crate::query::{Budget, Filter};
use crate::store::evaluate::{self, Reads, Results, Within, find_query};
use crate::store::inspection::Finding;
use crate::store::{
    AggregateQuery, ChunkedPage, Chunks, CollectionSpec, Copying, Documents, Dump, Explanation, FileStore, FindQuery,
    Health, Page, Store, StoreError, Total, Traits, Unit, chunks_of, fresh_revision,
};

use self::open::files::StoreFiles;
use self::plan::access_path::{self, AccessPath};
use self::read::chunks::{self, HeldSnapshot, Remainder};
use self::read::execute::{CollectionReader, Deadline};
use self::read::find::{Answer, Question};
use self::read::snapshot::{Published, Snapshot};
use self::read::{dump, explain, find, snapshot};
use self::upkeep::{backup, check};
use self::write::validate;

pub use self::index::key;
pub use self::open::files::has_store;
pub use self::open::refusal::OpenError;
pub use self::options::Options;
pub use self::upkeep::check::{Damaged, Findings, Problem};
pub use self::upkeep::space::Compacted;

/// Work on a store that no process has open.
pub mod maintenance {
    pub use super::open::paths::FILE as FILE_NAME;
    pub use super::upkeep::backup::{RestoreError, backup, may_be_replaced, restore};
    pub use super::upkeep::repair::{RepairError, Repaired, check, compact, repair};
}

/// An answer of more bytes than this counts as memory of its request as long as the request lasts.
const LONG: usize = 1024 * 1024;
/// How long a query may take on the thread of its request. Few documents can be large, and a filter long: then it is
/// asked again as work.
const HERE: Duration = Duration::from_millis(10);

/// A [`Store`] in a directory. Dropping it waits until everything is on disk and closes the file.
pub struct EmbeddedStore {
    published: Published,
    writer: Arc<writer::Handle>,
    files: StoreFiles,
    /// One backup at a time: each takes as much room as the store.
    backing_up: Arc<tokio::sync::Mutex<()>>,
}

impl EmbeddedStore {
    /// Opens the store in a directory, which is created if it does not exist.
    ///
    /// Takes long only if the last process was killed and the file is large. Progress goes to the log.
    ///
    /// # Errors
    /// With a message for the operator, see [`OpenError`].
    pub fn open(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        Self::start(StoreFiles::prepare(directory, options)?, options)
    }

    /// Opens a store for reading. The file stays as it is, and no named file is created next to it. Writes to this store
    /// vanish with it.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`]; [`OpenError::NoStore`] when there is none.
    pub fn open_aside(directory: &Path, options: &Options) -> Result<Self, OpenError> {
        Self::start(StoreFiles::existing(directory, options)?.overlaid(), options)
    }

    fn start(files: StoreFiles, options: &Options) -> Result<Self, OpenError> {
        let published = Arc::new(ArcSwapOption::empty());
        let writer = writer::Handle::start(files.clone(), options, Arc::clone(&published))?;
        Ok(Self { published, writer: Arc::new(writer), files, backing_up: Arc::default() })
    }

    /// Reads everything and returns all errors: documents that do not decode, indexes that differ from a rebuild,
    /// counters that are too low. For tests: it holds one snapshot all the time, and does not compare checksums as
    /// [`maintenance::check`] does.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        let (turn, snapshot) = self.admitted().await?;
        let findings = self.on_blocking_pool(turn, move |_| check::check(&snapshot)).await?;
        Ok(findings.problems.iter().map(ToString::to_string).collect())
    }

    fn snapshot(&self) -> Result<Arc<Snapshot>, StoreError> {
        self.published.load_full().ok_or_else(|| {
            self.writer.reopen();
            failure::unavailable(&"the storage is out of order")
        })
    }

    /// Answers on this thread if few keys and documents are read, else on the blocking pool.
    async fn ask(&self, name: &str, query: &FindQuery, with_total: bool) -> Result<Answer, StoreError> {
        validate::runs_here(&query.filter)?;
        match self.ask_here(name, query, with_total)? {
            Some(answer) => Ok(answer),
            None => self.ask_planned(name, query, with_total).await,
        }
    }

    fn ask_here(&self, name: &str, query: &FindQuery, with_total: bool) -> Result<Option<Answer>, StoreError> {
        let snapshot = self.snapshot()?;
        let Some(collection) = snapshot.collection(name) else { return Ok(Some(Answer::none(with_total))) };
        self.briefly(query.max_time, |deadline| {
            let tables = snapshot.tables(collection)?;
            let reader = CollectionReader::new(collection, tables, deadline.clone());
            match AccessPath::of(collection, query, with_total, &reader) {
                AccessPath::Point(point) => point.ask(collection, tables, query, with_total).map(Some),
                AccessPath::Points(points) => points.ask(collection, tables, query, with_total).map(Some),
                AccessPath::Short(choice) => {
                    Question { query, choice, with_total, deadline }.ask(collection, tables).map(Some)
                }
                AccessPath::Planned => Ok(None),
            }
        })
    }

    /// Whether this process has read stored bytes that are not what was written.
    fn is_damaged(&self) -> bool {
        self.files.damage().load(Ordering::Relaxed)
    }

    /// Whether the last write that adds something found no room on the disk.
    fn is_full(&self) -> bool {
        self.writer.is_full()
    }

    async fn counted(&self, collection: &str, filter: &Filter, max_time: Duration) -> Result<u64, StoreError> {
        validate::runs_here(filter)?;
        let deadline = Deadline::after(max_time);
        if let Some(count) = self.count_here(collection, filter, max_time)? {
            return Ok(count);
        }
        let (turn, snapshot) = self.admitted().await?;
        let (collection, filter) = (collection.to_owned(), filter.clone());
        let work = move |means: &Means| {
            let reading = find::Reading { snapshot: &snapshot, deadline: deadline.within(means) };
            reading.count(&collection, &filter)
        };
        self.on_blocking_pool(turn, work).await
    }

    /// Counts on this thread, if few keys and documents are read.
    fn count_here(&self, name: &str, filter: &Filter, max_time: Duration) -> Result<Option<u64>, StoreError> {
        let snapshot = self.snapshot()?;
        let Some(collection) = snapshot.collection(name) else { return Ok(Some(0)) };
        self.briefly(max_time, |deadline| {
            let mut reader = CollectionReader::new(collection, snapshot.tables(collection)?, deadline);
            let choice = access_path::short_count(collection, filter.tree(), &reader);
            choice.map(|choice| reader.count(&choice, filter)).transpose()
        })
    }

    async fn ask_planned(&self, name: &str, query: &FindQuery, with_total: bool) -> Result<Answer, StoreError> {
        let (turn, snapshot) = self.admitted().await?;
        let Some(collection) = snapshot.collection(name).cloned() else { return Ok(Answer::none(with_total)) };
        // Waiting for a thread counts too, because the snapshot is held meanwhile.
        let (query, deadline) = (query.clone(), Deadline::after(query.max_time));
        self.on_blocking_pool(turn, move |means| {
            let tables = snapshot.tables(&collection)?;
            let question = Question::new(&collection, tables, &query, with_total, deadline.within(means))?;
            let answer = question.ask(&collection, tables)?;
            if answer.documents.bytes() > LONG {
                means.hold(answer.documents.bytes())?;
            }
            Ok(answer)
        })
        .await
    }

    /// A turn, and the snapshot of that moment: no snapshot is held while waiting for a turn.
    async fn admitted(&self) -> Result<(Turn, Arc<Snapshot>), StoreError> {
        let turn = admission::turn().await?;
        Ok((turn, self.snapshot()?))
    }

    /// Gives chunks; those of the first minute come from one snapshot.
    async fn chunks_for(&self, name: &str, query: &FindQuery, span: Duration) -> Result<ChunkedPage, StoreError> {
        validate::runs_here(&query.filter)?;
        let (turn, snapshot) = self.admitted().await?;
        let Some(collection) = snapshot.collection(name).cloned() else { return Ok(ChunkedPage::of(Page::default())) };
        let (of, asked, deadline) = (Arc::clone(&snapshot), query.clone(), Deadline::after(query.max_time));
        let find = move |means: &Means| {
            let tables = of.tables(&collection)?;
            let question = Question::new(&collection, tables, &asked, asked.is_counted, deadline.within(means))?;
            let mut found = question.rows(&collection, tables)?;
            hold_rows(&mut found.list, means)?;
            let hint = question.hint(&collection, found.work, found.list.len() as u64, Some(found.matched));
            Ok((found, hint))
        };
        let (found, hint) = self.on_blocking_pool(turn, find).await?;
        let rest = Remainder::new((snapshot, span), Arc::clone(&self.published), name, query.clone(), found.list);
        Ok(ChunkedPage { total: found.matched, hint, documents: rest.into_stream() })
    }

    /// Results that each come of one document: in chunks, as the documents are read.
    async fn streamed(&self, name: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        let front = query.pipeline.front();
        let asked = FindQuery { max_time: query.max_time, ..find_query(&front, &query.guard) };
        let (turn, snapshot) = self.admitted().await?;
        let Some(collection) = snapshot.collection(name).cloned() else { return Ok(chunks_of(Documents::new())) };
        let (of, wanted, deadline) = (Arc::clone(&snapshot), asked.clone(), Deadline::after(query.max_time));
        let find = move |means: &Means| {
            let tables = of.tables(&collection)?;
            let question = Question::new(&collection, tables, &wanted, false, deadline.within(means))?;
            let mut rows = question.rows(&collection, tables)?.list;
            hold_rows(&mut rows, means)?;
            Ok(rows)
        };
        let rows = self.on_blocking_pool(turn, find).await?;
        let of = (Arc::clone(&snapshot), chunks::SNAPSHOT_TIME);
        let rest = Remainder::new(of, Arc::clone(&self.published), name, asked, rows).into_stream();
        if query.pipeline.collections().is_empty() {
            // The stages after the front read no collection, so they need no snapshot.
            return Ok(evaluate::applied(rest, (query.pipeline.clone(), front.stages), query.max_time));
        }
        let held = HeldSnapshot::new(snapshot, chunks::SNAPSHOT_TIME);
        let (query, published, max_time) = (query.clone(), Arc::clone(&self.published), query.max_time);
        let apply = move |documents: &Documents, budget: &Budget, means: &Means| {
            let snapshot = held.now(&published)?.0;
            let reading = find::Reading { snapshot: &snapshot, deadline: Deadline::after(max_time).within(means) };
            let (source, results) = (Within(&reading, &query.reach, budget), Results::new(usize::MAX, means));
            let stages = (&query.pipeline, front.stages);
            evaluate::piped(stages, &source, budget, results, |visit| evaluate::shown(documents, visit).map(drop))
        };
        Ok(evaluate::applied_by(rest, Arc::new(apply), max_time))
    }

    /// Answers on the calling thread.
    fn here<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.watched(failure::guarded(work))
    }

    /// The same for at most [`HERE`]; `None` if that is too short, and a turn is needed.
    fn briefly<T>(
        &self,
        max_time: Duration,
        work: impl FnOnce(Deadline) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let most = max_time.min(HERE);
        match self.here(|| work(Deadline::after(most).exactly())) {
            Err(StoreError::Timeout) if most < max_time => Ok(None),
            done => done,
        }
    }

    async fn on_blocking_pool<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce(&Means) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let done = turn.run(|means| failure::guarded(|| work(means))).await;
        self.watched(done.unwrap_or_else(|denied| Err(denied.into())))
    }

    /// Reopens the file when reading failed.
    fn watched<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(result, Err(StoreError::Unavailable { .. })) {
            self.writer.reopen();
        }
        result
    }
}

/// Counts the rows of an answer in chunks, which last as long as the answer.
fn hold_rows(rows: &mut Vec<u64>, means: &Means) -> Result<(), StoreError> {
    rows.shrink_to_fit();
    Ok(means.hold(size_of_val(rows.as_slice()))?)
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn prepare(&self, collections: &[CollectionSpec]) -> Result<(), StoreError> {
        self.writer.prepare(collections.to_vec()).await
    }

    async fn read(&self, collection: &str, query: &FindQuery, total: Total) -> Result<Page, StoreError> {
        if total == Total::Alone {
            let total = self.counted(collection, &query.filter, query.max_time).await?;
            return Ok(Page { total, ..Page::default() });
        }
        let answer = self.ask(collection, query, total == Total::Asked).await?;
        Ok(Page { documents: answer.documents, total: answer.total.unwrap_or_default(), hint: answer.hint })
    }

    /// Its snapshot is held while its questions wait for turns, so that they have one answer: at most as long as a request.
    async fn frozen(&self, _: Duration) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(Self {
            published: Arc::new(ArcSwapOption::new(Some(self.snapshot()?))),
            writer: Arc::clone(&self.writer),
            files: self.files.clone(),
            backing_up: Arc::clone(&self.backing_up),
        }))
    }

    async fn explain(&self, collection: &str, query: &FindQuery) -> Result<Explanation, StoreError> {
        validate::runs_here(&query.filter)?;
        let (turn, snapshot) = self.admitted().await?;
        let (collection, query) = (collection.to_owned(), query.clone());
        let deadline = Deadline::after(query.max_time);
        let explain = move |means: &Means| explain::explain(&snapshot, &collection, &query, deadline.within(means));
        self.on_blocking_pool(turn, explain).await
    }

    async fn chunks(&self, collection: &str, query: &FindQuery) -> Result<ChunkedPage, StoreError> {
        self.chunks_for(collection, query, chunks::SNAPSHOT_TIME).await
    }

    async fn aggregate(&self, collection: &str, query: &AggregateQuery) -> Result<Chunks, StoreError> {
        query.check_reach()?;
        if let Some(operator) = query.pipeline.needs_server() {
            return Err(StoreError::Unsupported { what: operator.to_owned() });
        }
        if query.pipeline.is_streaming(query.pipeline.front().stages) {
            return self.streamed(collection, query).await;
        }
        let (turn, snapshot) = self.admitted().await?;
        let (name, query, deadline) = (collection.to_owned(), query.clone(), Deadline::after(query.max_time));
        let run = move |means: &Means| {
            let reading = find::Reading { snapshot: &snapshot, deadline: deadline.within(means) };
            let budget = reading.deadline.budget();
            let documents = evaluate::results(&reading, &name, &query, (&budget, means))?;
            means.hold(documents.bytes())?;
            Ok(documents)
        };
        Ok(chunks_of(self.on_blocking_pool(turn, run).await?))
    }

    async fn reserve_ids(&self, collection: &str, count: u32) -> Result<i64, StoreError> {
        let snapshot = self.snapshot()?;
        let known = snapshot.collection(collection);
        known.ok_or_else(|| StoreError::backend(format!("{collection} was not declared")))?.reserve_ids(count)
    }

    async fn commit(&self, unit: Unit) -> Result<Vec<u64>, StoreError> {
        self.writer.commit(unit).await
    }

    fn revision(&self, collection: &str) -> u64 {
        let snapshot = self.published.load();
        let known = snapshot.as_ref().and_then(|snapshot| snapshot.collection(collection));
        known.map_or_else(fresh_revision, |known| known.revision)
    }

    async fn health(&self) -> Result<Health, StoreError> {
        if self.writer.has_ended() {
            return Err(failure::unavailable(&"the writing thread has ended; start the service again"));
        }
        self.snapshot()?;
        Ok(Health { lacks: Vec::new(), is_damaged: self.is_damaged(), is_full: self.is_full() })
    }

    async fn inspect(&self, collections: &[CollectionSpec], _: DateTime) -> Result<Vec<Finding>, StoreError> {
        Ok(snapshot::inspect(&*self.snapshot()?, collections))
    }

    async fn edits_of_others(&self) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
        std::future::pending().await
    }

    fn traits(&self) -> Traits {
        Traits { kind: explain::KIND, is_remote: false, largest_unit: usize::MAX, tells_edits: true }
    }
}

#[async_trait]
impl Copying for EmbeddedStore {
    async fn dump(&self) -> Result<Box<dyn Dump>, StoreError> {
        Ok(Box::new(dump::SnapshotDump::of(self.snapshot()?)))
    }

    async fn append(&self, collection: &str, documents: Documents) -> Result<(), StoreError> {
        self.writer.append(collection.to_owned(), documents).await
    }

    async fn clear(&self, collection: &str) -> Result<(), StoreError> {
        self.writer.clear(collection.to_owned()).await
    }
}

#[async_trait]
impl FileStore for EmbeddedStore {
    async fn backup(&self) -> Result<File, StoreError> {
        let turn = Arc::clone(&self.backing_up).try_lock_owned();
        let turn = turn.map_err(|_| failure::unavailable(&"another backup is being made"))?;
        let (snapshot, files) = (self.snapshot()?, self.files.clone());
        let copy = tokio::task::spawn_blocking(move || {
            let copied = failure::guarded(|| backup::copy_of(&files, &snapshot, Some(backup::LONGEST)));
            drop(turn);
            copied
        });
        copy.await.unwrap_or_else(|error| Err(StoreError::backend(error)))
    }

    fn report_to(&self, metrics: &Arc<Metrics>) {
        self.writer.report_to(metrics);
    }

    fn close(&self) {
        self.writer.close();
    }

    fn figures(&self) -> EmbeddedFigures {
        let (unused_bytes, unused_age) = self.writer.unused().unwrap_or_default();
        let (file_bytes, disk_bytes) = (self.files.length(), self.files.taken_bytes());
        let (queue_length, is_damaged, is_full) = (self.writer.waiting(), self.is_damaged(), self.is_full());
        let free_bytes = self.files.free_bytes().unwrap_or_default();
        EmbeddedFigures {
            file_bytes,
            disk_bytes,
            unused_bytes,
            unused_age,
            queue_length,
            is_damaged,
            is_full,
            free_bytes,
        }
    }
}
