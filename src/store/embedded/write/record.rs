//! A record: the rows that the units of a group wrote, as bytes of the log.
//!
//! *Invariant:* a record consists of rows, so replaying it needs no filter and no condition.

use bson::raw::RawDocument;

use crate::store::StoreError;

/// The largest record. A group that changes more ends with a table commit, which then pays.
const LARGEST: usize = if cfg!(test) { 16 * 1024 } else { 512 * 1024 };
/// The tags of entries. A change of their meaning needs a new layout of the log.
const STORED: u8 = 1;
const REMOVED: u8 = 2;
const LAST_ID: u8 = 3;

/// One change of a group in a record: a tag, little-endian numbers, and a document, which begins with its length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RecordEntry<'a> {
    /// The document of a row, or its removal.
    Row { collection: u32, row: u64, document: Option<&'a RawDocument> },
    /// Ids up to this one are taken.
    LastId { collection: u32, id: i64 },
}

/// Builds the record of a group.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    bytes: Vec<u8>,
    /// The length of the part that completely applied units wrote.
    kept: usize,
    /// Whether a record cannot hold this group.
    is_off: bool,
}

impl Writing {
    /// For a group that ends with a table commit.
    pub(crate) fn off() -> Self {
        Self { is_off: true, ..Self::default() }
    }

    /// The group makes a change that a record cannot hold.
    pub(crate) fn give_up(&mut self) {
        *self = Self::off();
    }

    pub(crate) fn add(&mut self, entry: RecordEntry<'_>) {
        if self.is_off {
            return;
        }
        match entry {
            RecordEntry::Row { collection, row, document } => {
                self.bytes.push(if document.is_some() { STORED } else { REMOVED });
                self.bytes.extend_from_slice(&collection.to_le_bytes());
                self.bytes.extend_from_slice(&row.to_le_bytes());
                self.bytes.extend_from_slice(document.map_or(&[], RawDocument::as_bytes));
            }
            RecordEntry::LastId { collection, id } => {
                self.bytes.push(LAST_ID);
                self.bytes.extend_from_slice(&collection.to_le_bytes());
                self.bytes.extend_from_slice(&id.to_le_bytes());
            }
        }
        if self.bytes.len() > LARGEST {
            self.give_up();
        }
    }

    /// Keeps the entries added since: their unit was applied.
    pub(crate) fn keep(&mut self) {
        self.kept = self.bytes.len();
    }

    /// Drops the entries added since: their unit was undone.
    pub(crate) fn forget(&mut self) {
        self.bytes.truncate(self.kept);
    }

    /// The record; `None` when there can be none.
    pub(crate) fn into_record(self) -> Option<Vec<u8>> {
        (!self.is_off).then_some(self.bytes)
    }
}

/// The entries of a record.
pub(crate) struct RecordEntries<'a>(&'a [u8]);

impl<'a> RecordEntries<'a> {
    pub(crate) fn of(record: &'a [u8]) -> Self {
        Self(record)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn entry(&mut self) -> Option<RecordEntry<'a>> {
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
                Some(RecordEntry::Row { collection, row, document: Some(document) })
            }
            REMOVED => Some(RecordEntry::Row { collection, row, document: None }),
            LAST_ID => Some(RecordEntry::LastId { collection, id: i64::from_le_bytes(number) }),
            _ => None,
        }
    }
}

impl<'a> Iterator for RecordEntries<'a> {
    type Item = Result<RecordEntry<'a>, StoreError>;

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

#[cfg(test)]
mod tests {
    use bson::raw::RawDocumentBuf;
    use bson::rawdoc;

    use super::*;

    fn read(record: &[u8]) -> Result<Vec<RecordEntry<'_>>, StoreError> {
        RecordEntries::of(record).collect()
    }

    #[test]
    fn a_record_says_what_units_wrote_that_were_applied() {
        let (one, two): (RawDocumentBuf, _) = (rawdoc! { "_id": 1 }, rawdoc! { "_id": 2, "text": "x" });
        let entries = [
            RecordEntry::Row { collection: 3, row: 1 << 40, document: Some(&one) },
            RecordEntry::Row { collection: 0, row: 7, document: None },
            RecordEntry::LastId { collection: 3, id: -1 },
            RecordEntry::Row { collection: 3, row: 8, document: Some(&two) },
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
            writing.add(RecordEntry::Row { collection: 0, row, document: Some(&document) });
            writing.keep();
        }
        assert_eq!(writing.into_record(), None);
    }
}
