//! Writes the object that has a value of a unique field, whether there is one or not.

use std::sync::Arc;

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};

use super::visible::VisibleObject;
use super::{by_one_state, change_object, place_of, replace_object, store_object};
use crate::domain::acl::Permission;
use crate::domain::object_fields::{FieldValue, ValueKind};
use crate::domain::object_input::ObjectInput;
use crate::exchange::cell;
use crate::exchange::locale::Locale;
use crate::service::accounts::directory::Caller;
use crate::service::claims::changes::owners;
use crate::service::claims::rules::{Rule, Rules};
use crate::service::claims::told::told;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::precondition::IfMatch;
use crate::service::resource::{self, Resource, Types};
use crate::service::services::Services;
use crate::service::types::catalog::TypeEntry;
use crate::store::{Shared, StoreError};

/// The right to make objects.
const ADD: &str = "base.framework.object.add";

/// Which object is written.
#[derive(Debug, Clone)]
pub struct ByValue {
    /// The id of its type, or the name.
    pub type_name: String,
    /// A unique field of the type.
    pub field: String,
    /// The value, as a cell of a table has it.
    pub value: String,
}

/// What was written.
pub struct Written {
    /// The object.
    pub object: VisibleObject,
    /// Whether it was made.
    pub is_new: bool,
}

/// The claim of the value in question.
struct Aim<'a> {
    entry: &'a TypeEntry,
    rule: &'a Rule,
    value: Bson,
    claim: String,
}

/// Changes the object that has the value; makes one if there is none.
///
/// # Errors
/// As for the creation and the change of an object by its id. An unknown or hidden type, a field that is not unique, a body
/// that contradicts the path.
pub async fn write_by_value(
    services: &Services,
    caller: &Caller,
    place: &ByValue,
    if_match: &IfMatch,
    body: &Document,
) -> Result<Written, ServiceError> {
    let entry = type_of(services, caller, &place.type_name).await?;
    for _ in 0..resource::ATTEMPTS {
        let rules = Rules::read(&*services.store, services.max_time).await?;
        let rule = rules.of_field(entry.object_type.public_id, &place.field);
        let aim = aim(&entry, rule, place)?;
        let owner = owners(&*services.store, &[&aim.claim], services.max_time).await?.remove(&aim.claim);
        let outcome = match owner {
            Some(id) => changed(services, caller, (id, if_match), &aim, body).await,
            None => made(services, caller, if_match, &aim, body).await,
        };
        match outcome {
            Ok(Some(written)) => return Ok(written),
            // Somebody else made it, changed its value, or removed it.
            Ok(None) => {}
            outcome @ Err(_) => {
                let written = told(services, caller, outcome, |shared| place_of(body, shared)).await?;
                return written.ok_or_else(|| ServiceError::Contended("the object".to_owned()));
            }
        }
    }
    Err(ServiceError::Contended("the object".to_owned()))
}

/// The type with this id or name, if the caller may read its objects.
async fn type_of(services: &Services, caller: &Caller, name: &str) -> Result<Arc<TypeEntry>, ServiceError> {
    let id = name.parse::<i64>().ok();
    let types = services.types_anew().await?;
    let mut named = types.iter().filter(|entry| match id {
        Some(id) => entry.object_type.public_id == id,
        None => entry.object_type.name == name,
    });
    let entry = named.next().filter(|entry| entry.permit(caller, Permission::Read).is_ok());
    entry.cloned().ok_or_else(|| ServiceError::not_found(Types::NOT_FOUND, name))
}

fn aim<'a>(entry: &'a TypeEntry, rule: Option<&'a Rule>, place: &ByValue) -> Result<Aim<'a>, ServiceError> {
    let (object_type, name) = (&entry.object_type, &place.field);
    let Some((rule, field)) = rule.zip(object_type.field(name)) else {
        let message = match object_type.field(name) {
            Some(_) => format!("values of {name} are not unique; set \"unique\" in the type, or take another field"),
            None => object_type.lack_of(name, &[]),
        };
        return Err(ServiceError::refused(ErrorCode::FieldNotUnique, message));
    };
    let refused = |reason| ServiceError::refused(ErrorCode::ParameterInvalid, format!("value: {reason}"));
    let value = match ValueKind::named(&field.kind) {
        ValueKind::Text => Bson::from(place.value.as_str()),
        kind => cell::read(kind, &place.value, &Locale::default()).map_err(refused)?,
    };
    let claim = rule.claim(&value).ok_or_else(|| refused("null is no value of one object".to_owned()))?;
    Ok(Aim { entry, rule, value, claim })
}

async fn changed(
    services: &Services,
    caller: &Caller,
    (id, if_match): (i64, &IfMatch),
    aim: &Aim<'_>,
    body: &Document,
) -> Result<Option<Written>, ServiceError> {
    aim.check(body)?;
    let moved_on = || ServiceError::Store(StoreError::Stale);
    let decide = async |before: &RawDocument, entry: &TypeEntry| {
        if !aim.rule.claims(before).contains(&aim.claim) {
            return Err(moved_on());
        }
        replace_object(services, caller, id, body, (before, entry)).await
    };
    match services.by_the_types(async || change_object(services, caller, id, if_match, &decide).await).await {
        Ok((_, after)) => {
            Ok(Some(Written { object: VisibleObject::of(services, caller, after).await?, is_new: false }))
        }
        Err(ServiceError::Store(StoreError::Stale)) => Ok(None),
        Err(ServiceError::Refused { code: ErrorCode::ObjectNotFound, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn made(
    services: &Services,
    caller: &Caller,
    if_match: &IfMatch,
    aim: &Aim<'_>,
    body: &Document,
) -> Result<Option<Written>, ServiceError> {
    if *if_match != IfMatch::Absent {
        let message = "If-Match asks for an object, and none has this value".to_owned();
        return Err(ServiceError::PreconditionFailed(message));
    }
    if !caller.rights.grants(ADD) {
        let message = format!("no object has this value, and making one needs the right {ADD}");
        return Err(ServiceError::refused(ErrorCode::RightMissing, message));
    }
    let body = aim.completed(body)?;
    let now = services.now();
    let build = |input: &ObjectInput, id, type_id, fields: &[FieldValue]| input.created(id, type_id, fields, now);
    match by_one_state(services, async || store_object(services, caller, &body, None, build).await).await {
        Ok(object) => Ok(Some(Written { object, is_new: true })),
        Err(ServiceError::Store(StoreError::Shared(shared))) if shared.iter().any(|it| aim.is_about(it)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Aim<'_> {
    fn is_about(&self, shared: &Shared) -> bool {
        shared.field == self.rule.field
    }

    /// Whether the body has the field.
    ///
    /// # Errors
    /// It has another value there.
    fn check(&self, body: &Document) -> Result<bool, ServiceError> {
        let input = ObjectInput::read(body).0;
        let own = input.fields.iter().find(|entry| entry.name == self.rule.field);
        match own.map(|own| self.rule.claim(&own.value)) {
            Some(claim) if claim.as_ref() != Some(&self.claim) => {
                let pointer = input.place_of(&self.rule.field);
                Err(ServiceError::violation(pointer, "the path says another value; leave it out here"))
            }
            own => Ok(own.is_some()),
        }
    }

    /// The body of a new object.
    fn completed(&self, body: &Document) -> Result<Document, ServiceError> {
        let (name, has_field, mut body) = (&self.rule.field, self.check(body)?, body.clone());
        if !body.contains_key("type_id") {
            body.insert("type_id", self.entry.object_type.public_id);
        } else if ObjectInput::read(&body).0.type_id.is_some_and(|id| id != self.entry.object_type.public_id) {
            return Err(ServiceError::violation("/type_id", "the path says another type; leave it out here"));
        }
        if !has_field {
            match body.entry("fields".to_owned()).or_insert_with(|| Bson::Document(Document::new())) {
                Bson::Document(fields) => drop(fields.insert(name, self.value.clone())),
                Bson::Array(fields) => fields.push(doc! { "name": name, "value": self.value.clone() }.into()),
                // It is refused when it is read.
                _ => {}
            }
        }
        Ok(body)
    }
}
