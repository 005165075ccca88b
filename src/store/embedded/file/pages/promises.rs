//! What was promised, see [`Log::promise`](super::log::Log::promise), and which of it was used.

use std::collections::HashSet;

use super::layout::SEGMENT;
use super::segments::RESERVE;

/// The number of pages that even removals leave free beyond their promise. Very long keys need more pages than the promise
/// counts.
const SLACK: u64 = SEGMENT as u64;
/// The number of further segments left free by writes that add documents. On a full disk, what is there can still be changed
/// in them.
const KEPT_FROM_GROWTH: usize = 2;

/// What pages are needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Adds this number of bytes.
    Adding(u64),
    /// Replaces existing content.
    Changing,
    /// Frees this number of bytes: this may use the reserve.
    Removing(u64),
    /// What was promised before the store was opened: this may use all of it.
    Opening,
}

impl Use {
    /// How many segments are left free.
    pub(super) fn kept(self) -> usize {
        match self {
            Self::Adding(_) => RESERVE + KEPT_FROM_GROWTH,
            Self::Changing => RESERVE,
            // To clear one takes another one.
            Self::Removing(_) => 1,
            Self::Opening => 0,
        }
    }
}

/// What was promised since pages last became durable, and which of it was used.
#[derive(Debug)]
pub(super) struct Promises {
    /// How many pages may have changed.
    pub(super) pages: u64,
    /// The maximum number of them that redb has in memory, besides those of one more value; the others are in the log.
    pub(super) held_back: u64,
    /// The pages that redb has written before it had to.
    pub(super) early: HashSet<u32>,
    /// The size in bytes from which a file counts as large.
    pub(super) large_from: u64,
    /// The maximum number of pages that were promised at once.
    pub(super) widest: u64,
    /// The maximum number of segments that this took since the last checkpoint.
    pub(super) most: usize,
    /// How many pages may have to be written since the last promise, and how many were.
    pub(super) due: u64,
    pub(super) written: u64,
    /// On a full disk: the number of bytes taken away; as many may be added. redb reuses
    /// its free pages before it takes new ones, and the log does not know how many it has.
    pub(super) given: u64,
}

impl Default for Promises {
    fn default() -> Self {
        let (held_back, large_from) = (u64::MAX, u64::MAX);
        let early = HashSet::new();
        Self { pages: 0, held_back, early, large_from, widest: 0, most: 0, due: 0, written: 0, given: 0 }
    }
}

impl Promises {
    /// Counts this number of pages as written.
    pub(super) fn note_written(&mut self, pages: usize) {
        self.written += pages as u64;
    }

    /// These pages are going to be written, maybe before their transaction ends. Of a file for which nothing is promised, as of one
    /// that is compacted, this remembers nothing.
    pub(super) fn note_early(&mut self, pages: &[u32]) {
        if self.pages > 0 {
            self.early.extend(pages);
        }
    }

    /// Announces that this number of unchanged pages will be written.
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

    /// The maximum number of segments that were needed since the last call.
    pub(super) fn take_most(&mut self) -> usize {
        std::mem::take(&mut self.most)
    }
}
