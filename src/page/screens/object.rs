//! An object: its values, what refers to it, who changed it, and what it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use bson::{Bson, RawDocument};
use maud::{Markup, html};

use super::list::{referring_of_type, referring_types};
use crate::domain::document::integer;
use crate::domain::object_input::read_fields;
use crate::http::error::ApiError;
use crate::page::address::{Address, of_object, of_type};
use crate::page::answer::leads_to;
use crate::page::found::{Named, named};
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::{moment, story, value};
use crate::page::view::{FieldView, ObjectView, read};
use crate::page::visitor::{Form, Visitor};
use crate::query::{Filter, Sort};
use crate::service::history::as_of::AccessLists;
use crate::service::history::entries::history_of;
use crate::service::history::moments::{as_of_read, moment as read_moment};
use crate::service::history::revert::{Revert, revert_object};
use crate::service::objects::references::referring_to;
use crate::service::objects::{get_object, rendering};
use crate::service::precondition::IfMatch;
use crate::service::resource::{Objects, decode};
use crate::service::{ErrorCode, ListQuery, Services};

/// How many entries of the history are shown at first, and at most.
const ENTRIES: u64 = 10;
const ALL_ENTRIES: u64 = 500;

/// How many objects of a type are named that refer to the object.
const REFERRING: u64 = 10;

/// The objects of a type that refer to the object.
struct Referring {
    type_id: i64,
    label: String,
    count: u64,
    first: Vec<Named>,
}

/// The number in the path.
///
/// # Errors
/// 404 for anything else.
pub fn id_of(request: &HttpRequest) -> Result<i64, ApiError> {
    let id = request.match_info().get("id").and_then(|id| id.parse().ok()).filter(|id: &i64| *id > 0);
    id.ok_or_else(|| ApiError::of(ErrorCode::ObjectNotFound))
}

/// Shows an object, as it is or as it was.
///
/// # Errors
/// 404 for an object that the visitor may not read; errors of the store.
pub async fn show(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (id, caller) = (id_of(&request)?, Arc::clone(&visitor.caller));
    let at = visitor.guest.asked("at").map(str::to_owned);
    let past = match &at {
        None => None,
        Some(at) => {
            let moment = read_moment(visitor.services(), "at", at).await?;
            Some(as_of_read::<Objects>(visitor.services(), (&caller, id), moment, AccessLists::OfToday).await?)
        }
    };
    let services: &Services = past.as_ref().unwrap_or_else(|| visitor.services());
    let (view, _) = rendering::render_one(services, &caller, id).await?;
    let view = read(&view)?;
    let present = get_object(visitor.services(), &caller, id).await;
    let (referring, present) = match past {
        None => {
            let object = present?;
            (referring(&visitor, &object).await?, Some(object))
        }
        // Lists of the past are those of REST. The object may be gone.
        Some(_) => (Vec::new(), present.ok()),
    };
    let entries = entries(&visitor, id, present.as_deref()).await?;
    let main = main(&visitor, &view, at.as_deref(), &referring, &entries);
    let title = name_of(&view);
    page(&visitor, StatusCode::OK, Content::new(title, main).about(view.type_information.type_id)).await
}

/// What an object is called.
fn name_of(view: &ObjectView) -> String {
    let line = &view.type_information.summary_line;
    let id = view.object_information.object_id.unwrap_or_default();
    if line.is_empty() { format!("#{id}") } else { value::clipped(line) }
}

async fn referring(visitor: &Visitor, object: &RawDocument) -> Result<Vec<Referring>, ApiError> {
    let filter = referring_to(visitor.services(), std::iter::once(object)).await?;
    let known = visitor.services().current_types().await?;
    let mut all = Vec::new();
    for entry in referring_types(visitor, object).await? {
        let type_id = entry.object_type.public_id;
        let (first, count) = referring_of_type(visitor, &filter, type_id, REFERRING).await?;
        if count > 0 {
            let first = first.iter().map(|object| named(visitor, &known, object)).collect();
            all.push(Referring { type_id, label: entry.object_type.label.clone(), count, first });
        }
    }
    Ok(all)
}

/// How many objects that the visitor may read refer to an object.
///
/// # Errors
/// Errors of the store.
pub async fn count_referring(visitor: &Visitor, object: &RawDocument) -> Result<u64, ApiError> {
    let own = integer(object, "public_id").unwrap_or_default();
    let filter = referring_to(visitor.services(), std::iter::once(object)).await?;
    let others = filter.and(Filter::none_of("public_id", [own]));
    Ok(crate::page::found::some(visitor, others, Sort::by("public_id", false), 1).await?.1)
}

/// The newest entries of the history, as sentences.
async fn entries(visitor: &Visitor, id: i64, present: Option<&RawDocument>) -> Result<Vec<story::Entry>, ApiError> {
    let limit = if visitor.guest.asked("history") == Some("all") { ALL_ENTRIES } else { ENTRIES };
    let query = ListQuery::first(Filter::all(), Sort::by("sequence", true), limit);
    let listed = history_of::<Objects>(visitor.services(), &visitor.caller, id, query).await?;
    let entries = listed.into_page().unwrap_or_default().documents;
    let type_id = present.or(entries.first()).and_then(|document| integer(document, "type_id"));
    let entry = match type_id {
        Some(type_id) => visitor.services().type_with_id(type_id).await?,
        None => None,
    };
    let values: BTreeMap<String, Bson> = match present {
        Some(object) => {
            let fields = read_fields(decode(object)?.get("fields"));
            fields.into_iter().map(|field| (field.name, field.value)).collect()
        }
        None => BTreeMap::new(),
    };
    story::of_object(visitor, entry.as_ref().map(|entry| &*entry.object_type), &entries, values).await
}

fn main(
    visitor: &Visitor,
    view: &ObjectView,
    at: Option<&str>,
    referring: &[Referring],
    entries: &[story::Entry],
) -> Markup {
    let texts = visitor.texts();
    let information = &view.object_information;
    let id = information.object_id.unwrap_or_default();
    html! {
        (notice(visitor))
        div.title {
            div {
                p.above { a href=(of_type(view.type_information.type_id)) { bdi { (view.type_information.type_label) } } " · #" (id) }
                h1 { bdi { (name_of(view)) } }
            }
            @if at.is_none() { (actions(visitor, view, id)) }
        }
        @if let Some(at) = at { (past(visitor, id, at, entries)) }
        @if !information.active { p.badge { (texts.say("inactive")) } }
        (sections(visitor, view, at))
        @if !view.type_information.externals.is_empty() {
            section {
                h2 { (texts.say("links")) }
                ul { @for link in &view.type_information.externals {
                    li { a href=(link.href) rel="noopener noreferrer" { bdi { (link.label) } } }
                } }
            }
        }
        @if at.is_none() { (refers(visitor, id, referring)) }
        (about(visitor, view))
        (history(visitor, id, at, entries))
    }
}

/// What was done a moment ago.
fn notice(visitor: &Visitor) -> Markup {
    let texts = visitor.texts();
    let key = match visitor.guest.asked("done") {
        Some("saved") => "changed-now",
        Some("created") => "created-now",
        Some("restored") => "restored-now",
        _ => return html! {},
    };
    html! { p.notice role="status" { (texts.say(key)) } }
}

fn actions(visitor: &Visitor, view: &ObjectView, id: i64) -> Markup {
    let texts = visitor.texts();
    let is_open = view.type_information.active;
    html! {
        p.actions {
            @if is_open && visitor.may("base.framework.object.edit") {
                a.button href={ (of_object(id)) "/edit" } { (texts.say("edit")) }
            }
            a.button.quiet href={ (of_object(id)) "/graph" } { (texts.say("graph")) }
            @if is_open && visitor.may("base.framework.object.delete") {
                a.button.quiet href={ (of_object(id)) "/delete" } { (texts.say("delete")) }
            }
        }
    }
}

/// Says that the page shows an earlier moment, with links back to the present.
fn past(visitor: &Visitor, id: i64, at: &str, entries: &[story::Entry]) -> Markup {
    let texts = visitor.texts();
    let time = entries.iter().find(|entry| entry.sequence.to_string() == at).and_then(|entry| entry.time);
    let when = time.map_or_else(|| at.to_owned(), moment::stamp);
    html! {
        div.notice {
            p role="status" { (texts.with("past", &[("when", (&when).into())])) }
            p { a href=(of_object(id)) { (texts.say("past-present")) } }
            @if visitor.may("base.framework.object.edit") {
                form method="post" action={ (of_object(id)) "/revert" } {
                    (token(visitor))
                    input type="hidden" name="to" value=(at);
                    button { (texts.say("past-back")) }
                }
            }
        }
    }
}

/// The values, section by section. What is in no section comes last.
fn sections(visitor: &Visitor, view: &ObjectView, at: Option<&str>) -> Markup {
    let information = &view.type_information;
    let placed: BTreeSet<&str> =
        information.sections.iter().flat_map(|section| section.fields.iter().map(String::as_str)).collect();
    let field = |name: &String| information.fields.iter().find(|field| field.name == *name);
    let rest: Vec<&FieldView> =
        information.fields.iter().filter(|field| !placed.contains(field.name.as_str())).collect();
    html! {
        @for section in &information.sections {
            @let fields: Vec<&FieldView> = section.fields.iter().filter_map(field).collect();
            @if !fields.is_empty() {
                section {
                    h2 { bdi { (section.label) } }
                    (list(visitor, &fields, at))
                }
            }
        }
        @if !rest.is_empty() { section { (list(visitor, &rest, at)) } }
    }
}

fn list(visitor: &Visitor, fields: &[&FieldView], at: Option<&str>) -> Markup {
    html! {
        dl.values {
            @for field in fields {
                div {
                    dt { bdi { (if field.label.is_empty() { &field.name } else { &field.label }) } }
                    dd { (value::whole(visitor.texts(), field, at)) }
                }
            }
        }
    }
}

fn refers(visitor: &Visitor, id: i64, referring: &[Referring]) -> Markup {
    let texts = visitor.texts();
    html! {
        section #refers {
            h2 { (texts.say("refers-here")) }
            @if referring.is_empty() { p.note { (texts.say("refers-none")) } }
            @for group in referring {
                h3 { bdi { (group.label) } " " span.count { (group.count) } }
                ul.line {
                    @for named in &group.first { li { a href=(of_object(named.id)) { bdi { (value::clipped(&named.line)) } } } }
                    @if group.count > group.first.len() as u64 {
                        li {
                            a href=(Address::new(of_type(group.type_id)).and("refers", id).text()) {
                                (texts.with("refers-all", &[("count", group.count.into())]))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn about(visitor: &Visitor, view: &ObjectView) -> Markup {
    let texts = visitor.texts();
    let information = &view.object_information;
    let done = |label: &str, time: &serde_json::Value, who: Option<&str>| {
        let time = moment::in_json(time);
        html! {
            @if let Some(time) = time {
                div {
                    dt { (texts.say(label)) }
                    dd {
                        time datetime=(time.to_rfc3339()) { (moment::stamp(time)) }
                        @if let Some(who) = who { " " (texts.with("by", &[("who", who.into())])) }
                    }
                }
            }
        }
    };
    html! {
        section #about {
            h2 { (texts.say("about")) }
            dl.values {
                (done("created-at", &information.creation_time, Some(&information.author_name)))
                (done("edited-at", &information.last_edit_time, information.editor_name.as_deref()))
                div { dt { (texts.say("version")) } dd { (information.version) } }
            }
        }
    }
}

fn history(visitor: &Visitor, id: i64, at: Option<&str>, entries: &[story::Entry]) -> Markup {
    let texts = visitor.texts();
    let address = Address::new(of_object(id));
    html! {
        section #history {
            h2 { (texts.say("history")) }
            @if entries.is_empty() { p.note { (texts.say("history-none")) } }
            (story::shown(texts, &address, entries))
            @if entries.len() as u64 == ENTRIES {
                p { a href={ (address.clone().and("history", "all").text()) "#history" } { (texts.say("history-all")) } }
            }
            form.moment method="get" action=(of_object(id)) {
                label for="at" { (texts.say("moment")) }
                input #at name="at" value=[at] aria-describedby="at-hint" autocomplete="off";
                button { (texts.say("moment-go")) }
                p.hint #at-hint { (texts.say("moment-hint")) }
            }
        }
    }
}

/// Brings an object back to what it was.
///
/// # Errors
/// As a revert over REST.
pub async fn revert(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (id, visitor) = (id_of(&request)?, &form.visitor);
    let to = read_moment(visitor.services(), "to", form.get("to").unwrap_or_default()).await?;
    let revert = Revert { to, dry_run: false, if_match: &IfMatch::Any };
    revert_object(visitor.services(), &visitor.caller, id, revert).await?;
    Ok(leads_to(&Address::new(of_object(id)).and("done", "saved").text()))
}
