//! Finds objects by words of their values, by what they refer to, and by number.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use maud::html;

use crate::http::error::ApiError;
use crate::page::address::of_object;
use crate::page::parts::frame::{Content, page};
use crate::page::parts::value::clipped;
use crate::page::visitor::Visitor;
use crate::service::search::{Hit, SearchQuery, has_words, search};

/// How many objects are shown.
const MOST: usize = 50;

/// How many parts of an answer are asked for; each looks at a bounded number of objects.
const MOST_PARTS: usize = 8;

/// What was found, and whether there is more.
struct Found {
    hits: Vec<Hit>,
    is_cut: bool,
    /// Whether the index of words is still being made.
    is_incomplete: bool,
}

/// Shows what was found.
///
/// # Errors
/// Errors of the store; more words than a question may have.
pub async fn show(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let text = visitor.guest.asked("q").unwrap_or_default().trim().to_owned();
    let Found { hits, is_cut, is_incomplete } = found(&visitor, &text).await?;
    let title = texts.with("search-title", &[("text", (&clipped(&text)).into())]);
    let main = html! {
        h1 { (if text.is_empty() { texts.say("search") } else { title.clone() }) }
        @if text.is_empty() {
            p { (texts.say("search-ask")) }
        } @else if hits.is_empty() {
            p { (texts.with("search-none", &[("text", (&clipped(&text)).into())])) }
        } @else {
            p role="status" {
                (texts.with(if is_cut { "found-more" } else { "found" }, &[("count", (hits.len() as u64).into())]))
            }
            ul.results {
                @for hit in &hits {
                    li {
                        a href=(of_object(hit.public_id)) { bdi { (clipped(&hit.summary_line)) } }
                        " " span.note { bdi { (hit.type_label) } " · #" (hit.public_id) }
                        " " span.note {
                            bdi { (hit.field_label) } ": "
                            bdi {
                                @for piece in &hit.text {
                                    @if piece.is_match { mark { (piece.text) } } @else { (piece.text) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if is_incomplete {
            p.note { (texts.say("search-incomplete")) }
        }
    };
    page(&visitor, StatusCode::OK, Content { searched: text, ..Content::new(title, main) }).await
}

async fn found(visitor: &Visitor, text: &str) -> Result<Found, ApiError> {
    let mut found = Found { hits: Vec::new(), is_cut: false, is_incomplete: false };
    if !has_words(text) {
        return Ok(found);
    }
    let mut query = SearchQuery { text: text.to_owned(), type_id: None, limit: MOST, after: None };
    for _ in 0..MOST_PARTS {
        let part = search(visitor.services(), &visitor.caller, &query).await?;
        found.hits.extend(part.hits);
        found.is_incomplete = part.is_incomplete;
        found.is_cut = part.next.is_some();
        (query.after, query.limit) = (part.next, MOST.saturating_sub(found.hits.len()));
        if query.after.is_none() || query.limit == 0 {
            break;
        }
    }
    Ok(found)
}
