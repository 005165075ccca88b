//! Lines that would give an object a value of a unique field that another one has.

use std::collections::{HashMap, HashSet};

use bson::doc;
use bson::raw::RawDocumentBuf;

use super::plan::{ImportPlan, PlannedStep, What};
use super::report::{ReportError, ReportErrors};
use crate::domain::document::raw;
use crate::domain::object_input::write_fields;
use crate::service::claims::changes::{Changed, Consequences, consequences};
use crate::service::claims::rules::Rules;
use crate::service::error::ServiceError;
use crate::service::services::Services;

/// What stands for the id of an object that has none yet.
fn stand_in(step: &PlannedStep) -> i64 {
    let row = i64::try_from(step.row).unwrap_or(i64::MAX - 1);
    step.what.public_id().unwrap_or(-1 - row)
}

/// Adds an error for each of the lines. `is_read` says whether the importer may read the objects of the type.
///
/// # Errors
/// Errors of the store.
pub(super) async fn refuse_taken(
    services: &Services,
    type_id: i64,
    plan: &mut ImportPlan,
    is_read: bool,
) -> Result<(), ServiceError> {
    let rules = Rules::read(&*services.store, services.max_time).await?;
    if rules.of_type(type_id).next().is_none() {
        return Ok(());
    }
    let new: Vec<Option<RawDocumentBuf>> = plan.steps.iter().map(|step| of_new(step, type_id)).collect();
    let changed = plan.steps.iter().zip(&new).filter_map(|(step, new)| {
        let (before, after) = match &step.what {
            What::Create { .. } => (None, new.as_deref()),
            What::Update { before, after, .. } => (Some(&**before), Some(&**after)),
            What::Keep { .. } => return None,
        };
        Some(Changed { object: stand_in(step), before, after })
    });
    let changed: Vec<Changed<'_>> = changed.collect();
    let Consequences { clashes, .. } = consequences(&*services.store, &rules, &changed, services.max_time).await?;
    let lines: HashMap<i64, u64> = plan.steps.iter().map(|step| (stand_in(step), step.line)).collect();
    let is_new = |step: &&PlannedStep| matches!(step.what, What::Create { .. });
    let made: HashSet<i64> = plan.steps.iter().filter(is_new).map(stand_in).collect();
    let mut errors = ReportErrors::default();
    for shared in clashes {
        let (Some(owner), Some(line)) = (shared.ids.first(), shared.ids.last().and_then(|id| lines.get(id))) else {
            continue;
        };
        let has = match lines.get(owner) {
            Some(other) if made.contains(owner) => format!("line {other} has"),
            _ if is_read => format!("object {owner} has"),
            _ => "another object has".to_owned(),
        };
        let reason = format!("{has} this value of {}, which is unique", shared.field);
        errors.push(ReportError::new(*line, shared.field.as_str(), reason));
    }
    plan.errors.append(errors);
    Ok(())
}

/// What a new object is to its claims.
fn of_new(step: &PlannedStep, type_id: i64) -> Option<RawDocumentBuf> {
    let What::Create { fields, .. } = &step.what else { return None };
    Some(raw(&doc! { "type_id": type_id, "fields": write_fields(fields) }))
}
