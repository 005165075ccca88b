//! Sessions of people who signed in to the page: random secrets in cookies, whose hashes the store keeps.
//!
//! A session ends with its time, when its user signs out, and when the user is locked, deleted or gets another password.
//! Every instance knows of the end at its next look, as of that of machine tokens.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{DateTime, doc};
use chrono::Utc;

use super::token_lookup::hash_of;
use crate::auth::Secret;
use crate::domain::document::{integer, raw};
use crate::query::Filter;
use crate::service::remembered::Remembered;
use crate::store::collections::SESSIONS;
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// A longer text is no secret of a session.
const LONGEST: usize = 128;

/// Begins, finds and ends sessions, and caches them as long as none changes.
pub struct Sessions {
    store: Arc<dyn Store>,
    max_time: Duration,
    known: Remembered<String, Option<Session>>,
}

/// A session as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Session {
    /// Whose it is.
    pub user_id: i64,
    /// The epoch of the user's password when it began.
    pub epoch: i64,
    expires_at: DateTime,
}

impl Sessions {
    /// Reads from `store`, with this time budget for each query.
    pub fn new(store: Arc<dyn Store>, max_time: Duration) -> Self {
        Self { store, max_time, known: Remembered::of(SESSIONS) }
    }

    /// Begins a session of a user. Sessions of anybody that are over are removed.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn begin(
        &self,
        (user_id, epoch): (i64, i64),
        now: chrono::DateTime<Utc>,
        until: chrono::DateTime<Utc>,
    ) -> Result<Secret, StoreError> {
        let secret = hex::encode(rand::random::<[u8; 32]>());
        let (now, until) = (DateTime::from_chrono(now), DateTime::from_chrono(until));
        let over = Filter::ours(&doc! { "expires_at": { "$lte": now } });
        let session = doc! { "_id": hash_of(&secret), "user_id": user_id, "epoch": epoch, "expires_at": until };
        let unit = Unit::of(Change::DeleteMany { collection: SESSIONS, filter: over });
        self.store.commit(unit.and(Change::Insert { collection: SESSIONS, document: raw(&session) })).await?;
        Ok(secret.into())
    }

    /// The session with this secret, if it is not over.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn find(&self, secret: &str, now: chrono::DateTime<Utc>) -> Result<Option<Session>, StoreError> {
        if secret.len() > LONGEST {
            return Ok(None);
        }
        let found = self.look_up(hash_of(secret)).await?;
        Ok(found.filter(|session| DateTime::from_chrono(now) < session.expires_at))
    }

    /// Ends the session with this secret.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn end(&self, secret: &str) -> Result<(), StoreError> {
        let filter = Filter::equals("_id", hash_of(secret));
        self.store.commit(Unit::of(Change::DeleteMany { collection: SESSIONS, filter })).await?;
        Ok(())
    }

    async fn look_up(&self, hash: String) -> Result<Option<Session>, StoreError> {
        let query = FindQuery::new(Filter::equals("_id", hash.as_str()), self.max_time);
        let read = async { Ok(self.store.first(SESSIONS, query).await?.as_deref().and_then(Session::read)) };
        self.known.get(&*self.store, hash, read).await
    }
}

impl Session {
    fn read(stored: &RawDocument) -> Option<Self> {
        Some(Self {
            user_id: integer(stored, "user_id")?,
            epoch: integer(stored, "epoch")?,
            expires_at: stored.get_datetime("expires_at").ok()?,
        })
    }
}
