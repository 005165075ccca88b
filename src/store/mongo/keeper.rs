//! Keeps the declared indexes while the service runs: another tool may drop a collection or an index.
//!
//! Without its unique indexes a collection takes equal names and ids. The keeper looks at once when the stream of
//! changes reports a drop, and now and then in any case. It makes again what is missing. Until then units that store
//! documents in such a collection are refused, and [`Store::lacks`](crate::store::Store::lacks) names it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::indexes::{self, Missing, missing};
use super::{Inner, error::unavailable};
use crate::store::{Change, CollectionSpec, StoreError, Unit};

/// Between two looks when no drop is reported.
const PAUSE: Duration = Duration::from_secs(2);

/// What is declared, and what of it is missing.
#[derive(Debug, Default)]
pub(super) struct Keeper {
    declared: RwLock<Vec<CollectionSpec>>,
    /// By collection: why its unique indexes are not there.
    lacking: RwLock<BTreeMap<&'static str, String>>,
    alarm: Notify,
}

impl Keeper {
    /// From now on these collections are kept.
    pub(super) fn keep(&self, collections: &[CollectionSpec]) {
        *self.declared.write().unwrap_or_else(PoisonError::into_inner) = collections.to_vec();
    }

    /// This collection is about to be dropped on purpose, and is kept again from when it is next declared.
    pub(super) fn let_go(&self, collection: &str) {
        let mut declared = self.declared.write().unwrap_or_else(PoisonError::into_inner);
        declared.retain(|kept| kept.name != collection);
    }

    fn keeps(&self, collection: &str) -> bool {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        declared.iter().any(|kept| kept.name == collection)
    }

    /// Something was dropped.
    pub(super) fn alarm(&self) {
        self.alarm.notify_one();
    }

    /// The unique indexes that are missing, in words.
    pub(super) fn lacks(&self) -> Vec<String> {
        self.lacking.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Refuses a unit that stores documents which only a missing index could check.
    pub(super) fn admit(&self, unit: &Unit) -> Result<(), StoreError> {
        let lacking = self.lacking.read().unwrap_or_else(PoisonError::into_inner);
        if lacking.is_empty() {
            return Ok(());
        }
        let stores = |change: &&Change| !matches!(change, Change::Delete { .. } | Change::DeleteMany { .. });
        let lack = unit.changes.iter().filter(stores).find_map(|change| lacking.get(change.collection()));
        lack.map_or(Ok(()), |reason| Err(unavailable(reason.clone())))
    }

    /// Notes a lack, unless it is known and why it lasts.
    fn note(&self, collection: &'static str, lack: String) -> bool {
        let mut lacking = self.lacking.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = lacking.get(collection).is_none_or(|known| !known.starts_with(&lack));
        if is_new {
            lacking.insert(collection, lack);
        }
        is_new
    }

    fn set(&self, collection: &'static str, lack: Option<String>) -> bool {
        let mut lacking = self.lacking.write().unwrap_or_else(PoisonError::into_inner);
        let before = match &lack {
            Some(lack) => lacking.insert(collection, lack.clone()),
            None => lacking.remove(collection),
        };
        before != lack
    }
}

/// Looks and mends until the store is dropped.
pub(super) async fn run(inner: Weak<Inner>, keeper: Arc<Keeper>) {
    // What is being made: a build may take long, and other collections are looked at meanwhile.
    let mut making: BTreeMap<&'static str, JoinHandle<()>> = BTreeMap::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = keeper.alarm.notified() => {}
        }
        let Some(inner) = inner.upgrade() else { return };
        making.retain(|_, made| !made.is_finished());
        let declared = keeper.declared.read().unwrap_or_else(PoisonError::into_inner).clone();
        for collection in declared {
            if making.contains_key(collection.name) {
                continue;
            }
            // While the server is away, what was known last counts.
            let missing = missing(&inner, &collection).await;
            // Asked afterwards: it may have been let go meanwhile.
            let (Ok(missing), true) = (missing, keeper.keeps(collection.name)) else { continue };
            let (name, lacking) = (collection.name, missing.into_iter().filter(Missing::is_to_be_made));
            let lacking: Vec<_> = lacking.map(|missing| missing.spec).collect();
            if lacking.is_empty() {
                if keeper.set(name, None) {
                    log::info!("the indexes of {name} are there again");
                }
                continue;
            }
            let names = lacking.iter().map(|index| index.name).collect::<Vec<_>>().join(", ");
            let is_grave = lacking.iter().any(|index| index.unique);
            if is_grave && keeper.note(name, format!("{name} lacks the unique index {names}")) {
                log::error!("{name}: another tool dropped the index {names}; it is made again");
            }
            let (inner, keeper) = (Arc::clone(&inner), Arc::clone(&keeper));
            making
                .insert(name, tokio::spawn(async move { mend(&inner, &keeper, &collection, &names, is_grave).await }));
        }
    }
}

async fn mend(inner: &Inner, keeper: &Keeper, collection: &CollectionSpec, names: &str, is_grave: bool) {
    let made = indexes::prepare(inner, std::slice::from_ref(collection)).await;
    // Whoever has documents of the collection in a cache reads them again.
    inner.revisions.bump(collection.name);
    match made {
        Ok(()) if is_grave => {
            keeper.set(collection.name, None);
            log::info!("{}: the index {names} is there again", collection.name);
        }
        Ok(()) => {}
        Err(StoreError::Duplicate { key, .. }) => {
            let lack = format!(
                "{} lacks the unique index {key}, and stored documents have the same {key}: inventory-service check \
                 names them",
                collection.name
            );
            if keeper.set(collection.name, Some(lack.clone())) {
                log::error!("{lack}");
            }
        }
        Err(error) => log::warn!("{}: the index {names} is not made yet: {error}", collection.name),
    }
}
