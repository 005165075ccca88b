//! Queries: the client's filter and projection go to the server as they are.

use std::time::{Duration, Instant};

use bson::raw::RawDocumentBuf;
use bson::{Document, Timestamp, doc};
use mongodb::Cursor;
use mongodb::error::Error;
use mongodb::options::{Hint, ReadConcern};

use super::error::{is_snapshot_lost, query_error};
use super::guarded::GuardedParts;
use super::totals::count;
use super::{Inner, moment};
use crate::query::{EvalError, Filter, Node, Projection, SortKey, Test, keys_beside};
use crate::store::chunks::{CHUNK_BYTES, CHUNK_DOCUMENTS};
use crate::store::{Documents, FindQuery, Page, StoreError};

/// Documents the server packs into one answer when there is no limit; it stops earlier at 16 MiB.
const BATCH: u32 = 10_000;
/// The same for an answer in chunks.
pub(super) const CHUNK: u32 = 500;

/// The documents that the query selects.
pub(super) async fn find(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    query: &FindQuery,
) -> Result<Documents, StoreError> {
    let time = match moment {
        Some(moment) => ReadTime::Moment(moment),
        None if is_about_one(query) => ReadTime::majority(),
        None => ReadTime::Now(inner.topology.read_concern()),
    };
    match read(inner, collection, query, time).await {
        // The collection or one of its indexes is new: its past cannot be read, its present can.
        Err(ReadTrouble::Server(error)) if is_snapshot_lost(&error) => {
            read(inner, collection, query, ReadTime::majority()).await.map_err(ReadTrouble::into_store_error)
        }
        outcome => outcome.map_err(ReadTrouble::into_store_error),
    }
}

/// The documents that the query selects, and how many there are in all.
///
/// The server counts only if the page does not tell the number.
pub(super) async fn page(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    query: &FindQuery,
) -> Result<Page, StoreError> {
    let started = Instant::now();
    let documents = find(inner, moment, collection, query).await?;
    let left = whole_milliseconds(query.max_time.saturating_sub(started.elapsed()));
    let total = match total_from(query, documents.len() as u64) {
        Some(total) => total,
        None => count(inner, moment, collection, &query.filter, left).await?,
    };
    // The server tells the work of a query only in `explain`, which would run it again.
    Ok(Page { documents, total, hint: None })
}

/// The total, where the page is the last one and not beyond the end.
pub(super) fn total_from(query: &FindQuery, found: u64) -> Option<u64> {
    let is_last = query.limit == 0 || found < query.limit;
    let is_within = found > 0 || query.skip == 0;
    (is_last && is_within).then_some(query.skip + found)
}

/// Whether the query is for one document by a key that never changes. `majority` then gives a consistent answer too,
/// and is cheaper than a snapshot.
fn is_about_one(query: &FindQuery) -> bool {
    let is_key = |path: &str| path == "_id" || path == "public_id";
    query.limit == 1 && matches!(query.filter.tree(), Node::Path(path, Test::Eq(_)) if is_key(path.as_str()))
}

/// How many documents a query may return without a turn, and how many it may skip.
const FEW: u64 = 128;
const FEW_PASSED: u64 = 1024;
/// The unique keys that every document has.
const KEYS: [&str; 2] = ["_id", "public_id"];

/// Whether the server answers at once from one of its unique indexes.
pub(super) fn is_light(query: &FindQuery) -> bool {
    let is_computed = query.projection.as_ref().is_some_and(Projection::is_computed);
    let by_key = |key: &SortKey| KEYS.contains(&key.path.as_str());
    let is_page = (1..=FEW).contains(&query.limit) && query.skip <= FEW_PASSED;
    let is_first_of_all =
        is_page && matches!(query.filter.tree(), Node::Always) && query.sort.keys().iter().all(by_key);
    !is_computed && (is_first_of_all || is_by_key(&query.filter))
}

/// Whether a filter selects a few documents by their keys.
pub(super) fn is_by_key(filter: &Filter) -> bool {
    match filter.tree() {
        Node::Path(path, Test::Eq(_)) => KEYS.contains(&path.as_str()),
        Node::Path(path, Test::In(set)) => {
            KEYS.contains(&path.as_str()) && set.regexes().is_empty() && set.values().len() as u64 <= FEW
        }
        _ => false,
    }
}

/// When documents are read.
enum ReadTime {
    /// Now, with this concern.
    Now(ReadConcern),
    /// As of a moment.
    Moment(Timestamp),
}

impl ReadTime {
    fn majority() -> Self {
        Self::Now(ReadConcern::majority())
    }
}

enum ReadTrouble {
    Server(Error),
    Projection(EvalError),
    TooLarge,
}

impl ReadTrouble {
    fn into_store_error(self) -> StoreError {
        match self {
            Self::Server(error) => query_error(&error),
            Self::Projection(error) => error.into(),
            Self::TooLarge => StoreError::TooLarge,
        }
    }
}

/// As [`page`], read while it is taken.
pub(super) async fn chunks(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    query: &FindQuery,
) -> Result<(u64, CursorReading), StoreError> {
    let total = if query.is_counted {
        count(inner, moment, collection, &query.filter, whole_milliseconds(query.max_time)).await?
    } else {
        0
    };
    Ok((total, open(inner, moment, collection, query).await?))
}

/// Begins to read what the query selects.
pub(super) async fn open(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    query: &FindQuery,
) -> Result<CursorReading, StoreError> {
    let time = moment.map_or_else(|| ReadTime::Now(inner.topology.read_concern()), ReadTime::Moment);
    let reading = match CursorReading::open(inner, collection, query, time, CHUNK).await {
        Err(error) if is_snapshot_lost(&error) => {
            CursorReading::open(inner, collection, query, ReadTime::majority(), CHUNK).await
        }
        outcome => outcome,
    };
    reading.map_err(|error| query_error(&error))
}

async fn read(inner: &Inner, collection: &str, query: &FindQuery, time: ReadTime) -> Result<Documents, ReadTrouble> {
    let mut reading =
        CursorReading::open(inner, collection, query, time, batch(query.limit)).await.map_err(ReadTrouble::Server)?;
    let mut documents = Documents::new();
    while reading.advance(&mut documents).await? {
        if documents.bytes() > query.max_bytes {
            return Err(ReadTrouble::TooLarge);
        }
    }
    Ok(documents)
}

/// An answer that is being read.
pub(super) struct CursorReading {
    cursor: Cursor<RawDocumentBuf>,
    /// Applied here, if the server does not apply it.
    projection: Option<(Projection, Filter)>,
    /// What is left of named entries, where the server applies the rest.
    entries: Option<Projection>,
}

impl CursorReading {
    async fn open(
        inner: &Inner,
        collection: &str,
        query: &FindQuery,
        time: ReadTime,
        batch: u32,
    ) -> Result<Self, Error> {
        if let Some(pipeline) = pipeline(query) {
            let cursor = read_pipeline(inner, collection, (query, pipeline), time, batch).await?;
            let projection = query.projection.clone().map(|projection| (projection, query.filter.clone()));
            return Ok(Self { cursor, projection, entries: None });
        }
        let cursor = read_plain(inner, collection, query, time, batch).await?;
        let entries = query.projection.clone().filter(Projection::names_entries);
        Ok(Self { cursor, projection: None, entries })
    }

    /// Appends the next document; false at the end.
    async fn advance(&mut self, documents: &mut Documents) -> Result<bool, ReadTrouble> {
        if !self.cursor.advance().await.map_err(ReadTrouble::Server)? {
            return Ok(false);
        }
        let document = self.cursor.current();
        match (&self.projection, &self.entries) {
            (None, None) => documents.push(document),
            (None, Some(projection)) => {
                documents.push(&projection.apply_to_entries(document).map_err(ReadTrouble::Projection)?);
            }
            (Some((projection, filter)), _) => {
                documents.push(&projection.apply(document, filter).map_err(ReadTrouble::Projection)?);
            }
        }
        Ok(true)
    }

    /// The next chunk; empty at the end.
    pub(super) async fn chunk(&mut self) -> Result<Documents, StoreError> {
        let mut chunk = Documents::new();
        while chunk.len() < CHUNK_DOCUMENTS && chunk.bytes() < CHUNK_BYTES {
            if !self.advance(&mut chunk).await.map_err(ReadTrouble::into_store_error)? {
                break;
            }
        }
        Ok(chunk)
    }
}

/// Whether the order is one that `find` cannot do.
pub(super) fn is_by_field(query: &FindQuery) -> bool {
    query.sort.keys().iter().any(|key| key.path.entry().is_some())
}

/// The order as `find` takes it.
pub(super) fn plain_order(query: &FindQuery) -> Document {
    if query.sort.is_reversed() {
        return doc! { "$natural": -1 };
    }
    keys_beside(&query.sort, "", "").1
}

async fn read_plain(
    inner: &Inner,
    collection: &str,
    query: &FindQuery,
    time: ReadTime,
    batch: u32,
) -> Result<Cursor<RawDocumentBuf>, Error> {
    let concern = match time {
        ReadTime::Moment(moment) => return moment::read_plain(inner, moment, collection, query, batch).await,
        ReadTime::Now(concern) => concern,
    };
    let documents = inner.collection(collection);
    let mut question = documents
        .find(query.filter.document().clone())
        .read_concern(concern)
        .batch_size(batch)
        .max_time(whole_milliseconds(query.max_time));
    if let Some(projection) = &query.projection {
        question = question.projection(projection.document().clone());
    }
    if !plain_order(query).is_empty() {
        question = question.sort(plain_order(query)).allow_disk_use(true);
    }
    if query.skip > 0 {
        question = question.skip(query.skip.min(i64::MAX as u64));
    }
    if query.limit > 0 {
        question = question.limit(i64::try_from(query.limit).unwrap_or(i64::MAX));
    }
    question.await
}

/// A query that `find` cannot express. The projection is applied here, because the stage `$project` has other operators
/// than `find`.
async fn read_pipeline(
    inner: &Inner,
    collection: &str,
    (query, pipeline): (&FindQuery, Vec<Document>),
    time: ReadTime,
    batch: u32,
) -> Result<Cursor<RawDocumentBuf>, Error> {
    let hint = query.sort.is_reversed().then(|| plain_order(query));
    let concern = match time {
        ReadTime::Moment(moment) => {
            let asked = (collection, pipeline, hint);
            return moment::read_pipeline(inner, moment, asked, query.max_time, batch).await;
        }
        ReadTime::Now(concern) => concern,
    };
    let documents = inner.collection(collection);
    let mut question = documents
        .aggregate(pipeline)
        .read_concern(concern)
        .batch_size(batch)
        .allow_disk_use(true)
        .max_time(whole_milliseconds(query.max_time));
    if let Some(order) = hint {
        question = question.hint(Hint::Keys(order));
    }
    question.with_type::<RawDocumentBuf>().await
}

/// The stages of a query that `find` cannot express; `None` if it can.
pub(super) fn pipeline(query: &FindQuery) -> Option<Vec<Document>> {
    match (GuardedParts::of(&query.filter), is_by_field(query)) {
        (parts, true) => {
            let stages = parts.map_or_else(|| vec![doc! { "$match": query.filter.document() }], |it| it.stages(None));
            Some(by_field(query, stages))
        }
        (Some(parts), false) => Some(guarded(query, parts)),
        (None, false) => None,
    }
}

/// Whether an index gives the order, so that the stages of a guarded query keep it.
pub(super) fn is_in_key_order(query: &FindQuery) -> bool {
    query.sort.keys().first().is_some_and(|first| KEYS.contains(&first.path.as_str()))
}

fn guarded(query: &FindQuery, parts: GuardedParts) -> Vec<Document> {
    if query.sort.is_reversed() || query.sort.is_empty() {
        return paged(query, parts.stages(None));
    }
    if is_in_key_order(query) {
        // After a unique key no other key matters.
        let order = plain_order(query).into_iter().take(1).collect();
        return paged(query, parts.stages(Some(order)));
    }
    let mut stages = parts.stages(None);
    stages.push(doc! { "$sort": plain_order(query) });
    paged(query, stages)
}

fn paged(query: &FindQuery, mut stages: Vec<Document>) -> Vec<Document> {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    if query.skip > 0 {
        stages.push(doc! { "$skip": number(query.skip) });
    }
    if query.limit > 0 {
        stages.push(doc! { "$limit": number(query.limit) });
    }
    stages
}

/// A sort by fields: their values are computed beside the documents. Reads all matching documents, and keeps the first
/// `skip + limit`.
fn by_field(query: &FindQuery, mut stages: Vec<Document>) -> Vec<Document> {
    let (values, order) = keys_beside(&query.sort, "keys", "document.");
    stages.extend([doc! { "$replaceWith": { "document": "$$ROOT", "keys": values } }, doc! { "$sort": order }]);
    let mut stages = paged(query, stages);
    stages.push(doc! { "$replaceWith": "$document" });
    stages
}

/// One more than the limit: with a batch of exactly the limit the server would keep a cursor open.
fn batch(limit: u64) -> u32 {
    match u32::try_from(limit) {
        Ok(limit @ 1..BATCH) => limit + 1,
        _ => BATCH,
    }
}

/// The server takes 0 for "no bound", so a budget below a millisecond becomes one.
pub(super) fn whole_milliseconds(max_time: Duration) -> Duration {
    max_time.max(Duration::from_millis(1))
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
    fn only_a_single_document_found_by_its_key_needs_no_snapshot() {
        let about = |filter, limit| is_about_one(&FindQuery::new(filter, Duration::from_secs(1)).limited(limit));
        assert!(about(Filter::equals("public_id", 7), 1) && about(Filter::equals("_id", 7), 1));
        assert!(!about(Filter::equals("public_id", 7), 0) && !about(Filter::equals("name", 7), 1));
        assert!(!about(Filter::one_of("public_id", vec![7.into(), 8.into()]), 1) && !about(Filter::all(), 1));
    }

    #[test]
    fn a_full_page_or_one_beyond_the_end_does_not() {
        assert_eq!(total_from(&query(0, 10), 10), None);
        assert_eq!(total_from(&query(20, 10), 0), None);
        assert_eq!(total_from(&query(20, 0), 0), None);
    }
}
