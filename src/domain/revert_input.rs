//! The body of a revert (docs/api.md, History).

use bson::{Bson, Document};

use super::Violations;
use super::schema::{Kind, Member, Schema, Unknown};

/// The body of a revert.
pub const REVERT: Schema = Schema {
    members: &[Member::required("to", Kind::Any), Member::optional("dry_run", Kind::Boolean)],
    unknown: Unknown::Refused,
};

/// The request of a revert.
#[derive(Debug, PartialEq, Eq)]
pub struct Revert {
    /// The moment to go back to, as text: a time of RFC 3339 or a sequence.
    pub to: String,
    /// Whether only to report the outcome, and store nothing.
    pub dry_run: bool,
}

impl Revert {
    /// Reads a body.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(body: &Document) -> Result<Self, Violations> {
        let accepted = REVERT.apply(body)?;
        let to = match accepted.get("to") {
            Some(Bson::String(text)) => text.clone(),
            Some(Bson::Int64(number)) => number.to_string(),
            Some(Bson::Int32(number)) => number.to_string(),
            _ => {
                let message = "must be a time of RFC 3339, as 2026-01-31T12:00:00Z, or the sequence of a log entry";
                return Err(super::Violation::new("/to", message).into());
            }
        };
        Ok(Self { to, dry_run: accepted.get_bool("dry_run").unwrap_or(false) })
    }
}
