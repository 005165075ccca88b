//! Questions that an index can answer: it must not change the answer.

use std::sync::Arc;

use bson::{Bson, Decimal128, Document, doc};
use inventory_service::store::{Change, Store, Unit};

use super::support::{duplicate_key, insertion, matching, numbers, query, raw, sort, store_all, stored, thing};
use super::{PLAIN, THINGS};

pub(crate) async fn equal_numbers_of_other_types_are_found(store: Arc<dyn Store>) {
    store_all(
        &*store,
        THINGS,
        &[thing(1, doc! { "kind": 5 }), thing(2, doc! { "kind": 5.0 }), thing(3, doc! { "kind": 5_i64 })],
    )
    .await;
    let decimal: Decimal128 = "5.00".parse().expect("a decimal");
    for value in [Bson::Int32(5), Bson::Int64(5), Bson::Double(5.0), Bson::Decimal128(decimal)] {
        assert_eq!(matching(&*store, THINGS, &query(doc! { "kind": value })).await, numbers(&[1, 2, 3]));
    }
    assert_eq!(
        duplicate_key(store.commit(Unit::of(insertion(THINGS, &doc! { "_id": 9, "public_id": 1.0 }))).await),
        "public_id"
    );
}

pub(crate) async fn null_finds_missing_members(store: Arc<dyn Store>) {
    let documents = [
        thing(1, doc! {}),
        thing(2, doc! { "kind": Bson::Null, "tags": [] }),
        thing(3, doc! { "kind": 1, "tags": [Bson::Null] }),
        thing(4, doc! { "kind": Bson::Undefined, "fields": [{}] }),
    ];
    for collection in [THINGS, PLAIN] {
        store_all(&*store, collection, &documents).await;
        assert_eq!(matching(&*store, collection, &query(doc! { "kind": Bson::Null })).await, numbers(&[1, 2, 4]));
        assert_eq!(matching(&*store, collection, &query(doc! { "tags": Bson::Null })).await, numbers(&[1, 3, 4]));
        assert_eq!(
            matching(&*store, collection, &query(doc! { "fields.name": Bson::Null })).await,
            numbers(&[1, 2, 3, 4])
        );
        assert_eq!(
            matching(&*store, collection, &query(doc! { "kind": { "$in": [1, Bson::Null] } })).await,
            numbers(&[1, 2, 3, 4])
        );
    }
}

async fn tagged(store: &dyn Store) {
    let documents = [
        thing(1, doc! { "tags": ["a", "b"] }),
        thing(2, doc! { "tags": "a" }),
        thing(3, doc! { "tags": [["a", "b"], "c"] }),
        thing(4, doc! { "tags": [1, 10] }),
        thing(5, doc! { "tags": [5, 7] }),
        thing(6, doc! { "tags": [] }),
    ];
    for collection in [THINGS, PLAIN] {
        store_all(store, collection, &documents).await;
    }
}

pub(crate) async fn an_element_of_an_array_is_found(store: Arc<dyn Store>) {
    tagged(&*store).await;
    assert_eq!(matching(&*store, THINGS, &query(doc! { "tags": "a" })).await, numbers(&[1, 2]));
    assert_eq!(
        matching(&*store, THINGS, &query(doc! { "tags": { "$in": ["a", "b", "c"] } })).await,
        numbers(&[1, 2, 3])
    );
    assert_eq!(matching(&*store, THINGS, &query(doc! { "tags": { "$all": ["a", "b"] } })).await, numbers(&[1]));
}

pub(crate) async fn a_whole_array_is_found(store: Arc<dyn Store>) {
    tagged(&*store).await;
    assert_eq!(matching(&*store, THINGS, &query(doc! { "tags": ["a", "b"] })).await, numbers(&[1, 3]));
    assert_eq!(matching(&*store, THINGS, &query(doc! { "tags": [] })).await, numbers(&[6]));
    assert_eq!(
        matching(&*store, THINGS, &query(doc! { "tags": { "$in": [["a", "b"], []] } })).await,
        numbers(&[1, 3, 6])
    );
}

pub(crate) async fn two_conditions_may_be_met_by_two_elements(store: Arc<dyn Store>) {
    tagged(&*store).await;
    assert_eq!(matching(&*store, THINGS, &query(doc! { "tags": { "$gt": 4, "$lt": 6 } })).await, numbers(&[4, 5]));
}

pub(crate) async fn elem_match_wants_one_element_for_both(store: Arc<dyn Store>) {
    tagged(&*store).await;
    let one = doc! { "tags": { "$elemMatch": { "$gt": 4, "$lt": 6 } } };
    assert_eq!(matching(&*store, THINGS, &query(one)).await, numbers(&[5]));
}

pub(crate) async fn an_entry_is_found_by_name_and_value(store: Arc<dyn Store>) {
    let entries = |name: &str, cpus: i32| {
        doc! { "fields": [{ "name": "host", "value": name }, { "name": "cpus", "value": cpus }, { "name": "ips", "value": [name, "x"] }] }
    };
    store_all(&*store, THINGS, &[thing(1, entries("web", 4)), thing(2, entries("db", 8)), thing(3, entries("web", 8))])
        .await;
    let entry = |name: &str, value: Bson| doc! { "fields": { "$elemMatch": { "name": name, "value": value } } };
    let found = |filter| ids_of_things(Arc::clone(&store), filter);
    assert_eq!(found(entry("host", "web".into())).await, numbers(&[1, 3]));
    assert_eq!(found(entry("cpus", doc! { "$gt": 4 }.into())).await, numbers(&[2, 3]));
    assert_eq!(found(entry("cpus", doc! { "$gt": 4, "$lt": 8 }.into())).await, numbers(&[]));
    assert_eq!(found(entry("ips", "db".into())).await, numbers(&[2]));
    // Met by two elements of the inner array.
    assert_eq!(found(entry("ips", doc! { "$gt": "m", "$lt": "f" }.into())).await, numbers(&[2]));
    let both = doc! { "$and": [entry("host", "web".into()), entry("cpus", 8.into())] };
    assert_eq!(found(both).await, numbers(&[3]));
    // Not tied to one element, so nearly everything matches.
    assert_eq!(found(doc! { "fields.name": "host", "fields.value": 8 }).await, numbers(&[2, 3]));
}

async fn ids_of_things(store: Arc<dyn Store>, filter: Document) -> Vec<Bson> {
    matching(&*store, THINGS, &query(filter)).await
}

pub(crate) async fn indexed_paths_answer_as_others_do(store: Arc<dyn Store>) {
    let values: Vec<Bson> = vec![
        1.into(),
        2.5.into(),
        f64::NAN.into(),
        (-0.0).into(),
        i64::MAX.into(),
        "".into(),
        "a".into(),
        "a\0b".into(),
        true.into(),
        Bson::Null,
        doc! { "x": 1 }.into(),
        vec![1, 3].into(),
        Bson::Array(Vec::new()),
        Bson::MinKey,
        Bson::MaxKey,
    ];
    let documents: Vec<Document> =
        values.iter().zip(1..).map(|(value, id)| thing(id, doc! { "size": value, "tags": [value, 7] })).collect();
    for collection in [THINGS, PLAIN] {
        store_all(&*store, collection, &documents).await;
        store_all(&*store, collection, &[thing(99, doc! {})]).await;
    }
    for path in ["size", "tags"] {
        for value in &values {
            for operator in ["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"] {
                let mut question = query(doc! { path: { operator: value } });
                let expected = matching(&*store, PLAIN, &question).await;
                assert_eq!(matching(&*store, THINGS, &question).await, expected, "{path} {operator} {value}");
                question.sort = sort(doc! { "size": -1, "public_id": 1 });
                let sorted = matching(&*store, PLAIN, &question).await;
                assert_eq!(matching(&*store, THINGS, &question).await, sorted, "sorted: {path} {operator} {value}");
            }
        }
    }
}

pub(crate) async fn texts_longer_than_a_key_are_told_apart(store: Arc<dyn Store>) {
    let long = |end: &str| format!("{}{end}", "x".repeat(3000));
    let named = |id: i32, name: String| doc! { "_id": id, "public_id": id, "name": &name, "kind": name };
    store_all(&*store, THINGS, &[named(1, long("a")), named(2, long("b")), named(3, long(""))]).await;
    assert_eq!(duplicate_key(store.commit(Unit::of(insertion(THINGS, &named(4, long("b"))))).await), "name");
    assert_eq!(matching(&*store, THINGS, &query(doc! { "name": long("b") })).await, numbers(&[2]));
    assert_eq!(matching(&*store, THINGS, &query(doc! { "kind": long("a") })).await, numbers(&[1]));
    assert_eq!(matching(&*store, THINGS, &query(doc! { "kind": { "$gt": long("a") } })).await, numbers(&[2]));
    assert_eq!(matching(&*store, THINGS, &query(doc! { "kind": { "$lt": long("b") } })).await, numbers(&[1, 3]));
    let sorted = query(doc! {}).sorted(sort(doc! { "name": 1 }));
    assert_eq!(matching(&*store, THINGS, &sorted).await, numbers(&[3, 1, 2]));
}

pub(crate) async fn a_replaced_document_is_found_by_its_new_values_only(store: Arc<dyn Store>) {
    store_all(&*store, THINGS, &[thing(1, doc! { "kind": 1, "tags": ["a", "b"] })]).await;
    let before = stored(&*store, THINGS, 1).await.expect("it was stored");
    let after = raw(&thing(1, doc! { "kind": 2, "tags": ["b", "c"] }));
    store.commit(Unit::of(Change::Replace { collection: THINGS, before, after })).await.expect("it was not changed");
    for (filter, found) in [
        (doc! { "kind": 1 }, 0),
        (doc! { "kind": 2 }, 1),
        (doc! { "tags": "a" }, 0),
        (doc! { "tags": "b" }, 1),
        (doc! { "tags": "c" }, 1),
        (doc! { "name": "thing 1" }, 1),
    ] {
        assert_eq!(matching(&*store, THINGS, &query(filter.clone())).await.len(), found, "{filter}");
    }
}
