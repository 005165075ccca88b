//! Tokens for machines. A token has a name, an end and some of its user's rights. It is shown once and can be revoked.
//!
//! Documents of `service.tokens` are `{_id, public_id, user_id, name, hash, made_by, rights, created_at, expires_at,
//! last_used_at}`. The store keeps a SHA-256 hash: the token is 256 random bits, so it cannot be guessed and needs no
//! slow hash. Each has `scram`, and one for MongoDB tools `mongodb: true`, see [`scram`]. A password change does not end tokens; locking or deleting the user does.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use super::directory::Caller;
use super::scram;
use super::token_lookup::{PREFIX, hash_of};
use super::{credentials, delegation, rights};
use crate::auth::Secret;
use crate::auth::rights as catalogue;
use crate::domain::token_input;
use crate::query::{Filter, Sort};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::quota::Quota;
use crate::service::resource::{self, Resource, UserTokens, Users};
use crate::service::services::Services;
use crate::store::collections::TOKENS;
use crate::store::{Change, Documents, Explanation, FindQuery, StoreError, Unit};

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
/// [`ErrorCode::UserNotFound`]; [`ErrorCode::RightsExceeded`] for a user whose group exceeds the caller.
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

/// A user's tokens are listed to the user, and to callers whom the user's group does not exceed.
async fn may_look(services: &Services, caller: &Caller, user_id: i64) -> Result<(), ServiceError> {
    if caller.user_id == user_id { Ok(()) } else { delegation::user(services, caller, user_id).await.map(drop) }
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
    let mut conditions = delegation::user(services, caller, user_id).await?;
    let now = services.clock.now();
    let is_right = |name: &str| catalogue::find(name).is_some();
    let request = token_input::read(body, now, is_right)?;
    let given = request.rights.unwrap_or_else(|| owner.rights.names().map(str::to_owned).collect());
    let beyond = owner.rights.missing(given.iter().map(String::as_str));
    if !beyond.is_empty() {
        let message = format!("user {user_id} does not hold the rights {}", beyond.join(", "));
        return Err(ServiceError::refused(ErrorCode::RightsExceeded, message));
    }
    rights::may_give(caller, given.iter().map(String::as_str), "the token would hold")?;
    let made_by = maker(services, caller, user_id).await?;
    let token = Secret::new(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())));
    let members = scram::members(services, &owner, &token, request.mongodb).await?;
    for _ in 0..resource::DECISIONS {
        let kept = Quota::read(services, TOKENS, user_id).await?;
        kept.allow_token()?;
        let build = |public_id: i64| {
            let mut document = doc! {
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
            document.extend(members.clone());
            let unit = Unit { conditions: conditions.clone(), changes: Vec::new() };
            Ok((document, unit.given(kept.condition.clone())))
        };
        match resource::create_with::<UserTokens>(services, resource::Wanted::Any, build).await {
            Err(ServiceError::Store(StoreError::Condition { .. })) => {
                conditions = delegation::user(services, caller, user_id).await?;
            }
            outcome => return outcome.map(|stored| NewToken { stored, token }),
        }
    }
    Err(ServiceError::Contended(format!("the tokens of user {user_id}")))
}

/// The user who counts as the maker of a token: the caller. If users make tokens for themselves, it is the one who set
/// the password of their session.
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
/// [`ErrorCode::UserNotFound`] and [`ErrorCode::TokenNotFound`]; [`ErrorCode::RightsExceeded`] for a user whose group exceeds the caller.
pub async fn delete_token(
    services: &Services,
    caller: &Caller,
    user_id: i64,
    token_id: i64,
) -> Result<RawDocumentBuf, ServiceError> {
    let filter = Filter::equals("public_id", token_id).and(Filter::equals("user_id", user_id));
    for _ in 0..resource::DECISIONS {
        let conditions = delegation::user(services, caller, user_id).await?;
        let found = services.store.first(TOKENS, FindQuery::new(filter.clone(), services.max_time)).await?;
        let token = found.ok_or_else(|| ServiceError::not_found(UserTokens::NOT_FOUND, token_id))?;
        // Not compared by its bytes: the time of its last use may change at any moment.
        let changes = vec![Change::DeleteMany { collection: TOKENS, filter: filter.clone() }];
        match services.store.commit(Unit { conditions, changes }).await {
            Ok(_) => return Ok(token),
            Err(StoreError::Condition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended(format!("user {user_id}")))
}

async fn owner(services: &Services, user_id: i64) -> Result<Arc<Caller>, ServiceError> {
    let account = services.directory.account(user_id).await?;
    account.map(|account| Arc::clone(&account.caller)).ok_or_else(|| ServiceError::not_found(Users::NOT_FOUND, user_id))
}
