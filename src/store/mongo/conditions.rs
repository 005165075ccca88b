//! The conditions of a unit as questions to the server.

use bson::{Bson, Document, doc};
use mongodb::ClientSession;

use super::Inner;
use super::change::{Failure, at, id_of};
use super::error::is_duplicate;
use crate::store::{Condition, SCOPES, StoreError};

/// Fails with the number of a condition that does not hold.
pub(super) fn broken(index: usize) -> Failure {
    StoreError::Condition { index }.into()
}

/// Checks the conditions one after the other; for use where nothing can come in between.
///
/// `scopes` says what to do about [`Condition::Unchanged`].
pub(super) async fn check(
    inner: &Inner,
    session: &mut ClientSession,
    conditions: &[Condition],
    scopes: Scopes,
) -> Result<(), Failure> {
    for (index, condition) in conditions.iter().enumerate() {
        let holds = match condition {
            Condition::Exists { collection, filter } => {
                any(inner, session, collection, filter.document().clone()).await?.is_some()
            }
            Condition::None { collection, filter } => {
                any(inner, session, collection, filter.document().clone()).await?.is_none()
            }
            Condition::Unchanged { scope, at } => match scopes {
                Scopes::Compare => is_at(inner, session, scope, *at).await?,
                Scopes::Advance => advance(inner, session, scope, *at).await?,
            },
        };
        if !holds {
            return Err(broken(index));
        }
    }
    Ok(())
}

/// What [`check`] does about a scope.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scopes {
    /// Only looks whether it stands where it should.
    Compare,
    /// Moves it on if it stands where it should.
    Advance,
}

/// Moves the scopes of the conditions on.
pub(super) async fn advance_scopes(
    inner: &Inner,
    session: &mut ClientSession,
    conditions: &[Condition],
) -> Result<(), Failure> {
    for (index, condition) in conditions.iter().enumerate() {
        if let Condition::Unchanged { scope, at } = condition
            && !advance(inner, session, scope, *at).await?
        {
            return Err(broken(index));
        }
    }
    Ok(())
}

/// The `_id` of a document that matches.
pub(super) async fn any(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    filter: Document,
) -> Result<Option<Bson>, Failure> {
    let documents = inner.collection(collection);
    let question = documents.find_one(filter).projection(doc! { "_id": 1 }).max_time(inner.write_bound());
    let found = question.session(session).await.map_err(at(collection))?;
    Ok(found.as_deref().map(id_of).transpose()?)
}

async fn is_at(inner: &Inner, session: &mut ClientSession, scope: &str, expected: i64) -> Result<bool, Failure> {
    let found = inner.collection(SCOPES).find_one(doc! { "_id": scope }).session(session).await.map_err(at(SCOPES))?;
    Ok(found.map_or(0, |scope| scope.get_i64("at").unwrap_or(-1)) == expected)
}

async fn advance(inner: &Inner, session: &mut ClientSession, scope: &str, expected: i64) -> Result<bool, Failure> {
    let next = doc! { "$set": { "at": Bson::Int64(expected + 1) } };
    let scopes = inner.collection(SCOPES);
    let step = scopes.update_one(doc! { "_id": scope, "at": expected }, next).upsert(expected == 0);
    match step.session(session).await {
        Ok(done) => Ok(done.matched_count > 0 || done.upserted_id.is_some()),
        // The scope exists and stands elsewhere.
        Err(error) if is_duplicate(&error) => Ok(false),
        Err(error) => Err(at(SCOPES)(error)),
    }
}
