//! Everything in the database, one collection after the other, as of one moment.
//!
//! The driver sets its own read concern, so these are raw commands: each `find` names the moment of the first one. The
//! server keeps its history for `minSnapshotHistoryWindowInSeconds`, by default 300. The error of a longer dump says
//! what to do.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bson::raw::RawDocumentBuf;
use bson::{Document, Timestamp, doc};
use futures::stream::{self, BoxStream, StreamExt};
use mongodb::Cursor;
use mongodb::error::Error;
use mongodb::results::CollectionType;

use super::Inner;
use super::error::{command_error, is_away, is_snapshot_lost, unavailable, write_error};
use super::order::WRITERS;
use super::read::plain_order;
use crate::query::{Filter, Sort};
use crate::store::{CHUNK_BYTES, CHUNK_DOCUMENTS, Documents, Dump, FindQuery, SCOPES, StoreError};

/// Documents the server packs into one answer.
const BATCH: u32 = 2000;
/// How long to wait for one answer of the server.
const PATIENCE: Duration = Duration::from_mins(1);
/// The same for the first answer about a collection whose index is missing: the server sorts all of it.
const SORTING: Duration = Duration::from_mins(10);
/// New collections and indexes cannot be read as of a moment at first. It takes at most this long until they can.
const SETTLING: Duration = Duration::from_secs(20);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// See [`Dump`].
pub(super) struct SessionDump {
    inner: Arc<Inner>,
    collections: Vec<String>,
    /// The moment of the dump, if the deployment has a history and there is anything to read.
    moment: Option<Timestamp>,
}

impl SessionDump {
    /// Looks which collections exist.
    pub(super) async fn open(inner: &Arc<Inner>) -> Result<Self, StoreError> {
        let collections = collections(inner).await.map_err(|error| command_error(&error))?;
        let moment = moment(inner, &collections).await?;
        Ok(Self { inner: Arc::clone(inner), collections, moment })
    }

    /// The same without a moment.
    pub(super) async fn open_live(inner: &Arc<Inner>) -> Result<Self, StoreError> {
        let collections = collections(inner).await.map_err(|error| command_error(&error))?;
        Ok(Self { inner: Arc::clone(inner), collections, moment: None })
    }
}

/// The collections of documents, without the marks of this adapter.
async fn collections(inner: &Inner) -> Result<Vec<String>, Error> {
    let mut listed = inner.database.list_collections().await?;
    let mut names = Vec::new();
    while listed.advance().await? {
        let found = listed.deserialize_current()?;
        let is_ours = !found.name.starts_with("system.") && found.name != WRITERS;
        if found.collection_type == CollectionType::Collection && is_ours {
            names.push(found.name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A moment at which each of the collections can be read.
async fn moment(inner: &Inner, collections: &[String]) -> Result<Option<Timestamp>, StoreError> {
    let until = Instant::now() + SETTLING;
    loop {
        match common_moment(inner, collections).await {
            Ok(moment) => return Ok(moment),
            Err(error) if is_snapshot_lost(&error) && Instant::now() < until => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(trouble(&error)),
        }
    }
}

pub(super) async fn common_moment(inner: &Inner, collections: &[String]) -> Result<Option<Timestamp>, Error> {
    let mut moment = None;
    for name in collections {
        let mut command = find(name, moment, Document::new());
        command.extend(doc! { "limit": 1, "singleBatch": true, "projection": { "_id": 1 } });
        let answer = inner.database.run_command(command).await?;
        // A collection that was just dropped has no such moment.
        let told = answer.get_document("cursor").and_then(|cursor| cursor.get_timestamp("atClusterTime"));
        moment = moment.or(told.ok());
    }
    Ok(moment)
}

/// A query for all documents of a collection as of the given moment, or one that the server chooses.
fn find(collection: &str, moment: Option<Timestamp>, order: Document) -> Document {
    let mut concern = doc! { "level": "snapshot" };
    concern.extend(moment.map(|moment| ("atClusterTime".to_owned(), moment.into())));
    let mut command = doc! { "find": collection, "batchSize": BATCH, "readConcern": concern };
    if !order.is_empty() {
        command.extend(doc! { "sort": order, "allowDiskUse": true });
    }
    command
}

#[async_trait]
impl Dump for SessionDump {
    fn collections(&self) -> &[String] {
        &self.collections
    }

    fn is_of_one_moment(&self) -> bool {
        self.moment.is_some() || self.collections.is_empty()
    }

    async fn documents(
        &mut self,
        collection: &str,
        order: &Sort,
    ) -> Result<BoxStream<'_, Result<Documents, StoreError>>, StoreError> {
        let order = plain_order(&FindQuery::new(Filter::all(), PATIENCE).sorted(order.clone()));
        let cursor = match self.moment {
            Some(moment) => in_time(PATIENCE, self.as_of(moment, collection, order)).await?,
            None => in_time(SORTING, self.as_it_is(collection, order)).await?,
        };
        let steps = stream::unfold(Some(cursor), |rest| async {
            let mut cursor = rest?;
            match in_time(PATIENCE, chunk(&mut cursor)).await {
                Ok(chunk) if chunk.is_empty() => None,
                Ok(chunk) => Some((Ok(chunk), Some(cursor))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(steps.boxed())
    }
}

impl SessionDump {
    async fn as_of(
        &self,
        moment: Timestamp,
        collection: &str,
        order: Document,
    ) -> Result<Cursor<RawDocumentBuf>, Error> {
        let question = self.inner.database.run_cursor_command(find(collection, Some(moment), order));
        Ok(question.batch_size(BATCH).await?.with_type())
    }

    async fn as_it_is(&self, collection: &str, order: Document) -> Result<Cursor<RawDocumentBuf>, Error> {
        let documents = self.inner.collection(collection);
        let mut question = documents.find(Document::new()).batch_size(BATCH);
        if !order.is_empty() {
            question = question.sort(order).allow_disk_use(true);
        }
        question.await
    }
}

/// The next documents; none at the end.
async fn chunk(cursor: &mut Cursor<RawDocumentBuf>) -> Result<Documents, Error> {
    let mut chunk = Documents::new();
    while chunk.len() < CHUNK_DOCUMENTS && chunk.bytes() < CHUNK_BYTES && cursor.advance().await? {
        chunk.push(cursor.current());
    }
    Ok(chunk)
}

async fn in_time<T>(patience: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
    match tokio::time::timeout(patience, work).await {
        Ok(outcome) => outcome.map_err(|error| trouble(&error)),
        Err(_) => Err(unavailable(format!("no answer within {} seconds", patience.as_secs()))),
    }
}

fn trouble(error: &Error) -> StoreError {
    if is_snapshot_lost(error) {
        return StoreError::backend(
            "MongoDB has no history any more of the moment that is read (it keeps minSnapshotHistoryWindowInSeconds, 300 by \
             default), or a collection or an index was made meanwhile; have each member keep more, for instance with \
             db.adminCommand({setParameter: 1, minSnapshotHistoryWindowInSeconds: 3600}), and repeat the command",
        );
    }
    command_error(error)
}

/// Stores new documents; some of them may be stored when it fails.
pub(super) async fn append(inner: &Inner, collection: &str, documents: &Documents) -> Result<(), StoreError> {
    let documents: Vec<RawDocumentBuf> = documents.iter().map(ToOwned::to_owned).collect();
    if documents.is_empty() {
        return Ok(());
    }
    if collection == super::counters::COUNTERS {
        return super::counters::take(inner, &documents).await;
    }
    let stored = inner.collection(collection).insert_many(documents).ordered(false).await;
    stored.map(drop).map_err(|error| write_error(&error, collection, &inner.indexes))
}

/// Drops a collection, and its counter.
pub(super) async fn clear(inner: &Inner, collection: &str) -> Result<(), StoreError> {
    let counters = inner.collection(super::counters::COUNTERS);
    counters.delete_one(doc! { "_id": collection }).await.map_err(|error| command_error(&error))?;
    inner.collection(collection).drop().await.map_err(|error| command_error(&error))
}

/// The present moment of a replica set or a sharded cluster; none while the collections are new. The server keeps its
/// history for `minSnapshotHistoryWindowInSeconds`, by default 300: longer than a request lasts.
pub(super) async fn present_moment(inner: &Inner) -> Result<Option<Timestamp>, StoreError> {
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
