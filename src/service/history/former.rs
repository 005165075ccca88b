//! Types that were deleted. Their last access lists still guard what the history keeps of their objects, also when another
//! type gets their id: its author must not see what was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{DateTime, Document, doc};
use futures::TryStreamExt;

use super::heads::of_kind;
use super::past::{Moment, changes_of};
use super::resources::unreadable;
use crate::domain::acl::{Acl, Permission};
use crate::domain::document::{integer, text};
use crate::domain::object_type::ObjectType;
use crate::history::entry::{Action, STATE_BYTES, state_in};
use crate::query::{Filter, Sort};
use crate::store::collections::{LOGS, TYPES};
use crate::store::{FindQuery, Store, StoreError};

/// Types that were deleted and did not come back, by their ids; the oldest of an id first.
#[derive(Debug, Default)]
pub struct FormerTypes {
    by_id: BTreeMap<i64, Vec<Former>>,
    /// The newest entry of each type that has one.
    newest: BTreeMap<i64, Newest>,
}

/// The sequence of an entry of a type, and the state in which it left the type; nothing if it left none.
type Newest = (i64, Option<[u8; STATE_BYTES]>);

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
    doc! { "public_id": 1, "action": 1, "sequence": 1, "time": 1, "state": 1, "changes.created": 1,
    "changes.deleted.public_id": 1, "changes.deleted.acl": 1 }
}

impl FormerTypes {
    /// The former types of a store.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn read(store: &dyn Store, max_time: Duration) -> Result<Self, StoreError> {
        let mut query =
            FindQuery::new(of_kind("types"), max_time).sorted(Sort::by("sequence", false)).showing(&read_members());
        query.is_counted = false;
        let mut former = Self::default();
        let mut entries = store.chunks(LOGS, &query).await?.documents;
        while let Some(chunk) = entries.try_next().await? {
            chunk.iter().try_for_each(|entry| former.note(entry))?;
        }
        let all = FindQuery::new(Filter::all(), max_time).showing(&doc! { "public_id": 1 });
        let stored = store.find(TYPES, &all).await?;
        let there: BTreeSet<i64> = stored.iter().filter_map(|stored| integer(stored, "public_id")).collect();
        // Another tool deleted these, and nothing has noticed it yet.
        let had_state = former.newest.iter().filter(|(_, (_, state))| state.is_some());
        for id in had_state.map(|(id, _)| id).filter(|id| !there.contains(id)) {
            let until = (i64::MAX, DateTime::MAX);
            former.by_id.entry(*id).or_default().push(Former { until, acl: None, outside: true });
        }
        Ok(former)
    }

    fn note(&mut self, entry: &RawDocument) -> Result<(), StoreError> {
        let Some(id) = integer(entry, "public_id") else { return Ok(()) };
        let sequence = integer(entry, "sequence").unwrap_or_default();
        let state = state_in(entry);
        self.newest.insert(id, (sequence, state));
        let of_id = self.by_id.entry(id).or_default();
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
        } else if state.is_none() {
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
        last.is_some_and(|last| moment.is_before_entry(last.until))
    }

    /// The newest entry of the type, when this was read.
    pub(super) fn newest(&self, type_id: i64) -> Option<Newest> {
        self.newest.get(&type_id).copied()
    }

    /// Whether another tool deleted a type that no entry records yet.
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
