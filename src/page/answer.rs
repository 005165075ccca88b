//! Answers of the page.

use actix_web::HttpResponse;
use actix_web::http::{StatusCode, header};
use maud::Markup;

use crate::http::outermost::Complete;

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
