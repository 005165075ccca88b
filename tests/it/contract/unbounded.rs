//! Questions with expressions that no server is asked to run: they are answered as any other.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, DateTime, Document, bson, doc};
use futures::TryStreamExt;
use inventory_service::query::{Filter, Limits, Pipeline, Projection};
use inventory_service::store::{AggregateQuery, FindQuery, Reach, Store, StoreError, gathered};

use super::aggregating::unhidden;
use super::support::{BUDGET, filter, ids_of, numbers, sort, store_all, thing};
use super::{KINDS, THINGS};

/// Twelve things; `list` has as many numbers as `size` says. The things of kind 2 are hidden, and dividing by their `part` fails.
async fn things_with_lists(store: &dyn Store) {
    let things: Vec<Document> = (1..=12)
        .map(|id| {
            let list: Vec<i32> = (1..=id).collect();
            let kind = id % 3;
            thing(
                id,
                doc! { "kind": kind, "size": id, "list": list, "hidden": kind == 2, "part": i32::from(kind != 2) },
            )
        })
        .collect();
    store_all(store, THINGS, &things).await;
    let kinds: Vec<Document> = (0..3).map(|id| thing(id, doc! { "hidden": id == 1, "least": 2 * id })).collect();
    store_all(store, KINDS, &kinds).await;
}

/// How many pairs of the list have this sum: it goes over the list for each of its elements.
fn pairs(sum: i32) -> Bson {
    let inner = bson!({ "$map": { "input": "$list", "as": "b", "in": { "$cond": [{ "$eq": [{ "$add": ["$$a", "$$b"] }, sum] }, 1, 0] } } });
    bson!({ "$sum": { "$map": { "input": "$list", "as": "a", "in": { "$sum": inner } } } })
}

/// Holds where the list has 4 and 5, whose sum is 9 in eight pairs: of things 8 to 12.
fn eight_pairs() -> Document {
    doc! { "$expr": { "$eq": [pairs(9), 8] } }
}

fn fails_where_hidden() -> Document {
    doc! { "$expr": { "$gt": [{ "$divide": [pairs(9), "$part"] }, 7] } }
}

pub(crate) async fn an_unbounded_filter_finds_what_it_finds_anywhere(store: Arc<dyn Store>) {
    things_with_lists(&*store).await;
    for (asked, expected) in [
        (eight_pairs(), vec![8, 9, 10, 11, 12]),
        (doc! { "size": { "$lt": 10 }, "$and": [eight_pairs(), { "kind": { "$ne": 0 } }] }, vec![8]),
        (doc! { "$or": [{ "size": 1 }, eight_pairs()] }, vec![1, 8, 9, 10, 11, 12]),
        (doc! { "$nor": [{ "size": 1 }, eight_pairs()] }, vec![2, 3, 4, 5, 6, 7]),
        (doc! { "size": { "$gt": 100 }, "$expr": { "$divide": [pairs(9), 0] } }, vec![]),
    ] {
        let query = FindQuery::new(filter(asked.clone()), BUDGET).sorted(sort(doc! { "size": 1 }));
        let total = expected.len() as u64;
        for store in [Arc::clone(&store), store.frozen(BUDGET).await.expect("a store")] {
            assert_eq!(ids_of(&store.find(THINGS, &query).await.expect("found")), numbers(&expected), "{asked}");
            assert_eq!(store.count(THINGS, &query.filter, BUDGET).await.expect("counted"), total, "{asked}");
        }
        for (skip, limit) in [(0, 2), (1, 2), (1, 0), (4, 2), (9, 1)] {
            let page = FindQuery { skip, limit, ..query.clone() };
            let found = store.page(THINGS, &page).await.expect("a page");
            let most = if limit == 0 { usize::MAX } else { usize::try_from(limit).expect("small") };
            let shown: Vec<i32> =
                expected.iter().copied().skip(usize::try_from(skip).expect("small")).take(most).collect();
            assert_eq!((ids_of(&found.documents), found.total), (numbers(&shown), total), "{asked} {skip} {limit}");
            let chunked = store.chunks(THINGS, &page).await.expect("chunks");
            assert_eq!(chunked.total, total, "{asked}");
            let chunks: Vec<_> = chunked.documents.try_collect().await.expect("all chunks");
            assert_eq!(chunks.iter().flat_map(ids_of).collect::<Vec<_>>(), numbers(&shown), "{asked} {skip} {limit}");
            let explained = store.explain(THINGS, &page).await.expect("explained");
            assert_eq!((explained.returned, explained.total), (shown.len() as u64, total), "{asked} {skip} {limit}");
        }
    }
}

pub(crate) async fn an_unbounded_filter_is_evaluated_on_nothing_that_is_hidden(store: Arc<dyn Store>) {
    things_with_lists(&*store).await;
    let asked = filter(fails_where_hidden());
    let open = FindQuery::new(asked.clone(), BUDGET);
    assert!(matches!(store.find(THINGS, &open).await, Err(StoreError::Query { .. })));
    let guarded = FindQuery::new(asked.guarded_by(unhidden()), BUDGET).sorted(sort(doc! { "size": -1 }));
    let page = store.page(THINGS, &guarded).await.expect("nothing fails");
    assert_eq!((ids_of(&page.documents), page.total), (numbers(&[12, 10, 9]), 3));
    assert_eq!(store.count(THINGS, &guarded.filter, BUDGET).await.expect("nothing fails"), 3);
}

pub(crate) async fn an_unbounded_projection_is_computed_as_any(store: Arc<dyn Store>) {
    things_with_lists(&*store).await;
    let asked = filter(doc! { "size": { "$gte": 8 } });
    let projection = Projection::parse(&doc! { "_id": 1, "n": pairs(9) }, &asked).expect("a projection");
    let query = FindQuery::new(asked, BUDGET).sorted(sort(doc! { "size": 1 }));
    let query = FindQuery { skip: 1, limit: 2, projection: Some(projection), ..query };
    let page = store.page(THINGS, &query).await.expect("a page");
    let shown: Vec<Document> = page.documents.iter().map(|one| Document::try_from(one).expect("BSON")).collect();
    assert_eq!((shown, page.total), (vec![doc! { "_id": 9, "n": 8 }, doc! { "_id": 10, "n": 8 }], 5));
}

async fn results(store: &dyn Store, stages: &Bson, guard: Filter) -> Result<Vec<Document>, StoreError> {
    let stages = stages.as_array().expect("a pipeline is an array");
    let pipeline = Pipeline::parse(stages, &Limits::default(), DateTime::from_millis(0)).expect("a pipeline");
    let reach = Reach::default().with(KINDS, unhidden());
    let query = AggregateQuery { guard, reach, ..AggregateQuery::new(pipeline, BUDGET) };
    let documents = gathered(store.aggregate(THINGS, &query).await?, usize::MAX).await?;
    Ok(documents.iter().map(|document| Document::try_from(document).expect("it is BSON")).collect())
}

pub(crate) async fn unbounded_stages_run_as_any(store: Arc<dyn Store>) {
    things_with_lists(&*store).await;
    let counted = bson!([{ "$match": { "kind": { "$gt": 0 } } }, { "$match": eight_pairs() }, { "$count": "n" }]);
    assert_eq!(results(&*store, &counted, Filter::all()).await.expect("results"), [doc! { "n": 3 }]);
    let grouped = bson!([
        { "$match": { "size": { "$gte": 4 } } }, { "$sort": { "size": -1 } }, { "$limit": 6 },
        { "$group": { "_id": "$kind", "n": { "$sum": pairs(9) } } }, { "$sort": { "_id": 1 } },
    ]);
    let expected = [doc! { "_id": 0, "n": 16 }, doc! { "_id": 1, "n": 14 }, doc! { "_id": 2, "n": 16 }];
    // Things 7 to 12: thing 7 has six pairs.
    assert_eq!(results(&*store, &grouped, Filter::all()).await.expect("results"), expected);
    let none = bson!([{ "$match": { "size": 100 } }, { "$set": { "n": pairs(9) } }]);
    assert_eq!(results(&*store, &none, Filter::all()).await.expect("results"), [] as [Document; 0]);
}

pub(crate) async fn unbounded_stages_see_nothing_that_is_hidden(store: Arc<dyn Store>) {
    things_with_lists(&*store).await;
    let stages = bson!([
        { "$match": fails_where_hidden() }, { "$sort": { "size": 1 } },
        { "$lookup": { "from": KINDS, "let": { "kind": "$kind" }, "pipeline": [
            { "$match": { "$expr": { "$eq": ["$_id", "$$kind"] } } },
            { "$set": { "n": { "$size": { "$range": [0, "$least"] } } } }, { "$project": { "n": 1 } },
        ], "as": "kinds" } },
        { "$project": { "kinds": 1 } },
    ]);
    assert!(matches!(results(&*store, &stages, Filter::all()).await, Err(StoreError::Query { .. })));
    // Kind 1 is hidden, of which things 10 is; things 9 and 12 are of kind 0.
    let expected = [
        doc! { "_id": 9, "kinds": [{ "_id": 0, "n": 0 }] },
        doc! { "_id": 10, "kinds": [] },
        doc! { "_id": 12, "kinds": [{ "_id": 0, "n": 0 }] },
    ];
    assert_eq!(results(&*store, &stages, unhidden()).await.expect("results"), expected);
    let union = bson!([
        { "$match": eight_pairs() },
        { "$unionWith": { "coll": KINDS, "pipeline": [{ "$match": { "$expr": { "$gt": [{ "$size": { "$range": [0, "$least"] } }, 1] } } }] } },
        { "$group": { "_id": null, "n": { "$sum": 1 } } },
    ]);
    assert_eq!(results(&*store, &union, unhidden()).await.expect("results"), [doc! { "_id": null, "n": 4 }]);
}

pub(crate) async fn what_takes_without_end_ends_with_its_time(store: Arc<dyn Store>) {
    let text = "x".repeat(100_000);
    store_all(&*store, THINGS, &[thing(1, doc! { "text": text })]).await;
    let searches = bson!({ "$map": { "input": { "$range": [0, 4_000] }, "in": { "$indexOfCP": ["$text", "ab"] } } });
    let endless = doc! { "$expr": { "$eq": [{ "$size": searches.clone() }, 1] } };
    let short = Duration::from_millis(10);
    let query = FindQuery::new(filter(endless.clone()), short);
    assert!(matches!(store.find(THINGS, &query).await, Err(StoreError::Timeout)));
    assert!(matches!(store.count(THINGS, &query.filter, short).await, Err(StoreError::Timeout)));
    let stages = [bson!({ "$set": { "n": searches } })];
    let pipeline = Pipeline::parse(&stages, &Limits::default(), DateTime::from_millis(0)).expect("a pipeline");
    let outcome = match store.aggregate(THINGS, &AggregateQuery::new(pipeline, short)).await {
        Ok(chunks) => gathered(chunks, usize::MAX).await,
        Err(error) => Err(error),
    };
    assert!(matches!(outcome, Err(StoreError::Timeout)), "{outcome:?}");
}
