//! What units read and change: which of them can share a transaction, and whether their changes keep their order.

use std::collections::{BTreeSet, HashSet};

use bson::raw::{RawDocument, RawDocumentBuf, cstr};
use bson::rawdoc;

use super::conditions::named;
use super::counters::public_id;
use crate::store::{Change, Condition, SCOPES, Unit};

/// How many changes the units of one transaction have together. A larger unit is alone in its transaction.
const GROUP_CHANGES: usize = 1_000;
/// How many bytes their documents have together.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// What units read and change.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    /// The collections that other conditions and changes by filter read.
    read: BTreeSet<&'static str>,
    changed: BTreeSet<&'static str>,
    /// The documents of which conditions say that they exist, and those that change, by collection and `public_id`.
    read_ids: HashSet<(&'static str, i64)>,
    changed_ids: HashSet<(&'static str, i64)>,
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
            if let Some(id) = named(condition) {
                footprint.read_ids.insert(id);
                continue;
            }
            footprint.read.insert(match condition {
                Condition::Exists { collection, .. } | Condition::None { collection, .. } => collection,
                Condition::Unchanged { .. } => SCOPES,
            });
        }
        for change in &unit.changes {
            let collection = change.collection();
            let ids = changed_documents(change).into_iter().flatten().filter_map(public_id);
            footprint.changed_ids.extend(ids.map(|id| (collection, id)));
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
            && self.read_ids.is_disjoint(&other.changed_ids)
            && self.changed_ids.is_disjoint(&other.read_ids)
            && self.named.is_disjoint(&other.named)
    }

    /// Adds that of another unit.
    pub(super) fn add(&mut self, other: Self) {
        self.read.extend(other.read);
        self.changed.extend(other.changed);
        self.read_ids.extend(other.read_ids);
        self.changed_ids.extend(other.changed_ids);
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

/// The document of a change before and after it.
fn changed_documents(change: &Change) -> [Option<&RawDocument>; 2] {
    match change {
        Change::Insert { document, .. } => [None, Some(document)],
        Change::Replace { before, after, .. } => [Some(before), Some(after)],
        Change::Delete { before, .. } => [Some(before), None],
        Change::DeleteMany { .. } | Change::UpdateMany { .. } | Change::Append(_) => [None, None],
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Filter;

    const OBJECTS: &str = "framework.objects";

    fn insert(id: i64) -> Unit {
        let document = rawdoc! { "_id": id, "public_id": id };
        Unit::of(Change::Insert { collection: OBJECTS, document })
    }

    fn delete(id: i64) -> Unit {
        let before = rawdoc! { "_id": id, "public_id": id };
        Unit::of(Change::Delete { collection: OBJECTS, before })
    }

    fn exists(id: i64) -> Condition {
        Condition::Exists { collection: OBJECTS, filter: Filter::equals("public_id", id) }
    }

    fn none(id: i64) -> Condition {
        Condition::None { collection: OBJECTS, filter: Filter::equals("parent", id) }
    }

    fn share(one: Unit, other: Unit) -> bool {
        let (one, other) = (Footprint::of(&one), Footprint::of(&other));
        assert_eq!(one.has_place_for(&other), other.has_place_for(&one));
        one.has_place_for(&other)
    }

    #[test]
    fn objects_that_refer_to_others_are_stored_together() {
        assert!(share(insert(1).given(exists(7)), insert(2).given(exists(7))));
        assert!(share(insert(1).given(exists(7)), delete(8)));
    }

    #[test]
    fn a_unit_shares_no_transaction_with_one_that_changes_what_it_relies_on() {
        assert!(!share(insert(1).given(exists(7)), delete(7)));
        assert!(!share(insert(1).given(exists(2)), insert(2)));
        assert!(!share(insert(1).given(none(7)), insert(2)));
        assert!(!share(delete(1), delete(1)));
    }
}
