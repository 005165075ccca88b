//! What runs where, and that waiting for a thread is part of a query's time.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use bson::{Document, doc};
use futures::{StreamExt, poll};
use tokio::runtime::{Builder, Runtime};

use super::memory::Memory;
use super::space::{THINGS, filled};
use super::{options, start};
use crate::query::{Filter, Limits, Projection};
use crate::store::embedded::EmbeddedStore;
use crate::store::{FindQuery, Store, StoreError};

/// Enough for everything that is answered at all.
const BUDGET: Duration = Duration::from_mins(1);

/// One worker, and one thread for what takes long.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().max_blocking_threads(1).build().expect("a runtime")
}

/// More documents than are read on the calling thread.
fn store(runtime: &Runtime) -> EmbeddedStore {
    let store = start(&Memory::of(BTreeMap::new()), &options());
    runtime.block_on(filled(&store, 200));
    store
}

#[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
fn filter(filter: Document) -> Filter {
    Filter::parse(&filter, &Limits::default()).expect("filters of tests are right")
}

#[expect(clippy::needless_pass_by_value, reason = "tests read better without the references")]
fn projection(projection: Document) -> Projection {
    Projection::parse(&projection, &Filter::all()).expect("projections of tests are right")
}

/// Keeps the one thread busy until the sender is dropped.
fn occupy() -> Sender<()> {
    let (sender, receiver) = channel::<()>();
    tokio::task::spawn_blocking(move || receiver.recv().ok());
    sender
}

/// Whether a query is answered on the thread of its caller: the other one is busy.
async fn is_answered_here<T>(ask: impl Future<Output = Result<T, StoreError>>) -> bool {
    let busy = occupy();
    let mut ask = std::pin::pin!(ask);
    let is_answered = poll!(ask.as_mut()).is_ready();
    drop(busy);
    if !is_answered {
        assert!(ask.await.is_ok());
    }
    is_answered
}

#[test]
fn few_documents_are_read_here_and_what_clients_compute_is_not() {
    let runtime = runtime();
    let store = store(&runtime);
    let key = || FindQuery::new(filter(doc! { "public_id": 7 }), BUDGET);
    let computed = FindQuery { projection: Some(projection(doc! { "n": { "$add": ["$rank", 1] } })), ..key() };
    let expression = filter(doc! { "public_id": 7, "$expr": { "$gt": ["$public_id", 3] } });
    let regex = filter(doc! { "public_id": 7, "text": { "$regex": "(x+)+y" } });
    runtime.block_on(async {
        assert!(is_answered_here(store.find(THINGS, &key())).await);
        assert!(is_answered_here(store.page(THINGS, &key())).await);
        assert!(is_answered_here(store.count(THINGS, &key().filter, BUDGET)).await);
        let few = filter(doc! { "public_id": { "$lt": 100 }, "text": { "$ne": "y" } });
        assert!(is_answered_here(store.page(THINGS, &FindQuery::new(few.clone(), BUDGET))).await);
        assert!(is_answered_here(store.count(THINGS, &few, BUDGET)).await);
        assert!(!is_answered_here(store.find(THINGS, &computed)).await);
        for costly in [expression, regex] {
            assert!(!is_answered_here(store.find(THINGS, &FindQuery::new(costly.clone(), BUDGET))).await);
            assert!(!is_answered_here(store.count(THINGS, &costly, BUDGET)).await);
        }
        assert!(!is_answered_here(store.find(THINGS, &FindQuery::new(Filter::all(), BUDGET))).await);
    });
}

/// Runs a query while the thread is busy, until its time is over.
async fn after_its_time<T>(ask: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let (busy, mut ask) = (occupy(), std::pin::pin!(ask));
    assert!(poll!(ask.as_mut()).is_pending());
    // Its time has begun by now.
    let asked = Instant::now();
    while asked.elapsed() <= SHORT {
        std::thread::yield_now();
    }
    drop(busy);
    ask.await
}

/// Plenty for a query on 200 documents that has a thread.
const SHORT: Duration = Duration::from_millis(5);

#[test]
fn waiting_for_a_thread_takes_of_the_time_of_a_question() {
    let runtime = runtime();
    let store = store(&runtime);
    let query = FindQuery::new(filter(doc! { "text": { "$ne": "y" } }), SHORT);
    runtime.block_on(async {
        assert!(matches!(after_its_time(store.find(THINGS, &query)).await, Err(StoreError::Timeout)));
        assert!(matches!(after_its_time(store.page(THINGS, &query)).await, Err(StoreError::Timeout)));
        assert!(matches!(after_its_time(store.explain(THINGS, &query)).await, Err(StoreError::Timeout)));
        assert!(matches!(after_its_time(store.chunks(THINGS, &query)).await.map(drop), Err(StoreError::Timeout)));
        let counted = after_its_time(store.count(THINGS, &query.filter, SHORT)).await;
        assert!(matches!(counted, Err(StoreError::Timeout)), "{counted:?}");
    });
}

#[test]
fn waiting_for_a_thread_takes_of_the_time_of_a_chunk() {
    let runtime = runtime();
    let store = store(&runtime);
    // Computed, so that the clock is looked at for each document.
    let query = FindQuery {
        projection: Some(projection(doc! { "n": { "$add": ["$rank", 1] } })),
        ..FindQuery::new(filter(doc! { "text": { "$ne": "y" } }), Duration::from_millis(200))
    };
    runtime.block_on(async {
        let mut chunks = store.chunks(THINGS, &query).await.expect("there is time").documents;
        let busy = occupy();
        let mut next = std::pin::pin!(chunks.next());
        assert!(poll!(next.as_mut()).is_pending());
        let asked = Instant::now();
        while asked.elapsed() <= query.max_time {
            std::thread::yield_now();
        }
        drop(busy);
        let chunk = next.await.expect("a chunk");
        assert!(matches!(chunk, Err(StoreError::Timeout)), "{chunk:?}");
    });
}
