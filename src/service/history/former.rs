//! Types that were deleted. What the history keeps of their objects stays behind their last access lists, also when another
//! type gets their id: who makes it must not see what was there before.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocument;

use super::heads::of_kind;
use super::past::changes_of;
use super::resources::{condition, unreadable};
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::{integer, text};
use crate::domain::object_type::ObjectType;
use crate::history::entry::Action;
use crate::query::Sort;
use crate::store::collections::LOGS;
use crate::store::{FindQuery, Store, StoreError};

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

impl FormerTypes {
    /// The former types of a store.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn read(store: &dyn Store, max_time: Duration) -> Result<Self, StoreError> {
        let ends = doc! { "action": Action::Delete.name() };
        let returns = doc! { "action": Action::Revert.name(), "changes.created": { "$exists": true } };
        let wanted = of_kind("types").and(condition(&doc! { "$or": [ends, returns] }));
        let query = FindQuery::new(wanted, max_time).sorted(Sort::by("sequence", false));
        let mut former = Self::default();
        for entry in store.find(LOGS, &query).await?.iter() {
            former.note(entry)?;
        }
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

    /// Whether the entry is of an object of a type that was deleted since, whatever type has its id now.
    pub(super) fn has(&self, type_id: i64, sequence: i64) -> bool {
        let last = self.by_id.get(&type_id).and_then(|of_id| of_id.last());
        last.is_some_and(|last| sequence <= last.until)
    }

    /// The types whose objects the group may not read, and up to which sequence their entries are hidden from it.
    pub(super) fn hidden_from(&self, group_id: i64) -> impl Iterator<Item = (i64, i64)> {
        let is_hidden =
            move |former: &&Former| !former.acl.as_ref().is_some_and(|acl| acl.allows(group_id, Permission::Read));
        self.by_id.iter().filter_map(move |(id, of_id)| Some((*id, of_id.iter().rev().find(is_hidden)?.until)))
    }
}
