//! One thing that is wrong with a request body.

use serde::Serialize;
use utoipa::ToSchema;

/// A place in the body and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Violation {
    /// A JSON pointer (RFC 6901) into the body, or the name of a parameter.
    pub pointer: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl Violation {
    /// A violation at `pointer`.
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), message: message.into() }
    }
}
