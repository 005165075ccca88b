//! A unit step by step, for a standalone server, which has no transactions.
//!
//! Each step is noted with its inverse first. When a step fails, the earlier ones are [undone](super::undo), the last
//! first. A reader can see intermediate states, and a process that dies in the middle leaves its steps. For more, run a
//! replica set, even of a single server.

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use mongodb::ClientSession;
use mongodb::error::{ErrorKind, WriteFailure};

use super::change::{Durability, Failure, apply_with, at, commands, id_of};
use super::error::{command_error, unavailable};
use super::marks::Marks;
use super::undo::{inverse, take_back};
use super::{Inner, progress};
use crate::query::{Filter, Update};
use crate::store::{Change, StoreError};

/// Documents named by `_id` in one command.
const NAMED_AT_ONCE: usize = 10_000;

/// Makes the changes in order; after a failure none of them is left.
pub(super) async fn run(
    inner: &Inner,
    session: &mut ClientSession,
    marks: Option<&Marks>,
    changes: &[Change],
) -> Result<Vec<u64>, Failure> {
    let mut steps = Steps { inner, marks, undo: Vec::new() };
    let outcome = steps.forward(session, changes).await;
    if outcome.is_err() {
        take_back(inner, session, steps.undo).await?;
    }
    outcome
}

/// The steps of a unit on their way.
struct Steps<'a> {
    inner: &'a Inner,
    marks: Option<&'a Marks>,
    /// What undoes them, the first one first.
    undo: Vec<Change>,
}

impl Steps<'_> {
    /// Only the last step waits for the journal, which then also holds the earlier steps. This holds only for one
    /// server process: a restart in the middle may have lost steps.
    async fn forward(&mut self, session: &mut ClientSession, changes: &[Change]) -> Result<Vec<u64>, Failure> {
        let mut commands = commands(changes).peekable();
        let mut touched = Vec::with_capacity(changes.len());
        let mut process = None;
        while let Some(command) = commands.next() {
            let is_last = commands.peek().is_none();
            if touched.is_empty() && !is_last {
                process = self.process().await?;
            }
            let journal = if is_last || process.is_none() { Durability::Now } else { Durability::Later };
            touched.append(&mut self.step(session, command, journal).await?);
            progress::made();
        }
        if process.is_some() && self.process().await? != process {
            return Err(unavailable("the server was started anew in the middle of a unit").into());
        }
        Ok(touched)
    }

    /// The identity of the running server process; some compatible servers have none.
    async fn process(&self) -> Result<Option<Bson>, Failure> {
        let hello = self.inner.database.run_command(doc! { "hello": 1 }).await;
        let hello = hello.map_err(|error| Failure::Store(command_error(&error)))?;
        Ok(hello.get_document("topologyVersion").ok().and_then(|version| version.get("processId")).cloned())
    }

    async fn step(
        &mut self,
        session: &mut ClientSession,
        command: &[Change],
        journal: Durability,
    ) -> Result<Vec<u64>, Failure> {
        let inner = self.inner;
        if let Some(marks) = self.marks {
            marks.refresh_for(inner, session, command).await?;
        }
        match command {
            [Change::DeleteMany { collection, filter }] => {
                let found = matching(inner, session, collection, filter).await?;
                let put_back = |document: &RawDocumentBuf| Change::Insert { collection, document: document.clone() };
                self.undo.extend(found.iter().map(put_back));
                let documents = inner.collection(collection);
                let mut deleted = 0;
                for named in named(filter, &found)? {
                    let step = documents.delete_many(named).session(&mut *session);
                    deleted += step.await.map_err(at(collection))?.deleted_count;
                    progress::made();
                }
                Ok(vec![deleted])
            }
            [Change::UpdateMany { collection, filter, update }] => {
                let found = matching(inner, session, collection, filter).await?;
                for before in &found {
                    self.undo.extend(restoring(collection, before, update)?);
                }
                let documents = inner.collection(collection);
                let mut updated = 0;
                for named in named(filter, &found)? {
                    let step = documents.update_many(named, update.document()).session(&mut *session);
                    updated += step.await.map_err(at(collection))?.modified_count;
                    progress::made();
                }
                Ok(vec![updated])
            }
            _ => {
                let outcome = apply_with(inner, session, command, journal).await;
                let done = match &outcome {
                    Ok(_) => command.len(),
                    Err(failure) => made_before(failure, command),
                };
                self.undo.extend(command[..done].iter().map(inverse));
                outcome
            }
        }
    }
}

/// How many changes of a failed command may have been made. Inserts run in order, up to the refused one.
fn made_before(failure: &Failure, command: &[Change]) -> usize {
    match failure {
        Failure::Store(_) => 0,
        Failure::Driver { error, .. } => match &*error.kind {
            ErrorKind::InsertMany(refused) => match refused.write_errors.as_deref() {
                Some([first, ..]) => first.index,
                _ => command.len(),
            },
            ErrorKind::Write(WriteFailure::WriteError(_)) | ErrorKind::Command(_) => 0,
            // The connection broke: the server may have done all of it.
            _ => command.len(),
        },
    }
}

async fn matching(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    filter: &Filter,
) -> Result<Vec<RawDocumentBuf>, Failure> {
    let documents = inner.collection(collection);
    let question = documents.find(filter.document().clone());
    let mut answer = question.session(&mut *session).await.map_err(at(collection))?;
    let mut found = Vec::new();
    while answer.advance(session).await.map_err(at(collection))? {
        found.push(answer.current().to_owned());
    }
    Ok(found)
}

/// A filter for exactly the found documents, some at a time. Documents that match only by now are excluded, because
/// nothing was noted to undo them.
fn named(filter: &Filter, found: &[RawDocumentBuf]) -> Result<Vec<Document>, StoreError> {
    let some = |some: &[RawDocumentBuf]| {
        let ids = some.iter().map(|document| id_of(document)).collect::<Result<Vec<Bson>, _>>()?;
        Ok(doc! { "$and": [{ "_id": { "$in": ids } }, filter.document().clone()] })
    };
    found.chunks(NAMED_AT_ONCE).map(some).collect()
}

/// The change that undoes an update of one document, if the update changes it.
fn restoring(collection: &'static str, before: &RawDocumentBuf, update: &Update) -> Result<Option<Change>, StoreError> {
    let mut after = Document::try_from(before.as_ref()).map_err(StoreError::backend)?;
    if !update.apply(&mut after) {
        return Ok(None);
    }
    let after = RawDocumentBuf::try_from(&after).map_err(StoreError::backend)?;
    Ok(Some(Change::Replace { collection, before: after, after: before.clone() }))
}
