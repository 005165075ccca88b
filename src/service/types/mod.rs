//! Types of objects: their rules, and what changes with them. docs/api.md, Types.

pub mod carrying;
pub mod catalog;
pub mod categories;
pub mod examples;
pub mod fitting;
pub mod late;
pub mod migrator;
pub mod moving;
pub mod plan;
pub mod running;
pub mod warnings;

use std::borrow::Cow;
use std::collections::HashSet;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document};

use self::catalog::is_inactive;
use self::plan::Plan;
use self::warnings::{Changed, absent_groups};
use super::accounts::directory::Caller;
use super::claims::told::told_of_type;
use super::error::ServiceError;
use super::error_code::ErrorCode;
use super::history::author::{CausedBy, as_action, caused};
use super::objects::bulk::GROUP_BYTES;
use super::objects::dangling;
use super::objects::references::{self, Left, Removal};
use super::objects::targets::Targets;
use super::precondition::IfMatch;
use super::resource::{self, Categories, Decision, NewState, Objects, Resource, Types, Wanted};
use super::services::Services;
use crate::domain::acl::Permission;
use crate::domain::migration_input::Asked;
use crate::domain::schema::{without, without_unknown};
use crate::domain::type_input::{self, GROUPS};
use crate::domain::{self, Violation};
use crate::history::entry::Action;
use crate::plural::counted;
use crate::query::{Filter, Update};
use crate::store::{Change, Condition, FindQuery, StoreError, Unit, as_fits};

/// The right to see objects.
const VIEW_OBJECTS: &str = "base.framework.object.view";

/// The unit that removes a type removes at most this many of its objects, of at most [`GROUP_BYTES`].
const MOST_AT_ONCE: u64 = 1000;

/// How often a cascade begins again while others change the type or its objects.
const CASCADE_ATTEMPTS: usize = 8;

/// What was removed together with a type.
#[derive(Debug, serde::Serialize)]
pub struct TypeRemoval {
    /// Objects of the type; not for a caller who may not read them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Categories that listed it and no longer do.
    pub categories: u64,
    /// Objects that still refer to removed ones.
    #[serde(skip)]
    pub left: Left,
}

/// Stores a new type.
///
/// # Errors
/// Violations of the body, a taken name or id.
pub async fn create_type(
    services: &Services,
    caller: &Caller,
    body: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let accepted = read(services, caller, body, None).await?;
    let wanted = accepted.get_i64("public_id").ok();
    let now = services.now();
    resource::create::<Types>(services, wanted, Vec::new(), |id| domain::created(accepted.clone(), id, now)).await
}

/// Stores a type again that was deleted: all but editor and edit time stay as they were.
///
/// # Errors
/// As [`create_type`].
pub(super) async fn restored_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    deleted: &Document,
) -> Result<RawDocumentBuf, ServiceError> {
    let restored = type_again(services, caller, deleted).await?;
    resource::create::<Types>(services, Wanted::Again(id), Vec::new(), |_| restored.clone()).await
}

/// A deleted type as it is stored again.
///
/// # Errors
/// Violations of today's rules.
pub(super) async fn type_again(
    services: &Services,
    caller: &Caller,
    deleted: &Document,
) -> Result<Document, ServiceError> {
    let mut body = deleted.clone();
    for own in ["_id", "editor_id", "last_edit_time"] {
        body.remove(own);
    }
    let accepted = read(services, caller, &body, Some(deleted)).await?;
    Ok(type_input::updated(accepted, deleted, caller.user_id, services.now()))
}

/// A type that goes back to what it was, with the access list that it has now.
///
/// # Errors
/// Violations of today's rules.
pub(super) async fn type_as_it_was(
    services: &Services,
    caller: &Caller,
    id: i64,
    past: &Document,
    before: &RawDocument,
) -> Result<Document, ServiceError> {
    let mut body = past.clone();
    for own in ["_id", "version", "editor_id", "last_edit_time", "acl"] {
        body.remove(own);
    }
    body.extend(resource::decode(before)?.get("acl").map(|acl| ("acl".to_owned(), acl.clone())));
    resource::decode(&replace_type(services, caller, id, &body, before).await?.after)
}

/// The other changes of a deletion of a type whose objects are gone, or among those that the same unit deletes. That unit changes
/// some categories itself.
pub(super) fn without_type(id: i64, deleted: &[i64], changed_categories: &[i64]) -> Unit {
    let others = Filter::equals("type_id", id).and(none_with(deleted));
    Unit::of(pulled(Filter::equals("types", id).and(none_with(changed_categories)), id))
        .given(Condition::None { collection: Objects::COLLECTION, filter: others })
}

/// All documents but those with these ids.
pub(super) fn none_with(ids: &[i64]) -> Filter {
    Filter::none_of("public_id", ids.iter().copied())
}

/// These categories lose a type.
fn pulled(filter: Filter, id: i64) -> Change {
    Change::UpdateMany { collection: Categories::COLLECTION, filter, update: Update::pull("types", Bson::Int64(id)) }
}

/// Changes the type to what was sent; creation time and members of other tools stay.
///
/// # Errors
/// As [`create_type`], and those of [`resource::change`].
pub async fn change_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    sent: NewState<'_>,
) -> Result<Changed, ServiceError> {
    let split = Split::of(sent)?;
    let decide = async |before: &RawDocument| {
        let decision = replace_type(services, caller, id, &*split.body(before)?, before).await?;
        carrying::decided(services, caller, &split.asked, (before, decision)).await
    };
    let action = (!split.asked.steps.is_empty()).then_some(Action::Migrate);
    Box::pin(changed(services, caller, (id, if_match), (&split.sent, action), decide)).await
}

/// As [`change_type`], with the access list that the type has when it is replaced. `beside` gives what changes with it. Its
/// objects may break the rules that come back.
///
/// # Errors
/// As [`change_type`], and those of `beside`.
pub(super) async fn reverted_type(
    services: &Services,
    caller: &Caller,
    (id, if_match): (i64, &IfMatch),
    body: &Document,
    beside: impl AsyncFn(&RawDocument) -> Result<Unit, ServiceError>,
) -> Result<Changed, ServiceError> {
    let decide = async |before: &RawDocument| {
        let mut body = body.clone();
        body.extend(resource::decode(before)?.get("acl").map(|acl| ("acl".to_owned(), acl.clone())));
        let decision = replace_type(services, caller, id, &body, before).await?;
        let beside = beside(&decision.after).await?;
        Ok(carrying::together(decision, beside))
    };
    changed(services, caller, (id, if_match), (body, None), decide).await
}

/// A change of a type as it was sent, without what is asked of its objects.
struct Split {
    sent: Document,
    /// The same, if it is a merge patch.
    patch: Option<serde_json::Value>,
    asked: Asked,
}

impl Split {
    fn of(sent: NewState<'_>) -> Result<Self, ServiceError> {
        let (whole, mut patch) = match sent {
            NewState::Whole(body) => (body.clone(), None),
            NewState::Patch(patch) => (resource::body_of_patch(patch)?, Some(patch.clone())),
        };
        let (sent, asked) = Asked::split(whole)?;
        if let Some(members) = patch.as_mut().and_then(serde_json::Value::as_object_mut) {
            members.retain(|name, _| sent.contains_key(name));
        }
        Ok(Self { sent, patch, asked })
    }

    /// The body that it makes of a stored type.
    fn body(&self, before: &RawDocument) -> Result<Cow<'_, Document>, ServiceError> {
        let Some(patch) = &self.patch else { return Ok(Cow::Borrowed(&self.sent)) };
        let mut body = resource::merged(before, patch)?;
        if patch.get("editor_id").is_none() {
            body.remove("editor_id");
        }
        Ok(Cow::Owned(body))
    }
}

/// What [`change_type`] would change, and which objects would not fit the type then. Changes nothing.
///
/// # Errors
/// As [`change_type`], except for a taken name, which is a part of the plan.
pub async fn plan_change(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    sent: NewState<'_>,
) -> Result<Plan, ServiceError> {
    let split = Split::of(sent)?;
    let before = resource::get::<Types>(services, id).await?;
    if_match.check(&Types::view(&before))?;
    let decision = replace_type(services, caller, id, &*split.body(&before)?, &before).await?;
    let sees_objects = sees_objects(services, caller, id).await?;
    plan::of_change(services, caller, (&before, &decision.after), sees_objects, &split.asked.steps).await
}

/// Whether the caller may read the objects of a type.
async fn sees_objects(services: &Services, caller: &Caller, id: i64) -> Result<bool, ServiceError> {
    Ok(caller.rights.grants(VIEW_OBJECTS) && may_read_objects(services, caller, id).await?)
}

/// Changes a type, and reports the consequences. Objects that the caller may not see are not asked.
async fn changed(
    services: &Services,
    caller: &Caller,
    (id, if_match): (i64, &IfMatch),
    (sent, action): (&Document, Option<Action>),
    decide: impl AsyncFn(&RawDocument) -> Result<Decision, ServiceError>,
) -> Result<Changed, ServiceError> {
    let work = async {
        for _ in 0..resource::ATTEMPTS {
            match resource::change::<Types>(services, id, if_match, &decide).await {
                // Another request made an object of the type, or deleted one to which others are to refer.
                Err(ServiceError::Store(StoreError::Condition { .. })) => {}
                outcome => return outcome,
            }
        }
        Err(ServiceError::Contended(format!("type {id}")))
    };
    let work = caused(CausedBy::TypeOfUnit, work);
    let change = match action {
        Some(action) => as_action(action, work).await,
        None => work.await,
    };
    let change = told_of_type(services, caller, change, sent).await?;
    if action == Some(Action::Migrate) {
        let note = running::note(&*services.store, id, services.max_time).await.ok().flatten();
        if note.is_some_and(|note| running::upto(&note) < i64::MAX) {
            return Ok(Changed::running(change.1, id));
        }
    }
    // A change that is made must not fail for its warnings.
    let sees_objects = sees_objects(services, caller, id).await.unwrap_or(false);
    Box::pin(warnings::changed(services, caller, change, sent, sees_objects)).await
}

async fn replace_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    body: &Document,
    before: &RawDocument,
) -> Result<Decision, ServiceError> {
    running::refuse(&*services.store, id, services.max_time).await?;
    let stored = resource::decode(before)?;
    let accepted = read(services, caller, body, Some(&stored)).await?;
    resource::same_id(&accepted, id)?;
    let after = type_input::updated(accepted, &stored, caller.user_id, next_moment(services.now(), &stored));
    Decision::replace::<Types>(before, &after)
}

/// The time of a change: later than that of the last one, as objects are stored on the condition that their type has not changed.
fn next_moment(now: DateTime, stored: &Document) -> DateTime {
    let times = ["creation_time", "last_edit_time"].map(|name| stored.get_datetime(name).ok().copied());
    let last = times.into_iter().flatten().max();
    last.map_or(now, |last| now.max(DateTime::from_millis(last.timestamp_millis().saturating_add(1))))
}

/// Reads a body. What `stored` has may stay, although a rule forbids it for new types.
async fn read(
    services: &Services,
    caller: &Caller,
    body: &Document,
    stored: Option<&Document>,
) -> Result<Document, ServiceError> {
    let read = match stored {
        Some(stored) => type_input::read_again(body, stored),
        None => type_input::read(body),
    };
    let mut others = type_input::odd_fields(body, stored);
    let mut idle = type_input::idle_fields(body, stored);
    let kept: HashSet<&str> = stored.into_iter().flat_map(type_input::groups).collect();
    let new = absent_groups(services, body).await?.into_iter().filter(|id| !kept.contains(id.to_string().as_str()));
    others.extend(new.map(|id| Violation::new(format!("/{GROUPS}/{id}"), format!("group {id} does not exist"))));
    let references = type_input::default_references(body, stored);
    // Callers who may not see objects must not learn which ones exist.
    if !references.is_empty() && caller.rights.grants(VIEW_OBJECTS) {
        let types = services.current_types().await?;
        let referred = references.iter().map(|reference| reference.object_id);
        idle.append(Targets::read(services, types.visible_to(caller), referred).await?.dangling(&references));
    }
    others.append(dangling::refused(idle));
    without_unknown(&type_input::TYPE, body, stored, without(others, read)).map_err(ServiceError::Violations)
}

/// Removes a type. One that has objects is refused unless `cascade` removes them too; categories lose its id. Objects of an
/// inactive type can only be read, so a cascade leaves them too.
///
/// # Errors
/// [`ErrorCode::TypeInUse`] if there are objects, with their number for callers who may read them;
/// [`ErrorCode::TypeInactive`] if a cascade would remove them. Errors of [`resource::remove`].
pub async fn delete_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    cascade: bool,
) -> Result<(RawDocumentBuf, TypeRemoval), ServiceError> {
    let objects = Filter::equals("type_id", id);
    let may_count = may_read_objects(services, caller, id).await?;
    let mut left = Left::default();
    if cascade {
        may_delete_objects(services, caller, id).await?;
        left = references::before_cascade(services, caller, id).await?;
    }
    let decide = async |stored: &RawDocument| {
        if !cascade || is_inactive(stored) {
            let none = Condition::None { collection: Objects::COLLECTION, filter: objects.clone() };
            return Ok(Unit::default().given(none).and(pulled(Filter::equals("types", id), id)));
        }
        let delete = Unit::of(Change::DeleteMany { collection: Objects::COLLECTION, filter: objects.clone() });
        let mut unit = delete.and(pulled(Filter::equals("types", id), id));
        let rest = references::rest_of_type(services, caller, id, MOST_AT_ONCE).await?;
        unit.conditions.extend(rest.conditions);
        unit.changes.extend(rest.changes);
        Ok(unit)
    };
    let mut removed_before = 0;
    let attempts = if cascade { CASCADE_ATTEMPTS } else { resource::ATTEMPTS };
    for attempt in 0..attempts {
        if cascade {
            // The fewer objects are left for the last unit, the shorter it takes, and the less others get in its way.
            let most_left = if attempt == 0 { MOST_AT_ONCE } else { 0 };
            removed_before += thinned_out(services, caller, (id, if_match), most_left).await?;
        }
        match resource::remove_once::<Types>(services, id, if_match, &decide).await {
            Ok(Some((removed, touched))) => {
                let (objects, categories) = match touched[..] {
                    [objects, categories, _, ..] => (objects + removed_before, categories),
                    [categories, _] => (0, categories),
                    _ => (0, 0),
                };
                return Ok((removed, TypeRemoval { objects: may_count.then_some(objects), categories, left }));
            }
            Ok(None) => {}
            Err(ServiceError::Store(StoreError::Condition { .. })) if cascade => {
                // Another request made the type inactive, or a new reference to one of the objects.
                if is_inactive(&resource::get::<Types>(services, id).await?) {
                    return Err(keeps_objects(id));
                }
            }
            Err(ServiceError::Store(StoreError::Condition { .. })) => {
                return Err(in_use(services, id, Some(&objects).filter(|_| may_count)).await?);
            }
            Err(error) => return Err(error),
        }
    }
    if !cascade || !may_count {
        return Err(ServiceError::Contended(format!("type {id}")));
    }
    let left = services.store.count(Objects::COLLECTION, &objects, services.max_time).await?;
    let deleted = counted(removed_before, "object");
    Err(ServiceError::Contended(format!("type {id}, of which {deleted} were deleted and {left} are left,")))
}

/// The refusal of a cascade.
fn keeps_objects(id: i64) -> ServiceError {
    let message = format!("type {id} is inactive, its objects can only be read; activate it, then delete it with them");
    ServiceError::refused(ErrorCode::TypeInactive, message)
}

/// Removes objects of a type in units of their own until at most `most_left` are left for the unit that removes the type.
/// Each of them has an entry in the history, which holds the whole object, so one unit of all would not fit into memory.
///
/// Returns how many were removed.
async fn thinned_out(
    services: &Services,
    caller: &Caller,
    (id, if_match): (i64, &IfMatch),
    most_left: u64,
) -> Result<u64, ServiceError> {
    let objects = Filter::equals("type_id", id);
    let at_first = services.store.count(Objects::COLLECTION, &objects, services.max_time).await?;
    let (mut removed, mut refused) = (0, 0);
    // Others may store new objects all the time.
    while removed < at_first && refused < CASCADE_ATTEMPTS {
        let query = FindQuery::new(objects.clone(), services.max_time).limited(MOST_AT_ONCE + 1);
        let found = match services.store.find(Objects::COLLECTION, &query.clone().within(GROUP_BYTES)).await {
            Ok(found) if found.len() as u64 <= most_left => break,
            Err(StoreError::TooLarge) => as_fits(&*services.store, Objects::COLLECTION, query, GROUP_BYTES).await?,
            found => found?,
        };
        let object_type = resource::get::<Types>(services, id).await?;
        if_match.check(&object_type)?;
        if is_inactive(&object_type) {
            return Err(keeps_objects(id));
        }
        let delete =
            |object: &RawDocument| Change::Delete { collection: Objects::COLLECTION, before: object.to_owned() };
        let mut unit = references::unit_for_removal(services, caller, &Removal::of_type(&found, id)).await?;
        unit.changes.extend(found.iter().map(delete));
        match services.store.commit(unit).await {
            Ok(_) => removed += found.len() as u64,
            // Another request changed or removed one of them, or added a reference to one.
            Err(StoreError::Stale | StoreError::Condition { .. }) => refused += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(removed)
}

/// A cascade deletes objects, so it needs the same permissions as deleting them one by one.
async fn may_delete_objects(services: &Services, caller: &Caller, id: i64) -> Result<(), ServiceError> {
    const DELETE: &str = "base.framework.object.delete";
    if !caller.rights.grants(DELETE) {
        return Err(ServiceError::refused(
            ErrorCode::RightMissing,
            format!("cascade=true needs the right {DELETE} too"),
        ));
    }
    services.type_with_id(id).await?.map_or(Ok(()), |entry| entry.permit(caller, Permission::Delete))
}

async fn may_read_objects(services: &Services, caller: &Caller, id: i64) -> Result<bool, ServiceError> {
    Ok(services.type_with_id(id).await?.is_none_or(|entry| entry.permit(caller, Permission::Read).is_ok()))
}

/// The refusal to remove a type that has objects, with their number if the caller may count them.
async fn in_use(services: &Services, id: i64, countable: Option<&Filter>) -> Result<ServiceError, ServiceError> {
    let objects = match countable {
        Some(objects) => {
            counted(services.store.count(Objects::COLLECTION, objects, services.max_time).await?, "object")
        }
        None => "objects".to_owned(),
    };
    let types = services.current_types().await?;
    let remedy = match types.get(id) {
        Some(entry) if !entry.object_type.active => {
            "activate it first, as objects of an inactive type can only be read"
        }
        _ => "delete them first, or add cascade=true to delete them too",
    };
    let message = format!("type {id} has {objects}; {remedy}");
    Ok(ServiceError::refused(ErrorCode::TypeInUse, message))
}
