//! Units, ids and removals that meet each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Document, doc, rawdoc};
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::query::{Filter, Update};
use inventory_service::store::collections::{CATEGORIES, GROUPS, OBJECTS, TYPES, USERS};
use inventory_service::store::mongo::MongoStore;
use inventory_service::store::{Change, Condition, FindQuery, SCOPES, Store, StoreError, Unit, scope_version};

use super::{BUDGET, connect, count, database, insert, no_objects_of, object, object_type, store_on, type_exists};

const TASKS: usize = 32;

/// Many insert objects of a type while another removes it, from two instances.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_object_is_acknowledged_whose_type_was_removed() {
    let Some((store, server, uri)) = store_on().await else { return };
    let instances = [Arc::clone(&store), connect(&uri).await];
    let ids = Arc::new(AtomicI64::new(1));
    let (mut kept, mut removed) = (0, 0);
    for round in 1..=24_i64 {
        let document = object_type(round);
        store.commit(Unit::of(insert(TYPES, document.clone()))).await.expect("the type is new");
        let is_over = Arc::new(AtomicBool::new(false));
        let inserting: Vec<_> = (0..TASKS)
            .map(|task| {
                let store = Arc::clone(&instances[task % 2]);
                tokio::spawn(insert_while(store, Arc::clone(&ids), round, Arc::clone(&is_over)))
            })
            .collect();
        let unit = Unit::of(Change::Delete { collection: TYPES, before: document }).given(no_objects_of(round));
        let outcome = store.commit(unit).await;
        is_over.store(true, Ordering::Relaxed);
        let mut acknowledged = BTreeSet::new();
        for task in inserting {
            acknowledged.extend(task.await.expect("no task panics"));
        }
        match outcome {
            Ok(touched) => {
                removed += 1;
                assert_eq!(touched, [1]);
                assert!(acknowledged.is_empty(), "round {round}: acknowledged and removed");
            }
            Err(StoreError::Condition { index: 0 }) => kept += 1,
            Err(other) => panic!("round {round}: {other:?}"),
        }
        let query = FindQuery::new(Filter::equals("type_id", round), BUDGET);
        let found = store.find(OBJECTS, &query).await.expect("the server answers");
        let stored: BTreeSet<i64> = found.iter().map(|object| object.get_i64("public_id").expect("an id")).collect();
        assert_eq!(stored, acknowledged, "round {round}: stored and acknowledged differ");
    }
    println!("{kept} types kept, {removed} removed");
    let marks = database(server, &uri).await.collection::<Document>("service.removals");
    assert_eq!(marks.count_documents(doc! {}).await.expect("the server counts"), 0, "marks were left");
}

/// Inserts a few objects of a type while it is there; returns the ids of those that were acknowledged.
async fn insert_while(store: Arc<MongoStore>, ids: Arc<AtomicI64>, type_id: i64, is_over: Arc<AtomicBool>) -> Vec<i64> {
    // The first rounds begin with inserts, in the later ones the removal has ever more of a lead.
    tokio::time::sleep(Duration::from_micros(type_id.unsigned_abs() * 150)).await;
    let mut acknowledged = Vec::new();
    while !is_over.load(Ordering::Relaxed) && acknowledged.len() < 2 {
        let id = ids.fetch_add(1, Ordering::Relaxed);
        let unit = Unit::of(insert(OBJECTS, object(id, type_id))).given(type_exists(type_id));
        match store.commit(unit).await {
            Ok(_) => acknowledged.push(id),
            Err(StoreError::Condition { index: 0 }) => break,
            Err(other) => panic!("type {type_id}: {other:?}"),
        }
    }
    acknowledged
}

/// Two groups are removed at once, each with its users moving to the other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_moved_into_each_other_at_once_leave_everybody_in_a_group() {
    let Some((store, ..)) = store_on().await else { return };
    for round in 0..6_i64 {
        let (one, two) = (10 * round + 1, 10 * round + 2);
        let groups = [one, two].map(|id| rawdoc! { "_id": id, "public_id": id, "name": format!("group {id}") });
        let mut unit = Unit::default();
        for (id, group) in [one, two].into_iter().zip(&groups) {
            let user = rawdoc! { "_id": id, "public_id": id, "group_id": id };
            unit = unit.and(insert(GROUPS, group.clone())).and(insert(USERS, user));
        }
        store.commit(unit).await.expect("new");
        let moving = |from: i64, to: i64, group: &RawDocumentBuf| {
            Unit::of(Change::UpdateMany {
                collection: USERS,
                filter: Filter::equals("group_id", from),
                update: Update::set("group_id", to),
            })
            .and(Change::Delete { collection: GROUPS, before: group.clone() })
            .given(Condition::Exists { collection: GROUPS, filter: Filter::equals("public_id", to) })
        };
        let (forth, back) = (moving(one, two, &groups[0]), moving(two, one, &groups[1]));
        let outcomes = tokio::join!(store.commit(forth), store.commit(back));
        let left = match outcomes {
            (Ok(touched), Err(StoreError::Condition { index: 0 })) => {
                assert_eq!(touched, [1, 1]);
                two
            }
            (Err(StoreError::Condition { index: 0 }), Ok(_)) => one,
            other => panic!("{other:?}"),
        };
        let in_it = Filter::equals("group_id", left);
        assert_eq!(count(&store, USERS, in_it.and(Filter::one_of("public_id", [one, two]))).await, 2);
    }
}

/// A type and its objects go in one unit, without a condition on objects, while objects are inserted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cascade_leaves_no_object_behind() {
    let Some((store, ..)) = store_on().await else { return };
    let ids = Arc::new(AtomicI64::new(1));
    for round in 1..=8_i64 {
        let document = object_type(round);
        store.commit(Unit::of(insert(TYPES, document.clone()))).await.expect("the type is new");
        let inserting: Vec<_> = (0..8)
            .map(|_| {
                let (store, ids) = (Arc::clone(&store), Arc::clone(&ids));
                tokio::spawn(async move {
                    loop {
                        let id = ids.fetch_add(1, Ordering::Relaxed);
                        let unit = Unit::of(insert(OBJECTS, object(id, round))).given(type_exists(round));
                        match store.commit(unit).await {
                            Ok(_) => {}
                            Err(StoreError::Condition { .. }) => return,
                            Err(other) => panic!("{other:?}"),
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(30)).await;
        let unit = Unit::of(Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("type_id", round) })
            .and(Change::Delete { collection: TYPES, before: document });
        store.commit(unit).await.expect("the cascade goes through");
        for task in inserting {
            task.await.expect("no task panics");
        }
        assert_eq!(count(&store, OBJECTS, Filter::equals("type_id", round)).await, 0, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_many_units_of_the_same_scope_takes_effect() {
    let Some((store, _, uri)) = store_on().await else { return };
    let other = connect(&uri).await;
    for round in 0..4_i64 {
        let at = scope_version(&*store, CATEGORIES, BUDGET).await.expect("the server answers");
        let tasks: Vec<_> = (0..8_i64)
            .map(|task| {
                let store = Arc::clone(if task % 2 == 0 { &store } else { &other });
                let id = round * 8 + task + 1;
                let document = rawdoc! { "_id": ObjectId::new(), "public_id": id, "name": format!("category {id}") };
                let unit =
                    Unit::of(insert(CATEGORIES, document)).given(Condition::Unchanged { scope: CATEGORIES.into(), at });
                tokio::spawn(async move { store.commit(unit).await })
            })
            .collect();
        let mut taken = 0;
        for task in tasks {
            match task.await.expect("no task panics") {
                Ok(_) => taken += 1,
                Err(StoreError::Condition { index: 0 }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(taken, 1);
        assert_ne!(scope_version(&*store, CATEGORIES, BUDGET).await.expect("the server answers"), at);
    }
    assert_eq!(count(&store, CATEGORIES, Filter::all()).await, 4);
    assert_eq!(count(&store, SCOPES, Filter::all()).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_one_of_many_replaces_of_the_same_document_takes_effect() {
    let Some((store, ..)) = store_on().await else { return };
    let before =
        rawdoc! { "_id": ObjectId::new(), "public_id": 1_i64, "odd": { "$add": [1, 2], "a.b": f64::NAN, "": "$_id" } };
    store.commit(Unit::of(insert(OBJECTS, before.clone()))).await.expect("new");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let mut after = Document::try_from(&before).expect("a document");
            after.insert("task", i64::try_from(task).expect("small"));
            let after = RawDocumentBuf::try_from(&after).expect("a document");
            let unit = Unit::of(Change::Replace { collection: OBJECTS, before: before.clone(), after });
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(unit).await })
        })
        .collect();
    let mut taken = 0;
    for task in tasks {
        match task.await.expect("no task panics") {
            Ok(touched) => {
                assert_eq!(touched, [1]);
                taken += 1;
            }
            Err(StoreError::Stale) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(taken, 1);
    let gone = store.commit(Unit::of(Change::Delete { collection: OBJECTS, before })).await;
    assert!(matches!(gone, Err(StoreError::Stale)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_taken_by_many_at_once_are_distinct_and_without_gaps() {
    let Some((store, _, uri)) = store_on().await else { return };
    let other = connect(&uri).await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let store = Arc::clone(if task % 2 == 0 { &store } else { &other });
            tokio::spawn(async move {
                let mut taken = Vec::new();
                for count in 1..=8_u32 {
                    let first = store.reserve_ids(OBJECTS, count).await.expect("the server answers");
                    taken.extend(first..first + i64::from(count));
                }
                taken
            })
        })
        .collect();
    let mut taken = Vec::new();
    for task in tasks {
        taken.extend(task.await.expect("no task panics"));
    }
    taken.sort_unstable();
    let expected: Vec<i64> = (1..=i64::try_from(TASKS * 36).expect("small")).collect();
    assert_eq!(taken, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_a_process_left_behind_is_ended() {
    let Some((store, server, uri)) = store_on().await else { return };
    store.commit(Unit::of(insert(TYPES, object_type(1)))).await.expect("new");
    let database = database(server, &uri).await;
    let mut session = database.client().start_session().await.expect("a session");
    session.start_transaction().await.expect("a transaction");
    let locked = doc! { "$inc": { "units": 1_i64 } };
    let counters = database.collection::<Document>("service.counters");
    counters.update_one(doc! { "_id": "service.history" }, locked).session(&mut session).await.expect("locked");
    let long_ago = bson::DateTime::from_chrono(SystemClock.now() - chrono::TimeDelta::minutes(1));
    let writer = doc! { "_id": session.id().get("id"), "seen": long_ago };
    database.collection::<Document>("service.writers").insert_one(writer).await.expect("it was seen once");
    store.commit(Unit::of(insert(OBJECTS, object(1, 1))).given(type_exists(1))).await.expect("the type exists");
    assert!(session.commit_transaction().await.is_err(), "it was ended");
}
