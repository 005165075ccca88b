//! References to an object, and what happens to them when it is deleted. docs/api.md, References.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, doc};

use super::visible::{VIEW, may_read};
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::domain::object_input;
use crate::domain::object_type::Field;
use crate::domain::on_delete::OnDelete;
use crate::domain::references::cleared;
use crate::plural::counted;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::history::past::TOO_MUCH;
use crate::service::resource::{self, Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, Types};
use crate::store::{Change, Condition, Documents, FindQuery, StoreError, Unit};

/// The right that changing objects needs.
const EDIT: &str = "base.framework.object.edit";

/// A refusal names at most this many referring objects.
const MOST_NAMED: u64 = 100;

/// The maximum number of referring objects that a warning counts, and the time for it: the warning is not worth more.
const MOST_COUNTED: u64 = 10_000;
const COUNTING: Duration = Duration::from_millis(250);

/// How many objects of a type one step of a look before a cascade reads.
const STEP: u64 = 1000;

/// Objects that are to be removed.
pub(crate) struct Removal<'a> {
    /// The objects, or their ids and types.
    pub objects: &'a Documents,
    /// What the caller wants of references; that of a field counts if it is stricter.
    pub wanted: OnDelete,
    /// Whose references count: not those of what is removed too.
    pub others: Filter,
}

impl<'a> Removal<'a> {
    /// Of these objects alone.
    pub(crate) fn of(objects: &'a Documents, wanted: OnDelete) -> Self {
        let ids = objects.iter().filter_map(|object| integer(object, "public_id"));
        Self { objects, wanted, others: Filter::none_of("public_id", ids) }
    }

    /// As a part of all objects of a type.
    pub(crate) fn of_type(objects: &'a Documents, type_id: i64) -> Self {
        Self { objects, wanted: OnDelete::Keep, others: Filter::none_of("type_id", [type_id]) }
    }

    /// The other objects that refer to them through fields with this outcome; nothing where no type has such a field.
    fn referring(&self, types: &Types, outcome: OnDelete) -> Option<Filter> {
        let has_outcome = |_: &TypeEntry, field: &Field| field.on_delete.max(self.wanted) == outcome;
        referring(types, pairs(self.objects.iter()), has_outcome).map(|filter| filter.and(self.others.clone()))
    }
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
    let types = services.current_types().await?;
    Ok(referring(&types, pairs(objects), |_, _| true).unwrap_or_else(|| Filter::one_of("public_id", [0_i64; 0])))
}

/// The types and ids of objects.
fn pairs<'a>(objects: impl Iterator<Item = &'a RawDocument>) -> impl Iterator<Item = (i64, i64)> {
    objects.filter_map(|object| Some((integer(object, "type_id")?, integer(object, "public_id")?)))
}

/// The same for objects of which type and id are known, through these fields alone; nothing where no type has such a field.
pub(crate) fn referring(
    types: &Types,
    objects: impl Iterator<Item = (i64, i64)>,
    counts: impl Fn(&TypeEntry, &Field) -> bool,
) -> Option<Filter> {
    let mut ids: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for (type_id, id) in objects {
        ids.entry(type_id).or_default().push(id);
    }
    let mut branches: Vec<Bson> = Vec::new();
    for (type_id, ids) in ids {
        for entry in types.iter() {
            let object_type = &entry.object_type;
            let refers =
                |field: &&Field| object_type.targets(field).any(|target| target == type_id) && counts(entry, field);
            let names: Vec<&str> = object_type.fields.iter().filter(refers).map(|field| field.name.as_str()).collect();
            if !names.is_empty() {
                let field = doc! {"name": {"$in": names}, "value": {"$in": ids.clone()}};
                branches.push(doc! {"type_id": object_type.public_id, "fields": {"$elemMatch": field}}.into());
            }
        }
    }
    (!branches.is_empty()).then(|| Filter::ours(&doc! {"$or": branches}))
}

/// The changes of references when the objects are removed: the first part of the unit that removes them. References
/// among these objects do not count.
///
/// # Errors
/// [`ErrorCode::ObjectReferenced`] if there are references and a field or the caller says "refuse".
/// [`ErrorCode::AclDenied`] if the caller says "clear" and may not change one of the referring objects.
pub(crate) async fn unit_for_removal(
    services: &Services,
    caller: &Caller,
    removal: &Removal<'_>,
) -> Result<Unit, ServiceError> {
    let types = services.current_types().await?;
    let mut unit = refuse(services, caller, removal, &types).await?;
    if let Some(filter) = removal.referring(&types, OnDelete::Clear) {
        let clearing = clear_references(services, caller, removal, filter).await?;
        unit.conditions.extend(clearing.conditions);
        unit.changes.extend(clearing.changes);
    }
    Ok(unit)
}

/// The condition that nothing refers to the objects through a field that refuses.
async fn refuse(
    services: &Services,
    caller: &Caller,
    removal: &Removal<'_>,
    types: &Types,
) -> Result<Unit, ServiceError> {
    let Some(filter) = removal.referring(types, OnDelete::Refuse) else { return Ok(Unit::default()) };
    if services.store.count(Objects::COLLECTION, &filter, services.max_time).await? > 0 {
        let of_fields = |_: &TypeEntry, field: &Field| field.on_delete == OnDelete::Refuse;
        let remedy = match referring(types, pairs(removal.objects.iter()), of_fields) {
            Some(_) => "a field with on_delete \"refuse\" keeps it; set its references to null first",
            None => "on_references=clear sets their references to null",
        };
        return Err(referenced(services, caller, filter, remedy).await?);
    }
    Ok(Unit::default().given(Condition::None { collection: Objects::COLLECTION, filter }))
}

/// The refusal to remove a referenced object. Of referring objects that the caller may not see it says only that there
/// are some.
async fn referenced(
    services: &Services,
    caller: &Caller,
    filter: Filter,
    remedy: &str,
) -> Result<ServiceError, ServiceError> {
    let types = services.current_types().await?;
    let seen = types.visible_to(caller).map_or_else(|| filter.clone(), |visible| filter.clone().and(visible));
    let count = if caller.rights.grants(VIEW) {
        services.store.count(Objects::COLLECTION, &seen, services.max_time).await?
    } else {
        0
    };
    let message = match count {
        0 => "objects that you may not see refer to this".to_owned(),
        count => {
            let named = names(services, seen).await?;
            format!("objects refer to this ({count}: {named}); {remedy}")
        }
    };
    Ok(ServiceError::refused(ErrorCode::ObjectReferenced, message))
}

/// The ids of the first objects that a filter finds.
async fn names(services: &Services, filter: Filter) -> Result<String, ServiceError> {
    let query = FindQuery::new(filter, services.max_time).sorted(Sort::by("public_id", false)).limited(MOST_NAMED + 1);
    let mut ids: Vec<String> = ids_of(services, query).await?.iter().map(i64::to_string).collect();
    if ids.len() as u64 > MOST_NAMED {
        ids.pop();
        ids.push("...".to_owned());
    }
    Ok(ids.join(", "))
}

async fn ids_of(services: &Services, query: FindQuery) -> Result<Vec<i64>, ServiceError> {
    let found = services.store.find(Objects::COLLECTION, &query.showing(&doc! {"public_id": 1})).await?;
    Ok(found.iter().filter_map(|object| integer(object, "public_id")).collect())
}

/// The objects that the caller sees and that refer to removed ones: their references stay, and lead nowhere.
#[derive(Debug, Default)]
pub struct Left(BTreeSet<i64>);

impl Left {
    /// The warning about them for the caller; nothing if there are none.
    pub fn warning(&self, removed: usize) -> Option<String> {
        let it = if removed == 1 { "it" } else { "them" };
        match self.0.len() {
            0 => None,
            1 => Some(format!("1 object refers to {it}")),
            count if count as u64 > MOST_COUNTED => Some(format!("more than {MOST_COUNTED} objects refer to {it}")),
            count => Some(format!("{} refer to {it}", counted(count as u64, "object"))),
        }
    }

    /// Adds those that refer to these objects. A removal must not fail for its warning: what cannot be read in time is not
    /// counted.
    pub(crate) async fn add(&mut self, services: &Services, caller: &Caller, removal: &Removal<'_>) {
        if caller.rights.grants(VIEW) && self.0.len() as u64 <= MOST_COUNTED {
            self.0.extend(left(services, caller, removal).await.unwrap_or_default());
        }
    }
}

async fn left(services: &Services, caller: &Caller, removal: &Removal<'_>) -> Result<Vec<i64>, ServiceError> {
    let types = services.current_types().await?;
    let stays = |entry: &TypeEntry, field: &Field| {
        let is_seen = entry.object_type.acl.allows(caller.group_id, Permission::Read);
        is_seen && field.on_delete.max(removal.wanted) == OnDelete::Keep
    };
    let Some(filter) = referring(&types, pairs(removal.objects.iter()), stays) else { return Ok(Vec::new()) };
    let filter = types.scope(caller, filter.and(removal.others.clone()));
    ids_of(services, FindQuery::new(filter, services.max_time.min(COUNTING)).limited(MOST_COUNTED + 1)).await
}

/// Whether another type has a field that may refer to objects of this type.
fn is_referred(types: &Types, type_id: i64) -> bool {
    types.referring_to(type_id).any(|entry| entry.object_type.public_id != type_id)
}

/// What deleting all objects of a type does to references of other types, found out before any of them goes.
///
/// # Errors
/// [`ErrorCode::ObjectReferenced`] if there are references through a field that refuses.
pub(crate) async fn before_cascade(services: &Services, caller: &Caller, type_id: i64) -> Result<Left, ServiceError> {
    let mut left = Left::default();
    let types = services.current_types().await?;
    if !is_referred(&types, type_id) {
        return Ok(left);
    }
    let mut last = 0_i64;
    loop {
        let behind = Filter::ours(&doc! {"type_id": type_id, "public_id": {"$gt": last}});
        let query = FindQuery::new(behind, services.max_time)
            .sorted(Sort::by("public_id", false))
            .limited(STEP)
            .showing(&doc! {"public_id": 1, "type_id": 1});
        let found = services.store.find(Objects::COLLECTION, &query).await?;
        let removal = Removal::of_type(&found, type_id);
        refuse(services, caller, &removal, &types).await?;
        left.add(services, caller, &removal).await;
        match found.iter().last().and_then(|object| integer(object, "public_id")) {
            Some(id) if found.len() as u64 == STEP => last = id,
            _ => return Ok(left),
        }
    }
}

/// What happens to references of other types to the last objects of a type, which the unit removes together: `most` of them at most.
///
/// # Errors
/// As [`unit_for_removal`].
pub(crate) async fn rest_of_type(
    services: &Services,
    caller: &Caller,
    type_id: i64,
    most: u64,
) -> Result<Unit, ServiceError> {
    if !is_referred(&*services.current_types().await?, type_id) {
        return Ok(Unit::default());
    }
    let all = Filter::equals("type_id", type_id);
    let query =
        FindQuery::new(all.clone(), services.max_time).limited(most).showing(&doc! {"public_id": 1, "type_id": 1});
    let found = services.store.find(Objects::COLLECTION, &query).await?;
    let unit = unit_for_removal(services, caller, &Removal::of_type(&found, type_id)).await?;
    if unit.conditions.is_empty() {
        return Ok(unit);
    }
    // Others come under the rules of the fields too: the unit fails if there are any.
    let known = Removal::of(&found, OnDelete::Keep).others;
    Ok(unit.given(Condition::None { collection: Objects::COLLECTION, filter: all.and(known) }))
}

/// Removes the ids from the reference fields of the objects that the filter finds. The unit fails if somebody adds a
/// reference meanwhile. A field with "clear" decides for itself; what only the caller wants needs the caller's permission.
async fn clear_references(
    services: &Services,
    caller: &Caller,
    removal: &Removal<'_>,
    filter: Filter,
) -> Result<Unit, ServiceError> {
    let types = services.current_types().await?;
    let is_wish = |field: &Field| field.on_delete == OnDelete::Keep && removal.wanted == OnDelete::Clear;
    if let Some(wished) = referring(&types, pairs(removal.objects.iter()), |_, field| is_wish(field)) {
        may_clear(services, caller, wished.and(removal.others.clone())).await?;
    }
    let found = match services.held(Objects::COLLECTION, FindQuery::new(filter.clone(), services.max_time)).await {
        Err(StoreError::Query { code: TOO_MUCH, .. }) => {
            let remedy = "they are too many to clear in one step; set some of these references to null first";
            return Err(referenced(services, caller, filter, remedy).await?);
        }
        found => found?,
    };
    let changed = found.iter().filter_map(|object| integer(object, "public_id"));
    let meanwhile = filter.and(Filter::none_of("public_id", changed));
    let mut unit = Unit::default().given(Condition::None { collection: Objects::COLLECTION, filter: meanwhile });
    let gone: BTreeSet<i64> = removal.objects.iter().filter_map(|object| integer(object, "public_id")).collect();
    let types = services.types_of(found.iter()).await?;
    for before in found.iter() {
        let Some(entry) = integer(before, "type_id").and_then(|id| types.get(id)) else { continue };
        let mut after = resource::decode(before)?;
        let mut fields = object_input::read_fields(after.get("fields"));
        let mut is_wished = false;
        for value in &mut fields {
            let Some(field) = entry.object_type.field(&value.name) else { continue };
            let clears = entry.object_type.targets(field).next().is_some()
                && field.on_delete.max(removal.wanted) == OnDelete::Clear;
            if let Some(rest) = cleared(&value.value, |id| gone.contains(&id)).filter(|_| clears) {
                value.value = rest;
                is_wished |= is_wish(field);
            }
        }
        if is_wished {
            clearable(services, &types, caller, before).await?;
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

/// Refuses a caller who wants references cleared and may not change all of their objects. That is known before the objects are
/// read: large ones that are hidden must not show.
async fn may_clear(services: &Services, caller: &Caller, filter: Filter) -> Result<(), ServiceError> {
    let which = FindQuery::new(filter, services.max_time).showing(&doc! { "public_id": 1, "type_id": 1 });
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
    Ok(())
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
