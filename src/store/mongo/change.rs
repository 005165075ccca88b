//! Single changes as commands of the driver, inside or outside of a transaction.

use std::fmt;

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, RawDocument, doc};
use mongodb::error::Error;
use mongodb::options::Collation;
use mongodb::{ClientSession, Collection};

use super::Inner;
use super::error::{brief, write_error};
use super::indexes::IndexNames;
use crate::store::{Change, StoreError};

/// Why a change did not happen; the driver's error is kept because its labels say whether to try again.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error of the server or the network, while working on this collection.
    Driver { error: Error, collection: &'static str },
    /// An error that the port has a name for.
    Store(StoreError),
}

impl Failure {
    /// What the caller of the port gets.
    pub(super) fn into_store_error(self, names: &IndexNames) -> StoreError {
        match self {
            Self::Driver { error, collection } => write_error(&error, collection, names),
            Self::Store(error) => error,
        }
    }

    /// Whether the error carries the label.
    pub(super) fn has_label(&self, label: &str) -> bool {
        matches!(self, Self::Driver { error, .. } if error.contains_label(label))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { error, collection } => write!(formatter, "{collection}: {}", brief(error)),
            Self::Store(error) => error.fmt(formatter),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// For `map_err` on operations of the driver.
pub(super) fn at(collection: &'static str) -> impl Fn(Error) -> Failure {
    move |error| Failure::Driver { error, collection }
}

/// The changes in groups of one command each: neighbouring inserts into one collection go together.
pub(super) fn commands(changes: &[Change]) -> impl Iterator<Item = &[Change]> {
    changes.chunk_by(|one, next| match (one, next) {
        (Change::Insert { collection: one, .. }, Change::Insert { collection: next, .. }) => one == next,
        _ => false,
    })
}

/// What a change waits for without a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// The server's disk.
    Now,
    /// Nothing: a later change of the same unit waits for both.
    Later,
}

/// Runs one group of [`commands`] and returns how many documents each of its changes touched.
pub(super) async fn apply(inner: &Inner, session: &mut ClientSession, command: &[Change]) -> Result<Vec<u64>, Failure> {
    apply_with(inner, session, command, Durability::Now).await
}

/// As [`apply`], outside of transactions.
pub(super) async fn apply_with(
    inner: &Inner,
    session: &mut ClientSession,
    command: &[Change],
    journal: Durability,
) -> Result<Vec<u64>, Failure> {
    let Some(change) = command.first() else { return Ok(Vec::new()) };
    let name = change.collection();
    let collection = match journal {
        Durability::Now => inner.collection(name),
        Durability::Later => inner.unjournaled(name),
    };
    let touched = match change {
        Change::Insert { .. } => {
            insert(session, &collection, name, command).await?;
            return Ok(vec![1; command.len()]);
        }
        Change::Replace { before, after, .. } => {
            let unchanged = unchanged(before)?;
            let replaced = collection.replace_one(unchanged, after).collation(exact()).session(session);
            found(replaced.await.map_err(at(name))?.matched_count)?
        }
        Change::Delete { before, .. } => {
            let unchanged = unchanged(before)?;
            let deleted = collection.delete_one(unchanged).collation(exact()).session(session);
            found(deleted.await.map_err(at(name))?.deleted_count)?
        }
        Change::DeleteMany { filter, .. } => {
            let deleted = collection.delete_many(filter.document().clone()).session(session);
            deleted.await.map_err(at(name))?.deleted_count
        }
        Change::UpdateMany { filter, update, .. } => {
            let updated = collection.update_many(filter.document().clone(), update.document()).session(session);
            updated.await.map_err(at(name))?.modified_count
        }
    };
    Ok(vec![touched])
}

async fn insert(
    session: &mut ClientSession,
    collection: &Collection<RawDocumentBuf>,
    name: &'static str,
    inserts: &[Change],
) -> Result<(), Failure> {
    let documents: Vec<&RawDocumentBuf> = inserts
        .iter()
        .filter_map(|change| match change {
            Change::Insert { document, .. } => Some(document),
            _ => None,
        })
        .collect();
    if let [document] = documents[..] {
        collection.insert_one(document).session(session).await.map_err(at(name))?;
    } else {
        collection.insert_many(documents).session(session).await.map_err(at(name))?;
    }
    Ok(())
}

/// Matches the document with this `_id` if it still has the same members in the same order.
///
/// `$literal` keeps the server from seeing expressions in values such as `{$add: ..}` or `"$name"`. Numbers compare by
/// value, so the size is compared as well: it shows an edit that only turned 1 into 1.0. An edit that only turned an
/// Int64 into a double of the same value, or a zero into a negative one, goes unnoticed.
pub(super) fn unchanged(before: &RawDocument) -> Result<Document, StoreError> {
    let id = id_of(before)?;
    let size = i32::try_from(before.as_bytes().len()).map_err(StoreError::backend)?;
    let mut rest = Document::try_from(before).map_err(StoreError::backend)?;
    rest.remove("_id");
    // The server stores `_id` first, whatever its place was.
    let before: Document = std::iter::once(("_id".to_owned(), id.clone())).chain(rest).collect();
    Ok(doc! { "_id": { "$eq": id }, "$expr": { "$and": [
        { "$eq": [{ "$bsonSize": "$$ROOT" }, size] },
        { "$eq": ["$$ROOT", { "$literal": before }] },
    ] } })
}

/// Whether the stored document is unchanged.
pub(super) async fn is_unchanged(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    before: &RawDocument,
) -> Result<bool, Failure> {
    let documents = inner.collection(collection);
    let question = documents.find_one(unchanged(before)?).projection(doc! { "_id": 1 }).collation(exact());
    Ok(question.session(session).await.map_err(at(collection))?.is_some())
}

/// The `_id` of a document.
pub(super) fn id_of(document: &RawDocument) -> Result<Bson, StoreError> {
    let id = document.get("_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
    id.ok_or_else(|| StoreError::Corrupt { what: "a document without _id".to_owned() })
}

/// Strings are equal only when all their bytes are, whatever collation an operator gave the collection.
fn exact() -> Collation {
    Collation::builder().locale("simple").build()
}

fn found(matched: u64) -> Result<u64, StoreError> {
    if matched == 0 { Err(StoreError::Stale) } else { Ok(matched) }
}
