//! Users: who may sign in, and who may say so. docs/api.md, Users.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};
use tokio::sync::OnceCell;

use super::credentials::{self, NewPassword};
use super::delegation::{self, Holder, Standing};
use super::directory::Caller;
use super::revocation;
use crate::auth::{Rights, Secret};
use crate::domain::document::integer;
use crate::domain::group::{ADMIN_GROUP, USER_GROUP};
use crate::domain::schema::without_unknown;
use crate::domain::user::{FIRST_ADMIN, OIDC_AUTHENTICATOR};
use crate::domain::user_input::{PASSWORD, USER};
use crate::domain::{Violation, document, user_input, webhook_input};
use crate::query::{Filter, Sort, Update};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::history::forget::forget;
use crate::service::objects::reports;
use crate::service::precondition::IfMatch;
use crate::service::queries::list_query::ListQuery;
use crate::service::resource::{self, Decision, Groups, Listed, NewState, Resource, Users};
use crate::service::services::Services;
use crate::store::collections::{CREDENTIALS, IMPORTS, SESSIONS, SETTINGS, TOKENS, USERS, WEBHOOKS};
use crate::store::{Change, Condition, Unit, scope_version};

/// Who holds it may change every user.
pub const EDIT: &str = "base.user-management.user.edit";

/// The scope that serialises changes of active administrators: no filter can express "at least one".
const ADMINISTRATORS: &str = "management.users.administrators";
/// What others are changing then, for people.
const ALL_ADMINISTRATORS: &str = "the set of administrators";

/// One page of users.
///
/// # Errors
/// [`ErrorCode::PasswordNotReadable`] when filter or sort touch the password, and errors of the store.
pub async fn list_users(services: &Services, query: &ListQuery) -> Result<Listed, ServiceError> {
    refuse_password(query.filter.document(), &query.sort)?;
    resource::list::<Users>(services, query).await
}

/// Stores a new user.
///
/// # Errors
/// Violations of the body, a taken id, a taken or confusable name, a group that is missing or exceeds the caller.
pub async fn create_user(
    services: &Services,
    caller: &Caller,
    body: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let accepted = without_unknown(&USER, body, None, user_input::read_new(body, shortest(services)))?;
    let group_id = accepted.get_i64("group_id").unwrap_or(USER_GROUP);
    // Checked before the slow hash of the password. Each attempt checks again.
    may_place(services, caller, group_id).await?;
    let password = Secret::new(user_input::new_password(body).unwrap_or_default());
    let hash = services.accounts.passwords().hash(password).await?;
    let password = NewPassword { hash: &hash, set_by: caller.user_id };
    let name = accepted.get_str("user_name").unwrap_or_default();
    let (wanted, now) = (accepted.get_i64("public_id").ok(), services.now());
    let create = async || {
        let (_, conditions) = may_place(services, caller, group_id).await?;
        let build = |id| {
            // Another tool may have removed an earlier user with this id, but not that user's belongings.
            let changes = wanted.map(|id| belongings(&[id])).unwrap_or_default();
            let unit = Unit { conditions: conditions.clone(), changes }.and(credentials::insert(id, name, password));
            Ok((user_input::created(&accepted, id, now), unit))
        };
        resource::create_with::<Users>(services, wanted, build).await
    };
    resource::until_it_holds(ALL_ADMINISTRATORS, create).await
}

/// Gives a user another password, and ends the user's session tokens.
///
/// # Errors
/// As [`change_user`]; a violation when the body holds no password.
pub async fn change_password(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    body: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let mut violations = PASSWORD.unknown_members(body, None);
    let password = user_input::new_password(body);
    if password.is_none() {
        violations.push(Violation::new("/password", "must be a string: the new password"));
    }
    violations.none()?;
    change_user(services, caller, id, if_match, NewState::Patch(&serde_json::json!({"password": password}))).await
}

/// Removes a user with credential, tokens and settings.
///
/// # Errors
/// [`ErrorCode::FirstUserStays`], [`ErrorCode::OwnUserStays`], [`ErrorCode::LastAdministrator`]; [`ErrorCode::RightsExceeded`] for
/// a user whose group exceeds the caller; those of [`resource::remove`].
pub async fn delete_user(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    forget_name: bool,
) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| {
        may_delete(caller, id)?;
        let conditions = delegation::stored_user(services, caller, before).await?;
        let mut unit = Unit { conditions, changes: belongings(&[id]) };
        if is_active_admin(before) {
            unit.conditions.push(another_admin(services, id).await?);
        }
        Ok(unit)
    };
    if forget_name {
        // A caller who may not delete the user may not take the name away either.
        let stored = resource::get::<Users>(services, id).await?;
        if_match.check(&Users::view(&stored))?;
        decide(&stored).await?;
        forget(services, id).await?;
    }
    let remove = async || resource::remove::<Users>(services, id, if_match, &decide).await;
    Ok(resource::until_it_holds(ALL_ADMINISTRATORS, remove).await?.0)
}

/// Refuses to delete the first user and the caller's own user.
///
/// # Errors
/// [`ErrorCode::FirstUserStays`], [`ErrorCode::OwnUserStays`].
pub(crate) fn may_delete(caller: &Caller, id: i64) -> Result<(), ServiceError> {
    if id == FIRST_ADMIN {
        return Err(ServiceError::refused(ErrorCode::FirstUserStays, "user 1 cannot be deleted"));
    }
    if id == caller.user_id {
        return Err(ServiceError::refused(ErrorCode::OwnUserStays, "you cannot delete yourself"));
    }
    Ok(())
}

/// The changes that remove the belongings of users, and pause their webhooks.
pub(crate) fn belongings(user_ids: &[i64]) -> Vec<Change> {
    // Marks of requests too: they disclose outcomes under a key, and the next user with the same id may know the key.
    let removed = [CREDENTIALS, TOKENS, SESSIONS, SETTINGS, IMPORTS].map(|collection| Change::DeleteMany {
        collection,
        filter: Filter::one_of("user_id", user_ids.iter().copied()),
    });
    // They would have the access of the next user with the same id.
    let own = Filter::one_of("author_id", user_ids.iter().copied()).and(Filter::equals("active", true));
    let (update, reason) = (Update::set("active", false), webhook_input::NO_AUTHOR);
    let update = update.and_set("state", webhook_input::PAUSED).and_set("reason", reason);
    let paused = Change::UpdateMany { collection: WEBHOOKS, filter: own, update };
    removed.into_iter().chain([reports::of_users(user_ids), paused]).collect()
}

/// Refuses to put users into a group that exceeds the caller. Returns the group, and the conditions of the unit.
///
/// # Errors
/// A violation when the group does not exist; [`ErrorCode::RightsExceeded`] with the excess.
pub(crate) async fn may_place(
    services: &Services,
    caller: &Caller,
    group_id: i64,
) -> Result<(Standing, Vec<Condition>), ServiceError> {
    let (group, exists) = Standing::stored(services, group_id).await?;
    if !exists {
        return Err(no_group(group_id));
    }
    let mut conditions = delegation::group(services, caller, &group).await?;
    if conditions.is_empty() {
        conditions.push(Condition::exists(Groups::COLLECTION, group_id));
    }
    Ok((group, conditions))
}

/// What ends for moved users: nothing, unless the new group exceeds the old one.
///
/// # Errors
/// Errors of the store.
pub(crate) async fn ends_by_moving(
    services: &Services,
    caller: &Caller,
    user_ids: &[i64],
    from: i64,
    into: &Standing,
) -> Result<Vec<Change>, ServiceError> {
    let rights = Rights::new(Standing::stored(services, from).await?.0.rights);
    if delegation::excess(services, Holder { group_id: from, rights: &rights }, into).await?.is_none() {
        return Ok(Vec::new());
    }
    revocation::ends(services, caller, user_ids, into).await
}

/// Changes the user to what was sent.
///
/// # Errors
/// As [`create_user`] and [`resource::change`]. [`ErrorCode::RightsExceeded`] for callers who would raise their own
/// rights, or change a user whose group exceeds them.
pub async fn change_user(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    sent: NewState<'_>,
) -> Result<RawDocumentBuf, ServiceError> {
    // A repeated attempt does not hash again.
    let hash = OnceCell::new();
    let decide = async |before: &RawDocument| {
        let body = sent.body(&Users::view(before))?;
        let stored = resource::decode(before)?;
        let accepted = without_unknown(&USER, &body, Some(&stored), user_input::read(&body, shortest(services)))?;
        resource::same_id(&accepted, id)?;
        check_own(caller, id, &accepted, &stored)?;
        let violations = user_input::by_issuer(&accepted, Some(&stored), user_input::new_password(&body));
        violations.none()?;
        let after = user_input::updated(&accepted, &stored);
        let mut decision = Decision::replace::<Users>(before, &after)?;
        decision.unit.conditions.extend(delegation::stored_user(services, caller, before).await?);
        let mut ending = Vec::new();
        let [from, into] = [before, &decision.after].map(|user| integer(user, "group_id").unwrap_or_default());
        if from != into || integer(before, "group_id").is_none() {
            let (group, conditions) = may_place(services, caller, into).await?;
            decision.unit.conditions.extend(conditions);
            ending = ends_by_moving(services, caller, &[id], from, &group).await?;
        }
        if is_active_admin(before) && !is_active_admin(&decision.after) {
            decision.unit.conditions.push(another_admin(services, id).await?);
        }
        let password = match user_input::new_password(&body) {
            Some(password) => {
                let hash = hash.get_or_try_init(|| hashed(services, password)).await?;
                Some(NewPassword { hash, set_by: caller.user_id })
            }
            None => None,
        };
        decision.unit.changes.extend(credential_change(services, id, &after, password).await?);
        // Last, so that a password in the same request counts as the caller's.
        decision.unit.changes.extend(ending);
        Ok(decision)
    };
    let change = async || resource::change::<Users>(services, id, if_match, &decide).await;
    Ok(resource::until_it_holds(ALL_ADMINISTRATORS, change).await?.1)
}

fn shortest(services: &Services) -> usize {
    services.accounts.passwords().shortest()
}

async fn hashed(services: &Services, password: &str) -> Result<String, ServiceError> {
    Ok(services.accounts.passwords().hash(password.into()).await?)
}

/// A user of another tool has no credential until somebody sets a password.
async fn credential_change(
    services: &Services,
    id: i64,
    user: &Document,
    password: Option<NewPassword<'_>>,
) -> Result<Option<Change>, ServiceError> {
    let user_name = user.get_str("user_name").unwrap_or_default();
    let is_of_issuer = user.get_str("authenticator").is_ok_and(|name| name == OIDC_AUTHENTICATOR);
    let stored = credentials::of_user(&*services.store, id, services.max_time).await?;
    Ok(match (stored, password) {
        (Some(credential), password) => credential.changed(user_name, password, is_of_issuer),
        (None, Some(password)) => Some(credentials::insert(id, user_name, password)),
        (None, None) => None,
    })
}

/// Members that decide about access need the right to change users, so users cannot raise their own rights.
fn check_own(caller: &Caller, id: i64, accepted: &Document, stored: &Document) -> Result<(), ServiceError> {
    if id != caller.user_id || caller.rights.grants(EDIT) {
        return Ok(());
    }
    let changes = user_input::protected_changes(accepted, stored);
    if changes.is_empty() {
        return Ok(());
    }
    let message = format!("changing {} of your own user needs the right {EDIT}", changes.join(", "));
    Err(ServiceError::refused(ErrorCode::RightMissing, message))
}

/// Who can administer the service.
pub(crate) fn active_administrators() -> Filter {
    Filter::equals("group_id", ADMIN_GROUP).and(Filter::equals("active", true))
}

pub(crate) fn is_active_admin(user: &RawDocument) -> bool {
    integer(user, "group_id") == Some(ADMIN_GROUP) && document::flag(user, "active") == Some(true)
}

/// Checks that there is another active administrator, and returns the condition under which this stays true.
pub(crate) async fn another_admin(services: &Services, id: i64) -> Result<Condition, ServiceError> {
    let at = scope_version(&*services.store, ADMINISTRATORS, services.max_time).await?;
    let others = active_administrators().and(Filter::none_of("public_id", [id]));
    if services.store.count(USERS, &others, services.max_time).await? == 0 {
        let message = format!("user {id} is the last active administrator and stays one");
        return Err(ServiceError::refused(ErrorCode::LastAdministrator, message));
    }
    Ok(Condition::Unchanged { scope: ADMINISTRATORS.into(), at })
}

fn no_group(group_id: i64) -> ServiceError {
    ServiceError::violation("/group_id", format!("group {group_id} does not exist"))
}

/// Refuses every query of the member `password`: users stored by another tool may have one.
///
/// Apart from the plain path, expressions can reach the whole document or a field by a computed name. Schemas can
/// describe fields that they do not name.
///
/// # Errors
/// [`ErrorCode::PasswordNotReadable`].
pub fn refuse_password(filter: &Document, sort: &Sort) -> Result<(), ServiceError> {
    let sorted = sort.keys().iter().any(|key| touches_password(key.path.as_str()));
    if sorted || asks_for_password(&Bson::Document(filter.clone())) {
        let message = "password can be neither filtered nor sorted by: there is nothing to read there";
        return Err(ServiceError::refused(ErrorCode::PasswordNotReadable, message));
    }
    Ok(())
}

fn asks_for_password(value: &Bson) -> bool {
    const COMPUTED: [&str; 3] = ["$getField", "patternProperties", "additionalProperties"];
    match value {
        Bson::Document(members) => members.iter().any(|(name, value)| {
            touches_password(name) || COMPUTED.contains(&name.as_str()) || asks_for_password(value)
        }),
        Bson::Array(items) => items.iter().any(asks_for_password),
        Bson::String(text) => {
            text.strip_prefix('$').is_some_and(touches_password)
                || text.starts_with("$$ROOT")
                || text.starts_with("$$CURRENT")
        }
        _ => false,
    }
}

fn touches_password(path: &str) -> bool {
    path.split('.').next() == Some("password")
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn is_refused(filter: &Document) -> bool {
        refuse_password(filter, &Sort::default()).is_err()
    }

    #[test]
    fn no_filter_reaches_a_password() {
        for filter in [
            doc! {"password": "x"},
            doc! {"password.0": "x"},
            doc! {"$or": [{"active": true}, {"$nor": [{"password": {"$regex": "^a"}}]}]},
            doc! {"$expr": {"$eq": ["$password", "x"]}},
            doc! {"$expr": {"$gt": [{"$substrCP": ["$$ROOT.password", 0, 1]}, "a"]}},
            doc! {"$expr": {"$in": ["x", {"$map": {"input": {"$objectToArray": "$$ROOT"}, "in": "$$this.v"}}]}},
            doc! {"$expr": {"$eq": [{"$getField": {"$concat": ["pass", "word"]}}, "x"]}},
            doc! {"$expr": {"$eq": ["$$CURRENT.password", "x"]}},
            doc! {"$jsonSchema": {"properties": {"password": {"pattern": "^a"}}}},
            doc! {"$jsonSchema": {"patternProperties": {"^pass": {"pattern": "^a"}}}},
            doc! {"$jsonSchema": {"properties": {"a": {}}, "additionalProperties": {"pattern": "^a"}}},
        ] {
            assert!(is_refused(&filter), "{filter}");
        }
    }

    #[test]
    fn other_filters_pass() {
        for filter in [
            doc! {},
            doc! {"user_name": "password", "password_hint": "x"},
            doc! {"$expr": {"$eq": ["$user_name", "$first_name"]}},
            doc! {"$jsonSchema": {"required": ["email"], "properties": {"email": {"bsonType": "string"}}}},
        ] {
            assert!(!is_refused(&filter), "{filter}");
        }
    }

    #[test]
    fn no_sort_reaches_a_password() {
        for sort in [Sort::by("password", false), Sort::by("public_id", false).then("password.a", true)] {
            assert!(refuse_password(&doc! {}, &sort).is_err());
        }
        assert!(refuse_password(&doc! {}, &Sort::by("password_hint", false)).is_ok());
    }
}
