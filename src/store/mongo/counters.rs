//! The counters that `public_id`s come from: one document a collection in `service.counters`.
//!
//! A counter's `value` is the largest `public_id` given or stored so far. It is raised *before* a document with a larger id is
//! stored, so no stored id is ever given again. Concurrent callers of one process share one step of the counter, so that its one
//! document does not limit the rate of inserts. The numbers have no gaps.
//!
//! On a replica set, a step for single ids does not wait for disks. The transaction that stores such an id reads the counter
//! (see [`conditions`](super::conditions)) and takes effect only if the counter has it; so the step is on the disks when the
//! document is. A primary that is lost between the two takes its last steps along. A process that had them raises the counter
//! before it takes others. Other instances can get the same ids: of two units that then store one id, the later one is refused,
//! and the service takes another id for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Bson, RawDocument, RawDocumentBuf, doc};
use mongodb::options::ReturnDocument;

use super::Inner;
use super::connect::Topology;
use super::error::{command_error, is_duplicate, unavailable};
use super::rounds::{Asker, Rounds, refuse};
use super::waiting::query_bound;
use crate::store::{Change, StoreError};

pub(super) use crate::store::copying::COUNTERS;

/// How often a step is tried when others create or remove the counter at the same time.
const ATTEMPTS: usize = 5;
/// The counters of DATAGERRY: `{_id: <collection>, counter: <number>}`.
const OF_DATAGERRY: &str = "datastorage.counter";
const MAX_TIME: Duration = Duration::from_secs(10);

/// The counters in use.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<HashMap<String, Arc<Counter>>>);

#[derive(Debug, Default)]
struct Counter {
    /// How many numbers a caller wants; the answer is the first of them.
    wanted: Rounds<u32, i64>,
    /// The stored value is at least this.
    floor: AtomicI64,
    /// The largest number that this process was given.
    given: AtomicI64,
}

impl Counters {
    fn counter(&self, collection: &str) -> Arc<Counter> {
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get(collection) {
            return Arc::clone(counter);
        }
        Arc::clone(counters.entry(collection.to_owned()).or_default())
    }
}

/// Takes `count` numbers out of the collection's counter and returns the first.
pub(super) async fn reserve(inner: &Arc<Inner>, collection: &str, count: u32) -> Result<i64, StoreError> {
    let counter = inner.counters.counter(collection);
    let place = counter.wanted.join(count);
    if place.serves {
        let (inner, counter, collection) = (Arc::clone(inner), Arc::clone(&counter), collection.to_owned());
        tokio::spawn(async move { counter.wanted.serve(|round| give(&inner, &counter, &collection, round)).await });
    }
    place.answer().await
}

/// Takes one step of the counter for all who want numbers.
async fn give(inner: &Arc<Inner>, counter: &Counter, collection: &str, round: Vec<Asker<u32, i64>>) {
    let total = round.iter().map(|waiting| i64::from(waiting.question)).sum();
    let waits_for_disks = inner.topology == Topology::Sharded || round.iter().any(|waiting| waiting.question > 1);
    let given = counter.given.load(Ordering::Relaxed);
    // A repeated call skips numbers, and gives none twice.
    let step = || {
        let (inner, collection) = (Arc::clone(inner), collection.to_owned());
        async move {
            let mut last = advance(&inner, &collection, total, waits_for_disks).await?;
            if last - total < given {
                // A lost primary took back numbers that it had given.
                raise_anyway(&inner, &collection, given).await?;
                last = advance(&inner, &collection, total, waits_for_disks).await?;
            }
            lead(&inner, &collection, last).await?;
            Ok(last)
        }
    };
    match inner.presence.ask(query_bound(inner.write_bound()), step).await {
        Ok(last) => {
            counter.floor.fetch_max(last, Ordering::Relaxed);
            counter.given.fetch_max(last, Ordering::Relaxed);
            let mut next = last - total + 1;
            for waiting in round {
                let first = next;
                next += i64::from(waiting.question);
                waiting.reply(Ok(first));
            }
        }
        Err(error) => refuse(round, &error),
    }
}

/// Moves the counter on by `step` and returns its new value.
async fn advance(inner: &Inner, collection: &str, step: i64, waits_for_disks: bool) -> Result<i64, StoreError> {
    let counters = if waits_for_disks { inner.collection(COUNTERS) } else { inner.unjournaled(COUNTERS) };
    for _ in 0..ATTEMPTS {
        let counter = counters
            .find_one_and_update(doc! { "_id": collection }, doc! { "$inc": { "value": step } })
            .return_document(ReturnDocument::After)
            .max_time(MAX_TIME)
            .await
            .map_err(|error| command_error(&error))?;
        match counter {
            Some(counter) => return value_of(&counter, "value", collection),
            None => raise_to(inner, collection, largest(inner, collection).await?).await?,
        }
    }
    Err(unavailable(format!("the counter of {collection} does not stay")))
}

/// Raises the counter to at least `value`, before a document with that `public_id` is stored.
pub(super) async fn raise(inner: &Inner, collection: &str, value: i64) -> Result<(), StoreError> {
    if inner.counters.counter(collection).floor.load(Ordering::Relaxed) >= value {
        return Ok(());
    }
    raise_anyway(inner, collection, value).await
}

/// The same, whatever this process knows of the counter.
pub(super) async fn raise_anyway(inner: &Inner, collection: &str, value: i64) -> Result<(), StoreError> {
    let raised = inner
        .collection(COUNTERS)
        .update_one(doc! { "_id": collection }, doc! { "$max": { "value": value } })
        .await
        .map_err(|error| command_error(&error))?;
    if raised.matched_count == 0 {
        let largest = largest(inner, collection).await?;
        raise_to(inner, collection, value.max(largest)).await?;
    }
    lead(inner, collection, value).await?;
    inner.counters.counter(collection).floor.fetch_max(value, Ordering::Relaxed);
    Ok(())
}

/// Raises the counter of DATAGERRY, where it has one. It trusts this counter alone, and would store its next document
/// under an id that was given here.
async fn lead(inner: &Inner, collection: &str, value: i64) -> Result<(), StoreError> {
    if !inner.options.leads_datagerry {
        return Ok(());
    }
    let theirs = inner.collection(OF_DATAGERRY);
    let raised = theirs.update_one(doc! { "_id": collection }, doc! { "$max": { "counter": value } }).await;
    raised.map(drop).map_err(|error| command_error(&error))
}

/// Raises the counter to the largest stored id: other tools store documents without using the counter.
pub(super) async fn catch_up(inner: &Inner, collection: &str) -> Result<(), StoreError> {
    raise_to(inner, collection, largest(inner, collection).await?).await
}

/// Raises counters to at least what the documents say.
pub(super) async fn take(inner: &Inner, counters: &[RawDocumentBuf]) -> Result<(), StoreError> {
    for counter in counters {
        let of = counter.get_str("_id").map_err(StoreError::backend)?;
        let value = value_of(counter, "value", of)?;
        raise_to(inner, of, value).await?;
        lead(inner, of, value).await?;
    }
    Ok(())
}

async fn raise_to(inner: &Inner, collection: &str, value: i64) -> Result<(), StoreError> {
    let update = doc! { "$max": { "value": value } };
    for _ in 0..ATTEMPTS {
        let counters = inner.collection(COUNTERS);
        match counters.update_one(doc! { "_id": collection }, update.clone()).upsert(true).await {
            Ok(_) => return Ok(()),
            // Another caller created the counter at the same time; the next attempt finds it.
            Err(error) if is_duplicate(&error) => {}
            Err(error) => return Err(command_error(&error)),
        }
    }
    Err(unavailable(format!("the counter of {collection} does not stay")))
}

/// The largest stored `public_id`, 0 without any.
async fn largest(inner: &Inner, collection: &str) -> Result<i64, StoreError> {
    let found = inner
        .collection(collection)
        .find_one(doc! { "public_id": { "$type": "number" } })
        .sort(doc! { "public_id": -1 })
        .projection(doc! { "_id": 0, "public_id": 1 })
        .max_time(MAX_TIME)
        .await
        .map_err(|error| command_error(&error))?;
    found.map_or(Ok(0), |document| value_of(&document, "public_id", collection))
}

pub(super) fn value_of(document: &bson::RawDocument, member: &str, collection: &str) -> Result<i64, StoreError> {
    let value = document.get(member).ok().flatten().and_then(|value| Bson::try_from(value).ok());
    value
        .as_ref()
        .and_then(whole_number)
        .ok_or_else(|| StoreError::Corrupt { what: format!("the counter of the ids of {collection}") })
}

/// The ids of the documents that changes insert, with their collections.
pub(super) fn ids_of_insertions(changes: &[Change]) -> impl Iterator<Item = (&'static str, i64)> {
    changes.iter().filter_map(|change| match change {
        Change::Insert { collection, document } => Some((*collection, public_id(document)?)),
        _ => None,
    })
}

/// The `public_id` of a document.
pub(super) fn public_id(document: &RawDocument) -> Option<i64> {
    let id = document.get("public_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
    id.as_ref().and_then(whole_number)
}

/// A number of any of BSON's types without its fraction, if it is in range.
pub(super) fn whole_number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(value) => Some(i64::from(*value)),
        Bson::Int64(value) => Some(*value),
        #[expect(clippy::cast_possible_truncation, reason = "checked to be in range; the fraction is not wanted")]
        Bson::Double(value) if value.abs() < 9.0e18 => Some(*value as i64),
        _ => None,
    }
}
