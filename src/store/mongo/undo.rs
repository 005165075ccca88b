//! Undoes a unit, where no transaction does it.
//!
//! A unit can have changed tens of thousands of documents before it fails. They are undone in batches: one by one, each
//! would wait for the server's disk.

use std::mem::discriminant;
use std::slice;

use bson::raw::{RawDocumentBuf, cstr};
use bson::{RawDocument, rawdoc};
use mongodb::ClientSession;
use mongodb::error::{Error, ErrorKind};

use super::batch::{BatchKind, send};
use super::change::{Failure, apply, at, unchanged};
use super::error::refused;
use super::indexes::IndexNames;
use super::{Inner, progress};
use crate::store::{Change, StoreError};

/// The maximum number of changes that one command undoes.
const AT_ONCE: usize = 1000;
/// A batch has at most this many bytes of documents: the server takes commands of 16 MiB.
const BYTES_AT_ONCE: usize = 4 * 1024 * 1024;

/// The change that undoes a single-document change.
pub(super) fn inverse(change: &Change) -> Change {
    match change {
        Change::Insert { collection, document } => Change::Delete { collection, before: document.clone() },
        Change::Replace { collection, before, after } => {
            Change::Replace { collection, before: after.clone(), after: before.clone() }
        }
        Change::Delete { collection, before } => Change::Insert { collection, document: before.clone() },
        Change::DeleteMany { .. } | Change::UpdateMany { .. } => unreachable!("undone document by document"),
    }
}

/// Undoes what was done, the last first.
///
/// A document that somebody else changed or removed meanwhile stays as it is.
pub(super) async fn take_back(
    inner: &Inner,
    session: &mut ClientSession,
    mut undo: Vec<Change>,
) -> Result<(), Failure> {
    undo.reverse();
    let mut left = None;
    for batch in batches(&undo) {
        let collection = batch[0].collection();
        let undone = match &batch[0] {
            Change::Insert { .. } => put_back(inner, session, collection, batch).await,
            // There are few of them there, and the driver repeats each under its number.
            _ if inner.topology.has_transactions() => one_by_one(inner, session, batch).await,
            Change::Replace { .. } => restore(inner, session, collection, batch).await,
            _ => remove(inner, session, collection, batch).await,
        };
        if let Err(failure) = undone {
            log::error!("not all of {} changes of {collection} could be undone: {failure}", batch.len());
            left = Some(failure);
        }
        progress::made();
    }
    left.map_or(Ok(()), Err)
}

/// The changes in groups of one command each.
fn batches(changes: &[Change]) -> Vec<&[Change]> {
    let alike =
        |one: &Change, next: &Change| discriminant(one) == discriminant(next) && one.collection() == next.collection();
    let mut batches = Vec::new();
    for mut rest in changes.chunk_by(alike) {
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take(AT_ONCE).take_while(|change| {
                bytes += size(change);
                bytes <= BYTES_AT_ONCE
            });
            let (batch, later) = rest.split_at(fitting.count().max(1));
            batches.push(batch);
            rest = later;
        }
    }
    batches
}

fn size(change: &Change) -> usize {
    let size = |document: &RawDocument| document.as_bytes().len();
    match change {
        Change::Insert { document, .. } => size(document),
        Change::Replace { before, after, .. } => size(before) + size(after),
        Change::Delete { before, .. } => size(before),
        Change::DeleteMany { .. } | Change::UpdateMany { .. } => 0,
    }
}

/// Stores documents again that were removed.
async fn put_back(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    batch: &[Change],
) -> Result<(), Failure> {
    let documents = batch.iter().filter_map(|change| match change {
        Change::Insert { document, .. } => Some(document),
        _ => None,
    });
    let stored = inner.collection(collection).insert_many(documents).ordered(false).session(session).await;
    match stored {
        Err(error) if !are_there(&error, collection, &inner.indexes) => Err(at(collection)(error)),
        _ => Ok(()),
    }
}

/// Whether documents could not be restored only because they still exist: their removal was noted, but did not happen.
fn are_there(error: &Error, collection: &str, names: &IndexNames) -> bool {
    let ErrorKind::InsertMany(refusals) = &*error.kind else { return false };
    let is_there = |code: i32, message: &str| matches!(refused(code, message, collection, names), StoreError::Duplicate { key, .. } if key == "_id");
    refusals.write_concern_error.is_none()
        && refusals.write_errors.iter().flatten().all(|refusal| is_there(refusal.code, &refusal.message))
}

/// Restores or removes documents each by a command of its own.
async fn one_by_one(inner: &Inner, session: &mut ClientSession, batch: &[Change]) -> Result<(), Failure> {
    let mut left = None;
    for change in batch {
        match apply(inner, session, slice::from_ref(change)).await {
            Ok(_) | Err(Failure::Store(StoreError::Stale)) => {}
            Err(failure) => left = Some(failure),
        }
    }
    left.map_or(Ok(()), Err)
}

/// Makes documents what they were.
async fn restore(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    batch: &[Change],
) -> Result<(), Failure> {
    let mut statements = Vec::with_capacity(batch.len());
    for change in batch {
        if let Change::Replace { before, after, .. } = change {
            let mut statement = on_unchanged(before)?;
            statement.append(cstr!("u"), after.clone());
            statements.push(statement);
        }
    }
    let mut left = None;
    let mut rest = &statements[..];
    while !rest.is_empty() {
        let Some(refused) = send(inner, session, collection, BatchKind::Update, rest).await? else { break };
        rest = rest.get(refused.index + 1..).unwrap_or_default();
        left = Some(refused.into_failure(&inner.indexes));
    }
    left.map_or(Ok(()), Err)
}

/// Removes documents that were stored.
async fn remove(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    batch: &[Change],
) -> Result<(), Failure> {
    let mut statements = Vec::with_capacity(batch.len());
    for change in batch {
        if let Change::Delete { before, .. } = change {
            let mut statement = on_unchanged(before)?;
            statement.append(cstr!("limit"), 1_i32);
            statements.push(statement);
        }
    }
    let refused = send(inner, session, collection, BatchKind::Delete, &statements).await?;
    refused.map_or(Ok(()), |refused| Err(refused.into_failure(&inner.indexes)))
}

/// The beginning of a statement about a document that is still what it was.
fn on_unchanged(before: &RawDocument) -> Result<RawDocumentBuf, StoreError> {
    let unchanged = RawDocumentBuf::try_from(&unchanged(before)?).map_err(StoreError::backend)?;
    Ok(rawdoc! { "q": unchanged, "collation": { "locale": "simple" } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(collection: &'static str, bytes: usize) -> Change {
        Change::Insert { collection, document: rawdoc! { "_id": 1, "text": "a".repeat(bytes) } }
    }

    #[test]
    fn what_one_command_can_do_goes_together_in_its_order() {
        let delete = Change::Delete { collection: "a", before: rawdoc! { "_id": 1 } };
        let changes = [insert("a", 1), insert("a", 1), delete.clone(), insert("a", 1), insert("b", 1), insert("b", 1)];
        let lengths = |changes: &[Change]| batches(changes).iter().map(|batch| batch.len()).collect::<Vec<_>>();
        assert_eq!(lengths(&changes), [2, 1, 1, 2]);
        assert_eq!(lengths(&vec![delete; 2500]), [1000, 1000, 500]);
        assert_eq!(lengths(&[]), [0_usize; 0]);
    }

    #[test]
    fn a_command_is_not_larger_than_the_server_takes() {
        let large = insert("a", BYTES_AT_ONCE / 2 - 100);
        let huge = insert("a", BYTES_AT_ONCE);
        let changes = [large.clone(), large.clone(), large.clone(), huge, large];
        assert_eq!(batches(&changes).iter().map(|batch| batch.len()).collect::<Vec<_>>(), [2, 1, 1, 1]);
    }
}
