//! The first documents of an order, while they are being found.

use std::cmp::Ordering;

use super::{FindQuery, StoreError};
use crate::admission::Share;
use crate::query::{Sort, SortValue};

/// A sort without an index may keep this many bytes of keys, as in MongoDB.
const MAX_SORT_BYTES: usize = 100 * 1024 * 1024;
/// MongoDB's number for a sort that needs more.
const EXCEEDED_MEMORY_LIMIT: i32 = 292;

/// The first documents of an order, while they are being found.
///
/// Keeps up to twice the needed number and then drops the worse half, so that each offer costs little.
pub(crate) struct Best {
    sort: Sort,
    kept: Vec<(SortValue, u64)>,
    bytes: usize,
    share: Share,
    /// Up to this many bytes no more memory needs to be taken.
    covered: usize,
    /// Whether later rows come first among equal documents.
    latest_first: bool,
    skip: usize,
    /// How many are needed, skipped ones included; `usize::MAX` for all.
    wanted: usize,
}

impl Best {
    pub(crate) fn new(query: &FindQuery, share: Share) -> Self {
        let FindQuery { sort, skip, limit, .. } = query;
        let (skip, limit) = (*skip, *limit);
        let wanted = if limit == 0 { u64::MAX } else { skip.saturating_add(limit) };
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            sort: sort.clone(),
            kept: Vec::new(),
            bytes: 0,
            share,
            covered: 0,
            latest_first: sort.is_reversed(),
            skip: number(skip),
            wanted: number(wanted),
        }
    }

    pub(crate) fn offer(&mut self, value: SortValue, row: u64) -> Result<(), StoreError> {
        self.bytes += value.size() + 24;
        self.kept.push((value, row));
        if self.kept.len() >= self.wanted.saturating_mul(2) || self.bytes > MAX_SORT_BYTES {
            self.drop_worse();
        }
        if self.bytes > MAX_SORT_BYTES {
            return Err(StoreError::Query {
                code: EXCEEDED_MEMORY_LIMIT,
                message: "the sort needs too much memory; use an index, a filter or a limit".to_owned(),
            });
        }
        if self.bytes > self.covered {
            self.covered = self.share.cover(self.bytes)?;
        }
        Ok(())
    }

    /// Rows break ties, so that the order is total: equal documents come in insertion order.
    fn comparison(&self) -> impl Fn(&(SortValue, u64), &(SortValue, u64)) -> Ordering + use<> {
        let (sort, latest_first) = (self.sort.clone(), self.latest_first);
        move |left, right| {
            let rows = if latest_first { right.1.cmp(&left.1) } else { left.1.cmp(&right.1) };
            sort.compare(&left.0, &right.0).then(rows)
        }
    }

    fn drop_worse(&mut self) {
        if self.kept.len() <= self.wanted {
            return;
        }
        let compare = self.comparison();
        self.kept.select_nth_unstable_by(self.wanted - 1, compare);
        self.kept.truncate(self.wanted);
        self.bytes = self.kept.iter().map(|(value, _)| value.size() + 24).sum();
    }

    pub(crate) fn into_page(self) -> impl Iterator<Item = u64> {
        let skip = self.skip;
        self.into_sorted().0.into_iter().skip(skip).map(|(_, row)| row)
    }

    /// The documents that are needed in their order, skipped ones included, and what counts their memory.
    pub(crate) fn into_sorted(mut self) -> (Vec<(SortValue, u64)>, Share) {
        self.drop_worse();
        let compare = self.comparison();
        self.kept.sort_unstable_by(compare);
        (self.kept, self.share)
    }
}
