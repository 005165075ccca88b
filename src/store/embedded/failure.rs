//! redb's errors as the store's.

use redb::{StorageError, TableError};

use crate::query::EvalError;
use crate::store::StoreError;

use super::catalog::Collection;

/// An error of reading or writing.
pub(super) fn of_storage(error: StorageError) -> StoreError {
    match error {
        StorageError::Corrupted(what) => StoreError::Corrupt { what },
        StorageError::Io(_) | StorageError::PreviousIo | StorageError::DatabaseClosed => unavailable(&error),
        other => StoreError::backend(other),
    }
}

/// An error of opening a table.
pub(super) fn of_table(error: TableError) -> StoreError {
    match error {
        TableError::Storage(error) => of_storage(error),
        other => StoreError::Corrupt { what: other.to_string() },
    }
}

/// A query that failed on a document.
pub(super) fn of_evaluation(error: EvalError) -> StoreError {
    error.into()
}

/// The storage cannot be used for now.
pub(super) fn unavailable(error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Unavailable { reason: error.to_string() }
}

/// A stored document that is not BSON.
pub(super) fn damaged(collection: &str, row: u64) -> StoreError {
    StoreError::Corrupt { what: format!("row {row} of {collection}") }
}

/// An index names a row that is not there.
pub(super) fn lost(collection: &Collection, row: u64) -> StoreError {
    StoreError::Corrupt { what: format!("an index of {} leads to row {row}, which is not there", collection.name) }
}
