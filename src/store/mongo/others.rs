//! Edits of other tools, as the stream of changes reports them.
//!
//! Each unit of the service is a transaction that begins with a change of the [`order`](super::order). The stream reports the
//! parts of a transaction one after the other, under its number. So a change without the order in its transaction is one of
//! another tool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Timestamp, doc};
use tokio::sync::{Mutex, Notify, mpsc};

use super::Inner;
use super::read::documents;
use crate::query::Filter;
use crate::store::collections::WITH_HISTORY;
use crate::store::copying::COUNTERS;
use crate::store::{FindQuery, StoreError};

/// How many edits wait at most; those beyond are missed.
const MOST: usize = 100_000;
/// How many are read at a time.
const AT_ONCE: usize = 250;
/// How long reading may take.
const MAX_TIME: Duration = Duration::from_secs(10);

/// A change of a document, as it was reported.
#[derive(Debug)]
struct Seen {
    collection: &'static str,
    id: Bson,
    /// When the document was removed.
    removed: Option<Timestamp>,
}

/// The changes of a transaction, as far as they have come.
#[derive(Debug, Default)]
pub(super) struct Together {
    transaction: Option<(Bson, i64)>,
    seen: Vec<Seen>,
    is_own: bool,
}

/// The edits that nobody has asked for yet.
#[derive(Debug)]
pub(super) struct Others {
    seen: mpsc::Sender<Seen>,
    waiting: Mutex<Waiting>,
    is_asked: AtomicBool,
    /// Some may have been missed.
    missed: Notify,
}

#[derive(Debug)]
struct Waiting {
    receiver: mpsc::Receiver<Seen>,
    /// Those that are being read.
    taken: Vec<Seen>,
}

impl Default for Others {
    fn default() -> Self {
        let (seen, receiver) = mpsc::channel(MOST);
        let waiting = Mutex::new(Waiting { receiver, taken: Vec::new() });
        Self { seen, waiting, is_asked: AtomicBool::new(false), missed: Notify::new() }
    }
}

impl Others {
    /// Some edits may never be reported: the stream begins at the present, or there were too many.
    pub(super) fn miss(&self) {
        self.missed.notify_one();
    }
}

impl Together {
    /// Takes note of an event of the stream.
    pub(super) fn note(&mut self, event: &RawDocument, others: &Others) {
        let transaction = transaction(event);
        if transaction.is_none() || transaction != self.transaction {
            self.end(others);
        }
        self.transaction = transaction;
        let (operation, collection) = (event.get_str("operationType"), event.get_document("ns"));
        let (Ok(operation), Ok(collection)) = (operation, collection.and_then(|place| place.get_str("coll"))) else {
            return;
        };
        self.is_own |= collection == COUNTERS;
        let is_edit = matches!(operation, "insert" | "update" | "replace" | "delete");
        let collection = WITH_HISTORY.into_iter().find(|known| is_edit && *known == collection);
        if collection.is_some() && self.seen.len() == MOST {
            others.miss();
        } else if let Some(collection) = collection {
            let id = event.get_document("documentKey").ok().and_then(|key| key.get("_id").ok().flatten());
            let removed = event.get_timestamp("clusterTime").ok().filter(|_| operation == "delete");
            let seen = id.and_then(|id| Some(Seen { collection, id: Bson::try_from(id).ok()?, removed }));
            self.seen.extend(seen);
        }
        if self.transaction.is_none() {
            self.end(others);
        }
    }

    /// Nothing more comes of the transaction.
    pub(super) fn end(&mut self, others: &Others) {
        let Self { seen, is_own, .. } = std::mem::take(self);
        if is_own || !others.is_asked.load(Ordering::Relaxed) {
            return;
        }
        if seen.into_iter().any(|edit| others.seen.try_send(edit).is_err()) {
            others.miss();
        }
    }
}

/// The session and the number of the transaction, where there is one.
fn transaction(event: &RawDocument) -> Option<(Bson, i64)> {
    let number = event.get_i64("txnNumber").ok()?;
    let session = event.get_document("lsid").ok()?.get("id").ok().flatten()?;
    Some((Bson::try_from(session).ok()?, number))
}

/// See [`Store::edits_of_others`](crate::store::Store::edits_of_others).
pub(super) async fn next(inner: &Arc<Inner>) -> Result<Vec<(&'static str, RawDocumentBuf)>, StoreError> {
    inner.others.is_asked.store(true, Ordering::Relaxed);
    let mut waiting = inner.others.waiting.lock().await;
    let Waiting { receiver, taken } = &mut *waiting;
    if taken.is_empty() {
        tokio::select! {
            _ = receiver.recv_many(taken, AT_ONCE) => {}
            () = inner.others.missed.notified() => {
                return Err(StoreError::Unavailable { reason: "some may have come before they were followed".to_owned() });
            }
        }
    }
    let mut edited = Vec::with_capacity(taken.len());
    for collection in WITH_HISTORY {
        let of_it = || taken.iter().filter(move |seen| seen.collection == collection);
        let present: Vec<Bson> = of_it().filter(|seen| seen.removed.is_none()).map(|seen| seen.id.clone()).collect();
        let removed: Vec<Bson> = of_it().filter(|seen| seen.removed.is_some()).map(|seen| seen.id.clone()).collect();
        let moment = of_it().filter_map(|seen| seen.removed).min().map(just_before);
        for (ids, moment) in [(present, None), (removed, moment)].into_iter().filter(|(ids, _)| !ids.is_empty()) {
            let query = FindQuery::new(Filter::one_of("_id", ids), MAX_TIME);
            let query = query.showing(&doc! { "_id": 0, "public_id": 1, "type_id": 1 });
            let found = documents(inner, moment, collection, &query).await?;
            edited.extend(found.iter().map(|document| (collection, document.to_owned())));
        }
    }
    taken.clear();
    Ok(edited)
}

/// The last moment before this one. The server keeps its history for some minutes; of a moment before that it gives nothing.
fn just_before(moment: Timestamp) -> Timestamp {
    match moment.increment.checked_sub(1) {
        Some(increment) => Timestamp { increment, ..moment },
        None => Timestamp { time: moment.time.saturating_sub(1), increment: u32::MAX },
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, oid::ObjectId};

    use super::*;
    use crate::domain::document::raw;

    fn event(operation: &str, collection: &str, transaction: Option<i64>) -> Document {
        let mut event = doc! {
            "operationType": operation, "ns": { "db": "inventory", "coll": collection },
            "documentKey": { "_id": ObjectId::new() }, "clusterTime": Timestamp { time: 7, increment: 0 },
        };
        event.extend(transaction.map(|number| ("txnNumber".to_owned(), Bson::Int64(number))));
        event.extend(transaction.map(|_| ("lsid".to_owned(), doc! { "id": "a session" }.into())));
        event
    }

    /// How many edits others made, of these events.
    fn counted(events: &[Document]) -> usize {
        let (others, mut together) = (Others::default(), Together::default());
        others.is_asked.store(true, Ordering::Relaxed);
        for event in events {
            together.note(&raw(event), &others);
        }
        together.end(&others);
        others.waiting.try_lock().expect("nobody reads").receiver.len()
    }

    #[test]
    fn a_change_without_the_order_in_its_transaction_is_one_of_another_tool() {
        let [objects, types, _] = WITH_HISTORY;
        let own = |number| [event("update", COUNTERS, Some(number)), event("update", objects, Some(number))];
        assert_eq!(counted(&own(1)), 0);
        assert_eq!(counted(&[own(1), own(2)].concat()), 0);
        let other = event("update", objects, None);
        assert_eq!(counted(&[&own(1)[..], std::slice::from_ref(&other), &own(2)].concat()), 1);
        assert_eq!(counted(&[event("delete", types, Some(3)), event("update", objects, Some(3)), other]), 3);
        assert_eq!(counted(&[event("update", COUNTERS, None), event("insert", objects, None)]), 1);
        assert_eq!(counted(&[event("update", "service.search", None), event("drop", objects, None)]), 0);
    }

    #[test]
    fn a_moment_has_one_before_it() {
        let of = |time, increment| Timestamp { time, increment };
        assert_eq!(just_before(of(7, 2)), of(7, 1));
        assert_eq!(just_before(of(7, 0)), of(6, u32::MAX));
    }
}
