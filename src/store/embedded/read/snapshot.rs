//! A snapshot: the whole store as of one commit.
//!
//! The writer publishes a new snapshot after each commit. Readers share it, because a separate transaction costs more
//! than most reads. A snapshot keeps old pages from being reused, so nobody holds one longer than a query takes, or a
//! request about the past.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use redb::{Database, ReadTransaction, ReadableDatabase, TransactionError};

use crate::store::embedded::catalog::collections::{Catalog, Collection};
use crate::store::embedded::failure;
use crate::store::embedded::index::range_counts::{Moved, RangeCounts};
use crate::store::embedded::index::table::Published as Committed;
use crate::store::embedded::index::tables::Tables;
use crate::store::inspection::{Finding, indexes};
use crate::store::{CollectionSpec, StoreError};

/// The current snapshot; none while the storage fails.
pub(crate) type Published = Arc<ArcSwapOption<Snapshot>>;

/// The store as of one commit.
pub(crate) struct Snapshot {
    transaction: ReadTransaction,
    catalog: Catalog,
    /// By the number of the collection, opened when first asked for.
    tables: Vec<OnceLock<Tables<Committed>>>,
    /// By the number of the collection.
    counted: Vec<Arc<RangeCounts>>,
}

impl Snapshot {
    /// The store as of the last commit, which `catalog` describes.
    pub(crate) fn take(database: &Database, catalog: Catalog) -> Result<Self, TransactionError> {
        let tables = (0..catalog.len()).map(|_| OnceLock::new()).collect();
        let counted = (0..catalog.len()).map(|_| Arc::default()).collect();
        Ok(Self { transaction: database.begin_read()?, catalog, tables, counted })
    }

    /// The same, with the ranges that were counted in the snapshot before it.
    pub(crate) fn counted_as(mut self, before: &Self, moved: &Moved) -> Self {
        for ((number, counted), known) in (0..).zip(&mut self.counted).zip(&before.counted) {
            *counted = moved.carry(number, known);
        }
        self
    }

    /// The catalog as of this commit.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Reads any table as of this commit.
    pub(crate) fn transaction(&self) -> &ReadTransaction {
        &self.transaction
    }

    /// The collection of this name.
    pub(crate) fn collection(&self, name: &str) -> Option<&Arc<Collection>> {
        self.catalog.get(name)
    }

    /// All collections.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &Arc<Collection>> {
        self.catalog.iter()
    }

    /// The tables of a collection.
    pub(crate) fn tables(&self, collection: &Collection) -> Result<&Tables<Committed>, StoreError> {
        let slot = &self.tables[collection.number as usize];
        if let Some(tables) = slot.get() {
            return Ok(tables);
        }
        let mut opened = Tables::<Committed>::open(&self.transaction, collection).map_err(failure::of_table)?;
        opened.counted = Some(Arc::clone(&self.counted[collection.number as usize]));
        Ok(slot.get_or_init(|| opened))
    }
}

/// Reads the catalog, not the documents.
pub(crate) fn inspect(snapshot: &Snapshot, collections: &[CollectionSpec]) -> Vec<Finding> {
    let is_there = |collection: &str, index: &str| {
        let known = snapshot.collection(collection);
        known.is_some_and(|known| known.indexes.iter().any(|own| own.name == index))
    };
    let declared = collections.iter().flat_map(|spec| spec.indexes.iter().map(|index| (spec.name, index.name)));
    let missing: Vec<String> = declared
        .clone()
        .filter(|(collection, index)| !is_there(collection, index))
        .map(|(collection, index)| format!("{collection}.{index}"))
        .collect();
    let is_new = !collections.iter().any(|spec| snapshot.collection(spec.name).is_some());
    vec![indexes(declared.count(), &missing, is_new)]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::raw::RawDocumentBuf;
    use bson::{Bson, doc};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use crate::query::{Filter, Limits, Update};
    use crate::store::embedded::EmbeddedStore;
    use crate::store::embedded::options::Options;
    use crate::store::{Change, CollectionSpec, IndexKey, IndexSpec, Store, Unit};

    const THINGS: &str = "things";
    const BUDGET: Duration = Duration::from_secs(20);
    const KIND: &[IndexKey] = &[IndexKey { path: "kind", descending: false }];
    const COLLECTIONS: &[CollectionSpec] =
        &[CollectionSpec { name: THINGS, indexes: &[IndexSpec::plain("kind", KIND)] }];

    #[derive(Debug, Clone)]
    enum Step {
        /// This many documents of a kind.
        Insert(usize, i32),
        /// One of a kind in one unit with a change that is refused.
        Refused(i32),
        /// An array, after which entries are no documents.
        InsertArray,
        Turn(i32, i32),
        Delete(i32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (1..6_usize, 0..3_i32).prop_map(|(number, kind)| Step::Insert(number, kind)),
            2 => (70..90_usize, 0..3_i32).prop_map(|(number, kind)| Step::Insert(number, kind)),
            2 => (0..3_i32).prop_map(Step::Refused),
            1 => Just(Step::InsertArray),
            2 => (0..3_i32, 0..3_i32).prop_map(|(from, to)| Step::Turn(from, to)),
            1 => (0..3_i32).prop_map(Step::Delete),
        ]
    }

    fn insert(kind: impl Into<Bson>) -> Change {
        let document = doc! { "_id": bson::oid::ObjectId::new(), "kind": kind };
        Change::Insert { collection: THINGS, document: RawDocumentBuf::try_from(document).expect("it is BSON") }
    }

    fn unit(step: &Step) -> Unit {
        let of = |kind: i32| Filter::equals("kind", kind);
        match *step {
            Step::Insert(number, kind) => (0..number).map(|_| insert(kind)).fold(Unit::default(), Unit::and),
            Step::Refused(kind) => {
                let stranger = RawDocumentBuf::try_from(doc! { "_id": 1 }).expect("it is BSON");
                Unit::of(insert(kind)).and(Change::Delete { collection: THINGS, before: stranger })
            }
            Step::InsertArray => Unit::of(insert(vec![0, 1])),
            Step::Turn(from, to) => {
                let (filter, update) = (of(from), Update::set("kind", to));
                Unit::of(Change::UpdateMany { collection: THINGS, filter, update })
            }
            Step::Delete(kind) => Unit::of(Change::DeleteMany { collection: THINGS, filter: of(kind) }),
        }
    }

    /// Whether each number is what reading all documents gives.
    async fn counts_are_right(store: &EmbeddedStore) {
        for filter in [doc! { "kind": 0 }, doc! { "kind": 1 }, doc! { "kind": { "$gte": 1 } }] {
            let read = doc! { "$or": [&filter, { "$and": [&filter] }] };
            let [counted, read] =
                [filter.clone(), read].map(|filter| Filter::parse(&filter, &Limits::NONE).expect("right"));
            let counted = store.count(THINGS, &counted, BUDGET).await.expect("readable");
            assert_eq!(counted, store.count(THINGS, &read, BUDGET).await.expect("readable"), "{filter}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn numbers_that_commits_carry_are_right(steps in vec(step(), 1..20)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let directory = tempfile::tempdir().expect("a directory for the test");
                let store = EmbeddedStore::open(directory.path(), &Options::default()).expect("a new store");
                store.prepare(COLLECTIONS).await.expect("it is declared");
                for step in &steps {
                    let outcome = store.commit(unit(step)).await;
                    assert_eq!(outcome.is_err(), matches!(step, Step::Refused(_)), "{outcome:?}");
                    counts_are_right(&store).await;
                }
            });
        }
    }
}
