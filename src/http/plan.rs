//! The plan of a change of a type, as JSON.

use bson::{Bson, Document, doc};

use super::call::Answer;
use super::envelope::{self, Wire};
use super::error::ApiError;
use super::schema::{ComparedObjects, Dependent, Misfit, Misfits, TypeDifference, TypePlan};
use super::state::HttpState;
use crate::service::resource::{self, Objects, Types};
use crate::service::types::fitting;
use crate::service::types::plan::{Plan, Step};

/// The answer with a plan.
pub(super) fn shown(state: &HttpState, plan: Plan) -> Answer {
    let class = plan.class().name().to_owned();
    let is_compared = plan.findings.is_some();
    let differences = plan.steps.into_iter().map(|step| difference(step, is_compared)).collect::<Result<_, _>>()?;
    let found = plan.findings;
    let objects = found.as_ref().map(|found| ComparedObjects { total: found.looked_at, unfit: found.unfit });
    let misfits_left_out = found.as_ref().map_or(0, |found| found.left_out);
    let misfits = all(found.map(|found| found.misfits).unwrap_or_default())?;
    let plan = TypePlan { type_id: plan.type_id, class, differences, objects, misfits, misfits_left_out };
    Ok(envelope::value::<Types>(state, &plan))
}

fn difference(step: Step, is_compared: bool) -> Result<TypeDifference, ApiError> {
    let objects = step.misfits.iter().map(|group| group.objects).sum();
    let dependents = step.dependents.into_iter().map(|dependent| Dependent {
        resource: dependent.resource.to_owned(),
        public_id: dependent.public_id,
        place: dependent.place.to_owned(),
        name: dependent.name,
    });
    Ok(TypeDifference {
        change: step.difference.change.to_owned(),
        class: step.difference.class.name().to_owned(),
        from: json(step.difference.from)?,
        to: json(step.difference.to)?,
        name: step.difference.name,
        may_be_renamed_to: step.difference.may_be_renamed_to,
        reason: step.refusal,
        objects: is_compared.then_some(objects),
        misfits: all(step.misfits)?,
        dependents: dependents.collect(),
    })
}

fn all(groups: Vec<fitting::Misfits>) -> Result<Vec<Misfits>, ApiError> {
    let shown = |group: fitting::Misfits| {
        let example = |example: fitting::Example| {
            Ok(Misfit { public_id: example.public_id, value: json(example.value)?, reason: example.reason })
        };
        let first = group.first.into_iter().map(example).collect::<Result<_, ApiError>>()?;
        Ok(Misfits { field: group.field, rule: group.rule.name().to_owned(), objects: group.objects, first })
    };
    groups.into_iter().map(shown).collect()
}

/// A value as native reads of objects show it.
fn json(value: Bson) -> Result<serde_json::Value, ApiError> {
    let document: Document = doc! {"value": value};
    let mut text = Vec::new();
    envelope::write_document(&resource::encode(&document)?, Objects::DATES, &mut text)?;
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
    Ok(members.remove("value").unwrap_or_default())
}
