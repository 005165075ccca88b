//! A filter as conditions that must all hold, and which of them may bound the keys of an index together.
//!
//! The rules for arrays (see `index`):
//!
//! - two conditions on one path with arrays may be met by different elements, so only one of them bounds the keys;
//! - conditions of one `$elemMatch` are met by the same element, so all of them do;
//! - the same holds for two paths through one array: only conditions of one `$elemMatch` bound both, and not where its
//!   element holds a further array that both lead through.

use bson::Bson;

use crate::query::compare::compare_bson;
use crate::query::{Node, Operand, Test};
use crate::store::embedded::catalog::collections::{Component, Index};
use crate::store::embedded::index::bounds::KeyBounds;
use crate::store::embedded::index::key;

/// The conditions of a filter, as far as indexes can use them.
#[derive(Debug, Default)]
pub(crate) struct Conditions<'f> {
    pub(crate) list: Vec<PathBounds<'f>>,
    /// The branches of each `$or`.
    pub(crate) alternatives: Vec<&'f [Node]>,
    /// The paths that must be there (`$exists: true`).
    present: Vec<String>,
    /// Something is neither in `list` nor in `present`.
    pub(crate) incomplete: bool,
    /// Nothing can match.
    pub(crate) never: bool,
    elements: u32,
}

/// Bounds of the keys at a path.
#[derive(Debug)]
pub(crate) struct PathBounds<'f> {
    path: String,
    bounds: KeyBounds,
    /// The value that the path must equal, if the condition is an equality.
    equals: Option<&'f Operand>,
    /// The `$elemMatch` that it belongs to.
    element: Option<ElemMatch>,
}

/// An `$elemMatch`: one element of one array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ElemMatch {
    /// Identifies this one within the filter.
    number: u32,
    /// How many names lead to its array.
    depth: usize,
    /// The element itself is compared, even if it is an array.
    is_value: bool,
}

impl<'f> Conditions<'f> {
    /// Takes a filter apart.
    pub(crate) fn of(filter: &'f Node) -> Self {
        let mut conditions = Self::default();
        conditions.add(filter, "", None);
        conditions
    }

    /// The positions of the conditions that imply those of the partial index; `None` if the filter may match a document
    /// that the index excludes.
    pub(crate) fn implying(&self, index: &Index) -> Option<Vec<usize>> {
        let Some(partial) = &index.partial else { return Some(Vec::new()) };
        let says = |condition: &PathBounds<'_>, path: &str, value: &Bson| {
            condition.element.is_none()
                && condition.path == path
                && condition.equals.is_some_and(|operand| match value {
                    // The index holds the documents in which the member is there.
                    Bson::Document(_) => !matches!(operand.bson(), Bson::Null | Bson::Undefined),
                    value => compare_bson(operand.bson(), value).is_eq(),
                })
        };
        let mut positions = Vec::new();
        for (path, value) in &partial.values {
            match self.list.iter().position(|condition| says(condition, path, value)) {
                Some(position) => positions.push(position),
                None if matches!(value, Bson::Document(_)) && self.needs(path) => {}
                None => return None,
            }
        }
        Some(positions)
    }

    /// Whether a document without this path cannot match: by `$exists`, or as its key, null, is outside of bounds.
    fn needs(&self, path: &str) -> bool {
        let null = key::of_bson(&Bson::Null).expect("null has a key");
        let leaves_out = |bounds: &KeyBounds| {
            !bounds.negative && !bounds.spans.iter().any(|span| span.start <= null && null < span.end)
        };
        let mut own = self.list.iter().filter(|condition| condition.element.is_none() && condition.path == path);
        self.present.iter().any(|present| present == path) || own.any(|condition| leaves_out(&condition.bounds))
    }

    /// Whether the index has only documents in which everything is there that must be.
    pub(crate) fn are_present_in(&self, index: &Index) -> bool {
        let has = |path: &String| {
            let partial = index.partial.as_ref().and_then(|partial| partial.values.get(path));
            matches!(partial, Some(Bson::Document(_)))
        };
        self.present.iter().all(has)
    }

    fn add(&mut self, node: &'f Node, prefix: &str, element: Option<ElemMatch>) {
        match node {
            Node::Always | Node::Holds => {}
            Node::Never if element.is_none() => self.never = true,
            Node::And(nodes) => nodes.iter().for_each(|node| self.add(node, prefix, element)),
            Node::Path(path, test) if path.entry().is_none() => {
                self.add_test(&format!("{prefix}{}", path.as_str()), test, element);
            }
            Node::Or(branches) => {
                self.incomplete = true;
                if element.is_none() {
                    self.alternatives.push(branches);
                }
            }
            _ => self.incomplete = true,
        }
    }

    fn add_test(&mut self, path: &str, test: &'f Test, element: Option<ElemMatch>) {
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
                for bounds in tests.iter().filter_map(KeyBounds::of_test) {
                    let path = path.to_owned();
                    self.list.push(PathBounds { path, bounds, equals: None, element: Some(element) });
                }
            }
            Test::Exists if element.is_none() => self.present.push(path.to_owned()),
            test => match KeyBounds::of_test(test) {
                Some(bounds) => {
                    let equals = if let Test::Eq(operand) = test { Some(operand) } else { None };
                    self.list.push(PathBounds { path: path.to_owned(), bounds, equals, element });
                }
                None => self.incomplete = true,
            },
        }
    }

    fn new_element(&mut self, path: &str, is_value: bool) -> ElemMatch {
        self.elements += 1;
        ElemMatch { number: self.elements, depth: path.split('.').count(), is_value }
    }
}

/// The bounds chosen for the components of an index.
pub(crate) struct Chosen {
    pub(crate) by_component: Vec<Option<KeyBounds>>,
    /// Which conditions are in them, by position.
    pub(crate) used: Vec<usize>,
}

/// Every way to assign conditions to components so that they may bound them together. There is always one.
///
/// There are several if conditions on an array cannot be combined: each of them could be the one in use.
pub(crate) fn choices(index: &Index, conditions: &Conditions<'_>) -> Vec<Chosen> {
    let first = index.components.iter().find(|component| component.is_multikey());
    let on_first = |condition: &&PathBounds<'_>| first.is_some_and(|first| first.path == condition.path);
    let mut anchors: Vec<Anchor> = Vec::new();
    for (position, condition) in conditions.list.iter().enumerate().filter(|(_, condition)| on_first(condition)) {
        let anchor =
            condition.element.map_or(Anchor::PathBounds(position), |element| Anchor::ElemMatch(element.number));
        if !condition.bounds.negative && !anchors.contains(&anchor) && anchors.len() < MAX_CHOICES {
            anchors.push(anchor);
        }
    }
    if anchors.is_empty() {
        return vec![choose_bounds(index, conditions, None)];
    }
    anchors.into_iter().map(|anchor| choose_bounds(index, conditions, Some(anchor))).collect()
}

/// More ways than this are not considered.
const MAX_CHOICES: usize = 8;

/// The condition, or the `$elemMatch`, that bounds the first component with arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    PathBounds(usize),
    ElemMatch(u32),
}

/// Assigns to each component the conditions that may bound it together with the anchor.
fn choose_bounds(index: &Index, conditions: &Conditions<'_>, anchor: Option<Anchor>) -> Chosen {
    let mut chosen = Chosen { by_component: vec![None; index.components.len()], used: Vec::new() };
    let mut taken: Vec<usize> = Vec::new();
    for (position, component) in index.components.iter().enumerate() {
        let on_path = |position: &usize| conditions.list[*position].path == component.path;
        let mut usable: Vec<usize> = (0..conditions.list.len()).filter(on_path).collect();
        if component.is_multikey() {
            let shares = taken.iter().any(|other| share_array(component, &index.components[*other], 0));
            usable.retain(|position| !conditions.list[*position].bounds.negative);
            let of_element = |position: &usize| match (anchor, conditions.list[*position].element) {
                (Some(Anchor::ElemMatch(number)), Some(element)) => element.number == number,
                (Some(Anchor::PathBounds(anchor)), _) => *position == anchor,
                _ => false,
            };
            if usable.iter().any(of_element) {
                usable.retain(of_element);
                // The element is the same; elements of an array within it need not be.
                let depth = usable.iter().find_map(|position| Some(conditions.list[*position].element?.depth));
                if taken.iter().any(|other| share_array(component, &index.components[*other], depth.unwrap_or(0))) {
                    usable.clear();
                }
                if !usable.iter().all(|position| may_intersect(component, &conditions.list[*position])) {
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
        chosen.by_component[position] =
            usable.iter().map(|position| conditions.list[*position].bounds.clone()).reduce(|a, b| a.and(&b));
        chosen.used.extend(usable);
    }
    chosen
}

/// Whether two conditions of one `$elemMatch` on this path are about the same value: there is no further array below
/// it.
fn may_intersect(component: &Component, condition: &PathBounds<'_>) -> bool {
    let Some(element) = condition.element else { return false };
    element.is_value || component.arrays.checked_shr(u32::try_from(element.depth).unwrap_or(64)).unwrap_or(0) == 0
}

/// Whether both paths lead through one array after the first `depth` names.
fn share_array(left: &Component, right: &Component, depth: usize) -> bool {
    let common = left.path.split('.').zip(right.path.split('.')).take_while(|(left, right)| left == right).count();
    let first = |names: usize| {
        let bit = u32::try_from(names).ok().and_then(|names| 1_u64.checked_shl(names));
        bit.map_or(u64::MAX, |bit| bit - 1)
    };
    (left.arrays | right.arrays) & first(common) & !first(depth) != 0
}
