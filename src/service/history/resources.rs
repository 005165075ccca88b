//! The resources that have a history.

use crate::store::StoreError;
use crate::store::collections::{CATEGORIES, OBJECTS, TYPES};

/// The collections with a history, and the names of their resources in entries.
pub(super) const RESOURCES: [(&str, &str); 3] = [(OBJECTS, "objects"), (TYPES, "types"), (CATEGORIES, "categories")];

/// The name of the resource whose documents are in this collection, if they have a history.
pub(super) fn resource_of(collection: &str) -> Option<&'static str> {
    RESOURCES.iter().find(|(name, _)| *name == collection).map(|(_, resource)| *resource)
}

/// Something in the history cannot be read.
pub(super) fn unreadable(error: impl std::fmt::Display) -> StoreError {
    StoreError::Corrupt { what: format!("the history: {error}") }
}
