//! An upper bound of the room that a change needs on disk. It is reserved before the change, so that redb never meets a
//! full disk.
//!
//! All these are bounds: a tree may have to write the leaf that a key is in, its neighbour, and the page above them. A
//! trial fails if a commit writes more than was promised.

use std::cell::Cell;

use crate::store::StoreError;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::{Pages, Use};
use crate::store::embedded::index::gathered::CHUNK;

/// redb's pages.
const PAGE: u64 = 4096;
/// An added or removed key: the leaves and the page above them, in its index and in the count blocks.
const KEY: u64 = 6;
/// A document: the leaves and the page above them.
const DOCUMENT: u64 = 4;
/// A table: the pages from its root on, and what leads to it.
const TABLE: u64 = 5;
/// How many freed pages redb lists in one page.
const LISTED: u64 = 400;
/// The notes of the catalog about a collection.
const NOTES: u64 = 4;

/// The log that reserves room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// None where no room is reserved.
    log: Option<Pages>,
    /// Whether work continues without room, to find out how much is missing.
    is_counted: bool,
    missing: Cell<u64>,
}

impl Room {
    /// Unlimited room: for a new file that replaces no other one yet, and for memory.
    pub(crate) fn boundless() -> Self {
        Self::default()
    }

    pub(crate) fn of(log: &Pages) -> Self {
        Self { log: Some(log.clone()), ..Self::default() }
    }

    /// For room that was promised before the store was opened. Without room, the work continues to find out how much is
    /// missing, and is then aborted.
    pub(crate) fn counted(log: &Pages) -> Self {
        Self { is_counted: true, ..Self::of(log) }
    }

    /// The pages that change when this many tables are dropped: redb lists the freed pages.
    pub(crate) fn of_dropped_tables(&self, tables: usize) -> u64 {
        let pages = self.log.as_ref().map_or(0, |log| log.count());
        tables as u64 * TABLE + pages / LISTED
    }

    /// How many bytes were missing.
    pub(crate) fn missing(&self) -> u64 {
        self.missing.get()
    }

    /// Whether there is room for optional work.
    ///
    /// # Errors
    /// The storage failed.
    pub(crate) fn allows(&self, pages: u64) -> Result<bool, StoreError> {
        match self.promise(pages, Use::Adding(u64::MAX), String::new) {
            Err(StoreError::NoRoom { .. }) => Ok(false),
            promised => promised.map(|()| true),
        }
    }

    /// Reserves room for pages that are going to change, for `what`.
    ///
    /// # Errors
    /// [`StoreError::NoRoom`]; nothing has changed then.
    pub(crate) fn promise(&self, pages: u64, use_: Use, what: impl FnOnce() -> String) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        let use_ = if self.is_counted { Use::Opening } else { use_ };
        if self.missing.get() > 0 {
            self.missing.set(self.missing.get() + pages * PAGE);
            return Ok(());
        }
        if log.promise(pages, use_).map_err(|error| failure::unavailable(&error))? {
            return Ok(());
        }
        if self.is_counted {
            self.missing.set(log.missing(pages, use_).max(PAGE));
            return Ok(());
        }
        Err(StoreError::NoRoom { what: what() })
    }
}

/// The pages that change when the tables of a collection with this many indexes are opened.
pub(crate) fn of_tables(indexes: usize) -> u64 {
    (indexes as u64 + 2) * TABLE + NOTES
}

/// The pages that change with the added and removed keys of one document, by their lengths.
///
/// Gathered keys are merged a chunk at a time, and each chunk after the first one asks for its own room. Here, the keys after
/// the first chunk count with the pages that they fill.
pub(crate) fn of_keys(lengths: impl Iterator<Item = usize>, are_gathered: bool) -> u64 {
    let (mut pages, mut later) = (0, 0);
    for (number, bytes) in lengths.enumerate() {
        if are_gathered && number >= CHUNK {
            later += bytes as u64;
        } else {
            pages += of_key(bytes);
        }
    }
    if later == 0 { pages } else { pages + of_sorted_keys(later, 0) }
}

/// The pages that change with an added or removed key of this many bytes.
fn of_key(bytes: usize) -> u64 {
    KEY + 16 * bytes as u64 / PAGE
}

/// The pages that change when this many sorted entries are merged into an index.
pub(crate) fn of_sorted_entries(entries: usize) -> u64 {
    TABLE + 3 * entries as u64
}

/// The pages that change when this many bytes of sorted keys are added to an index of this size.
pub(crate) fn of_sorted_keys(bytes: u64, known: u64) -> u64 {
    TABLE + 3 * (bytes + known).div_ceil(PAGE)
}

/// The pages that change when a document of at most this many bytes is added, removed or replaced.
pub(crate) fn of_document(bytes: usize) -> u64 {
    // Pages are powers of two.
    DOCUMENT + 2 * (bytes as u64).div_ceil(PAGE)
}
