//! What was acknowledged and is not in the tables on disk yet.
//!
//! A commit of redb that is durable writes every page that it changed: leaves of tables and indexes all over the file, the pages
//! above them, and of a large file which pages are free. For a few documents that is a hundred times their size. So the rows that
//! a group of units wrote are appended to the log as one [record](Entry), which makes them durable; redb gets them in a commit that
//! is not, and every now and then one that is makes durable what many groups changed. A store that was killed applies
//! again, when it is opened, what its log has beyond its tables.
//!
//! *Invariants:*
//! - A record has the number of its commit. Each one beyond the last durable commit is there, and is applied in this order.
//! - What a record says follows from rows alone: applying it again asks no filter and no condition.

use bson::raw::RawDocument;
use redb::Database;

use crate::store::StoreError;

use super::batch::{Batch, Limits, Undo};
use super::catalog::Catalog;
use super::failure;
use super::pages::{Pages, Use};
use super::room::Room;
use super::tables::{DataDefinition, data_name};
use super::writer::store_collections;

/// The records that are not in the tables yet take at the most this part of the file ...
const PART_OF_FILE: u64 = 256;
/// ... but may take this much, in bytes. Little in tests of this crate, so that few units are many rounds.
const LEAST_BYTES: u64 = if cfg!(test) { 48 * 1024 } else { 256 * 1024 };
/// And never more than this: it has to be read and applied when the store is opened after a kill.
const MOST_BYTES: u64 = 4 * 1024 * 1024;
/// The largest record. What changes more is durable in the tables at once, which pays then.
const LARGEST: usize = if cfg!(test) { 16 * 1024 } else { 512 * 1024 };
/// What a record takes in the log beside its own bytes, about.
const BESIDE: u64 = 6 * 1024;

/// The tags of entries. Who changes what they mean raises the layout of the log.
const STORED: u8 = 1;
const REMOVED: u8 = 2;
const LAST_ID: u8 = 3;

/// Something that a group changed, as a record holds it: a tag, little-endian numbers, and a document behind its length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Entry<'a> {
    /// The document of a row, or that there is none any more.
    Row { collection: u32, row: u64, document: Option<&'a RawDocument> },
    /// Ids up to this one are taken.
    LastId { collection: u32, id: i64 },
}

/// What the units of a group wrote, as a record.
#[derive(Debug, Default)]
pub(super) struct Writing {
    bytes: Vec<u8>,
    /// How much of it units have written that were applied as a whole.
    kept: usize,
    /// Whether this group is none that a record can hold.
    is_off: bool,
}

impl Writing {
    /// For a group that will be durable in the tables.
    pub(super) fn off() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// The group does what a record cannot say.
    pub(super) fn give_up(&mut self) {
        *self = Self::off();
    }

    pub(super) fn add(&mut self, entry: Entry<'_>) {
        if self.is_off {
            return;
        }
        match entry {
            Entry::Row { collection, row, document } => {
                self.bytes.push(if document.is_some() { STORED } else { REMOVED });
                self.bytes.extend_from_slice(&collection.to_le_bytes());
                self.bytes.extend_from_slice(&row.to_le_bytes());
                self.bytes.extend_from_slice(document.map_or(&[], RawDocument::as_bytes));
            }
            Entry::LastId { collection, id } => {
                self.bytes.push(LAST_ID);
                self.bytes.extend_from_slice(&collection.to_le_bytes());
                self.bytes.extend_from_slice(&id.to_le_bytes());
            }
        }
        if self.bytes.len() > LARGEST {
            self.give_up();
        }
    }

    /// What was added since belongs to a unit that was applied.
    pub(super) fn keep(&mut self) {
        self.kept = self.bytes.len();
    }

    /// What was added since belongs to a unit that left no trace.
    pub(super) fn forget(&mut self) {
        self.bytes.truncate(self.kept);
    }

    /// The record; `None` when there can be none.
    pub(super) fn into_record(self) -> Option<Vec<u8>> {
        (!self.is_off).then_some(self.bytes)
    }
}

/// The entries of a record.
pub(super) struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    pub(super) fn of(record: &'a [u8]) -> Self {
        Self(record)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn entry(&mut self) -> Option<Entry<'a>> {
        let [tag] = self.take()?;
        let collection = u32::from_le_bytes(self.take()?);
        let number = self.take()?;
        let row = u64::from_le_bytes(number);
        match tag {
            STORED => {
                // A document begins with its length.
                let length = usize::try_from(u32::from_le_bytes(*self.0.first_chunk()?)).ok()?;
                let (document, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                let document = RawDocument::from_bytes(document).ok()?;
                Some(Entry::Row { collection, row, document: Some(document) })
            }
            REMOVED => Some(Entry::Row { collection, row, document: None }),
            LAST_ID => Some(Entry::LastId { collection, id: i64::from_le_bytes(number) }),
            _ => None,
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_none() {
            self.0 = &[];
        }
        Some(entry.ok_or_else(|| StoreError::Corrupt { what: "a write in the log cannot be read".to_owned() }))
    }
}

/// Where the writer appends records.
#[derive(Debug, Default)]
pub(super) struct Journal {
    /// None where nothing is to be written to the file.
    log: Option<Pages>,
    /// What the records take that are not in the tables on disk.
    held: u64,
}

impl Journal {
    pub(super) fn of(log: Pages) -> Self {
        Self { log: Some(log), held: 0 }
    }

    /// Who is asked for room for the pages that follow.
    pub(super) fn room(&self) -> Room {
        self.log.as_ref().map_or_else(Room::boundless, Room::of)
    }

    /// Whether there are records that are not in the tables on disk.
    pub(super) fn holds(&self) -> bool {
        self.held > 0
    }

    /// Makes a record durable. `false`: it is time that the tables are.
    ///
    /// # Errors
    /// The storage failed.
    pub(super) fn append(&mut self, commit: u64, record: &[u8], file_bytes: u64) -> Result<bool, StoreError> {
        let Some(log) = &self.log else { return Ok(false) };
        let taken = record.len() as u64 + BESIDE;
        let most = (file_bytes / PART_OF_FILE).clamp(LEAST_BYTES, MOST_BYTES);
        if self.held + taken > most || !log.append(commit, record).map_err(|error| failure::unavailable(&error))? {
            return Ok(false);
        }
        self.held += taken;
        Ok(true)
    }

    /// On a full disk: has what opening the file took won back.
    ///
    /// # Errors
    /// The storage failed.
    pub(super) fn make_room(&self) -> Result<(), StoreError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.promise(0, Use::Removing(0)).map(drop).map_err(StoreError::backend)
    }

    /// The transaction behind this commit was given up: it needs no room any more.
    pub(super) fn forget(&mut self, commit: u64) {
        if !self.holds() {
            self.release(commit);
        }
    }

    /// All commits up to this one are in the tables on disk.
    pub(super) fn release(&mut self, commit: u64) {
        self.held = 0;
        if let Some(log) = &self.log
            && let Err(error) = log.release(commit)
        {
            // The next write will find that out.
            log::error!("the map of the pages of the store cannot be written: {error}");
        }
    }
}

/// The records of a log that go beyond the tables, with the numbers of their commits.
pub(super) type Records = Vec<(u64, Vec<u8>)>;

/// Applies records to the tables, durably; gives the catalog as it is then.
///
/// # Errors
/// The storage failed, or the records do not belong to this catalog; [`StoreError::NoRoom`] when there is no room for that.
pub(super) fn replay(
    database: &Database,
    catalog: Catalog,
    records: &[(u64, Vec<u8>)],
    limits: Limits,
    quick_repair: bool,
    room: &Room,
) -> Result<Catalog, StoreError> {
    let mut transaction = database.begin_write().map_err(|error| failure::of_engine(error.into()))?;
    transaction.set_quick_repair(quick_repair);
    let replayed = failure::guarded(|| {
        let mut commit = catalog.commit;
        let mut batch = Batch::new(&transaction, catalog, limits, Undo::Transaction, room);
        for (number, record) in records {
            if *number != commit + 1 {
                return Err(StoreError::Corrupt { what: format!("the write {} is not in the log", commit + 1) });
            }
            commit = *number;
            Entries::of(record).try_for_each(|entry| batch.redo(entry?))?;
        }
        let (mut catalog, touched, _) = batch.into_parts()?;
        catalog.commit = commit - 1;
        store_collections(&transaction, &mut catalog, touched)?;
        Ok(catalog)
    });
    if room.missing() > 0 {
        let _ = failure::caught(|| transaction.abort());
        return Err(StoreError::NoRoom { what: format!("{} commits that are in the log alone", records.len()) });
    }
    let catalog = replayed?;
    transaction.commit().map_err(|error| failure::of_engine(error.into()))?;
    Ok(catalog)
}

/// Stores and removes the documents that records speak of, and nothing else: indexes and what the catalog knows of them are to be made
/// anew.
///
/// # Errors
/// As [`replay`].
pub(super) fn store_documents(
    database: &Database,
    catalog: &mut Catalog,
    records: &[(u64, Vec<u8>)],
) -> Result<(), StoreError> {
    failure::guarded(|| {
        let transaction = database.begin_write().map_err(|error| failure::of_engine(error.into()))?;
        for (number, record) in records {
            catalog.commit = *number;
            for entry in Entries::of(record) {
                match entry? {
                    Entry::LastId { collection, id } => catalog.at(collection).note_id(id),
                    Entry::Row { collection, row, document } => {
                        let name = data_name(collection);
                        let table = transaction.open_table(DataDefinition::new(&name));
                        let mut table = table.map_err(failure::of_table)?;
                        match document {
                            Some(document) => table.insert(row, document.as_bytes()).map(drop),
                            None => table.remove(row).map(drop),
                        }
                        .map_err(failure::of_storage)?;
                    }
                }
            }
        }
        transaction.commit().map_err(|error| failure::of_engine(error.into()))
    })
}

#[cfg(test)]
mod tests {
    use bson::raw::RawDocumentBuf;
    use bson::rawdoc;

    use super::*;

    fn read(record: &[u8]) -> Result<Vec<Entry<'_>>, StoreError> {
        Entries::of(record).collect()
    }

    #[test]
    fn a_record_says_what_units_wrote_that_were_applied() {
        let (one, two): (RawDocumentBuf, _) = (rawdoc! { "_id": 1 }, rawdoc! { "_id": 2, "text": "x" });
        let entries = [
            Entry::Row { collection: 3, row: 1 << 40, document: Some(&one) },
            Entry::Row { collection: 0, row: 7, document: None },
            Entry::LastId { collection: 3, id: -1 },
            Entry::Row { collection: 3, row: 8, document: Some(&two) },
        ];
        let mut writing = Writing::default();
        for entry in entries {
            writing.add(entry);
            writing.keep();
            writing.add(entries[0]);
            writing.forget();
        }
        let record = writing.into_record().expect("it is small");
        assert_eq!(read(&record).expect("it is whole"), entries);
        for cut in [1, 5, record.len() - 1] {
            assert!(matches!(read(&record[..cut]), Err(StoreError::Corrupt { .. })), "cut off at {cut}");
        }
    }

    #[test]
    fn a_group_that_is_too_large_has_no_record() {
        let document = rawdoc! { "_id": 1, "text": "x".repeat(LARGEST / 2) };
        let mut writing = Writing::default();
        for row in 0..3 {
            writing.add(Entry::Row { collection: 0, row, document: Some(&document) });
            writing.keep();
        }
        assert_eq!(writing.into_record(), None);
    }
}
