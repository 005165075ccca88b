//! `find`, and the commands on cursors: `getMore` and `killCursors`.

use bson::{Bson, doc};

use super::options::Options;
use super::question::{self, Names};
use super::{Reading, done};
use crate::service::exchange::tools::{Found, Reach};
use crate::store::{Documents, FindQuery};
use crate::wire::codec::Batch;
use crate::wire::cursors::{BatchSize, LARGEST_BATCH, Opened, Rest, USUAL_BATCH};
use crate::wire::error::{WireError, code};

/// The bytes of a cursor in addition to what it reads and the command that opened it.
const OVERHEAD: usize = 4 * 1024;

/// The number of documents in the first batch if the command has none, as in MongoDB.
pub(super) const FIRST_BATCH: u32 = 101;

/// Options of `find` that this server does not offer, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("awaitData", "only capped collections have a tail, and there are none"),
    ("max", "write a filter with $lt"),
    ("min", "write a filter with $gte"),
    ("returnKey", "keys of indexes are not shown"),
    ("showRecordId", "records have no ids that are shown"),
    ("tailable", "only capped collections have a tail, and there are none"),
];

/// All options of `find`. What is off, or says how a cluster or a disk may be used, changes nothing. Neither does
/// `noCursorTimeout`: a cursor ends when no batch was requested for ten minutes.
const KNOWN: &[&str] = &[
    "allowDiskUse", "allowPartialResults", "awaitData", "batchSize", "collation", "filter", "hint", "let", "limit",
    "max", "min", "noCursorTimeout", "oplogReplay", "projection", "readConcern", "returnKey", "showRecordId",
    "singleBatch", "skip", "sort", "tailable",
];

/// Reads the question of a `find`.
pub(super) async fn query(reading: &Reading<'_>, options: &Options) -> Result<FindQuery, WireError> {
    options.only(KNOWN)?;
    options.refuse(REFUSED)?;
    options.are_flags(&["allowDiskUse", "allowPartialResults", "noCursorTimeout", "oplogReplay"])?;
    let names = Names { filter: "filter", sort: Some("sort"), projection: Some("projection") };
    let query = question::read(reading, options, &names).await?;
    let (skip, limit) = (options.amount("skip")?.unwrap_or(0), options.amount("limit")?.unwrap_or(0));
    Ok(FindQuery { skip, limit, ..query })
}

pub(super) async fn find(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    let ticket = reading.lasting_ticket();
    let query = ticket.scope(query(reading, options)).await?;
    let of_one_snapshot = options.read_concern()?;
    let single = options.flag("singleBatch")? == Some(true);
    let size = first_size(options.amount("batchSize")?);
    let reach = question::reach(reading, options).await?;
    let found = match &reach {
        Some(reach) => ticket.scope(reach.find(reading.services(), query)).await?,
        None => Found::All(Documents::new()),
    };
    let rest = match found {
        Found::All(documents) => Rest::in_memory(documents, ticket),
        Found::Chunked(chunks) => Rest::of(chunks, ticket, of_one_snapshot),
    };
    first_batch(reading, rest, size, (single, options.namespace()?, reach.into_iter().collect())).await
}

/// The size of a first batch.
pub(super) fn first_size(asked: Option<u64>) -> BatchSize {
    match asked {
        None => BatchSize { documents: FIRST_BATCH, bytes: USUAL_BATCH },
        Some(documents) => BatchSize { documents: u32::try_from(documents).unwrap_or(u32::MAX), bytes: LARGEST_BATCH },
    }
}

/// Answers with the first batch, and keeps the rest as a cursor.
pub(super) async fn first_batch(
    reading: &Reading<'_>,
    mut rest: Rest,
    size: BatchSize,
    (single, namespace, reached): (bool, String, Vec<Reach>),
) -> Result<Vec<u8>, WireError> {
    let mut batch = Batch::new("firstBatch");
    let more = rest.fill(&mut batch, size).await?;
    let id = if more && !single {
        rest.wait(OVERHEAD + reading.call.weight)?;
        let opened = Opened {
            connection: reading.call.session.id,
            user_id: reading.caller.user_id,
            namespace: namespace.clone(),
            session: reading.options.session(),
            reached,
        };
        reading.call.shared.cursors.keep(opened, rest)
    } else {
        0
    };
    Ok(batch.finish(id, &namespace))
}

/// Answers with a list that is in memory already, as a cursor without more.
pub(super) fn listed(documents: &Documents, namespace: &str) -> Vec<u8> {
    let mut batch = Batch::new("firstBatch");
    documents.iter().for_each(|document| batch.push(document));
    batch.finish(0, namespace)
}

pub(super) async fn get_more(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["collection", "batchSize", "term", "lastKnownCommittedOpTime"])?;
    if options.get("maxTimeMS").is_some() {
        let message = "cannot set maxTimeMS on getMore command for a non-awaitData cursor";
        return Err(WireError::new(code::BAD_VALUE, message));
    }
    let id = match options.subject() {
        Some(Bson::Int64(id)) => *id,
        other => return Err(options.mismatch("getMore", other.unwrap_or(&Bson::Null), "long")),
    };
    let Some(collection) = options.text("collection")? else {
        let message = "BSON field 'getMore.collection' is missing but a required field";
        return Err(WireError::new(code::MISSING_FIELD, message));
    };
    let size = match options.amount("batchSize")? {
        None | Some(0) => BatchSize { documents: u32::MAX, bytes: USUAL_BATCH },
        asked => first_size(asked),
    };
    let namespace = format!("{}.{collection}", options.database);
    let cursors = &reading.call.shared.cursors;
    let mut taken = cursors.take(id, reading.caller.user_id, (&namespace, options.session().as_deref()))?;
    let mut batch = Batch::new("nextBatch");
    // A failed cursor is gone: it is closed unless this ends well.
    let filled = async {
        still_seen(reading, &taken.reached).await?;
        let more = taken.rest.fill(&mut batch, size).await?;
        if more {
            taken.rest.wait(0)?;
        }
        Ok(more)
    };
    match filled.await {
        Ok(true) => {
            cursors.put_back(id, taken.rest);
            Ok(batch.finish(id, &namespace))
        }
        Ok(false) => {
            cursors.close(id);
            Ok(batch.finish(0, &namespace))
        }
        Err(error) => {
            cursors.close(id);
            Err(error)
        }
    }
}

/// A cursor continues as long as its caller sees the same as at its beginning.
async fn still_seen(reading: &Reading<'_>, reached: &[Reach]) -> Result<(), WireError> {
    for before in reached {
        if !before.is_seen_still(reading.services(), &reading.caller).await? {
            let message = "what you may see changed since the cursor was opened; ask again";
            return Err(WireError::new(code::QUERY_PLAN_KILLED, message));
        }
    }
    Ok(())
}

pub(super) fn kill_cursors(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    options.only(&["cursors"])?;
    let namespace = options.namespace()?;
    let (mut killed, mut unknown) = (Vec::new(), Vec::new());
    for id in options.array("cursors")?.unwrap_or_default() {
        let Bson::Int64(id) = id else { return Err(options.mismatch("cursors.0", id, "long")) };
        let was_there = reading.call.shared.cursors.kill(*id, reading.caller.user_id, &namespace);
        if was_there { killed.push(*id) } else { unknown.push(*id) }
    }
    let none = || Bson::Array(Vec::new());
    done(doc! { "cursorsKilled": killed, "cursorsNotFound": unknown, "cursorsAlive": none(), "cursorsUnknown": none() })
}

/// The documents of a list as the rest of an answer.
pub(super) fn rest_of(reading: &Reading<'_>, documents: Documents) -> Rest {
    Rest::in_memory(documents, reading.lasting_ticket())
}
