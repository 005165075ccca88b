//! The history of an object, as sentences.

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document};
use chrono::{DateTime, Utc};
use maud::{Markup, html};
use serde_json::Value;

use super::{moment, value};
use crate::domain::object_fields::HIDDEN;
use crate::domain::object_type::{Field, ObjectType};
use crate::http::error::ApiError;
use crate::page::address::Address;
use crate::page::found::{Named, by_numbers, ids_in};
use crate::page::texts::Texts;
use crate::page::view::OptionView;
use crate::page::visitor::Visitor;
use crate::service::resource::decode;
use crate::store::Documents;

/// A sentence about one entry.
pub struct Entry {
    /// What orders it.
    pub sequence: i64,
    /// When it happened.
    pub time: Option<DateTime<Utc>>,
    /// Which object it is about.
    pub object_id: i64,
    /// What was done, by whom.
    pub what: String,
    /// The fields that changed.
    pub changes: Vec<String>,
    /// The comment of the user.
    pub comment: Option<String>,
}

/// A field that an entry changed: before and after, as far as they are known.
struct Change {
    name: String,
    old: Option<Bson>,
    new: Option<Bson>,
}

/// Entries of one object as sentences, the newest first. `present` are the values as they are after the newest entry, by
/// the names of the fields.
///
/// # Errors
/// Errors of the store.
pub async fn of_object(
    visitor: &Visitor,
    object_type: Option<&ObjectType>,
    entries: &Documents,
    present: BTreeMap<String, Bson>,
) -> Result<Vec<Entry>, ApiError> {
    let mut values = present;
    let mut told: Vec<(Document, Vec<Change>)> = Vec::new();
    for entry in entries.iter() {
        let entry = decode(entry)?;
        let changes = changes(&entry, &mut values);
        told.push((entry, changes));
    }
    let names = names(visitor, object_type, told.iter().flat_map(|(_, changes)| changes)).await?;
    let texts = visitor.texts();
    let sentences = told.iter().map(|(entry, changes)| Entry {
        changes: changes.iter().map(|change| sentence(texts, object_type, &names, change)).collect(),
        ..plain(texts, entry)
    });
    Ok(sentences.collect())
}

/// What an entry says apart from values.
pub fn plain(texts: Texts, entry: &Document) -> Entry {
    let somebody = texts.say("unknown-user");
    let who = entry.get_str("user_name").unwrap_or(&somebody);
    let number = |name: &str| entry.get_i64(name).or_else(|_| entry.get_i32(name).map(i64::from)).unwrap_or_default();
    let was_active = entry.get_document("changes").and_then(|changes| changes.get_document("was"));
    let was_active = was_active.and_then(|was| was.get_bool("/active")).ok();
    let key = match entry.get_str("action").unwrap_or_default() {
        "CREATE" => "history-create",
        "IMPORT" => "history-import",
        "DELETE" => "history-delete",
        "REVERT" => "history-revert",
        "CLEAN" => "history-clean",
        "OUTSIDE" => "history-outside",
        "ACTIVE_CHANGE" if was_active == Some(true) => "history-deactivate",
        "ACTIVE_CHANGE" => "history-activate",
        _ => "history-edit",
    };
    Entry {
        sequence: number("sequence"),
        time: entry.get_datetime("time").ok().map(|time| time.to_chrono()),
        object_id: number("public_id"),
        what: texts.with(key, &[("who", who.into())]),
        changes: Vec::new(),
        comment: entry.get_str("comment").ok().map(str::to_owned),
    }
}

/// The fields that an entry changed. `values` are those after it, and become those before it.
fn changes(entry: &Document, values: &mut BTreeMap<String, Bson>) -> Vec<Change> {
    let Ok(way_back) = entry.get_document("changes") else { return Vec::new() };
    let mut changes = Vec::new();
    for (place, old) in way_back.get_document("was").into_iter().flatten() {
        let mut steps = place.strip_prefix("/fields/").into_iter().flat_map(|rest| rest.split('/'));
        let Some(name) = steps.next().map(|name| name.replace("~1", "/").replace("~0", "~")) else { continue };
        match (steps.next(), steps.next()) {
            (Some("value"), None) => {
                let new = values.insert(name.clone(), old.clone());
                changes.push(Change { name, old: Some(old.clone()), new });
            }
            _ => {
                values.remove(&name);
                changes.push(Change { name, old: None, new: None });
            }
        }
    }
    for part in way_back.get_array("parts").into_iter().flatten().filter_map(Bson::as_document) {
        let place = part.get_str("at").unwrap_or_default();
        if let Some(name) = place.strip_prefix("/fields/").and_then(|rest| rest.split('/').next()) {
            let name = name.replace("~1", "/").replace("~0", "~");
            values.remove(&name);
            changes.push(Change { name, old: None, new: None });
        } else if place == "/fields" {
            // Fields came or went; what they hold after earlier entries is not followed.
            values.clear();
        }
    }
    changes
}

/// The objects that changed values refer to.
async fn names(
    visitor: &Visitor,
    object_type: Option<&ObjectType>,
    changes: impl Iterator<Item = &Change>,
) -> Result<BTreeMap<i64, Named>, ApiError> {
    let mut ids = BTreeSet::new();
    for change in changes.filter(|change| field_of(object_type, &change.name).is_some_and(Field::is_reference)) {
        ids.extend([&change.old, &change.new].into_iter().flatten().flat_map(ids_in));
    }
    by_numbers(visitor, &ids).await
}

fn field_of<'t>(object_type: Option<&'t ObjectType>, name: &str) -> Option<&'t Field> {
    object_type.and_then(|object_type| object_type.field(name))
}

fn sentence(texts: Texts, object_type: Option<&ObjectType>, names: &BTreeMap<i64, Named>, change: &Change) -> String {
    let field = field_of(object_type, &change.name);
    let label = field.map_or(change.name.as_str(), Field::title);
    let is_shown = field.is_some_and(|field| !field.is_password());
    let side = |value: &Option<Bson>| {
        let value = value.as_ref()?;
        if *value == Bson::Null {
            return Some(String::new());
        }
        if !is_shown {
            return Some(HIDDEN.to_owned());
        }
        let is_reference = field.is_some_and(Field::is_reference);
        let options: Vec<OptionView> = field
            .map(|field| field.options.iter())
            .into_iter()
            .flatten()
            .map(|option| OptionView { name: option.name.clone(), label: option.label.clone() })
            .collect();
        let one = |value: &Bson| match value.as_i64().filter(|_| is_reference) {
            Some(id) => names.get(&id).map_or_else(|| format!("#{id}"), |named| named.line.clone()),
            None => value::text(texts, &options, &Value::from(value.clone())),
        };
        let text = match value {
            Bson::Array(items) => items.iter().map(one).collect::<Vec<_>>().join(", "),
            value => one(value),
        };
        Some(value::clipped(&text))
    };
    let label = ("label", label.into());
    match (side(&change.old), side(&change.new)) {
        (Some(old), Some(new)) if old.is_empty() && !new.is_empty() => {
            texts.with("history-set", &[label, ("new", (&new).into())])
        }
        (Some(old), Some(new)) if new.is_empty() && !old.is_empty() => {
            texts.with("history-cleared", &[label, ("old", (&old).into())])
        }
        (Some(old), Some(new)) if !new.is_empty() => {
            texts.with("history-field", &[label, ("old", (&old).into()), ("new", (&new).into())])
        }
        _ => texts.with("history-touched", &[label]),
    }
}

/// The entries as a list; each but the newest leads to its state.
pub fn shown(texts: Texts, address: &Address, entries: &[Entry]) -> Markup {
    html! {
        ol.story {
            @for (index, entry) in entries.iter().enumerate() {
                li {
                    p {
                        @if let Some(time) = entry.time { time datetime=(time.to_rfc3339()) { (moment::stamp(time)) } " " }
                        (entry.what)
                        @if index > 0 {
                            " " a.quiet href=(address.clone().with("at", entry.sequence).text()) { (texts.say("history-look")) }
                        }
                    }
                    @if !entry.changes.is_empty() { ul { @for change in &entry.changes { li { (change) } } } }
                    @if let Some(comment) = &entry.comment {
                        p.note { (texts.with("history-comment", &[("text", comment.into())])) }
                    }
                }
            }
        }
    }
}
