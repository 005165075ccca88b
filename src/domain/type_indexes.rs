//! The indexes of a type: by which of their fields its objects are found in order. docs/api.md, Indexes of a type.

use std::collections::HashSet;

use bson::raw::{RawBson, RawBsonRef, RawDocument};
use bson::{Bson, Document};

use super::object_fields::ValueKind;
use super::object_type::{ObjectType, PASSWORD, SELECT};
use super::violation::quoted;
use super::{Violation, Violations};
use crate::address;

/// The maximum number of indexes of a type.
pub const MOST_INDEXES: usize = 4;

/// The maximum number of fields of an index.
pub const MOST_FIELDS: usize = 3;

/// The texts of an object in one index have at most this many bytes together: the embedded store cuts longer keys.
const MOST_BYTES: usize = 900;

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeIndex {
    /// The fields, the most significant one first; at least one.
    pub fields: Vec<IndexedField>,
}

/// A field of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedField {
    /// Its name.
    pub name: String,
    /// Whether its values are in the order of addresses.
    pub is_by_address: bool,
}

impl TypeIndex {
    /// The indexes of a type. What is none is passed over.
    pub fn all_of(object_type: &ObjectType) -> Vec<Self> {
        let field = |name: &String| {
            let field = object_type.field(name)?;
            let is_by_address = ValueKind::named(&field.kind).is_in_order_of_addresses();
            let field_of = || IndexedField { name: field.name.clone(), is_by_address };
            unfit(&field.kind, field.multiple).is_none().then(field_of)
        };
        let index = |names: &Vec<String>| {
            let fields: Vec<IndexedField> = names.iter().map(field).collect::<Option<_>>()?;
            let distinct: HashSet<&str> = fields.iter().map(|field| field.name.as_str()).collect();
            let is_one = (1..=MOST_FIELDS).contains(&fields.len()) && distinct.len() == fields.len();
            is_one.then_some(Self { fields })
        };
        object_type.indexes.iter().filter_map(index).take(MOST_INDEXES).collect()
    }

    /// The values of an object by which it is found: one for each field, nothing for one that it lacks. Nothing at all if it has
    /// a list, an object, several entries or long texts there.
    pub fn values(&self, object: &RawDocument) -> Option<Vec<Option<RawBson>>> {
        let mut values: Vec<Option<RawBson>> = vec![None; self.fields.len()];
        let mut bytes = 0;
        for entry in object.get_array("fields").ok().into_iter().flatten() {
            let Ok(RawBsonRef::Document(entry)) = entry else { continue };
            let (Ok(name), Ok(Some(value))) = (entry.get_str("name"), entry.get("value")) else { continue };
            let Some(place) = self.fields.iter().position(|field| field.name == name) else { continue };
            let value = self.fields[place].key_of(value)?;
            bytes += if let RawBson::String(text) = &value { text.len() } else { 0 };
            if values[place].replace(value).is_some() || bytes > MOST_BYTES {
                return None;
            }
        }
        Some(values)
    }
}

impl IndexedField {
    /// By what a single value is ordered; nothing for what is not single.
    fn key_of(&self, value: RawBsonRef<'_>) -> Option<RawBson> {
        match value {
            RawBsonRef::String(text) if self.is_by_address => {
                Some(address::key(text).map_or(RawBson::Null, RawBson::String))
            }
            // A zero byte takes two in a key.
            RawBsonRef::String(text) if text.contains('\0') => None,
            RawBsonRef::String(_)
            | RawBsonRef::Null
            | RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::ObjectId(_) => Some(value.into()),
            _ => None,
        }
    }
}

/// Why the values of a field have no place in an index.
fn unfit(kind: &str, is_multiple: bool) -> Option<&'static str> {
    match ValueKind::named(kind) {
        _ if kind == PASSWORD => Some("holds passwords, and their order would reveal them"),
        ValueKind::References | ValueKind::Options => Some("holds lists"),
        _ if is_multiple && kind == SELECT => Some("holds lists"),
        ValueKind::Any => Some("holds any JSON"),
        _ => None,
    }
}

/// Adds what is wrong with the indexes of a type, whose fields are right.
pub fn check(accepted: &Document, violations: &mut Violations) {
    let indexes: Vec<&Vec<Bson>> =
        accepted.get_array("indexes").into_iter().flatten().filter_map(Bson::as_array).collect();
    if indexes.len() > MOST_INDEXES {
        let message = format!("must have at most {MOST_INDEXES} indexes; it has {}", indexes.len());
        violations.push(Violation::new("/indexes", message));
        return;
    }
    let fields: Vec<&Document> =
        accepted.get_array("fields").into_iter().flatten().filter_map(Bson::as_document).collect();
    for (index, names) in indexes.iter().enumerate() {
        let place = format!("/indexes/{index}");
        if !(1..=MOST_FIELDS).contains(&names.len()) {
            let message = format!("must name from 1 to {MOST_FIELDS} fields; it has {}", names.len());
            violations.push(Violation::new(place, message));
            continue;
        }
        if let Some(same) = indexes[..index].iter().position(|other| other == names) {
            violations.push(Violation::new(place, format!("is there twice: it is the same as /indexes/{same}")));
            continue;
        }
        for (position, name) in names.iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            if let Some(message) = wrong_name(name, names[..position].iter().filter_map(Bson::as_str), &fields) {
                violations.push(Violation::new(format!("{place}/{position}"), message));
            }
        }
    }
}

fn wrong_name<'a>(name: &str, mut before: impl Iterator<Item = &'a str>, fields: &[&Document]) -> Option<String> {
    if before.any(|other| other == name) {
        return Some(format!("is there twice: the index names {} already", quoted(name)));
    }
    let Some(field) = fields.iter().find(|field| field.get_str("name").is_ok_and(|known| known == name)) else {
        return Some(format!("the type has no field {}; take it out, or name another field", quoted(name)));
    };
    let is_multiple = field.get_bool("multiple").unwrap_or(false);
    let reason = unfit(field.get_str("type").unwrap_or_default(), is_multiple)?;
    Some(format!("cannot be in an index: the field {} {reason}; name another field", quoted(name)))
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn an_object_has_its_values_once_and_short_or_none_at_all() {
        let field = |name: &str, is_by_address| IndexedField { name: name.to_owned(), is_by_address };
        let index = TypeIndex { fields: vec![field("a", false), field("ip", true)] };
        let values = |entries: Vec<Document>| {
            let object = bson::raw::RawDocumentBuf::try_from(&doc! { "fields": entries }).expect("it is BSON");
            index.values(&object)
        };
        let entry = |name: &str, value: Bson| doc! { "name": name, "value": value };
        assert_eq!(index.values(&rawdoc! {}), Some(vec![None, None]));
        let both = values(vec![entry("ip", "10.0.0.7".into()), entry("b", 1.into()), entry("a", Bson::Null)]);
        assert_eq!(both, Some(vec![Some(RawBson::Null), Some("4010000000007".into())]));
        assert_eq!(values(vec![entry("ip", "host".into())]), Some(vec![None, Some(RawBson::Null)]));
        for unfit in [
            vec![entry("a", 1.into()), entry("a", 1.into())],
            vec![entry("a", vec![1].into())],
            vec![entry("a", doc! {}.into())],
            vec![entry("a", "x".repeat(MOST_BYTES + 1).into())],
            vec![entry("a", "\0".into())],
        ] {
            assert_eq!(values(unfit.clone()), None, "{unfit:?}");
        }
    }
}
