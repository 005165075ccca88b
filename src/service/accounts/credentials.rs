//! Credentials of users: one document for each user, in a collection that no route reads.
//!
//! | member | what it is |
//! |---|---|
//! | `user_id` | whose it is, unique |
//! | `login` | the user name in the form that no two users share; its unique index keeps user names apart |
//! | `looks`, `is_distinct` | what the name looks like, see [`looks_of`]; where the second is true, a unique index keeps look-alikes apart |
//! | `hash` | the password; null once it ended, see [`revocation`](crate::service::accounts::revocation) |
//! | `set_by` | the user who set the password; earlier versions did not note it |
//! | `identity`, `claims_at` | of users whom the issuer of OpenID Connect signs in: who they are there, unique, and when the token was issued that last decided about their group, in unix seconds |
//! | `epoch` | a random number: tokens of signed-in users carry it, and those of another epoch are refused |
//!
//! All epochs are random, so a token of a deleted user is invalid for the next user with the same id.

use std::fmt;
use std::time::Duration;

use bson::oid::ObjectId;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use crate::domain::document::{flag, integer, raw, text};
use crate::domain::user::{login_of, looks_of};
use crate::query::{Filter, Sort};
use crate::store::collections::CREDENTIALS;
use crate::store::{Change, FindQuery, Store, StoreError};

/// What one user signs in with.
#[derive(Clone)]
pub struct Credential {
    /// Whose it is.
    pub user_id: i64,
    /// Identifies the present sessions; each password has another one.
    pub epoch: i64,
    /// The user name in its unique form.
    login: String,
    /// A PHC string; none once the password ended.
    pub(crate) hash: Option<String>,
    stored: RawDocumentBuf,
}

/// A password that is set.
#[derive(Clone, Copy)]
pub struct NewPassword<'a> {
    /// A PHC string.
    pub hash: &'a str,
    /// The user who set it.
    pub set_by: i64,
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
            hash: text(stored, "hash").map(str::to_owned),
            stored: stored.to_owned(),
        })
    }

    /// The change that replaces the hash with another one of the same password. Tokens stay valid.
    pub fn rehashed(&self, hash: &str) -> Change {
        self.replaced(doc! {"hash": hash})
    }

    /// The change to this name and, if there is one, this password. All tokens of the old password end. `None` when
    /// nothing changes. A user who is no longer of the issuer is not known by the identity there any more.
    pub fn changed(&self, user_name: &str, password: Option<NewPassword<'_>>, is_of_issuer: bool) -> Option<Change> {
        if !is_of_issuer && self.stored.get("identity").is_ok_and(|identity| identity.is_some()) {
            let mut after = Document::try_from(&*self.stored).expect("it was read from a store");
            after.remove("identity");
            after.remove("claims_at");
            after.extend(named(user_name));
            after.extend(password.map(with_password).unwrap_or_default());
            return Some(self.replaced_by(&after));
        }
        let mut members = Document::new();
        if self.login != login_of(user_name) || (self.is_distinct() && !self.looks_like(user_name)) {
            members.extend(named(user_name));
        }
        members.extend(password.map(with_password).unwrap_or_default());
        (!members.is_empty()).then(|| self.replaced(members))
    }

    /// The change that puts the name under the unique index on look-alikes; `None` if it is already there.
    pub fn made_distinct(&self, user_name: &str) -> Option<Change> {
        (!self.is_distinct()).then(|| self.replaced(named(user_name)))
    }

    /// The user who set the password, if known.
    pub fn set_by(&self) -> Option<i64> {
        integer(&self.stored, "set_by")
    }

    /// The user name in its unique form.
    pub fn login(&self) -> &str {
        &self.login
    }

    fn is_distinct(&self) -> bool {
        flag(&self.stored, "is_distinct") == Some(true)
    }

    fn looks_like(&self, user_name: &str) -> bool {
        let looks = self.stored.get_array("looks").into_iter().flatten().flatten();
        looks.filter_map(RawBsonRef::as_str).eq(looks_of(user_name))
    }

    /// When the token was issued that last decided about the user's group, in unix seconds.
    pub fn claims_at(&self) -> i64 {
        integer(&self.stored, "claims_at").unwrap_or(i64::MIN)
    }

    /// The change that notes when the token was issued that decides about the user's group.
    pub fn decided(&self, claims_at: i64) -> Change {
        self.replaced(doc! {"claims_at": claims_at})
    }

    fn replaced(&self, members: Document) -> Change {
        let mut after = Document::try_from(&*self.stored).expect("it was read from a store");
        after.extend(members);
        self.replaced_by(&after)
    }

    fn replaced_by(&self, after: &Document) -> Change {
        Change::Replace { collection: CREDENTIALS, before: self.stored.clone(), after: raw(after) }
    }
}

/// The change that gives a new user a first password.
pub fn insert(user_id: i64, user_name: &str, password: NewPassword<'_>) -> Change {
    let mut document = doc! {"_id": ObjectId::new(), "user_id": user_id};
    document.extend(named(user_name));
    document.extend(with_password(password));
    Change::Insert { collection: CREDENTIALS, document: raw(&document) }
}

/// The change that links a new user with an identity at the issuer. There is no password, so nobody signs in with one.
pub fn insert_identity(user_id: i64, user_name: &str, identity: &str, claims_at: i64) -> Change {
    let mut document = doc! {"_id": ObjectId::new(), "user_id": user_id};
    document.extend(named(user_name));
    // No other user knows how to sign in as this user.
    document.extend(doc! {"hash": Bson::Null, "set_by": user_id, "epoch": fresh_epoch()});
    document.extend(doc! {"identity": identity, "claims_at": claims_at});
    Change::Insert { collection: CREDENTIALS, document: raw(&document) }
}

/// An epoch that was never used before, in the range that every JSON reader keeps exact.
pub fn fresh_epoch() -> i64 {
    rand::random_range(1..1 << 53)
}

fn named(user_name: &str) -> Document {
    doc! {"login": login_of(user_name), "looks": looks_of(user_name), "is_distinct": true}
}

fn with_password(password: NewPassword<'_>) -> Document {
    doc! {"hash": password.hash, "set_by": password.set_by, "epoch": fresh_epoch()}
}

/// The credential of the user with this name.
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

/// The credential of the user with this identity at the issuer.
///
/// # Errors
/// As [`Store::find`]; [`StoreError::Corrupt`] when the document is not whole.
pub async fn of_identity(
    store: &dyn Store,
    identity: &str,
    max_time: Duration,
) -> Result<Option<Credential>, StoreError> {
    find(store, Filter::equals("identity", identity), max_time).await
}

/// Whether no user has this name or one that looks the same.
///
/// # Errors
/// As [`Store::find`].
pub async fn is_free(store: &dyn Store, user_name: &str, max_time: Duration) -> Result<bool, StoreError> {
    let alike = Filter::one_of("looks", looks_of(user_name));
    let alike = alike.and(Filter::equals("is_distinct", true));
    Ok(of_login(store, user_name, max_time).await?.is_none() && find(store, alike, max_time).await?.is_none())
}

/// The credential of the user with this id.
///
/// # Errors
/// As [`Store::find`]; [`StoreError::Corrupt`] when the document is not whole.
pub async fn of_user(store: &dyn Store, user_id: i64, max_time: Duration) -> Result<Option<Credential>, StoreError> {
    find(store, Filter::equals("user_id", user_id), max_time).await
}

/// The credentials of all users, by their ids.
///
/// # Errors
/// As [`Store::find`]; [`StoreError::Corrupt`] when a document is not whole.
pub async fn all(store: &dyn Store, max_time: Duration) -> Result<Vec<Credential>, StoreError> {
    let query = FindQuery::new(Filter::all(), max_time).sorted(Sort::by("user_id", false));
    store.find(CREDENTIALS, &query).await?.iter().map(Credential::read).collect()
}

async fn find(store: &dyn Store, filter: Filter, max_time: Duration) -> Result<Option<Credential>, StoreError> {
    store.first(CREDENTIALS, FindQuery::new(filter, max_time)).await?.as_deref().map(Credential::read).transpose()
}
