//! Whether the documents that a unit relies on exist, and stay.
//!
//! Each insert of an object runs this query, so concurrent units that rely on the same documents share one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bson::{Document, Timestamp, doc};
use mongodb::ClientSession;

use super::Inner;
use super::change::Failure;
use super::conditions::Named;
use super::error::command_error;
use super::marks::{Marked, standing};
use super::rounds::{Rounds, refuse};
use super::waiting::query_bound;
use crate::store::{Condition, StoreError};

/// What is known about the documents that a unit relies on.
#[derive(Debug, Clone, Default)]
pub(super) struct Reliance {
    /// Per [`Condition::Exists`] its position among the conditions and the document that was found.
    found: Vec<(usize, Option<Marked>)>,
    /// All marks of the collections concerned.
    marked: Vec<Marked>,
}

impl Reliance {
    /// The first condition for which there is no document.
    pub(super) fn missing(&self) -> Option<usize> {
        self.found.iter().find(|(_, key)| key.is_none()).map(|(index, _)| *index)
    }

    /// A document that was found, but may be about to go.
    pub(super) fn in_doubt(&self) -> Option<&Marked> {
        self.documents().find(|key| self.marked.contains(key))
    }

    /// The documents that were found.
    pub(super) fn documents(&self) -> impl Iterator<Item = &Marked> {
        self.found.iter().filter_map(|(_, key)| key.as_ref())
    }
}

/// Whether a unit with these conditions relies on documents.
pub(super) fn relies(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| matches!(condition, Condition::Exists { .. }))
}

/// Looks up the marks, and then the documents of all [`Condition::Exists`].
///
/// In this order: a removal that ends in between shows by its mark, or else by the missing document. (One query for
/// both, with `$unionWith`, costs the server more than these two.)
pub(super) async fn look(
    inner: &Inner,
    session: &mut ClientSession,
    conditions: &[Condition],
) -> Result<Reliance, Failure> {
    let mut reliance = Reliance::default();
    if !relies(conditions) {
        return Ok(reliance);
    }
    reliance.marked = standing(inner, session).await?;
    let named = Named::read(inner, session, conditions).await?;
    for (index, condition) in conditions.iter().enumerate() {
        if let Condition::Exists { collection, filter } = condition {
            let document = named.any(inner, session, collection, filter).await?;
            let key = document.map(|document| Marked { collection: (*collection).to_owned(), document });
            let is_missing = key.is_none();
            reliance.found.push((index, key));
            if is_missing {
                break;
            }
        }
    }
    Ok(reliance)
}

/// The running queries, by their conditions.
#[derive(Debug, Default)]
pub(super) struct Reliances(Mutex<HashMap<Vec<u8>, Arc<Round>>>);

/// Each query has the time of its unit's last write, if the deployment has such times.
type Round = Rounds<Option<Timestamp>, Reliance>;

impl Reliances {
    fn round(&self, key: &[u8]) -> Arc<Round> {
        let mut rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(round) = rounds.get(key) {
            return Arc::clone(round);
        }
        Arc::clone(rounds.entry(key.to_vec()).or_default())
    }

    /// Forgets the round unless somebody else has it in hand.
    fn forget(&self, key: &[u8], round: &Arc<Round>) {
        let mut rounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The map and the caller; nobody gets hold of it while the map is locked.
        if Arc::strong_count(round) == 2 {
            rounds.remove(key);
        }
    }
}

/// Like [`look`], in one query for all concurrent callers that ask the same.
///
/// The answer is newer than all writes of `session`.
pub(super) async fn look_together(
    inner: &Arc<Inner>,
    session: &ClientSession,
    conditions: &[Condition],
) -> Result<Reliance, Failure> {
    let key = key_of(conditions)?;
    let round = inner.reliances.round(&key);
    let place = round.join(session.operation_time());
    if place.serves {
        tokio::spawn(serve(Arc::clone(inner), round, key, conditions.into()));
    }
    Ok(place.answer().await?)
}

fn key_of(conditions: &[Condition]) -> Result<Vec<u8>, StoreError> {
    let mut key = Document::new();
    for (index, condition) in conditions.iter().enumerate() {
        if let Condition::Exists { collection, filter } = condition {
            key.insert(index.to_string(), doc! { *collection: filter.document() });
        }
    }
    key.to_vec().map_err(StoreError::backend)
}

async fn serve(inner: Arc<Inner>, round: Arc<Round>, key: Vec<u8>, conditions: Arc<[Condition]>) {
    loop {
        let waiting = round.next();
        if waiting.is_empty() {
            inner.reliances.forget(&key, &round);
            return;
        }
        let after = waiting.iter().filter_map(|waiting| waiting.question).max();
        let question = || {
            let (inner, conditions) = (Arc::clone(&inner), Arc::clone(&conditions));
            async move {
                let found = look_after(&inner, after, &conditions).await;
                found.map_err(|failure| failure.into_store_error(&inner.indexes))
            }
        };
        match inner.presence.ask(query_bound(inner.write_bound()), question).await {
            Ok(reliance) => waiting.into_iter().for_each(|waiting| waiting.reply(Ok(reliance.clone()))),
            Err(error) => refuse(waiting, &error),
        }
    }
}

/// Reads a state that is not older than `after`.
async fn look_after(inner: &Inner, after: Option<Timestamp>, conditions: &[Condition]) -> Result<Reliance, Failure> {
    let mut session = inner.database.client().start_session().await.map_err(|error| command_error(&error))?;
    if let Some(after) = after {
        session.advance_operation_time(after);
    }
    look(inner, &mut session, conditions).await
}
