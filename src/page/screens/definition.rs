//! The definition of a type: a form with a row for each field, the plan of the change, and the change itself. What the form does
//! not show stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use bson::Bson;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::edit::document;
use super::object::id_of;
use crate::domain::document::integer;
use crate::domain::object_fields::kinds;
use crate::domain::object_type::{Field, ObjectType};
use crate::domain::type_changes::Class;
use crate::http::error::ApiError;
use crate::page::address::{Address, of_definition, of_object, of_type};
use crate::page::answer::leads_to;

use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::refusal;
use crate::page::parts::value::clipped;
use crate::page::visitor::{Form, Visitor};
use crate::service::precondition::{IfMatch, entity_tag};
use crate::service::resource::{NewState, decode};
use crate::service::types::catalog::{TypeEntry, VIEW_TYPES};
use crate::service::types::plan::Plan;
use crate::service::types::{change_type, create_type, plan_change};
use crate::service::{ErrorCode, ServiceError};

/// How many rows for new fields a form has.
const NEW_ROWS: usize = 3;
/// How many objects are named for a rule that they break.
const NAMED: usize = 10;

/// The boxes of a field, with the keys of their texts: rules, what shows it, and that it goes, without or with its values.
const BOXES: [(&str, &str); 5] = [
    ("required", "required"),
    ("unique", "definition-unique"),
    ("summary", "definition-summary"),
    (GONE, "definition-gone"),
    (DROPPED, "definition-drop"),
];
const GONE: &str = "gone";
const DROPPED: &str = "drop";

/// What a form says about a field.
#[derive(Debug, Clone, Default, PartialEq)]
struct Row {
    /// Its name before; empty for a new field.
    was: String,
    name: String,
    label: String,
    kind: String,
    /// Where it is among the fields.
    place: String,
    /// The label of its section; empty for none.
    section: String,
    /// The boxes that are ticked: [`BOXES`].
    ticked: Vec<&'static str>,
    /// One a line: the name, and after `=` the label.
    options: String,
    /// The names of the types that it refers to, one a line.
    targets: String,
    regex: String,
    help: String,
}

/// What a form says about a type.
#[derive(Debug, Clone, Default)]
struct Draft {
    name: String,
    label: String,
    description: String,
    /// What the type was when the form was made.
    tag: String,
    /// Whether values that are there may break new rules.
    is_for_new: bool,
    rows: Vec<Row>,
}

/// The names of all types by their ids.
type Names = BTreeMap<i64, String>;

/// What the service answers to a form.
#[derive(Default)]
struct Said {
    status: StatusCode,
    errors: Vec<String>,
    plan: Option<Plan>,
}

impl Row {
    fn stored(field: &Value, sections: &[Value], summary: &[Value], place: usize, types: &Names) -> Self {
        let text = |name: &str| field[name].as_str().unwrap_or_default().to_owned();
        let is_in = |names: &Value| names.as_array().is_some_and(|names| names.contains(&field["name"]));
        let section = sections.iter().filter(|section| is_plain(section)).find(|section| is_in(&section["fields"]));
        let options = field["options"].as_array().into_iter().flatten().map(option_line);
        let targets = field["ref_types"].as_array().into_iter().flatten().filter_map(Value::as_i64);
        let targets = targets.map(|id| types.get(&id).cloned().unwrap_or_else(|| id.to_string()));
        Self {
            was: text("name"),
            name: text("name"),
            label: text("label"),
            kind: text("type"),
            place: place.to_string(),
            section: section.and_then(|section| section["label"].as_str()).unwrap_or_default().to_owned(),
            ticked: [
                ("required", field["required"] == true),
                ("unique", field["unique"] == true || field["unique"] == "fold"),
                ("summary", summary.contains(&field["name"])),
            ]
            .iter()
            .filter_map(|(name, is_set)| is_set.then_some(*name))
            .collect(),
            options: options.collect::<Vec<_>>().join("\n"),
            targets: targets.collect::<Vec<_>>().join("\n"),
            regex: text("regex"),
            help: text("description"),
        }
    }

    fn sent(sent: &BTreeMap<&str, &str>, index: usize) -> Option<Self> {
        let part_of = |part: &str| sent.get(format!("{index}.{part}").as_str()).copied();
        let text = |part: &str| part_of(part).map(|text| text.trim().replace("\r\n", "\n")).unwrap_or_default();
        let is_set = |part: &str| part_of(part).is_some_and(|text| !text.is_empty());
        part_of("name")?;
        Some(Self {
            was: text("was"),
            name: text("name"),
            label: text("label"),
            kind: text("kind"),
            place: text("place"),
            section: text("section"),
            ticked: BOXES.map(|(name, _)| name).into_iter().filter(|name| is_set(name)).collect(),
            options: text("options"),
            targets: text("targets"),
            regex: text("regex"),
            help: text("help"),
        })
    }

    fn is(&self, ticked: &str) -> bool {
        self.ticked.contains(&ticked)
    }

    /// Whether the field goes.
    fn is_gone(&self) -> bool {
        self.is(GONE) || self.is(DROPPED)
    }

    /// Whether the row is one for a new field that nobody filled in.
    fn is_blank(&self) -> bool {
        let texts = [&self.was, &self.name, &self.label, &self.options, &self.targets, &self.regex, &self.help];
        texts.into_iter().all(String::is_empty) && self.ticked.is_empty()
    }

    /// The field over what it was, as a body has it. What the form shows as it was stays as it was.
    fn field(&self, before: Option<(&Self, &Value)>, types: &Names) -> Value {
        let mut field = before.and_then(|(_, field)| field.as_object()).cloned().unwrap_or_default();
        let blank = Self::default();
        let was = before.map_or(&blank, |(row, _)| row);
        let label = if self.label.is_empty() && before.is_none() { &self.name } else { &self.label };
        for (name, sent, was) in [
            ("type", &self.kind, &was.kind),
            ("name", &self.name, &was.name),
            ("label", label, &was.label),
            ("regex", &self.regex, &was.regex),
            ("description", &self.help, &was.help),
        ] {
            if differs(sent, was) {
                field.insert(name.to_owned(), sent.as_str().into());
            }
        }
        for name in ["required", "unique"] {
            if self.is(name) != was.is(name) {
                field.insert(name.to_owned(), self.is(name).into());
            }
        }
        if differs(&self.options, &was.options) {
            let stored = before.and_then(|(_, field)| field["options"].as_array()).map_or(&[][..], Vec::as_slice);
            let option = |line: &str| {
                if let Some(option) = stored.iter().find(|option| option_line(option).trim() == line) {
                    return option.clone();
                }
                let (name, label) = line.split_once('=').unwrap_or((line, line));
                json!({"name": name.trim(), "label": label.trim()})
            };
            field.insert("options".to_owned(), lines(&self.options).map(option).collect());
        }
        if differs(&self.targets, &was.targets) {
            let target = |line: &str| {
                let named = types.iter().find(|(_, name)| **name == line).map(|(id, _)| *id);
                named.or_else(|| line.parse().ok()).map_or_else(|| line.into(), Value::from)
            };
            field.insert("ref_types".to_owned(), lines(&self.targets).map(target).collect());
        }
        field.into()
    }
}

/// Whether a text that was sent is another one than the form showed. Controls of one line lose ends of lines.
fn differs(sent: &str, was: &str) -> bool {
    let was = was.trim().replace("\r\n", "\n");
    sent != was && sent != was.replace(['\r', '\n'], "")
}

/// An option as a line: its name, and after `=` its label if that is another text.
fn option_line(option: &Value) -> String {
    let part = |name: &str| option[name].as_str().unwrap_or_default().replace(['\r', '\n'], " ");
    let (name, label) = (part("name"), part("label"));
    if name == label { name } else { format!("{name}={label}") }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// Whether a section has fields of its own; others show those of an object that is referred to.
fn is_plain(section: &Value) -> bool {
    section["type"] == "section"
}

impl Draft {
    /// An empty one, with rows for the first fields.
    fn blank() -> Self {
        Self { rows: rows_for_new(0), ..Self::default() }
    }

    fn stored(entry: &TypeEntry, types: &Names) -> Result<Self, ApiError> {
        let stored = Stored::read(entry)?;
        let mut rows = stored.rows(types);
        rows.extend(rows_for_new(rows.len()));
        let object_type = &entry.object_type;
        Ok(Self {
            name: object_type.name.clone(),
            label: object_type.label.clone(),
            description: object_type.description.clone().unwrap_or_default(),
            tag: entity_tag(&entry.document),
            is_for_new: false,
            rows,
        })
    }

    fn sent(form: &Form) -> Self {
        let text = |name: &str| form.get(name).unwrap_or_default().trim().replace("\r\n", "\n");
        let sent: BTreeMap<&str, &str> = form.pairs().collect();
        Self {
            name: text("name"),
            label: text("label"),
            description: text("description"),
            tag: text("tag"),
            is_for_new: form.get("enforce").is_some(),
            rows: (0..sent.len()).map_while(|index| Row::sent(&sent, index)).collect(),
        }
    }

    /// The rows that stay, in their order.
    fn kept(&self) -> Vec<&Row> {
        let mut kept: Vec<&Row> = self.rows.iter().filter(|row| !row.is_gone() && !row.is_blank()).collect();
        kept.sort_by(|one, other| place(one).total_cmp(&place(other)));
        kept
    }

    /// The row of a field that is stored.
    fn row_of(&self, name: &Value) -> Option<&Row> {
        self.rows.iter().find(|row| !row.was.is_empty() && *name == row.was)
    }

    /// The change as the body of a patch over what is stored; for a new type the whole body.
    fn body(&self, stored: &Stored, types: &Names) -> Value {
        let rows = stored.rows(types);
        let before =
            |row: &Row| rows.iter().zip(&stored.fields).find(|(was, _)| !row.was.is_empty() && was.name == row.was);
        let kept = self.kept();
        let mut fields: Vec<Value> = kept.iter().map(|row| row.field(before(row), types)).collect();
        // A form may have fewer rows than the type has fields.
        fields.extend(stored.fields.iter().filter(|field| self.row_of(&field["name"]).is_none()).cloned());
        let known = |name: &Value| match self.row_of(name) {
            Some(row) => (!row.is_gone() && row.is("summary")).then(|| row.name.clone().into()),
            None => Some(name.clone()),
        };
        let mut summary: Vec<Value> = stored.summary.iter().filter_map(known).collect();
        let is_new = |row: &&&Row| row.is("summary") && before(row).is_none_or(|(was, _)| !was.is("summary"));
        summary.extend(kept.iter().filter(is_new).map(|row| Value::from(row.name.as_str())));
        let sections = self.sections(stored, &rows, &kept);
        let mut body = json!({"fields": fields, "render_meta": {"sections": sections, "summary": {"fields": summary}}});
        let texts = [("name", &self.name), ("label", &self.label), ("description", &self.description)];
        for ((name, sent), was) in texts.into_iter().zip(&stored.texts) {
            if differs(sent, was) {
                body[name] = Some(sent.as_str()).filter(|text| !text.is_empty() || name != "description").into();
            }
        }
        if !stored.externals.is_empty() {
            body["render_meta"]["externals"] = self.externals(stored).into();
        }
        if !stored.indexes.is_empty() {
            body["indexes"] = self.indexes(stored).into();
        }
        let migration = self.migration(stored);
        if !migration.is_empty() {
            body["migration"] = migration.into();
        }
        if self.is_for_new {
            body["enforce"] = "new".into();
        }
        body
    }

    /// The sections with the new names and places of their fields. A field moves when its row names another section, which may be
    /// a new one. A section that loses all its fields goes.
    fn sections(&self, stored: &Stored, rows: &[Row], kept: &[&Row]) -> Vec<Value> {
        let before = |row: &Row| rows.iter().find(|was| !row.was.is_empty() && was.name == row.was);
        let has_moved = |row: &Row| before(row).is_none_or(|was| differs(&row.section, &was.section));
        let mut sections = stored.sections.clone();
        let mut emptied = Vec::new();
        for (index, section) in sections.iter_mut().enumerate() {
            let is_plain = is_plain(section);
            let Some(fields) = section["fields"].as_array() else { continue };
            let stays = |name: &Value| match self.row_of(name) {
                None => Some(name.clone()),
                Some(row) if row.is_gone() || (is_plain && has_moved(row)) => None,
                Some(row) => Some(row.name.clone().into()),
            };
            let own: Vec<Value> = fields.iter().filter_map(stays).collect();
            if is_plain && own.is_empty() && !fields.is_empty() {
                emptied.push(index);
            }
            section["fields"] = own.into();
        }
        for row in kept.iter().filter(|row| !row.section.is_empty() && has_moved(row)) {
            let is_named =
                |section: &Value| section["label"].as_str().is_some_and(|label| !differs(&row.section, label));
            let place = sections.iter().position(|section| is_plain(section) && is_named(section));
            let place = place.unwrap_or_else(|| {
                let taken = |name: &str| sections.iter().any(|section| section["name"] == name);
                let name = (1..=sections.len() + 1).map(|number| format!("section-{number}")).find(|name| !taken(name));
                sections.push(json!({"type": "section", "name": name, "label": row.section, "fields": []}));
                sections.len() - 1
            });
            emptied.retain(|index| *index != place);
            if let Some(fields) = sections[place]["fields"].as_array_mut() {
                fields.push(row.name.as_str().into());
            }
        }
        // A row with a new place comes before the next field of its section.
        let rank = |name: &Value| kept.iter().position(|row| *name == row.name);
        for row in kept.iter().filter(|row| before(row).is_none_or(|was| row.place != was.place) || has_moved(row)) {
            for section in sections.iter_mut().filter(|section| is_plain(section)) {
                let Some(fields) = section["fields"].as_array_mut() else { continue };
                let Some(at) = fields.iter().position(|name| *name == row.name) else { continue };
                let name = fields.remove(at);
                let next = fields.iter().position(|other| rank(other) > rank(&name)).unwrap_or(fields.len());
                fields.insert(next, name);
            }
        }
        for index in emptied.into_iter().rev() {
            sections.remove(index);
        }
        sections
    }

    /// The links, with the new names of their fields.
    fn externals(&self, stored: &Stored) -> Vec<Value> {
        let renamed = |name: &Value| self.row_of(name).map_or_else(|| name.clone(), |row| row.name.clone().into());
        let mut externals = stored.externals.clone();
        for external in &mut externals {
            if let Some(fields) = external["fields"].as_array() {
                external["fields"] = fields.iter().map(renamed).collect::<Vec<_>>().into();
            }
        }
        externals
    }

    /// The indexes with the new names of their fields. An index of a removed field is removed, too.
    fn indexes(&self, stored: &Stored) -> Vec<Value> {
        let is_there = |index: &&Value| {
            let mut names = index.as_array().into_iter().flatten();
            names.all(|name| self.row_of(name).is_none_or(|row| !row.is_gone()))
        };
        let renamed = |name: &Value| self.row_of(name).map_or_else(|| name.clone(), |row| row.name.clone().into());
        let all = stored.indexes.iter().filter(is_there);
        all.map(|index| index.as_array().into_iter().flatten().map(renamed).collect::<Vec<_>>().into()).collect()
    }

    /// What happens to the values of the objects: they follow a field that gets another name or kind, or are removed with it.
    fn migration(&self, stored: &Stored) -> Vec<Value> {
        let stored_rows = || self.rows.iter().filter(|row| !row.was.is_empty());
        // A name that is free again may be taken in the same change.
        let gone = stored_rows().filter(|row| row.is(DROPPED));
        let mut steps: Vec<Value> = gone.map(|row| json!({"drop": {"field": row.was}})).collect();
        for row in stored_rows().filter(|row| !row.is_gone()) {
            if row.name != row.was {
                steps.push(json!({"rename": {"from": row.was, "to": row.name}}));
            }
            let kind = stored.fields.iter().find(|field| field["name"] == row.was).map(|field| &field["type"]);
            if kind.is_some_and(|kind| *kind != row.kind) {
                steps.push(json!({"convert": {"field": row.name, "to": row.kind, "on_error": "refuse"}}));
            }
        }
        steps
    }
}

fn rows_for_new(after: usize) -> Vec<Row> {
    let row = |number: usize| Row { kind: "text".to_owned(), place: (after + number).to_string(), ..Row::default() };
    (1..=NEW_ROWS).map(row).collect()
}

/// Where a row belongs: fields without a number come last.
fn place(row: &Row) -> f64 {
    row.place.replace(',', ".").parse().unwrap_or(f64::INFINITY)
}

/// The parts of a stored type that a form changes, as JSON.
#[derive(Default)]
struct Stored {
    /// Name, label and description.
    texts: [String; 3],
    fields: Vec<Value>,
    sections: Vec<Value>,
    summary: Vec<Value>,
    externals: Vec<Value>,
    indexes: Vec<Value>,
}

impl Stored {
    fn read(entry: &TypeEntry) -> Result<Self, ApiError> {
        let document = decode(&entry.document)?;
        let list = |list: Option<&Bson>| -> Vec<Value> {
            let items = list.and_then(Bson::as_array).into_iter().flatten();
            items.map(|item| item.clone().into_relaxed_extjson()).collect()
        };
        let meta = document.get_document("render_meta").ok();
        let of_meta = |name: &str| list(meta.and_then(|meta| meta.get(name)));
        let summary = meta.and_then(|meta| meta.get_document("summary").ok());
        let object_type = &entry.object_type;
        let description = object_type.description.clone().unwrap_or_default();
        Ok(Self {
            texts: [object_type.name.clone(), object_type.label.clone(), description],
            fields: list(document.get("fields")),
            sections: of_meta("sections"),
            summary: list(summary.and_then(|summary| summary.get("fields"))),
            externals: of_meta("externals"),
            indexes: list(document.get("indexes")),
        })
    }
}

impl Stored {
    /// The rows that show the fields.
    fn rows(&self, types: &Names) -> Vec<Row> {
        let row = |(place, field)| Row::stored(field, &self.sections, &self.summary, place + 1, types);
        self.fields.iter().enumerate().map(row).collect()
    }
}

/// Shows the form of a new type.
///
/// # Errors
/// Errors of the store.
pub async fn blank(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    visitor.needs(VIEW_TYPES)?;
    answer(&visitor, None, &Draft::blank(), Said::default()).await
}

/// Stores a new type.
///
/// # Errors
/// Errors of the store.
pub async fn create(form: Form) -> Result<HttpResponse, ApiError> {
    let (visitor, draft) = (&form.visitor, Draft::sent(&form));
    let mut body = draft.body(&Stored::default(), &names(visitor).await?);
    body["author_id"] = visitor.caller.user_id.into();
    match create_type(visitor.services(), &visitor.caller, &document(&body)?).await {
        Ok(created) => Ok(leads_to(&of_type(integer(&created, "public_id").unwrap_or_default()))),
        Err(error) => refused(visitor, None, &draft, error.into()).await,
    }
}

/// Shows the form of a type.
///
/// # Errors
/// 404 for no such type; errors of the store.
pub async fn show(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let entry = known_type(&visitor, &request).await?;
    let draft = Draft::stored(&entry, &names(&visitor).await?)?;
    answer(&visitor, Some(&entry), &draft, Said::default()).await
}

/// Changes a type, or shows what the change would do.
///
/// # Errors
/// 404 for no such type; errors of the store.
pub async fn save(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (visitor, draft) = (&form.visitor, Draft::sent(&form));
    let entry = known_type(visitor, &request).await?;
    let patch = draft.body(&Stored::read(&entry)?, &names(visitor).await?);
    let (services, caller, id) = (visitor.services(), &visitor.caller, entry.object_type.public_id);
    let condition = IfMatch::Tags(vec![draft.tag.clone()]);
    if form.get("do") == Some("plan") {
        return match plan_change(services, caller, id, &condition, NewState::Patch(&patch)).await {
            Ok(plan) => answer(visitor, Some(&entry), &draft, Said { plan: Some(plan), ..Said::default() }).await,
            Err(error) => refused(visitor, Some(&entry), &draft, error.into()).await,
        };
    }
    match change_type(services, caller, id, &condition, NewState::Patch(&patch)).await {
        Ok(_) => Ok(leads_to(&Address::new(of_definition(id)).and("done", "saved").text())),
        Err(error @ ServiceError::PreconditionFailed(_)) => {
            log::debug!("a definition was changed meanwhile: {error}");
            let errors = vec![visitor.texts().say("conflict-again")];
            let said = Said { status: StatusCode::PRECONDITION_FAILED, errors, plan: None };
            answer(visitor, Some(&entry), &draft, said).await
        }
        Err(error) => refused(visitor, Some(&entry), &draft, error.into()).await,
    }
}

async fn names(visitor: &Visitor) -> Result<Names, ApiError> {
    visitor.needs(VIEW_TYPES)?;
    let types = visitor.services().current_types().await?;
    Ok(types.iter().map(|entry| (entry.object_type.public_id, entry.object_type.name.clone())).collect())
}

async fn known_type(visitor: &Visitor, request: &HttpRequest) -> Result<Arc<TypeEntry>, ApiError> {
    visitor.needs(VIEW_TYPES)?;
    let id = id_of(request).map_err(|_| ApiError::of(ErrorCode::TypeNotFound))?;
    visitor.services().type_with_id(id).await?.ok_or_else(|| ApiError::of(ErrorCode::TypeNotFound))
}

/// The form again, with what the service says against it.
async fn refused(
    visitor: &Visitor,
    entry: Option<&TypeEntry>,
    draft: &Draft,
    error: ApiError,
) -> Result<HttpResponse, ApiError> {
    let error = refusal::mendable(error)?;
    let kept = draft.kept();
    let place = |pointer: &str| {
        let index = pointer.strip_prefix("/fields/").and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
        index.and_then(|index| kept.get(index)).map_or_else(|| pointer.to_owned(), |row| row.name.clone())
    };
    let errors = refusal::lines(&error, place);
    answer(visitor, entry, draft, Said { status: error.status(), errors, plan: None }).await
}

async fn answer(
    visitor: &Visitor,
    entry: Option<&TypeEntry>,
    draft: &Draft,
    said: Said,
) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let id = entry.map(|entry| entry.object_type.public_id);
    let title = match entry {
        Some(entry) => texts.with("definition-title", &[("type", (&entry.object_type.label).into())]),
        None => texts.say("definition-new"),
    };
    let main = html! {
        @if visitor.guest.asked("done").is_some() { p.notice role="status" { (texts.say("changed-now")) } }
        (refusal::shown(texts, &said.errors, Some("errors-text")))
        h1 { (title) }
        @if let Some(plan) = &said.plan { (planned(visitor, plan, entry.map(|entry| &*entry.object_type))) }
        (form(visitor, id, draft))
    };
    let content = Content::new(title, main);
    page(visitor, said.status, Content { of_type: id, ..content }).await
}

/// What a change would do.
fn planned(visitor: &Visitor, plan: &Plan, object_type: Option<&ObjectType>) -> Markup {
    let texts = visitor.texts();
    let class = |class: Class| texts.say(&format!("plan-{}", class.name().replace('_', "-")));
    html! {
        section.notice #plan role="status" {
            h2 { (texts.say("plan")) ": " (class(plan.class())) }
            @if plan.steps.is_empty() { p { (texts.say("plan-nothing")) } }
            ul {
                @for step in &plan.steps {
                    @let difference = &step.difference;
                    @let field = difference.name.as_deref();
                    @let label = field.and_then(|name| object_type?.field(name)).map(Field::title);
                    li {
                        @if let Some(name) = label.or(field) { bdi { (name) } ": " }
                        span lang="en" { (difference.change.replace('_', " ")) } " – " (class(difference.class))
                        @if let Some(reason) = &step.refusal { " " span lang="en" { bdi { (reason) } } }
                        (misfits(visitor, &step.misfits))
                    }
                }
            }
            @if let Some(found) = &plan.findings {
                p { (texts.with("plan-unfit", &[("unfit", found.unfit.into()), ("total", found.looked_at.into())])) }
                @if let Some(moved) = &found.moved { p { (texts.with("plan-moved", &[("count", moved.objects.into())])) } }
            }
        }
    }
}

fn misfits(visitor: &Visitor, groups: &[crate::service::types::fitting::Misfits]) -> Markup {
    html! {
        @for group in groups {
            p {
                (visitor.texts().with("objects", &[("count", group.objects.into())])) ": "
                @for example in group.first.iter().take(NAMED) {
                    a href=(of_object(example.public_id)) title=(clipped(&example.reason)) { "#" (example.public_id) } " "
                }
            }
        }
    }
}

fn form(visitor: &Visitor, id: Option<i64>, draft: &Draft) -> Markup {
    let texts = visitor.texts();
    let action = id.map_or_else(|| "/ui/new-type".to_owned(), of_definition);
    html! {
        form.edit method="post" action=(action) novalidate {
            (token(visitor))
            input type="hidden" name="tag" value=(draft.tag);
            @for (name, value, key) in [("label", &draft.label, "definition-label"), ("name", &draft.name, "definition-name"),
                ("description", &draft.description, "definition-description")] {
                div.field { label for=(name) { (texts.say(key)) } input id=(name) name=(name) value=(value) autocomplete="off"; }
            }
            h2 { (texts.say("definition-fields")) }
            p.hint { (texts.say("definition-hint")) }
            @for (index, row) in draft.rows.iter().enumerate() { (fieldset(visitor, index, row)) }
            @if id.is_some() {
                div.field.choice {
                    input #enforce type="checkbox" name="enforce" value="new" checked[draft.is_for_new];
                    label for="enforce" { (texts.say("definition-enforce")) }
                }
            }
            p.actions {
                @if id.is_some() { button.main name="do" value="plan" { (texts.say("plan-show")) } }
                button.main[id.is_none()] name="do" value="save" { (texts.say(if id.is_some() { "save" } else { "create" })) }
                a href=(id.map_or_else(|| "/ui/".to_owned(), of_type)) { (texts.say("cancel")) }
            }
        }
    }
}

fn fieldset(visitor: &Visitor, index: usize, row: &Row) -> Markup {
    let texts = visitor.texts();
    let name = |part: &str| format!("{index}.{part}");
    let input = |part: &str, key: &str, value: &str| {
        html! {
            label { (texts.say(key)) input name=(name(part)) value=(value) autocomplete="off"; }
        }
    };
    let area = |part: &str, key: &str, value: &str| {
        html! {
            label { (texts.say(key)) textarea name=(name(part)) rows="3" { "\n" (value) } }
        }
    };
    let title = if row.label.is_empty() { &row.name } else { &row.label };
    let is_new = row.was.is_empty();
    html! {
        fieldset.row {
            legend { @if is_new { (texts.say("definition-new-field")) } @else { bdi { (title) } } }
            input type="hidden" name=(name("was")) value=(row.was);
            (input("label", "definition-label", &row.label))
            (input("name", "definition-name", &row.name))
            label { (texts.say("definition-kind"))
                select name=(name("kind")) {
                    @for kind in kinds() { option value=(kind) selected[kind == row.kind] { (kind) } }
                    @if !kinds().contains(&row.kind.as_str()) { option value=(row.kind) selected { (row.kind) } }
                }
            }
            (input("place", "definition-place", &row.place))
            (input("section", "definition-section", &row.section))
            div.choices {
                @for (part, key) in BOXES.iter().filter(|(part, _)| !is_new || ![GONE, DROPPED].contains(part)) {
                    label.choice { input type="checkbox" name=(name(part)) value="yes" checked[row.is(part)]; (texts.say(key)) }
                }
            }
            details open[!row.options.is_empty() || !row.targets.is_empty()] {
                summary { (texts.say("definition-more")) }
                (area("options", "definition-options", &row.options))
                (area("targets", "definition-targets", &row.targets))
                (input("regex", "definition-regex", &row.regex))
                (area("help", "definition-help", &row.help))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(was: &str, name: &str, kind: &str, place: &str) -> Row {
        let text = str::to_owned;
        Row {
            was: text(was),
            name: text(name),
            label: text(name),
            kind: text(kind),
            place: text(place),
            ..Row::default()
        }
    }

    fn stored() -> Stored {
        let field = |name: &str, kind: &str| json!({"type": kind, "name": name, "label": name, "placeholder": "kept"});
        Stored {
            texts: Default::default(),
            fields: vec![field("host", "text"), field("units", "text")],
            sections: vec![
                json!({"type": "section", "name": "s", "label": "Identity", "fields": ["host"], "icon": "kept"}),
                json!({"type": "ref-section", "name": "r", "label": "Rack", "reference": {"type_id": 7}}),
            ],
            summary: vec![json!("host")],
            externals: vec![json!({"name": "wiki", "fields": ["host"]})],
            indexes: vec![json!(["host", "units"]), json!(["old"])],
        }
    }

    #[test]
    fn values_follow_a_field_that_gets_another_name_or_kind() {
        let mut gone = row("old", "old", "text", "3");
        gone.ticked = vec![DROPPED];
        let draft = Draft {
            rows: vec![row("host", "hostname", "text", "2"), row("units", "units", "number", "1"), gone],
            ..Draft::default()
        };
        let body = draft.body(&stored(), &Names::new());
        assert_eq!(
            body["migration"],
            json!([
                {"drop": {"field": "old"}},
                {"rename": {"from": "host", "to": "hostname"}},
                {"convert": {"field": "units", "to": "number", "on_error": "refuse"}},
            ])
        );
        assert_eq!(
            body["fields"][0],
            json!({"type": "number", "name": "units", "label": "units", "placeholder": "kept"})
        );
        assert_eq!(body["fields"][1]["name"], "hostname");
        assert_eq!(body["render_meta"]["externals"][0]["fields"], json!(["hostname"]));
        assert_eq!(body["indexes"], json!([["hostname", "units"]]));
    }

    #[test]
    fn a_form_that_is_sent_as_it_is_changes_nothing_whatever_is_stored() {
        let stored = Stored {
            texts: Default::default(),
            fields: vec![
                json!({"type": "select", "name": "state", "label": " On = off\r\n ", "unique": "fold", "multiple": true, "regex": "(?x) a \n b",
                    "options": [{"name": "a=b", "label": "A"}, {"name": " c ", "label": "line\nline"}]}),
                json!({"type": "ref", "name": "rack", "label": "", "ref_types": [7, 99], "on_delete": "clear", "summaries": []}),
                json!({"type": "ref-section-field", "name": "r-field", "label": "R"}),
            ],
            sections: vec![
                json!({"type": "section", "name": "one", "label": "Same", "fields": ["rack", "state"]}),
                json!({"type": "section", "name": "two", "label": "Same", "fields": ["state", "unknown"]}),
                json!({"type": "section", "name": "none", "label": "Empty", "fields": []}),
                json!({"type": "ref-section", "name": "r", "label": "R", "fields": ["r-field"], "reference": {"type_id": 7}}),
            ],
            summary: vec![json!("rack"), json!("gone"), json!("state")],
            externals: vec![json!({"name": "wiki", "fields": ["state", "object_id"]})],
            indexes: vec![json!(["rack"]), json!(["state", "rack"])],
        };
        let types = Names::from([(7, "rack".to_owned())]);
        let mut rows = stored.rows(&types);
        for row in &mut rows {
            row.was.clone_from(&row.name);
            // As a browser sends them: controls of one line lose ends of lines.
            row.options = row.options.trim().to_owned();
            for text in [&mut row.label, &mut row.section, &mut row.regex] {
                *text = text.replace(['\r', '\n'], "").trim().to_owned();
            }
        }
        for count in [3, 1] {
            let draft = Draft { rows: rows[..count].to_vec(), ..Draft::default() };
            let body = draft.body(&stored, &types);
            assert_eq!(body["fields"], Value::from(stored.fields.clone()));
            assert_eq!(body["render_meta"]["sections"], Value::from(stored.sections.clone()));
            assert_eq!(body["render_meta"]["summary"]["fields"], Value::from(stored.summary.clone()));
            assert_eq!(body["render_meta"]["externals"], Value::from(stored.externals.clone()));
            assert_eq!(body["indexes"], Value::from(stored.indexes.clone()));
            assert!(body.get("migration").is_none());
        }
    }

    #[test]
    fn one_new_option_leaves_the_others_as_they_are() {
        let options = json!([{"name": "a=b", "label": "A"}, {"name": " c ", "label": "line\nline"}]);
        let field = json!({"type": "select", "name": "state", "label": "State", "options": options});
        let stored = Stored { fields: vec![field], ..Stored::default() };
        let mut rows = stored.rows(&Names::new());
        rows[0].options.push_str("\nnew=New");
        let body = Draft { rows, ..Draft::default() }.body(&stored, &Names::new());
        let expected = json!([options[0], options[1], {"name": "new", "label": "New"}]);
        assert_eq!(body["fields"][0]["options"], expected);
    }

    #[test]
    fn a_field_with_a_new_place_is_there_in_its_section_too() {
        let field = |name: &str| json!({"type": "text", "name": name, "label": name});
        let sections = vec![json!({"type": "section", "name": "s", "label": "S", "fields": ["c", "a", "b"]})];
        let stored = Stored { fields: ["a", "b", "c"].map(field).into(), sections, ..Stored::default() };
        let mut rows = stored.rows(&Names::new());
        let new = Row { section: "S".to_owned(), ..row("", "first", "text", "0.5") };
        rows.push(new);
        let body = Draft { rows, ..Draft::default() }.body(&stored, &Names::new());
        assert_eq!(body["fields"][0]["name"], "first");
        assert_eq!(body["render_meta"]["sections"][0]["fields"], json!(["first", "c", "a", "b"]));
    }

    #[test]
    fn sections_keep_what_the_form_does_not_show() {
        let mut rows =
            vec![row("host", "host", "text", "1"), row("units", "units", "text", "2"), row("", "", "text", "")];
        rows[0].section = "Identity".to_owned();
        rows[1].section = "Size".to_owned();
        let draft = Draft { rows, ..Draft::default() };
        let body = draft.body(&stored(), &Names::new());
        assert_eq!(
            body["render_meta"]["sections"],
            json!([
                {"type": "section", "name": "s", "label": "Identity", "fields": ["host"], "icon": "kept"},
                {"type": "ref-section", "name": "r", "label": "Rack", "reference": {"type_id": 7}},
                {"type": "section", "name": "section-1", "label": "Size", "fields": ["units"]},
            ])
        );
        assert_eq!(body["fields"].as_array().map(Vec::len), Some(2), "a row that nobody filled in is no field");
        assert!(body.get("migration").is_none() && body.get("enforce").is_none());
    }
}
