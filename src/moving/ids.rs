//! The counters of ids: an id that was given once is never given again, also in a store that a package was imported into.
//! Access lists, references and authors may still name what had it.

use std::collections::BTreeMap;

use bson::doc;
use futures::StreamExt;

use crate::domain::document::{integer, raw};
use crate::query::Sort;
use crate::store::collections::{CATEGORIES, GROUPS, OBJECTS, TYPES, USERS};
use crate::store::copying::COUNTERS;
use crate::store::{Copying, Documents, Dump, StoreError};

/// Collections of a package whose documents have ids of their own.
const OF_PACKAGE: [&str; 5] = [CATEGORIES, GROUPS, OBJECTS, TYPES, USERS];

/// The largest id that was given or stored, by collection.
pub(super) type GivenIds = BTreeMap<String, i64>;

/// Those of a store.
pub(super) async fn given_ids(dump: &mut dyn Dump) -> Result<GivenIds, StoreError> {
    let mut given = GivenIds::new();
    if !dump.collections().iter().any(|known| known == COUNTERS) {
        return Ok(given);
    }
    let mut chunks = dump.documents(COUNTERS, &Sort::default()).await?;
    while let Some(chunk) = chunks.next().await {
        for counter in chunk?.iter() {
            if let (Ok(of), Some(value)) = (counter.get_str("_id"), integer(counter, "value")) {
                given.insert(of.to_owned(), value);
            }
        }
    }
    Ok(given)
}

/// Only those of collections in a package. A store has more, and a manifest may name any.
pub(super) fn of_package(mut given: GivenIds) -> GivenIds {
    given.retain(|collection, _| OF_PACKAGE.contains(&collection.as_str()));
    given
}

/// Lets the store give larger ids alone.
pub(super) async fn pass(store: &dyn Copying, given: GivenIds) -> Result<(), StoreError> {
    let mut counters = Documents::new();
    for (of, value) in of_package(given) {
        counters.push(&raw(&doc! { "_id": of, "value": value }));
    }
    store.append(COUNTERS, counters).await
}
