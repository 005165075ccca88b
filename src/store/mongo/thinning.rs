//! Removals that are too large for one transaction.
//!
//! A transaction keeps all its changes in the server's cache, so it can never remove hundreds of thousands of
//! documents. So all but the last [`LARGE`] documents are removed before it, in batches. This begins when the unit's
//! conditions hold and its documents are unchanged; its marks keep others from changing that. If the unit fails later,
//! or the process dies, the removed documents are gone. Repeating the unit completes the removal.

use bson::{Bson, doc};
use mongodb::ClientSession;

use super::change::{Failure, at, id_of, is_unchanged};
use super::conditions::{Scopes, check};
use super::marks::Marks;
use super::{Inner, progress};
use crate::query::Filter;
use crate::store::{Change, StoreError, Unit};

/// A transaction removes at most this many documents.
const LARGE: usize = 5_000;

/// Removes the surplus of large removals, and returns its number of documents for each change.
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

/// Whether earlier changes of the unit affect what the removal finds. It must then wait for them.
fn depends_on_earlier(earlier: &[Change], collection: &str) -> bool {
    let changes_members = |change: &&Change| matches!(change, Change::UpdateMany { .. } | Change::Replace { .. });
    earlier.iter().filter(changes_members).any(|change| change.collection() == collection)
}

/// Some of the matching documents, if they are too many.
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

/// Fails when a document of the unit has changed.
async fn check_documents(inner: &Inner, session: &mut ClientSession, changes: &[Change]) -> Result<(), Failure> {
    for change in changes {
        if let Change::Replace { before, .. } | Change::Delete { before, .. } = change
            && !is_unchanged(inner, session, change.collection(), before).await?
        {
            return Err(StoreError::Stale.into());
        }
    }
    Ok(())
}
