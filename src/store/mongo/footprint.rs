//! What units read and change: which of them can share a transaction, and whether their changes keep their order.

use std::collections::{BTreeSet, HashSet};

use bson::raw::{RawDocument, RawDocumentBuf, cstr};
use bson::rawdoc;

use crate::store::{Change, Condition, SCOPES, Unit};

/// How many changes the units of one transaction have together. A larger unit is alone in its transaction.
const GROUP_CHANGES: usize = 1_000;
/// How many bytes their documents have together.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// What units read and change.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    /// The collections that conditions and changes by filter read.
    read: BTreeSet<&'static str>,
    changed: BTreeSet<&'static str>,
    /// The `_id`s that changes name, with their collections.
    named: HashSet<(&'static str, Vec<u8>)>,
    /// How many changes there are, and how many bytes of documents.
    changes: usize,
    bytes: usize,
    /// Whether a document is changed twice, or documents by a filter: then changes keep their order.
    pub(super) is_ordered: bool,
}

impl Footprint {
    /// That of a unit.
    pub(super) fn of(unit: &Unit) -> Self {
        let mut footprint = Self { changes: unit.changes.len(), changed: changed_collections(unit), ..Self::default() };
        for condition in &unit.conditions {
            footprint.read.insert(match condition {
                Condition::Exists { collection, .. } | Condition::None { collection, .. } => collection,
                Condition::Unchanged { .. } => SCOPES,
            });
        }
        for change in &unit.changes {
            let collection = change.collection();
            match change {
                Change::DeleteMany { .. } | Change::UpdateMany { .. } => {
                    footprint.read.insert(collection);
                    footprint.is_ordered = true;
                }
                Change::Append(numbered) => footprint.bytes += numbered.bytes,
                Change::Insert { document: after, .. } | Change::Replace { after, .. } => {
                    footprint.bytes += after.as_bytes().len();
                    footprint.is_ordered |= !footprint.named.insert((collection, changed_id(change)));
                }
                Change::Delete { before, .. } => {
                    footprint.bytes += before.as_bytes().len();
                    footprint.is_ordered |= !footprint.named.insert((collection, changed_id(change)));
                }
            }
        }
        footprint
    }

    /// Whether units with both footprints can share a transaction.
    pub(super) fn has_place_for(&self, other: &Self) -> bool {
        self.changes + other.changes <= GROUP_CHANGES
            && self.bytes + other.bytes <= GROUP_BYTES
            && !self.is_ordered
            && !other.is_ordered
            && self.read.is_disjoint(&other.changed)
            && self.changed.is_disjoint(&other.read)
            && self.named.is_disjoint(&other.named)
    }

    /// Adds that of another unit.
    pub(super) fn add(&mut self, other: Self) {
        self.read.extend(other.read);
        self.changed.extend(other.changed);
        self.named.extend(other.named);
        self.changes += other.changes;
        self.bytes += other.bytes;
        self.is_ordered |= other.is_ordered;
    }
}

/// The collections in which the unit may change something.
pub(super) fn changed_collections(unit: &Unit) -> BTreeSet<&'static str> {
    let mut changed: BTreeSet<_> = unit.changes.iter().map(Change::collection).collect();
    if unit.conditions.iter().any(|condition| matches!(condition, Condition::Unchanged { .. })) {
        changed.insert(SCOPES);
    }
    changed
}

/// The `_id` that a change of one document names, as bytes.
fn changed_id(change: &Change) -> Vec<u8> {
    match change {
        Change::Insert { document: named, .. }
        | Change::Replace { before: named, .. }
        | Change::Delete { before: named, .. } => id_bytes(named),
        Change::DeleteMany { .. } | Change::UpdateMany { .. } | Change::Append(_) => Vec::new(),
    }
}

/// The condition on the `_id` of the document, as bytes.
pub(super) fn id_bytes(document: &RawDocument) -> Vec<u8> {
    by_id(document).into_bytes()
}

/// The condition on the `_id` of the document.
pub(super) fn by_id(document: &RawDocument) -> RawDocumentBuf {
    let mut equals = RawDocumentBuf::new();
    if let Ok(Some(id)) = document.get("_id") {
        equals.append(cstr!("$eq"), id);
    }
    rawdoc! { "_id": equals }
}
