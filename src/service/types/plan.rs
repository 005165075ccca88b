//! The plan of a change of a type: what differs, which objects it concerns, and what else names what it takes away. It changes
//! nothing. docs/api.md, Plans.

use std::sync::Arc;

use bson::raw::RawDocument;

use super::carrying::States;
use super::catalog::VIEW_TYPES;
use super::examples::plain_fields;
use super::fitting::{self, Findings, Misfits, Question};
use super::moving::Mover;
use crate::domain::document::{integer, text};
use crate::domain::migration_input;
use crate::domain::object_fields::Rule;
use crate::domain::object_type::ObjectType;
use crate::domain::type_changes::{self, Class, Difference};
use crate::domain::type_migration::Migration;
use crate::query::Filter;
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::services::Services;
use crate::store::FindQuery;
use crate::store::collections::WEBHOOKS;

/// The right to see webhooks.
const VIEW_WEBHOOKS: &str = "base.system.view";

/// The maximum number of places that are named for one difference.
const MOST_DEPENDENTS: usize = 100;

/// A plan.
#[derive(Debug)]
pub struct Plan {
    /// The type.
    pub type_id: i64,
    /// What differs.
    pub steps: Vec<Step>,
    /// What a scan of the objects found; nothing for a caller who may not read them. Its misfits are those that no difference
    /// explains.
    pub findings: Option<Findings>,
}

/// A difference, and what hangs on it.
#[derive(Debug)]
pub struct Step {
    /// The difference.
    pub difference: Difference,
    /// Why it is refused.
    pub refusal: Option<String>,
    /// The objects that it keeps from fitting.
    pub misfits: Vec<Misfits>,
    /// What names the field or section that it takes away.
    pub dependents: Vec<Dependent>,
}

/// Something that names what a difference takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependent {
    /// `types` or `webhooks`.
    pub resource: &'static str,
    /// Its id.
    pub public_id: i64,
    /// Where: `summaries`, `ref-section` or `filter`.
    pub place: &'static str,
    /// The field or section with that place, or the name of the webhook.
    pub name: String,
}

impl Plan {
    /// The most serious class of its differences.
    pub fn class(&self) -> Class {
        self.steps.iter().map(|step| step.difference.class).max().unwrap_or(Class::Allowed)
    }
}

/// The plan of the change from one stored form of a type to another, in which objects make these steps.
///
/// # Errors
/// Steps that do not fit the types, and errors of the store.
pub(super) async fn of_change(
    services: &Services,
    caller: &Caller,
    (before, after): (&RawDocument, &RawDocument),
    sees_objects: bool,
    of_objects: &[migration_input::Step],
) -> Result<Plan, ServiceError> {
    let states = States::read(before, after)?;
    let differences = states.differences()?;
    let States { was, is, .. } = states;
    let mut steps = Vec::with_capacity(differences.len());
    for difference in differences {
        let dependents = dependents(services, caller, &difference, was.public_id).await?;
        steps.push(Step { difference, refusal: None, misfits: Vec::new(), dependents });
    }
    refuse_taken_name(services, &is, &mut steps).await?;
    let migration = (!of_objects.is_empty()).then(|| Migration::of(of_objects, &was, &is)).transpose();
    let migration = migration?;
    let mut findings = None;
    if sees_objects {
        let types = services.current_types().await?;
        let visible = types.visible_to(caller);
        let stamp = (caller.user_id, services.now());
        let (mover, plain) = match migration.map(Arc::new) {
            Some(migration) => {
                let (mover, plain) = Mover::new(&migration, (&was, &is), visible, stamp);
                (Some(mover), plain)
            }
            None => (None, plain_fields(&was, &is)),
        };
        let question = Question { object_type: &is, plain, only: None, within: None, mover };
        let mut found = fitting::look(services, caller, question).await?;
        found.misfits = unexplained(&mut steps, found.misfits);
        findings = Some(found);
    }
    Ok(Plan { type_id: was.public_id, steps, findings })
}

/// Another type may have the new name.
async fn refuse_taken_name(services: &Services, is: &ObjectType, steps: &mut [Step]) -> Result<(), ServiceError> {
    let Some(step) = steps.iter_mut().find(|step| step.difference.change == "name") else { return Ok(()) };
    let types = services.types_anew().await?;
    let is_taken = types
        .iter()
        .map(|entry| &entry.object_type)
        .any(|other| other.name == is.name && other.public_id != is.public_id);
    if is_taken {
        step.difference.class = Class::Refused;
        step.refusal = Some("another type has the same name; choose another one".to_owned());
    }
    Ok(())
}

/// Gives misfits to the differences that explain them. Returns the others.
fn unexplained(steps: &mut [Step], misfits: Vec<Misfits>) -> Vec<Misfits> {
    let mut others = Vec::new();
    for group in misfits {
        let is_own = |step: &Step| {
            let difference = &step.difference;
            difference.class != Class::Allowed && difference.name.as_deref() == Some(group.field.as_str())
        };
        let is_of_rule = |step: &Step| step.difference.change == group.rule.name();
        let is_whole = |step: &Step| step.difference.is_of_all_values() && group.rule != Rule::Twice;
        let place = steps.iter().position(|step| is_own(step) && is_of_rule(step));
        match place.or_else(|| steps.iter().position(|step| is_own(step) && is_whole(step))) {
            Some(place) => steps[place].misfits.push(group),
            None => others.push(group),
        }
    }
    others
}

/// What names the field or section that a difference takes away, as far as the caller may see it.
async fn dependents(
    services: &Services,
    caller: &Caller,
    difference: &Difference,
    id: i64,
) -> Result<Vec<Dependent>, ServiceError> {
    let mut found = Vec::new();
    if caller.rights.grants(VIEW_TYPES) {
        let types = services.current_types().await?;
        for other in types.iter().map(|entry| &entry.object_type) {
            let places = type_changes::dependents(difference, id, other).into_iter();
            let public_id = other.public_id;
            found.extend(places.map(|of| Dependent { resource: "types", public_id, place: of.place, name: of.name }));
        }
    }
    if let Some(field) = difference.withdrawn_field().filter(|_| caller.rights.grants(VIEW_WEBHOOKS)) {
        let all = FindQuery::new(Filter::all(), services.max_time);
        let webhooks = services.store.find(WEBHOOKS, &all).await?;
        let naming = webhooks.iter().filter(|webhook| text(webhook, "filter").is_some_and(|it| names(it, field)));
        found.extend(naming.filter_map(|webhook| {
            let name = text(webhook, "name").unwrap_or_default().to_owned();
            Some(Dependent { resource: "webhooks", public_id: integer(webhook, "public_id")?, place: "filter", name })
        }));
    }
    found.truncate(MOST_DEPENDENTS);
    Ok(found)
}

/// Whether the text of a filter names `f.<field>`.
fn names(filter: &str, field: &str) -> bool {
    let path = format!("f.{field}");
    let ends = |rest: &str| rest.starts_with(['"', '.']);
    filter.match_indices(&path).any(|(place, _)| ends(&filter[place + path.len()..]))
}
