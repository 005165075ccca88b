//! What running a filter takes of memory: nothing, where it compares plainly. And what a body that is refused takes: little.
//!
//! A test program of its own, because it counts what its own allocator gives away.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use allocation_counter::measure;
use bson::raw::RawDocumentBuf;
use bson::{Bson, DateTime, Document, bson, doc};
use inventory_service::domain::object_input::ObjectInput;
use inventory_service::json::read::{ListError, ListLimits, array_items, document_from_str, line_items, most_values};
use inventory_service::query::{Filter, Limits};

/// An object with its fields, and an array of plain values.
fn stored() -> RawDocumentBuf {
    let document = doc! {
        "public_id": 7_i64,
        "type_id": 3,
        "price": 12.5,
        "active": true,
        "editor_id": Bson::Null,
        "created": DateTime::from_millis(1_700_000_000_000),
        "tags": ["red", "green", 5],
        "fields": [{ "name": "hostname", "value": "web-1" }, { "name": "units", "value": 2 }],
        "inner": { "name": "a", "size": 4 },
    };
    RawDocumentBuf::try_from(&document).unwrap()
}

/// Filters of plain comparisons, none of which the document matches.
fn plain_filters() -> Vec<Document> {
    vec![
        doc! { "public_id": 8 },
        doc! { "price": { "$eq": 12 } },
        doc! { "inner": { "name": "a", "size": 5 } },
        doc! { "tags": ["red", "blue"] },
        doc! { "active": { "$ne": true } },
        doc! { "missing": { "$gt": 1 } },
        doc! { "price": { "$gte": 13, "$lt": 20.5 } },
        doc! { "created": { "$lte": DateTime::from_millis(0) } },
        doc! { "tags": { "$in": ["blue", 6, null] } },
        doc! { "type_id": { "$nin": [1, 2, 3] } },
        doc! { "editor_id": { "$exists": false } },
        doc! { "tags": { "$type": "date" } },
        doc! { "tags": { "$size": 4 } },
        doc! { "type_id": { "$mod": [2, 0] } },
        doc! { "type_id": { "$bitsAllClear": 1 } },
        doc! { "tags": { "$all": ["red", "blue"] } },
        doc! { "tags": { "$elemMatch": { "$gt": 5, "$lt": 9 } } },
        doc! { "fields": { "$elemMatch": { "name": "hostname", "value": "web-2" } } },
        doc! { "fields.name": "rack", "fields.value": 2 },
        doc! { "fields.1.value": 3 },
        doc! { "$or": [{ "public_id": 1 }, { "type_id": 2 }, { "inner.size": { "$not": { "$gt": 3 } } }] },
        doc! { "$nor": [{ "public_id": 7 }, { "type_id": 2 }] },
        doc! { "$and": [{ "public_id": 7 }, { "fields.value": { "$gt": 2 } }] },
    ]
}

#[test]
fn a_document_that_does_not_match_costs_no_memory_on_plain_comparisons() {
    let document = stored();
    for filter in plain_filters() {
        let parsed = Filter::parse(&filter, &Limits::default()).unwrap();
        let used = measure(|| assert_eq!(parsed.matches(&document), Ok(false), "{filter}"));
        assert_eq!(used.count_total, 0, "{filter}");
    }
}

#[test]
fn what_an_expression_takes_is_counted() {
    let filter = doc! { "$expr": { "$eq": [{ "$concat": ["$inner.name", "b"] }, bson!("c")] } };
    let parsed = Filter::parse(&filter, &Limits::default()).unwrap();
    let document = stored();
    assert!(measure(|| assert_eq!(parsed.matches(&document), Ok(false))).count_total > 0);
}

#[test]
fn a_list_that_is_refused_is_not_built() {
    let limits = ListLimits { items: 1000, values: most_values(32 << 20) };
    let millions = format!("[1{}]", ",1".repeat(16 << 20));
    let used = measure(|| {
        let list = array_items(millions.as_bytes(), limits, |_| true);
        assert!(matches!(list, Err(ListError::TooMany(1000))));
    });
    assert!(used.bytes_max < 64 * 1024, "{}", used.bytes_max);
    let fields = format!("[{{\"fields\": [{{\"a\": 1}}{}]}}]", ",{\"a\": 1}".repeat(3_700_000));
    let used = measure(|| {
        let list = array_items(fields.as_bytes(), limits, |_| true);
        assert!(matches!(list, Err(ListError::Json(_))));
    });
    assert!(used.bytes_max < 40 << 20, "{}", used.bytes_max);
    let lines = "1\n".repeat(16 << 20);
    let used = measure(|| {
        let list = line_items(lines.as_bytes(), limits, |_| true);
        assert!(matches!(list, Err(ListError::TooMany(1000))));
    });
    assert!(used.bytes_max < 64 * 1024, "{}", used.bytes_max);
}

#[test]
fn a_document_with_too_many_values_is_built_no_further() {
    let text = format!("{{\"a\": [1{}]}}", ",1".repeat(16 << 20));
    let used = measure(|| assert!(document_from_str(&text).is_err()));
    assert!(used.bytes_max < 20 << 20, "{}", used.bytes_max);
}

#[test]
fn violations_behind_the_first_100_take_no_memory() {
    let entries: Vec<Bson> = vec![doc! {}.into(); 30_000];
    let body = doc! { "author_id": 1, "fields": entries };
    let kept = measure(|| {
        let (_, violations) = ObjectInput::read(&body);
        assert_eq!((violations.listed().len(), violations.count()), (100, 60_000));
        std::mem::forget(violations);
    });
    assert!(kept.bytes_current < 100 * 1024, "{}", kept.bytes_current);
}
