//! Makes the documents of search for objects that were stored without them, or whose type has changed.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, doc};
use tokio::sync::watch;

use super::documents::{DERIVED, Make, key_value, object_of, of_type};
use super::keeping::Stored;
use super::state::{WORK_BEGIN, is_work, works};
use crate::domain::document::{integer, raw};
use crate::plural::counted;
use crate::query::{Filter, Sort};
use crate::service::claims::changes::same;
use crate::service::claims::rules::Rules;
use crate::service::objects::bulk::GROUP_BYTES;
use crate::service::services::Services;
use crate::service::types::catalog::Types;
use crate::service::upkeep::lease::{Holder, Lease, LeaseTimes, Work};
use crate::store::collections::{OBJECTS, SEARCH_WORK};
use crate::store::{Change, Condition, Documents, FindQuery, Store, StoreError, Unit, as_fits};

/// One step looks at no more objects than this.
const STEP: usize = 250;
/// How often a step is repeated when others change its objects.
const ATTEMPTS: usize = 64;
/// How often the worker looks for work; that costs no call of the store.
const LOOK: Duration = Duration::from_millis(200);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);

/// Does the work of this store whenever there is some, until `stopped` says so. One of several instances does it.
pub async fn run(services: Arc<Services>, mut stopped: watch::Receiver<bool>) {
    let holder = Holder::new();
    loop {
        let revision = services.store.revision(SEARCH_WORK);
        let outcome = tokio::select! {
            outcome = work(&services, &holder) => outcome,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        if let Err(error) = &outcome {
            log::warn!("search: the index of words could not be completed: {error}; trying again");
        }
        let rest = async {
            if outcome.is_err() {
                tokio::time::sleep(PAUSE).await;
            }
            while outcome.is_ok() && services.store.revision(SEARCH_WORK) == revision {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = rest => {}
            _ = stopped.wait_for(|stopped| *stopped) => return,
        }
    }
}

async fn work(services: &Services, holder: &Holder) -> Result<(), StoreError> {
    let (store, max_time) = (&*services.store, services.max_time);
    if services.searched.left(store, max_time).await?.is_nothing() {
        return Ok(());
    }
    let lease = (Work::Search, holder.clone());
    let mut lease = Lease::acquire(lease, store, LeaseTimes::default(), max_time).await?;
    let outcome = lease.during(complete(services)).await;
    lease.release().await;
    outcome
}

/// Does all work that there is.
///
/// # Errors
/// Errors of the store.
pub async fn complete(services: &Services) -> Result<(), StoreError> {
    let (mut made, mut refused) = (0, 0);
    loop {
        let found = works(&*services.store, services.max_time).await?;
        let Some(work) = found.iter().find(|work| is_work(work)) else { break };
        let size = STEP >> refused.min(8);
        match step(services, work, size.max(1)).await {
            Ok(count) => {
                (made, refused) = (made + count, 0);
                services.searched.looked_at.fetch_add(count, Ordering::Relaxed);
            }
            Err(StoreError::Stale | StoreError::Condition { .. } | StoreError::Duplicate { .. })
                if refused < ATTEMPTS =>
            {
                refused += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => return Err(error),
        }
        tokio::task::yield_now().await;
    }
    if made > 0 {
        log::info!("search: the index of words is complete; {} looked at", counted(made, "object"));
    }
    Ok(())
}

/// Makes the documents of the next objects, and notes how far it came. Returns how many objects that were.
async fn step(services: &Services, work: &RawDocument, size: usize) -> Result<u64, StoreError> {
    let (store, max_time) = (&*services.searched.plain, services.max_time);
    // The rules come first: the types are then at least as new as their version.
    let rules = Rules::read_or_begin(store, max_time).await?;
    let types = services.types.anew(store, max_time).await?;
    let (type_id, begin) = (integer(work, "_id"), integer(work, "after").unwrap_or(WORK_BEGIN));
    let mut of_type = doc! { "public_id": { "$gt": begin } };
    of_type.extend(type_id.map(|id| ("type_id".to_owned(), Bson::Int64(id))));
    let query = FindQuery::new(Filter::ours(&of_type), max_time);
    let size = size.min(store.largest_unit() / 4).max(1);
    let query = query.sorted(Sort::by("public_id", false)).limited(size as u64);
    let objects = as_fits(store, OBJECTS, query, GROUP_BYTES).await?;
    let end = objects.iter().filter_map(|object| integer(object, "public_id")).max();
    let searched = found_between(store, type_id, begin..=end.unwrap_or(i64::MAX), size, max_time).await?;
    let mut unit = fitting(&types, &objects, searched);
    unit.conditions.push(rules.condition());
    unit.changes.push(match end {
        Some(end) => {
            let mut after = bson::Document::try_from(work).map_err(StoreError::backend)?;
            after.insert("after", end);
            Change::Replace { collection: SEARCH_WORK, before: work.to_owned(), after: raw(&after) }
        }
        None if unit.changes.is_empty() => Change::Delete { collection: SEARCH_WORK, before: work.to_owned() },
        // There may be more documents without an object.
        None => Change::Replace { collection: SEARCH_WORK, before: work.to_owned(), after: work.to_owned() },
    });
    store.commit(unit).await?;
    Ok(objects.len() as u64)
}

/// The documents of objects with these ids; after the last object at most `size` of them of each collection.
async fn found_between(
    store: &dyn Store,
    type_id: Option<i64>,
    ids: RangeInclusive<i64>,
    size: usize,
    max_time: Duration,
) -> Result<Stored, StoreError> {
    let mut stored = Stored::new();
    for (collection, _) in DERIVED {
        let mut filter = doc! { "_id": { "$gt": key_value(*ids.start()), "$lte": key_value(*ids.end()) } };
        filter.extend(type_id.into_iter().flat_map(|id| of_type(collection, id)));
        let mut query = FindQuery::new(Filter::ours(&filter), max_time);
        if *ids.end() == i64::MAX {
            query = query.limited(size as u64);
        }
        let found = store.find(collection, &query).await?;
        stored.extend(found.iter().filter_map(|it| Some(((collection, object_of(it)?), it.to_owned()))));
    }
    Ok(stored)
}

/// The unit that makes the documents fit the objects.
fn fitting(types: &Types, objects: &Documents, mut stored: Stored) -> Unit {
    let mut unit = Unit::default();
    for object in objects.iter() {
        let entry = integer(object, "type_id").and_then(|id| types.get(id));
        let change = |(collection, make): (&'static str, Make)| {
            let wanted = make(object, entry.map(|entry| &**entry));
            let before = integer(object, "public_id").and_then(|id| stored.remove(&(collection, id)));
            if before == wanted { None } else { Change::between(collection, before, wanted) }
        };
        let changes: Vec<Change> = DERIVED.into_iter().filter_map(change).collect();
        if !changes.is_empty() {
            // The documents are those of the object as it was read.
            unit.changes.extend([same(object)].into_iter().chain(changes));
        }
    }
    for ((collection, id), before) in stored {
        let filter = Filter::equals("public_id", id);
        unit.conditions.push(Condition::None { collection: OBJECTS, filter });
        unit.changes.push(Change::Delete { collection, before });
    }
    unit
}
