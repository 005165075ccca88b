//! The indexes that a collection has at the server, and which of them are only being built.
//!
//! A server lists an index from the moment its build begins. Until the build ends the index refuses nothing and serves
//! no query, and the build may fail: another instance or another tool began it.

use std::time::Duration;

use bson::doc;
use mongodb::IndexModel;
use mongodb::error::Error;

use super::Inner;
use super::error::{code, command_error};
use crate::store::StoreError;

/// There is no such collection.
const NAMESPACE_NOT_FOUND: i32 = 26;
const MAX_TIME: Duration = Duration::from_mins(1);

/// An index as the server lists it.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) index: IndexModel,
    /// Whether it is built.
    pub(super) is_ready: bool,
}

impl Listed {
    pub(super) fn name(&self) -> Option<&str> {
        self.index.options.as_ref()?.name.as_deref()
    }
}

/// The indexes of the collection; none of a collection that does not exist.
pub(super) async fn list(inner: &Inner, collection: &str) -> Result<Vec<Listed>, StoreError> {
    or_none(listed(inner, collection).await)
}

/// What is in a collection that does not exist.
fn or_none<T: Default>(answer: Result<T, Error>) -> Result<T, StoreError> {
    match answer {
        Err(error) if code(&error) == Some(NAMESPACE_NOT_FOUND) => Ok(T::default()),
        answer => answer.map_err(|error| command_error(&error)),
    }
}

async fn listed(inner: &Inner, collection: &str) -> Result<Vec<Listed>, Error> {
    let max_time = i64::try_from(MAX_TIME.as_millis()).unwrap_or(i64::MAX);
    let command = doc! { "listIndexes": collection, "cursor": {}, "includeBuildUUIDs": true, "maxTimeMS": max_time };
    let mut answer = inner.database.run_cursor_command(command).await?;
    let mut indexes = Vec::new();
    while answer.advance().await? {
        let entry = answer.deserialize_current()?;
        let is_ready = !entry.contains_key("buildUUID");
        let described = entry.get_document("spec").unwrap_or(&entry).clone();
        // Kinds of indexes that the driver cannot describe are no ordered ones.
        let index = bson::deserialize_from_document(described).ok();
        indexes.extend(index.map(|index| Listed { index, is_ready }));
    }
    Ok(indexes)
}
