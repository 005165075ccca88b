//! Which pieces of memory of more than 1 MiB the embedded store asks for, from opening to closing.
//!
//! A test program of its own, because it counts what its own allocator gives away.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;
use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Bson, doc};
use inventory_service::query::{Filter, Limits, Sort};
use inventory_service::store::collections::{ALL, OBJECTS};
use inventory_service::store::embedded::{EmbeddedStore, Options, maintenance};
use inventory_service::store::{Change, FileStore, FindQuery, Store, Unit};
use tokio::task::JoinSet;
use tracking_allocator::{AllocationGroupId, AllocationRegistry, AllocationTracker, Allocator};

#[global_allocator]
static ALLOCATOR: Allocator<System> = Allocator::system();

const LARGE: usize = 1024 * 1024;
const BUDGET: Duration = Duration::from_mins(1);
const CLIENTS: i64 = 16;

/// What was asked for: the size, and who asked.
static ASKED: Mutex<Vec<(usize, String)>> = Mutex::new(Vec::new());

struct Tracker;

impl AllocationTracker for Tracker {
    fn allocated(&self, _: usize, size: usize, _: usize, _: AllocationGroupId) {
        if size > LARGE {
            ASKED.lock().unwrap().push((size, asker(&Backtrace::force_capture().to_string())));
        }
    }

    fn deallocated(&self, _: usize, _: usize, _: usize, _: AllocationGroupId, _: AllocationGroupId) {}
}

/// The functions of the store and of redb on the way to an allocation, the innermost first.
fn asker(backtrace: &str) -> String {
    let functions = backtrace.lines().filter_map(|line| Some(line.trim().split_once(": ")?.1));
    let own =
        functions.filter(|function| function.starts_with("inventory_service::") || function.starts_with("redb::"));
    own.take(4).collect::<Vec<_>>().join(" < ")
}

/// The maximum size of one allocation, in MiB: where, how much, and why.
const ALLOWED: &[(&str, usize, &str)] =
    &[("redb::tree_store::btree_base::OwnedEntryBuffer", 2, "what a copy appends to a table, a piece at a time")];

/// What was asked for since the last call, with how often, and the largest size.
fn asked() -> BTreeMap<String, (usize, usize)> {
    let mut by_asker: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (size, asker) in ASKED.lock().unwrap().drain(..) {
        let (count, largest) = by_asker.entry(asker).or_default();
        (*count, *largest) = (*count + 1, size.max(*largest));
    }
    by_asker
}

/// An object of about 1 KB.
fn object(id: i64) -> RawDocumentBuf {
    let fields: Vec<Bson> = (0..12)
        .map(|number| doc! { "name": format!("field-{number}"), "value": format!("{number}-{}", id * 7919 % 100_003) })
        .map(Bson::Document)
        .collect();
    let document = doc! {
        "_id": id, "public_id": id, "type_id": id % 20, "active": true, "note": "x".repeat(300), "fields": fields,
    };
    RawDocumentBuf::try_from(document).unwrap()
}

async fn insert(store: &Arc<EmbeddedStore>, objects: i64) {
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let store = Arc::clone(store);
        clients.spawn(async move {
            for id in (client..objects).step_by(16) {
                let unit = Unit::of(Change::Insert { collection: OBJECTS, document: object(id) });
                store.commit(unit).await.unwrap();
            }
        });
    }
    clients.join_all().await;
}

fn filter(filter: bson::Document) -> Filter {
    Filter::parse(&filter, &Limits::default()).unwrap()
}

async fn read(store: &EmbeddedStore, objects: i64) {
    for id in 0..objects.min(500) {
        let one = FindQuery::new(Filter::equals("public_id", id), BUDGET);
        assert_eq!(store.find(OBJECTS, &one).await.unwrap().len(), 1);
    }
}

async fn pages(store: &EmbeddedStore, objects: i64) {
    for sort in ["public_id", "type_id", "note"] {
        let query = FindQuery::new(filter(doc! { "type_id": { "$gte": 3 } }), BUDGET);
        let page = store.page(OBJECTS, &query.sorted(Sort::by(sort, true)).limited(100)).await.unwrap();
        assert!(page.total > objects.unsigned_abs() / 2);
    }
    let field = doc! { "fields": { "$elemMatch": { "name": "field-3", "value": "3-7919" } } };
    assert_eq!(store.find(OBJECTS, &FindQuery::new(filter(field), BUDGET)).await.unwrap().len(), 1);
}

async fn scan(store: &EmbeddedStore, objects: i64) {
    let nothing = filter(doc! { "note": { "$regex": "y" } });
    assert_eq!(store.count(OBJECTS, &nothing, BUDGET).await.unwrap(), 0);
    assert_eq!(store.count(OBJECTS, &Filter::all(), BUDGET).await.unwrap(), objects.unsigned_abs());
}

async fn delete(store: &EmbeddedStore, objects: i64) {
    for id in 0..objects.min(1000) {
        let unit = Unit::of(Change::Delete { collection: OBJECTS, before: object(id) });
        store.commit(unit).await.unwrap();
    }
    let most =
        Change::DeleteMany { collection: OBJECTS, filter: filter(doc! { "public_id": { "$gte": objects / 2 } }) };
    store.commit(Unit::of(most)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_step_of_a_usual_day_asks_for_a_large_piece_of_memory() {
    #[expect(clippy::disallowed_methods, reason = "a setting of the tests, not of the service")]
    let objects = std::env::var("INVENTORY_ALLOCATED_OBJECTS").map_or(10_000, |objects| objects.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    AllocationRegistry::set_global_tracker(Tracker).unwrap();
    AllocationRegistry::enable_tracking();
    let mut found = Vec::new();
    let mut step = |name: &'static str| found.push((name, asked()));
    let open = || Arc::new(EmbeddedStore::open(directory.path(), &Options::default()).unwrap());
    let store = open();
    step("open a new store");
    store.prepare(ALL).await.unwrap();
    step("declare");
    insert(&store, objects).await;
    step("insert");
    read(&store, objects).await;
    step("read");
    pages(&store, objects).await;
    step("pages");
    scan(&store, objects).await;
    step("scan");
    drop(store.backup().await.unwrap());
    step("backup");
    drop(store);
    step("close");
    let store = open();
    step("open");
    delete(&store, objects).await;
    step("delete");
    drop(store);
    step("close again");
    assert!(maintenance::check(directory.path(), &Options::default()).unwrap().is_sound());
    step("check");
    maintenance::compact(directory.path(), &Options::default()).unwrap();
    step("compact");
    let mut wrong = Vec::new();
    for (step, asked) in found {
        for (asker, (count, largest)) in asked {
            let line = format!("{step}: {count} times, at most {} KiB: {asker}", largest / 1024);
            let is_allowed =
                ALLOWED.iter().any(|(place, most, _)| asker.contains(place) && largest <= most * 1024 * 1024);
            eprintln!("{line}");
            wrong.extend((!is_allowed).then_some(line));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
