//! `$minN` and `$maxN`, as functions and as accumulators: the least or the largest of the values that come by.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use bson::Bson;

use crate::query::compare::compare_bson;

/// A bounded number of values, in their order. Values come in one at a time, and each costs the logarithm of what is kept.
pub(in crate::query) struct Extremes {
    kept: BTreeSet<Arrived>,
    seen: u64,
    count: usize,
    largest: bool,
}

/// A value. Of equal ones the later counts as larger.
struct Arrived {
    value: Bson,
    turn: u64,
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
            let order = furthest.map(|furthest| compare_bson(&value, &furthest.value));
            // As in MongoDB an equal value does not take the place of one that is there.
            if order != Some(if self.largest { Ordering::Greater } else { Ordering::Less }) {
                return Some(value);
            }
            out = if self.largest { self.kept.pop_first() } else { self.kept.pop_last() };
        }
        self.kept.insert(Arrived { value, turn: self.seen });
        self.seen += 1;
        out.map(|arrived| arrived.value)
    }

    /// The values that are kept; of equal ones the least begin with the first that came, the largest with the last.
    pub(in crate::query) fn into_values(self) -> Vec<Bson> {
        let values = self.kept.into_iter().map(|arrived| arrived.value);
        if self.largest { values.rev().collect() } else { values.collect() }
    }
}

impl Ord for Arrived {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_bson(&self.value, &other.value).then(self.turn.cmp(&other.turn))
    }
}

impl PartialOrd for Arrived {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arrived {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Arrived {}
