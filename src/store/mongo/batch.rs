//! Many statements in one command. The server acknowledges them together, with one wait for its disk.

use bson::raw::{RawArrayBuf, RawDocumentBuf};
use bson::{Document, rawdoc};
use mongodb::ClientSession;
use mongodb::error::{Error, ErrorKind};

use super::Inner;
use super::change::{Failure, at};
use super::error::{is_away, refusal_of, refused};
use super::indexes::IndexNames;
use crate::store::StoreError;

/// `ShutdownInProgress`, `PrimarySteppedDown`, `NotWritablePrimary`, `InterruptedAtShutdown`, `InterruptedDueToReplStateChange`.
const INTERRUPTED: [i32; 5] = [91, 189, 10107, 11600, 11602];

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchKind {
    /// Runs the statements in order, and stops at the first refused one.
    Update,
    /// In whatever order, and each of them.
    Delete,
}

/// A statement that the server refused.
#[derive(Debug)]
pub(super) struct Refused {
    /// Which one it is.
    pub(super) index: usize,
    /// The server's number for the reason.
    pub(super) code: i32,
    message: String,
    collection: &'static str,
}

impl Refused {
    /// As the failure of a unit.
    pub(super) fn into_failure(self, names: &IndexNames) -> Failure {
        refused(self.code, &self.message, self.collection, names).into()
    }
}

/// Sends the statements, and returns the first refused one.
///
/// The driver neither repeats a raw command nor gives it a retry number. So this function sends the statements a second
/// time after a network error. They must be idempotent, and harmless if they take effect late.
pub(super) async fn send(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    kind: BatchKind,
    statements: &[RawDocumentBuf],
) -> Result<Option<Refused>, Failure> {
    let command = command(inner, collection, kind, statements)?;
    let answer = match once(inner, session, command.clone()).await {
        Err(error) if is_worth_repeating(&error) => once(inner, session, command).await,
        Ok(answer) if is_interrupted(&answer) => once(inner, session, command).await,
        answer => answer,
    };
    first_refused(&answer.map_err(at(collection))?, collection)
}

async fn once(inner: &Inner, session: &mut ClientSession, command: RawDocumentBuf) -> Result<Document, Error> {
    inner.database.run_raw_command(command).session(session).await
}

/// A failed server selection has already waited for a server.
fn is_worth_repeating(error: &Error) -> bool {
    is_away(error) && !matches!(*error.kind, ErrorKind::ServerSelection { .. })
}

/// Whether the server stopped or stepped down while it waited for the others to confirm the write.
fn is_interrupted(answer: &Document) -> bool {
    let missed = answer.get_document("writeConcernError");
    missed.is_ok_and(|missed| missed.get_i32("code").is_ok_and(|code| INTERRUPTED.contains(&code)))
}

fn command(
    inner: &Inner,
    collection: &str,
    kind: BatchKind,
    statements: &[RawDocumentBuf],
) -> Result<RawDocumentBuf, StoreError> {
    let mut list = RawArrayBuf::new();
    for statement in statements {
        list.push(statement.clone());
    }
    let bound = i64::try_from(inner.write_bound().as_millis()).map_err(StoreError::backend)?;
    // The driver gives commands no write concern of its own.
    let concern = rawdoc! { "w": "majority", "j": true, "wtimeout": bound };
    Ok(match kind {
        BatchKind::Update => {
            rawdoc! { "update": collection, "updates": list, "ordered": true, "writeConcern": concern }
        }
        BatchKind::Delete => {
            rawdoc! { "delete": collection, "deletes": list, "ordered": false, "writeConcern": concern }
        }
    })
}

/// The driver treats an answer as a success even if parts of the command were refused.
fn first_refused(answer: &Document, collection: &'static str) -> Result<Option<Refused>, Failure> {
    let refusals = answer.get_array("writeErrors").ok();
    if let Some(first) = refusals.and_then(|refusals| refusals.first()?.as_document()) {
        let (index, code) = (first.get_i32("index").unwrap_or_default(), first.get_i32("code").unwrap_or_default());
        let message = first.get_str("errmsg").unwrap_or_default().to_owned();
        return Ok(Some(Refused { index: usize::try_from(index).unwrap_or_default(), code, message, collection }));
    }
    match answer.get_document("writeConcernError") {
        Ok(missed) => Err(refusal_of(missed.get_i32("code").unwrap_or_default()).into()),
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn what_a_primary_did_while_it_gave_up_is_asked_for_again() {
        let unconfirmed = |code: i32| doc! { "ok": 1, "n": 1, "writeConcernError": { "code": code, "errmsg": "" } };
        assert!(is_interrupted(&unconfirmed(11602)));
        assert!(!is_interrupted(&unconfirmed(64)), "it waited as long as it may");
        assert!(!is_interrupted(&doc! { "ok": 1, "n": 1 }));
    }
}
