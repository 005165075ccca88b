//! Findings for an operator about an embedded store that is open.

use crate::store::CollectionSpec;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::inspection::{Finding, indexes};

/// Reads the catalog, not the documents.
pub(crate) fn inspect(snapshot: &Snapshot, collections: &[CollectionSpec]) -> Vec<Finding> {
    let is_there = |collection: &str, index: &str| {
        let known = snapshot.collection(collection);
        known.is_some_and(|known| known.indexes.iter().any(|own| own.name == index))
    };
    let declared = collections.iter().flat_map(|spec| spec.indexes.iter().map(|index| (spec.name, index.name)));
    let missing: Vec<String> = declared
        .clone()
        .filter(|(collection, index)| !is_there(collection, index))
        .map(|(collection, index)| format!("{collection}.{index}"))
        .collect();
    let is_new = !collections.iter().any(|spec| snapshot.collection(spec.name).is_some());
    vec![indexes(declared.count(), &missing, is_new)]
}
