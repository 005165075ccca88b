//! The targets of references: one query looks up all objects that a body refers to.

use std::collections::HashMap;

use bson::doc;

use crate::domain::document::integer;
use crate::domain::object_fields::Reference;
use crate::domain::{Violation, Violations};
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::resource::{Objects, Resource};
use crate::service::services::Services;
use crate::store::FindQuery;

/// Objects that exist for a caller, with their types.
#[derive(Debug, Default)]
pub(crate) struct Targets(HashMap<i64, Option<i64>>);

/// The message about a reference to nothing.
pub(crate) fn absent_target(id: i64) -> String {
    format!("object {id} does not exist")
}

/// The message about a reference to an object of another type.
pub(crate) fn other_type(id: i64, type_ids: &[i64]) -> String {
    format!("object {id} is of none of the types {type_ids:?}")
}

impl Targets {
    /// The objects that exist and, if `visible` is given, match it.
    ///
    /// # Errors
    /// What the store reports.
    pub(crate) async fn read(
        services: &Services,
        visible: Option<Filter>,
        ids: impl Iterator<Item = i64>,
    ) -> Result<Self, ServiceError> {
        let mut ids: Vec<i64> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Ok(Self::default());
        }
        let those = Filter::one_of("public_id", ids);
        let filter = visible.map_or_else(|| those.clone(), |visible| those.clone().and(visible));
        let query = FindQuery::new(filter, services.max_time).showing(&doc! {"public_id": 1, "type_id": 1});
        let found = services.store.find(Objects::COLLECTION, &query).await?;
        let pairs = found.iter().filter_map(|target| Some((integer(target, "public_id")?, integer(target, "type_id"))));
        Ok(Self(pairs.collect()))
    }

    /// Counts an object of this type as existing, because the same step creates it.
    pub(crate) fn expect(&mut self, id: i64, type_id: i64) {
        self.0.entry(id).or_insert(Some(type_id));
    }

    /// Whether the object exists.
    pub(crate) fn contains(&self, id: i64) -> bool {
        self.0.contains_key(&id)
    }

    /// Adds others.
    pub(crate) fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// Whether the object exists and has none of these types.
    pub(crate) fn is_of_none(&self, id: i64, types: &[i64]) -> bool {
        self.0.get(&id).is_some_and(|type_id| type_id.is_none_or(|type_id| !types.contains(&type_id)))
    }

    /// References to objects that do not exist or have another type than the field allows.
    pub(crate) fn dangling(&self, references: &[Reference]) -> Violations {
        let wrong = references
            .iter()
            .filter_map(|reference| Some(Violation::new(reference.pointer.as_str(), self.reason(reference)?)));
        wrong.collect()
    }

    /// Why the reference dangles, if it does.
    pub(crate) fn reason(&self, reference: &Reference) -> Option<String> {
        let Reference { object_id: id, type_ids, .. } = reference;
        match self.0.get(id) {
            None => Some(absent_target(*id)),
            Some(type_id) if type_ids.is_empty() || type_id.is_some_and(|id| type_ids.contains(&id)) => None,
            Some(_) => Some(other_type(*id, type_ids)),
        }
    }
}
