//! What `f.<name>` means for each operator, and what is refused.

use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, bson, doc};

use super::*;
use crate::query::Sort;

/// The fields of two types: 1 has `a`, `b` and `x.y`; 2 has `b` and `x`.
struct Known;

impl FieldNames for Known {
    fn is_known(&self, name: &str, types: Option<&[i64]>) -> bool {
        let of = match name {
            "a" | "x.y" => vec![1],
            "b" => vec![1, 2],
            "x" => vec![2],
            _ => vec![],
        };
        of.iter().any(|type_id| types.is_none_or(|types| types.contains(type_id)))
    }

    fn known(&self, types: Option<&[i64]>) -> Vec<&str> {
        ["a", "x.y", "b", "x"].into_iter().filter(|name| self.is_known(name, types)).collect()
    }

    fn holds_arrays(&self, name: &str) -> bool {
        name == "x"
    }
}

fn fields() -> Fields {
    Fields::new(Arc::new(Known))
}

fn filter(document: &Document) -> Result<Filter, QueryError> {
    fields().filter(document, &Limits::default(), DateTime::from_millis(0), &Effort::Brief)
}

/// Objects by what they have under `a`: a value, none, null, an array; and a second entry of the name.
fn objects() -> Vec<Document> {
    let entry = |name: &str, value: Bson| doc! { "name": name, "value": value };
    let object = |id: i32, entries: Vec<Document>| doc! { "public_id": id, "type_id": 1, "fields": entries };
    vec![
        object(1, vec![entry("a", 1.into()), entry("b", 2.into())]),
        object(2, vec![entry("a", 5.into()), entry("b", 1.into())]),
        object(3, vec![entry("b", 1.into())]),
        object(4, vec![entry("a", Bson::Null)]),
        object(5, vec![entry("a", bson!([1, 5]))]),
        object(6, vec![entry("a", bson!({ "deep": [7, 8] }))]),
        object(7, vec![entry("a", 1.into()), entry("a", 9.into())]),
        object(8, vec![entry("a", "text".into()), entry("x.y", 3.into())]),
        doc! { "public_id": 9, "type_id": 1 },
    ]
}

#[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
fn found(document: Document) -> Vec<i32> {
    let filter = filter(&document).expect("the filter is right");
    let matches = |object: &Document| {
        let raw = RawDocumentBuf::try_from(object).expect("a document");
        filter.matches(&raw).expect("it does not fail")
    };
    objects()
        .iter()
        .filter(|object| matches(object))
        .map(|object| object.get_i32("public_id").expect("an id"))
        .collect()
}

#[test]
fn some_entry_of_the_name_has_the_value() {
    assert_eq!(found(doc! { "f.a": 1 }), [1, 5, 7]);
    assert_eq!(found(doc! { "f.a": { "$gt": 2 } }), [2, 5, 7]);
    assert_eq!(found(doc! { "f.a": { "$gt": 2, "$lt": 8 } }), [2, 5]);
    assert_eq!(found(doc! { "f.a": { "$in": [5, "text"] } }), [2, 5, 8]);
    assert_eq!(found(doc! { "f.a": { "$regex": "^te" } }), [8]);
    assert_eq!(found(doc! { "f.a": { "$size": 2 } }), [5, 7]);
    assert_eq!(found(doc! { "f.a": { "$type": "int" }, "f.b": 1 }), [2]);
    assert_eq!(found(doc! { "f.a": { "$all": [1, 5] } }), [5]);
    assert_eq!(found(doc! { "f.x.y": 3 }), [8]);
}

#[test]
fn negations_speak_of_the_object_and_objects_without_the_entry_match() {
    assert_eq!(found(doc! { "f.a": { "$ne": 1 } }), [2, 3, 4, 6, 8, 9]);
    assert_eq!(found(doc! { "f.a": { "$nin": [1, 5] } }), [3, 4, 6, 8, 9]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$gt": 2 } } }), [1, 3, 4, 6, 8, 9]);
    assert_eq!(found(doc! { "f.a": { "$gt": 0, "$ne": 1 } }), [2]);
    assert_eq!(found(doc! { "$nor": [{ "f.a": 1 }, { "f.b": 1 }] }), [4, 6, 8, 9]);
}

#[test]
fn two_negations_cancel() {
    assert_eq!(found(doc! { "f.a": { "$not": { "$not": { "$eq": 1 } } } }), [1, 5, 7]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$ne": 1 } } }), [1, 5, 7]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$nin": [1, 5] } } }), [1, 2, 5, 7]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$not": { "$ne": 1 } } } }), [2, 3, 4, 6, 8, 9]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$gt": 0, "$ne": 1 } } }), [1, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(found(doc! { "f.a.deep": { "$not": { "$exists": false } } }), [6]);
}

#[test]
fn several_entries_are_an_array_of_their_values() {
    let entry = |value: Bson| doc! { "name": "x", "value": value };
    let object = |values: &[Bson]| {
        let entries: Vec<Document> = values.iter().cloned().map(entry).collect();
        RawDocumentBuf::try_from(&doc! { "fields": entries }).expect("a document")
    };
    let (nested, scalars) = (object(&[bson!([1, 5]), 7.into()]), object(&[1.into(), 9.into()]));
    for (condition, of_nested, of_scalars) in [
        // An array among them is an element, whose own elements are none.
        (bson!(1), false, true),
        (bson!([1, 5]), true, false),
        (bson!([[1, 5], 7]), true, false),
        (bson!({ "$size": 2 }), true, true),
        (bson!({ "$type": "array" }), true, true),
        (bson!({ "$elemMatch": { "$gt": 5 } }), true, true),
        // One entry meets both bounds, so that an index goes from the one to the other.
        (bson!({ "$gt": 2, "$lt": 8 }), true, false),
        (bson!({ "$ne": 1 }), true, false),
        (bson!({ "$all": [1, 9] }), false, true),
        (bson!({ "$not": { "$size": 2 } }), false, false),
    ] {
        let filter = filter(&doc! { "f.x": &condition }).expect("the filter is right");
        let found = [&nested, &scalars].map(|object| filter.matches(object).expect("it does not fail"));
        assert_eq!(found, [of_nested, of_scalars], "{condition}");
    }
    let first = filter(&doc! { "f.x.0": 1 }).expect("the filter is right");
    assert!(first.matches(&scalars).expect("it does not fail"));
    assert!(!first.matches(&object(&[1.into()])).expect("it does not fail"));
}

#[test]
fn null_is_an_entry_with_null_or_no_entry() {
    for null in [bson!(null), bson!({ "$eq": null }), bson!({ "$in": [null] }), bson!({ "$lte": null })] {
        assert_eq!(found(doc! { "f.a": &null }), [3, 4, 9], "{null}");
    }
    assert_eq!(found(doc! { "f.a": { "$exists": true, "$ne": null } }), [1, 2, 5, 6, 7, 8]);
    let with_value = [1, 2, 5, 6, 7, 8];
    assert_eq!(found(doc! { "f.a": { "$ne": null } }), with_value);
    assert_eq!(found(doc! { "f.a": { "$nin": [null, "x"] } }), with_value);
    assert_eq!(found(doc! { "f.a": { "$not": { "$in": [null] } } }), with_value);
    assert_eq!(found(doc! { "f.a": { "$type": "null" } }), [4]);
}

#[test]
fn existing_is_said_of_the_entry() {
    assert_eq!(found(doc! { "f.a": { "$exists": false } }), [3, 9]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$exists": true } } }), [3, 9]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$exists": false } } }), [1, 2, 4, 5, 6, 7, 8]);
    assert_eq!(found(doc! { "f.a": { "$not": { "$not": { "$exists": true } } } }), [1, 2, 4, 5, 6, 7, 8]);
    assert_eq!(found(doc! { "f.a.deep": { "$exists": true } }), [6]);
    assert_eq!(found(doc! { "f.a.deep": 8 }), [6]);
    assert_eq!(found(doc! { "f.a.deep.0": 7 }), [6]);
}

#[test]
fn expressions_take_the_value_or_an_array_of_all() {
    assert_eq!(found(doc! { "$expr": { "$gt": ["$f.b", "$f.a"] } }), [1, 3]);
    assert_eq!(found(doc! { "$expr": { "$eq": ["$f.a", 1] } }), [1]);
    assert_eq!(found(doc! { "$expr": { "$eq": ["$f.a", [1, 9]] } }), [7]);
    assert_eq!(found(doc! { "$expr": { "$eq": [{ "$literal": "$f.a" }, "$f.a"] } }), [] as [i32; 0]);
    assert_eq!(found(doc! { "$expr": { "$eq": [{ "$const": "$f.a" }, "$f.a"] } }), [] as [i32; 0]);
    assert_eq!(found(doc! { "$expr": { "$eq": ["$f.a.deep", [7, 8]] } }), [6]);
}

#[test]
fn what_is_sent_to_a_server_is_a_filter_on_the_array() {
    let rewritten = |document: Document| filter(&document).expect("the filter is right").document().clone();
    let entry = |value: Bson| doc! { "fields": { "$elemMatch": { "name": "a", "value": value } } };
    assert_eq!(rewritten(doc! { "f.a": 1 }), entry(1.into()));
    assert_eq!(rewritten(doc! { "f.a": { "$gt": 1, "$lt": 5 } }), entry(bson!({ "$gt": 1, "$lt": 5 })));
    assert_eq!(
        rewritten(doc! { "type_id": 1, "f.a": 1, "f.b": { "$ne": 2 } }),
        doc! { "$and": [
            { "type_id": 1 },
            entry(1.into()),
            { "fields": { "$not": { "$elemMatch": { "name": "b", "value": { "$eq": 2 } } } } },
        ] }
    );
    // Without fields nothing is touched, and neither are relative paths.
    let plain = doc! { "fields": { "$elemMatch": { "f.a": 1 } }, "g.a": 2 };
    assert_eq!(rewritten(plain.clone()), plain);
}

#[test]
fn a_name_that_no_type_has_is_refused_with_its_place_and_the_nearest() {
    let error = |document: Document| filter(&document).expect_err("no such name");
    let unknown = error(doc! { "$or": [{ "public_id": 1 }, { "f.aa": 1 }] });
    assert_eq!(unknown.pointer, "/$or/1/f.aa");
    assert_eq!(unknown.message, "no type has a field named \"aa\"; did you mean a?");
    let elsewhere = error(doc! { "type_id": { "$in": [2] }, "f.a": 1 });
    assert_eq!(elsewhere.message, "no type with this type_id has a field named \"a\"; did you mean b or x?");
    assert_eq!(error(doc! { "$expr": { "$eq": ["$f.zz", 1] } }).pointer, "/$expr/$eq/0");
    // Errors in a condition refer to what was sent.
    assert_eq!(error(doc! { "f.a": { "$mod": [0, 1] } }).pointer, "/f.a/$mod");
}

/// The ids of the objects in the order of a field.
fn sorted(path: &str, descending: bool) -> Vec<i32> {
    let path = fields().sort_key(path).expect("known").expect("a field");
    let sort = Sort::default().then_by(path, descending).then("public_id", false);
    let raw = |object: Document| RawDocumentBuf::try_from(&object).expect("a document");
    let mut all: Vec<_> =
        objects().into_iter().map(|object| (sort.key_of(&raw(object.clone())).expect("a key"), object)).collect();
    all.sort_by(|left, right| sort.compare(&left.0, &right.0));
    all.iter().map(|(_, object)| object.get_i32("public_id").expect("an id")).collect()
}

#[test]
fn a_sort_takes_the_lowest_of_several_values_and_of_an_array_or_descending_the_highest() {
    assert_eq!(sorted("f.a", false), [3, 4, 9, 1, 5, 7, 2, 8, 6]);
    assert_eq!(sorted("f.a", true), [6, 8, 7, 2, 5, 1, 3, 4, 9]);
    assert_eq!(sorted("f.a.deep", true), [6, 1, 2, 3, 4, 5, 7, 8, 9]);
    assert_eq!(sorted("f.x.y", true), [8, 1, 2, 3, 4, 5, 6, 7, 9]);
    assert_eq!(fields().sort_key("public_id").expect("no field"), None);
    assert!(fields().sort_key("f.zz").is_err());
}

#[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
fn projected(projection: Document, object: Document) -> Result<Document, QueryError> {
    let moment = (&Limits::default(), DateTime::from_millis(0));
    let projection = fields().projection(&projection, STORED, &Filter::all(), moment, &Effort::Brief)?;
    let raw = RawDocumentBuf::try_from(&object).expect("a document");
    let left = projection.apply(&raw, &Filter::all()).expect("it does not fail");
    Ok(Document::try_from(&*left).expect("a document"))
}

#[test]
fn a_projection_keeps_the_named_entries_or_drops_them() {
    let object = || {
        let entries =
            [doc! { "name": "a", "value": { "p": 1, "q": 2 }, "label": "A" }, doc! { "name": "b", "value": 2 }];
        doc! { "public_id": 1, "fields": entries.to_vec() }
    };
    let left = |projection| projected(projection, object()).expect("the projection is right");
    assert_eq!(left(doc! { "f.b": 1 }), doc! { "fields": [{ "name": "b", "value": 2 }] });
    assert_eq!(
        left(doc! { "f.b": 1, "public_id": 1 }),
        doc! { "public_id": 1, "fields": [{ "name": "b", "value": 2 }] }
    );
    assert_eq!(left(doc! { "f": { "b": 1 } }), doc! { "fields": [{ "name": "b", "value": 2 }] });
    assert_eq!(left(doc! { "f.a": 0 }), doc! { "public_id": 1, "fields": [{ "name": "b", "value": 2 }] });
    assert_eq!(left(doc! { "f.a": 0, "public_id": 0 }), doc! { "fields": [{ "name": "b", "value": 2 }] });
    assert_eq!(left(doc! { "f.a.q": 1 }), doc! { "fields": [{ "name": "a", "value": { "q": 2 }, "label": "A" }] });
    let without_q = doc! { "name": "a", "value": { "p": 1 }, "label": "A" };
    assert_eq!(left(doc! { "f.a.q": 0 }), doc! { "public_id": 1, "fields": [without_q, { "name": "b", "value": 2 }] });
    assert_eq!(left(doc! { "b": "$f.b" }), doc! { "b": 2 });
}

#[test]
fn a_projection_that_contradicts_itself_is_refused() {
    for contradiction in [
        doc! { "f.a": 1, "f.b": 0 },
        doc! { "f.a": 0, "public_id": 1 },
        doc! { "f.a": 1, "fields": 1 },
        doc! { "fields.name": 1, "f.a": 1 },
        doc! { "f.a": 1, "fields": { "$slice": 1 } },
        doc! { "f.a": 0, "fields": 0 },
        doc! { "f.a": 1, "f.a.p": 1 },
        doc! { "f.a": { "$slice": 1 } },
        doc! { "f.aa": 1 },
    ] {
        assert!(projected(contradiction.clone(), doc! {}).is_err(), "{contradiction}");
    }
}
