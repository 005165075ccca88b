//! Explains how a query is answered: for people who wonder why it is slow, and for tests of the planner.

use std::time::Instant;

use crate::store::embedded::catalog::collections::Collection;
use crate::store::embedded::index::ranges::IndexScan;
use crate::store::embedded::plan::intervals;
use crate::store::embedded::plan::planner::Plan;
use crate::store::embedded::read::execute::Deadline;
use crate::store::embedded::read::find::Question;
use crate::store::embedded::read::snapshot::Snapshot;
use crate::store::{Explanation, FindQuery, IndexUse, KeyUse, SortedBy, Step, StoreError, TotalFrom};

/// See [`Store::kind`](crate::store::Store::kind).
pub(crate) const KIND: &str = "embedded";

/// Runs the query and explains it.
pub(crate) fn explain(
    snapshot: &Snapshot,
    name: &str,
    query: &FindQuery,
    deadline: Deadline,
) -> Result<Explanation, StoreError> {
    let started = Instant::now();
    let Some(collection) = snapshot.collection(name) else { return Ok(never_written(query)) };
    let tables = snapshot.tables(collection)?;
    let question = Question::new(collection, tables, query, true, deadline.clone())?;
    let answer = question.ask(collection, tables)?;
    // A guard is not shown: the plan is that of its question alone.
    let alone = query.filter.guarded().map(|halves| FindQuery { filter: halves.question.clone(), ..query.clone() });
    let shown = match &alone {
        Some(alone) => &Question::new(collection, tables, alone, true, deadline)?,
        None => &question,
    };
    let plan = &shown.choice.plan;
    Ok(Explanation {
        store: KIND,
        plan: if answer.work.gave_up && alone.is_none() { Step::Scan } else { step(plan, collection) },
        sort: match plan {
            _ if query.sort.is_empty() && !query.sort.is_reversed() => SortedBy::None,
            // Keys of the order, or documents that are sorted: which of them depends on the number that is found.
            Plan::Sets(sets) if sets.order.is_some() => SortedBy::Index,
            Plan::Index(scan) if scan.is_merge() => SortedBy::Merge,
            plan if plan.is_ordered(&query.sort) => SortedBy::Index,
            _ => SortedBy::Memory,
        },
        keys_examined: Some(answer.work.keys),
        documents_examined: Some(answer.work.documents),
        returned: answer.documents.len() as u64,
        total: answer.total.unwrap_or_default(),
        total_from: shown.total_from(),
        time_us: u64::try_from(started.elapsed().as_micros()).ok(),
        filter: None,
        references: Vec::new(),
        hint: answer.hint,
    })
}

fn never_written(query: &FindQuery) -> Explanation {
    Explanation {
        store: KIND,
        plan: Step::Nothing,
        sort: if query.sort.is_empty() { SortedBy::None } else { SortedBy::Index },
        keys_examined: Some(0),
        documents_examined: Some(0),
        returned: 0,
        total: 0,
        total_from: TotalFrom::Collection,
        time_us: Some(0),
        filter: None,
        references: Vec::new(),
        hint: None,
    }
}

fn step(plan: &Plan, collection: &Collection) -> Step {
    match plan {
        Plan::Nothing => Step::Nothing,
        Plan::Scan => Step::Scan,
        Plan::Index(scan) => step_of(scan, collection),
        Plan::Sets(sets) => {
            let parts = sets.plain.iter().chain(sets.elements.iter().map(|set| &set.scan));
            let mut of: Vec<Step> = parts.map(|scan| step_of(scan, collection)).collect();
            if of.len() == 1 { of.remove(0) } else { Step::Intersection { of } }
        }
        Plan::Union(scans) => Step::Union { of: scans.iter().map(|scan| step_of(scan, collection)).collect() },
    }
}

fn step_of(scan: &IndexScan, collection: &Collection) -> Step {
    let index = &collection.indexes[scan.index];
    let keys = index.components.iter().zip(&scan.bounds).map(|(component, bounds)| KeyUse {
        path: component.path.clone(),
        order: if component.descending { -1 } else { 1 },
        bounds: intervals::intervals(bounds.as_ref()),
    });
    let used = IndexUse {
        index: index.name.clone(),
        unique: index.unique,
        multikey: index.is_multikey(),
        partial: index.partial.is_some(),
        keys: keys.collect(),
    };
    if scan.points && index.unique { Step::Key(used) } else { Step::Index(used) }
}
