//! What fields show of the objects that they refer to.

use bson::{Bson, Document, doc};
use serde_json::{Value as Json, json};

use super::{World, object, ref_field, text_type, typed};

/// Type 1 refers to type 2, which is a rack with a name and a row.
fn world_with(summaries: Vec<Document>) -> World {
    let mut field = ref_field("rack", 2);
    field.insert("summaries", summaries);
    let mut rack = text_type(2, &["name", "row"]);
    rack.insert("render_meta", doc! { "icon": "fa fa-cube", "summary": { "fields": ["name"] } });
    World::new().with_type(typed(1, vec![field], doc! {})).with_type(rack).with_object(object(
        20,
        2,
        doc! { "name": "R20", "row": "A" },
    ))
}

fn summary(line: &str, fields: &[&str], prefix: Option<bool>) -> Document {
    let mut summary = doc! { "type_id": 2, "line": line, "label": "Rack", "fields": fields, "icon": "fa fa-server" };
    summary.extend(prefix.map(|prefix| ("prefix".to_owned(), Bson::from(prefix))));
    summary
}

fn dangling() -> Json {
    json!({
        "type_id": 0, "object_id": 0, "type_name": "", "type_label": "", "line": "", "icon": null, "prefix": false,
        "summaries": [],
    })
}

#[test]
fn a_reference_is_summed_up_by_its_field() {
    let field = world_with(vec![summary("{} in row {}", &["name", "row"], Some(false))]).field(to_rack(20), "rack");
    assert_eq!(
        field,
        json!({
            "type": "ref", "name": "rack", "label": "rack", "value": 20, "ref_types": [2],
            "reference": {
                "type_id": 2, "object_id": 20, "type_name": "type-2", "type_label": "Type 2", "line": "R20 in row A",
                "icon": "fa fa-server", "prefix": false,
                "summaries": [
                    { "type": "text", "name": "name", "label": "NAME", "value": "R20" },
                    { "type": "text", "name": "row", "label": "ROW", "value": "A" },
                ],
            },
        })
    );
}

#[test]
fn without_an_entry_for_its_type_the_target_sums_itself_up() {
    let other_type = doc! { "type_id": 3, "line": "no", "label": "", "fields": [], "icon": "" };
    let reference = world_with(vec![other_type]).field(to_rack(20), "rack")["reference"].clone();
    assert_eq!(
        (&reference["line"], &reference["icon"], &reference["prefix"]),
        (&json!("R20"), &json!("fa fa-cube"), &json!(true))
    );
    assert_eq!(reference["summaries"].as_array().unwrap().len(), 1);
}

#[test]
fn the_prefix_is_on_unless_it_is_switched_off() {
    let prefix = |entry| world_with(vec![entry]).field(to_rack(20), "rack")["reference"]["prefix"].clone();
    assert_eq!(prefix(summary("{}", &["name"], None)), true);
    assert_eq!(prefix(summary("{}", &["name"], Some(true))), true);
    assert_eq!(prefix(summary("{}", &["name"], Some(false))), false);
}

#[test]
fn places_and_fields_need_not_match_in_number() {
    let line = |line, fields: &[&str]| {
        world_with(vec![summary(line, fields, None)]).field(to_rack(20), "rack")["reference"]["line"].clone()
    };
    assert_eq!(line("{}/{}/{}", &["row", "gone", "name"]), "A//R20");
    assert_eq!(line("{}-{}!", &["name"]), "R20-!");
    assert_eq!(line("fixed", &["name"]), "fixed");
    assert_eq!(line("", &["row", "name"]), "A | R20");
    assert_eq!(line(" ", &[]), "R20");
}

#[test]
fn values_do_not_open_further_places() {
    let world = world_with(vec![summary("{} {}", &["name", "row"], None)]).with_object(object(
        21,
        2,
        doc! { "name": "{}", "row": "B" },
    ));
    assert_eq!(world.field(to_rack(21), "rack")["reference"]["line"], "{} B");
}

#[test]
fn nothing_referred_to_is_no_reference() {
    for nothing in [Bson::Null, Bson::from("")] {
        let field = world_with(vec![]).field(object(7, 1, doc! { "rack": nothing }), "rack");
        assert!(field.get("reference").is_none(), "{field}");
    }
}

#[test]
fn a_reference_that_leads_nowhere_is_a_value() {
    for nowhere in [Bson::from(404), Bson::from(0), Bson::from("20"), Bson::from(20.5), Bson::from(doc! {})] {
        let field = world_with(vec![]).field(object(7, 1, doc! { "rack": nowhere }), "rack");
        assert_eq!(field["reference"], dangling());
    }
}

#[test]
fn ids_of_every_number_type_lead_somewhere() {
    for id in [Bson::Int32(20), Bson::Int64(20), Bson::Double(20.0)] {
        assert_eq!(world_with(vec![]).field(object(7, 1, doc! { "rack": id }), "rack")["reference"]["object_id"], 20);
    }
}

#[test]
fn a_target_whose_type_is_gone_keeps_its_ids() {
    let world = world_with(vec![]).with_object(object(30, 3, doc! { "name": "hidden" }));
    let reference = world.field(to_rack(30), "rack")["reference"].clone();
    assert_eq!(
        (&reference["type_id"], &reference["object_id"], &reference["line"]),
        (&json!(3), &json!(30), &json!(""))
    );
}

#[test]
fn what_the_group_may_not_read_is_protected() {
    let mut rack = text_type(2, &["name", "row"]);
    rack.insert("acl", doc! { "activated": true, "groups": { "includes": { "2": ["READ"], "1": ["UPDATE"] } } });
    let world = world_with(vec![summary("{}", &["name"], None)]).with_type(rack);
    let field = world.field(to_rack(20), "rack");
    assert_eq!((&field["value"], &field["reference"]), (&json!(20), &json!({ "protected": true })));
    assert_eq!(world.seen_by(2, false).field(to_rack(20), "rack")["reference"]["line"], "R20");
}

fn to_rack(id: i64) -> Document {
    object(7, 1, doc! { "rack": id })
}

/// A type whose `ref-section` shows the section `main` of objects of its own type: a name, and where it leads on.
fn chain_type(selected: &[&str]) -> Document {
    let reference = doc! { "type_id": 1, "section_name": "main", "selected_fields": selected };
    let fields =
        vec![doc! { "type": "text", "name": "name" }, doc! { "type": "ref-section-field", "name": "next-field" }];
    let sections = doc! { "sections": [
        { "type": "section", "name": "main", "label": "Main", "fields": ["name", "next-field"] },
        { "type": "ref-section", "name": "next", "label": "Next", "reference": reference, "fields": ["next-field"] },
    ] };
    typed(1, fields, sections)
}

fn link(id: i64, next: i64) -> Document {
    object(id, 1, doc! { "name": format!("n{id}"), "next-field": next })
}

/// The ids that are reached by going from section to section.
fn chain(world: &World, start: Document) -> Vec<i64> {
    let mut field = world.field(start, "next-field");
    let mut ids = Vec::new();
    while let Some(id) = field["reference"]["object_id"].as_i64() {
        ids.push(id);
        field = field["reference"]["fields"].get(1).cloned().unwrap_or_default();
    }
    ids
}

#[test]
fn a_ref_section_shows_the_fields_of_the_targets_section() {
    let world = World::new().with_type(chain_type(&["name"])).with_object(link(2, 3));
    let field = world.field(link(1, 2), "next-field");
    let reference = &field["reference"];
    assert_eq!((&reference["object_id"], &reference["line"]), (&json!(2), &json!("Type 1 #2")));
    assert_eq!(reference["fields"], json!([{ "type": "text", "name": "name", "label": "name", "value": "n2" }]));
}

#[test]
fn no_selected_fields_are_all_fields() {
    let world = World::new().with_type(chain_type(&[])).with_object(link(2, 404));
    let fields = world.field(link(1, 2), "next-field")["reference"]["fields"].clone();
    assert_eq!((&fields[0]["value"], &fields[1]["reference"]), (&json!("n2"), &dangling()));
}

#[test]
fn sections_are_followed_over_three_objects() {
    let links = (2..=9).map(|id| link(id, id + 1));
    let world = links.fold(World::new().with_type(chain_type(&[])), World::with_object);
    assert_eq!(chain(&world, link(1, 2)), [2, 3, 4]);
}

#[test]
fn cycles_end() {
    let world = World::new().with_type(chain_type(&[])).with_object(link(1, 2)).with_object(link(2, 1));
    assert_eq!(chain(&world, link(1, 2)), [2, 1]);
    let itself = World::new().with_type(chain_type(&[])).with_object(link(1, 1));
    let reference = itself.field(link(1, 1), "next-field")["reference"].clone();
    assert_eq!((&reference["object_id"], &reference["fields"]), (&json!(1), &json!([])));
}

#[test]
fn a_section_that_is_gone_shows_no_fields() {
    let target = text_type(2, &["name"]);
    let reference = doc! { "type_id": 2, "section_name": "gone" };
    let section = doc! { "type": "ref-section", "name": "s", "label": "S", "reference": reference, "fields": ["to"] };
    let referring = typed(1, vec![doc! { "type": "ref-section-field", "name": "to" }], doc! { "sections": [section] });
    let world = World::new().with_type(target).with_type(referring).with_object(object(2, 2, doc! { "name": "x" }));
    assert_eq!(world.field(object(1, 1, doc! { "to": 2 }), "to")["reference"]["fields"], json!([]));
}

#[test]
fn types_that_refer_to_each_other_a_hundredfold_do_not_fill_the_memory() {
    let names: Vec<String> = (0..100).map(|number| format!("f{number}")).collect();
    let fields = names.iter().map(|name| doc! { "type": "ref-section-field", "name": name });
    let reference = doc! { "type_id": 1, "section_name": "s" };
    let sections = doc! { "sections": [
        { "type": "section", "name": "s", "fields": names.clone() },
        { "type": "ref-section", "name": "r", "reference": reference, "fields": names.clone() },
    ] };
    let all_to = |target: i64| names.iter().map(|name| (name.clone(), Bson::from(target))).collect::<Document>();
    let world = World::new().with_type(typed(1, fields.collect(), sections));
    let world = (2..=5).fold(world, |world, id| world.with_object(object(id, 1, all_to(id + 1))));
    let mut out = Vec::new();
    let page = super::raw(object(1, 1, all_to(2)));
    inventory_service::render::render_object(&page, &world.catalog, &world.context, &mut out).unwrap();
    assert!(out.len() < 40_000_000, "{}", out.len());
}
