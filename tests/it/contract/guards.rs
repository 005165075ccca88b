//! Questions with a guard: evaluated on no document that the guard leaves out.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use futures::TryStreamExt;
use inventory_service::query::{Filter, Path, Projection, Sort};
use inventory_service::store::{FindQuery, Store, StoreError};

use super::THINGS;
use super::support::{BUDGET, filter, ids_of, numbers, sort, store_all, thing};

/// Of ten things the odd ones are hidden; dividing by their `part` fails.
async fn half_hidden(store: &dyn Store) {
    let things: Vec<Document> = (1..=10)
        .map(|id| {
            let is_odd = id % 2 == 1;
            let fields = doc! { "name": "n", "value": -id };
            thing(id, doc! { "hidden": is_odd, "part": i32::from(!is_odd), "size": -id, "fields": [fields] })
        })
        .collect();
    store_all(store, THINGS, &things).await;
}

fn guarded(question: Document) -> FindQuery {
    FindQuery::new(filter(question).guarded_by(Filter::none_of("hidden", vec![Bson::Boolean(true)])), BUDGET)
}

fn fails_where_hidden() -> Document {
    doc! { "$or": [{ "size": 100 }, { "$expr": { "$gt": [{ "$divide": [1, "$part"] }, 0] } }] }
}

pub(crate) async fn a_question_does_not_fail_on_what_its_guard_leaves_out(store: Arc<dyn Store>) {
    half_hidden(&*store).await;
    for question in [
        fails_where_hidden(),
        doc! { "public_id": { "$gt": 0 }, "$expr": { "$divide": [1, "$part"] } },
        doc! { "$nor": [{ "$expr": { "$not": [{ "$divide": [1, "$part"] }] } }] },
        doc! { "$and": [{ "name": { "$regex": "^thing" } }, fails_where_hidden()] },
    ] {
        let query = guarded(question).sorted(sort(doc! { "public_id": 1 }));
        let page = store.page(THINGS, &query).await.expect("an answer");
        assert_eq!((ids_of(&page.documents), page.total), (numbers(&[2, 4, 6, 8, 10]), 5), "{:?}", query.filter);
        assert_eq!(store.count(THINGS, &query.filter, BUDGET).await.expect("an answer"), 5);
        assert_eq!(store.explain(THINGS, &query).await.expect("an answer").total, 5);
        let frozen = store.frozen(BUDGET).await.expect("a store");
        assert_eq!(frozen.count(THINGS, &query.filter, BUDGET).await.expect("an answer"), 5);
    }
}

pub(crate) async fn a_failure_of_a_guarded_question_tells_nothing_of_what_is_hidden(store: Arc<dyn Store>) {
    let told = |id: i32, word: &str| thing(id, doc! { "hidden": id < 9, "word": word });
    let hidden: Vec<Document> = (1..9).map(|id| told(id, "secret")).collect();
    store_all(&*store, THINGS, &hidden).await;
    store_all(&*store, THINGS, &[told(9, "open")]).await;
    let asked = guarded(doc! { "$expr": { "$gt": [{ "$toInt": "$word" }, 0] } }).filter;
    for store in [Arc::clone(&store), store.frozen(BUDGET).await.expect("a store")] {
        let failed = store.count(THINGS, &asked, BUDGET).await.expect_err("what is seen is no number");
        let StoreError::Query { message, .. } = failed else { panic!("{failed}") };
        assert!(message.contains("open") && !message.contains("secret"), "{message}");
    }
}

pub(crate) async fn the_plan_of_a_guarded_question_shows_nothing_of_its_guard(store: Arc<dyn Store>) {
    let things: Vec<Document> = (1..=100).map(|id| thing(id, doc! { "kind": id % 4, "size": id })).collect();
    store_all(&*store, THINGS, &things).await;
    let explained = async |question: Document, order: Sort, hides: bool| {
        let plain = FindQuery::new(filter(question), BUDGET).sorted(order).limited(3);
        let guard = Filter::none_of("kind", vec![Bson::Int64(1), Bson::Int64(3)]);
        let guarded = FindQuery { filter: plain.filter.clone().guarded_by(guard), ..plain.clone() };
        store.explain(THINGS, if hides { &guarded } else { &plain }).await.expect("an answer")
    };
    for (question, order) in [
        (doc! {}, Sort::default()),
        (doc! {}, sort(doc! { "kind": 1, "public_id": 1 })),
        (doc! { "kind": 1 }, Sort::default()),
        (doc! { "kind": { "$in": [1, 2, 77] } }, sort(doc! { "public_id": 1 })),
        (doc! { "kind": { "$gte": 0 } }, Sort::default()),
        (doc! { "kind": { "$ne": 2 } }, Sort::default()),
        (doc! { "$or": [{ "kind": 3 }, { "size": 5 }] }, Sort::default()),
        (doc! { "size": { "$gt": 90 } }, sort(doc! { "kind": 1, "public_id": 1 })),
        (doc! { "kind": 1, "$expr": { "$gt": ["$size", 3] } }, sort(doc! { "public_id": 1 })),
    ] {
        let shown = explained(question.clone(), order.clone(), true).await;
        let alone = explained(question.clone(), order, false).await;
        assert_eq!((shown.plan, shown.sort), (alone.plan, alone.sort), "{question}");
    }
    // What is hidden and what does not exist are found, sorted and counted in the same way.
    for (hidden, absent) in [
        (doc! { "kind": 1 }, doc! { "kind": 77 }),
        (doc! { "size": 5 }, doc! { "size": 500 }),
        (doc! { "public_id": 5 }, doc! { "public_id": 500 }),
    ] {
        let [hidden, absent] =
            [explained(hidden, Sort::default(), true).await, explained(absent, Sort::default(), true).await];
        assert_eq!((hidden.total, hidden.total_from), (absent.total, absent.total_from));
    }
}

pub(crate) async fn a_guarded_question_is_sorted_and_paged_as_any(store: Arc<dyn Store>) {
    half_hidden(&*store).await;
    for (order, expected) in [
        (sort(doc! { "public_id": -1 }), [8, 6]),
        (sort(doc! { "size": 1 }), [8, 6]),
        (sort(doc! { "kind": 1, "public_id": 1 }), [4, 6]),
        (Sort::default().then_by(Path::of_field("n", None), false), [8, 6]),
        (Sort::default().then_by(Path::of_field("n", None), true).then("public_id", false), [4, 6]),
    ] {
        let mut query = guarded(fails_where_hidden()).sorted(order).limited(2);
        query.skip = 1;
        let page = store.page(THINGS, &query).await.expect("an answer");
        assert_eq!((ids_of(&page.documents), page.total), (numbers(&expected), 5), "{:?}", query.sort);
        let chunks = store.chunks(THINGS, &query).await.expect("an answer");
        assert_eq!(chunks.total, 5);
        let chunks: Vec<_> = chunks.documents.try_collect().await.expect("chunks");
        assert_eq!(chunks.iter().flat_map(ids_of).collect::<Vec<_>>(), numbers(&expected));
    }
}

pub(crate) async fn a_guarded_question_is_projected_as_any(store: Arc<dyn Store>) {
    half_hidden(&*store).await;
    let mut query = guarded(doc! { "name": { "$regex": "^thing" }, "fields.value": { "$lt": -7 } });
    query.projection = Some(
        Projection::parse(&doc! { "fields.$": 1, "half": { "$divide": ["$public_id", 2] } }, &query.filter)
            .expect("a projection"),
    );
    let found = store.find(THINGS, &query.sorted(sort(doc! { "public_id": 1 }))).await.expect("an answer");
    let found: Vec<Document> = found.iter().map(|found| Document::try_from(found).expect("it is BSON")).collect();
    let expected = |id: i32| doc! { "_id": id, "fields": [{ "name": "n", "value": -id }], "half": f64::from(id) / 2.0 };
    assert_eq!(found, [expected(8), expected(10)]);
}
