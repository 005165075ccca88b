//! The changes of all or some objects, by all users or one. Deleted objects are listed too, and can be restored.

use std::collections::BTreeSet;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use bson::{DateTime, Document, doc};
use maud::{Markup, html};

use crate::domain::object_fields::parse_date;
use crate::http::error::ApiError;
use crate::page::address::{Address, of_object};
use crate::page::found::{by_numbers, number_in};
use crate::page::parts::control::type_choice;
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::value::clipped;
use crate::page::parts::{moment, story};
use crate::page::visitor::Visitor;
use crate::query::{Filter, Limits, Sort};
use crate::service::ListQuery;
use crate::service::history::entries::list_entries;
use crate::service::resource::decode;
use crate::service::types::catalog::Types;

/// How many entries a page has.
const ENTRIES: u64 = 50;

/// What is asked for: deletions, days, a type, a person.
const ASKING: [&str; 5] = ["action", "from", "to", "type", "who"];

/// The conditions of the address. `before` is the sequence where the page begins.
fn condition(visitor: &Visitor) -> Result<Document, ApiError> {
    let asked = |name| visitor.guest.asked(name);
    let mut condition = doc! { "resource": "objects" };
    if asked("action") == Some("DELETE") {
        condition.insert("action", "DELETE");
    }
    if let Some(before) = asked("before").and_then(number_in) {
        condition.insert("sequence", doc! { "$lt": before });
    }
    if let Some(id) = asked("type").and_then(number_in) {
        condition.insert("type_id", id);
    }
    if let Some(who) = asked("who") {
        condition.insert("user_name", who.trim());
    }
    let mut span = Document::new();
    for (name, operator, further) in [("from", "$gte", 0), ("to", "$lt", 1)] {
        let Some(text) = asked(name) else { continue };
        let day = parse_date(text).ok_or_else(|| ApiError::parameter(name, "must be a day, as 2026-01-31"))?;
        // The whole last day.
        span.insert(operator, DateTime::from_millis(day.timestamp_millis() + further * moment::DAY));
    }
    if !span.is_empty() {
        condition.insert("time", span);
    }
    Ok(condition)
}

/// Shows the newest entries.
///
/// # Errors
/// A text that is not a day; errors of the store.
pub async fn show(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let is_deleted = visitor.guest.asked("action") == Some("DELETE");
    let filter = Filter::parse(&condition(&visitor)?, &Limits::NONE)?;
    let query = ListQuery::first(filter, Sort::by("sequence", true), ENTRIES);
    let listed = list_entries(visitor.services(), &visitor.caller, query).await?;
    let found = listed.into_page().unwrap_or_default().documents;
    let mut entries = Vec::new();
    for entry in found.iter() {
        entries.push(story::plain(texts, &decode(entry)?));
    }
    let ids: BTreeSet<i64> = entries.iter().map(|entry| entry.object_id).collect();
    let names = by_numbers(&visitor, &ids).await?;
    let title = texts.say(if is_deleted { "deleted-objects" } else { "changes" });
    let known = visitor.services().current_types().await?;
    let main = html! {
        h1 { (title) }
        (controls(&visitor, &known))
        @if entries.is_empty() { p { (texts.say(if is_deleted { "deleted-none" } else { "changes-none" })) } }
        ol.story {
            @for entry in &entries {
                @let named = names.get(&entry.object_id);
                li {
                    p {
                        @if let Some(time) = entry.time { time datetime=(time.to_rfc3339()) { (moment::stamp(time)) } " " }
                        @match named {
                            Some(named) => a href=(of_object(named.id)) { bdi { (clipped(&named.line)) } },
                            None => span { (texts.with("object-number", &[("id", (&entry.object_id.to_string()).into())])) },
                        }
                        ": " (entry.what)
                    }
                    @if is_deleted && named.is_none() { (restore(&visitor, entry.object_id)) }
                }
            }
        }
        @if entries.len() as u64 == ENTRIES { (further(&visitor, &entries)) }
    };
    page(&visitor, StatusCode::OK, Content::new(title, main)).await
}

fn restore(visitor: &Visitor, id: i64) -> Markup {
    html! {
        @if visitor.may("base.framework.object.add") {
            form method="post" action={ (of_object(id)) "/restore" } {
                (token(visitor))
                button.quiet { (visitor.texts().say("restore")) }
            }
        }
    }
}

fn controls(visitor: &Visitor, types: &Types) -> Markup {
    let (texts, asked) = (visitor.texts(), |name| visitor.guest.asked(name));
    html! {
        form.choices method="get" action="/ui/changes/" {
            @if let Some(action) = asked("action") { input type="hidden" name="action" value=(action); }
            @for name in ["from", "to"] {
                label { (texts.say(name)) " " input type="date" name=(name) value=[asked(name)]; }
            }
            (type_choice(visitor, types, asked("type").and_then(number_in)))
            label { (texts.say("changes-who")) " " input name="who" value=[asked("who")] autocomplete="off"; }
            button { (texts.say("show")) }
        }
    }
}

fn further(visitor: &Visitor, entries: &[story::Entry]) -> Markup {
    let last = entries.last().map(|entry| entry.sequence).unwrap_or_default();
    let asked: Vec<(String, String)> =
        visitor.guest.query.iter().filter(|(name, _)| ASKING.contains(&name.as_str())).cloned().collect();
    let address = Address::of("/ui/changes/", &asked).and("before", last);
    html! { nav.pages { a href=(address.text()) rel="next" { (visitor.texts().say("next-page")) } } }
}
