//! References in the values of objects: the ids that a value has, and what is left of it when their objects are deleted.

use bson::Bson;
use bson::raw::RawDocument;

use super::document::number;
use super::object_type::ObjectType;
use crate::raw::{CorruptBson, Elements, Value, named_value};

/// The references of an object: the position of the field in the type, and the id. A list is a reference for each of its
/// ids.
///
/// # Errors
/// When the object is not BSON.
pub fn references(object: &RawDocument, object_type: &ObjectType) -> Result<Vec<(usize, i64)>, CorruptBson> {
    let mut found = Vec::new();
    let Some(mut entries) = Elements::of(object).member("fields")?.and_then(Value::as_array) else { return Ok(found) };
    while let Some(entry) = entries.next_element()? {
        let Some((name, value)) = named_value(entry.value)? else { continue };
        let position = str::from_utf8(name).ok().and_then(|name| object_type.position(name));
        let Some(position) = position.filter(|position| object_type.fields[*position].is_reference()) else { continue };
        match value.as_array() {
            None => found.extend(value.as_integer().map(|id| (position, id))),
            Some(mut items) => {
                while let Some(item) = items.next_element()? {
                    found.extend(item.value.as_integer().map(|id| (position, id)));
                }
            }
        }
    }
    Ok(found)
}

/// The value of a reference field without the ids that are gone; nothing where it has none of them.
pub fn cleared(value: &Bson, is_gone: impl Fn(i64) -> bool) -> Option<Bson> {
    let goes = |value: &Bson| number(value).is_some_and(&is_gone);
    match value {
        Bson::Array(items) if items.iter().any(goes) => {
            Some(Bson::Array(items.iter().filter(|item| !goes(item)).cloned().collect()))
        }
        value if goes(value) => Some(Bson::Null),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use bson::{doc, rawdoc};

    use super::*;

    #[test]
    fn values_of_reference_fields_are_read_from_every_number_and_from_lists() {
        let kind = |kind: &str, name: &str| doc! { "type": kind, "name": name, "ref_types": [1] };
        let document = doc! { "public_id": 1, "fields": [kind("text", "a"), kind("ref", "b"), kind("ref", "c")] };
        let raw = bson::raw::RawDocumentBuf::try_from(document).unwrap();
        let object_type = ObjectType::from_document(&raw).unwrap();
        let object = rawdoc! { "fields": [
            { "name": "a", "value": 5 }, { "name": "b", "value": 7_i64 }, { "value": 8.0, "name": "c" },
            { "name": "b", "value": ["x", 9, 10_i64] }, { "name": "c", "value": null }, 3,
        ] };
        assert_eq!(references(&object, &object_type), Ok(vec![(1, 7), (2, 8), (1, 9), (1, 10)]));
        assert_eq!(references(&rawdoc! {}, &object_type), Ok(vec![]));
    }

    #[test]
    fn an_id_that_is_gone_leaves_null_or_the_rest_of_the_list() {
        let is_gone = |id| id == 7;
        assert_eq!(cleared(&Bson::Int32(7), is_gone), Some(Bson::Null));
        assert_eq!(cleared(&Bson::Double(7.0), is_gone), Some(Bson::Null));
        assert_eq!(cleared(&Bson::Int64(8), is_gone), None);
        let list = Bson::from(vec![Bson::Int64(7), Bson::Int64(8)]);
        assert_eq!(cleared(&list, is_gone), Some(Bson::from(vec![Bson::Int64(8)])));
        assert_eq!(cleared(&Bson::from("7"), is_gone), None);
    }
}
