//! Queries that examined much more than they returned, and the index that would help.

use std::fmt;

use serde::Serialize;

use super::FindQuery;
use crate::query::{Node, Sort, Test};

/// Up to this number of examined documents there is no hint.
const FREE: u64 = 1000;
/// There is a hint only if a query examined this many times more documents than it returned.
const MUCH: u64 = 100;

/// A query examined many more documents than it returned.
///
/// As text it is plain ASCII, fit for a header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hint {
    /// How many documents were looked at.
    pub examined: u64,
    /// How many were returned.
    pub returned: u64,
    /// How many matching documents were skipped, because they are on earlier pages.
    pub skipped: u64,
    /// The paths of an index that would help. Empty if that index exists, or if no index can help.
    pub index: Vec<String>,
    /// In a store that takes no further indexes: the first path of each that it has. Conditions and orders by these paths use one.
    #[serde(skip)]
    pub indexed: Vec<String>,
}

impl Hint {
    /// The hint for a query; nothing if its work was in proportion.
    ///
    /// `total` is the number of matching documents, where it is known: a page past the end skips no more than that. `known`
    /// are the paths of indexes that exist.
    pub(super) fn about<'a>(
        query: &FindQuery,
        examined: u64,
        returned: u64,
        total: Option<u64>,
        mut known: impl Iterator<Item = Vec<&'a str>>,
    ) -> Option<Self> {
        if examined <= FREE || examined <= returned.saturating_mul(MUCH) {
            return None;
        }
        let mut index = useful_index(query.filter.tree(), &query.sort);
        if known.any(|known| index.iter().all(|path| known.contains(&path.as_str()))) {
            index.clear();
        }
        let skipped = total.map_or(query.skip, |total| query.skip.min(total));
        Some(Self { examined, returned, skipped, index, indexed: Vec::new() })
    }

    /// The same from a store that takes no further indexes, with the first path of each that it has. What the query has
    /// already did not help it.
    pub(super) fn among<'a>(mut self, first_paths: impl Iterator<Item = &'a str>) -> Self {
        let mut was_in_vain = false;
        for path in first_paths.filter(|path| *path != "_id") {
            if self.index.first().is_some_and(|first| first == path) {
                was_in_vain = true;
            } else if !self.indexed.iter().any(|known| known == path) {
                self.indexed.push(path.to_owned());
            }
        }
        if was_in_vain && self.indexed.is_empty() {
            self.index.clear();
        }
        self
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "examined {} documents for {}", self.examined, self.returned)?;
        if self.skipped > 0 {
            write!(out, " after {} on earlier pages", self.skipped)?;
        }
        if !self.index.is_empty() && !self.indexed.is_empty() {
            write!(out, "; conditions and orders by {} use an index", self.indexed.join(", "))?;
        } else if !self.index.is_empty() {
            let paths: Vec<String> = self.index.iter().map(|path| path.escape_default().to_string()).collect();
            write!(out, "; an index on {} would help", paths.join(", "))?;
        }
        Ok(())
    }
}

/// The paths of an index for a query: those with single values, then those of the sort, then those with ranges.
fn useful_index(filter: &Node, sort: &Sort) -> Vec<String> {
    let mut paths = Paths::default();
    paths.add(filter, "");
    let mut index = paths.equal;
    // Keys of arrays are in no order that a document has.
    if !paths.through_array {
        let sorted = sort.keys().iter().map(|key| &key.path).take_while(|path| path.entry().is_none());
        let sorted = sorted.map(|path| path.as_str().to_owned());
        // Without a condition that has bounds, the total needs all documents, in any order.
        if matches!(filter, Node::Always) || !index.is_empty() || !paths.range.is_empty() {
            index.extend(sorted);
        }
    }
    index.extend(paths.range);
    let mut seen = std::collections::HashSet::new();
    index.retain(|path| seen.insert(path.clone()));
    index
}

#[derive(Default)]
struct Paths {
    equal: Vec<String>,
    range: Vec<String>,
    through_array: bool,
}

impl Paths {
    fn add(&mut self, node: &Node, prefix: &str) {
        match node {
            Node::And(nodes) => nodes.iter().for_each(|node| self.add(node, prefix)),
            Node::Path(path, test) if path.entry().is_none() => {
                self.add_test(test, &format!("{prefix}{}", path.as_str()));
            }
            _ => {}
        }
    }

    fn add_tests(&mut self, tests: &[Test], path: &str) {
        for test in tests {
            self.add_test(test, path);
        }
    }

    fn add_test(&mut self, test: &Test, path: &str) {
        match test {
            Test::Eq(_) | Test::In(_) => self.equal.push(path.to_owned()),
            Test::Gt(_) | Test::Gte(_) | Test::Lt(_) | Test::Lte(_) | Test::Regex(_) => {
                self.range.push(path.to_owned());
            }
            Test::All(tests) => self.add_tests(tests, path),
            Test::ElemMatchDocument(node) => {
                self.through_array = true;
                self.add(node, &format!("{path}."));
            }
            Test::ElemMatchValue(tests) => {
                self.through_array = true;
                self.add_tests(tests, path);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Document, doc};

    use super::*;
    use crate::query::{Filter, Limits};

    const NO_INDEX: std::iter::Empty<Vec<&str>> = std::iter::empty();

    #[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
    fn query(filter: Document, sort: Document) -> FindQuery {
        let filter = Filter::parse(&filter, &Limits::default()).expect("filters of tests are right");
        FindQuery::new(filter, Duration::from_secs(1)).sorted(Sort::parse(&sort).expect("sorts of tests are right"))
    }

    fn index_for(filter: Document, sort: Document) -> Vec<String> {
        Hint::about(&query(filter, sort), 100_000, 10, None, NO_INDEX).expect("it was much work").index
    }

    #[test]
    fn a_path_that_did_not_help_is_not_named() {
        let hint = |order: &str| {
            let asked = query(doc! {}, doc! { order: -1, "sequence": -1 });
            let hint = Hint::about(&asked, 100_000, 10, None, NO_INDEX).expect("it was much work");
            hint.among(["_id", "time"].into_iter()).to_string()
        };
        assert_eq!(hint("time"), "examined 100000 documents for 10");
        assert_eq!(hint("size"), "examined 100000 documents for 10; conditions and orders by time use an index");
    }

    #[test]
    fn equalities_come_before_the_order_and_ranges_after_it() {
        let filter = doc! { "size": { "$gt": 5 }, "kind": 1, "colour": { "$in": ["red", "blue"] } };
        assert_eq!(
            index_for(filter, doc! { "name": 1, "public_id": 1 }),
            ["kind", "colour", "name", "public_id", "size"]
        );
    }

    #[test]
    fn the_members_of_an_entry_are_named_and_no_order_with_them() {
        let filter = doc! { "fields": { "$elemMatch": { "name": "host", "value": "a" } } };
        assert_eq!(index_for(filter, doc! { "public_id": 1 }), ["fields.name", "fields.value"]);
    }

    #[test]
    fn what_says_nothing_about_keys_is_helped_by_no_index() {
        assert!(index_for(doc! { "kind": { "$ne": 1 } }, doc! { "public_id": 1 }).is_empty());
        assert!(index_for(doc! { "$expr": { "$gt": ["$a", "$b"] } }, doc! {}).is_empty());
        assert_eq!(index_for(doc! {}, doc! { "size": 1 }), ["size"]);
    }

    #[test]
    fn work_in_proportion_is_not_worth_a_word() {
        let query = query(doc! { "kind": 1 }, doc! {});
        assert_eq!(Hint::about(&query, 1000, 0, None, NO_INDEX), None);
        assert_eq!(Hint::about(&query, 5000, 50, None, NO_INDEX), None);
        assert!(Hint::about(&query, 5001, 50, None, NO_INDEX).is_some());
        assert!(Hint::about(&query, 1001, 0, None, NO_INDEX).is_some());
    }

    #[test]
    fn an_index_that_exists_is_not_asked_for() {
        let query = query(doc! { "kind": 1 }, doc! { "size": 1 });
        for (paths, wanted) in [(vec!["kind", "size", "x"], false), (vec!["kind"], true), (vec!["size"], true)] {
            let hint = Hint::about(&query, 5000, 1, None, std::iter::once(paths.clone())).expect("it was much work");
            assert_eq!(!hint.index.is_empty(), wanted, "{paths:?}");
        }
    }

    #[test]
    fn as_text_it_is_fit_for_a_header() {
        let mut query = query(doc! { "gr\u{f6}\u{df}e\n": 1 }, doc! {});
        query.skip = 20;
        let text = Hint::about(&query, 5000, 1, None, NO_INDEX).expect("it was much work").to_string();
        assert_eq!(
            text,
            r"examined 5000 documents for 1 after 20 on earlier pages; an index on gr\u{f6}\u{df}e\n would help"
        );
        for (total, skipped) in [(Some(7), 7), (Some(21), 20), (None, 20)] {
            let hint = Hint::about(&query, 5000, 1, total, NO_INDEX).expect("it was much work");
            assert_eq!(hint.skipped, skipped, "{total:?}");
        }
        let hint = Hint::about(&query, 5000, 1, None, NO_INDEX).expect("it was much work");
        assert_eq!(
            hint.among(["_id", "a", "b.c", "a"].into_iter()).to_string(),
            "examined 5000 documents for 1 after 20 on earlier pages; conditions and orders by a, b.c use an index"
        );
    }
}
