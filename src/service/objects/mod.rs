//! Objects of the inventory: their rules and their changes. docs/api.md, Objects.

pub mod aggregate;
pub mod bulk;
pub mod by_value;
pub mod companions;
pub mod dangling;
pub mod field_names;
pub mod free;
pub mod graph;
pub mod joins;
pub mod nowhere;
pub mod references;
pub mod rendering;
pub mod reports;
pub mod targets;
pub mod visible;

use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use self::references::{Left, Removal, changeable, removable};
use self::targets::{Targets, absent_target};
use self::visible::VisibleObject;
use super::accounts::directory::Caller;
use super::claims::told::told;
use super::error::ServiceError;
use super::error_code::ErrorCode;
use super::history::author::as_action;
use super::precondition::IfMatch;
use super::queries::list_query::ListQuery;
use super::resource::{self, Decision, Listed, Objects, Resource, Types, Wanted};
use super::services::Services;
use super::types::catalog::{TypeEntry, inactive, is_inactive};
use super::types::late;
use crate::domain::acl::Permission;
use crate::domain::document::{integer, only};
use crate::domain::object_fields::{Accepted, FieldRules, FieldValue, Reference, misfit};
use crate::domain::object_input::{self, ObjectInput};
use crate::domain::on_delete::OnDelete;
use crate::domain::{Violation, Violations};
use crate::history::entry::Action;
use crate::query::{Filter, Limits, Sort};
use crate::store::{Change, Condition, Documents, FindQuery, Shared, StoreError, Unit};

/// The maximum number of ids in one bulk delete.
const MAX_BULK_IDS: usize = 1000;

/// How many objects one step of a clean reads.
const CLEAN_BATCH: u64 = 500;

/// What a bulk delete did.
pub struct BulkRemoval {
    /// The removed objects, as the caller may see them.
    pub removed: Documents,
    /// What still refers to them.
    pub left: Left,
    /// Ids without an object that the caller may see.
    pub not_found: Vec<i64>,
}

/// What cleaning did.
#[derive(Default)]
pub struct Cleaning {
    /// The objects as they are now, as far as the caller may see them.
    pub cleaned: Documents,
    /// Ids of objects with too many concurrent changes.
    pub failed: Vec<i64>,
}

/// One page of the objects that the caller may see, or the explanation of its query.
///
/// # Errors
/// Errors of the store.
pub async fn list_objects(
    services: &Services,
    caller: &Caller,
    mut query: ListQuery,
    view: View,
) -> Result<Listed, ServiceError> {
    // Both are joined before they are projected.
    if view == View::Rendered || !query.through.projection.is_empty() {
        query.projection = None;
    }
    if let Some(stages) = query.stages.take() {
        return Ok(Listed::Page(aggregate::page(services, caller, &query, &stages).await?));
    }
    if !query.through.sort.is_empty() {
        return joins::list(services, caller, query).await;
    }
    Ok(late::list::<Objects>(services, caller, &query, |types| types.visible_to(caller)).await?.0)
}

/// Whether a list shows objects as stored or rendered; a projection applies to what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// As stored.
    Native,
    /// Joined with type and references.
    Rendered,
}

/// The object with this id, if the caller may see it.
///
/// # Errors
/// As [`seen`].
pub async fn get_object(services: &Services, caller: &Caller, id: i64) -> Result<RawDocumentBuf, ServiceError> {
    let object = resource::find::<Objects>(services, id).await?;
    seen(services, caller, id, object).await
}

/// The object that was found under an id, if the caller may see it.
///
/// # Errors
/// [`ErrorCode::ObjectNotFound`] for a hidden object as for none.
pub(super) async fn seen(
    services: &Services,
    caller: &Caller,
    id: i64,
    found: Option<RawDocumentBuf>,
) -> Result<RawDocumentBuf, ServiceError> {
    let types = services.types_of(found.as_deref()).await?;
    found.filter(|object| types.shows(caller, object)).ok_or_else(|| ServiceError::not_found(Objects::NOT_FOUND, id))
}

/// Stores a new object.
///
/// # Errors
/// Violations of the body and of the type's rules, an inactive type, a missing ACL entry, a taken id.
pub async fn create_object(
    services: &Services,
    caller: &Caller,
    body: &Document,
) -> Result<VisibleObject, ServiceError> {
    let now = services.now();
    let build = |input: &ObjectInput, id, type_id, fields: &[FieldValue]| input.created(id, type_id, fields, now);
    let created = by_one_state(services, async || store_object(services, caller, body, None, build).await).await;
    told(services, caller, created, |shared| place_of(body, shared)).await
}

/// Stores an object again that was deleted: its id, author and creation time stay, its version moves as by an edit.
///
/// # Errors
/// As [`create_object`].
pub(super) async fn restored_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    deleted: &Document,
) -> Result<VisibleObject, ServiceError> {
    // The author may be gone.
    let mut body = doc! {"author_id": caller.user_id};
    body.extend(only(deleted, &["type_id", "status", "active", "fields"]));
    let now = services.now();
    let build = |input: &ObjectInput, _, _, fields: &[FieldValue]| {
        let mut restored = input.updated(deleted, fields, caller.user_id, now);
        restored.insert("version", object_input::counted_on(deleted, fields, true));
        restored
    };
    let restored = by_one_state(services, async || store_object(services, caller, &body, Some(id), build).await).await;
    told(services, caller, restored, |_| String::new()).await
}

/// As [`Services::by_the_types`]. What was decided by a type that has changed since is decided again.
async fn by_one_state<T>(
    services: &Services,
    decide: impl AsyncFn() -> Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    for _ in 0..resource::DECISIONS {
        match services.by_the_types(&decide).await {
            Err(ServiceError::Store(StoreError::Condition { index: 0 })) => drop(services.types_anew().await?),
            outcome => return outcome,
        }
    }
    Err(ServiceError::Contended("the type of the object".to_owned()))
}

/// `again` is the id that the object had before. [`StoreError::Condition`] with the index 0 says that the type has changed.
async fn store_object(
    services: &Services,
    caller: &Caller,
    body: &Document,
    again: Option<i64>,
    build: impl Fn(&ObjectInput, i64, i64, &[FieldValue]) -> Document,
) -> Result<VisibleObject, ServiceError> {
    let (input, mut violations) = ObjectInput::read(body);
    let types = services.current_types().await?;
    let entry = input.type_id.and_then(|type_id| types.get(type_id));
    let is_field = |name: &str| entry.is_some_and(|entry| entry.object_type.field(name).is_some());
    violations.append(object_input::unknown_members(body, None, is_field));
    if let Some(entry) = entry {
        entry.permit(caller, Permission::Create)?;
        entry.require_active()?;
    } else if !violations.has("/type_id") {
        violations.push(unknown_type(input.type_id));
    }
    // What comes back may have fields that its type has lost since.
    let lost: Vec<FieldValue> = input.fields.iter().filter(|field| !is_field(&field.name)).cloned().collect();
    let check = |rules: &FieldRules| match again {
        Some(_) => rules.check_again(&input.fields, &lost),
        None => rules.check(&input.fields, &[]),
    };
    let accepted = check_fields(services, caller, entry.map(|entry| &**entry), check, &mut violations).await?;
    let has_author = !violations.has("/author_id");
    if has_author && !services.directory.user_exists(input.author_id).await? {
        violations.push(Violation::new("/author_id", format!("user {} does not exist", input.author_id)));
    }
    let Some(entry) = entry.filter(|_| violations.is_empty()) else {
        return Err(ServiceError::Violations(input.placed(violations)));
    };
    let type_id = entry.object_type.public_id;
    let references = input.placed_references(accepted.references);
    let mut conditions = vec![takes_objects(type_id, entry.edited())];
    conditions.extend(references.iter().map(|reference| Condition::exists(Objects::COLLECTION, reference.object_id)));
    let build = |id| build(&input, id, type_id, &accepted.fields);
    let wanted = again.map_or(Wanted::from(input.public_id), Wanted::Again);
    match resource::create::<Objects>(services, wanted, conditions, build).await {
        Err(error @ ServiceError::Store(StoreError::Condition { index: 0 })) => {
            require_type(services, type_id).await?;
            Err(error)
        }
        outcome => VisibleObject::of(services, caller, lost_target(&references, 1, outcome)?).await,
    }
}

/// Where the body of an object has the value that another one has.
fn place_of(body: &Document, shared: &Shared) -> String {
    ObjectInput::read(body).0.place_of(&shared.field)
}

pub(super) fn unknown_type(type_id: Option<i64>) -> Violation {
    let message = type_id.map_or_else(|| "is required".to_owned(), |id| format!("type {id} does not exist"));
    Violation::new("/type_id", message)
}

/// The condition that the type is active when the unit takes effect, and is what it was when it was last changed at this time.
/// So nothing is stored by the rules of a type that has changed meanwhile, perhaps together with its objects.
pub(super) fn takes_objects(type_id: i64, edited: Bson) -> Condition {
    let is_active = Filter::none_of("active", [false]);
    let is_same = Filter::equals("public_id", type_id).and(Filter::equals("last_edit_time", edited));
    Condition::Exists { collection: Types::COLLECTION, filter: is_same.and(is_active) }
}

/// The reason why the stored type no longer takes objects.
///
/// # Errors
/// A violation when it is gone, [`ErrorCode::TypeInactive`].
pub(super) async fn require_type(services: &Services, type_id: i64) -> Result<(), ServiceError> {
    match resource::find::<Types>(services, type_id).await? {
        None => Err(ServiceError::Violations(unknown_type(Some(type_id)).into())),
        Some(stored) if is_inactive(&stored) => Err(inactive(type_id)),
        Some(_) => Ok(()),
    }
}

/// The reference that lost its object between the check and the write, if that is why the store refused.
fn lost_target<T>(
    references: &[Reference],
    conditions_before: usize,
    outcome: Result<T, ServiceError>,
) -> Result<T, ServiceError> {
    match outcome {
        Err(ServiceError::Store(StoreError::Condition { index })) => {
            let lost = index.checked_sub(conditions_before).and_then(|index| references.get(index));
            Err(lost.map_or_else(
                || ServiceError::Contended("the object".to_owned()),
                |reference| ServiceError::violation(reference.pointer.as_str(), absent_target(reference.object_id)),
            ))
        }
        outcome => outcome,
    }
}

/// Replaces the object with the body; missing fields keep their value.
///
/// # Errors
/// As [`create_object`], and those of [`resource::change`].
pub async fn update_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    body: &Document,
) -> Result<VisibleObject, ServiceError> {
    let decide = async |before: &RawDocument, entry: &TypeEntry| {
        replace_object(services, caller, id, body, (before, entry)).await
    };
    let changed = services.by_the_types(async || change_object(services, caller, id, if_match, &decide).await).await;
    let changed = told(services, caller, changed, |shared| place_of(body, shared)).await?;
    VisibleObject::of(services, caller, changed.1).await
}

/// Merges the patch (RFC 7396) into the object, its `fields` by name, and continues as [`update_object`].
///
/// # Errors
/// As [`update_object`].
pub async fn patch_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    patch: &serde_json::Value,
) -> Result<VisibleObject, ServiceError> {
    let decide = async |before: &RawDocument, entry: &TypeEntry| {
        let body = object_input::patched(resource::body_of_patch(patch)?, &resource::decode(before)?);
        replace_object(services, caller, id, &body, (before, entry)).await
    };
    let changed = services.by_the_types(async || change_object(services, caller, id, if_match, &decide).await).await;
    let sent = resource::body_of_patch(patch).unwrap_or_default();
    let changed = told(services, caller, changed, |shared| place_of(&sent, shared)).await?;
    VisibleObject::of(services, caller, changed.1).await
}

/// As [`resource::change`], after checking that the caller may change the object. If a new reference lost its object
/// meanwhile, a second look says which.
async fn change_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    decide: impl AsyncFn(&RawDocument, &TypeEntry) -> Result<Decision, ServiceError>,
) -> Result<(RawDocumentBuf, RawDocumentBuf), ServiceError> {
    let permitted = async |before: &RawDocument| {
        let types = services.types_of([before]).await?;
        let entry = changeable(&types, caller, before, Permission::Update)?;
        visible::check_tags(if_match, Some(&entry), caller, before)?;
        let mut decision = decide(before, &entry).await?;
        if !decision.unit.changes.is_empty() {
            let type_id = entry.object_type.public_id;
            decision.unit.conditions.push(takes_objects(type_id, entry.edited()));
        }
        Ok(decision)
    };
    for _ in 0..resource::ATTEMPTS {
        match resource::change::<Objects>(services, id, &IfMatch::Absent, &permitted).await {
            Err(ServiceError::Store(StoreError::Condition { .. })) => drop(services.types_anew().await?),
            outcome => return outcome,
        }
    }
    Err(ServiceError::Contended(format!("object {id}")))
}

async fn replace_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    body: &Document,
    (before, entry): (&RawDocument, &TypeEntry),
) -> Result<Decision, ServiceError> {
    let stored = resource::decode(before)?;
    let is_read = visible::may_read(services, caller, before).await?;
    let (input, mut violations) =
        if is_read { ObjectInput::read_again(body, &stored) } else { ObjectInput::read(body) };
    resource::same_id(&doc! {"public_id": input.public_id.unwrap_or(id)}, id)?;
    let type_id = entry.object_type.public_id;
    // Which members an object has is disclosed only to callers who may read it.
    let is_field = |name: &str| entry.object_type.field(name).is_some();
    violations.append(object_input::unknown_members(body, Some(&stored).filter(|_| is_read), is_field));
    if let Some(other) = input.type_id.filter(|other| *other != type_id) {
        let known = if is_read { format!("is {other}, but the object is of type {type_id}; ") } else { String::new() };
        violations.push(Violation::new("/type_id", format!("{known}the type of an object cannot change")));
    }
    let kept = object_input::read_fields(stored.get("fields"));
    let check = |rules: &FieldRules| {
        if is_read { rules.check(&input.fields, &kept) } else { rules.check_unread(&input.fields, &kept) }
    };
    let accepted = check_fields(services, caller, Some(entry), check, &mut violations).await?;
    input.placed(violations).none()?;
    let after = input.updated(&stored, &accepted.fields, caller.user_id, services.now());
    let mut decision = Decision::replace::<Objects>(before, &after)?;
    let targets =
        accepted.references.iter().map(|reference| Condition::exists(Objects::COLLECTION, reference.object_id));
    decision.unit.conditions.extend(targets);
    Ok(decision)
}

/// Checks the fields by the rules of the type, and that references lead to objects that the caller may see. Skipped if
/// entries are malformed.
async fn check_fields(
    services: &Services,
    caller: &Caller,
    entry: Option<&TypeEntry>,
    check: impl Fn(&FieldRules) -> Result<Accepted, Violations>,
    violations: &mut Violations,
) -> Result<Accepted, ServiceError> {
    let whole = !violations.has_below("/fields");
    let Some(entry) = entry.filter(|_| whole) else { return Ok(Accepted::default()) };
    match check(&entry.rules) {
        Ok(mut accepted) => {
            let types = services.current_types().await?;
            let referred = accepted.references.iter().map(|reference| reference.object_id);
            let targets = Targets::read(services, types.visible_to(caller), referred).await?;
            violations.append(dangling::refuse(&targets, &mut accepted.references));
            Ok(accepted)
        }
        Err(found) => {
            violations.append(found);
            Ok(Accepted::default())
        }
    }
}

/// Removes an object; `on_references` says what happens to objects that refer to it.
///
/// # Errors
/// A missing ACL entry, an inactive type, references that are refused, and those of [`resource::remove`].
pub async fn delete_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    on_references: OnDelete,
) -> Result<(VisibleObject, Left), ServiceError> {
    let mut removal = remove_objects(services, caller, &[id], if_match, on_references).await?;
    match removal.removed.first() {
        Some(removed) => Ok((VisibleObject::of(services, caller, removed.to_owned()).await?, removal.left)),
        None => Err(ServiceError::not_found(Objects::NOT_FOUND, removal.not_found.pop().unwrap_or(id))),
    }
}

/// Removes several objects: all that exist, or none.
///
/// # Errors
/// Too many ids, none of them found, and as [`delete_object`].
pub async fn delete_objects(
    services: &Services,
    caller: &Caller,
    ids: &[i64],
    on_references: OnDelete,
) -> Result<BulkRemoval, ServiceError> {
    if ids.len() > MAX_BULK_IDS {
        let message = format!("{} ids are too many; send at most {MAX_BULK_IDS} at once", ids.len());
        return Err(ServiceError::refused(ErrorCode::TooManyIds, message));
    }
    let mut removal = remove_objects(services, caller, ids, &IfMatch::Absent, on_references).await?;
    removal.removed = visible::all(services, caller, &removal.removed).await?;
    if removal.removed.is_empty() {
        return Err(ServiceError::refused(ErrorCode::ObjectNotFound, "none of these objects exists"));
    }
    Ok(removal)
}

/// Removes those of the objects that exist, as one unit with what happens to references to them.
async fn remove_objects(
    services: &Services,
    caller: &Caller,
    ids: &[i64],
    if_match: &IfMatch,
    on_references: OnDelete,
) -> Result<BulkRemoval, ServiceError> {
    let query = FindQuery::new(Filter::one_of("public_id", ids.iter().copied()), services.max_time);
    let find = async || {
        let found = services.held(Objects::COLLECTION, query.clone()).await?;
        within_reach(services, caller, &found).await
    };
    let (removed, left) = remove_found(services, caller, if_match, on_references, find).await?;
    let found: HashSet<i64> = removed.iter().filter_map(|object| integer(object, "public_id")).collect();
    let not_found = ids.iter().copied().filter(|id| !found.contains(id)).collect();
    Ok(BulkRemoval { removed, left, not_found })
}

/// Those of the objects that the caller may see or remove; the others count as missing.
async fn within_reach(services: &Services, caller: &Caller, found: &Documents) -> Result<Documents, ServiceError> {
    let types = services.types_of(found.iter()).await?;
    let mut reached = Documents::default();
    for object in found.iter().filter(|object| types.shows_or_allows(caller, object, Permission::Delete)) {
        reached.push(object);
    }
    Ok(reached)
}

/// Removes what `find` finds, as one unit with the handling of references. Repeats after a concurrent change. Also gives what
/// still refers to it.
pub(super) async fn remove_found(
    services: &Services,
    caller: &Caller,
    if_match: &IfMatch,
    on_references: OnDelete,
    find: impl AsyncFn() -> Result<Documents, ServiceError>,
) -> Result<(Documents, Left), ServiceError> {
    let mut left = Left::default();
    for _ in 0..resource::ATTEMPTS {
        let removed = find().await?;
        if removed.is_empty() {
            return Ok((removed, left));
        }
        let types = services.types_of(removed.iter()).await?;
        for object in removed.iter() {
            let entry = removable(&types, caller, object)?;
            visible::check_tags(if_match, entry.as_deref(), caller, object)?;
        }
        let removal = Removal::of(&removed, on_references);
        let mut unit = references::unit_for_removal(services, caller, &removal).await?;
        for object in removed.iter() {
            unit = unit.and(Change::Delete { collection: Objects::COLLECTION, before: object.to_owned() });
        }
        match services.store.commit(unit).await {
            Ok(_) => {
                left.add(services, caller, &removal).await;
                return Ok((removed, left));
            }
            // Another request changed one of them, or added a reference to one, since they were read.
            Err(StoreError::Stale | StoreError::Condition { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended("the objects".to_owned()))
}

/// Sets `active`. Returns `None` if it already had this value; only callers who may read the object learn that.
///
/// # Errors
/// As [`update_object`].
pub async fn set_state(
    services: &Services,
    caller: &Caller,
    id: i64,
    if_match: &IfMatch,
    active: bool,
) -> Result<Option<VisibleObject>, ServiceError> {
    let decide = async |before: &RawDocument, _: &TypeEntry| {
        let mut after = resource::decode(before)?;
        if after.get_bool("active").ok() == Some(active) {
            return Ok(Decision { unit: Unit::default(), after: before.to_owned() });
        }
        after.insert("active", active);
        after.insert("last_edit_time", services.now());
        after.insert("editor_id", caller.user_id);
        Decision::replace::<Objects>(before, &after)
    };
    let (before, after) = change_object(services, caller, id, if_match, decide).await?;
    // The right to set the state is the right to read it.
    let types = services.types_of([&*after]).await?;
    if before.as_bytes() == after.as_bytes() && types.shows(caller, &after) {
        return Ok(None);
    }
    Ok(Some(VisibleObject::of(services, caller, after).await?))
}

/// What makes an object unclean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclean {
    /// Its field names are not exactly the type's.
    Names,
    /// That, or a value that its field does not take.
    NamesOrValues,
}

/// Narrows a list to the unclean objects of a type.
///
/// # Errors
/// [`ErrorCode::TypeNotFound`], and errors of the store.
pub async fn list_unclean(
    services: &Services,
    caller: &Caller,
    (type_id, by): (i64, Unclean),
    mut query: ListQuery,
    view: View,
) -> Result<Listed, ServiceError> {
    let entry = existing_type(services, type_id).await?;
    query.filter = query.filter.and(unclean(&entry, by));
    list_objects(services, caller, query, view).await
}

/// Cleans the unclean objects of a type; version and edit time stay.
///
/// # Errors
/// [`ErrorCode::TypeNotFound`], a missing ACL entry, an inactive type, and errors of the store.
pub async fn clean_objects(services: &Services, caller: &Caller, type_id: i64) -> Result<Cleaning, ServiceError> {
    let entry = existing_type(services, type_id).await?;
    entry.permit(caller, Permission::Update)?;
    entry.require_active()?;
    let mut outcome = Cleaning::default();
    let mut last_id = 0_i64;
    loop {
        let filter =
            unclean(&entry, Unclean::Names).and(Filter::parse(&doc! {"public_id": {"$gt": last_id}}, &Limits::NONE)?);
        let query = FindQuery::new(filter, services.max_time)
            .sorted(Sort::by("public_id", false))
            .limited(CLEAN_BATCH)
            .showing(&doc! { "public_id": 1 });
        let found = services.store.find(Objects::COLLECTION, &query).await?;
        for object in found.iter() {
            let id = integer(object, "public_id").unwrap_or_default();
            last_id = last_id.max(id);
            match clean_object(services, &entry, id).await {
                Ok(cleaned) => outcome.cleaned.push(&cleaned),
                // The default of a field that is unique by now is another object's.
                // Or the type has changed.
                Err(
                    ServiceError::Contended(_)
                    | ServiceError::Store(StoreError::Shared(_) | StoreError::Condition { .. }),
                ) => outcome.failed.push(id),
                Err(ServiceError::Refused { code: ErrorCode::ObjectNotFound, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if (found.len() as u64) < CLEAN_BATCH {
            outcome.cleaned = visible::all(services, caller, &outcome.cleaned).await?;
            return Ok(outcome);
        }
    }
}

async fn clean_object(services: &Services, entry: &TypeEntry, id: i64) -> Result<RawDocumentBuf, ServiceError> {
    let decide = async |before: &RawDocument| {
        let mut after = resource::decode(before)?;
        let fields = entry.rules.cleaned(&object_input::read_fields(after.get("fields")));
        after.insert("fields", object_input::write_fields(&fields));
        let mut decision = Decision::replace::<Objects>(before, &after)?;
        decision.unit.conditions.push(takes_objects(entry.object_type.public_id, entry.edited()));
        Ok(decision)
    };
    let changed = resource::change::<Objects>(services, id, &IfMatch::Absent, decide);
    Ok(as_action(Action::Clean, changed).await?.1)
}

/// A clean object has as many entries as its type has fields, and each field's name is among them. No entry has a value that its
/// field does not take.
fn unclean(entry: &TypeEntry, by: Unclean) -> Filter {
    let fields = &entry.object_type.fields;
    let mut wrong = vec![doc! {"fields": {"$not": {"$size": i64::try_from(fields.len()).unwrap_or(i64::MAX)}}}];
    wrong.extend(fields.iter().map(|field| doc! {"fields.name": {"$ne": &field.name}}));
    if by == Unclean::NamesOrValues {
        let values = fields.iter().filter_map(misfit).map(|odd| doc! {"fields": {"$elemMatch": odd}});
        // A pattern may be one that filters do not take.
        wrong.extend(values.filter(|odd| Filter::parse(odd, &Limits::NONE).is_ok()));
    }
    let document = doc! {"type_id": entry.object_type.public_id, "$or": wrong};
    Filter::parse(&document, &Limits::NONE).expect("the condition is made of known operators")
}

async fn existing_type(services: &Services, type_id: i64) -> Result<Arc<TypeEntry>, ServiceError> {
    services.type_with_id(type_id).await?.ok_or_else(|| ServiceError::not_found(Types::NOT_FOUND, type_id))
}
