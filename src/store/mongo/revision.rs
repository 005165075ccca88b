//! Revisions: numbers that move when a collection changes, kept up to date in the background.
//!
//! On a replica set one change stream on the database reports every change of every client. Without a stream, or while
//! it is silent for too long, a timer also moves all revisions. It does so at an interval at which nobody trusts an old
//! number for a second.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use bson::raw::RawDocumentBuf;
use bson::{RawDocument, doc};
use mongodb::Database;
use mongodb::change_stream::event::ResumeToken;
use mongodb::error::Error;
use tokio::time::MissedTickBehavior;

use super::counters::COUNTERS;
use super::error::{brief, code};
use super::keeper::Keeper;
use super::order::WRITERS;
use super::others::{Others, Together};
use super::presence::Presence;
use crate::store::collections::HISTORY;
use crate::store::fresh_revision;

/// All revisions move after this time when no stream reports changes.
const TICK: Duration = Duration::from_millis(400);
/// The server reports at least this often that nothing happened.
const AWAIT: Duration = Duration::from_millis(200);
/// The time without an event after which a stream may have missed something.
const SILENCE: Duration = Duration::from_millis(450);
/// Between two attempts to open the stream.
const PAUSE: Duration = Duration::from_millis(500);

/// The revisions of all collections.
#[derive(Debug)]
pub(super) struct Revisions {
    collections: RwLock<HashMap<String, Arc<AtomicU64>>>,
    /// Moves all revisions.
    everything: AtomicU64,
    started: Instant,
    /// Milliseconds from `started` to the last event of the stream; 0: there is none.
    heard: AtomicU64,
}

impl Revisions {
    pub(super) fn new() -> Self {
        Self {
            collections: RwLock::default(),
            everything: AtomicU64::new(fresh_revision()),
            started: Instant::now(),
            heard: AtomicU64::new(0),
        }
    }

    /// The number of a collection.
    pub(super) fn of(&self, collection: &str) -> u64 {
        // Whichever moved last has the larger number.
        self.everything.load(Ordering::Acquire).max(self.counter(collection).load(Ordering::Acquire))
    }

    /// The collection changed.
    pub(super) fn bump(&self, collection: &str) {
        renew(&self.counter(collection));
    }

    /// Any collection may have changed.
    fn bump_all(&self) {
        renew(&self.everything);
    }

    fn counter(&self, collection: &str) -> Arc<AtomicU64> {
        if let Some(counter) = self.collections.read().unwrap_or_else(PoisonError::into_inner).get(collection) {
            return Arc::clone(counter);
        }
        let mut collections = self.collections.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(collections.entry(collection.to_owned()).or_default())
    }

    fn hear(&self) {
        self.heard.store(self.elapsed().max(1), Ordering::Relaxed);
    }

    fn hear_nothing(&self) {
        self.heard.store(0, Ordering::Relaxed);
    }

    fn is_silent(&self) -> bool {
        let heard = self.heard.load(Ordering::Relaxed);
        heard == 0 || self.elapsed() > heard.saturating_add(milliseconds(SILENCE))
    }

    fn elapsed(&self) -> u64 {
        milliseconds(self.started.elapsed())
    }
}

/// Increases a number. It retries when another change was faster, so the number never decreases.
fn renew(number: &AtomicU64) {
    number.update(Ordering::AcqRel, Ordering::Acquire, |_| fresh_revision());
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Moves all revisions by time while no stream does. Ends with the last owner of the revisions.
pub(super) async fn tick(revisions: Weak<Revisions>) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(revisions) = revisions.upgrade() else { return };
        if revisions.is_silent() {
            revisions.bump_all();
        }
    }
}

/// Who takes note of the events of the stream.
pub(super) struct Listeners {
    pub(super) revisions: Weak<Revisions>,
    /// Of dropped collections.
    pub(super) keeper: Arc<Keeper>,
    /// Of edits of other tools.
    pub(super) others: Arc<Others>,
}

/// Where the stream is to be resumed, and the transaction that it is in.
#[derive(Default)]
struct Position {
    token: Option<ResumeToken>,
    together: Together,
}

/// Follows the changes of the database; ends with the last owner of the revisions.
pub(super) async fn follow(database: Database, presence: Presence, listeners: Listeners) {
    let mut position = Position::default();
    loop {
        let outcome = listen(&database, &presence, &listeners, &mut position).await;
        let Some(revisions) = listeners.revisions.upgrade() else { return };
        revisions.hear_nothing();
        if let Err(error) = outcome {
            log::warn!(
                "the stream of changes broke off, caches live for less than a second meanwhile: {}",
                brief(&error)
            );
            // Its history may be gone: start at the present, which counts as a change of everything.
            if error.contains_label("NonResumableChangeStreamError") || is_history_lost(&error) {
                position = Position::default();
            }
        }
        drop(revisions);
        tokio::time::sleep(PAUSE).await;
    }
}

/// `ChangeStreamFatalError`, `ChangeStreamHistoryLost`, `InvalidResumeToken`.
fn is_history_lost(error: &Error) -> bool {
    code(error).is_some_and(|code| matches!(code, 280 | 286 | 260))
}

async fn listen(
    database: &Database,
    presence: &Presence,
    Listeners { revisions, keeper, others }: &Listeners,
    position: &mut Position,
) -> Result<(), Error> {
    let term = presence.term();
    // Only what is needed of each event crosses the network.
    let order = doc! { "documentKey._id": HISTORY };
    let no_machinery = doc! { "ns.coll": { "$ne": WRITERS }, "$or": [{ "ns.coll": { "$ne": COUNTERS } }, order] };
    let only_where = doc! { "$project": {
        "ns": 1, "operationType": 1, "documentKey._id": 1, "clusterTime": 1, "lsid.id": 1, "txnNumber": 1,
    } };
    let question = database
        .watch()
        .pipeline([doc! { "$match": no_machinery }, only_where])
        .max_await_time(AWAIT)
        .resume_after(position.token.clone());
    let mut stream = question.await?.with_type::<RawDocumentBuf>();
    let Some(start) = revisions.upgrade() else { return Ok(()) };
    start.hear();
    if position.token.is_none() {
        start.bump_all();
        others.miss();
    }
    drop(start);
    while stream.is_alive() {
        let event = stream.next_if_any().await?;
        let Some(revisions) = revisions.upgrade() else { return Ok(()) };
        revisions.hear();
        if event.is_none() {
            position.together.end(others);
        }
        if let Some(event) = event {
            take_note(&revisions, &event);
            position.together.note(&event, others);
            if matches!(event.get_str("operationType"), Ok("drop" | "rename" | "dropDatabase" | "invalidate")) {
                keeper.alarm();
            }
        }
        position.token = stream.resume_token();
        // A former primary keeps the stream, and reports that nothing happened while the others cannot reach it.
        if !presence.holds(term) {
            return Ok(());
        }
    }
    // A dropped database ends the stream for good; a new one begins at the present.
    *position = Position::default();
    Ok(())
}

/// An event without a collection is about the whole database.
fn take_note(revisions: &Revisions, event: &RawDocument) {
    match event.get_document("ns").and_then(|namespace| namespace.get_str("coll").map(str::to_owned)) {
        Ok(collection) => revisions.bump(&collection),
        Err(_) => revisions.bump_all(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_moves_the_number_of_its_collection_alone() {
        let revisions = Revisions::new();
        let (objects, types) = (revisions.of("objects"), revisions.of("types"));
        revisions.bump("objects");
        assert_ne!(revisions.of("objects"), objects);
        assert_eq!(revisions.of("types"), types);
        revisions.bump_all();
        assert_ne!(revisions.of("types"), types);
    }

    #[test]
    fn a_number_never_comes_back_not_even_after_a_restart() {
        let revisions = Revisions::new();
        let mut seen = vec![revisions.of("objects")];
        for renew in [|own: &Revisions| own.bump("objects"), |own: &Revisions| own.bump_all()] {
            renew(&revisions);
            seen.push(revisions.of("objects"));
        }
        seen.push(Revisions::new().of("objects"));
        assert!(seen.is_sorted_by(|left, right| left < right), "{seen:?}");
    }

    #[test]
    fn revisions_are_silent_until_the_stream_says_something() {
        let revisions = Revisions::new();
        assert!(revisions.is_silent());
        revisions.hear();
        assert!(!revisions.is_silent());
    }
}
