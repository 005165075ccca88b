//! Types that were deleted. What the history keeps of their objects stays behind their last access lists, also when another
//! type gets their id: who makes it must not see what was there before.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{DateTime, Document, doc};

use super::heads::of_kind;
use super::past::{Moment, changes_of};
use super::resources::{condition, unreadable};
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::{integer, text};
use crate::domain::object_type::ObjectType;
use crate::history::entry::Action;
use crate::query::{Filter, Projection, Sort};
use crate::store::collections::{LOGS, TYPES};
use crate::store::{FindQuery, Store, StoreError};

/// Types that were deleted and did not come back, by their ids; the oldest of an id first.
#[derive(Debug, Default)]
pub struct FormerTypes {
    by_id: BTreeMap<i64, Vec<Former>>,
}

/// A type that was deleted.
#[derive(Debug)]
struct Former {
    /// The sequence and the time of its deletion. Entries of its objects have smaller ones.
    until: (i64, DateTime),
    /// Its last access list; nothing if it is not known, which hides everything.
    acl: Option<Acl>,
    /// Whether another tool deleted it.
    outside: bool,
}

/// What is read of an entry. Other changes of types may be large.
fn read_members() -> Document {
    doc! { "public_id": 1, "action": 1, "sequence": 1, "time": 1, "state": 1, "changes.created": 1, "changes.deleted": 1 }
}

impl FormerTypes {
    /// The former types of a store.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn read(store: &dyn Store, max_time: Duration) -> Result<Self, StoreError> {
        let ends = doc! { "action": { "$in": [Action::Delete.name(), Action::Outside.name()] } };
        let returns = doc! { "action": Action::Revert.name(), "changes.created": { "$exists": true } };
        // Other tools reach a MongoDB store alone; there the newest entry of each type counts.
        let is_shared = store.is_remote();
        let ended = condition(&doc! { "$or": [ends, returns] });
        let wanted = if is_shared { of_kind("types") } else { of_kind("types").and(ended) };
        let mut query = FindQuery::new(wanted, max_time).sorted(Sort::by("sequence", false));
        query.projection = Some(Projection::parse(&read_members(), &query.filter).map_err(unreadable)?);
        let mut former = Self::default();
        let mut last_states = BTreeMap::new();
        for entry in store.find(LOGS, &query).await?.iter() {
            former.note(entry)?;
            if let Some(id) = integer(entry, "public_id") {
                last_states.insert(id, entry.get("state").ok().flatten().is_some());
            }
        }
        if is_shared {
            let mut all = FindQuery::new(Filter::all(), max_time);
            all.projection = Some(Projection::parse(&doc! { "public_id": 1 }, &all.filter).map_err(unreadable)?);
            let stored = store.find(TYPES, &all).await?;
            for id in stored.iter().filter_map(|stored| integer(stored, "public_id")) {
                last_states.remove(&id);
            }
            // Another tool deleted these, and nothing has noticed it yet.
            for (id, _) in last_states.into_iter().filter(|(_, had_state)| *had_state) {
                let until = (i64::MAX, DateTime::MAX);
                former.by_id.entry(id).or_default().push(Former { until, acl: None, outside: true });
            }
        }
        Ok(former)
    }

    fn note(&mut self, entry: &RawDocument) -> Result<(), StoreError> {
        let Some(id) = integer(entry, "public_id") else { return Ok(()) };
        let of_id = self.by_id.entry(id).or_default();
        let sequence = integer(entry, "sequence").unwrap_or_default();
        let until = (sequence, entry.get_datetime("time").map_err(unreadable)?);
        let action = text(entry, "action");
        if action == Some(Action::Delete.name()) {
            let document = changes_of(entry)?.get_document("deleted").map_err(unreadable)?;
            let acl = ObjectType::from_document(document).ok().map(|last| last.acl.clone());
            of_id.push(Former { until, acl, outside: false });
        } else if action == Some(Action::Revert.name()) {
            // It is the same type again. What another tool deleted cannot be restored.
            if let Some(last) = of_id.iter().rposition(|former| !former.outside) {
                of_id.remove(last);
            }
        } else if entry.get("state").ok().flatten().is_none() {
            of_id.push(Former { until, acl: None, outside: true });
        }
        Ok(())
    }

    /// The former types, by their ids, with their last access lists as far as these are known.
    pub(in crate::service) fn access_lists(&self) -> impl Iterator<Item = (i64, Option<&Acl>)> {
        self.by_id.iter().flat_map(|(id, of_id)| of_id.iter().map(|former| (*id, former.acl.as_ref())))
    }

    /// Whether the type that had this id at the moment was deleted since, whatever type has the id now.
    pub(super) fn has(&self, type_id: i64, moment: Moment) -> bool {
        let last = self.by_id.get(&type_id).and_then(|of_id| of_id.last());
        last.is_some_and(|last| match moment {
            Moment::Sequence(sequence) => sequence <= last.until.0,
            Moment::Time(time) => time <= last.until.1,
        })
    }

    /// Whether another tool deleted a type, which no entry tells yet.
    pub(in crate::service) fn has_unnoticed(&self) -> bool {
        self.by_id.values().flatten().any(|former| former.until.0 == i64::MAX)
    }

    /// The types whose objects the group may not read, and up to which sequence their entries are hidden from it.
    pub(super) fn hidden_from(&self, group_id: i64) -> impl Iterator<Item = (i64, i64)> {
        let is_hidden =
            move |former: &&Former| !former.acl.as_ref().is_some_and(|acl| acl.allows(group_id, Permission::Read));
        self.by_id.iter().filter_map(move |(id, of_id)| Some((*id, of_id.iter().rev().find(is_hidden)?.until.0)))
    }
}
