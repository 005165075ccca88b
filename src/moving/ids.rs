//! The counters of ids: an id that was given once is never given again, also in a store that a package was imported into.
//! Access lists, references and authors may still name what had it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;

use super::package::PackagePart;
use crate::domain::document::integer;
use crate::query::{Filter, Sort};
use crate::store::copying::COUNTERS;
use crate::store::{Dump, FindQuery, Store, StoreError};

/// How long one query may take.
const MAX_TIME: Duration = Duration::from_mins(1);

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

/// Those of the parts of a package.
pub(super) fn of_package(mut given: GivenIds) -> GivenIds {
    given.retain(|collection, _| PackagePart::ALL.iter().any(|part| part.collection() == collection));
    given
}

/// Lets the store give larger ids alone.
pub(super) async fn pass(store: &dyn Store, given: &GivenIds) -> Result<(), StoreError> {
    for (collection, last) in given {
        let largest = FindQuery::new(Filter::all(), MAX_TIME).sorted(Sort::by("public_id", true)).limited(1);
        let stored = store.find(collection, &largest).await?;
        if stored.first().and_then(|document| integer(document, "public_id")).unwrap_or_default() >= *last {
            continue;
        }
        // Only a taken id tells where the counter is.
        let mut next = store.reserve_ids(collection, 1).await?;
        while next < *last {
            let missing = u32::try_from(last - next).unwrap_or(u32::MAX);
            next = store.reserve_ids(collection, missing).await? + i64::from(missing) - 1;
        }
    }
    Ok(())
}
