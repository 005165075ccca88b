//! Words that the cases are written in.

use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use inventory_service::query::compare::compare_bson;
use inventory_service::query::{Filter, Limits, Sort};
use inventory_service::store::{Change, Documents, FindQuery, Store, StoreError, Unit};

/// Enough for everything here.
pub(crate) const BUDGET: Duration = Duration::from_secs(20);

/// A stored form of the document.
pub(crate) fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document.clone()).expect("documents of tests are BSON")
}

/// A document with `_id` and `public_id` of this number and a name of its own.
pub(crate) fn thing(id: i32, members: Document) -> Document {
    let mut document = doc! { "_id": id, "public_id": i64::from(id), "name": format!("thing {id}") };
    document.extend(members);
    document
}

/// A change that inserts the document.
pub(crate) fn insertion(collection: &'static str, document: &Document) -> Change {
    Change::Insert { collection, document: raw(document) }
}

/// Stores the documents, one after the other.
pub(crate) async fn store_all(store: &dyn Store, collection: &'static str, documents: &[Document]) {
    for document in documents {
        store.commit(Unit::of(insertion(collection, document))).await.expect("the document can be stored");
    }
}

/// A filter as a client would send it.
#[expect(clippy::needless_pass_by_value, reason = "cases read better without the references")]
pub(crate) fn filter(document: Document) -> Filter {
    Filter::parse(&document, &Limits::default()).expect("filters of tests are right")
}

/// A question for all documents that match.
pub(crate) fn query(document: Document) -> FindQuery {
    FindQuery::new(filter(document), BUDGET)
}

/// The order that a client would ask for.
#[expect(clippy::needless_pass_by_value, reason = "cases read better without the references")]
pub(crate) fn sort(document: Document) -> Sort {
    Sort::parse(&document).expect("sorts of tests are right")
}

/// The `_id`s of the documents that a question finds, in the order found.
pub(crate) async fn ids(store: &dyn Store, collection: &str, query: &FindQuery) -> Vec<Bson> {
    ids_of(&store.find(collection, query).await.expect("the question can be answered"))
}

/// The `_id`s of the documents that a question finds, by size where the question asks for no order: then each store has its own.
pub(crate) async fn matching(store: &dyn Store, collection: &str, query: &FindQuery) -> Vec<Bson> {
    let mut found = ids(store, collection, query).await;
    if query.sort.is_empty() {
        found.sort_by(compare_bson);
    }
    found
}

/// The `_id`s of the documents.
pub(crate) fn ids_of(documents: &Documents) -> Vec<Bson> {
    documents
        .iter()
        .map(|document| Bson::try_from(document.get("_id").expect("valid").expect("an _id")).expect("a value"))
        .collect()
}

/// Numbers as the `_id`s that they are.
pub(crate) fn numbers(ids: &[i32]) -> Vec<Bson> {
    ids.iter().map(|id| Bson::Int32(*id)).collect()
}

/// The document with this `_id`.
pub(crate) async fn stored(store: &dyn Store, collection: &str, id: i32) -> Option<RawDocumentBuf> {
    let found = store.find(collection, &query(doc! { "_id": id })).await.expect("the question can be answered");
    found.first().map(ToOwned::to_owned)
}

/// Which unique index refused the unit.
pub(crate) fn duplicate_key(result: Result<Vec<u64>, StoreError>) -> String {
    match result {
        Err(StoreError::Duplicate { key, .. }) => key,
        other => panic!("expected a duplicate key, got {other:?}"),
    }
}
