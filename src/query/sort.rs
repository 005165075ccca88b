//! Sort orders, and the sort key of a document.
//!
//! The keys of a document are those of an index on the same paths: an array gives one tuple for each element, and an
//! ascending order uses the lowest tuple. See "Sort and Limit Results" in MongoDB's manual.

use std::borrow::Cow;
use std::cmp::Ordering;

use bson::raw::RawDocument;
use bson::{Bson, Document};

use super::compare::{compare_views, number};
use super::entry::Entry;
use super::error::{EvalError, QueryError, code};
use super::number::Number;
use super::parse_context::Location;
use super::path::{Part, Path, check_field_path};
use super::raw::{Elements, Owned, Value, kind, member};

/// The sort keys, the most significant first. No keys: insertion order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sort {
    keys: Vec<SortKey>,
    reversed: bool,
}

/// One key of an order: the value at a path; of an array its lowest element, or descending its highest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// The path.
    pub path: Path,
    /// Highest first.
    pub descending: bool,
}

/// The sort key of a document, one value for each key. Compare two with [`Sort::compare`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortValue {
    values: Box<[Owned]>,
}

impl SortValue {
    /// The values, one for each key.
    pub fn to_bson(&self) -> Vec<Bson> {
        self.values.iter().map(|value| value.value().to_bson().unwrap_or(Bson::Null)).collect()
    }

    /// How much memory it takes, roughly.
    pub fn size(&self) -> usize {
        self.values.iter().map(|value| 40 + value.value().bytes.len()).sum()
    }
}

impl Sort {
    /// Parses MongoDB's sort document.
    ///
    /// # Errors
    /// What MongoDB refuses as a direction or as a path.
    pub fn parse(document: &Document) -> Result<Self, QueryError> {
        let mut at = Location::new("sort");
        if document.len() > 1 && document.contains_key("$natural") {
            at.enter("$natural");
            return Err(at.malformed(code::BAD_VALUE, "$natural must be the only key; omit the others"));
        }
        let mut sort = Self::default();
        for (name, direction) in document {
            at.enter(name.clone());
            if name == "$natural" {
                sort.reversed = truncated(direction).is_some_and(|direction| direction < 0);
            } else {
                let descending = direction_of(&at, direction)?;
                check_field_path(&at, name)?;
                sort = sort.then(name, descending);
            }
            at.leave();
        }
        Ok(sort)
    }

    /// By the value of a path.
    pub fn by(path: &str, descending: bool) -> Self {
        Self::default().then(path, descending)
    }

    /// The same order; documents that are equal in it are ordered by the value of another path. A path that is a key already
    /// decides nothing any more, and MongoDB's sort documents have each path once.
    #[must_use]
    pub fn then(self, path: &str, descending: bool) -> Self {
        self.then_by(Path::new(path), descending)
    }

    /// The same for a path of a field, too.
    #[must_use]
    pub fn then_by(mut self, path: Path, descending: bool) -> Self {
        if !self.keys.iter().any(|key| key.path == path) {
            self.keys.push(SortKey { path, descending });
        }
        self
    }

    /// The keys, the first one first.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether insertion order is reversed: `{$natural: -1}`, which has no keys.
    pub fn is_reversed(&self) -> bool {
        self.reversed
    }

    /// What the document is ordered by.
    ///
    /// # Errors
    /// When two paths of the order lead through different arrays of the document.
    pub fn key_of(&self, document: &RawDocument) -> Result<SortValue, EvalError> {
        if self.is_by_id() {
            // As in MongoDB, whose index on `_id` has whole values: an array is one, which only groups have.
            let id = member(document.as_bytes(), b"_id").unwrap_or(MISSING);
            return Ok(SortValue { values: Box::new([Owned::copy(id)]) });
        }
        // Keys of one field go through the same values.
        let mut entries: Vec<(&Entry, Cow<'_, [u8]>)> = Vec::new();
        for entry in self.keys.iter().filter_map(|key| key.path.entry()) {
            if !entries.iter().any(|(known, _)| *known == entry) {
                entries.push((entry, entry.document(document.as_bytes())));
            }
        }
        let root_of = |entry| entries.iter().find(|(known, _)| *known == entry).map(|(_, root)| &**root);
        let slot = |key| Slot::new(key, key.path.entry().and_then(root_of));
        let slots: Vec<Slot<'_>> = self.keys.iter().map(slot).collect();
        let mut lowest = None;
        self.tuples(slots, document.as_bytes(), &mut lowest)?;
        let values = lowest.unwrap_or_default().into_iter().map(Owned::copy).collect();
        Ok(SortValue { values })
    }

    fn is_by_id(&self) -> bool {
        matches!(self.keys.as_slice(), [key] if key.path.as_str() == "_id")
    }

    /// Which of two documents with these keys comes first.
    pub fn compare(&self, left: &SortValue, right: &SortValue) -> Ordering {
        self.keys
            .iter()
            .zip(left.values.iter().zip(&right.values))
            .map(|(key, (left, right))| {
                let order = compare_views(left.value().view(), right.value().view());
                if key.descending { order.reverse() } else { order }
            })
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

fn truncated(value: &Bson) -> Option<i64> {
    number(value.into()).and_then(Number::truncated)
}

/// Whether a direction is the descending one.
pub(super) fn direction_of(at: &Location, direction: &Bson) -> Result<bool, QueryError> {
    let code = if number(direction.into()).is_some() { 15975 } else { 15974 };
    match truncated(direction) {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => Err(at.malformed(code, "a direction is 1 (ascending) or -1 (descending)")),
    }
}

/// A missing value is ordered as `null`.
const MISSING: Value<'static> = Value::new(kind::NULL, &[]);

/// An empty array is ordered as `undefined`.
const EMPTY: Value<'static> = Value::new(kind::UNDEFINED, &[]);

/// One key while the tuples of a document are made.
#[derive(Clone)]
struct Slot<'a> {
    /// The rest of the path; nothing when `value` is final.
    rest: &'a [Part],
    /// Where the path begins, if not in the document.
    root: Option<&'a [u8]>,
    value: Value<'a>,
    /// The continuation of the path if its next step is a position in the array just entered.
    position: Option<Position<'a>>,
}

#[derive(Clone)]
struct Position<'a> {
    in_array: bool,
    found: Option<Value<'a>>,
    rest: &'a [Part],
}

impl<'a> Slot<'a> {
    fn new(key: &'a SortKey, root: Option<&'a [u8]>) -> Self {
        Self { rest: key.path.parts(), root, value: MISSING, position: None }
    }
}

impl Sort {
    /// Walks all paths at once until one ends in an array or goes through one, then continues with each element
    /// of it. At most one array can be gone through at a time.
    fn tuples<'a>(
        &'a self,
        mut slots: Vec<Slot<'a>>,
        document: &'a [u8],
        lowest: &mut Option<Vec<Value<'a>>>,
    ) -> Result<(), EvalError> {
        let mut array: Option<Value<'a>> = None;
        let mut through = vec![false; slots.len()];
        // Each array on the way decides for itself whether its elements are visited.
        let mut expands = true;
        for (slot, through) in slots.iter_mut().zip(&mut through) {
            if slot.rest.is_empty() {
                continue;
            }
            let position = slot.position.take();
            expands &= !position.as_ref().is_some_and(|position| position.in_array);
            let (found, rest) = next_value(slot.root.take().unwrap_or(document), slot.rest, position)?;
            slot.rest = rest;
            let Some(value) = found else {
                (slot.rest, slot.value) = (&[], MISSING);
                continue;
            };
            slot.value = value;
            if value.is_array() {
                *through = true;
                match array {
                    Some(other) if !std::ptr::eq(other.bytes, value.bytes) => {
                        return Err(EvalError::new(code::BAD_VALUE, "cannot sort with keys that are parallel arrays"));
                    }
                    _ => array = Some(value),
                }
            }
        }
        let Some(array) = array else {
            self.consider(slots.iter().map(|slot| slot.value).collect(), lowest);
            return Ok(());
        };
        let mut elements = Elements::within(array.bytes).peekable();
        if elements.peek().is_none() {
            return self.with_element(slots, &through, array, EMPTY, true, lowest);
        }
        for (slot, _) in slots.iter_mut().zip(&through).filter(|(slot, through)| **through && !slot.rest.is_empty()) {
            slot.position = position_in(array, slot.rest);
        }
        for element in elements {
            self.with_element(slots.clone(), &through, array, element.value, expands, lowest)?;
        }
        Ok(())
    }

    fn with_element<'a>(
        &'a self,
        mut slots: Vec<Slot<'a>>,
        through: &[bool],
        array: Value<'a>,
        element: Value<'a>,
        expands: bool,
        lowest: &mut Option<Vec<Value<'a>>>,
    ) -> Result<(), EvalError> {
        for (slot, _) in slots.iter_mut().zip(through).filter(|(slot, through)| **through && slot.rest.is_empty()) {
            slot.value = if expands { element } else { array };
        }
        let inside = if element.is_document() { element.bytes } else { &[] };
        self.tuples(slots, inside, lowest)
    }

    fn consider<'a>(&self, tuple: Vec<Value<'a>>, lowest: &mut Option<Vec<Value<'a>>>) {
        let better = lowest.as_ref().is_none_or(|lowest| {
            let orders = self.keys.iter().zip(tuple.iter().zip(lowest)).map(|(key, (left, right))| {
                let order = compare_views(left.view(), right.view());
                if key.descending { order.reverse() } else { order }
            });
            orders.into_iter().find(|order| order.is_ne()) == Some(Ordering::Less)
        });
        if better {
            *lowest = Some(tuple);
        }
    }
}

/// Where the path leads from a document, or from the position of an array that was looked up already.
fn next_value<'a>(
    document: &'a [u8],
    rest: &'a [Part],
    position: Option<Position<'a>>,
) -> Result<(Option<Value<'a>>, &'a [Part]), EvalError> {
    let by_name = rest[0].member(document).is_some();
    match position {
        Some(_) if by_name => {
            Err(EvalError::new(16746, "a numeric name is both a position in the array and a member of its elements"))
        }
        Some(position) => Ok((position.found, position.rest)),
        None if by_name => Ok(walk(document, rest)),
        None => Ok((None, &[])),
    }
}

/// Follows the names to the end of the path or to an array on it.
fn walk<'a>(document: &'a [u8], parts: &'a [Part]) -> (Option<Value<'a>>, &'a [Part]) {
    let mut document = document;
    let mut rest = parts;
    while let Some((part, after)) = rest.split_first() {
        rest = after;
        match part.member(document) {
            Some(value) if value.is_array() || rest.is_empty() => return (Some(value), rest),
            Some(value) if value.is_document() => document = value.bytes,
            _ => break,
        }
    }
    (None, &[])
}

/// Looks up the position that the path names, if it names one.
fn position_in<'a>(array: Value<'a>, rest: &'a [Part]) -> Option<Position<'a>> {
    let element = rest[0].member(array.bytes)?;
    let (found, after) = walk(array.bytes, rest);
    Some(Position { in_array: element.is_array(), found, rest: after })
}
