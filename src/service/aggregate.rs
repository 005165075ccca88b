//! Pipelines on objects: what they may see, and what enters them. docs/api.md, Aggregation.

use std::time::Instant;

use bson::{Bson, Document, doc};

use super::directory::Caller;
use super::error::ServiceError;
use super::error_code::ErrorCode;
use super::resource::{Categories, Objects, Resource, Types};
use super::services::Services;
use crate::admission::{self, Means};
use crate::plural::counted;
use crate::query::{Effort, Filter, Limits, Pipeline};
use crate::store::{AggregateQuery, Documents, Reach, StoreError, gathered};

/// The results of a pipeline may have this many bytes together.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// Stages that a store answers from its indexes where they come first.
const FRONT: [&str; 4] = ["$match", "$sort", "$skip", "$limit"];

/// Runs a pipeline on the objects that the caller may see, for at most `most` results. It was checked as the client sent it.
///
/// # Errors
/// More results, [`ErrorCode::ParameterInvalid`]; failures on documents, and errors of the store.
pub async fn aggregate_objects(
    services: &Services,
    caller: &Caller,
    stages: &[Bson],
    most: u64,
) -> Result<Documents, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let guard = types.visible_to(caller).unwrap_or_default();
    let mut reach = Reach::default().with(Objects::COLLECTION, guard.clone());
    for (right, collection) in
        [("base.framework.type.view", Types::COLLECTION), ("base.framework.category.view", Categories::COLLECTION)]
    {
        if caller.rights.grants(right) {
            reach = reach.with(collection, Filter::all());
        }
    }
    let mut entering = entering(stages);
    // One more shows that there are too many.
    entering.push(doc! { "$limit": i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1) }.into());
    let (max_time, now) = (services.max_time, services.now());
    let limits = Limits { code_values: true, ..Limits::NONE };
    // Constant expressions are computed here, which can take long.
    let parse = move |means: &Means| {
        let effort = Effort::Work(means.clone(), Instant::now().checked_add(max_time));
        Pipeline::parse_with(&entering, &limits, now, &effort)
    };
    let pipeline = admission::work(parse).await.map_err(StoreError::from)??;
    let query = AggregateQuery { guard, reach, max_bytes: MAX_BYTES, ..AggregateQuery::new(pipeline, max_time) };
    let chunks = services.store.aggregate(Objects::COLLECTION, &query).await?;
    match gathered(chunks, MAX_BYTES).await {
        Err(StoreError::TooLarge) => {
            Err(too_many(format!("the results have more than {} MiB", MAX_BYTES / 1024 / 1024)))
        }
        Ok(documents) if documents.len() as u64 > most => {
            Err(too_many(format!("there are more than {}", counted(most, "result"))))
        }
        documents => Ok(documents?),
    }
}

fn too_many(what: String) -> ServiceError {
    ServiceError::refused(ErrorCode::ParameterInvalid, format!("pipeline: {what}; end it with a $limit"))
}

/// The stages with documents that enter as native reads show them: without MongoDB's `_id`. Stages that an index answers keep
/// their place in front.
fn entering(stages: &[Bson]) -> Vec<Bson> {
    let is_front = |stage: &Bson| name_of(stage).is_some_and(|name| FRONT.contains(&name));
    let front = stages.iter().take_while(|stage| is_front(stage)).count();
    let mut entering: Vec<Bson> = stages[..front].to_vec();
    if stages.get(front).and_then(name_of) != Some("$count") {
        entering.push(doc! { "$unset": "_id" }.into());
    }
    entering.extend(stages[front..].iter().map(inside));
    entering
}

fn name_of(stage: &Bson) -> Option<&str> {
    stage.as_document()?.keys().next().map(String::as_str)
}

/// A stage in whose pipelines documents enter in the same way.
fn inside(stage: &Bson) -> Bson {
    let Some((name, operand)) = stage.as_document().and_then(|stage| stage.iter().next()) else { return stage.clone() };
    let operand = match (name.as_str(), operand) {
        ("$lookup" | "$unionWith", Bson::Document(options)) => {
            let stages = options.get_array("pipeline").map(Vec::as_slice).unwrap_or_default();
            let mut options = options.clone();
            options.insert("pipeline", entering(stages));
            Bson::Document(options)
        }
        ("$unionWith", Bson::String(from)) => doc! { "coll": from, "pipeline": entering(&[]) }.into(),
        ("$facet", Bson::Document(parts)) => {
            let part = |stages: &Bson| Bson::Array(stages.as_array().into_iter().flatten().map(inside).collect());
            Bson::Document(parts.iter().map(|(name, stages)| (name.clone(), part(stages))).collect::<Document>())
        }
        (_, operand) => operand.clone(),
    };
    doc! { name: operand }.into()
}

#[cfg(test)]
mod tests {
    use bson::bson;

    use super::*;

    #[test]
    fn documents_enter_without_their_id_behind_what_an_index_answers() {
        let stages = [bson!({ "$match": { "a": 1 } }), bson!({ "$facet": { "x": [{ "$unionWith": "c" }] } })];
        let expected = vec![
            bson!({ "$match": { "a": 1 } }),
            bson!({ "$unset": "_id" }),
            bson!({ "$facet": { "x": [{ "$unionWith": { "coll": "c", "pipeline": [{ "$unset": "_id" }] } }] } }),
        ];
        assert_eq!(entering(&stages), expected);
        assert_eq!(entering(&[bson!({ "$count": "n" })]), [bson!({ "$count": "n" })]);
    }
}
