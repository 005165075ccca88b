//! Who refers to an object, and what becomes of the references when it goes (decisions 9).

use std::sync::Arc;

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};

use super::resource::{self, Objects, Resource};
use super::type_catalog::{TypeEntry, Types};
use super::{ServiceError, Services};
use crate::domain::object_input;
use crate::query::{Filter, Limits};
use crate::store::{Change, Condition, FindQuery, Unit};

/// What a delete does to objects that refer to the one that goes.
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

/// The condition for objects that refer to this object: their type has a field that may refer to objects of its
/// type, and the value in that very field is its id.
///
/// # Errors
/// What the store reports.
pub async fn referring_to(services: &Services, object: &RawDocument) -> Result<Filter, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let id = resource::whole(object, "public_id").unwrap_or_default();
    let branches: Vec<Document> = referring_fields(&types, resource::whole(object, "type_id"))
        .into_iter()
        .map(|(entry, names)| {
            let field = doc! {"name": {"$in": names}, "value": id};
            doc! {"type_id": entry.object_type.public_id, "fields": {"$elemMatch": field}}
        })
        .collect();
    let document = if branches.is_empty() {
        // No type can refer to it: nothing matches.
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

/// What has to happen to references when `object` is removed, as the beginning of the unit that removes it.
///
/// # Errors
/// [`ServiceError::Invalid`] when there are references and they are to be refused.
pub async fn unit_for_removal(
    services: &Services,
    object: &RawDocument,
    on_references: OnReferences,
) -> Result<Unit, ServiceError> {
    if on_references == OnReferences::Keep {
        return Ok(Unit::default());
    }
    let filter = referring_to(services, object).await?;
    if on_references == OnReferences::Refuse {
        let count = services.store.count(Objects::COLLECTION, &filter, services.max_time).await?;
        if count > 0 {
            return Err(refused(count));
        }
        return Ok(Unit::default().given(Condition::None { collection: Objects::COLLECTION, filter }));
    }
    clear_references(services, object, filter).await
}

/// The refusal to remove an object that `count` others refer to.
pub fn refused(count: u64) -> ServiceError {
    let message = format!("objects refer to this one ({count}); on_references=clear sets their references to null");
    ServiceError::invalid("object_referenced", message)
}

async fn clear_references(services: &Services, object: &RawDocument, filter: Filter) -> Result<Unit, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let id = resource::whole(object, "public_id").unwrap_or_default();
    let own_id = object.get("_id").ok().flatten();
    let referring = referring_fields(&types, resource::whole(object, "type_id"));
    let found = services.store.find(Objects::COLLECTION, &FindQuery::new(filter, services.max_time)).await?;
    let mut unit = Unit::default();
    for before in found.iter().filter(|found| found.get("_id").ok().flatten() != own_id) {
        let type_id = resource::whole(before, "type_id");
        let names = referring.iter().find(|(entry, _)| Some(entry.object_type.public_id) == type_id);
        let Some((_, names)) = names else { continue };
        let mut after = resource::decode(before)?;
        let mut fields = object_input::read_fields(after.get("fields"));
        for field in fields.iter_mut().filter(|field| names.contains(&field.name)) {
            if field.value == Bson::Int64(id) || i32::try_from(id).is_ok_and(|id| field.value == Bson::Int32(id)) {
                field.value = Bson::Null;
            }
        }
        after.insert("fields", object_input::write_fields(&fields));
        after.insert("last_edit_time", services.now());
        let after = resource::encode(&after)?;
        unit = unit.and(Change::Replace { collection: Objects::COLLECTION, before: before.to_owned(), after });
    }
    Ok(unit)
}
