//! Skips many entries of an index without reading them, by its count blocks.
//!
//! A page far from the beginning of a list needs only its place, and none of the entries before it. So whole blocks are
//! skipped by their counts, and only the rest of one is walked. That takes one step for each block, and at each end at
//! most the entries of one block.

use std::borrow::Cow;
use std::ops::Bound;

use redb::ReadableTable;

use crate::store::StoreError;
use crate::store::embedded::index::counts::Blocks;
use crate::store::embedded::index::ranges::{IndexScan, KeyRange, Order};
use crate::store::embedded::index::table::TableAccess;
use crate::store::embedded::read::execute::CollectionReader;

impl<A: TableAccess> CollectionReader<'_, A> {
    /// The rest of a scan after skipped entries, at most `skip`, and their number. It skips only many entries of a
    /// single range; those of several ranges are read.
    pub(crate) fn skip_whole_blocks<'s>(
        &mut self,
        scan: &'s IndexScan,
        skip: u64,
    ) -> Result<(Cow<'s, IndexScan>, u64), StoreError> {
        let whole = (Cow::Borrowed(scan), 0);
        let [range] = scan.ranges.as_slice() else { return Ok(whole) };
        if skip <= Blocks::<A::Unique, A>::LARGEST {
            return Ok(whole);
        }
        let Some(blocks) = self.blocks(scan.index)? else { return Ok(whole) };
        let mut step = || self.note_key();
        let (rest, passed) = match scan.order {
            Order::Backward => blocks.pass_backward(range, skip, &mut step)?,
            Order::Forward | Order::Unused => blocks.pass_forward(range, skip, &mut step)?,
        };
        let scan = IndexScan { ranges: vec![rest], ..scan.clone() };
        Ok((Cow::Owned(scan), passed))
    }
}

/// The rest of a range, and the number of skipped entries.
type Passed = (KeyRange, u64);

impl<T: ReadableTable<&'static [u8], u64>, A: TableAccess> Blocks<'_, T, A> {
    /// Skips entries at the beginning of a range: at most `at_most`, as far as whole blocks allow. `step` is called for
    /// each entry that is read.
    fn pass_forward(
        &self,
        range: &KeyRange,
        at_most: u64,
        step: &mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<Passed, StoreError> {
        let nothing = || Ok((range.clone(), 0));
        let mut blocks = self.between(1, Bound::Included(&range.start), &range.end)?;
        let Some((mut start, mut entries)) = blocks.next().transpose()? else { return nothing() };
        let mut passed = self.count_in(0, &range.start, &start, step)?;
        if passed > at_most {
            return nothing();
        }
        // If another block begins in the range, the one before it is whole.
        for next in blocks {
            if passed + entries > at_most {
                break;
            }
            step()?;
            passed += entries;
            (start, entries) = next?;
        }
        Ok((KeyRange { start, ..range.clone() }, passed))
    }

    /// The same at the end of a range that is read backwards: keys from the last to the first, the rows of each key
    /// forwards.
    fn pass_backward(
        &self,
        range: &KeyRange,
        at_most: u64,
        step: &mut dyn FnMut() -> Result<(), StoreError>,
    ) -> Result<Passed, StoreError> {
        let nothing = || Ok((range.clone(), 0));
        let mut blocks = self.between(1, Bound::Included(&range.start), &range.end)?.rev();
        let Some((mut end, _)) = blocks.next().transpose()? else { return nothing() };
        let mut passed = self.count_in(0, &end, &range.end, step)?;
        if passed > at_most {
            return nothing();
        }
        for block in blocks {
            let (start, entries) = block?;
            if passed + entries > at_most {
                break;
            }
            step()?;
            passed += entries;
            end = start;
        }
        // If a block begins among the rows of one key, the rows before it come first: that key is read as a whole.
        if let Some(key) = self.entries().shared_key(&end) {
            let behind = KeyRange::beginning_with(key.to_vec()).end.min(range.end.clone());
            passed = passed.saturating_sub(self.count(&end, &behind, step)?);
            end = behind;
        }
        Ok((KeyRange { end, ..range.clone() }, passed))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use redb::Database;
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::store::embedded::catalog::collections::{Collection, Index};
    use crate::store::embedded::index::counts::Changes;
    use crate::store::embedded::index::table::Working;
    use crate::store::embedded::index::tables::Tables;

    const POSITION: usize = 1;
    /// More than the blocks of tests hold.
    const NEAR: usize = 40;

    /// An index of these keys with these rows, counted in blocks as they come.
    fn with_entries(unique: bool, entries: &[(u8, u8)], test: impl FnOnce(&Tables<Working<'_>>, &Collection)) {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).expect("a database");
        let transaction = database.begin_write().expect("a transaction");
        let mut index = Index::over("tested", &["a"]);
        index.unique = unique;
        let collection = Collection::with_indexes(vec![index]);
        let mut tables = Tables::<Working<'_>>::open(&transaction, &collection).expect("tables");
        for group in entries.chunks(16) {
            let mut changes = Changes::new();
            for (key, row) in group {
                let (key, row, table) = ([*key], u64::from(*row), &mut tables.indexes[POSITION]);
                if table.row_of(&key).expect("readable").is_none() && !table.contains(&key, row).expect("readable") {
                    table.add(&key, row).expect("writable");
                    changes.insert(table.entry_of(&key, row), 1);
                }
            }
            tables.blocks_mut(&collection, POSITION).expect("counted").apply(&changes).expect("writable");
        }
        test(&tables, &collection);
    }

    /// Keys and rows of a range in the order in which they are read.
    fn read(tables: &Tables<Working<'_>>, range: &KeyRange, backward: bool) -> Vec<(Vec<u8>, u64)> {
        let entries = tables.indexes[POSITION].entries(&range.start, &range.end).expect("readable");
        let mut entries: Vec<_> =
            entries.map(|entry| entry.map(|entry| (entry.key().to_vec(), entry.row)).expect("readable")).collect();
        if backward {
            entries.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
        }
        entries
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn what_is_left_is_what_walking_would_come_to(
            unique in any::<bool>(),
            entries in vec((0..200_u8, 0..4_u8), 0..600),
            few_keys in any::<bool>(),
            range in (0..120_u8, 80..220_u8),
            at_most in vec(0..700_u64, 4),
        ) {
            let entries: Vec<_> = if few_keys && !unique {
                // Keys that fill several blocks each.
                entries.iter().map(|(key, row)| (key % 5 * 40, row.wrapping_mul(64) ^ key)).collect()
            } else {
                entries
            };
            with_entries(unique, &entries, |tables, collection| {
                let blocks = tables.blocks(collection, POSITION).expect("counted");
                let whole = KeyRange { start: Vec::new(), end: vec![u8::MAX], lead: 0 };
                let part = KeyRange { start: vec![range.0], end: vec![range.1], lead: 0 };
                for range in [&whole, &part] {
                    for at_most in &at_most {
                        let (rest, passed) = blocks.pass_forward(range, *at_most, &mut || Ok(())).expect("readable");
                        let all = read(tables, range, false);
                        assert!(passed <= *at_most);
                        assert_eq!(read(tables, &rest, false), all[usize::try_from(passed).expect("few")..]);
                        let (rest, passed) = blocks.pass_backward(range, *at_most, &mut || Ok(())).expect("readable");
                        let all = read(tables, range, true);
                        assert!(passed <= *at_most);
                        assert_eq!(read(tables, &rest, true), all[usize::try_from(passed).expect("few")..]);
                    }
                }
            });
        }
    }

    #[test]
    fn where_no_two_rows_have_one_key_little_is_left_to_walk() {
        let entries: Vec<_> = (0..240).map(|key| (key, key)).collect();
        with_entries(true, &entries, |tables, collection| {
            let blocks = tables.blocks(collection, POSITION).expect("counted");
            let whole = KeyRange { start: Vec::new(), end: vec![u8::MAX], lead: 0 };
            let mut read = 0;
            let mut step = || {
                read += 1;
                Ok::<(), StoreError>(())
            };
            let forward = blocks.pass_forward(&whole, 200, &mut step).expect("readable").1;
            let backward = blocks.pass_backward(&whole, 200, &mut step).expect("readable").1;
            for passed in [forward, backward] {
                assert!((200 - NEAR as u64..=200).contains(&passed), "{passed}");
            }
            assert!(read <= 3 * NEAR, "{read}");
        });
    }
}
