//! The caller: checked before every route that is not public, and before the body is read.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::Next;
use actix_web::{FromRequest, HttpMessage, HttpRequest, ResponseError, web};
use futures::StreamExt;
use tokio::time::{Instant, sleep_until};

use super::edge::panics::caught;
use super::edge::server::given_up;
use super::error::ApiError;
use super::history::author::author_of;
use super::idempotency::{self, TakesKey};
use super::route_table::{RouteAccess, is_own};
use super::session;
use super::state::HttpState;
use crate::admission::Ticket;
use crate::auth::{AuthError, Authorization};
use crate::domain::Violation;
use crate::rate_limits::Allowance;
use crate::service::accounts::AccountError;
use crate::service::accounts::rights;
use crate::service::accounts::sign_on::{self, SignOnError};
use crate::service::history::author as history;
use crate::service::{Caller, ErrorCode};

/// The header for what was accepted, but is probably not intended.
pub(super) const WARNING: HeaderName = HeaderName::from_static("inventory-warning");
/// The maximum number of warnings of an answer about what was accepted, and of characters of one.
const MOST_WARNINGS: usize = 10;
const LONGEST_WARNING: usize = 200;
/// The warning about a deletion on a full disk.
const UNKEPT: &str = "there is no room: what this deleted is not kept in the history, and cannot be restored";

/// The warning about a key that does nothing.
const NO_KEY: &str =
    "Idempotency-Key has no effect here: creations, imports, bulk requests and PATCH by filter take it";

/// The warning about a condition for reading.
const NO_CONDITION: &str = "If-None-Match has no effect here: PUT, PATCH and DELETE take If-Match";

/// The same of a condition by time.
const NO_TIME: &str = "If-Unmodified-Since has no effect here: PUT, PATCH and DELETE take If-Match";

/// Adds a warning, as far as a header takes it.
pub(super) fn add_warning(headers: &mut HeaderMap, text: &str) {
    let text: String = text.escape_default().take(LONGEST_WARNING).collect();
    if let Ok(text) = HeaderValue::try_from(text) {
        headers.append(WARNING, text);
    }
}

/// Names what was stored although a rule forbids it.
pub(super) fn warn_of_accepted(headers: &mut HeaderMap, accepted: &[Violation]) {
    for wrong in accepted.iter().take(MOST_WARNINGS) {
        add_warning(headers, &format!("{}: {}", wrong.pointer.trim_start_matches('/'), wrong.message));
    }
    if accepted.len() > MOST_WARNINGS {
        add_warning(headers, "fields: there is more of this kind");
    }
}

/// The time budget of a request on a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeBudget {
    /// `server.request_timeout_s`.
    Request,
    /// `api.transfer_timeout_s`.
    Transfer,
}

/// How callers of a route show who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Shown {
    /// By the header `Authorization`.
    #[default]
    Token,
    /// By the cookie of a session: the routes of the page.
    Session,
}

/// The caller of a route that is not public; a public route that asks for one answers 401.
pub struct Authenticated(pub Arc<Caller>);

impl FromRequest for Authenticated {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        ready(caller.map(Self).ok_or_else(|| ApiError::unauthorized(ErrorCode::TokenMissing, "this needs a token")))
    }
}

/// Passes a request to its route if its token is valid and its user holds the route's right. From here to its answer
/// the request has a time budget, and a panic becomes an answer.
///
/// # Errors
/// None of its own; a refusal is an answer.
pub(super) async fn authorize<B: MessageBody + 'static>(
    (access, budget, shown): (RouteAccess, TimeBudget, Shown),
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let Some(state) = request.app_data::<web::Data<HttpState>>().cloned() else {
        return Ok(refused(request, &ApiError::of(ErrorCode::Internal)));
    };
    let sent = request.request().clone();
    let (budget, setting) = match budget {
        TimeBudget::Request => (state.request_timeout, "server.request_timeout_s"),
        TimeBudget::Transfer => (state.transfer_timeout, "api.transfer_timeout_s"),
    };
    let until = Instant::now() + budget;
    let work = async {
        match permitted((access, shown), &request, &state).await {
            Ok(None) => Ok(Ticket::default().scope(next.call(request)).await?.map_into_left_body()),
            Ok(Some(caller)) => {
                let author = match author_of(&request, &caller) {
                    Ok(author) => author,
                    Err(error) => return Ok(refused(request, &error)),
                };
                let ticket = admit(&request, &state, caller);
                let Some(author) = author else {
                    return Ok(ticket.scope(next.call(request)).await?.map_into_left_body());
                };
                let changes = history::noting_unkept(history::by(author, next.call(request)));
                let (answered, has_unkept) = ticket.scope(changes).await;
                let mut answered = answered?;
                if has_unkept {
                    answered.headers_mut().append(WARNING, HeaderValue::from_static(UNKEPT));
                }
                if answered.status().is_success() {
                    for told in idle_headers(answered.request()) {
                        answered.headers_mut().append(WARNING, HeaderValue::from_static(told));
                    }
                }
                Ok(answered.map_into_left_body())
            }
            // What was typed into a form must not be lost with the session: the page keeps it, and does nothing else.
            Err(error) if shown == Shown::Session && has_form(&request, &error) => {
                Ok(Ticket::default().scope(next.call(request)).await?.map_into_left_body())
            }
            Err(error) => Ok(refused(request, &error)),
        }
    };
    let is_over = async {
        tokio::select! {
            () = sleep_until(until) => {}
            () = given_up(&sent) => {}
        }
    };
    // Dropping the request here ends its work.
    tokio::select! {
        biased;
        answered = caught(&state.panics, sent.clone(), work) => answered,
        () = is_over => {
            let error = ApiError::out_of_time(setting).error_response();
            Ok(ServiceResponse::new(sent.clone(), error).map_into_right_body())
        }
    }
}

/// Whether a form came without a session.
fn has_form(request: &ServiceRequest, error: &ApiError) -> bool {
    *request.method() == Method::POST && error.code().status() == 401
}

/// The warnings about headers that a change was sent with, and that have no effect on its route.
fn idle_headers(request: &HttpRequest) -> impl Iterator<Item = &'static str> + use<> {
    let (method, headers) = (request.method(), request.headers());
    let changes_one = matches!(*method, Method::PUT | Method::PATCH | Method::DELETE);
    let has_key = headers.contains_key(idempotency::NAME) && !request.extensions().contains::<TakesKey>();
    let key = (changes_one || method == Method::POST) && has_key;
    let has = |name| changes_one && headers.contains_key(name);
    let (condition, time) = (has(header::IF_NONE_MATCH), has(header::IF_UNMODIFIED_SINCE));
    [(key, NO_KEY), (condition, NO_CONDITION), (time, NO_TIME)]
        .into_iter()
        .filter_map(|(is_idle, told)| is_idle.then_some(told))
}

/// Adds the caller to the request, with a ticket that bounds the caller's memory and turns.
fn admit(request: &ServiceRequest, state: &HttpState, caller: Arc<Caller>) -> Ticket {
    let ticket = state.services.admission.ticket(caller.user_id);
    let mut extensions = request.extensions_mut();
    extensions.insert(caller);
    extensions.insert(ticket.clone());
    ticket
}

/// Refuses a body where none is read: it would be ignored, and a filter or a `dry_run` in it with it.
///
/// # Errors
/// None of its own; a refusal is an answer.
pub(super) async fn without_body<B: MessageBody + 'static>(
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, actix_web::Error> {
    if !has_body(&mut request).await {
        return next.call(request).await.map(ServiceResponse::map_into_left_body);
    }
    let message = if matches!(*request.method(), Method::GET | Method::HEAD) {
        "this method takes no body; its parameters stand in the URL (?filter=...); a list takes them as a JSON body with the \
         method QUERY, and a list of objects with POST /rest/objects/query"
    } else {
        "this request takes no body; its parameters stand in the URL"
    };
    Ok(refused(request, &ApiError::new(ErrorCode::BodyUnexpected, message)))
}

/// Whether the request has a body. An empty one does not count. For a write a body without content does not count
/// either: some clients send one with each request.
async fn has_body(request: &mut ServiceRequest) -> bool {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let length = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let length: usize = length.unwrap_or_default();
    // Without a length only the first bytes show it.
    if length == 0 && !request.headers().contains_key(header::TRANSFER_ENCODING) {
        return false;
    }
    if length > 0 && (reads || length > LONGEST_EMPTY) {
        return true;
    }
    let mut sent = Vec::new();
    let mut payload = request.take_payload();
    while let Some(chunk) = payload.next().await {
        match chunk {
            Ok(bytes) if sent.len() + bytes.len() <= LONGEST_EMPTY => sent.extend_from_slice(&bytes),
            _ => return true,
        }
    }
    !sent.is_empty() && (reads || !matches!(sent.as_slice(), b"{}" | b"null"))
}

/// The length of `null`.
const LONGEST_EMPTY: usize = 4;

fn refused<B: MessageBody>(request: ServiceRequest, error: &ApiError) -> ServiceResponse<EitherBody<B>> {
    request.into_response(error.error_response()).map_into_right_body()
}

/// The message about an `Authorization` that holds no token.
fn no_token(shown: Option<&Authorization>) -> &'static str {
    match shown {
        Some(Authorization::Basic { .. }) => {
            "the setting auth.basic is off, so that name and password do not count here; sign in with POST \
             /rest/auth/login, and send Authorization: Bearer <token>"
        }
        _ => "the header Authorization holds no token; send Authorization: Bearer <token>",
    }
}

async fn permitted(
    (access, shown): (RouteAccess, Shown),
    request: &ServiceRequest,
    state: &HttpState,
) -> Result<Option<Arc<Caller>>, ApiError> {
    if access == RouteAccess::Public {
        return Ok(None);
    }
    let caller = match shown {
        Shown::Token => of_token(request, state).await?,
        Shown::Session => state.services.accounts.authenticate_session(session::secret(request.headers())).await?,
    };
    if let Some(allowance) = state.rate_limits.user(caller.user_id)? {
        let mut extensions = request.extensions_mut();
        let allowance = allowance.narrower(extensions.get::<Allowance>().copied());
        extensions.insert(allowance);
    }
    match access {
        RouteAccess::Public | RouteAccess::SignedIn => {}
        RouteAccess::OwnOr(_) if is_own(&caller, request.method(), request.match_info().get("public_id")) => {}
        RouteAccess::OwnOr(right) | RouteAccess::Right(right) => rights::require(&caller.rights, right)?,
    }
    Ok(Some(caller))
}

/// The caller by the header `Authorization`.
async fn of_token(request: &ServiceRequest, state: &HttpState) -> Result<Arc<Caller>, ApiError> {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = header.and_then(Authorization::parse);
    let address = state.links.client_address(request.request());
    match sign_on::authenticate(&state.services, shown.as_ref(), address).await {
        Err(SignOnError::Account(AccountError::Auth(AuthError::Missing))) if header.is_some() => {
            Err(ApiError::unauthorized(ErrorCode::TokenMissing, no_token(shown.as_ref())))
        }
        outcome => Ok(outcome?),
    }
}
