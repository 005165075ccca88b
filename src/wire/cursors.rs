//! Long answers that wait for their client: at most 16 a connection, each for a bounded time.
//!
//! A tool often abandons a cursor without closing it. So the seventeenth of a connection takes the place of the one
//! that was used least recently. A cursor also ends with the connection that opened it, and after ten idle minutes.
//!
//! What a cursor holds while it waits is counted in the memory of its user, to the byte.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::{self, BoxStream};

use super::codec::Batch;
use super::error::{WireError, code};
use crate::admission::Ticket;
use crate::service::exchange::tools::Reach;
use crate::store::{Documents, StoreError};

/// The maximum number of cursors of a connection.
const MOST: usize = 16;

/// The time without a request after which a cursor is closed.
const IDLE: Duration = Duration::from_mins(10);

/// How long an answer comes from one snapshot.
const SNAPSHOT: Duration = Duration::from_mins(1);

/// The largest batch, as in MongoDB.
pub(super) const LARGEST_BATCH: usize = 16 * 1024 * 1024;

/// A batch of unsaid size ends with the document that brings it to this many bytes.
pub(super) const USUAL_BATCH: usize = 2 * 1024 * 1024;

/// The rest of an answer.
pub(super) struct Rest {
    /// That of the answer: all it holds is counted there.
    ticket: Ticket,
    /// How many bytes of `current` are counted.
    counted: usize,
    chunks: BoxStream<'static, Result<Documents, StoreError>>,
    current: Documents,
    at: usize,
    opened: Instant,
    /// Whether all documents have to be of one moment.
    of_one_snapshot: bool,
}

/// How large a batch may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchSize {
    /// Documents.
    pub(super) documents: u32,
    /// Bytes, save for the last document.
    pub(super) bytes: usize,
}

/// Who opened a cursor, and on what.
pub(super) struct Opened {
    pub(super) connection: i64,
    pub(super) user_id: i64,
    /// `database.collection`.
    pub(super) namespace: String,
    /// The session of the client, which ends its cursors with it.
    pub(super) session: Option<Vec<u8>>,
    /// What the caller saw when it was opened, of each collection that is read.
    pub(super) reached: Vec<Reach>,
}

/// A cursor.
struct Cursor {
    opened: Opened,
    used: Instant,
    /// Nothing while a command takes from it.
    rest: Option<Rest>,
}

/// A cursor that a command takes from. It comes back by [`Cursors::put_back`].
pub(super) struct Taken {
    pub(super) reached: Vec<Reach>,
    pub(super) rest: Rest,
}

/// All cursors of the listener: clients have several connections, and use a cursor over any of them.
#[derive(Default)]
pub(super) struct Cursors {
    cursors: Mutex<HashMap<i64, Cursor>>,
}

impl Rest {
    /// The chunks of an answer that was found with this ticket.
    pub(super) fn of(
        chunks: BoxStream<'static, Result<Documents, StoreError>>,
        ticket: Ticket,
        of_one_snapshot: bool,
    ) -> Self {
        let (current, opened) = (Documents::new(), Instant::now());
        Self { ticket, counted: 0, chunks, current, at: 0, opened, of_one_snapshot }
    }

    /// An answer that is in memory already.
    pub(super) fn in_memory(documents: Documents, ticket: Ticket) -> Self {
        Self { current: documents, ..Self::of(stream::empty().boxed(), ticket, false) }
    }

    /// Counts what waits here for the next command, and this many bytes more.
    ///
    /// # Errors
    /// Code 365 when the user has too much already.
    pub(super) fn wait(&mut self, more: usize) -> Result<(), WireError> {
        let grown = self.current.bytes().saturating_sub(self.counted);
        self.ticket.keep(grown.saturating_add(more)).map_err(|_| {
            let message = "there is no memory to keep the cursor; close others, or read them to their ends";
            WireError::new(code::TEMPORARILY_UNAVAILABLE, message)
        })?;
        self.counted += grown;
        Ok(())
    }

    /// Moves documents into the batch. Returns whether more are left.
    ///
    /// # Errors
    /// Errors of the store; code 239 when the snapshot is gone that all documents have to come from.
    pub(super) async fn fill(&mut self, batch: &mut Batch, size: BatchSize) -> Result<bool, WireError> {
        let ticket = crate::admission::current();
        let mut held = 0;
        while batch.len() < size.documents && batch.bytes() < size.bytes {
            if !self.has_next().await? {
                return Ok(false);
            }
            let Some(document) = self.current.get(self.at) else { return Ok(false) };
            if !batch.is_empty() && batch.bytes() + document.as_bytes().len() > LARGEST_BATCH {
                return Ok(true);
            }
            if batch.bytes() > held + USUAL_BATCH / 4 {
                // Without room for a larger batch, this one ends here.
                if ticket.hold(batch.bytes() - held).is_err() {
                    return Ok(true);
                }
                held = batch.bytes();
            }
            batch.push(document);
            self.at += 1;
        }
        // No documents were requested, so none are looked for.
        if size.documents == 0 { Ok(true) } else { self.has_next().await }
    }

    async fn has_next(&mut self) -> Result<bool, WireError> {
        while self.at >= self.current.len() {
            match self.chunks.next().await {
                None => return Ok(false),
                Some(chunk) => {
                    self.current = chunk?;
                    self.at = 0;
                }
            }
            if self.of_one_snapshot && self.opened.elapsed() >= SNAPSHOT {
                let message =
                    "the snapshot of this cursor is no longer kept; read faster, or without readConcern snapshot";
                return Err(WireError::new(code::SNAPSHOT_TOO_OLD, message));
            }
        }
        Ok(true)
    }
}

impl Cursors {
    /// Keeps the rest of an answer, and gives its number.
    pub(super) fn keep(&self, opened: Opened, rest: Rest) -> i64 {
        let mut cursors = self.lock();
        let of_connection = || cursors.iter().filter(|(_, cursor)| cursor.opened.connection == opened.connection);
        if of_connection().count() >= MOST
            && let Some(oldest) = of_connection().min_by_key(|(_, cursor)| cursor.used).map(|(id, _)| *id)
        {
            cursors.remove(&oldest);
        }
        // Not to be guessed, and never 0, which says that there is no more.
        let mut id = rand::random_range(1..i64::MAX);
        while cursors.contains_key(&id) {
            id = rand::random_range(1..i64::MAX);
        }
        cursors.insert(id, Cursor { opened, used: Instant::now(), rest: Some(rest) });
        id
    }

    /// Takes a cursor of a user for its next batch.
    ///
    /// # Errors
    /// Code 43 when there is none. Code 13 when it reads another collection. MongoDB's 50736 to 50738 when its session is not
    /// the one of the command.
    pub(super) fn take(
        &self,
        id: i64,
        user_id: i64,
        (namespace, session): (&str, Option<&[u8]>),
    ) -> Result<Taken, WireError> {
        let mut cursors = self.lock();
        // A cursor of another user is not found.
        let cursor = cursors.get_mut(&id).filter(|cursor| cursor.opened.user_id == user_id).ok_or_else(|| gone(id))?;
        if cursor.opened.namespace != namespace {
            let message = format!(
                "Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace {}",
                cursor.opened.namespace
            );
            return Err(WireError::new(code::UNAUTHORIZED, message));
        }
        let other_session = match (cursor.opened.session.as_deref(), session) {
            (None, Some(_)) => Some((50736, "was not created in a session")),
            (Some(_), None) => Some((50737, "was created in a session, without an lsid")),
            (Some(opened), Some(said)) if opened != said => Some((50738, "was created in another session")),
            _ => None,
        };
        if let Some((code, why)) = other_session {
            return Err(WireError::new(code, format!("Cannot run getMore on cursor {id}, which {why}")));
        }
        cursor.used = Instant::now();
        let rest = cursor
            .rest
            .take()
            .ok_or_else(|| WireError::new(12051, format!("cursor id {id} is already in use by another command")))?;
        Ok(Taken { reached: cursor.opened.reached.clone(), rest })
    }

    /// Puts a cursor back that has more. One that was closed meanwhile stays closed.
    pub(super) fn put_back(&self, id: i64, rest: Rest) {
        if let Some(cursor) = self.lock().get_mut(&id) {
            cursor.used = Instant::now();
            cursor.rest = Some(rest);
        }
    }

    /// Closes a cursor.
    pub(super) fn close(&self, id: i64) {
        self.lock().remove(&id);
    }

    /// Closes a cursor of a user on a collection. Returns whether it was there.
    pub(super) fn kill(&self, id: i64, user_id: i64, namespace: &str) -> bool {
        let mut cursors = self.lock();
        let is_own = |cursor: &Cursor| cursor.opened.user_id == user_id && cursor.opened.namespace == namespace;
        cursors.get(&id).is_some_and(is_own) && cursors.remove(&id).is_some()
    }

    /// Closes the cursors of a user's sessions.
    pub(super) fn end_sessions(&self, user_id: i64, sessions: &[Vec<u8>]) {
        self.lock().retain(|_, Cursor { opened, .. }| {
            opened.user_id != user_id || opened.session.as_ref().is_none_or(|session| !sessions.contains(session))
        });
    }

    /// Closes what a connection opened.
    pub(super) fn drop_connection(&self, connection: i64) {
        self.lock().retain(|_, cursor| cursor.opened.connection != connection);
    }

    /// Closes cursors that were not used for ten minutes.
    pub(super) fn drop_idle(&self, now: Instant) {
        self.lock().retain(|_, cursor| now.saturating_duration_since(cursor.used) < IDLE);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Cursor>> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// There is no such cursor.
pub(super) fn gone(id: i64) -> WireError {
    WireError::new(code::CURSOR_NOT_FOUND, format!("cursor id {id} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(connection: i64, user_id: i64) -> Opened {
        Opened { connection, user_id, namespace: "a.b".to_owned(), session: Some(vec![7]), reached: Vec::new() }
    }

    fn rest() -> Rest {
        Rest::in_memory(Documents::new(), Ticket::default())
    }

    #[test]
    fn the_seventeenth_cursor_takes_the_place_of_the_least_used_one() {
        let cursors = Cursors::default();
        let ids: Vec<i64> = (0..16).map(|_| cursors.keep(opened(1, 1), rest())).collect();
        let (own, of_session): (_, Option<&[u8]>) = ("a.b", Some(&[7]));
        let taken = cursors.take(ids[0], 1, (own, of_session)).expect("the first one");
        cursors.put_back(ids[0], taken.rest);
        cursors.keep(opened(1, 1), rest());
        cursors.keep(opened(2, 1), rest());
        assert_eq!(cursors.len(), 17);
        assert!(cursors.take(ids[0], 1, (own, of_session)).is_ok());
        assert_eq!(cursors.take(ids[1], 1, (own, of_session)).err().map(|error| error.code), Some(43));
    }

    #[test]
    fn a_cursor_is_there_for_its_user_alone() {
        let cursors = Cursors::default();
        let id = cursors.keep(opened(1, 1), rest());
        let refused =
            |user_id, namespace| cursors.take(id, user_id, (namespace, Some(&[7]))).err().map(|error| error.code);
        assert_eq!((refused(2, "a.b"), refused(1, "a.c")), (Some(43), Some(13)));
        assert!(!cursors.kill(id, 2, "a.b") && !cursors.kill(id, 1, "a.c"));
        assert!(cursors.kill(id, 1, "a.b"));
        assert_eq!(refused(1, "a.b"), Some(43));
    }

    #[test]
    fn a_cursor_is_read_in_its_session_as_in_mongodb() {
        let cursors = Cursors::default();
        let of = |session: Option<u8>| Opened { session: session.map(|id| vec![id]), ..opened(1, 1) };
        for (opened, said, code) in [
            (None, None, None),
            (Some(7), Some(7), None),
            (None, Some(7), Some(50736)),
            (Some(7), None, Some(50737)),
            (Some(7), Some(8), Some(50738)),
        ] {
            let id = cursors.keep(of(opened), rest());
            let said = said.map(|id| vec![id]);
            let refused = cursors.take(id, 1, ("a.b", said.as_deref())).err().map(|error| error.code);
            assert_eq!(refused, code, "{opened:?} {said:?}");
        }
    }

    #[test]
    fn cursors_end_with_their_connection_their_session_and_their_time() {
        let cursors = Cursors::default();
        cursors.keep(opened(1, 1), rest());
        cursors.end_sessions(2, &[vec![7]]);
        cursors.end_sessions(1, &[vec![8]]);
        cursors.drop_connection(2);
        cursors.drop_idle(Instant::now());
        assert_eq!(cursors.len(), 1);
        cursors.drop_idle(Instant::now() + IDLE);
        assert_eq!(cursors.len(), 0);
        cursors.keep(opened(1, 1), rest());
        cursors.drop_connection(1);
        assert_eq!(cursors.len(), 0);
        cursors.keep(opened(1, 1), rest());
        cursors.end_sessions(1, &[vec![7]]);
        assert_eq!(cursors.len(), 0);
    }

    #[tokio::test]
    async fn a_batch_ends_where_it_should_and_says_whether_there_is_more() {
        let mut document = vec![0; 1000];
        document[..4].copy_from_slice(&1000_i32.to_le_bytes());
        let document = bson::raw::RawDocument::from_bytes(&document).expect("a document");
        let chunk: Documents = [document; 3].into_iter().collect();
        let mut rest = Rest::of(stream::iter([Ok(chunk.clone()), Ok(chunk)]).boxed(), Ticket::default(), false);
        let mut sizes = Vec::new();
        for (documents, bytes) in [(0, 5000), (2, 5000), (9, 1500), (9, 5000)] {
            let mut batch = Batch::new("nextBatch");
            let more = rest.fill(&mut batch, BatchSize { documents, bytes }).await.expect("documents");
            sizes.push((batch.len(), more));
        }
        assert_eq!(sizes, [(0, true), (2, true), (2, true), (2, false)]);
    }
}
