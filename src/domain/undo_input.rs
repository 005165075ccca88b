//! The body of an undo (docs/api.md, Undo of a request).

use bson::Document;

use super::schema::{Kind, Member, Schema, Unknown};
use super::{Violation, Violations};

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
