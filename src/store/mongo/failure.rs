//! Why a change did not happen.

use std::fmt;

use mongodb::error::Error;

use super::error::{brief, write_error};
use super::index_names::IndexNames;
use crate::store::StoreError;

/// Why a change did not happen; the driver's error is kept because its labels say whether to try again.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of the server or the network, while working on this collection.
    Driver { error: Error, collection: &'static str },
    /// An error that the port has a name for.
    Store(StoreError),
}

impl Failure {
    /// What the caller of the port gets.
    pub(super) fn into_store_error(self, names: &IndexNames) -> StoreError {
        match self {
            Self::Driver { error, collection } => write_error(&error, collection, names),
            Self::Store(error) => error,
        }
    }

    /// Whether the error carries the label.
    pub(super) fn has_label(&self, label: &str) -> bool {
        matches!(self, Self::Driver { error, .. } if error.contains_label(label))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { error, collection } => write!(formatter, "{collection}: {}", brief(error)),
            Self::Store(error) => error.fmt(formatter),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// For `map_err` on operations of the driver.
pub(super) fn at(collection: &'static str) -> impl Fn(Error) -> Failure {
    move |error| Failure::Driver { error, collection }
}
