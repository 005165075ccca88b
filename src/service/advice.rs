//! What to tell a caller whose question is answered, but hardly as it was meant: paths that no object has, and
//! values compared with those of another kind, which never equal them.
//!
//! *Invariant:* advice rests on the objects and types that the caller may see, so it tells nothing of others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::oid::ObjectId;
use bson::{Bson, DateTime, Document, doc};

use super::directory::Caller;
use super::error::ServiceError;
use super::kinds::{Objects, Resource};
use super::list_query::ListQuery;
use super::services::Services;
use super::type_catalog::{TypeEntry, Types};
use crate::domain::acl::Permission;
use crate::domain::object_fields::{ValueKind, parse_date};
use crate::domain::object_input;
use crate::query::{Filter, Limits, STORED, SortKey};
use crate::store::FindQuery;
use crate::suggest;

/// So many paths are looked up for one question, for no longer than that: the advice is not worth more.
const MOST: usize = 3;
const LOOKING: Duration = Duration::from_millis(250);
/// So many headers come at the most, each with names of so many characters.
const MOST_SAID: usize = 5;
const LONGEST_QUOTED: usize = 60;
/// The members that hold dates, in whatever resource.
const DATES: [&str; 3] = ["creation_time", "last_edit_time", "registration_time"];
/// The members that hold numbers.
const NUMBERS: [&str; 7] = ["public_id", "type_id", "author_id", "editor_id", "group_id", "parent", "types"];
/// What is meant by names that objects do not have.
const MEANT: [(&str, &str); 6] = [
    ("id", "public_id"),
    ("type", "type_id"),
    ("author", "author_id"),
    ("and", "$and"),
    ("or", "$or"),
    ("nor", "$nor"),
];
/// The operators that compare with a value.
const COMPARISONS: [&str; 8] = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin"];

/// What is to be said about a question about objects, as plain ASCII that fits a header; mostly nothing. `is_empty`: it has no
/// answer, so that a text which looks like a pattern may be meant as one.
///
/// A path that no known member begins is looked up: one question more to the store, as the caller may ask it.
///
/// # Errors
/// What the store reports.
pub async fn of(
    services: &Services,
    caller: &Caller,
    query: &ListQuery,
    is_empty: bool,
) -> Result<Vec<String>, ServiceError> {
    // Stages make members that no object has.
    if query.stages.is_some() {
        return Ok(Vec::new());
    }
    of_objects(services, caller, Said::of(query), is_empty).await
}

/// The same about a pipeline on objects: about what stands before the stages that give documents another form.
///
/// # Errors
/// What the store reports.
pub async fn of_pipeline(
    services: &Services,
    caller: &Caller,
    stages: &[Bson],
    is_empty: bool,
) -> Result<Vec<String>, ServiceError> {
    let mut said = Said::default();
    for stage in stages.iter().filter_map(Bson::as_document) {
        match stage.iter().next() {
            Some((name, Bson::Document(filter))) if name == "$match" => said.conditions(filter),
            Some((name, Bson::Document(keys))) if name == "$sort" => said.paths.extend(keys.keys().cloned()),
            Some((name, _)) if name == "$skip" || name == "$limit" => {}
            _ => break,
        }
    }
    of_objects(services, caller, said, is_empty).await
}

async fn of_objects(
    services: &Services,
    caller: &Caller,
    said: Said,
    is_empty: bool,
) -> Result<Vec<String>, ServiceError> {
    let types = services.types.current(&*services.store, services.max_time).await?;
    let seen = Seen { types: &types, group_id: caller.group_id };
    let mut advice: Vec<String> =
        said.values.iter().filter_map(|(place, value)| other_kind(place, value, seen.holds(place), is_empty)).collect();
    let unknown = said.entries.iter().filter(|name| !seen.has_field(name));
    advice.extend(unknown.map(|name| format!("no type has a field {}", quoted(name))));
    let mut lookup = Lookup::new(services, Objects::COLLECTION);
    for path in said.all_paths() {
        let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
        if advice.len() >= MOST_SAID {
            break;
        }
        if first == STORED {
            advice.extend(rest.and_then(|rest| seen.entries(rest)));
        } else if !object_input::members().contains(&first)
            && lookup.is_absent(first, |question| types.scope(caller, question)).await?
        {
            advice.push(format!("no object has {}; {}", quoted(first), seen.instead_of(first)));
        }
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
    let said = Said::of(query);
    let values = said.values.iter();
    let mut advice: Vec<String> =
        values.filter_map(|(place, value)| other_kind(place, value, of_member(place), is_empty)).collect();
    let mut lookup = Lookup::new(services, R::COLLECTION);
    for path in said.all_paths() {
        let first = path.split('.').next().unwrap_or(path);
        if advice.len() >= MOST_SAID {
            break;
        }
        if !R::MEMBERS.contains(&first) && first != "_id" && lookup.is_absent(first, |question| question).await? {
            let near = meant(first).filter(|meant| meant.starts_with('$') || R::MEMBERS.contains(meant));
            let instead = match near.or_else(|| suggest::nearest(first, R::MEMBERS)) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known are {}", R::MEMBERS.join(", ")),
            };
            advice.push(format!("no {} has {}; {instead}", R::NAME, quoted(first)));
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
    async fn is_absent(&mut self, name: &str, scope: impl Fn(Filter) -> Filter) -> Result<bool, ServiceError> {
        let left = LOOKING.min(self.services.max_time).saturating_sub(self.begun.elapsed());
        let is_over = self.looked_up.len() >= MOST || left < Duration::from_millis(1);
        if is_over || !self.looked_up.insert(name.to_owned()) {
            return Ok(false);
        }
        let question = scope(Filter::parse(&doc! { name: { "$exists": true } }, &Limits::NONE)?);
        // A question that is answered must not fail for its advice.
        let found = self.services.store.find(self.collection, &FindQuery::new(question, left).limited(1)).await;
        Ok(found.is_ok_and(|found| found.is_empty()))
    }
}

/// The member or the operator that is meant by a name which objects do not have.
pub fn meant(name: &str) -> Option<&'static str> {
    MEANT.iter().find(|(said, _)| *said == name).map(|(_, meant)| *meant)
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

/// A name as it stands in a header.
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

/// What a filter says.
#[derive(Default)]
struct Said {
    /// The paths in the conditions.
    paths: BTreeSet<String>,
    /// Further ones: what it is sorted by, and what is shown.
    further: Vec<String>,
    /// Names of fields that it is sorted by.
    entries: BTreeSet<String>,
    /// The first text, or else the first number, that each place is compared with; a document as a whole.
    values: Vec<(Place, Bson)>,
}

impl Said {
    fn of(query: &ListQuery) -> Self {
        let mut said = Self::default();
        said.conditions(query.filter.document());
        for key in query.sort.keys() {
            match key {
                SortKey::Path { path, .. } => said.further.push(path.as_str().to_owned()),
                SortKey::Entry { name, .. } => drop(said.entries.insert(name.clone())),
            }
        }
        let shown = query.projection.iter().flat_map(|projection| projection.document().iter());
        said.further.extend(shown.filter(|(path, value)| is_shown(path, value)).map(|(path, _)| path.clone()));
        said
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
                (operator, _) if operator.starts_with('$') => {}
                (STORED, value) => self.entry(value),
                (path, value) => {
                    self.paths.insert(path.to_owned());
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
        let Ok(entry) = operators.get_document("$elemMatch") else { return };
        if let (Ok(name), Some(value)) = (entry.get_str("name"), entry.get("value")) {
            self.value(|| Place::Field(name.to_owned()), value);
        }
    }

    fn value(&mut self, place: impl FnOnce() -> Place, value: &Bson) {
        let compared = match value {
            Bson::Document(operators) => {
                let compared = operators.iter().filter(|(name, _)| COMPARISONS.contains(&name.as_str()));
                let is_value = operators.keys().next().is_some_and(|name| !name.starts_with('$'));
                if is_value { Some(value) } else { compared.map(|(_, operand)| operand).find_map(text_or_number) }
            }
            value => text_or_number(value),
        };
        self.values.extend(compared.map(|value| (place(), value.clone())));
    }
}

fn text_or_number(value: &Bson) -> Option<&Bson> {
    match value {
        Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) => Some(value),
        Bson::Array(items) => {
            let text = items.iter().find(|item| matches!(item, Bson::String(_)));
            text.or_else(|| items.iter().find_map(text_or_number))
        }
        _ => None,
    }
}

/// The types whose objects the caller may read.
struct Seen<'a> {
    types: &'a Types,
    group_id: i64,
}

impl Seen<'_> {
    /// The kinds of the fields of this name.
    fn kinds(&self, name: &str) -> Vec<&str> {
        let of =
            self.types_with(name).flat_map(|entry| entry.object_type.fields.iter().filter(|field| field.name == name));
        of.map(|field| field.kind.as_str()).collect()
    }

    fn types_with(&self, name: &str) -> impl Iterator<Item = &Arc<TypeEntry>> {
        let entries = self.types.with_field(name).iter().filter_map(|type_id| self.types.get(*type_id));
        entries.filter(|entry| entry.object_type.acl.allows(self.group_id, Permission::Read))
    }

    fn has_field(&self, name: &str) -> bool {
        self.types_with(name).next().is_some()
    }

    /// What to ask for in place of a member that no object has.
    fn instead_of(&self, name: &str) -> String {
        if self.has_field(name) {
            return format!("a field is asked for as f.{}", plain(name));
        }
        if let Some(meant) = meant(name) {
            return format!("did you mean {meant}?");
        }
        if let Some(member) = suggest::nearest(name, object_input::members()) {
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
        let is_path = ["name", "value"].contains(&first) || first.bytes().all(|byte| byte.is_ascii_digit());
        let name = if self.has_field(rest) { rest } else { first };
        (!is_path).then(|| format!("fields have names and values; {}", self.instead_of(name)))
    }

    /// What the values of a place are, if all types agree.
    fn holds(&self, place: &Place) -> Option<ValueKind> {
        let Place::Field(name) = place else { return of_member(place) };
        let mut kinds = self.kinds(name).into_iter().map(ValueKind::named);
        let first = kinds.next()?;
        kinds.all(|kind| kind == first).then_some(first)
    }
}

/// What the values of a member are, in whatever resource.
fn of_member(place: &Place) -> Option<ValueKind> {
    match place {
        Place::Member(path) if DATES.contains(&path.as_str()) => Some(ValueKind::Date),
        Place::Member(path) if NUMBERS.contains(&path.as_str()) => Some(ValueKind::Number),
        Place::Member(path) if path == "active" => Some(ValueKind::Checkbox),
        _ => None,
    }
}

/// About a value that is compared with one of another kind, or as it was not meant.
fn other_kind(place: &Place, value: &Bson, holds: Option<ValueKind>, is_empty: bool) -> Option<String> {
    let what = match place {
        Place::Member(path) if path == "_id" => return of_id(value),
        Place::Member(path) => path.clone(),
        Place::Field(name) => format!("f.{}", plain(name)),
    };
    if let Bson::Document(value) = value {
        let name = value.keys().next()?;
        let operator = Filter::operators().find(|operator| operator.strip_prefix('$') == Some(name))?;
        return Some(format!("{what} is compared with a document here; did you mean {operator}?"));
    }
    match (holds, value) {
        (Some(ValueKind::Date), Bson::String(text)) => {
            let example = example_of(parse_date(text));
            Some(format!("{what} holds dates, and a text is no date; write {{\"$date\": \"{example}\"}}"))
        }
        (Some(ValueKind::Date), Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
            let example = example_of(moment_of(value));
            Some(format!("{what} holds dates, and a number is no date; write {{\"$date\": \"{example}\"}}"))
        }
        (Some(ValueKind::Number | ValueKind::Reference), Bson::String(text)) => {
            let meant = text.parse::<i64>().map(|number| format!("; write {number}")).unwrap_or_default();
            Some(format!("{what} holds numbers, and a text is no number{meant}"))
        }
        (Some(ValueKind::Text), Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
            Some(format!("{what} holds texts, and a number is no text; write \"{value}\""))
        }
        (Some(ValueKind::Checkbox), Bson::String(text)) => {
            Some(format!("{what} holds true or false; write {}", !text.eq_ignore_ascii_case("false")))
        }
        (Some(ValueKind::Checkbox), Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
            Some(format!("{what} holds true or false; write {}", !["0", "0.0"].contains(&value.to_string().as_str())))
        }
        (Some(ValueKind::Text) | None, Bson::String(text)) if is_empty => {
            let (pattern, options) = pattern_of(text)?;
            let options = if options.is_empty() { String::new() } else { format!(", \"$options\": \"{options}\"") };
            let pattern =
                serde_json::to_string(&pattern).ok().filter(|text| text.is_ascii() && text.len() <= LONGEST_QUOTED)?;
            Some(format!(
                "{what} is compared with this very text; for a pattern write {{\"$regex\": {pattern}{options}}}"
            ))
        }
        _ => None,
    }
}

/// About MongoDB's own id in the place of ours.
fn of_id(value: &Bson) -> Option<String> {
    match value {
        Bson::String(text) if ObjectId::parse_str(text).is_ok() => {
            Some(format!("_id holds ids of the store; write {{\"$oid\": \"{text}\"}}"))
        }
        Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) => {
            Some("_id holds ids of the store, which answers do not show; did you mean public_id?".to_owned())
        }
        _ => None,
    }
}

fn example_of(meant: Option<DateTime>) -> String {
    let meant = meant.and_then(|date| date.try_to_rfc3339_string().ok());
    meant.unwrap_or_else(|| "2026-01-31T00:00:00Z".to_owned())
}

/// The moment that a number is meant to be: milliseconds since 1970, or seconds where these would still be in 1973.
fn moment_of(value: &Bson) -> Option<DateTime> {
    const SECONDS_UNTIL: i64 = 100_000_000_000;
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    Some(DateTime::from_millis(if number.abs() < SECONDS_UNTIL { number * 1000 } else { number }))
}

/// The regular expression and its options that a text stands for in other languages: `/^web/i`, `web*`, `web%`.
fn pattern_of(text: &str) -> Option<(String, &str)> {
    if let Some((pattern, options)) = text.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) {
        let is_pattern = pattern.contains(['^', '$', '.', '*', '+', '?', '[', '(', '|', '\\']);
        return (is_pattern && options.chars().all(|option| "imsx".contains(option)))
            .then(|| (pattern.to_owned(), options));
    }
    let any = ['*', '%'];
    if !text.contains(any) || text.trim_matches(any).is_empty() {
        return None;
    }
    let literal = |part: &str| part.chars().flat_map(escaped).collect::<String>();
    let begin = if text.starts_with(any) { "" } else { "^" };
    let end = if text.ends_with(any) { "" } else { "$" };
    let parts: Vec<String> = text.trim_matches(any).split(any).map(literal).collect();
    Some((format!("{begin}{}{end}", parts.join(".*")), ""))
}

/// A letter as a regular expression that stands for itself.
fn escaped(letter: char) -> impl Iterator<Item = char> {
    let escape = if r"\^$.+?()[]{}|".contains(letter) { "\\" } else { "" };
    escape.chars().chain(std::iter::once(letter))
}
