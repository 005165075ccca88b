//! Answers of the page.

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use crate::http::outermost::Complete;
use crate::page::files;
use crate::page::texts::Texts;

/// An answer in HTML.
pub fn html(status: StatusCode, markup: Markup) -> HttpResponse {
    let mut response = HttpResponse::build(status).content_type("text/html; charset=utf-8").body(markup.into_string());
    response.extensions_mut().insert(Complete);
    response
}

/// Leads the browser to another page after a form was carried out.
pub fn leads_to(address: &str) -> HttpResponse {
    HttpResponse::SeeOther().insert_header((header::LOCATION, address)).finish()
}

/// A whole document; everything within its body is given.
pub fn document(texts: Texts, title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(texts.language()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – " (texts.say("product")) }
                link rel="stylesheet" href=(files::style());
                link rel="icon" type="image/svg+xml" href=(files::icon());
            }
            body { (body) }
        }
    }
}
