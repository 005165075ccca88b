//! The newest entries of resources.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bson::{Bson, doc};
use futures::future::try_join_all;

use crate::domain::document::integer;
use crate::history::entry::Head;
use crate::query::{Filter, Limits, Sort};
use crate::store::collections::LOGS;
use crate::store::{FindQuery, Store, StoreError};

/// How many look-ups are under way at a time.
const AT_ONCE: usize = 16;

/// The resources of a unit: the name of their kind and their id.
pub(super) type Key = (&'static str, i64);

/// The newest entries of these resources. `new` are those that are stored for the first time, as far as their writers
/// know: few of them have entries.
pub(super) async fn of(
    store: &dyn Store,
    known: BTreeSet<Key>,
    new: BTreeSet<Key>,
    max_time: Duration,
) -> Result<HashMap<Key, Head>, StoreError> {
    let mut wanted = known;
    wanted.extend(with_entries(store, &new, max_time).await?);
    let wanted: Vec<Key> = wanted.into_iter().collect();
    let mut heads = HashMap::with_capacity(wanted.len());
    for keys in wanted.chunks(AT_ONCE) {
        let mut asked = Vec::with_capacity(keys.len());
        for key in keys {
            asked.push(head(store, *key, max_time));
        }
        heads.extend(try_join_all(asked).await?.into_iter().flatten());
    }
    Ok(heads)
}

/// Those that have entries.
async fn with_entries(
    store: &dyn Store,
    keys: &BTreeSet<Key>,
    max_time: Duration,
) -> Result<BTreeSet<Key>, StoreError> {
    let mut found = BTreeSet::new();
    for kind in keys.iter().map(|(kind, _)| *kind).collect::<BTreeSet<_>>() {
        let ids = keys.iter().filter(|(other, _)| *other == kind).map(|(_, id)| Bson::Int64(*id)).collect();
        // Each resource with entries has its first one, or pruning has left it another one.
        let filter = of_kind(kind).and(Filter::one_of("public_id", ids));
        let entries = store.find(LOGS, &FindQuery::new(filter, max_time)).await?;
        found.extend(entries.iter().filter_map(|entry| Some((kind, integer(entry, "public_id")?))));
    }
    Ok(found)
}

async fn head(store: &dyn Store, (kind, id): Key, max_time: Duration) -> Result<Option<(Key, Head)>, StoreError> {
    let filter = of_kind(kind).and(Filter::equals("public_id", id));
    let newest = FindQuery::new(filter, max_time).sorted(Sort::by("number", true)).limited(1);
    Ok(store.find(LOGS, &newest).await?.first().and_then(Head::of).map(|head| ((kind, id), head)))
}

/// The entries of a kind of resource, for their index.
pub(super) fn of_kind(kind: &str) -> Filter {
    let has_number = Filter::parse(&doc! { "number": { "$exists": true } }, &Limits::NONE);
    Filter::equals("resource", kind).and(has_number.expect("the condition is made of known operators"))
}
