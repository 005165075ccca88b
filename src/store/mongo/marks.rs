//! Marks in `service.removals`: "this document may be about to go, wait before you rely on it".
//!
//! A mark is a document `{_id: {collection, document}, token, at}`; `document` is the marked document's `_id`, `at` is
//! the server's time. Its owner has the only copy of its `token`. While it exists, no other unit can mark the same
//! document, and units that rely on the document wait. Marks are not part of the documents: readers, `before`
//! comparisons and entity tags never see one.
//!
//! A process that dies leaves its marks behind. A unit that meets a mark older than [`ABANDONED_AFTER`], by the
//! server's clock, removes it. A slow owner notices that at its next step. The step begins with [`Marks::refresh_for`],
//! or in a transaction with [`Marks::release`], and fails when a mark is gone.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, RawDocument, doc};
use mongodb::ClientSession;

use super::Inner;
use super::batch::{BatchKind, send};
use super::change::{Failure, at, id_of};
use super::error::{DUPLICATE_KEY, unavailable};
use crate::store::{Change, SCOPES, StoreError};

/// The collection of the marks.
pub(super) const REMOVALS: &str = "service.removals";
/// A mark of this age is abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(20);
/// Every step renews marks of this age.
const RENEWED_AFTER: Duration = Duration::from_secs(2);
/// Marks put up in one command.
const AT_ONCE: usize = 1000;
/// Longer than [`ABANDONED_AFTER`], so that a wait outlasts a mark that was left behind.
const PATIENCE: Duration = Duration::from_secs(25);

/// What a mark is about.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Marked {
    /// The collection of the marked document.
    pub(super) collection: String,
    /// The `_id` of the marked document.
    pub(super) document: Bson,
}

impl Marked {
    fn of(mark: &RawDocument) -> Option<Self> {
        let id = mark.get_document("_id").ok()?;
        let collection = id.get_str("collection").ok()?.to_owned();
        let document = Bson::try_from(id.get("document").ok()??).ok()?;
        Some(Self { collection, document })
    }

    fn id(&self) -> Document {
        doc! { "collection": &self.collection, "document": &self.document }
    }
}

/// A wait for others with growing pauses and an end.
#[derive(Debug)]
pub(super) struct Wait {
    until: Instant,
    pause: Duration,
}

impl Wait {
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + PATIENCE, pause: Duration::from_millis(2) }
    }

    /// Waits for a moment.
    pub(super) async fn pause(&mut self) -> Result<(), Failure> {
        if Instant::now() >= self.until {
            return Err(unavailable("a document stayed marked for removal").into());
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(50));
        Ok(())
    }
}

/// The marks that one unit put up.
#[derive(Debug)]
pub(super) struct Marks {
    token: ObjectId,
    keys: Vec<Marked>,
    /// When all of them were last renewed.
    renewed: Mutex<Instant>,
}

impl Marks {
    /// Sets a mark for each of the keys, and waits for marks of others to go.
    pub(super) async fn acquire(
        inner: &Inner,
        session: &mut ClientSession,
        mut keys: Vec<Marked>,
    ) -> Result<Self, Failure> {
        // All units set marks in the same order, so that no two units wait for each other.
        keys.sort_by_cached_key(|key| (key.collection.clone(), key.document.to_string()));
        keys.dedup();
        // All are listed before it is known whether they exist: releasing a missing mark does no harm.
        let marks = Self { token: ObjectId::new(), keys, renewed: Mutex::new(Instant::now()) };
        if let Err(failure) = marks.put_up(inner, session).await {
            marks.give_up(inner, session).await;
            return Err(failure);
        }
        Ok(marks)
    }

    /// Many at a time, in order. At a mark of another unit the server stops, and sets the next ones only when that mark
    /// is gone.
    async fn put_up(&self, inner: &Inner, session: &mut ClientSession) -> Result<(), Failure> {
        let mut rest = &self.keys[..];
        let mut wait = Wait::new();
        while !rest.is_empty() {
            let (some, later) = rest.split_at(rest.len().min(AT_ONCE));
            let statements = some.iter().map(|key| self.upsert(key)).collect::<Result<Vec<_>, _>>()?;
            let Some(refused) = send(inner, session, REMOVALS, BatchKind::Update, &statements).await? else {
                rest = later;
                continue;
            };
            if refused.code != DUPLICATE_KEY {
                return Err(refused.into_failure(&inner.indexes));
            }
            if refused.index > 0 {
                rest = rest.get(refused.index..).unwrap_or_default();
                wait = Wait::new();
            }
            if let Some(key) = rest.first() {
                clear_abandoned(inner, session, key).await?;
            }
            wait.pause().await?;
        }
        Ok(())
    }

    fn upsert(&self, key: &Marked) -> Result<RawDocumentBuf, StoreError> {
        let statement = doc! { "q": { "_id": key.id(), "token": self.token }, "u": self.stamp(), "upsert": true };
        RawDocumentBuf::try_from(&statement).map_err(StoreError::backend)
    }

    fn stamp(&self) -> Vec<Document> {
        vec![doc! { "$set": { "token": self.token, "at": "$$NOW" } }]
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn mine<'a>(&self, keys: impl IntoIterator<Item = &'a Marked>) -> Document {
        let ids: Vec<Document> = keys.into_iter().map(Marked::id).collect();
        doc! { "_id": { "$in": ids }, "token": self.token }
    }

    /// Renews the marks; fails when one is gone.
    pub(super) async fn refresh(&self, inner: &Inner, session: &mut ClientSession) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let refreshed =
            inner.collection(REMOVALS).update_many(self.mine(&self.keys), self.stamp()).session(session).await;
        all(&self.keys, refreshed.map_err(at(REMOVALS))?.matched_count)?;
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = now;
        Ok(())
    }

    /// As [`Marks::refresh`], before a step. A step about one document renews only its mark, and the others from time
    /// to time. Otherwise a unit of many removals would write all marks at each step.
    pub(super) async fn refresh_for(
        &self,
        inner: &Inner,
        session: &mut ClientSession,
        step: &[Change],
    ) -> Result<(), Failure> {
        let age = self.renewed.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        let own = match step {
            [change @ (Change::Replace { before, .. } | Change::Delete { before, .. })] if age < RENEWED_AFTER => {
                let (collection, document) = (change.collection(), id_of(before)?);
                self.keys.iter().find(|key| key.collection == collection && key.document == document)
            }
            _ => None,
        };
        let Some(own) = own else { return self.refresh(inner, session).await };
        // If this write is lost, the mark only seems older than it is.
        let refreshed = inner.unjournaled(REMOVALS).update_one(self.mine([own]), self.stamp()).session(session).await;
        all(&[own], refreshed.map_err(at(REMOVALS))?.matched_count)
    }

    /// Removes the marks; fails when one is already gone.
    pub(super) async fn release(&self, inner: &Inner, session: &mut ClientSession) -> Result<(), Failure> {
        if self.is_empty() {
            return Ok(());
        }
        let released = inner.collection(REMOVALS).delete_many(self.mine(&self.keys)).session(session).await;
        all(&self.keys, released.map_err(at(REMOVALS))?.deleted_count)
    }

    /// Removes the remaining marks, after the unit ended in another way.
    pub(super) async fn give_up(&self, inner: &Inner, session: &mut ClientSession) {
        if let Err(failure) = self.release(inner, session).await {
            // Others remove them when they are abandoned.
            log::debug!("marks for a removal were not taken down: {failure}");
        }
    }
}

fn all<T>(keys: &[T], count: u64) -> Result<(), Failure> {
    if count == keys.len() as u64 {
        Ok(())
    } else {
        Err(unavailable("the unit took so long that its marks were taken away").into())
    }
}

/// All existing marks. There are few at any time, mostly none.
pub(super) async fn standing(inner: &Inner, session: &mut ClientSession) -> Result<Vec<Marked>, Failure> {
    let marks = inner.collection(REMOVALS);
    let question = marks.find(doc! {}).projection(doc! { "_id": 1 }).max_time(inner.write_bound());
    let mut answer = question.session(&mut *session).await.map_err(at(REMOVALS))?;
    let mut keys = Vec::new();
    while answer.advance(session).await.map_err(at(REMOVALS))? {
        keys.extend(Marked::of(answer.current()));
    }
    Ok(keys)
}

/// Removes the mark if it is abandoned.
pub(super) async fn clear_abandoned(inner: &Inner, session: &mut ClientSession, key: &Marked) -> Result<(), Failure> {
    let age = i64::try_from(ABANDONED_AFTER.as_millis()).expect("some seconds");
    let abandoned = doc! { "_id": key.id(), "$expr": { "$lt": ["$at", { "$subtract": ["$$NOW", age] }] } };
    let marks = inner.collection(REMOVALS);
    let found = marks.find_one(abandoned.clone()).session(&mut *session).await.map_err(at(REMOVALS))?;
    if found.is_none() {
        return Ok(());
    }
    if key.collection == SCOPES {
        // The dead unit may be half done, so earlier reads are no longer valid.
        let scopes = inner.collection(SCOPES);
        let moved = scopes.update_one(doc! { "_id": &key.document }, doc! { "$inc": { "at": 1_i64 } }).upsert(true);
        moved.session(&mut *session).await.map_err(at(SCOPES))?;
    }
    marks.delete_one(abandoned).session(session).await.map_err(at(REMOVALS))?;
    Ok(())
}
