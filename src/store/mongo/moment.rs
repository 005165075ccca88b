//! Questions to one moment of a replica set or a sharded cluster.
//!
//! The driver sets its own read concern, so these are raw commands: each names the moment. What a server that stepped down did
//! not answer is repeated here, as the driver repeats its own queries. The server keeps its history for
//! `minSnapshotHistoryWindowInSeconds`, by default 300: longer than a request lasts.

use std::time::Duration;

use bson::raw::RawDocumentBuf;
use bson::{Document, Timestamp, doc};
use mongodb::Cursor;
use mongodb::error::Error;

use super::Inner;
use super::dump::common_moment;
use super::error::{command_error, is_away, is_snapshot_lost};
use super::find::{plain_order, whole_milliseconds};
use crate::store::{FindQuery, SCOPES, StoreError};

/// The present moment; none while the collections are new.
pub(super) async fn now(inner: &Inner) -> Result<Option<Timestamp>, StoreError> {
    let known = [SCOPES.to_owned()];
    let mut now = common_moment(inner, &known).await;
    if now.as_ref().is_err_and(is_away) {
        now = common_moment(inner, &known).await;
    }
    match now {
        Err(error) if is_snapshot_lost(&error) => Ok(None),
        outcome => outcome.map_err(|error| command_error(&error)),
    }
}

/// What a query without stages finds at the moment.
pub(super) async fn read_plain(
    inner: &Inner,
    moment: Timestamp,
    collection: &str,
    query: &FindQuery,
    batch: u32,
) -> Result<Cursor<RawDocumentBuf>, Error> {
    let mut command = doc! { "find": collection, "filter": query.filter.document(), "batchSize": batch };
    if let Some(projection) = &query.projection {
        command.insert("projection", projection.document());
    }
    let order = plain_order(query);
    if !order.is_empty() {
        command.extend(doc! { "sort": order, "allowDiskUse": true });
    }
    for (name, number) in [("skip", query.skip), ("limit", query.limit)] {
        if number > 0 {
            command.insert(name, i64::try_from(number).unwrap_or(i64::MAX));
        }
    }
    run(inner, moment, command, query.max_time, batch).await
}

/// The results of the stages at the moment.
pub(super) async fn read_pipeline(
    inner: &Inner,
    moment: Timestamp,
    (collection, stages, hint): (&str, Vec<Document>, Option<Document>),
    max_time: Duration,
    batch: u32,
) -> Result<Cursor<RawDocumentBuf>, Error> {
    let mut command =
        doc! { "aggregate": collection, "pipeline": stages, "cursor": { "batchSize": batch }, "allowDiskUse": true };
    command.extend(hint.map(|hint| ("hint".to_owned(), hint.into())));
    run(inner, moment, command, max_time, batch).await
}

async fn run(
    inner: &Inner,
    moment: Timestamp,
    mut command: Document,
    max_time: Duration,
    batch: u32,
) -> Result<Cursor<RawDocumentBuf>, Error> {
    let max_time = i64::try_from(whole_milliseconds(max_time).as_millis()).unwrap_or(i64::MAX);
    command.insert("maxTimeMS", max_time);
    command.insert("readConcern", doc! { "level": "snapshot", "atClusterTime": moment });
    let ask = || inner.database.run_cursor_command(command.clone()).batch_size(batch);
    let mut cursor = ask().await;
    if cursor.as_ref().is_err_and(is_away) {
        cursor = ask().await;
    }
    Ok(cursor?.with_type())
}
