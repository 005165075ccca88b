//! Which parts of the file are in use: by pages that count, by parts that recovery would need, by the map.

use std::collections::BTreeSet;
use std::ops::Range;

use super::layout::{Place, Run, SEGMENT, SLOT, SUPERBLOCKS};

/// The owner of a slot that holds nothing that counts.
const NOBODY: u32 = u32::MAX;

/// The number of free segments that only removals may use: on a full disk, too, a store can be opened and things be deleted.
pub(super) const RESERVE: usize = 2;
/// The number of further free segments that stay at the end of the file for the next writes.
const TRIMMED: usize = 8;

/// The segments of the file.
#[derive(Debug, Default)]
pub(super) struct Segments {
    all: Vec<Segment>,
    /// Of each slot of all segments: the page in it.
    owners: Vec<u32>,
    free: BTreeSet<u32>,
    /// How many hold parts.
    parts: u64,
    /// What holds parts that recovery would not read, by how many of its pages count.
    by_live: BTreeSet<(u16, u32)>,
    /// What holds parts that recovery would read.
    pinned: Vec<u32>,
    /// How many pages in these count.
    pinned_live: u64,
    /// Hold nothing that counts since a batch that is not settled yet.
    emptied: Vec<u32>,
    /// How many pages count.
    live: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    use_: Use,
    /// How many of its slots hold a page that counts.
    live: u16,
    /// Recovery would read parts in it.
    is_pinned: bool,
    /// A page in it is damaged; it stays where it is, so that reading it is an error.
    is_kept: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Free,
    Parts,
    Map,
}

/// The segment that a slot is in.
pub(super) fn segment_of(slot: u32) -> u32 {
    (slot - SUPERBLOCKS) / SEGMENT
}

/// The number of segments in a file of this size in bytes.
pub(super) fn segments_in(bytes: u64) -> u32 {
    let slots = (bytes / SLOT as u64).saturating_sub(SUPERBLOCKS.into());
    u32::try_from(slots / u64::from(SEGMENT)).unwrap_or(u32::MAX)
}

/// The slots of a segment.
pub(super) fn slots_of(segment: u32) -> Range<u32> {
    let start = SUPERBLOCKS + segment * SEGMENT;
    start..start + SEGMENT
}

/// The number of segments that this number of slots fills.
pub(super) fn segments_for(slots: usize) -> u32 {
    u32::try_from(slots.div_ceil(SEGMENT as usize)).unwrap_or(u32::MAX)
}

impl Segments {
    /// The segments as a map and a chain leave them, in a file that has room for `present` segments.
    pub(super) fn of(map: &[Place], maps: [Run; 2], pinned: &BTreeSet<u32>, current: u32, present: u32) -> Self {
        let mut segments = Self::default();
        let last_of_map = maps.iter().map(|run| run.first + run.count).max().unwrap_or(0).saturating_sub(1);
        let last_page = map.iter().map(|place| place.slot).filter(|slot| *slot > 0).max().map(segment_of);
        let last = last_page.into_iter().chain([last_of_map]).chain(pinned.last().copied()).fold(current, u32::max);
        segments.extend(present.max(last + 1));
        for segment in maps.into_iter().flat_map(|run| run.first..run.first + run.count) {
            segments.begin(segment, Use::Map);
        }
        for (page, place) in map.iter().enumerate().filter(|(_, place)| place.slot > 0) {
            let segment = segment_of(place.slot);
            segments.all[segment as usize].live += 1;
            segments.owners[(place.slot - SUPERBLOCKS) as usize] = u32::try_from(page).unwrap_or(NOBODY);
            segments.live += 1;
        }
        for segment in 0..=last {
            let live = segments.all[segment as usize].live;
            if live > 0 || segment == current || pinned.contains(&segment) {
                segments.begin(segment, Use::Parts);
            }
            if pinned.contains(&segment) {
                segments.pin(segment);
            }
        }
        segments
    }

    fn extend(&mut self, count: u32) {
        let known = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.free.extend(known..count);
        self.all.resize(count as usize, Segment { use_: Use::Free, live: 0, is_pinned: false, is_kept: false });
        self.owners.resize(count as usize * SEGMENT as usize, NOBODY);
    }

    fn begin(&mut self, segment: u32, use_: Use) {
        self.free.remove(&segment);
        let own = &mut self.all[segment as usize];
        own.use_ = use_;
        if use_ == Use::Parts {
            self.parts += 1;
            self.by_live.insert((own.live, segment));
        }
    }

    /// Recovery would read parts in the segment.
    pub(super) fn pin(&mut self, segment: u32) {
        let own = &mut self.all[segment as usize];
        if !own.is_pinned {
            own.is_pinned = true;
            self.pinned_live += u64::from(own.live);
            self.by_live.remove(&(own.live, segment));
            self.pinned.push(segment);
        }
    }

    /// How many segments there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(u32::MAX)
    }

    /// Whether this number of segments is free.
    pub(super) fn has(&self, count: usize) -> bool {
        self.free.len() >= count
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// The first free segment, for parts.
    pub(super) fn take(&mut self) -> Option<u32> {
        let segment = self.free.first().copied()?;
        self.begin(segment, Use::Parts);
        Some(segment)
    }

    /// There is one more segment at the end.
    pub(super) fn add(&mut self) {
        self.extend(self.count() + 1);
    }

    /// Keeps this number of segments only: later ones no longer exist.
    fn forget_behind(&mut self, count: u32) {
        drop(self.free.split_off(&count));
        self.all.truncate(count as usize);
        self.owners.truncate(count as usize * SEGMENT as usize);
    }

    /// How many segments are free at the end, where more can be added.
    pub(super) fn free_at_end(&self) -> u32 {
        let used = self.all.iter().rposition(|segment| segment.use_ != Use::Free).map_or(0, |last| last + 1);
        u32::try_from(self.all.len() - used).unwrap_or(u32::MAX)
    }

    /// Consecutive free segments for a map, before `end`; `None` where there are too few.
    pub(super) fn take_run(&mut self, count: u32, end: u32) -> Option<Run> {
        let mut run = Run::default();
        for segment in self.free.range(..end) {
            if run.count == count {
                break;
            }
            let goes_on = run.count > 0 && run.first + run.count == *segment;
            run = if goes_on { Run { count: run.count + 1, ..run } } else { Run { first: *segment, count: 1 } };
        }
        if count == 0 {
            return Some(Run::default());
        }
        if run.count < count {
            return None;
        }
        for segment in run.first..run.first + run.count {
            self.begin(segment, Use::Map);
        }
        Some(run)
    }

    /// A map is no longer needed.
    pub(super) fn give_back(&mut self, run: Run) {
        for segment in run.first..run.first + run.count {
            self.all[segment as usize].use_ = Use::Free;
            self.free.insert(segment);
        }
    }

    /// Pages were written to consecutive slots, all in one segment, with the head of their part before them.
    pub(super) fn place(&mut self, first: u32, pages: impl ExactSizeIterator<Item = u32>) {
        let segment = segment_of(first - 1);
        let count = pages.len();
        let at = (first - SUPERBLOCKS) as usize;
        for (owner, page) in self.owners[at..at + count].iter_mut().zip(pages) {
            *owner = page;
        }
        self.pin(segment);
        self.live += count as u64;
        let live = self.all[segment as usize].live;
        self.set_live(segment, live + u16::try_from(count).unwrap_or(u16::MAX));
    }

    /// What is in the slot counts no longer, and never will again.
    pub(super) fn release(&mut self, slot: u32) {
        self.owners[(slot - SUPERBLOCKS) as usize] = NOBODY;
        self.live -= 1;
        let segment = segment_of(slot);
        let live = self.all[segment as usize].live - 1;
        self.set_live(segment, live);
        if live == 0 {
            self.emptied.push(segment);
        }
    }

    fn set_live(&mut self, segment: u32, live: u16) {
        let own = &mut self.all[segment as usize];
        if own.is_pinned {
            self.pinned_live = self.pinned_live + u64::from(live) - u64::from(own.live);
        } else {
            self.by_live.remove(&(own.live, segment));
            self.by_live.insert((live, segment));
        }
        own.live = live;
    }

    /// Frees segments that hold nothing any more and are not needed for recovery; not the current segment, as the log
    /// continues in it.
    pub(super) fn settle(&mut self, current: u32) {
        for segment in std::mem::take(&mut self.emptied) {
            let own = &mut self.all[segment as usize];
            if own.use_ != Use::Parts || own.live > 0 || own.is_pinned || segment == current {
                continue;
            }
            own.use_ = Use::Free;
            own.is_kept = false;
            self.parts -= 1;
            self.by_live.remove(&(0, segment));
            self.free.insert(segment);
        }
    }

    /// After a checkpoint: recovery begins at its map, in the segment that is written to.
    pub(super) fn unpin(&mut self, current: u32) {
        self.pinned_live = 0;
        for segment in std::mem::take(&mut self.pinned) {
            let own = &mut self.all[segment as usize];
            own.is_pinned = false;
            self.by_live.insert((own.live, segment));
            self.emptied.push(segment);
        }
        self.settle(current);
    }

    /// Forgets free segments at the end: if they are many, or, with `all`, all that are not needed. Returns the number of
    /// segments left then. `kept` segments stay in addition to the reserve.
    pub(super) fn trim(&mut self, all: bool, kept: usize) -> Option<u32> {
        let free = self.free_at_end() as usize;
        let used = self.all.len() - free;
        let spare = if all { 0 } else { TRIMMED.max(used / 8) };
        if free <= RESERVE + kept + spare {
            return None;
        }
        let left = u32::try_from(used + RESERVE + kept).unwrap_or(u32::MAX);
        self.forget_behind(left);
        Some(left)
    }

    /// The segment with the fewest pages that count, of those that can be cleared.
    pub(super) fn victim(&self, current: u32, but: &BTreeSet<u32>) -> Option<u32> {
        let can_be = |segment: u32| {
            let own = &self.all[segment as usize];
            own.live > 0 && !own.is_kept && segment != current && !but.contains(&segment)
        };
        self.by_live.iter().map(|(_, segment)| *segment).find(|segment| can_be(*segment))
    }

    /// A page in the segment is damaged: it stays.
    pub(super) fn keep(&mut self, segment: u32) {
        self.all[segment as usize].is_kept = true;
    }

    /// The slots of a segment that count, with their pages.
    pub(super) fn pages_in(&self, segment: u32) -> impl Iterator<Item = (u32, u32)> {
        slots_of(segment)
            .map(|slot| (slot, self.owners[(slot - SUPERBLOCKS) as usize]))
            .filter(|(_, owner)| *owner != NOBODY)
    }

    /// How many pages of a segment count.
    pub(super) fn live_in(&self, segment: u32) -> u16 {
        self.all[segment as usize].live
    }

    /// How many pages count.
    pub(super) fn live(&self) -> u64 {
        self.live
    }

    /// How many slots of segments with parts hold nothing that counts.
    pub(super) fn garbage(&self) -> u64 {
        self.parts * u64::from(SEGMENT) - self.live
    }

    /// How many of these are in segments that could be cleared now. The segments written since the last checkpoint do not
    /// count: by the next checkpoint most of their pages may be replaced, which leaves little to move.
    pub(super) fn clearable(&self) -> u64 {
        self.garbage() - (self.pinned.len() as u64 * u64::from(SEGMENT) - self.pinned_live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_free_when_nothing_in_it_counts_and_recovery_does_not_need_it() {
        let mut segments = Segments::of(&[], [Run::default(); 2], &BTreeSet::new(), 0, 0);
        segments.add();
        segments.add();
        assert_eq!(segments.take(), Some(1));
        let first = slots_of(0).start;
        segments.place(first + 1, [7, 8].into_iter());
        assert_eq!(segments.pages_in(0).collect::<Vec<_>>(), [(first + 1, 7), (first + 2, 8)]);
        segments.release(first + 1);
        segments.release(first + 2);
        segments.settle(1);
        assert_eq!((segments.take(), segments.take()), (Some(2), None), "the first one is pinned");
        segments.unpin(1);
        assert_eq!(segments.take(), Some(0));
    }

    #[test]
    fn a_map_gets_segments_in_a_row() {
        let mut segments = Segments::of(&[], [Run::default(); 2], &BTreeSet::new(), 0, 0);
        (0..5).for_each(|_| segments.add());
        let run = |first, count| Run { first, count };
        let one = segments.take_run(1, u32::MAX).expect("it is free");
        let two = segments.take_run(2, u32::MAX).expect("they are free");
        assert_eq!((one, two, segments.take_run(0, u32::MAX)), (run(1, 1), run(2, 2), Some(run(0, 0))));
        segments.give_back(one);
        assert_eq!(segments.take_run(3, u32::MAX), None);
        assert_eq!(segments.take_run(1, 1), None);
        assert_eq!(segments.take_run(2, u32::MAX), Some(run(4, 2)));
        segments.give_back(two);
        assert_eq!(segments.take_run(3, u32::MAX), Some(run(1, 3)));
    }

    #[test]
    fn free_segments_at_the_end_are_given_back_when_they_are_many() {
        let mut segments = Segments::of(&[], [Run::default(); 2], &BTreeSet::new(), 0, 0);
        (0..20).for_each(|_| segments.add());
        let run = segments.take_run(20, u32::MAX).expect("they are free");
        assert_eq!(segments.trim(false, 0), None);
        segments.give_back(run);
        assert_eq!(segments.trim(false, 0), Some(3));
        assert_eq!((segments.trim(false, 0), segments.count()), (None, 3));
    }

    #[test]
    fn what_holds_least_is_cleared_first() {
        let mut segments = Segments::of(&[], [Run::default(); 2], &BTreeSet::new(), 0, 0);
        segments.place(slots_of(0).start + 1, 0..100_u32);
        segments.add();
        segments.add();
        let next = segments.take().expect("it is free");
        segments.place(slots_of(next).start + 1, 100..150_u32);
        let last = segments.take().expect("it is free");
        segments.unpin(last);
        assert_eq!(segments.victim(last, &BTreeSet::new()), Some(next));
        assert_eq!(segments.victim(last, &BTreeSet::from([next])), Some(0));
        segments.keep(0);
        assert_eq!(segments.victim(last, &BTreeSet::from([next])), None);
        assert_eq!((segments.live(), segments.garbage()), (150, 3 * 256 - 150));
    }

    #[test]
    fn garbage_that_recovery_would_read_cannot_be_cleared() {
        let mut segments = Segments::of(&[], [Run::default(); 2], &BTreeSet::new(), 0, 0);
        segments.add();
        segments.add();
        let first = slots_of(0).start;
        segments.place(first + 1, 0..100_u32);
        segments.unpin(0);
        segments.release(first + 1);
        let next = segments.take().expect("it is free");
        let begin = slots_of(next).start;
        segments.place(begin + 1, 100..150_u32);
        (begin + 1..begin + 41).for_each(|slot| segments.release(slot));
        assert_eq!((segments.garbage(), segments.clearable()), (2 * 256 - 109, 256 - 99));
        segments.unpin(next);
        assert_eq!((segments.garbage(), segments.clearable()), (2 * 256 - 109, 2 * 256 - 109));
    }
}
