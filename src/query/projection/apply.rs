//! Runs a compiled projection over the bytes of a document.

use bson::raw::RawDocument;

use super::{Branch, Child, Slice};
use crate::query::budget::Budget;
use crate::query::error::{EvalError, code};
use crate::query::matcher::matched_position;
use crate::query::raw::{Element, Elements, Owned, Value, append, begin, end, kind, member};

/// A document without members.
const EMPTY: &[u8] = &[5, 0, 0, 0, 0];

/// What an inclusion or exclusion leaves.
pub(super) struct KeptFields {
    pub(super) bytes: Vec<u8>,
    /// Whether places are held for what was dropped.
    pub(super) has_gaps: bool,
    includes: bool,
}

/// The document after the inclusion or exclusion.
pub(super) fn keep(root: &Branch, includes: bool, document: &RawDocument) -> KeptFields {
    let bytes = Vec::with_capacity(document.as_bytes().len());
    let mut kept = KeptFields { bytes, has_gaps: false, includes };
    kept.members(root, document.as_bytes());
    kept
}

impl KeptFields {
    fn members(&mut self, branch: &Branch, document: &[u8]) {
        let start = begin(&mut self.bytes);
        for element in Elements::within(document) {
            match branch.child(element.name) {
                Some(Child::Branch(branch)) => self.below(branch, element),
                Some(Child::Whole) if !self.includes => {}
                Some(Child::Whole | Child::Kept) => append(&mut self.bytes, element.name, element.value),
                // Computed members come afterwards; in an exclusion they keep their place.
                Some(Child::Computed(_) | Child::ElemMatch(_)) | None => {
                    if !self.includes {
                        append(&mut self.bytes, element.name, element.value);
                    }
                }
            }
        }
        end(&mut self.bytes, start);
    }

    /// The walk enters arrays at any depth. Scalars have no members: an inclusion drops them, but keeps their places
    /// until [`settle`]. Positions in arrays count, and computed members may take these places.
    fn below(&mut self, branch: &Branch, element: Element<'_>) {
        let Element { name, value } = element;
        if value.is_document() {
            head(&mut self.bytes, value.kind(), name);
            self.members(branch, value.bytes);
        } else if value.is_array() {
            head(&mut self.bytes, value.kind(), name);
            let start = begin(&mut self.bytes);
            for element in Elements::within(value.bytes) {
                self.below(branch, element);
            }
            end(&mut self.bytes, start);
        } else if !self.includes || branch.computes {
            append(&mut self.bytes, name, value);
        } else {
            self.has_gaps = true;
            head(&mut self.bytes, kind::MISSING, name);
        }
    }
}

/// Drops the kept places, and counts the elements of their arrays again.
pub(super) fn settle(document: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(document.len());
    settle_members(Value::new(kind::DOCUMENT, document), &mut bytes);
    bytes
}

fn settle_members(container: Value<'_>, bytes: &mut Vec<u8>) {
    let start = begin(bytes);
    let mut position = 0_usize;
    for Element { name, value } in container.elements().filter(|element| element.value.kind() != kind::MISSING) {
        bytes.push(value.kind());
        if container.is_array() {
            bytes.extend_from_slice(position.to_string().as_bytes());
            position += 1;
        } else {
            bytes.extend_from_slice(name);
        }
        bytes.push(0);
        if value.is_array() || value.is_document() {
            settle_members(value, bytes);
        } else {
            bytes.extend_from_slice(value.bytes);
        }
    }
    end(bytes, start);
}

pub(super) fn head(bytes: &mut Vec<u8>, kind: u8, name: &[u8]) {
    bytes.push(kind);
    bytes.extend_from_slice(name);
    bytes.push(0);
}

/// Sets a computed member: instead of an existing one, else at the end.
pub(super) fn with_computed(
    root: &Branch,
    document: &RawDocument,
    kept: &[u8],
    budget: &Budget,
) -> Result<Vec<u8>, EvalError> {
    compute_members(root, document, kept, budget)
}

fn compute_members(
    branch: &Branch,
    document: &RawDocument,
    kept: &[u8],
    budget: &Budget,
) -> Result<Vec<u8>, EvalError> {
    let mut values: Vec<(&[u8], Option<Owned>)> = Vec::new();
    for (name, child) in &branch.children {
        let value = match child {
            Child::Computed(expression) => {
                expression.evaluate(document, budget)?.map(|value| encode(&value)).transpose()?
            }
            Child::ElemMatch(node) => first_match(node, name, document, budget)?,
            Child::Branch(branch) if branch.computes => {
                Some(compute_below(branch, document, member(kept, name.as_bytes()), budget)?)
            }
            Child::Branch(_) | Child::Whole | Child::Kept => continue,
        };
        values.push((name.as_bytes(), value));
    }
    let mut bytes = Vec::with_capacity(kept.len());
    let start = begin(&mut bytes);
    for element in Elements::within(kept) {
        match values.iter().position(|(name, _)| *name == element.name) {
            None => append(&mut bytes, element.name, element.value),
            Some(index) => {
                if let (name, Some(value)) = values.remove(index) {
                    append(&mut bytes, name, value.value());
                }
            }
        }
    }
    for (name, value) in values {
        if let Some(value) = value {
            append(&mut bytes, name, value.value());
        }
    }
    end(&mut bytes, start);
    Ok(bytes)
}

/// A value without members is replaced by a document of the computed ones.
fn compute_below(
    branch: &Branch,
    document: &RawDocument,
    value: Option<Value<'_>>,
    budget: &Budget,
) -> Result<Owned, EvalError> {
    match value {
        Some(array) if array.is_array() => {
            let mut bytes = Vec::with_capacity(array.bytes.len());
            let start = begin(&mut bytes);
            for element in Elements::within(array.bytes) {
                let value = compute_below(branch, document, Some(element.value), budget)?;
                append(&mut bytes, element.name, value.value());
            }
            end(&mut bytes, start);
            Ok(Owned::copy(Value::new(kind::ARRAY, &bytes)))
        }
        value => {
            let members = value.filter(|value| value.is_document()).map_or(EMPTY, |value| value.bytes);
            let bytes = compute_members(branch, document, members, budget)?;
            Ok(Owned::copy(Value::new(kind::DOCUMENT, &bytes)))
        }
    }
}

fn encode(value: &bson::Bson) -> Result<Owned, EvalError> {
    Owned::encode(value).map_err(|error| EvalError::new(code::BAD_VALUE, error.to_string()))
}

/// An array of the first element that matches; nothing when none does.
fn first_match(
    node: &crate::query::tree::Node,
    name: &str,
    document: &RawDocument,
    budget: &Budget,
) -> Result<Option<Owned>, EvalError> {
    let Some(position) = matched_position(node, document, budget)? else { return Ok(None) };
    let array = member(document.as_bytes(), name.as_bytes());
    Ok(array.and_then(|array| array.elements().nth(position)).map(|element| array_of(element.value)))
}

fn array_of(value: Value<'_>) -> Owned {
    let mut bytes = Vec::with_capacity(value.bytes.len() + 8);
    let start = begin(&mut bytes);
    append(&mut bytes, b"0", value);
    end(&mut bytes, start);
    Owned::copy(Value::new(kind::ARRAY, &bytes))
}

/// Cuts the arrays that the path leads to, also through the elements of an array, not of one in another.
pub(super) fn slice(document: &[u8], path: &[String], slice: Slice) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(document.len());
    slice_members(document, path, slice, &mut bytes);
    bytes
}

fn slice_members(document: &[u8], path: &[String], slice: Slice, bytes: &mut Vec<u8>) {
    let start = begin(bytes);
    for element in Elements::within(document) {
        if path.first().is_some_and(|name| name.as_bytes() == element.name) {
            slice_value(element, &path[1..], slice, bytes);
        } else {
            append(bytes, element.name, element.value);
        }
    }
    end(bytes, start);
}

fn slice_value(element: Element<'_>, rest: &[String], slice: Slice, bytes: &mut Vec<u8>) {
    let Element { name, value } = element;
    if value.is_array() && rest.is_empty() {
        let (from, to) = slice.bounds(Elements::within(value.bytes).count());
        head(bytes, value.kind(), name);
        let start = begin(bytes);
        for (position, element) in Elements::within(value.bytes).skip(from).take(to.saturating_sub(from)).enumerate() {
            append(bytes, position.to_string().as_bytes(), element.value);
        }
        end(bytes, start);
    } else if value.is_array() {
        head(bytes, value.kind(), name);
        let start = begin(bytes);
        for element in Elements::within(value.bytes) {
            if element.value.is_document() {
                head(bytes, element.value.kind(), element.name);
                slice_members(element.value.bytes, rest, slice, bytes);
            } else {
                append(bytes, element.name, element.value);
            }
        }
        end(bytes, start);
    } else if value.is_document() && !rest.is_empty() {
        head(bytes, value.kind(), name);
        slice_members(value.bytes, rest, slice, bytes);
    } else {
        append(bytes, name, value);
    }
}

/// Leaves one element of the first array on the path.
///
/// At a scalar on the path MongoDB does not stop, but looks for the next name in the same document. This does the same.
/// `position` is called only when there is an array.
pub(super) fn positional(
    document: &[u8],
    path: &[String],
    position: impl FnOnce() -> Result<usize, EvalError>,
) -> Result<Vec<u8>, EvalError> {
    let mut inside = document;
    for (index, name) in path.iter().enumerate() {
        match member(inside, name.as_bytes()) {
            Some(array) if array.is_array() => {
                let element = array.elements().nth(position()?).filter(|element| element.value.kind() != kind::MISSING);
                let Some(element) = element else {
                    return Err(EvalError::new(
                        51247, "the positional $ found an element that the projected array lacks",
                    ));
                };
                let mut bytes = Vec::with_capacity(document.len());
                set_nested(document, &path[..=index], array_of(element.value).value(), &mut bytes);
                return Ok(bytes);
            }
            Some(below) if below.is_document() => inside = below.bytes,
            _ => {}
        }
    }
    Ok(document.to_vec())
}

/// Writes the document with the value at the path; other values on the way become documents.
pub(in crate::query) fn set_nested(document: &[u8], path: &[String], value: Value<'_>, bytes: &mut Vec<u8>) {
    let Some((name, rest)) = path.split_first() else { return };
    let set = |below: Option<Value<'_>>, bytes: &mut Vec<u8>| {
        if rest.is_empty() {
            append(bytes, name.as_bytes(), value);
        } else {
            head(bytes, kind::DOCUMENT, name.as_bytes());
            let below = below.filter(|below| below.is_document()).map_or(EMPTY, |below| below.bytes);
            set_nested(below, rest, value, bytes);
        }
    };
    let start = begin(bytes);
    let mut found = false;
    for element in Elements::within(document) {
        if element.name == name.as_bytes() {
            found = true;
            set(Some(element.value), bytes);
        } else {
            append(bytes, element.name, element.value);
        }
    }
    if !found {
        set(None, bytes);
    }
    end(bytes, start);
}
