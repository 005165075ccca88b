//! Signing in with name and password, and signing out.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse};
use maud::html;

use crate::auth::{AuthError, Secret};
use crate::http::body::FormBody;
use crate::http::error::ApiError;
use crate::http::session::{self, PAGE};
use crate::page::answer::document;
use crate::page::answer::{html as html_answer, leads_to};
use crate::page::guard::{TOKEN, token};
use crate::page::parts::sign_in_form::{KEPT, LONGEST, Shown, answer, within};
use crate::page::visitor::{Form, Guest, first};
use crate::service::accounts::AccountError;

/// Shows the form.
///
/// # Errors
/// None of its own.
pub async fn show(guest: Guest) -> Result<HttpResponse, ApiError> {
    let next = guest.asked("next").unwrap_or(PAGE);
    let note = (next != PAGE).then(|| guest.texts.say("sign-in-again"));
    Ok(answer(guest.texts, StatusCode::OK, &Shown { next: within(next), name: "", note, problem: None, kept: &[] }))
}

/// Signs somebody in.
///
/// # Errors
/// Errors of the store.
pub async fn submit(guest: Guest, request: HttpRequest, body: FormBody) -> Result<HttpResponse, ApiError> {
    let texts = guest.texts;
    let sent = |name: &str| first(&body.pairs, name).unwrap_or_default();
    let (name, password, next) = (sent("user_name"), sent("password"), within(sent("next")));
    let kept: Vec<(String, String)> = body
        .pairs
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(KEPT)?.to_owned(), value.clone())))
        .collect();
    let accounts = &guest.state.services.accounts;
    let address = guest.state.links.client_address(&request);
    let opened = if name.is_empty() || password.is_empty() || name.len().max(password.len()) > LONGEST {
        Err(AccountError::Auth(AuthError::WrongCredentials))
    } else {
        accounts.open_session(name, Secret::new(password.to_owned()), address).await
    };
    let problem = match opened {
        Ok(secret) => return Ok(signed_in(&guest, &request, &secret, next, &kept)),
        Err(AccountError::Auth(AuthError::WrongCredentials)) => (StatusCode::UNAUTHORIZED, texts.say("sign-in-failed")),
        Err(AccountError::Auth(AuthError::TooManyAttempts { retry_after } | AuthError::Busy { retry_after })) => {
            let seconds = retry_after.as_secs().max(1);
            (StatusCode::TOO_MANY_REQUESTS, texts.with("sign-in-later", &[("seconds", seconds.into())]))
        }
        Err(error) => return Err(error.into()),
    };
    let shown = Shown { next, name, note: None, problem: Some(problem.1), kept: &kept };
    Ok(answer(texts, problem.0, &shown))
}

/// Leads to where somebody was, or offers to save what was typed there.
fn signed_in(
    guest: &Guest,
    request: &HttpRequest,
    secret: &Secret,
    next: &str,
    kept: &[(String, String)],
) -> HttpResponse {
    let texts = guest.texts;
    let is_tls = guest.state.links.origin(request).starts_with("https:");
    let mut response = if kept.is_empty() {
        leads_to(next)
    } else {
        let body = html! {
            main.alone {
                p { (texts.say("sign-in-done")) }
                form action=(next) method="post" {
                    input type="hidden" name=(TOKEN) value=(token(secret.expose()));
                    @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
                    button.main { (texts.say("sign-in-resume")) }
                }
                p { a href=(PAGE) { (texts.say("error-back")) } }
            }
        };
        html_answer(StatusCode::OK, document(texts, &texts.say("sign-in"), body))
    };
    response.headers_mut().insert(header::SET_COOKIE, session::begun(secret.expose(), is_tls));
    response
}

/// Signs somebody out: the session ends everywhere.
///
/// # Errors
/// Errors of the store.
pub async fn leave(request: HttpRequest, form: Form) -> Result<HttpResponse, ApiError> {
    let state = &form.visitor.guest.state;
    if let Some(secret) = session::secret(request.headers()) {
        state.services.accounts.end_session(secret).await?;
    }
    let is_tls = state.links.origin(&request).starts_with("https:");
    let mut response = leads_to("/ui/sign-in");
    response.headers_mut().insert(header::SET_COOKIE, session::ended(is_tls));
    Ok(response)
}
