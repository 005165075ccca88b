//! Chooses how the documents of a query are found. The choice is a plain value; running it is `execute`'s part.
//!
//! A filter is taken apart into `conditions`, which become `bounds` of the components of an index, and those
//! `ranges` of its keys. Of the indexes that help, the one that leaves least to be looked at is taken.

use crate::query::{Node, Sort, SortKey};

use super::bounds::Bounds;
use super::catalog::{Collection, Index};
use super::conditions::{Conditions, choose_bounds};
use super::ranges::{KeyRange, Ranges};

/// How the documents of a query are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// There are none.
    Nothing,
    /// All documents are looked at, in insertion order.
    Scan,
    /// The ones with certain keys.
    Index(IndexScan),
    /// The ones with certain keys in one of several indexes: `$or`.
    Union(Vec<IndexScan>),
}

/// Ranges of keys of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IndexScan {
    /// Position in [`Collection::indexes`].
    pub(super) index: usize,
    /// Ascending and disjoint.
    pub(super) ranges: Vec<KeyRange>,
    /// Whether the order of the keys is the order that was asked for.
    pub(super) order: Order,
    /// Each document in the ranges matches, and is there once.
    pub(super) exact: bool,
    /// Each range holds a single key.
    pub(super) points: bool,
    /// What the ranges come from, by component.
    pub(super) bounds: Vec<Option<Bounds>>,
}

/// What the order of keys is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Nothing: the answer is ordered by other means, or by insertion.
    Unused,
    /// It is the order of the answer.
    Forward,
    /// Read backwards, it is the order of the answer.
    Backward,
}

impl Plan {
    /// Whether running it takes so little that no other thread is needed.
    pub(super) fn is_quick(&self, collection: &Collection) -> bool {
        match self {
            Self::Nothing => true,
            Self::Index(scan) => scan.points && scan.ranges.len() <= 8 && collection.indexes[scan.index].unique,
            Self::Scan | Self::Union(_) => false,
        }
    }

    /// Whether the documents come in the order that was asked for.
    pub(super) fn is_ordered(&self, sort: &Sort) -> bool {
        let is_insertion_order = sort.is_empty() && !sort.is_reversed();
        match self {
            Self::Nothing => true,
            Self::Index(scan) => is_insertion_order || scan.order != Order::Unused,
            Self::Scan | Self::Union(_) => is_insertion_order,
        }
    }

    /// Whether every document found matches, and is found once.
    pub(super) fn is_exact(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Index(scan) => scan.exact,
            Self::Scan | Self::Union(_) => false,
        }
    }
}

/// Chooses the way to the documents that `filter` matches, in the order of `sort`.
pub(super) fn plan(collection: &Collection, filter: &Node, sort: &Sort) -> Plan {
    let conditions = Conditions::of(filter);
    if conditions.never {
        return Plan::Nothing;
    }
    let candidates = (0..collection.indexes.len()).map(|index| Candidate::new(collection, index, &conditions, sort));
    // `max_by_key` takes the last of equal ones; the first declared is the better choice.
    let best = candidates.rev().filter(Candidate::helps).max_by_key(Candidate::score);
    match best {
        Some(candidate) if candidate.bounded > 0 => candidate.into_plan(),
        ordered => conditions
            .alternatives
            .iter()
            .find_map(|branches| union(collection, branches))
            .or_else(|| ordered.map(Candidate::into_plan))
            .unwrap_or(Plan::Scan),
    }
}

/// A plan for `$or`: one index scan for each branch.
fn union(collection: &Collection, branches: &[Node]) -> Option<Plan> {
    let mut scans = Vec::with_capacity(branches.len());
    for branch in branches {
        match plan(collection, branch, &Sort::default()) {
            Plan::Nothing => {}
            Plan::Scan => return None,
            Plan::Index(scan) => scans.push(scan),
            Plan::Union(inner) => scans.extend(inner),
        }
    }
    Some(if scans.is_empty() { Plan::Nothing } else { Plan::Union(scans) })
}

/// What an index could do for a query.
struct Candidate {
    scan: IndexScan,
    /// How many components have bounds.
    bounded: usize,
    /// How many of them are bound to single values.
    equalities: usize,
    is_key: bool,
    /// A filter takes numbers in a path for positions in arrays, keys are made by names alone.
    names_only: bool,
    /// Whether the index holds every document that may match.
    holds_all: bool,
}

impl Candidate {
    fn new(collection: &Collection, position: usize, conditions: &Conditions<'_>, sort: &Sort) -> Self {
        let index = &collection.indexes[position];
        let bounds = choose_bounds(index, conditions);
        let ranges = Ranges::of(index, &bounds.by_component);
        let order = order(index, &bounds.by_component, sort);
        let implied = conditions.implying(index);
        let is_implied = |position: &usize| implied.as_ref().is_some_and(|implied| implied.contains(position));
        let exact = !conditions.incomplete
            && (0..conditions.list.len()).all(|position| bounds.used.contains(&position) || is_implied(&position))
            && ranges.depth >= bounds.by_component.iter().rposition(Option::is_some).map_or(0, |last| last + 1)
            && !ranges.cut
            && !index.is_multikey()
            && bounds.by_component.iter().flatten().all(|bounds| bounds.exact);
        let mut bounds = bounds.by_component;
        bounds[ranges.depth..].fill(None);
        let bounded = bounds.iter().filter(|bounds| bounds.is_some()).count();
        Self {
            bounded,
            equalities: ranges.equalities,
            is_key: index.unique && ranges.points,
            holds_all: implied.is_some(),
            names_only: !index.components.iter().flat_map(|part| part.path.split('.')).any(is_position),
            scan: IndexScan { index: position, ranges: ranges.list, order, exact, points: ranges.points, bounds },
        }
    }

    fn helps(&self) -> bool {
        self.holds_all && self.names_only && (self.bounded > 0 || self.scan.order != Order::Unused)
    }

    /// The larger, the better.
    fn score(&self) -> (bool, usize, usize, bool) {
        (self.is_key, self.equalities, self.bounded, self.scan.order != Order::Unused)
    }

    fn into_plan(self) -> Plan {
        if self.scan.ranges.is_empty() { Plan::Nothing } else { Plan::Index(self.scan) }
    }
}

fn is_position(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether the keys are in the order of `sort`: documents that are equal in it must then come in insertion order.
///
/// A path with arrays is never taken for it: what a document is sorted by may lie outside of the bounds.
fn order(index: &Index, bounds: &[Option<Bounds>], sort: &Sort) -> Order {
    let fixed =
        |position: usize| bounds[position].as_ref().is_some_and(|bounds| bounds.is_points() && bounds.spans.len() == 1);
    let leading = (0..index.components.len()).take_while(|position| fixed(*position)).count();
    let (constant, free) = index.components.split_at(leading);
    let is_constant = |path: &str| constant.iter().any(|component| component.path == path && !component.is_multikey());
    let mut wanted = Vec::new();
    for key in sort.keys() {
        let SortKey::Path { path, descending } = key else { return Order::Unused };
        if !is_constant(path.as_str()) {
            wanted.push((path.as_str(), *descending));
        }
    }
    // Behind a unique key nothing is left to order. One further path is passed over; with two, a document may
    // have arrays at both, which MongoDB refuses, and which is only found out by sorting.
    let is_settled = index.unique && !index.is_multikey() && wanted.len() == free.len() + 1;
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

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::super::key::{self, kind};
    use super::*;
    use crate::query::{Filter, Limits};

    /// `_id`; `public_id`, unique; `kind` and `public_id`; `size`, descending; `tags`; names and values of `fields`.
    fn collection() -> Collection {
        let mut public_id = Index::over("public_id", &["public_id"]);
        public_id.unique = true;
        let mut size = Index::over("size", &["size"]);
        size.components[0].descending = true;
        let mut tags = Index::over("tags", &["tags"]);
        tags.components[0].arrays = 1;
        let mut fields = Index::over("fields", &["fields.name", "fields.value"]);
        fields.components.iter_mut().for_each(|component| component.arrays = 1);
        Collection::with_indexes(vec![public_id, Index::over("kind", &["kind", "public_id"]), size, tags, fields])
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
    fn planned_in(collection: &Collection, filter: Document, sort: Document) -> Plan {
        let filter = Filter::parse(&filter, &Limits::default()).expect("filters of tests are right");
        plan(collection, filter.tree(), &Sort::parse(&sort).expect("sorts of tests are right"))
    }

    fn planned(filter: Document, sort: Document) -> Plan {
        planned_in(&collection(), filter, sort)
    }

    fn scan_of(plan: Plan) -> (String, IndexScan) {
        match plan {
            Plan::Index(scan) => (collection().indexes[scan.index].name.clone(), scan),
            other => panic!("expected an index, got {other:?}"),
        }
    }

    fn index_for(filter: Document, sort: Document) -> String {
        scan_of(planned(filter, sort)).0
    }

    /// The ranges that hold exactly these values of one component.
    fn points(values: &[Bson]) -> Vec<KeyRange> {
        let mut ranges: Vec<KeyRange> =
            values.iter().map(|value| KeyRange::beginning_with(key::of_bson(value).expect("a key"))).collect();
        ranges.sort_by(|left, right| left.start.cmp(&right.start));
        ranges
    }

    #[test]
    fn a_unique_key_goes_before_everything() {
        let (name, scan) = scan_of(planned(doc! { "kind": 1, "public_id": 5 }, doc! { "size": 1 }));
        assert_eq!((name.as_str(), scan.points, scan.exact), ("public_id", true, false));
        assert_eq!(scan.ranges, points(&[5.into()]));
        assert!(Plan::Index(scan).is_quick(&collection()));
    }

    #[test]
    fn the_longest_run_of_equalities_wins() {
        assert_eq!(index_for(doc! { "kind": 1, "tags": "a" }, doc! {}), "kind");
        let entry = doc! { "fields": { "$elemMatch": { "name": "host", "value": "a" } }, "kind": 1 };
        assert_eq!(index_for(entry, doc! { "public_id": 1 }), "fields");
    }

    #[test]
    fn an_equality_and_the_order_of_the_rest_need_no_sort() {
        let (name, scan) = scan_of(planned(doc! { "kind": 1 }, doc! { "public_id": 1 }));
        assert_eq!((name.as_str(), scan.order, scan.exact), ("kind", Order::Forward, true));
        let (_, scan) = scan_of(planned(doc! { "kind": 1 }, doc! { "kind": 1, "public_id": -1 }));
        assert_eq!(scan.order, Order::Backward);
    }

    #[test]
    fn an_order_that_leaves_ties_open_is_not_taken_from_an_index() {
        // Documents of one kind have to come in insertion order, and the index has them by public_id.
        assert_eq!(planned(doc! {}, doc! { "kind": 1 }), Plan::Scan);
        assert_eq!(index_for(doc! {}, doc! { "public_id": 1, "size": -1 }), "public_id");
        assert_eq!(planned(doc! {}, doc! { "kind": 1, "public_id": -1 }), Plan::Scan);
    }

    #[test]
    fn a_descending_index_is_read_forwards_for_a_descending_order() {
        assert_eq!(scan_of(planned(doc! {}, doc! { "size": -1 })).1.order, Order::Forward);
        assert_eq!(scan_of(planned(doc! {}, doc! { "size": 1 })).1.order, Order::Backward);
    }

    #[test]
    fn paths_with_arrays_give_no_order() {
        assert_eq!(planned(doc! {}, doc! { "tags": 1 }), Plan::Scan);
        assert_eq!(scan_of(planned(doc! { "tags": "a" }, doc! { "tags": 1 })).1.order, Order::Unused);
    }

    #[test]
    fn conditions_on_an_array_are_not_joined() {
        let (_, both) = scan_of(planned(doc! { "tags": { "$gt": 4, "$lt": 6 } }, doc! {}));
        let (_, first) = scan_of(planned(doc! { "tags": { "$gt": 4 } }, doc! {}));
        assert_eq!(both.ranges, first.ranges);
        assert!(!both.exact && !first.exact);
    }

    #[test]
    fn conditions_of_one_elem_match_are_joined() {
        let (_, scan) = scan_of(planned(doc! { "tags": { "$elemMatch": { "$gte": 4, "$lte": 4 } } }, doc! {}));
        assert_eq!(scan.ranges, points(&[4.into()]));
    }

    #[test]
    fn an_elem_match_bounds_both_paths_of_an_entry() {
        let filter = doc! { "fields": { "$elemMatch": { "name": "host", "value": { "$in": ["a", "b"] } } } };
        let (name, scan) = scan_of(planned(filter, doc! {}));
        assert_eq!((name.as_str(), scan.ranges.len(), scan.points), ("fields", 2, true));
        let apart = scan_of(planned(doc! { "fields.name": "host", "fields.value": "a" }, doc! {})).1;
        assert_eq!(apart.ranges, points(&["host".into()]));
    }

    #[test]
    fn an_array_inside_an_entry_keeps_its_conditions_apart() {
        let mut own = collection();
        own.indexes[5].components[1].arrays = 0b11;
        let filter = |value: Document| doc! { "fields": { "$elemMatch": { "name": "n", "value": value } } };
        let Plan::Index(both) = planned_in(&own, filter(doc! { "$gt": 4, "$lt": 6 }), doc! {}) else {
            panic!("no index")
        };
        let Plan::Index(one) = planned_in(&own, filter(doc! { "$gt": 4 }), doc! {}) else { panic!("no index") };
        assert_eq!(both.ranges, one.ranges);
    }

    #[test]
    fn ranges_on_one_path_are_joined() {
        let (_, scan) = scan_of(planned(doc! { "size": { "$gte": 2, "$lte": 2 } }, doc! {}));
        assert_eq!(scan.ranges.len(), 1);
        assert!(scan.exact);
        assert_eq!(planned(doc! { "size": { "$gt": 2, "$lt": 1 } }, doc! {}), Plan::Nothing);
        assert_eq!(planned(doc! { "size": { "$gt": 2 }, "public_id": { "$in": [] } }, doc! {}), Plan::Nothing);
    }

    #[test]
    fn a_list_becomes_one_range_for_each_value() {
        let (_, scan) = scan_of(planned(doc! { "public_id": { "$in": [3, 1, 2, 3.0] } }, doc! { "public_id": 1 }));
        assert_eq!(scan.ranges, points(&[1.into(), 2.into(), 3.into()]));
        assert_eq!((scan.order, scan.exact), (Order::Forward, true));
    }

    #[test]
    fn or_is_a_union_when_each_branch_has_an_index() {
        let Plan::Union(scans) = planned(doc! { "$or": [{ "kind": 1 }, { "tags": "a", "x": 1 }] }, doc! {}) else {
            panic!("no union")
        };
        assert_eq!(scans.len(), 2);
        assert_eq!(planned(doc! { "$or": [{ "kind": 1 }, { "x": 1 }] }, doc! {}), Plan::Scan);
        assert_eq!(index_for(doc! { "$or": [{ "kind": 1 }, { "x": 1 }], "size": 3 }, doc! {}), "size");
    }

    #[test]
    fn a_regex_with_a_beginning_is_a_range() {
        let (_, scan) = scan_of(planned(doc! { "kind": { "$regex": "^abc?d" } }, doc! {}));
        let mut start = vec![kind::STRING];
        start.extend_from_slice(b"ab");
        assert_eq!(scan.ranges[0], KeyRange::beginning_with(start));
        assert!(!scan.exact);
    }

    #[test]
    fn what_says_nothing_about_keys_needs_a_scan() {
        for filter in
            [doc! { "kind": { "$ne": 1 } }, doc! { "kind": { "$exists": true } }, doc! { "$nor": [{ "kind": 1 }] }]
        {
            assert_eq!(planned(filter, doc! {}), Plan::Scan);
        }
    }

    #[test]
    fn null_is_not_exactly_one_key() {
        let (_, scan) = scan_of(planned(doc! { "kind": Bson::Null }, doc! { "public_id": 1 }));
        assert_eq!((scan.order, scan.points), (Order::Unused, false));
    }

    #[test]
    fn cut_keys_give_no_order() {
        let mut own = collection();
        own.indexes[3].has_cut_keys = true;
        assert_eq!(planned_in(&own, doc! {}, doc! { "size": -1 }), Plan::Scan);
        let long = "x".repeat(3000);
        let (_, scan) = scan_of(planned(doc! { "kind": long }, doc! {}));
        assert!(!scan.exact && !scan.points);
    }

    #[test]
    fn positions_in_a_path_are_no_names() {
        let own = Collection::with_indexes(vec![Index::over("first", &["tags.0"])]);
        assert_eq!(planned_in(&own, doc! { "tags.0": 1 }, doc! { "tags.0": 1 }), Plan::Scan);
    }
}
