//! The conditions of a unit as questions to the server.

use bson::{Bson, Document, RawDocument, doc};
use mongodb::ClientSession;

use super::Inner;
use super::change::{Failure, at};
use super::error::is_duplicate;
use super::marks::{Key, REMOVALS};
use crate::store::{Condition, SCOPES, StoreError};

/// What stands about the documents that a unit relies on.
#[derive(Debug, Default)]
pub(super) struct Reliance {
    /// Per [`Condition::Exists`] its position among the conditions and the document that was found.
    found: Vec<(usize, Option<Key>)>,
    /// All marks of the collections concerned.
    marked: Vec<Key>,
}

impl Reliance {
    /// The first condition for which there is no document.
    pub(super) fn missing(&self) -> Option<usize> {
        self.found.iter().find(|(_, key)| key.is_none()).map(|(index, _)| *index)
    }

    /// A document that was found, but may be about to go.
    pub(super) fn in_doubt(&self) -> Option<&Key> {
        self.documents().find(|key| self.marked.contains(key))
    }

    /// The documents that were found.
    pub(super) fn documents(&self) -> impl Iterator<Item = &Key> {
        self.found.iter().filter_map(|(_, key)| key.as_ref())
    }
}

/// Fails with the number of a condition that does not hold.
pub(super) fn broken(index: usize) -> Failure {
    StoreError::Condition { index }.into()
}

/// Whether a unit with these conditions relies on documents.
pub(super) fn relies(conditions: &[Condition]) -> bool {
    conditions.iter().any(|condition| matches!(condition, Condition::Exists { .. }))
}

/// Looks up the documents of all [`Condition::Exists`] and the marks, in one question.
///
/// The marks are read *before* the documents: `$unionWith` starts its pipelines one after the other. A removal that ends
/// in between is seen by its mark, or, the mark being gone, by the missing document.
pub(super) async fn look(
    inner: &Inner,
    session: &mut ClientSession,
    conditions: &[Condition],
) -> Result<Reliance, Failure> {
    let mut reliance = Reliance::default();
    let mut collections = Vec::new();
    let mut lookups = Vec::new();
    for (index, condition) in conditions.iter().enumerate() {
        if let Condition::Exists { collection, filter } = condition {
            reliance.found.push((index, None));
            collections.push(*collection);
            lookups.push(lookup(index, collection, filter.document()));
        }
    }
    if lookups.is_empty() {
        return Ok(reliance);
    }
    let mut pipeline =
        vec![doc! { "$match": { "_id.collection": { "$in": &collections } } }, doc! { "$project": { "_id": 1 } }];
    pipeline.append(&mut lookups);
    let marks = inner.collection(REMOVALS);
    let question = marks.aggregate(pipeline).max_time(inner.write_bound());
    let mut answer = question.session(&mut *session).await.map_err(at(REMOVALS))?;
    while answer.advance(session).await.map_err(at(REMOVALS))? {
        take_note(&mut reliance, conditions, answer.current())?;
    }
    Ok(reliance)
}

fn lookup(index: usize, collection: &str, filter: &Document) -> Document {
    let index = i64::try_from(index).expect("a unit has few conditions");
    doc! { "$unionWith": { "coll": collection, "pipeline": [
        { "$match": filter },
        { "$limit": 1 },
        { "$project": { "_id": { "condition": { "$literal": index }, "document": "$_id" } } },
    ] } }
}

fn take_note(reliance: &mut Reliance, conditions: &[Condition], line: &RawDocument) -> Result<(), StoreError> {
    let line = Document::try_from(line).map_err(StoreError::backend)?;
    let Ok(id) = line.get_document("_id") else { return Ok(()) };
    let Some(document) = id.get("document").cloned() else { return Ok(()) };
    if let Ok(index) = id.get_i64("condition") {
        for (at, found) in &mut reliance.found {
            if let Condition::Exists { collection, .. } = &conditions[*at]
                && i64::try_from(*at) == Ok(index)
            {
                *found = Some(Key { collection: (*collection).to_owned(), document: document.clone() });
            }
        }
    } else if let Ok(collection) = id.get_str("collection") {
        reliance.marked.push(Key { collection: collection.to_owned(), document });
    }
    Ok(())
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
                any(inner, session, collection, filter.document().clone()).await?
            }
            Condition::None { collection, filter } => {
                !any(inner, session, collection, filter.document().clone()).await?
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

async fn any(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    filter: Document,
) -> Result<bool, Failure> {
    let documents = inner.collection(collection);
    let question = documents.find_one(filter).projection(doc! { "_id": 1 });
    let found = question.max_time(inner.write_bound()).session(session).await.map_err(at(collection))?;
    Ok(found.is_some())
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
