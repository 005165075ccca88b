//! How much room a change may need on disk. It is asked for before the change is made, so that redb never meets a full disk.
//!
//! All these are bounds: a tree may have to write the leaf that a key is in, one beside it, and the page above them. A commit that writes
//! more than was promised fails a trial.

use std::cell::Cell;

use crate::store::StoreError;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::{Pages, Use};

/// redb's pages.
const PAGE: u64 = 4096;
/// A key that comes or goes: the leaves and the page above them, in its index and where its entries are counted.
const KEY: u64 = 6;
/// A document: the leaves and the page above them.
const DOCUMENT: u64 = 4;
/// A table: the pages from its root on, and what leads to it.
const TABLE: u64 = 5;
/// redb lists so many pages that it gives up in one.
const LISTED: u64 = 400;
/// The notes of the catalog about a collection.
const NOTES: u64 = 4;

/// Who is asked for room.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// None where nothing is asked.
    log: Option<Pages>,
    /// Whether work goes on where there is none, to find out how much is missing.
    is_counted: bool,
    missing: Cell<u64>,
}

impl Room {
    /// As much as anybody wants: for a file that takes no place of another one yet, and for memory.
    pub(crate) fn boundless() -> Self {
        Self::default()
    }

    pub(crate) fn of(log: &Pages) -> Self {
        Self { log: Some(log.clone()), ..Self::default() }
    }

    /// For what was promised before the store was opened. Where there is none, work goes on that will be given up, to find out how much
    /// is missing.
    pub(crate) fn counted(log: &Pages) -> Self {
        Self { is_counted: true, ..Self::of(log) }
    }

    /// What may change when so many tables are dropped: redb lists the pages that it gives up.
    pub(crate) fn of_dropped_tables(&self, tables: usize) -> u64 {
        let pages = self.log.as_ref().map_or(0, |log| log.count());
        tables as u64 * TABLE + pages / LISTED
    }

    /// How many bytes were missing.
    pub(crate) fn missing(&self) -> u64 {
        self.missing.get()
    }

    /// Whether there is room for what is not needed now.
    ///
    /// # Errors
    /// The storage failed.
    pub(crate) fn allows(&self, pages: u64) -> Result<bool, StoreError> {
        match self.promise(pages, Use::Adding(u64::MAX), String::new) {
            Err(StoreError::NoRoom { .. }) => Ok(false),
            promised => promised.map(|()| true),
        }
    }

    /// Has room promised for pages that are going to change, on behalf of `what`.
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

/// What opening the tables of a collection may change, with so many indexes.
pub(crate) fn of_tables(indexes: usize) -> u64 {
    (indexes as u64 + 2) * TABLE + NOTES
}

/// What a key of so many bytes may change that comes or goes.
pub(crate) fn of_key(bytes: usize) -> u64 {
    KEY + 16 * bytes as u64 / PAGE
}

/// What so many entries may change that go into an index in order.
pub(crate) fn of_sorted_entries(entries: usize) -> u64 {
    TABLE + 3 * entries as u64
}

/// What so many bytes of keys may change that come in order into an index that has so many.
pub(crate) fn of_sorted_keys(bytes: u64, known: u64) -> u64 {
    TABLE + 3 * (bytes + known).div_ceil(PAGE)
}

/// What a document may change that comes, goes or gives way to another one, of so many bytes at the most.
pub(crate) fn of_document(bytes: usize) -> u64 {
    // Pages are powers of two.
    DOCUMENT + 2 * (bytes as u64).div_ceil(PAGE)
}
