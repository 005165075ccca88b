//! `$minN` and `$maxN`, as functions and as accumulators: the least or the largest of the values that come by.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use bson::Bson;

use crate::query::compare::{Ordered, compare_bson};

/// A bounded number of values, in their order. Values come in one at a time, and each costs the logarithm of what is kept.
pub(in crate::query) struct Extremes {
    /// The values, each with the number of its arrival: of equal values the later one counts as larger.
    kept: BTreeSet<(Ordered, u64)>,
    seen: u64,
    count: usize,
    largest: bool,
}

impl Extremes {
    pub(in crate::query) fn new(count: usize, largest: bool) -> Self {
        Self { kept: BTreeSet::new(), seen: 0, count, largest }
    }

    /// Takes a value; returns the dropped one: the kept value furthest from the wanted extreme, or the new value.
    pub(in crate::query) fn add(&mut self, value: Bson) -> Option<Bson> {
        let mut out = None;
        if self.kept.len() >= self.count {
            let furthest = if self.largest { self.kept.first() } else { self.kept.last() };
            let order = furthest.map(|furthest| compare_bson(&value, &furthest.0.0));
            // As in MongoDB an equal value does not take the place of one that is there.
            if order != Some(if self.largest { Ordering::Greater } else { Ordering::Less }) {
                return Some(value);
            }
            out = if self.largest { self.kept.pop_first() } else { self.kept.pop_last() };
        }
        self.kept.insert((Ordered(value), self.seen));
        self.seen += 1;
        out.map(|arrived| arrived.0.0)
    }

    /// The values that are kept; of equal ones the least begin with the first that came, the largest with the last.
    pub(in crate::query) fn into_values(self) -> Vec<Bson> {
        let values = self.kept.into_iter().map(|arrived| arrived.0.0);
        if self.largest { values.rev().collect() } else { values.collect() }
    }
}
