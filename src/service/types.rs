//! Types of objects: their rules, and what changes with them. docs/api.md, Types.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document};

use super::directory::Caller;
use super::error::ServiceError;
use super::error_code::ErrorCode;
use super::precondition::IfMatch;
use super::resource::{self, Categories, Decision, Groups, Objects, Resource, Types};
use super::services::Services;
use super::type_catalog::{self, is_inactive};
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::integer;
use crate::domain::object_type::{LinkTemplate, ObjectType, SectionReference};
use crate::domain::schema::{without, without_unknown};
use crate::domain::type_input::{self, GROUPS};
use crate::domain::{self, Violation};
use crate::plural::counted;
use crate::query::{Filter, Update};
use crate::store::{Change, Condition, FindQuery, StoreError, Unit};

/// The unit that removes a type removes so many of its objects.
const MOST_AT_ONCE: u64 = 1000;

/// What was removed together with a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct TypeRemoval {
    /// Objects of the type; not for a caller who may not read them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Categories that listed it and no longer do.
    pub categories: u64,
}

/// Stores a new type.
///
/// # Errors
/// Violations of the body, a taken name or id.
pub async fn create_type(services: &Services, body: &Document) -> Result<RawDocumentBuf, ServiceError> {
    let accepted = read(services, body, None).await?;
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
    let mut body = deleted.clone();
    for own in ["_id", "editor_id", "last_edit_time"] {
        body.remove(own);
    }
    let accepted = read(services, &body, Some(deleted)).await?;
    let restored = type_input::updated(accepted, deleted, caller.user_id, services.now());
    resource::create::<Types>(services, Some(id), Vec::new(), |_| restored.clone()).await
}

/// A type that was changed.
pub struct Changed {
    /// The type as it is now.
    pub after: RawDocumentBuf,
    /// Names of fields that it has lost, and that objects which the caller may see still have.
    pub still_used: Vec<String>,
    /// What else was taken, but may not be what was meant.
    pub warnings: Vec<String>,
}

/// Replaces the type with the body; creation time and members of other tools stay.
///
/// # Errors
/// As [`create_type`], and those of [`resource::change`].
pub async fn update_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    body: &Document,
) -> Result<Changed, ServiceError> {
    let decide = async |before: &RawDocument| replace_type(services, caller, id, body, before).await;
    changed(services, caller, id, resource::change::<Types>(services, id, if_match, decide).await?).await
}

/// Merges the patch (RFC 7396) into the type and goes on as [`update_type`].
///
/// # Errors
/// As [`update_type`].
pub async fn patch_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    patch: &serde_json::Value,
) -> Result<Changed, ServiceError> {
    let decide = async |before: &RawDocument| {
        let mut body = resource::merged(before, patch)?;
        if patch.get("editor_id").is_none() {
            body.remove("editor_id");
        }
        replace_type(services, caller, id, &body, before).await
    };
    changed(services, caller, id, resource::change::<Types>(services, id, if_match, decide).await?).await
}

/// So many lost fields are looked up, for no longer than that: the warning is not worth more.
const MOST_LOOKED_UP: usize = 20;
const LOOKING: Duration = Duration::from_millis(250);

/// The changed type, with the lost fields that objects still have. Nothing is told of objects that the caller may not see.
async fn changed(
    services: &Services,
    caller: &Caller,
    id: i64,
    (before, after): (RawDocumentBuf, RawDocumentBuf),
) -> Result<Changed, ServiceError> {
    let (had, has) = (field_names(&before)?, field_names(&after)?);
    let lost: Vec<String> = had.into_iter().filter(|name| !has.contains(name)).take(MOST_LOOKED_UP).collect();
    let mut still_used = Vec::new();
    if !lost.is_empty()
        && caller.rights.grants("base.framework.object.view")
        && may_read_objects(services, caller, id).await?
    {
        let begun = Instant::now();
        for name in lost {
            let question = Filter::equals("type_id", id).and(Filter::equals("fields.name", name.as_str()));
            let left = LOOKING.min(services.max_time).saturating_sub(begun.elapsed());
            if left < Duration::from_millis(1) {
                break;
            }
            // A change that is made must not fail for its warning.
            let found = services.store.find(Objects::COLLECTION, &FindQuery::new(question, left).limited(1)).await;
            if found.is_ok_and(|found| !found.is_empty()) {
                still_used.push(name);
            }
        }
    }
    let warnings = warnings(services, caller, Some(&before), &after).await?;
    Ok(Changed { after, still_used, warnings })
}

/// What to say of a stored type: what its fields hold, whom its access list names, and whether it shuts the caller out.
///
/// # Errors
/// When the stored type cannot be read.
pub async fn warnings(
    services: &Services,
    caller: &Caller,
    before: Option<&RawDocument>,
    after: &RawDocument,
) -> Result<Vec<String>, ServiceError> {
    let before = before.map(resource::decode).transpose()?;
    let dead_ends = dead_ends(services, after).await.unwrap_or_default();
    let after = resource::decode(after)?;
    let may_read = |object_type: &Document| {
        let acl = object_type.get_document("acl").map(Acl::from_document).unwrap_or_default();
        acl.allows(caller.group_id, Permission::Read)
    };
    let mut warnings = type_input::warnings(&after);
    if before.as_ref().is_none_or(may_read) && !may_read(&after) {
        let own = caller.group_id;
        warnings.push(format!(
            "acl: the list gives your group {own} no READ, so it hides the objects of this type from you"
        ));
    }
    // A change that is made must not fail for its warning.
    let absent = absent_groups(services, &after).await.unwrap_or_default();
    warnings.extend(absent.iter().take(MOST_LOOKED_UP).map(|id| format!("{GROUPS}/{id}: group {id} does not exist")));
    warnings.extend(dead_ends.into_iter().take(MOST_LOOKED_UP));
    Ok(warnings)
}

/// The ids in an access list that no group has.
async fn absent_groups(services: &Services, object_type: &Document) -> Result<Vec<i64>, ServiceError> {
    let mut ids: Vec<i64> = type_input::groups(object_type).filter_map(|group| group.parse().ok()).collect();
    if ids.is_empty() {
        return Ok(ids);
    }
    let named = Filter::one_of("public_id", ids.iter().copied().map(Bson::Int64).collect());
    let found = services.store.find(Groups::COLLECTION, &FindQuery::new(named, services.max_time)).await?;
    let known: HashSet<i64> = found.iter().filter_map(|group| integer(group, "public_id")).collect();
    ids.retain(|id| !known.contains(id));
    Ok(ids)
}

/// What of a type leads nowhere, in words: references, links and sections of other types that never show anything.
async fn dead_ends(services: &Services, object_type: &RawDocument) -> Result<Vec<String>, ServiceError> {
    let Ok(object_type) = ObjectType::from_document(object_type) else { return Ok(Vec::new()) };
    let types = services.types.current(&*services.store, services.max_time).await?;
    let references = absent_types(&object_type, &types);
    Ok(references.chain(dead_links(&object_type)).chain(dead_sections(&object_type, &types)).collect())
}

/// Which types that references may lead to are not there.
fn absent_types(object_type: &ObjectType, types: &type_catalog::Types) -> impl Iterator<Item = String> {
    let asked = object_type.fields.iter().enumerate();
    let asked = asked.flat_map(|(place, field)| field.ref_types.iter().map(move |id| (place, *id)));
    let absent = asked.filter(|(_, id)| types.get(*id).is_none());
    absent.map(|(place, id)| format!("/fields/{place}/ref_types: type {id} does not exist"))
}

/// Which external links can have no address.
fn dead_links(object_type: &ObjectType) -> impl Iterator<Item = String> {
    object_type.externals.iter().enumerate().filter_map(|(place, external)| {
        let fields = external.fields.len();
        let reason = match external.link.as_ref().map(LinkTemplate::places) {
            None => "it has to begin with http:, https:, mailto:, ssh: or tel:, or to be relative".to_owned(),
            Some(places) if places > fields => format!("it has {places} {{}} for {}", counted(fields as u64, "field")),
            Some(_) => return None,
        };
        Some(format!("/render_meta/externals/{place}/href: the link is never shown; {reason}"))
    })
}

/// Which sections show fields of another type that it does not have.
fn dead_sections(object_type: &ObjectType, types: &type_catalog::Types) -> impl Iterator<Item = String> {
    object_type.sections.iter().enumerate().filter_map(|(place, section)| {
        let lack = lack_of(section.reference.as_ref()?, types)?;
        Some(format!("/render_meta/sections/{place}/reference/{lack}"))
    })
}

fn lack_of(reference: &SectionReference, types: &type_catalog::Types) -> Option<String> {
    let id = reference.type_id;
    let Some(target) = types.get(id) else { return Some(format!("type_id: type {id} does not exist")) };
    let mut sections = target.object_type.sections.iter();
    let Some(shown) = sections.find(|section| section.name == reference.section_name) else {
        return Some("section_name: the type has no such section, so nothing is shown".to_owned());
    };
    let has_all = reference.selected_fields.iter().all(|name| shown.fields.contains(name));
    (!has_all).then(|| "selected_fields: the section has not all of these fields".to_owned())
}

fn field_names(object_type: &RawDocument) -> Result<Vec<String>, ServiceError> {
    let object_type = resource::decode(object_type)?;
    let fields = object_type.get_array("fields").into_iter().flatten().filter_map(Bson::as_document);
    Ok(fields.filter_map(|field| field.get_str("name").ok()).map(str::to_owned).collect())
}

async fn replace_type(
    services: &Services,
    caller: &Caller,
    id: i64,
    body: &Document,
    before: &RawDocument,
) -> Result<Decision, ServiceError> {
    let stored = resource::decode(before)?;
    let accepted = read(services, body, Some(&stored)).await?;
    resource::same_id(&accepted, id)?;
    let after = type_input::updated(accepted, &stored, caller.user_id, services.now());
    Decision::replace::<Types>(before, &after)
}

/// Reads a body. What `stored` has may stay, although a rule forbids it for new types.
async fn read(services: &Services, body: &Document, stored: Option<&Document>) -> Result<Document, ServiceError> {
    let read = match stored {
        Some(stored) => type_input::read_again(body, stored),
        None => type_input::read(body),
    };
    let mut others = type_input::odd_fields(body, stored);
    let kept: HashSet<&str> = stored.into_iter().flat_map(type_input::groups).collect();
    let new = absent_groups(services, body).await?.into_iter().filter(|id| !kept.contains(id.to_string().as_str()));
    others.extend(new.map(|id| Violation::new(format!("/{GROUPS}/{id}"), format!("group {id} does not exist"))));
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
    if cascade {
        may_delete_objects(services, caller, id).await?;
    }
    let decide = async |stored: &RawDocument| {
        let pull = Change::UpdateMany {
            collection: Categories::COLLECTION,
            filter: Filter::equals("types", id),
            update: Update::pull("types", Bson::Int64(id)),
        };
        let unit = Unit::default();
        let unit = if cascade && !is_inactive(stored) {
            unit.and(Change::DeleteMany { collection: Objects::COLLECTION, filter: objects.clone() })
        } else {
            unit.given(Condition::None { collection: Objects::COLLECTION, filter: objects.clone() })
        };
        Ok(unit.and(pull))
    };
    let removed_before = if cascade { thinned_out(services, id, if_match).await? } else { 0 };
    match resource::remove::<Types>(services, id, if_match, decide).await {
        Ok((removed, touched)) => {
            let (objects, categories) = match touched[..] {
                [objects, categories, _] => (objects + removed_before, categories),
                [categories, _] => (0, categories),
                _ => (0, 0),
            };
            Ok((removed, TypeRemoval { objects: may_count.then_some(objects), categories }))
        }
        Err(ServiceError::Store(StoreError::Condition { .. })) if cascade => Err(keeps_objects(id)),
        Err(ServiceError::Store(StoreError::Condition { .. })) => {
            Err(in_use(services, id, Some(&objects).filter(|_| may_count)).await?)
        }
        Err(error) => Err(error),
    }
}

/// The refusal of a cascade.
fn keeps_objects(id: i64) -> ServiceError {
    let message = format!("type {id} is inactive, its objects can only be read; activate it, then delete it with them");
    ServiceError::refused(ErrorCode::TypeInactive, message)
}

/// Removes objects of a type in units of their own until few enough are left for the unit that removes the type. Each of
/// them has an entry in the history, which holds the whole object, so one unit of all would not fit into memory.
///
/// Returns how many were removed.
async fn thinned_out(services: &Services, id: i64, if_match: &IfMatch) -> Result<u64, ServiceError> {
    let mut removed = 0;
    loop {
        let objects = FindQuery::new(Filter::equals("type_id", id), services.max_time);
        let found = services.store.find(Objects::COLLECTION, &objects.limited(MOST_AT_ONCE + 1)).await?;
        if found.len() as u64 <= MOST_AT_ONCE {
            return Ok(removed);
        }
        let object_type = resource::get::<Types>(services, id).await?;
        if_match.check(&object_type)?;
        if is_inactive(&object_type) {
            return Err(keeps_objects(id));
        }
        let delete =
            |object: &RawDocument| Change::Delete { collection: Objects::COLLECTION, before: object.to_owned() };
        let unit = Unit { conditions: Vec::new(), changes: found.iter().map(delete).collect() };
        match services.store.commit(unit).await {
            Ok(_) => removed += found.len() as u64,
            // Somebody changed or removed one of them.
            Err(StoreError::Stale) => {}
            Err(error) => return Err(error.into()),
        }
    }
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
    let types = services.types.current(&*services.store, services.max_time).await?;
    types.get(id).map_or(Ok(()), |entry| entry.permit(caller, Permission::Delete))
}

async fn may_read_objects(services: &Services, caller: &Caller, id: i64) -> Result<bool, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    Ok(types.get(id).is_none_or(|entry| entry.permit(caller, Permission::Read).is_ok()))
}

/// The refusal to remove a type that has objects, with their number if the caller may count them.
async fn in_use(services: &Services, id: i64, countable: Option<&Filter>) -> Result<ServiceError, ServiceError> {
    let objects = match countable {
        Some(objects) => {
            counted(services.store.count(Objects::COLLECTION, objects, services.max_time).await?, "object")
        }
        None => "objects".to_owned(),
    };
    let message = format!("type {id} has {objects}; delete them first, or add cascade=true to delete them too");
    Ok(ServiceError::refused(ErrorCode::TypeInUse, message))
}
