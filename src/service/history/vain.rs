//! Sequences that were taken in vain, told to the other instances on one store.
//!
//! A unit takes its sequences before it is stored. One that is refused, or tried again, leaves them missing. The process
//! that took them knows so at once; without these notes all others wait for them for a minute, as for a unit under way.
//!
//! Each process has one document in [`HISTORY`]: `{_id: "vain <its first one>", last, ranges: [first, last, ...]}`. It is
//! written anew a moment after the first refusal, so a storm of them is one small write. Old ones go with the next write.
//! While the store is away the note waits for it. A process that dies before it has written costs the others the minute,
//! and nothing else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bson::doc;
use bson::raw::RawBsonRef;
use tokio::sync::Mutex;

use super::flights::Flights;
use super::kept::last_long_ago;
use super::resources::condition;
use crate::clock::Clock;
use crate::domain::document::raw;
use crate::query::Filter;
use crate::store::collections::HISTORY;
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// How long sequences gather for a write.
const GATHERED: Duration = Duration::from_millis(50);
/// How long to wait before a note that could not be written is written again.
const AGAIN: Duration = Duration::from_secs(1);
/// So many ranges are told at the most, the newest ones.
const MOST_RANGES: usize = 1000;

/// Tells what this process took in vain.
pub(super) struct Vain {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    flights: Arc<Flights>,
    max_time: Duration,
    /// The `_id` of the document of this process. No sequence is taken twice, so it is of this process alone.
    name: OnceLock<String>,
    is_gathering: AtomicBool,
    writing: Mutex<()>,
}

impl Vain {
    pub(super) fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        flights: Arc<Flights>,
        max_time: Duration,
    ) -> Arc<Self> {
        let (name, is_gathering, writing) = (OnceLock::new(), AtomicBool::new(false), Mutex::default());
        Arc::new(Self { store, clock, flights, max_time, name, is_gathering, writing })
    }

    /// Has the sequences told that were taken in vain until now, and in the next moment. A store of one process has nobody
    /// to tell.
    pub(super) fn tell(self: &Arc<Self>) {
        if !self.store.is_remote() || self.is_gathering.swap(true, Ordering::AcqRel) {
            return;
        }
        let vain = Arc::clone(self);
        tokio::spawn(async move {
            let mut pause = GATHERED;
            loop {
                tokio::time::sleep(pause).await;
                vain.is_gathering.store(false, Ordering::Release);
                let Err(error) = vain.write().await else { return };
                log::debug!("sequences that were taken in vain are not told yet: {error}");
                // What was taken in vain meanwhile is written by another task, and this with it.
                if vain.is_gathering.swap(true, Ordering::AcqRel) {
                    return;
                }
                pause = AGAIN;
            }
        });
    }

    async fn write(&self) -> Result<(), StoreError> {
        let _one_at_a_time = self.writing.lock().await;
        // What is missing before an old entry is waited for by nobody.
        let old = last_long_ago(&*self.store, &*self.clock, self.max_time).await?;
        let mut ranges = self.flights.abandoned(MOST_RANGES);
        ranges.retain(|(_, last)| *last > old);
        let (Some((first, _)), Some((_, last))) = (ranges.first(), ranges.last()) else { return Ok(()) };
        let name = self.name.get_or_init(|| format!("vain {first}"));
        let flat: Vec<i64> = ranges.iter().flat_map(|(first, last)| [*first, *last]).collect();
        let note = doc! { "_id": name, "last": last, "ranges": flat };
        let replaced = doc! { "$or": [{ "_id": name }, { "last": { "$lt": old } }] };
        let unit = Unit::of(Change::DeleteMany { collection: HISTORY, filter: condition(&replaced) });
        self.store.commit(unit.and(Change::Insert { collection: HISTORY, document: raw(&note) })).await.map(drop)
    }
}

/// What processes have told of sequences behind a position: the last one of each range, by the first one.
pub(super) async fn told(
    store: &dyn Store,
    position: i64,
    max_time: Duration,
) -> Result<BTreeMap<i64, i64>, StoreError> {
    let notes = store.find(HISTORY, &FindQuery::new(behind(position), max_time)).await?;
    let mut told = BTreeMap::new();
    for ranges in notes.iter().filter_map(|note| note.get_array("ranges").ok()) {
        let numbers: Vec<i64> = ranges.into_iter().flatten().filter_map(RawBsonRef::as_i64).collect();
        told.extend(numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])));
    }
    Ok(told)
}

/// Removes all notes from a store of one process. Such a store may give a sequence again that was taken in vain, so notes
/// that came with a copy of another store would be wrong one day.
///
/// # Errors
/// Errors of the store.
pub async fn remove_from_local(store: &dyn Store, max_time: Duration) -> Result<(), StoreError> {
    let any = FindQuery::new(behind(0), max_time).limited(1);
    if store.is_remote() || store.find(HISTORY, &any).await?.is_empty() {
        return Ok(());
    }
    store.commit(Unit::of(Change::DeleteMany { collection: HISTORY, filter: behind(0) })).await.map(drop)
}

/// The notes of sequences behind a position.
fn behind(position: i64) -> Filter {
    condition(&doc! { "last": { "$gt": position } })
}
