//! Changes: whole or not at all, conditions, what is refused and why.

use std::sync::Arc;

use bson::raw::RawDocumentBuf;
use bson::{doc, rawdoc};
use inventory_service::query::{Filter, Update};
use inventory_service::store::{Change, Condition, Numbered, Store, StoreError, Unit, scope_version};

use super::support::{
    BUDGET, duplicate_key, filter, ids, insertion, numbers, query, raw, sort, store_all, stored, thing,
};
use super::{COLLECTIONS, KINDS, PLAIN, THINGS};

const SCOPE: &str = "contract.scope";

fn replacement(before: RawDocumentBuf, after: &bson::Document) -> Change {
    Change::Replace { collection: THINGS, before, after: raw(after) }
}

fn deletion(before: RawDocumentBuf) -> Change {
    Change::Delete { collection: THINGS, before }
}

async fn one(store: &dyn Store) -> RawDocumentBuf {
    store_all(store, THINGS, &[thing(1, doc! { "size": 1 })]).await;
    stored(store, THINGS, 1).await.expect("it was stored")
}

pub(crate) async fn an_inserted_document_is_found(store: Arc<dyn Store>) {
    let counts = store.commit(Unit::of(insertion(THINGS, &thing(1, doc! {})))).await.expect("it can be stored");
    assert_eq!(counts, [1]);
    assert_eq!(ids(&*store, THINGS, &query(doc! { "public_id": 1 })).await, numbers(&[1]));
}

pub(crate) async fn a_taken_key_is_refused_and_named(store: Arc<dyn Store>) {
    one(&*store).await;
    let mut other = thing(2, doc! {});
    other.insert("name", "thing 1");
    assert_eq!(duplicate_key(store.commit(Unit::of(insertion(THINGS, &other))).await), "name");
    let mut other = thing(2, doc! {});
    other.insert("public_id", 1);
    assert_eq!(duplicate_key(store.commit(Unit::of(insertion(THINGS, &other))).await), "public_id");
    assert_eq!(ids(&*store, THINGS, &query(doc! {})).await, numbers(&[1]));
}

pub(crate) async fn a_taken_primary_key_is_refused_and_named(store: Arc<dyn Store>) {
    let document = doc! { "_id": { "a": 1 } };
    store_all(&*store, PLAIN, std::slice::from_ref(&document)).await;
    assert_eq!(duplicate_key(store.commit(Unit::of(insertion(PLAIN, &document))).await), "_id");
}

pub(crate) async fn two_documents_without_a_unique_key_are_refused(store: Arc<dyn Store>) {
    store_all(&*store, THINGS, &[doc! { "_id": 1, "public_id": 1 }]).await;
    let second = doc! { "_id": 2, "public_id": 2, "name": bson::Bson::Null };
    assert_eq!(duplicate_key(store.commit(Unit::of(insertion(THINGS, &second))).await), "name");
}

pub(crate) async fn a_key_is_free_again_after_a_delete(store: Arc<dyn Store>) {
    let before = one(&*store).await;
    assert_eq!(store.commit(Unit::of(deletion(before))).await.expect("it was not changed"), [1]);
    assert_eq!(stored(&*store, THINGS, 1).await, None);
    store_all(&*store, THINGS, &[thing(1, doc! { "size": 2 })]).await;
    assert_eq!(ids(&*store, THINGS, &query(doc! { "name": "thing 1" })).await, numbers(&[1]));
}

pub(crate) async fn a_replaced_document_is_another_one(store: Arc<dyn Store>) {
    let before = one(&*store).await;
    let after = thing(1, doc! { "size": 2, "new": [1, 2] });
    assert_eq!(store.commit(Unit::of(replacement(before, &after))).await.expect("it was not changed"), [1]);
    assert_eq!(stored(&*store, THINGS, 1).await, Some(raw(&after)));
}

pub(crate) async fn replacing_what_changed_is_stale(store: Arc<dyn Store>) {
    let before = one(&*store).await;
    let second = thing(1, doc! { "size": 2 });
    store.commit(Unit::of(replacement(before.clone(), &second))).await.expect("it was not changed");
    let late = store.commit(Unit::of(replacement(before.clone(), &thing(1, doc! { "size": 3 })))).await;
    assert!(matches!(late, Err(StoreError::Stale)), "{late:?}");
    assert_eq!(stored(&*store, THINGS, 1).await, Some(raw(&second)));
    store.commit(Unit::of(deletion(raw(&second)))).await.expect("it was not changed");
    let gone = store.commit(Unit::of(replacement(before, &thing(1, doc! {})))).await;
    assert!(matches!(gone, Err(StoreError::Stale)), "{gone:?}");
}

pub(crate) async fn deleting_what_changed_is_stale(store: Arc<dyn Store>) {
    let before = one(&*store).await;
    // Equal in value, not in bytes: someone wrote it all the same.
    let second = thing(1, doc! { "size": 1.0 });
    store.commit(Unit::of(replacement(before.clone(), &second))).await.expect("it was not changed");
    let late = store.commit(Unit::of(deletion(before))).await;
    assert!(matches!(late, Err(StoreError::Stale)), "{late:?}");
    assert_eq!(stored(&*store, THINGS, 1).await, Some(raw(&second)));
}

pub(crate) async fn replacing_into_a_taken_key_is_refused(store: Arc<dyn Store>) {
    let before = one(&*store).await;
    store_all(&*store, THINGS, &[thing(2, doc! {})]).await;
    let mut after = thing(1, doc! {});
    after.insert("name", "thing 2");
    assert_eq!(duplicate_key(store.commit(Unit::of(replacement(before.clone(), &after))).await), "name");
    assert_eq!(stored(&*store, THINGS, 1).await, Some(before));
}

pub(crate) async fn a_unit_happens_as_a_whole(store: Arc<dyn Store>) {
    let before = one(&*store).await;
    let unit = Unit::of(insertion(KINDS, &thing(7, doc! {})))
        .and(replacement(before.clone(), &thing(1, doc! { "size": 5, "tags": ["new"] })))
        .and(Change::DeleteMany { collection: THINGS, filter: filter(doc! { "tags": "new" }) })
        .and(insertion(THINGS, &thing(3, doc! {})))
        .and(insertion(THINGS, &doc! { "_id": 4, "public_id": 3, "name": "four" }));
    assert_eq!(duplicate_key(store.commit(unit).await), "public_id");
    assert_eq!(stored(&*store, THINGS, 1).await, Some(before));
    assert_eq!(ids(&*store, THINGS, &query(doc! {})).await, numbers(&[1]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "tags": "new" })).await, numbers(&[]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "size": 1 })).await, numbers(&[1]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "name": "thing 3" })).await, numbers(&[]));
    assert_eq!(ids(&*store, KINDS, &query(doc! {})).await, numbers(&[]));
    store_all(&*store, THINGS, &[thing(3, doc! {})]).await;
}

pub(crate) async fn later_changes_see_earlier_ones(store: Arc<dyn Store>) {
    let before = one(&*store).await;
    let again = thing(1, doc! { "size": 2 });
    let last = thing(1, doc! { "size": 3 });
    let unit = Unit::of(deletion(before)).and(insertion(THINGS, &again)).and(replacement(raw(&again), &last)).and(
        Change::UpdateMany {
            collection: THINGS,
            filter: filter(doc! { "size": 3 }),
            update: Update::set("seen", true),
        },
    );
    assert_eq!(store.commit(unit).await.expect("each fits the one before"), [1, 1, 1, 1]);
    assert_eq!(stored(&*store, THINGS, 1).await, Some(raw(&thing(1, doc! { "size": 3, "seen": true }))));
}

pub(crate) async fn changes_tell_how_many_documents_they_touched(store: Arc<dyn Store>) {
    store_all(
        &*store,
        THINGS,
        &[thing(1, doc! { "kind": 1 }), thing(2, doc! { "kind": 1 }), thing(3, doc! { "kind": 2 })],
    )
    .await;
    let unit = Unit::of(Change::UpdateMany {
        collection: THINGS,
        filter: filter(doc! { "kind": 1 }),
        update: Update::set("kind", 3),
    })
    .and(Change::DeleteMany { collection: THINGS, filter: filter(doc! { "kind": 9 }) })
    .and(Change::DeleteMany { collection: THINGS, filter: Filter::all() });
    assert_eq!(store.commit(unit).await.expect("nothing stands against it"), [2, 0, 3]);
}

pub(crate) async fn delete_many_removes_what_matches(store: Arc<dyn Store>) {
    let documents: Vec<_> = (1..=20).map(|id| thing(id, doc! { "kind": id % 2, "tags": [id, id + 1] })).collect();
    store_all(&*store, THINGS, &documents).await;
    let change = Change::DeleteMany { collection: THINGS, filter: filter(doc! { "kind": 1, "tags": { "$gt": 6 } }) };
    assert_eq!(store.commit(Unit::of(change)).await.expect("nothing stands against it"), [7]);
    assert_eq!(ids(&*store, THINGS, &query(doc! { "kind": 1 })).await, numbers(&[1, 3, 5]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "tags": 9 })).await, numbers(&[8]));
}

pub(crate) async fn update_many_changes_what_matches(store: Arc<dyn Store>) {
    store_all(
        &*store,
        THINGS,
        &[thing(1, doc! { "tags": ["a", "b"] }), thing(2, doc! { "tags": ["b"] }), thing(3, doc! {})],
    )
    .await;
    let update = Update::pull("tags", "b").and_set("size", 4);
    let change = Change::UpdateMany { collection: THINGS, filter: filter(doc! { "tags": "b" }), update };
    assert_eq!(store.commit(Unit::of(change)).await.expect("nothing stands against it"), [2]);
    assert_eq!(ids(&*store, THINGS, &query(doc! { "tags": "b" })).await, numbers(&[]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "tags": "a", "size": 4 })).await, numbers(&[1]));
    assert_eq!(ids(&*store, THINGS, &query(doc! { "tags": [] })).await, numbers(&[2]));
}

pub(crate) async fn update_many_that_breaks_a_key_changes_nothing(store: Arc<dyn Store>) {
    store_all(&*store, THINGS, &[thing(1, doc! {}), thing(2, doc! {}), thing(3, doc! {})]).await;
    let change = Change::UpdateMany { collection: THINGS, filter: Filter::all(), update: Update::set("name", "same") };
    assert_eq!(duplicate_key(store.commit(Unit::of(change)).await), "name");
    for id in 1..=3 {
        assert_eq!(ids(&*store, THINGS, &query(doc! { "name": format!("thing {id}") })).await, numbers(&[id]));
    }
    assert_eq!(ids(&*store, THINGS, &query(doc! { "name": "same" })).await, numbers(&[]));
}

fn kind_exists(id: i32) -> Condition {
    Condition::Exists { collection: KINDS, filter: Filter::equals("public_id", id) }
}

fn no_things_of(kind: i32) -> Condition {
    Condition::None { collection: THINGS, filter: Filter::equals("kind", kind) }
}

fn condition_that_failed(result: Result<Vec<u64>, StoreError>) -> usize {
    match result {
        Err(StoreError::Condition { index }) => index,
        other => panic!("expected a failed condition, got {other:?}"),
    }
}

pub(crate) async fn exists_must_hold(store: Arc<dyn Store>) {
    let insert = || Unit::of(insertion(THINGS, &thing(1, doc! { "kind": 5 }))).given(kind_exists(5));
    assert_eq!(condition_that_failed(store.commit(insert()).await), 0);
    assert_eq!(stored(&*store, THINGS, 1).await, None);
    store_all(&*store, KINDS, &[thing(5, doc! {})]).await;
    store.commit(insert()).await.expect("the kind exists now");
}

pub(crate) async fn none_must_hold(store: Arc<dyn Store>) {
    store_all(&*store, KINDS, &[thing(5, doc! {})]).await;
    store_all(&*store, THINGS, &[thing(1, doc! { "kind": 5 })]).await;
    let kind = raw(&thing(5, doc! {}));
    let delete = || Unit::of(Change::Delete { collection: KINDS, before: kind.clone() }).given(no_things_of(5));
    assert_eq!(condition_that_failed(store.commit(delete()).await), 0);
    assert!(stored(&*store, KINDS, 5).await.is_some());
    store
        .commit(Unit::of(Change::DeleteMany { collection: THINGS, filter: Filter::all() }))
        .await
        .expect("no condition");
    store.commit(delete()).await.expect("nothing is of this kind now");
    assert_eq!(stored(&*store, KINDS, 5).await, None);
}

pub(crate) async fn the_condition_that_failed_is_named(store: Arc<dyn Store>) {
    store_all(&*store, KINDS, &[thing(5, doc! {})]).await;
    let unit = Unit::of(insertion(THINGS, &thing(1, doc! { "kind": 6 }))).given(kind_exists(5)).given(kind_exists(6));
    assert_eq!(condition_that_failed(store.commit(unit).await), 1);
}

pub(crate) async fn a_scope_moves_on_with_each_unit(store: Arc<dyn Store>) {
    assert_eq!(scope_version(&*store, SCOPE, BUDGET).await.expect("an answer"), 0);
    for at in 0..3 {
        let id = i32::try_from(at).expect("small") + 1;
        let unit =
            Unit::of(insertion(THINGS, &thing(id, doc! {}))).given(Condition::Unchanged { scope: SCOPE.into(), at });
        store.commit(unit).await.expect("nobody else uses the scope");
        assert_eq!(scope_version(&*store, SCOPE, BUDGET).await.expect("an answer"), at + 1);
    }
    let late =
        Unit::of(insertion(THINGS, &thing(9, doc! {}))).given(Condition::Unchanged { scope: SCOPE.into(), at: 2 });
    assert_eq!(condition_that_failed(store.commit(late).await), 0);
}

pub(crate) async fn a_refused_unit_does_not_move_the_scope(store: Arc<dyn Store>) {
    one(&*store).await;
    let unit =
        Unit::of(insertion(THINGS, &thing(1, doc! {}))).given(Condition::Unchanged { scope: SCOPE.into(), at: 0 });
    duplicate_key(store.commit(unit).await);
    assert_eq!(scope_version(&*store, SCOPE, BUDGET).await.expect("an answer"), 0);
}

pub(crate) async fn the_revision_moves_with_each_change(store: Arc<dyn Store>) {
    let mut seen = vec![store.revision(THINGS)];
    let before = one(&*store).await;
    seen.push(store.revision(THINGS));
    let after = thing(1, doc! { "size": 2 });
    store.commit(Unit::of(replacement(before, &after))).await.expect("it was not changed");
    seen.push(store.revision(THINGS));
    store.commit(Unit::of(deletion(raw(&after)))).await.expect("it was not changed");
    seen.push(store.revision(THINGS));
    let mut distinct = seen.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), seen.len(), "{seen:?}");
}

pub(crate) async fn preparing_again_keeps_everything(store: Arc<dyn Store>) {
    one(&*store).await;
    store.prepare(COLLECTIONS).await.expect("nothing is new");
    assert_eq!(ids(&*store, THINGS, &query(doc! { "name": "thing 1" })).await, numbers(&[1]));
    assert_eq!(store.reserve_ids(THINGS, 1).await.expect("an id"), 2);
}

/// Documents of [`PLAIN`] with their numbers as `_id`.
pub(super) fn numbered(count: u32, floor: i64) -> Change {
    let documents =
        move |first: i64| (first..first + i64::from(count)).map(|number| rawdoc! { "_id": number }).collect();
    Change::Append(Numbered { collection: PLAIN, floor, count, bytes: 20, documents: Arc::new(documents) })
}

pub(super) async fn given_numbers(store: &dyn Store) -> Vec<i64> {
    let found = store.find(PLAIN, &query(doc! {}).sorted(sort(doc! { "_id": 1 }))).await.expect("the store answers");
    found.iter().map(|document| document.get_i64("_id").expect("a number")).collect()
}

pub(crate) async fn numbered_documents_have_consecutive_numbers_after_the_floor(store: Arc<dyn Store>) {
    let unit = Unit::of(numbered(2, 0)).and(numbered(1, 0));
    assert_eq!(store.commit(unit).await.expect("no condition"), [2, 1]);
    assert_eq!(given_numbers(&*store).await, [1, 2, 3]);
    store.commit(Unit::of(numbered(2, 40))).await.expect("no condition");
    store.commit(Unit::of(numbered(1, 7))).await.expect("no condition");
    assert_eq!(given_numbers(&*store).await, [1, 2, 3, 41, 42, 43]);
}

pub(crate) async fn a_refused_unit_stores_no_numbered_document(store: Arc<dyn Store>) {
    store.commit(Unit::of(numbered(1, 0))).await.expect("no condition");
    let refused = store.commit(Unit::of(numbered(2, 0)).given(kind_exists(7))).await;
    assert_eq!(condition_that_failed(refused), 0);
    let taken = thing(1, doc! {});
    let refused =
        store.commit(Unit::of(numbered(2, 0)).and(insertion(THINGS, &taken)).and(insertion(THINGS, &taken))).await;
    assert!(matches!(refused, Err(StoreError::Duplicate { .. })), "{refused:?}");
    store.commit(Unit::of(numbered(1, 0))).await.expect("no condition");
    let given = given_numbers(&*store).await;
    assert!(matches!(given[..], [1, last] if last > 1), "{given:?}");
}
