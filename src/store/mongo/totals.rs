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
    if let Some(moment) = moment {
        match count_at(inner, moment, collection, filter, max_time).await {
            // As in `find`: the past of a new collection or index cannot be read.
            Err(error) if is_snapshot_lost(&error) => {}
            outcome => return outcome.map_err(|error| query_error(&error))?,
        }
    }
    if let Some(parts) = GuardedParts::of(filter) {
        return count_guarded(inner, collection, parts, max_time).await;
    }
    match filter.document() {
        all if all.is_empty() => count_all(inner, collection, max_time).await,
        filter => matching(inner, collection, filter, max_time).await,
    }
}

async fn count_at(
    inner: &Inner,
    moment: Timestamp,
    collection: &str,
    filter: &Filter,
    max_time: Duration,
) -> Result<Result<u64, StoreError>, Error> {
    let mut stages =
        GuardedParts::of(filter).map_or_else(|| vec![doc! { "$match": filter.document() }], |parts| parts.stages(None));
    stages.push(doc! { "$count": "n" });
    // All documents are counted in an index, which is smaller than they are.
    let hint = filter.document().is_empty().then(|| doc! { "_id": 1 });
    let mut counted = match moment::read_pipeline(inner, moment, (collection, stages, hint), max_time, 1).await {
        // `$near` is not allowed in stages.
        Err(error) if matches!(query_error(&error), StoreError::Query { .. }) => {
            return Ok(Ok(count_each(inner, moment, collection, filter, max_time).await?));
        }
        outcome => outcome?,
    };
    // If nothing matches, the server returns no document.
    if !counted.advance().await? {
        return Ok(Ok(0));
    }
    let counted = Document::try_from(counted.current()).map_err(StoreError::backend);
    Ok(counted.and_then(|counted| number_in(&counted)))
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
    let mut stages = parts.stages(None);
    stages.push(doc! { "$count": "n" });
    let documents = inner.collection(collection);
    let counting = documents.aggregate(stages).max_time(max_time).await;
    let mut counted = counting.map_err(|error| query_error(&error))?;
    // If nothing matches, the server returns no document.
    if !counted.advance().await.map_err(|error| query_error(&error))? {
        return Ok(0);
    }
    let counted = counted.deserialize_current().map_err(|error| query_error(&error))?;
    number_in(&counted)
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
