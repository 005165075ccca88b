//! Reads: plain questions go to the server as the client wrote them, and their documents come back as a stream.
//!
//! The driver sets its own read concern, so these are raw commands: each names what it reads. What a server that stepped down did
//! not answer is repeated here, as the driver repeats its own queries.

use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Document, Timestamp, doc};
use mongodb::Cursor;
use mongodb::error::Error;

use super::Inner;
use super::connect::Topology;
use super::error::{is_away, is_snapshot_lost, query_error};
use super::planned::planned;
use crate::query::{Filter, Node, Test, keys_beside};
use crate::store::question::{KEYS, is_by_field};
use crate::store::{CHUNK_BYTES, CHUNK_DOCUMENTS, Documents, FindQuery, StoreError};

/// Documents the server packs into one answer when there is no limit; it stops earlier at 16 MiB.
const BATCH: u32 = 10_000;
/// The same for an answer in chunks.
const CHUNK: u32 = 500;

/// The documents that the query selects.
pub(super) async fn documents(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    query: &FindQuery,
) -> Result<Documents, StoreError> {
    let mut reading = Reading::open(inner, moment, collection, query, batch(query.limit, BATCH)).await?;
    let mut documents = Documents::new();
    while reading.advance(&mut documents).await? {
        if documents.bytes() > query.max_bytes {
            return Err(StoreError::TooLarge);
        }
    }
    Ok(documents)
}

/// Begins to read what the query selects.
pub(super) async fn open(
    inner: &Inner,
    moment: Option<Timestamp>,
    collection: &str,
    query: &FindQuery,
) -> Result<Reading, StoreError> {
    Reading::open(inner, moment, collection, query, batch(query.limit, CHUNK)).await
}

/// Begins to read what a command gives.
pub(super) async fn open_command(
    inner: &Inner,
    moment: Option<Timestamp>,
    command: Document,
    max_time: Duration,
) -> Result<Reading, StoreError> {
    Reading::of(inner, concern(inner, moment), command, (max_time, CHUNK)).await.map_err(|error| query_error(&error))
}

/// Whether the query is for one document by a key that never changes. `majority` then gives a consistent answer too,
/// and is cheaper than a snapshot.
fn is_about_one(query: &FindQuery) -> bool {
    query.limit == 1 && matches!(query.filter.tree(), Node::Path(path, Test::Eq(_)) if KEYS.contains(&path.as_str()))
}

/// How many documents a query may return without a turn, and how many it may skip.
const FEW: u64 = 128;
const FEW_PASSED: u64 = 1024;

/// Whether the server answers a plain question at once from one of its unique indexes.
pub(super) fn is_light(query: &FindQuery) -> bool {
    let is_page = (1..=FEW).contains(&query.limit) && query.skip <= FEW_PASSED;
    let is_first_of_all = is_page
        && matches!(query.filter.tree(), Node::Always)
        && query.sort.keys().iter().all(|key| KEYS.contains(&key.path.as_str()));
    is_first_of_all || is_by_key(&query.filter)
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

/// An answer that is being read.
pub(super) struct Reading {
    cursor: Cursor<RawDocumentBuf>,
}

impl Reading {
    async fn open(
        inner: &Inner,
        moment: Option<Timestamp>,
        collection: &str,
        query: &FindQuery,
        batch: u32,
    ) -> Result<Self, StoreError> {
        let concern = if moment.is_none() && is_about_one(query) { majority() } else { concern(inner, moment) };
        let reading = Self::of(inner, concern, command(collection, query), (query.max_time, batch)).await;
        reading.map_err(|error| query_error(&error))
    }

    async fn of(
        inner: &Inner,
        concern: Document,
        mut command: Document,
        (max_time, batch): (Duration, u32),
    ) -> Result<Self, Error> {
        command.insert("maxTimeMS", milliseconds(max_time));
        match command.get_document_mut("cursor") {
            Ok(cursor) => drop(cursor.insert("batchSize", batch)),
            Err(_) => drop(command.insert("batchSize", batch)),
        }
        let ask = async |concern: Document| {
            let mut command = command.clone();
            command.insert("readConcern", concern);
            let ask = || inner.database.run_cursor_command(command.clone()).batch_size(batch);
            match ask().await {
                Err(error) if is_away(&error) => ask().await,
                answer => answer,
            }
        };
        let cursor = match ask(concern).await {
            // The collection or one of its indexes is new: its past cannot be read, its present can.
            Err(error) if is_snapshot_lost(&error) => ask(majority()).await?,
            answer => answer?,
        };
        Ok(Self { cursor: cursor.with_type() })
    }

    /// Appends the next document; false at the end.
    pub(super) async fn advance(&mut self, documents: &mut Documents) -> Result<bool, StoreError> {
        let is_there = self.cursor.advance().await.map_err(|error| query_error(&error))?;
        if is_there {
            documents.push(self.cursor.current());
        }
        Ok(is_there)
    }

    /// The next chunk; empty at the end.
    pub(super) async fn chunk(&mut self) -> Result<Documents, StoreError> {
        let mut chunk = Documents::new();
        while chunk.len() < CHUNK_DOCUMENTS && chunk.bytes() < CHUNK_BYTES && self.advance(&mut chunk).await? {}
        Ok(chunk)
    }
}

fn majority() -> Document {
    doc! { "level": "majority" }
}

/// What is read: the documents of the moment, or never data that a failover could roll back.
///
/// On a replica set all documents of an answer come from one point in time. A router would choose that point by its own clock,
/// possibly before acknowledged writes. So there the service reads the majority's present state.
pub(super) fn concern(inner: &Inner, moment: Option<Timestamp>) -> Document {
    match (moment, inner.topology) {
        (Some(moment), _) => doc! { "level": "snapshot", "atClusterTime": moment },
        (None, Topology::ReplicaSet) => doc! { "level": "snapshot" },
        (None, Topology::Sharded) => majority(),
    }
}

/// The query as a command: `find`, or stages for an order that `find` cannot do.
pub(super) fn command(collection: &str, query: &FindQuery) -> Document {
    if is_by_field(&query.sort) {
        return stages_command(collection, &by_field(query));
    }
    let mut command = doc! { "find": collection, "filter": planned(&query.filter) };
    if let Some(projection) = &query.projection {
        command.insert("projection", projection.document());
    }
    let order = plain_order(query);
    if !order.is_empty() {
        command.extend(doc! { "sort": order, "allowDiskUse": true });
    }
    for (name, number) in [("skip", query.skip), ("limit", query.limit)] {
        if number > 0 {
            command.insert(name, whole(number));
        }
    }
    command
}

/// Stages as a command.
pub(super) fn stages_command(collection: &str, stages: &[Document]) -> Document {
    doc! { "aggregate": collection, "pipeline": stages, "cursor": {}, "allowDiskUse": true }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The order as `find` takes it.
pub(super) fn plain_order(query: &FindQuery) -> Document {
    if query.sort.is_reversed() {
        return doc! { "$natural": -1 };
    }
    keys_beside(&query.sort, "", "").1
}

/// A sort by fields: their values are computed next to the documents. Reads all matching documents, and keeps the first
/// `skip + limit`.
fn by_field(query: &FindQuery) -> Vec<Document> {
    let (values, order) = keys_beside(&query.sort, "keys", "document.");
    let mut stages = vec![
        doc! { "$match": planned(&query.filter) },
        doc! { "$replaceWith": { "document": "$$ROOT", "keys": values } },
        doc! { "$sort": order },
    ];
    for (name, number) in [("$skip", query.skip), ("$limit", query.limit)] {
        if number > 0 {
            stages.push(doc! { name: whole(number) });
        }
    }
    stages.push(doc! { "$replaceWith": "$document" });
    stages
}

/// The server takes 0 for "no bound", so a budget below a millisecond becomes one.
fn milliseconds(max_time: Duration) -> i64 {
    i64::try_from(max_time.as_millis()).unwrap_or(i64::MAX).max(1)
}

/// One more than the limit: with a batch of exactly the limit the server would keep a cursor open.
fn batch(limit: u64, most: u32) -> u32 {
    match u32::try_from(limit) {
        Ok(limit) if limit > 0 && limit < most => limit + 1,
        _ => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_single_document_found_by_its_key_needs_no_snapshot() {
        let about = |filter, limit| is_about_one(&FindQuery::new(filter, Duration::from_secs(1)).limited(limit));
        assert!(about(Filter::equals("public_id", 7), 1) && about(Filter::equals("_id", 7), 1));
        assert!(!about(Filter::equals("public_id", 7), 0) && !about(Filter::equals("name", 7), 1));
        assert!(!about(Filter::one_of("public_id", [7, 8]), 1) && !about(Filter::all(), 1));
    }
}
