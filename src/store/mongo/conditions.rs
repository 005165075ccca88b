//! The conditions of a unit as queries to the server, inside of its transaction.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bson::{Bson, Document, doc};
use mongodb::ClientSession;

use super::Inner;
use super::counters::public_id;
use super::error::{Failure, at, is_duplicate};
use crate::query::Filter;
use crate::store::{Condition, SCOPES, StoreError};

/// One query finds at most this many documents by their ids.
const IDS_AT_ONCE: usize = 1000;

/// What is known to hold in this transaction: units often rely on the same documents.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The documents that exist, by collection and `public_id`.
    existing: HashSet<(&'static str, i64)>,
    /// The other filters that some document matches.
    matched: Vec<(&'static str, Document)>,
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
        for (index, condition) in conditions.iter().enumerate() {
            let holds = match condition {
                Condition::Exists { collection, filter } => match named(condition) {
                    Some(id) => self.existing.contains(&id),
                    None => self.matches(inner, session, collection, filter).await?,
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

    async fn matches(
        &mut self,
        inner: &Inner,
        session: &mut ClientSession,
        collection: &'static str,
        filter: &Filter,
    ) -> Result<bool, Failure> {
        if self.matched.iter().any(|(of, matched)| *of == collection && matched == filter.document()) {
            return Ok(true);
        }
        let holds = any(inner, session, collection, filter).await?;
        self.matched.extend(holds.then(|| (collection, filter.document().clone())));
        Ok(holds)
    }

    /// Finds the documents that the conditions of all units name by `public_id`: one query for all of a collection.
    ///
    /// # Errors
    /// Those of the server.
    pub(super) async fn find_named<'c>(
        &mut self,
        inner: &Inner,
        session: &mut ClientSession,
        conditions: impl Iterator<Item = &'c Condition>,
    ) -> Result<(), Failure> {
        let mut wanted: BTreeMap<&'static str, BTreeSet<i64>> = BTreeMap::new();
        for (collection, id) in conditions.filter_map(named) {
            wanted.entry(collection).or_default().insert(id);
        }
        for (collection, ids) in wanted {
            let ids: Vec<i64> = ids.into_iter().collect();
            for ids in ids.chunks(IDS_AT_ONCE) {
                let documents = inner.collection(collection);
                let question = documents.find(doc! { "public_id": { "$in": ids } });
                let question = question.projection(doc! { "_id": 0, "public_id": 1 }).max_time(inner.write_bound());
                let mut answer = question.session(&mut *session).await.map_err(at(collection))?;
                while answer.advance(session).await.map_err(at(collection))? {
                    self.existing.extend(public_id(answer.current()).map(|id| (collection, id)));
                }
            }
        }
        Ok(())
    }
}

/// The document of which a condition says by its `public_id` alone that it exists.
pub(super) fn named(condition: &Condition) -> Option<(&'static str, i64)> {
    let Condition::Exists { collection, filter } = condition else { return None };
    let filter = filter.document();
    let wanted = filter.get("public_id").filter(|_| filter.len() == 1)?;
    let id = match wanted {
        Bson::Document(test) if test.len() == 1 => test.get("$eq").and_then(Bson::as_i64),
        wanted => wanted.as_i64(),
    };
    Some((collection, id?))
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
