//! A set of rows: a bit for each row that the collection ever had.

/// Rows of one collection.
#[derive(Debug, Clone)]
pub(crate) struct RowSet {
    words: Vec<u64>,
    len: u64,
}

const BITS: u64 = 64;

impl RowSet {
    /// None of the rows below this.
    pub(crate) fn below(rows: u64) -> Self {
        Self { words: vec![0; Self::words_for(rows)], len: 0 }
    }

    /// How many bytes a set of rows below this takes.
    pub(crate) fn bytes_for(rows: u64) -> usize {
        Self::words_for(rows).saturating_mul(size_of::<u64>())
    }

    fn words_for(rows: u64) -> usize {
        usize::try_from(rows.div_ceil(BITS)).unwrap_or(usize::MAX)
    }

    /// How many rows are in it.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Adds a row below the bound.
    #[inline]
    pub(crate) fn insert(&mut self, row: u64) {
        let (word, bit) = place(row);
        if let Some(word) = self.words.get_mut(word) {
            self.len += u64::from(*word & bit == 0);
            *word |= bit;
        }
    }

    /// Whether a row is in it.
    #[inline]
    pub(crate) fn contains(&self, row: u64) -> bool {
        let (word, bit) = place(row);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Keeps the rows that are in the other set, too; with `out` those that are not.
    pub(crate) fn keep(&mut self, other: &Self, out: bool) {
        let flip = if out { u64::MAX } else { 0 };
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other ^ flip;
        }
        self.len = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
    }

    /// The rows, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        (0_u64..).zip(&self.words).flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = u64::from(left.trailing_zeros());
                left &= left.checked_sub(1)?;
                Some(at * BITS + bit)
            })
        })
    }

    /// The rows, descending.
    pub(crate) fn iter_back(&self) -> impl Iterator<Item = u64> {
        (0_u64..self.words.len() as u64).rev().zip(self.words.iter().rev()).flat_map(|(at, word)| {
            (0..BITS).rev().filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * BITS + bit)
        })
    }
}

fn place(row: u64) -> (usize, u64) {
    (usize::try_from(row / BITS).unwrap_or(usize::MAX), 1 << (row % BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    fn set(rows: &BTreeSet<u64>) -> RowSet {
        let mut set = RowSet::below(300);
        rows.iter().chain(rows).for_each(|row| set.insert(*row));
        set
    }

    proptest! {
        #[test]
        fn it_is_a_set(left in btree_set(0..300_u64, 0..80), right in btree_set(0..300_u64, 0..80)) {
            let (one, other) = (set(&left), set(&right));
            prop_assert_eq!(one.len(), left.len() as u64);
            prop_assert!(one.iter().eq(left.iter().copied()));
            prop_assert!(one.iter_back().eq(left.iter().rev().copied()));
            prop_assert!((0..310).all(|row| one.contains(row) == left.contains(&row)));
            for out in [false, true] {
                let mut kept = one.clone();
                kept.keep(&other, out);
                let expected: Vec<u64> = left.iter().copied().filter(|row| right.contains(row) != out).collect();
                prop_assert_eq!(kept.len(), expected.len() as u64);
                prop_assert!(kept.iter().eq(expected));
            }
        }
    }
}
