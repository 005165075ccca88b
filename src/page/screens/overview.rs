//! The first page of somebody who signed in.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use maud::html;

use crate::http::error::ApiError;
use crate::page::parts::frame::{Content, page};
use crate::page::visitor::Visitor;

/// Shows the first page. The tree of types is next to it.
///
/// # Errors
/// Errors of the store.
pub async fn show(visitor: Visitor) -> Result<HttpResponse, ApiError> {
    let texts = visitor.texts();
    let main = html! {
        h1 { (texts.say("overview")) }
        p { (texts.say("overview-text")) }
        @if visitor.may("base.framework.log.view") {
            ul {
                li { a href="/ui/changes/" { (texts.say("changes")) } }
                li { a href="/ui/changes/?action=DELETE" { (texts.say("deleted-objects")) } }
            }
        }
    };
    page(&visitor, StatusCode::OK, Content::new(texts.say("overview"), main)).await
}
