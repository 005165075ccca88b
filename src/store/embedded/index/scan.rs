//! Ranges of keys of one index, as a value: what a plan says is to be read.

use crate::store::embedded::index::bounds::KeyBounds;
use crate::store::embedded::index::ranges::KeyRange;

/// Ranges of keys of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexScan {
    /// Position in [`Collection::indexes`](crate::store::embedded::catalog::collections::Collection::indexes).
    pub(crate) index: usize,
    /// Ascending and disjoint.
    pub(crate) ranges: Vec<KeyRange>,
    /// Whether the order of the keys is the order that was asked for.
    pub(crate) order: Order,
    /// Each document in the ranges matches, and is there once.
    pub(crate) exact: bool,
    /// Each range holds a single key.
    pub(crate) points: bool,
    /// What the ranges come from, by component.
    pub(crate) bounds: Vec<Option<KeyBounds>>,
}

/// What the order of keys is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing: the answer is ordered by other means, or by insertion.
    Unused,
    /// It is the order of the answer.
    Forward,
    /// Read backwards, it is the order of the answer.
    Backward,
}

impl IndexScan {
    /// Whether the rows come in the order that was asked for, or in insertion order where none was.
    pub(crate) fn comes_in_order(&self) -> bool {
        // The entries of one key are in the order of their rows, which is the order of insertion.
        self.order != Order::Unused || (self.points && self.ranges.len() == 1)
    }

    /// Whether several ranges have to be read from at the same time to be in order.
    pub(crate) fn is_merge(&self) -> bool {
        self.order != Order::Unused && self.ranges.len() > 1 && self.ranges.iter().any(|range| range.lead > 0)
    }
}
