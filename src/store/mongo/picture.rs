//! Everything in the database, one collection after the other. What is written meanwhile may be in it or not.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::raw::RawDocumentBuf;
use bson::{Document, doc};
use futures::stream::{self, BoxStream, StreamExt};
use mongodb::Cursor;
use mongodb::error::Error;
use mongodb::results::CollectionType;

use super::Inner;
use super::error::{command_error, unavailable, write_error};
use super::find::plain_order;
use super::marks::REMOVALS;
use crate::query::{Filter, Sort};
use crate::store::pieces::{PIECE_BYTES, PIECE_DOCUMENTS};
use crate::store::{Documents, FindQuery, Picture, StoreError};

/// Documents the server packs into one answer.
const BATCH: u32 = 2000;
/// How long one answer of the server is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// See [`Picture`].
pub(super) struct Everything {
    inner: Arc<Inner>,
    collections: Vec<String>,
}

impl Everything {
    /// Looks what there is.
    pub(super) async fn open(inner: &Arc<Inner>) -> Result<Self, StoreError> {
        let collections = collections(inner).await.map_err(|error| command_error(&error))?;
        Ok(Self { inner: Arc::clone(inner), collections })
    }
}

/// What is a collection of documents; marks of this adapter come and go and are not among them.
async fn collections(inner: &Inner) -> Result<Vec<String>, Error> {
    let mut listed = inner.database.list_collections().await?;
    let mut names = Vec::new();
    while listed.advance().await? {
        let found = listed.deserialize_current()?;
        let is_ours = !found.name.starts_with("system.") && found.name != REMOVALS;
        if found.collection_type == CollectionType::Collection && is_ours {
            names.push(found.name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

#[async_trait]
impl Picture for Everything {
    fn collections(&self) -> &[String] {
        &self.collections
    }

    fn is_of_one_moment(&self) -> bool {
        false
    }

    async fn documents(
        &mut self,
        collection: &str,
        order: &Sort,
    ) -> Result<BoxStream<'_, Result<Documents, StoreError>>, StoreError> {
        let documents = self.inner.collection(collection);
        let mut question = documents.find(Document::new()).batch_size(BATCH);
        let order = plain_order(&FindQuery::new(Filter::all(), PATIENCE).sorted(order.clone()));
        if !order.is_empty() {
            question = question.sort(order).allow_disk_use(true);
        }
        let cursor = in_time(question.into_future()).await?;
        let steps = stream::unfold(Some(cursor), |rest| async {
            let mut cursor = rest?;
            match in_time(piece(&mut cursor)).await {
                Ok(piece) if piece.is_empty() => None,
                Ok(piece) => Some((Ok(piece), Some(cursor))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(steps.boxed())
    }
}

/// The next documents; none at the end.
async fn piece(cursor: &mut Cursor<RawDocumentBuf>) -> Result<Documents, Error> {
    let mut piece = Documents::new();
    while piece.len() < PIECE_DOCUMENTS && piece.bytes() < PIECE_BYTES && cursor.advance().await? {
        piece.push(cursor.current());
    }
    Ok(piece)
}

async fn in_time<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, StoreError> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(outcome) => outcome.map_err(|error| command_error(&error)),
        Err(_) => Err(unavailable(format!("no answer within {} seconds", PATIENCE.as_secs()))),
    }
}

/// Stores new documents; some of them may be stored when it fails.
pub(super) async fn append(inner: &Inner, collection: &str, documents: &Documents) -> Result<(), StoreError> {
    let documents: Vec<RawDocumentBuf> = documents.iter().map(ToOwned::to_owned).collect();
    if documents.is_empty() {
        return Ok(());
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
