//! How many documents there are.
//!
//! The server counts documents with a filter, on an index if there is one. Counting *all* documents would read the
//! whole collection for each page. The server also keeps a number, which can be wrong in three cases: after a crash
//! (until the next validation), on a sharded cluster, and during a transaction with many inserts or deletes. So the
//! kept number is used only after a comparison. The first query counts, and compares with the kept number before and
//! after. If all three are equal, the number is trusted until a connection breaks, because the server may have crashed.
//! Then it is compared again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::{Document, Timestamp, doc};
use mongodb::Cursor;
use mongodb::error::Error;

use super::connect::Topology;
use super::error::{command_error, is_snapshot_lost, query_error};
use super::guarded::GuardedParts;
use super::{Inner, moment};
use crate::query::Filter;
use crate::store::{FindQuery, StoreError};

/// Documents in one answer of the server, where they are counted one by one.
const BATCH: u32 = 1000;

/// Counts the times that connections to the server broke.
#[derive(Debug, Clone, Default)]
pub(super) struct Epoch(Arc<AtomicU64>);

impl Epoch {
    /// Connections broke: the comparison must be repeated.
    pub(super) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Which collections' kept numbers can be trusted.
#[derive(Debug, Default)]
pub(super) struct Totals {
    epoch: Epoch,
    verdicts: Mutex<HashMap<String, TrustedTotal>>,
}

#[derive(Debug, Clone, Copy)]
struct TrustedTotal {
    epoch: u64,
    trusted: bool,
}

impl Totals {
    pub(super) fn new(epoch: Epoch) -> Self {
        Self { epoch, verdicts: Mutex::default() }
    }

    fn verdict(&self, collection: &str) -> Option<bool> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.get(collection).filter(|verdict| verdict.epoch == self.epoch.now()).map(|verdict| verdict.trusted)
    }

    fn decide(&self, collection: &str, verdict: TrustedTotal) {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).insert(collection.to_owned(), verdict);
    }
}

/// How many documents of the collection match.
pub(super) async fn count(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    filter: &Filter,
    max_time: Duration,
) -> Result<u64, StoreError> {
    if let Some(moment) = moment
        && let Some(count) = count_at(inner, moment, collection, filter, max_time).await?
    {
        return Ok(count);
    }
    if let Some(parts) = GuardedParts::of(filter) {
        return count_guarded(inner, collection, parts, max_time).await;
    }
    match filter.document() {
        all if all.is_empty() => count_all(inner, collection, max_time).await,
        filter => matching(inner, collection, filter, max_time).await,
    }
}

/// How many match at the moment; nothing where the collection or an index is new, as its past cannot be read.
async fn count_at(
    inner: &Inner,
    moment: Timestamp,
    collection: &str,
    filter: &Filter,
    max_time: Duration,
) -> Result<Option<u64>, StoreError> {
    let parts = GuardedParts::of(filter);
    let is_guarded = parts.is_some();
    let stages = counting(parts.map_or_else(|| vec![doc! { "$match": filter.document() }], |parts| parts.stages(None)));
    // All documents are counted in an index, which is smaller than they are.
    let hint = filter.document().is_empty().then(|| doc! { "_id": 1 });
    match moment::read_pipeline(inner, moment, (collection, stages, hint), max_time, 1).await {
        Err(error) if is_snapshot_lost(&error) => Ok(None),
        // `$near` is not allowed in stages. A guarded filter keeps to them: they are asked of what its guard lets through.
        Err(error) if !is_guarded && matches!(query_error(&error), StoreError::Query { .. }) => {
            let counted = count_each(inner, moment, collection, filter, max_time).await;
            counted.map(Some).map_err(|error| query_error(&error))
        }
        counted => counted_in(counted.map(Cursor::with_type)).await.map(Some),
    }
}

/// Counts what a query at the moment finds.
async fn count_each(
    inner: &Inner,
    moment: Timestamp,
    collection: &str,
    filter: &Filter,
    max_time: Duration,
) -> Result<u64, Error> {
    let query = FindQuery::new(filter.clone(), max_time);
    let mut found = moment::read_plain(inner, moment, collection, &query, BATCH).await?;
    let mut count = 0;
    while found.advance().await? {
        count += 1;
    }
    Ok(count)
}

async fn count_guarded(
    inner: &Inner,
    collection: &str,
    parts: GuardedParts,
    max_time: Duration,
) -> Result<u64, StoreError> {
    let documents = inner.collection(collection);
    counted_in(documents.aggregate(counting(parts.stages(None))).max_time(max_time).await).await
}

/// The stages, and one that counts what they give.
fn counting(mut stages: Vec<Document>) -> Vec<Document> {
    stages.push(doc! { "$count": "n" });
    stages
}

/// The number that such stages give.
async fn counted_in(answer: Result<Cursor<Document>, Error>) -> Result<u64, StoreError> {
    let failed = |error: Error| query_error(&error);
    let mut answer = answer.map_err(failed)?;
    // If nothing matches, the server returns no document.
    if !answer.advance().await.map_err(failed)? {
        return Ok(0);
    }
    number_in(&answer.deserialize_current().map_err(failed)?)
}

async fn count_all(inner: &Inner, collection: &str, max_time: Duration) -> Result<u64, StoreError> {
    let verdict = if inner.topology == Topology::Sharded { Some(false) } else { inner.totals.verdict(collection) };
    match verdict {
        Some(true) => kept(inner, collection, max_time).await,
        Some(false) => matching(inner, collection, &Document::new(), max_time).await,
        None => compare(inner, collection, max_time).await,
    }
}

/// Counts, and decides whether the kept number can be used from now on.
async fn compare(inner: &Inner, collection: &str, max_time: Duration) -> Result<u64, StoreError> {
    let epoch = inner.totals.epoch.now();
    let before = kept(inner, collection, max_time).await?;
    let counted = matching(inner, collection, &Document::new(), max_time).await?;
    let after = kept(inner, collection, max_time).await?;
    // Documents were added or removed meanwhile: the next query compares again.
    if before == after {
        inner.totals.decide(collection, TrustedTotal { epoch, trusted: counted == before });
    }
    Ok(counted)
}

async fn kept(inner: &Inner, collection: &str, max_time: Duration) -> Result<u64, StoreError> {
    inner
        .collection(collection)
        .estimated_document_count()
        .max_time(max_time)
        .await
        .map_err(|error| command_error(&error))
}

async fn matching(inner: &Inner, collection: &str, filter: &Document, max_time: Duration) -> Result<u64, StoreError> {
    let counted = inner.collection(collection).count_documents(filter.clone()).max_time(max_time).await;
    match counted.map_err(|error| query_error(&error)) {
        // `$near` is not allowed in the aggregation that the driver counts with; the older command takes it.
        Err(StoreError::Query { .. }) => count_command(inner, collection, filter, max_time).await,
        outcome => outcome,
    }
}

async fn count_command(
    inner: &Inner,
    collection: &str,
    filter: &Document,
    max_time: Duration,
) -> Result<u64, StoreError> {
    let max_time = i64::try_from(max_time.as_millis()).unwrap_or(i64::MAX);
    let command = doc! { "count": collection, "query": filter.clone(), "maxTimeMS": max_time };
    let answer = inner.database.run_command(command).await.map_err(|error| query_error(&error))?;
    number_in(&answer)
}

fn number_in(answer: &Document) -> Result<u64, StoreError> {
    let counted = answer.get("n").and_then(super::counters::whole_number);
    counted
        .and_then(|counted| u64::try_from(counted).ok())
        .ok_or_else(|| StoreError::backend("the server's answer to a count has no number"))
}
