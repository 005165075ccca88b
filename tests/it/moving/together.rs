//! Instances that start together: changes of how documents are stored are made once, and by somebody else when the first one dies.

use std::sync::Arc;
use std::time::Duration;

use bson::{DateTime, doc};
use inventory_service::app::open_store;
use inventory_service::domain::document::raw;
use inventory_service::query::Filter;
use inventory_service::service::upkeep::lease::LeaseTimes;
use inventory_service::service::upkeep::migrations::{Migration, MigrationState, made, run_together, state};
use inventory_service::store::collections::{self, MIGRATIONS};
use inventory_service::store::{Change, Store, StoreError, Unit};

use super::{Place, on_each_kind, settings};

const MAX_TIME: Duration = Duration::from_secs(10);
const NOW: DateTime = DateTime::from_millis(1_700_000_000_000);
/// Long enough for a machine that is busy, short enough for a test.
const TIMES: LeaseTimes = LeaseTimes { beat: Duration::from_millis(100), abandoned_after: Duration::from_secs(2) };

const SLOW: Migration = Migration { number: 1, name: "takes its time", run: |store, _| Box::pin(slow(store)) };

/// Leaves one trace each time it is run, after longer than a sign of life takes.
async fn slow(store: &dyn Store) -> Result<(), StoreError> {
    tokio::time::sleep(TIMES.beat * 5).await;
    let document = raw(&doc! {"_id": bson::oid::ObjectId::new()});
    store.commit(Unit::of(Change::Insert { collection: "trace", document })).await.map(drop)
}

async fn traces(store: &dyn Store) -> u64 {
    store.count("trace", &Filter::all(), MAX_TIME).await.expect("a number")
}

/// Two instances on one store: on MongoDB with connections of their own.
async fn instances(place: &Place) -> [Arc<dyn Store>; 2] {
    let uri = place.new_uri();
    let one = open_store(&settings(&uri).store).await.expect("the store opens");
    one.prepare(collections::ALL).await.expect("collections");
    let two = if uri.starts_with("mongodb") {
        open_store(&settings(&uri).store).await.expect("the store opens")
    } else {
        Arc::clone(&one)
    };
    [one, two]
}

on_each_kind! {
    async fn of_two_that_start_together_one_migrates_and_the_other_waits(place) {
        let [one, two] = instances(place).await;
        let run = |store: Arc<dyn Store>| async move { run_together(&*store, &[SLOW], NOW, MAX_TIME, TIMES).await };
        let (first, second) = tokio::join!(run(Arc::clone(&one)), run(two));
        first.expect("migrated");
        second.expect("migrated by the other one");
        assert_eq!(traces(&*one).await, 1);
        assert_eq!(state(&*one, &[SLOW], MAX_TIME).await.expect("a state"), MigrationState::Done);
        let made = made(&*one, MAX_TIME).await.expect("a list");
        assert_eq!((made.len(), made[0].number, made[0].name.as_str(), made[0].at), (1, 1, "takes its time", NOW));
        assert_eq!(one.count(MIGRATIONS, &Filter::all(), MAX_TIME).await.expect("a number"), 1, "no lease is left");
    }

    async fn the_lease_of_one_that_died_is_taken_over(place) {
        let [one, _] = instances(place).await;
        let dead = raw(&doc! {"_id": "lease", "holder": "nobody any more", "beat": 7_i64});
        one.commit(Unit::of(Change::Insert { collection: MIGRATIONS, document: dead })).await.expect("a lease");
        run_together(&*one, &[SLOW], NOW, MAX_TIME, TIMES).await.expect("migrated");
        assert_eq!(traces(&*one).await, 1);
    }

    async fn one_whose_lease_was_taken_over_stops(place) {
        let [one, two] = instances(place).await;
        let other = async {
            // As an instance that took the first one for dead: it writes its own name into the lease.
            loop {
                let taken = Change::UpdateMany {
                    collection: MIGRATIONS,
                    filter: Filter::equals("_id", "lease"),
                    update: inventory_service::query::Update::set("holder", "another one"),
                };
                if two.commit(Unit::of(taken)).await.expect("an update") == [1] {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let (outcome, ()) = tokio::join!(run_together(&*one, &[SLOW], NOW, MAX_TIME, TIMES), other);
        let error = outcome.expect_err("it has to stop").to_string();
        assert!(error.contains("another instance took over"), "{error}");
        assert_eq!(state(&*one, &[SLOW], MAX_TIME).await.expect("a state"), MigrationState::Pending(vec![1]));
    }
}
