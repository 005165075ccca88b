//! References that lead nowhere, a page at a time. docs/api.md, References.
//!
//! *Invariant:* nothing here tells hidden objects and none apart: fields that may lead to hidden objects are passed over.

use std::fmt;

use bson::doc;

use super::bulk::GROUP_BYTES;
use super::rendering::corrupt;
use super::targets::Targets;
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::domain::object_type::Field;
use crate::domain::references::references;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::resource::{Objects, Resource, Types as StoredTypes};
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, Types};
use crate::store::{Documents, FindQuery, StoreError, as_fits};

/// How many objects one step looks at.
const STEP: u64 = 500;
/// One page looks at about this many objects.
const MOST_LOOKED_AT: usize = 10_000;

/// A reference that leads nowhere.
#[derive(Debug, PartialEq, Eq, serde::Serialize, utoipa::ToSchema)]
#[schema(as = DanglingReference)]
pub struct LostReference {
    /// The object that has it.
    pub public_id: i64,
    /// The type of that object.
    pub type_id: i64,
    /// The name of the field.
    pub field: String,
    /// The id that the field names.
    pub reference: i64,
}

/// A place in the list, which is ordered by type and id: after this object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The type of the object.
    pub type_id: i64,
    /// Its id.
    pub public_id: i64,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.type_id, self.public_id)
    }
}

/// A part of the list.
#[derive(Debug, Default)]
pub struct LostPage {
    /// The references.
    pub references: Vec<LostReference>,
    /// Where the list continues; nothing at its end.
    pub next: Option<Place>,
}

/// The references after a place, of all types or of one, until there are `most`. A page ends with the last reference of an
/// object, or when it has looked at enough objects.
///
/// # Errors
/// [`ErrorCode::TypeNotFound`](crate::service::ErrorCode::TypeNotFound) for a type that does not exist; errors of the store.
pub async fn page(
    services: &Services,
    caller: &Caller,
    of_type: Option<i64>,
    after: Place,
    most: usize,
) -> Result<LostPage, ServiceError> {
    if let Some(id) = of_type
        && services.type_with_id(id).await?.is_none()
    {
        return Err(ServiceError::not_found(StoredTypes::NOT_FOUND, id));
    }
    let types = services.current_types().await?;
    let mut page = LostPage::default();
    let mut looked_at = 0;
    for entry in types.iter() {
        let type_id = entry.object_type.public_id;
        let is_asked = type_id >= after.type_id && of_type.is_none_or(|only| only == type_id);
        if !is_asked || !has_looked_at_fields(&types, caller, entry) {
            continue;
        }
        let begin = if type_id == after.type_id { after.public_id } else { 0 };
        let mut place = Place { type_id, public_id: begin };
        loop {
            if looked_at >= MOST_LOOKED_AT {
                page.next = Some(place);
                return Ok(page);
            }
            let (found, is_last) = step(services, place).await?;
            looked_at += found.len();
            for (id, lost) in lost_in(services, caller, (&types, entry), &found).await? {
                place.public_id = id;
                page.references.extend(lost);
                if page.references.len() >= most {
                    page.next = Some(place);
                    return Ok(page);
                }
            }
            if is_last {
                break;
            }
        }
    }
    Ok(page)
}

/// The next objects of a type, and whether they are its last.
async fn step(services: &Services, after: Place) -> Result<(Documents, bool), ServiceError> {
    let behind = doc! {"type_id": after.type_id, "public_id": {"$gt": after.public_id}};
    let filter = Filter::ours(&behind);
    let query = FindQuery::new(filter, services.max_time)
        .sorted(Sort::by("public_id", false))
        .limited(STEP)
        .showing(&doc! {"public_id": 1, "fields": 1});
    match services.store.find(Objects::COLLECTION, &query.clone().within(GROUP_BYTES)).await {
        Err(StoreError::TooLarge) => {
            let found = as_fits(&*services.store, Objects::COLLECTION, query, GROUP_BYTES).await?;
            let is_last = found.is_empty();
            Ok((found, is_last))
        }
        found => {
            let found = found?;
            let is_last = (found.len() as u64) < STEP;
            Ok((found, is_last))
        }
    }
}

/// Each of the objects of a type, with its references that lead nowhere.
async fn lost_in(
    services: &Services,
    caller: &Caller,
    (types, entry): (&Types, &TypeEntry),
    found: &Documents,
) -> Result<Vec<(i64, Vec<LostReference>)>, ServiceError> {
    let object_type = &entry.object_type;
    let mut all = Vec::with_capacity(found.len());
    for object in found.iter() {
        let mut of_object = references(object, object_type).map_err(corrupt)?;
        of_object.retain(|(position, _)| is_looked_at(types, caller, entry, &object_type.fields[*position]));
        all.push((integer(object, "public_id").unwrap_or_default(), of_object));
    }
    let named = all.iter().flat_map(|(_, of_object)| of_object.iter().map(|(_, id)| *id));
    let targets = Targets::read(services, types.visible_to(caller), named).await?;
    let lost = |public_id: i64, (position, reference): (usize, i64)| LostReference {
        public_id,
        type_id: object_type.public_id,
        field: object_type.fields[position].name.clone(),
        reference,
    };
    let only_lost = |(id, of_object): (i64, Vec<(usize, i64)>)| {
        let lost = of_object.into_iter().filter(|(_, to)| !targets.contains(*to)).map(|found| lost(id, found));
        (id, lost.collect())
    };
    Ok(all.into_iter().map(only_lost).collect())
}

/// Whether the caller sees the objects of the type, and it has a field whose references are looked at.
fn has_looked_at_fields(types: &Types, caller: &Caller, entry: &TypeEntry) -> bool {
    let is_seen = entry.object_type.acl.allows(caller.group_id, Permission::Read);
    is_seen && entry.object_type.fields.iter().any(|field| is_looked_at(types, caller, entry, field))
}

/// Whether it is a reference that cannot lead to objects which are hidden from the caller. With others, hidden objects and none
/// would be distinguishable.
fn is_looked_at(types: &Types, caller: &Caller, entry: &TypeEntry, field: &Field) -> bool {
    let mut targets = entry.object_type.targets(field).peekable();
    let leads_anywhere = targets.peek().is_none();
    let is_hidden =
        |id: i64| types.get(id).is_some_and(|target| !target.object_type.acl.allows(caller.group_id, Permission::Read));
    field.is_reference() && !targets.any(is_hidden) && !(leads_anywhere && types.hides_some(caller.group_id))
}
