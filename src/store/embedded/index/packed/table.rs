//! Sorted byte strings in a table of the file: the first string of each block -> the others, packed.
//!
//! A page holds more strings than with a row for each, and strings of one group are merged into their block together.

use std::ops::{Bound, ControlFlow};

use redb::{AccessGuard, ReadableTable, StorageError, Table, TableDefinition};

use crate::store::StoreError;
use crate::store::embedded::failure::of_storage;

use super::block::{self, Block, Flat, HeldString, Without};

/// A block with its first string has at most about a page of the file. Small in tests of this crate, so that few
/// strings make many blocks.
const MOST_BYTES: usize = if cfg!(test) { 256 } else { 3840 };

/// The table.
pub(crate) type Definition<'n> = TableDefinition<'n, &'static [u8], &'static [u8]>;

type Guards<'a> = (AccessGuard<'a, &'static [u8]>, AccessGuard<'a, &'static [u8]>);

/// Whether a string is there.
pub(crate) fn contains(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    string: &[u8],
) -> Result<bool, StorageError> {
    let block = block_at(table, string)?;
    Ok(block.is_some_and(|(first, rest)| block::contains(string, first.value(), rest.value())))
}

fn insert_in_front(table: &mut Table<'_, &'static [u8], &'static [u8]>, string: &[u8]) -> Result<(), StorageError> {
    let before = table.first()?.map(|(first, rest)| (first.value().to_vec(), rest.value().to_vec()));
    let packed = match before {
        None => Vec::new(),
        Some((first, rest)) => {
            table.remove(first.as_slice())?;
            block::behind(string, &first, &rest)
        }
    };
    put(table, (string.to_vec(), packed))
}

/// Adds sorted strings; returns how many are new.
pub(crate) fn insert_all(
    table: &mut Table<'_, &'static [u8], &'static [u8]>,
    strings: &[Vec<u8>],
) -> Result<u64, StorageError> {
    let (mut left, mut added) = (strings, 0);
    while let Some(next) = left.first() {
        let known = block_at(table, next)?.map(|(first, rest)| (first.value().to_vec(), rest.value().to_vec()));
        let Some((first, rest)) = known else {
            insert_in_front(table, next)?;
            (left, added) = (&left[1..], added + 1);
            continue;
        };
        let behind = (Bound::Excluded(first.as_slice()), Bound::Unbounded);
        let end = table.range::<&[u8]>(behind)?.next().transpose()?;
        let is_here = |string: &Vec<u8>| end.as_ref().is_none_or(|(end, _)| string.as_slice() < end.value());
        let (here, later) = left.split_at(left.partition_point(is_here));
        drop(end);
        let merged = block::with_all(&first, &rest, here);
        if merged.added > 0 {
            put(table, (first, merged.packed))?;
        }
        (left, added) = (later, added + merged.added as u64);
    }
    Ok(added)
}

/// Removes a string; `false` when it is not there.
pub(crate) fn remove(table: &mut Table<'_, &'static [u8], &'static [u8]>, string: &[u8]) -> Result<bool, StorageError> {
    let Some((first, rest)) =
        block_at(table, string)?.map(|(first, rest)| (first.value().to_vec(), rest.value().to_vec()))
    else {
        return Ok(false);
    };
    match block::without(string, &first, &rest) {
        Without::Missing => return Ok(false),
        Without::Rest(packed) => put(table, (first, packed))?,
        Without::First(left) => {
            table.remove(first.as_slice())?;
            if let Some(block) = left {
                put(table, block)?;
            }
        }
    }
    Ok(true)
}

/// Strings of a table in order, from either end.
pub(crate) type Stored<'a> = Box<dyn DoubleEndedIterator<Item = Result<HeldString, StorageError>> + 'a>;

/// The strings between two places.
pub(crate) fn range<'a>(
    table: &'a impl ReadableTable<&'static [u8], &'static [u8]>,
    (start, end): (Bound<&[u8]>, Bound<&[u8]>),
) -> Result<Stored<'a>, StorageError> {
    let first = match start {
        Bound::Included(start) | Bound::Excluded(start) => {
            block_at(table, start)?.map(|(first, _)| first.value().to_vec())
        }
        Bound::Unbounded => None,
    };
    let from = first.as_deref().map_or(Bound::Unbounded, Bound::Included);
    let blocks = table.range::<&[u8]>((from, end))?;
    let (start, end) = (start.map(<[u8]>::to_vec), end.map(<[u8]>::to_vec));
    Ok(Box::new(blocks.flat_map(move |block| {
        let strings = block.and_then(|(first, rest)| Ok(flat(&first, &rest)?.between(&start, &end)));
        let (strings, error) = strings.map_or_else(|error| (None, Some(Err(error))), |strings| (Some(strings), None));
        strings.into_iter().flatten().map(Ok).chain(error)
    })))
}

/// Whether a visit continues.
pub(crate) type Flow = Result<ControlFlow<()>, StoreError>;

/// Shows `visit` each string from `start` to below `end`, until it breaks. It takes no memory for each of them, as
/// [`range`] does.
pub(crate) fn each(
    table: &impl ReadableTable<&'static [u8], &'static [u8]>,
    (start, end): (&[u8], &[u8]),
    visit: &mut dyn FnMut(&[u8]) -> Flow,
) -> Result<(), StoreError> {
    if start >= end {
        return Ok(());
    }
    let begin = block_at(table, start).map_err(of_storage)?.map(|(first, _)| first.value().to_vec());
    let from = begin.as_deref().map_or(Bound::Included(start), Bound::Included);
    let mut string = Vec::new();
    for block in table.range::<&[u8]>((from, Bound::Excluded(end))).map_err(of_storage)? {
        let (first, rest) = block.map_err(of_storage)?;
        let mut visit = |string: &[u8]| match string {
            string if string < start => Ok(ControlFlow::Continue(())),
            string if string >= end => Ok(ControlFlow::Break(())),
            string => visit(string),
        };
        match block::each(first.value(), rest.value(), &mut string, &mut visit)? {
            Some(ControlFlow::Continue(())) => {}
            Some(ControlFlow::Break(())) => break,
            None => return Err(of_storage(damaged())),
        }
    }
    Ok(())
}

/// The block for a string, unless the string comes before all blocks.
fn block_at<'a>(
    table: &'a impl ReadableTable<&'static [u8], &'static [u8]>,
    string: &[u8],
) -> Result<Option<Guards<'a>>, StorageError> {
    table.range::<&[u8]>((Bound::Unbounded, Bound::Included(string)))?.next_back().transpose()
}

fn put(table: &mut Table<'_, &'static [u8], &'static [u8]>, block: Block) -> Result<(), StorageError> {
    let most = MOST_BYTES.saturating_sub(block.0.len()).max(MOST_BYTES / 2);
    for (first, packed) in block::cut_up(block, most) {
        table.insert(first.as_slice(), packed.as_slice())?;
    }
    Ok(())
}

fn flat(first: &AccessGuard<'_, &'static [u8]>, rest: &AccessGuard<'_, &'static [u8]>) -> Result<Flat, StorageError> {
    Flat::of(first.value(), rest.value()).ok_or_else(damaged)
}

fn damaged() -> StorageError {
    StorageError::Corrupted("keys of an index cannot be unpacked".to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use redb::backends::InMemoryBackend;
    use redb::{Database, ReadableTableMetadata};

    use super::*;

    const TABLE: Definition<'static> = Definition::new("strings");

    /// Few letters, so that many begin alike and some are the beginning of others.
    fn string() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![vec(0_u8..3, 0..12), vec(0_u8..2, 120..140)]
    }

    #[derive(Debug, Clone)]
    enum Step {
        Insert(Vec<u8>),
        InsertAll(BTreeSet<Vec<u8>>),
        Remove(Vec<u8>),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => string().prop_map(Step::Insert),
            1 => prop::collection::btree_set(string(), 0..60).prop_map(Step::InsertAll),
            3 => string().prop_map(Step::Remove),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn it_holds_what_was_put_into_it(steps in vec(step(), 1..60), probes in vec((string(), string()), 5)) {
            let database = Database::builder().create_with_backend(InMemoryBackend::new()).expect("a database");
            let transaction = database.begin_write().expect("a transaction");
            let mut table = transaction.open_table(TABLE).expect("a table");
            let mut expected = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(string) => {
                        let added = insert_all(&mut table, std::slice::from_ref(&string)).expect("writable");
                        prop_assert_eq!(added == 1, expected.insert(string));
                    }
                    Step::InsertAll(strings) => {
                        let strings: Vec<_> = strings.into_iter().collect();
                        let new = strings.iter().filter(|string| expected.insert((*string).clone())).count();
                        prop_assert_eq!(insert_all(&mut table, &strings).expect("writable"), new as u64);
                    }
                    Step::Remove(string) => {
                        prop_assert_eq!(remove(&mut table, &string).expect("writable"), expected.remove(&string));
                    }
                }
            }
            let all = range(&table, (Bound::Unbounded, Bound::Unbounded)).expect("readable");
            let all: Vec<_> = all.map(|held| held.expect("readable").to_vec()).collect();
            prop_assert_eq!(all, expected.iter().cloned().collect::<Vec<_>>());
            prop_assert!(table.len().expect("readable") <= expected.len() as u64);
            for (left, right) in probes {
                prop_assert_eq!(contains(&table, &left).expect("readable"), expected.contains(&left));
                let (low, high) = if left < right { (left, right) } else { (right, left) };
                let mut found = range(&table, (Bound::Included(&low), Bound::Excluded(&high))).expect("readable");
                let mut wanted = expected.range(low.clone()..high.clone());
                let mut shown = Vec::new();
                let mut show = |string: &[u8]| {
                    shown.push(string.to_vec());
                    Ok(ControlFlow::Continue(()))
                };
                each(&table, (&low, &high), &mut show).expect("readable");
                prop_assert_eq!(shown, wanted.clone().cloned().collect::<Vec<_>>());
                // From both ends in turns.
                loop {
                    let front = (found.next().map(|held| held.expect("readable").to_vec()), wanted.next().cloned());
                    prop_assert_eq!(&front.0, &front.1);
                    let back = (found.next_back().map(|held| held.expect("readable").to_vec()), wanted.next_back().cloned());
                    prop_assert_eq!(&back.0, &back.1);
                    if back.0.is_none() {
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_block_is_an_error() {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).expect("a database");
        let transaction = database.begin_write().expect("a transaction");
        let mut table = transaction.open_table(TABLE).expect("a table");
        // More in common with the one before than that one has; and fewer strings follow than the count says.
        for rest in [[9, 0].as_slice(), &[0, 5, 1], &[0x80]] {
            table.insert(b"ab".as_slice(), rest).expect("writable");
            let mut found = range(&table, (Bound::Unbounded, Bound::Unbounded)).expect("readable");
            assert!(matches!(found.next(), Some(Err(StorageError::Corrupted(_)))), "{rest:?}");
            let shown = each(&table, (&[], &[u8::MAX]), &mut |_| Ok(ControlFlow::Continue(())));
            assert!(shown.is_err(), "{rest:?}");
        }
    }
}
