//! Removing entries that are older than they are kept, while the service works.
//!
//! Removing entries removes the way back beyond the limit. The newest entry of each present resource stays, so chains
//! continue. The entry after a removed one gets its hash as `previous`, so [`verify`](super::verify) still checks it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Binary, Bson, DateTime, Document, doc};

use super::heads::{self, Key, of_kind, of_this_service};
use super::kept::{kept_document, last_before};
use super::resources::{RESOURCES, unreadable};
use crate::domain::document::{integer, raw, text};
use crate::history::entry::Head;
use crate::query::{Filter, Sort};
use crate::store::collections::{HISTORY, LOGS};
use crate::store::{Change, FindQuery, Store, StoreError, Unit, as_fits};

/// The maximum number of entries examined for one unit, if they do not exceed the bytes.
const AT_ONCE: u64 = 500;
const AT_ONCE_BYTES: usize = 4 * 1024 * 1024;

/// Removes the entries before `limit` and returns how many. Moments before it can no longer be asked for from the
/// beginning of this call on.
///
/// # Errors
/// Errors of the store. What was removed until then stays removed.
pub async fn prune(store: &dyn Store, limit: DateTime, max_time: Duration) -> Result<u64, StoreError> {
    let Some(last) = last_before(store, limit, max_time).await? else { return Ok(0) };
    move_limit(store, limit, last, max_time).await?;
    let old = Filter::ours(&doc! { "time": { "$lt": limit } });
    let (mut position, mut removed) = (0_i64, 0);
    loop {
        let behind = Filter::ours(&doc! { "sequence": { "$gt": position, "$lte": last } });
        let query = FindQuery::new(of_this_service().and(old.clone()).and(behind), max_time);
        let query = query.sorted(Sort::by("sequence", false)).limited(AT_ONCE);
        let found = as_fits(store, LOGS, query, AT_ONCE_BYTES).await?;
        let Some(end) = found.iter().last().and_then(|entry| integer(entry, "sequence")) else { return Ok(removed) };
        let (unit, count) = unit_of(store, found.iter(), max_time).await?;
        if count > 0 {
            match store.commit(unit).await {
                Ok(_) => removed += count,
                // Another instance prunes too, or a name was forgotten meanwhile.
                Err(StoreError::Stale) => continue,
                Err(error) => return Err(error),
            }
        }
        position = end;
    }
}

/// From here on the history goes back to `limit` alone.
async fn move_limit(store: &dyn Store, limit: DateTime, last: i64, max_time: Duration) -> Result<(), StoreError> {
    let Some(before) = kept_document(store, max_time).await? else { return Ok(()) };
    if before.get_datetime("time").is_ok_and(|time| time >= limit) {
        return Ok(());
    }
    let mut after = Document::try_from(&*before).map_err(unreadable)?;
    after.insert("time", limit);
    after.insert("sequence", last);
    let change = Change::Replace { collection: HISTORY, before, after: raw(&after) };
    match store.commit(Unit::of(change)).await {
        Ok(_) | Err(StoreError::Stale) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The removal of those of the entries that need not stay, and how many they are.
async fn unit_of<'e>(
    store: &dyn Store,
    entries: impl Iterator<Item = &'e RawDocument>,
    max_time: Duration,
) -> Result<(Unit, u64), StoreError> {
    let mut by_key: BTreeMap<Key, Vec<(Head, &RawDocument)>> = BTreeMap::new();
    for entry in entries {
        let kind = RESOURCES.iter().map(|(_, kind)| *kind).find(|kind| text(entry, "resource") == Some(kind));
        if let (Some(kind), Some(id), Some(head)) = (kind, integer(entry, "public_id"), Head::of(entry)) {
            by_key.entry((kind, id)).or_default().push((head, entry));
        }
    }
    let keys: BTreeSet<Key> = by_key.keys().copied().collect();
    let newest = heads::of(store, &keys, max_time).await?;
    let mut unit = Unit::default();
    let mut count = 0;
    for (key, mut entries) in by_key {
        entries.sort_by_key(|(head, _)| head.number);
        let Some(newest) = newest.get(&key) else { continue };
        // A present resource keeps its newest entry, and a deleted one none.
        let goes = |head: &Head| head.number < newest.number || newest.state.is_none();
        let Some((last, _)) = entries.iter().rev().find(|(head, _)| goes(head)).copied() else { continue };
        for (_, entry) in entries.iter().filter(|(head, _)| head.number <= last.number) {
            unit.changes.push(Change::Delete { collection: LOGS, before: (*entry).to_owned() });
            count += 1;
        }
        if last.number < newest.number
            && let Some(before) = store.first(LOGS, FindQuery::new(numbered(key, last.number + 1), max_time)).await?
        {
            let mut after = Document::try_from(&*before).map_err(unreadable)?;
            let hash = Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: last.hash.to_vec() };
            after.insert("previous", Bson::Binary(hash));
            unit.changes.push(Change::Replace { collection: LOGS, before, after: raw(&after) });
        }
    }
    Ok((unit, count))
}

/// The entry of a resource with this number.
fn numbered((kind, id): Key, number: i32) -> Filter {
    of_kind(kind).and(Filter::equals("public_id", id)).and(Filter::equals("number", number))
}
