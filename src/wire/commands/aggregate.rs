//! `aggregate`: a pipeline on a collection, as far as its caller sees it.

use bson::{Bson, Document, doc};

use super::options::Options;
use super::question::{self, understood};
use super::{Reading, done, explain, finding};
use crate::query::Pipeline;
use crate::service::exchange::tools::{self, Reach};
use crate::store::{Documents, FindQuery};
use crate::wire::cursors::Rest;
use crate::wire::error::{WireError, code};

/// All options of `aggregate`. `allowDiskUse` and `writeConcern` have no effect: drivers send the latter with each
/// pipeline, for those that write.
const KNOWN: &[&str] = &[
    "allowDiskUse", "bypassDocumentValidation", "collation", "cursor", "explain", "hint", "let", "pipeline",
    "readConcern", "writeConcern",
];

/// Options of `aggregate` that this server does not offer, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("bypassDocumentValidation", "nothing is written here"),
    ("hint", "this server chooses the index by itself, explain shows which; leave the hint out"),
    ("let", "write the values into the stages"),
];

pub(super) async fn aggregate(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let options = &reading.options;
    if options.flag("explain")? == Some(true) {
        let mut answer = explained(reading, options, false).await?;
        answer.extend(explain::server());
        return done(answer);
    }
    let of_one_snapshot = options.read_concern()?;
    let Some(cursor) = options.document("cursor")? else {
        let message = "The 'cursor' option is required, except for aggregate with the explain argument";
        return Err(WireError::new(code::FAILED_TO_PARSE, message));
    };
    if let Some(name) = cursor.keys().find(|name| *name != "batchSize") {
        return Err(WireError::new(code::UNKNOWN_FIELD, format!("BSON field 'cursor.{name}' is an unknown field.")));
    }
    let size = finding::first_size(Options::cursor_size(cursor)?);
    if let Some(rest) = described(reading).await? {
        return finding::first_batch(reading, rest, size, (false, options.namespace()?, Vec::new())).await;
    }
    let ticket = reading.lasting_ticket();
    let pipeline = ticket.scope(pipeline(reading, options, None)).await?;
    let max_time = options.max_time(reading.services().max_time)?;
    let (rest, reached) = match question::reach(reading, options).await? {
        None => (finding::rest_of(reading, Documents::new()), Vec::new()),
        Some(reach) => {
            let (services, caller) = (reading.services(), &*reading.caller);
            let found = reach.aggregate(services, caller, pipeline, max_time, &tools::LOOKED_UP);
            let (chunks, mut reached) = ticket.scope(found).await?;
            reached.push(reach);
            (Rest::of(chunks, ticket, of_one_snapshot), reached)
        }
    };
    finding::first_batch(reading, rest, size, (false, options.namespace()?, reached)).await
}

/// Reads the pipeline of a command, with another stage in place of the first one.
async fn pipeline(reading: &Reading<'_>, options: &Options, first: Option<Document>) -> Result<Pipeline, WireError> {
    options.only(KNOWN)?;
    options.refuse(REFUSED)?;
    options.are_flags(&["allowDiskUse"])?;
    options.simple_collation()?;
    if !matches!(options.subject(), Some(Bson::String(_))) {
        return Err(WireError::new(code::NOT_SUPPORTED, "this server aggregates collections alone; name one of them"));
    }
    let Some(stages) = options.array("pipeline")? else {
        let message = "BSON field 'aggregate.pipeline' is missing but a required field";
        return Err(WireError::new(code::MISSING_FIELD, message));
    };
    let terms = tools::terms(options.collection()?, question::limits(reading), reading.services().now());
    let mut stages = stages.to_vec();
    if let (Some(first), Some(place)) = (first, stages.first_mut()) {
        *place = first.into();
    }
    let max_time = reading.services().max_time;
    understood(stages.len(), max_time, move |effort| Pipeline::read_with(&stages, &terms, effort)).await
}

/// Stages that describe a collection and come before all others.
const DESCRIBING: [&str; 2] = ["$collStats", "$indexStats"];

/// The stage that drivers list indexes of a search with. MongoDB without one reports this code, and tools continue.
const SEARCH_INDEXES: &str = "$listSearchIndexes";

/// What a pipeline makes of the description of a collection, if it begins with one of [`DESCRIBING`].
async fn described(reading: &Reading<'_>) -> Result<Option<Rest>, WireError> {
    let options = &reading.options;
    let Some(Bson::Document(first)) = options.array("pipeline")?.and_then(|stages| stages.first()) else {
        return Ok(None);
    };
    if first.contains_key(SEARCH_INDEXES) {
        let message = format!("{SEARCH_INDEXES}: there is no search beside this server");
        return Err(WireError::new(code::SEARCH_NOT_ENABLED, message));
    }
    let Some((name, wanted)) = first.iter().next().filter(|(name, _)| DESCRIBING.contains(&name.as_str())) else {
        return Ok(None);
    };
    let Bson::Document(wanted) = wanted else {
        let message = format!("{name} must take a nested object but found: {wanted}");
        return Err(WireError::new(code::FAILED_TO_PARSE, message));
    };
    // The stages after it keep their places.
    let pipeline = pipeline(reading, options, Some(doc! { "$match": {} })).await?;
    let Some(reach) = question::reach(reading, options).await? else {
        let message = format!("Collection [{}] not found.", options.namespace()?);
        return Err(WireError::new(code::NAMESPACE_NOT_FOUND, message));
    };
    let documents =
        if name == "$collStats" { vec![sizes(reading, &reach, wanted).await?] } else { index_stats(&reach, wanted)? };
    let encoded: Vec<_> = documents.iter().map(super::listing::encoded).collect();
    let all: Documents = encoded.iter().map(|document| &**document).collect();
    let max_time = options.max_time(reading.services().max_time)?;
    Ok(Some(finding::rest_of(reading, tools::described(all, pipeline, max_time).await?)))
}

/// How large a collection is.
async fn sizes(reading: &Reading<'_>, reach: &Reach, wanted: &Document) -> Result<Document, WireError> {
    if let Some(name) = wanted.keys().find(|name| !["count", "storageStats"].contains(&name.as_str())) {
        let message = format!("$collStats.{name}: this server tells count and storageStats");
        return Err(WireError::new(code::INVALID_OPTIONS, message));
    }
    let size = reach.size(reading.services()).await?;
    let mut found = doc! { "ns": reading.options.namespace()?, "localTime": reading.services().now() };
    if wanted.contains_key("storageStats") {
        found.insert("storageStats", super::listing::sizes(size, 1, reach.indexes().len() + 1));
    }
    if wanted.contains_key("count") {
        found.insert("count", super::counting::number(size.documents));
    }
    Ok(found)
}

/// The indexes of a collection. How often each was used is not counted.
fn index_stats(reach: &Reach, wanted: &Document) -> Result<Vec<Document>, WireError> {
    if let Some(name) = wanted.keys().next() {
        return Err(WireError::new(code::INVALID_OPTIONS, format!("$indexStats takes no options, such as {name}")));
    }
    let described = super::listing::described_indexes(reach.indexes()).into_iter().map(|spec| {
        let (name, key) = (spec.get("name").cloned(), spec.get("key").cloned());
        doc! { "name": name, "key": key, "spec": spec }
    });
    Ok(described.collect())
}

pub(super) async fn explain(reading: &Reading<'_>, options: &Options, with_stats: bool) -> Result<Document, WireError> {
    explained(reading, options, with_stats).await
}

/// How the front of a pipeline is answered, and the stages after it.
async fn explained(reading: &Reading<'_>, options: &Options, with_stats: bool) -> Result<Document, WireError> {
    let pipeline = pipeline(reading, options, None).await?;
    let (front, max_time) = (pipeline.front(), options.max_time(reading.services().max_time)?);
    let query = FindQuery {
        skip: front.skip,
        limit: front.limit,
        ..FindQuery::new(front.filter.clone(), max_time).sorted(front.sort.clone())
    };
    let sort =
        pipeline.documents().iter().take(front.stages).find_map(|stage| stage.get_document("$sort").ok().cloned());
    let shape = explain::Shape {
        sort: sort.unwrap_or_default(),
        projection: None,
        skip: front.skip,
        limit: front.limit,
        counts: false,
    };
    let found = explain::explained(reading, options, query, &shape, with_stats).await?;
    if pipeline.is_done(front.stages) {
        return Ok(found);
    }
    let mut cursor = found;
    cursor.remove("explainVersion");
    let mut stages = vec![doc! { "$cursor": cursor }];
    stages.extend(pipeline.documents()[front.stages..].iter().cloned());
    Ok(doc! { "explainVersion": "1", "stages": stages })
}
