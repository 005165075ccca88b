//! The server's `explain` in the shape that both stores have.
//!
//! It explains the plain part of a question as a list, with `executionStats`. If the page does not show the total, it
//! explains the count too.
//!
//! A guard is not shown. The figures of a guarded query come from the query itself, and the plan from its question alone, for
//! which nothing is run.

use std::sync::Arc;
use std::time::Duration;

use bson::{Bson, Document, doc};

use super::Inner;
use super::connect::Topology;
use super::counters::whole_number;
use super::error::query_error;
use super::planned::planned;
use super::read;
use super::totals::{self, total_from};
use crate::store::question::{Split, is_by_field, unguarded};
use crate::store::{Explanation, FindQuery, Hint, IndexUse, KeyUse, SortedBy, Step, StoreError, TotalFrom};

/// Runs the plain part of the query and returns how it was answered. A page that is evaluated in the service has other figures
/// than its plain part: these are in `evaluated`, what it returns and how many match.
pub(super) async fn explain(
    inner: &Arc<Inner>,
    collection: &str,
    query: &FindQuery,
    evaluated: Option<(u64, u64)>,
) -> Result<Explanation, StoreError> {
    let Split { plain, rest } = Split::of(query)?;
    let answer = run(inner, read::command(collection, &plain), "executionStats", query.max_time).await?;
    let page = Stats::of(&answer);
    let planned = match unguarded(&query.filter) {
        Some(question) => {
            let alone = FindQuery { filter: question, ..plain.clone() };
            run(inner, read::command(collection, &alone), "queryPlanner", query.max_time).await?
        }
        None => answer,
    };
    let plan = Stats::of(&planned).plan.as_ref().map_or(Step::Nothing, step);
    let (returned, total) = evaluated.unwrap_or((page.returned, 0));
    let mut explanation = Explanation {
        store: super::KIND,
        sort: if rest.is_sorted() { SortedBy::Memory } else { sorted_by(query, &planned) },
        keys_examined: Some(page.keys),
        documents_examined: Some(page.documents),
        returned,
        total,
        total_from: if rest.is_filtered() { TotalFrom::Documents } else { TotalFrom::Page },
        time_us: Some(page.time_us),
        filter: None,
        references: Vec::new(),
        hint: None,
        plan,
    };
    if !rest.is_filtered() {
        match total_from(query, returned) {
            Some(total) => explanation.total = total,
            None => add_total(inner, collection, query, &mut explanation).await?,
        }
    }
    let used = match &explanation.plan {
        Step::Key(used) | Step::Index(used) => Some(used.keys.iter().map(|key| key.path.as_str()).collect()),
        _ => None,
    };
    let examined = explanation.documents_examined.unwrap_or_default();
    let hint = Hint::about(query, examined, explanation.returned, Some(explanation.total), used.into_iter());
    explanation.hint = hint;
    Ok(explanation)
}

/// Counts as a list does, and adds the work of the count.
async fn add_total(
    inner: &Arc<Inner>,
    collection: &str,
    query: &FindQuery,
    explanation: &mut Explanation,
) -> Result<(), StoreError> {
    let filter = query.filter.document();
    explanation.total = totals::count(inner, None, collection, &query.filter, query.max_time).await?;
    if filter.is_empty() && inner.topology != Topology::Sharded {
        explanation.total_from = TotalFrom::Collection;
        return Ok(());
    }
    let counted =
        run(inner, doc! { "count": collection, "query": planned(&query.filter) }, "executionStats", query.max_time)
            .await?;
    let counting = Stats::of(&counted);
    explanation.total_from = if counting.documents == 0 { TotalFrom::Keys } else { TotalFrom::Documents };
    add(&mut explanation.keys_examined, counting.keys);
    add(&mut explanation.documents_examined, counting.documents);
    add(&mut explanation.time_us, counting.time_us);
    Ok(())
}

fn add(figure: &mut Option<u64>, more: u64) {
    *figure = figure.map(|figure| figure + more);
}

async fn run(inner: &Inner, command: Document, verbosity: &str, max_time: Duration) -> Result<Document, StoreError> {
    let max_time = i64::try_from(max_time.as_millis()).unwrap_or(i64::MAX).max(1);
    let command = doc! { "explain": command, "verbosity": verbosity, "maxTimeMS": max_time };
    inner.database.run_command(command).await.map_err(|error| query_error(&error))
}

/// The server's figures for one query, of all shards together.
#[derive(Default)]
struct Stats {
    keys: u64,
    documents: u64,
    returned: u64,
    time_us: u64,
    plan: Option<Document>,
}

impl Stats {
    fn of(answer: &Document) -> Self {
        let mut stats = Self::default();
        stats.add(answer);
        stats
    }

    fn add(&mut self, answer: &Document) {
        if let Ok(plan) = answer.get_document("queryPlanner").and_then(|planner| planner.get_document("winningPlan"))
            && self.plan.is_none()
        {
            self.plan = Some(plan.clone());
        }
        if let Ok(stats) = answer.get_document("executionStats") {
            self.keys += figure(stats, "totalKeysExamined");
            self.documents += figure(stats, "totalDocsExamined");
            self.returned += figure(stats, "nReturned");
            self.time_us = self.time_us.max(figure(stats, "executionTimeMillis").saturating_mul(1000));
            return;
        }
        for shard in
            answer.get_document("shards").ok().into_iter().flatten().filter_map(|(_, shard)| shard.as_document())
        {
            self.add(shard);
        }
        let stages: Vec<&Document> = documents(answer, "stages").collect();
        for cursor in stages.iter().filter_map(|stage| stage.get_document("$cursor").ok()) {
            self.add(cursor);
        }
        // A pipeline returns what its last stage returns.
        if let Some(last) = stages.last().filter(|last| last.contains_key("nReturned")) {
            self.returned = figure(last, "nReturned");
        }
    }
}

fn figure(stats: &Document, name: &str) -> u64 {
    stats.get(name).and_then(whole_number).and_then(|figure| u64::try_from(figure).ok()).unwrap_or_default()
}

fn documents<'a>(holder: &'a Document, name: &str) -> impl Iterator<Item = &'a Document> {
    holder.get_array(name).ok().into_iter().flatten().filter_map(Bson::as_document)
}

/// A stage of the server's plan with those below it, without stages that only pass documents on, such as `FETCH` and
/// `LIMIT`.
fn step(stage: &Document) -> Step {
    if let Ok(plan) = stage.get_document("queryPlan") {
        return step(plan);
    }
    let below = || -> Vec<Step> {
        let single = ["inputStage", "thenStage", "elseStage", "outerStage", "innerStage"];
        let inputs = single.iter().filter_map(|name| stage.get_document(*name).ok());
        let shards = documents(stage, "shards").filter_map(|shard| shard.get_document("winningPlan").ok());
        inputs.chain(documents(stage, "inputStages")).chain(shards).map(step).collect()
    };
    match stage.get_str("stage").unwrap_or_default() {
        "EOF" => Step::Nothing,
        "COLLSCAN" => Step::Scan,
        "IDHACK" | "EXPRESS_IDHACK" => Step::Key(primary_key()),
        "OR" | "SORT_MERGE" => Step::Union { of: below() },
        _ if stage.contains_key("indexName") && stage.contains_key("keyPattern") => index(stage),
        name => {
            let mut of = below();
            if of.len() == 1 { of.remove(0) } else { Step::Other { stage: name.to_owned(), of } }
        }
    }
}

fn primary_key() -> IndexUse {
    let keys = vec![KeyUse { path: "_id".to_owned(), order: 1, bounds: Vec::new() }];
    IndexUse { index: "_id_".to_owned(), unique: true, multikey: false, partial: false, keys }
}

fn index(stage: &Document) -> Step {
    let flag = |name| stage.get_bool(name).unwrap_or_default();
    let bounds = stage.get_document("indexBounds").ok();
    let texts = |path: &str| -> Vec<String> {
        let texts = bounds.and_then(|bounds| bounds.get_array(path).ok()).into_iter().flatten();
        texts.filter_map(Bson::as_str).map(str::to_owned).collect()
    };
    let pattern = stage.get_document("keyPattern").cloned().unwrap_or_default();
    let keys: Vec<KeyUse> = pattern
        .iter()
        .map(|(path, direction)| KeyUse {
            path: path.clone(),
            order: whole_number(direction).map_or(0, |direction| if direction < 0 { -1 } else { 1 }),
            bounds: texts(path),
        })
        .collect();
    let is_key = flag("isUnique") && keys.iter().all(|key| !key.bounds.is_empty() && key.bounds.iter().all(is_point));
    let used = IndexUse {
        index: stage.get_str("indexName").unwrap_or_default().to_owned(),
        unique: flag("isUnique"),
        multikey: flag("isMultiKey"),
        partial: flag("isPartial"),
        keys,
    };
    if is_key { Step::Key(used) } else { Step::Index(used) }
}

/// Whether an interval, as the server writes it, holds a single value: `[5, 5]`.
#[expect(clippy::ptr_arg, reason = "the shape that an iterator over texts wants")]
fn is_point(interval: &String) -> bool {
    let inner = interval.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| {
        let half = inner.len().saturating_sub(2) / 2;
        inner.get(..half).is_some_and(|value| inner == format!("{value}, {value}"))
    })
}

fn sorted_by(query: &FindQuery, answer: &Document) -> SortedBy {
    if query.sort.is_empty() {
        SortedBy::None
    } else if is_by_field(&query.sort) || has_stage(answer, "SORT") {
        SortedBy::Memory
    } else if has_stage(answer, "SORT_MERGE") {
        SortedBy::Merge
    } else {
        SortedBy::Index
    }
}

/// Whether the winning plan has such a stage anywhere.
fn has_stage(answer: &Document, name: &str) -> bool {
    let is_it =
        answer.get_str("stage").is_ok_and(|stage| stage == name || (name == "SORT" && stage.starts_with("SORT_KEY")));
    let below = answer.iter().filter(|(member, _)| *member != "rejectedPlans").any(|(_, value)| match value {
        Bson::Document(inner) => has_stage(inner, name),
        Bson::Array(items) => items.iter().filter_map(Bson::as_document).any(|inner| has_stage(inner, name)),
        _ => false,
    });
    is_it || below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_one_value_is_a_point() {
        for (interval, point) in
            [("[5, 5]", true), ("[\"a, b\", \"a, b\"]", true), ("[5, 6]", false), ("(5, 5]", false), ("[]", false)]
        {
            assert_eq!(is_point(&interval.to_owned()), point, "{interval}");
        }
    }

    #[test]
    fn stages_that_only_pass_on_are_left_out() {
        let scan = doc! { "stage": "LIMIT", "inputStage": { "stage": "COLLSCAN", "direction": "forward" } };
        assert_eq!(step(&scan), Step::Scan);
        let both = doc! { "stage": "FETCH", "inputStage": { "stage": "OR", "inputStages": [scan.clone(), scan] } };
        assert_eq!(step(&both), Step::Union { of: vec![Step::Scan, Step::Scan] });
        let strange = doc! { "stage": "TEXT_MATCH" };
        assert_eq!(step(&strange), Step::Other { stage: "TEXT_MATCH".to_owned(), of: Vec::new() });
    }
}
