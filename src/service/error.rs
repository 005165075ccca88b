//! The errors of use cases, in the words of the client.

use super::error_code::ErrorCode;
use crate::admission::Denied;
use crate::auth::PasswordError;
use crate::domain::{Violation, Violations};
use crate::plural::counted;
use crate::query::{EvalError, QueryError};
use crate::store::StoreError;

/// The failures of the services. `http` gives each its status code.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The request breaks a rule, names something that does not exist, or needs a right that the caller lacks.
    #[error("{message}")]
    Refused {
        /// Which rule, as clients get it.
        code: ErrorCode,
        /// For people: what is wrong, where, what to do.
        message: String,
    },
    /// The body breaks its schema or the rules of its type; what is wrong with it.
    #[error("{} of the body cannot be accepted", counted(.0.count(), "place"))]
    Violations(Violations),
    /// Objects would have the same value of a unique field; which places of the body say so.
    #[error("{}", .places.listed().first().map_or_else(String::new, |it| it.message.clone()))]
    Clash {
        /// Which rule, as clients get it.
        code: ErrorCode,
        /// The places.
        places: Violations,
    },
    /// The filter, sort or projection cannot be understood.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// `If-Match` names a state other than the stored one.
    #[error("{0}")]
    PreconditionFailed(String),
    /// What a request changed has been changed since, so it cannot be undone.
    #[error("{}", .0.message())]
    ChangedSince(ChangedSince),
    /// The idempotency key belongs to another request.
    #[error("another request came under this Idempotency-Key; take a new one")]
    KeyReused,
    /// Concurrent changes of the same document defeated all attempts.
    #[error("{0} is being changed by others, try again")]
    Contended(String),
    /// A password could not be hashed now.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How many conflicts are named.
const MOST_CONFLICTS: usize = 100;

/// A change that stands against an undo.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
pub struct Conflict {
    /// `objects`, `types` or `categories`.
    pub resource: String,
    /// The id of what was changed.
    pub public_id: i64,
    /// The sequence of the log entry; nothing where another tool changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<i64>,
    /// What was done, as in log entries.
    pub action: String,
}

/// The first changes that stand against an undo, and the number of the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedSince {
    /// Those that are named.
    pub conflicts: Vec<Conflict>,
    /// How many are not.
    pub left_out: usize,
}

impl ChangedSince {
    /// Of all conflicts.
    pub fn of(mut conflicts: Vec<Conflict>) -> Self {
        let left_out = conflicts.len().saturating_sub(MOST_CONFLICTS);
        conflicts.truncate(MOST_CONFLICTS);
        Self { conflicts, left_out }
    }

    fn message(&self) -> String {
        let changed = counted((self.conflicts.len() + self.left_out) as u64, "resource");
        format!("{changed} of the request changed again since, so nothing was undone; undo the later changes first")
    }
}

impl ServiceError {
    /// `type 7 does not exist`, for [`ErrorCode::TypeNotFound`] and the like.
    pub fn not_found(code: ErrorCode, id: impl std::fmt::Display) -> Self {
        let name = code.pattern().trim_end_matches("_not_found");
        Self::refused(code, format!("{name} {id} does not exist"))
    }

    /// A refusal with its code.
    pub fn refused(code: ErrorCode, message: impl Into<String>) -> Self {
        Self::Refused { code, message: message.into() }
    }

    /// One thing wrong with one place of the body.
    pub fn violation(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Violations(Violation::new(pointer, message).into())
    }
}

impl From<Violations> for ServiceError {
    fn from(violations: Violations) -> Self {
        Self::Violations(violations)
    }
}

/// Work that was not done.
impl From<Denied> for ServiceError {
    fn from(denied: Denied) -> Self {
        StoreError::from(denied).into()
    }
}

/// A question that failed on a document.
impl From<EvalError> for ServiceError {
    fn from(error: EvalError) -> Self {
        StoreError::from(error).into()
    }
}

impl From<ServiceError> for StoreError {
    /// For a store that is made of others: what a use case could not do.
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::Store(error) => error,
            error => Self::backend(error),
        }
    }
}
