//! `count` and `distinct`.

use std::collections::BTreeSet;

use bson::{Bson, doc};
use futures::TryStreamExt;

use super::options::Options;
use super::question::{self, Names};
use super::{Reading, done};
use crate::admission;
use crate::query::compare::Ordered;
use crate::query::raw::{Elements, Value};
use crate::query::{Leaf, Path, Projection};
use crate::service::exchange::tools::Reach;
use crate::store::{FindQuery, StoreError};
use crate::wire::cursors::LARGEST_BATCH;
use crate::wire::error::{WireError, code};

/// The memory of a value in addition to its bytes.
const VALUE: usize = 128;

/// Reads the question of a `count`, with how many to pass over and how many to count at most.
pub(super) async fn count_query(reading: &Reading<'_>, options: &Options) -> Result<FindQuery, WireError> {
    options.only(&["query", "limit", "skip", "hint", "readConcern", "collation", "fields"])?;
    options.read_concern()?;
    let names = Names { filter: "query", sort: None, projection: None };
    let query = question::read(reading, options, &names).await?;
    // Of a negative limit the amount counts.
    let limit = options.number("limit")?.unwrap_or(0).unsigned_abs();
    Ok(FindQuery { skip: options.amount("skip")?.unwrap_or(0), limit, ..query })
}

pub(super) async fn count(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    let query = count_query(reading, options).await?;
    let all = match question::reach(reading, options).await? {
        Some(reach) => reach.count(reading.services(), query.filter, query.max_time).await?,
        None => 0,
    };
    let counted = all.saturating_sub(query.skip);
    let counted = if query.limit == 0 { counted } else { counted.min(query.limit) };
    done(doc! { "n": number(counted) })
}

/// As MongoDB gives numbers: as short as they fit.
pub(super) fn number(number: u64) -> Bson {
    i32::try_from(number).map_or_else(|_| Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX)), Bson::Int32)
}

/// Reads the question of a `distinct`, with its key.
pub(super) async fn distinct_query(reading: &Reading<'_>, options: &Options) -> Result<(FindQuery, String), WireError> {
    options.only(&["key", "query", "readConcern", "collation"])?;
    options.read_concern()?;
    let Some(key) = options.text("key")?.map(str::to_owned) else {
        let message = "BSON field 'distinct.key' is missing but a required field";
        return Err(WireError::new(code::MISSING_FIELD, message));
    };
    if key.contains('\0') {
        return Err(WireError::new(code::BAD_VALUE, "key: a path has no zero byte"));
    }
    let names = Names { filter: "query", sort: None, projection: None };
    Ok((question::read(reading, options, &names).await?, key))
}

pub(super) async fn distinct(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    let (query, key) = distinct_query(reading, options).await?;
    let values = match question::reach(reading, options).await? {
        Some(reach) => values(reading, &reach, query, &key).await?,
        None => Vec::new(),
    };
    done(doc! { "values": values })
}

/// The different values at a path in ascending order. Of equal values the first one that was found counts.
async fn values(reading: &Reading<'_>, reach: &Reach, query: FindQuery, key: &str) -> Result<Vec<Bson>, WireError> {
    let path = Path::new(key);
    let step = key.split('.').next().unwrap_or_default();
    // What is not shown is not made: tables look up summaries only for who reads them.
    let shown = Projection::parse(&doc! { "_id": i32::from(step == "_id"), step: 1 }, &query.filter).ok();
    let query = FindQuery { projection: shown, ..query };
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    let ticket = admission::current();
    let mut chunks = reach.find(reading.services(), query).await?.into_chunks();
    while let Some(chunk) = chunks.try_next().await? {
        let before = bytes;
        for document in chunk.iter() {
            path.any(document, Leaf::Whole, &mut |value, _| {
                for value in value.into_iter().flat_map(one_by_one) {
                    let Some(value) = value.to_bson().map(Ordered) else { continue };
                    let size = VALUE + size_of_bson(&value.0);
                    if seen.insert(value) {
                        bytes += size;
                    }
                }
                false
            });
        }
        if bytes > LARGEST_BATCH {
            return Err(WireError::new(17217, "distinct too big, 16mb cap"));
        }
        ticket.hold(bytes - before).map_err(StoreError::from)?;
        tokio::task::yield_now().await;
    }
    Ok(seen.into_iter().map(|value| value.0).collect())
}

/// The elements of an array, or the value itself.
fn one_by_one(value: Value<'_>) -> Vec<Value<'_>> {
    if value.is_array() {
        return Elements::within(value.bytes).map(|element| element.value).collect();
    }
    vec![value]
}

fn size_of_bson(value: &Bson) -> usize {
    match value {
        Bson::String(text) => text.len(),
        Bson::Document(document) => document.iter().map(|(name, value)| VALUE + name.len() + size_of_bson(value)).sum(),
        Bson::Array(items) => items.iter().map(|item| VALUE + size_of_bson(item)).sum(),
        Bson::Binary(binary) => binary.bytes.len(),
        _ => 0,
    }
}
