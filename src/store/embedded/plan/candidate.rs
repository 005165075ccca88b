//! What one index could do for a query.

use crate::query::Sort;
use crate::store::embedded::catalog::collections::{Collection, Index};
use crate::store::embedded::index::bounds::KeyBounds;
use crate::store::embedded::index::ranges::{IndexScan, Order, Ranges};
use crate::store::embedded::plan::conditions::{Chosen, Conditions, choices};

/// More ranges than this are not merged, because all are open at the same time.
const MAX_MERGED: usize = 256;

/// A way to use an index.
pub(crate) struct Candidate {
    pub(crate) scan: IndexScan,
    /// How many components have bounds.
    bounded: usize,
    /// Whether every document of the collection has a key in it.
    pub(crate) is_everything: bool,
    /// How many of them are bound to values.
    equalities: usize,
    /// At most one document for each range.
    pub(crate) is_key: bool,
}

impl Candidate {
    /// All ways to use the indexes of a collection, in the order of declaration.
    pub(crate) fn all(collection: &Collection, conditions: &Conditions<'_>, sort: &Sort) -> Vec<Self> {
        let positions = 0..collection.indexes.len();
        positions
            .flat_map(|position| Self::of_index(&collection.indexes[position], position, conditions, sort))
            .collect()
    }

    fn of_index(index: &Index, position: usize, conditions: &Conditions<'_>, sort: &Sort) -> Vec<Self> {
        // A filter reads numbers in a path as positions in arrays; keys are made from names alone.
        if index.components.iter().flat_map(|part| part.path.split('.')).any(is_position) {
            return Vec::new();
        }
        let Some(implied) = conditions.implying(index) else { return Vec::new() };
        let ways = choices(index, conditions).into_iter();
        let ways = ways.map(|chosen| Self::of_choice(index, position, conditions, chosen, &implied, sort));
        let helps =
            |way: &Self| way.bounded > 0 || way.scan.order != Order::Unused || (way.scan.exact && !way.is_everything);
        ways.filter(helps).collect()
    }

    fn of_choice(
        index: &Index,
        position: usize,
        conditions: &Conditions<'_>,
        chosen: Chosen,
        implied: &[usize],
        sort: &Sort,
    ) -> Self {
        let (order, leading) = order(index, &chosen.by_component, sort);
        let ranges = Ranges::of(index, &chosen.by_component, leading);
        let may_merge = !ranges.cut && ranges.depth >= leading && ranges.list.len() <= MAX_MERGED;
        let order = if leading > 0 && !may_merge { Order::Unused } else { order };
        let is_used = |position: usize| chosen.used.contains(&position) || implied.contains(&position);
        let exact = !conditions.incomplete
            && conditions.are_present_in(index)
            && (0..conditions.list.len()).all(is_used)
            && ranges.depth >= chosen.by_component.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
            && !ranges.cut
            && !index.is_multikey()
            && chosen.by_component.iter().flatten().all(|bounds| bounds.exact);
        let mut bounds = chosen.by_component;
        bounds[ranges.depth..].fill(None);
        let bounded = bounds.iter().filter(|bounds| bounds.is_some()).count();
        Self {
            bounded,
            is_everything: bounded == 0 && index.partial.is_none(),
            equalities: ranges.equalities,
            is_key: index.unique && ranges.points,
            scan: IndexScan { index: position, ranges: ranges.list, order, exact, points: ranges.points, bounds },
        }
    }

    /// The rank among ways of equal cost: larger is better.
    pub(crate) fn score(&self) -> (usize, usize, bool) {
        (self.equalities, self.bounded, self.scan.order != Order::Unused)
    }
}

fn is_position(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the keys are in the order of `sort`. Documents that are equal in it must then come in insertion order. Also
/// returns how many leading components do not count, because ranges with other values of them are merged.
///
/// A path with arrays never gives the order, because the sort value of a document may be outside the bounds.
fn order(index: &Index, bounds: &[Option<KeyBounds>], sort: &Sort) -> (Order, usize) {
    let spans_of = |position: usize| {
        bounds[position].as_ref().filter(|bounds| bounds.is_points()).map(|bounds| bounds.spans.len())
    };
    let bound = (0..index.components.len()).map_while(spans_of);
    let spans: Vec<usize> = bound.collect();
    let single = spans.iter().take_while(|spans| **spans == 1).count();
    // First without merging.
    let splits = std::iter::once(single).chain(0..single).chain(single + 1..=spans.len());
    for leading in splits {
        let order = order_behind(index, leading, &spans, sort);
        if order != Order::Unused {
            return (order, if leading > single { leading } else { 0 });
        }
    }
    (Order::Unused, 0)
}

/// The same, when the first `leading` components are bound to values.
fn order_behind(index: &Index, leading: usize, spans: &[usize], sort: &Sort) -> Order {
    let (bound, free) = index.components.split_at(leading);
    let is_constant = |path: &str| {
        let mut single = bound.iter().zip(spans).filter(|(_, spans)| **spans == 1);
        single.any(|(component, _)| component.path == path && !component.is_multikey())
    };
    let mut wanted = Vec::new();
    for key in sort.keys() {
        // No index has the values of a field alone.
        if key.path.entry().is_some() {
            return Order::Unused;
        }
        if !is_constant(key.path.as_str()) {
            wanted.push((key.path.as_str(), key.descending));
        }
    }
    // After a unique key nothing is left to order, so one further path is ignored. With two further paths a document
    // may have arrays at both, and a number in a path may be ambiguous. MongoDB refuses either, which only sorting
    // finds out.
    let is_single = spans[..leading].iter().all(|spans| *spans == 1);
    let is_plain = |(path, _): &(&str, bool)| !path.split('.').any(is_position);
    let is_settled = index.unique
        && is_single
        && !index.is_multikey()
        && wanted.len() == free.len() + 1
        && wanted.last().is_some_and(is_plain);
    let covered = wanted.len() == free.len() || is_settled;
    let pairs = || wanted.iter().zip(free);
    let usable =
        covered && !index.has_cut_keys && pairs().all(|((path, _), own)| own.path == *path && !own.is_multikey());
    if !usable || sort.is_empty() {
        return Order::Unused;
    }
    if pairs().all(|((_, descending), own)| *descending == own.descending) {
        Order::Forward
    } else if pairs().all(|((_, descending), own)| *descending != own.descending) {
        Order::Backward
    } else {
        Order::Unused
    }
}
