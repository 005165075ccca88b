//! Chooses how the documents of a query and their total are found. The choice is a plain value; running it is
//! `execute`'s part.
//!
//! It splits a filter into `conditions`. These become `bounds` of the components of an index, and the bounds become
//! `ranges` of its keys: a `candidate`. It chooses a certain winner at once: a unique key, or keys that are exactly the
//! answer in its order. A candidate with few keys is next. Otherwise it counts the keys of each candidate, up to a few
//! thousand, and chooses the way with the least work.

use crate::query::{Node, Sort};
use crate::store::FindQuery;
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::index::ranges::{IndexScan, Order};
use crate::store::embedded::plan::candidate::Candidate;
use crate::store::embedded::plan::conditions::Conditions;
use crate::store::embedded::plan::key_sets::KeySets;

/// Reading a document through a key costs this many times more than reading it in a scan.
pub(crate) const FETCH: u64 = 4;
/// A scan replaces an index only if that saves this much work, in documents.
const WORTH: u64 = 10_000;
/// To compare indexes, at most this many keys are counted one by one.
const MAX_COUNTED: u64 = 10_000;
/// The assumed fraction of matching documents if it is unknown: one in this many.
const GUESS: u64 = 10;
/// From this many documents on an order from an index is preferred, because a sort in memory might fail.
const MANY: u64 = 100_000;
/// Up to this many documents are read on the thread of the request; more take a separate thread.
pub(crate) const FEW: u64 = 128;
/// This many keys are read in the time of one document of a scan.
pub(crate) const KEYS_OF_A_DOCUMENT: u64 = 16;
/// A set has a bit for each row that the collection ever had: at most 16 MiB.
const MOST_ROWS: u64 = 1 << 27;
/// The maximum number of candidates examined for whether they have few keys, and of ranges of such a candidate.
const ASKED: usize = 8;

/// How the documents of a query are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// There are none.
    Nothing,
    /// All documents are examined, in insertion order.
    Scan,
    /// The ones with certain keys.
    Index(IndexScan),
    /// The ones with certain keys in one of several indexes: `$or`.
    Union(Vec<IndexScan>),
    /// The ones whose rows are in several sets, which keys decide.
    Sets(KeySets),
}

/// What is requested in addition to the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// How many documents of the answer are needed, skipped ones included; `None`: all.
    pub(crate) first: Option<u64>,
    /// Whether the number of all is wanted.
    pub(crate) total: bool,
    /// Whether they may come in any order.
    pub(crate) any_order: bool,
}

/// A plan, and where the total comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) plan: Plan,
    pub(crate) total: TotalBy,
}

/// Where the number of all documents that match comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TotalBy {
    /// All documents match.
    Collection,
    /// These keys are exactly the documents that match.
    Keys(IndexScan),
    /// Each document that may match is examined.
    Documents,
}

/// The numbers of keys and documents that planning can use.
pub(crate) trait Numbers {
    /// How many documents there are.
    fn documents(&self) -> u64;
    /// The number of entries in the ranges, if it was counted before.
    fn known(&self, _scan: &IndexScan) -> Option<u64> {
        None
    }
    /// The approximate number of entries in the ranges; counting one by one ends at `at_most`.
    fn keys(&self, scan: &IndexScan, at_most: u64) -> u64;
    /// The number of entries in the ranges, unless it is larger; `None` also when they cannot be read.
    fn few_keys(&self, scan: &IndexScan, at_most: u64) -> Option<u64>;
}

impl Plan {
    /// Whether it reads few documents.
    pub(crate) fn is_few(&self, collection: &Collection, numbers: &dyn Numbers) -> bool {
        match self {
            Self::Nothing => true,
            Self::Scan => numbers.documents() <= FEW,
            Self::Index(scan) => {
                let is_by_key = scan.points && collection.indexes[scan.index].unique;
                if is_by_key { scan.ranges.len() as u64 <= FEW } else { has_few_keys(scan, numbers) }
            }
            Self::Union(_) | Self::Sets(_) => false,
        }
    }

    /// Whether the documents come in the order of the query.
    pub(crate) fn is_ordered(&self, sort: &Sort) -> bool {
        let is_insertion_order = sort.is_empty() && !sort.is_reversed();
        match self {
            Self::Nothing => true,
            Self::Index(scan) => is_insertion_order || scan.order != Order::Unused,
            Self::Scan | Self::Union(_) => is_insertion_order,
            Self::Sets(_) => false,
        }
    }
}

impl Choice {
    /// The scan whose entries are the answer, one each and in its order, if there is one.
    pub(crate) fn answering_keys(&self, query: &FindQuery, with_total: bool) -> Option<&IndexScan> {
        let Plan::Index(scan) = &self.plan else { return None };
        let is_exact = scan.exact || matches!(query.filter.tree(), Node::Always);
        let is_ordered = scan.comes_in_order() && !query.sort.is_reversed();
        (is_exact && is_ordered && (!with_total || self.total != TotalBy::Documents)).then_some(scan)
    }
}

/// Whether a scan is less work than following this many keys.
pub(crate) fn prefers_scan(keys: u64, documents: u64) -> bool {
    keys.saturating_mul(FETCH) > documents.saturating_add(WORTH)
}

fn has_few_keys(scan: &IndexScan, numbers: &dyn Numbers) -> bool {
    scan.ranges.len() <= ASKED && numbers.few_keys(scan, FEW).is_some()
}

/// The plan that takes no search: a certain winner, or a way to few documents.
pub(crate) fn short_plan(collection: &Collection, filter: &Node, sort: &Sort, numbers: &dyn Numbers) -> Option<Choice> {
    let conditions = Conditions::of(filter);
    if conditions.never {
        return Some(Choice { plan: Plan::Nothing, total: TotalBy::Documents });
    }
    let mut candidates = Candidate::all(collection, &conditions, sort);
    let mut total = TotalBy::Documents;
    sure(filter, &mut candidates, &mut total).or_else(|| few(&conditions, &mut candidates, &total, numbers))
}

/// The candidate with the fewest keys, if it has few; else all documents, if they are few.
fn few(
    conditions: &Conditions<'_>,
    candidates: &mut Vec<Candidate>,
    total: &TotalBy,
    numbers: &dyn Numbers,
) -> Option<Choice> {
    // The first declared of equal ones.
    candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.score()));
    let asked = candidates.iter().take(ASKED).enumerate();
    let mut best = None;
    for (position, candidate) in asked.filter(|(_, candidate)| candidate.scan.ranges.len() <= ASKED) {
        let at_most = match best {
            Some((0, _)) => break,
            Some((keys, _)) => keys - 1,
            None => FEW,
        };
        if let Some(keys) = numbers.few_keys(&candidate.scan, at_most) {
            best = Some((keys, position));
        }
    }
    let plan = match best {
        Some((_, position)) => candidates.swap_remove(position).into_plan(),
        None if conditions.alternatives.is_empty() && numbers.documents() <= FEW => Plan::Scan,
        None => return None,
    };
    Some(Choice { plan, total: total.clone() })
}

/// A unique key, or keys that are exactly the answer in its order. `total` says where the total comes from.
fn sure(filter: &Node, candidates: &mut Vec<Candidate>, total: &mut TotalBy) -> Option<Choice> {
    if let Some(key) = candidates.iter().position(|candidate| candidate.is_key) {
        return Some(candidates.swap_remove(key).into_choice());
    }
    let exact = candidates.iter().filter(|candidate| candidate.scan.exact).max_by_key(|candidate| candidate.score());
    *total = match exact {
        _ if matches!(filter, Node::Always) => TotalBy::Collection,
        Some(exact) => TotalBy::Keys(exact.scan.clone()),
        None => TotalBy::Documents,
    };
    let is_perfect = |candidate: &Candidate| {
        candidate.scan.order != Order::Unused && (candidate.scan.exact || matches!(filter, Node::Always))
    };
    let perfect = candidates.iter().position(is_perfect)?;
    Some(Choice { plan: candidates.swap_remove(perfect).into_plan(), total: total.clone() })
}

/// Chooses the way to the documents that `filter` matches, in the order of `sort`.
pub(crate) fn plan(
    collection: &Collection,
    filter: &Node,
    sort: &Sort,
    wanted: Wanted,
    numbers: &dyn Numbers,
) -> Choice {
    let conditions = Conditions::of(filter);
    if conditions.never {
        return Choice { plan: Plan::Nothing, total: TotalBy::Documents };
    }
    let mut candidates = Candidate::all(collection, &conditions, sort);
    let mut total = TotalBy::Documents;
    let at_once = sure(filter, &mut candidates, &mut total);
    if let Some(choice) = at_once.or_else(|| few(&conditions, &mut candidates, &total, numbers)) {
        return choice;
    }
    if wanted.total
        && total == TotalBy::Documents
        && let Some(choice) = by_sets(collection, filter, sort, numbers, u64::MAX)
    {
        return choice;
    }
    let search = PlanSearch { collection, sort, wanted, numbers, total: &total };
    let plan = search.cheapest(candidates, &conditions);
    Choice { plan, total }
}

/// Sets of rows that keys decide, if they are the way with the least work and take at most this many keys.
pub(crate) fn by_sets(
    collection: &Collection,
    filter: &Node,
    sort: &Sort,
    numbers: &dyn Numbers,
    at_most: u64,
) -> Option<Choice> {
    let sets = KeySets::of(collection, filter, sort).filter(|_| collection.next_row <= MOST_ROWS)?;
    are_worth_it(&sets, collection, numbers, at_most)
        .then_some(Choice { plan: Plan::Sets(sets), total: TotalBy::Documents })
}

/// Whether reading all keys of the sets is less work than reading documents, and at most this many keys.
fn are_worth_it(sets: &KeySets, collection: &Collection, numbers: &dyn Numbers, at_most: u64) -> bool {
    let documents = numbers.documents().saturating_add(WORTH);
    let found = sets.plain.as_ref().map(|scan| numbers.keys(scan, documents));
    let plain = found.map_or(u64::MAX, |found| found.saturating_mul(FETCH));
    // The keys of the plain conditions are read too, or those of all other documents.
    let of_plain = found.map_or(0, |found| found.min(numbers.documents().saturating_sub(found)));
    let is_one = sets.elements.len() == 1;
    let (mut others, mut ours) = (documents.min(plain), of_plain);
    for set in &sets.elements {
        let all = collection.indexes[set.scan.index].packed.unwrap_or(u64::MAX);
        // Counting costs as much as reading: only where it may decide.
        let is_sure = is_one && all / KEYS_OF_A_DOCUMENT <= others && all <= at_most;
        let keys = if is_sure { all } else { numbers.keys(&set.scan, MAX_COUNTED) };
        if keys < MAX_COUNTED {
            others = others.min(keys.saturating_mul(FETCH));
        }
        ours = ours.saturating_add(if keys < MAX_COUNTED { keys } else { all });
    }
    // Where nothing is more selective, the same keys alone cost no more than with their documents.
    let is_alone = is_one && sets.elements[0].test.is_none() && plain >= documents;
    ours <= at_most && (ours / KEYS_OF_A_DOCUMENT <= others || is_alone)
}

/// Looks for the way with the least work.
struct PlanSearch<'a> {
    collection: &'a Collection,
    sort: &'a Sort,
    wanted: Wanted,
    numbers: &'a dyn Numbers,
    total: &'a TotalBy,
}

impl PlanSearch<'_> {
    /// The candidates come in the order of their scores.
    fn cheapest(&self, candidates: Vec<Candidate>, conditions: &Conditions<'_>) -> Plan {
        let documents = self.numbers.documents();
        let is_sorted = self.sort.is_empty() && !self.sort.is_reversed();
        let mut best = (self.with_sort(documents.saturating_add(WORTH), is_sorted), Plan::Scan);
        for candidate in candidates {
            let keys = if candidate.is_everything {
                documents
            } else {
                // Above this it is not the best, or costs no more, so counting can stop.
                let most = (best.0 / FETCH).saturating_add(1).min(self.most_useful(&candidate));
                self.numbers.keys(&candidate.scan, most)
            };
            let cost = self.cost(&candidate, keys);
            if cost < best.0 {
                best = (cost, candidate.into_plan());
            }
        }
        for branches in &conditions.alternatives {
            if let Some((cost, union)) = self.union(branches, best.0) {
                best = (cost, union);
            }
        }
        best.1
    }

    /// The work of a way that finds `keys` entries, in documents of a scan.
    fn cost(&self, candidate: &Candidate, keys: u64) -> u64 {
        let all = keys.saturating_mul(FETCH);
        let is_ordered = self.is_ordered(candidate);
        match self.ends_early(candidate) {
            Some(first) => {
                // Reading ends with the last wanted document: after a part of the keys.
                let matching = match self.total {
                    TotalBy::Keys(exact) => self.numbers.keys(exact, MAX_COUNTED),
                    _ => keys / GUESS,
                };
                let expected = u128::from(first) * u128::from(keys) / u128::from(matching.max(1));
                u64::try_from(expected).unwrap_or(u64::MAX).saturating_add(1).saturating_mul(FETCH).min(all)
            }
            None => self.with_sort(all, is_ordered || self.sort.is_empty()),
        }
    }

    fn is_ordered(&self, candidate: &Candidate) -> bool {
        candidate.scan.order != Order::Unused || self.wanted.any_order
    }

    /// After how many documents reading ends, if it does.
    fn ends_early(&self, candidate: &Candidate) -> Option<u64> {
        let reads_all = self.wanted.total && *self.total == TotalBy::Documents;
        self.wanted.first.filter(|_| self.is_ordered(candidate) && !reads_all)
    }

    /// More keys than this do not change what the candidate costs, as far as that is assumed.
    fn most_useful(&self, candidate: &Candidate) -> u64 {
        match self.ends_early(candidate) {
            Some(first) if !matches!(self.total, TotalBy::Keys(_)) => {
                first.saturating_add(1).saturating_mul(GUESS).min(MAX_COUNTED)
            }
            _ => MAX_COUNTED,
        }
    }

    fn with_sort(&self, cost: u64, is_sorted: bool) -> u64 {
        let keeps_many = self.wanted.first.is_none_or(|first| first > MANY);
        if is_sorted || !keeps_many { cost } else { cost.saturating_mul(2 * FETCH) }
    }

    /// One way for each branch of an `$or`, if their sum is less work than `best`.
    fn union(&self, branches: &[Node], best: u64) -> Option<(u64, Plan)> {
        let (mut scans, mut cost) = (Vec::new(), 0_u64);
        let wanted = Wanted { first: None, total: false, any_order: false };
        for branch in branches {
            match plan(self.collection, branch, &Sort::default(), wanted, self.numbers).plan {
                Plan::Nothing => {}
                Plan::Scan => return None,
                Plan::Index(scan) => scans.push(scan),
                Plan::Union(inner) => scans.extend(inner),
                // They serve totals alone.
                Plan::Sets(_) => return None,
            }
        }
        for scan in &scans {
            let keys = self.numbers.keys(scan, (best / FETCH).saturating_add(1).min(MAX_COUNTED));
            cost = cost.saturating_add(self.with_sort(keys.saturating_mul(FETCH), self.sort.is_empty()));
        }
        let plan = if scans.is_empty() { Plan::Nothing } else { Plan::Union(scans) };
        (cost < best).then_some((cost, plan))
    }
}

impl Candidate {
    fn into_plan(self) -> Plan {
        if self.scan.ranges.is_empty() { Plan::Nothing } else { Plan::Index(self.scan) }
    }

    /// The plan alone: its total takes no further keys.
    fn into_choice(self) -> Choice {
        let total = if self.scan.exact { TotalBy::Keys(self.scan.clone()) } else { TotalBy::Documents };
        Choice { plan: self.into_plan(), total }
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use super::*;
    use crate::query::{Filter, Limits};
    use crate::store::embedded::catalog::collections::{Index, Partial};
    use crate::store::embedded::index::key::{self, kind};
    use crate::store::embedded::index::ranges::KeyRange;

    const PAGE: Wanted = Wanted { first: Some(10), total: true, any_order: false };

    /// A million documents; how many keys a scan has, the test says.
    struct Assumed<'c> {
        collection: &'c Collection,
        keys: &'c dyn Fn(&str, &IndexScan) -> u64,
    }

    impl Numbers for Assumed<'_> {
        fn documents(&self) -> u64 {
            1_000_000
        }

        fn keys(&self, scan: &IndexScan, _at_most: u64) -> u64 {
            (self.keys)(&self.collection.indexes[scan.index].name, scan)
        }

        fn few_keys(&self, scan: &IndexScan, at_most: u64) -> Option<u64> {
            Some(self.keys(scan, at_most)).filter(|keys| *keys <= at_most)
        }
    }

    fn chosen(filter: Document, sort: Document, wanted: Wanted, keys: &dyn Fn(&str, &IndexScan) -> u64) -> Choice {
        chosen_in(&collection(), filter, sort, wanted, keys)
    }

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
    fn chosen_in(
        collection: &Collection,
        filter: Document,
        sort: Document,
        wanted: Wanted,
        keys: &dyn Fn(&str, &IndexScan) -> u64,
    ) -> Choice {
        let filter = Filter::parse(&filter, &Limits::default()).expect("filters of tests are right");
        let sort = Sort::parse(&sort).expect("sorts of tests are right");
        plan(collection, filter.tree(), &sort, wanted, &Assumed { collection, keys })
    }

    /// A page, when each way has a hundred keys.
    fn planned_in(collection: &Collection, filter: Document, sort: Document) -> Plan {
        chosen_in(collection, filter, sort, PAGE, &|_, _| 100).plan
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
        assert!(Plan::Index(scan).is_few(&collection(), &Assumed { collection: &collection(), keys: &|_, _| 1_000 }));
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
    fn two_paths_through_an_array_inside_the_element_are_not_bounded_together() {
        let mut nested = Index::over("nested", &["a.b.c", "a.b.d"]);
        let filter = doc! { "a": { "$elemMatch": { "b.c": 1, "b.d": 2 } } };
        for (arrays, bounded) in [(0b01, 2), (0b11, 1)] {
            nested.components.iter_mut().for_each(|component| component.arrays = arrays);
            let own = Collection::with_indexes(vec![nested.clone()]);
            let Plan::Index(scan) = planned_in(&own, filter.clone(), doc! {}) else { panic!("no index") };
            assert_eq!(scan.bounds.iter().flatten().count(), bounded, "{arrays:b}");
        }
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
            [doc! { "tags": { "$ne": 1 } }, doc! { "kind": { "$exists": true } }, doc! { "$nor": [{ "kind": 1 }] }]
        {
            assert_eq!(planned(filter, doc! {}), Plan::Scan);
        }
    }

    #[test]
    fn all_values_but_some_are_the_keys_around_them() {
        let (name, scan) = scan_of(planned(doc! { "kind": { "$nin": [1, 3] } }, doc! {}));
        assert_eq!((name.as_str(), scan.ranges.len(), scan.exact, scan.points), ("kind", 3, true, false));
    }

    #[test]
    fn several_values_in_front_of_the_order_are_merged() {
        let (name, scan) = scan_of(planned(doc! { "kind": { "$in": [1, 2] } }, doc! { "public_id": -1 }));
        assert_eq!((name.as_str(), scan.order, scan.exact, scan.is_merge()), ("kind", Order::Backward, true, true));
        assert!(scan.ranges.iter().all(|range| range.lead == range.start.len()));
        let (_, both) = scan_of(planned(doc! { "kind": { "$in": [1, 2] } }, doc! { "kind": 1, "public_id": 1 }));
        assert_eq!((both.order, both.is_merge()), (Order::Forward, false));
    }

    #[test]
    fn too_many_values_in_front_of_the_order_give_no_order() {
        for (values, ranges, order) in [
            (256, 256, Order::Forward),
            (257, 257, Order::Unused),
            (2_000, 2_000, Order::Unused),
            (2_001, 1, Order::Unused),
        ] {
            let list: Vec<Bson> = (0..values).map(Bson::Int32).collect();
            let limits = Limits { max_in_items: usize::MAX, ..Limits::default() };
            let filter = Filter::parse(&doc! { "kind": { "$in": list } }, &limits).expect("a filter");
            let (conditions, sort) = (Conditions::of(filter.tree()), Sort::by("public_id", false));
            let ways = Candidate::all(&collection(), &conditions, &sort);
            let way = ways.iter().find(|way| way.scan.index == 2).map(|way| (way.scan.ranges.len(), way.scan.order));
            // More ranges than a list may have: the index says nothing at all, and is no way then.
            let expected = (values <= 2_000).then_some((ranges, order));
            assert_eq!(way, expected, "{values} values");
        }
    }

    #[test]
    fn the_total_may_come_from_another_index_than_the_page() {
        let keys = |name: &str, _: &IndexScan| if name == "kind" { 500_000 } else { 1_000_000 };
        let choice = chosen(doc! { "kind": { "$gt": 3 } }, doc! { "public_id": 1 }, PAGE, &keys);
        assert_eq!(scan_of(choice.plan).0, "public_id");
        assert!(matches!(choice.total, TotalBy::Keys(IndexScan { index: 2, .. })), "{:?}", choice.total);
        // Few matches lie far apart in the other order.
        let few = chosen(doc! { "kind": { "$gt": 3 } }, doc! { "public_id": 1 }, PAGE, &|_, _| 20);
        assert_eq!(scan_of(few.plan).0, "kind");
    }

    #[test]
    fn the_index_with_the_fewest_keys_is_taken() {
        for (few, other) in [("kind", "size"), ("size", "kind")] {
            let keys = |name: &str, _: &IndexScan| if name == few { 10 } else { 5000 };
            let choice = chosen(doc! { other: 1, few: 1 }, doc! { "tags": 1 }, PAGE, &keys);
            assert_eq!(scan_of(choice.plan).0, few);
        }
    }

    #[test]
    fn of_several_entries_the_rarest_is_looked_up() {
        let entry = |name: &str| doc! { "fields": { "$elemMatch": { "name": name, "value": 1 } } };
        for rare in ["a", "b"] {
            let ranges = points(&[rare.into()]);
            let keys = |_: &str, scan: &IndexScan| {
                if scan.ranges[0].start.starts_with(&ranges[0].start) { 3 } else { 5000 }
            };
            let choice = chosen(doc! { "$and": [entry("a"), entry("b")] }, doc! {}, PAGE, &keys);
            assert!(scan_of(choice.plan).1.ranges[0].start.starts_with(&ranges[0].start), "{rare}");
        }
    }

    #[test]
    fn an_index_that_leaves_most_documents_is_not_used() {
        assert_eq!(chosen(doc! { "tags": "a" }, doc! { "size": 1 }, PAGE, &|_, _| 400_000).plan, Plan::Scan);
        let all = Wanted { first: None, total: false, any_order: false };
        let choice = chosen(doc! { "tags": "a" }, doc! { "public_id": 1 }, all, &|_, _| 1_000_000);
        assert_eq!(scan_of(choice.plan).1.order, Order::Forward, "sorting so many in memory might fail");
    }

    #[test]
    fn without_a_total_the_order_alone_may_be_the_best() {
        let find = Wanted { first: Some(1), total: false, any_order: false };
        let keys = |name: &str, _: &IndexScan| if name == "tags" { 9000 } else { 1_000_000 };
        let choice = chosen(doc! { "tags": "a" }, doc! { "public_id": 1 }, find, &keys);
        assert_eq!(scan_of(choice.plan).0, "public_id");
    }

    #[test]
    fn a_partial_index_serves_only_questions_for_its_documents() {
        let mut active = Index::over("active", &["size"]);
        active.partial = Partial::of(doc! { "active": true, "kind": 2_i64 });
        let own = Collection::with_indexes(vec![active]);
        let Plan::Index(scan) = planned_in(&own, doc! { "active": true, "kind": 2, "size": 1 }, doc! {}) else {
            panic!("no index")
        };
        assert!(scan.exact);
        let all = chosen_in(&own, doc! { "kind": 2, "active": true }, doc! { "_id": 1 }, PAGE, &|_, _| 900_000);
        assert!(matches!(all.total, TotalBy::Keys(IndexScan { index: 1, .. })), "{all:?}");
        assert!(matches!(all.plan, Plan::Index(IndexScan { index: 0, .. })), "{all:?}");
        for filter in [
            doc! { "active": true, "size": 1 },
            doc! { "active": true, "kind": 3, "size": 1 },
            doc! { "active": { "$in": [true, false] }, "kind": 2, "size": 1 },
            doc! { "$or": [{ "active": true, "kind": 2 }, { "x": 1 }], "size": 1 },
        ] {
            assert_eq!(planned_in(&own, filter, doc! {}), Plan::Scan);
        }
    }

    #[test]
    fn a_partial_index_of_what_is_there_serves_questions_that_say_so() {
        let mut sizes = Index::over("sizes", &["size"]);
        sizes.partial = Partial::of(doc! { "size": { "$exists": true } });
        let own = Collection::with_indexes(vec![sizes]);
        for filter in [doc! { "size": { "$exists": true } }, doc! { "size": { "$exists": true, "$gt": 1 } }] {
            let planned = planned_in(&own, filter, doc! { "size": -1 });
            assert!(matches!(planned, Plan::Index(IndexScan { index: 1, exact: true, .. })), "{planned:?}");
        }
        // What lacks the member cannot match these.
        for condition in [doc! { "$gt": 1 }, doc! { "$in": [1, 2] }, doc! { "$lt": "a" }, doc! { "$regex": "^a" }] {
            let planned = planned_in(&own, doc! { "size": condition }, doc! {});
            assert!(matches!(planned, Plan::Index(IndexScan { index: 1, .. })), "{planned:?}");
        }
        for condition in [doc! { "$gte": null }, doc! { "$in": [1, null] }, doc! { "$ne": 1 }, doc! { "$eq": null }] {
            assert_eq!(planned_in(&own, doc! { "size": condition }, doc! {}), Plan::Scan);
        }
        let both = planned_in(&own, doc! { "size": { "$gt": 1 }, "kind": { "$exists": true } }, doc! {});
        assert!(matches!(both, Plan::Index(IndexScan { index: 1, exact: false, .. })), "{both:?}");
        for filter in [doc! {}, doc! { "size": { "$exists": false } }, doc! { "kind": { "$exists": true } }] {
            assert_eq!(planned_in(&own, filter, doc! { "size": -1 }), Plan::Scan);
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
