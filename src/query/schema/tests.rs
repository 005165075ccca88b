//! What schemas accept and refuse, as a MongoDB 6.0.27 was seen to answer.

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, bson, doc};

use super::Schema;

fn accepts(schema: impl Into<Bson>, document: &Document) -> bool {
    let raw = RawDocumentBuf::try_from(document).expect("a good document");
    Schema::parse_alone(&schema.into()).expect("a good schema").matches(&raw).expect("no runaway pattern")
}

fn accepts_value(schema: impl Into<Bson>, value: impl Into<Bson>) -> bool {
    accepts(bson!({ "properties": { "a": schema.into() } }), &doc! { "a": value.into() })
}

fn code(schema: impl Into<Bson>) -> i32 {
    Schema::parse_alone(&schema.into()).expect_err("a refusal").code
}

#[test]
fn keywords_say_nothing_about_other_types() {
    assert!(accepts_value(bson!({ "minimum": 5 }), "text"));
    assert!(accepts_value(bson!({ "minLength": 5 }), 1));
    assert!(accepts_value(bson!({ "minItems": 5 }), "text"));
    assert!(accepts_value(bson!({ "required": ["x"] }), 1));
    assert!(accepts_value(bson!({ "minimum": 5 }), bson!([1])));
}

#[test]
fn only_required_asks_for_a_member() {
    assert!(accepts(bson!({ "properties": { "a": { "type": "string" } } }), &doc! {}));
    assert!(!accepts(bson!({ "required": ["a"] }), &doc! {}));
    assert!(accepts(bson!({ "required": ["a"] }), &doc! { "a": null }));
}

#[test]
fn types_have_names_of_json_and_of_bson() {
    assert!(accepts_value(bson!({ "type": "number" }), 1_i64));
    assert!(accepts_value(bson!({ "type": "boolean" }), true));
    assert!(accepts_value(bson!({ "bsonType": ["int", "string"] }), "x"));
    assert!(!accepts_value(bson!({ "bsonType": "int" }), 1_i64));
    assert!(accepts(bson!({ "type": "object" }), &doc! {}));
    assert!(!accepts(bson!({ "bsonType": "array" }), &doc! {}));
    assert_eq!(code(bson!({ "type": "integer" })), 9);
    assert_eq!(code(bson!({ "type": "int" })), 2);
    assert_eq!(code(bson!({ "bsonType": "boolean" })), 2);
    assert_eq!(code(bson!({ "type": "string", "bsonType": "string" })), 9);
}

#[test]
fn bounds_compare_numbers_of_all_types() {
    assert!(accepts_value(bson!({ "maximum": 4 }), 4.0));
    assert!(!accepts_value(bson!({ "maximum": 4, "exclusiveMaximum": true }), 4_i64));
    assert!(!accepts_value(bson!({ "maximum": 4 }), f64::NAN));
    assert_eq!(code(bson!({ "exclusiveMinimum": true })), 9);
    assert_eq!(code(bson!({ "minimum": "x" })), 14);
}

#[test]
fn multiples_are_exact() {
    assert!(accepts_value(bson!({ "multipleOf": 0.1 }), 0.3));
    assert!(!accepts_value(bson!({ "multipleOf": 2.2 }), 6));
    assert_eq!(code(bson!({ "multipleOf": 0 })), 9);
    assert_eq!(code(bson!({ "properties": { "a": { "multipleOf": f64::NAN } } })), 2);
}

#[test]
fn lengths_count_code_points() {
    assert!(accepts_value(bson!({ "maxLength": 1 }), "é"));
    assert!(!accepts_value(bson!({ "minLength": 2 }), "é"));
    for wrong in [bson!("x"), bson!(1.5), bson!(-1), bson!(f64::NAN)] {
        assert_eq!(code(bson!({ "minLength": wrong })), 9);
    }
}

#[test]
fn items_are_asked_by_place_or_all_alike() {
    let by_place = bson!({ "items": [{ "type": "string" }], "additionalItems": false });
    assert!(accepts_value(by_place.clone(), bson!(["x"])));
    assert!(!accepts_value(by_place, bson!(["x", 1])));
    assert!(!accepts_value(bson!({ "items": { "type": "string" } }), bson!(["x", 1])));
    assert!(accepts_value(bson!({ "additionalItems": false }), bson!([1])));
}

#[test]
fn equality_does_not_care_for_the_order_of_members() {
    assert!(!accepts_value(bson!({ "uniqueItems": true }), bson!([{ "x": 1, "y": 2 }, { "y": 2.0, "x": 1 }])));
    assert!(accepts_value(
        bson!({ "enum": [{ "x": 1, "y": [{ "a": 1, "b": 2 }] }] }),
        bson!({ "y": [{ "b": 2, "a": 1 }], "x": 1 })
    ));
    assert_eq!(code(bson!({ "enum": [1, 1.0] })), 9);
    assert_eq!(code(bson!({ "enum": [] })), 9);
}

#[test]
fn the_rest_of_the_members_is_what_no_name_and_no_pattern_speaks_of() {
    let schema = bson!({
        "properties": { "a": {}, "_id": {} },
        "patternProperties": { "^b": { "type": "number" } },
        "additionalProperties": false,
    });
    assert!(accepts(schema.clone(), &doc! { "_id": 1, "a": "x", "b1": 2 }));
    assert!(!accepts(schema.clone(), &doc! { "b1": "x" }));
    assert!(!accepts(schema, &doc! { "c": 1 }));
}

#[test]
fn dependencies_name_members_or_a_shape() {
    let names = bson!({ "dependencies": { "a": ["b"] } });
    assert!(accepts(names.clone(), &doc! { "c": 1 }));
    assert!(!accepts(names, &doc! { "a": 1 }));
    let shape = bson!({ "dependencies": { "a": { "properties": { "b": { "type": "number" } } } } });
    assert!(!accepts(shape, &doc! { "a": 1, "b": "x" }));
}

#[test]
fn schemas_are_joined() {
    let number = bson!({ "properties": { "a": { "type": "number" } } });
    let large = bson!({ "properties": { "a": { "minimum": 5 } } });
    assert!(!accepts(bson!({ "allOf": [number.clone(), large.clone()] }), &doc! { "a": 1 }));
    assert!(accepts(bson!({ "anyOf": [number.clone(), large.clone()] }), &doc! { "a": 1 }));
    assert!(!accepts(bson!({ "oneOf": [number.clone(), large] }), &doc! { "a": 7 }));
    assert!(accepts(bson!({ "not": number }), &doc! { "a": "x" }));
    assert_eq!(code(bson!({ "allOf": [] })), 2);
}

#[test]
fn unknown_keywords_are_refused() {
    for schema in [bson!({ "$ref": "x" }), bson!({ "format": "x" }), bson!({ "hello": 1 })] {
        assert_eq!(code(schema), 9);
    }
    assert_eq!(code(bson!({ "title": 1 })), 14);
    assert_eq!(code(bson!("x")), 14);
}

#[test]
fn encrypted_values_are_binary_data_of_their_own_subtype() {
    let encrypted = |subtype: u8| Bson::Binary(bson::Binary { subtype: subtype.into(), bytes: vec![1] });
    assert!(accepts_value(bson!({ "encrypt": {} }), encrypted(6)));
    assert!(!accepts_value(bson!({ "encrypt": {} }), encrypted(0)));
    assert_eq!(code(bson!({ "encrypt": { "a": 1 } })), 40415);
    assert_eq!(code(bson!({ "encryptMetadata": {} })), 9);
}

#[test]
fn the_place_of_a_mistake_is_told() {
    let schema = bson!({ "properties": { "a": { "items": { "minimum": "x" } } } });
    let error = Schema::parse_alone(&schema).expect_err("not a number");
    assert_eq!(error.pointer, "/properties/a/items/minimum");
}

#[test]
fn a_refusal_names_the_place_in_the_schema() {
    for (schema, place) in [
        (doc! { "items": [{}, { "type": "numbre" }] }, "/items/1/type"),
        (doc! { "items": [{}], "additionalItems": { "minimun": 1 } }, "/additionalItems/minimun"),
        (doc! { "additionalProperties": { "typ": 1 } }, "/additionalProperties/typ"),
        (doc! { "properties": { "a": { "anyOf": [{}, { "x": 1 }] } } }, "/properties/a/anyOf/1/x"),
        (doc! { "dependencies": { "a": { "type": 1 } } }, "/dependencies/a/type"),
        (doc! { "patternProperties": { "(": {} } }, "/patternProperties"),
    ] {
        assert_eq!(Schema::parse_alone(&schema.clone().into()).unwrap_err().pointer, place, "{schema}");
    }
}
