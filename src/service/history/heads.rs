//! The newest entries of resources.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bson::raw::RawDocument;
use bson::{Bson, DateTime, bson, doc};
use futures::TryStreamExt;

use crate::domain::document::integer;
use crate::history::entry::Head;
use crate::query::{Filter, Limits, Pipeline, Sort};
use crate::store::collections::LOGS;
use crate::store::{AggregateQuery, FindQuery, Store, StoreError};

/// The resources of a unit: the name of their kind and their id.
pub(super) type Key = (&'static str, i64);

/// The newest entries of these resources: one question for each kind, however many resources there are.
pub(super) async fn of(
    store: &dyn Store,
    keys: &BTreeSet<Key>,
    max_time: Duration,
) -> Result<HashMap<Key, Head>, StoreError> {
    let mut by_kind: BTreeMap<&'static str, Vec<Bson>> = BTreeMap::new();
    for (kind, id) in keys {
        by_kind.entry(*kind).or_default().push(Bson::Int64(*id));
    }
    let mut heads = HashMap::with_capacity(keys.len());
    for (kind, mut ids) in by_kind {
        let mut note = |id: Option<i64>, entry: &RawDocument| {
            heads.extend(id.zip(Head::of(entry)).map(|(id, head)| ((kind, id), head)));
        };
        if ids.len() == 1 {
            let filter = of_kind(kind).and(Filter::equals("public_id", ids.remove(0)));
            let newest = FindQuery::new(filter, max_time).sorted(Sort::by("number", true));
            store.first(LOGS, newest).await?.iter().for_each(|entry| note(integer(entry, "public_id"), entry));
            continue;
        }
        let mut chunks = store.aggregate(LOGS, &AggregateQuery::new(newest(kind, ids)?, max_time)).await?;
        while let Some(chunk) = chunks.try_next().await? {
            chunk.iter().for_each(|entry| note(integer(entry, "_id"), entry));
        }
    }
    Ok(heads)
}

/// The newest entry of each of these resources, in the order of their index.
fn newest(kind: &str, ids: Vec<Bson>) -> Result<Pipeline, StoreError> {
    let last = |name: &str| bson!({ "$last": name });
    let stages = [
        bson!({ "$match": { "resource": kind, "public_id": { "$in": ids } } }),
        bson!({ "$sort": { "public_id": 1, "number": 1 } }),
        bson!({ "$group": {
            "_id": "$public_id",
            "number": last("$number"),
            "time": last("$time"),
            "hash": last("$hash"),
            "state": last("$state"),
        } }),
    ];
    Pipeline::parse(&stages, &Limits::NONE, DateTime::MIN).map_err(StoreError::backend)
}

/// The entries of a kind of resource.
pub(super) fn of_kind(kind: &str) -> Filter {
    Filter::equals("resource", kind)
}

/// The entries of this service; DATAGERRY's have no resource.
pub(super) fn of_this_service() -> Filter {
    Filter::ours(&doc! { "resource": { "$exists": true } })
}
