//! Callers with a token of the issuer of OpenID Connect: which user of the service they are.
//!
//! | the token's bearer | what happens |
//! |---|---|
//! | is in no group that the settings map | refused |
//! | is new, and the name is free | a user is made, in the group of the claims, without a password |
//! | is new, and a user has the name or one that looks the same | refused: nobody takes over a user by a name |
//! | is a user who is not active | refused as any token of that user |
//! | is a user, and the claims name another group | moved there, if this token is newer than the one that decided last |
//! | is the last active administrator, and the claims name another group | refused |
//!
//! A user is found by issuer and `sub`, which the credential of the user holds ([`credentials`]); names decide nothing.
//! Nothing is written unless a user is made or moved. A token decides once about the group. So two tokens with
//! different claims do not move a user to and fro. An old token brings no group back.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocument;

use super::AccountError;
use super::credentials::{self, Credential};
use super::directory::{Account, Caller};
use super::identities::Identities;
use super::users;
use crate::auth::oidc::{Bearer, TokenRules};
use crate::auth::{AuthError, Authorization};
use crate::domain::document::{flag, integer, text};
use crate::domain::group::ADMIN_GROUP;
use crate::domain::user::{OIDC_AUTHENTICATOR, User};
use crate::domain::user_input;
use crate::domain::violation::clipped;
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::resource::{self, Decision, Resource, Users};
use crate::service::services::Services;
use crate::store::collections::GROUPS;
use crate::store::{FindQuery, Store, StoreError, Unit};

/// Why a caller is refused.
#[derive(Debug, thiserror::Error)]
pub enum SignOnError {
    /// No token was accepted.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The issuer knows the caller, but the service has no user for them.
    #[error(transparent)]
    Service(#[from] ServiceError),
}

impl From<AuthError> for SignOnError {
    fn from(error: AuthError) -> Self {
        Self::Account(error.into())
    }
}

impl From<StoreError> for SignOnError {
    fn from(error: StoreError) -> Self {
        Self::Account(error.into())
    }
}

/// The caller, from the credentials of the request: with a token of the issuer, or as the service's own accounts.
///
/// # Errors
/// As [`Issuer::check`](crate::oidc::Issuer::check) for a token of the issuer, and [`ErrorCode::SignOnRefused`]; else as
/// [`Accounts::authenticate`](crate::service::accounts::Accounts::authenticate).
pub async fn authenticate(
    services: &Services,
    shown: Option<&Authorization>,
    address: Option<IpAddr>,
) -> Result<Arc<Caller>, SignOnError> {
    if let (Some(identities), Some(Authorization::Token(token))) = (&services.identities, shown)
        && identities.issuer().may_check(token.expose())
    {
        let checked = identities.issuer().check(token.expose()).await;
        let bearer = checked.inspect_err(|error| log::debug!("sign-on: a token is refused: {error}"))?;
        let identity = identities.identity(&bearer);
        return Newcomer { services, identities, bearer: &bearer, identity }.caller().await;
    }
    Ok(services.accounts.authenticate(shown, address).await?)
}

/// The groups in the settings that do not exist yet.
///
/// # Errors
/// As [`Store::find`].
pub async fn missing_groups(
    store: &dyn Store,
    rules: &TokenRules,
    max_time: Duration,
) -> Result<BTreeSet<String>, StoreError> {
    let mut missing: BTreeSet<String> = rules.group_names().map(ToOwned::to_owned).collect();
    let names = missing.iter().map(String::as_str);
    for group in store.find(GROUPS, &FindQuery::new(Filter::one_of("name", names), max_time)).await?.iter() {
        missing.remove(text(group, "name").unwrap_or_default());
    }
    Ok(missing)
}

/// The message about a group in the settings that does not exist.
pub fn missing_group(name: &str) -> String {
    format!("there is no group {name:?} yet; callers that the settings put there are refused")
}

/// A bearer of a token of the issuer who asks for something now.
struct Newcomer<'a> {
    services: &'a Services,
    identities: &'a Identities,
    bearer: &'a Bearer,
    /// Who it is at the issuer.
    identity: String,
}

impl Newcomer<'_> {
    async fn caller(&self) -> Result<Arc<Caller>, SignOnError> {
        let Self { identities, bearer, .. } = *self;
        let Some(group) = &bearer.group else {
            let message = "the issuer knows you, but auth.oidc.groups maps none of your groups";
            return Err(self.refusal(message).into());
        };
        for _ in 0..resource::DECISIONS {
            let Some(group_id) = identities.group_id(group).await? else {
                let message = format!("auth.oidc puts you into the group {group:?}, which does not exist");
                return Err(self.refusal(&message).into());
            };
            let Some(link) = identities.link(&self.identity).await? else {
                self.make_user(group_id).await?;
                continue;
            };
            let account = self.account(link.user_id).await?;
            if account.caller.group_id == group_id || bearer.issued_at <= link.claims_at() {
                return Ok(as_bearer(&account.caller, bearer));
            }
            if !self.move_user(link.user_id, group_id).await? {
                // Another request of this instance may have moved the user since the account was read.
                return Ok(as_bearer(&self.account(link.user_id).await?.caller, bearer));
            }
        }
        Err(ServiceError::Contended(format!("the user of {:?}", bearer.subject)).into())
    }

    /// The account of an active user.
    async fn account(&self, user_id: i64) -> Result<Arc<Account>, SignOnError> {
        let account = self.services.directory.account(user_id).await?;
        Ok(account.filter(|account| account.active).ok_or(AuthError::InvalidToken)?)
    }

    /// Makes the user, unless another request was faster.
    async fn make_user(&self, group_id: i64) -> Result<(), SignOnError> {
        let Self { services, bearer, .. } = *self;
        let (identity, name) = (self.identity.as_str(), bearer.user_name.as_str());
        if !user_input::is_name(name) {
            let message = "the token names you in a way that no user can be called: 1 to 256 characters, no control \
                           characters, no space at either end";
            return Err(self.refusal(message).into());
        }
        let taken = || {
            let message = format!(
                "there is another user {:?}, or one whose name looks the same; an administrator has to rename that user",
                clipped(name.to_owned())
            );
            SignOnError::from(self.refusal(&message))
        };
        // Asked before an id is reserved, which is a write.
        let is_taken = !credentials::is_free(&*services.store, name, services.max_time).await?
            || services.store.has_any(Users::COLLECTION, Filter::equals("user_name", name), services.max_time).await?;
        if is_taken {
            return Err(if self.is_linked().await? { return Ok(()) } else { taken() });
        }
        let conditions = match users::may_place(services, &Caller::operator(), group_id).await {
            // The group has gone: the next attempt says so.
            Err(ServiceError::Violations(_)) => return Ok(()),
            placed => placed?.1,
        };
        let now = services.now();
        let build = |id| {
            let user = User {
                authenticator: OIDC_AUTHENTICATOR,
                email: bearer.email.clone(),
                first_name: bearer.first_name.clone(),
                last_name: bearer.last_name.clone(),
                ..User::new(id, name, group_id, now.to_chrono())
            };
            let unit = Unit { conditions: conditions.clone(), changes: Vec::new() };
            Ok((user.to_document(), unit.and(credentials::insert_identity(id, name, identity, bearer.issued_at))))
        };
        match resource::create_with::<Users>(services, resource::Wanted::Any, build).await {
            Ok(made) => {
                let id = integer(&made, "public_id").unwrap_or_default();
                log::info!("sign-on: user {id}, {name:?}, was made for {:?}, in group {group_id}", bearer.subject);
                Ok(())
            }
            Err(ServiceError::Store(StoreError::Condition { .. })) => Ok(()),
            Err(ServiceError::Refused { .. }) if self.is_linked().await? => Ok(()),
            Err(ServiceError::Refused {
                code: ErrorCode::UserUserNameTaken | ErrorCode::UserNameConfusable, ..
            }) => Err(taken()),
            Err(ServiceError::Refused { message, .. }) => Err(self.refusal(&message).into()),
            Err(error) => Err(error.into()),
        }
    }

    async fn is_linked(&self) -> Result<bool, StoreError> {
        Ok(self.stored_link().await?.is_some())
    }

    async fn stored_link(&self) -> Result<Option<Credential>, StoreError> {
        credentials::of_identity(&*self.services.store, &self.identity, self.services.max_time).await
    }

    /// Moves the user into the group of the claims, unless another request changed something first. What others know of the
    /// user ends if the user gains rights, as with every move. False: another instance decided a moment ago, and the caches
    /// here do not know yet.
    async fn move_user(&self, id: i64, group_id: i64) -> Result<bool, SignOnError> {
        let Self { services, bearer, .. } = *self;
        let Some(before) = resource::find::<Users>(services, id).await? else { return Ok(false) };
        let Some(link) = self.stored_link().await? else { return Ok(false) };
        let from = integer(&before, "group_id").unwrap_or_default();
        let is_decided = from == group_id || bearer.issued_at <= link.claims_at();
        if link.user_id != id || is_decided || flag(&before, "active") != Some(true) {
            return Ok(false);
        }
        let unit = match self.move_unit(&before, &link, group_id).await {
            Err(ServiceError::Refused { code: ErrorCode::LastAdministrator, message }) => {
                return Err(self.refusal(&format!("the issuer puts you into another group, but {message}")).into());
            }
            // The group has gone: the next attempt says so.
            Err(ServiceError::Violations(_)) => return Ok(true),
            outcome => outcome?,
        };
        match services.store.commit(unit).await {
            Ok(_) => {
                log::info!("sign-on: user {id} was moved from group {from} to group {group_id}, as the token says");
                Ok(true)
            }
            Err(StoreError::Stale | StoreError::Condition { .. }) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    async fn move_unit(&self, before: &RawDocument, link: &Credential, group_id: i64) -> Result<Unit, ServiceError> {
        let Self { services, bearer, .. } = *self;
        let (operator, id) = (Caller::operator(), link.user_id);
        let mut after = resource::decode(before)?;
        after.insert("group_id", group_id);
        let mut unit = Decision::replace::<Users>(before, &after)?.unit;
        let (group, conditions) = users::may_place(services, &operator, group_id).await?;
        unit.conditions.extend(conditions);
        unit.conditions.extend(group.pinned());
        if users::is_active_admin(before) && group_id != ADMIN_GROUP {
            unit.conditions.push(users::another_admin(services, id).await?);
        }
        let from = integer(before, "group_id").unwrap_or_default();
        unit.changes.push(link.decided(bearer.issued_at));
        unit.changes.extend(users::ends_by_moving(services, &operator, &[id], from, &group).await?);
        Ok(unit)
    }

    /// The refusal of a person whom the issuer knows. The log says who, for the administrator.
    fn refusal(&self, message: &str) -> ServiceError {
        let bearer = self.bearer;
        let name = clipped(bearer.user_name.clone());
        log::warn!("sign-on of {name:?} ({:?}) refused: {message}", bearer.subject);
        ServiceError::refused(ErrorCode::SignOnRefused, message)
    }
}

/// A program that signed in for itself is a machine: it does not do what users may do to themselves.
fn as_bearer(caller: &Arc<Caller>, bearer: &Bearer) -> Arc<Caller> {
    if bearer.is_client { Arc::new(Caller { is_machine: true, ..(**caller).clone() }) } else { Arc::clone(caller) }
}
