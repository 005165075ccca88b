//! Gathered entries: those that the units of a batch add to and remove from an index with arrays.
//!
//! Each object has a dozen keys in such an index, and a [block](crate::store::embedded::index::packed) holds some two
//! hundred. So the keys of a whole batch are merged together, in key order. A block that gets several of them is
//! written once.

use std::collections::BTreeMap;

use redb::{StorageError, Table};

use crate::store::StoreError;
use crate::store::embedded::failure;
use crate::store::embedded::index::packed::table as packed;

/// The number of entries that one chunk merges; small in tests of this crate, so that few units need several chunks.
pub(crate) const CHUNK: usize = if cfg!(test) { 32 } else { 1024 };

/// Entries added or removed since the last merge, and the number of entries in the table.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// Each entry, and whether it was added; otherwise it was removed.
    changes: BTreeMap<Vec<u8>, bool>,
    stored: u64,
}

impl Gathered {
    /// Empty, for a table with this many entries.
    pub(crate) fn beside(stored: u64) -> Self {
        Self { changes: BTreeMap::new(), stored }
    }

    pub(crate) fn add(&mut self, entry: Vec<u8>) {
        self.changes.insert(entry, true);
    }

    pub(crate) fn remove(&mut self, entry: Vec<u8>) {
        self.changes.insert(entry, false);
    }

    /// How many entries the table holds.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// Whether the table can be asked.
    ///
    /// # Errors
    /// Something is not in it yet.
    pub(crate) fn is_settled(&self) -> Result<(), StorageError> {
        if self.changes.is_empty() {
            return Ok(());
        }
        Err(StorageError::Corrupted("entries of an index were not put into its table".to_owned()))
    }

    /// Merges everything into the table, a chunk at a time. It calls `ask` with the size of each chunk before it
    /// changes anything.
    ///
    /// # Errors
    /// The storage failed, or `ask` refused. Then a part of the entries is in the table, and the transaction must be
    /// aborted.
    pub(crate) fn settle(
        &mut self,
        table: &mut Table<'_, &'static [u8], &'static [u8]>,
        ask: &mut dyn FnMut(usize) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut changes = std::mem::take(&mut self.changes).into_iter().peekable();
        while changes.peek().is_some() {
            let chunk: Vec<_> = changes.by_ref().take(CHUNK).collect();
            ask(chunk.len())?;
            self.put(table, chunk).map_err(failure::of_storage)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        table: &mut Table<'_, &'static [u8], &'static [u8]>,
        chunk: Vec<(Vec<u8>, bool)>,
    ) -> Result<(), StorageError> {
        let mut added = Vec::new();
        for (entry, is_there) in chunk {
            if is_there {
                added.push(entry);
            } else if packed::remove(table, &entry)? {
                self.stored = self.stored.saturating_sub(1);
            }
        }
        self.stored += packed::insert_all(table, &added)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound;

    use redb::Database;
    use redb::backends::InMemoryBackend;

    use super::*;

    #[test]
    fn of_an_entry_that_came_and_went_the_last_counts() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).expect("a database");
        let transaction = database.begin_write().expect("a transaction");
        let mut table = transaction.open_table(packed::Definition::new("entries")).expect("a table");
        let mut gathered = Gathered::beside(0);
        let entry = |number: u64| number.to_be_bytes().to_vec();
        (1..=3).for_each(|number| gathered.add(entry(number)));
        gathered.remove(entry(2));
        assert!(matches!(gathered.is_settled(), Err(StorageError::Corrupted(_))));
        gathered.settle(&mut table, &mut |_| Ok(())).expect("writable");
        gathered.remove(entry(1));
        gathered.add(entry(1));
        gathered.remove(entry(9));
        gathered.settle(&mut table, &mut |_| Ok(())).expect("writable");
        gathered.is_settled().expect("nothing is left");
        let all = packed::range(&table, (Bound::Unbounded, Bound::Unbounded)).expect("readable");
        let all: Vec<Vec<u8>> = all.map(|held| held.expect("readable").to_vec()).collect();
        assert_eq!(all, [entry(1), entry(3)]);
        assert_eq!(gathered.stored(), 2);
    }
}
