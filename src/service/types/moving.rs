//! The steps of a change of a type, made with documents: each object after them, and what cannot be made. It stores nothing.

use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, DateTime, Document};

use super::examples::{Example, follow, plain_fields, shown};
use crate::admission;
use crate::domain::document::integer;
use crate::domain::object_fields::{FieldValue, Reference};
use crate::domain::object_input::{self, counted_on};
use crate::domain::object_type::{Field, ObjectType};
use crate::domain::type_migration::{Applied, Migration, Refusal};
use crate::query::Filter;
use crate::service::error::ServiceError;
use crate::service::objects::targets::Targets;
use crate::service::resource;
use crate::service::services::Services;
use crate::store::Documents;

/// What one step did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepTally {
    /// How many objects it changed.
    pub objects: u64,
    /// With how many objects it cannot be made.
    pub refused: u64,
    /// The first of these.
    pub first: Vec<Example>,
}

/// What steps did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// How many objects changed.
    pub objects: u64,
    /// The name of each step, the field that it is about, and what it did.
    pub steps: Vec<(&'static str, String, StepTally)>,
}

/// Objects after the steps.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// All of them, in their order; those that did not change as they were.
    pub(super) documents: Documents,
    /// The objects to which converted values refer.
    pub(super) referred: HashSet<i64>,
}

/// Makes the steps with documents.
pub(crate) struct Mover {
    migration: Arc<Migration>,
    /// For each step whether its values are shown.
    is_plain: Vec<bool>,
    /// The objects to which references may lead; nothing for all.
    visible: Option<Filter>,
    editor_id: i64,
    now: DateTime,
    tally: Tally,
}

impl Mover {
    /// For the change from one state of a type to another. `visible` are the objects to which references may lead, `stamp` is who
    /// changes the objects and when. Also gives the fields of moved objects whose values are shown.
    pub(super) fn new(
        migration: &Arc<Migration>,
        (was, is): (&ObjectType, &ObjectType),
        visible: Option<Filter>,
        stamp: (i64, DateTime),
    ) -> (Self, HashSet<String>) {
        let mut plain = plain_fields(was, is);
        let is_secret = |name: &str| is.field(name).is_some_and(Field::is_password);
        let mut is_plain = Vec::new();
        for (index, step) in migration.steps().enumerate() {
            is_plain.push(plain.contains(step.field()) && !migration.target(index).is_some_and(is_secret));
            follow(&mut plain, step, is);
        }
        let steps = migration.steps().map(|step| (step.name(), step.field().to_owned(), StepTally::default()));
        let tally = Tally { objects: 0, steps: steps.collect() };
        let (editor_id, now) = stamp;
        (Self { migration: Arc::clone(migration), is_plain, visible, editor_id, now, tally }, plain)
    }

    /// What was done until now.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// What was done.
    pub(super) fn into_tally(self) -> Tally {
        self.tally
    }

    /// Makes the steps with these objects.
    pub(super) async fn moved(&mut self, services: &Services, chunk: Documents) -> Result<Moved, ServiceError> {
        let (mut targets, mut referred) = (Targets::default(), HashSet::new());
        let chunk = Arc::new(chunk);
        if self.migration.makes_references() {
            let (migration, objects) = (Arc::clone(&self.migration), Arc::clone(&chunk));
            let found = admission::work(move |_| referred_by(&migration, &objects)).await;
            referred = found??;
            targets = Targets::read(services, self.visible.clone(), referred.iter().copied()).await?;
            referred.retain(|id| targets.contains(*id));
        }
        let (migration, stamp) = (Arc::clone(&self.migration), (self.editor_id, self.now));
        let made = admission::work(move |_| made(&migration, &chunk, &targets, stamp)).await;
        let (documents, outcomes) = made??;
        for (id, applied) in outcomes {
            self.note(id, &applied);
        }
        Ok(Moved { documents, referred })
    }

    fn note(&mut self, id: i64, applied: &Outcome) {
        self.tally.objects += u64::from(applied.by_step.contains(&true));
        for (step, changed) in self.tally.steps.iter_mut().zip(&applied.by_step) {
            step.2.objects += u64::from(*changed);
        }
        let mut last = None;
        for Refusal { step, value, reason } in &applied.refusals {
            let is_plain = self.is_plain[*step];
            let tally = &mut self.tally.steps[*step].2;
            if last.replace(*step) == Some(*step) {
                // The field is there twice.
                continue;
            }
            tally.refused += 1;
            Example::keep(&mut tally.first, id, || {
                let raw = bson::raw::RawBson::try_from(value.clone()).unwrap_or(bson::raw::RawBson::Null);
                (shown(raw.as_raw_bson_ref(), is_plain), reason.clone())
            });
        }
    }
}

/// What the steps did with an object, as far as it is counted.
struct Outcome {
    by_step: Vec<bool>,
    refusals: Vec<Refusal>,
}

fn fields_of(object: &RawDocument) -> Result<(Document, Vec<FieldValue>), ServiceError> {
    let document = resource::decode(object)?;
    let fields = object_input::read_fields(document.get("fields"));
    Ok((document, fields))
}

/// The objects to which the values would refer that are converted.
fn referred_by(migration: &Migration, objects: &Documents) -> Result<HashSet<i64>, ServiceError> {
    let mut referred = HashSet::new();
    for object in objects.iter() {
        let (_, fields) = fields_of(object)?;
        let applied = migration.apply(&fields, |_| None);
        referred.extend(applied.references.iter().map(|reference| reference.object_id));
    }
    Ok(referred)
}

fn made(
    migration: &Migration,
    objects: &Documents,
    targets: &Targets,
    (editor_id, now): (i64, DateTime),
) -> Result<(Documents, Vec<(i64, Outcome)>), ServiceError> {
    let lost = |reference: &Reference| targets.reason(reference);
    let (mut documents, mut outcomes) = (Documents::new(), Vec::new());
    for object in objects.iter() {
        let (mut document, fields) = fields_of(object)?;
        let applied = migration.apply(&fields, lost);
        let (is_changed, id) = (applied.is_changed(), integer(object, "public_id").unwrap_or_default());
        let Applied { fields, by_step, refusals, .. } = applied;
        if is_changed {
            let version = counted_on(&document, &fields, true);
            document.insert("fields", object_input::write_fields(&fields));
            if document.contains_key("version") {
                document.insert("version", version);
            }
            document.insert("last_edit_time", now);
            document.insert("editor_id", Bson::Int64(editor_id));
            let after: RawDocumentBuf = resource::encode(&document)?;
            documents.push(&after);
        } else {
            documents.push(object);
        }
        if is_changed || !refusals.is_empty() {
            outcomes.push((id, Outcome { by_step, refusals }));
        }
    }
    Ok((documents, outcomes))
}
