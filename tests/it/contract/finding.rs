//! Questions: order, skip, limit, projection, totals.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use futures::TryStreamExt;
use inventory_service::query::{Filter, Limits, Projection};
use inventory_service::store::{
    CHUNK_BYTES, Change, CollectionSpec, Documents, FindQuery, IndexKey, IndexSpec, Store, StoreError, Unit,
};

use super::support::{BUDGET, filter, ids, ids_of, insertion, numbers, query, raw, sort, store_all, stored, thing};
use super::{PLAIN, THINGS};

pub(crate) async fn a_collection_that_was_never_written_to_is_empty(store: Arc<dyn Store>) {
    let all = FindQuery::new(Filter::all(), BUDGET);
    assert!(store.find("contract.never", &all).await.expect("an answer").is_empty());
    assert_eq!(store.page("contract.never", &all).await.expect("an answer").total, 0);
    assert_eq!(store.count("contract.never", &Filter::all(), BUDGET).await.expect("an answer"), 0);
}

pub(crate) async fn documents_come_back_byte_for_byte(store: Arc<dyn Store>) {
    let document = doc! {
        "_id": ObjectId::from_bytes([7; 12]),
        "z": 1.0, "a": -0.0, "nothing": Bson::Null, "when": DateTime::from_millis(-1), "inner": { "b": [1, [2, { "c": "ü" }]] },
        "long": i64::MAX, "": "an empty name",
    };
    store_all(&*store, PLAIN, std::slice::from_ref(&document)).await;
    let found = store.find(PLAIN, &FindQuery::new(Filter::all(), BUDGET)).await.expect("an answer");
    assert_eq!(found.first().expect("one document").as_bytes(), raw(&document).as_bytes());
}

async fn five(store: &dyn Store) {
    let kinds = [(3, 1), (1, 2), (5, 1), (2, 2), (4, 1)];
    let documents: Vec<Document> = kinds.iter().map(|(id, kind)| thing(*id, doc! { "kind": *kind })).collect();
    store_all(store, THINGS, &documents).await;
}

pub(crate) async fn documents_come_in_insertion_order_without_a_sort(store: Arc<dyn Store>) {
    five(&*store).await;
    assert_eq!(ids(&*store, THINGS, &query(doc! {})).await, numbers(&[3, 1, 5, 2, 4]));
    assert_eq!(ids(&*store, THINGS, &query(doc! {}).limited(2)).await, numbers(&[3, 1]));
}

pub(crate) async fn an_index_does_not_change_the_insertion_order(store: Arc<dyn Store>) {
    five(&*store).await;
    assert_eq!(ids(&*store, THINGS, &query(doc! { "kind": 1 })).await, numbers(&[3, 5, 4]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "public_id": { "$gt": 1 } })).await, numbers(&[3, 5, 2, 4]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "kind": { "$in": [2, 1] } })).await, numbers(&[3, 1, 5, 2, 4]));
    let either = doc! { "$or": [{ "public_id": 4 }, { "kind": 2 }] };
    assert_eq!(ids(&*store, THINGS, &query(either)).await, numbers(&[1, 2, 4]));
}

pub(crate) async fn pages_by_a_key_pass_over_what_was_removed(store: Arc<dyn Store>) {
    let documents: Vec<Document> = (1..=40).map(|id| thing(id, doc! {})).collect();
    store_all(&*store, THINGS, &documents).await;
    let removed = doc! { "public_id": { "$in": [2, 3, 5, 8, 13, 21, 34, 36, 38] } };
    store.commit(Unit::of(Change::DeleteMany { collection: THINGS, filter: filter(removed) })).await.expect("removed");
    let page = async |order: i32, skip: u64, limit: u64| {
        let mut query = query(doc! {}).sorted(sort(doc! { "public_id": order })).limited(limit);
        query.skip = skip;
        let page = store.page(THINGS, &query).await.expect("an answer");
        assert_eq!(page.total, 31);
        ids_of(&page.documents)
    };
    assert_eq!(page(1, 0, 4).await, numbers(&[1, 4, 6, 7]));
    assert_eq!(page(1, 3, 5).await, numbers(&[7, 9, 10, 11, 12]));
    assert_eq!(page(-1, 0, 6).await, numbers(&[40, 39, 37, 35, 33, 32]));
    assert_eq!(page(-1, 29, 10).await, numbers(&[4, 1]));
    assert_eq!(page(-1, 31, 10).await, numbers(&[]));
    assert_eq!(page(1, 0, 0).await.len(), 31);
}

async fn mixed(store: &dyn Store, collection: &'static str) {
    let values: [(i32, Bson); 8] = [
        (1, "text".into()),
        (2, 5.into()),
        (3, Bson::Null),
        (4, 4.5.into()),
        (5, true.into()),
        (6, doc! { "a": 1 }.into()),
        (7, Bson::MaxKey),
        (8, DateTime::from_millis(0).into()),
    ];
    let documents: Vec<Document> = values.into_iter().map(|(id, value)| thing(id, doc! { "size": value })).collect();
    store_all(store, collection, &documents).await;
    store_all(store, collection, &[thing(9, doc! {})]).await;
}

pub(crate) async fn a_sort_orders_mixed_types_as_mongodb_does(store: Arc<dyn Store>) {
    for collection in [THINGS, PLAIN] {
        mixed(&*store, collection).await;
        let found = ids(&*store, collection, &query(doc! {}).sorted(sort(doc! { "size": 1, "_id": 1 }))).await;
        assert_eq!(found, numbers(&[3, 9, 4, 2, 1, 6, 5, 8, 7]), "{collection}");
    }
}

pub(crate) async fn a_sort_goes_backwards_too(store: Arc<dyn Store>) {
    for collection in [THINGS, PLAIN] {
        mixed(&*store, collection).await;
        let found = ids(&*store, collection, &query(doc! {}).sorted(sort(doc! { "size": -1, "_id": 1 }))).await;
        assert_eq!(found, numbers(&[7, 8, 5, 6, 1, 2, 4, 3, 9]), "{collection}");
        let found = ids(&*store, collection, &query(doc! {}).sorted(sort(doc! { "public_id": -1 })).limited(3)).await;
        assert_eq!(found, numbers(&[9, 8, 7]), "{collection}");
    }
}

pub(crate) async fn equal_documents_keep_insertion_order_when_sorted(store: Arc<dyn Store>) {
    let documents: Vec<Document> = [4, 2, 9, 1, 7].iter().map(|id| thing(*id, doc! { "size": id % 2 })).collect();
    store_all(&*store, PLAIN, &documents).await;
    let up = query(doc! {}).sorted(sort(doc! { "size": 1 }));
    assert_eq!(ids(&*store, PLAIN, &up).await, numbers(&[4, 2, 9, 1, 7]));
    let down = query(doc! {}).sorted(sort(doc! { "size": -1 }));
    assert_eq!(ids(&*store, PLAIN, &down).await, numbers(&[9, 1, 7, 4, 2]));
}

pub(crate) async fn a_sort_takes_the_extreme_of_an_array(store: Arc<dyn Store>) {
    let documents = [
        thing(1, doc! { "tags": [5, 2] }),
        thing(2, doc! { "tags": [3] }),
        thing(3, doc! { "tags": [] }),
        thing(4, doc! { "tags": [1, 9] }),
    ];
    for collection in [THINGS, PLAIN] {
        store_all(&*store, collection, &documents).await;
        let up = query(doc! {}).sorted(sort(doc! { "tags": 1 }));
        assert_eq!(ids(&*store, collection, &up).await, numbers(&[3, 4, 1, 2]), "{collection}");
        let down = query(doc! {}).sorted(sort(doc! { "tags": -1 }));
        assert_eq!(ids(&*store, collection, &down).await, numbers(&[4, 1, 2, 3]), "{collection}");
    }
}

pub(crate) async fn several_sort_keys_count_one_after_the_other(store: Arc<dyn Store>) {
    five(&*store).await;
    let mixed = query(doc! {}).sorted(sort(doc! { "kind": 1, "public_id": -1 }));
    assert_eq!(ids(&*store, THINGS, &mixed).await, numbers(&[5, 4, 3, 2, 1]));
    let same = query(doc! {}).sorted(sort(doc! { "kind": -1, "public_id": -1 }));
    assert_eq!(ids(&*store, THINGS, &same).await, numbers(&[2, 1, 5, 4, 3]));
    let filtered = query(doc! { "kind": 1 }).sorted(sort(doc! { "public_id": 1 }));
    assert_eq!(ids(&*store, THINGS, &filtered).await, numbers(&[3, 4, 5]));
}

pub(crate) async fn a_list_with_more_values_than_an_index_takes_is_answered_in_order(store: Arc<dyn Store>) {
    const BY_KIND: &[CollectionSpec] = &[CollectionSpec {
        name: "listed",
        indexes: &[IndexSpec::plain(
            "kind",
            &[IndexKey { path: "kind", descending: false }, IndexKey { path: "public_id", descending: false }],
        )],
    }];
    store.prepare(BY_KIND).await.expect("the collection can be prepared");
    let documents = (0..40).map(|id| insertion("listed", &thing(id, doc! { "kind": (id * 977) % 3000 })));
    store.commit(documents.fold(Unit::default(), Unit::and)).await.expect("they can be stored");
    for values in [200, 300, 2_001, 2_500] {
        let kinds: Vec<Bson> = (0..values).map(Bson::Int32).collect();
        let limits = Limits { max_in_items: 3_000, ..Limits::default() };
        let listed = Filter::parse(&doc! { "kind": { "$in": kinds } }, &limits).expect("a filter");
        let query = FindQuery::new(listed, BUDGET).sorted(sort(doc! { "public_id": -1 })).limited(7);
        let found: Vec<Bson> = (0..40).rev().filter(|id| (id * 977) % 3000 < values).take(7).map(Bson::Int32).collect();
        assert_eq!(ids(&*store, "listed", &query).await, found, "{values} values");
    }
}

pub(crate) async fn skip_and_limit_apply_after_sorting(store: Arc<dyn Store>) {
    five(&*store).await;
    for order in [doc! { "public_id": 1 }, doc! { "name": 1 }, doc! { "absent": 1, "public_id": 1 }] {
        let mut window = query(doc! {}).sorted(sort(order)).limited(2);
        window.skip = 1;
        assert_eq!(ids(&*store, THINGS, &window).await, numbers(&[2, 3]));
        window.skip = 4;
        assert_eq!(ids(&*store, THINGS, &window).await, numbers(&[5]));
        window.skip = 5;
        assert_eq!(ids(&*store, THINGS, &window).await, numbers(&[]));
    }
}

pub(crate) async fn a_limit_of_zero_gives_all(store: Arc<dyn Store>) {
    five(&*store).await;
    let mut window = query(doc! {}).sorted(sort(doc! { "absent": 1, "public_id": 1 }));
    window.skip = 2;
    assert_eq!(ids(&*store, THINGS, &window).await, numbers(&[3, 4, 5]));
}

pub(crate) async fn a_projection_selects_members(store: Arc<dyn Store>) {
    store_all(&*store, THINGS, &[thing(1, doc! { "size": 3, "kind": 2 })]).await;
    let mut question = query(doc! { "public_id": 1 });
    question.projection =
        Some(Projection::parse(&doc! { "kind": 1, "_id": 0 }, &question.filter).expect("the projection is right"));
    let found = store.find(THINGS, &question).await.expect("an answer");
    assert_eq!(found.first().expect("one document").as_bytes(), raw(&doc! { "kind": 2 }).as_bytes());
    assert!(stored(&*store, THINGS, 1).await.is_some_and(|whole| whole.get("size").is_ok_and(|size| size.is_some())));
}

pub(crate) async fn a_page_tells_the_number_of_all_matches(store: Arc<dyn Store>) {
    five(&*store).await;
    let filters = [
        (doc! {}, 5),
        (doc! { "kind": 1 }, 3),
        (doc! { "kind": { "$ne": 1 } }, 2),
        (doc! { "public_id": { "$gte": 2, "$lt": 4 } }, 2),
        (doc! { "kind": 3 }, 0),
    ];
    for (filter, total) in filters {
        for order in [doc! {}, doc! { "public_id": -1 }, doc! { "absent": 1 }] {
            let page =
                store.page(THINGS, &query(filter.clone()).sorted(sort(order)).limited(1)).await.expect("an answer");
            assert_eq!(page.total, total, "{filter}");
            assert_eq!(page.documents.len() as u64, total.min(1), "{filter}");
        }
    }
}

pub(crate) async fn a_page_beyond_the_end_is_empty_and_has_a_total(store: Arc<dyn Store>) {
    five(&*store).await;
    let mut window = query(doc! { "kind": 1 }).sorted(sort(doc! { "public_id": 1 })).limited(10);
    window.skip = 30;
    let page = store.page(THINGS, &window).await.expect("an answer");
    assert_eq!((ids_of(&page.documents), page.total), (Vec::new(), 3));
}

/// Documents that make several chunks.
async fn thirty_large(store: &dyn Store) {
    let text = "x".repeat(CHUNK_BYTES / 8);
    let documents: Vec<Document> =
        (1..=30).map(|id| thing(id, doc! { "kind": id % 3, "size": (id * 7) % 30, "text": &text })).collect();
    store_all(store, THINGS, &documents).await;
}

pub(crate) async fn pieces_are_the_page_in_its_order(store: Arc<dyn Store>) {
    thirty_large(&*store).await;
    let by_size = query(doc! { "kind": { "$ne": 0 } }).sorted(sort(doc! { "size": 1 }));
    let by_name = query(doc! { "text": { "$ne": "y" } }).sorted(sort(doc! { "text": 1, "public_id": -1 }));
    let by_id = query(doc! {}).sorted(sort(doc! { "public_id": 1 }));
    let mut window = by_id.clone().limited(20);
    window.skip = 5;
    let mut shown = by_id.clone();
    shown.projection = Some(Projection::parse(&doc! { "text": 1 }, &shown.filter).expect("the projection is right"));
    for question in [by_size, by_name, by_id, window, shown] {
        let chunks = store.chunks(THINGS, &question).await.expect("an answer");
        let total = chunks.total;
        let chunks: Vec<Documents> = chunks.documents.try_collect().await.expect("all chunks");
        assert!(chunks.len() > 1 && chunks.iter().all(|chunk| chunk.bytes() < CHUNK_BYTES * 5 / 4), "{question:?}");
        let page = store.page(THINGS, &question).await.expect("an answer");
        let bytes = |document: &bson::raw::RawDocument| document.as_bytes().to_vec();
        let together: Vec<Vec<u8>> = chunks.iter().flat_map(|chunk| chunk.iter().map(bytes)).collect();
        assert_eq!(total, page.total);
        assert!(together == page.documents.iter().map(bytes).collect::<Vec<_>>(), "{question:?}");
    }
}

pub(crate) async fn pieces_come_from_one_point_in_time(store: Arc<dyn Store>) {
    thirty_large(&*store).await;
    let question = query(doc! {}).sorted(sort(doc! { "public_id": 1 }));
    let mut chunks = store.chunks(THINGS, &question).await.expect("an answer").documents;
    let first = chunks.try_next().await.expect("a chunk").expect("a chunk");
    let remove = Change::DeleteMany { collection: THINGS, filter: filter(doc! {}) };
    store.commit(Unit::of(remove)).await.expect("the documents can be removed");
    let rest: Vec<Documents> = chunks.try_collect().await.expect("the other chunks");
    assert_eq!(first.len() + rest.iter().map(Documents::len).sum::<usize>(), 30);
}

pub(crate) async fn an_answer_without_documents_has_no_piece(store: Arc<dyn Store>) {
    five(&*store).await;
    for (collection, filter, total) in [("contract.never", doc! {}, 0), (THINGS, doc! { "kind": 9 }, 0)] {
        let chunks = store.chunks(collection, &query(filter)).await.expect("an answer");
        assert_eq!(chunks.total, total);
        assert!(chunks.documents.try_collect::<Vec<_>>().await.expect("an answer").is_empty());
    }
    let mut beyond = query(doc! {}).sorted(sort(doc! { "public_id": 1 }));
    beyond.skip = 9;
    let chunks = store.chunks(THINGS, &beyond).await.expect("an answer");
    assert_eq!(chunks.total, 5);
    assert!(chunks.documents.try_collect::<Vec<_>>().await.expect("an answer").is_empty());
}

pub(crate) async fn count_agrees_with_find(store: Arc<dyn Store>) {
    five(&*store).await;
    let filters = [
        doc! {},
        doc! { "kind": 1 },
        doc! { "public_id": { "$gt": 2 } },
        doc! { "kind": { "$in": [1, 7] }, "public_id": { "$lte": 4 } },
        doc! { "name": { "$regex": "^thing [12]" } },
        doc! { "public_id": { "$gt": 5, "$lt": 2 } },
    ];
    for document in filters {
        let found = ids(&*store, THINGS, &query(document.clone())).await.len() as u64;
        assert_eq!(
            store.count(THINGS, &filter(document.clone()), BUDGET).await.expect("an answer"),
            found,
            "{document}"
        );
    }
}

pub(crate) async fn a_short_time_budget_ends_in_an_answer_or_a_timeout(store: Arc<dyn Store>) {
    let documents: Vec<Document> = (1..200).map(|id| thing(id, doc! { "text": "a".repeat(2000) })).collect();
    store_all(&*store, PLAIN, &documents).await;
    let mut question = query(doc! { "text": { "$regex": "(a*)*b$" } });
    question.max_time = Duration::from_millis(1);
    match store.find(PLAIN, &question).await {
        Ok(found) => assert!(found.is_empty()),
        Err(StoreError::Timeout | StoreError::Query { .. }) => {}
        Err(other) => panic!("{other:?}"),
    }
}
