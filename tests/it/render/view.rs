//! The view as a whole: its members, what replaces missing values, odd shapes.

use bson::raw::RawDocument;
use bson::{DateTime, doc};
use inventory_service::render::{RenderContext, display_name, render_object};
use serde_json::json;

use super::{PageCatalog, World, object, raw, text_type, typed};

#[test]
fn a_view_has_the_members_of_the_interface() {
    let object_type = doc! {
        "_id": 1, "public_id": 2_i64, "name": "rack", "label": "Rack", "author_id": 1_i64, "active": true,
        "version": "1.0.0", "creation_time": DateTime::from_millis(1_600_000_000_000), "description": "not shown",
        "fields": [{ "type": "text", "name": "row", "label": "Row", "required": true }],
        "render_meta": {
            "icon": "fa fa-cube",
            "sections": [{ "type": "section", "name": "main", "label": "Main", "fields": ["row"] }],
            "externals": [
                { "name": "map", "href": "https://x.org/{}", "label": "Map", "icon": "fa", "fields": ["row"] },
            ],
            "summary": { "fields": ["row"] },
        },
        "acl": { "activated": false, "groups": { "includes": { "1": ["READ"] } } },
    };
    let rack = doc! {
        "_id": 9, "public_id": 7_i64, "type_id": 2_i64, "status": true, "version": "1.0.4", "author_id": 1_i64,
        "editor_id": 3_i64, "active": true, "creation_time": DateTime::from_millis(1_650_000_000_123),
        "last_edit_time": null, "views": 3, "fields": [{ "name": "row", "value": "A 7" }], "from_elsewhere": 1,
    };
    let world = World::new()
        .with_type(object_type)
        .with_user(doc! { "public_id": 1, "user_name": "ada", "first_name": "Ada", "last_name": "Lovelace" });
    let row = json!({ "type": "text", "name": "row", "label": "Row", "value": "A 7" });
    assert_eq!(
        world.view(rack),
        json!({
            "current_render_time": { "$date": 1_700_000_000_000_i64 },
            "object_information": {
                "object_id": 7, "creation_time": { "$date": 1_650_000_000_123_i64 }, "last_edit_time": null,
                "author_id": 1, "author_name": "Ada Lovelace", "editor_id": 3, "editor_name": "unknown",
                "active": true, "version": "1.0.4",
            },
            "type_information": {
                "type_id": 2, "type_name": "rack", "type_label": "Rack", "creation_time": "2020-09-13T12:26:40",
                "author_id": 1, "author_name": "Ada Lovelace", "icon": "fa fa-cube", "active": true, "version": "1.0.0",
                "acl": { "activated": false, "groups": { "includes": { "1": ["READ"] } } },
                "fields": [row],
                "sections": [{ "type": "section", "name": "main", "label": "Main", "fields": ["row"] }],
                "summaries": [row],
                "summary_line": "A 7",
                "externals": [
                    { "name": "map", "href": "https://x.org/A%207", "label": "Map", "icon": "fa", "fields": ["row"] },
                ],
            },
        })
    );
}

#[test]
fn a_type_that_is_gone_is_a_value() {
    let view = World::new().view(object(7, 99, doc! { "secret": "x" }));
    assert_eq!(
        view["type_information"],
        json!({
            "type_id": 99, "type_name": "", "type_label": "", "creation_time": null, "author_id": null,
            "author_name": "unknown", "icon": null, "active": false, "version": "",
            "acl": { "activated": false, "groups": { "includes": {} } }, "fields": [], "sections": [],
            "summaries": [], "summary_line": "#7", "externals": [],
        })
    );
}

#[test]
fn an_object_without_an_editor_has_no_editor_name() {
    let view = World::new().view(doc! { "public_id": 7, "type_id": 1, "editor_id": null });
    let information = &view["object_information"];
    assert_eq!((&information["editor_id"], &information["editor_name"]), (&json!(null), &json!(null)));
    assert_eq!((&information["author_id"], &information["author_name"]), (&json!(null), &json!("unknown")));
}

#[test]
fn an_empty_document_has_a_view() {
    let view = World::new().view(doc! {});
    assert_eq!(
        view["object_information"],
        json!({
            "object_id": null, "creation_time": null, "last_edit_time": null, "author_id": null,
            "author_name": "unknown", "editor_id": null, "editor_name": null, "active": true, "version": "1.0.0",
        })
    );
    assert_eq!(view["type_information"]["type_id"], 0);
}

#[test]
fn odd_shapes_count_as_absent() {
    let world = World::new().with_type(text_type(1, &["a", "b"]));
    let with_fields = |fields: bson::Bson| world.view(doc! { "public_id": 7.0, "type_id": 1.0, "fields": fields });
    let values = |view: serde_json::Value| {
        let fields = view["type_information"]["fields"].as_array().unwrap().clone();
        fields.iter().map(|field| field["value"].clone()).collect::<Vec<_>>()
    };
    let nothing = [json!(null), json!(null)];
    assert_eq!(values(with_fields(doc! { "a": 1 }.into())), nothing);
    assert_eq!(values(with_fields("a".into())), nothing);
    assert_eq!(values(with_fields(bson::Bson::Null)), nothing);
    let odd_entries = bson::bson!([
        1, null, [], {}, { "name": 5, "value": 1 }, { "value": 2 }, { "name": "b" }, { "name": "x", "value": 1 },
    ]);
    assert_eq!(values(with_fields(odd_entries)), nothing);
    let odd_values = bson::bson!([
        { "value": { "deep": [1] }, "name": "b" }, { "name": "a", "value": 1.5 }, { "name": "a", "value": 2 },
    ]);
    assert_eq!(values(with_fields(odd_values)), [json!(1.5), json!({ "deep": [1] })]);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let world =
        World::new().with_type(typed(1, vec![super::ref_field("to", 1)], doc! {})).with_object(object(2, 1, doc! {}));
    let page = raw(object(7, 1, doc! { "to": 2 }));
    let bytes = || {
        let mut out = Vec::new();
        render_object(&page, &world.catalog, &world.context, &mut out).unwrap();
        out
    };
    assert_eq!(bytes(), bytes());
}

#[test]
fn bytes_that_are_not_bson_are_an_error_and_leave_nothing_behind() {
    let mut bytes = raw(object(7, 1, doc! { "a": "text" })).into_bytes();
    let context = RenderContext { now_ms: 0, group_id: 1, hides_types: false, may_edit: true };
    for at in 4..bytes.len() - 1 {
        let before = std::mem::replace(&mut bytes[at], 0xee);
        let mut out = b"kept".to_vec();
        let document = RawDocument::from_bytes(&bytes).unwrap();
        if render_object(document, &PageCatalog::default(), &context, &mut out).is_err() {
            assert_eq!(out, b"kept");
        }
        bytes[at] = before;
    }
}

#[test]
fn a_user_is_called_by_both_names_or_by_the_user_name() {
    let name = |user| display_name(&raw(user)).unwrap();
    assert_eq!(name(doc! { "user_name": "ada", "first_name": "Ada", "last_name": "Lovelace" }), "Ada Lovelace");
    assert_eq!(name(doc! { "user_name": "ada", "first_name": "Ada", "last_name": null }), "ada");
    assert_eq!(name(doc! { "user_name": "ada", "first_name": "", "last_name": "Lovelace" }), "ada");
    assert_eq!(name(doc! { "first_name": "Ada" }), "unknown");
}
