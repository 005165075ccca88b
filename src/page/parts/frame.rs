//! The frame of every page: head, search, tree, who is signed in.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use maud::{Markup, html};

use super::tree::Tree;
use crate::http::error::ApiError;
use crate::page::answer;
use crate::page::answer::document;
use crate::page::guard::TOKEN;
use crate::page::visitor::Visitor;

/// What a page shows within the frame.
pub struct Content {
    /// The title of the window.
    pub title: String,
    /// The type that it is about.
    pub of_type: Option<i64>,
    /// What is typed into the search box.
    pub searched: String,
    /// The page itself.
    pub main: Markup,
}

impl Content {
    /// A page that is about no type.
    pub fn new(title: impl Into<String>, main: Markup) -> Self {
        Self { title: title.into(), of_type: None, searched: String::new(), main }
    }

    /// The same about a type.
    #[must_use]
    pub fn about(self, type_id: i64) -> Self {
        Self { of_type: Some(type_id), ..self }
    }
}

/// A page for somebody who is signed in.
///
/// # Errors
/// Errors of the store.
pub async fn page(visitor: &Visitor, status: StatusCode, content: Content) -> Result<HttpResponse, ApiError> {
    let tree = Tree::read(visitor).await?;
    let texts = visitor.texts();
    let body = html! {
        (header(visitor, &content.searched))
        div.columns {
            main #content tabindex="-1" { (content.main) }
            nav #types aria-label=(texts.say("menu")) {
                h2 { (texts.say("menu")) }
                (tree.shown(visitor, content.of_type))
            }
        }
    };
    Ok(answer::html(status, document(texts, &content.title, body)))
}

fn header(visitor: &Visitor, searched: &str) -> Markup {
    let texts = visitor.texts();
    html! {
        a.skip href="#content" { (texts.say("skip")) }
        header {
            a.product href="/ui/" { (texts.say("product")) }
            a.to-types href="#types" { (texts.say("menu")) }
            form.search role="search" action="/ui/search" method="get" {
                label.unseen for="q" { (texts.say("search")) }
                input #q type="search" name="q" value=(searched) placeholder=(texts.say("search-hint")) autocomplete="off";
                button { (texts.say("search")) }
            }
            form.who action="/ui/sign-out" method="post" {
                (token(visitor))
                span { span.unseen { (texts.say("signed-in-as")) " " } bdi { (visitor.caller.user_name) } }
                button.quiet { (texts.say("sign-out")) }
            }
        }
    }
}

/// The token that every form of a session has.
pub fn token(visitor: &Visitor) -> Markup {
    html! { input type="hidden" name=(TOKEN) value=(visitor.token); }
}
