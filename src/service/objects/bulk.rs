//! Many objects in one request: created one by one or together, changed and removed by a filter.
//!
//! The rules are those for single objects, but one query serves all items: one for the referenced objects, one for the
//! authors, one for new ids.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bson::oid::ObjectId;
use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, cstr, doc};

use super::references::{Left, changeable};
use super::targets::Targets;
use super::{remove_found, require_type, takes_objects, unknown_type};
use crate::domain::acl::Permission;
use crate::domain::document::{integer, text};
use crate::domain::object_fields::{Accepted, Reference};
use crate::domain::object_input::{self, ObjectInput};
use crate::domain::on_delete::OnDelete;
use crate::domain::{Violation, Violations};
use crate::plural::counted;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::claims::told::{said, told};
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::once::{self, Hash, Once};
use crate::service::precondition::IfMatch;
use crate::service::resource::{self, Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, Types};
use crate::service::types::late::{is_about_types, types_in};
use crate::store::{Change, Condition, Documents, FindQuery, Shared, StoreError, Unit};

/// How many objects one unit stores when each item is on its own.
const GROUP: usize = 1000;

/// The maximum bytes of documents in such a unit, unless one document alone has more. A MongoDB server refuses a
/// transaction that takes too much of its cache.
pub(crate) const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// How many documents of these sizes go into one unit; at least one.
pub(crate) fn of_one_unit(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        bytes += size;
        bytes <= GROUP_BYTES
    };
    sizes.take(GROUP).take_while(fits).count().max(1)
}

/// After this many items other tasks of this thread get a turn.
const TURN: usize = 200;

/// The outcome of an item: the id of the stored object, or the error.
pub type Outcome = Result<i64, ServiceError>;

/// Objects selected by a filter, with the number that the caller expects.
pub struct Selection {
    /// The filter, on the objects that the caller may see.
    pub filter: Filter,
    /// Another number is a failed precondition.
    pub expected_count: u64,
    /// The maximum number of objects.
    pub most: u64,
}

/// A request to create objects with an idempotency key.
pub fn once(caller: &Caller, key: &str, atomic: bool, bodies: &[Result<RawDocumentBuf, ServiceError>]) -> Once {
    let mut said = Hash::default().with(&[u8::from(atomic)]);
    for body in bodies {
        match body {
            Ok(body) => said.add(body.as_bytes()),
            Err(error) => said.add(error.to_string().as_bytes()),
        }
    }
    Once::new(caller.user_id, "bulk", key, said)
}

/// What an earlier request stored under the same key.
#[derive(Default)]
struct Earlier {
    /// Ids by the position of the item.
    ids: BTreeMap<usize, i64>,
    /// The number of the next unit.
    units: usize,
}

impl Earlier {
    async fn of(services: &Services, once: Option<&Once>) -> Result<Self, ServiceError> {
        let Some(once) = once else { return Ok(Self::default()) };
        let marks = once.marks(services).await?;
        let numbers = marks.iter().filter_map(|mark| text(mark, "_id")?.rsplit('/').next()?.parse::<usize>().ok());
        let mut earlier = Self { ids: BTreeMap::new(), units: numbers.max().map_or(0, |last| last + 1) };
        for mark in marks.iter() {
            let mark = resource::decode(mark)?;
            let numbers = |name: &str| {
                let list = mark.get_array(name).cloned().unwrap_or_default();
                list.into_iter().filter_map(|number| number.as_i64()).collect::<Vec<i64>>()
            };
            let positions = numbers(POSITIONS).into_iter().filter_map(|position| usize::try_from(position).ok());
            earlier.ids.extend(positions.zip(numbers(IDS)));
        }
        Ok(earlier)
    }
}

/// The members of a mark: positions of items, and the ids of their objects.
const POSITIONS: &str = "items";
const IDS: &str = "ids";

/// The note that a unit stores together with its objects.
#[derive(Clone, Copy)]
struct Note<'a> {
    once: &'a Once,
    /// The number of the unit among those under the same key.
    number: usize,
    /// The positions of the objects in the request.
    positions: &'a [usize],
}

impl Note<'_> {
    fn change(&self, drafts: &[CheckedObject], now: DateTime) -> Change {
        let positions: Vec<i64> =
            self.positions.iter().map(|position| i64::try_from(*position).unwrap_or(i64::MAX)).collect();
        let ids: Vec<i64> = drafts.iter().map(|draft| draft.id).collect();
        self.once.mark(self.number, now, doc! {POSITIONS: positions, IDS: ids})
    }
}

/// Stores new objects one by one, and returns the outcome of each item in order. Items that were stored before under
/// the key of `once` are reported again; the others are tried again.
///
/// # Errors
/// An error of the store before anything was stored, and another request under the same key.
pub async fn create_each(
    services: &Services,
    caller: &Caller,
    bodies: Vec<Result<RawDocumentBuf, ServiceError>>,
    once: Option<&Once>,
) -> Result<Vec<Outcome>, ServiceError> {
    let mut earlier = Earlier::of(services, once).await?;
    let mut outcomes: Vec<Option<Outcome>> =
        (0..bodies.len()).map(|position| earlier.ids.get(&position).map(|id| Ok(*id))).collect();
    let new = bodies.into_iter().enumerate().filter(|(position, _)| !earlier.ids.contains_key(position));
    let (places, bodies): (Vec<usize>, Vec<_>) = new.unzip();
    let mut drafts = Vec::new();
    for (position, draft) in places.into_iter().zip(drafts_of(services, caller, bodies).await?) {
        match draft {
            Ok(draft) => drafts.push((position, draft)),
            Err(error) => outcomes[position] = Some(Err(error)),
        }
    }
    let mut begun = !earlier.ids.is_empty();
    while !drafts.is_empty() {
        let rest = drafts.split_off(of_one_unit(drafts.iter().map(|(_, draft)| draft.document.as_bytes().len())));
        let (mut positions, mut group): (Vec<usize>, Vec<CheckedObject>) = drafts.into_iter().unzip();
        drafts = rest;
        let failure = loop {
            let note = once.map(|once| Note { once, number: earlier.units, positions: &positions });
            match store((services, caller), &mut group, note).await {
                Ok(refused) if refused.is_empty() => break None,
                Ok(refused) => {
                    for (index, error) in refused.into_iter().rev() {
                        group.remove(index);
                        outcomes[positions.remove(index)] = Some(Err(error));
                    }
                }
                Err(error) if !begun => return Err(error),
                Err(error) => break Some(error.to_string()),
            }
        };
        begun = true;
        if failure.is_none() {
            earlier.units += 1;
        } else if once.is_some() {
            // Another request under the same key may be storing the rest.
            let (places, rest): (Vec<usize>, Vec<CheckedObject>) = std::mem::take(&mut drafts).into_iter().unzip();
            positions.extend(places);
            group.extend(rest);
        }
        for (position, draft) in positions.into_iter().zip(group) {
            outcomes[position] = Some(match &failure {
                None => Ok(draft.id),
                Some(reason) => Err(StoreError::Unavailable { reason: reason.clone() }.into()),
            });
        }
    }
    Ok(outcomes.into_iter().flatten().collect())
}

/// Stores new objects, all or none, and returns their ids. A repeated request under the key of `once` gets the ids of
/// the first one.
///
/// # Errors
/// The violations of items, each place with the item's number in front. The first item that the caller may not store.
/// Errors of the store, and another request under the same key.
pub async fn create_together(
    services: &Services,
    caller: &Caller,
    bodies: Vec<Result<RawDocumentBuf, ServiceError>>,
    once: Option<&Once>,
) -> Result<Vec<i64>, ServiceError> {
    let earlier = Earlier::of(services, once).await?;
    if earlier.units > 0 {
        return Ok(earlier.ids.into_values().collect());
    }
    let (mut drafts, mut refused) = (Vec::new(), Vec::new());
    for (position, draft) in drafts_of(services, caller, bodies).await?.into_iter().enumerate() {
        match draft {
            Ok(draft) => drafts.push(draft),
            Err(error) => refused.push((position, error)),
        }
    }
    if refused.is_empty() && !drafts.is_empty() {
        let positions: Vec<usize> = (0..drafts.len()).collect();
        let note = once.map(|once| Note { once, number: 0, positions: &positions });
        refused = store((services, caller), &mut drafts, note).await?;
    }
    let (mut violations, mut taken) = (Violations::new(), Violations::new());
    for (position, error) in refused {
        match error {
            ServiceError::Violations(found) => {
                let placed = |it: Violation| Violation::new(format!("/{position}{}", it.pointer), it.message);
                violations.append(found.map(placed));
            }
            ServiceError::Clash { places, .. } => {
                taken.append(places.map(|it| Violation::new(format!("/{position}{}", it.pointer), it.message)));
            }
            ServiceError::Refused { code: code @ (ErrorCode::AclDenied | ErrorCode::TypeInactive), message } => {
                return Err(ServiceError::refused(code, format!("item {position}: {message}")));
            }
            error => violations.push(Violation::new(format!("/{position}"), error.to_string())),
        }
    }
    if !taken.is_empty() && violations.is_empty() {
        return Err(ServiceError::Clash { code: ErrorCode::ObjectValueTaken, places: taken });
    }
    if violations.is_empty() {
        return Ok(drafts.into_iter().map(|draft| draft.id).collect());
    }
    Err(violations.into())
}

/// Merges the patch (RFC 7396) into each of the objects, their `fields` by name; all or none. Returns their ids.
///
/// # Errors
/// Another number of objects than expected, too many, and for each of them those of
/// [`objects::patch_object`](crate::service::objects::patch_object).
pub async fn patch_selected(
    services: &Services,
    caller: &Caller,
    selection: &Selection,
    patch: &serde_json::Value,
) -> Result<Vec<i64>, ServiceError> {
    let patch = resource::body_of_patch(patch)?;
    for _ in 0..resource::ATTEMPTS {
        let found = select(services, caller, selection).await?;
        let decide = async || unit_of_patch(services, caller, &found, &patch).await;
        let mut unit = services.by_the_types(decide).await?;
        if unit.changes.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<i64> = found.iter().filter_map(|object| integer(object, "public_id")).collect();
        if let Some(mark) = once::noted(services.now(), || Ok(doc! { IDS: ids.clone() }))? {
            unit.changes.insert(0, mark);
        }
        match services.store.commit(unit).await {
            Ok(_) => return Ok(ids),
            // Another request changed one of them, their type, or one of their references, since they were read.
            Err(StoreError::Stale) => {}
            Err(StoreError::Condition { .. }) => drop(services.types_anew().await?),
            Err(error @ StoreError::Shared(_)) => {
                let place = |shared: &Shared| ObjectInput::read(&patch).0.place_of(&shared.field);
                return told(services, caller, Err(error.into()), place).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended("the objects".to_owned()))
}

/// The ids that an earlier request under the same key changed.
pub fn patched_before(outcome: &Document) -> Vec<i64> {
    outcome.get_array(IDS).into_iter().flatten().filter_map(Bson::as_i64).collect()
}

/// Removes the objects, all or none. `on_references` says what happens to objects that refer to them. Also gives what still
/// refers to them.
///
/// # Errors
/// Another number of objects than expected, too many, and those of
/// [`objects::delete_objects`](crate::service::objects::delete_objects).
pub async fn delete_selected(
    services: &Services,
    caller: &Caller,
    selection: &Selection,
    on_references: OnDelete,
) -> Result<(Documents, Left), ServiceError> {
    let find = async || select(services, caller, selection).await;
    remove_found(services, caller, &IfMatch::Absent, on_references, find).await
}

/// The selected objects, if their number is the expected one.
async fn select(services: &Services, caller: &Caller, selection: &Selection) -> Result<Documents, ServiceError> {
    let mut types = services.current_types().await?;
    let found = loop {
        let filter = types.scope(caller, selection.filter.clone());
        let query = FindQuery::new(filter, services.max_time).sorted(Sort::by("public_id", false));
        let found = services.held(Objects::COLLECTION, query.limited(selection.most + 1)).await?;
        let newer = services.types_knowing(Arc::clone(&types), types_in(found.iter())).await?;
        if Arc::ptr_eq(&newer, &types) {
            break found;
        }
        types = newer;
    };
    let count = found.len() as u64;
    if count > selection.most {
        let message =
            format!("the filter matches more than {}, the most for one request", counted(selection.most, "object"));
        return Err(ServiceError::refused(ErrorCode::TooManyObjects, message));
    }
    if count != selection.expected_count {
        let message = format!(
            "the filter matches {}, not {}; nothing was changed",
            counted(count, "object"),
            selection.expected_count
        );
        return Err(ServiceError::PreconditionFailed(message));
    }
    Ok(found)
}

async fn unit_of_patch(
    services: &Services,
    caller: &Caller,
    found: &Documents,
    patch: &Document,
) -> Result<Unit, ServiceError> {
    let mut changes: Vec<(&RawDocument, Document, Vec<Reference>)> = Vec::with_capacity(found.len());
    let (mut violations, mut of_types) = (Violations::new(), BTreeMap::new());
    let types = services.types_of(found.iter()).await?;
    for (index, before) in found.iter().enumerate() {
        give_way(index).await;
        let id = integer(before, "public_id").unwrap_or_default();
        let entry = changeable(&types, caller, before, Permission::Update)?;
        of_types.entry(entry.object_type.public_id).or_insert_with(|| entry.edited());
        let stored = resource::decode(before)?;
        let body = object_input::patched(patch.clone(), &stored);
        match checked_change(&entry, id, &body, &stored) {
            Ok((input, accepted)) => {
                let after = input.updated(&stored, &accepted.fields, caller.user_id, services.now());
                changes.push((before, after, accepted.references));
            }
            Err(found) => violations.append(of_object(id, found)),
        }
    }
    let references = || changes.iter().flat_map(|(_, _, references)| references);
    let referred = references().map(|reference| reference.object_id);
    let targets = Targets::read(services, types.visible_to(caller), referred).await?;
    for (before, _, references) in &changes {
        violations.append(of_object(integer(before, "public_id").unwrap_or_default(), targets.dangling(references)));
    }
    violations.none()?;
    let referred: BTreeSet<i64> = references().map(|reference| reference.object_id).collect();
    let referred = referred.into_iter().map(|id| Condition::exists(Objects::COLLECTION, id));
    let of_types = of_types.into_iter().map(|(id, edited)| takes_objects(id, edited));
    let mut unit = Unit { conditions: referred.chain(of_types).collect(), changes: Vec::new() };
    for (before, after, _) in &changes {
        let after = resource::encode(after)?;
        unit = unit.and(Change::Replace { collection: Objects::COLLECTION, before: (*before).to_owned(), after });
    }
    Ok(unit)
}

/// The body of a change of one object, checked by the rules of its type, except for its references.
fn checked_change(
    entry: &TypeEntry,
    id: i64,
    body: &Document,
    stored: &Document,
) -> Result<(ObjectInput, Accepted), Violations> {
    let (input, mut violations) = ObjectInput::read(body);
    let is_field = |name: &str| entry.object_type.field(name).is_some();
    violations.append(object_input::unknown_members(body, Some(stored), is_field));
    if input.public_id.is_some_and(|other| other != id) {
        violations.push(Violation::new("/public_id", "cannot be changed; leave it out"));
    }
    if input.type_id.is_some_and(|other| other != entry.object_type.public_id) {
        violations.push(Violation::new("/type_id", "the type of an object cannot change"));
    }
    if violations.has_below("/fields") {
        return Err(input.placed(violations));
    }
    match entry.rules.check(&input.fields, &object_input::read_fields(stored.get("fields"))) {
        Ok(mut accepted) if violations.is_empty() => {
            accepted.references = input.placed_references(accepted.references);
            Ok((input, accepted))
        }
        Ok(_) => Err(input.placed(violations)),
        Err(found) => {
            violations.append(found);
            Err(input.placed(violations))
        }
    }
}

/// The same violations with the id of the object, because all objects share the body.
fn of_object(id: i64, violations: Violations) -> Violations {
    violations.map(|it| Violation::new(it.pointer, format!("object {id}: {}", it.message)))
}

/// A valid object that is not stored yet.
struct CheckedObject {
    /// The id that the client wants.
    wanted: Option<i64>,
    type_id: i64,
    /// When its type was last changed before the checks.
    edited: Bson,
    references: Vec<Reference>,
    id: i64,
    document: RawDocumentBuf,
}

/// An item during the checks, in a compact form: there may be 10,000 of them.
#[derive(Default)]
struct BulkItem {
    wanted: Option<i64>,
    author_id: i64,
    type_id: Option<i64>,
    edited: Option<Bson>,
    references: Vec<Reference>,
    violations: Violations,
    /// The document without its ids; empty if the item is wrong.
    document: RawDocumentBuf,
}

/// The maximum number of violations of all items of a request together.
const MOST_VIOLATIONS: usize = 1000;

/// Checks the items, and assigns ids to the valid ones.
async fn drafts_of(
    services: &Services,
    caller: &Caller,
    bodies: Vec<Result<RawDocumentBuf, ServiceError>>,
) -> Result<Vec<Result<CheckedObject, ServiceError>>, ServiceError> {
    let mut types = services.current_types().await?;
    let (now, mut room) = (services.now(), MOST_VIOLATIONS);
    let mut items = Vec::with_capacity(bodies.len());
    let mut is_newest = false;
    for (index, body) in bodies.into_iter().enumerate() {
        give_way(index).await;
        let read = |types: &Types| match &body {
            Ok(body) => BulkItem::read(types, caller, &resource::decode(body)?, now),
            Err(_) => Ok(BulkItem::default()),
        };
        let mut item = read(&types);
        // Another instance may have just made the type or the field: the types are read again for all items.
        if !is_newest && matches!(&item, Ok(item) if is_about_types(&item.violations)) {
            is_newest = true;
            types = services.types_anew().await?;
            item = read(&types);
        }
        let mut item = body.and(item);
        if let Ok(item) = &mut item {
            item.violations.limit(room);
            room -= item.violations.listed().len();
        }
        items.push(item);
    }
    let good = || items.iter().flatten();
    let referred = good().flat_map(|item| item.references.iter().map(|reference| reference.object_id));
    let named = referred.chain(good().filter_map(|item| item.wanted));
    let targets = Targets::read(services, types.visible_to(caller), named).await?;
    let authors: BTreeSet<i64> = good().map(|item| item.author_id).collect();
    let known = services.directory.existing(&authors).await?;
    let mut wanted = BTreeSet::new();
    let mut drafts: Vec<Result<CheckedObject, ServiceError>> = Vec::with_capacity(items.len());
    for item in items {
        drafts.push(item.and_then(|item| item.draft(&targets, &known, &mut wanted)));
    }
    let mut fresh: Vec<&mut CheckedObject> =
        drafts.iter_mut().flatten().filter(|draft| draft.wanted.is_none()).collect();
    number(services, &mut fresh).await?;
    for draft in &mut drafts {
        if let Ok(checked) = draft
            && let Err(error) = checked.write()
        {
            *draft = Err(error);
        }
    }
    Ok(drafts)
}

impl BulkItem {
    fn read(types: &Types, caller: &Caller, body: &Document, now: DateTime) -> Result<Self, ServiceError> {
        let (input, mut violations) = ObjectInput::read(body);
        let entry = input.type_id.and_then(|type_id| types.get(type_id));
        let is_field = |name: &str| entry.is_some_and(|entry| entry.object_type.field(name).is_some());
        violations.append(object_input::unknown_members(body, None, is_field));
        if let Some(entry) = entry {
            entry.permit(caller, Permission::Create)?;
            entry.require_active()?;
        } else if !violations.has("/type_id") {
            violations.push(unknown_type(input.type_id));
        }
        let is_whole = !violations.has_below("/fields");
        let accepted = match entry.filter(|_| is_whole).map(|entry| entry.rules.check(&input.fields, &[])) {
            Some(Ok(accepted)) => accepted,
            Some(Err(found)) => {
                violations.append(found);
                Accepted::default()
            }
            None => Accepted::default(),
        };
        let type_id = entry.map(|entry| entry.object_type.public_id);
        let document = match type_id.filter(|_| violations.is_empty()) {
            Some(type_id) => resource::encode(&input.created(0, type_id, &accepted.fields, now))?,
            None => RawDocumentBuf::new(),
        };
        let (wanted, author_id) = (input.public_id, input.author_id);
        let references = input.placed_references(accepted.references);
        let edited = entry.map(|entry| entry.edited());
        Ok(Self { wanted, author_id, type_id, edited, references, violations: input.placed(violations), document })
    }

    fn draft(
        mut self,
        targets: &Targets,
        authors: &BTreeSet<i64>,
        wanted: &mut BTreeSet<i64>,
    ) -> Result<CheckedObject, ServiceError> {
        self.violations.append(targets.dangling(&self.references));
        let author = self.author_id;
        if !authors.contains(&author) && !self.violations.has("/author_id") {
            self.violations.push(Violation::new("/author_id", format!("user {author} does not exist")));
        }
        self.violations.extend(self.wanted.and_then(resource::no_id));
        let type_id = self.type_id.filter(|_| self.violations.is_empty());
        let Some(type_id) = type_id else { return Err(ServiceError::Violations(self.violations)) };
        if self.wanted.is_some_and(|id| targets.contains(id) || !wanted.insert(id)) {
            return Err(taken());
        }
        Ok(CheckedObject {
            id: self.wanted.unwrap_or_default(),
            wanted: self.wanted,
            type_id,
            edited: self.edited.unwrap_or(Bson::Null),
            references: self.references,
            document: self.document,
        })
    }
}

impl CheckedObject {
    /// Puts the ids into the document.
    fn write(&mut self) -> Result<(), ServiceError> {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), ObjectId::new());
        for member in &self.document {
            match member.map_err(StoreError::backend)? {
                (name, _) if name == cstr!("_id") => {}
                (name, _) if name == cstr!("public_id") => document.append(name, self.id),
                (name, value) => document.append(name, value),
            }
        }
        self.document = document;
        Ok(())
    }

    fn refers_to(&self, id: i64) -> Option<&Reference> {
        self.references.iter().find(|reference| reference.object_id == id)
    }
}

/// Gives each of the drafts a new id.
async fn number(services: &Services, drafts: &mut [&mut CheckedObject]) -> Result<(), ServiceError> {
    let Some(count) = u32::try_from(drafts.len()).ok().filter(|count| *count > 0) else { return Ok(()) };
    let first = services.store.reserve_ids(Objects::COLLECTION, count).await?;
    for (draft, id) in drafts.iter_mut().zip(first..) {
        draft.id = id;
    }
    Ok(())
}

/// Stores the drafts as one unit with its note. If one of them can no longer be stored, it says which, and stores none.
async fn store(
    (services, caller): (&Services, &Caller),
    drafts: &mut [CheckedObject],
    note: Option<Note<'_>>,
) -> Result<Vec<(usize, ServiceError)>, ServiceError> {
    let types: BTreeMap<i64, Bson> = drafts.iter().map(|draft| (draft.type_id, draft.edited.clone())).collect();
    let references = drafts.iter().flat_map(|draft| &draft.references);
    let referred: BTreeSet<i64> = references.map(|reference| reference.object_id).collect();
    let of_types = types.iter().map(|(id, edited)| takes_objects(*id, edited.clone()));
    let conditions: Vec<Condition> =
        of_types.chain(referred.iter().map(|id| Condition::exists(Objects::COLLECTION, *id))).collect();
    for _ in 0..resource::ATTEMPTS {
        let insert = |draft: &CheckedObject| Change::Insert {
            collection: Objects::COLLECTION,
            document: draft.document.clone(),
        };
        let noted = note.map(|note| note.change(drafts, services.now()));
        let unit = Unit { conditions: conditions.clone(), changes: drafts.iter().map(insert).chain(noted).collect() };
        match services.store.commit(unit).await {
            Ok(_) => return Ok(Vec::new()),
            Err(error) if Once::was_faster(&error) => {
                return Err(ServiceError::Contended("the request under this Idempotency-Key".to_owned()));
            }
            Err(StoreError::Condition { index }) => {
                let gone = types.keys().nth(index);
                if let Some(id) = gone {
                    match require_type(services, *id).await {
                        // It has changed since, so the items must be checked again.
                        Ok(()) => {
                            services.types_anew().await?;
                            return Err(ServiceError::Contended(format!("type {id}")));
                        }
                        Err(ServiceError::Violations(_)) => {}
                        Err(refused) => return Err(refused),
                    }
                }
                let lost = index.checked_sub(types.len()).and_then(|index| referred.iter().nth(index));
                return Ok(concerned(drafts, |draft| match (gone, lost) {
                    (Some(id), _) => {
                        (draft.type_id == *id).then(|| ServiceError::Violations(unknown_type(Some(*id)).into()))
                    }
                    (None, Some(id)) => draft.refers_to(*id).map(|reference| {
                        ServiceError::violation(reference.pointer.as_str(), format!("object {id} does not exist"))
                    }),
                    (None, None) => None,
                }));
            }
            Err(StoreError::Shared(shared)) => return of_values(services, caller, drafts, &shared).await,
            Err(StoreError::Duplicate { .. }) => {
                let wanted = drafts.iter().filter_map(|draft| draft.wanted);
                // An id is taken even if the caller may not see its object.
                let stored = Targets::read(services, None, wanted).await?;
                let taken = concerned(drafts, |draft| draft.wanted.filter(|id| stored.contains(*id)).map(|_| taken()));
                if !taken.is_empty() {
                    return Ok(taken);
                }
                // Another tool stored documents under reserved ids; the store has moved its counter past them.
                let mut fresh: Vec<&mut CheckedObject> =
                    drafts.iter_mut().filter(|draft| draft.wanted.is_none()).collect();
                number(services, &mut fresh).await?;
                for draft in fresh {
                    draft.write()?;
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(ServiceError::Contended("the counter of the objects".to_owned()))
}

/// The refusals of drafts whose unique values others have: stored objects, or drafts before them.
async fn of_values(
    services: &Services,
    caller: &Caller,
    drafts: &[CheckedObject],
    shared: &[Shared],
) -> Result<Vec<(usize, ServiceError)>, ServiceError> {
    let position = |id: Option<&i64>| drafts.iter().position(|draft| Some(&draft.id) == id);
    let mut places: BTreeMap<usize, Violations> = BTreeMap::new();
    for shared in shared {
        let Some(late) = position(shared.ids.last()) else { continue };
        let message = match position(shared.ids.first()) {
            Some(_) => format!("another item of the request has this value of {}, which is unique", shared.field),
            None => said(services, caller, shared).await?,
        };
        let input = ObjectInput::read(&resource::decode(&drafts[late].document)?).0;
        places.entry(late).or_default().push(Violation::new(input.place_of(&shared.field), message));
    }
    let refused = |places| ServiceError::Clash { code: ErrorCode::ObjectValueTaken, places };
    Ok(places.into_iter().map(|(late, places)| (late, refused(places))).collect())
}

fn concerned(
    drafts: &[CheckedObject],
    refusal: impl Fn(&CheckedObject) -> Option<ServiceError>,
) -> Vec<(usize, ServiceError)> {
    drafts.iter().enumerate().filter_map(|(index, draft)| Some((index, refusal(draft)?))).collect()
}

/// As for a single object whose wanted id belongs to another one.
fn taken() -> ServiceError {
    resource::taken::<Objects>("public_id")
}

/// Yields to other tasks of this thread from time to time.
pub(in crate::service) async fn give_way(index: usize) {
    if index % TURN == TURN - 1 {
        tokio::task::yield_now().await;
    }
}
