//! How many entries an index has between two keys, without reading them all.
//!
//! Each index has count blocks: a block is a first entry and the number of entries from there to the next block. A
//! range then consists of whole blocks, and of some entries at each end that are read one by one. A second level has a
//! single block with all entries, which shows whether all are counted. More levels would make counting faster and each
//! write slower, because every level is written with the entries.
//!
//! - Only indexes without arrays are counted, because only there an entry is a document. The index on `_id` is not
//!   counted.
//! - Blocks are changed in the transaction that changes the entries, once for a group of units.
//! - The first block begins before every entry. Large blocks are split, and small ones join the one before.
//!
//! *Invariant:* the number of a block is the number of entries between its beginning and the next one's.

use std::collections::BTreeMap;
use std::ops::Bound;

use redb::{ReadableTable, Table};

use crate::store::StoreError;
use crate::store::embedded::failure::of_storage;
use crate::store::embedded::index::key::kind;
use crate::store::embedded::index::table::{IndexTable, TableAccess, Working};

/// How many entries a block of each level holds at most, the lowest level first.
#[cfg(not(test))]
const LIMITS: [u64; 2] = [512, u64::MAX];
/// Small, so that few entries make many blocks.
#[cfg(test)]
const LIMITS: [u64; 2] = [8, u64::MAX];

/// Added (1) and removed (-1) entries of an index, in order.
pub(crate) type Changes = BTreeMap<Vec<u8>, i64>;

/// The blocks of one index in the table that all indexes of a collection share.
pub(crate) struct Blocks<'a, T, A: TableAccess> {
    table: &'a T,
    /// The number of the index.
    number: u32,
    entries: &'a IndexTable<A>,
}

impl<'a, T: ReadableTable<&'static [u8], u64>, A: TableAccess> Blocks<'a, T, A> {
    pub(crate) fn of(number: u32, entries: &'a IndexTable<A>, table: &'a T) -> Self {
        Self { table, number, entries }
    }

    /// The maximum number of entries of a block.
    pub(crate) const LARGEST: u64 = LIMITS[0];

    /// What is counted.
    pub(crate) fn entries(&self) -> &'a IndexTable<A> {
        self.entries
    }

    /// Whether the blocks cover all entries. They do not in stores from before count blocks.
    pub(crate) fn are_complete(&self) -> Result<bool, StoreError> {
        let mut counted = 0;
        for block in self.between(LIMITS.len(), Bound::Unbounded, &[kind::ABOVE_ALL])? {
            counted += block?.1;
        }
        Ok(counted == self.entries.len().map_err(of_storage)?)
    }

    /// The number of entries from `start` to below `end`; `step` is called for each entry that is read.
    pub(crate) fn count(
        &self,
        start: &[u8],
        end: &[u8],
        step: &mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        self.count_in(LIMITS.len(), start, end, step)
    }

    /// The same with the blocks of the levels up to this one; for 0 with the entries alone.
    pub(crate) fn count_in(
        &self,
        level: usize,
        start: &[u8],
        end: &[u8],
        step: &mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        if start >= end {
            return Ok(0);
        }
        let mut count = 0;
        if level == 0 {
            for entry in self.entries.entries(start, end).map_err(of_storage)? {
                entry.map_err(of_storage)?;
                step()?;
                count += 1;
            }
            return Ok(count);
        }
        // Whole blocks from the first beginning in the range to the last one; parts of blocks before and after them.
        let mut ends: Option<(Vec<u8>, Vec<u8>)> = None;
        let mut last_count = 0;
        for block in self.between(level, Bound::Included(start), end)? {
            let (key, entries) = block?;
            count += last_count;
            last_count = entries;
            ends = Some((ends.map_or_else(|| key.clone(), |(first, _)| first), key));
        }
        match ends {
            None => self.count_in(level - 1, start, end, step),
            Some((first, last)) => Ok(count
                + self.count_in(level - 1, start, &first, step)?
                + self.count_in(level - 1, &last, end, step)?),
        }
    }

    /// The blocks that begin in a range: where, and with how many entries.
    pub(crate) fn between(
        &self,
        level: usize,
        start: Bound<&[u8]>,
        end: &[u8],
    ) -> Result<impl DoubleEndedIterator<Item = Result<(Vec<u8>, u64), StoreError>> + use<'a, T, A>, StoreError> {
        let start = match start {
            Bound::Included(start) => Bound::Included(self.name(level, start)),
            Bound::Excluded(start) => Bound::Excluded(self.name(level, start)),
            Bound::Unbounded => Bound::Included(self.name(level, &[])),
        };
        let end = self.name(level, end);
        let range = (start.as_ref().map(Vec::as_slice), Bound::Excluded(end.as_slice()));
        let blocks = self.table.range::<&[u8]>(range).map_err(of_storage)?;
        Ok(blocks.map(|block| {
            let (name, entries) = block.map_err(of_storage)?;
            Ok((name.value()[NAME..].to_vec(), entries.value()))
        }))
    }

    /// The last block that begins no later than this (or earlier).
    fn block_at(&self, level: usize, upto: Bound<&[u8]>) -> Result<Option<(Vec<u8>, u64)>, StoreError> {
        let (first, last) = (self.name(level, &[]), upto.map(|upto| self.name(level, upto)));
        let range = (Bound::Included(first.as_slice()), last.as_ref().map(Vec::as_slice));
        let mut blocks = self.table.range::<&[u8]>(range).map_err(of_storage)?;
        let Some(block) = blocks.next_back() else { return Ok(None) };
        let (name, entries) = block.map_err(of_storage)?;
        Ok(Some((name.value()[NAME..].to_vec(), entries.value())))
    }

    /// Where the next block begins.
    fn end_of(&self, level: usize, block: &[u8]) -> Result<Vec<u8>, StoreError> {
        let next = self.between(level, Bound::Excluded(block), &[kind::ABOVE_ALL])?.next().transpose()?;
        Ok(next.map_or_else(|| vec![kind::ABOVE_ALL], |(start, _)| start))
    }

    /// Where to split the entries between two places into blocks of about half the maximum size.
    fn cuts(&self, level: usize, start: &[u8], end: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let half = LIMITS[level - 1] / 2;
        let (mut cuts, mut held) = (Vec::new(), 0);
        let mut pass = |key: &[u8], entries: u64| {
            if held + entries > half && held > 0 {
                cuts.push(key.to_vec());
                held = 0;
            }
            held += entries;
        };
        if level == 1 {
            for entry in self.entries.entries(start, end).map_err(of_storage)? {
                pass(entry.map_err(of_storage)?.stored_key(), 1);
            }
        } else {
            for block in self.between(level - 1, Bound::Excluded(start), end)? {
                let (key, entries) = block?;
                pass(&key, entries);
            }
        }
        Ok(cuts)
    }

    /// The errors of the blocks, one sentence each.
    pub(crate) fn problems(&self) -> Result<Vec<String>, StoreError> {
        let mut problems = Vec::new();
        if !self.are_complete()? {
            problems.push("the counts do not hold all of its keys".to_owned());
        }
        for level in 1..=LIMITS.len() {
            for block in self.between(level, Bound::Unbounded, &[kind::ABOVE_ALL])? {
                let (start, counted) = block?;
                let end = self.end_of(level, &start)?;
                let found = self.count_in(level - 1, &start, &end, &mut || Ok(()))?;
                if found != counted {
                    problems.push(format!("a count of level {level} says {counted} and should say {found}"));
                }
            }
        }
        Ok(problems)
    }

    fn name(&self, level: usize, start: &[u8]) -> Vec<u8> {
        let mut name = self.number.to_be_bytes().to_vec();
        name.push(u8::try_from(level).unwrap_or(u8::MAX));
        name.extend_from_slice(start);
        name
    }
}

/// The length of the prefix of a block's key: the number of the index and the level.
const NAME: usize = 5;

/// Changes the blocks of an index.
pub(crate) struct BlocksMut<'a, 't> {
    pub(crate) table: &'a mut Table<'t, &'static [u8], u64>,
    /// The number of the index.
    pub(crate) number: u32,
    pub(crate) entries: &'a IndexTable<Working<'t>>,
}

impl<'t> BlocksMut<'_, 't> {
    fn read(&self) -> Blocks<'_, Table<'t, &'static [u8], u64>, Working<'t>> {
        Blocks::of(self.number, self.entries, self.table)
    }

    fn put(&mut self, level: usize, start: &[u8], entries: u64) -> Result<(), StoreError> {
        let name = self.read().name(level, start);
        self.table.insert(name.as_slice(), entries).map(drop).map_err(of_storage)
    }

    fn remove(&mut self, level: usize, start: &[u8]) -> Result<(), StoreError> {
        let name = self.read().name(level, start);
        self.table.remove(name.as_slice()).map(drop).map_err(of_storage)
    }

    /// Counts all entries if they are not counted yet, and returns whether it did.
    pub(crate) fn complete(&mut self) -> Result<bool, StoreError> {
        if self.read().are_complete()? {
            return Ok(false);
        }
        self.count_anew()?;
        Ok(true)
    }

    /// Counts all entries again, whatever the blocks say.
    pub(crate) fn count_anew(&mut self) -> Result<(), StoreError> {
        self.forget()?;
        let all = self.entries.len().map_err(of_storage)?;
        for level in 1..=LIMITS.len() {
            self.put(level, &[], all)?;
            self.split(level, &[], &[kind::ABOVE_ALL])?;
        }
        Ok(())
    }

    /// Removes all blocks.
    pub(crate) fn forget(&mut self) -> Result<(), StoreError> {
        let (first, end) = (self.read().name(0, &[]), (self.number + 1).to_be_bytes());
        self.table.retain_in::<&[u8], _>(first.as_slice()..end.as_slice(), |_, _| false).map_err(of_storage)
    }

    /// Counts added and removed entries; the index has already changed.
    pub(crate) fn apply(&mut self, changes: &Changes) -> Result<(), StoreError> {
        for level in 1..=LIMITS.len() {
            let mut changes = changes.iter().filter(|(_, change)| **change != 0).peekable();
            while let Some((entry, change)) = changes.next() {
                let (start, entries) = self.read().block_at(level, Bound::Included(entry))?.unwrap_or_default();
                let end = self.read().end_of(level, &start)?;
                let mut change = *change;
                while let Some((_, more)) = changes.next_if(|(entry, _)| **entry < end) {
                    change += more;
                }
                self.change(level, &start, &end, entries.saturating_add_signed(change))?;
            }
        }
        Ok(())
    }

    fn change(&mut self, level: usize, start: &[u8], end: &[u8], entries: u64) -> Result<(), StoreError> {
        let limit = LIMITS[level - 1];
        self.put(level, start, entries)?;
        if entries > limit {
            return self.split(level, start, end);
        }
        if entries < limit / 8
            && let Some((before, its_entries)) = self.read().block_at(level, Bound::Excluded(start))?
            && (entries == 0 || entries + its_entries <= limit / 2)
        {
            self.remove(level, start)?;
            self.put(level, &before, its_entries + entries)?;
        }
        Ok(())
    }

    fn split(&mut self, level: usize, start: &[u8], end: &[u8]) -> Result<(), StoreError> {
        let mut from = start.to_vec();
        let mut cuts = self.read().cuts(level, start, end)?;
        cuts.push(end.to_vec());
        for cut in cuts {
            let entries = self.read().count_in(level - 1, &from, &cut, &mut || Ok(()))?;
            self.put(level, &from, entries)?;
            from = cut;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;
    use redb::{Database, WriteTransaction};

    use super::*;
    use crate::store::embedded::catalog::collections::{Collection, Index};
    use crate::store::embedded::index::tables::Tables;

    const POSITION: usize = 1;

    fn collection() -> Collection {
        Collection::with_indexes(vec![Index::over("tested", &["a"])])
    }

    fn key(number: u16) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    /// Adds and removes entries of a group, as a batch does.
    fn change(tables: &mut Tables<Working<'_>>, collection: &Collection, group: &[(u16, bool)]) {
        let mut changes = Changes::new();
        for (number, is_new) in group {
            let (key, row) = (key(*number), 7);
            let table = &mut tables.indexes[POSITION];
            if table.contains(&key, row).expect("readable") == *is_new {
                continue;
            }
            let written = if *is_new { table.add(&key, row) } else { table.remove(&key, row) };
            written.expect("writable");
            *changes.entry(table.entry_of(&key, row)).or_default() += if *is_new { 1 } else { -1 };
        }
        tables.blocks_mut(collection, POSITION).expect("counted").apply(&changes).expect("writable");
    }

    fn with_tables(test: impl FnOnce(&mut Tables<Working<'_>>, &Collection)) {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).expect("a database");
        let transaction: WriteTransaction = database.begin_write().expect("a transaction");
        let collection = collection();
        let mut tables = Tables::<Working<'_>>::open(&transaction, &collection).expect("tables");
        test(&mut tables, &collection);
    }

    /// Counts a range; how many entries were read for it.
    fn counted(tables: &Tables<Working<'_>>, collection: &Collection, start: &[u8], end: &[u8]) -> (u64, u64) {
        let mut read = 0;
        let blocks = tables.blocks(collection, POSITION).expect("counted");
        let count = blocks.count(start, end, &mut || {
            read += 1;
            Ok(())
        });
        (count.expect("readable"), read)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn counts_are_what_counting_one_by_one_gives(
            groups in vec(vec((0..400_u16, prop::bool::weighted(0.6)), 0..60), 1..12),
            clears in any::<bool>(),
            ranges in vec((0..420_u16, 0..420_u16), 8),
        ) {
            with_tables(|tables, collection| {
                for group in &groups {
                    change(tables, collection, group);
                }
                if clears {
                    change(tables, collection, &(20..400).map(|number| (number, false)).collect::<Vec<_>>());
                }
                let blocks = tables.blocks(collection, POSITION).expect("counted");
                assert_eq!(blocks.problems().expect("readable"), Vec::<String>::new());
                for (start, end) in &ranges {
                    let (start, end) = (key(*start), key(*end));
                    let one_by_one = if start < end {
                        tables.indexes[POSITION].entries(&start, &end).expect("readable").count() as u64
                    } else {
                        0
                    };
                    assert_eq!(counted(tables, collection, &start, &end).0, one_by_one);
                }
            });
        }
    }

    #[test]
    fn a_large_range_takes_few_steps() {
        with_tables(|tables, collection| {
            for group in (0..20_000_u16).collect::<Vec<_>>().chunks(256) {
                change(tables, collection, &group.iter().map(|number| (*number, true)).collect::<Vec<_>>());
            }
            let (count, read) = counted(tables, collection, &key(5), &key(19_990));
            assert_eq!(count, 19_985);
            assert!(read <= 4 * LIMITS[0], "{read}");
        });
    }

    #[test]
    fn entries_that_were_never_counted_are_counted_when_the_store_is_prepared() {
        with_tables(|tables, collection| {
            for number in 0..500 {
                tables.indexes[POSITION].add(&key(number), 1).expect("writable");
            }
            assert!(!tables.blocks(collection, POSITION).expect("a table").are_complete().expect("readable"));
            let mut blocks = tables.blocks_mut(collection, POSITION).expect("a table");
            assert!(blocks.complete().expect("writable"));
            assert!(!blocks.complete().expect("writable"));
            let blocks = tables.blocks(collection, POSITION).expect("a table");
            assert_eq!(blocks.problems().expect("readable"), Vec::<String>::new());
            assert_eq!(counted(tables, collection, &key(100), &key(300)).0, 200);
        });
    }

    #[test]
    fn a_wrong_count_is_found() {
        with_tables(|tables, collection| {
            change(tables, collection, &(0..100).map(|number| (number, true)).collect::<Vec<_>>());
            tables.blocks_mut(collection, POSITION).expect("counted").put(1, &[], 3).expect("writable");
            assert!(!tables.blocks(collection, POSITION).expect("counted").problems().expect("readable").is_empty());
        });
    }
}
