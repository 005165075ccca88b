//! Which sequences are taken and not yet stored. Readers that follow the history must not pass them by.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// So many sequences that were taken in vain are remembered.
const MOST_ABANDONED: u16 = 10_000;

/// The sequences of units that are under way in this process.
#[derive(Debug)]
pub(super) struct Flights {
    state: Mutex<State>,
    /// Moves when a unit with entries has ended.
    ended: watch::Sender<u64>,
    /// Held while a sequence is taken, where that needs no network: then none is taken and not yet noted.
    pub(super) gate: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    under_way: BTreeSet<i64>,
    /// Taken here, and never stored.
    abandoned: BTreeSet<i64>,
    /// The largest sequence of which this process knows that it is stored, or may be.
    last: i64,
}

/// Sequences that a unit has taken.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Arc<Flights>,
    first: i64,
    count: u32,
}

impl Flights {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), ended: watch::Sender::new(0), gate: tokio::sync::Mutex::new(()) })
    }

    /// Notes that `count` sequences from `first` on are under way.
    pub(super) fn begin(self: &Arc<Self>, first: i64, count: u32) -> Flight {
        let mut state = self.locked();
        state.under_way.insert(first);
        Flight { flights: Arc::clone(self), first, count }
    }

    /// No unit of this process will store this sequence or a smaller one; nothing where none was taken yet.
    ///
    /// It is none behind all stored ones: such a one may have been taken in vain, and the next process takes it again.
    pub(super) fn horizon(&self) -> Option<i64> {
        let state = self.locked();
        match state.under_way.first() {
            Some(first) => Some(state.last.min(first - 1)),
            None => (state.last > 0).then_some(state.last),
        }
    }

    /// Whether this process knows that this sequence or a larger one is stored.
    pub(super) fn has_passed(&self, sequence: i64) -> bool {
        self.locked().last >= sequence
    }

    /// Notes that this sequence is stored.
    pub(super) fn note_stored(&self, sequence: i64) {
        let mut state = self.locked();
        state.last = state.last.max(sequence);
    }

    /// Whether this sequence was taken here in vain.
    pub(super) fn is_abandoned(&self, sequence: i64) -> bool {
        self.locked().abandoned.contains(&sequence)
    }

    /// The newest ranges of sequences that were taken here in vain, at most so many: the first and the last of each.
    pub(super) fn abandoned(&self, most: usize) -> Vec<(i64, i64)> {
        let mut ranges: Vec<(i64, i64)> = Vec::new();
        for &sequence in &self.locked().abandoned {
            match ranges.last_mut() {
                Some((_, last)) if *last == sequence - 1 => *last = sequence,
                _ => ranges.push((sequence, sequence)),
            }
        }
        ranges.split_off(ranges.len().saturating_sub(most))
    }

    /// Tells when units have ended.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.ended.subscribe()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flight {
    /// The unit has ended; `is_stored` is whether its entries may be in the store.
    pub(super) fn end(self, is_stored: bool) {
        let mut state = self.flights.locked();
        state.under_way.remove(&self.first);
        let behind = self.first + i64::from(self.count);
        if is_stored {
            state.last = state.last.max(behind - 1);
        } else {
            state.abandoned.extend(self.first.max(behind - i64::from(MOST_ABANDONED))..behind);
            while state.abandoned.len() > usize::from(MOST_ABANDONED) {
                state.abandoned.pop_first();
            }
        }
        drop(state);
        self.flights.ended.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_in_vain_is_told_as_ranges() {
        let flights = Flights::new();
        for (first, count) in [(2, 1), (3, 2), (7, 1), (9, 3)] {
            flights.begin(first, count).end(false);
        }
        flights.begin(5, 1).end(true);
        assert_eq!(flights.abandoned(9), [(2, 4), (7, 7), (9, 11)]);
        assert_eq!(flights.abandoned(2), [(7, 7), (9, 11)]);
        assert!(flights.is_abandoned(3) && !flights.is_abandoned(5));
    }
}
