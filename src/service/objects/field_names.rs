//! The names of fields that a caller may know: those of the types whose objects the caller may read.

use std::sync::Arc;

use crate::domain::acl::Permission;
use crate::domain::object_fields::ValueKind;
use crate::query::{FieldNames, Fields};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::services::Services;
use crate::service::types::catalog::Types;

/// The fields of the types whose objects the caller may read.
struct VisibleFields {
    types: Arc<Types>,
    group_id: i64,
}

/// Reads `f.<name>` as the caller may know the names.
///
/// # Errors
/// Errors of the store when it reads the types.
pub async fn fields(services: &Services, caller: &Caller) -> Result<Fields, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    Ok(Fields::new(Arc::new(VisibleFields { types, group_id: caller.group_id })))
}

/// The same of the types as they are in the store, if a name was refused: another instance may have just made the field.
///
/// # Errors
/// As [`fields`].
pub async fn newer(services: &Services, caller: &Caller, refusing: &Fields) -> Result<Option<Fields>, ServiceError> {
    if !refusing.have_refused() {
        return Ok(None);
    }
    services.types_anew().await?;
    Ok(Some(fields(services, caller).await?))
}

impl VisibleFields {
    fn is_visible(&self, type_id: i64, types: Option<&[i64]>) -> bool {
        let is_meant = types.is_none_or(|types| types.contains(&type_id));
        let entry = self.types.get(type_id).filter(|_| is_meant);
        entry.is_some_and(|entry| entry.object_type.acl.allows(self.group_id, Permission::Read))
    }
}

impl FieldNames for VisibleFields {
    fn is_known(&self, name: &str, types: Option<&[i64]>) -> bool {
        self.types.with_field(name).iter().any(|type_id| self.is_visible(*type_id, types))
    }

    fn known(&self, types: Option<&[i64]>) -> Vec<&str> {
        self.types.field_names().filter(|name| self.is_known(name, types)).collect()
    }

    fn holds_arrays(&self, name: &str) -> bool {
        let types = self.types.with_field(name).iter().filter_map(|type_id| self.types.get(*type_id));
        let mut fields = types.filter_map(|entry| entry.object_type.field(name));
        fields.any(|field| ValueKind::of(field).may_be_list())
    }

    fn holds_addresses(&self, name: &str, types: Option<&[i64]>) -> bool {
        let seen = self.types.with_field(name).iter().filter(|type_id| self.is_visible(**type_id, types));
        let entries = seen.filter_map(|type_id| self.types.get(*type_id));
        let mut fields = entries.filter_map(|entry| entry.object_type.field(name)).peekable();
        fields.peek().is_some() && fields.all(|field| ValueKind::of(field).is_in_order_of_addresses())
    }

    fn hides_some(&self) -> bool {
        self.types.hides_some(self.group_id)
    }
}
