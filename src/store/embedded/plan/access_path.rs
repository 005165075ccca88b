//! Chooses how a query is answered: once, as a value. `read` runs it.

use crate::query::{Node, Projection, Sort};
use crate::store::FindQuery;
use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::plan::planner::{Choice, FEW, Numbers, Plan, TotalBy, by_sets, short_plan};
use crate::store::embedded::plan::point::{Point, Points};

/// A short answer skips and reads at most this many keys.
const MAX_PASSED: u64 = 1024;

/// Sets of rows are made of at most this many keys where the request is: less than a millisecond.
const MAX_SHORT_KEYS: u64 = 32_768;

/// How a query is answered.
pub(crate) enum AccessPath {
    /// One key of a unique index is looked up.
    Point(Point),
    /// A few keys of a unique index are looked up, in no order.
    Points(Points),
    /// A plan with so little work that it needs no other thread.
    Short(Choice),
    /// A plan that is made on a separate thread, because it may have to count many keys.
    Planned,
}

impl AccessPath {
    /// The first that fits, in the order above.
    pub(crate) fn of(collection: &Collection, query: &FindQuery, with_total: bool, numbers: &dyn Numbers) -> Self {
        let (filter, sort) = (query.filter.tree(), &query.sort);
        // Expressions of clients take a separate thread, even on one document.
        if filter.is_costly() || query.projection.as_ref().is_some_and(Projection::is_computed) {
            return Self::Planned;
        }
        // A sort by two paths may be refused for the found document.
        if sort.keys().len() < 2
            && let Some(point) = Point::of(collection, filter)
        {
            return Self::Point(point);
        }
        if sort.is_empty()
            && !sort.is_reversed()
            && let Some(points) = Points::of(collection, filter)
        {
            return Self::Points(points);
        }
        let choice = short_plan(collection, filter, sort, numbers);
        let is_short = |choice: &Choice| {
            is_short_page(choice, query, with_total, numbers) || choice.plan.is_few(collection, numbers)
        };
        if let Some(short) = choice.filter(is_short) {
            return Self::Short(short);
        }
        let sets = if with_total { by_sets(collection, filter, sort, numbers, MAX_SHORT_KEYS) } else { None };
        sets.map_or(Self::Planned, Self::Short)
    }
}

fn is_short_page(choice: &Choice, query: &FindQuery, with_total: bool, numbers: &dyn Numbers) -> bool {
    let is_page = (1..=FEW).contains(&query.limit) && query.skip.saturating_add(query.limit) <= MAX_PASSED;
    let is_counted = !with_total || is_known(&choice.total, numbers);
    is_page && is_counted && choice.answering_keys(query, with_total).is_some()
}

/// Whether the total takes no counting.
fn is_known(total: &TotalBy, numbers: &dyn Numbers) -> bool {
    match total {
        TotalBy::Collection => true,
        TotalBy::Keys(scan) => numbers.known(scan).is_some(),
        TotalBy::Documents => false,
    }
}

/// The plan that counts the matching documents, if it needs no other thread.
pub(crate) fn short_count(collection: &Collection, filter: &Node, numbers: &dyn Numbers) -> Option<Choice> {
    match filter {
        Node::Always => Some(Choice { plan: Plan::Scan, total: TotalBy::Collection }),
        costly if costly.is_costly() => None,
        _ => {
            let choice = short_plan(collection, filter, &Sort::default(), numbers);
            choice.filter(|choice| is_known(&choice.total, numbers) || choice.plan.is_few(collection, numbers))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Document, doc};

    use super::*;
    use crate::query::{Filter, Limits};
    use crate::store::embedded::catalog::collections::Index;
    use crate::store::embedded::index::ranges::IndexScan;

    /// A million documents; each bounded range of keys has the same number of entries.
    struct Keys(u64);

    impl Numbers for Keys {
        fn documents(&self) -> u64 {
            1_000_000
        }

        fn keys(&self, scan: &IndexScan, _at_most: u64) -> u64 {
            let is_bounded = scan.bounds.iter().any(Option::is_some);
            if is_bounded { self.0 * scan.ranges.len() as u64 } else { self.documents() }
        }

        fn few_keys(&self, scan: &IndexScan, at_most: u64) -> Option<u64> {
            Some(self.keys(scan, at_most)).filter(|keys| *keys <= at_most)
        }
    }

    const MANY: Keys = Keys(10_000);

    fn collection() -> Collection {
        let mut public_id = Index::over("public_id", &["public_id"]);
        public_id.unique = true;
        Collection::with_indexes(vec![public_id, Index::over("kind", &["kind", "public_id"])])
    }

    #[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
    fn parsed(filter: Document) -> Filter {
        Filter::parse(&filter, &Limits::default()).expect("filters of tests are right")
    }

    fn asking(filter: Document, sort: &Document) -> FindQuery {
        let sort = Sort::parse(sort).expect("sorts of tests are right");
        FindQuery::new(parsed(filter), Duration::MAX).sorted(sort)
    }

    fn way(query: &FindQuery, with_total: bool, keys: &Keys) -> &'static str {
        match AccessPath::of(&collection(), query, with_total, keys) {
            AccessPath::Point(_) => "point",
            AccessPath::Points(_) => "points",
            AccessPath::Short(_) => "short",
            AccessPath::Planned => "planned",
        }
    }

    fn values(count: i32) -> Document {
        doc! { "public_id": { "$in": (0..count).collect::<Vec<i32>>() } }
    }

    #[test]
    fn keys_of_a_unique_index_are_looked_up() {
        let one = || doc! { "public_id": 7 };
        for (filter, sort, expected) in [
            (one(), doc! {}, "point"),
            (one(), doc! { "size": 1 }, "point"),
            (one(), doc! { "$natural": -1 }, "point"),
            (one(), doc! { "size": 1, "kind": 1 }, "short"),
            (doc! { "public_id": 7, "size": 1 }, doc! {}, "short"),
            (doc! { "public_id": 7, "size": { "$regex": "x" } }, doc! {}, "planned"),
            (values(128), doc! {}, "points"),
            (values(128), doc! { "public_id": -1 }, "short"),
            (values(128), doc! { "$natural": -1 }, "short"),
            (values(129), doc! {}, "planned"),
            (doc! { "size": 1 }, doc! {}, "planned"),
            (doc! {}, doc! {}, "planned"),
        ] {
            assert_eq!(way(&asking(filter.clone(), &sort), true, &MANY), expected, "{filter} {sort}");
        }
        let projection = Projection::parse(&doc! { "n": { "$add": ["$a", 1] } }, &Filter::all());
        let projection = Some(projection.expect("projections of tests are right"));
        assert_eq!(way(&FindQuery { projection, ..asking(one(), &doc! {}) }, true, &MANY), "planned");
    }

    #[test]
    fn a_short_page_in_the_order_of_an_index_is_short() {
        for (filter, skip, limit, without_total, with_total) in [
            (doc! {}, 0, 10, "short", "short"),
            (doc! {}, 896, 128, "short", "short"),
            (doc! {}, 897, 128, "planned", "planned"),
            (doc! {}, 0, 129, "planned", "planned"),
            (doc! {}, 0, 0, "planned", "planned"),
            (doc! { "kind": 1 }, 0, 10, "short", "planned"),
            (doc! { "kind": 1, "size": 1 }, 0, 10, "planned", "planned"),
        ] {
            let query = FindQuery { skip, limit, ..asking(filter.clone(), &doc! { "public_id": 1 }) };
            assert_eq!(
                [false, true].map(|total| way(&query, total, &MANY)),
                [without_total, with_total],
                "{filter} {skip}"
            );
        }
    }

    #[test]
    fn a_filter_that_leads_to_few_keys_is_short() {
        let few = doc! { "kind": 1, "size": 1 };
        let costly = doc! { "kind": 1, "size": { "$regex": "x" } };
        for (filter, keys, expected) in [
            (few.clone(), 128, "short"),
            (few.clone(), 129, "planned"),
            (doc! { "kind": { "$in": [1, 2, 3, 4] }, "size": 1 }, 32, "short"),
            (doc! { "kind": { "$in": [1, 2, 3, 4] }, "size": 1 }, 33, "planned"),
            (doc! { "kind": { "$in": (0..9).collect::<Vec<i32>>() }, "size": 1 }, 1, "planned"),
            (doc! { "$or": [{ "kind": 1, "size": 1 }, { "public_id": 7 }] }, 1, "planned"),
            (costly, 1, "planned"),
        ] {
            for sort in [doc! {}, doc! { "size": -1 }, doc! { "public_id": 1 }] {
                assert_eq!(way(&asking(filter.clone(), &sort), true, &Keys(keys)), expected, "{filter} {sort} {keys}");
            }
            let is_counted_here = short_count(&collection(), parsed(filter).tree(), &Keys(keys)).is_some();
            assert_eq!(is_counted_here, expected == "short");
        }
    }

    #[test]
    fn few_keys_and_whole_collections_are_counted_at_once() {
        let is_short = |filter: Document| short_count(&collection(), parsed(filter).tree(), &MANY).is_some();
        assert!([doc! {}, doc! { "public_id": 7 }, values(128)].into_iter().all(is_short));
        let costly = doc! { "public_id": 7, "size": { "$regex": "x" } };
        assert!(![values(129), doc! { "kind": 1 }, costly].into_iter().any(is_short));
    }

    /// An explanation reports the planner's choice: it must be the key that is looked up.
    #[test]
    fn the_planner_chooses_the_key_that_is_looked_up() {
        for filter in [doc! { "public_id": 7 }, doc! { "public_id": "x" }, doc! { "_id": 7_i64 }] {
            let filter = parsed(filter);
            let point = Point::of(&collection(), filter.tree()).expect("a point");
            let choice = short_plan(&collection(), filter.tree(), &Sort::default(), &MANY);
            let Some(Choice { plan: Plan::Index(scan), .. }) = choice else { panic!("no index: {choice:?}") };
            let starts: Vec<_> = scan.ranges.iter().map(|range| &range.start).collect();
            assert_eq!((scan.index, starts), (point.index, vec![&point.key]));
        }
    }
}
