//! What differs between two moments of an object.

use std::collections::HashSet;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, doc};

use super::as_of::AccessLists;
use super::entries::concealed;
use super::past::Moment;
use crate::domain::document::{integer, raw};
use crate::domain::object_fields::HIDDEN;
use crate::domain::object_input::read_fields;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::objects::get_object;
use crate::service::resource::{self, Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::Types;

/// What differs.
pub struct ObjectDiff {
    /// The object before; nothing if there was none.
    pub before: Option<RawDocumentBuf>,
    /// The object after; nothing if there was none.
    pub after: Option<RawDocumentBuf>,
    /// The fields that differ, in the order of the later state.
    pub fields: Vec<FieldChange>,
}

/// A field that differs. Each side is `{value}`, or nothing where the object had no such field.
pub struct FieldChange {
    /// Its name.
    pub name: String,
    /// Its label at the later moment; its name if the type has no such field.
    pub label: String,
    /// Its value before.
    pub from: Option<RawDocumentBuf>,
    /// Its value after.
    pub to: Option<RawDocumentBuf>,
}

/// What differs between the object at `from` and at `to`, by default now. Values of password fields do not
/// show.
///
/// # Errors
/// The refusal for an id without a visible object at both moments.
pub async fn diff_object(
    services: &Services,
    caller: &Caller,
    id: i64,
    from: Moment,
    to: Option<Moment>,
) -> Result<ObjectDiff, ServiceError> {
    let earlier = services.as_of(from, AccessLists::OfToday).await?;
    let later = match to {
        Some(to) => Some(services.as_of(to, AccessLists::OfToday).await?),
        None => None,
    };
    let later = later.as_ref().unwrap_or(services);
    let present = services.current_types().await?;
    let state = async |services: &Services| match get_object(services, caller, id).await {
        Ok(object) => Ok(Some(object)),
        Err(ServiceError::Refused { code: ErrorCode::ObjectNotFound, .. }) => Ok(None),
        Err(error) => Err(error),
    };
    let (before, after) = (state(&earlier).await?, state(later).await?);
    let Some(type_id) = after.as_ref().or(before.as_ref()).and_then(|object| integer(object, "type_id")) else {
        return Err(ServiceError::not_found(Objects::NOT_FOUND, id));
    };
    let (types_then, types) = (earlier.current_types().await?, later.current_types().await?);
    let labels = types.get(type_id).cloned();
    // A value shows on both sides or on none: else one that did not change would seem to have changed.
    let mut plain = plain_fields((&present, &types), after.as_deref().or(before.as_deref()));
    if let Some(before) = before.as_deref() {
        let then = plain_fields((&present, &types_then), Some(before));
        plain.retain(|name| then.contains(name));
    }
    let fields_of = |object: &Option<RawDocumentBuf>| {
        let object = object.as_deref().map(resource::decode).transpose()?;
        Ok::<_, ServiceError>(object.map(|object| read_fields(object.get("fields"))).unwrap_or_default())
    };
    let (old, new) = (fields_of(&before)?, fields_of(&after)?);
    let mut names: Vec<&str> = new.iter().map(|field| field.name.as_str()).collect();
    names
        .extend(old.iter().map(|field| field.name.as_str()).filter(|name| new.iter().all(|field| field.name != *name)));
    let shown = |name: &str, value: Bson| {
        let is_shown = plain.contains(name) || value == Bson::Null;
        raw(&doc! { "value": if is_shown { value } else { HIDDEN.into() } })
    };
    let mut fields = Vec::new();
    for name in names {
        let value = |fields: &'_ [crate::domain::object_fields::FieldValue]| {
            fields.iter().find(|field| field.name == name).map(|field| field.value.clone())
        };
        let (from, to) = (value(&old), value(&new));
        // No entry and null are the same value.
        if from.as_ref().unwrap_or(&Bson::Null) == to.as_ref().unwrap_or(&Bson::Null) {
            continue;
        }
        let label = labels.as_ref().and_then(|entry| entry.object_type.fields.iter().find(|field| field.name == name));
        fields.push(FieldChange {
            name: name.to_owned(),
            label: label.map_or_else(|| name.to_owned(), |field| field.label.clone()),
            from: from.map(|value| shown(name, value)),
            to: to.map(|value| shown(name, value)),
        });
    }
    let conceal = |object: Option<RawDocumentBuf>| object.map(|object| concealed(&object, &plain)).transpose();
    Ok(ObjectDiff { before: conceal(before)?, after: conceal(after)?, fields })
}

/// The fields of the object whose values may show: those that its type had then and has today, but passwords.
fn plain_fields<'t>((today, then): (&'t Types, &Types), object: Option<&RawDocument>) -> HashSet<&'t str> {
    let type_id = object.and_then(|object| integer(object, "type_id")).unwrap_or_default();
    let (Some(today), Some(then)) = (today.get(type_id), then.get(type_id)) else { return HashSet::new() };
    let then: HashSet<&str> = then.object_type.plain_fields().collect();
    today.object_type.plain_fields().filter(|name| then.contains(name)).collect()
}
