//! The order in which units take effect: one document that each transaction changes first.
//!
//! It is the counter of [`HISTORY`] in `service.counters`: `{_id: "service.history", value: Int64, units: Int64}`. `value` is the
//! last number that was given, `units` the number of transactions.
//!
//! A process that is killed or frozen in a transaction leaves the document locked for up to a minute, until the server ends the
//! transaction. So each process keeps a document `{_id: <id of its session>, seen: <time of the server>}` in
//! [`service.writers`](WRITERS). A process that has waited for the lock for a while ends the sessions of processes that were
//! not seen lately; a live process begins its transaction again then.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc};
use mongodb::ClientSession;
use mongodb::error::Error;
use mongodb::options::ReturnDocument;
use tokio::sync::oneshot;

use super::Inner;
use super::error::{Failure, at, brief, command_error};
use crate::store::collections::HISTORY;
use crate::store::copying::COUNTERS;
use crate::store::{Numbered, StoreError};

/// The sessions of processes that write.
pub(super) const WRITERS: &str = "service.writers";
/// How often a process shows that it lives while it writes.
const BEAT: Duration = Duration::from_secs(1);
/// The time in milliseconds without a sign of life after which a process counts as ended, or as one that does not write.
const SILENCE_MS: i64 = 3_000;
/// The time in milliseconds without a sign of life after which the note of a process is removed.
const FORGOTTEN_MS: i64 = 10 * 60 * 1000;
/// How long to wait for the transaction of another process before looking whether it lives.
const PATIENCE: Duration = Duration::from_secs(2);

/// Moves the order on, and returns the first of the numbers that these documents get.
pub(super) async fn advance<'a>(
    inner: &Inner,
    session: &mut ClientSession,
    numbered: impl Iterator<Item = &'a Numbered>,
) -> Result<i64, Failure> {
    let (count, floor) = numbered.fold((0_i64, 0_i64), |(count, floor), numbered| {
        (count + i64::from(numbered.count), floor.max(numbered.floor))
    });
    let number = |name: &str| doc! { "$ifNull": [name, 0_i64] };
    let last = doc! { "$max": [number("$value"), if count > 0 { floor } else { 0 }] };
    let moved = doc! {
        "value": { "$add": [last, count] },
        "units": { "$add": [number("$units"), 1_i64] },
    };
    let order = inner
        .collection(COUNTERS)
        .find_one_and_update(doc! { "_id": HISTORY }, vec![doc! { "$set": moved }])
        .upsert(true)
        .return_document(ReturnDocument::After)
        .session(session)
        .await
        .map_err(at(COUNTERS))?;
    let value = order.as_ref().and_then(|order| order.get_i64("value").ok());
    let corrupt = || StoreError::Corrupt { what: format!("the counter of {HISTORY}") };
    Ok(value.ok_or_else(corrupt)? - count + 1)
}

/// How many transactions have taken effect.
pub(super) async fn units(inner: &Inner) -> Result<i64, StoreError> {
    let counters = inner.collection(COUNTERS);
    let order = counters.find_one(doc! { "_id": HISTORY }).max_time(inner.write_bound()).await;
    let order = order.map_err(|error| command_error(&error))?;
    Ok(order.and_then(|order| order.get_i64("units").ok()).unwrap_or_default())
}

/// What this process knows of itself and others as writers.
#[derive(Debug, Default)]
pub(super) struct Writers {
    /// The session that was last shown, and when.
    shown: Mutex<Option<(Bson, Instant)>>,
    /// When it last looked for processes that do not live.
    looked: Mutex<Option<Instant>>,
}

/// Shows that this process lives, until this is dropped.
pub(super) struct Beat {
    _end: oneshot::Sender<()>,
}

impl Beat {
    /// Of the process that writes with this session.
    pub(super) async fn begin(inner: &Arc<Inner>, session: &Document) -> Self {
        let (end, mut ended) = oneshot::channel();
        let (inner, session) = (Arc::clone(inner), session.get("id").cloned().unwrap_or(Bson::Null));
        show(&inner, &session).await;
        tokio::spawn(async move {
            while tokio::time::timeout(BEAT, &mut ended).await.is_err() {
                show(&inner, &session).await;
            }
        });
        Self { _end: end }
    }
}

/// Notes that the process with this session lives, unless it did lately. A failure costs others a minute at most.
async fn show(inner: &Inner, session: &Bson) {
    let is_recent = |shown: &(Bson, Instant)| shown.0 == *session && shown.1.elapsed() < BEAT;
    if inner.writers.shown.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(is_recent) {
        return;
    }
    let writers = inner.unjournaled(WRITERS);
    let seen = doc! { "$currentDate": { "seen": true } };
    match writers.update_one(doc! { "_id": session }, seen).upsert(true).await {
        Ok(_) => {
            let shown = (session.clone(), Instant::now());
            *inner.writers.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        }
        Err(error) => log::debug!("this process is not noted as a writer: {}", brief(&error)),
    }
}

/// Ends the transactions of processes that do not live, if this one has waited for the order long enough.
pub(super) async fn end_abandoned(inner: &Inner, waited: Duration) {
    let looks = |looked: &mut Option<Instant>| {
        let is_due = waited >= PATIENCE && looked.is_none_or(|looked| looked.elapsed() >= BEAT);
        if is_due {
            *looked = Some(Instant::now());
        }
        is_due
    };
    if !looks(&mut inner.writers.looked.lock().unwrap_or_else(PoisonError::into_inner)) {
        return;
    }
    if let Err(error) = end_silent(inner).await {
        log::warn!("transactions of processes that do not live are not ended: {}", brief(&error));
    }
}

async fn end_silent(inner: &Inner) -> Result<(), Error> {
    let mut silent =
        inner.collection(WRITERS).find(doc! { "seen": { "$lt": before(inner, SILENCE_MS).await? } }).await?;
    while silent.advance().await? {
        let writer = silent.deserialize_current()?;
        let Ok(Some(session)) = writer.get("_id") else { continue };
        log::warn!("a process that writes was not seen for three seconds; its transaction is ended");
        let admin = inner.database.client().database("admin");
        let session = Bson::try_from(session).unwrap_or(Bson::Null);
        admin.run_command(doc! { "killSessions": [{ "id": &session }] }).await?;
        inner.unjournaled(WRITERS).delete_one(doc! { "_id": session }).await?;
    }
    Ok(())
}

/// Removes the notes of processes that ended long ago.
pub(super) async fn forget_ended(inner: &Inner) -> Result<(), StoreError> {
    let forget = async || {
        let ended = doc! { "seen": { "$lt": before(inner, FORGOTTEN_MS).await? } };
        inner.unjournaled(WRITERS).delete_many(ended).await
    };
    forget().await.map(drop).map_err(|error| command_error(&error))
}

/// The time this number of milliseconds ago, by the server's clock.
async fn before(inner: &Inner, milliseconds: i64) -> Result<DateTime, Error> {
    let hello = inner.database.run_command(doc! { "hello": 1 }).await?;
    let now = hello.get_datetime("localTime").copied().unwrap_or(DateTime::MIN);
    Ok(DateTime::from_millis(now.timestamp_millis().saturating_sub(milliseconds)))
}
