//! Dotted paths through documents and arrays, as MongoDB walks them.
//!
//! The traps, see "Query an Array" in MongoDB's manual. A path goes through the elements of an array, but not through
//! an array directly inside an array. `0` is a position as well as a name. A missing member is visited as a missing
//! value; a scalar element on the way is not visited at all.

use bson::Document;
use bson::raw::RawDocument;

use super::entry::{self, Entry, VALUE};
use super::error::QueryError;
use super::parse_context::Location;
use super::raw::{Element, Elements, Value, member};

/// A path taken apart once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    text: String,
    parts: Box<[Part]>,
    /// The entries that it begins in, if it is the path of a field. `parts` lead on from their document.
    entry: Option<Entry>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// With the zero byte that ends it in a document.
    name: Box<[u8]>,
    position: Option<usize>,
}

impl Part {
    fn new(name: &str) -> Self {
        Self { name: name.bytes().chain([0]).collect(), position: position(name) }
    }

    /// The name of the member.
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name.len() - 1]
    }

    /// The type and the bytes from the value on, if the document begins with this member.
    #[inline]
    pub(super) fn at_start<'a>(&self, document: &'a [u8]) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = document.get(4..)?.split_first()?;
        Some((*tag, rest.strip_prefix(&*self.name)?))
    }

    /// The position in an array, when the step is a number in its shortest form.
    pub fn position(&self) -> Option<usize> {
        self.position
    }

    /// The member that the step leads to.
    #[inline]
    pub fn member<'a>(&self, document: &'a [u8]) -> Option<Value<'a>> {
        member(document, self.name())
    }
}

/// `0`, `7`, `12`, but not `07` or `+7`.
fn position(name: &str) -> Option<usize> {
    let shortest = name == "0" || !name.starts_with('0');
    (shortest && name.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.parse().ok()).flatten()
}

/// Whether an array at the end of a path is also visited element by element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaf {
    /// Its elements, then the array itself: ordinary tests.
    ElementsAndWhole,
    /// The array alone: `$size`, `$elemMatch`.
    Whole,
}

impl Path {
    /// Splits at the dots.
    pub fn new(text: &str) -> Self {
        // Conditions of the service are made for each query: nothing is allocated twice.
        let mut parts = Vec::with_capacity(1 + text.bytes().filter(|byte| *byte == b'.').count());
        parts.extend(text.split('.').map(Part::new));
        Self { text: text.to_owned(), parts: parts.into_boxed_slice(), entry: None }
    }

    /// The value of a field, and a path into it.
    pub fn of_field(name: &str, rest: Option<&str>) -> Self {
        let below = |root: String| rest.map_or(root.clone(), |rest| format!("{root}.{rest}"));
        Self { text: below(format!("f.{name}")), entry: Some(Entry::new(name)), ..Self::new(&below(VALUE.to_owned())) }
    }

    /// The value of a field in the order of addresses.
    pub(super) fn of_address(name: &str) -> Self {
        Self { entry: Some(Entry::by_address(name)), ..Self::of_field(name, None) }
    }

    /// The entries of the field that it begins in.
    pub fn entry(&self) -> Option<&Entry> {
        self.entry.as_ref()
    }

    /// What follows the first name, or the name of the field.
    pub(super) fn rest(&self) -> Option<&str> {
        self.text.get(self.root().len() + 1..)
    }

    /// The first name, or `f.` with the name of the field.
    pub fn root(&self) -> &str {
        let length = match &self.entry {
            Some(entry) => "f.".len() + entry.name().len(),
            None => self.text.find('.').unwrap_or(self.text.len()),
        };
        &self.text[..length]
    }

    /// The paths on the way with what follows them: of `a.b.c` these are `a` with `b.c`, and `a.b` with `c`.
    pub(super) fn on_the_way(&self) -> impl Iterator<Item = (Self, &str)> {
        let root = self.root().len();
        let ends = self.text.match_indices('.').map(|(end, _)| end).filter(move |end| *end >= root);
        ends.map(move |end| {
            let way = match &self.entry {
                Some(entry) => Self::of_field(entry.name(), self.text[..end].get(root + 1..)),
                None => Self::new(&self.text[..end]),
            };
            (way, &self.text[end + 1..])
        })
    }

    /// The condition on the values that it leads to.
    pub(super) fn condition(&self, said: impl Into<bson::Bson>) -> Document {
        match &self.entry {
            Some(entry) => entry::condition(entry, self.rest(), said),
            None => Document::from_iter([(self.text.clone(), said.into())]),
        }
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its steps; at least one.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Calls `visit` with every value at the path, `None` for a missing one, until it returns true.
    ///
    /// With each value `visit` gets the position in the outermost array on the path, unless the path names it. Returns
    /// whether `visit` returned true.
    #[inline]
    pub fn any<'a, F>(&self, document: &'a RawDocument, leaf: Leaf, visit: &mut F) -> bool
    where
        F: FnMut(Option<Value<'a>>, Option<usize>) -> bool,
    {
        any_in_document(document.as_bytes(), &self.parts, leaf, None, visit)
    }

    /// Like [`Path::any`] over the bytes of a document.
    #[inline]
    pub fn any_in<'a, F>(&self, document: &'a [u8], leaf: Leaf, visit: &mut F) -> bool
    where
        F: FnMut(Option<Value<'a>>, Option<usize>) -> bool,
    {
        any_in_document(document, &self.parts, leaf, None, visit)
    }
}

/// Walks by names until an array or the end of the path, then looks into the array.
fn any_in_document<'a, F>(document: &'a [u8], parts: &[Part], leaf: Leaf, outer: Option<usize>, visit: &mut F) -> bool
where
    F: FnMut(Option<Value<'a>>, Option<usize>) -> bool,
{
    let mut document = document;
    let mut rest = parts;
    while let Some((part, after)) = rest.split_first() {
        rest = after;
        let Some(value) = part.member(document) else { return visit(None, outer) };
        if value.is_array() {
            return any_in_array(value, rest, leaf, outer, visit);
        }
        if rest.is_empty() {
            return visit(Some(value), outer);
        }
        if !value.is_document() {
            return visit(None, outer);
        }
        document = value.bytes;
    }
    false
}

/// `rest` is the rest of the path after the array.
fn any_in_array<'a, F>(array: Value<'a>, rest: &[Part], leaf: Leaf, outer: Option<usize>, visit: &mut F) -> bool
where
    F: FnMut(Option<Value<'a>>, Option<usize>) -> bool,
{
    if ends(rest) {
        if leaf == Leaf::ElementsAndWhole {
            for (index, Element { value, .. }) in Elements::within(array.bytes).enumerate() {
                if visit(Some(value), outer.or(Some(index))) {
                    return true;
                }
            }
        }
        return visit(Some(array), outer);
    }
    any_in_elements(array, rest, leaf, outer, visit)
}

/// Documents among the elements are walked by name. If the path names a position, it also continues at the element
/// there.
fn any_in_elements<'a, F>(array: Value<'a>, rest: &[Part], leaf: Leaf, outer: Option<usize>, visit: &mut F) -> bool
where
    F: FnMut(Option<Value<'a>>, Option<usize>) -> bool,
{
    for (index, Element { value, .. }) in Elements::within(array.bytes).enumerate() {
        if value.is_document() && any_in_document(value.bytes, rest, leaf, outer.or(Some(index)), visit) {
            return true;
        }
        if rest[0].position != Some(index) {
            continue;
        }
        let after = &rest[1..];
        let hit = if after.is_empty() {
            visit(Some(value), outer)
        } else if value.is_document() {
            any_in_document(value.bytes, after, leaf, outer, visit)
        } else if value.is_array() {
            any_in_array(value, after, leaf, outer, visit)
        } else {
            false
        };
        if hit {
            return true;
        }
    }
    false
}

/// MongoDB ignores an empty last step after an array (`a.`).
fn ends(rest: &[Part]) -> bool {
    match rest {
        [] => true,
        [only] => only.name().is_empty(),
        _ => false,
    }
}

/// Refuses a text that cannot name a member in a sort or a projection.
pub(super) fn check_field_path(at: &Location, text: &str) -> Result<(), QueryError> {
    if text.is_empty() {
        return Err(at.malformed(40352, "a path must not be empty"));
    }
    if text.ends_with('.') {
        return Err(at.malformed(40353, "a path must not end with a dot"));
    }
    text.split('.').try_for_each(|name| check_field_name(at, name))
}

/// Refuses a name that cannot be a step of a path.
pub(super) fn check_field_name(at: &Location, name: &str) -> Result<(), QueryError> {
    if name.is_empty() {
        return Err(at.malformed(15998, "a name in a path must not be empty"));
    }
    if name.contains('\0') {
        return Err(at.malformed(16411, "a name in a path must not contain a zero byte"));
    }
    if name.starts_with('$') && !matches!(name, "$id" | "$ref" | "$db") {
        return Err(at.malformed(16410, "a name in a path must not begin with $; use $getField for such members"));
    }
    Ok(())
}
