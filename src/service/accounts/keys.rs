//! The keys that sign tokens: created once, kept in the store, shared by all instances, replaced on demand.
//!
//! Documents of `service.keys` are `{_id: "key-<n>", secret, created_at}`. The number ensures that two instances which
//! create a key at the same time create only one: the second insert is refused, and its instance uses the first key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bson::raw::RawDocument;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, doc};
use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex;

use crate::auth::{AuthSettings, SigningKey, Tokens};
use crate::domain::document::raw;
use crate::query::Filter;
use crate::store::collections::KEYS;
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// The name of the key that the settings give.
const FROM_SETTINGS: &str = "settings";

/// What happens to the older keys when a new one is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldKeys {
    /// They check tokens until the last of those has expired.
    Keep,
    /// They are dropped at once with all their tokens, for a leaked key.
    Drop,
}

/// Keeps [`Tokens`] supplied with the keys in the store.
pub struct SigningKeys {
    store: Arc<dyn Store>,
    tokens: Arc<Tokens>,
    max_time: Duration,
    /// Whether the settings give the key, so that the store does not matter.
    given: bool,
    /// The revision of the collection that the keys in use were read at.
    read_at: AtomicU64,
    /// Held while reading, so that older keys never come after newer ones.
    reading: Mutex<()>,
}

impl SigningKeys {
    /// Finds the keys or makes the first one, and hands them to `tokens`.
    ///
    /// # Errors
    /// As [`Store::find`] and [`Store::commit`]; [`StoreError::Corrupt`] when a stored key is not one.
    pub async fn open(
        store: Arc<dyn Store>,
        tokens: Arc<Tokens>,
        settings: &AuthSettings,
        now: DateTime<Utc>,
        max_time: Duration,
    ) -> Result<Self, StoreError> {
        let given = settings.signing_key.is_some();
        let keys = Self { store, tokens, max_time, given, read_at: AtomicU64::new(0), reading: Mutex::new(()) };
        if let Some(secret) = &settings.signing_key {
            let key = SigningKey::new(FROM_SETTINGS, secret.expose(), DateTime::UNIX_EPOCH);
            keys.tokens.use_keys(&[key]);
        } else {
            keys.make_first(now).await?;
            keys.reload().await?;
        }
        Ok(keys)
    }

    /// Takes over changes of keys by other instances. Costs nothing without changes.
    ///
    /// # Errors
    /// As [`Store::find`]; [`StoreError::Corrupt`] when a stored key is not one.
    pub async fn refresh(&self) -> Result<(), StoreError> {
        if self.given || self.read_at.load(Ordering::Acquire) == self.store.revision(KEYS) {
            return Ok(());
        }
        self.reload().await
    }

    async fn reload(&self) -> Result<(), StoreError> {
        let _alone = self.reading.lock().await;
        let revision = self.store.revision(KEYS);
        self.tokens.use_keys(&self.read().await?);
        self.read_at.store(revision, Ordering::Release);
        Ok(())
    }

    /// Creates a new key, which signs after a few seconds. Returns false if the settings give the key.
    ///
    /// # Errors
    /// As [`Store::commit`]; [`StoreError::Duplicate`] when another instance does the same at this moment.
    pub async fn rotate(&self, old: OldKeys, now: DateTime<Utc>) -> Result<bool, StoreError> {
        if self.given {
            return Ok(false);
        }
        let keys = self.read().await?;
        let number = keys.iter().filter_map(|key| number_of(key.id())).max().unwrap_or(0) + 1;
        let over = keys_to_drop(&keys, old, now - self.tokens.lifetime());
        let unit = Unit::of(insert(&SigningKey::random(name_of(number), now)))
            .and(Change::DeleteMany { collection: KEYS, filter: Filter::one_of("_id", over) });
        self.store.commit(unit).await?;
        self.refresh().await?;
        Ok(true)
    }

    async fn make_first(&self, now: DateTime<Utc>) -> Result<(), StoreError> {
        if !self.read().await?.is_empty() {
            return Ok(());
        }
        match self.store.commit(Unit::of(insert(&SigningKey::random(name_of(1), now)))).await {
            // Another instance was faster, and its key is as good.
            Ok(_) | Err(StoreError::Duplicate { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn read(&self) -> Result<Vec<SigningKey>, StoreError> {
        let found = self.store.find(KEYS, &FindQuery::new(Filter::all(), self.max_time)).await?;
        found.iter().map(read_key).collect()
    }
}

/// The keys without any valid token: their successor has been signing for longer than a token lives.
fn keys_to_drop(keys: &[SigningKey], old: OldKeys, oldest_token: DateTime<Utc>) -> Vec<Bson> {
    let mut by_age: Vec<&SigningKey> = keys.iter().collect();
    by_age.sort_by_key(|key| key.created_at());
    let successors = by_age.iter().skip(1).map(|key| Some(key.created_at())).chain([None]);
    let is_over = |successor: Option<DateTime<Utc>>| {
        old == OldKeys::Drop || successor.is_some_and(|since| since + TimeDelta::minutes(1) < oldest_token)
    };
    by_age.iter().zip(successors).filter(|(_, next)| is_over(*next)).map(|(key, _)| key.id().into()).collect()
}

fn name_of(number: u64) -> String {
    format!("key-{number}")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("key-")?.parse().ok()
}

fn insert(key: &SigningKey) -> Change {
    let secret = Binary { subtype: BinarySubtype::Generic, bytes: key.secret().to_vec() };
    let created_at = bson::DateTime::from_chrono(key.created_at());
    let document = doc! {"_id": key.id(), "secret": secret, "created_at": created_at};
    Change::Insert { collection: KEYS, document: raw(&document) }
}

fn read_key(stored: &RawDocument) -> Result<SigningKey, StoreError> {
    let damaged = || StoreError::Corrupt { what: "a document of service.keys".to_owned() };
    let id = stored.get_str("_id").map_err(|_| damaged())?;
    let secret = stored.get_binary("secret").map_err(|_| damaged())?;
    let created_at = stored.get_datetime("created_at").map_err(|_| damaged())?;
    Ok(SigningKey::new(id, secret.bytes, created_at.to_chrono()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64, created_at: i64) -> SigningKey {
        SigningKey::random(name_of(number), second(created_at))
    }

    fn second(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).expect("a time")
    }

    #[test]
    fn a_key_is_read_as_it_was_stored() {
        let written = key(3, 1000);
        let Change::Insert { document, .. } = insert(&written) else { panic!("an insert") };
        let read = read_key(&document).expect("a key");
        assert_eq!(read.id(), "key-3");
        assert_eq!(read.secret(), written.secret());
        assert_eq!(read.created_at(), written.created_at());
    }

    #[test]
    fn a_key_goes_when_its_last_token_has_expired() {
        let keys = [key(3, 5_000), key(1, 0), key(2, 1_000)];
        let dropped = |oldest_token| keys_to_drop(&keys, OldKeys::Keep, second(oldest_token));
        assert!(dropped(1_060).is_empty());
        assert_eq!(dropped(1_061), [Bson::from("key-1")]);
        assert_eq!(dropped(100_000), [Bson::from("key-1"), Bson::from("key-2")]);
    }

    #[test]
    fn all_older_keys_go_when_they_are_to_be_dropped() {
        let keys = [key(1, 0), key(2, 1_000)];
        assert_eq!(keys_to_drop(&keys, OldKeys::Drop, second(0)).len(), 2);
    }
}
