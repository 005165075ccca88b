//! The lines and lists that sum up an object.

use bson::{Bson, DateTime, Document, doc};
use inventory_service::domain::object_type::ObjectType;
use inventory_service::render::summary_line;
use serde_json::json;

use super::{World, object, raw, text_type};

fn summed_up_by(names: &[&str]) -> Document {
    let mut object_type = text_type(1, &["a", "b", "c"]);
    object_type.insert("render_meta", doc! { "summary": { "fields": names } });
    object_type
}

fn line(names: &[&str], values: Document) -> String {
    let object_type = ObjectType::from_document(&raw(summed_up_by(names))).unwrap();
    summary_line(&raw(object(7, 1, values)), &object_type, true).unwrap()
}

#[test]
fn values_are_joined_in_the_order_of_the_summary() {
    assert_eq!(line(&["b", "a"], doc! { "a": "x", "b": "y", "c": "z" }), "y | x");
    assert_eq!(line(&["a", "gone", "b"], doc! { "a": "x", "b": "y" }), "x | y");
}

#[test]
fn null_is_empty_between_values() {
    assert_eq!(line(&["a", "b", "c"], doc! { "a": "x", "b": null, "c": 3 }), "x |  | 3");
}

#[test]
fn values_read_as_people_write_them() {
    let at = DateTime::from_millis(1_600_000_000_000);
    assert_eq!(line(&["a", "b", "c"], doc! { "a": true, "b": at, "c": 2.5 }), "true | 2020-09-13T12:26:40 | 2.5");
    assert_eq!(line(&["a", "b"], doc! { "a": i64::MAX, "b": { "x": [1] } }), "9223372036854775807 | {\"x\":[1]}");
}

#[test]
fn nothing_to_join_is_the_label_and_the_id() {
    assert_eq!(line(&[], doc! { "a": "x" }), "Type 1 #7");
    assert_eq!(line(&["gone"], doc! { "a": "x" }), "Type 1 #7");
    assert_eq!(line(&["a", "b"], doc! { "a": null, "b": "" }), "Type 1 #7");
}

#[test]
fn summaries_list_the_fields_with_their_values() {
    let view = World::new().with_type(summed_up_by(&["c", "a"])).view(object(7, 1, doc! { "a": 1 }));
    assert_eq!(
        view["type_information"]["summaries"],
        json!([
            { "type": "text", "name": "c", "label": "C", "value": null },
            { "type": "text", "name": "a", "label": "A", "value": 1 },
        ])
    );
}

#[test]
fn special_characters_stay_what_they_are() {
    assert_eq!(line(&["a"], doc! { "a": "\"{}\\\n é" }), "\"{}\\\n é");
    assert_eq!(line(&["a"], doc! { "a": Bson::from(f64::NAN) }), r#"{"$numberDouble":"NaN"}"#);
}
