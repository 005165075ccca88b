//! Pipelines: what they give, and what they may see.

use std::sync::Arc;

use bson::{Bson, DateTime, Document, bson, doc};
use inventory_service::query::{Filter, Limits, Pipeline};
use inventory_service::store::{AggregateQuery, Reach, Store, StoreError, gathered};

use super::support::{BUDGET, store_all, thing};
use super::{KINDS, THINGS};

fn asking(stages: &Bson) -> AggregateQuery {
    let stages = stages.as_array().expect("a pipeline is an array");
    let pipeline = Pipeline::parse(stages, &Limits::default(), DateTime::from_millis(0));
    AggregateQuery::new(pipeline.expect("pipelines of tests are right"), BUDGET)
}

async fn results(store: &dyn Store, query: &AggregateQuery) -> Vec<Document> {
    let chunks = store.aggregate(THINGS, query).await.expect("the pipeline can be run");
    let documents = gathered(chunks, usize::MAX).await.expect("the pipeline runs");
    documents.iter().map(|document| Document::try_from(document).expect("it is BSON")).collect()
}

/// Ten things of three kinds; the odd ones are hidden, and dividing by their `part` fails.
async fn things_of_kinds(store: &dyn Store) {
    let things: Vec<Document> = (1..=10)
        .map(|id| {
            let is_odd = id % 2 == 1;
            thing(id, doc! { "kind": id % 3, "size": id, "hidden": is_odd, "part": i32::from(!is_odd) })
        })
        .collect();
    store_all(store, THINGS, &things).await;
    let kinds: Vec<Document> =
        (0..3).map(|id| thing(id, doc! { "hidden": id == 1, "part": i32::from(id != 1) })).collect();
    store_all(store, KINDS, &kinds).await;
}

pub(super) fn unhidden() -> Filter {
    Filter::none_of("hidden", [true])
}

pub(crate) async fn a_pipeline_groups_and_sorts(store: Arc<dyn Store>) {
    things_of_kinds(&*store).await;
    let query = asking(&bson!([
        { "$match": { "size": { "$gt": 1 } } },
        { "$group": { "_id": "$kind", "n": { "$sum": 1 }, "sizes": { "$sum": "$size" } } },
        { "$sort": { "_id": 1 } },
    ]));
    let expected = [
        doc! { "_id": 0, "n": 3, "sizes": 18 },
        doc! { "_id": 1, "n": 3, "sizes": 21 },
        doc! { "_id": 2, "n": 3, "sizes": 15 },
    ];
    assert_eq!(results(&*store, &query).await, expected);
}

pub(crate) async fn what_stands_at_the_front_is_one_query(store: Arc<dyn Store>) {
    things_of_kinds(&*store).await;
    let query = asking(&bson!([
        { "$match": { "kind": 1 } }, { "$sort": { "size": -1 } }, { "$skip": 1 }, { "$limit": 2 }, { "$project": { "size": 1 } },
    ]));
    assert_eq!(results(&*store, &query).await, [doc! { "_id": 7, "size": 7 }, doc! { "_id": 4, "size": 4 }]);
    let query = asking(&bson!([{ "$match": { "kind": 1 } }, { "$count": "n" }]));
    assert_eq!(results(&*store, &query).await, [doc! { "n": 4 }]);
    let query = asking(&bson!([{ "$match": { "kind": 7 } }, { "$count": "n" }]));
    assert_eq!(results(&*store, &query).await, [] as [Document; 0]);
}

pub(crate) async fn a_pipeline_is_evaluated_on_nothing_that_is_hidden(store: Arc<dyn Store>) {
    things_of_kinds(&*store).await;
    let divided = bson!({ "$divide": [1, "$part"] });
    for stages in [
        bson!([{ "$match": { "$expr": { "$gt": [divided.clone(), 0] } } }, { "$count": "n" }]),
        bson!([{ "$set": { "x": divided.clone() } }, { "$count": "n" }]),
        bson!([{ "$match": { "size": { "$gt": 0 } } }, { "$group": { "_id": divided.clone(), "n": { "$sum": 1 } } }, { "$unset": "_id" }]),
        bson!([{ "$sort": { "size": 1 } }, { "$match": { "$expr": divided.clone() } }, { "$count": "n" }]),
        bson!([{ "$facet": { "a": [{ "$match": { "$expr": divided.clone() } }] } }, { "$project": { "n": { "$size": "$a" } } }]),
    ] {
        let query = AggregateQuery { guard: unhidden(), ..asking(&stages) };
        assert_eq!(results(&*store, &query).await, [doc! { "n": 5 }], "{stages}");
    }
}

pub(crate) async fn other_collections_show_what_is_not_hidden(store: Arc<dyn Store>) {
    things_of_kinds(&*store).await;
    let divides = bson!([{ "$match": { "$expr": { "$divide": [1, "$part"] } } }, { "$project": { "_id": 1 } }]);
    let reach = Reach::default().with(KINDS, unhidden()).with(THINGS, unhidden());
    for (stages, expected) in [
        (
            bson!([
                { "$match": { "public_id": { "$in": [1, 2] } } }, { "$sort": { "public_id": 1 } },
                { "$lookup": { "from": KINDS, "localField": "kind", "foreignField": "_id", "as": "k" } },
                { "$project": { "k._id": 1 } },
            ]),
            // The kind of the first one is hidden.
            vec![doc! { "_id": 1, "k": [] }, doc! { "_id": 2, "k": [{ "_id": 2 }] }],
        ),
        (
            bson!([
                { "$limit": 1 }, { "$project": { "_id": 1 } },
                { "$lookup": { "from": KINDS, "pipeline": divides.clone(), "as": "k" } },
            ]),
            vec![doc! { "_id": 1, "k": [{ "_id": 0 }, { "_id": 2 }] }],
        ),
        (
            bson!([
                { "$limit": 1 },
                { "$lookup": { "from": KINDS, "let": { "kind": "$kind" }, "localField": "hidden", "foreignField": "x",
                    "pipeline": [{ "$match": { "$expr": { "$ne": ["$_id", "$$kind"] } } }], "as": "k" } },
                { "$project": { "k._id": 1 } },
            ]),
            vec![doc! { "_id": 1, "k": [] }],
        ),
        (
            bson!([{ "$match": { "size": 99 } }, { "$unionWith": { "coll": KINDS, "pipeline": divides } }, { "$sort": { "_id": 1 } }]),
            vec![doc! { "_id": 0 }, doc! { "_id": 2 }],
        ),
        (bson!([{ "$match": { "size": 99 } }, { "$unionWith": THINGS }, { "$count": "n" }]), vec![doc! { "n": 5 }]),
    ] {
        let query = AggregateQuery { reach: reach.clone(), ..asking(&stages) };
        assert_eq!(results(&*store, &query).await, expected, "{stages}");
    }
}

pub(crate) async fn a_collection_beyond_reach_is_not_read(store: Arc<dyn Store>) {
    things_of_kinds(&*store).await;
    for stages in [
        bson!([{ "$unionWith": KINDS }]),
        bson!([{ "$facet": { "a": [{ "$lookup": { "from": KINDS, "pipeline": [], "as": "k" } }] } }]),
        bson!([{ "$lookup": { "from": THINGS, "pipeline": [{ "$unionWith": KINDS }], "as": "k" } }]),
    ] {
        let query = AggregateQuery { reach: Reach::default().with(THINGS, Filter::all()), ..asking(&stages) };
        match store.aggregate(THINGS, &query).await {
            Err(StoreError::Query { code, message }) => {
                assert_eq!(code, 13);
                assert!(message.contains(KINDS), "{message}");
            }
            _ => panic!("{stages} reads it"),
        }
    }
}

pub(crate) async fn a_failure_on_a_document_is_an_error_of_the_pipeline(store: Arc<dyn Store>) {
    things_of_kinds(&*store).await;
    let query = asking(&bson!([{ "$replaceWith": "$size" }]));
    let outcome = match store.aggregate(THINGS, &query).await {
        Ok(chunks) => gathered(chunks, usize::MAX).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(outcome, Err(StoreError::Query { code: 40228, .. })), "{outcome:?}");
}
