//! Values that were read from a collection, as long as nothing in it changes.

use std::hash::Hash;

use moka::sync::Cache;

use crate::store::{Store, StoreError};

/// How many values of a kind are remembered.
const REMEMBERED: u64 = 10_000;

/// Values by their keys, each with the revision of the collection at which it was read.
pub struct Remembered<K, V> {
    collection: &'static str,
    known: Cache<K, (u64, V)>,
}

impl<K: Hash + Eq + Send + Sync + 'static, V: Clone + Send + Sync + 'static> Remembered<K, V> {
    /// Of this collection; none yet.
    pub fn of(collection: &'static str) -> Self {
        Self { collection, known: Cache::new(REMEMBERED) }
    }

    /// The value, read unless it is known.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn get(
        &self,
        store: &dyn Store,
        key: K,
        read: impl Future<Output = Result<V, StoreError>>,
    ) -> Result<V, StoreError> {
        // The revision comes first: what changes meanwhile is read again next time.
        let revision = store.revision(self.collection);
        if let Some((_, known)) = self.known.get(&key).filter(|(read_at, _)| *read_at == revision) {
            return Ok(known);
        }
        let value = read.await?;
        self.known.insert(key, (revision, value.clone()));
        Ok(value)
    }
}
