//! Deletes an object, and brings it back.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use maud::{Markup, html};

use super::object::{count_referring, id_of};
use crate::domain::on_delete::OnDelete;
use crate::http::error::ApiError;
use crate::page::VIEW;
use crate::page::address::{Address, of_object, of_type};
use crate::page::answer::leads_to;
use crate::page::found::{Named, named};
use crate::page::parts::frame::{Content, page, token};
use crate::page::parts::value::clipped;
use crate::page::texts::Texts;
use crate::page::visitor::{Form, Visitor};
use crate::service::ErrorCode;
use crate::service::history::revert::restore_object;
use crate::service::objects::{delete_object, get_object};
use crate::service::precondition::IfMatch;

/// Asks whether to delete an object.
///
/// # Errors
/// 404 for an object that the visitor may not read; errors of the store.
pub async fn ask(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    asked(&visitor, id_of(&request)?, None).await
}

async fn asked(visitor: &Visitor, id: i64, refused: Option<&ApiError>) -> Result<HttpResponse, ApiError> {
    visitor.needs(VIEW)?;
    let object = get_object(visitor.services(), &visitor.caller, id).await?;
    let named = named(visitor, &*visitor.services().current_types().await?, &object);
    let count = count_referring(visitor, &object).await?;
    let line = clipped(&named.line);
    let title = visitor.texts().with("delete-title", &[("name", (&line).into())]);
    let status = refused.map_or(StatusCode::OK, ApiError::status);
    let main = question(visitor, &named, count, refused);
    page(visitor, status, Content::new(title, main).about(named.type_id)).await
}

/// The choice of what happens to references.
pub fn reference_choice(texts: Texts) -> Markup {
    let ways = [("keep", "delete-keep"), ("clear", "delete-clear"), ("refuse", "delete-refuse")];
    html! {
        fieldset.field {
            legend { (texts.say("delete-references")) }
            @for (word, key) in ways {
                div.choice {
                    input id=(word) type="radio" name="references" value=(word) checked[word == "refuse"];
                    label for=(word) { (texts.say(key)) }
                }
            }
        }
    }
}

fn question(visitor: &Visitor, named: &Named, count: u64, refused: Option<&ApiError>) -> Markup {
    let texts = visitor.texts();
    html! {
        @if let Some(error) = refused {
            div.errors role="alert" { h2 { (texts.say("errors-title")) }
                @if error.code() == ErrorCode::ObjectReferenced {
                    p { (texts.say("delete-refused")) }
                } @else {
                    p lang="en" { bdi { (error.message()) } }
                }
            }
        }
        p.above { bdi { (named.type_label) } " · #" (named.id) }
        h1 { (texts.say("delete-ask")) }
        p.large { bdi { (clipped(&named.line)) } }
        form method="post" action={ (of_object(named.id)) "/delete" } {
            (token(visitor))
            @if count == 0 {
                p { (texts.say("delete-refers-none")) }
                input type="hidden" name="references" value="keep";
            } @else {
                p { a href={ (of_object(named.id)) "#refers" } { (texts.with("delete-refers", &[("count", count.into())])) } }
                (reference_choice(texts))
            }
            p.actions {
                button.danger { (texts.say("delete-do")) }
                a href=(of_object(named.id)) { (texts.say("cancel")) }
            }
        }
    }
}

/// Deletes an object.
///
/// # Errors
/// 404 for an object that the visitor may not read; errors of the store.
pub async fn carry_out(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (id, visitor) = (id_of(&request)?, &form.visitor);
    visitor.needs(VIEW)?;
    let object = get_object(visitor.services(), &visitor.caller, id).await?;
    let type_id = named(visitor, &*visitor.services().current_types().await?, &object).type_id;
    let on_references = OnDelete::named(form.get("references").unwrap_or("refuse"));
    match delete_object(visitor.services(), &visitor.caller, id, &IfMatch::Any, on_references).await {
        Ok(_) => Ok(leads_to(&Address::new(of_type(type_id)).and("deleted", id).text())),
        Err(error) => {
            let error = ApiError::from(error);
            match error.code() {
                ErrorCode::ObjectReferenced | ErrorCode::AclDenied => asked(visitor, id, Some(&error)).await,
                _ => Err(error),
            }
        }
    }
}

/// Brings a deleted object back.
///
/// # Errors
/// As a restore over REST.
pub async fn undo(form: Form, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (id, visitor) = (id_of(&request)?, &form.visitor);
    restore_object(visitor.services(), &visitor.caller, id).await?;
    Ok(leads_to(&Address::new(of_object(id)).and("done", "restored").text()))
}
