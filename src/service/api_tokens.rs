//! Tokens for machines: named, with an end and some of their user's rights, shown once, revocable.
//!
//! Documents of `service.tokens` are `{_id, public_id, user_id, name, hash, made_by, rights, created_at, expires_at, last_used_at}`.
//! The store keeps a SHA-256 hash: the token is 256 random bits, so there is nothing to guess and no need of a slow hash.
//! A password change does not end them; locking or deleting the user does.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};
use chrono::{DateTime, TimeDelta, Utc};
use moka::sync::Cache;
use sha2::{Digest, Sha256};

use super::quota::Kept;
use super::resource::{self, Resource, UserTokens, Users};
use super::{Caller, ServiceError, Services, credentials, reach, rights};
use crate::auth::rights as catalogue;
use crate::auth::{Rights, Secret};
use crate::domain::document::integer;
use crate::domain::token_input;
use crate::query::{Filter, Sort, Update};
use crate::store::collections::TOKENS;
use crate::store::{Change, Documents, Explanation, FindQuery, Store, StoreError, Unit};

/// What tokens of this kind begin with: it tells them from those of signed-in users, and lets scanners of leaked secrets
/// find them.
pub const PREFIX: &str = "inventory_";

/// The last use is written down at most so often.
const USE_STEP: TimeDelta = TimeDelta::minutes(1);

const REMEMBERED: u64 = 10_000;

/// A token that was just made.
#[derive(Debug)]
pub struct NewToken {
    /// The stored document.
    pub stored: RawDocumentBuf,
    /// The token, shown this once.
    pub token: Secret,
}

/// The tokens of a user, by id.
///
/// # Errors
/// [`ServiceError::NotFound`] for an unknown user; [`ServiceError::Forbidden`] for one whose group exceeds the caller.
pub async fn list_tokens(services: &Services, caller: &Caller, user_id: i64) -> Result<Documents, ServiceError> {
    may_look(services, caller, user_id).await?;
    Ok(services.store.find(TOKENS, &question(services, user_id)).await?)
}

/// How the tokens of a user are found.
///
/// # Errors
/// As [`list_tokens`].
pub async fn explain_tokens(services: &Services, caller: &Caller, user_id: i64) -> Result<Explanation, ServiceError> {
    may_look(services, caller, user_id).await?;
    Ok(services.store.explain(TOKENS, &question(services, user_id)).await?)
}

/// Tokens are listed to their user, and to callers whom his group does not exceed.
async fn may_look(services: &Services, caller: &Caller, user_id: i64) -> Result<(), ServiceError> {
    if caller.user_id == user_id { Ok(()) } else { reach::user(services, caller, user_id).await.map(drop) }
}

fn question(services: &Services, user_id: i64) -> FindQuery {
    let query = FindQuery::new(Filter::equals("user_id", user_id), services.max_time);
    query.sorted(Sort::by("public_id", false))
}

/// Makes a token for a user.
///
/// # Errors
/// - Violations of the body, and a name that another token of the user has.
/// - An unknown user, or one whose group exceeds the caller.
/// - Rights that the user or the caller does not hold.
/// - More tokens than a user may have.
pub async fn create_token(
    services: &Services,
    caller: &Caller,
    user_id: i64,
    body: &Document,
) -> Result<NewToken, ServiceError> {
    let owner = owner(services, user_id).await?;
    let mut conditions = reach::user(services, caller, user_id).await?;
    let now = services.clock.now();
    let is_right = |name: &str| catalogue::find(name).is_some();
    let request = token_input::read(body, now, is_right).map_err(ServiceError::Violations)?;
    let given = request.rights.unwrap_or_else(|| owner.rights.names().map(str::to_owned).collect());
    let beyond = owner.rights.missing(given.iter().map(String::as_str));
    if !beyond.is_empty() {
        let message = format!("user {user_id} does not hold the rights {}", beyond.join(", "));
        return Err(ServiceError::forbidden("rights_exceeded", message));
    }
    rights::may_give(caller, given.iter().map(String::as_str), "the token would hold")?;
    let made_by = maker(services, caller, user_id).await?;
    let token = Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())));
    for _ in 0..resource::DECISIONS {
        let kept = Kept::read(services, TOKENS, user_id).await?;
        kept.allow_token()?;
        let build = |public_id: i64| {
            let document = doc! {
                "public_id": public_id,
                "user_id": user_id,
                "name": &request.name,
                "hash": hash_of(token.expose()),
                "made_by": made_by,
                "rights": given.clone(),
                "created_at": bson::DateTime::from_chrono(now),
                "expires_at": bson::DateTime::from_chrono(request.expires_at),
                "last_used_at": Bson::Null,
            };
            let unit = Unit { conditions: conditions.clone(), changes: Vec::new() };
            Ok((document, unit.given(kept.condition.clone())))
        };
        match resource::create_with::<UserTokens>(services, None, build).await {
            Err(ServiceError::Store(StoreError::Condition { .. })) => {
                conditions = reach::user(services, caller, user_id).await?;
            }
            outcome => return outcome.map(|stored| NewToken { stored, token }),
        }
    }
    Err(ServiceError::Contended(format!("the tokens of user {user_id}")))
}

/// Who could have made a token: the caller, or, where a user makes one for himself, whoever set the password of his session.
async fn maker(services: &Services, caller: &Caller, user_id: i64) -> Result<i64, ServiceError> {
    if !caller.is(user_id) {
        return Ok(caller.user_id);
    }
    let credential = credentials::of_user(&*services.store, user_id, services.max_time).await?;
    Ok(credential.and_then(|credential| credential.set_by()).unwrap_or(user_id))
}

/// Revokes a token: the next request that shows it is refused.
///
/// # Errors
/// [`ServiceError::NotFound`]; [`ServiceError::Forbidden`] for a user whose group exceeds the caller.
pub async fn delete_token(
    services: &Services,
    caller: &Caller,
    user_id: i64,
    token_id: i64,
) -> Result<RawDocumentBuf, ServiceError> {
    let filter = Filter::equals("public_id", token_id).and(Filter::equals("user_id", user_id));
    for _ in 0..resource::DECISIONS {
        let conditions = reach::user(services, caller, user_id).await?;
        let found = services.store.find(TOKENS, &FindQuery::new(filter.clone(), services.max_time).limited(1)).await?;
        let Some(token) = found.first().map(RawDocument::to_owned) else {
            return Err(ServiceError::not_found(UserTokens::NAME, token_id));
        };
        // Not by its bytes: the time of its last use may change at any moment.
        let changes = vec![Change::DeleteMany { collection: TOKENS, filter: filter.clone() }];
        match services.store.commit(Unit { conditions, changes }).await {
            Ok(_) => return Ok(token),
            Err(StoreError::Condition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended(format!("user {user_id}")))
}

/// A stored token without its hash, and without who made it.
pub fn shown(stored: &RawDocument) -> RawDocumentBuf {
    let mut shown = RawDocumentBuf::new();
    for (name, value) in stored.iter().flatten().filter(|(name, _)| !["hash", "made_by"].contains(&name.as_str())) {
        shown.append(name, value);
    }
    shown
}

async fn owner(services: &Services, user_id: i64) -> Result<Arc<Caller>, ServiceError> {
    let account = services.directory.account(user_id).await?;
    account.map(|account| Arc::clone(&account.caller)).ok_or_else(|| ServiceError::not_found(Users::NAME, user_id))
}

/// In hexadecimal, so that tools show it as what it is.
fn hash_of(token: &str) -> String {
    Sha256::digest(token).iter().fold(String::with_capacity(64), |mut hash, byte| {
        write!(hash, "{byte:02x}").expect("a string takes everything");
        hash
    })
}

/// Recognises tokens, and remembers them as long as none changes.
pub struct ApiTokens {
    store: Arc<dyn Store>,
    max_time: Duration,
    known: Cache<String, (u64, Option<Arc<KnownToken>>)>,
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
    /// Looks into `store`, with this time budget for each query.
    pub fn new(store: Arc<dyn Store>, max_time: Duration) -> Self {
        Self { store, max_time, known: Cache::new(REMEMBERED) }
    }

    /// The token, if there is one that is not over; notes its use at most once a minute.
    ///
    /// # Errors
    /// As [`Store::find`] and [`Store::commit`].
    pub async fn find(&self, token: &str, now: DateTime<Utc>) -> Result<Option<Arc<KnownToken>>, StoreError> {
        let found = self.look_up(hash_of(token)).await?;
        let Some(known) = found.filter(|known| now < known.expires_at) else { return Ok(None) };
        if known.last_used_at.is_none_or(|last| last + USE_STEP <= now) {
            let filter = Filter::equals("public_id", known.public_id);
            let update = Update::set("last_used_at", bson::DateTime::from_chrono(now));
            self.store.commit(Unit::of(Change::UpdateMany { collection: TOKENS, filter, update })).await?;
        }
        Ok(Some(known))
    }

    async fn look_up(&self, hash: String) -> Result<Option<Arc<KnownToken>>, StoreError> {
        let revision = self.store.revision(TOKENS);
        if let Some((_, known)) = self.known.get(&hash).filter(|(read_at, _)| *read_at == revision) {
            return Ok(known);
        }
        let query = FindQuery::new(Filter::equals("hash", hash.as_str()), self.max_time).limited(1);
        let known = self.store.find(TOKENS, &query).await?.first().map(KnownToken::read).transpose()?.map(Arc::new);
        self.known.insert(hash, (revision, known.clone()));
        Ok(known)
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

    /// The user as this token presents him: with no right that the token or, by now, the user does not have.
    pub fn caller(&self, user: &Caller) -> Caller {
        let rights = Arc::new(Rights::within(&self.rights, Arc::clone(&user.rights)));
        Caller { rights, is_machine: true, ..user.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::document::{raw, text};

    #[test]
    fn a_shown_token_has_no_hash() {
        let stored = raw(&doc! {"public_id": 1_i64, "hash": hash_of("x"), "name": "backup"});
        assert_eq!(shown(&stored), raw(&doc! {"public_id": 1_i64, "name": "backup"}));
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
