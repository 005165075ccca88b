//! The documents that are derived from an object: its terms for search, and its values in the indexes of its type.

use bson::raw::{CStr, CString, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use bson::{Bson, Document, Timestamp, doc, rawdoc};

use crate::domain::document::integer;
use crate::domain::searchable::{EVERY, terms};
use crate::domain::type_indexes::{MOST_INDEXES, TypeIndex};
use crate::service::types::catalog::TypeEntry;
use crate::store::collections::{INDEXED, SEARCH, SLOTS};

const _: () = assert!(SLOTS.len() == MOST_INDEXES, "each index of a type has a slot");

/// Makes the document of an object of this type, if it has one.
pub type Make = fn(&RawDocument, Option<&TypeEntry>) -> Option<RawDocumentBuf>;

/// The collections of documents derived from objects, with what makes these.
pub const DERIVED: [(&str, Make); 2] = [(SEARCH, document_of), (INDEXED, indexed_of)];

/// The `_id` of the document of an object. As a timestamp it takes the fewest bytes in an index whose entries are in order.
///
/// Nothing for ids that no object has.
pub(super) fn key(public_id: i64) -> Option<Timestamp> {
    let id = u64::try_from(public_id).ok()?;
    let low = id & u64::from(u32::MAX);
    Some(Timestamp { time: u32::try_from(id >> 32).ok()?, increment: u32::try_from(low).ok()? })
}

/// The same as a value; below all others for ids that no object has.
pub(super) fn key_value(public_id: i64) -> Bson {
    key(public_id).map_or(Bson::Timestamp(Timestamp { time: 0, increment: 0 }), Bson::Timestamp)
}

/// The object of a document.
pub fn object_of(document: &RawDocument) -> Option<i64> {
    let RawBsonRef::Timestamp(key) = document.get("_id").ok()?? else { return None };
    i64::try_from(u64::from(key.time) << 32 | u64::from(key.increment)).ok()
}

/// The document of an object of this type. An object whose type is unknown has no words; one whose id cannot be a key has no
/// document.
fn document_of(object: &RawDocument, entry: Option<&TypeEntry>) -> Option<RawDocumentBuf> {
    let key = key(integer(object, "public_id")?)?;
    let known = entry.and_then(|entry| terms(object, &entry.object_type).ok());
    let mut list = RawArrayBuf::new();
    match known {
        Some(terms) => terms.iter().for_each(|term| list.push(term.as_str())),
        None => list.push(EVERY),
    }
    Some(rawdoc! { "_id": key, "type_id": integer(object, "type_id").unwrap_or_default(), "terms": list })
}

/// The document of an object whose type has indexes: in each of its slots the values in one of them.
fn indexed_of(object: &RawDocument, entry: Option<&TypeEntry>) -> Option<RawDocumentBuf> {
    let object_type = &entry.filter(|entry| !entry.object_type.indexes.is_empty())?.object_type;
    let (id, indexes) = (integer(object, "public_id")?, TypeIndex::all_of(object_type));
    if indexes.is_empty() {
        return None;
    }
    let mut document = rawdoc! { "_id": key(id)? };
    for (slot, index) in SLOTS.into_iter().zip(indexes) {
        let mut values = RawDocumentBuf::new();
        match index.values(object) {
            None => values.append(cstr!("t"), unfit(object_type.public_id)),
            Some(own) => {
                values.append(cstr!("t"), object_type.public_id);
                for (name, value) in VALUES.into_iter().zip(own) {
                    if let Some(value) = value {
                        values.append(name, value);
                    }
                }
                values.append(cstr!("o"), id);
                values.append(cstr!("n"), -id);
            }
        }
        document.append(CString::try_from(slot).ok()?, values);
    }
    Some(document)
}

/// The names of the values in a slot.
pub const VALUES: [&CStr; 3] = [cstr!("a"), cstr!("b"), cstr!("c")];

/// What stands for the type in a slot of an object whose values have no place there. As long as there is one, the index answers
/// nothing.
pub(in crate::service) fn unfit(type_id: i64) -> String {
    format!("unfit {type_id}")
}

/// The condition on documents of a collection that are of the objects of a type, by what its indexes begin with.
pub(super) fn of_type(collection: &str, type_id: i64) -> Document {
    if collection == SEARCH {
        return doc! { "terms": EVERY, "type_id": type_id };
    }
    doc! { "i0.t": { "$in": [Bson::Int64(type_id), Bson::from(unfit(type_id))] } }
}

/// The terms in a document.
pub(super) fn terms_of(document: &RawDocument) -> impl Iterator<Item = &str> {
    let terms = document.get_array("terms").ok().into_iter().flatten();
    terms.filter_map(|term| term.ok()?.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_ids() {
        let ids = [0, 1, i64::from(u32::MAX), i64::from(u32::MAX) + 1, 1 << 53, i64::MAX];
        let keys: Vec<Timestamp> = ids.into_iter().filter_map(key).collect();
        assert!(keys.is_sorted() && keys.len() == ids.len());
        for id in ids {
            let document = document_of(&rawdoc! { "public_id": id, "type_id": 3 }, None).expect("a document");
            assert_eq!((object_of(&document), terms_of(&document).collect::<Vec<_>>()), (Some(id), vec![EVERY]));
        }
        assert_eq!(key(-1), None);
    }
}
