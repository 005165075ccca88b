//! Fields: their order, their values, and what accompanies them.

use bson::{DateTime, doc};
use serde_json::json;

use super::{World, object, text_type, typed};

#[test]
fn fields_come_section_by_section_and_the_unlisted_ones_last() {
    let sections = doc! { "sections": [
        { "type": "section", "name": "two", "label": "Two", "fields": ["d", "gone", "b"] },
        { "type": "section", "name": "one", "label": "One", "fields": ["b", "a"] },
    ] };
    let mut object_type = text_type(1, &["a", "b", "c", "d"]);
    object_type.insert("render_meta", sections);
    let view = World::new().with_type(object_type).view(object(7, 1, doc! { "c": 1, "a": 2 }));
    let fields = view["type_information"]["fields"].as_array().unwrap();
    let order: Vec<_> = fields.iter().map(|field| field["name"].as_str().unwrap()).collect();
    assert_eq!(order, ["d", "b", "a", "c"]);
    assert_eq!(view["type_information"]["sections"][0]["fields"], json!(["d", "gone", "b"]));
}

#[test]
fn a_field_without_a_value_is_null() {
    let world = World::new().with_type(text_type(1, &["a"]));
    assert_eq!(
        world.field(object(7, 1, doc! {}), "a"),
        json!({ "type": "text", "name": "a", "label": "A", "value": null })
    );
}

#[test]
fn options_go_with_the_field() {
    let select = doc! {
        "type": "select", "name": "state", "label": "State",
        "options": [{ "name": "on", "label": "In use" }, { "name": "off", "label": "Stored" }],
    };
    let world = World::new().with_type(typed(1, vec![select], doc! {}));
    assert_eq!(
        world.field(object(7, 1, doc! { "state": "off" }), "state"),
        json!({
            "type": "select", "name": "state", "label": "State", "value": "off",
            "options": [{ "name": "on", "label": "In use" }, { "name": "off", "label": "Stored" }],
        })
    );
}

#[test]
fn dates_can_be_sent_back() {
    let world = World::new().with_type(typed(1, vec![doc! { "type": "date", "name": "day" }], doc! {}));
    let field = world.field(object(7, 1, doc! { "day": DateTime::from_millis(86_400_000) }), "day");
    assert_eq!(field["value"], json!({ "$date": 86_400_000 }));
}

/// A type that shows its password field wherever a field can be shown.
fn type_with_password() -> bson::Document {
    let fields =
        vec![doc! { "type": "password", "name": "pin", "label": "Pin" }, doc! { "type": "text", "name": "note" }];
    let link = doc! { "name": "x", "href": "https://x/{}", "label": "x", "icon": "x", "fields": ["pin"] };
    typed(1, fields, doc! { "summary": { "fields": ["pin", "note"] }, "externals": [link] })
}

#[test]
fn passwords_are_shown_to_those_who_may_edit() {
    let view = World::new().with_type(type_with_password()).view(object(7, 1, doc! { "pin": "4711", "note": "n" }));
    let information = &view["type_information"];
    assert_eq!(information["fields"][0]["value"], "4711");
    assert_eq!(information["summary_line"], "4711 | n");
}

#[test]
fn nobody_else_finds_a_password_anywhere_in_the_view() {
    let mut referring = type_with_password();
    let summary = doc! { "type_id": 1, "line": "{}", "label": "", "fields": ["pin"], "icon": "" };
    let to = doc! { "type": "ref", "name": "to", "ref_types": [1], "summaries": [summary] };
    let plain = doc! { "type": "ref", "name": "plain", "ref_types": [1] };
    let through = doc! { "type": "ref-section-field", "name": "all-field" };
    referring.insert("public_id", 2);
    referring.get_array_mut("fields").unwrap().extend([to.into(), plain.into(), through.into()]);
    let section = doc! { "type": "section", "name": "s", "fields": ["pin"] };
    let all = doc! { "type": "ref-section", "name": "all", "reference": { "type_id": 1, "section_name": "s" } };
    let mut target = type_with_password();
    target.get_document_mut("render_meta").unwrap().insert("sections", vec![section]);
    referring.get_document_mut("render_meta").unwrap().insert("sections", vec![all]);

    let world = World::new().with_type(target).with_type(referring).with_object(object(8, 1, doc! { "pin": "4711" }));
    let page = object(7, 2, doc! { "pin": "4711", "note": "n", "to": 8, "plain": 8, "all-field": 8 });
    assert!(world.view(page.clone()).to_string().contains("4711"));
    let world = world.seen_by(1, false);
    let view = world.view(page);
    assert!(!view.to_string().contains("4711"), "{view:#}");
    assert_eq!(view["type_information"]["summary_line"], " | n");
    assert_eq!(view["type_information"]["externals"], json!([]));
}

#[test]
fn a_type_may_have_more_fields_than_a_word_has_bits() {
    for count in [64, 65, 130] {
        let names: Vec<String> = (0..count).map(|number| format!("f{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let values: bson::Document =
            names.iter().map(|name| ((*name).to_owned(), format!("of {name}").into())).collect();
        let world = World::new().with_type(text_type(1, &names));
        let last = *names.last().expect("there are some");
        assert_eq!(world.field(object(1, 1, values), last)["value"], format!("of {last}"));
    }
}
