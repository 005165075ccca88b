//! The outermost layer. On the way in it resolves aliases of paths. On the way out it adds the request id and the
//! version, gives errors their shape, and logs a line.

use std::fmt::Write;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::uri::{PathAndQuery, Uri};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::Next;
use actix_web::web::Bytes;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, ResponseError, web};

use super::edge::compress::compressed;
use super::edge::headers::secure;
use super::edge::rate_limit;
use super::edge::server::under_way;
use super::error::{ApiError, Occurrence};
use super::history::author::RequestId;
use super::links::LinkSettings;
use super::route_table::{BASE, RouteInfo};
use super::state::HttpState;
use crate::admission::Ticket;
use crate::logging::{self, RequestLine, Trace};
use crate::metrics::Metrics;
use crate::service::{Caller, ErrorCode};
use crate::settings::CompressionSettings;
use crate::suggest;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const API_VERSION: HeaderName = HeaderName::from_static("x-api-version");

/// The value of `X-API-Version`.
const VERSION: HeaderValue = HeaderValue::from_static("1.0");

/// The media type of errors in RFC 9457.
const PROBLEM: &str = "application/problem+json";

/// RFC 5789.
const ACCEPT_PATCH: HeaderName = HeaderName::from_static("accept-patch");
/// RFC 10008.
const ACCEPT_QUERY: HeaderName = HeaderName::from_static("accept-query");
const QUERIES: HeaderValue = HeaderValue::from_static("application/json");
const PATCHES: HeaderValue = HeaderValue::from_static("application/merge-patch+json, application/json");

/// Singular paths are aliases of the plural ones.
const ALIASES: [(&str, &str); 6] = [
    ("/rest/object", "/rest/objects"),
    ("/rest/type", "/rest/types"),
    ("/rest/category", "/rest/categories"),
    ("/rest/user", "/rest/users"),
    ("/rest/group", "/rest/groups"),
    ("/rest/right", "/rest/rights"),
];

/// Answers of this many bytes or more count as memory of their request while they are sent.
const LONG: u64 = 64 * 1024;

/// What the outermost layer goes by.
pub struct Outermost {
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The facts about all routes.
    pub routes: fn() -> &'static [RouteInfo],
    /// How the addresses of clients are determined.
    pub links: LinkSettings,
    /// When answers are compressed.
    pub compression: CompressionSettings,
    /// The value of `Strict-Transport-Security`, under TLS.
    pub hsts: Option<HeaderValue>,
    /// What people see in place of an error; nothing on routes that programs call.
    pub face: fn(&HttpRequest, &ApiError) -> Option<Face>,
}

/// What people see in place of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Face {
    /// A page in HTML, with the status of the error.
    Page(String),
    /// Another page, at this address.
    Elsewhere(String),
}

/// Marks an answer with the status of an error whose body is complete.
#[derive(Debug, Clone, Copy)]
pub struct Complete;

/// The URI of a request with its path in the plural form.
pub struct AsSent(pub Uri);

/// Wraps every request and answer.
///
/// # Errors
/// None of its own; errors of inner layers become answers before they get here.
pub async fn outermost(
    settings: Arc<Outermost>,
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let begun = Instant::now();
    let _under_way = under_way(request.request());
    let _counted = settings.metrics.begin();
    let id = request_id(&request);
    if !request.method().is_safe() {
        request.extensions_mut().insert(RequestId(id.clone()));
    }
    use_plural_path(&mut request);
    let mut response = next.call(request).await?.map_into_boxed_body();
    let ticket = response.request().extensions().get::<Ticket>().cloned().unwrap_or_default();
    if let BodySize::Sized(bytes @ LONG..) = response.response().body().size()
        && let Err(denied) = ticket.hold(usize::try_from(bytes).unwrap_or(usize::MAX))
    {
        response = response.into_response(ApiError::from(denied).error_response());
    }
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if is_error && response.response().extensions().get::<Complete>().is_none() {
        let error = response.response().extensions().get::<ApiError>().cloned();
        let error = error.unwrap_or_else(|| unsaid(&response, (settings.routes)()));
        if status == 400 && is_of_a_question(error.code()) {
            settings.metrics.refused(&error.code().name());
        }
        let origin = settings.links.origin(response.request());
        let at = Occurrence { request_id: &id, origin: &origin, path: response.request().path() };
        response = match (settings.face)(response.request(), &error) {
            Some(face) => shown(response, face),
            None => {
                let body = error.body(&at);
                let kind = if prefers_problem(response.request().headers()) { PROBLEM } else { "application/json" };
                response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
                response.map_body(|_, _| BoxBody::new(body))
            }
        };
    }
    response = ticket.scope(compressed(response, settings.compression)).await;
    if matches!(response.response().body().size(), BodySize::Sized(LONG..) | BodySize::Stream) {
        response = response.map_body(|_, body| BoxBody::new(Counted { body, _ticket: ticket }));
    }
    note(&response, &id, begun, &settings);
    let (path, allowance) = (response.request().path().to_owned(), response.request().extensions().get().copied());
    let pattern = response.request().match_pattern();
    let headers = response.headers_mut();
    secure(&path, headers, settings.hsts.as_ref());
    if let Some(allowance) = allowance.filter(|_| !headers.contains_key(header::RETRY_AFTER)) {
        rate_limit::write(allowance, headers);
    }
    headers.insert(API_VERSION, VERSION);
    if let Ok(id) = HeaderValue::try_from(id) {
        headers.insert(REQUEST_ID, id);
    }
    if let Some(pattern) = pattern {
        let takes = |method: &str| {
            (settings.routes)().iter().any(|route| route.path == pattern && route.method.as_str() == method)
        };
        if takes("PATCH") {
            headers.insert(ACCEPT_PATCH, PATCHES);
        }
        if takes("QUERY") {
            headers.insert(ACCEPT_QUERY, QUERIES);
        }
    }
    Ok(response)
}

/// An answer for people in place of an error.
fn shown(mut response: ServiceResponse<BoxBody>, face: Face) -> ServiceResponse<BoxBody> {
    let body = match face {
        Face::Page(html) => {
            let kind = HeaderValue::from_static("text/html; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            html
        }
        Face::Elsewhere(address) => {
            *response.response_mut().status_mut() = StatusCode::SEE_OTHER;
            if let Ok(address) = HeaderValue::try_from(address) {
                response.headers_mut().insert(header::LOCATION, address);
            }
            String::new()
        }
    };
    response.headers_mut().remove(header::WWW_AUTHENTICATE);
    response.map_body(|_, _| BoxBody::new(body))
}

/// Whether the client names the media type of RFC 9457, and does not rank JSON above it.
fn prefers_problem(headers: &HeaderMap) -> bool {
    let named = |wanted: &str| {
        let accepted = headers.get_all(header::ACCEPT).filter_map(|value| value.to_str().ok());
        let kinds = accepted.flat_map(|value| value.split(',')).filter_map(|kind| {
            let (name, parameters) = kind.split_once(';').unwrap_or((kind, ""));
            let quality = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
            name.trim().eq_ignore_ascii_case(wanted).then(|| quality.map_or(1.0, |q| q.parse::<f32>().unwrap_or(0.0)))
        });
        kinds.fold(0.0, f32::max)
    };
    let problem = named(PROBLEM);
    problem > 0.0 && problem >= named("application/json")
}

/// A body that counts as memory of its request until the client has it.
struct Counted {
    body: BoxBody,
    _ticket: Ticket,
}

impl MessageBody for Counted {
    type Error = Box<dyn std::error::Error>;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}

/// The error for an answer of a lower layer without a standard body.
fn unsaid(response: &ServiceResponse<BoxBody>, routes: &[RouteInfo]) -> ApiError {
    let allowed = response.headers().get(header::ALLOW).and_then(|methods| methods.to_str().ok());
    match allowed.filter(|_| response.status() == StatusCode::METHOD_NOT_ALLOWED) {
        Some(methods) => {
            let request = response.request();
            // The collection of a path such as /rest/types/query.
            let collection = request.path().strip_suffix("query").filter(|_| request.method() == Method::POST);
            let takes_query =
                |path: &str| routes.iter().any(|route| route.path == path && route.method.as_str() == "QUERY");
            let asked = collection
                .filter(|path| takes_query(path))
                .map(|path| format!("; a list with its parameters in a body is QUERY {path}"));
            ApiError::method_not_allowed(request.method(), methods, asked.as_deref().unwrap_or_default())
        }
        None => ApiError::of_status(response.status()),
    }
}

/// Whether a refusal is about a filter, a sort, a projection or another parameter.
fn is_of_a_question(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::Query(_) | ErrorCode::UnsupportedByEmbeddedStore | ErrorCode::ParameterInvalid)
}

/// 404 in the standard shape, for paths without a route. It names the route that the client probably intends, if a slash,
/// `/rest` or the first name after it is wrong.
pub async fn no_such_path(request: HttpRequest) -> HttpResponse {
    let routes = request.app_data::<web::Data<HttpState>>().map(|state| (state.routes)()).unwrap_or_default();
    let meant = Some(request.path()).filter(|path| path.len() <= LONGEST_PATH).and_then(|path| meant(routes, path));
    let error = match meant {
        Some(path) => {
            ApiError::new(ErrorCode::NotFound, format!("there is nothing under this path; did you mean {path}?"))
        }
        None => ApiError::of(ErrorCode::NotFound),
    };
    ResponseError::error_response(&error)
}

/// Longer paths are not guessed at.
const LONGEST_PATH: usize = 200;

/// The path of a route that differs from this one by slashes, or by `/rest` at its beginning. Also one whose first name was left
/// out (`/rest/login`) or is misspelt.
fn meant(routes: &[RouteInfo], path: &str) -> Option<String> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let path = format!("/{}", segments.join("/"));
    let below = format!("{BASE}{path}");
    let (shortened, corrected) = (shortened(routes, &segments), corrected(routes, &segments));
    let ways = [Some(path), Some(below), shortened, corrected].into_iter().flatten();
    let ways = ways.map(|path| plural(&path).unwrap_or(path));
    let mut ways = ways.flat_map(|path| [format!("{path}/"), path]);
    ways.find(|path| routes.iter().any(|route| route.path.starts_with(BASE) && route.fits(path)))
}

/// The path that has this single name after a first one.
fn shortened(routes: &[RouteInfo], segments: &[&str]) -> Option<String> {
    let [name] = segments.strip_prefix(&[&BASE[1..]]).unwrap_or(segments) else { return None };
    let two = routes.iter().filter_map(|route| route.path.strip_prefix(BASE)?.strip_prefix('/')?.split_once('/'));
    let (first, _) = two.into_iter().find(|(_, second)| second == name)?;
    Some(format!("{BASE}/{first}/{name}"))
}

/// The path with the nearest first name that a route below `/rest` has.
fn corrected(routes: &[RouteInfo], segments: &[&str]) -> Option<String> {
    let segments = segments.strip_prefix(&[&BASE[1..]]).unwrap_or(segments);
    let (first, rest) = segments.split_first()?;
    let below = routes.iter().filter_map(|route| route.path.strip_prefix(BASE)?.strip_prefix('/'));
    let known: Vec<&str> = below.filter_map(|path| path.split('/').next()).collect();
    let nearest = suggest::misspelt(first, &known)?;
    Some([&[BASE, nearest][..], rest].concat().join("/"))
}

/// The client's request id if it is short and plain, else a new one.
fn request_id(request: &ServiceRequest) -> String {
    let sent = request.headers().get(&REQUEST_ID).and_then(|id| id.to_str().ok());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    match sent {
        Some(id) if (1..=64).contains(&id.len()) && id.bytes().all(plain) => id.to_owned(),
        _ => format!("{:032x}", rand::random::<u128>()),
    }
}

/// The path with the plural of a singular name.
fn plural(path: &str) -> Option<String> {
    ALIASES.iter().find_map(|(singular, plural)| {
        let rest = path.strip_prefix(singular)?;
        (rest.is_empty() || rest.starts_with('/')).then(|| format!("{plural}{rest}"))
    })
}

fn use_plural_path(request: &mut ServiceRequest) {
    let Some(mut path) = plural(request.path()) else { return };
    if let Some(query) = request.uri().query() {
        // Writing into a string cannot fail.
        let _ = write!(path, "?{query}");
    }
    let Ok(path) = PathAndQuery::from_str(&path) else { return };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = Some(path);
    if let Ok(uri) = Uri::from_parts(parts) {
        request.extensions_mut().insert(AsSent(request.uri().clone()));
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
    }
}

/// Counts the answer and writes its line in the log.
fn note(response: &ServiceResponse<BoxBody>, id: &str, begun: Instant, settings: &Outermost) {
    let (request, time) = (response.request(), begun.elapsed());
    let route = request.match_pattern();
    let route = route.as_deref().unwrap_or("-");
    let method = known(request.method());
    settings.metrics.answered(route, method, response.status().as_str(), time);
    if !logging::requests_are_logged() {
        return;
    }
    let address = settings.links.client_address(request);
    let user = request.extensions().get::<Arc<Caller>>().map(|caller| caller.user_id);
    let header = request.headers().get(&TRACEPARENT).and_then(|header| header.to_str().ok());
    let trace = header.and_then(Trace::parse);
    let (status, ms) = (response.status().as_u16(), logging::milliseconds(time));
    logging::request(&RequestLine { id, address, user, method, route, status, ms, trace });
}

/// The method, if a route can have it: a client can send any others.
fn known(method: &Method) -> &str {
    match method.as_str() {
        known @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS" | "QUERY") => known,
        _ => "other",
    }
}
