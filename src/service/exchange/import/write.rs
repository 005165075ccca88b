//! Commits a plan: as one unit if the store allows, else in resumable groups.

use std::collections::BTreeSet;

use bson::{Bson, DateTime, doc};

use super::plan::{ImportPlan, PlannedStep, What, document_of};
use super::report::{Action, ImportReport, ReportError, ReportLine, add_in_order};
use crate::domain::object_fields::Reference;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::objects::bulk::of_one_unit;
use crate::service::objects::takes_objects;
use crate::service::once::Once;
use crate::service::resource::{self, Objects, Resource};
use crate::service::services::Services;
use crate::store::{Change, Condition, StoreError, Unit};

/// The scope that imports with a key move when they store new objects, so that no two create the same object.
pub(super) const SCOPE: &str = "framework.objects.imports";

/// The outcome of the committed steps: the row of each and its line of the report.
pub(super) struct CarriedOut {
    pub(super) lines: Vec<(usize, ReportLine)>,
    /// Whether others changed what the remaining steps depend on, so that they must be planned again.
    pub(super) is_short: bool,
}

/// The note of the last unit of an import: that it is complete, and its outcome.
pub(super) struct Finish<'a> {
    pub(super) once: &'a Once,
    /// What earlier attempts of the same import stored.
    pub(super) before: &'a [(usize, ReportLine)],
    /// What is noticeable about the file.
    pub(super) warnings: &'a [ReportError],
}

/// The member of a mark that holds the report.
pub(super) const REPORT: &str = "report";

impl Finish<'_> {
    fn mark(&self, lines: &[(usize, ReportLine)], now: DateTime) -> Change {
        let mut report = ImportReport::default();
        add_in_order(&mut report, self.before.iter().chain(lines).cloned().collect());
        report.warn(self.warnings.to_vec());
        self.once.mark(0, now, doc! {REPORT: report.kept()})
    }
}

/// A change that is about to be made.
struct Prepared {
    row: usize,
    line: ReportLine,
    change: Change,
    references: Vec<Reference>,
}

impl Prepared {
    fn bytes(&self) -> usize {
        match &self.change {
            Change::Insert { document, .. } => document.as_bytes().len(),
            Change::Replace { before, after, .. } => before.as_bytes().len().max(after.as_bytes().len()),
            _ => 0,
        }
    }
}

/// Commits the plan, new objects first, each group as a whole.
///
/// With `finish` the last group notes the completion. `looked_at` is the number of [`SCOPE`] at the look-up of keys.
/// With it, new objects are stored only if no other import has stored some since then.
///
/// # Errors
/// Errors of the store; groups before the failed one are stored.
pub(super) async fn write(
    services: &Services,
    (type_id, edited): (i64, Bson),
    plan: ImportPlan,
    mut looked_at: Option<i64>,
    finish: Option<Finish<'_>>,
) -> Result<CarriedOut, ServiceError> {
    let made: BTreeSet<i64> = plan.steps.iter().filter_map(new_id).collect();
    let mut written = CarriedOut { lines: Vec::new(), is_short: false };
    let mut prepared = prepare(services, type_id, plan, &mut written).await?;
    // New objects and changed ones in units of their own: MongoDB has a cheaper way for units that only insert.
    let largest = services.store.largest_unit();
    // An import without any change stores only its mark.
    let mut is_finished = prepared.is_empty() && finish.is_none();
    while !is_finished {
        let is_new = |it: &Prepared| matches!(it.change, Change::Insert { .. });
        let alike = match prepared.first().map(is_new) {
            Some(true) if prepared.len() > largest => prepared.iter().take_while(|it| is_new(it)).count(),
            _ => prepared.len(),
        };
        // A store that bounds units by their number of changes bounds their bytes too.
        let most = if largest == usize::MAX { usize::MAX } else { of_one_unit(prepared.iter().map(Prepared::bytes)) };
        let rest = prepared.split_off(alike.min(largest).min(most));
        let group = std::mem::replace(&mut prepared, rest);
        let has_new = group.iter().any(is_new);
        let (mut unit, mut lines) = (Unit::default(), Vec::with_capacity(group.len()));
        let referred: BTreeSet<i64> = group.iter().flat_map(|it| &it.references).map(|it| it.object_id).collect();
        if !group.is_empty() {
            unit = unit.given(takes_objects(type_id, edited.clone()));
        }
        if has_new {
            unit.conditions.extend(looked_at.map(|at| Condition::Unchanged { scope: SCOPE.into(), at }));
        }
        unit.conditions.extend(referred.difference(&made).map(|id| Condition::exists(Objects::COLLECTION, *id)));
        for Prepared { row, line, change, .. } in group {
            unit.changes.push(change);
            lines.push((row, line));
        }
        is_finished = prepared.is_empty();
        if let Some(finish) = finish.as_ref().filter(|_| is_finished) {
            let all: Vec<_> = written.lines.iter().chain(&lines).cloned().collect();
            unit.changes.push(finish.mark(&all, services.now()));
        }
        match services.store.commit(unit).await {
            Ok(_) => {
                written.lines.extend(lines);
                looked_at = looked_at.map(|at| if has_new { at + 1 } else { at });
            }
            Err(
                StoreError::Stale | StoreError::Condition { .. } | StoreError::Duplicate { .. } | StoreError::Shared(_),
            ) => {
                written.is_short = true;
                return Ok(written);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(written)
}

fn new_id(step: &PlannedStep) -> Option<i64> {
    match &step.what {
        What::Create { public_id, .. } => *public_id,
        What::Update { .. } | What::Keep { .. } => None,
    }
}

/// The changes of the plan, with ids for new objects.
async fn prepare(
    services: &Services,
    type_id: i64,
    plan: ImportPlan,
    written: &mut CarriedOut,
) -> Result<Vec<Prepared>, ServiceError> {
    let is_nameless = |step: &&PlannedStep| matches!(step.what, What::Create { public_id: None, .. });
    let mut next = match u32::try_from(plan.steps.iter().filter(is_nameless).count()) {
        Ok(0) => 0,
        Ok(count) => services.store.reserve_ids(Objects::COLLECTION, count).await?,
        Err(_) => {
            return Err(ServiceError::refused(ErrorCode::TooManyObjects, "these are too many lines for one import"));
        }
    };
    let now = services.now();
    let (mut created, mut updated) = (Vec::new(), Vec::new());
    for (index, PlannedStep { row, line, what, references }) in plan.steps.into_iter().enumerate() {
        if index % 200 == 199 {
            tokio::task::yield_now().await;
        }
        let said = |action, id| ReportLine { line, action, public_id: Some(id) };
        match what {
            What::Keep { public_id } => written.lines.push((row, said(Action::Unchanged, public_id))),
            What::Update { public_id, before, after } => {
                let change = Change::Replace { collection: Objects::COLLECTION, before, after };
                updated.push(Prepared { row, line: said(Action::Updated, public_id), change, references });
            }
            What::Create { public_id, input, fields } => {
                let id = public_id.unwrap_or_else(|| {
                    next += 1;
                    next - 1
                });
                let document = resource::encode(&document_of(&input, &fields, (id, type_id), now))?;
                let change = Change::Insert { collection: Objects::COLLECTION, document };
                created.push(Prepared { row, line: said(Action::Created, id), change, references });
            }
        }
    }
    created.append(&mut updated);
    Ok(created)
}
