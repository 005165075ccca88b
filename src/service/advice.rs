//! What to tell a caller whose question about objects is answered, but hardly as it was meant: paths that no object has, and
//! values compared with those of another kind, which never equal them.
//!
//! *Invariant:* advice rests on the objects and types that the caller may see, so it tells nothing of others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};

use super::directory::Caller;
use super::error::ServiceError;
use super::list_query::ListQuery;
use super::services::Services;
use super::type_catalog::{TypeEntry, Types};
use crate::domain::acl::Permission;
use crate::domain::object_fields::{ValueKind, parse_date};
use crate::domain::object_input;
use crate::query::{Filter, Limits, STORED, SortKey};
use crate::store::{FindQuery, collections};
use crate::suggest;

/// So many paths are looked up for one question, for no longer than that: the advice is not worth more.
const MOST: usize = 3;
const LOOKING: Duration = Duration::from_millis(250);
/// So many headers come at the most, each with names of so many characters.
const MOST_SAID: usize = 5;
const LONGEST_QUOTED: usize = 60;
/// The members of objects that hold dates.
const DATES: [&str; 2] = ["creation_time", "last_edit_time"];
/// The members of objects that hold numbers.
const NUMBERS: [&str; 4] = ["public_id", "type_id", "author_id", "editor_id"];
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

/// What is to be said about a question, as plain ASCII that fits a header; mostly nothing.
///
/// A path that no known member begins is looked up: one question more to the store, as the caller may ask it.
///
/// # Errors
/// What the store reports.
pub async fn of(services: &Services, caller: &Caller, query: &ListQuery) -> Result<Vec<String>, ServiceError> {
    // Stages make members that no object has.
    if query.stages.is_some() {
        return Ok(Vec::new());
    }
    let types = services.types.current(&*services.store, services.max_time).await?;
    let seen = Seen { types: &types, group_id: caller.group_id };
    let mut said = Said::default();
    said.conditions(query.filter.document());
    let mut advice: Vec<String> =
        said.values.iter().filter_map(|(place, value)| seen.other_kind(place, value)).collect();
    let mut unknown = BTreeSet::new();
    let sorted = query.sort.keys().iter().filter_map(|key| match key {
        SortKey::Path { path, .. } => Some(path.as_str()),
        SortKey::Entry { name, .. } => {
            unknown.extend((!seen.has_field(name)).then(|| format!("no type has a field {}", quoted(name))));
            None
        }
    });
    let sorted: Vec<String> = sorted.map(str::to_owned).collect();
    advice.extend(unknown);
    let (mut looked_up, begun) = (BTreeSet::new(), Instant::now());
    let shown = query.projection.iter().flat_map(|projection| projection.document().iter());
    let shown = shown.filter(|(path, value)| is_shown(path, value)).map(|(path, _)| path.clone());
    for path in said.paths.into_iter().chain(sorted).chain(shown) {
        let (first, rest) = path.split_once('.').map_or((path.as_str(), None), |(first, rest)| (first, Some(rest)));
        if advice.len() >= MOST_SAID {
            break;
        }
        if first == STORED {
            advice.extend(rest.and_then(|rest| seen.entries(rest)));
        } else if !object_input::members().contains(&first)
            && looked_up.len() < MOST
            && looked_up.insert(first.to_owned())
        {
            let question = Filter::parse(&doc! { first: { "$exists": true } }, &Limits::NONE)?;
            let left = LOOKING.min(services.max_time).saturating_sub(begun.elapsed());
            if left < Duration::from_millis(1) {
                break;
            }
            let question = FindQuery::new(types.scope(caller, question), left).limited(1);
            // A question that is answered must not fail for its advice.
            if services.store.find(collections::OBJECTS, &question).await.is_ok_and(|found| found.is_empty()) {
                advice.push(format!("no object has {}; {}", quoted(first), seen.instead_of(first)));
            }
        }
    }
    advice.truncate(MOST_SAID);
    Ok(advice)
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
    paths: BTreeSet<String>,
    /// The first text, or else the first number, that each place is compared with; a document as a whole.
    values: Vec<(Place, Bson)>,
}

impl Said {
    fn conditions(&mut self, filter: &Document) {
        for (name, value) in filter {
            match (name.as_str(), value) {
                ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
                    parts.iter().filter_map(Bson::as_document).for_each(|part| self.conditions(part));
                }
                (operator, _) if operator.starts_with('$') => {}
                (STORED, value) => self.entries(value),
                (path, value) => {
                    self.paths.insert(path.to_owned());
                    self.value(|| Place::Member(path.to_owned()), value);
                }
            }
        }
    }

    /// `{"$elemMatch": {"name": .., "value": ..}}`, also under `$not`.
    fn entries(&mut self, value: &Bson) {
        let Some(operators) = value.as_document() else { return };
        if let Some(negated) = operators.get("$not") {
            self.entries(negated);
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
        if let Some((_, meant)) = MEANT.iter().find(|(said, _)| *said == name) {
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
        match place {
            Place::Member(path) if DATES.contains(&path.as_str()) => Some(ValueKind::Date),
            Place::Member(path) if NUMBERS.contains(&path.as_str()) => Some(ValueKind::Number),
            Place::Member(path) if path == "active" => Some(ValueKind::Checkbox),
            Place::Member(_) => None,
            Place::Field(name) => {
                let mut kinds = self.kinds(name).into_iter().map(ValueKind::named);
                let first = kinds.next()?;
                kinds.all(|kind| kind == first).then_some(first)
            }
        }
    }

    /// About a value that is compared with one of another kind.
    fn other_kind(&self, place: &Place, value: &Bson) -> Option<String> {
        let what = match place {
            Place::Member(path) => path.clone(),
            Place::Field(name) => format!("f.{}", plain(name)),
        };
        if let Bson::Document(value) = value {
            let name = value.keys().next()?;
            let operator = Filter::operators().find(|operator| operator.strip_prefix('$') == Some(name))?;
            return Some(format!("{what} is compared with a document here; did you mean {operator}?"));
        }
        match (self.holds(place)?, value) {
            (ValueKind::Date, Bson::String(text)) => {
                let meant = parse_date(text).and_then(|date| date.try_to_rfc3339_string().ok());
                let example = meant.unwrap_or_else(|| "2026-01-31T00:00:00Z".to_owned());
                Some(format!("{what} holds dates, and a text is no date; write {{\"$date\": \"{example}\"}}"))
            }
            (ValueKind::Number | ValueKind::Reference, Bson::String(text)) => {
                let meant = text.parse::<i64>().map(|number| format!("; write {number}")).unwrap_or_default();
                Some(format!("{what} holds numbers, and a text is no number{meant}"))
            }
            (ValueKind::Text, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
                Some(format!("{what} holds texts, and a number is no text; write \"{value}\""))
            }
            (ValueKind::Checkbox, Bson::String(_)) => Some(format!("{what} holds true or false; write true")),
            _ => None,
        }
    }
}
