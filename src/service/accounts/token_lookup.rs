//! Looks up the machine token of a request.

use std::sync::Arc;
use std::time::Duration;

use bson::raw::{RawBsonRef, RawDocument};
use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest, Sha256};

use super::directory::Caller;
use crate::auth::Rights;
use crate::domain::document::integer;
use crate::query::{Filter, Update};
use crate::service::remembered::Remembered;
use crate::store::collections::TOKENS;
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// The prefix of machine tokens: it distinguishes them from session tokens, and lets scanners find leaked ones.
pub const PREFIX: &str = "inventory_";
/// The minimum interval between two notes of the last use.
const USE_STEP: TimeDelta = TimeDelta::minutes(1);

/// In hexadecimal, so that tools show it readably.
pub(crate) fn hash_of(token: &str) -> String {
    hex::encode(Sha256::digest(token))
}

/// Looks up tokens, and caches them as long as none changes.
pub struct ApiTokens {
    store: Arc<dyn Store>,
    max_time: Duration,
    known: Remembered<String, Option<Arc<KnownToken>>>,
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownToken {
    /// Its `public_id`.
    pub public_id: i64,
    /// Whose it is.
    pub user_id: i64,
    /// When it ends.
    pub expires_at: DateTime<Utc>,
    /// What its user gave it.
    pub rights: Vec<String>,
    last_used_at: Option<DateTime<Utc>>,
}

impl ApiTokens {
    /// Reads from `store`, with this time budget for each query.
    pub fn new(store: Arc<dyn Store>, max_time: Duration) -> Self {
        Self { store, max_time, known: Remembered::of(TOKENS) }
    }

    /// The token, if it exists and has not expired. Notes its use at most once a minute.
    ///
    /// # Errors
    /// As [`Store::find`] and [`Store::commit`].
    pub async fn find(&self, token: &str, now: DateTime<Utc>) -> Result<Option<Arc<KnownToken>>, StoreError> {
        self.find_hash(hash_of(token), now).await
    }

    /// The token with this hash, as [`ApiTokens::find`] gives it.
    ///
    /// # Errors
    /// As [`ApiTokens::find`].
    pub async fn find_hash(&self, hash: String, now: DateTime<Utc>) -> Result<Option<Arc<KnownToken>>, StoreError> {
        let found = self.look_up(hash).await?;
        let Some(known) = found.filter(|known| now < known.expires_at) else { return Ok(None) };
        if known.last_used_at.is_none_or(|last| last + USE_STEP <= now) {
            let filter = Filter::equals("public_id", known.public_id);
            let update = Update::set("last_used_at", bson::DateTime::from_chrono(now));
            self.store.commit(Unit::of(Change::UpdateMany { collection: TOKENS, filter, update })).await?;
        }
        Ok(Some(known))
    }

    /// The token, if it has expired: its holder may know that.
    ///
    /// # Errors
    /// As [`Store::find`].
    pub async fn expired(&self, token: &str, now: DateTime<Utc>) -> Result<Option<Arc<KnownToken>>, StoreError> {
        Ok(self.look_up(hash_of(token)).await?.filter(|known| known.expires_at <= now))
    }

    async fn look_up(&self, hash: String) -> Result<Option<Arc<KnownToken>>, StoreError> {
        let query = FindQuery::new(Filter::equals("hash", hash.as_str()), self.max_time);
        let read = async {
            let found = self.store.first(TOKENS, query).await?;
            Ok(found.as_deref().map(KnownToken::read).transpose()?.map(Arc::new))
        };
        self.known.get(&*self.store, hash, read).await
    }
}

impl KnownToken {
    fn read(stored: &RawDocument) -> Result<Self, StoreError> {
        let damaged = || StoreError::Corrupt { what: "a document of service.tokens".to_owned() };
        let time = |name| stored.get_datetime(name).ok().map(bson::DateTime::to_chrono);
        let rights = stored.get_array("rights").map_err(|_| damaged())?;
        Ok(Self {
            public_id: integer(stored, "public_id").ok_or_else(damaged)?,
            user_id: integer(stored, "user_id").ok_or_else(damaged)?,
            expires_at: time("expires_at").ok_or_else(damaged)?,
            rights: rights.into_iter().flatten().filter_map(RawBsonRef::as_str).map(str::to_owned).collect(),
            last_used_at: time("last_used_at"),
        })
    }

    /// The user with the rights that both the token and, at present, the user have.
    pub fn caller(&self, user: &Caller) -> Caller {
        let rights = Arc::new(Rights::within(&self.rights, Arc::clone(&user.rights)));
        Caller { rights, is_machine: true, ..user.clone() }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::domain::document::{raw, text};
    use crate::service::queries::kinds;

    #[test]
    fn a_shown_token_has_no_hash() {
        let stored = raw(&doc! {"public_id": 1_i64, "hash": hash_of("x"), "name": "backup"});
        assert_eq!(kinds::token(&stored), raw(&doc! {"public_id": 1_i64, "name": "backup"}));
        assert_eq!(text(&stored, "hash").map(str::len), Some(64));
    }

    #[test]
    fn a_token_has_no_more_rights_than_its_user() {
        let user = Caller {
            user_id: 7,
            group_id: 2,
            user_name: "ada".to_owned(),
            rights: Arc::new(Rights::new(["base.framework.object.*"])),
            is_machine: false,
        };
        let token = KnownToken {
            public_id: 1,
            user_id: 7,
            expires_at: DateTime::UNIX_EPOCH,
            rights: vec!["base.framework.object.view".to_owned(), "base.system.*".to_owned()],
            last_used_at: None,
        };
        let caller = token.caller(&user);
        assert!(caller.rights.grants("base.framework.object.view"));
        assert!(!caller.rights.grants("base.framework.object.edit"));
        assert!(!caller.rights.grants("base.system.view"));
        assert!(caller.is_machine);
    }
}
