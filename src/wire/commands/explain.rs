//! `explain`, in MongoDB's shape: `queryPlanner` always, `executionStats` when asked for.
//!
//! The query really runs. Figures about documents that the caller may not see are left out.

use bson::{Bson, Document, doc};

use super::options::Options;
use super::question;
use super::{Reading, counting, done, finding};
use crate::store::{Explanation, FindQuery, IndexUse, SortedBy, Step};
use crate::wire::error::{WireError, code};

/// The parts of a query that shape its plan, apart from the way to the documents.
pub(super) struct Shape {
    pub(super) sort: Document,
    pub(super) projection: Option<Document>,
    pub(super) skip: u64,
    pub(super) limit: u64,
    pub(super) counts: bool,
}

pub(super) async fn explain(reading: &Reading<'_>) -> Result<Vec<u8>, WireError> {
    let outer = &reading.options;
    outer.only(&["verbosity"])?;
    let with_stats = match outer.text("verbosity")?.unwrap_or("allPlansExecution") {
        "queryPlanner" => false,
        "executionStats" | "allPlansExecution" => true,
        other => {
            let message = format!("verbosity: {other:?} is none of queryPlanner, executionStats, allPlansExecution");
            return Err(WireError::new(code::BAD_VALUE, message));
        }
    };
    let Some(Bson::Document(command)) = outer.subject() else {
        return Err(outer.mismatch("explain", outer.subject().unwrap_or(&Bson::Null), "object"));
    };
    let options = outer.inside(command)?;
    let query = match options.command.as_str() {
        "find" => finding::query(reading, &options).await?,
        "count" => counting::count_query(reading, &options).await?,
        "distinct" => counting::distinct_query(reading, &options).await?.0,
        "aggregate" => {
            let mut answer = super::aggregate::explain(reading, &options, with_stats).await?;
            answer.insert("command", command.clone());
            answer.extend(server());
            return done(answer);
        }
        other => {
            let message = format!("Explain failed due to unknown command: {other}");
            return Err(WireError::new(code::COMMAND_NOT_FOUND, message));
        }
    };
    let shape = Shape {
        sort: options.document("sort")?.cloned().unwrap_or_default(),
        projection: options.document("projection")?.filter(|projection| !projection.is_empty()).cloned(),
        skip: query.skip,
        limit: query.limit,
        counts: options.command == "count",
    };
    let mut answer = explained(reading, &options, query, &shape, with_stats).await?;
    answer.insert("command", command.clone());
    answer.extend(server());
    done(answer)
}

/// The last part of every plan.
pub(super) fn server() -> Document {
    doc! { "serverInfo": { "host": "", "port": 0, "version": crate::query::FOLLOWS, "gitVersion": "" } }
}

pub(super) async fn explained(
    reading: &Reading<'_>,
    options: &Options,
    query: FindQuery,
    shape: &Shape,
    with_stats: bool,
) -> Result<Document, WireError> {
    let filter = query.filter.document().clone();
    let found = match question::reach(reading, options).await? {
        Some(reach) => Some(reach.explain(reading.services(), query).await?),
        None => None,
    };
    let mut answer = doc! {
        "explainVersion": "1",
        "queryPlanner": planner(&options.namespace()?, &filter, plan(found.as_ref(), &filter, shape, false)),
    };
    if with_stats {
        answer.insert("executionStats", stats(found.as_ref(), plan(found.as_ref(), &filter, shape, true)));
    }
    Ok(answer)
}

fn planner(namespace: &str, filter: &Document, plan: Document) -> Document {
    doc! {
        "namespace": namespace,
        "indexFilterSet": false,
        "parsedQuery": filter.clone(),
        "maxIndexedOrSolutionsReached": false,
        "maxIndexedAndSolutionsReached": false,
        "maxScansToExplodeReached": false,
        "winningPlan": plan,
        "rejectedPlans": Bson::Array(Vec::new()),
    }
}

fn stats(found: Option<&Explanation>, stages: Document) -> Document {
    let mut stats = doc! { "executionSuccess": true, "nReturned": long(found.map_or(0, |found| found.returned)) };
    if let Some(found) = found {
        stats.extend(found.time_us.map(|time| ("executionTimeMillis".to_owned(), long(time / 1000))));
        stats.extend(found.keys_examined.map(|keys| ("totalKeysExamined".to_owned(), long(keys))));
        stats.extend(found.documents_examined.map(|documents| ("totalDocsExamined".to_owned(), long(documents))));
    }
    stats.insert("executionStages", stages);
    stats
}

/// The tree of stages, the last one outermost.
fn plan(found: Option<&Explanation>, filter: &Document, shape: &Shape, with_stats: bool) -> Document {
    let Some(found) = found else { return doc! { "stage": "EOF" } };
    let mut plan = stage(&found.plan, filter);
    if with_stats {
        plan.extend(found.documents_examined.map(|documents| ("docsExamined".to_owned(), long(documents))));
    }
    match found.sort {
        SortedBy::None | SortedBy::Index => {}
        SortedBy::Merge => plan = doc! { "stage": "SORT_MERGE", "sortPattern": shape.sort.clone(), "inputStage": plan },
        SortedBy::Memory if shape.sort.is_empty() => {}
        SortedBy::Memory => {
            let mut sort = doc! { "stage": "SORT", "sortPattern": shape.sort.clone(), "type": "simple" };
            if shape.limit > 0 {
                sort.insert("limitAmount", long(shape.limit.saturating_add(shape.skip)));
            }
            sort.insert("inputStage", plan);
            plan = sort;
        }
    }
    if shape.skip > 0 {
        plan = doc! { "stage": "SKIP", "skipAmount": long(shape.skip), "inputStage": plan };
    }
    if let Some(projection) = &shape.projection {
        let simple = projection
            .values()
            .all(|value| matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Boolean(_)));
        let simple = simple && projection.keys().all(|name| !name.contains('.'));
        let stage = if simple { "PROJECTION_SIMPLE" } else { "PROJECTION_DEFAULT" };
        plan = doc! { "stage": stage, "transformBy": projection.clone(), "inputStage": plan };
    }
    if shape.counts {
        plan = doc! { "stage": "COUNT", "inputStage": plan };
    } else if shape.limit > 0 {
        plan = doc! { "stage": "LIMIT", "limitAmount": long(shape.limit), "inputStage": plan };
    }
    if with_stats {
        plan.insert("nReturned", long(found.returned));
    }
    plan
}

fn stage(step: &Step, filter: &Document) -> Document {
    match step {
        Step::Nothing => doc! { "stage": "EOF" },
        Step::Scan | Step::Memory => {
            let mut scan = doc! { "stage": "COLLSCAN" };
            if !filter.is_empty() {
                scan.insert("filter", filter.clone());
            }
            scan.insert("direction", "forward");
            scan
        }
        Step::Key(used) if used.index == "_id" => doc! { "stage": "IDHACK" },
        Step::Key(used) | Step::Index(used) => doc! { "stage": "FETCH", "inputStage": scan(used) },
        Step::Union { of } => {
            let ways: Vec<Document> = of.iter().map(|step| stage(step, filter)).collect();
            doc! { "stage": "OR", "inputStages": ways }
        }
        Step::Intersection { of } => {
            let ways: Vec<Document> = of.iter().map(|step| stage(step, filter)).collect();
            doc! { "stage": "AND_HASH", "inputStages": ways }
        }
        Step::Other { stage: name, of } => {
            let ways: Vec<Document> = of.iter().map(|step| stage(step, filter)).collect();
            doc! { "stage": name.as_str(), "inputStages": ways }
        }
    }
}

fn scan(used: &IndexUse) -> Document {
    let pattern: Document = used.keys.iter().map(|key| (key.path.clone(), Bson::Int32(key.order))).collect();
    let bounds: Document = used.keys.iter().map(|key| (key.path.clone(), Bson::from(key.bounds.clone()))).collect();
    let name = if used.index == "_id" { "_id_" } else { used.index.as_str() };
    doc! {
        "stage": "IXSCAN",
        "keyPattern": pattern,
        "indexName": name,
        "isMultiKey": used.multikey,
        "isUnique": used.unique,
        "isSparse": false,
        "isPartial": used.partial,
        "indexVersion": 2,
        "direction": "forward",
        "indexBounds": bounds,
    }
}

fn long(number: u64) -> Bson {
    counting::number(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{KeyUse, TotalFrom};

    fn used(index: &str) -> IndexUse {
        let keys = vec![KeyUse { path: "type_id".to_owned(), order: 1, bounds: vec!["[1, 1]".to_owned()] }];
        IndexUse { index: index.to_owned(), unique: false, multikey: false, partial: false, keys }
    }

    fn explanation(plan: Step, sort: SortedBy) -> Explanation {
        Explanation {
            store: "embedded",
            plan,
            sort,
            keys_examined: Some(3),
            documents_examined: Some(2),
            returned: 1,
            total: 2,
            total_from: TotalFrom::Keys,
            time_us: Some(5000),
            filter: None,
            references: Vec::new(),
            hint: None,
        }
    }

    #[test]
    fn stages_stand_in_each_other_as_in_mongodb() {
        let shape =
            Shape { sort: doc! { "a": 1 }, projection: Some(doc! { "a": 1 }), skip: 2, limit: 5, counts: false };
        let found = explanation(Step::Index(used("type_id")), SortedBy::Memory);
        let mut plan = plan(Some(&found), &doc! {}, &shape, false);
        let mut stages = Vec::new();
        loop {
            stages.push(plan.get_str("stage").expect("a stage").to_owned());
            let Ok(inner) = plan.get_document("inputStage") else { break };
            plan = inner.clone();
        }
        assert_eq!(stages, ["LIMIT", "PROJECTION_SIMPLE", "SKIP", "SORT", "FETCH", "IXSCAN"]);
        assert_eq!(plan.get_document("indexBounds").ok(), Some(&doc! { "type_id": ["[1, 1]"] }));
    }

    #[test]
    fn figures_that_were_left_out_stay_out() {
        let found = explanation(Step::Scan, SortedBy::None).without_counts();
        let shown = stats(Some(&found), doc! {});
        assert_eq!(shown, doc! { "executionSuccess": true, "nReturned": 1, "executionStages": {} });
    }
}
