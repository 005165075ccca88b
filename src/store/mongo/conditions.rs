//! The conditions of a unit as queries to the server.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bson::{Bson, Document, doc};
use mongodb::ClientSession;

use super::Inner;
use super::change::{Failure, at, id_of};
use super::counters::whole_number;
use super::error::is_duplicate;
use crate::query::Filter;
use crate::store::{Condition, SCOPES, StoreError};

/// Fails with the position of a condition that does not hold.
pub(super) fn broken(index: usize) -> Failure {
    StoreError::Condition { index }.into()
}

/// Checks the conditions one after the other, where no other write can interfere.
///
/// `scopes` says what to do about [`Condition::Unchanged`].
pub(super) async fn check(
    inner: &Inner,
    session: &mut ClientSession,
    conditions: &[Condition],
    scopes: Scopes,
) -> Result<(), Failure> {
    let named = Named::read(inner, session, conditions).await?;
    for (index, condition) in conditions.iter().enumerate() {
        let holds = match condition {
            Condition::Exists { collection, filter } => named.any(inner, session, collection, filter).await?.is_some(),
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
    /// Only checks the number.
    Compare,
    /// Checks the number and increases it.
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

/// One query asks for at most this many ids.
const IDS_AT_ONCE: usize = 1000;

/// The documents that conditions name by `public_id`. One query finds all of a collection.
pub(super) struct Named {
    /// `_id`s by collection and `public_id`.
    found: HashMap<(&'static str, i64), Bson>,
}

impl Named {
    /// Asks for those of the [`Condition::Exists`].
    pub(super) async fn read(
        inner: &Inner,
        session: &mut ClientSession,
        conditions: &[Condition],
    ) -> Result<Self, Failure> {
        let mut asked: BTreeMap<&'static str, BTreeSet<i64>> = BTreeMap::new();
        for condition in conditions {
            if let Condition::Exists { collection, filter } = condition
                && let Some(id) = named(filter)
            {
                asked.entry(collection).or_default().insert(id);
            }
        }
        asked.retain(|_, ids| ids.len() > 1);
        let mut found = HashMap::new();
        for (collection, ids) in &asked {
            let ids: Vec<i64> = ids.iter().copied().collect();
            for ids in ids.chunks(IDS_AT_ONCE) {
                let documents = inner.collection(collection);
                let question = documents.find(doc! { "public_id": { "$in": ids } });
                let question = question.projection(doc! { "public_id": 1 }).max_time(inner.write_bound());
                let mut answer = question.session(&mut *session).await.map_err(at(collection))?;
                while answer.advance(session).await.map_err(at(collection))? {
                    let document = answer.current();
                    let id = document.get("public_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
                    if let Some(id) = id.as_ref().and_then(whole_number) {
                        found.insert((*collection, id), id_of(document)?);
                    }
                }
            }
        }
        Ok(Self { found })
    }

    /// The `_id` of a document that matches.
    pub(super) async fn any(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
        collection: &'static str,
        filter: &Filter,
    ) -> Result<Option<Bson>, Failure> {
        if let Some(known) = named(filter).and_then(|id| self.found.get(&(collection, id))) {
            return Ok(Some(known.clone()));
        }
        any(inner, session, collection, filter.document().clone()).await
    }
}

/// The `public_id` of a filter that has no other condition.
fn named(filter: &Filter) -> Option<i64> {
    let filter = filter.document();
    let wanted = filter.get("public_id").filter(|_| filter.len() == 1)?;
    match wanted {
        Bson::Document(test) if test.len() == 1 => test.get("$eq").and_then(Bson::as_i64),
        wanted => wanted.as_i64(),
    }
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
