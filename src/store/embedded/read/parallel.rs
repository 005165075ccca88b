//! A scan of many documents by two threads, for filters that no index helps.
//!
//! The rows are split into ranges. Each thread takes the next range, searches it, and keeps only rows and sort keys.
//! The results are joined in the order of the rows, so the answer equals that of a single thread.
//!
//! For a pipeline, which needs whole documents in their order, the second thread copies those of some ranges ahead.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;

use redb::ReadableTableMetadata;

use bson::raw::RawDocument;

use crate::admission::Share;
use crate::query::SortValue;
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::reading_ahead;
use crate::store::embedded::index::table::Published;
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::plan::planner::Plan;
use crate::store::embedded::read::execute::{CollectionReader, Flow, Work};
use crate::store::embedded::read::find::{Answer, Question, Rows};
use crate::store::{Best, Documents, StoreError};

/// The number of rows of a range; small in tests of this crate, so that small collections have several.
const CHUNK: u64 = if cfg!(test) { 8 } else { 2048 };
/// The same where documents are copied.
const COPIED: u64 = if cfg!(test) { 8 } else { 256 };
/// How many ranges of copied documents wait for their turn, of each thread.
const AHEAD: usize = 4;
/// A range of more bytes is not copied.
const MOST_COPIED: usize = 1024 * 1024;
/// Below this many documents a second thread does not pay.
const MIN_DOCUMENTS: u64 = 4 * CHUNK;

/// Runs the query, with two threads if that pays.
pub(crate) fn ask(
    question: &Question<'_>,
    collection: &Collection,
    tables: &Tables<Published>,
) -> Result<Answer, StoreError> {
    if !pays(question, tables) {
        return question.ask(collection, tables);
    }
    let budget = question.deadline.budget();
    let reader = CollectionReader::new(collection, tables, question.deadline.clone());
    let found = Scan::new(question, collection, tables).run()?;
    let documents = question.read(found.list, &reader, &budget)?;
    let total = question.with_total.then_some(found.matched);
    let hint = question.hint(collection, found.work, documents.len() as u64, total);
    Ok(Answer { documents, total, work: found.work, hint })
}

/// The rows of the answer, found with two threads if that pays.
pub(crate) fn rows(
    question: &Question<'_>,
    collection: &Collection,
    tables: &Tables<Published>,
) -> Result<Rows, StoreError> {
    let mut reader = CollectionReader::new(collection, tables, question.deadline.clone());
    if question.wants_all()
        && let Some(list) = reader.all_rows()?
    {
        return Ok(Rows { matched: list.len() as u64, list, work: reader.work });
    }
    if pays(question, tables) { Scan::new(question, collection, tables).run() } else { question.rows(&mut reader) }
}

/// Shows `visit` the documents of an answer that is all of a scan, in order, until it breaks. False if that is not what is
/// asked, or a second thread does not pay: then nothing was shown.
pub(crate) fn each(
    question: &Question<'_>,
    collection: &Collection,
    tables: &Tables<Published>,
    visit: &mut dyn FnMut(&RawDocument) -> Flow,
) -> Result<bool, StoreError> {
    let is_all = question.query.limit == 0 && question.query.skip == 0 && question.comes_in_order();
    if !is_all || !pays(question, tables) {
        return Ok(false);
    }
    Scan::of(question, collection, tables, COPIED).show(visit)?;
    Ok(true)
}

fn pays(question: &Question<'_>, tables: &Tables<Published>) -> bool {
    let is_long = || tables.data.len().is_ok_and(|documents| documents >= MIN_DOCUMENTS);
    let has_cores = || thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
    question.choice.plan == Plan::Scan && question.reads_all() && is_long() && has_cores()
}

struct Scan<'a> {
    question: &'a Question<'a>,
    collection: &'a Collection,
    tables: &'a Tables<Published>,
    /// The number of rows of a range.
    size: u64,
    chunks: u64,
    /// The next chunk that nobody has taken.
    next: AtomicU64,
}

/// What was found in a chunk.
struct PartFound {
    matched: u64,
    /// Without a sort: the first rows, as many as the answer may need.
    rows: Vec<u64>,
    /// With a sort: the best ones.
    sorted: Vec<(SortValue, u64)>,
    work: Work,
}

/// Documents of a range; nothing if they are too large to be copied.
type Copied = Option<Documents>;

type Findings = (u64, Result<PartFound, StoreError>);

impl<'a> Scan<'a> {
    fn new(question: &'a Question<'a>, collection: &'a Collection, tables: &'a Tables<Published>) -> Self {
        Self::of(question, collection, tables, CHUNK)
    }

    fn of(question: &'a Question<'a>, collection: &'a Collection, tables: &'a Tables<Published>, size: u64) -> Self {
        let chunks = collection.next_row.div_ceil(size);
        Self { question, collection, tables, size, chunks, next: AtomicU64::new(0) }
    }

    /// Shows the documents in order. Each of both threads takes the next range; this one shows what it can at once.
    fn show(&self, visit: &mut dyn FnMut(&RawDocument) -> Flow) -> Result<(), StoreError> {
        thread::scope(|scope| {
            let (sender, others) = sync_channel(AHEAD);
            scope.spawn(move || self.copy_ahead(&sender));
            let shown = reading_ahead(|| self.show_each(&others, visit));
            // Nobody needs the other ranges.
            self.next.store(self.chunks, Ordering::Relaxed);
            shown
        })
    }

    fn show_each(
        &self,
        others: &Receiver<Result<Copied, StoreError>>,
        visit: &mut dyn FnMut(&RawDocument) -> Flow,
    ) -> Result<(), StoreError> {
        let mut own: BTreeMap<u64, Result<Copied, StoreError>> = BTreeMap::new();
        for wanted in 0..self.chunks {
            let copied = loop {
                if let Some(copied) = own.remove(&wanted) {
                    break copied?;
                }
                // The other thread takes ascending ranges, so its next one is the wanted one.
                match others.try_recv() {
                    Ok(copied) => break copied?,
                    Err(TryRecvError::Disconnected) => break None,
                    Err(TryRecvError::Empty) => {}
                }
                let taken = if own.len() < AHEAD { self.take() } else { None };
                match taken {
                    Some(taken) if taken == wanted => break None,
                    Some(taken) => drop(own.insert(taken, self.copy(taken))),
                    None => break others.recv().map_err(StoreError::backend)??,
                }
            };
            let flow = match copied {
                Some(copied) => show_all(&copied, visit)?,
                None => self.look_through(wanted, visit)?,
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn copy_ahead(&self, sender: &SyncSender<Result<Copied, StoreError>>) {
        reading_ahead(|| {
            while let Some(chunk) = self.take() {
                // When nobody listens any more, nobody needs further ones.
                // What the storage engine asserts on a damaged page is an error here, as on the thread of the request.
                if sender.send(failure::guarded(|| self.copy(chunk))).is_err() {
                    break;
                }
            }
        });
    }

    /// The documents of a range; nothing if they are too large to be copied.
    fn copy(&self, chunk: u64) -> Result<Copied, StoreError> {
        let mut copied = Documents::new();
        let flow = self.look_through(chunk, &mut |document| {
            copied.push(document);
            let is_full = copied.bytes() > MOST_COPIED;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(flow.is_continue().then_some(copied))
    }

    fn look_through(&self, chunk: u64, visit: &mut dyn FnMut(&RawDocument) -> Flow) -> Flow {
        let mut flow = ControlFlow::Continue(());
        self.question.deadline.clone().look()?;
        self.reader().each_in(self.rows_of(chunk), &self.question.query.filter, &mut |_, document| {
            flow = visit(document)?;
            Ok(flow)
        })?;
        Ok(flow)
    }

    fn rows_of(&self, chunk: u64) -> Range<u64> {
        chunk * self.size..(chunk + 1) * self.size
    }

    fn run(&self) -> Result<Rows, StoreError> {
        reading_ahead(|| self.run_here())
    }

    fn run_here(&self) -> Result<Rows, StoreError> {
        thread::scope(|scope| {
            let (sender, others) = channel();
            scope.spawn(move || self.help(&sender));
            let mut merged = AllFound::new(self.question);
            let mut waiting: BTreeMap<u64, Result<PartFound, StoreError>> = BTreeMap::new();
            let outcome = (0..self.chunks).try_for_each(|wanted| {
                loop {
                    waiting.extend(others.try_iter());
                    if let Some(found) = waiting.remove(&wanted) {
                        return merged.add(found?);
                    }
                    let (chunk, found) = match self.take() {
                        Some(chunk) => (chunk, self.look_in(chunk)),
                        // The other thread has the chunk.
                        None => others.recv().map_err(StoreError::backend)?,
                    };
                    waiting.insert(chunk, found);
                }
            });
            // After an error nobody needs the other ranges.
            self.next.store(self.chunks, Ordering::Relaxed);
            outcome?;
            Ok(merged.into_rows())
        })
    }

    fn help(&self, findings: &Sender<Findings>) {
        reading_ahead(|| {
            while let Some(chunk) = self.take() {
                // Nobody listens any more after an error.
                let _ = findings.send((chunk, failure::guarded(|| self.look_in(chunk))));
            }
        });
    }

    fn take(&self) -> Option<u64> {
        let chunk = self.next.fetch_add(1, Ordering::Relaxed);
        (chunk < self.chunks).then_some(chunk)
    }

    fn reader(&self) -> CollectionReader<'a, Published> {
        CollectionReader::new(self.collection, self.tables, self.question.deadline.clone())
    }

    fn look_in(&self, chunk: u64) -> Result<PartFound, StoreError> {
        let query = self.question.query;
        let rows = self.rows_of(chunk);
        // Otherwise short ranges would never reach the number of steps after which a reader reads the clock.
        self.question.deadline.clone().look()?;
        let mut reader = self.reader();
        let mut found = PartFound { matched: 0, rows: Vec::new(), sorted: Vec::new(), work: Work::default() };
        if self.question.comes_in_order() {
            let wanted = if query.limit == 0 { u64::MAX } else { query.skip.saturating_add(query.limit) };
            reader.each_in(rows, &query.filter, &mut |row, _| {
                found.matched += 1;
                if (found.rows.len() as u64) < wanted {
                    found.rows.push(row);
                }
                Ok(ControlFlow::Continue(()))
            })?;
        } else {
            let mut best = Best::new(query, Share::default());
            reader.each_in(rows, &query.filter, &mut |row, document| {
                found.matched += 1;
                best.offer(query.sort.key_of(document).map_err(failure::of_evaluation)?, row)?;
                Ok(ControlFlow::Continue(()))
            })?;
            found.sorted = best.into_kept();
        }
        found.work = reader.work;
        Ok(found)
    }
}

fn show_all(documents: &Documents, visit: &mut dyn FnMut(&RawDocument) -> Flow) -> Flow {
    for document in documents.iter() {
        if visit(document)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// The findings of the chunks so far.
struct AllFound {
    matched: u64,
    /// Rows that are passed over.
    to_skip: u64,
    limit: u64,
    rows: Vec<u64>,
    /// With a sort.
    best: Option<Best>,
    work: Work,
}

impl AllFound {
    fn new(question: &Question<'_>) -> Self {
        let query = question.query;
        let best = (!question.comes_in_order()).then(|| Best::new(query, question.deadline.share()));
        let limit = if query.limit == 0 { u64::MAX } else { query.limit };
        Self { matched: 0, to_skip: query.skip, limit, rows: Vec::new(), best, work: Work::default() }
    }

    fn add(&mut self, found: PartFound) -> Result<(), StoreError> {
        self.matched += found.matched;
        self.work.documents += found.work.documents;
        if let Some(best) = &mut self.best {
            return found.sorted.into_iter().try_for_each(|(value, row)| best.offer(value, row));
        }
        for row in found.rows {
            if self.to_skip > 0 {
                self.to_skip -= 1;
            } else if (self.rows.len() as u64) < self.limit {
                self.rows.push(row);
            }
        }
        Ok(())
    }

    fn into_rows(self) -> Rows {
        let rows = self.best.map_or(self.rows, |best| best.into_page().collect());
        Rows { list: rows, matched: self.matched, work: self.work }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bson::raw::RawDocumentBuf;
    use bson::{Document, doc};

    use super::*;
    use crate::query::{Filter, Limits, Sort};
    use crate::store::embedded::EmbeddedStore;
    use crate::store::embedded::options::Options;
    use crate::store::embedded::plan::planner::{Choice, TotalBy};
    use crate::store::embedded::read::execute::Deadline;
    use crate::store::embedded::read::snapshot::Snapshot;
    use crate::store::{Change, FindQuery, Store, Unit};

    const BUDGET: Duration = Duration::from_secs(20);

    /// 200 documents, a third of them removed again.
    async fn filled(directory: &std::path::Path) -> EmbeddedStore {
        let store = EmbeddedStore::open(directory, &Options::default()).expect("a new store");
        let insertion = |number: i32| {
            let document = doc! { "_id": number, "a": number % 7, "b": (number * 31) % 200, "c": [number % 3, 5] };
            let document = RawDocumentBuf::try_from(document).expect("it is BSON");
            Change::Insert { collection: "things", document }
        };
        let mut unit = Unit::default();
        for number in 0..200 {
            unit = unit.and(insertion(number));
        }
        let filter = parsed(doc! { "_id": { "$mod": [3, 1] } });
        let unit = unit.and(Change::DeleteMany { collection: "things", filter });
        store.commit(unit).await.expect("everything is right");
        store
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
    fn parsed(filter: Document) -> Filter {
        Filter::parse(&filter, &Limits::default()).expect("filters of tests are right")
    }

    fn both(snapshot: &Arc<Snapshot>, query: &FindQuery, with_total: bool) -> [Result<Answer, StoreError>; 2] {
        let collection = snapshot.collection("things").expect("it was written to");
        let tables = snapshot.tables(collection).expect("the tables can be read");
        let deadline = Deadline::after(query.max_time);
        let question = Question::new(collection, tables, query, with_total, deadline).expect("there is time");
        if thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) && question.reads_all() {
            assert!(pays(&question, tables));
        }
        [ask(&question, collection, tables), question.ask(collection, tables)]
    }

    #[tokio::test]
    async fn two_threads_give_the_answer_of_one() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = filled(directory.path()).await;
        let snapshot = store.snapshot().expect("the store is open");
        for filter in [doc! { "a": { "$lte": 2 } }, doc! { "b": { "$gt": 500 } }, doc! { "c": 5 }] {
            for sort in [doc! {}, doc! { "b": -1 }, doc! { "a": 1 }, doc! { "$natural": -1 }] {
                for (skip, limit) in [(0, 0), (0, 10), (13, 20), (1000, 10)] {
                    for with_total in [true, false] {
                        let sort = Sort::parse(&sort).expect("sorts of tests are right");
                        let query = FindQuery { skip, limit, ..FindQuery::new(parsed(filter.clone()), BUDGET) };
                        let [wide, plain] = both(&snapshot, &query.sorted(sort), with_total);
                        let (wide, plain) = (wide.expect("an answer"), plain.expect("an answer"));
                        let bytes = |answer: &Answer| -> Vec<Vec<u8>> {
                            answer.documents.iter().map(|document| document.as_bytes().to_vec()).collect()
                        };
                        assert_eq!(bytes(&wide), bytes(&plain), "{filter} {skip} {limit}");
                        assert_eq!(wide.total, plain.total, "{filter} {skip} {limit}");
                    }
                }
            }
        }
    }

    #[tokio::test]
    async fn two_threads_show_what_one_shows() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = filled(directory.path()).await;
        let snapshot = store.snapshot().expect("the store is open");
        let collection = snapshot.collection("things").expect("it was written to");
        let tables = snapshot.tables(collection).expect("the tables can be read");
        for filter in [doc! {}, doc! { "a": { "$lte": 2 } }, doc! { "b": { "$gt": 500 } }] {
            let query = FindQuery::new(parsed(filter.clone()), BUDGET);
            let question = Question::new(collection, tables, &query, false, Deadline::after(BUDGET)).expect("a plan");
            for most in [usize::MAX, 1, 50] {
                let shown = |wide: bool| {
                    let mut shown = Vec::new();
                    let mut visit = |document: &RawDocument| {
                        shown.push(document.get_i32("_id").expect("an _id"));
                        Ok(if shown.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
                    };
                    let mut reader = CollectionReader::new(collection, tables, Deadline::after(BUDGET));
                    if !wide || !each(&question, collection, tables, &mut visit).expect("documents") {
                        question.each(&mut reader, &mut visit).expect("documents");
                    }
                    shown
                };
                assert_eq!(shown(true), shown(false), "{filter} {most}");
            }
        }
    }

    #[tokio::test]
    async fn a_range_that_is_too_large_to_be_copied_is_shown_too() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
        let insertion = |number: i32| {
            let text = "x".repeat(if number % 20 == 3 { MOST_COPIED } else { 1 });
            let document = RawDocumentBuf::try_from(doc! { "_id": number, "text": text }).expect("it is BSON");
            Change::Insert { collection: "things", document }
        };
        store.commit((0..100).map(insertion).fold(Unit::default(), Unit::and)).await.expect("they can be stored");
        let snapshot = store.snapshot().expect("the store is open");
        let collection = snapshot.collection("things").expect("it was written to");
        let tables = snapshot.tables(collection).expect("the tables can be read");
        let query = FindQuery::new(Filter::all(), BUDGET);
        let question = Question::new(collection, tables, &query, false, Deadline::after(BUDGET)).expect("a plan");
        let mut shown = Vec::new();
        Scan::of(&question, collection, tables, COPIED)
            .show(&mut |document| {
                shown.push(document.get_i32("_id").expect("an _id"));
                Ok(ControlFlow::Continue(()))
            })
            .expect("documents");
        assert_eq!(shown, (0..100).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn two_threads_stop_when_the_time_is_over_though_each_piece_is_short() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = filled(directory.path()).await;
        let snapshot = store.snapshot().expect("the store is open");
        let collection = snapshot.collection("things").expect("it was written to");
        let tables = snapshot.tables(collection).expect("the tables can be read");
        let query = FindQuery::new(parsed(doc! { "b": { "$gt": 500 } }), BUDGET);
        let scan = |time| {
            let choice = Choice { plan: Plan::Scan, total: TotalBy::Documents };
            let question = Question { query: &query, choice, with_total: true, deadline: Deadline::after(time) };
            Scan::new(&question, collection, tables).run().map(|rows| rows.matched)
        };
        assert!(matches!(scan(BUDGET), Ok(0)));
        assert!(matches!(scan(Duration::ZERO), Err(StoreError::Timeout)));
    }

    #[tokio::test]
    async fn a_filter_that_fails_on_a_document_fails_with_two_threads_too() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = filled(directory.path()).await;
        let filter = parsed(doc! { "$expr": { "$divide": [1, { "$subtract": ["$b", 93] }] } });
        let snapshot = store.snapshot().expect("the store is open");
        for outcome in both(&snapshot, &FindQuery::new(filter, BUDGET), true) {
            assert!(matches!(outcome, Err(StoreError::Query { .. })), "{outcome:?}");
        }
    }
}
