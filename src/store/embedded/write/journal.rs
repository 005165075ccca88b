//! The journal: acknowledged changes that are not in the tables on disk yet.
//!
//! A durable commit of redb writes every page that it changed: leaves of tables and indexes, and the pages above them.
//! In a large file the list of free pages is added. For a few documents that is a hundred times their size.
//!
//! So the log gets the rows of a group as one [record](crate::store::embedded::write::record::RecordEntry). This record
//! makes them durable. redb gets them in a commit without a sync. From time to time a table commit makes the changes of
//! many groups durable in the tables. After a kill, opening replays the records that the tables lack.
//!
//! *Invariants:*
//! - A record has the number of its commit. The log has each record after the last table commit, and replays them in
//!   this order.
//! - A record consists of rows, so replaying it needs no filter and no condition.

use crate::store::StoreError;
use crate::store::embedded::failure;
use crate::store::embedded::file::pages::{Pages, Use};
use crate::store::embedded::write::room::Room;

/// The records that are not in the tables yet take at most this part of the file ...
const PART_OF_FILE: u64 = 256;
/// ... but may always take this many bytes. Small in tests of this crate, so that few units make many rounds.
const LEAST_BYTES: u64 = if cfg!(test) { 48 * 1024 } else { 256 * 1024 };
/// And never more than this, because opening after a kill has to replay them.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// The approximate number of bytes that a record takes in the log in addition to its own.
const BESIDE: u64 = 6 * 1024;

/// Where the writer appends records.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// None if nothing may be written to the file.
    log: Option<Pages>,
    /// The bytes of the records that are not in the tables on disk.
    held: u64,
}

impl Journal {
    pub(crate) fn of(log: Pages) -> Self {
        Self { log: Some(log), held: 0 }
    }

    /// Reserves room for the pages that follow.
    pub(crate) fn room(&self) -> Room {
        self.log.as_ref().map_or_else(Room::boundless, Room::of)
    }

    /// Whether there are records that are not in the tables on disk.
    pub(crate) fn holds(&self) -> bool {
        self.held > 0
    }

    /// Makes a record durable. `false`: a table commit is due instead.
    ///
    /// # Errors
    /// The storage failed.
    pub(crate) fn append(&mut self, commit: u64, record: &[u8], file_bytes: u64) -> Result<bool, StoreError> {
        let Some(log) = &self.log else { return Ok(false) };
        let taken = record.len() as u64 + BESIDE;
        let most = (file_bytes / PART_OF_FILE).clamp(LEAST_BYTES, MOST_BYTES);
        if self.held + taken > most || !log.append(commit, record).map_err(|error| failure::unavailable(&error))? {
            return Ok(false);
        }
        self.held += taken;
        Ok(true)
    }

    /// On a full disk: frees the room that opening the file took.
    ///
    /// # Errors
    /// The storage failed.
    pub(crate) fn make_room(&self) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.promise(0, Use::Removing(0)).map(drop).map_err(StoreError::backend)
    }

    /// The transaction of this commit was aborted: it needs no room any more.
    pub(crate) fn forget(&mut self, commit: u64) {
        if !self.holds() {
            self.release(commit);
        }
    }

    /// All commits up to this one are in the tables on disk.
    pub(crate) fn release(&mut self, commit: u64) {
        self.held = 0;
        if let Some(log) = &self.log
            && let Err(error) = log.release(commit)
        {
            // The next write will find that out.
            log::error!("the map of the pages of the store cannot be written: {error}");
        }
    }
}
