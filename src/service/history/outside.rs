//! Changes by other tools, noted when they happen where the store reports them: an entry for each, with the new state.
//!
//! Each instance is informed of each edit. The entries of a resource have consecutive numbers, so one instance succeeds, and the
//! others then find nothing to note. What no instance notes comes with the next change of the document. The indexes of a type
//! are made again after such an edit, and of all types after each start, as others may have edited objects before it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocumentBuf;
use tokio::sync::watch;

use super::author::as_action;
use crate::domain::document::integer;
use crate::history::entry::Action;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::search::state::begin_type;
use crate::service::services::Services;
use crate::store::collections::{OBJECTS, TYPES, WITH_HISTORY};
use crate::store::{Change, Condition, FindQuery, StoreError, Unit};

/// A document that another tool has changed: its collection, and what is known of it.
type Edited = (&'static str, RawDocumentBuf);

/// The maximum number of bytes of documents that are noted together; others follow one by one.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// How often the note of one document is tried again while the store is away or others change the document.
const ATTEMPTS: usize = 30;
/// Between two looks: edits of one document in this time are one entry.
const REST: Duration = Duration::from_millis(250);
/// Between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Notes changes of other tools until `stop` says so.
pub async fn run(services: Arc<Services>, mut stop: watch::Receiver<bool>) {
    let noting = as_action(Action::Outside, async {
        loop {
            let edited = services.store.edits_of_others().await;
            if let Err(error) = &edited {
                log::info!("changes of other tools may have been missed: {error}; indexes of types are made again");
            }
            // First, as lists are wrong until then.
            while let Err(error) = index_again(&services, edited.as_deref().ok()).await {
                log::warn!("changes of other tools are not in the indexes of types yet: {error}; trying again");
                tokio::time::sleep(PAUSE).await;
            }
            match &edited {
                Ok(edited) => note_all(&services, edited).await,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
            tokio::time::sleep(REST).await;
        }
    });
    tokio::select! {
        () = noting => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// Has the indexes of the types made again whose objects were edited; without `edited` those of all types.
async fn index_again(services: &Services, edited: Option<&[Edited]>) -> Result<(), ServiceError> {
    let of = |(collection, document): &Edited| match *collection {
        OBJECTS => integer(document, "type_id"),
        TYPES => integer(document, "public_id"),
        _ => None,
    };
    let edited: Option<HashSet<i64>> = edited.map(|edited| edited.iter().filter_map(of).collect());
    let types = services.types.anew(&*services.store, services.max_time).await?;
    let has_indexes = types.iter().filter(|entry| !entry.object_type.indexes.is_empty());
    for id in has_indexes.map(|entry| entry.object_type.public_id) {
        if edited.as_ref().is_none_or(|edited| edited.contains(&id)) {
            begin_type(&*services.searched.plain, id, services.max_time).await?;
        }
    }
    Ok(())
}

async fn note_all(services: &Services, edited: &[Edited]) {
    if note(services, edited).await.is_ok() {
        return;
    }
    for one in edited {
        let mut outcome = note(services, std::slice::from_ref(one)).await;
        for _ in 1..ATTEMPTS {
            match outcome {
                Err(StoreError::Unavailable { .. } | StoreError::Stale | StoreError::Condition { .. }) => {}
                _ => break,
            }
            tokio::time::sleep(PAUSE).await;
            outcome = note(services, std::slice::from_ref(one)).await;
        }
        if let Err(error) = outcome {
            log::warn!("a change of another tool is noted with the next change of its document: {error}");
        }
    }
}

/// Notes documents as they are now. The unit changes none of them: it is refused if one changes meanwhile.
async fn note(services: &Services, edited: &[Edited]) -> Result<(), StoreError> {
    let (mut unit, mut bytes) = (Unit::default(), 0);
    let most = if edited.len() > 1 { MOST_BYTES } else { usize::MAX };
    for collection in WITH_HISTORY {
        let of_it = edited.iter().filter(|(of, _)| *of == collection);
        let mut left: BTreeMap<i64, &RawDocumentBuf> =
            of_it.filter_map(|(_, last)| Some((integer(last, "public_id")?, last))).collect();
        if left.is_empty() {
            continue;
        }
        let query = FindQuery::new(Filter::one_of("public_id", left.keys().copied()), services.max_time);
        let found = services.store.find(collection, &FindQuery { max_bytes: most, ..query }).await?;
        bytes += found.bytes();
        if bytes > most {
            return Err(StoreError::TooLarge);
        }
        for present in found.iter() {
            integer(present, "public_id").and_then(|id| left.remove(&id));
            let (before, after) = (present.to_owned(), present.to_owned());
            unit.changes.push(Change::Replace { collection, before, after });
        }
        for (id, last) in left {
            unit.conditions.push(Condition::None { collection, filter: Filter::equals("public_id", id) });
            unit.changes.push(Change::Delete { collection, before: last.clone() });
        }
    }
    if unit.changes.is_empty() { Ok(()) } else { services.store.commit(unit).await.map(drop) }
}
