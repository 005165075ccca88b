//! What can go wrong in a use case, in the words of the people who call it.

use crate::auth::PasswordError;
use crate::domain::{Violation, Violations};
use crate::query::QueryError;
use crate::store::StoreError;

/// The failures of the services. `http` gives each its status code.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no such thing.
    #[error("{message}")]
    NotFound {
        /// Stable name, for instance `type_not_found`.
        code: String,
        /// For people.
        message: String,
    },
    /// The request breaks a rule.
    #[error("{message}")]
    Invalid {
        /// Stable name, for instance `type_in_use`.
        code: String,
        /// For people.
        message: String,
    },
    /// The body breaks its schema or the rules of its type; what is wrong with it.
    #[error("{} of the body cannot be accepted", places(.0.count()))]
    Violations(Violations),
    /// The filter, sort or projection cannot be understood.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// The caller may not do this.
    #[error("{message}")]
    Forbidden {
        /// `right_missing`, `acl_denied`, `type_inactive`.
        code: String,
        /// Names what is missing.
        message: String,
    },
    /// `If-Match` names another state than the stored one.
    #[error("{0}")]
    PreconditionFailed(String),
    /// The key of a request that may come twice belongs to another request.
    #[error("another request came under this Idempotency-Key; take a new one")]
    KeyReused,
    /// Others changed the same thing again and again while this change was tried.
    #[error("{0} is being changed by others, try again")]
    Contended(String),
    /// A password could not be hashed now.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ServiceError {
    /// `{name} {id} does not exist`.
    pub fn not_found(name: &str, id: impl std::fmt::Display) -> Self {
        Self::NotFound { code: format!("{name}_not_found"), message: format!("{name} {id} does not exist") }
    }

    /// A broken rule with its stable name.
    pub fn invalid(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { code: code.into(), message: message.into() }
    }

    /// A missing permission with its stable name.
    pub fn forbidden(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Forbidden { code: code.into(), message: message.into() }
    }

    /// One thing wrong with one place of the body.
    pub fn violation(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Violations(Violation::new(pointer, message).into())
    }
}

fn places(count: usize) -> String {
    if count == 1 { "1 place".to_owned() } else { format!("{count} places") }
}
