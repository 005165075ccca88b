//! Many at once: what holds for one caller holds for all of them together.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::doc;
use inventory_service::query::{Filter, Sort};
use inventory_service::store::{Change, Condition, FindQuery, Store, StoreError, Unit};
use tokio::task::JoinSet;

use super::support::{BUDGET, ids, insertion, query, raw, sort, store_all, stored, thing};
use super::units::{given_numbers, numbered};
use super::{KINDS, PLAIN, THINGS};

/// Runs one task for each number, all at once.
async fn together<T, F>(count: i32, task: impl Fn(i32) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks: JoinSet<T> = (1..=count).map(task).collect();
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result.expect("no task panics"));
    }
    results
}

fn successes(results: &[Result<Vec<u64>, StoreError>]) -> usize {
    results.iter().filter(|result| result.is_ok()).count()
}

pub(crate) async fn reserved_ids_are_consecutive(store: Arc<dyn Store>) {
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 1);
    assert_eq!(store.reserve_ids(THINGS, 5).await.expect("ids"), 2);
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 7);
    assert_eq!(store.reserve_ids(KINDS, 1).await.expect("an id"), 1);
}

pub(crate) async fn a_stored_id_is_not_reserved_again(store: Arc<dyn Store>) {
    store_all(&*store, THINGS, &[thing(40, doc! {})]).await;
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 41);
    store_all(&*store, THINGS, &[thing(7, doc! {})]).await;
    store
        .commit(Unit::of(Change::DeleteMany { collection: THINGS, filter: Filter::all() }))
        .await
        .expect("no condition");
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 42);
}

pub(crate) async fn ids_of_32_tasks_are_distinct(store: Arc<dyn Store>) {
    let task = |_| {
        let store = Arc::clone(&store);
        async move {
            let mut ids = Vec::new();
            for _ in 0..20 {
                ids.push(store.reserve_ids(THINGS, 1).await.expect("an id"));
            }
            ids
        }
    };
    let mut ids: Vec<i64> = together(32, task).await.into_iter().flatten().collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 32 * 20);
}

pub(crate) async fn inserts_of_32_tasks_are_all_stored(store: Arc<dyn Store>) {
    let task = |_| {
        let store = Arc::clone(&store);
        async move {
            for _ in 0..10 {
                let id = i32::try_from(store.reserve_ids(THINGS, 1).await.expect("an id")).expect("small");
                let unit = Unit::of(insertion(THINGS, &thing(id, doc! { "kind": id % 3 })));
                store.commit(unit).await.expect("the id is free");
            }
        }
    };
    together(32, task).await;
    let all = query(doc! {}).sorted(sort(doc! { "public_id": 1 })).limited(5);
    assert_eq!(store.page(THINGS, &all).await.expect("an answer").total, 320);
    let all = query(doc! {}).sorted(sort(doc! { "public_id": 1 }));
    let mut found = ids(&*store, THINGS, &all).await;
    found.dedup();
    assert_eq!(found.len(), 320);
}

pub(crate) async fn one_of_many_gets_a_unique_name(store: Arc<dyn Store>) {
    let task = |id| {
        let store = Arc::clone(&store);
        async move {
            let mut document = thing(id, doc! {});
            document.insert("name", "the one");
            store.commit(Unit::of(insertion(THINGS, &document))).await
        }
    };
    let results = together(16, task).await;
    assert_eq!(successes(&results), 1);
    let refused =
        results.iter().filter(|result| matches!(result, Err(StoreError::Duplicate { key, .. }) if key == "name"));
    assert_eq!(refused.count(), 15);
    assert_eq!(store.count(THINGS, &Filter::all(), BUDGET).await.expect("an answer"), 1);
}

pub(crate) async fn one_of_many_replaces_a_document(store: Arc<dyn Store>) {
    store_all(&*store, THINGS, &[thing(1, doc! { "size": 0 })]).await;
    let before = stored(&*store, THINGS, 1).await.expect("it was stored");
    let task = |size| {
        let (store, before) = (Arc::clone(&store), before.clone());
        async move {
            let after = raw(&thing(1, doc! { "size": size }));
            store.commit(Unit::of(Change::Replace { collection: THINGS, before, after })).await
        }
    };
    let results = together(16, task).await;
    assert_eq!(successes(&results), 1);
    assert_eq!(results.iter().filter(|result| matches!(result, Err(StoreError::Stale))).count(), 15);
}

pub(crate) async fn one_of_many_moves_a_scope(store: Arc<dyn Store>) {
    let task = |id| {
        let store = Arc::clone(&store);
        async move {
            let condition = Condition::Unchanged { scope: "contract.race".into(), at: 0 };
            store.commit(Unit::of(insertion(THINGS, &thing(id, doc! {}))).given(condition)).await
        }
    };
    let results = together(8, task).await;
    assert_eq!(successes(&results), 1);
    assert_eq!(results.iter().filter(|result| matches!(result, Err(StoreError::Condition { index: 0 }))).count(), 7);
    assert_eq!(store.count(THINGS, &Filter::all(), BUDGET).await.expect("an answer"), 1);
}

pub(crate) async fn an_object_never_outlives_its_kind(store: Arc<dyn Store>) {
    for round in 1..=20 {
        let kind = thing(round, doc! {});
        store_all(&*store, KINDS, std::slice::from_ref(&kind)).await;
        let delete = Unit::of(Change::Delete { collection: KINDS, before: raw(&kind) })
            .given(Condition::None { collection: THINGS, filter: Filter::equals("kind", round) });
        let insert = Unit::of(insertion(THINGS, &thing(round, doc! { "kind": round })))
            .given(Condition::Exists { collection: KINDS, filter: Filter::equals("public_id", round) });
        let units = [delete, insert];
        let task = |number: i32| {
            let unit = units[usize::from(number == 1)].clone();
            let store = Arc::clone(&store);
            async move { store.commit(unit).await }
        };
        let results = together(2, task).await;
        assert_eq!(successes(&results), 1, "{results:?}");
        let kinds = store.count(KINDS, &Filter::equals("public_id", round), BUDGET).await.expect("an answer");
        let things = store.count(THINGS, &Filter::equals("kind", round), BUDGET).await.expect("an answer");
        assert_eq!(kinds, things, "round {round}");
    }
}

pub(crate) async fn whoever_met_a_number_meets_no_smaller_one_later(store: Arc<dyn Store>) {
    let reader = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let mut known: Vec<i64> = Vec::new();
            while known.len() < 32 * 5 {
                let now = given_numbers(&*store).await;
                assert!(now.starts_with(&known), "{known:?} became {now:?}");
                known = now;
            }
        }
    });
    let write = |number| {
        let store = Arc::clone(&store);
        async move {
            for round in 0..5 {
                let unit = Unit::of(insertion(THINGS, &thing(number * 10 + round, doc! {}))).and(numbered(1, 0));
                store.commit(unit).await.expect("no condition");
            }
        }
    };
    together(32, write).await;
    reader.await.expect("the numbers came in their order");
}

pub(crate) async fn a_page_is_of_one_point_in_time(store: Arc<dyn Store>) {
    let writer = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for id in (1..200).step_by(2) {
                let pair =
                    Unit::of(insertion(PLAIN, &thing(id, doc! {}))).and(insertion(PLAIN, &thing(id + 1, doc! {})));
                store.commit(pair).await.expect("the ids are free");
            }
        })
    };
    while !writer.is_finished() {
        let found = store.find(PLAIN, &FindQuery::new(Filter::all(), BUDGET)).await.expect("an answer");
        assert_eq!(found.len() % 2, 0, "half a unit was seen");
    }
    writer.await.expect("the writer does not panic");
}

pub(crate) async fn a_frozen_store_answers_from_one_point_in_time(store: Arc<dyn Store>) {
    store_all(&*store, THINGS, &[thing(1, doc! {"size": 1}), thing(2, doc! {"size": 2})]).await;
    let (all, by_size) = (Filter::all(), query(doc! {}).sorted(sort(doc! {"size": 1})));
    // On MongoDB a new collection has no past for some seconds.
    let until = Instant::now() + Duration::from_secs(30);
    for id in 3.. {
        let frozen = store.frozen(BUDGET).await.expect("a store");
        let known = u64::try_from(id - 1).expect("a number");
        let before = stored(&*store, THINGS, 2).await.expect("it is stored");
        let after = raw(&thing(2, doc! {"size": 100 + id}));
        let replaced = Change::Replace { collection: THINGS, before, after };
        let unit = Unit::of(replaced).and(insertion(THINGS, &thing(id, doc! {"size": 0})));
        store.commit(unit).await.expect("no condition");
        let is_of_one_moment = frozen.count(THINGS, &all, BUDGET).await.expect("a number") == known;
        if !is_of_one_moment && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        }
        assert!(is_of_one_moment);
        let first = frozen.page(THINGS, &FindQuery { skip: 1, limit: 1, ..by_size.clone() }).await.expect("a page");
        assert_eq!((first.documents.len(), first.total), (1, known));
        let entry = FindQuery {
            sort: Sort::parse(&doc! {"size": -1}).expect("a sort"),
            ..query(doc! {"size": {"$gt": 100 + id - 1}})
        };
        assert!(frozen.find(THINGS, &entry).await.expect("an answer").is_empty(), "the change came later");
        assert_eq!(store.count(THINGS, &all, BUDGET).await.expect("a number"), known + 1);
        let again = frozen.frozen(BUDGET).await.expect("a store");
        assert_eq!(again.count(THINGS, &all, BUDGET).await.expect("a number"), known, "it stays frozen");
        return;
    }
}
