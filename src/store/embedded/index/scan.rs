//! The ranges of keys of one index that a plan reads, as a value.

use crate::store::embedded::index::bounds::KeyBounds;
use crate::store::embedded::index::ranges::KeyRange;

/// Ranges of keys of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexScan {
    /// Position in [`Collection::indexes`](crate::store::embedded::catalog::collections::Collection::indexes).
    pub(crate) index: usize,
    /// Ascending and disjoint.
    pub(crate) ranges: Vec<KeyRange>,
    /// Whether the order of the keys is the order of the query.
    pub(crate) order: Order,
    /// Each document in the ranges matches, and occurs once.
    pub(crate) exact: bool,
    /// Each range holds a single key.
    pub(crate) points: bool,
    /// What the ranges come from, by component.
    pub(crate) bounds: Vec<Option<KeyBounds>>,
}

/// How the order of keys serves the order of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Not at all: the answer is sorted, or in insertion order.
    Unused,
    /// It is the order of the answer.
    Forward,
    /// Read backwards, it is the order of the answer.
    Backward,
}

impl IndexScan {
    /// Whether the rows come in the order of the query, or in insertion order if it has none.
    pub(crate) fn comes_in_order(&self) -> bool {
        // The entries of one key are in the order of their rows, which is the order of insertion.
        self.order != Order::Unused || (self.points && self.ranges.len() == 1)
    }

    /// Whether several ranges must be merged to be in order.
    pub(crate) fn is_merge(&self) -> bool {
        self.order != Order::Unused && self.ranges.len() > 1 && self.ranges.iter().any(|range| range.lead > 0)
    }
}
