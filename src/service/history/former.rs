//! Types that were deleted. What the history keeps of their objects stays behind their last access lists, also when another
//! type gets their id: who makes it must not see what was there before.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bson::raw::RawDocument;
use bson::{Bson, doc};

use super::heads::of_kind;
use super::past::changes_of;
use super::resources::{condition, unreadable};
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::{integer, text};
use crate::domain::object_type::ObjectType;
use crate::history::entry::Action;
use crate::query::{Filter, Sort};
use crate::service::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::services::Services;
use crate::service::type_catalog::Types;
use crate::store::collections::{LOGS, TYPES};
use crate::store::{FindQuery, StoreError};

/// Types that were deleted and did not come back, by their ids; the oldest of an id first.
#[derive(Debug, Default)]
pub struct FormerTypes {
    by_id: BTreeMap<i64, Vec<Former>>,
}

/// A type that was deleted.
#[derive(Debug)]
struct Former {
    /// The sequence of its deletion. Entries of its objects have smaller ones.
    until: i64,
    /// Its last access list; nothing if it cannot be read, which hides everything.
    acl: Option<Acl>,
}

impl Former {
    fn hides_from(&self, caller: &Caller) -> bool {
        !self.acl.as_ref().is_some_and(|acl| acl.allows(caller.group_id, Permission::Read))
    }
}

impl FormerTypes {
    /// The former types. They are read again when types have changed.
    ///
    /// # Errors
    /// Errors of the store.
    pub(in crate::service) async fn of(services: &Services) -> Result<Arc<Self>, ServiceError> {
        let revision = services.store.revision(TYPES);
        if let Some(known) = services.feed.former_types(revision) {
            return Ok(known);
        }
        let ends = doc! { "action": Action::Delete.name() };
        let returns = doc! { "action": Action::Revert.name(), "changes.created": { "$exists": true } };
        let wanted = of_kind("types").and(condition(&doc! { "$or": [ends, returns] }));
        let query = FindQuery::new(wanted, services.max_time).sorted(Sort::by("sequence", false));
        let mut former = Self::default();
        for entry in services.store.find(LOGS, &query).await?.iter() {
            former.note(entry)?;
        }
        let former = Arc::new(former);
        services.feed.note_former_types(revision, &former);
        Ok(former)
    }

    fn note(&mut self, entry: &RawDocument) -> Result<(), StoreError> {
        let Some(id) = integer(entry, "public_id") else { return Ok(()) };
        let of_id = self.by_id.entry(id).or_default();
        if text(entry, "action") == Some(Action::Delete.name()) {
            let document = changes_of(entry)?.get_document("deleted").map_err(unreadable)?;
            let acl = ObjectType::from_document(document).ok().map(|last| last.acl.clone());
            of_id.push(Former { until: integer(entry, "sequence").unwrap_or_default(), acl });
        } else {
            // It is the same type again.
            of_id.pop();
        }
        Ok(())
    }

    /// The former types, by their ids, with their last access lists as far as these are known.
    pub(in crate::service) fn access_lists(&self) -> impl Iterator<Item = (i64, Option<&Acl>)> {
        self.by_id.iter().flat_map(|(id, of_id)| of_id.iter().map(|former| (*id, former.acl.as_ref())))
    }

    /// The fields of a type whose values may show in an entry of this sequence: those that it has today, but passwords. A
    /// former type has none, whatever type has its id now.
    pub(super) fn plain_fields<'t>(&self, types: &'t Types, type_id: i64, sequence: i64) -> HashSet<&'t str> {
        let last = self.by_id.get(&type_id).and_then(|of_id| of_id.last());
        let is_former = last.is_some_and(|last| sequence <= last.until);
        let entry = types.get(type_id).filter(|_| !is_former);
        entry.map(|entry| entry.object_type.plain_fields().collect()).unwrap_or_default()
    }

    /// The condition on entries that leaves out those of objects that are hidden from the caller; nothing if none are.
    ///
    /// The access lists are those of today; that of a former type is the last one it had.
    pub(super) fn visible(&self, caller: &Caller, types: &Types) -> Option<Filter> {
        let hidden = self.by_id.iter().filter_map(|(id, of_id)| {
            let last = of_id.iter().rev().find(|former| former.hides_from(caller))?;
            Some((*id, last.until))
        });
        let (reused, gone): (Vec<_>, Vec<_>) = hidden.partition(|(id, _)| types.get(*id).is_some());
        let gone = gone.into_iter().map(|(id, _)| Bson::Int64(id)).collect::<Vec<_>>();
        let gone = (!gone.is_empty()).then(|| Filter::none_of("type_id", gone));
        let before = reused.into_iter().map(|(id, until)| doc! { "type_id": id, "sequence": { "$lte": until } });
        let before = before.collect::<Vec<_>>();
        let reused = (!before.is_empty()).then(|| condition(&doc! { "$nor": before }));
        [types.visible_to(caller), gone, reused].into_iter().flatten().reduce(Filter::and)
    }
}
