//! Answers in pieces: first the rows of the whole answer, eight bytes each, then their documents, some at a time.
//!
//! All pieces come from one snapshot. As a snapshot keeps old pages from being used again, it is let go when its
//! time is over, however slowly the pieces are taken; what comes after that is looked up as it is then, and what no
//! longer matches is left out.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::task::{AbortHandle, spawn_blocking};

use crate::store::pieces::{PIECE_BYTES, PIECE_DOCUMENTS};
use crate::store::{Documents, FindQuery, StoreError};

use super::execute::{Deadline, Reader};
use super::failure;
use super::find::Question;
use super::snapshot::Snapshot;
use super::writer::Published;

/// How long an answer may keep the snapshot that it began with.
pub(super) const SNAPSHOT_TIME: Duration = Duration::from_secs(60);

/// What is left of an answer.
pub(super) struct Rest {
    snapshot: Held,
    published: Published,
    collection: String,
    query: FindQuery,
    rows: std::vec::IntoIter<u64>,
}

/// A snapshot that is let go after a while.
struct Held {
    snapshot: Arc<ArcSwapOption<Snapshot>>,
    timer: AbortHandle,
}

impl Held {
    fn new(snapshot: Arc<Snapshot>, time: Duration) -> Self {
        let held = Arc::new(ArcSwapOption::from(Some(snapshot)));
        let to_clear = Arc::clone(&held);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(time).await;
            to_clear.store(None);
        });
        Self { snapshot: held, timer: timer.abort_handle() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl Rest {
    pub(super) fn new(
        (snapshot, time): (Arc<Snapshot>, Duration),
        published: Published,
        collection: &str,
        query: FindQuery,
        rows: Vec<u64>,
    ) -> Self {
        let collection = collection.to_owned();
        Self { snapshot: Held::new(snapshot, time), published, collection, query, rows: rows.into_iter() }
    }

    /// The pieces, each read when it is asked for.
    pub(super) fn into_stream(self) -> BoxStream<'static, Result<Documents, StoreError>> {
        let steps = stream::unfold(Some(self), |rest| async {
            let mut rest = rest?;
            let step = spawn_blocking(move || {
                let piece = rest.read();
                (piece, rest)
            });
            match step.await {
                Ok((Ok(piece), _)) if piece.is_empty() => None,
                Ok((Ok(piece), rest)) => Some((Ok(piece), Some(rest))),
                Ok((Err(error), _)) => Some((Err(error), None)),
                Err(error) => Some((Err(StoreError::backend(error)), None)),
            }
        });
        steps.boxed()
    }

    /// The next piece; empty at the end.
    fn read(&mut self) -> Result<Documents, StoreError> {
        let (snapshot, is_first) = match self.snapshot.snapshot.load_full() {
            Some(snapshot) => (snapshot, true),
            None => {
                (self.published.load_full().ok_or_else(|| failure::unavailable(&"the storage is out of order"))?, false)
            }
        };
        let mut piece = Documents::new();
        let Some(collection) = snapshot.collection(&self.collection) else { return Ok(piece) };
        let deadline = Deadline::after(self.query.max_time);
        let budget = deadline.budget();
        let reader = Reader::new(collection, snapshot.tables(collection)?, deadline);
        let question = Question::new(collection, &self.query, false);
        while piece.len() < PIECE_DOCUMENTS && piece.bytes() < PIECE_BYTES {
            let Some(row) = self.rows.next() else { break };
            let read = reader.document(row, |document| {
                let wanted =
                    is_first || self.query.filter.matches_within(document, &budget).map_err(failure::of_evaluation)?;
                if wanted { question.push(document, &budget, &mut piece) } else { Ok(()) }
            })?;
            match read {
                Some(pushed) => pushed?,
                None if is_first => return Err(failure::lost(collection, row)),
                None => {}
            }
        }
        Ok(piece)
    }
}
