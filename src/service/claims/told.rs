//! What callers learn of objects with the same value.

use std::collections::BTreeSet;

use bson::{Bson, Document};

use crate::domain::acl::Permission;
use crate::domain::{Violation, Violations};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::services::Services;
use crate::store::{Shared, StoreError};

/// The right to see objects.
const VIEW_OBJECTS: &str = "base.framework.object.view";

/// The outcome of a write of objects, with a refusal in words. `place` says where the body has a field.
///
/// # Errors
/// [`ErrorCode::ObjectValueTaken`] in place of [`StoreError::Shared`]; all other errors as they are.
pub(in crate::service) async fn told<T>(
    services: &Services,
    caller: &Caller,
    outcome: Result<T, ServiceError>,
    place: impl Fn(&Shared) -> String,
) -> Result<T, ServiceError> {
    let shared = match outcome {
        Err(ServiceError::Store(StoreError::Shared(shared))) => shared,
        outcome => return outcome,
    };
    let mut places = Violations::new();
    for shared in &shared {
        places.push(Violation::new(place(shared), said(services, caller, shared).await?));
    }
    Err(ServiceError::Clash { code: ErrorCode::ObjectValueTaken, places })
}

/// Who has the value, as far as the caller may know.
///
/// # Errors
/// Errors of the store.
pub(in crate::service) async fn said(
    services: &Services,
    caller: &Caller,
    shared: &Shared,
) -> Result<String, ServiceError> {
    let owner = match shared.ids.first() {
        Some(id) if sees(services, caller, shared.type_id).await? => format!("object {id}"),
        _ => "another object".to_owned(),
    };
    Ok(format!("{owner} has this value of {}, which is unique; choose another one", shared.field))
}

/// The outcome of a change of a type, with a refusal in words. `body` is what was sent.
///
/// # Errors
/// [`ErrorCode::ValuesNotUnique`] in place of [`StoreError::Shared`]; all other errors as they are.
pub(in crate::service) async fn told_of_type<T>(
    services: &Services,
    caller: &Caller,
    outcome: Result<T, ServiceError>,
    body: &Document,
) -> Result<T, ServiceError> {
    let groups = match outcome {
        Err(ServiceError::Store(StoreError::Shared(groups))) => groups,
        outcome => return outcome,
    };
    let mut places = Violations::new();
    let mut hidden = BTreeSet::new();
    for Shared { type_id, field, ids } in &groups {
        let place = place_of(body, field);
        if sees(services, caller, *type_id).await? {
            let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
            let ids = ids.join(", ");
            let message = format!("these objects have the same value of {field}: {ids}; leave it to one of them");
            places.push(Violation::new(place, message));
        } else if hidden.insert(field) {
            places.push(Violation::new(place, format!("several objects have the same value of {field}")));
        }
    }
    Err(ServiceError::Clash { code: ErrorCode::ValuesNotUnique, places })
}

/// Where the body of a type says that a field is unique.
fn place_of(body: &Document, field: &str) -> String {
    let mut fields = body.get_array("fields").into_iter().flatten().map(Bson::as_document);
    let position = fields.position(|it| it.is_some_and(|it| it.get_str("name").ok() == Some(field)));
    position.map_or_else(|| "/fields".to_owned(), |position| format!("/fields/{position}/unique"))
}

async fn sees(services: &Services, caller: &Caller, type_id: i64) -> Result<bool, ServiceError> {
    let entry = services.type_with_id(type_id).await?;
    Ok(caller.rights.grants(VIEW_OBJECTS) && entry.is_some_and(|entry| entry.permit(caller, Permission::Read).is_ok()))
}
