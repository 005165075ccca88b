//! A filter as sets of rows that keys decide: a document matches exactly when its row is in all of them.
//!
//! An index whose bounds are exact answers alone, see [`candidate`](super::candidate). Here each part of a filter has an
//! index of its own: the plain conditions one without arrays, and each `$elemMatch` one on members of its elements. The
//! rows of each are read from keys, and no document is read to know which ones match.
//!
//! The keys of an element decide an `$elemMatch` only where
//!
//! - its path leads to an array in every document, or nowhere: a document has such keys, too, and does not match;
//! - there is at most one condition on each member, because the elements of an array in it may each meet another one;
//! - no condition holds for null: an element that is no document has the key of null in its members.
//!
//! A regular expression is tested on the text in the key. A reader of a key that does not say, reads the document.

use std::borrow::Cow;

use crate::query::{Node, Regex, Sort, Test};
use crate::store::embedded::catalog::collections::{Collection, Index};
use crate::store::embedded::index::bounds::KeyBounds;
use crate::store::embedded::index::key::{self, kind};
use crate::store::embedded::index::ranges::{IndexScan, KeyRange, Order, Ranges};
use crate::store::embedded::plan::candidate::Candidate;
use crate::store::embedded::plan::conditions::Conditions;

/// The sets, and the order of their documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySets {
    /// The plain conditions; nothing if there are none.
    pub(crate) plain: Option<IndexScan>,
    /// One for each `$elemMatch`; those with a test come last.
    pub(crate) elements: Vec<KeySet>,
    /// The keys in the order of the query of all documents that meet the plain conditions.
    pub(crate) order: Option<IndexScan>,
}

/// The rows that have one of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySet {
    pub(crate) scan: IndexScan,
    /// What the last value of the key must match in addition.
    pub(crate) test: Option<Regex>,
}

impl KeySets {
    /// The sets of a filter, if keys decide all of it.
    pub(crate) fn of(collection: &Collection, filter: &Node, sort: &Sort) -> Option<Self> {
        let (mut plain, mut elements) = (Vec::new(), Vec::new());
        sort_out(collection, filter, &mut plain, &mut elements)?;
        if elements.is_empty() {
            return None;
        }
        elements.sort_by_key(|set| set.test.is_some());
        let plain = Node::And(plain.into_iter().cloned().collect());
        let conditions = Conditions::of(&plain);
        let best = |ways: Vec<Candidate>| ways.into_iter().max_by_key(Candidate::score).map(|way| way.scan);
        let exact = match &plain {
            Node::And(parts) if parts.is_empty() => None,
            _ => {
                let ways = Candidate::all(collection, &conditions, &Sort::default());
                Some(best(ways.into_iter().filter(|way| way.scan.exact).collect())?)
            }
        };
        let is_whole = |way: &Candidate| collection.indexes[way.scan.index].partial.is_none();
        let ordered = Candidate::all(collection, &conditions, sort).into_iter();
        let ordered = ordered.filter(|way| way.scan.order != Order::Unused && is_whole(way));
        let order = if sort.is_empty() { None } else { best(ordered.collect()) };
        Some(Self { plain: exact, elements, order })
    }
}

impl KeySet {
    /// The text that the last value of a key is; `lead` is the length of the values before it. Nothing if it is no text, or if
    /// the key may have been cut.
    pub(crate) fn text(key: &[u8], lead: usize) -> Option<Cow<'_, [u8]>> {
        let whole = key.get(lead..).filter(|_| key.len() < key::MAX_KEY)?;
        Some(key::text(whole.strip_prefix(&[kind::STRING])?.strip_suffix(&[0, 0])?))
    }
}

/// Sorts the parts of a conjunction into plain ones and sets of elements. Nothing if there are others.
fn sort_out<'f>(
    collection: &Collection,
    filter: &'f Node,
    plain: &mut Vec<&'f Node>,
    elements: &mut Vec<KeySet>,
) -> Option<()> {
    match filter {
        Node::Always | Node::Holds => {}
        Node::And(parts) => parts.iter().try_for_each(|part| sort_out(collection, part, plain, elements))?,
        Node::Path(path, Test::ElemMatchDocument(node)) if path.entry().is_none() => {
            elements.push(of_elements(collection, path.as_str(), node)?);
        }
        Node::Path(path, Test::All(tests)) if path.entry().is_none() => {
            for test in tests {
                let Test::ElemMatchDocument(node) = test else { return None };
                elements.push(of_elements(collection, path.as_str(), node)?);
            }
        }
        Node::Path(path, _) if path.entry().is_none() => plain.push(filter),
        _ => return None,
    }
    Some(())
}

/// The rows with an element that matches.
fn of_elements(collection: &Collection, path: &str, node: &Node) -> Option<KeySet> {
    let mut tests = Vec::new();
    members(node, &mut tests)?;
    let indexes = collection.indexes.iter().enumerate();
    indexes.filter(|(_, index)| is_of_elements(index, path)).find_map(|(position, index)| {
        let mut by_member = Vec::new();
        for component in &index.components {
            let mut own = tests.iter().filter(|(member, _)| component.path[path.len() + 1..] == **member);
            by_member.push(own.next().map(|(_, test)| *test));
            if own.next().is_some() {
                return None;
            }
        }
        let used = by_member.iter().take_while(|test| test.is_some()).count();
        (used == tests.len()).then(|| of_members(position, index, &by_member[..used]))?
    })
}

/// The conditions on members of an element.
fn members<'f>(node: &'f Node, tests: &mut Vec<(&'f str, &'f Test)>) -> Option<()> {
    match node {
        Node::And(parts) => parts.iter().try_for_each(|part| members(part, tests)),
        Node::Path(path, test) if path.entry().is_none() => {
            tests.push((path.as_str(), test));
            Some(())
        }
        _ => None,
    }
}

/// Whether each key of the index is of one element of the array at this path.
fn is_of_elements(index: &Index, path: &str) -> bool {
    // One name more: two members of an inner array may be in different elements of it.
    let member = |whole: &str| whole.strip_prefix(path).and_then(|rest| rest.strip_prefix('.').map(str::to_owned));
    let is_below = |whole: &str| member(whole).is_some_and(|name| !name.contains('.'));
    let has_position = |path: &str| path.split('.').any(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    index.packed.is_some()
        && index.partial.is_none()
        && !path.contains('.')
        && index.components.iter().all(|component| {
            is_below(&component.path)
                && !component.descending
                && component.begins_in_arrays()
                && !has_position(&component.path)
        })
}

/// The keys of elements whose first members pass these tests.
fn of_members(position: usize, index: &Index, tests: &[Option<&Test>]) -> Option<KeySet> {
    let mut bounds = vec![None; index.components.len()];
    let mut pattern = None;
    for (place, test) in tests.iter().enumerate() {
        let test = (*test)?;
        let own = KeyBounds::of_test(test)?;
        match test {
            // A stored expression equals itself, so its keys are in the bounds.
            Test::Regex(regex) if place + 1 == index.components.len() => pattern = Some(regex.clone()),
            _ if own.exact && !own.negative => {}
            _ => return None,
        }
        if own.spans.iter().any(|span| span.start[..] < [kind::NULL + 1][..] && [kind::UNDEFINED][..] < span.end[..]) {
            return None;
        }
        bounds[place] = Some(own);
    }
    let leading = tests.len().checked_sub(1)?;
    let ranges = Ranges::of(index, &bounds, leading);
    let is_sound = !ranges.cut && ranges.depth == tests.len() && ranges.list.len() <= MOST_RANGES;
    let scan = IndexScan {
        index: position,
        ranges: ranges.list,
        order: Order::Unused,
        exact: false,
        points: ranges.points,
        bounds,
    };
    is_sound.then_some(KeySet { scan, test: pattern })
}

/// Sets of more ranges are not read.
const MOST_RANGES: usize = 64;

/// The ranges of all other keys.
pub(crate) fn around(ranges: &[KeyRange]) -> Vec<KeyRange> {
    let starts = std::iter::once(Vec::new()).chain(ranges.iter().map(|range| range.end.clone()));
    let ends = ranges.iter().map(|range| range.start.clone()).chain([vec![kind::ABOVE_ALL]]);
    let between = starts.zip(ends).map(|(start, end)| KeyRange { start, end, lead: 0 });
    between.filter(|range| range.start < range.end).collect()
}
