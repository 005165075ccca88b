//! Entries of an index, read in order.

use redb::{AccessGuard, Range, StorageError};

use super::packed::table::Stored;
use super::packed::{Held, InOrder};
use super::tables::{length_of_key, row_behind};

/// Entries of an index, ascending; or descending with [`Entries::next_back`].
pub(super) enum Entries<'a> {
    Unique(Range<'a, &'static [u8], u64>),
    Plain(Range<'a, &'static [u8], ()>),
    Packed(Stored<'a>),
    Both(Box<Both<'a>>),
}

impl<'a> Entries<'a> {
    /// Those of a table in blocks and those that are not in it yet, in one order.
    pub(super) fn packed(stored: Stored<'a>, recent: Option<InOrder<'a>>) -> Self {
        match recent {
            None => Self::Packed(stored),
            Some(recent) => Self::Both(Box::new(Both { stored: Ends::of(stored), recent: Ends::of(recent) })),
        }
    }

    /// The last entry that was not given out yet.
    pub(super) fn next_back(&mut self) -> Option<Result<Entry<'a>, StorageError>> {
        Some(match self {
            Self::Unique(range) => range.next_back()?.map(|(key, row)| Entry::of_unique(key, row.value())),
            Self::Plain(range) => range.next_back()?.map(|(key, _)| Entry::of_plain(Bytes::Page(key))),
            Self::Packed(stored) => stored.next_back()?.map(of_held),
            Self::Both(both) => both.next_back()?,
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
            Self::Both(both) => both.next()?,
        })
    }
}

/// See [`Entries::packed`].
pub(super) struct Both<'a> {
    stored: Ends<Stored<'a>>,
    recent: Ends<InOrder<'a>>,
}

impl<'a> Both<'a> {
    fn next(&mut self) -> Option<Result<Entry<'a>, StorageError>> {
        let is_stored = match (self.stored.first(), self.recent.first()) {
            (Some(Ok(stored)), Some(recent)) => **stored < **recent,
            (stored, _) => stored.is_some(),
        };
        if is_stored { Some(self.stored.next()?.map(of_held)) } else { self.recent.next().map(of_held).map(Ok) }
    }

    fn next_back(&mut self) -> Option<Result<Entry<'a>, StorageError>> {
        let is_stored = match (self.stored.last(), self.recent.last()) {
            (Some(Ok(stored)), Some(recent)) => **stored > **recent,
            (stored, _) => stored.is_some(),
        };
        if is_stored {
            Some(self.stored.next_back()?.map(of_held))
        } else {
            self.recent.next_back().map(of_held).map(Ok)
        }
    }
}

fn of_held<'a>(entry: Held) -> Entry<'a> {
    Entry::of_plain(Bytes::Held(entry))
}

/// An iterator whose ends can be looked at before they are taken.
struct Ends<I: Iterator> {
    between: I,
    first: Option<I::Item>,
    last: Option<I::Item>,
}

impl<I: DoubleEndedIterator> Ends<I> {
    fn of(between: I) -> Self {
        Self { between, first: None, last: None }
    }

    fn first(&mut self) -> Option<&I::Item> {
        if self.first.is_none() {
            self.first = self.between.next().or_else(|| self.last.take());
        }
        self.first.as_ref()
    }

    fn last(&mut self) -> Option<&I::Item> {
        if self.last.is_none() {
            self.last = self.between.next_back().or_else(|| self.first.take());
        }
        self.last.as_ref()
    }

    fn next(&mut self) -> Option<I::Item> {
        self.first();
        self.first.take()
    }

    fn next_back(&mut self) -> Option<I::Item> {
        self.last();
        self.last.take()
    }
}

/// One entry of an index, where it is.
pub(super) struct Entry<'a> {
    /// The row of the document.
    pub(super) row: u64,
    stored: Bytes<'a>,
    key_length: usize,
}

enum Bytes<'a> {
    Page(AccessGuard<'a, &'static [u8]>),
    Held(Held),
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
    pub(super) fn stored_key(&self) -> &[u8] {
        self.stored.value()
    }

    /// The key, without the row.
    pub(super) fn key(&self) -> &[u8] {
        &self.stored.value()[..self.key_length]
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use proptest::prelude::*;
    use redb::Database;
    use redb::backends::InMemoryBackend;

    use super::super::packed::{PackedSet, table as packed};
    use super::*;

    const ALL: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);
    const TABLE: packed::Definition<'static> = packed::Definition::new("entries");

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn entries_of_both_places_come_in_one_order_from_either_end(
            places in prop::collection::vec(any::<bool>(), 0..40),
            ends in prop::collection::vec(any::<bool>(), 44),
        ) {
            let database = Database::builder().create_with_backend(InMemoryBackend::new()).expect("a database");
            let transaction = database.begin_write().expect("a transaction");
            let mut table = transaction.open_table(TABLE).expect("a table");
            let mut recent = PackedSet::default();
            for (number, is_stored) in (0_u64..).zip(&places) {
                let entry = number.to_be_bytes();
                if *is_stored {
                    packed::insert(&mut table, &entry).expect("writable");
                } else {
                    recent.insert(&entry);
                }
            }
            let mut entries = Entries::packed(packed::range(&table, ALL).expect("readable"), Some(recent.range(ALL)));
            let mut expected: std::collections::VecDeque<u64> = (0..places.len() as u64).collect();
            for from_behind in ends {
                let (entry, wanted) = if from_behind {
                    (entries.next_back(), expected.pop_back())
                } else {
                    (entries.next(), expected.pop_front())
                };
                prop_assert_eq!(entry.map(|entry| entry.expect("readable").row), wanted);
            }
        }
    }
}
