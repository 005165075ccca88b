//! How far the history goes back, and whether it continues.

use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{DateTime, Document, doc};

use super::clocks::TOLERANCE;
use crate::domain::document::{integer, raw};
use crate::history::entry::Action;
use crate::query::{Filter, Sort};
use crate::store::collections::{HISTORY, LOGS};
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// The document of [`HISTORY`] that says since when changes are kept: `{_id: "kept", time, sequence}`. States of later
/// moments are known, and entries after this sequence are there.
const KEPT: &str = "kept";

/// Begins the history of a store at `now`, unless it has begun.
///
/// # Errors
/// Errors of the store.
pub async fn begin(store: &dyn Store, now: DateTime, max_time: Duration) -> Result<(), StoreError> {
    if kept(store, max_time).await?.is_some() {
        return Ok(());
    }
    let document = raw(&doc! { "_id": KEPT, "time": now, "sequence": 0_i64 });
    match store.commit(Unit::of(Change::Insert { collection: HISTORY, document })).await {
        // Another instance was faster.
        Ok(_) | Err(StoreError::Duplicate { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Since when changes are kept: the time and the sequence; nothing before the history has begun.
///
/// # Errors
/// Errors of the store.
pub async fn kept(store: &dyn Store, max_time: Duration) -> Result<Option<(DateTime, i64)>, StoreError> {
    let kept = kept_document(store, max_time).await?;
    Ok(kept.and_then(|kept| Some((kept.get_datetime("time").ok()?, kept.get_i64("sequence").ok()?))))
}

/// Says that the history goes back to `since`: its entries came from another store.
///
/// # Errors
/// Errors of the store.
pub async fn move_to(store: &dyn Store, since: (DateTime, i64), max_time: Duration) -> Result<(), StoreError> {
    let after = raw(&doc! { "_id": KEPT, "time": since.0, "sequence": since.1 });
    let change = Change::put(HISTORY, kept_document(store, max_time).await?, after);
    store.commit(Unit::of(change)).await.map(drop)
}

/// The document with this, as it is stored.
pub(super) async fn kept_document(store: &dyn Store, max_time: Duration) -> Result<Option<RawDocumentBuf>, StoreError> {
    store.first(HISTORY, FindQuery::new(Filter::equals("_id", KEPT), max_time)).await
}

/// Up to which sequence entries come before this time; nothing where none does.
pub(super) async fn last_before(
    store: &dyn Store,
    limit: DateTime,
    max_time: Duration,
) -> Result<Option<i64>, StoreError> {
    let entries = async |on_time: &Document, most: u64| {
        let own = has_sequence().and(Filter::ours(on_time));
        let query = FindQuery::new(own, max_time).sorted(Sort::by("time", false).then("sequence", false)).limited(most);
        store.find(LOGS, &query).await
    };
    if entries(&doc! { "time": { "$lt": limit } }, 1).await?.is_empty() {
        return Ok(None);
    }
    // Times of different resources need not follow the sequences exactly.
    let behind = entries(&doc! { "time": { "$gte": limit } }, 1000).await?;
    match behind.iter().filter_map(|entry| entry.get_i64("sequence").ok()).min() {
        Some(first) => Ok(Some(first - 1)),
        None => last(store, max_time).await.map(Some),
    }
}

/// What is wrong with a clock that shows a time before the newest entry; nothing if it does not.
///
/// # Errors
/// Errors of the store.
pub async fn behind_entries(
    store: &dyn Store,
    now: DateTime,
    max_time: Duration,
) -> Result<Option<String>, StoreError> {
    let Some(newest) = newest_time(store, max_time).await? else { return Ok(None) };
    let ahead = newest.saturating_duration_since(now);
    let text = |time: DateTime| time.try_to_rfc3339_string().unwrap_or_default();
    Ok((ahead > TOLERANCE).then(|| {
        format!(
            "the newest entry of the history is of {}, and the clock says {}; set the clock. Times of entries made under \
             the other clock stay; at= counts them as made before the next entry",
            text(newest),
            text(now)
        )
    }))
}

/// The newest time of an entry.
pub(super) async fn newest_time(store: &dyn Store, max_time: Duration) -> Result<Option<DateTime>, StoreError> {
    let query = FindQuery::new(has_sequence(), max_time).sorted(Sort::by("time", true).then("sequence", true));
    Ok(store.first(LOGS, query).await?.and_then(|entry| entry.get_datetime("time").ok()))
}

/// The last sequence, of an entry that is stored or of one that is no longer kept; 0 where there never was an entry.
pub(in crate::service) async fn last(store: &dyn Store, max_time: Duration) -> Result<i64, StoreError> {
    let newest = FindQuery::new(has_sequence(), max_time).sorted(Sort::by("sequence", true));
    let last = store.first(LOGS, newest).await?.and_then(|entry| entry.get_i64("sequence").ok()).unwrap_or_default();
    Ok(kept(store, max_time).await?.map_or(last, |(_, sequence)| last.max(sequence)))
}

/// The sequence of the newest entry of a type by which its objects changed, too; 0 where there is none.
pub(in crate::service) async fn last_of_type(
    store: &dyn Store,
    id: i64,
    max_time: Duration,
) -> Result<i64, StoreError> {
    let own = Filter::equals("resource", "types").and(Filter::equals("public_id", id));
    let own = own.and(Filter::equals("action", Action::Migrate.name()));
    let newest = FindQuery::new(own, max_time).sorted(Sort::by("number", true));
    Ok(store.first(LOGS, newest).await?.and_then(|entry| integer(&entry, "sequence")).unwrap_or_default())
}

/// The entries of this service, for their index: DATAGERRY's have no sequence. A bound instead of `$exists`, as MongoDB then
/// counts the keys of the index without their documents.
pub(super) fn has_sequence() -> Filter {
    Filter::ours(&doc! { "sequence": { "$gt": 0_i64 } })
}
