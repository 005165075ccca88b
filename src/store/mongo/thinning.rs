//! Removals that are too large for one transaction.
//!
//! A transaction keeps everything that it changes in the server's cache, so a removal of hundreds of thousands of documents can
//! never end as one. All but the last [`LARGE`] of the documents are therefore removed beforehand, piece by piece, as soon as
//! nothing speaks against the unit any more: its conditions hold and its documents are what they were, and its marks keep
//! others from changing that. Should it fail all the same, or the process die, the documents removed so far are gone, and
//! the same unit, carried out again, completes the removal.

use bson::{Bson, doc};
use mongodb::ClientSession;

use super::change::{Failure, at, collection_of, id_of, is_unchanged};
use super::conditions::{Scopes, check};
use super::marks::Marks;
use super::{Inner, progress};
use crate::query::Filter;
use crate::store::{Change, StoreError, Unit};

/// More documents than this are not removed in one transaction.
const LARGE: usize = 5_000;

/// Removes the surplus of large removals; returns for each change how many documents that were.
pub(super) async fn thin_out(
    inner: &Inner,
    session: &mut ClientSession,
    unit: &Unit,
    marks: Option<&Marks>,
) -> Result<Vec<u64>, Failure> {
    let mut removed = vec![0; unit.changes.len()];
    let mut is_checked = false;
    for (index, change) in unit.changes.iter().enumerate() {
        let Change::DeleteMany { collection, filter } = change else { continue };
        if depends_on_earlier(&unit.changes[..index], collection) {
            continue;
        }
        while let Some(surplus) = surplus(inner, session, collection, filter).await? {
            if !is_checked {
                check(inner, session, &unit.conditions, Scopes::Compare).await?;
                check_documents(inner, session, &unit.changes).await?;
                is_checked = true;
            }
            if let Some(marks) = marks {
                marks.refresh(inner, session).await?;
            }
            let named = doc! { "$and": [{ "_id": { "$in": surplus } }, filter.document().clone()] };
            let documents = inner.collection(collection);
            let deleted = documents.delete_many(named).session(&mut *session).await.map_err(at(collection))?;
            removed[index] += deleted.deleted_count;
            progress::made();
        }
    }
    Ok(removed)
}

/// Whether changes before the removal decide about what it finds: then it has to wait for them.
fn depends_on_earlier(earlier: &[Change], collection: &str) -> bool {
    let changes_members = |change: &&Change| matches!(change, Change::UpdateMany { .. } | Change::Replace { .. });
    earlier.iter().filter(changes_members).any(|change| collection_of(change) == collection)
}

/// Some of the documents that match, if these are too many.
async fn surplus(
    inner: &Inner,
    session: &mut ClientSession,
    collection: &'static str,
    filter: &Filter,
) -> Result<Option<Vec<Bson>>, Failure> {
    let limit = i64::try_from(2 * LARGE).expect("some thousands");
    let documents = inner.collection(collection);
    let question = documents.find(filter.document().clone()).projection(doc! { "_id": 1 }).limit(limit);
    let mut answer = question.session(&mut *session).await.map_err(at(collection))?;
    let mut ids = Vec::new();
    while answer.advance(session).await.map_err(at(collection))? {
        ids.push(id_of(answer.current())?);
    }
    ids.truncate(ids.len().saturating_sub(LARGE));
    Ok(if ids.is_empty() { None } else { Some(ids) })
}

/// Fails when a document of the unit is no longer what it was.
async fn check_documents(inner: &Inner, session: &mut ClientSession, changes: &[Change]) -> Result<(), Failure> {
    for change in changes {
        if let Change::Replace { before, .. } | Change::Delete { before, .. } = change
            && !is_unchanged(inner, session, collection_of(change), before).await?
        {
            return Err(StoreError::Stale.into());
        }
    }
    Ok(())
}
