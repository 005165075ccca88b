//! Entries of an array by their names: what `f.<name>` leaves of the fields of an object.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use crate::query::budget::Budget;
use crate::query::error::EvalError;
use crate::query::filter::{Filter, Limits};
use crate::query::raw::{Elements, Value, View, append, begin, end, member};

use super::Projection;

/// Which entries of an array of named values stay, and what of their values.
///
/// MongoDB has no such projection; both adapters apply it to what the rest of the projection left.
#[derive(Debug, Clone)]
pub(in crate::query) struct Entries {
    /// The members that lead to the array.
    array: Vec<String>,
    keeps: bool,
    named: Vec<NamedEntry>,
}

/// What a projection says of the entries with one name.
#[derive(Debug, Clone)]
struct NamedEntry {
    name: String,
    /// The projection of members of the value; nothing when it is of the whole entry.
    members: Option<Members>,
}

#[derive(Debug, Clone)]
struct Members {
    said: Document,
    projection: Box<Projection>,
}

impl Entries {
    /// Keeps the named entries of the array at that path, or drops them.
    pub(in crate::query) fn new(array: &str, keeps: bool) -> Self {
        Self { array: array.split('.').map(str::to_owned).collect(), keeps, named: Vec::new() }
    }

    /// Adds a projection of the entries with this name, or of a member of their values. False when there is one for that
    /// already.
    pub(in crate::query) fn add(&mut self, name: &str, rest: Option<&str>) -> bool {
        let path = rest.map(|rest| (format!("value.{rest}"), i32::from(self.keeps)));
        match (self.named.iter_mut().find(|known| known.name == name), path) {
            (None, None) => self.named.push(NamedEntry { name: name.to_owned(), members: None }),
            (None, Some((path, flag))) => {
                let Some(members) = Members::parse(doc! { path: flag }) else { return false };
                self.named.push(NamedEntry { name: name.to_owned(), members: Some(members) });
            }
            (Some(NamedEntry { members: Some(members), .. }), Some((path, flag))) => {
                let mut said = members.said.clone();
                said.insert(path, flag);
                let Some(both) = Members::parse(said) else { return false };
                *members = both;
            }
            (Some(_), _) => return false,
        }
        true
    }

    /// What is left of the document.
    pub(super) fn apply(&self, document: &[u8]) -> Result<Vec<u8>, EvalError> {
        let mut bytes = Vec::with_capacity(document.len());
        self.write(document, &self.array, &mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, document: &[u8], path: &[String], bytes: &mut Vec<u8>) -> Result<(), EvalError> {
        let start = begin(bytes);
        for element in Elements::within(document) {
            let value = element.value;
            match path.split_first() {
                Some((name, [])) if name.as_bytes() == element.name && value.is_array() => {
                    super::apply::head(bytes, value.kind(), element.name);
                    self.write_entries(value.bytes, bytes)?;
                }
                Some((name, rest)) if name.as_bytes() == element.name && value.is_document() => {
                    super::apply::head(bytes, value.kind(), element.name);
                    self.write(value.bytes, rest, bytes)?;
                }
                _ => append(bytes, element.name, value),
            }
        }
        end(bytes, start);
        Ok(())
    }

    fn write_entries(&self, array: &[u8], bytes: &mut Vec<u8>) -> Result<(), EvalError> {
        let start = begin(bytes);
        let mut position = 0_usize;
        for element in Elements::within(array) {
            let entry = element.value;
            let named = self.named.iter().find(|named| named.is_name_of(entry));
            let left = match named.map(|named| &named.members) {
                Some(Some(members)) => Some(members.cut(entry, self.keeps)?),
                Some(None) if !self.keeps => continue,
                None if self.keeps => continue,
                Some(None) | None => None,
            };
            let place = position.to_string();
            match left {
                Some(left) => append(bytes, place.as_bytes(), Value::new(entry.kind(), left.as_bytes())),
                None => append(bytes, place.as_bytes(), entry),
            }
            position += 1;
        }
        end(bytes, start);
        Ok(())
    }
}

impl NamedEntry {
    fn is_name_of(&self, entry: Value<'_>) -> bool {
        let name = Some(entry).filter(|entry| entry.is_document()).and_then(|entry| member(entry.bytes, b"name"));
        name.is_some_and(|name| matches!(name.view(), View::Text(name) if name == self.name.as_bytes()))
    }
}

impl Members {
    fn parse(said: Document) -> Option<Self> {
        let projection = Projection::parse_within(&said, &Filter::all(), &Limits::NONE).ok()?;
        Some(Self { said, projection: Box::new(projection) })
    }

    /// The entry with the members of its value that the projection leaves.
    fn cut(&self, entry: Value<'_>, keeps: bool) -> Result<RawDocumentBuf, EvalError> {
        let whole = RawDocument::from_bytes(entry.bytes)
            .map_err(|error| EvalError::new(super::code::BAD_VALUE, error.to_string()))?;
        let cut = self.projection.apply_within(whole, &Filter::all(), &Budget::default())?;
        if !keeps {
            return Ok(cut);
        }
        // All else that the entry has stays.
        let mut bytes = Vec::with_capacity(entry.bytes.len());
        let start = begin(&mut bytes);
        for element in Elements::within(entry.bytes) {
            let value = if element.name == b"value" { member(cut.as_bytes(), b"value") } else { Some(element.value) };
            if let Some(value) = value {
                append(&mut bytes, element.name, value);
            }
        }
        end(&mut bytes, start);
        super::document_of(bytes)
    }
}
