//! Answers in chunks: first the rows of the whole answer, eight bytes each, then their documents, chunk by chunk.
//!
//! All chunks come from one snapshot. A snapshot keeps old pages from being reused, so it is released after a while,
//! even for a slow reader. Later chunks come from the newest snapshot, without documents that no longer match.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::task::AbortHandle;

use crate::admission;
use crate::store::embedded::failure;
use crate::store::embedded::read::execute::{CollectionReader, Deadline};
use crate::store::embedded::read::find::push;
use crate::store::embedded::read::snapshot::{Published, Snapshot};
use crate::store::{CHUNK_BYTES, CHUNK_DOCUMENTS, Documents, FindQuery, StoreError};

/// How long an answer may keep the snapshot that it began with.
pub(crate) const SNAPSHOT_TIME: Duration = Duration::from_mins(1);

/// What is left of an answer.
pub(crate) struct Remainder {
    snapshot: HeldSnapshot,
    published: Published,
    collection: String,
    query: FindQuery,
    rows: std::vec::IntoIter<u64>,
}

/// A snapshot that is released after a while.
pub(crate) struct HeldSnapshot {
    snapshot: Arc<ArcSwapOption<Snapshot>>,
    timer: AbortHandle,
}

impl HeldSnapshot {
    pub(crate) fn new(snapshot: Arc<Snapshot>, time: Duration) -> Self {
        let held = Arc::new(ArcSwapOption::from(Some(snapshot)));
        let to_clear = Arc::clone(&held);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            to_clear.store(None);
        });
        Self { snapshot: held, timer: timer.abort_handle() }
    }

    /// The snapshot, and true; after its time the newest one.
    pub(crate) fn now(&self, published: &Published) -> Result<(Arc<Snapshot>, bool), StoreError> {
        match self.snapshot.load_full() {
            Some(snapshot) => Ok((snapshot, true)),
            None => {
                let newest = published.load_full();
                Ok((newest.ok_or_else(|| failure::unavailable(&"the storage is out of order"))?, false))
            }
        }
    }
}

impl Drop for HeldSnapshot {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl Remainder {
    pub(crate) fn new(
        (snapshot, time): (Arc<Snapshot>, Duration),
        published: Published,
        collection: &str,
        query: FindQuery,
        rows: Vec<u64>,
    ) -> Self {
        let collection = collection.to_owned();
        Self { snapshot: HeldSnapshot::new(snapshot, time), published, collection, query, rows: rows.into_iter() }
    }

    /// The chunks, each read on demand.
    pub(crate) fn into_stream(self) -> BoxStream<'static, Result<Documents, StoreError>> {
        let steps = stream::unfold(Some(self), |rest| async {
            let mut rest = rest?;
            let turn = match admission::turn().await {
                Ok(turn) => turn,
                Err(denied) => return Some((Err(denied.into()), None)),
            };
            let deadline = Deadline::after(rest.query.max_time);
            let step = turn.run(move |means| {
                let chunk = rest.read(deadline.within(means));
                (chunk, rest)
            });
            match step.await {
                Ok((Ok(chunk), _)) if chunk.is_empty() => None,
                Ok((Ok(chunk), rest)) => Some((Ok(chunk), Some(rest))),
                Ok((Err(error), _)) => Some((Err(error), None)),
                Err(denied) => Some((Err(denied.into()), None)),
            }
        });
        steps.boxed()
    }

    /// The next chunk; empty at the end.
    fn read(&mut self, mut deadline: Deadline) -> Result<Documents, StoreError> {
        deadline.look()?;
        let (snapshot, is_first) = self.snapshot.now(&self.published)?;
        let mut chunk = Documents::new();
        let Some(collection) = snapshot.collection(&self.collection) else { return Ok(chunk) };
        let budget = deadline.budget();
        let mut reader = CollectionReader::new(collection, snapshot.tables(collection)?, deadline);
        let query = &self.query;
        while chunk.is_empty() && !self.rows.as_slice().is_empty() {
            let rows = self.rows.as_slice();
            let rows = &rows[..rows.len().min(CHUNK_DOCUMENTS)];
            let mut passed = 0;
            reader.each_stored(rows, &mut |row, document| {
                passed += 1;
                match document {
                    Some(document) => {
                        let wanted = is_first
                            || query.filter.matches_within(document, &budget).map_err(failure::of_evaluation)?;
                        if wanted {
                            push(query, document, &budget, &mut chunk)?;
                        }
                    }
                    None if is_first => return Err(failure::lost(&collection.name, row)),
                    None => {}
                }
                let is_full = chunk.bytes() >= CHUNK_BYTES;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            self.rows.by_ref().take(passed).for_each(drop);
        }
        Ok(chunk)
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;
    use bson::raw::RawDocumentBuf;
    use futures::TryStreamExt;

    use super::*;
    use crate::query::{Filter, Limits};
    use crate::store::embedded::EmbeddedStore;
    use crate::store::embedded::options::Options;
    use crate::store::{Change, Store, Unit};

    const BUDGET: Duration = Duration::from_secs(20);

    fn insertion(id: i32) -> Change {
        let document = doc! { "_id": id, "kind": 1, "text": "x".repeat(CHUNK_BYTES / 2) };
        Change::Insert { collection: "things", document: RawDocumentBuf::try_from(document).expect("it is BSON") }
    }

    fn of_kind(kind: i32) -> Filter {
        Filter::parse(&doc! { "kind": kind }, &Limits::default()).expect("the filter is right")
    }

    #[tokio::test]
    async fn what_comes_after_the_time_of_the_snapshot_is_as_it_is_then() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
        store.commit((1..=10).map(insertion).fold(Unit::default(), Unit::and)).await.expect("they can be stored");
        let snapshot = store.snapshot().expect("the store is open");
        let query = FindQuery::new(of_kind(1), BUDGET);
        let published = Arc::clone(&store.published);
        let rest = Remainder::new((snapshot, BUDGET), published, "things", query, (0..10).collect());
        let held = Arc::clone(&rest.snapshot.snapshot);
        let mut chunks = rest.into_stream();
        assert_eq!(chunks.try_next().await.expect("a chunk").expect("a chunk").len(), 2);
        let removal = Change::DeleteMany { collection: "things", filter: Filter::equals("_id", 5) };
        let update = crate::query::Update::set("kind", 2);
        let update = Change::UpdateMany { collection: "things", filter: Filter::equals("_id", 7), update };
        store.commit(Unit::of(removal).and(update)).await.expect("they can be changed");
        assert_eq!(chunks.try_next().await.expect("a chunk").expect("a chunk").len(), 2);
        held.store(None);
        let rest: Vec<Documents> = chunks.try_collect().await.expect("the other chunks");
        let ids = rest.iter().flat_map(Documents::iter).map(|document| document.get_i32("_id").expect("an _id"));
        assert_eq!(ids.collect::<Vec<_>>(), [6, 8, 9, 10]);
    }

    #[tokio::test]
    async fn a_snapshot_is_let_go_when_its_time_is_over() {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
        let snapshot = store.snapshot().expect("the store is open");
        let held = HeldSnapshot::new(Arc::clone(&snapshot), Duration::ZERO);
        while held.snapshot.load().is_some() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
