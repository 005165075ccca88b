//! A scan of many documents by two threads, for filters that no index helps.
//!
//! The rows are split into ranges. Each thread takes the next range, searches it, and keeps only rows and sort keys.
//! The results are joined in the order of the rows, so the answer equals that of a single thread.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use redb::ReadableTableMetadata;

use crate::admission::Share;
use crate::query::SortValue;
use crate::store::StoreError;
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::reading_ahead;
use crate::store::embedded::index::table::Published;
use crate::store::embedded::index::tables::Tables;
use crate::store::embedded::plan::planner::Plan;
use crate::store::embedded::read::execute::{CollectionReader, Work};
use crate::store::embedded::read::find::{Answer, Best, Question, Rows};

/// The number of rows of a range; small in tests of this crate, so that small collections have several.
const CHUNK: u64 = if cfg!(test) { 8 } else { 2048 };
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
    let hint = question.hint(collection, found.work, documents.len() as u64);
    Ok(Answer { documents, total: question.with_total.then_some(found.matched), work: found.work, hint })
}

/// The rows of the answer, found with two threads if that pays.
pub(crate) fn rows(
    question: &Question<'_>,
    collection: &Collection,
    tables: &Tables<Published>,
) -> Result<Rows, StoreError> {
    if pays(question, tables) {
        Scan::new(question, collection, tables).run()
    } else {
        question.rows(&mut CollectionReader::new(collection, tables, question.deadline.clone()))
    }
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

type Findings = (u64, Result<PartFound, StoreError>);

impl<'a> Scan<'a> {
    fn new(question: &'a Question<'a>, collection: &'a Collection, tables: &'a Tables<Published>) -> Self {
        let chunks = collection.next_row.div_ceil(CHUNK);
        Self { question, collection, tables, chunks, next: AtomicU64::new(0) }
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
                let _ = findings.send((chunk, self.look_in(chunk)));
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
        let rows: Range<u64> = chunk * CHUNK..(chunk + 1) * CHUNK;
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

/// The findings of the chunks so far.
struct AllFound<'a> {
    matched: u64,
    /// Rows that are passed over.
    to_skip: u64,
    limit: u64,
    rows: Vec<u64>,
    /// With a sort.
    best: Option<Best<'a>>,
    work: Work,
}

impl<'a> AllFound<'a> {
    fn new(question: &Question<'a>) -> Self {
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
