//! The bodies of a revert and of an undo (docs/api.md, History).

use bson::{Bson, Document};

use super::schema::{Kind, Member, Schema, Unknown};
use super::{Violation, Violations};

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

/// The longest id of a request.
pub const LONGEST_REQUEST_ID: usize = 64;

/// The body of an undo.
pub const UNDO: Schema = Schema {
    members: &[Member::required("request_id", Kind::Text), Member::optional("dry_run", Kind::Boolean)],
    unknown: Unknown::Refused,
};

/// What an undo is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub struct Undo {
    /// The request that is undone.
    pub request_id: String,
    /// Whether only to say what would be undone.
    pub dry_run: bool,
}

impl Undo {
    /// Reads a body.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn read(body: &Document) -> Result<Self, Violations> {
        let accepted = UNDO.apply(body)?;
        let request_id = accepted.get_str("request_id").unwrap_or_default().to_owned();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !(1..=LONGEST_REQUEST_ID).contains(&request_id.len()) || !request_id.bytes().all(plain) {
            let message = format!(
                "must be the id of a request, as in X-Request-ID and in log entries: 1 to {LONGEST_REQUEST_ID} letters, digits, -, _ and ."
            );
            return Err(Violation::new("/request_id", message).into());
        }
        Ok(Self { request_id, dry_run: accepted.get_bool("dry_run").unwrap_or(false) })
    }
}
