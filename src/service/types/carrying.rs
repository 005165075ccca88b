//! Carrying out a change of a type: what it needs of the objects, and the unit that changes them together with the type.
//! docs/api.md, Migrations.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use bson::raw::{RawDocument, RawDocumentBuf};
use bson::{Bson, Document, doc};

use super::catalog::{inactive, is_inactive};
use super::examples::{Example, MOST_NAMED, plain_fields};
use super::fitting::{Misfits, Question, look, look_at};
use super::moving::{Mover, Tally};
use super::running::{self, DONE, RUNNING};
use super::{VIEW_OBJECTS, sees_objects};
use crate::admission;
use crate::domain::acl::Permission;
use crate::domain::document::integer;
use crate::domain::migration_input::{Asked, Step};
use crate::domain::object_fields::Rule;
use crate::domain::object_type::{Field, ObjectType};
use crate::domain::type_changes::{Class, Difference, differences};
use crate::domain::type_migration::Migration;
use crate::domain::{Violation, Violations};
use crate::plural::counted;
use crate::query::{Filter, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::claims::rules::unique_fields;
use crate::service::error::ServiceError;
use crate::service::error_code::ErrorCode;
use crate::service::history::author;
use crate::service::history::kept::last;
use crate::service::objects::rendering::EDIT;
use crate::service::objects::targets::Targets;
use crate::service::resource::{self, Decision, Objects, Resource};
use crate::service::services::Services;
use crate::store::{Change, Condition, Documents, FindQuery, StoreError, Unit};

/// One unit changes the objects of a type that has at most this many, of at most this number of bytes.
const MOST_OBJECTS: usize = 10_000;
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// Both states of a type.
pub(super) struct States<'a> {
    before: &'a RawDocument,
    after: &'a RawDocument,
    pub(super) was: ObjectType,
    pub(super) is: ObjectType,
}

impl<'a> States<'a> {
    pub(super) fn read(before: &'a RawDocument, after: &'a RawDocument) -> Result<Self, ServiceError> {
        let read = |document: &RawDocument| {
            ObjectType::from_document(document).map_err(|error| StoreError::Corrupt { what: error.to_string() })
        };
        Ok(Self { was: read(before)?, is: read(after)?, before, after })
    }

    fn id(&self) -> i64 {
        self.was.public_id
    }

    pub(super) fn differences(&self) -> Result<Vec<Difference>, ServiceError> {
        let stored = (resource::decode(self.before)?, resource::decode(self.after)?);
        Ok(differences((&self.was, &stored.0), (&self.is, &stored.1)))
    }
}

/// The decision of a change, with what it does to the objects of the type.
///
/// # Errors
/// When the steps do not fit the types, or cannot be made with all objects. When objects break new rules, or another number of
/// them is expected. When the caller lacks a right or a permission. Errors of the store.
pub(super) async fn decided(
    services: &Services,
    caller: &Caller,
    asked: &Asked,
    (before, decision): (&RawDocument, Decision),
) -> Result<Decision, ServiceError> {
    let after = decision.after.clone();
    let states = States::read(before, &after)?;
    let rules = NewRules::of(&states, asked)?;
    if !asked.steps.is_empty() {
        return match unit(services, caller, asked, (&states, &rules)).await? {
            Some(beside) => Ok(together(decision, beside)),
            None => begun(services, caller, asked, (&states, &rules)).await,
        };
    }
    expect(asked, 0)?;
    if !rules.is_empty() {
        let question = rules.question(&states, plain_fields(&states.was, &states.is));
        rules.require_seen(services, caller, states.id()).await?;
        rules.obeyed(&look(services, caller, question).await?.misfits)?;
    }
    Ok(decision)
}

/// The decision with further changes and conditions. The type comes first: entries of its objects name that of the type.
pub(super) fn together(mut decision: Decision, beside: Unit) -> Decision {
    decision.unit.conditions.extend(beside.conditions);
    decision.unit.changes.extend(beside.changes);
    decision
}

fn expect(asked: &Asked, objects: u64) -> Result<(), ServiceError> {
    match asked.expected_count.filter(|expected| *expected != objects) {
        Some(expected) => {
            let changes = counted(objects, "object");
            let message = format!("the steps change {changes}, not {expected}; nothing was changed");
            Err(ServiceError::PreconditionFailed(message))
        }
        None => Ok(()),
    }
}

/// The rules that a change makes and that values may break.
struct NewRules {
    /// The name of each field, whether it needs a value since, and whether it has another pattern.
    fields: Vec<(String, bool, bool)>,
    /// The type as its author wants it, for the places of refusals.
    places: Document,
}

impl NewRules {
    fn of(states: &States<'_>, asked: &Asked) -> Result<Self, ServiceError> {
        let mut rules = Self { fields: Vec::new(), places: Document::new() };
        if asked.only_new {
            return Ok(rules);
        }
        for difference in states.differences()?.iter().filter(|difference| difference.class > Class::Allowed) {
            let Some(name) = &difference.name else { continue };
            let field = states.is.field(name);
            let (needs, matches) = match difference.change {
                "required" => (true, false),
                "regex" => (false, true),
                "field_added" => (field.is_some_and(|it| it.required), field.is_some_and(|it| it.regex.is_some())),
                _ => continue,
            };
            if needs || matches {
                rules.fields.push((name.clone(), needs, matches));
            }
        }
        if !rules.is_empty() {
            rules.places = resource::decode(states.after)?;
        }
        Ok(rules)
    }

    fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    fn question<'a>(&self, states: &'a States<'_>, plain: HashSet<String>) -> Question<'a> {
        let only = Some(self.fields.iter().map(|(name, ..)| name.clone()).collect());
        Question { object_type: &states.is, plain, only, within: None, mover: None }
    }

    /// Refuses a caller who may not see whether objects obey: the answer must not tell.
    async fn require_seen(&self, services: &Services, caller: &Caller, id: i64) -> Result<(), ServiceError> {
        if sees_objects(services, caller, id).await? {
            return Ok(());
        }
        let places = self.fields.iter().map(|(name, needs, _)| {
            let message =
                "you may not read the objects, so they are not compared with the new rule; send \"enforce\": \"new\"";
            Violation::new(self.place(name, if *needs { Rule::Required } else { Rule::Regex }), message)
        });
        Err(ServiceError::Clash { code: ErrorCode::ValuesBreakRules, places: places.collect() })
    }

    /// Refuses the change if objects break the new rules.
    fn obeyed(&self, misfits: &[Misfits]) -> Result<(), ServiceError> {
        let mut places = Violations::new();
        for group in misfits {
            let is_new = |(name, needs, matches): &(String, bool, bool)| {
                let breaks = *needs && group.rule == Rule::Required || *matches && group.rule == Rule::Regex;
                breaks && *name == group.field
            };
            if self.fields.iter().any(is_new) {
                let what =
                    if group.rule == Rule::Required { "have no value" } else { "have a value that does not match" };
                let objects = counted(group.objects, "object");
                let remedy = "change them, or add steps as migration, or send \"enforce\": \"new\"";
                let message = format!("{objects} {what}; {remedy}: {}", ids_of(&group.first, group.objects));
                places.push(Violation::new(self.place(&group.field, group.rule), message));
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        Err(ServiceError::Clash { code: ErrorCode::ValuesBreakRules, places })
    }

    /// Where the type has the rule.
    fn place(&self, field: &str, rule: Rule) -> String {
        let mut fields = self.places.get_array("fields").into_iter().flatten().map(Bson::as_document);
        let position = fields.position(|it| it.is_some_and(|it| it.get_str("name").ok() == Some(field)));
        position.map_or_else(|| "/fields".to_owned(), |position| format!("/fields/{position}/{}", rule.name()))
    }
}

/// The ids of examples, the first of `all`.
fn ids_of(first: &[Example], all: u64) -> String {
    let ids: Vec<String> = first.iter().map(|example| example.public_id.to_string()).collect();
    let more = if all > first.len() as u64 { ", ..." } else { "" };
    format!("{}{more}", ids.join(", "))
}

/// A migration changes objects, so it needs what changing them one by one does.
async fn permitted(services: &Services, caller: &Caller, before: &RawDocument, id: i64) -> Result<(), ServiceError> {
    for right in [VIEW_OBJECTS, EDIT] {
        if !caller.rights.grants(right) {
            let message = format!("a migration needs the right {right} too");
            return Err(ServiceError::refused(ErrorCode::RightMissing, message));
        }
    }
    if let Some(entry) = services.type_with_id(id).await? {
        entry.permit(caller, Permission::Read)?;
        entry.permit(caller, Permission::Update)?;
    }
    if is_inactive(before) { Err(inactive(id)) } else { Ok(()) }
}

/// What changes together with the type: its objects, and the note of it. Nothing if one unit cannot hold them.
async fn unit(
    services: &Services,
    caller: &Caller,
    asked: &Asked,
    (states, rules): (&States<'_>, &NewRules),
) -> Result<Option<Unit>, ServiceError> {
    let id = states.id();
    permitted(services, caller, states.before, id).await?;
    let migration = Migration::of(&asked.steps, &states.was, &states.is)?;
    let migration = Arc::new(migration);
    let visible = services.current_types().await?.visible_to(caller);
    let mut referred = defaults(services, &migration, visible.clone()).await?;
    let Some(objects) = objects_of(services, id).await? else { return Ok(None) };
    let stamp = (caller.user_id, services.now());
    let (mut mover, plain) = Mover::new(&migration, (&states.was, &states.is), visible, stamp);
    let moved = mover.moved(services, objects.clone()).await?;
    refused(mover.tally())?;
    expect(asked, mover.tally().objects)?;
    if !rules.is_empty() {
        let found = look_at(services, caller, rules.question(states, plain), moved.documents.clone()).await?;
        rules.obeyed(&found.misfits)?;
    }
    referred.extend(moved.referred);
    let ids = objects.iter().filter_map(|object| integer(object, "public_id"));
    let others = Filter::equals("type_id", id).and(Filter::none_of("public_id", ids));
    let none = Condition::None { collection: Objects::COLLECTION, filter: others };
    let mut unit = Unit::default().given(none);
    unit.conditions.extend(referred.into_iter().map(|id| Condition::exists(Objects::COLLECTION, id)));
    unit.changes = objects.iter().zip(moved.documents.iter()).map(|(before, after)| replaced(before, after)).collect();
    let done = doc! {"state": DONE, "ended": services.now()};
    unit.changes.push(noted(services, caller, asked, (id, mover.tally().objects, done)).await?);
    Ok(Some(unit))
}

/// The beginning of a change of more objects than one unit holds: the type changes and becomes inactive, and the note says what is
/// to be done. Whether all of it can be done is known before.
async fn begun(
    services: &Services,
    caller: &Caller,
    asked: &Asked,
    (states, rules): (&States<'_>, &NewRules),
) -> Result<Decision, ServiceError> {
    let id = states.id();
    let migration = Migration::of(&asked.steps, &states.was, &states.is)?;
    refuse_unique(services, states, asked, &migration)?;
    refuse_open_secrets(services, states, asked)?;
    let migration = Arc::new(migration);
    let visible = services.current_types().await?.visible_to(caller);
    let since = last(&*services.store, services.max_time).await?;
    let stamp = (caller.user_id, services.now());
    let (mover, plain) = Mover::new(&migration, (&states.was, &states.is), visible, stamp);
    let question = Question { mover: Some(mover), ..rules.question(states, plain) };
    let found = look(services, caller, question).await?;
    let tally = found.moved.unwrap_or_default();
    refused(&tally)?;
    expect(asked, tally.objects)?;
    rules.obeyed(&found.misfits)?;
    let mut after = resource::decode(states.after)?;
    let (plan, author): (Vec<Document>, _) = (asked.steps.iter().map(Step::to_document).collect(), author::current());
    let running = doc! {
        "state": RUNNING, "ended": null, "plan": plan, "former": resource::decode(states.before)?,
        "active": after.get_bool("active").unwrap_or(true), "since": since, "upto": i64::MIN, "done": 0_i64,
        "user_name": author.user_name, "comment": author.comment,
    };
    after.insert("active", false);
    let decision = Decision::replace::<resource::Types>(states.before, &after)?;
    let note = noted(services, caller, asked, (id, tally.objects, running)).await?;
    Ok(together(decision, Unit::of(note)))
}

/// Claims to unique values are made in the unit of the object, so a later group could find one taken.
fn refuse_unique(
    services: &Services,
    states: &States<'_>,
    asked: &Asked,
    migration: &Migration,
) -> Result<(), ServiceError> {
    let unique: Vec<String> = [states.before, states.after]
        .into_iter()
        .flat_map(|state| unique_fields(state).into_iter().map(|(name, _)| name))
        .collect();
    let is_unique = |name: &str| unique.iter().any(|known| known == name);
    let of_step = |(index, step): (usize, &Step)| {
        let target = migration.target(index).filter(|name| is_unique(name));
        target.map_or_else(|| is_unique(step.field()).then(|| step.field().to_owned()), |name| Some(name.to_owned()))
    };
    let Some(field) = asked.steps.iter().enumerate().find_map(of_step) else { return Ok(()) };
    let most = most_together(services);
    let message = format!(
        "the values of {field} are unique, and no more than {most} objects of 16 MiB can change such values together with their \
         type; send \"unique\": false for the field first"
    );
    Err(ServiceError::refused(ErrorCode::TooManyObjects, message))
}

/// Until an object has changed, its former password would be a value that everybody sees, under a name that the steps clear.
fn refuse_open_secrets(services: &Services, states: &States<'_>, asked: &Asked) -> Result<(), ServiceError> {
    let is_plain = |name: &str| states.is.field(name).is_some_and(|field| !field.is_password());
    let was_secret = |name: &str| states.was.field(name).is_some_and(Field::is_password);
    let is_opened =
        |step: &&Step| !matches!(step, Step::Convert { .. }) && was_secret(step.field()) && is_plain(step.field());
    let Some(step) = asked.steps.iter().find(is_opened) else { return Ok(()) };
    let most = most_together(services);
    let message = format!(
        "{} holds passwords, and no more than {most} objects of 16 MiB can give the name to another field together with their type; \
         make the steps first, and add the field of this name afterwards",
        step.field()
    );
    Err(ServiceError::refused(ErrorCode::TooManyObjects, message))
}

/// How many objects one unit changes.
fn most_together(services: &Services) -> usize {
    services.store.largest_unit().min(services.most_together).min(MOST_OBJECTS)
}

/// An object that does not change is compared anyway: the steps must also be possible with what others store meanwhile.
fn replaced(before: &RawDocument, after: &RawDocument) -> Change {
    Change::Replace { collection: Objects::COLLECTION, before: before.to_owned(), after: after.to_owned() }
}

/// The objects to which defaults refer.
async fn defaults(
    services: &Services,
    migration: &Migration,
    visible: Option<Filter>,
) -> Result<BTreeSet<i64>, ServiceError> {
    let references = migration.default_references();
    let targets = Targets::read(services, visible, references.iter().map(|reference| reference.object_id)).await?;
    let dangling = targets.dangling(&references);
    if !dangling.is_empty() {
        return Err(ServiceError::Violations(dangling));
    }
    Ok(references.iter().map(|reference| reference.object_id).collect())
}

/// All objects of the type, if one unit can change them.
async fn objects_of(services: &Services, id: i64) -> Result<Option<Documents>, ServiceError> {
    let most = most_together(services);
    let query = FindQuery::new(Filter::equals("type_id", id), services.max_time).sorted(Sort::by("public_id", false));
    match services.store.find(Objects::COLLECTION, &query.limited(most as u64 + 1).within(MOST_BYTES)).await {
        Ok(found) if found.len() > most => Ok(None),
        Err(StoreError::TooLarge) => Ok(None),
        found => {
            let found = found?;
            admission::current().hold(found.bytes() * 3)?;
            Ok(Some(found))
        }
    }
}

/// Refuses steps that cannot be made with all objects.
fn refused(tally: &Tally) -> Result<(), ServiceError> {
    let mut places = Violations::new();
    for (index, (name, field, step)) in tally.steps.iter().enumerate() {
        let Some(first) = step.first.first() else { continue };
        let objects = counted(step.refused, "object");
        let ids = ids_of(&step.first[..step.first.len().min(MOST_NAMED)], step.refused);
        let message =
            format!("{objects} cannot make this step with {field}; {}: {}; {ids}", first.public_id, first.reason);
        places.push(Violation::new(format!("/migration/{index}/{name}"), message));
    }
    if places.is_empty() {
        return Ok(());
    }
    Err(ServiceError::Clash { code: ErrorCode::MigrationRefused, places })
}

/// The note of a migration, with members of its own.
async fn noted(
    services: &Services,
    caller: &Caller,
    asked: &Asked,
    (id, objects, own): (i64, u64, Document),
) -> Result<Change, ServiceError> {
    let stored = running::note(&*services.store, id, services.max_time).await?;
    let count = i64::try_from(objects).unwrap_or(i64::MAX);
    let mut note = doc! {
        "_id": id, "type_id": id, "state": DONE, "steps": running::named(&asked.steps), "objects": count, "done": count,
        "user_id": caller.user_id, "request_id": author::current().request_id, "begun": services.now(),
    };
    note.extend(own);
    Ok(running::noted(stored.as_deref(), &note))
}

/// The last migration of a type.
#[derive(Debug)]
pub struct Noted {
    /// What is known of it.
    pub document: RawDocumentBuf,
    /// Whether the caller may read the objects, so that they are counted.
    pub sees_objects: bool,
}

/// The last migration of a type.
///
/// # Errors
/// [`ErrorCode::TypeNotFound`], [`ErrorCode::MigrationNotFound`]; errors of the store.
pub async fn of_type(services: &Services, caller: &Caller, id: i64) -> Result<Noted, ServiceError> {
    resource::get::<resource::Types>(services, id).await?;
    let note = running::note(&*services.store, id, services.max_time).await?;
    let sees_objects = sees_objects(services, caller, id).await?;
    match note {
        Some(document) => Ok(Noted { document, sees_objects }),
        None => Err(ServiceError::refused(ErrorCode::MigrationNotFound, format!("type {id} had no migration"))),
    }
}
