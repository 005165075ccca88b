//! Finds objects by a number or a part of a value.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use maud::html;

use crate::http::error::ApiError;
use crate::page::address::of_object;
use crate::page::found::by_text;
use crate::page::parts::frame::{Content, page};
use crate::page::parts::value::clipped;
use crate::page::visitor::Visitor;

/// How many objects are shown.
const MOST: u64 = 50;

/// Shows what was found.
///
/// # Errors
/// Errors of the store.
pub async fn show(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let text = visitor.guest.asked("q").unwrap_or_default().trim().to_owned();
    let (found, total) = if text.is_empty() { Default::default() } else { by_text(&visitor, &text, &[], MOST).await? };
    let title = texts.with("search-title", &[("text", (&clipped(&text)).into())]);
    let main = html! {
        h1 { (if text.is_empty() { texts.say("search") } else { title.clone() }) }
        @if text.is_empty() {
            p { (texts.say("search-ask")) }
        } @else if found.is_empty() {
            p { (texts.with("search-none", &[("text", (&clipped(&text)).into())])) }
        } @else {
            p role="status" { (texts.with("found", &[("count", total.into())])) }
            ul.results {
                @for named in &found {
                    li {
                        a href=(of_object(named.id)) { bdi { (clipped(&named.line)) } }
                        " " span.note { bdi { (named.type_label) } " · #" (named.id) }
                    }
                }
            }
        }
    };
    page(&visitor, StatusCode::OK, Content { searched: text, ..Content::new(title, main) }).await
}
