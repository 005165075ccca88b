//! Going back: a new version that equals an old one, and a deleted object that comes back. Today's rules decide.

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Document, doc};

use super::as_of::AccessLists;
use super::author::{as_action, rehearse};
use super::entries::visible;
use super::former::FormerTypes;
use super::heads::of_kind;
use super::moments::as_of_read;
use super::past::{Moment, changes_of, is_unknown};
use super::resources::unreadable;
use super::undo::of_changes_of_type;
use crate::domain::document::{integer, only};
use crate::domain::violation::Violation;
use crate::history::entry::Action;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::objects::dangling;
use crate::service::objects::targets::absent_target;
use crate::service::objects::visible::VisibleObject;
use crate::service::objects::{self, restored_object, update_object};
use crate::service::precondition::IfMatch;
use crate::service::resource::{self, Categories, NewState, Objects, Resource, Types};
use crate::service::services::Services;
use crate::service::types::catalog::{self, lets_through};
use crate::service::types::categories::{self, change_category, restored_category};
use crate::service::types::warnings::Changed;
use crate::service::types::{restored_type, reverted_type};
use crate::store::collections::LOGS;
use crate::store::{FindQuery, Unit};

/// Where to go back to.
#[derive(Debug, Clone, Copy)]
pub struct Revert<'a> {
    /// The state at this moment comes back.
    pub to: Moment,
    /// Whether only to report the outcome.
    pub dry_run: bool,
    /// The condition of the request.
    pub if_match: &'a IfMatch,
}

/// Brings an object back to what it was, as a new version.
///
/// Fields that its type has got since keep their values.
///
/// # Errors
/// The refusal for an id without a visible object then; what today's rules say against it, as
/// [`update_object`].
pub async fn revert_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    revert: Revert<'_>,
) -> Result<VisibleObject, ServiceError> {
    let then = as_of_read::<Objects>(services, (caller, id), revert.to, AccessLists::OfToday).await?;
    let past = objects::get_object(&then, caller, id).await?;
    let types = services.current_types().await?;
    refuse_former(&types, &*services.feed.former_types().await?, &past, revert.to)?;
    let body = only(&resource::decode(&past)?, &["type_id", "author_id", "status", "active", "fields", "views"]);
    carried_out(revert, update_object(services, caller, id, revert.if_match, &body)).await
}

/// Brings a type back to what it was, as a new version, with what its changes since then did to its objects. Its access list stays
/// that of today: going back must not open what has been closed since.
///
/// # Errors
/// As [`revert_object`].
pub async fn revert_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    revert: Revert<'_>,
) -> Result<Changed, ServiceError> {
    let then = as_of_read::<Types>(services, (caller, id), revert.to, AccessLists::OfThen).await?;
    let past = resource::get::<Types>(&then, id).await?;
    let mut body = resource::decode(&past)?;
    for own in ["_id", "version", "editor_id", "last_edit_time", "acl"] {
        body.remove(own);
    }
    let beside = async |after: &RawDocument| {
        let causes = migrations_since(services, id, revert.to).await?;
        if causes.is_empty() {
            Ok(Unit::default())
        } else {
            of_changes_of_type(services, caller, (id, &causes), after).await
        }
    };
    Box::pin(carried_out(revert, reverted_type(services, caller, (id, revert.if_match), &body, beside))).await
}

/// The sequences of the entries since a moment by which a type changed its objects, too.
async fn migrations_since(services: &Services, id: i64, to: Moment) -> Result<Vec<i64>, ServiceError> {
    let own = of_kind("types").and(Filter::equals("public_id", id)).and(to.later());
    let with_objects = [Action::Migrate, Action::Revert].map(Action::name);
    let query = FindQuery::new(own.and(Filter::one_of("action", with_objects)), services.max_time)
        .showing(&doc! { "sequence": 1 });
    let found = services.store.find(LOGS, &query).await?;
    Ok(found.iter().filter_map(|entry| integer(entry, "sequence")).collect())
}

/// Brings a category back to what it was.
///
/// # Errors
/// As [`revert_object`].
pub async fn revert_category(
    services: &Services,
    caller: &Caller,
    id: i64,
    revert: Revert<'_>,
) -> Result<RawDocumentBuf, ServiceError> {
    let then = as_of_read::<Categories>(services, (caller, id), revert.to, AccessLists::OfThen).await?;
    let past = resource::get::<Categories>(&then, id).await?;
    let body = only(&resource::decode(&past)?, &categories::MEMBERS);
    carried_out(revert, change_category(services, id, revert.if_match, NewState::Whole(&body))).await
}

async fn carried_out<T>(revert: Revert<'_>, work: impl Future<Output = T>) -> T {
    let work = as_action(Action::Revert, work);
    if revert.dry_run { rehearse(work).await } else { work.await }
}

/// Brings a deleted object back under its id, as its type allows it today. References to what is gone come back too: several
/// deleted objects may refer to each other. They are the second part of the answer.
///
/// # Errors
/// The refusal for an id without a visible object that was deleted; as [`objects::create_object`].
pub async fn restore_object(
    services: &Services,
    caller: &Caller,
    id: i64,
) -> Result<(VisibleObject, Vec<Violation>), ServiceError> {
    if let Some(present) = resource::find::<Objects>(services, id).await? {
        let types = services.types_of([&*present]).await?;
        return Err(if types.shows(caller, &present) {
            ServiceError::refused(ErrorCode::ObjectPublicIdTaken, format!("object {id} is not deleted"))
        } else {
            ServiceError::not_found(Objects::NOT_FOUND, id)
        });
    }
    let entry = seen_deletion(services, caller, id).await?;
    let former = services.feed.former_types().await?;
    let types = services.types_of([&*entry]).await?;
    refuse_former(&types, &former, &entry, Moment::Sequence(integer(&entry, "sequence").unwrap_or_default()))?;
    let deleted = removed::<Objects>(&entry, id)?;
    let restored = Box::pin(as_action(Action::Revert, restored_object(services, caller, id, &deleted)));
    let (restored, mut dangling) = dangling::accepted(restored).await;
    // What refers to itself refers to something again.
    dangling.retain(|violation| violation.message != absent_target(id));
    Ok((restored?, dangling))
}

/// The id and the type of an object that was deleted, if the caller could see it.
///
/// # Errors
/// The refusal for an id without a visible object that was deleted; errors of the store.
pub async fn deleted_object(services: &Services, caller: &Caller, id: i64) -> Result<RawDocumentBuf, ServiceError> {
    let present = resource::find::<Objects>(services, id).await?;
    let entry = seen_deletion(services, caller, id).await?;
    // A hidden object may have this id again.
    if present.is_some() { Err(ServiceError::not_found(Objects::NOT_FOUND, id)) } else { Ok(entry) }
}

/// The entry of the last deletion of an object, if the caller could see the object. It has its type too.
async fn seen_deletion(services: &Services, caller: &Caller, id: i64) -> Result<RawDocumentBuf, ServiceError> {
    let former = services.feed.former_types().await?;
    let entry = last_deletion(services, "objects", id).await?;
    let types = services.types_of(entry.as_deref()).await?;
    let visible = visible(caller, &types, &former);
    let entry = entry.filter(|entry| lets_through(visible.as_ref(), entry));
    entry.ok_or_else(|| ServiceError::not_found(Objects::NOT_FOUND, id))
}

/// Refuses what was an object of a type that was deleted since. Another type with its id may show what that one hid.
/// `past` is the object at that moment, or its entry.
fn refuse_former(
    types: &catalog::Types,
    former: &FormerTypes,
    past: &RawDocument,
    moment: Moment,
) -> Result<(), ServiceError> {
    let Some(id) = integer(past, "type_id").filter(|id| former.has(*id, moment)) else { return Ok(()) };
    let remedy = match types.get(id) {
        Some(_) => ", and another type has its id; this object cannot come back, make it anew",
        None => "; restore it first",
    };
    let message = format!("type {id} was deleted since{remedy}");
    Err(ServiceError::Violations(Violation::new("/type_id", message).into()))
}

/// Brings a deleted type back under its id. Categories do not get it back, nor does it bring its objects.
///
/// # Errors
/// [`ErrorCode::TypeNotFound`] where no type was deleted; [`ErrorCode::TypePublicIdTaken`] for one that is there; as
/// [`create_type`](crate::service::types::create_type).
pub async fn restore_type(services: &Services, caller: &Caller, id: i64) -> Result<RawDocumentBuf, ServiceError> {
    let deleted = deleted_one::<Types>(services, ("types", ErrorCode::TypePublicIdTaken), id).await?;
    as_action(Action::Revert, restored_type(services, caller, id, &deleted)).await
}

/// Brings a deleted category back under its id.
///
/// # Errors
/// [`ErrorCode::CategoryNotFound`] where none was deleted; [`ErrorCode::CategoryPublicIdTaken`] for one that is there; as
/// [`create_category`](crate::service::types::categories::create_category).
pub async fn restore_category(services: &Services, id: i64) -> Result<RawDocumentBuf, ServiceError> {
    let deleted = deleted_one::<Categories>(services, ("categories", ErrorCode::CategoryPublicIdTaken), id).await?;
    as_action(Action::Revert, restored_category(services, id, &deleted)).await
}

/// What a resource was when it was deleted.
async fn deleted_one<R: Resource>(
    services: &Services,
    (kind, taken): (&str, ErrorCode),
    id: i64,
) -> Result<Document, ServiceError> {
    if resource::find::<R>(services, id).await?.is_some() {
        return Err(ServiceError::refused(taken, format!("{} {id} is not deleted", R::NAME)));
    }
    let entry = last_deletion(services, kind, id).await?;
    removed::<R>(&entry.ok_or_else(|| ServiceError::not_found(R::NOT_FOUND, id))?, id)
}

/// The entry of the last deletion under this id.
async fn last_deletion(services: &Services, kind: &str, id: i64) -> Result<Option<RawDocumentBuf>, ServiceError> {
    let own = Filter::equals("public_id", id).and(Filter::equals("action", Action::Delete.name()));
    let last = FindQuery::new(of_kind(kind).and(own), services.max_time).sorted(Sort::by("number", true));
    Ok(services.store.first(LOGS, last).await?)
}

/// What a deletion removed.
fn removed<R: Resource>(entry: &RawDocument, id: i64) -> Result<Document, ServiceError> {
    let changes = changes_of(entry)?;
    if is_unknown(changes) {
        let message = format!("{} {id} was deleted on a full disk: there was no room to keep what it was", R::NAME);
        return Err(ServiceError::refused(ErrorCode::HistoryUnknown, message));
    }
    resource::decode(changes.get_document("deleted").map_err(unreadable)?)
}
