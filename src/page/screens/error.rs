//! What people see in place of an error.

use actix_web::HttpRequest;
use actix_web::http::Method;
use maud::{Markup, html};

use crate::http::error::ApiError;
use crate::http::outermost::Face;
use crate::http::session::PAGE;
use crate::page::address::Address;
use crate::page::answer::document;
use crate::page::guard::{comes_from_elsewhere, forged};
use crate::page::texts::Texts;

/// What people see; nothing outside of the page.
pub fn face(request: &HttpRequest, error: &ApiError) -> Option<Face> {
    if !request.path().starts_with(PAGE) {
        return None;
    }
    let texts = Texts::of(request.headers());
    let address = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    if error.code().status() != 401 {
        return Some(Face::Page(document(texts, &texts.say("error-title"), shown(texts, error)).into_string()));
    }
    if !request.method().is_safe() {
        return Some(Face::Elsewhere(sign_in(PAGE)));
    }
    if *request.method() == Method::GET && comes_from_elsewhere(request.headers()) {
        return Some(Face::Page(onward(texts, &address).into_string()));
    }
    Some(Face::Elsewhere(sign_in(&address)))
}

/// The address of the sign-in, which leads to `next`.
pub fn sign_in(next: &str) -> String {
    Address::new("/ui/sign-in").and("next", next).text()
}

/// A browser holds the cookie back when another site leads here, for instance a mail. It sends the cookie when this page
/// leads on.
fn onward(texts: Texts, address: &str) -> Markup {
    let body = html! {
        meta http-equiv="refresh" content={ "0;url=" (address) };
        main.alone { p { a href=(address) { (texts.say("forward")) } } }
    };
    document(texts, &texts.say("forward"), body)
}

fn shown(texts: Texts, error: &ApiError) -> Markup {
    let known = match error.code().status() {
        _ if error.message() == forged().message() => Some("error-forged"),
        403 => Some("error-forbidden"),
        404 => Some("error-missing"),
        429 | 503 => Some("error-busy"),
        _ => None,
    };
    html! {
        main.alone {
            h1 { (texts.say("error-title")) }
            @if let Some(key) = known { p { (texts.say(key)) } }
            @if known != Some("error-missing") && known != Some("error-forged") { p.note lang="en" { bdi { (error.message()) } } }
            p { a href=(PAGE) { (texts.say("error-back")) } }
        }
    }
}
