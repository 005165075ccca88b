//! Whatever shape the stored documents have, there is a view, and it is JSON.

use bson::raw::RawDocument;
use bson::{Bson, DateTime, Document, doc};
use inventory_service::domain::object_type::ObjectType;
use inventory_service::render::{Gathering, Subject, render_object};
use proptest::prelude::*;

use super::{World, raw};

/// A type that uses everything there is, and refers to itself.
fn full_type() -> Document {
    let summary =
        doc! { "type_id": 1, "line": "{} at {}", "label": "L", "fields": ["a", "day"], "icon": "i", "prefix": true };
    doc! {
        "public_id": 1, "name": "full", "label": "Full", "active": true, "version": "1.0.0", "author_id": 1,
        "creation_time": DateTime::from_millis(0),
        "fields": [
            { "type": "text", "name": "a", "label": "A" },
            { "type": "select", "name": "pick", "label": "Pick", "options": [{ "name": "x", "label": "X" }] },
            { "type": "date", "name": "day", "label": "Day" },
            { "type": "password", "name": "pin", "label": "Pin" },
            { "type": "ref", "name": "to", "label": "To", "ref_types": [1], "summaries": [summary] },
            { "type": "ref-section-field", "name": "through-field", "label": "Through" },
        ],
        "render_meta": {
            "icon": "i",
            "sections": [
                { "type": "section", "name": "s", "label": "S", "fields": ["a", "to", "through-field"] },
                { "type": "ref-section", "name": "through", "label": "T", "fields": ["through-field"],
                  "reference": { "type_id": 1, "section_name": "s", "selected_fields": [] } },
            ],
            "externals": [
                { "name": "n", "href": "https://x/{}/{}", "label": "l", "icon": "i", "fields": ["a", "object_id"] },
            ],
            "summary": { "fields": ["a", "day"] },
        },
        "acl": { "activated": true, "groups": { "includes": { "1": ["READ"] } } },
    }
}

fn full_object(id: i64, to: i64) -> Document {
    doc! {
        "_id": 1, "public_id": id, "type_id": 1, "version": "1.0.0", "author_id": 1, "editor_id": 1, "active": true,
        "creation_time": DateTime::from_millis(0), "last_edit_time": null,
        "fields": [
            { "name": "a", "value": "text" }, { "name": "pick", "value": "x" }, { "name": "pin", "value": "1" },
            { "name": "day", "value": DateTime::from_millis(0) }, { "name": "to", "value": to },
            { "name": "through-field", "value": to },
        ],
    }
}

/// Replaces the value that is `number`-th in the document, counted through all levels, by `odd`.
fn replace(value: &mut Bson, number: &mut usize, odd: &Bson) {
    if *number == 0 {
        *value = odd.clone();
    }
    *number = number.wrapping_sub(1);
    match value {
        Bson::Document(members) => members.iter_mut().for_each(|(_, member)| replace(member, number, odd)),
        Bson::Array(items) => items.iter_mut().for_each(|item| replace(item, number, odd)),
        _ => {}
    }
}

fn replaced(document: Document, number: usize, odd: &Bson) -> Document {
    let mut number = number + 1;
    let mut value = Bson::Document(document);
    replace(&mut value, &mut number, odd);
    value.as_document().unwrap().clone()
}

fn odd_value() -> impl Strategy<Value = Bson> {
    prop_oneof![
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::MinKey),
        any::<bool>().prop_map(Bson::from),
        any::<i64>().prop_map(Bson::from),
        any::<f64>().prop_map(Bson::from),
        any::<i64>().prop_map(|ms| Bson::from(DateTime::from_millis(ms))),
        "[{}a\"\\\\:/é]{0,8}".prop_map(Bson::from),
        Just(Bson::from(doc! { "name": "a", "value": [{}] })),
        Just(bson::bson!([[], { "name": 1 }, null, "a"])),
    ]
}

proptest! {
    #[test]
    fn every_shape_has_a_view(in_type in 0..70_usize, in_object in 0..35_usize, odd in odd_value(), may_edit: bool) {
        let object_type = replaced(full_type(), in_type, &odd);
        prop_assume!(ObjectType::from_document(&raw(object_type.clone())).is_ok());
        let object = replaced(full_object(7, 8), in_object, &odd);
        let world = World::new()
            .with_type(object_type)
            .with_object(replaced(full_object(8, 7), in_object, &odd))
            .with_object(full_object(7, 8))
            .seen_by(1, may_edit);
        world.view(object.clone());
        let page = raw(object);
        let subject = Subject::read(&page, &world.context).unwrap();
        let mut gathering = Gathering::new();
        while gathering.next_round([&subject], &world.catalog).unwrap().is_some() {}
    }

    #[test]
    fn broken_bytes_never_panic(at: prop::sample::Index, byte: u8) {
        let world = World::new().with_type(full_type()).with_object(full_object(8, 7));
        let mut bytes = raw(full_object(7, 8)).into_bytes();
        let at = 4 + at.index(bytes.len() - 5);
        bytes[at] = byte;
        let mut out = Vec::new();
        let document = RawDocument::from_bytes(&bytes).unwrap();
        match render_object(document, &world.catalog, &world.context, &mut out) {
            Ok(()) => drop(serde_json::from_slice::<serde_json::Value>(&out).unwrap()),
            Err(_) => prop_assert!(out.is_empty()),
        }
    }
}
