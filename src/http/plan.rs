//! The plan of a change of a type, and the note of what was carried out, as JSON.

use bson::{Bson, Document, doc};

use super::call::Answer;
use super::envelope::{self, ISO_TIME, Wire};
use super::error::ApiError;
use super::schema::{
    ComparedObjects, Dependent, MigrationStep, Misfit, Misfits, PlannedMigration, PlannedStep, TypeDifference,
    TypeMigration, TypePlan,
};
use super::state::HttpState;
use crate::service::resource::{self, Objects, Types};
use crate::service::types::carrying::Noted;
use crate::service::types::examples::Example;
use crate::service::types::fitting;
use crate::service::types::moving::Tally;
use crate::service::types::plan::{Plan, Step};

/// The answer with a plan.
pub(super) fn shown(state: &HttpState, plan: Plan) -> Answer {
    let class = plan.class().name().to_owned();
    let is_compared = plan.findings.is_some();
    let differences = plan.steps.into_iter().map(|step| difference(step, is_compared)).collect::<Result<_, _>>()?;
    let found = plan.findings;
    let objects = found.as_ref().map(|found| ComparedObjects { total: found.looked_at, unfit: found.unfit });
    let misfits_left_out = found.as_ref().map_or(0, |found| found.left_out);
    let (misfits, moved) = found.map(|found| (found.misfits, found.moved)).unwrap_or_default();
    let (misfits, migration) = (all(misfits)?, moved.map(migration).transpose()?);
    let plan = TypePlan { type_id: plan.type_id, class, differences, objects, misfits, misfits_left_out, migration };
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

fn migration(tally: Tally) -> Result<PlannedMigration, ApiError> {
    let steps = tally.steps.into_iter().map(|(step, field, tally)| {
        let (objects, refused) = (tally.objects, tally.refused);
        Ok(PlannedStep { step: step.to_owned(), field, objects, refused, first: named(tally.first)? })
    });
    Ok(PlannedMigration { objects: tally.objects, steps: steps.collect::<Result<_, ApiError>>()? })
}

fn all(groups: Vec<fitting::Misfits>) -> Result<Vec<Misfits>, ApiError> {
    let shown = |group: fitting::Misfits| {
        let (field, rule, objects) = (group.field, group.rule.name().to_owned(), group.objects);
        Ok(Misfits { field, rule, objects, first: named(group.first)? })
    };
    groups.into_iter().map(shown).collect()
}

fn named(first: Vec<Example>) -> Result<Vec<Misfit>, ApiError> {
    let misfit = |example: Example| {
        Ok(Misfit { public_id: example.public_id, value: json(example.value)?, reason: example.reason })
    };
    first.into_iter().map(misfit).collect()
}

/// The last migration of a type.
pub(super) fn noted(noted: &Noted) -> Result<TypeMigration, ApiError> {
    let document = resource::decode(&noted.document)?;
    let number = |name: &str| document.get_i64(name).unwrap_or_default();
    let count = |name: &str| noted.sees_objects.then(|| number(name).unsigned_abs());
    let text = |document: &Document, name: &str| document.get_str(name).unwrap_or_default().to_owned();
    let moment = |name: &str| document.get_datetime(name).ok().map(|at| at.to_chrono().format(ISO_TIME).to_string());
    let steps = document.get_array("steps").into_iter().flatten().filter_map(Bson::as_document);
    let steps = steps.map(|step| MigrationStep { step: text(step, "step"), field: text(step, "field") });
    Ok(TypeMigration {
        type_id: number("type_id"),
        state: text(&document, "state"),
        steps: steps.collect(),
        objects: count("objects"),
        done: count("done"),
        user_id: number("user_id"),
        request_id: document.get_str("request_id").ok().map(str::to_owned),
        begun: moment("begun").unwrap_or_default(),
        ended: moment("ended"),
    })
}

/// A value as native reads of objects show it.
fn json(value: Bson) -> Result<serde_json::Value, ApiError> {
    let document: Document = doc! {"value": value};
    let mut text = Vec::new();
    envelope::write_document(&resource::encode(&document)?, Objects::DATES, &mut text)?;
    let mut members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text).unwrap_or_default();
    Ok(members.remove("value").unwrap_or_default())
}
