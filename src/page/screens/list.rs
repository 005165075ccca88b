//! The list of a type: columns, filters under their headings, pages, files. Its address holds everything.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use bson::Bson;
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use crate::domain::document::integer;
use crate::domain::object_fields::{ValueKind, parse_date};
use crate::domain::object_type::Field;
use crate::http::cursors;
use crate::http::error::ApiError;
use crate::http::objects::object_params;
use crate::http::params::{ListParams, ListRoute, Parameters};
use crate::page::address::{Address, of_definition, of_object, of_type};
use crate::page::answer::leads_to;
use crate::page::found::{by_text, escaped, may_read, number_in, some};
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::{moment, value};
use crate::page::saved::{SavedList, forget, keep, saved_lists};
use crate::page::texts::Texts;
use crate::page::view::{ObjectView, views};
use crate::page::visitor::{Form, Visitor};
use crate::page::{ADD, DELETE, EDIT, EDIT_TYPES, IMPORT};
use crate::query::{Filter, Sort};
use crate::service::objects::references::referring_to;
use crate::service::objects::{View, get_object, list_objects};
use crate::service::resource::Listed;
use crate::service::types::catalog::{TypeEntry, VIEW_TYPES};
use crate::service::{ErrorCode, ServiceError};

/// The list as REST has it, with pages that continue where the last one ended.
const LIST: ListRoute =
    ListRoute { views: &["native", "render"], objects: true, limit: 50, ..ListRoute::by("public_id") };

/// How many columns a list has, where its address names none.
const COLUMNS: usize = 12;

/// How many objects a text in the filter of a reference may stand for.
const MOST_TARGETS: u64 = 200;

/// The parameters that ask for something; all others are left out of addresses.
const ASKING: [&str; 5] = ["sort", "column", "filter", "refers", "after"];

/// The prefixes of the filters of fields.
const OF_FIELDS: [&str; 4] = ["has.", "is.", "from.", "to."];

/// What the address of a list asks for.
pub struct Question {
    /// The type.
    pub entry: Arc<TypeEntry>,
    /// The filter, in the language of REST.
    pub filter: Value,
    /// The order, as a sort document.
    pub sort: Value,
    /// The parameters that ask for something.
    asked: Vec<(String, String)>,
}

/// What a list shows: a page of objects, and the lists of the type that the visitor keeps.
struct Shown {
    found: Result<Found, ApiError>,
    saved: Vec<SavedList>,
}

/// A page of a list.
struct Found {
    views: Vec<ObjectView>,
    total: u64,
    next: Option<String>,
}

impl Question {
    /// Reads the type in the path, and the parameters.
    ///
    /// # Errors
    /// 404 for a type that the visitor may not read; errors of the store.
    pub async fn read(visitor: &Visitor, request: &HttpRequest) -> Result<Self, ApiError> {
        let id: i64 = request.match_info().get("id").and_then(|id| id.parse().ok()).unwrap_or_default();
        let entry = readable_type(visitor, id).await?;
        let query = &visitor.guest.query;
        let is_asking = |name: &str| ASKING.contains(&name) || OF_FIELDS.iter().any(|prefix| name.starts_with(prefix));
        let asked: Vec<(String, String)> =
            query.iter().filter(|(name, value)| is_asking(name) && !value.is_empty()).cloned().collect();
        let mut conditions = vec![json!({"type_id": id})];
        for (name, text) in &asked {
            conditions.extend(condition(visitor, &entry, name, text).await?);
        }
        let sort = sort_of(&entry, asked.iter().find(|(name, _)| name == "sort").map(|(_, sort)| sort.as_str()));
        Ok(Self { filter: json!({"$and": conditions}), sort, entry, asked })
    }

    /// The number of the type.
    pub fn type_id(&self) -> i64 {
        self.entry.object_type.public_id
    }

    fn get(&self, name: &str) -> &str {
        self.asked.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    fn address(&self) -> Address {
        Address::of(of_type(self.type_id()), &self.asked)
    }

    /// The same question from its beginning.
    fn beginning(&self) -> Address {
        self.address().without("after")
    }

    fn has_filters(&self) -> bool {
        self.asked.iter().any(|(name, _)| !["sort", "column", "after"].contains(&name.as_str()))
    }

    /// The fields that are columns.
    fn columns(&self) -> Vec<&Field> {
        let chosen: BTreeSet<&str> =
            self.asked.iter().filter(|(name, _)| name == "column").map(|(_, value)| value.as_str()).collect();
        let all = ordered(&self.entry);
        if chosen.is_empty() {
            return all.into_iter().filter(|field| !field.is_password()).take(COLUMNS).collect();
        }
        all.into_iter().filter(|field| chosen.contains(field.name.as_str())).collect()
    }

    /// The filter as the store takes it, within what the visitor may see.
    ///
    /// # Errors
    /// A filter that cannot be understood; errors of the store.
    pub async fn selected(&self, visitor: &Visitor) -> Result<Filter, ApiError> {
        Ok(self.params(visitor).await?.query.filter)
    }

    /// The names and values of the address that ask for something.
    pub fn asked(&self) -> &[(String, String)] {
        &self.asked
    }

    async fn params(&self, visitor: &Visitor) -> Result<ListParams, ApiError> {
        let sent = Parameters::of_pairs([
            ("filter".to_owned(), self.filter.to_string()),
            ("sort".to_owned(), self.sort.to_string()),
            ("view".to_owned(), "render".to_owned()),
            ("after".to_owned(), self.get("after").to_owned()),
        ]);
        let mut params = object_params(&visitor.guest.state, &visitor.caller, sent, &LIST).await?;
        if let Some(id) = number_in(self.get("refers")) {
            params.query.filter = params.query.filter.and(referring(visitor, id).await?);
        }
        Ok(params)
    }

    async fn run(&self, visitor: &Visitor) -> Result<Found, ApiError> {
        let (services, params) = (visitor.services(), self.params(visitor).await?);
        let before = services.current_types().await?;
        match list_objects(services, &visitor.caller, params.query.clone(), View::Rendered).await? {
            Listed::Keyed(page, continued) => {
                let next = cursors::continued(services, &params, &continued)?.next;
                let views = views(services, &visitor.caller, (&page.documents, before)).await?;
                Ok(Found { views, total: params.before + page.total, next })
            }
            _ => Err(ApiError::of(ErrorCode::Internal)),
        }
    }
}

/// The type with this id, if the visitor may read its objects.
///
/// # Errors
/// 404 for no such type; errors of the store.
pub async fn readable_type(visitor: &Visitor, id: i64) -> Result<Arc<TypeEntry>, ApiError> {
    let entry = visitor.services().type_with_id(id).await?;
    let entry = entry.filter(|entry| may_read(visitor, &entry.object_type));
    entry.ok_or_else(|| ApiError::of(ErrorCode::TypeNotFound))
}

/// The condition for objects that refer to this one.
async fn referring(visitor: &Visitor, id: i64) -> Result<Filter, ApiError> {
    let object = get_object(visitor.services(), &visitor.caller, id).await?;
    Ok(referring_to(visitor.services(), std::iter::once(&*object)).await?)
}

/// The fields in the order of the object's page: those of its name first.
fn ordered(entry: &TypeEntry) -> Vec<&Field> {
    let object_type = &entry.object_type;
    let (summary, shown) = (&object_type.layout.summary, &object_type.layout.shown);
    let mut seen = BTreeSet::new();
    let places = summary.iter().chain(shown).copied().filter(|place| seen.insert(*place));
    places.map(|place| &object_type.fields[place]).collect()
}

/// The order as a sort document: `name` or `-name` of a field, `#` for the number.
fn sort_of(entry: &TypeEntry, asked: Option<&str>) -> Value {
    let asked = asked.unwrap_or("#");
    let (name, direction) = asked.strip_prefix('-').map_or((asked, 1), |name| (name, -1));
    let path = match entry.object_type.field(name) {
        Some(_) => format!("f.{name}"),
        None => "public_id".to_owned(),
    };
    Value::Object(Map::from_iter([(path, Value::from(direction))]))
}

/// The condition of one parameter; nothing for one that is no filter.
async fn condition(visitor: &Visitor, entry: &TypeEntry, name: &str, text: &str) -> Result<Option<Value>, ApiError> {
    if name == "filter" {
        let read = serde_json::from_str(text);
        return read.map(Some).map_err(|error| ApiError::parameter("filter", error.to_string()));
    }
    if name == "is.active" && entry.object_type.field("active").is_none() {
        return Ok(Some(json!({"active": text == "yes"})));
    }
    let Some((way, field)) = name.split_once('.') else { return Ok(None) };
    let Some(field) = entry.object_type.field(field).filter(|field| !field.is_password()) else { return Ok(None) };
    let path = format!("f.{}", field.name);
    let compared = |operator: &str, value: Value| Some(json!({path.clone(): {operator: value}}));
    Ok(match (way, ValueKind::of(field)) {
        ("has", ValueKind::Reference | ValueKind::References) => {
            compared("$in", targets(visitor, &entry.object_type, field, text).await?)
        }
        ("has", _) => Some(json!({path: {"$regex": escaped(text), "$options": "i"}})),
        ("is", ValueKind::Checkbox) if text == "yes" => compared("$eq", Value::Bool(true)),
        ("is", ValueKind::Checkbox) => compared("$ne", Value::Bool(true)),
        ("is", _) => compared("$eq", text.into()),
        ("from", ValueKind::Number) => compared("$gte", number(field, text)?),
        ("to", ValueKind::Number) => compared("$lte", number(field, text)?),
        ("from", ValueKind::Date) => compared("$gte", day(field, text, 0)?),
        // The whole last day.
        ("to", ValueKind::Date) => compared("$lt", day(field, text, 1)?),
        _ => None,
    })
}

/// The numbers of the objects that a text in the filter of a reference stands for.
async fn targets(
    visitor: &Visitor,
    object_type: &crate::domain::object_type::ObjectType,
    field: &Field,
    text: &str,
) -> Result<Value, ApiError> {
    let of_types: Vec<i64> = object_type.targets(field).collect();
    let (found, _) = by_text(visitor, text, &of_types, MOST_TARGETS).await?;
    let wanted = text.trim().to_lowercase();
    let by_name = found.iter().filter(|named| named.line.to_lowercase().contains(&wanted)).map(|named| named.id);
    Ok(number_in(text).into_iter().chain(by_name).collect::<Vec<i64>>().into())
}

fn number(field: &Field, text: &str) -> Result<Value, ApiError> {
    let parsed = serde_json::from_str(text.trim()).ok().filter(Value::is_number);
    parsed.ok_or_else(|| ApiError::parameter(&field.label, format!("{} is no number", value::clipped(text))))
}

fn day(field: &Field, text: &str, further: i64) -> Result<Value, ApiError> {
    let day = parse_date(text).ok_or_else(|| ApiError::parameter(&field.label, "must be a day, as 2026-01-31"))?;
    Ok(moment::in_filter(day.timestamp_millis() + further * moment::DAY))
}

/// Shows the list of a type.
///
/// # Errors
/// 404 for a type that the visitor may not read; errors of the store.
pub async fn show(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    // Browsers send empty controls too; the address is to be short.
    if visitor.guest.query.iter().any(|(_, value)| value.is_empty()) {
        let kept: Vec<(String, String)> =
            visitor.guest.query.iter().filter(|(_, value)| !value.is_empty()).cloned().collect();
        return Ok(leads_to(&Address::of(request.path(), &kept).text()));
    }
    let (question, refused) = match Question::read(&visitor, &request).await {
        Ok(question) => (question, None),
        Err(error) if error.status() == StatusCode::BAD_REQUEST => {
            // The question as it would be without its filters, to correct them.
            let id: i64 = request.match_info().get("id").and_then(|id| id.parse().ok()).unwrap_or_default();
            let entry = readable_type(&visitor, id).await?;
            let asked = visitor.guest.query.clone();
            (Question { entry, filter: Value::Null, sort: Value::Null, asked }, Some(error))
        }
        Err(error) => return Err(error),
    };
    let found = match refused {
        Some(error) => Err(error),
        None => question.run(&visitor).await,
    };
    let found = match found {
        Err(error) if error.status() != StatusCode::BAD_REQUEST => return Err(error),
        found => found,
    };
    let status = found.as_ref().map_or_else(ApiError::status, |_| StatusCode::OK);
    let mut saved = saved_lists(&visitor).await?;
    saved.retain(|list| list.type_id == question.type_id());
    let main = main(&visitor, &question, &Shown { found, saved });
    page(&visitor, status, Content::new(&question.entry.object_type.label, main).about(question.type_id())).await
}

/// Keeps or forgets a list of the visitor, and shows it.
///
/// # Errors
/// 404 for a type that the visitor may not read; as a change of a setting over REST.
pub async fn save(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let visitor = &form.visitor;
    let id: i64 = request.match_info().get("id").and_then(|id| id.parse().ok()).unwrap_or_default();
    let type_id = readable_type(visitor, id).await?.object_type.public_id;
    let text = |name| form.get(name).unwrap_or_default().trim().to_owned();
    let list = SavedList { name: text("name"), type_id, query: text("query") };
    if form.get("do") == Some("forget") {
        forget(visitor, type_id, &list.name).await?;
        return Ok(leads_to(&of_type(type_id)));
    }
    let address = list.address();
    keep(visitor, list).await?;
    Ok(leads_to(&address))
}

fn main(visitor: &Visitor, question: &Question, Shown { found, saved }: &Shown) -> Markup {
    let texts = visitor.texts();
    let object_type = &question.entry.object_type;
    let columns = question.columns();
    let may_add = object_type.active && visitor.may(ADD);
    html! {
        (deleted(visitor))
        @if let Some(count) = visitor.guest.asked("done").and_then(|count| count.parse::<u64>().ok()) {
            @let key = if visitor.guest.asked("gone").is_some() { "several-gone" } else { "several-done" };
            p.notice role="status" { (texts.with(key, &[("count", count.into())])) }
        }
        div.title {
            h1 { bdi { (object_type.label) } }
            p.actions {
                @if may_add { a.button href={ (of_type(question.type_id())) "/new" } { (texts.say("new")) } }
                @if object_type.active && visitor.may(IMPORT) && (visitor.may(ADD) || visitor.may(EDIT)) { a.button.quiet href={ (of_type(question.type_id())) "/import" } { (texts.say("import")) } }
                @if visitor.may(EDIT_TYPES) && visitor.may(VIEW_TYPES) { a.button.quiet href=(of_definition(question.type_id())) { (texts.say("definition")) } }
            }
        }
        @if let Some(text) = object_type.description.as_deref().filter(|text| !text.is_empty()) {
            p.note { bdi { (text) } }
        }
        @if !object_type.active { p.note { (texts.say("inactive-type")) } }
        form #filters method="get" action=(of_type(question.type_id())) {
            @for (name, value) in &question.asked {
                @if name == "sort" || name == "refers" { input type="hidden" name=(name) value=(value); }
            }
        }
        @match found {
            Err(error) => p.error role="alert" lang="en" { bdi { (error.message()) } },
            Ok(found) => div.tools {
                p role="status" { (texts.with("found", &[("count", found.total.into())])) }
                (exports(visitor, question))
            },
        }
        (more(visitor, question, &columns, saved))
        (table(visitor, question, &columns, found.as_ref().map_or(&[], |found| &found.views)))
        @if let Ok(found) = found { (several(visitor, question, found)) }
        @if let Ok(found) = found { (pages(texts, question, found)) }
    }
}

/// That an object was deleted a moment ago, with the way back.
fn deleted(visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let id = visitor.guest.asked("deleted").and_then(|id| id.parse::<i64>().ok());
    html! {
        @if let Some(id) = id {
            form.notice method="post" action={ (of_object(id)) "/restore" } {
                (token(visitor))
                span role="status" { (texts.with("deleted-now", &[("id", (&id.to_string()).into())])) }
                @if visitor.may(ADD) { button { (texts.say("undo")) } }
            }
        }
    }
}

fn exports(visitor: &Visitor, question: &Question) -> Markup {
    let texts = visitor.texts();
    let may_export = visitor.may("base.export.object.*") && question.get("refers").is_empty();
    html! {
        @if may_export {
            p.exports {
                (texts.say("export-as")) " "
                @for (format, key) in [("csv", "export-csv"), ("xlsx", "export-xlsx")] {
                    @let path = format!("/ui/export/{}/{format}", question.type_id());
                    a href=(Address::of(path, &question.asked).without("after").without("column").text()) { (texts.say(key)) } " "
                }
            }
        }
    }
}

/// The lists that the visitor keeps, and the form to keep this one.
fn kept(visitor: &Visitor, question: &Question, saved: &[SavedList]) -> Markup {
    let (texts, action) = (visitor.texts(), format!("{}/saved", of_type(question.type_id())));
    let query = question.beginning().query();
    html! {
        details {
            summary { (texts.say("saved")) @if !saved.is_empty() { " " span.count { (saved.len()) } } }
            ul.plain {
                @for list in saved {
                    li {
                        form.actions method="post" action=(action) {
                            (token(visitor))
                            input type="hidden" name="name" value=(list.name);
                            a href=(list.address()) { bdi { (list.name) } }
                            button.quiet name="do" value="forget" aria-label=(texts.with("saved-forget", &[("name", (&list.name).into())])) { "×" }
                        }
                    }
                }
            }
            form.choices method="post" action=(action) {
                (token(visitor))
                input type="hidden" name="query" value=(query);
                label { (texts.say("saved-name")) " " input name="name" maxlength="100" required autocomplete="off"; }
                button { (texts.say("saved-keep")) }
            }
        }
    }
}

/// The written filter, the choice of columns, and the lists that are kept.
fn more(visitor: &Visitor, question: &Question, columns: &[&Field], saved: &[SavedList]) -> Markup {
    let texts = visitor.texts();
    let written = question.get("filter");
    html! {
        div.more {
            details open[!written.is_empty()] {
                summary { (texts.say("filter-written")) }
                label.unseen for="written" { (texts.say("filter-written")) }
                textarea #written form="filters" name="filter" rows="2" spellcheck="false" aria-describedby="written-hint" { "\n" (written) }
                p.hint #written-hint { (texts.say("filter-written-hint")) }
                button form="filters" { (texts.say("filter")) }
            }
            details {
                summary { (texts.say("columns")) }
                div.choices {
                    @for (index, field) in ordered(&question.entry).iter().enumerate() {
                        @let is_shown = columns.iter().any(|column| column.name == field.name);
                        // Boxes are sent only where the address or the visitor chose.
                        div.choice {
                            input id={ "column-" (index) } type="checkbox" form="columns" name="column" value=(field.name) checked[is_shown];
                            label for={ "column-" (index) } { bdi { (field.title()) } }
                        }
                    }
                }
                form #columns method="get" action=(of_type(question.type_id())) {
                    @for (name, value) in question.asked.iter().filter(|(name, _)| name != "column" && name != "after") {
                        input type="hidden" name=(name) value=(value);
                    }
                    button { (texts.say("columns-show")) }
                }
            }
            (kept(visitor, question, saved))
        }
        @for (name, value) in question.asked.iter().filter(|(name, _)| name == "column") {
            input type="hidden" form="filters" name=(name) value=(value);
        }
    }
}

/// Whether the visitor may change or delete several objects of the list at a time.
fn may_choose(visitor: &Visitor, question: &Question) -> bool {
    question.entry.object_type.active && (visitor.may(EDIT) || visitor.may(DELETE))
}

/// The ways to change the objects that are ticked, or all that were found.
fn several(visitor: &Visitor, question: &Question, found: &Found) -> Markup {
    let texts = visitor.texts();
    html! {
        @if may_choose(visitor, question) && !found.views.is_empty() {
            form #several .actions method="get" action={ (of_type(question.type_id())) "/several" } {
                @for (name, value) in question.asked.iter().filter(|(name, _)| name != "after") {
                    input type="hidden" name=(name) value=(value);
                }
                button { (texts.say("several-ticked")) }
                button name="all" value="yes" { (texts.with("several-all", &[("count", found.total.into())])) }
            }
        }
    }
}

fn table(visitor: &Visitor, question: &Question, columns: &[&Field], rows: &[ObjectView]) -> Markup {
    let (texts, is_choice) = (visitor.texts(), may_choose(visitor, question));
    html! {
        div.wide tabindex="0" role="region" aria-label=(question.entry.object_type.label) {
            table.list {
                thead {
                    tr {
                        (heading(texts, question, "#", &texts.say("number")))
                        @for field in columns { (heading(texts, question, &field.name, field.title())) }
                        th scope="col" { (texts.say("active")) }
                    }
                    tr.filters {
                        td { button form="filters" { (texts.say("filter")) } }
                        @for field in columns { td { (filter(texts, question, field)) } }
                        td { (choice(texts, question, "is.active", &texts.say("active"))) }
                    }
                }
                tbody { @for row in rows { (line(texts, columns, row, is_choice)) } }
            }
        }
    }
}

/// A heading that sorts, and says how the list is sorted.
fn heading(texts: Texts, question: &Question, name: &str, label: &str) -> Markup {
    let sorted = match question.get("sort") {
        "" => "#",
        sorted => sorted,
    };
    let is_down = sorted.strip_prefix('-') == Some(name);
    let is_up = sorted == name;
    let next = if is_up { format!("-{name}") } else { name.to_owned() };
    let direction = if is_up { Some("ascending") } else { is_down.then_some("descending") };
    html! {
        th scope="col" aria-sort=[direction] {
            a href=(question.beginning().with("sort", next).text()) title=(texts.with("sort-by", &[("label", label.into())])) {
                bdi { (label) }
                @if is_up { span.arrow title=(texts.say("sort-up")) aria-hidden="true" { " ▲" } }
                @if is_down { span.arrow title=(texts.say("sort-down")) aria-hidden="true" { " ▼" } }
            }
        }
    }
}

/// The filter under a heading, in the form of the field's kind.
fn filter(texts: Texts, question: &Question, field: &Field) -> Markup {
    let label = field.title();
    let named = |key: &str| texts.with(key, &[("label", label.into())]);
    if field.is_password() {
        return html! {};
    }
    match ValueKind::of(field) {
        ValueKind::Checkbox => choice(texts, question, &format!("is.{}", field.name), label),
        ValueKind::Number => between(texts, question, field, ("text", "decimal")),
        ValueKind::Date => between(texts, question, field, ("date", "none")),
        _ if field.has_choice() => {
            let name = format!("is.{}", field.name);
            html! {
                select form="filters" name=(name) aria-label=(named("filter-is")) {
                    option value="" { (texts.say("any")) }
                    @for option in &field.options {
                        option value=(option.name) selected[question.get(&name) == option.name] {
                            (if option.label.is_empty() { &option.name } else { &option.label })
                        }
                    }
                }
            }
        }
        kind => {
            let name = format!("has.{}", field.name);
            let is_reference = matches!(kind, ValueKind::Reference | ValueKind::References);
            let key = if is_reference { "filter-refers" } else { "filter-contains" };
            html! { input form="filters" name=(name) value=(question.get(&name)) aria-label=(named(key)) autocomplete="off"; }
        }
    }
}

fn between(texts: Texts, question: &Question, field: &Field, (kind, mode): (&str, &str)) -> Markup {
    html! {
        span.between {
            @for (way, key) in [("from", "filter-from"), ("to", "filter-to")] {
                @let name = format!("{way}.{}", field.name);
                input form="filters" type=(kind) inputmode=[(mode != "none").then_some(mode)] name=(name) value=(question.get(&name))
                    placeholder=(texts.say(way)) aria-label=(texts.with(key, &[("label", field.title().into())])) autocomplete="off";
            }
        }
    }
}

fn choice(texts: Texts, question: &Question, name: &str, label: &str) -> Markup {
    html! {
        select form="filters" name=(name) aria-label=(texts.with("filter-is", &[("label", label.into())])) {
            option value="" { (texts.say("any")) }
            @for value in ["yes", "no"] {
                option value=(value) selected[question.get(name) == value] { (texts.say(value)) }
            }
        }
    }
}

/// An object as a row. The first cell with a text leads to its page, as the number does.
fn line(texts: Texts, columns: &[&Field], view: &ObjectView, is_choice: bool) -> Markup {
    let id = view.object_information.object_id.unwrap_or_default();
    let fields = &view.type_information.fields;
    html! {
        tr.off[!view.object_information.active] {
            th scope="row" {
                @if is_choice {
                    input type="checkbox" form="several" name="id" value=(id) aria-label=(texts.with("choose", &[("id", (&id.to_string()).into())]));
                    " "
                }
                a href=(of_object(id)) { (id) }
            }
            @for (index, column) in columns.iter().enumerate() {
                @let field = fields.iter().find(|field| field.name == column.name);
                td.number[ValueKind::of(column) == ValueKind::Number] {
                    @if let Some(field) = field {
                        @if index == 0 && field.reference.is_none() && field.references.is_empty() {
                            a href=(of_object(id)) { (value::cell(texts, field)) }
                        } @else {
                            (value::cell(texts, field))
                        }
                    }
                }
            }
            td { (texts.say(if view.object_information.active { "yes" } else { "no" })) }
        }
    }
}

fn pages(texts: Texts, question: &Question, found: &Found) -> Markup {
    html! {
        nav.pages {
            @if !question.get("after").is_empty() {
                a href=(question.beginning().text()) { (texts.say("first-page")) } " "
            }
            @if let Some(next) = &found.next {
                a href=(question.address().with("after", next).text()) rel="next" { (texts.say("next-page")) } " "
            }
            @if question.has_filters() {
                a href=(Address::of(of_type(question.type_id()), &[]).text()) { (texts.say("filter-clear")) }
            }
        }
    }
}

/// How many objects of a type refer to an object, and the first of them.
///
/// # Errors
/// Errors of the store.
pub async fn referring_of_type(
    visitor: &Visitor,
    referring: &Filter,
    type_id: i64,
    most: u64,
) -> Result<(crate::store::Documents, u64), ApiError> {
    let filter = Filter::equals("type_id", Bson::Int64(type_id)).and(referring.clone());
    some(visitor, filter, Sort::by("public_id", false), most).await
}

/// The types whose objects may refer to objects of this type, as far as the visitor may read them.
///
/// # Errors
/// Errors of the store.
pub async fn referring_types(
    visitor: &Visitor,
    object: &bson::RawDocument,
) -> Result<Vec<Arc<TypeEntry>>, ServiceError> {
    let types = visitor.services().current_types().await?;
    let referring = types.referring_to(integer(object, "type_id").unwrap_or_default());
    Ok(referring.filter(|entry| may_read(visitor, &entry.object_type)).cloned().collect())
}
