//! What changes of objects and types mean for the documents derived from objects.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bson::raw::{RawDocument, RawDocumentBuf};

use super::documents::{DERIVED, Make, key_value, object_of, of_type};
use super::state::type_work;
use crate::domain::document::integer;
use crate::domain::object_type::ObjectType;
use crate::domain::searchable::shape;
use crate::query::Filter;
use crate::service::claims::changes::{Changed, types_in};
use crate::service::objects::bulk::give_way;
use crate::service::types::catalog::{TypeEntry, Types, compiled};
use crate::store::{Change, FindQuery, Store, StoreError, Unit};

/// One query finds at most this many documents.
const AT_ONCE: usize = 1000;

/// Stored documents, by their collections and the ids of their objects.
pub(in crate::service) type Stored = HashMap<(&'static str, i64), RawDocumentBuf>;

/// What a unit needs in addition.
#[derive(Debug, Default)]
pub(in crate::service) struct Kept {
    /// The changes of documents.
    pub(in crate::service) changes: Vec<Change>,
    /// Whether documents are not stored as the terms of their objects say: those of a store that is not searched yet.
    pub(in crate::service) is_other: bool,
}

/// The changes of documents for a unit that changes objects. Documents are as the objects before say, or as they are stored if
/// that is known.
pub(in crate::service) async fn kept(types: &Types, unit: &Unit, stored: Option<Stored>) -> Kept {
    let mut kept = Kept::default();
    let own = types_of(unit);
    let of = |make: Make, object: &RawDocument, own: &HashMap<i64, Option<Arc<TypeEntry>>>| {
        let type_id = integer(object, "type_id")?;
        let entry = own.get(&type_id).map_or_else(|| types.get(type_id), Option::as_ref);
        make(object, entry.map(|entry| &**entry))
    };
    let (none, mut stored) = (HashMap::new(), stored);
    for (index, changed) in unit.changes.iter().filter_map(Changed::of).enumerate() {
        give_way(index).await;
        let Changed { object, before, after } = changed;
        if before.zip(after).is_some_and(|(before, after)| has_same_terms(before, after)) && own.is_empty() {
            continue;
        }
        for (collection, make) in DERIVED {
            // The object before is one of the type before.
            let assumed = before.and_then(|before| of(make, before, &none));
            let wanted = after.and_then(|after| of(make, after, &own));
            if assumed == wanted {
                continue;
            }
            let is_there = match &mut stored {
                None => assumed,
                Some(stored) => {
                    let is_there = stored.remove(&(collection, object));
                    kept.is_other |= is_there != assumed;
                    stored.extend(wanted.clone().map(|wanted| ((collection, object), wanted)));
                    is_there
                }
            };
            kept.changes.extend(Change::between(collection, is_there, wanted));
        }
    }
    kept
}

/// Whether two states of an object have the same terms at once: their type and values are the same bytes.
fn has_same_terms(before: &RawDocument, after: &RawDocument) -> bool {
    let fields = |object| crate::raw::member(RawDocument::as_bytes(object), b"fields").map(|value| value.bytes);
    integer(before, "type_id") == integer(after, "type_id") && fields(before) == fields(after)
}

/// The types that a unit changes, as they are afterwards.
fn types_of(unit: &Unit) -> HashMap<i64, Option<Arc<TypeEntry>>> {
    let changed = types_in(unit).map(|(id, after, _)| (id, after.and_then(|after| compiled(after).ok())));
    changed.collect()
}

/// The stored documents of the objects that a unit changes.
///
/// # Errors
/// Errors of the store.
pub(in crate::service) async fn stored(
    store: &dyn Store,
    unit: &Unit,
    max_time: Duration,
) -> Result<Stored, StoreError> {
    let ids: Vec<i64> = unit.changes.iter().filter_map(Changed::of).map(|changed| changed.object).collect();
    let mut stored = Stored::with_capacity(ids.len());
    for ids in ids.chunks(AT_ONCE) {
        for (collection, _) in DERIVED {
            let keys = ids.iter().map(|id| key_value(*id));
            let found = store.find(collection, &FindQuery::new(Filter::one_of("_id", keys), max_time)).await?;
            let found = found.iter().filter_map(|it| Some(((collection, object_of(it)?), it.to_owned())));
            stored.extend(found);
        }
    }
    Ok(stored)
}

/// What changes of types mean.
#[derive(Debug, Default)]
pub(in crate::service) struct OfTypes {
    /// Changes of documents, and of what is to be made.
    pub(in crate::service) changes: Vec<Change>,
    /// Whether objects get other terms: then units that were made by the types before must fail.
    pub(in crate::service) is_other: bool,
}

/// The changes for a unit that changes types.
///
/// # Errors
/// Errors of the store.
pub(in crate::service) async fn of_types(
    store: &dyn Store,
    types: &Types,
    unit: &Unit,
    max_time: Duration,
) -> Result<OfTypes, StoreError> {
    let mut outcome = OfTypes::default();
    for (type_id, after, is_new) in types_in(unit) {
        let known = types.get(type_id).map(|entry| &*entry.object_type);
        let after = after.and_then(|after| ObjectType::from_document(after).ok());
        if known.map(shape) == after.as_ref().map(shape) {
            continue;
        }
        outcome.is_other = true;
        if is_new {
            continue;
        }
        outcome.changes.extend(type_work(store, type_id, after.is_some(), max_time).await?);
        if after.is_none() {
            // Objects that the unit removes by a condition, and not one by one.
            outcome.changes.extend(DERIVED.map(|(collection, _)| {
                let filter = Filter::ours(&of_type(collection, type_id));
                Change::DeleteMany { collection, filter }
            }));
        }
    }
    Ok(outcome)
}
