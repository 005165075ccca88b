//! How many documents there are.
//!
//! The server counts documents with a filter, on an index if there is one. Counting *all* documents would read the
//! whole collection for each page. The server also keeps a number, which can be wrong in three cases: after a crash
//! (until the next validation), on a sharded cluster, and during a transaction with many inserts or deletes. So the
//! kept number is used only after a comparison. The first query counts, and compares with the kept number before and
//! after. If all three are equal, the number is trusted until a connection breaks, because the server may have crashed.
//! Then it is compared again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, Document, Timestamp, doc};

use super::Inner;
use super::connect::Topology;
use super::error::command_error;
use super::presence::Epoch;
use super::read::{open_command, stages_command};
use crate::query::Filter;
use crate::store::{FindQuery, StoreError};

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
    match filter.document() {
        all if all.is_empty() && moment.is_none() => count_all(inner, collection, max_time).await,
        filter => matching(inner, moment, collection, filter, max_time).await,
    }
}

/// The total, where the page is the last one and not beyond the end.
pub(super) fn total_from(query: &FindQuery, found: u64) -> Option<u64> {
    let is_last = query.limit == 0 || found < query.limit;
    let is_within = found > 0 || query.skip == 0;
    (is_last && is_within).then_some(query.skip + found)
}

async fn count_all(inner: &Inner, collection: &str, max_time: Duration) -> Result<u64, StoreError> {
    let verdict = if inner.topology == Topology::Sharded { Some(false) } else { inner.totals.verdict(collection) };
    match verdict {
        Some(true) => kept(inner, collection, max_time).await,
        Some(false) => matching(inner, None, collection, &Document::new(), max_time).await,
        None => compare(inner, collection, max_time).await,
    }
}

/// Counts, and decides whether the kept number can be used from now on.
async fn compare(inner: &Inner, collection: &str, max_time: Duration) -> Result<u64, StoreError> {
    let epoch = inner.totals.epoch.now();
    let before = kept(inner, collection, max_time).await?;
    let counted = matching(inner, None, collection, &Document::new(), max_time).await?;
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

async fn matching(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    filter: &Document,
    max_time: Duration,
) -> Result<u64, StoreError> {
    let stages = [doc! { "$match": filter }, doc! { "$count": "n" }];
    let mut command = stages_command(collection, &stages);
    if filter.is_empty() && moment.is_some() {
        // All documents are counted in an index, which is smaller than they are.
        command.insert("hint", doc! { "_id": 1 });
    }
    let counted = match open_command(inner, moment, command, max_time).await {
        Ok(mut reading) => reading.chunk().await,
        Err(error) => Err(error),
    };
    match counted {
        // `$near` is not allowed in stages.
        Err(StoreError::Query { .. }) => count_each(inner, moment, collection, filter, max_time).await,
        // If nothing matches, the server returns no document.
        counted => counted?.first().map_or(Ok(0), number_in),
    }
}

/// Counts what a query finds.
async fn count_each(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    filter: &Document,
    max_time: Duration,
) -> Result<u64, StoreError> {
    let command = doc! { "find": collection, "filter": filter, "projection": { "_id": 1 } };
    let mut found = open_command(inner, moment, command, max_time).await?;
    let mut count = 0;
    loop {
        match found.chunk().await?.len() {
            0 => return Ok(count),
            more => count += more as u64,
        }
    }
}

fn number_in(answer: &RawDocument) -> Result<u64, StoreError> {
    let counted = answer.get("n").ok().flatten().and_then(|number| Bson::try_from(number).ok());
    let counted = counted.as_ref().and_then(super::counters::whole_number);
    counted
        .and_then(|counted| u64::try_from(counted).ok())
        .ok_or_else(|| StoreError::backend("the server's answer to a count has no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(skip: u64, limit: u64) -> FindQuery {
        FindQuery { skip, limit, ..FindQuery::new(Filter::all(), Duration::from_secs(1)) }
    }

    #[test]
    fn a_page_that_is_not_full_tells_the_total() {
        assert_eq!(total_from(&query(0, 10), 3), Some(3));
        assert_eq!(total_from(&query(20, 10), 3), Some(23));
        assert_eq!(total_from(&query(5, 0), 3), Some(8));
        assert_eq!(total_from(&query(0, 10), 0), Some(0));
    }

    #[test]
    fn a_full_page_or_one_beyond_the_end_does_not() {
        assert_eq!(total_from(&query(0, 10), 10), None);
        assert_eq!(total_from(&query(20, 10), 0), None);
        assert_eq!(total_from(&query(20, 0), 0), None);
    }
}
