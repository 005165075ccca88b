//! What documents were at an earlier moment: the present documents, turned back by the entries since then.

use std::collections::BTreeMap;
use std::time::Duration;

use bson::raw::{RawBsonRef, RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document, doc};

use super::heads::of_kind;
use super::resources::{condition, resource_of, unreadable};
use crate::domain::document::{integer, raw, text};
use crate::history::entry::{Action, Head, state_of};
use crate::history::patch::apply;
use crate::query::Filter;
use crate::store::collections::LOGS;
use crate::store::{Documents, FindQuery, Store, StoreError};

/// More entries, or entries of more bytes, are not turned back for one question.
pub(super) const MOST_ENTRIES: u64 = 50_000;
pub(super) const MOST_BYTES: usize = 64 * 1024 * 1024;

/// How often the entries of documents are read that changed meanwhile. A second look finds the entry of each change, unless
/// the change and its entry are not one unit: a MongoDB server by itself, or another tool.
pub(super) const LOOKS: usize = 4;

/// A moment of the history: the state after all entries up to and including it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The entry with this sequence.
    Sequence(i64),
    /// This time.
    Time(DateTime),
}

impl Moment {
    /// Whether it is the same as the other moment or before it, as far as that can be told.
    pub(super) fn is_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::Sequence(one), Self::Sequence(other)) => one <= other,
            (Self::Time(one), Self::Time(other)) => one <= other,
            _ => false,
        }
    }

    /// The entries behind it.
    pub(super) fn later(self) -> Filter {
        let document = match self {
            Self::Sequence(sequence) => doc! { "sequence": { "$gt": sequence } },
            Self::Time(time) => doc! { "time": { "$gt": time } },
        };
        condition(&document)
    }
}

/// What a document was that has changed since.
#[derive(Debug, Clone)]
pub(super) struct Past {
    pub(super) state: PastState,
    /// The last known state of what had the id then: the present document, or what was deleted. The entry of a deletion that
    /// kept none. Nothing where nothing had the id.
    pub(super) last: Option<RawDocumentBuf>,
    /// The present document. It may be another one, that has got the id since.
    pub(super) present: Option<RawDocumentBuf>,
}

/// The state of a document at a moment.
#[derive(Debug, Clone)]
pub(super) enum PastState {
    /// There was none.
    Absent,
    /// This.
    Document(RawDocumentBuf),
    /// Another tool changed it since, so nobody knows.
    Unknown,
}

/// The documents of a collection that changed after the moment, by id; `only` narrows to these ids.
///
/// # Errors
/// [`StoreError::Query`] when too much has changed since, and errors of the store.
pub(super) async fn changed_since(
    store: &dyn Store,
    collection: &str,
    moment: Moment,
    only: Option<&[i64]>,
    max_time: Duration,
) -> Result<BTreeMap<i64, Past>, StoreError> {
    let of_kind = of_kind(resource_of(collection).unwrap_or_default()).and(moment.later());
    let entries_of = async |ids: Option<&[i64]>| {
        let ids = ids.map(|ids| Filter::one_of("public_id", bson_ids(ids.iter().copied())));
        let filter = ids.map_or_else(|| of_kind.clone(), |ids| of_kind.clone().and(ids));
        let mut query = FindQuery::new(filter, max_time).limited(MOST_ENTRIES + 1);
        query.max_bytes = MOST_BYTES;
        match store.find(LOGS, &query).await {
            Ok(found) if found.len() as u64 > MOST_ENTRIES => Err(too_much()),
            Err(StoreError::TooLarge) => Err(too_much()),
            found => found,
        }
    };
    let mut found = entries_of(only).await?;
    if found.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids = bson_ids(by_id(&found).into_keys());
    let present = store.find(collection, &FindQuery::new(Filter::one_of("public_id", ids), max_time)).await?;
    let present: BTreeMap<i64, &RawDocument> =
        present.iter().filter_map(|document| Some((integer(document, "public_id")?, document))).collect();
    let mut changed = BTreeMap::new();
    for look in 1..=LOOKS {
        let mut unsettled = Vec::new();
        for (id, entries) in by_id(&found) {
            let now = present.get(&id).copied();
            let state = now.map(state_of);
            // The entry that left the document as it was read; later ones do not concern it.
            let newest = entries.iter().position(|entry| Head::of(entry).is_some_and(|head| head.state == state));
            match newest {
                Some(newest) => {
                    changed.insert(id, turned_back(now, &entries[newest..])?);
                }
                None if look < LOOKS => unsettled.push(id),
                None => {
                    let present = now.map(RawDocument::to_owned);
                    changed.insert(id, Past { state: PastState::Unknown, last: present.clone(), present });
                }
            }
        }
        if unsettled.is_empty() {
            break;
        }
        // Read after the documents, so they have what changed these.
        found = entries_of(Some(&unsettled)).await?;
    }
    Ok(changed)
}

/// The code of the error when too much has changed: MongoDB's for a question that needs too much memory.
pub(super) const TOO_MUCH: i32 = 292;

fn too_much() -> StoreError {
    let message = format!(
        "more than {MOST_ENTRIES} changes, or changes of more than 64 MiB, have come since then; ask for a later moment, or \
         for single ids"
    );
    StoreError::Query { code: TOO_MUCH, message }
}

fn bson_ids(ids: impl Iterator<Item = i64>) -> Vec<Bson> {
    ids.map(Bson::Int64).collect()
}

/// The entries of each document, the newest first.
pub(super) fn by_id(found: &Documents) -> BTreeMap<i64, Vec<&RawDocument>> {
    let mut entries: BTreeMap<i64, Vec<&RawDocument>> = BTreeMap::new();
    for entry in found.iter() {
        if let Some(id) = integer(entry, "public_id") {
            entries.entry(id).or_default().push(entry);
        }
    }
    for list in entries.values_mut() {
        list.sort_by_key(|entry| std::cmp::Reverse(integer(entry, "number")));
    }
    entries
}

/// The document before all these entries, the newest of which is the first.
pub(super) fn turned_back(now: Option<&RawDocument>, entries: &[&RawDocument]) -> Result<Past, StoreError> {
    let present = now.map(RawDocument::to_owned);
    let mut last = present.clone();
    let mut state = now.map(Document::try_from).transpose().map_err(unreadable)?;
    for entry in entries {
        let changes = changes_of(entry)?;
        if is_unknown(changes) {
            // An entry has the type of its object too, which says who may hear of it.
            let last = last.or_else(|| Some((*entry).to_owned()));
            return Ok(Past { state: PastState::Unknown, last, present });
        }
        if let Ok(Some(RawBsonRef::Document(deleted))) = changes.get("deleted") {
            last = last.or_else(|| Some(deleted.to_owned()));
            state = Some(Document::try_from(deleted).map_err(unreadable)?);
        } else if changes.get("created").ok().flatten().is_some() {
            state = None;
            if text(entry, "action") != Some(Action::Revert.name()) {
                // Before, the id was another's.
                last = None;
            }
        } else {
            apply(state.as_mut().ok_or_else(|| unreadable("an entry"))?, changes).map_err(unreadable)?;
        }
    }
    let state = state.map_or(PastState::Absent, |document| PastState::Document(raw(&document)));
    Ok(Past { state, last, present })
}

/// Whether nobody knows what was before the change.
pub(super) fn is_unknown(changes: &RawDocument) -> bool {
    changes.get("unknown").ok().flatten().is_some()
}

/// The `changes` of an entry.
pub(super) fn changes_of(entry: &RawDocument) -> Result<&RawDocument, StoreError> {
    entry.get_document("changes").map_err(unreadable)
}
