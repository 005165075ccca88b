//! How many objects each type has, as long as no object changes.

use std::time::Duration;

use bson::Bson;
use moka::sync::Cache;

use crate::query::Filter;
use crate::store::collections::OBJECTS;
use crate::store::{Store, StoreError};

/// Of how many types the number is remembered.
const REMEMBERED: u64 = 10_000;

/// The numbers, each with the revision of the objects at which it was counted.
pub struct TypeCounts(Cache<i64, (u64, u64)>);

impl Default for TypeCounts {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

impl TypeCounts {
    /// The number of objects of a type. An access list hides all objects of a type or none, so only types that the caller
    /// may read are counted.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn of(&self, store: &dyn Store, max_time: Duration, type_id: i64) -> Result<u64, StoreError> {
        let revision = store.revision(OBJECTS);
        if let Some((_, count)) = self.0.get(&type_id).filter(|(counted_at, _)| *counted_at == revision) {
            return Ok(count);
        }
        let count = store.count(OBJECTS, &Filter::equals("type_id", Bson::Int64(type_id)), max_time).await?;
        self.0.insert(type_id, (revision, count));
        Ok(count)
    }
}
