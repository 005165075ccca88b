//! References to an object, and what happens to them when it is deleted. docs/api.md, References.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::raw::RawDocument;
use bson::{Bson, doc};

use super::visible::may_read;
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::domain::object_input;
use crate::query::{Filter, Limits, Projection, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::resource::{self, Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, Types};
use crate::store::{Change, Condition, Documents, FindQuery, Unit};

/// The right that changing objects needs.
const EDIT: &str = "base.framework.object.edit";

/// A refusal names at most this many referring objects.
const MOST_NAMED: u64 = 5;

/// What a delete does to objects that refer to the deleted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnReferences {
    /// The references dangle.
    #[default]
    Keep,
    /// The delete is refused while there are any.
    Refuse,
    /// The references become null, in the same step.
    Clear,
}

/// The condition for objects that refer to one of these: their type has a field that may refer to objects of its
/// type, and the value in that very field is its id.
///
/// # Errors
/// What the store reports.
pub async fn referring_to<'a>(
    services: &Services,
    objects: impl Iterator<Item = &'a RawDocument>,
) -> Result<Filter, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let mut ids: BTreeMap<Option<i64>, Vec<i64>> = BTreeMap::new();
    for object in objects {
        ids.entry(integer(object, "type_id")).or_default().extend(integer(object, "public_id"));
    }
    let mut branches: Vec<Bson> = Vec::new();
    for (type_id, ids) in ids {
        for (entry, names) in referring_fields(&types, type_id) {
            let field = doc! {"name": {"$in": names}, "value": {"$in": ids.clone()}};
            branches.push(doc! {"type_id": entry.object_type.public_id, "fields": {"$elemMatch": field}}.into());
        }
    }
    let document = if branches.is_empty() {
        // No type can refer to them: nothing matches.
        doc! {"public_id": {"$in": []}}
    } else {
        doc! {"$or": branches}
    };
    Ok(Filter::parse(&document, &Limits::NONE)?)
}

/// Each type with the names of its fields that may refer to objects of the type.
fn referring_fields(types: &Types, type_id: Option<i64>) -> Vec<(Arc<TypeEntry>, Vec<String>)> {
    let Some(type_id) = type_id else { return Vec::new() };
    let mut referring: Vec<(Arc<TypeEntry>, Vec<String>)> = types
        .iter()
        .filter_map(|entry| {
            let object_type = &entry.object_type;
            let fields = object_type.fields.iter();
            let names: Vec<String> = fields
                .filter(|field| object_type.targets(field).any(|target| target == type_id))
                .map(|field| field.name.clone())
                .collect();
            (!names.is_empty()).then(|| (Arc::clone(entry), names))
        })
        .collect();
    referring.sort_by_key(|(entry, _)| entry.object_type.public_id);
    referring
}

/// The changes of references when the objects are removed: the first part of the unit that removes them. References
/// among these objects do not count.
///
/// # Errors
/// [`ErrorCode::ObjectReferenced`] if there are references and the mode is "refuse". [`ErrorCode::AclDenied`] if the
/// mode is "clear" and the caller may not change one of the referring objects.
pub async fn unit_for_removal(
    services: &Services,
    caller: &Caller,
    objects: &Documents,
    on_references: OnReferences,
) -> Result<Unit, ServiceError> {
    if on_references == OnReferences::Keep {
        return Ok(Unit::default());
    }
    let ids: Vec<i64> = objects.iter().filter_map(|object| integer(object, "public_id")).collect();
    let others = Filter::none_of("public_id", ids.iter().copied().map(Bson::Int64).collect());
    let filter = referring_to(services, objects.iter()).await?.and(others);
    if on_references == OnReferences::Clear {
        return clear_references(services, caller, &ids, filter).await;
    }
    if services.store.count(Objects::COLLECTION, &filter, services.max_time).await? > 0 {
        return Err(referenced(services, caller, filter).await?);
    }
    Ok(Unit::default().given(Condition::None { collection: Objects::COLLECTION, filter }))
}

/// The refusal to remove a referenced object. Of referring objects that the caller may not see it says only that there
/// are some.
async fn referenced(services: &Services, caller: &Caller, filter: Filter) -> Result<ServiceError, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let seen = types.visible_to(caller).map_or_else(|| filter.clone(), |visible| filter.clone().and(visible));
    let message = match services.store.count(Objects::COLLECTION, &seen, services.max_time).await? {
        0 => "objects that you may not see refer to this".to_owned(),
        count => {
            let named = names(services, seen).await?;
            format!("objects refer to this ({count}: {named}); on_references=clear sets their references to null")
        }
    };
    Ok(ServiceError::refused(ErrorCode::ObjectReferenced, message))
}

/// The ids of the first objects that a filter finds.
async fn names(services: &Services, filter: Filter) -> Result<String, ServiceError> {
    let mut query =
        FindQuery::new(filter, services.max_time).sorted(Sort::by("public_id", false)).limited(MOST_NAMED + 1);
    query.projection = Some(Projection::parse(&doc! {"public_id": 1}, &Filter::all())?);
    let found = services.store.find(Objects::COLLECTION, &query).await?;
    let mut ids: Vec<String> =
        found.iter().filter_map(|object| integer(object, "public_id")).map(|id| id.to_string()).collect();
    if ids.len() as u64 > MOST_NAMED {
        ids.pop();
        ids.push("...".to_owned());
    }
    Ok(ids.join(", "))
}

/// Removes the ids from the reference fields of the objects that the filter finds. The unit fails if somebody adds a
/// reference meanwhile.
async fn clear_references(
    services: &Services,
    caller: &Caller,
    ids: &[i64],
    filter: Filter,
) -> Result<Unit, ServiceError> {
    // Whether the caller may change them is known before they are read: large ones that are hidden must not show.
    let mut which = FindQuery::new(filter.clone(), services.max_time);
    which.projection = Some(Projection::parse(&doc! { "public_id": 1, "type_id": 1 }, &Filter::all())?);
    let found = services.held(Objects::COLLECTION, which).await?;
    if !found.is_empty() && !caller.rights.grants(EDIT) {
        return Err(ServiceError::refused(
            ErrorCode::RightMissing,
            format!("clearing references needs the right {EDIT}"),
        ));
    }
    let types = services.types_of(found.iter()).await?;
    for object in found.iter() {
        clearable(services, &types, caller, object).await?;
    }
    let found = services.held(Objects::COLLECTION, FindQuery::new(filter.clone(), services.max_time)).await?;
    let cleared = found.iter().filter_map(|object| integer(object, "public_id")).map(Bson::Int64).collect();
    let meanwhile = filter.and(Filter::none_of("public_id", cleared));
    let mut unit = Unit::default().given(Condition::None { collection: Objects::COLLECTION, filter: meanwhile });
    let types = services.types_of(found.iter()).await?;
    for before in found.iter() {
        let entry = clearable(services, &types, caller, before).await?;
        let object_type = &entry.object_type;
        let mut after = resource::decode(before)?;
        let mut fields = object_input::read_fields(after.get("fields"));
        for field in &mut fields {
            let refers =
                object_type.field(&field.name).is_some_and(|known| object_type.targets(known).next().is_some());
            if refers
                && field
                    .value
                    .as_i64()
                    .or_else(|| field.value.as_i32().map(i64::from))
                    .is_some_and(|id| ids.contains(&id))
            {
                field.value = Bson::Null;
            }
        }
        after.insert("version", object_input::counted_on(&after, &fields, false));
        after.insert("fields", object_input::write_fields(&fields));
        after.insert("last_edit_time", services.now());
        after.insert("editor_id", caller.user_id);
        let after = resource::encode(&after)?;
        unit = unit.and(Change::Replace { collection: Objects::COLLECTION, before: before.to_owned(), after });
    }
    Ok(unit)
}

/// The type of a referring object that the caller may change. A caller who may neither change nor see it learns only
/// that there is one.
async fn clearable(
    services: &Services,
    types: &Types,
    caller: &Caller,
    object: &RawDocument,
) -> Result<Arc<TypeEntry>, ServiceError> {
    match changeable(types, caller, object, Permission::Update) {
        Err(ServiceError::Refused {
            code: ErrorCode::ObjectNotFound | ErrorCode::AclDenied | ErrorCode::TypeInactive,
            ..
        }) if !may_read(services, caller, object).await? => {
            let message = "objects that you may neither see nor change refer to this";
            Err(ServiceError::refused(ErrorCode::AclDenied, message))
        }
        // The type may be read as that of the object that is removed.
        Err(ServiceError::Refused { code: code @ ErrorCode::TypeInactive, message }) => {
            let id = integer(object, "public_id").unwrap_or_default();
            Err(ServiceError::refused(code, format!("object {id} refers to this, and its {message}")))
        }
        outcome => outcome,
    }
}

/// As [`changeable`], for an object that is to be removed. One without a type has no access list: callers who see all
/// objects may remove it.
pub(crate) fn removable(
    types: &Types,
    caller: &Caller,
    object: &RawDocument,
) -> Result<Option<Arc<TypeEntry>>, ServiceError> {
    let has_type = integer(object, "type_id").is_some_and(|id| types.get(id).is_some());
    if !has_type && types.visible_to(caller).is_none() {
        return Ok(None);
    }
    changeable(types, caller, object, Permission::Delete).map(Some)
}

/// The type of an object that the caller may change. `types` are [`Services::types_of`] it.
pub(crate) fn changeable(
    types: &Types,
    caller: &Caller,
    object: &RawDocument,
    permission: Permission,
) -> Result<Arc<TypeEntry>, ServiceError> {
    if !types.shows_or_allows(caller, object, permission) {
        return Err(ServiceError::not_found(Objects::NOT_FOUND, integer(object, "public_id").unwrap_or_default()));
    }
    let Some(entry) = integer(object, "type_id").and_then(|id| types.get(id).cloned()) else {
        let message = "the type of this object does not exist any more; it can be read, and deleted by a caller from whom no \
                       type is hidden";
        return Err(ServiceError::refused(ErrorCode::TypeMissing, message));
    };
    entry.permit(caller, permission)?;
    entry.require_active()?;
    Ok(entry)
}
