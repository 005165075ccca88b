//! Watches the declared unique indexes while the service runs: another tool may drop a collection or an index.
//!
//! Without its unique indexes a collection takes equal names and ids. The keeper looks at once when the stream of
//! changes reports a drop, and now and then in any case. While one is missing, units that store documents in the collection
//! are refused, and [`Store::health`](crate::store::Store::health) names it. The next start makes it again.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::indexes::missing;
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
    /// From now on these collections are watched.
    pub(super) fn watch(&self, collections: &[CollectionSpec]) {
        *self.declared.write().unwrap_or_else(PoisonError::into_inner) = collections.to_vec();
    }

    /// This collection is about to be dropped on purpose, and is watched again from when it is next declared.
    pub(super) fn let_go(&self, collection: &str) {
        let mut declared = self.declared.write().unwrap_or_else(PoisonError::into_inner);
        declared.retain(|watched| watched.name != collection);
    }

    fn watches(&self, collection: &str) -> bool {
        let declared = self.declared.read().unwrap_or_else(PoisonError::into_inner);
        declared.iter().any(|watched| watched.name == collection)
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

    fn set(&self, collection: &'static str, lack: Option<String>) -> bool {
        let mut lacking = self.lacking.write().unwrap_or_else(PoisonError::into_inner);
        let before = match &lack {
            Some(lack) => lacking.insert(collection, lack.clone()),
            None => lacking.remove(collection),
        };
        before != lack
    }
}

/// Looks until the store is dropped.
pub(super) async fn run(inner: Weak<Inner>, keeper: Arc<Keeper>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = keeper.alarm.notified() => {}
        }
        let Some(inner) = inner.upgrade() else { return };
        let declared = keeper.declared.read().unwrap_or_else(PoisonError::into_inner).clone();
        for collection in declared {
            // While the server is away, what was known last counts.
            let missing = missing(&inner, &collection).await;
            // Checked afterwards: it may have been released meanwhile.
            let (Ok(missing), true) = (missing, keeper.watches(collection.name)) else { continue };
            let unique = missing.iter().filter(|missing| missing.spec.unique);
            let names = unique.map(|missing| missing.spec.name).collect::<Vec<_>>().join(", ");
            let lack =
                format!("{} lacks the unique index {names}: start the service again, to make it", collection.name);
            let lack = Some(lack).filter(|_| !names.is_empty());
            if keeper.set(collection.name, lack.clone()) {
                // Caches of documents of the collection read them again.
                inner.revisions.bump(collection.name);
                match lack {
                    Some(lack) => log::error!("{lack}"),
                    None => log::info!("{} has its unique indexes again", collection.name),
                }
            }
        }
    }
}
