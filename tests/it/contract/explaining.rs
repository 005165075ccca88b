//! Telling how a question was answered.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use inventory_service::query::Sort;
use inventory_service::store::{Explanation, FindQuery, IndexUse, SortedBy, Step, Store, TotalFrom, Unit};

use super::support::{insertion, query, sort, store_all, thing};
use super::{ACTIVE, PLAIN, THINGS};

/// A hundred things of four kinds.
async fn hundred(store: &dyn Store, collection: &'static str) {
    let documents = (1..=100).map(|id| thing(id, doc! { "kind": id % 4, "size": id, "tags": [id % 10, "x"] }));
    let unit =
        Unit { changes: documents.map(|document| insertion(collection, &document)).collect(), ..Unit::default() };
    store.commit(unit).await.expect("the documents can be stored");
}

async fn explained(store: &dyn Store, collection: &str, query: &FindQuery) -> Explanation {
    let explanation = store.explain(collection, query).await.expect("the question can be answered");
    assert_eq!(explanation.store, store.kind());
    let page = store.page(collection, query).await.expect("the question can be answered");
    assert_eq!((explanation.returned, explanation.total), (page.documents.len() as u64, page.total));
    explanation
}

fn index_of(step: &Step) -> &IndexUse {
    match step {
        Step::Index(used) | Step::Key(used) => used,
        other => panic!("expected an index, got {other:?}"),
    }
}

pub(crate) async fn explain_names_the_index_and_its_bounds(store: Arc<dyn Store>) {
    hundred(&*store, THINGS).await;
    let page = query(doc! { "kind": 1 }).sorted(Sort::by("public_id", true)).limited(5);
    let explanation = explained(&*store, THINGS, &page).await;
    assert!(matches!(explanation.plan, Step::Index(_)), "{explanation:?}");
    let used = index_of(&explanation.plan);
    assert_eq!((used.index.as_str(), used.unique, used.multikey, used.partial), ("kind", false, false, false));
    let paths: Vec<(&str, i32)> = used.keys.iter().map(|key| (key.path.as_str(), key.order)).collect();
    assert_eq!(paths, [("kind", 1), ("public_id", 1)]);
    assert_eq!(used.keys[0].bounds, ["[1, 1]"]);
    assert_eq!((explanation.sort, explanation.total_from), (SortedBy::Index, TotalFrom::Keys));
    assert_eq!((explanation.documents_examined.unwrap(), explanation.returned, explanation.total), (5, 5, 25));
    assert_eq!(explanation.hint, None);
}

pub(crate) async fn explain_tells_a_key_from_a_range(store: Arc<dyn Store>) {
    hundred(&*store, THINGS).await;
    let explanation = explained(&*store, THINGS, &query(doc! { "public_id": 7 })).await;
    assert!(matches!(&explanation.plan, Step::Key(used) if used.index == "public_id"), "{explanation:?}");
    assert_eq!((explanation.keys_examined.unwrap(), explanation.documents_examined.unwrap()), (1, 1));
    let range = explained(&*store, THINGS, &query(doc! { "size": { "$gt": 90, "$lte": 95 } })).await;
    assert_eq!(index_of(&range.plan).keys[0].order, -1);
    assert_eq!((range.returned, range.documents_examined.unwrap()), (5, 5));
}

pub(crate) async fn explain_tells_a_scan_and_a_sort_in_memory(store: Arc<dyn Store>) {
    hundred(&*store, PLAIN).await;
    let page = query(doc! { "size": { "$gt": 50 } }).sorted(sort(doc! { "kind": 1, "_id": 1 })).limited(3);
    let explanation = explained(&*store, PLAIN, &page).await;
    assert_eq!((&explanation.plan, explanation.sort), (&Step::Scan, SortedBy::Memory));
    assert_eq!((explanation.total, explanation.total_from), (50, TotalFrom::Documents));
    assert!(
        explanation.documents_examined.unwrap() >= 100 && explanation.keys_examined.unwrap() == 0,
        "{explanation:?}"
    );
}

pub(crate) async fn explain_tells_the_branches_of_a_union(store: Arc<dyn Store>) {
    hundred(&*store, THINGS).await;
    let explanation = explained(&*store, THINGS, &query(doc! { "$or": [{ "kind": 1 }, { "tags": 7 }] })).await;
    let Step::Union { of } = &explanation.plan else { panic!("expected a union, got {explanation:?}") };
    let mut names: Vec<&str> = of.iter().map(|step| index_of(step).index.as_str()).collect();
    names.sort_unstable();
    assert_eq!((names, explanation.sort), (vec!["kind", "tags"], SortedBy::None));
}

pub(crate) async fn explain_knows_the_number_of_all_documents(store: Arc<dyn Store>) {
    hundred(&*store, THINGS).await;
    let page = query(doc! {}).sorted(Sort::by("public_id", false)).limited(10);
    let explanation = explained(&*store, THINGS, &page).await;
    assert_eq!((explanation.total, explanation.total_from), (100, TotalFrom::Collection));
    assert_eq!((explanation.documents_examined.unwrap(), explanation.sort), (10, SortedBy::Index));
    let never = explained(&*store, "contract.never", &query(doc! { "kind": 1 })).await;
    assert_eq!((&never.plan, never.total), (&Step::Nothing, 0));
}

pub(crate) async fn explain_names_the_index_that_would_help(store: Arc<dyn Store>) {
    let documents: Vec<Document> = (1..=1100).map(|id| thing(id, doc! { "kind": id % 4 })).collect();
    let changes = documents.iter().map(|document| insertion(PLAIN, document)).collect();
    store.commit(Unit { changes, ..Unit::default() }).await.expect("the documents can be stored");
    let page = query(doc! { "kind": 9, "size": { "$gt": 3 } }).sorted(Sort::by("name", false)).limited(10);
    let hint = explained(&*store, PLAIN, &page).await.hint.expect("it was much work");
    assert_eq!(
        (hint.examined, hint.returned, hint.index),
        (1100, 0, vec!["kind".into(), "name".into(), "size".into()])
    );
    // On lists the embedded store says it too; MongoDB would have to be asked again.
    let listed = store.page(PLAIN, &page).await.expect("the question can be answered").hint;
    assert_eq!(listed.is_some(), store.kind() == "embedded");
}

pub(crate) async fn a_partial_index_serves_questions_for_its_documents(store: Arc<dyn Store>) {
    let documents = [
        thing(1, doc! { "active": true, "size": 1 }),
        thing(2, doc! { "active": false, "size": 1 }),
        thing(3, doc! { "size": 1 }),
        thing(4, doc! { "active": [false, true], "size": 1 }),
        thing(5, doc! { "active": true, "size": 2 }),
    ];
    store_all(&*store, ACTIVE, &documents).await;
    let served = query(doc! { "size": 1, "active": true }).sorted(Sort::by("public_id", false));
    let explanation = explained(&*store, ACTIVE, &served).await;
    let used = index_of(&explanation.plan);
    assert_eq!((used.index.as_str(), used.partial), ("active", true));
    assert_eq!((explanation.total, explanation.documents_examined.unwrap()), (2, 2));
    for (filter, total) in
        [(doc! { "size": 1 }, 4), (doc! { "size": 1, "active": false }, 2), (doc! { "active": true }, 3)]
    {
        assert_eq!(explained(&*store, ACTIVE, &query(filter.clone())).await.total, total, "{filter}");
    }
    assert_eq!(explained(&*store, ACTIVE, &query(doc! { "size": 1 })).await.plan, Step::Scan);
}

pub(crate) async fn a_unique_partial_index_refuses_equal_keys_among_its_documents(store: Arc<dyn Store>) {
    let document = |id: i32, active: bool| thing(id, doc! { "active": active, "slot": 7 });
    store_all(&*store, ACTIVE, &[document(1, false), document(2, false), document(3, true)]).await;
    let refused = store.commit(Unit::of(insertion(ACTIVE, &document(4, true)))).await;
    assert_eq!(super::support::duplicate_key(refused), "slot");
    store_all(&*store, ACTIVE, &[document(5, false)]).await;
}

pub(crate) async fn a_unique_index_over_documents_that_have_a_member_takes_any_number_without_it(
    store: Arc<dyn Store>,
) {
    let labelled = |id: i32, label: &str| thing(id, doc! { "label": label });
    store_all(&*store, ACTIVE, &[thing(1, doc! {}), thing(2, doc! {}), labelled(3, "a")]).await;
    let refused = store.commit(Unit::of(insertion(ACTIVE, &labelled(4, "a")))).await;
    assert_eq!(super::support::duplicate_key(refused), "label");
    let empty = |id: i32| thing(id, doc! { "label": Bson::Null });
    store_all(&*store, ACTIVE, &[empty(5)]).await;
    let refused = store.commit(Unit::of(insertion(ACTIVE, &empty(6)))).await;
    assert_eq!(super::support::duplicate_key(refused), "label", "null is a value");
    let explanation = explained(&*store, ACTIVE, &query(doc! { "label": "a" })).await;
    assert_eq!((index_of(&explanation.plan).index.as_str(), explanation.total), ("label", 1));
    assert_eq!(explained(&*store, ACTIVE, &query(doc! { "label": Bson::Null })).await.total, 3);
    assert_eq!(explained(&*store, ACTIVE, &query(doc! { "label": { "$exists": false } })).await.total, 2);
}
