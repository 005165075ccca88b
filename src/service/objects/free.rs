//! The first address of a network that no object of a type has in a field.

use std::collections::HashSet;

use bson::raw::RawDocument;
use bson::{Bson, Document, doc};
use ipnet::IpNet;

use crate::address;
use crate::domain::acl::Permission;
use crate::domain::object_fields::ValueKind;
use crate::domain::object_input::read_fields;
use crate::query::Filter;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::resource::{self, Objects, Resource, Types};
use crate::service::services::Services;
use crate::store::FindQuery;

/// One query asks for this many addresses.
const AT_ONCE: usize = 256;
/// The maximum number of such queries in one request.
const MOST_QUERIES: usize = 256;

/// The first address of `network` that no object of the type has in the field. Callers who may read the type's objects may know
/// which addresses they have; to others there is no such type.
///
/// # Errors
/// [`ErrorCode::TypeNotFound`]; a field that holds no addresses; [`ErrorCode::NetworkFull`]; what the store reports.
pub async fn free_address(
    services: &Services,
    caller: &Caller,
    type_id: i64,
    field: &str,
    network: IpNet,
) -> Result<String, ServiceError> {
    let entry = services.type_with_id(type_id).await?;
    let entry = entry.filter(|entry| entry.object_type.acl.allows(caller.group_id, Permission::Read));
    let entry = entry.ok_or_else(|| ServiceError::not_found(Types::NOT_FOUND, type_id))?;
    let known = entry.object_type.field(field);
    if !known.is_some_and(|known| ValueKind::of(known) == ValueKind::Ip) {
        let message = match known {
            Some(known) => {
                format!("the parameter field leads nowhere: {field} is of the kind {}, and ip is needed", known.kind)
            }
            None => format!("the parameter field leads nowhere: {}", entry.object_type.lack_of(field, &[])),
        };
        return Err(ServiceError::refused(ErrorCode::ParameterInvalid, message));
    }
    let mut hosts = address::hosts(network);
    for _ in 0..MOST_QUERIES {
        let asked: Vec<String> = hosts.by_ref().take(AT_ONCE).collect();
        if asked.is_empty() {
            let message = format!("all addresses of {network} are in use");
            return Err(ServiceError::refused(ErrorCode::NetworkFull, message));
        }
        let used = used(services, type_id, field, &asked).await?;
        if let Some(free) = asked.into_iter().find(|address| !used.contains(address)) {
            return Ok(free);
        }
    }
    let message = format!("the first {} addresses of {network} are in use; name a part of it", AT_ONCE * MOST_QUERIES);
    Err(ServiceError::refused(ErrorCode::NetworkFull, message))
}

/// Those of the addresses that objects of the type have in the field.
async fn used(
    services: &Services,
    type_id: i64,
    field: &str,
    addresses: &[String],
) -> Result<HashSet<String>, ServiceError> {
    let asked: Vec<Bson> = addresses.iter().map(Bson::from).collect();
    let condition =
        doc! { "type_id": type_id, "fields": { "$elemMatch": { "name": field, "value": { "$in": asked } } } };
    let query = FindQuery::new(Filter::ours(&condition), services.max_time)
        .showing(&doc! { "fields.name": 1, "fields.value": 1 });
    let found = services.held(Objects::COLLECTION, query).await?;
    let mut used = HashSet::new();
    for object in found.iter() {
        used.extend(values(object, field)?);
    }
    Ok(used)
}

fn values(object: &RawDocument, field: &str) -> Result<Vec<String>, ServiceError> {
    let object: Document = resource::decode(object)?;
    let entries = read_fields(object.get("fields")).into_iter().filter(|entry| entry.name == field);
    Ok(entries.filter_map(|entry| entry.value.as_str().map(str::to_owned)).collect())
}
