//! What the commit of a unit would check, checked by reading: for dry runs.

use std::time::Duration;

use bson::{Bson, Document, RawDocument};

use super::resources::unreadable;
use crate::domain::document::raw;
use crate::query::Filter;
use crate::store::{Change, Condition, FindQuery, IndexSpec, Store, StoreError, Unit, collections, scope_version};

/// Refuses the unit as [`Store::commit`] would at this moment. Unique indexes are compared with what is stored, and not
/// with other documents of the unit.
///
/// # Errors
/// As [`Store::commit`].
pub(super) async fn rehearsed(store: &dyn Store, unit: &Unit, max_time: Duration) -> Result<(), StoreError> {
    for (index, condition) in unit.conditions.iter().enumerate() {
        let holds = match condition {
            Condition::Exists { collection, filter } => store.has_any(collection, filter.clone(), max_time).await?,
            Condition::None { collection, filter } => !store.has_any(collection, filter.clone(), max_time).await?,
            Condition::Unchanged { scope, at } => scope_version(store, scope, max_time).await? == *at,
        };
        if !holds {
            return Err(StoreError::Condition { index });
        }
    }
    for change in &unit.changes {
        if let Change::Replace { before, .. } | Change::Delete { before, .. } = change {
            let own = Filter::equals("_id", id_of(&decoded(before)?));
            if store.first(change.collection(), FindQuery::new(own, max_time)).await?.as_ref() != Some(before) {
                return Err(StoreError::Stale);
            }
        }
        if let Change::Insert { document: after, .. } | Change::Replace { after, .. } = change {
            refuse_taken(store, change.collection(), &decoded(after)?, max_time).await?;
        }
    }
    Ok(())
}

/// Refuses a document of which another one has the key in a unique index.
async fn refuse_taken(
    store: &dyn Store,
    collection: &str,
    document: &Document,
    max_time: Duration,
) -> Result<(), StoreError> {
    let spec = collections::ALL.iter().find(|spec| spec.name == collection);
    for index in spec.map_or(&[][..], |spec| spec.indexes).iter().filter(|index| index.unique) {
        let held = held_by(index);
        if !held.matches(&raw(document))? {
            continue;
        }
        // Keys of unique indexes are members, not paths. A missing one counts as null.
        let value = |path: &str| document.get(path).cloned().unwrap_or(Bson::Null);
        let keys = index.keys.iter().map(|key| Filter::equals(key.path, value(key.path)));
        let others = keys.fold(held.and(Filter::none_of("_id", [id_of(document)])), Filter::and);
        if store.has_any(collection, others, max_time).await? {
            return Err(StoreError::Duplicate { collection: collection.to_owned(), key: index.name.to_owned() });
        }
    }
    Ok(())
}

/// The documents that a partial index holds; all for any other index.
fn held_by(index: &IndexSpec) -> Filter {
    Filter::ours(&index.partial.iter().map(|equals| (equals.path.to_owned(), equals.value.into())).collect())
}

fn id_of(document: &Document) -> Bson {
    document.get("_id").cloned().unwrap_or(Bson::Null)
}

fn decoded(document: &RawDocument) -> Result<Document, StoreError> {
    Document::try_from(document).map_err(unreadable)
}
