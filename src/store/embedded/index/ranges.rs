//! Bounds of the components of an index as ranges of its keys, and those that a plan reads.

use crate::store::embedded::catalog::collections::Index;
use crate::store::embedded::index::bounds::{KeyBounds, Span};
use crate::store::embedded::index::key;
use crate::store::embedded::index::key::kind;

/// With more ranges than this, the index is not used.
const MAX_RANGES: usize = 2000;

/// Keys from `start` to below `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Vec<u8>,
    /// The length of the prefix that does not count for the order; see [`Ranges::of`].
    pub(crate) lead: usize,
}

/// The ranges of keys that follow from bounds of components.
pub(crate) struct Ranges {
    pub(crate) list: Vec<KeyRange>,
    /// How many components are in them.
    pub(crate) depth: usize,
    /// How many leading components are bound to values.
    pub(crate) equalities: usize,
    /// Each range is one whole key.
    pub(crate) points: bool,
    pub(crate) cut: bool,
}

impl Ranges {
    /// The ranges of an index whose components are bound like this. The first `leading` components, all of them bound to
    /// values, are the lead of each range.
    pub(crate) fn of(index: &Index, bounds: &[Option<KeyBounds>], leading: usize) -> Self {
        let mut prefixes = vec![KeyRange { start: Vec::new(), end: Vec::new(), lead: 0 }];
        let mut ranges = Self { list: Vec::new(), depth: 0, equalities: 0, points: false, cut: false };
        for (component, bounds) in index.components.iter().zip(bounds) {
            let Some(bounds) = bounds else { break };
            if prefixes.len() * bounds.spans.len().max(1) > MAX_RANGES {
                break;
            }
            ranges.depth += 1;
            let spans: Vec<Span> = if component.descending {
                bounds.spans.iter().rev().map(Span::inverted).collect()
            } else {
                bounds.spans.clone()
            };
            if !bounds.is_points() {
                ranges.list = joined(&prefixes, &spans);
                return ranges.finished();
            }
            ranges.equalities += 1;
            prefixes = joined(&prefixes, &spans);
            if ranges.depth <= leading {
                for prefix in &mut prefixes {
                    prefix.lead = prefix.start.len();
                }
            }
        }
        ranges.points = ranges.depth == index.components.len();
        let whole = |prefix: KeyRange| KeyRange { lead: prefix.lead, ..KeyRange::beginning_with(prefix.start) };
        ranges.list = prefixes.into_iter().map(whole).collect();
        ranges.finished()
    }

    /// Cuts long bounds as keys are cut, and joins overlapping ranges.
    fn finished(mut self) -> Self {
        for range in &mut self.list {
            self.cut |= range.cut();
        }
        self.points &= !self.cut;
        self.list.sort_by(|left, right| left.start.cmp(&right.start));
        self.list.dedup_by(|next, previous| {
            let overlap = next.start < previous.end;
            if overlap && next.end > previous.end {
                previous.end = std::mem::take(&mut next.end);
            }
            overlap
        });
        self
    }
}

/// Each prefix followed by each span.
fn joined(prefixes: &[KeyRange], spans: &[Span]) -> Vec<KeyRange> {
    let join = |prefix: &KeyRange, rest: &[u8]| [prefix.start.as_slice(), rest].concat();
    let pairs = prefixes.iter().flat_map(|prefix| spans.iter().map(move |span| (prefix, span)));
    let range = |(prefix, span): (&KeyRange, &Span)| KeyRange {
        start: join(prefix, &span.start),
        end: join(prefix, &span.end),
        lead: prefix.lead,
    };
    pairs.map(range).collect()
}

impl KeyRange {
    /// All keys that begin with these bytes.
    pub(crate) fn beginning_with(prefix: Vec<u8>) -> Self {
        let end = key::successor(&prefix).unwrap_or_else(|| vec![kind::ABOVE_ALL]);
        Self { start: prefix, end, lead: 0 }
    }

    fn cut(&mut self) -> bool {
        let start_cut = self.start.len() > key::MAX_KEY;
        self.start.truncate(key::MAX_KEY);
        let end_cut = self.end.len() > key::MAX_KEY;
        if end_cut {
            self.end = key::successor(&self.end[..key::MAX_KEY]).unwrap_or_else(|| vec![kind::ABOVE_ALL]);
        }
        start_cut || end_cut
    }
}

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
