//! The form of an object: a new one, or a change. Only what the visitor changed is sent on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use bson::raw::RawDocumentBuf;
use bson::{Bson, Document};
use maud::{Markup, html};
use serde_json::{Value, json};

use super::list::readable_type;
use super::object::id_of;
use crate::domain::document::{flag, integer};
use crate::domain::object_fields::{ValueKind, needs_value};
use crate::domain::object_input::read_fields;
use crate::domain::object_type::{Field, ObjectType};
use crate::http::error::ApiError;
use crate::json::read::document_from_str;
use crate::page::VIEW;
use crate::page::address::{Address, of_object, of_type};
use crate::page::answer::leads_to;
use crate::page::found::{Named, by_numbers, by_text, ids_in, named, number_in, with_number};
use crate::page::parts::control::{self, Problem, Shown, texts_of};
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::{moment, value};
use crate::page::visitor::{Form, Visitor};
use crate::service::objects::{create_object, get_object, patch_object};
use crate::service::precondition::{IfMatch, entity_tag};
use crate::service::resource::decode;
use crate::service::types::catalog::{TypeEntry, Types};
use crate::service::{ErrorCode, ServiceError};

/// How many objects are offered for a text that fits several.
const OFFERED: u64 = 20;

/// An object that is being edited, or a new one.
struct Subject {
    entry: Arc<TypeEntry>,
    /// The object as it is stored now; nothing for a new one.
    stored: Option<RawDocumentBuf>,
    /// The texts of its values, by the fields of the type. Nothing for a value that no control can show.
    texts: Vec<Option<Vec<String>>>,
}

/// What is in a form.
struct Draft {
    /// By the fields of the type.
    typed: Vec<Vec<String>>,
    /// What was there when the form was made.
    was: Vec<String>,
    active: bool,
    /// Whether it was active when the form was made.
    was_active: bool,
    /// What the object was when the form was made.
    tag: String,
    problems: BTreeMap<usize, Problem>,
    /// What fields have become meanwhile, and whether that was taken.
    meanwhile: BTreeMap<usize, (String, bool)>,
    /// What is wrong with the form as a whole.
    refusal: Option<Refusal>,
}

enum Refusal {
    /// What the service says.
    Said(String),
    /// Somebody changed the object: who, and when.
    Changed(String, String),
}

impl Subject {
    async fn new(visitor: &Visitor, type_id: i64) -> Result<Self, ApiError> {
        let entry = readable_type(visitor, type_id).await?;
        let default = |field: &Field| ValueKind::of(field).default_value(&field.value);
        let defaults: Vec<Bson> = entry.object_type.fields.iter().map(default).collect();
        Self::of(visitor, entry, None, &defaults).await
    }

    async fn stored(visitor: &Visitor, id: i64) -> Result<Self, ApiError> {
        visitor.needs(VIEW)?;
        let object = get_object(visitor.services(), &visitor.caller, id).await?;
        let type_id = integer(&object, "type_id").unwrap_or_default();
        let entry = readable_type(visitor, type_id).await?;
        let fields = read_fields(decode(&object)?.get("fields"));
        let value =
            |field: &Field| fields.iter().find(|entry| entry.name == field.name).map(|entry| entry.value.clone());
        let values: Vec<Bson> =
            entry.object_type.fields.iter().map(|field| value(field).unwrap_or(Bson::Null)).collect();
        Self::of(visitor, entry, Some(object), &values).await
    }

    async fn of(
        visitor: &Visitor,
        entry: Arc<TypeEntry>,
        stored: Option<RawDocumentBuf>,
        values: &[Bson],
    ) -> Result<Self, ApiError> {
        let fields = &entry.object_type.fields;
        let references = fields.iter().zip(values).filter(|(field, _)| field.is_reference());
        let ids: BTreeSet<i64> = references.flat_map(|(_, value)| ids_in(value)).collect();
        let names = by_numbers(visitor, &ids).await?;
        let texts = fields.iter().zip(values).map(|(field, value)| texts_of(field, value, &names)).collect();
        Ok(Self { entry, stored, texts })
    }

    fn fields(&self) -> &[Field] {
        &self.entry.object_type.fields
    }

    fn id(&self) -> Option<i64> {
        self.stored.as_deref().and_then(|stored| integer(stored, "public_id"))
    }

    /// The text of a value, to compare what was typed with it. A password has one that only says that there is one.
    fn before(&self, place: usize) -> String {
        let is_password = self.fields()[place].is_password();
        if is_password {
            let fields = self.stored.as_deref().and_then(|stored| decode(stored).ok());
            let fields = fields.map(|stored| read_fields(stored.get("fields"))).unwrap_or_default();
            let value = fields.iter().find(|field| field.name == self.fields()[place].name);
            let has_one = value.is_some_and(|field| !matches!(&field.value, Bson::Null) && field.value != "".into());
            return if has_one { "set".to_owned() } else { String::new() };
        }
        self.texts[place].as_ref().map(|texts| joined(texts)).unwrap_or_default()
    }

    /// Whether the object is active; a new one is.
    fn is_active(&self) -> bool {
        self.stored.as_deref().is_none_or(|stored| flag(stored, "active").unwrap_or_default())
    }

    /// The form of the object as it is stored, or of a new one. The service fills in defaults that are left as they are.
    fn draft(&self) -> Draft {
        let places = 0..self.fields().len();
        Draft {
            typed: self.texts.iter().map(|texts| texts.clone().unwrap_or_default()).collect(),
            was: places.map(|place| self.before(place)).collect(),
            active: self.is_active(),
            was_active: self.is_active(),
            tag: self.stored.as_deref().map(entity_tag).unwrap_or_default(),
            problems: BTreeMap::new(),
            meanwhile: BTreeMap::new(),
            refusal: None,
        }
    }

    /// The form as it was sent.
    fn sent(&self, form: &Form) -> Draft {
        let typed = self.fields().iter().map(|field| typed(form, field));
        let was =
            self.fields().iter().map(|field| plain_lines(form.sent(&control::name_before(field)).unwrap_or_default()));
        Draft {
            typed: typed.collect(),
            was: was.collect(),
            active: form.get("active").is_some(),
            was_active: form.get("was-active").is_some(),
            tag: form.get("tag").unwrap_or_default().to_owned(),
            problems: BTreeMap::new(),
            meanwhile: BTreeMap::new(),
            refusal: None,
        }
    }
}

/// The texts that were sent from the control of a field.
pub fn typed(form: &Form, field: &Field) -> Vec<String> {
    let name = control::name(field);
    let texts = form.all(&name).map(plain_lines).filter(|text| !text.is_empty());
    match ValueKind::of(field) {
        ValueKind::References => {
            let lines: Vec<String> =
                texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
            lines.into_iter().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
        }
        _ => texts.collect(),
    }
}

fn joined(texts: &[String]) -> String {
    plain_lines(&texts.join("\n"))
}

/// Browsers send line ends of their own.
fn plain_lines(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Shows the form of a new object.
///
/// # Errors
/// 404 for a type that the visitor may not read; errors of the store.
pub async fn blank(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let subject = Subject::new(&visitor, id_of(&request)?).await?;
    answer(&visitor, StatusCode::OK, &subject, &subject.draft()).await
}

/// Stores a new object.
///
/// # Errors
/// 404 for a type that the visitor may not read; errors of the store.
pub async fn create(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let visitor = &form.visitor;
    let subject = Subject::new(visitor, id_of(&request)?).await?;
    let mut draft = subject.sent(&form);
    let (places, fields) = values(visitor, &subject, &form, &mut draft).await?;
    if !draft.problems.is_empty() {
        return answer(visitor, StatusCode::BAD_REQUEST, &subject, &draft).await;
    }
    let type_id = subject.entry.object_type.public_id;
    let body =
        json!({"type_id": type_id, "author_id": visitor.caller.user_id, "active": draft.active, "fields": fields});
    match create_object(visitor.services(), &visitor.caller, &document(&body)?).await {
        Ok(created) => {
            let id = integer(&created.document, "public_id").unwrap_or_default();
            Ok(leads_to(&Address::new(of_object(id)).and("done", "created").text()))
        }
        Err(error) => refused(visitor, &subject, draft, &places, error.into()).await,
    }
}

/// A body as a document.
///
/// # Errors
/// 400 for a body that is not a document.
pub fn document(body: &Value) -> Result<Document, ApiError> {
    document_from_str(&body.to_string()).map_err(|error| ApiError::new(ErrorCode::JsonMalformed, error.to_string()))
}

/// Shows the form of an object.
///
/// # Errors
/// 404 for an object that the visitor may not read; errors of the store.
pub async fn show(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let subject = Subject::stored(&visitor, id_of(&request)?).await?;
    answer(&visitor, StatusCode::OK, &subject, &subject.draft()).await
}

/// Stores what the visitor changed.
///
/// # Errors
/// 404 for an object that the visitor may not read; errors of the store.
pub async fn save(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (visitor, id) = (&form.visitor, id_of(&request)?);
    let subject = Subject::stored(visitor, id).await?;
    let mut draft = subject.sent(&form);
    let (places, fields) = values(visitor, &subject, &form, &mut draft).await?;
    if !draft.problems.is_empty() {
        return answer(visitor, StatusCode::BAD_REQUEST, &subject, &draft).await;
    }
    let mut patch = json!({});
    if !fields.is_empty() {
        patch["fields"] = fields.into();
    }
    if draft.active != draft.was_active {
        patch["active"] = draft.active.into();
    }
    let done = Address::new(of_object(id)).and("done", "saved").text();
    if patch.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(leads_to(&of_object(id)));
    }
    let condition = IfMatch::Tags(vec![draft.tag.clone()]);
    match patch_object(visitor.services(), &visitor.caller, id, &condition, &patch).await {
        Ok(_) => Ok(leads_to(&done)),
        Err(ServiceError::PreconditionFailed(_)) => {
            let subject = Subject::stored(visitor, id).await?;
            let draft = overtaken(visitor, &subject, draft).await?;
            answer(visitor, StatusCode::PRECONDITION_FAILED, &subject, &draft).await
        }
        Err(error) => refused(visitor, &subject, draft, &places, error.into()).await,
    }
}

/// The draft over an object that has changed meanwhile. What was typed stays; what was not touched becomes what is stored.
async fn overtaken(visitor: &Visitor, subject: &Subject, mut draft: Draft) -> Result<Draft, ApiError> {
    let texts = visitor.texts();
    for place in 0..subject.fields().len() {
        let (now, is_password) = (subject.before(place), subject.fields()[place].is_password());
        if now == draft.was[place] {
            continue;
        }
        let is_untouched = !is_password && joined(&draft.typed[place]) == draft.was[place];
        let shown = if is_password || now.is_empty() { texts.say("empty") } else { value::clipped(&now) };
        if is_untouched {
            draft.typed[place] = subject.texts[place].clone().unwrap_or_default();
        }
        draft.meanwhile.insert(place, (shown, is_untouched));
        draft.was[place] = now;
    }
    if draft.active == draft.was_active {
        draft.active = subject.is_active();
    }
    draft.was_active = subject.is_active();
    let stored = subject.stored.as_deref();
    draft.tag = stored.map(entity_tag).unwrap_or_default();
    let editor = stored.and_then(|stored| integer(stored, "editor_id"));
    let names = visitor.services().directory.user_names(&editor.into_iter().collect::<Vec<_>>()).await?;
    let who =
        editor.and_then(|editor| names.get(&editor)).map_or_else(|| texts.say("unknown-user"), ToString::to_string);
    let when = stored.and_then(|stored| stored.get_datetime("last_edit_time").ok());
    let when = when.map(|when| moment::stamp(when.to_chrono())).unwrap_or_default();
    draft.refusal = Some(Refusal::Changed(who, when));
    Ok(draft)
}

/// The form again, with what the service says against it. Only what no form can mend is an error.
async fn refused(
    visitor: &Visitor,
    subject: &Subject,
    mut draft: Draft,
    places: &[usize],
    error: ApiError,
) -> Result<HttpResponse, ApiError> {
    if [401, 404].contains(&error.code().status()) {
        return Err(error);
    }
    let mut others = Vec::new();
    for violation in error.places() {
        let mut steps = violation.pointer.strip_prefix("/fields/").into_iter().flat_map(|rest| rest.split('/'));
        match steps.next().and_then(|index| places.get(index.parse::<usize>().ok()?)) {
            Some(place) => drop(draft.problems.insert(*place, Problem::new(violation.message.clone()))),
            None => match missing(subject, &violation.message) {
                Some(place) => drop(draft.problems.insert(place, Problem::new(visitor.texts().say("required")))),
                None => others.push(violation.message.clone()),
            },
        }
    }
    if draft.problems.is_empty() || !others.is_empty() {
        others.insert(0, error.message().to_owned());
        draft.refusal = Some(Refusal::Said(others.join("; ")));
    }
    answer(visitor, error.status(), subject, &draft).await
}

/// The required field that a refusal is about, which was not sent.
fn missing(subject: &Subject, message: &str) -> Option<usize> {
    let is_named = |field: &Field| message == needs_value(&field.name);
    subject.fields().iter().position(is_named)
}

/// The changed fields with their places, as a body has them. What cannot be understood becomes a problem of the draft.
async fn values(
    visitor: &Visitor,
    subject: &Subject,
    form: &Form,
    draft: &mut Draft,
) -> Result<(Vec<usize>, Vec<Value>), ApiError> {
    let (mut places, mut fields) = (Vec::new(), Vec::new());
    for (place, field) in subject.fields().iter().enumerate() {
        let is_cleared = form.get(&control::name_clear(field)).is_some();
        let typed = &draft.typed[place];
        let is_same =
            if field.is_password() { typed.is_empty() && !is_cleared } else { joined(typed) == draft.was[place] };
        let is_absent = form.sent(&control::name_before(field)).is_none();
        if is_same || is_absent {
            continue;
        }
        match value_of(visitor, &subject.entry, field, typed).await? {
            Ok(value) => {
                places.push(place);
                fields.push(json!({"name": field.name, "value": value}));
            }
            Err(problem) => drop(draft.problems.insert(place, problem)),
        }
    }
    Ok((places, fields))
}

/// What the texts in the control of a field of a type stand for.
///
/// # Errors
/// Errors of the store.
pub async fn value_of(
    visitor: &Visitor,
    entry: &TypeEntry,
    field: &Field,
    typed: &[String],
) -> Result<Result<Value, Problem>, ApiError> {
    let text = typed.first().map(String::as_str).unwrap_or_default();
    let kind = ValueKind::of(field);
    if kind == ValueKind::Checkbox {
        return Ok(Ok(Value::Bool(text == "true")));
    }
    if typed.is_empty() {
        return Ok(Ok(Value::Null));
    }
    Ok(match kind {
        ValueKind::Number => match serde_json::from_str::<Value>(text.trim()).ok().filter(Value::is_number) {
            Some(number) => Ok(number),
            None => Err(Problem::new(visitor.texts().say("not-a-number"))),
        },
        ValueKind::Options => Ok(typed.to_vec().into()),
        ValueKind::Reference => reference(visitor, entry, field, text).await?.map(Value::from),
        ValueKind::References => {
            let mut ids = Vec::new();
            for line in typed {
                match reference(visitor, entry, field, line).await? {
                    Ok(id) => ids.push(id),
                    Err(problem) => return Ok(Err(problem)),
                }
            }
            Ok(ids.into())
        }
        _ => Ok(text.into()),
    })
}

/// The number of the object that a text stands for.
async fn reference(
    visitor: &Visitor,
    entry: &TypeEntry,
    field: &Field,
    text: &str,
) -> Result<Result<i64, Problem>, ApiError> {
    if let Some(id) = number_in(text) {
        return Ok(Ok(id));
    }
    let texts = visitor.texts();
    let of_types: Vec<i64> = entry.object_type.targets(field).collect();
    let (found, total) = by_text(visitor, text, &of_types, OFFERED).await?;
    let wanted = text.trim().to_lowercase();
    let by_name: Vec<&Named> = found.iter().filter(|named| named.line.to_lowercase().contains(&wanted)).collect();
    let exact: Vec<&Named> = by_name.iter().copied().filter(|named| named.line.to_lowercase() == wanted).collect();
    let shown = value::clipped(text);
    let named = ("text", (&shown).into());
    let fitting = [exact, by_name, found.iter().collect()].into_iter().find(|fitting| !fitting.is_empty());
    Ok(match fitting {
        None => Err(Problem::new(texts.with("reference-none-found", &[named]))),
        Some(one) if one.len() == 1 && total <= OFFERED => Ok(one[0].id),
        Some(several) => {
            let candidates: Vec<String> = several.iter().map(|named| with_number(&named.line, named.id)).collect();
            let question = if total > OFFERED { "reference-too-many" } else { "reference-which" };
            let mut message = texts.with(question, &[named, ("count", OFFERED.into())]);
            if field.refers_to_several() {
                message = format!("{message} {}", candidates.join(", "));
            }
            Err(Problem { message, candidates })
        }
    })
}

async fn answer(
    visitor: &Visitor,
    status: StatusCode,
    subject: &Subject,
    draft: &Draft,
) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let object_type = &subject.entry.object_type;
    let known = visitor.services().current_types().await?;
    let title = match &subject.stored {
        None => texts.with("new-title", &[("type", (&object_type.label).into())]),
        Some(stored) => {
            let line = value::clipped(&named(visitor, &known, stored).line);
            texts.with("edit-title", &[("name", (&line).into())])
        }
    };
    let of_types = |field: &Field| target_labels(&known, object_type, field);
    let main = html! {
        (errors(visitor, subject, draft))
        h1 { (title) }
        (form(visitor, subject, draft, &of_types))
    };
    page(visitor, status, Content::new(title, main).about(object_type.public_id)).await
}

/// The names of the types that a field may refer to.
pub fn target_labels(types: &Types, object_type: &ObjectType, field: &Field) -> String {
    // A section may name the type of its field once more.
    let ids: BTreeSet<i64> = object_type.targets(field).collect();
    let entries = ids.into_iter().filter_map(|id| types.get(id));
    entries.map(|entry| entry.object_type.label.as_str()).collect::<Vec<_>>().join(", ")
}

/// What is wrong, with links to the fields.
fn errors(visitor: &Visitor, subject: &Subject, draft: &Draft) -> Markup {
    let texts = visitor.texts();
    let fields = subject.fields();
    html! {
        @match &draft.refusal {
            Some(Refusal::Changed(who, when)) => div.errors role="alert" {
                h2 { (texts.say("conflict-title")) }
                p { (texts.with("conflict-text", &[("who", who.into()), ("when", when.into())])) }
                ul { @for place in draft.meanwhile.keys() { li { a href={ "#f-" (place) } { bdi { (fields[*place].title()) } } } } }
            },
            _ if draft.problems.is_empty() && draft.refusal.is_none() => {},
            refusal => div.errors role="alert" {
                h2 { (texts.say("errors-title")) }
                p { (texts.say("errors-text")) }
                @if let Some(Refusal::Said(message)) = refusal { p lang="en" { bdi { (message) } } }
                ul {
                    @for (place, problem) in &draft.problems {
                        li { a href={ "#f-" (place) } { bdi { (fields[*place].title()) } ": " (problem.message) } }
                    }
                }
            },
        }
    }
}

/// The controls, section by section.
fn form(visitor: &Visitor, subject: &Subject, draft: &Draft, of_types: &dyn Fn(&Field) -> String) -> Markup {
    let texts = visitor.texts();
    let object_type = &subject.entry.object_type;
    let (action, back) = match subject.id() {
        Some(id) => (format!("{}/edit", of_object(id)), of_object(id)),
        None => (format!("{}/new", of_type(object_type.public_id)), of_type(object_type.public_id)),
    };
    let layout = &object_type.layout;
    let mut placed = BTreeSet::new();
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    for (section, places) in object_type.sections.iter().zip(&layout.sections) {
        let places: Vec<usize> = places.iter().copied().filter(|place| placed.insert(*place)).collect();
        groups.push((section.label.as_str(), places));
    }
    groups.push(("", layout.shown.iter().copied().filter(|place| !placed.contains(place)).collect()));
    html! {
        form.edit method="post" action=(action) novalidate {
            (token(visitor))
            input type="hidden" name="tag" value=(draft.tag);
            @if draft.was_active { input type="hidden" name="was-active" value="true"; }
            @for (label, places) in groups.iter().filter(|(_, places)| !places.is_empty()) {
                section {
                    @if !label.is_empty() { h2 { bdi { (label) } } }
                    @for place in places { (one(visitor, subject, draft, *place, of_types)) }
                }
            }
            section {
                div.field.choice {
                    input #active type="checkbox" name="active" value="true" checked[draft.active];
                    label for="active" { (texts.say("active")) }
                }
            }
            p.actions {
                button.main { (texts.say(if subject.stored.is_some() { "save" } else { "create" })) }
                a href=(back) { (texts.say("cancel")) }
            }
        }
    }
}

fn one(
    visitor: &Visitor,
    subject: &Subject,
    draft: &Draft,
    place: usize,
    of_types: &dyn Fn(&Field) -> String,
) -> Markup {
    let (texts, field) = (visitor.texts(), &subject.fields()[place]);
    if subject.texts[place].is_none() {
        return html! {
            div.field { p.label { bdi { (field.title()) } } p.hint { (texts.say("not-editable")) } }
        };
    }
    control::shown(
        texts,
        &Shown {
            field,
            place,
            typed: &draft.typed[place],
            was: &draft.was[place],
            problem: draft.problems.get(&place),
            meanwhile: draft.meanwhile.get(&place).map(|(now, is_taken)| (now.as_str(), *is_taken)),
            of_types: &of_types(field),
        },
    )
}
