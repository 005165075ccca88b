//! Sequences that are missing among the entries of a store of several instances: which of them may still be stored.
//!
//! A unit takes its sequences before it is stored. It is stored within a minute, or its process has died. A missing sequence is
//! passed in three cases:
//!
//! - This process took it in vain, or another one [told](super::vain) so.
//! - The entry behind it is [from long ago](super::kept::long_ago).
//! - It has been missing for [`PATIENCE`]. All gaps wait at the same time, those behind the batch too.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::raw::RawDocumentBuf;

use super::flights::Flights;
use super::kept::long_ago;
use super::vain::told;
use crate::clock::Clock;
use crate::domain::document::integer;
use crate::store::{Store, StoreError};

/// How long a missing sequence of another instance is waited for. An instance commits a unit within a minute, or its
/// process has died.
const PATIENCE: Duration = Duration::from_mins(1);

/// The gaps that are waited for.
pub(super) struct Gaps {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    flights: Arc<Flights>,
    max_time: Duration,
    /// By the last sequence before each: the first one behind it, and since when it is missing.
    waiting: Mutex<Waiting>,
    /// Up to which sequence gaps behind the batch were noted.
    noted: AtomicI64,
}

type Waiting = BTreeMap<i64, (i64, Duration)>;

/// Since when this is missing. From now on it is waited for.
fn wait(waiting: &mut Waiting, missing: &Range<i64>, now: Duration) -> Duration {
    let (before, behind) = (missing.start - 1, missing.end);
    // It may be what is left of a larger one.
    let known = waiting.range(..=before).next_back().filter(|(_, (end, _))| *end >= behind);
    let since = known.map_or(now, |(_, (_, since))| *since);
    waiting.insert(before, (behind, since));
    since
}

impl Gaps {
    pub(super) fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, flights: Arc<Flights>, max_time: Duration) -> Self {
        Self { store, clock, flights, max_time, waiting: Mutex::default(), noted: AtomicI64::new(0) }
    }

    /// Whether nothing is waited for.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// How many of these entries, which follow the position, come before the first sequence that may still be stored.
    pub(super) async fn settled(&self, position: i64, entries: &[RawDocumentBuf]) -> Result<usize, StoreError> {
        let gaps = self.unexplained(position, entries);
        let told = match gaps.first() {
            Some((_, first)) => told(&*self.store, first.start - 1, self.max_time).await?,
            None => BTreeMap::new(),
        };
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut settled, now) = (entries.len(), self.clock.steady());
        // From the last one on: a gap that was filled in part is looked up by each of its rests before the first one replaces it.
        for (index, missing) in gaps.into_iter().rev() {
            if self.next_unknown(&missing, &told).is_none() {
                continue;
            }
            let since = wait(&mut waiting, &missing, now);
            if now.saturating_sub(since) < PATIENCE {
                settled = settled.min(index);
            }
        }
        let end = settled.checked_sub(1).and_then(|last| integer(&entries[last], "sequence")).unwrap_or(position);
        waiting.retain(|before, _| *before >= end);
        Ok(settled)
    }

    /// Up to which sequence gaps were noted.
    pub(super) fn noted(&self) -> i64 {
        self.noted.load(Ordering::Acquire)
    }

    /// Notes what is missing among entries that come later than a batch: it is waited for from now on.
    pub(super) fn note(&self, position: i64, entries: &[RawDocumentBuf]) {
        let gaps = self.unexplained(position, entries);
        let now = self.clock.steady();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, missing) in gaps.into_iter().rev() {
            wait(&mut waiting, &missing, now);
        }
        drop(waiting);
        let last = entries.last().and_then(|entry| integer(entry, "sequence")).unwrap_or(position);
        self.noted.fetch_max(last, Ordering::AcqRel);
    }

    /// What is missing before each of the entries that are not old, unless this process took it in vain.
    fn unexplained(&self, position: i64, entries: &[RawDocumentBuf]) -> Vec<(usize, Range<i64>)> {
        let (mut next, long_ago) = (position + 1, long_ago(&*self.clock));
        let mut gaps = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let sequence = integer(entry, "sequence").unwrap_or_default();
            let missing = next..sequence;
            let is_old = || entry.get_datetime("time").is_ok_and(|time| time < long_ago);
            if !missing.is_empty() && !is_old() && self.next_unknown(&missing, &BTreeMap::new()).is_some() {
                gaps.push((index, missing));
            }
            next = sequence + 1;
        }
        gaps
    }

    /// The first of these sequences of which nobody said that it was taken in vain.
    fn next_unknown(&self, missing: &Range<i64>, told: &BTreeMap<i64, i64>) -> Option<i64> {
        let mut next = missing.start;
        while next < missing.end {
            match told.range(..=next).next_back() {
                Some((_, last)) if *last >= next => next = *last + 1,
                _ if self.flights.is_abandoned(next) => next += 1,
                _ => return Some(next),
            }
        }
        None
    }
}
