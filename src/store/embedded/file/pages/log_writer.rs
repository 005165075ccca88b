//! The state of the log that only its writer needs, and the phases that the file and a batch go through.

use std::io;

use super::layout::{Point, Record, Superblock};
use super::promises::Promises;
use super::recovery::End;
use super::segments::Segments;

/// What this process has done to the file, and may still do to it.
///
/// `Opened` becomes `Written` with the first write. Both become `Failed` and `Closed`, which are final: only a log that was
/// opened again can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing new was written. Closing leaves the file as it is.
    Opened,
    /// Something was written. Closing writes a checkpoint, unless a batch or a record forbids that.
    Written,
    /// A write or a sync failed, so the contents of the file are unknown.
    Failed,
    /// The file is closed, and another process may have it.
    Closed,
}

/// How far the batch is: what redb has changed since the last sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageBatch {
    /// Nothing was changed. The next sync has nothing to do.
    Empty,
    /// All changes are in memory: staged pages, another length.
    Staged,
    /// First parts are in the file. The next sync writes the last one.
    Begun {
        /// How many pages of the batch are in the file.
        pages: usize,
    },
}

impl PageBatch {
    /// There is a change in memory.
    pub(super) fn stage(&mut self) {
        if *self == Self::Empty {
            *self = Self::Staged;
        }
    }

    /// Counts a part of this number of pages that is now in the file.
    pub(super) fn add_part(&mut self, pages: usize) {
        *self = Self::Begun { pages: self.pages_in_file() + pages };
    }

    /// How many pages of the batch are in the file.
    pub(super) fn pages_in_file(self) -> usize {
        match self {
            Self::Empty | Self::Staged => 0,
            Self::Begun { pages } => pages,
        }
    }

    /// Whether a part of the batch is in the file.
    pub(super) fn is_begun(self) -> bool {
        matches!(self, Self::Begun { .. })
    }
}

/// What writing needs. [`Log::writer`](super::log::Log::writer) locks it.
#[derive(Debug)]
pub(super) struct LogWriter {
    pub(super) phase: Phase,
    pub(super) batch: PageBatch,
    pub(super) segments: Segments,
    /// Where the next part goes.
    pub(super) point: Point,
    /// The newest superblock.
    pub(super) superblock: Superblock,
    /// The slots of pages that the batch replaces. The next sync frees them.
    pub(super) replaced: Vec<u32>,
    /// The smallest length since the last part.
    pub(super) floor: u64,
    /// How many slots were written since the last checkpoint.
    pub(super) slots: u64,
    /// After a checkpoint without room: how many slots have to be written before the next attempt.
    pub(super) retry_from: u64,
    /// The end of the log as it was opened; `None` from the moment when it is on disk for sure. The first write makes it so. A log that
    /// this process has created has none.
    pub(super) end_in_doubt: Option<End>,
    /// Whether the disk had no room for another segment.
    pub(super) is_full: bool,
    /// The records that the pages do not contain yet, see [`append`](super::append).
    pub(super) records: Vec<Record>,
    /// The room that was promised, see [`reserve`](super::reserve).
    pub(super) promises: Promises,
    /// The bytes of a part, kept for the next one.
    pub(super) buffer: Vec<u8>,
}

impl LogWriter {
    /// The file is written to from now on.
    pub(super) fn note_written(&mut self) {
        if self.phase == Phase::Opened {
            self.phase = Phase::Written;
        }
    }

    /// Runs work that writes or syncs. After its error nothing more is written.
    pub(super) fn failing<T>(&mut self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let done = work();
        if let Err(error) = &done {
            self.fail();
            self.is_full |= is_full(error);
        }
        done
    }

    /// Nothing more is written.
    pub(super) fn fail(&mut self) {
        self.phase = Phase::Failed;
    }

    /// # Errors
    /// Nothing more is written.
    pub(super) fn check(&self) -> io::Result<()> {
        match self.phase {
            Phase::Opened | Phase::Written => Ok(()),
            Phase::Failed | Phase::Closed => Err(io::Error::other("writing to the store has failed before")),
        }
    }
}

/// Whether an error says that the disk is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
