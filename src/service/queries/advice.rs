//! Hints for valid queries that probably do not mean what the caller intended: paths that no object has, and values compared
//! with those of another kind, which never equal them.
//!
//! *Invariant:* advice rests on the objects and types that the caller may see, so it discloses nothing of others.

mod rendered;
mod stages;
mod values;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, DateTime, Document, doc};

use super::advice::values::{is_like_pattern, odd_operand, of_member, one_of, other_kind};
use super::kinds::{Objects, Resource};
use super::list_query::ListQuery;
use crate::domain::acl::Permission;
use crate::domain::object_fields::ValueKind;
use crate::domain::object_member;
use crate::domain::object_type::{Field, FieldOption};
use crate::query::{Filter, Limits, OWN_OPERATOR, STORED, Sort};
use crate::service::accounts::directory::Caller;
use crate::service::error::ServiceError;
use crate::service::services::Services;
use crate::service::types::catalog::{TypeEntry, Types};
use crate::suggest;

/// The maximum number of paths looked up for one question, and the time for it: the advice is not worth more.
const MOST: usize = 3;
const LOOKING: Duration = Duration::from_millis(250);
/// The maximum number of headers, and of characters of each name in them.
const MOST_SAID: usize = 5;
const LONGEST_QUOTED: usize = 60;
/// The maximum number of values of a condition that are looked at.
const MOST_VALUES: usize = 20;
/// The members that callers probably intend by names that objects do not have.
const MEANT: [(&str, &str); 8] = [
    ("id", "public_id"),
    ("object_id", "public_id"),
    ("author_name", "author_id"),
    ("type", "type_id"),
    ("author", "author_id"),
    ("and", "$and"),
    ("or", "$or"),
    ("nor", "$nor"),
];
/// The member with the time of the last change.
const EDITED: &str = "last_edit_time";
/// The operators that compare with a value.
const COMPARISONS: [&str; 8] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin"];

/// The hint about a question about objects, as plain ASCII that fits a header; mostly nothing. `is_empty`: it has no
/// answer, so a text that looks like a pattern may be intended as one.
///
/// A path that no known member begins is looked up: one question more to the store, as the caller may ask it.
///
/// # Errors
/// What the store reports.
pub async fn of(
    services: &Services,
    caller: &Caller,
    query: &ListQuery,
    is_rendered: bool,
    is_empty: bool,
) -> Result<Vec<String>, ServiceError> {
    let said = match &query.stages {
        None => Said::of(query, is_rendered),
        // Parameters used with stages may refer to members that the stages made.
        Some(stages) => Said::of_stages(stages.pipeline.documents().iter()),
    };
    of_objects(services, caller, said, is_empty).await
}

/// The same about a filter and an order alone, whatever is done with the objects.
///
/// # Errors
/// What the store reports.
pub async fn of_selection(
    services: &Services,
    caller: &Caller,
    filter: &Filter,
    sort: &Sort,
) -> Result<Vec<String>, ServiceError> {
    let mut said = Said::default();
    said.conditions(filter.document());
    said.order(sort);
    let mut texts = said.values.iter().flat_map(|(_, values)| values).filter_map(Bson::as_str);
    let is_empty = texts.any(is_like_pattern) && finds_nothing(services, caller, filter).await?;
    of_objects(services, caller, said, is_empty).await
}

/// Whether the caller sees no object that is as the filter says.
async fn finds_nothing(services: &Services, caller: &Caller, filter: &Filter) -> Result<bool, ServiceError> {
    let types = services.current_types().await?;
    let filter = types.scope(caller, filter.clone());
    let found = services.store.has_any(Objects::COLLECTION, filter, LOOKING.min(services.max_time)).await;
    // A question that is answered must not fail for its advice.
    Ok(found.is_ok_and(|found| !found))
}

/// The same about a pipeline on objects, up to the stage that makes other documents of them.
///
/// # Errors
/// What the store reports.
pub async fn of_pipeline(
    services: &Services,
    caller: &Caller,
    stages: &[Document],
    is_empty: bool,
) -> Result<Vec<String>, ServiceError> {
    of_objects(services, caller, Said::of_stages(stages.iter()), is_empty).await
}

async fn of_objects(
    services: &Services,
    caller: &Caller,
    said: Said,
    is_empty: bool,
) -> Result<Vec<String>, ServiceError> {
    let types = services.current_types().await?;
    let seen = VisibleTypes { types: &types, group_id: caller.group_id };
    let of_values = said.values.iter().filter_map(|(place, values)| {
        let holds = seen.holds(place);
        let told = values.iter().find_map(|value| other_kind(place, value, holds, is_empty));
        told.or_else(|| values.iter().filter(|_| is_empty).find_map(|value| seen.no_option(place, value)))
    });
    let mut advice: Vec<String> = of_values.chain(said.operands.iter().cloned()).chain(said.changed_since()).collect();
    advice.dedup();
    let unknown = said.entries.iter().filter(|name| !seen.has_field(name));
    advice.extend(unknown.map(|name| seen.unknown_field(name)));
    let mut lookup = Lookup::new(services, Objects::COLLECTION);
    for path in said.all_paths() {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        if advice.len() >= MOST_SAID {
            break;
        }
        if let Some(bare) = path.strip_prefix('+') {
            advice.push(format!("an ascending order has no sign; write sort={}", plain(bare)));
        } else if first == STORED {
            advice.extend(rest.and_then(|rest| seen.entries(rest)));
        } else if !object_member::NAMES.contains(&first) {
            let absence = lookup.absence(first, |question| types.scope(caller, question)).await?;
            let instead = || rendered::instead_of(path, said.value_of(path)).unwrap_or_else(|| seen.instead_of(first));
            advice.extend(absence.map(|absence| format!("{}; {}", absence.said("object", first), instead())));
        }
    }
    for path in &said.shown {
        advice.extend(rendered::absent(path, |name| seen.has_field(name)));
    }
    advice.truncate(MOST_SAID);
    Ok(advice)
}

/// The same about a list of resources that every caller of the list sees as a whole.
///
/// # Errors
/// What the store reports.
pub async fn of_list<R: Resource>(
    services: &Services,
    query: &ListQuery,
    is_empty: bool,
) -> Result<Vec<String>, ServiceError> {
    let said = Said::of(query, false);
    let since = said.changed_since().filter(|_| R::MEMBERS.contains(&EDITED));
    let of_values = said.values.iter().filter_map(|(place, values)| {
        let told = |value| other_kind(place, value, of_member(place), is_empty);
        values.iter().find_map(told).or_else(|| values.iter().find_map(|value| one_of(place, value, R::VALUES)))
    });
    let mut advice: Vec<String> = of_values.chain(said.operands.iter().cloned()).chain(since).collect();
    let mut lookup = Lookup::new(services, R::COLLECTION);
    for path in said.all_paths() {
        let first = path.split('.').next().unwrap_or(path);
        if advice.len() >= MOST_SAID {
            break;
        }
        if R::MEMBERS.contains(&first) || first == "_id" {
            continue;
        }
        if let Some(absence) = lookup.absence(first, |question| question).await? {
            let near = meant(first).filter(|meant| meant.starts_with('$') || R::MEMBERS.contains(meant));
            let instead = match near.or_else(|| suggest::nearest(first, R::MEMBERS)) {
                Some(near) => format!("did you mean {near}?"),
                None => {
                    let known: Vec<&str> = R::MEMBERS.iter().copied().filter(|member| *member != "_id").collect();
                    format!("known are {}", known.join(", "))
                }
            };
            advice.push(format!("{}; {instead}", absence.said(R::NAME, first)));
        }
    }
    advice.truncate(MOST_SAID);
    Ok(advice)
}

/// Looks for documents with a path: for few paths, in little time.
struct Lookup<'a> {
    services: &'a Services,
    collection: &'static str,
    looked_up: BTreeSet<String>,
    begun: Instant,
}

impl<'a> Lookup<'a> {
    fn new(services: &'a Services, collection: &'static str) -> Self {
        Self { services, collection, looked_up: BTreeSet::new(), begun: Instant::now() }
    }

    /// Whether no document has this member. `scope` leaves those that the caller may see. Each name is looked up once.
    async fn absence(&mut self, name: &str, scope: impl Fn(Filter) -> Filter) -> Result<Option<Absence>, ServiceError> {
        if !self.looked_up.insert(name.to_owned()) {
            return Ok(None);
        }
        let left = LOOKING.min(self.services.max_time).saturating_sub(self.begun.elapsed());
        if self.looked_up.len() > MOST || left < Duration::from_millis(1) {
            return Ok(Some(Absence::FromModel));
        }
        let question = scope(Filter::parse(&doc! { name: { "$exists": true } }, &Limits::NONE)?);
        // A question that is answered must not fail for its advice.
        Ok(match self.services.store.has_any(self.collection, question, left).await {
            Ok(found) => (!found).then_some(Absence::Examined),
            Err(_) => Some(Absence::FromModel),
        })
    }
}

/// Why a member counts as absent.
#[derive(Debug, Clone, Copy)]
enum Absence {
    /// No document has it.
    Examined,
    /// The service gives it to none, and there was no time to look at all of them.
    FromModel,
}

impl Absence {
    fn said(self, resource: &str, name: &str) -> String {
        match self {
            Self::Examined => format!("no {resource} has {}", quoted(name)),
            Self::FromModel => format!("{} is no member of {resource}s", quoted(name)),
        }
    }
}

/// The member or the operator that a caller probably intends by a name which objects do not have.
pub fn meant(name: &str) -> Option<&'static str> {
    MEANT.iter().find(|(said, _)| said.eq_ignore_ascii_case(name)).map(|(_, meant)| *meant)
}

/// Whether a member of a projection asks for a path of the objects.
fn is_shown(path: &str, value: &Bson) -> bool {
    let is_wanted = match value {
        Bson::Boolean(wanted) => *wanted,
        Bson::Int32(number) => *number != 0,
        Bson::Int64(number) => *number != 0,
        Bson::Double(number) => *number != 0.0,
        _ => false,
    };
    is_wanted && path != "_id" && path != "f"
}

/// A name in the form that headers have.
fn quoted(name: &str) -> String {
    format!("\"{}\"", plain(name))
}

/// A name in plain ASCII, of a length that fits.
fn plain(name: &str) -> String {
    name.escape_default().take(LONGEST_QUOTED).collect()
}

/// What is compared: a member of objects, or a field by its name.
enum Place {
    Member(String),
    Field(String),
}

/// What a question says.
#[derive(Default)]
struct Said {
    /// The paths in the conditions.
    paths: BTreeSet<String>,
    /// Further ones: what it is sorted by, and what is shown or computed with.
    further: Vec<String>,
    /// What is shown of rendered objects.
    shown: Vec<String>,
    /// Names of fields that it is sorted by.
    entries: BTreeSet<String>,
    /// The texts and numbers that each place is compared with; a document as a whole.
    values: Vec<(Place, Vec<Bson>)>,
    /// The members that stages made.
    made: BTreeSet<String>,
    /// Hints about operands.
    operands: Vec<String>,
    /// The moment after which the last change must be.
    edited_after: Option<DateTime>,
}

impl Said {
    fn of(query: &ListQuery, is_rendered: bool) -> Self {
        let mut said = Self::default();
        said.conditions(query.filter.document());
        said.order(&query.sort);
        let shown = query.projection.iter().flat_map(|projection| projection.document().iter());
        let shown = shown.filter(|(path, value)| is_shown(path, value)).map(|(path, _)| path.clone());
        if is_rendered {
            said.shown.extend(shown);
        } else {
            said.further.extend(shown);
            let members = query.projection.iter().flat_map(|projection| projection.document().values());
            members.for_each(|value| said.expression(value));
        }
        said
    }

    fn order(&mut self, sort: &Sort) {
        for key in sort.keys() {
            match key.path.entry() {
                None => self.further.push(key.path.as_str().to_owned()),
                Some(entry) => drop(self.entries.insert(entry.name().to_owned())),
            }
        }
    }

    /// The value that a member is compared with.
    fn value_of(&self, path: &str) -> Option<&Bson> {
        let is_it = |place: &Place| matches!(place, Place::Member(name) if name == path);
        self.values.iter().find(|(place, _)| is_it(place)).and_then(|(_, values)| values.first())
    }

    /// Advice on a filter for recent changes: in new objects the time of the last change is null.
    fn changed_since(&self) -> Option<String> {
        let since = self.edited_after.filter(|_| !self.paths.contains("creation_time"))?;
        let since = since.try_to_rfc3339_string().ok()?;
        Some(format!(
            "{EDITED} is null until the first change, and what was deleted is not listed; GET /rest/changes/?since={since} \
             has all changes since then"
        ))
    }

    fn all_paths(&self) -> impl Iterator<Item = &str> {
        self.paths.iter().chain(&self.further).map(String::as_str)
    }

    fn conditions(&mut self, filter: &Document) {
        for (name, value) in filter {
            match (name.as_str(), value) {
                ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
                    parts.iter().filter_map(Bson::as_document).for_each(|part| self.conditions(part));
                }
                ("$expr", expression) => self.expression(expression),
                (OWN_OPERATOR, Bson::Document(said)) => {
                    // The keys by which addresses are ordered are no values that the caller wrote.
                    let is_plain = !said.contains_key("rest") && !said.contains_key("by_address");
                    if let (Ok(name), true, Some(value)) = (said.get_str("name"), is_plain, said.get("is")) {
                        self.value(|| Place::Field(name.to_owned()), value);
                    }
                }
                (operator, _) if operator.starts_with('$') => {}
                (STORED, value) => self.entry(value),
                ("fields.name", Bson::String(name)) => drop(self.entries.insert(name.clone())),
                (path, value) => {
                    self.paths.insert(path.to_owned());
                    if path == EDITED
                        && let Some(operators) = value.as_document()
                    {
                        let bound = operators.get_datetime("$gt").or_else(|_| operators.get_datetime("$gte"));
                        self.edited_after = bound.ok().copied().or(self.edited_after);
                    }
                    self.value(|| Place::Member(path.to_owned()), value);
                }
            }
        }
    }

    /// `{"$elemMatch": {"name": .., "value": ..}}`, also under `$not`.
    fn entry(&mut self, value: &Bson) {
        let Some(operators) = value.as_document() else { return };
        if let Some(negated) = operators.get("$not") {
            self.entry(negated);
        }
        let entry = match operators.get_document("$elemMatch") {
            Ok(entry) => entry,
            // A list equals no document, whatever its members are.
            Err(_) if operators.keys().next().is_some_and(|name| !name.starts_with('$')) => operators,
            Err(_) => return,
        };
        let members = entry.keys().filter(|member| !member.starts_with('$'));
        self.further.extend(members.map(|member| format!("{STORED}.{member}")));
        let Ok(name) = entry.get_str("name") else { return };
        self.entries.insert(name.to_owned());
        if let Some(value) = entry.get("value") {
            self.value(|| Place::Field(name.to_owned()), value);
        }
    }

    /// Operands that are taken, and mean something else than they look like.
    fn operands(&mut self, operators: &Document) {
        self.operands.extend(operators.iter().filter_map(|(name, operand)| odd_operand(name, operand)));
        for inner in ["$not", "$elemMatch"].iter().filter_map(|name| operators.get_document(name).ok()) {
            self.operands(inner);
        }
    }

    fn value(&mut self, place: impl FnOnce() -> Place, value: &Bson) {
        let mut compared = Vec::new();
        match value {
            Bson::Document(operators) if operators.keys().next().is_some_and(|name| !name.starts_with('$')) => {
                compared.push(value.clone());
            }
            Bson::Document(operators) => {
                let operands = operators.iter().filter(|(name, _)| COMPARISONS.contains(&name.as_str()));
                operands.for_each(|(_, operand)| texts_and_numbers(operand, &mut compared));
                self.operands(operators);
            }
            // It is equal to the whole array, or to an element that is such an array.
            Bson::Array(_) => compared.push(Bson::Array(Vec::new())),
            value => texts_and_numbers(value, &mut compared),
        }
        if !compared.is_empty() {
            self.values.push((place(), compared));
        }
    }
}

/// Adds the first texts and numbers of an operand.
fn texts_and_numbers(operand: &Bson, compared: &mut Vec<Bson>) {
    match operand {
        Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) if compared.len() < MOST_VALUES => {
            compared.push(operand.clone());
        }
        Bson::Array(items) => items.iter().for_each(|item| texts_and_numbers(item, compared)),
        _ => {}
    }
}

/// The types whose objects the caller may read.
struct VisibleTypes<'a> {
    types: &'a Types,
    group_id: i64,
}

impl VisibleTypes<'_> {
    fn fields(&self, name: &str) -> impl Iterator<Item = &Field> {
        let types = self.types_with(name);
        types.flat_map(move |entry| entry.object_type.fields.iter().filter(move |field| field.name == name))
    }

    fn types_with(&self, name: &str) -> impl Iterator<Item = &Arc<TypeEntry>> {
        let entries = self.types.with_field(name).iter().filter_map(|type_id| self.types.get(*type_id));
        entries.filter(|entry| entry.object_type.acl.allows(self.group_id, Permission::Read))
    }

    fn has_field(&self, name: &str) -> bool {
        self.types_with(name).next().is_some()
    }

    /// Advice on a name that no field has, with the nearest one.
    fn unknown_field(&self, name: &str) -> String {
        let known: Vec<&str> = self.types.field_names().filter(|known| self.has_field(known)).collect();
        let near = suggest::nearest(name, &known).map(|near| format!(", did you mean {}?", plain(near)));
        let seen = if self.types.hides_some(self.group_id) { " whose objects you may see" } else { "" };
        format!("no type{seen} has a field {}{}", quoted(name), near.unwrap_or_default())
    }

    /// What to ask for in place of a member that no object has.
    fn instead_of(&self, name: &str) -> String {
        if self.has_field(name) {
            return format!("a field is asked for as f.{}", plain(name));
        }
        if let Some(meant) = meant(name) {
            return format!("did you mean {meant}?");
        }
        if let Some(member) = suggest::nearest(name, &object_member::NAMES) {
            return format!("did you mean {member}?");
        }
        let mut known: Vec<&str> = self.types.field_names().filter(|name| self.has_field(name)).collect();
        known.sort_unstable();
        match suggest::nearest(name, &known) {
            Some(nearest) => format!("did you mean the field f.{}?", plain(nearest)),
            None => "fields are asked for as f.<name>".to_owned(),
        }
    }

    /// About a path into the list of entries that is no path of entries.
    fn entries(&self, rest: &str) -> Option<String> {
        let first = rest.split('.').next().unwrap_or(rest);
        // `$` is the entry that the filter found.
        let is_path = ["name", "value", "$"].contains(&first) || first.bytes().all(|byte| byte.is_ascii_digit());
        let name = if self.has_field(rest) { rest } else { first };
        (!is_path).then(|| format!("fields have names and values; {}", self.instead_of(name)))
    }

    /// About a text that is none of the options of a field, in all types that have it.
    fn no_option(&self, place: &Place, value: &Bson) -> Option<String> {
        let (Place::Field(name), Bson::String(text)) = (place, value) else { return None };
        let fields: Vec<&Field> = self.fields(name).collect();
        let all_choose = fields.iter().all(|field| field.has_choice());
        let options: Vec<&FieldOption> = fields.iter().flat_map(|field| &field.options).collect();
        if !all_choose || options.is_empty() || options.iter().any(|option| option.name == *text) {
            return None;
        }
        let is_meant = |said: &str| said.to_lowercase() == text.to_lowercase();
        let shown = options.iter().find(|option| is_meant(&option.label) || is_meant(&option.name));
        let names: Vec<&str> = options.iter().map(|option| option.name.as_str()).collect();
        let meant = shown.map(|option| option.name.as_str()).or_else(|| suggest::nearest(text, &names));
        let meant = meant.map(|meant| format!("; did you mean {}?", quoted(meant))).unwrap_or_default();
        Some(format!("{} is no option of f.{}{meant}", quoted(text), plain(name)))
    }

    /// What the values of a place are, if all types agree.
    fn holds(&self, place: &Place) -> Option<ValueKind> {
        let Place::Field(name) = place else { return of_member(place) };
        let mut kinds = self.fields(name).map(ValueKind::of);
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    }
}
