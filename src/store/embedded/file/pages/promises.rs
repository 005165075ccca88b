//! Promises: room for pages that are going to change, before they do.
//!
//! redb cannot go on when it meets a full disk, and what a [record](super::records) says has to fit into the pages later. So whoever
//! writes says first how many pages may change at the most, and the log has segments for them, filled with zeros, that nobody else gets.
//! How many pages a change may take is not known here, see [`room`](crate::store::embedded::write::room).
//!
//! | what is left free | by what adds | by what changes | by what removes | by opening |
//! |---|---|---|---|---|
//! | segments | 4 | 2 | 1 | 0 |
//!
//! *Invariant:* what was promised and is not written yet fits into segments that the file has.

use std::collections::HashSet;
use std::io;

use super::layout::{SEGMENT, SLOT};
use super::segments::{RESERVE, segment_of, slots_of};
use super::{Log, MOST_ROUNDS, Shared, Writer, is_full};

/// The pages of a commit that nobody counts: redb's header, its lists of pages that it gave up, the catalog.
const FIXED_PAGES: u64 = 40;
/// Where the file is large, a commit says as well which of its pages are free: redb writes a map of each region of 4 GiB.
const MAP_OF_REGION: u64 = 256;
const REGION: u64 = 1 << 20;
/// redb lists the pages that a commit gave up: one page of that for so many.
const LISTED: u64 = 4096;
/// What is left free even by what removes covers so many pages beyond a promise, where keys are so long that these numbers are too low.
const SLACK: u64 = SEGMENT as u64;
/// One slot for so many pages goes to heads of parts and to ends of segments.
const HEADS: u64 = 32;
/// So many more segments are left free by what adds documents. On a full disk they are the room in which what is there can be changed.
const KEPT_FROM_GROWTH: usize = 2;

/// What pages are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// So many bytes more than there were.
    Adding(u64),
    /// Something else in the place of what there was.
    Changing,
    /// So many bytes less: this may use the reserve.
    Removing(u64),
    /// What was promised before the store was opened: this may use all of it.
    Opening,
}

impl Use {
    /// How many segments are left free.
    fn kept(self) -> usize {
        match self {
            Self::Adding(_) => RESERVE + KEPT_FROM_GROWTH,
            Self::Changing => RESERVE,
            // To clear one takes another one.
            Self::Removing(_) => 1,
            Self::Opening => 0,
        }
    }
}

/// What was promised since pages last became durable, and what became of it.
#[derive(Debug)]
pub(super) struct Promises {
    /// How many pages may have changed.
    pages: u64,
    /// Of these redb has so many in its memory at the most, and those of one more value; the others are in the log.
    held_back: u64,
    /// The pages that redb has written before it had to.
    early: HashSet<u32>,
    /// A file of so many bytes is large.
    large_from: u64,
    /// The most pages that were promised at once.
    widest: u64,
    /// The most segments that this took since the last checkpoint.
    most: usize,
    /// How many pages may have to be written since the last promise, and how many were.
    due: u64,
    written: u64,
    /// On a full disk: so many bytes were taken away, and as many may be added. redb writes to pages that it has no use for any more before
    /// it takes new ones, and the log cannot know how many there are.
    given: u64,
}

impl Default for Promises {
    fn default() -> Self {
        let (held_back, large_from) = (u64::MAX, u64::MAX);
        let early = HashSet::new();
        Self { pages: 0, held_back, early, large_from, widest: 0, most: 0, due: 0, written: 0, given: 0 }
    }
}

impl Promises {
    /// So many pages were written.
    pub(super) fn note_written(&mut self, pages: usize) {
        self.written += pages as u64;
    }

    /// These pages are going to be written, maybe before their transaction ends.
    pub(super) fn note_early(&mut self, pages: &[u32]) {
        self.early.extend(pages);
    }

    /// So many pages will be written that did not change.
    pub(super) fn note_moved(&mut self, pages: usize) {
        self.due += pages as u64;
    }

    /// The pages are durable.
    pub(super) fn end(&mut self) {
        debug_assert!(
            self.pages == 0 || self.written <= self.due + SLACK,
            "{} pages were written, {} were promised",
            self.written,
            self.due
        );
        (self.pages, self.widest) = (0, 0);
        self.early.clear();
    }

    /// The most segments that were needed since this was last asked.
    pub(super) fn take_most(&mut self) -> usize {
        std::mem::take(&mut self.most)
    }
}

/// How many slots so many pages take with the heads of their parts, however they come.
fn slots_for(pages: u64) -> u64 {
    pages.saturating_add(pages / HEADS + 4)
}

impl Writer {
    /// The pages of a commit that nobody counts.
    fn fixed(&self, shared: &Shared) -> u64 {
        let pages = shared.map.len() as u64;
        let file = u64::from(self.segments.count()) * u64::from(SEGMENT) * SLOT as u64;
        let map = if file >= self.promises.large_from { (pages / REGION + 1) * MAP_OF_REGION } else { 0 };
        FIXED_PAGES + pages / LISTED + map
    }

    /// How many pages may have to be written yet.
    fn owed(&self, shared: &Shared) -> u64 {
        let Promises { pages, held_back, widest, ref early, .. } = self.promises;
        let staged = shared.staged.len() as u64;
        if pages == 0 {
            return staged;
        }
        // No more pages than the file has.
        let changed = pages.min(shared.map.len() as u64 + widest);
        if changed <= held_back {
            return staged + self.fixed(shared) + changed;
        }
        // redb takes every page of a transaction up again when it ends, for the checksums: what it writes early, it writes twice.
        let in_memory = staged.saturating_add(held_back).saturating_add(widest);
        in_memory.saturating_mul(2) + self.fixed(shared) + early.len() as u64
    }

    /// How many slots can be written when so many segments are left free.
    fn free_slots(&self, kept: usize) -> u64 {
        let rest = slots_of(segment_of(self.point.slot)).end - self.point.slot;
        let free = self.segments.free().checked_sub(kept);
        free.map_or(0, |free| u64::from(rest) + free as u64 * u64::from(SEGMENT))
    }
}

impl Log {
    /// Says how much memory redb may keep pages in that it has not written, and from how many bytes on a file is large.
    pub(crate) fn set_bounds(&self, held_back: usize, large_from: u64) {
        let promises = &mut self.writer().promises;
        (promises.held_back, promises.large_from) = ((held_back / SLOT) as u64, large_from);
    }

    /// Makes sure that so many more pages can be written, whatever becomes of the disk. `false` where there is no room: then nothing
    /// has changed.
    ///
    /// A promise holds until the pages are durable, see [`Log::release`].
    ///
    /// # Errors
    /// Reading or writing failed.
    pub(crate) fn promise(&self, pages: u64, use_: Use) -> io::Result<bool> {
        let mut writer = self.writer();
        writer.check()?;
        let slots = if writer.promises.pages == 0 { pages + writer.fixed(&self.shared()) } else { pages };
        let mut is_there = self.has_room(&mut writer, slots, use_.kept())?;
        let takes = match use_ {
            Use::Adding(_) if is_there => writer.promises.given,
            Use::Adding(bytes) if bytes <= writer.promises.given => bytes,
            _ => 0,
        };
        let kept = if takes > 0 { RESERVE } else { use_.kept() };
        is_there = is_there || self.win_room(&mut writer, slots, kept)?;
        if is_there {
            writer.promises.pages = writer.promises.pages.saturating_add(pages);
            writer.promises.widest = writer.promises.widest.max(pages);
            (writer.promises.due, writer.promises.written) = (writer.owed(&self.shared()), 0);
            writer.promises.given -= takes;
            if let Use::Removing(bytes) = use_ {
                writer.promises.given += bytes;
            }
        }
        Ok(is_there)
    }

    /// How many bytes are missing for so many more pages.
    pub(crate) fn missing(&self, pages: u64, use_: Use) -> u64 {
        let writer = self.writer();
        let needed = {
            let shared = self.shared();
            slots_for(writer.owed(&shared).saturating_add(pages) + writer.fixed(&shared))
        };
        needed.saturating_sub(writer.free_slots(use_.kept())).saturating_mul(SLOT as u64)
    }

    /// Whether so many more pages can be written beside those that were promised, with so many segments left free. Makes the file
    /// longer for that, where there is room.
    pub(super) fn has_room(&self, writer: &mut Writer, pages: u64, kept: usize) -> io::Result<bool> {
        let needed = slots_for(writer.owed(&self.shared()).saturating_add(pages));
        while writer.free_slots(kept) < needed {
            match self.add_segment(writer) {
                Err(error) if is_full(&error) => return Ok(false),
                added => added?,
            }
        }
        let segments = usize::try_from(needed.div_ceil(u64::from(SEGMENT))).unwrap_or(usize::MAX);
        writer.promises.most = writer.promises.most.max(segments);
        Ok(true)
    }

    /// On a full disk: clears segments until there is room, or no more can be won. What redb has written of a transaction that is not
    /// complete becomes durable with that, which redb expects of any file.
    fn win_room(&self, writer: &mut Writer, slots: u64, kept: usize) -> io::Result<bool> {
        for _ in 0..MOST_ROUNDS {
            if writer.is_changed {
                self.commit(writer)?;
            } else {
                self.checkpoint_if_due(writer)?;
            }
            if self.has_room(writer, slots, kept)? {
                return Ok(true);
            }
            self.clear_segments(writer, 0, 0)?;
            if self.shared().staged.is_empty() {
                break;
            }
            writer.is_changed = true;
        }
        Ok(false)
    }
}
