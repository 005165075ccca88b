//! The conditions of a unit as queries to the server, inside of its transaction.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bson::{Bson, doc};
use mongodb::ClientSession;

use super::Inner;
use super::counters::whole_number;
use super::error::is_duplicate;
use super::failure::{Failure, at};
use crate::query::Filter;
use crate::store::{Condition, SCOPES, StoreError};

/// One query finds at most this many documents by their ids.
const IDS_AT_ONCE: usize = 1000;

/// The documents that are known to exist in this transaction: units often rely on the same ones.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// By collection and `public_id`.
    existing: HashSet<(&'static str, i64)>,
}

impl Checked {
    /// Checks conditions one after the other, and moves scopes on.
    ///
    /// # Errors
    /// [`StoreError::Condition`] with the position of the first one that does not hold.
    pub(super) async fn check(
        &mut self,
        inner: &Inner,
        session: &mut ClientSession,
        conditions: &[Condition],
    ) -> Result<(), Failure> {
        self.find_named(inner, session, conditions).await?;
        for (index, condition) in conditions.iter().enumerate() {
            let holds = match condition {
                Condition::Exists { collection, filter } => match named(filter) {
                    Some(id) => self.existing.contains(&(*collection, id)),
                    None => any(inner, session, collection, filter).await?,
                },
                Condition::None { collection, filter } => !any(inner, session, collection, filter).await?,
                Condition::Unchanged { scope, at } => advance(inner, session, scope, *at).await?,
            };
            if !holds {
                return Err(StoreError::Condition { index }.into());
            }
        }
        Ok(())
    }

    /// Finds the documents that conditions name by `public_id`: one query for all of a collection.
    async fn find_named(
        &mut self,
        inner: &Inner,
        session: &mut ClientSession,
        conditions: &[Condition],
    ) -> Result<(), Failure> {
        let mut wanted: BTreeMap<&'static str, BTreeSet<i64>> = BTreeMap::new();
        for condition in conditions {
            if let Condition::Exists { collection, filter } = condition
                && let Some(id) = named(filter)
                && !self.existing.contains(&(*collection, id))
            {
                wanted.entry(collection).or_default().insert(id);
            }
        }
        for (collection, ids) in wanted {
            let ids: Vec<i64> = ids.into_iter().collect();
            for ids in ids.chunks(IDS_AT_ONCE) {
                let documents = inner.collection(collection);
                let question = documents.find(doc! { "public_id": { "$in": ids } });
                let question = question.projection(doc! { "_id": 0, "public_id": 1 }).max_time(inner.write_bound());
                let mut answer = question.session(&mut *session).await.map_err(at(collection))?;
                while answer.advance(session).await.map_err(at(collection))? {
                    let id = answer.current().get("public_id").ok().flatten().and_then(|id| Bson::try_from(id).ok());
                    self.existing.extend(id.as_ref().and_then(whole_number).map(|id| (collection, id)));
                }
            }
        }
        Ok(())
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

/// Whether a document matches.
async fn any(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    filter: &Filter,
) -> Result<bool, Failure> {
    let documents = inner.collection(collection);
    let question = documents.find_one(filter.document().clone()).projection(doc! { "_id": 1 });
    let found = question.max_time(inner.write_bound()).session(session).await.map_err(at(collection))?;
    Ok(found.is_some())
}

async fn advance(inner: &Inner, session: &mut ClientSession, scope: &str, expected: i64) -> Result<bool, Failure> {
    let next = doc! { "$set": { "at": Bson::Int64(expected + 1) } };
    let scopes = inner.collection(SCOPES);
    let step = scopes.update_one(doc! { "_id": scope, "at": expected }, next).upsert(expected == 0);
    match step.session(session).await {
        Ok(done) => Ok(done.matched_count > 0 || done.upserted_id.is_some()),
        // The scope exists and has another value.
        Err(error) if is_duplicate(&error) => Ok(false),
        Err(error) => Err(at(SCOPES)(error)),
    }
}
