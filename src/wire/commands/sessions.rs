//! Sessions of clients: they hold cursors together, and nothing else, as there are no transactions.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};

use super::options::session_id;
use super::{Reading, done};
use crate::wire::error::WireError;

/// How long a session lives without being used; a promise that no session needs.
const MINUTES: i32 = 30;

pub(super) fn start(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    let mut id: [u8; 16] = rand::random();
    // Version 4, and the variant of RFC 9562.
    id[6] = id[6] & 0x0F | 0x40;
    id[8] = id[8] & 0x3F | 0x80;
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: id.to_vec() };
    done(doc! { "id": { "id": id }, "timeoutMinutes": MINUTES })
}

pub(super) fn refresh(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    named(reading)?;
    done(Document::new())
}

/// Closes the cursors of these sessions.
pub(super) fn end(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    reading.options.only(&[])?;
    let sessions = named(reading)?;
    reading.call.shared.cursors.end_sessions(reading.caller.user_id, &sessions);
    done(Document::new())
}

fn named(reading: &Reading<'_>) -> Result<Vec<Vec<u8>>, WireError> {
    let options = &reading.options;
    match options.subject() {
        Some(Bson::Array(sessions)) => {
            Ok(sessions.iter().filter_map(Bson::as_document).filter_map(session_id).collect())
        }
        other => Err(options.mismatch(&options.command, other.unwrap_or(&Bson::Null), "array")),
    }
}
