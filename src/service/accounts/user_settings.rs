//! Settings that users keep in the service: docs/api.md, Settings of users.

use std::time::Duration;

use bson::oid::ObjectId;
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};

use super::delegation;
use super::directory::Caller;
use crate::domain::schema::without_unknown;
use crate::domain::setting_input::{self, SETTING};
use crate::query::{Filter, Sort};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::once::{self, Once};
use crate::service::precondition::IfMatch;
use crate::service::queries::list_query::ListQuery;
use crate::service::quota::Quota;
use crate::service::resource::{self, Listed, NewState, Resource, UserSettings, Users};
use crate::service::services::Services;
use crate::store::{Change, ChunkedPage, Condition, Explanation, FindQuery, Store, StoreError, Unit};

/// All settings of a user, by identifier, in chunks.
///
/// # Errors
/// [`ErrorCode::UserNotFound`], and errors of the store.
pub async fn all_settings(services: &Services, user_id: i64) -> Result<ChunkedPage, ServiceError> {
    user_exists(services, user_id).await?;
    Ok(services.store.chunks(UserSettings::COLLECTION, &question(services, user_id)).await?)
}

/// A page of the settings of a user.
///
/// # Errors
/// [`ErrorCode::UserNotFound`], and errors of the store.
pub async fn list_settings(services: &Services, user_id: i64, query: &ListQuery) -> Result<Listed, ServiceError> {
    user_exists(services, user_id).await?;
    let filter = query.filter.clone().and(Filter::equals("user_id", user_id));
    resource::list::<UserSettings>(services, &ListQuery { filter, ..query.clone() }).await
}

/// How the settings of a user are found.
///
/// # Errors
/// As [`all_settings`].
pub async fn explain_settings(services: &Services, user_id: i64) -> Result<Explanation, ServiceError> {
    user_exists(services, user_id).await?;
    Ok(services.store.explain(UserSettings::COLLECTION, &question(services, user_id)).await?)
}

fn question(services: &Services, user_id: i64) -> FindQuery {
    let query = FindQuery::new(Filter::equals("user_id", user_id), services.max_time);
    query.sorted(Sort::by("identifier", false))
}

/// One setting of a user.
///
/// # Errors
/// [`ErrorCode::UserNotFound`], [`ErrorCode::SettingNotFound`], and errors of the store.
pub async fn get_setting(services: &Services, user_id: i64, identifier: &str) -> Result<RawDocumentBuf, ServiceError> {
    let filter = Filter::equals("user_id", user_id).and(Filter::equals("identifier", identifier));
    if let Some(setting) =
        services.store.first(UserSettings::COLLECTION, FindQuery::new(filter, services.max_time)).await?
    {
        return Ok(setting);
    }
    user_exists(services, user_id).await?;
    Err(ServiceError::not_found(UserSettings::NOT_FOUND, identifier))
}

/// Adds to settings that DATAGERRY stored the members by which they are found and read here: `resource`
/// is the identifier, and `payloads` are the payload. Returns how many there were.
///
/// # Errors
/// Errors of the store.
pub async fn adopt_settings(store: &dyn Store, max_time: Duration) -> Result<u64, ServiceError> {
    let theirs = doc! {"resource": {"$type": "string"}, "identifier": {"$exists": false}};
    let filter = Filter::ours(&theirs);
    let found = store.find(UserSettings::COLLECTION, &FindQuery::new(filter, max_time)).await?;
    let mut adopted = 0;
    for before in found.iter() {
        let mut after = resource::decode(before)?;
        let payloads = after.get("payloads").cloned().unwrap_or_else(|| Bson::Array(Vec::new()));
        after.insert("identifier", after.get("resource").cloned());
        after.insert("payload", doc! {"payloads": payloads});
        let (before, after) = (before.to_owned(), resource::encode(&after)?);
        let change = Change::Replace { collection: UserSettings::COLLECTION, before, after };
        match store.commit(Unit::of(change)).await {
            Ok(_) => adopted += 1,
            // The user has the setting here already, or another instance was faster.
            Err(StoreError::Duplicate { .. } | StoreError::Stale) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(adopted)
}

/// Stores a new setting.
///
/// # Errors
/// Violations of the body, an unknown user, an identifier that the user has already, more than a user may keep.
pub async fn create_setting(
    services: &Services,
    (caller, user_id): (&Caller, i64),
    body: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    user_exists(services, user_id).await?;
    let read = setting_input::read(body, user_id, None);
    let accepted = without_unknown(&SETTING, body, None, read)?;
    let mut document = doc! {"_id": ObjectId::new()};
    document.extend(accepted);
    let document = resource::encode(&document)?;
    for _ in 0..resource::DECISIONS {
        let conditions = delegation::user(services, caller, user_id).await?;
        let kept = Quota::read(services, UserSettings::COLLECTION, user_id).await?;
        kept.allow_setting(None, document.as_bytes().len())?;
        // Settings need no right, so what is noted of them is small.
        let mut changes: Vec<Change> = once::noted(services.now(), || {
            Ok(doc! { "identifier": document.get_str("identifier").unwrap_or_default() })
        })?
        .into_iter()
        .collect();
        changes.push(Change::Insert { collection: UserSettings::COLLECTION, document: document.clone() });
        match services.store.commit(Unit { conditions, changes }.given(kept.condition)).await {
            Ok(_) => return Ok(document),
            Err(StoreError::Condition { .. }) => {}
            Err(error) if Once::was_faster(&error) => return Err(error.into()),
            Err(StoreError::Duplicate { .. }) => {
                let message =
                    format!("user {user_id} has a setting with this identifier; choose another one, or use PUT");
                return Err(ServiceError::refused(ErrorCode::SettingIdentifierTaken, message));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(contended(document.get_str("identifier").unwrap_or_default()))
}

/// Removes a setting.
///
/// # Errors
/// As [`get_setting`]; [`ServiceError::PreconditionFailed`].
pub async fn delete_setting(
    services: &Services,
    (caller, user_id): (&Caller, i64),
    identifier: &str,
    if_match: &IfMatch,
) -> Result<RawDocumentBuf, ServiceError> {
    for _ in 0..resource::DECISIONS {
        let conditions = may_write(services, caller, user_id).await?;
        let before = get_setting(services, user_id, identifier).await?;
        if_match.check(&before)?;
        let changes = vec![Change::Delete { collection: UserSettings::COLLECTION, before: before.clone() }];
        match services.store.commit(Unit { conditions, changes }).await {
            Ok(_) => return Ok(before),
            Err(StoreError::Stale | StoreError::Condition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(contended(identifier))
}

/// Changes a setting to what was sent.
///
/// # Errors
/// As [`create_setting`] and [`get_setting`]; [`ServiceError::PreconditionFailed`].
pub async fn change_setting(
    services: &Services,
    (caller, user_id): (&Caller, i64),
    identifier: &str,
    if_match: &IfMatch,
    sent: NewState<'_>,
) -> Result<RawDocumentBuf, ServiceError> {
    for _ in 0..resource::DECISIONS {
        let conditions = may_write(services, caller, user_id).await?;
        let before = get_setting(services, user_id, identifier).await?;
        if_match.check(&before)?;
        let body = sent.body(&before)?;
        let mut after = resource::decode(&before)?;
        let read = setting_input::read(&body, user_id, Some(identifier));
        let accepted = without_unknown(&SETTING, &body, Some(&after), read)?;
        after.extend(accepted);
        let after = resource::encode(&after)?;
        let sizes = (before.as_bytes().len(), after.as_bytes().len());
        let changes = vec![Change::Replace { collection: UserSettings::COLLECTION, before, after: after.clone() }];
        let mut unit = Unit { conditions, changes };
        if sizes.1 > sizes.0 {
            let kept = Quota::read(services, UserSettings::COLLECTION, user_id).await?;
            kept.allow_setting(Some(sizes.0), sizes.1)?;
            unit = unit.given(kept.condition);
        }
        match services.store.commit(unit).await {
            Ok(_) => return Ok(after),
            Err(StoreError::Stale | StoreError::Condition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(contended(identifier))
}

/// The conditions of a change of a stored setting: none for users' own settings, which exist as long as their user.
async fn may_write(services: &Services, caller: &Caller, user_id: i64) -> Result<Vec<Condition>, ServiceError> {
    if caller.is(user_id) { Ok(Vec::new()) } else { delegation::user(services, caller, user_id).await }
}

async fn user_exists(services: &Services, user_id: i64) -> Result<(), ServiceError> {
    if services.directory.user_exists(user_id).await? {
        return Ok(());
    }
    Err(ServiceError::not_found(Users::NOT_FOUND, user_id))
}

fn contended(identifier: &str) -> ServiceError {
    ServiceError::Contended(format!("the setting {identifier}"))
}
