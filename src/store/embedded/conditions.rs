//! A filter as conditions that must all hold, and which of them may bound the keys of an index together.
//!
//! The rules for arrays (see `index`):
//!
//! - two conditions on one path with arrays may be met by different elements, so only one of them bounds the keys;
//! - conditions of one `$elemMatch` are met by the same element, so all of them do;
//! - the same holds for two paths through one array: only conditions of one `$elemMatch` bound both.

use crate::query::{Node, Test};

use super::bounds::Bounds;
use super::catalog::{Component, Index};

/// What must hold for a document to match, as far as indexes can use it.
#[derive(Debug, Default)]
pub(super) struct Conditions<'f> {
    pub(super) list: Vec<Condition>,
    /// The branches of each `$or`.
    pub(super) alternatives: Vec<&'f [Node]>,
    /// Something is not in `list`.
    pub(super) incomplete: bool,
    /// Nothing can match.
    pub(super) never: bool,
    elements: u32,
}

/// Bounds of the keys at a path.
#[derive(Debug)]
pub(super) struct Condition {
    path: String,
    bounds: Bounds,
    /// The `$elemMatch` that it belongs to.
    element: Option<Element>,
}

/// An `$elemMatch`: one element of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Element {
    /// Tells this one from others of the filter.
    number: u32,
    /// How many names lead to its array.
    depth: usize,
    /// The element is itself what is compared, and not looked into if it is an array.
    is_value: bool,
}

impl<'f> Conditions<'f> {
    /// Takes a filter apart.
    pub(super) fn of(filter: &'f Node) -> Self {
        let mut conditions = Self::default();
        conditions.add(filter, "", None);
        conditions
    }

    fn add(&mut self, node: &'f Node, prefix: &str, element: Option<Element>) {
        match node {
            Node::Always => {}
            Node::Never if element.is_none() => self.never = true,
            Node::And(nodes) => nodes.iter().for_each(|node| self.add(node, prefix, element)),
            Node::Path(path, test) => self.add_test(&format!("{prefix}{}", path.as_str()), test, element),
            Node::Or(branches) => {
                self.incomplete = true;
                if element.is_none() {
                    self.alternatives.push(branches);
                }
            }
            _ => self.incomplete = true,
        }
    }

    fn add_test(&mut self, path: &str, test: &'f Test, element: Option<Element>) {
        match test {
            Test::All(tests) => tests.iter().for_each(|test| self.add_test(path, test, element)),
            Test::ElemMatchDocument(node) => {
                self.incomplete = true;
                let element = self.new_element(path, false);
                self.add(node, &format!("{path}."), Some(element));
            }
            Test::ElemMatchValue(tests) => {
                self.incomplete = true;
                let element = self.new_element(path, true);
                for bounds in tests.iter().filter_map(Bounds::of_test) {
                    self.list.push(Condition { path: path.to_owned(), bounds, element: Some(element) });
                }
            }
            test => match Bounds::of_test(test) {
                Some(bounds) => self.list.push(Condition { path: path.to_owned(), bounds, element }),
                None => self.incomplete = true,
            },
        }
    }

    fn new_element(&mut self, path: &str, is_value: bool) -> Element {
        self.elements += 1;
        Element { number: self.elements, depth: path.split('.').count(), is_value }
    }
}

/// The bounds chosen for the components of an index.
pub(super) struct Chosen {
    pub(super) by_component: Vec<Option<Bounds>>,
    /// How many conditions are in them.
    pub(super) used: usize,
}

/// Gives each component the conditions that may bound it together.
pub(super) fn choose_bounds(index: &Index, conditions: &Conditions<'_>) -> Chosen {
    let on = |component: &Component| -> Vec<&Condition> {
        conditions.list.iter().filter(|condition| condition.path == component.path).collect()
    };
    let mut chosen = Chosen { by_component: vec![None; index.components.len()], used: 0 };
    let element = preferred_element(index, conditions);
    let mut taken: Vec<usize> = Vec::new();
    for (position, component) in index.components.iter().enumerate() {
        let mut usable = on(component);
        if component.is_multikey() {
            let shares = taken.iter().any(|other| share_array(component, &index.components[*other]));
            let of_element =
                |condition: &&Condition| element.is_some() && condition.element.map(|own| own.number) == element;
            if usable.iter().any(of_element) {
                usable.retain(of_element);
                if !usable.iter().all(|condition| may_intersect(component, condition)) {
                    usable.truncate(1);
                }
            } else if shares {
                usable.clear();
            } else {
                usable.truncate(1);
            }
            if !usable.is_empty() {
                taken.push(position);
            }
        }
        chosen.used += usable.len();
        chosen.by_component[position] =
            usable.iter().map(|condition| condition.bounds.clone()).reduce(|a, b| a.and(&b));
    }
    chosen
}

/// The `$elemMatch` that bounds the first component with arrays, and the most components in all.
fn preferred_element(index: &Index, conditions: &Conditions<'_>) -> Option<u32> {
    let first = index.components.iter().find(|component| component.is_multikey())?;
    let elements = conditions.list.iter().filter(|condition| condition.path == first.path).filter_map(|c| c.element);
    elements.map(|element| element.number).max_by_key(|number| {
        let own = conditions.list.iter().filter(|c| c.element.is_some_and(|element| element.number == *number));
        own.filter(|c| index.components.iter().any(|component| component.path == c.path)).count()
    })
}

/// Whether two conditions of one `$elemMatch` on this path speak of the same value: no further array is behind its own.
fn may_intersect(component: &Component, condition: &Condition) -> bool {
    let Some(element) = condition.element else { return false };
    element.is_value || component.arrays.checked_shr(u32::try_from(element.depth).unwrap_or(64)).unwrap_or(0) == 0
}

/// Whether both paths lead through one array.
fn share_array(left: &Component, right: &Component) -> bool {
    let common = left.path.split('.').zip(right.path.split('.')).take_while(|(left, right)| left == right).count();
    let mask = 1_u64.checked_shl(u32::try_from(common).unwrap_or(64)).map_or(u64::MAX, |bit| bit - 1);
    (left.arrays | right.arrays) & mask != 0
}
