//! Newest documents whose entries were in memory, and that cannot be read when the store is opened.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::formats::tamper;
use super::memory::Memory;
use super::{options, start};
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::tables::{DataDefinition, data_name};
use crate::store::{Change, CollectionSpec, FindQuery, IndexKey, IndexSpec, Store, StoreError, Unit};

const THINGS: &str = "things";
const INDEXES: &[IndexSpec] = &[IndexSpec::plain("tags", &[IndexKey { path: "tags", descending: false }])];

fn insertion(id: i32) -> Change {
    let document = RawDocumentBuf::try_from(doc! { "_id": id, "tags": [7, id] }).expect("it is BSON");
    Change::Insert { collection: THINGS, document }
}

async fn numbers(store: &EmbeddedStore, filter: Filter) -> Result<usize, StoreError> {
    store.find(THINGS, &FindQuery::new(filter, Duration::from_secs(20))).await.map(|found| found.len())
}

#[tokio::test]
async fn a_newest_document_that_is_damaged_keeps_nobody_from_the_others() {
    let memory = Memory::of(BTreeMap::new());
    let store = start(&memory, &options());
    store.prepare(&[CollectionSpec { name: THINGS, indexes: INDEXES }]).await.expect("it is declared");
    for id in 0..6 {
        store.commit(Unit::of(insertion(id))).await.expect("everything is right");
    }
    drop(store);
    tamper(&memory, |transaction| {
        let name = data_name(0);
        let mut documents = transaction.open_table(DataDefinition::new(&name)).expect("it is there");
        documents.insert(3, b"no document".as_slice()).expect("it can be written");
    });
    for round in 0..3 {
        let store = start(&memory, &options());
        for tag in [7, 1] {
            let by_tag = numbers(&store, Filter::equals("tags", tag)).await;
            assert!(matches!(by_tag, Err(StoreError::Corrupt { .. })), "{tag}: {by_tag:?}");
        }
        let new = 10 + round;
        let (one, other) = tokio::join!(
            store.commit(Unit::of(insertion(new))),
            store.commit(Unit::of(insertion(5)).and(insertion(100 + round)))
        );
        one.expect("it is not concerned");
        assert!(matches!(other, Err(StoreError::Duplicate { .. })), "{other:?}");
        let gone = RawDocumentBuf::try_from(doc! { "_id": round, "tags": [7, round] }).expect("it is BSON");
        store.commit(Unit::of(Change::Delete { collection: THINGS, before: gone })).await.expect("it is there");
        for (id, expected) in [(new, 1), (5, 1), (100 + round, 0), (round, 0)] {
            assert_eq!(
                numbers(&store, Filter::equals("_id", id)).await.expect("it is not concerned"),
                expected,
                "{id}"
            );
        }
    }
}
