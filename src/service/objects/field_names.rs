//! The names of fields that a caller may know: those of the types whose objects the caller may read.

use std::sync::Arc;
use std::time::Instant;

use bson::{Bson, doc};

use crate::admission;
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::domain::object_fields::ValueKind;
use crate::query::{Effort, FieldNames, Fields, Limits, Lookup};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::service::types::catalog::Types;
use crate::store::FindQuery;

/// The memory of an id in a question: in its document as it is made and as it is kept, and in its compiled form.
const BYTES_OF_ID: usize = 4 * size_of::<Bson>();

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
    let types = services.current_types().await?;
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

/// Answers what a question must know of objects that others refer to, see [`Fields::unanswered`]. Returns whether there was
/// something: then the question is read once more.
///
/// # Errors
/// Lookups that find too much, and errors of the store.
pub async fn look_up(services: &Services, caller: &Caller, fields: &Fields) -> Result<bool, ServiceError> {
    let lookups = fields.unanswered();
    for lookup in &lookups {
        let found = found(services, caller, lookup).await?;
        fields.answer(lookup, found);
    }
    Ok(!lookups.is_empty())
}

/// The ids of the objects that a lookup finds, as far as the caller may see them.
async fn found(services: &Services, caller: &Caller, lookup: &Lookup) -> Result<Vec<i64>, ServiceError> {
    let types = services.current_types().await?;
    let names = VisibleFields { types: Arc::clone(&types), group_id: caller.group_id };
    let fields = Fields::new(Arc::new(names)).looking_up();
    let (filter, now, end) = (lookup.filter(), services.now(), Instant::now().checked_add(services.max_time));
    let read = async || {
        let (fields, filter) = (fields.clone(), filter.clone());
        let read =
            admission::work(move |means| fields.filter(&filter, &Limits::NONE, now, &Effort::Work(means.clone(), end)));
        Ok::<_, ServiceError>(read.await??)
    };
    let mut filter = read().await?;
    if Box::pin(look_up(services, caller, &fields)).await? {
        filter = read().await?;
    }
    let query = FindQuery::new(types.scope(caller, filter), services.max_time)
        .limited(lookup.most as u64 + 1)
        .showing(&doc! { "public_id": 1, "_id": 0 });
    let objects = services.store.find(Objects::COLLECTION, &query).await?;
    if objects.len() > lookup.most {
        return Err(lookup.too_many.clone().into());
    }
    admission::current().hold(objects.len() * BYTES_OF_ID)?;
    let mut ids: Vec<i64> = objects.iter().filter_map(|object| integer(object, "public_id")).collect();
    ids.sort_unstable();
    Ok(ids)
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

    fn targets(&self, name: &str, types: Option<&[i64]>) -> Option<Vec<i64>> {
        let is_seen = |type_id: &i64| self.is_visible(*type_id, None);
        let (mut targets, mut leads_anywhere) = (Vec::new(), false);
        for type_id in self.types.with_field(name).iter().filter(|type_id| self.is_visible(**type_id, types)) {
            let object_type = &self.types.get(*type_id)?.object_type;
            let field = object_type.field(name).filter(|field| field.is_reference())?;
            let before = targets.len();
            targets.extend(object_type.targets(field));
            leads_anywhere |= targets.len() == before;
        }
        if leads_anywhere {
            targets = self.types.iter().map(|entry| entry.object_type.public_id).collect();
        }
        targets.retain(is_seen);
        targets.sort_unstable();
        targets.dedup();
        Some(targets)
    }

    fn hides_some(&self) -> bool {
        self.types.hides_some(self.group_id)
    }
}
