//! Forgetting a person: the name is removed from the entries of that person's changes. The chain stays valid, because names
//! are not part of what is hashed.

use bson::doc;

use super::heads::of_this_service;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::resource;
use crate::service::services::Services;
use crate::store::collections::LOGS;
use crate::store::{Change, FindQuery, StoreError, Unit, as_fits};

/// The text that replaces a name.
pub const FORGOTTEN: &str = "(forgotten)";

/// The maximum number of entries changed in one unit, if they do not exceed the bytes.
const AT_ONCE: u64 = 500;
const AT_ONCE_BYTES: usize = 4 * 1024 * 1024;

/// Replaces the name of a user in all entries, in small units. It may be repeated after an interruption.
///
/// # Errors
/// Errors of the store.
pub async fn forget(services: &Services, user_id: i64) -> Result<(), ServiceError> {
    let named = doc! { "user_id": user_id, "user_name": { "$exists": true, "$ne": FORGOTTEN } };
    let named = of_this_service().and(Filter::ours(&named));
    loop {
        let query = FindQuery::new(named.clone(), services.max_time).limited(AT_ONCE);
        let found = as_fits(&*services.store, LOGS, query, AT_ONCE_BYTES).await?;
        if found.is_empty() {
            return Ok(());
        }
        let mut changes = Vec::with_capacity(found.len());
        for before in found.iter() {
            let mut after = resource::decode(before)?;
            after.insert("user_name", FORGOTTEN);
            let (before, after) = (before.to_owned(), resource::encode(&after)?);
            changes.push(Change::Replace { collection: LOGS, before, after });
        }
        match services.store.commit(Unit { conditions: Vec::new(), changes }).await {
            // Pruning removed one of them.
            Ok(_) | Err(StoreError::Stale) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
