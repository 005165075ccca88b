//! What users sign in with: one document a user, `{_id, user_id, login, hash, epoch}`, in a collection that no route reads.
//!
//! `login` is the user name in the form that no two users share, so its unique index is what keeps user names apart.
//! `epoch` counts the passwords: tokens carry it, and those of an earlier password are refused.

use std::fmt;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use crate::domain::document::{integer, raw, text};
use crate::domain::user::login_of;
use crate::query::Filter;
use crate::store::collections::CREDENTIALS;
use crate::store::{Change, FindQuery, Store, StoreError};

/// What one user signs in with.
#[derive(Clone)]
pub struct Credential {
    /// Whose it is.
    pub user_id: i64,
    /// How many times the password was set.
    pub epoch: i64,
    /// The user name in its unique form.
    login: String,
    /// A PHC string.
    pub(super) hash: String,
    stored: RawDocumentBuf,
}

impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Credential").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}

impl Credential {
    fn read(stored: &RawDocument) -> Result<Self, StoreError> {
        let damaged = || StoreError::Corrupt { what: "a document of service.credentials".to_owned() };
        Ok(Self {
            user_id: integer(stored, "user_id").ok_or_else(damaged)?,
            epoch: integer(stored, "epoch").ok_or_else(damaged)?,
            login: text(stored, "login").ok_or_else(damaged)?.to_owned(),
            hash: text(stored, "hash").ok_or_else(damaged)?.to_owned(),
            stored: stored.to_owned(),
        })
    }

    /// The change that puts a hash of the same password in the place of this one; tokens stay good.
    pub fn rehashed(&self, hash: &str) -> Change {
        self.replaced(hash, self.epoch, None)
    }

    /// The change that makes the user sign in by this name and, if there is one, with the password of this hash; all
    /// tokens of the old password end. `None` when nothing changes.
    pub fn changed(&self, user_name: &str, hash: Option<&str>) -> Option<Change> {
        let login = login_of(user_name);
        if hash.is_none() && self.login == login {
            return None;
        }
        let epoch = self.epoch + i64::from(hash.is_some());
        Some(self.replaced(hash.unwrap_or(&self.hash), epoch, Some(login)))
    }

    fn replaced(&self, hash: &str, epoch: i64, login: Option<String>) -> Change {
        let mut after = Document::try_from(&*self.stored).expect("it was read from a store");
        after.insert("hash", hash);
        after.insert("epoch", epoch);
        if let Some(login) = login {
            after.insert("login", login);
        }
        Change::Replace { collection: CREDENTIALS, before: self.stored.clone(), after: raw(&after) }
    }
}

/// The change that gives a new user his first password.
pub fn insert(user_id: i64, user_name: &str, hash: &str) -> Change {
    let document = doc! {
        "_id": ObjectId::new(),
        "user_id": user_id,
        "login": login_of(user_name),
        "hash": hash,
        "epoch": 1_i64,
    };
    Change::Insert { collection: CREDENTIALS, document: raw(&document) }
}

/// What the user with this name signs in with.
///
/// # Errors
/// As [`Store::find`]; [`StoreError::Corrupt`] when the document is not whole.
pub async fn of_login(
    store: &dyn Store,
    user_name: &str,
    max_time: Duration,
) -> Result<Option<Credential>, StoreError> {
    find(store, Filter::equals("login", login_of(user_name)), max_time).await
}

/// What the user with this id signs in with.
///
/// # Errors
/// As [`Store::find`]; [`StoreError::Corrupt`] when the document is not whole.
pub async fn of_user(store: &dyn Store, user_id: i64, max_time: Duration) -> Result<Option<Credential>, StoreError> {
    find(store, Filter::equals("user_id", user_id), max_time).await
}

/// Whether any user can sign in.
///
/// # Errors
/// As [`Store::find`].
pub async fn any(store: &dyn Store, max_time: Duration) -> Result<bool, StoreError> {
    let query = FindQuery::new(Filter::all(), max_time).limited(1);
    Ok(!store.find(CREDENTIALS, &query).await?.is_empty())
}

async fn find(store: &dyn Store, filter: Filter, max_time: Duration) -> Result<Option<Credential>, StoreError> {
    let found = store.find(CREDENTIALS, &FindQuery::new(filter, max_time).limited(1)).await?;
    found.first().map(Credential::read).transpose()
}
