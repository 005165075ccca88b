//! Numbers of entries in ranges that were counted, carried from one commit to the next.
//!
//! Counting a long range takes a step for each of its count blocks, so it takes longer the larger the store is. People
//! ask for the same few totals again and again. So a counted range is remembered, and each commit adds to its number what
//! the commit adds to the range. The numbers are in memory alone. After the file was opened, each range is counted once.
//!
//! The numbers belong to the tables of a published snapshot. A range is remembered from the moment its count begins. So
//! commits carry a range on whose count is not finished, and the number is right in all their snapshots once it is.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::store::embedded::index::counts::Changes;
use crate::store::embedded::index::ranges::KeyRange;

/// How many ranges of a collection are remembered; the oldest is dropped first.
const RANGES: usize = 64;
/// A range with longer keys is not remembered.
const MOST_KEY_BYTES: usize = 1024;
/// A batch that moves more entries than this lets the numbers of their collections go.
const MOST_MOVED: usize = if cfg!(test) { 64 } else { 8192 };

/// The counted ranges of one collection as of one commit.
#[derive(Debug, Default)]
pub(crate) struct RangeCounts(Mutex<VecDeque<(Arc<Counted>, RangeCount)>>);

/// What is counted.
#[derive(Debug)]
struct Counted {
    /// The number of the index.
    index: u32,
    start: Vec<u8>,
    end: Vec<u8>,
}

/// The number of entries of a range: once it is counted in one snapshot, it is known in all.
#[derive(Debug, Clone, Default)]
pub(crate) struct RangeCount {
    /// The number in the first snapshot that remembered the range.
    base: Arc<OnceLock<u64>>,
    /// What came since then.
    since: i64,
}

impl RangeCount {
    /// The number, if it was counted.
    pub(crate) fn known(&self) -> Option<u64> {
        self.base.get().map(|base| base.saturating_add_signed(self.since))
    }

    /// Notes the number that was counted in this snapshot.
    pub(crate) fn note(&self, entries: u64) {
        self.base.get_or_init(|| entries.saturating_sub_signed(self.since));
    }
}

impl RangeCounts {
    /// The number of a range, if it is known.
    pub(crate) fn known(&self, index: u32, range: &KeyRange) -> Option<u64> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().find(|(counted, _)| counted.is_of(index, range))?.1.known()
    }

    /// The place for the number of a range.
    pub(crate) fn of(&self, index: u32, range: &KeyRange) -> RangeCount {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = counts.iter().find(|(counted, _)| counted.is_of(index, range)) {
            return count.clone();
        }
        let count = RangeCount::default();
        if range.start.len() + range.end.len() <= MOST_KEY_BYTES {
            if counts.len() >= RANGES {
                counts.pop_front();
            }
            let counted = Counted { index, start: range.start.clone(), end: range.end.clone() };
            counts.push_back((Arc::new(counted), count.clone()));
        }
        count
    }

    /// The numbers after these entries moved.
    fn after(&self, moved: &HashMap<(u32, u32), Changes>, collection: u32) -> Self {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let carried = counts.iter().map(|(counted, count)| {
            let changes = moved.get(&(collection, counted.index));
            let more: i64 = changes.map_or(0, |changes| counted.sum_of(changes));
            (Arc::clone(counted), RangeCount { since: count.since + more, ..count.clone() })
        });
        Self(Mutex::new(carried.collect()))
    }
}

impl Counted {
    fn is_of(&self, index: u32, range: &KeyRange) -> bool {
        (self.index, &self.start, &self.end) == (index, &range.start, &range.end)
    }

    fn sum_of(&self, changes: &Changes) -> i64 {
        if self.start >= self.end {
            return 0;
        }
        changes.range(self.start.clone()..self.end.clone()).map(|(_, change)| change).sum()
    }
}

/// The entries that a batch added and removed, of counted indexes.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    /// By the numbers of collection and index.
    entries: HashMap<(u32, u32), Changes>,
    len: usize,
    /// Collections with more entries than are kept.
    lost: BTreeSet<u32>,
}

impl Moved {
    /// Notes entries of an index.
    pub(crate) fn add(&mut self, collection: u32, index: u32, changes: Changes) {
        self.len += changes.len();
        if self.len > MOST_MOVED {
            self.lost.extend(self.entries.drain().map(|((collection, _), _)| collection));
            self.lost.insert(collection);
            self.len = 0;
        }
        if self.lost.contains(&collection) {
            return;
        }
        let known = self.entries.entry((collection, index)).or_default();
        for (entry, change) in changes {
            *known.entry(entry).or_default() += change;
        }
    }

    /// The numbers of a collection after the batch.
    pub(crate) fn carry(&self, collection: u32, counts: &Arc<RangeCounts>) -> Arc<RangeCounts> {
        if self.lost.contains(&collection) {
            return Arc::default();
        }
        if self.entries.keys().all(|(changed, _)| *changed != collection) {
            return Arc::clone(counts);
        }
        Arc::new(counts.after(&self.entries, collection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u8, end: u8) -> KeyRange {
        KeyRange { start: vec![start], end: vec![end], lead: 0 }
    }

    fn moved(changes: &[(u8, i64)]) -> Moved {
        let mut moved = Moved::default();
        moved.add(0, 1, changes.iter().map(|(entry, change)| (vec![*entry], *change)).collect());
        moved
    }

    #[test]
    fn a_number_moves_with_the_entries_of_its_range() {
        let counts = Arc::<RangeCounts>::default();
        counts.of(1, &range(10, 20)).note(5);
        let next = moved(&[(9, 1), (10, 1), (19, 1), (20, 1), (15, -1)]).carry(0, &counts);
        assert_eq!((counts.known(1, &range(10, 20)), next.known(1, &range(10, 20))), (Some(5), Some(6)));
        assert_eq!((next.known(2, &range(10, 20)), next.known(1, &range(10, 21))), (None, None));
    }

    #[test]
    fn a_count_that_ends_after_a_commit_is_known_behind_the_commit() {
        let counts = Arc::<RangeCounts>::default();
        let count = counts.of(1, &range(10, 20));
        let next = moved(&[(12, 1)]).carry(0, &counts);
        assert_eq!(next.known(1, &range(10, 20)), None);
        count.note(5);
        assert_eq!(next.known(1, &range(10, 20)), Some(6));
        // Or one in the later snapshot ends first.
        let (early, late) = (next.of(1, &range(0, 90)), moved(&[(12, -1)]).carry(0, &next));
        late.of(1, &range(0, 90)).note(7);
        early.note(8);
        assert_eq!((next.known(1, &range(0, 90)), late.known(1, &range(0, 90))), (Some(8), Some(7)));
    }

    #[test]
    fn a_collection_that_did_not_change_keeps_its_numbers() {
        let counts = Arc::<RangeCounts>::default();
        counts.of(1, &range(10, 20)).note(5);
        assert_eq!(moved(&[(12, 1)]).carry(7, &counts).known(1, &range(10, 20)), Some(5));
    }

    #[test]
    fn a_large_batch_lets_the_numbers_go() {
        let counts = Arc::<RangeCounts>::default();
        counts.of(1, &range(10, 20)).note(5);
        let mut moved = Moved::default();
        for part in 0..=MOST_MOVED {
            moved.add(0, 1, Changes::from([((part as u64).to_be_bytes().to_vec(), 1)]));
        }
        assert_eq!(moved.carry(0, &counts).known(1, &range(10, 20)), None);
    }

    #[test]
    fn the_oldest_range_is_dropped_first() {
        let counts = RangeCounts::default();
        for end in 0..=RANGES {
            counts.of(1, &range(0, u8::try_from(end).expect("few"))).note(1);
        }
        assert_eq!((counts.known(1, &range(0, 0)), counts.known(1, &range(0, 1))), (None, Some(1)));
    }
}
