//! What can go wrong in a store, classified by what the caller can do about it.

use std::error::Error;
use std::fmt::{self, Write};

use crate::admission::Denied;
use crate::query::EvalError;

/// MongoDB's number for a question that needs too much memory.
pub(crate) const TOO_MUCH: i32 = 292;

/// The failures of a [`Store`](super::Store).
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A unique index refused a document.
    #[error("a document with the same {key} exists in {collection}")]
    Duplicate {
        /// The collection's name.
        collection: String,
        /// The name of the index as declared, for instance `public_id` or `name`.
        key: String,
    },
    /// Objects would have the same value of a unique field. The service itself keeps such values apart; no adapter gives this.
    #[error("{}", .0.first().map_or_else(String::new, Shared::to_string))]
    Shared(Vec<Shared>),
    /// A document to replace or remove has changed since it was read.
    #[error("the document changed since it was read")]
    Stale,
    /// A condition of the unit does not hold; its position in [`Unit::conditions`](super::Unit::conditions).
    #[error("condition {index} does not hold")]
    Condition {
        /// Position among the unit's conditions.
        index: usize,
    },
    /// The query failed on a document, or the store refused it. It has MongoDB's number and the reason.
    #[error("{message}")]
    Query {
        /// The number that MongoDB gives this failure, for instance 2 (`BadValue`).
        code: i32,
        /// What was wrong, for the client.
        message: String,
    },
    /// The time budget of the query ran out.
    #[error("the query took longer than its time budget")]
    Timeout,
    /// The answer has more bytes than the query allows.
    #[error("the answer is too large for one piece")]
    TooLarge,
    /// The unit is too large for one transaction of the server, by its bytes.
    #[error("the changes are too large for one transaction of the server")]
    UnitTooLarge,
    /// There is no memory or no turn for the query now.
    #[error("too much is under way")]
    Busy,
    /// The store cannot do this, and another one could.
    #[error("{what} is not supported by this store")]
    Unsupported {
        /// The requested feature.
        what: String,
    },
    /// The store is unavailable or overloaded; a later attempt may succeed.
    #[error("the store is not available: {reason}")]
    Unavailable {
        /// For the log, not for the client.
        reason: String,
    },
    /// There is no room on the disk for the write; nothing was written.
    #[error("there is no room left on the disk for {what}; make room")]
    NoRoom {
        /// What was to be written.
        what: String,
    },
    /// Stored data is damaged or has the wrong form.
    #[error("stored data is damaged: {what}; look at it with inventory-service check --deep, or restore a backup")]
    Corrupt {
        /// What was found where.
        what: String,
    },
    /// Any other error of the store's own machinery.
    #[error("the store failed: {}", in_full(&**cause))]
    Backend {
        /// The store's own error, for the log and the command line.
        cause: Box<dyn Error + Send + Sync>,
    },
}

/// Objects of a type that would have the same value of a unique field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared {
    /// The type.
    pub type_id: i64,
    /// The name of the field.
    pub field: String,
    /// The objects. Of a write first the one that has the value, then the one that would get it.
    pub ids: Vec<i64>,
}

impl fmt::Display for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_id, field, ids } = self;
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        write!(
            formatter,
            "the objects {} of type {type_id} would have the same {field}, which is unique",
            ids.join(", ")
        )
    }
}

impl StoreError {
    /// Wraps an error of the store's own machinery.
    pub fn backend(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Backend { cause: cause.into() }
    }
}

/// The error with its causes.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing into a string cannot fail.
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

/// A query that failed on a document, or exceeded its time there.
impl From<EvalError> for StoreError {
    fn from(error: EvalError) -> Self {
        if error.is_timeout() {
            return Self::Timeout;
        }
        if error.is_busy() {
            return Self::Busy;
        }
        Self::Query { code: error.code, message: error.message }
    }
}

/// Work that was not done.
impl From<Denied> for StoreError {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Busy => Self::Busy,
            denied @ Denied::TooMuch { .. } => Self::Query { code: TOO_MUCH, message: denied.to_string() },
            Denied::Broken(error) => Self::backend(error),
        }
    }
}
