//! Which stage of a pipeline causes a difference: asked of the stores themselves, with parts of the pipeline.

use bson::{Bson, Document, bson};

use super::bench::{Asked, Bench, Refusal};
use super::generator::Question;
use super::verdict::is_same_found;

/// Whether the store that fails begins to fail at a `$match` that combines an expression with other conditions, and is not
/// the first stage: the order of its conditions decides.
pub(super) async fn fails_in_match(bench: &Bench, question: &Question, is_mongodb: bool) -> bool {
    let Some(stages) = &question.pipeline else { return false };
    for end in 1..=stages.len() {
        let begun = Question { pipeline: Some(stages[..end].to_vec()), ..question.clone() };
        let answers = bench.ask(&begun).await;
        let failing = if is_mongodb { answers.mongo } else { answers.plain };
        if failing.is_err() {
            return asks_in_order(&stages[end - 1], end == 1);
        }
    }
    false
}

fn asks_in_order(stage: &Bson, is_first: bool) -> bool {
    let Some((name, operand)) = stage.as_document().and_then(|stage| stage.iter().next()) else { return false };
    let any = |stages: Option<&Bson>| {
        let stages = stages.and_then(Bson::as_array).map_or(&[][..], Vec::as_slice);
        stages.iter().any(|stage| asks_in_order(stage, false))
    };
    match (name.as_str(), operand) {
        ("$match", Bson::Document(filter)) => !is_first && is_expression_beside_others(filter),
        ("$lookup" | "$unionWith", Bson::Document(options)) => any(options.get("pipeline")),
        ("$facet", Bson::Document(parts)) => parts.values().any(|part| any(Some(part))),
        _ => false,
    }
}

fn is_expression_beside_others(filter: &Document) -> bool {
    fn count(value: &Bson) -> (usize, usize) {
        let Bson::Document(filter) = value else { return (0, 0) };
        filter.iter().fold((0, 0), |(expressions, all), (name, value)| match (name.as_str(), value) {
            ("$expr", _) => (expressions + 1, all + 1),
            ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
                let inner = parts.iter().map(count);
                inner.fold((expressions, all), |sum, part| (sum.0 + part.0, sum.1 + part.1))
            }
            _ => (expressions, all + 1),
        })
    }
    let (expressions, all) = count(&filter.clone().into());
    expressions > 0 && all > 1
}

/// Whether one of these functions, asked alone, gives other values on the documents, or fails, on one store alone. What a
/// question makes of them may differ in more: conditions hold or not, groups come in another order.
pub(super) async fn differs_by_itself(bench: &Bench, question: &Question, functions: &[&str]) -> bool {
    let stages = question.pipeline.clone().map(Bson::from);
    let filter = Bson::from(question.filter.clone());
    let projection = question.projection.clone().map(Bson::from);
    let mut calls = Vec::new();
    let parts = [Some(&filter), projection.as_ref(), stages.as_ref()];
    parts.into_iter().flatten().for_each(|part| add_calls(part, functions, &mut calls));
    for call in calls {
        let stage = bson!({ "$project": { "value": call } });
        let asked = Question { pipeline: Some(vec![stage]), ..question.clone() };
        let answers = bench.ask(&asked).await;
        let differs = match (&answers.mongo, &answers.plain) {
            (Ok(mongo), Ok(plain)) => !is_same_found(mongo, plain),
            (mongo, plain) => mongo.is_ok() != plain.is_ok(),
        };
        if differs {
            return true;
        }
    }
    false
}

fn add_calls(value: &Bson, functions: &[&str], calls: &mut Vec<Bson>) {
    match value {
        Bson::Document(document) => {
            for (name, operand) in document {
                if functions.contains(&name.as_str()) {
                    calls.push(bson!({ name: operand.clone() }));
                }
                add_calls(operand, functions, calls);
            }
        }
        Bson::Array(items) => items.iter().for_each(|item| add_calls(item, functions, calls)),
        _ => {}
    }
}

/// All pipelines in the stages, those in them included.
pub(super) fn inner_pipelines(stages: &[Bson]) -> Vec<Vec<Bson>> {
    let mut found = Vec::new();
    for (name, operand) in stages.iter().filter_map(Bson::as_document).flatten() {
        let Bson::Document(options) = operand else { continue };
        let is_inner = |member: &str| match name.as_str() {
            "$facet" => true,
            "$lookup" | "$unionWith" => member == "pipeline",
            _ => false,
        };
        for inner in options.iter().filter(|(member, _)| is_inner(member)).filter_map(|(_, value)| value.as_array()) {
            found.extend(inner_pipelines(inner));
            found.push(inner.clone());
        }
    }
    found
}

/// Whether a `$lookup` or a `$unionWith` begins with conditions on `_id`, on which the server has an index.
pub(super) fn looks_up_by_id(stages: &[Bson], has_bounds: fn(&Document) -> bool) -> bool {
    let begins_by_id = |stages: &[Bson]| {
        let conditions = stages.iter().map_while(|stage| stage.as_document()?.get_document("$match").ok());
        conditions.into_iter().any(has_bounds)
    };
    stages.iter().filter_map(Bson::as_document).flatten().any(|(name, operand)| {
        let Bson::Document(options) = operand else { return false };
        let inner = |name: &str| options.get_array(name).map_or(&[][..], Vec::as_slice);
        match name.as_str() {
            "$lookup" | "$unionWith" => {
                let pipeline = inner("pipeline");
                options.get_str("foreignField").is_ok_and(|path| path == "_id")
                    || begins_by_id(pipeline)
                    || looks_up_by_id(pipeline, has_bounds)
            }
            "$facet" => options.keys().any(|part| looks_up_by_id(inner(part), has_bounds)),
            _ => false,
        }
    })
}

/// Whether the server refuses what is refused here in the pipeline of a `$lookup`, once a document gets there. It may find
/// another reason first, as it then knows the values of variables.
pub(super) async fn is_refused_with_a_document(bench: &Bench, question: &Question, refusal: &Refusal) -> bool {
    let path: Vec<&str> = refusal.words.split(": ").next().unwrap_or_default().split('.').collect();
    let stages = question.pipeline.as_deref().unwrap_or_default();
    let Some(stages) = path.split_first().and_then(|(_, path)| reaching(stages, path)) else { return false };
    let asked = Question { pipeline: Some(stages), ..question.clone() };
    bench.ask_server(&asked, Asked::AsItIs).await.is_err()
}

/// The `$lookup` on the path, and a document before it; the same for those on the path in its pipeline.
fn reaching(stages: &[Bson], path: &[&str]) -> Option<Vec<Bson>> {
    let (index, path) = path.split_first()?;
    let (name, operand) = stages.get(index.parse::<usize>().ok()?)?.as_document()?.iter().next()?;
    let options = operand.as_document()?;
    let pipeline = |name: &str| options.get_array(name).ok();
    match (name.as_str(), path) {
        ("$lookup", [_, "pipeline", inner @ ..]) => {
            let mut options = options.clone();
            let stages = options.get_array("pipeline").ok()?;
            // Of the stages in front another one may fail.
            let alone = || inner.first()?.parse().ok().and_then(|place: usize| stages.get(place).cloned());
            let deeper = reaching(stages, inner).or_else(|| Some(vec![alone()?]))?;
            options.insert("pipeline", deeper);
            let none = bson!({ "$match": { "_id": { "$exists": false } } });
            let one = bson!({ "$unionWith": { "pipeline": [{ "$documents": [{}] }] } });
            Some(vec![none, one, bson!({ "$lookup": options })])
        }
        ("$unionWith", [_, "pipeline", inner @ ..]) => reaching(pipeline("pipeline")?, inner),
        ("$facet", [_, part, inner @ ..]) => reaching(pipeline(part)?, inner),
        _ => None,
    }
}
