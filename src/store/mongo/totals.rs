//! How many documents there are.
//!
//! The server counts documents with a filter, on an index if there is one. Counting *all* documents would read the
//! whole collection for each page. The server also keeps a number, which can be wrong in three cases: after a crash
//! (until the next validation), on a sharded cluster, and during a transaction with many inserts or deletes. So the
//! kept number is used only after a comparison. The first query counts, and compares with the kept number before and
//! after. If all three are equal, the number is trusted until a connection breaks, because the server may have crashed.
//! Then it is compared again.
//!
//! On a replica set, a counted total is remembered. It is given again while three things are the same: the primary, the `units`
//! of the [`order`], and the revision of the collection. Every unit of every instance moves `units`. Writes of
//! other tools move the revision within a second. All who ask at a time share one query for `units`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, Document, Timestamp, doc};
use moka::sync::Cache;

use super::Inner;
use super::connect::Topology;
use super::error::command_error;
use super::order;
use super::planned::planned;
use super::presence::{Epoch, Term};
use super::read::{is_by_key, open_command, stages_command};
use super::rounds::{Asker, Rounds, refuse};
use super::waiting::query_bound;
use crate::query::{Demand, Filter};
use crate::store::{FindQuery, StoreError};

/// How many bytes the filters of remembered totals have together.
const REMEMBERED_BYTES: u64 = 4 * 1024 * 1024;
/// The maximum number of bytes of one of them.
const MOST_FILTER_BYTES: usize = 16 * 1024;

/// Which collections' kept numbers can be trusted, and what was counted.
#[derive(Debug)]
pub(super) struct Totals {
    epoch: Epoch,
    verdicts: Mutex<HashMap<String, TrustedTotal>>,
    /// By collection and filter.
    remembered: Cache<(String, Vec<u8>), Counted>,
    /// Who asks for the `units` of the order.
    order: Rounds<(), i64>,
}

/// A total, and since when it is right.
#[derive(Debug, Clone, Copy)]
struct Counted {
    total: u64,
    since: State,
}

/// A total is right while this is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    /// The majority of a new primary may lack for a moment what that of the former one had.
    term: Term,
    revision: u64,
    units: i64,
}

#[derive(Debug, Clone, Copy)]
struct TrustedTotal {
    epoch: u64,
    trusted: bool,
}

impl Totals {
    pub(super) fn new(epoch: Epoch) -> Self {
        let weight =
            |(_, filter): &(String, Vec<u8>), _: &Counted| u32::try_from(filter.len() + 200).unwrap_or(u32::MAX);
        let remembered = Cache::builder().max_capacity(REMEMBERED_BYTES).weigher(weight).build();
        Self { epoch, verdicts: Mutex::default(), remembered, order: Rounds::default() }
    }

    fn verdict(&self, collection: &str) -> Option<bool> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        verdicts.get(collection).filter(|verdict| verdict.epoch == self.epoch.now()).map(|verdict| verdict.trusted)
    }

    fn decide(&self, collection: &str, verdict: TrustedTotal) {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner).insert(collection.to_owned(), verdict);
    }
}

/// The filter as a key of what is remembered; nothing if its total is not. It may be counted at once, or be large. An expression can
/// have another value with the time. A router shows the parts of a unit one after the other.
fn key_of(inner: &Inner, collection: &str, filter: &Filter) -> Option<(String, Vec<u8>)> {
    let is_at_once = filter.document().is_empty() || is_by_key(filter);
    let is_lasting = filter.demand() <= Demand::Pattern && filter.needs_server().is_none();
    if is_at_once || !is_lasting || inner.topology == Topology::Sharded {
        return None;
    }
    let bytes = bson::serialize_to_vec(filter.document()).ok()?;
    (bytes.len() <= MOST_FILTER_BYTES).then(|| (collection.to_owned(), bytes))
}

/// The total that is remembered, if it is still right.
pub(super) async fn remembered(
    inner: &Arc<Inner>,
    collection: &str,
    filter: &Filter,
) -> Result<Option<u64>, StoreError> {
    let Some(key) = key_of(inner, collection, filter) else { return Ok(None) };
    let Some(counted) = inner.totals.remembered.get(&key) else { return Ok(None) };
    if counted.since.revision != inner.revisions.of(collection) {
        return Ok(None);
    }
    Ok((state(inner, collection).await? == counted.since).then_some(counted.total))
}

/// The present state. What is written from here on moves it.
async fn state(inner: &Arc<Inner>, collection: &str) -> Result<State, StoreError> {
    let (term, revision) = (inner.presence.term(), inner.revisions.of(collection));
    Ok(State { term, revision, units: units(inner).await? })
}

/// How many units have taken effect, as a majority has it.
async fn units(inner: &Arc<Inner>) -> Result<i64, StoreError> {
    let place = inner.totals.order.join(());
    if place.serves {
        tokio::spawn(serve(Arc::clone(inner)));
    }
    place.answer().await
}

/// Answers who asks for the units of the order: all who ask at a time with one query.
async fn serve(inner: Arc<Inner>) {
    let inner = &inner;
    let answer = |round: Vec<Asker<(), i64>>| async move {
        let step = || {
            let inner = Arc::clone(inner);
            async move { order::units(&inner).await }
        };
        match inner.presence.ask(query_bound(inner.write_bound()), step).await {
            Ok(units) => round.into_iter().for_each(|waiting| waiting.reply(Ok(units))),
            Err(error) => refuse(round, &error),
        }
    };
    inner.totals.order.serve(answer).await;
}

/// How many documents of the collection match.
pub(super) async fn count(
    inner: &Arc<Inner>,
    moment: Option<Timestamp>,
    collection: &str,
    filter: &Filter,
    max_time: Duration,
) -> Result<u64, StoreError> {
    match filter.document() {
        all if all.is_empty() && moment.is_none() => count_all(inner, collection, max_time).await,
        _ => match key_of(inner, collection, filter).filter(|_| moment.is_none()) {
            Some(key) => count_and_remember(inner, key, filter, max_time).await,
            None => matching(inner, moment, collection, filter, max_time).await,
        },
    }
}

async fn count_and_remember(
    inner: &Arc<Inner>,
    key: (String, Vec<u8>),
    filter: &Filter,
    max_time: Duration,
) -> Result<u64, StoreError> {
    let since = state(inner, &key.0).await?;
    if let Some(counted) = inner.totals.remembered.get(&key).filter(|counted| counted.since == since) {
        return Ok(counted.total);
    }
    let total = matching(inner, None, &key.0, filter, max_time).await?;
    inner.totals.remembered.insert(key, Counted { total, since });
    Ok(total)
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
        Some(false) => matching(inner, None, collection, &Filter::all(), max_time).await,
        None => compare(inner, collection, max_time).await,
    }
}

/// Counts, and decides whether the kept number can be used from now on.
async fn compare(inner: &Inner, collection: &str, max_time: Duration) -> Result<u64, StoreError> {
    let epoch = inner.totals.epoch.now();
    let before = kept(inner, collection, max_time).await?;
    let counted = matching(inner, None, collection, &Filter::all(), max_time).await?;
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
    filter: &Filter,
    max_time: Duration,
) -> Result<u64, StoreError> {
    let stages = [doc! { "$match": planned(filter) }, doc! { "$count": "n" }];
    let mut command = stages_command(collection, &stages);
    if filter.document().is_empty() && moment.is_some() {
        // All documents are counted in an index, which is smaller than they are.
        command.insert("hint", doc! { "_id": 1 });
    }
    let counted = match open_command(inner, moment, command, max_time).await {
        Ok(mut reading) => reading.chunk().await,
        Err(error) => Err(error),
    };
    match counted {
        // `$near` is not allowed in stages.
        Err(StoreError::Query { .. }) => count_each(inner, moment, collection, filter.document(), max_time).await,
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
