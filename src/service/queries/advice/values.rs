//! About values that are compared with those of another kind, or that the caller probably did not intend.

use bson::oid::ObjectId;
use bson::{Bson, DateTime};

use super::rendered::id_found_by;
use super::{LONGEST_QUOTED, Place, meant, plain};
use crate::domain::object_fields::{ValueKind, parse_date};
use crate::domain::object_member::ObjectMember;
use crate::query::Filter;
use crate::{address, suggest};

/// The members of other resources than objects that hold dates.
const DATES: [&str; 2] = ["registration_time", "time"];
/// Those that hold numbers.
const NUMBERS: [&str; 6] = ["user_id", "group_id", "parent", "types", "sequence", "number"];
/// The members that hold texts.
const TEXTS: [&str; 5] = ["name", "label", "description", "email", "user_name"];

/// What the values of a member are, in whatever resource.
pub(super) fn of_member(place: &Place) -> Option<ValueKind> {
    match place {
        Place::Member(path) if DATES.contains(&path.as_str()) => Some(ValueKind::Date),
        Place::Member(path) if NUMBERS.contains(&path.as_str()) => Some(ValueKind::Number),
        Place::Member(path) if TEXTS.contains(&path.as_str()) => Some(ValueKind::Text),
        // Other resources have a `status`, too, of another kind.
        Place::Member(path) if path != "status" => ObjectMember::named(path).map(|member| member.kind),
        _ => None,
    }
}

/// About a value that is compared with one of another kind, or that the caller probably did not intend.
pub(super) fn other_kind(place: &Place, value: &Bson, holds: Option<ValueKind>, is_empty: bool) -> Option<String> {
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
            let example = example_of(parse_date(text).or_else(|| shown_date(text)));
            Some(format!("{what} holds dates, and a text is no date; write {{\"$date\": \"{example}\"}}"))
        }
        (Some(ValueKind::Date), Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
            let example = example_of(moment_of(value));
            Some(format!("{what} holds dates, and a number is no date; write {{\"$date\": \"{example}\"}}"))
        }
        (Some(ValueKind::Number | ValueKind::Reference | ValueKind::References), Bson::String(text)) => {
            let meant = match text.parse::<i64>() {
                Ok(number) => format!("; write {number}"),
                Err(_) => found_by(&what, holds, value).map(|found| format!("; {found}")).unwrap_or_default(),
            };
            Some(format!("{what} holds numbers, and a text is no number{meant}"))
        }
        (Some(kind), Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) if kind.is_text() => {
            Some(format!("{what} holds texts, and a number is no text; write \"{value}\""))
        }
        (Some(ValueKind::Checkbox), Bson::String(text)) => {
            Some(format!("{what} holds true or false; write {}", !text.eq_ignore_ascii_case("false")))
        }
        (Some(ValueKind::Checkbox), Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) => {
            Some(format!("{what} holds true or false; write {}", !["0", "0.0"].contains(&value.to_string().as_str())))
        }
        (Some(kind), Bson::String(text)) if is_empty && kind.is_in_order_of_addresses() => {
            let (first, last) = address::edges(text)?;
            Some(format!(
                "{what} is compared with this very address; for all of a network write {{\"$gte\": \"{first}\", \"$lte\": \"{last}\"}}"
            ))
        }
        (Some(ValueKind::Text | ValueKind::Mac) | None, Bson::String(text)) if is_empty => {
            Some(format!("{what} is compared with this very text; for a pattern write {}", regex_of(text)?))
        }
        (_, Bson::Array(_)) if is_empty && !meant(&what).is_some_and(|meant| meant.starts_with('$')) => Some(format!(
            "{what} is compared with the array as a whole; for one of several values write {{\"$in\": [...]}}"
        )),
        _ => None,
    }
}

/// About an operand that is taken, and means something else than it looks like.
pub(super) fn odd_operand(operator: &str, operand: &Bson) -> Option<String> {
    match (operator, operand) {
        ("$regex", Bson::String(text)) if text.starts_with('/') => {
            Some(format!("$regex: the slashes are part of the pattern; write {}", regex_of(text)?))
        }
        // Any text is true.
        ("$exists", Bson::String(text)) => {
            let meant = !["false", "0", "no", ""].contains(&text.to_lowercase().as_str());
            Some(format!("$exists: a text counts as true, whatever it says; write {meant}"))
        }
        _ => None,
    }
}

/// The condition that a text with the notation of a pattern stands for.
fn regex_of(text: &str) -> Option<String> {
    let (pattern, options) = pattern_of(text)?;
    let pattern = ascii_json(&pattern).filter(|text| text.len() <= LONGEST_QUOTED)?;
    let options = if options.is_empty() { String::new() } else { format!(", \"$options\": \"{options}\"") };
    Some(format!("{{\"$regex\": {pattern}{options}}}"))
}

/// Advice about a text that the member can never have.
pub(super) fn one_of(place: &Place, value: &Bson, all: &[(&str, &[&str])]) -> Option<String> {
    let (Place::Member(path), Bson::String(text)) = (place, value) else { return None };
    let (_, known) = all.iter().find(|(member, _)| member == path)?;
    (!known.contains(&text.as_str()))
        .then(|| format!("{path} holds one of {}{}", known.join(", "), suggest::hint(text, known)))
}

/// About MongoDB's own id where the id of this service is needed.
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

/// The moment that a number probably stands for: milliseconds since 1970, or seconds where these would still be in 1973.
fn moment_of(value: &Bson) -> Option<DateTime> {
    const SECONDS_UNTIL: i64 = 100_000_000_000;
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from))?;
    Some(DateTime::from_millis(if number.abs() < SECONDS_UNTIL { number * 1000 } else { number }))
}

/// A time as answers show it: `2026-01-31 04:23:56.488000`.
fn shown_date(text: &str) -> Option<DateTime> {
    let time = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok()?;
    Some(DateTime::from_millis(time.and_utc().timestamp_millis()))
}

/// Where the id is found that belongs in place of a name.
fn found_by(what: &str, holds: Option<ValueKind>, value: &Bson) -> Option<String> {
    let (list, member) = match what {
        "type_id" | "types" => ("types", "name"),
        "parent" => ("categories", "name"),
        "group_id" => ("groups", "name"),
        "author_id" | "editor_id" | "user_id" => ("users", "user_name"),
        _ if matches!(holds, Some(ValueKind::Reference | ValueKind::References)) => {
            return Some("it holds the public_id of an object, which GET /rest/objects/ finds".to_owned());
        }
        _ => return None,
    };
    Some(id_found_by(list, member, Some(value)))
}

/// Whether a text looks like a pattern of another language.
pub(super) fn is_like_pattern(text: &str) -> bool {
    pattern_of(text).is_some()
}

/// The regular expression and its options that a text means in other languages: `/^web/i`, `web*`, `web%`.
fn pattern_of(text: &str) -> Option<(String, &str)> {
    if let Some((pattern, options)) = text.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) {
        let is_pattern = pattern.contains(['^', '$', '.', '*', '+', '?', '[', '(', '|', '\\']);
        // Options alone distinguish it from a path of a file.
        let is_pattern = is_pattern || !(options.is_empty() || pattern.is_empty() || pattern.contains('/'));
        return (is_pattern && options.chars().all(|option| "imsx".contains(option)))
            .then(|| (pattern.to_owned(), options));
    }
    if text.starts_with('^') || text.contains(".*") {
        let begin = if text.starts_with(['^', '.']) { "" } else { "^" };
        return Some((format!("{begin}{}", text.strip_suffix(".*").unwrap_or(text)), ""));
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

/// A text as JSON that fits a header.
fn ascii_json(text: &str) -> Option<String> {
    let mut units = [0; 2];
    let mut letters = String::new();
    for letter in serde_json::to_string(text).ok()?.chars() {
        if letter.is_ascii() {
            letters.push(letter);
        } else {
            letters.extend(letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    Some(letters)
}

/// A letter as a regular expression that matches only this letter.
fn escaped(letter: char) -> impl Iterator<Item = char> {
    let escape = if r"\^$.+?()[]{}|".contains(letter) { "\\" } else { "" };
    escape.chars().chain(std::iter::once(letter))
}
