//! `f.<name>`: the value of a field, as if the object had a member `f` with one member for each entry of `fields`.
//!
//! *Law:* this is what `f.<name>` means. All else that answers for it is a faster way to the same documents.

use std::borrow::Cow;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use super::raw::{Elements, Value, View, append, begin, end, framed, kind, member};
use crate::address;

/// The member of an object that holds its entries.
pub const STORED: &str = "fields";
/// The member of an entry that holds its value.
pub(super) const VALUE: &str = "value";
/// The operator of the service for a condition on a field. It is in no client's filter, and no server is sent it.
pub const OPERATOR: &str = "$entry";

/// The member of such a condition that says that the order is that of addresses.
pub const BY_ADDRESS: &str = "by_address";

const NO_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

/// The entries of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    name: Box<str>,
    is_by_address: bool,
}

impl Entry {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into(), is_by_address: false }
    }

    /// With [`address::key`] of each value in its place: null for a text that is no address.
    pub(super) fn by_address(name: &str) -> Self {
        Self { is_by_address: true, ..Self::new(name) }
    }

    /// Whether values are ordered as addresses.
    pub fn is_by_address(&self) -> bool {
        self.is_by_address
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A document whose member `value` is the value of the field: an array of all values, if there are several entries. Without
    /// one it has no members.
    pub(super) fn document<'a>(&self, object: &'a [u8]) -> Cow<'a, [u8]> {
        let entries = member(object, STORED.as_bytes()).filter(|entries| entries.is_array());
        let entries = entries.map_or(NO_DOCUMENT, |entries| entries.bytes);
        let mut named = Elements::within(entries).map(|element| element.value).filter_map(|entry| self.named(entry));
        if self.is_by_address {
            return Cow::Owned(keys(named.map(|(_, value)| value)));
        }
        let Some((first, value)) = named.next() else { return Cow::Borrowed(NO_DOCUMENT) };
        let Some((_, second)) = named.next() else { return Cow::Borrowed(first.bytes) };
        Cow::Owned(several([value, second].into_iter().chain(named.map(|(_, value)| value))))
    }

    /// The entry with its value, if it has this name.
    fn named<'a>(&self, entry: Value<'a>) -> Option<(Value<'a>, Value<'a>)> {
        let name = Some(entry).filter(|entry| entry.is_document()).and_then(|entry| member(entry.bytes, b"name"))?;
        let is_it = matches!(name.view(), View::Text(name) if name == self.name.as_bytes());
        is_it.then(|| member(entry.bytes, VALUE.as_bytes())).flatten().map(|value| (entry, value))
    }
}

/// The document of an entry with the keys of addresses.
fn keys<'a>(values: impl Iterator<Item = Value<'a>>) -> Vec<u8> {
    fn key_of(value: Bson) -> Bson {
        match value {
            Bson::String(text) => address::key(&text).map_or(Bson::Null, Bson::from),
            Bson::Array(items) => items.into_iter().map(key_of).collect::<Vec<_>>().into(),
            other => other,
        }
    }
    let mut keys: Vec<Bson> = values.filter_map(Value::to_bson).map(key_of).collect();
    let key = if keys.len() > 1 { Some(Bson::Array(keys)) } else { keys.pop() };
    let document: Document = key.map(|key| (VALUE.to_owned(), key)).into_iter().collect();
    RawDocumentBuf::try_from(&document).map_or_else(|_| NO_DOCUMENT.to_vec(), RawDocumentBuf::into_bytes)
}

fn several<'a>(values: impl Iterator<Item = Value<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, VALUE.as_bytes(), Value::new(kind::ARRAY, &array_of(values)));
    framed(&bytes)
}

/// The bytes of an array of these values.
pub(super) fn array_of<'a>(values: impl Iterator<Item = Value<'a>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = begin(&mut bytes);
    for (position, value) in values.enumerate() {
        append(&mut bytes, position.to_string().as_bytes(), value);
    }
    end(&mut bytes, start);
    bytes
}

/// The condition of the service on a field; `rest` is a path into its value.
pub(super) fn condition(entry: &Entry, rest: Option<&str>, said: impl Into<Bson>) -> Document {
    let mut condition = doc! { "name": entry.name(), "is": said.into() };
    if entry.is_by_address {
        condition.insert(BY_ADDRESS, true);
    }
    condition.extend(rest.map(|rest| ("rest".to_owned(), rest.into())));
    doc! { OPERATOR: condition }
}

/// What a server may be asked of a filter. Where the service has conditions of its own, it finds more.
pub fn for_server(filter: &Document) -> Document {
    let part = |(name, value): (&String, &Bson)| match value {
        Bson::Array(parts) if name == "$and" => {
            let parts = parts.iter().filter_map(Bson::as_document).map(for_server).filter(|part| !part.is_empty());
            Some((name.clone(), parts.collect::<Vec<_>>().into()))
                .filter(|(_, parts)| *parts != Bson::Array(Vec::new()))
        }
        value => (name != OPERATOR && !names(value, OPERATOR)).then(|| (name.clone(), value.clone())),
    };
    filter.iter().filter_map(part).collect()
}

/// Whether a member anywhere in the value has this name.
pub(super) fn names(value: &Bson, wanted: &str) -> bool {
    match value {
        Bson::Document(document) => document.iter().any(|(name, value)| name == wanted || names(value, wanted)),
        Bson::Array(items) => items.iter().any(|item| names(item, wanted)),
        _ => false,
    }
}

/// The expression for the value of the field; missing without an entry. `array` is the path of the entries.
pub fn value_of(array: &str, name: &str) -> Document {
    let array = format!("${array}");
    let entries = doc! { "$cond": [{ "$isArray": [&array] }, &array, []] };
    let named = doc! { "$filter": { "input": entries, "cond": { "$eq": ["$$this.name", { "$literal": name }] } } };
    let first = doc! { "$arrayElemAt": ["$$values", 0] };
    let value = doc! { "$cond": [{ "$gt": [{ "$size": "$$values" }, 1] }, "$$values", first] };
    let values = doc! { "$let": { "vars": { "values": "$$entries.value" }, "in": value } };
    doc! { "$let": { "vars": { "entries": named }, "in": values } }
}
