//! Entries of an index, read in order. Those of indexes that are not unique end with a row.

use redb::{AccessGuard, Range, StorageError};

use crate::store::embedded::index::packed::HeldString;
use crate::store::embedded::index::packed::table::Stored;

/// Entries of an index, ascending; or descending with [`Entries::next_back`].
pub(crate) enum Entries<'a> {
    Unique(Range<'a, &'static [u8], u64>),
    Plain(Range<'a, &'static [u8], ()>),
    Packed(Stored<'a>),
}

impl<'a> Entries<'a> {
    /// The last entry that was not returned yet.
    pub(crate) fn next_back(&mut self) -> Option<Result<Entry<'a>, StorageError>> {
        Some(match self {
            Self::Unique(range) => range.next_back()?.map(|(key, row)| Entry::of_unique(key, row.value())),
            Self::Plain(range) => range.next_back()?.map(|(key, _)| Entry::of_plain(Bytes::Page(key))),
            Self::Packed(stored) => stored.next_back()?.map(of_held),
        })
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<Entry<'a>, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self {
            Self::Unique(range) => range.next()?.map(|(key, row)| Entry::of_unique(key, row.value())),
            Self::Plain(range) => range.next()?.map(|(key, _)| Entry::of_plain(Bytes::Page(key))),
            Self::Packed(stored) => stored.next()?.map(of_held),
        })
    }
}

fn of_held<'a>(entry: HeldString) -> Entry<'a> {
    Entry::of_plain(Bytes::Held(entry))
}

/// One entry of an index, where it is.
pub(crate) struct Entry<'a> {
    /// The row of the document.
    pub(crate) row: u64,
    stored: Bytes<'a>,
    key_length: usize,
}

enum Bytes<'a> {
    Page(AccessGuard<'a, &'static [u8]>),
    Held(HeldString),
}

impl Bytes<'_> {
    fn value(&self) -> &[u8] {
        match self {
            Self::Page(guard) => guard.value(),
            Self::Held(bytes) => bytes,
        }
    }
}

impl<'a> Entry<'a> {
    fn of_unique(stored: AccessGuard<'a, &'static [u8]>, row: u64) -> Self {
        let key_length = stored.value().len();
        Self { row, stored: Bytes::Page(stored), key_length }
    }

    fn of_plain(stored: Bytes<'a>) -> Self {
        let (row, key_length) = (row_behind(stored.value()), length_of_key(stored.value()));
        Self { row, stored, key_length }
    }

    /// The key as it is stored: of an index that is not unique with the row.
    pub(crate) fn stored_key(&self) -> &[u8] {
        self.stored.value()
    }

    /// The key, without the row.
    pub(crate) fn key(&self) -> &[u8] {
        &self.stored.value()[..self.key_length]
    }
}

/// How many bytes a row takes at the end of a key.
pub(crate) const ROW: usize = 8;

/// A key followed by its row.
pub(crate) fn with_row(key: &[u8], row: u64) -> Vec<u8> {
    let mut entry = Vec::with_capacity(key.len() + ROW);
    entry.extend_from_slice(key);
    entry.extend_from_slice(&row.to_be_bytes());
    entry
}

/// The length of the key of an entry that ends with its row.
pub(crate) fn length_of_key(entry: &[u8]) -> usize {
    entry.len().saturating_sub(ROW)
}

/// The row at the end of an entry.
pub(crate) fn row_behind(entry: &[u8]) -> u64 {
    entry[length_of_key(entry)..].iter().fold(0, |row, byte| row << 8 | u64::from(*byte))
}
