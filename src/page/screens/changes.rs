//! What changed, of all objects: also what was deleted, with the way back.

use std::collections::BTreeSet;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use bson::doc;
use maud::{Markup, html};

use crate::http::error::ApiError;
use crate::page::address::{Address, of_object};
use crate::page::found::{by_numbers, number_in};
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::value::clipped;
use crate::page::parts::{moment, story};
use crate::page::visitor::Visitor;
use crate::query::{Filter, Limits, Sort};
use crate::service::ListQuery;
use crate::service::history::entries::list_entries;
use crate::service::resource::decode;

/// How many entries a page has.
const ENTRIES: u64 = 50;

/// Shows the newest entries, those of deletions with `action=DELETE`. `before` is the sequence where the page begins.
///
/// # Errors
/// Errors of the store.
pub async fn show(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let is_deleted = visitor.guest.asked("action") == Some("DELETE");
    let mut condition = doc! { "resource": "objects" };
    if is_deleted {
        condition.insert("action", "DELETE");
    }
    if let Some(before) = visitor.guest.asked("before").and_then(number_in) {
        condition.insert("sequence", doc! { "$lt": before });
    }
    let filter = Filter::parse(&condition, &Limits::NONE)?;
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
    let main = html! {
        h1 { (title) }
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
        @if entries.len() as u64 == ENTRIES { (further(&visitor, &entries, is_deleted)) }
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

fn further(visitor: &Visitor, entries: &[story::Entry], is_deleted: bool) -> Markup {
    let last = entries.last().map(|entry| entry.sequence).unwrap_or_default();
    let address = Address::new("/ui/changes/").and("before", last);
    let address = if is_deleted { address.and("action", "DELETE") } else { address };
    html! { nav.pages { a href=(address.text()) rel="next" { (visitor.texts().say("next-page")) } } }
}
