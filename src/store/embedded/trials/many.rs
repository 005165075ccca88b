//! Changes of very many documents: in parts of one transaction, with the same promises as a small change.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::doc;
use futures::future::join_all;

use super::assert_whole;
use super::memory::Memory;
use super::space::{THINGS, document, filled};
use super::{options, start};
use crate::query::{Filter, Limits, Update};
use crate::store::embedded::EmbeddedStore;
use crate::store::{Change, Store, StoreError, Unit};

/// Far more than the notes of a unit hold in tests.
const DOCUMENTS: usize = 1_000;
const BUDGET: Duration = Duration::from_mins(1);

fn below(bound: i64) -> Filter {
    Filter::parse(&doc! { "public_id": { "$lt": bound } }, &Limits::default()).expect("a filter")
}

async fn store_of_many() -> EmbeddedStore {
    let store = start(&Memory::of(BTreeMap::new()), &options());
    filled(&store, DOCUMENTS).await;
    store
}

async fn count(store: &EmbeddedStore, filter: &Filter) -> u64 {
    store.count(THINGS, filter, BUDGET).await.expect("an answer")
}

fn update_all(rank: i64) -> Change {
    Change::UpdateMany { collection: THINGS, filter: below(900), update: Update::set("rank", rank) }
}

#[tokio::test]
async fn many_documents_are_changed_and_deleted_as_a_whole() {
    let store = store_of_many().await;
    let revision = store.revision(THINGS);
    assert_eq!(store.commit(Unit::of(update_all(7))).await.expect("no condition"), [900]);
    assert_eq!(count(&store, &Filter::equals("rank", 7_i64)).await, 900);
    assert!(store.revision(THINGS) > revision);
    assert_whole(&store).await;
    let removal = Change::DeleteMany { collection: THINGS, filter: below(950) };
    assert_eq!(store.commit(Unit::of(removal)).await.expect("no condition"), [950]);
    assert_eq!(count(&store, &Filter::all()).await, 50);
    assert_whole(&store).await;
}

#[tokio::test]
async fn a_refusal_behind_many_changes_leaves_no_trace_of_them() {
    let store = store_of_many().await;
    let revision = store.revision(THINGS);
    let taken = Change::Insert { collection: THINGS, document: document(5, 1) };
    let refused = store.commit(Unit::of(update_all(7)).and(taken)).await;
    assert!(matches!(refused, Err(StoreError::Duplicate { .. })), "{refused:?}");
    assert_eq!(count(&store, &Filter::equals("rank", 7_i64)).await, 0);
    assert_eq!(store.revision(THINGS), revision);
    assert_whole(&store).await;
}

#[tokio::test]
async fn neighbours_of_a_large_change_are_written_whatever_becomes_of_it() {
    let store = store_of_many().await;
    let insertion = |id| Unit::of(Change::Insert { collection: THINGS, document: document(id, 1) });
    let large = Unit::of(update_all(8));
    let failing = Unit::of(update_all(9)).and(Change::Insert { collection: THINGS, document: document(5, 1) });
    let units = [insertion(2_001), large, insertion(2_002), failing, insertion(2_003)];
    let outcomes = join_all(units.map(|unit| store.commit(unit))).await;
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, true, false, true]);
    assert_eq!(count(&store, &Filter::equals("rank", 8_i64)).await, 900);
    assert_eq!(count(&store, &Filter::equals("rank", 1_i64)).await, 3);
    assert_whole(&store).await;
}
