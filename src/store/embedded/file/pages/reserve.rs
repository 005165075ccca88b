//! Promises: room for pages that are going to change, before they do.
//!
//! redb fails for good when it meets a full disk, and what a [record](crate::store::embedded::file::pages::layout) says has to fit into the pages later.
//! So each writer first reserves the maximum number of pages that may change. The log has segments for them, filled with
//! zeros, that nobody else gets. How many pages a change may take is not known here, see
//! [`room`](crate::store::embedded::write::room).
//!
//! Some segments are left free: 4 by what adds, 2 by what changes, 1 by what removes, none by opening.
//!
//! *Invariant:* what was promised and is not written yet fits into segments that the file has.

use std::io;

use super::layout::{SEGMENT, SLOT};
use super::log::{Log, Shared};
use super::log_writer::{LogWriter, PageBatch, is_full};
use super::promises::{Promises, Use};
use super::segments::{RESERVE, segment_of, slots_of};

/// The pages of a commit that no promise counts: redb's header, its lists of pages that it gave up, the catalog.
const FIXED_PAGES: u64 = 40;
/// Where the file is large, a commit says as well which of its pages are free: redb writes a map of each region of 4 GiB.
const MAP_OF_REGION: u64 = 256;
const REGION: u64 = 1 << 20;
/// The number of freed pages that fit into one page of redb's list of the pages that a commit gave up.
const LISTED: u64 = 4096;
/// One slot of this number of pages goes to heads of parts and to ends of segments.
const HEADS: u64 = 32;

/// The maximum number of times that one promise clears segments on a full disk.
const MOST_ROUNDS: usize = 64;

/// The maximum number of slots that this number of pages takes, with the heads of their parts.
fn slots_for(pages: u64) -> u64 {
    pages.saturating_add(pages / HEADS + 4)
}

impl LogWriter {
    /// The pages of a commit that no promise counts.
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

    /// The number of slots that can be written with `kept` segments left free.
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

    /// Makes sure that this number of further pages can be written, whatever becomes of the disk. `false` where there is no
    /// room: then nothing has changed.
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

    /// The number of bytes that are missing for this number of further pages.
    pub(crate) fn missing(&self, pages: u64, use_: Use) -> u64 {
        let writer = self.writer();
        let needed = {
            let shared = self.shared();
            slots_for(writer.owed(&shared).saturating_add(pages) + writer.fixed(&shared))
        };
        needed.saturating_sub(writer.free_slots(use_.kept())).saturating_mul(SLOT as u64)
    }

    /// Whether `pages` further pages can be written in addition to those that were promised, with `kept` segments left free.
    /// Makes the file longer for that, where there is room.
    pub(super) fn has_room(&self, writer: &mut LogWriter, pages: u64, kept: usize) -> io::Result<bool> {
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
    fn win_room(&self, writer: &mut LogWriter, slots: u64, kept: usize) -> io::Result<bool> {
        for _ in 0..MOST_ROUNDS {
            match writer.batch {
                PageBatch::Empty => self.checkpoint_if_due(writer)?,
                PageBatch::Staged | PageBatch::Begun { .. } => self.commit(writer)?,
            }
            if self.has_room(writer, slots, kept)? {
                return Ok(true);
            }
            self.clear_segments(writer, 0, 0)?;
            if self.shared().staged.is_empty() {
                break;
            }
            writer.batch.stage();
        }
        Ok(false)
    }
}
