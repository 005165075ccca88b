//! Pipelines: the server runs them, with the guards in front of what the client sent.
//!
//! A guard stands as a `$match` at the front of the pipeline, and of each pipeline in it. The server moves and joins stages, so
//! what may fail or take long is kept behind the guard as in [`guarded`](super::guarded): by a `$limit` that no collection
//! reaches.

use bson::raw::RawDocumentBuf;
use bson::{Bson, Document, doc};
use mongodb::Cursor;
use mongodb::error::Error;
use mongodb::options::ReadConcern;

use super::Inner;
use super::error::{is_snapshot_lost, query_error};
use super::find::{CHUNK, whole_milliseconds};
use super::guarded::halves;
use crate::query::Filter;
use crate::store::chunks::{CHUNK_BYTES, CHUNK_DOCUMENTS};
use crate::store::{AggregateQuery, Documents, Reach, StoreError};

/// Begins to read the results.
pub(super) async fn open(inner: &Inner, collection: &str, query: &AggregateQuery) -> Result<Reading, StoreError> {
    let stages = guarded(query.pipeline.documents(), &query.guard, &query.reach)?;
    let concern = inner.topology.read_concern();
    let cursor = match ask(inner, collection, query, stages.clone(), concern).await {
        Err(error) if is_snapshot_lost(&error) => ask(inner, collection, query, stages, ReadConcern::majority()).await,
        outcome => outcome,
    };
    Ok(Reading { cursor: cursor.map_err(|error| query_error(&error))? })
}

async fn ask(
    inner: &Inner,
    collection: &str,
    query: &AggregateQuery,
    stages: Vec<Document>,
    concern: ReadConcern,
) -> Result<Cursor<RawDocumentBuf>, Error> {
    let documents = inner.collection(collection);
    let question = documents
        .aggregate(stages)
        .read_concern(concern)
        .batch_size(CHUNK)
        .allow_disk_use(true)
        .max_time(whole_milliseconds(query.max_time));
    question.with_type::<RawDocumentBuf>().await
}

/// Results that are being read.
pub(super) struct Reading {
    cursor: Cursor<RawDocumentBuf>,
}

impl Reading {
    /// The next chunk; empty at the end.
    pub(super) async fn chunk(&mut self) -> Result<Documents, StoreError> {
        let mut chunk = Documents::new();
        while chunk.len() < CHUNK_DOCUMENTS && chunk.bytes() < CHUNK_BYTES {
            if !self.cursor.advance().await.map_err(|error| query_error(&error))? {
                break;
            }
            chunk.push(self.cursor.current());
        }
        Ok(chunk)
    }
}

/// The stages with the guard in front of them, and guards in the pipelines in them.
fn guarded(stages: &[Document], guard: &Filter, reach: &Reach) -> Result<Vec<Document>, StoreError> {
    let mut inside = Vec::with_capacity(stages.len() + 3);
    for stage in stages {
        inside.push(with_guards(stage, reach)?);
    }
    if guard.document().is_empty() {
        return Ok(inside);
    }
    Ok(behind(guard, inside))
}

/// The guard, what may stand beside it and use an index, the `$limit`, and the rest.
fn behind(guard: &Filter, stages: Vec<Document>) -> Vec<Document> {
    let mut rest = stages.into_iter().peekable();
    let (mut conditions, mut costly) = (vec![guard.document().clone()], Vec::new());
    while costly.is_empty() {
        let Some(filter) = rest.peek().and_then(|stage| stage.get_document("$match").ok()) else { break };
        let (beside, behind) = halves(filter);
        conditions.extend(beside);
        costly = behind;
        rest.next();
    }
    let mut guarded = vec![doc! { "$match": { "$and": conditions } }];
    if !costly.is_empty() {
        guarded.extend([doc! { "$limit": i64::MAX }, doc! { "$match": { "$and": costly } }]);
        guarded.extend(rest);
        return guarded;
    }
    let by_index = |stage: &Document| ["$sort", "$skip", "$limit"].iter().any(|name| stage.contains_key(name));
    while let Some(stage) = rest.next_if(by_index) {
        guarded.push(stage);
    }
    if rest.peek().is_some() {
        guarded.push(doc! { "$limit": i64::MAX });
        guarded.extend(rest);
    }
    guarded
}

/// A stage with guards in the pipelines that read other collections.
fn with_guards(stage: &Document, reach: &Reach) -> Result<Document, StoreError> {
    let Some((name, operand)) = stage.iter().next() else { return Ok(stage.clone()) };
    let operand = match (name.as_str(), operand) {
        ("$lookup", Bson::Document(options)) => Bson::Document(of_collection(options, "from", reach)?),
        ("$unionWith", Bson::Document(options)) => Bson::Document(of_collection(options, "coll", reach)?),
        ("$unionWith", Bson::String(from)) => Bson::Document(of_collection(&doc! { "coll": from }, "coll", reach)?),
        ("$facet", Bson::Document(parts)) => {
            let mut guarded_parts = Document::new();
            for (name, part) in parts {
                guarded_parts.insert(name, guarded(&stages_of(Some(part)), &Filter::all(), reach)?);
            }
            Bson::Document(guarded_parts)
        }
        ("$group", Bson::Document(members)) => Bson::Document(without_undefined(members)),
        ("$bucket", Bson::Document(options)) => {
            let mut options = options.clone();
            if let Ok(members) = options.get_document("output") {
                options.insert("output", without_undefined(members));
            }
            Bson::Document(options)
        }
        (_, operand) => operand.clone(),
    };
    Ok(doc! { name: operand })
}

/// Accumulators that join documents, with null in place of what counts as null there: MongoDB 6.0.5 crashed on a deprecated kind
/// of value, 6.0.27 does not.
fn without_undefined(members: &Document) -> Document {
    let member = |(name, accumulator): (&String, &Bson)| {
        let operand = accumulator.as_document().filter(|one| one.len() == 1).and_then(|one| one.get("$mergeObjects"));
        let accumulator = match operand {
            // The server refuses a list.
            None | Some(Bson::Array(_)) => accumulator.clone(),
            Some(operand) => doc! { "$mergeObjects": { "$ifNull": [operand.clone(), null] } }.into(),
        };
        (name.clone(), accumulator)
    };
    members.iter().map(member).collect()
}

/// The options of a stage that reads a collection, with its guard in the pipeline.
fn of_collection(options: &Document, member: &str, reach: &Reach) -> Result<Document, StoreError> {
    let guard = reach.guard_of(options.get_str(member).unwrap_or_default())?;
    let mut options = options.clone();
    let stages = guarded(&stages_of(options.get("pipeline")), guard, reach)?;
    // Without a pipeline before and now, the server has a quicker way.
    if options.contains_key("pipeline") || !stages.is_empty() {
        options.insert("pipeline", stages);
    }
    Ok(options)
}

fn stages_of(pipeline: Option<&Bson>) -> Vec<Document> {
    let stages = pipeline.and_then(Bson::as_array).into_iter().flatten();
    stages.filter_map(Bson::as_document).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden() -> Filter {
        Filter::none_of("type_id", vec![Bson::Int64(7)])
    }

    #[test]
    fn a_guard_stands_in_front_of_what_can_fail() {
        let stages = [doc! { "$match": { "a": 1 } }, doc! { "$set": { "b": { "$divide": [1, "$a"] } } }];
        let guard = doc! { "type_id": { "$nin": [7_i64] } };
        let expected =
            vec![doc! { "$match": { "$and": [guard, { "a": 1 }] } }, doc! { "$limit": i64::MAX }, stages[1].clone()];
        assert_eq!(guarded(&stages, &hidden(), &Reach::default()).expect("nothing is out of reach"), expected);
        let divides = doc! { "$expr": { "$divide": [1, "$b"] } };
        let both = [doc! { "$match": { "a": 1, "$and": [divides.clone()] } }, doc! { "$limit": 3 }];
        let guard = doc! { "type_id": { "$nin": [7_i64] } };
        let expected = vec![
            doc! { "$match": { "$and": [guard, { "a": 1 }] } },
            doc! { "$limit": i64::MAX },
            doc! { "$match": { "$and": [divides] } },
            both[1].clone(),
        ];
        assert_eq!(guarded(&both, &hidden(), &Reach::default()).expect("nothing is out of reach"), expected);
    }

    #[test]
    fn what_joins_documents_is_sent_with_null_for_what_is_none() {
        let group = doc! { "_id": "$mergeObjects", "a": { "$mergeObjects": "$a" }, "b": { "$push": { "$mergeObjects": "$a" } } };
        let output = doc! { "a": group.get("a").cloned() };
        let sent = doc! { "_id": "$mergeObjects", "a": { "$mergeObjects": { "$ifNull": ["$a", null] } }, "b": group.get("b").cloned() };
        let stages = [doc! { "$group": &group }, doc! { "$bucket": { "groupBy": "$a", "output": output } }];
        let expected = [
            doc! { "$group": &sent },
            doc! { "$bucket": { "groupBy": "$a", "output": { "a": sent.get("a").cloned() } } },
        ];
        assert_eq!(guarded(&stages, &Filter::all(), &Reach::default()).expect("nothing is read"), expected);
    }

    #[test]
    fn other_collections_are_guarded_wherever_they_are_read() {
        let reach = Reach::default().with("things", hidden());
        let lookup = doc! { "$lookup": { "from": "things", "localField": "a", "foreignField": "b", "as": "c" } };
        let stages = [doc! { "$facet": { "x": [lookup] } }, doc! { "$unionWith": "things" }];
        let written = Bson::from(guarded(&stages, &Filter::all(), &reach).expect("within reach")).to_string();
        assert_eq!(written.matches("$nin").count(), 2, "{written}");
        assert!(guarded(&stages, &Filter::all(), &Reach::default()).is_err());
    }
}
