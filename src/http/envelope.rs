//! The envelopes around resources in an answer: docs/api.md, Envelopes.

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::{HttpMessage, HttpRequest, HttpResponse};
use bson::raw::RawDocument;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::conditional;
use super::edge::headers::NO_STORE;
use super::error::{ApiError, QUERY_HINT};
use super::links::{encode_query, resource_url};
use super::outermost::AsSent;
use super::params::ListParams;
use super::state::HttpState;
use crate::domain::document::integer;
use crate::json::shell::in_backticks;
use crate::json::write::{self, DateStyle, Shape};
use crate::service::objects::rendering::Views;
use crate::service::precondition;
use crate::service::resource::Resource;
use crate::store::{Documents, Explanation, Hint, StoreError};

/// The header with the total of a list.
pub const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

/// The wire format of a [`Resource`].
pub trait Wire: Resource {
    /// The collection's path below `/rest`, with slashes around it.
    const PATH: &'static str;
    /// How dates inside its documents are written: docs/api.md, Times.
    const DATES: DateStyle;
}

/// `YYYY-MM-DDTHH:MM:SS.ffffff`, for objects, types and categories.
pub const ISO_TIME: &str = "%Y-%m-%dT%H:%M:%S%.6f";
/// `YYYY-MM-DD HH:MM:SS.ffffff`, for users, groups, rights and settings.
const SPACED_TIME: &str = "%Y-%m-%d %H:%M:%S%.6f";

/// What follows the results of a list.
#[derive(Serialize, ToSchema)]
pub(super) struct ListTail<'a> {
    /// How many items are on this page.
    count: usize,
    /// How many there are in all.
    total: u64,
    parameters: Echo<'a>,
    pager: Pager,
    pagination: Pagination,
    /// `GET`.
    response_type: &'static str,
    /// What the items are.
    model: &'static str,
    /// When the answer was made.
    time: String,
}

/// The effective query.
#[derive(Serialize, ToSchema)]
struct Echo<'a> {
    limit: u64,
    sort: &'a str,
    order: i32,
    page: u64,
    /// As it was sent.
    #[schema(value_type = serde_json::Value)]
    filter: &'a RawValue,
    optional: Optional,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    projection: Option<&'a RawValue>,
}

/// Parameters that only some lists have.
#[derive(Serialize, ToSchema)]
struct Optional {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    view: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    active: Option<bool>,
}

/// Where in the list the page is.
#[derive(Serialize, ToSchema)]
struct Pager {
    page: u64,
    page_size: u64,
    total_pages: u64,
}

/// URLs of this and other pages.
#[derive(Serialize, ToSchema)]
struct Pagination {
    current: String,
    first: String,
    prev: String,
    next: String,
    last: String,
}

/// The members after the resource in other envelopes.
#[derive(Serialize, ToSchema)]
pub(super) struct Tail {
    /// The operation: `GET`, `INSERT`, `UPDATE` or `DELETE`.
    response_type: &'static str,
    /// What the resource is.
    model: &'static str,
    /// When the answer was made.
    time: String,
}

/// What else a URL of a page holds.
const ROOM_FOR_PAGE: usize = 64;
/// About how long the end of a list is.
const ROOM_FOR_END: usize = 1024;
/// How a list begins.
const LIST_HEAD: &[u8] = b"{\"results\":[";

/// The items of a list as JSON after the list's beginning, separated by commas. So most of a long answer is written
/// once and not copied.
#[derive(Debug)]
pub struct Items {
    text: Vec<u8>,
    /// How many there are.
    pub count: usize,
}

impl Default for Items {
    fn default() -> Self {
        Self { text: LIST_HEAD.to_vec(), count: 0 }
    }
}

impl From<Views> for Items {
    /// Views that were written after [`Items::beginning`].
    fn from(views: Views) -> Self {
        let (text, count) = views.into_text();
        Self { text, count }
    }
}

impl Items {
    /// The text that precedes the items.
    pub fn beginning() -> Views {
        Views::behind(LIST_HEAD)
    }

    /// The text between the brackets.
    pub fn text(&self) -> &[u8] {
        &self.text[LIST_HEAD.len()..]
    }

    /// The list up to its end.
    pub fn into_beginning(self) -> Vec<u8> {
        self.text
    }

    /// The buffer for the next item.
    pub fn begin(&mut self) -> &mut Vec<u8> {
        if self.count > 0 {
            self.text.push(b',');
        }
        self.count += 1;
        &mut self.text
    }

    /// Documents as they are stored, with the date format of their resource.
    ///
    /// # Errors
    /// When stored bytes are damaged.
    pub fn of<W: Wire>(documents: &Documents) -> Result<Self, ApiError> {
        let mut items = Self::with_room(documents);
        for document in documents.iter() {
            write_document(&W::view(document), W::DATES, items.begin())?;
        }
        Ok(items)
    }

    /// What a pipeline made: documents with their `_id`, if they have one.
    ///
    /// # Errors
    /// When they nest too deep, or their bytes are damaged.
    pub fn of_results(documents: &Documents) -> Result<Self, ApiError> {
        let mut items = Self::with_room(documents);
        for document in documents.iter() {
            write::write_document(document, Shape::whole(DateStyle::Millis), items.begin()).map_err(
                |error| match error.0 {
                    // MongoDB's number for it. Stages may nest what is stored.
                    write::TOO_DEEP => {
                        StoreError::Query { code: 15, message: "a result nested deeper than 200 levels".to_owned() }
                    }
                    _ => StoreError::Corrupt { what: format!("a result: {error}") },
                },
            )?;
        }
        Ok(items)
    }

    /// None yet, with room for these documents.
    pub fn with_room(documents: &Documents) -> Self {
        let mut items = Self::default();
        items.text.reserve(documents.bytes() * 3 / 2 + ROOM_FOR_END);
        items
    }
}

/// Writes a stored document without its `_id`.
///
/// # Errors
/// When its bytes are damaged.
pub fn write_document(document: &RawDocument, dates: DateStyle, out: &mut Vec<u8>) -> Result<(), ApiError> {
    write::write_document(document, Shape::new(dates), out)
        .map_err(|error| StoreError::Corrupt { what: format!("a stored document: {error}") }.into())
}

/// The explanation of a list instead of the list.
pub fn explained(explanation: &Explanation) -> HttpResponse {
    let body = serde_json::to_string(explanation).expect("an explanation holds strings and numbers");
    hinted(json(StatusCode::OK, in_backticks(&body).into_bytes(), |_| {}), explanation.hint.as_ref())
}

/// The answer with a hint about its work, if that was much.
pub fn hinted(mut response: HttpResponse, hint: Option<&Hint>) -> HttpResponse {
    if let Some(text) = hint.and_then(|hint| HeaderValue::try_from(hint.to_string()).ok()) {
        response.headers_mut().insert(QUERY_HINT, text);
    }
    response
}

/// The answer with advice about the question, a header each.
pub fn advised(mut response: HttpResponse, advice: &[String]) -> HttpResponse {
    for text in advice.iter().filter_map(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().append(QUERY_HINT, text);
    }
    response
}

/// The list envelope.
///
/// # Errors
/// When the parameters of the client cannot be echoed.
pub fn list<W: Wire>(
    state: &HttpState,
    request: &HttpRequest,
    list_path: &str,
    params: &ListParams,
    items: Items,
    total: u64,
) -> Result<HttpResponse, ApiError> {
    let end = ListEnd::new::<W>(state, request, list_path, params, total)?;
    let text = end.text(items.count);
    let mut body = items.into_beginning();
    body.extend_from_slice(&text);
    let total = HeaderValue::from(total);
    Ok(json(StatusCode::OK, body, |response| {
        response.headers_mut().insert(TOTAL_COUNT, total);
        end.link(response.headers_mut());
    }))
}

/// The beginning of a tail with an unknown count.
const NO_COUNT: &[u8] = b",\"count\":0";

/// The end of a list envelope: everything after the last item.
pub struct ListEnd {
    /// The members after the count.
    tail: Vec<u8>,
    link: Option<HeaderValue>,
}

impl ListEnd {
    /// The end of a list, except for its count.
    ///
    /// # Errors
    /// When the parameters of the client cannot be echoed.
    pub fn new<W: Wire>(
        state: &HttpState,
        request: &HttpRequest,
        list_path: &str,
        params: &ListParams,
        total: u64,
    ) -> Result<Self, ApiError> {
        let total_pages = total.div_ceil(params.query.limit).max(1);
        let pagination = pagination(state, request, list_path, params, total_pages);
        let link = pagination.link(params, total_pages);
        let tail = ListTail {
            count: 0,
            total,
            parameters: Echo {
                limit: params.query.limit,
                sort: &params.sort,
                order: params.order,
                page: params.query.page,
                filter: echoed("filter", &params.filter)?,
                optional: Optional { view: params.view, active: params.active },
                projection: params.projection.as_deref().map(|text| echoed("projection", text)).transpose()?,
            },
            pager: Pager { page: params.query.page, page_size: params.query.limit, total_pages },
            pagination,
            response_type: "GET",
            model: W::MODEL,
            time: time::<W>(state.services.clock.now()),
        };
        let mut text = Vec::with_capacity(1024);
        append_members(&mut text, &tail);
        text.drain(..NO_COUNT.len());
        Ok(Self { tail: text, link })
    }

    /// Adds the header with the other pages.
    pub fn link(&self, headers: &mut HeaderMap) {
        if let Some(link) = &self.link {
            headers.insert(header::LINK, link.clone());
        }
    }

    /// The end of a list of this many items.
    pub fn text(&self, count: usize) -> Vec<u8> {
        [format!("],\"count\":{count}").as_bytes(), &self.tail].concat()
    }
}

fn echoed<'a>(name: &str, text: &'a str) -> Result<&'a RawValue, ApiError> {
    serde_json::from_str(text.trim()).map_err(|error| ApiError::parameter(name, error.to_string()))
}

/// A longer header would not pass all proxies; the members of the body say the same.
const LONGEST_LINK: usize = 4096;

impl Pagination {
    /// The other pages as a header (RFC 8288). The first page has no `prev`, and the last one no `next`.
    fn link(&self, params: &ListParams, total_pages: u64) -> Option<HeaderValue> {
        let page = params.query.page;
        let (has_pages, has_next) = match params.after {
            // After a cursor a list leads in one direction only.
            Some(_) => (false, params.next.is_some()),
            None => (true, page < total_pages),
        };
        let relations = [
            ("first", &self.first, true),
            ("prev", &self.prev, has_pages && page > 1),
            ("next", &self.next, has_next),
            ("last", &self.last, has_pages),
        ];
        let links = relations.iter().filter(|(_, _, is_there)| *is_there);
        let links: Vec<String> = links.map(|(name, url, _)| format!("<{url}>; rel=\"{name}\"")).collect();
        HeaderValue::try_from(links.join(", ")).ok().filter(|link| link.len() <= LONGEST_LINK)
    }
}

fn pagination(
    state: &HttpState,
    request: &HttpRequest,
    list_path: &str,
    params: &ListParams,
    total_pages: u64,
) -> Pagination {
    let origin = &state.links.origin(request);
    let list_url = resource_url(origin, list_path);
    let mut others = encode_query(params.sent.iter().filter(|(name, _)| !["page", "after"].contains(name)));
    let has_body = matches!(request.method().as_str(), "QUERY" | "POST");
    if has_body && list_path.len() + others.len() + ROOM_FOR_PAGE > state.max_uri_bytes {
        // Nobody could ask for such a URL with GET: it is used with the same body, by QUERY.
        others.clear();
    }
    let page = |number: u64| {
        let separator = if others.is_empty() { "" } else { "&" };
        format!("{list_url}?page={number}{separator}{others}")
    };
    let after = |cursor: &str| {
        let separator = if others.is_empty() { "" } else { "&" };
        format!("{list_url}?after={cursor}{separator}{others}")
    };
    let current = params.query.page;
    let sent = request.extensions().get::<AsSent>().map_or_else(|| request.uri().clone(), |sent| sent.0.clone());
    if params.after.is_some() {
        let url = format!("{origin}{sent}");
        let next = params.next.as_deref().map_or_else(|| url.clone(), after);
        let prev = page(current.saturating_sub(1).clamp(1, total_pages));
        return Pagination { current: url, first: after(""), prev, next, last: page(total_pages) };
    }
    Pagination {
        current: format!("{origin}{sent}"),
        first: page(1),
        prev: page(current.saturating_sub(1).clamp(1, total_pages)),
        next: page(current.saturating_add(1).min(total_pages)),
        last: page(total_pages),
    }
}

/// The single read envelope with its entity tag, or 304 if the client has it.
///
/// # Errors
/// When stored bytes are damaged.
pub fn single<W: Wire>(
    state: &HttpState,
    request: &HttpRequest,
    document: &RawDocument,
) -> Result<HttpResponse, ApiError> {
    let document = &*W::view(document);
    let tag = precondition::entity_tag(document);
    if let Some(not_modified) = conditional::not_modified(request, &tag) {
        return Ok(not_modified);
    }
    let body = wrapped::<W>(state, b"{\"result\":", document, "GET")?;
    Ok(tagged(json(StatusCode::OK, body, |_| {}), &tag))
}

/// A document alone, without an envelope, with its entity tag, or 304.
///
/// # Errors
/// When stored bytes are damaged.
pub fn bare<W: Wire>(request: &HttpRequest, document: &RawDocument) -> Result<HttpResponse, ApiError> {
    let tag = precondition::entity_tag(document);
    if let Some(not_modified) = conditional::not_modified(request, &tag) {
        return Ok(not_modified);
    }
    let mut body = Vec::with_capacity(document.as_bytes().len() * 2);
    write_document(document, W::DATES, &mut body)?;
    Ok(tagged(json(StatusCode::OK, body, |_| {}), &tag))
}

/// The insert envelope, with `Location` and the entity tag.
///
/// # Errors
/// When stored bytes are damaged.
pub fn inserted<W: Wire>(
    state: &HttpState,
    request: &HttpRequest,
    status: StatusCode,
    document: &RawDocument,
) -> Result<HttpResponse, ApiError> {
    let id = public_id(document);
    inserted_at::<W>(state, request, (status, &format!("{}{id}", W::PATH)), &id, document, &Nothing {})
}

/// The insert envelope of a resource outside [`Wire::PATH`]: status and path, `result_id`, the document, and further
/// members.
///
/// # Errors
/// When stored bytes are damaged.
pub fn inserted_at<W: Wire>(
    state: &HttpState,
    request: &HttpRequest,
    (status, path): (StatusCode, &str),
    result_id: &impl Serialize,
    document: &RawDocument,
    beside: &impl Serialize,
) -> Result<HttpResponse, ApiError> {
    let document = &*W::view(document);
    let id = serde_json::to_string(result_id).expect("an id is a number or a string");
    let mut body = wrapped::<W>(state, format!("{{\"result_id\":{id},\"raw\":").as_bytes(), document, "INSERT")?;
    body.pop();
    append_members(&mut body, beside);
    let response = located(state, request, json(status, body, |_| {}), path);
    Ok(tagged(response, &precondition::entity_tag(document)))
}

/// The update envelope, with `Location` and the entity tag.
///
/// # Errors
/// When stored bytes are damaged.
pub fn updated<W: Wire>(
    state: &HttpState,
    request: &HttpRequest,
    status: StatusCode,
    document: &RawDocument,
) -> Result<HttpResponse, ApiError> {
    updated_at::<W>(state, request, (status, &format!("{}{}", W::PATH, public_id(document))), document)
}

/// The update envelope of a resource outside [`Wire::PATH`].
///
/// # Errors
/// When stored bytes are damaged.
pub fn updated_at<W: Wire>(
    state: &HttpState,
    request: &HttpRequest,
    (status, path): (StatusCode, &str),
    document: &RawDocument,
) -> Result<HttpResponse, ApiError> {
    let document = &*W::view(document);
    let body = wrapped::<W>(state, b"{\"result\":", document, "UPDATE")?;
    let response = located(state, request, json(status, body, |_| {}), path);
    Ok(tagged(response, &precondition::entity_tag(document)))
}

/// The delete envelope; `beside` lists the other changes.
///
/// # Errors
/// When stored bytes are damaged.
pub fn deleted<W: Wire>(
    state: &HttpState,
    status: StatusCode,
    document: &RawDocument,
    beside: &impl Serialize,
) -> Result<HttpResponse, ApiError> {
    let mut body = wrapped::<W>(state, b"{\"deleted_entry\":", &W::view(document), "DELETE")?;
    body.pop();
    append_members(&mut body, beside);
    Ok(json(status, body, |_| {}))
}

/// An envelope of `head`, `items` in brackets, and the common end.
pub fn collection<W: Wire>(
    state: &HttpState,
    status: StatusCode,
    name: &str,
    items: &Items,
    beside: &impl Serialize,
    response_type: &'static str,
) -> HttpResponse {
    let mut body = format!("{{\"{name}\":[").into_bytes();
    body.extend_from_slice(items.text());
    body.push(b']');
    append_members(&mut body, beside);
    body.pop();
    append_members(&mut body, &tail::<W>(state, response_type));
    json(status, body, |_| {})
}

/// What ends `results` that have no pager.
pub fn end<W: Wire>(state: &HttpState) -> Vec<u8> {
    let mut end = b"]".to_vec();
    append_members(&mut end, &tail::<W>(state, "GET"));
    end
}

/// The single read envelope around a value that is not a stored document.
pub fn value<W: Wire>(state: &HttpState, result: &impl Serialize) -> HttpResponse {
    let mut body = b"{\"result\":".to_vec();
    body.extend_from_slice(&serde_json::to_vec(result).expect("envelopes hold strings, numbers and JSON"));
    append_members(&mut body, &tail::<W>(state, "GET"));
    json(StatusCode::OK, body, |_| {})
}

/// Nothing but the resource.
#[derive(Serialize)]
pub struct Nothing {}

fn wrapped<W: Wire>(
    state: &HttpState,
    head: &[u8],
    document: &RawDocument,
    response_type: &'static str,
) -> Result<Vec<u8>, ApiError> {
    let mut body = Vec::with_capacity(document.as_bytes().len() * 2 + 256);
    body.extend_from_slice(head);
    write_document(document, W::DATES, &mut body)?;
    append_members(&mut body, &tail::<W>(state, response_type));
    Ok(body)
}

fn tail<W: Wire>(state: &HttpState, response_type: &'static str) -> Tail {
    Tail { response_type, model: W::MODEL, time: time::<W>(state.services.clock.now()) }
}

/// Appends the members of the object `more`, and closes the object that `body` began.
fn append_members(body: &mut Vec<u8>, more: &impl Serialize) {
    let begin = body.len();
    serde_json::to_writer(&mut *body, more).expect("envelopes hold strings, numbers and JSON");
    // Its brace becomes the comma, unless nothing but another brace follows.
    if body.len() > begin + 2 {
        body[begin] = b',';
    } else {
        body.remove(begin);
    }
}

fn time<W: Wire>(now: DateTime<Utc>) -> String {
    let format = match W::DATES {
        DateStyle::Spaced => SPACED_TIME,
        DateStyle::Iso | DateStyle::Millis => ISO_TIME,
    };
    now.format(format).to_string()
}

/// The id of a stored document, 0 where other tools left none.
fn public_id(document: &RawDocument) -> i64 {
    integer(document, "public_id").unwrap_or_default()
}

/// A JSON answer.
pub fn json(status: StatusCode, body: Vec<u8>, finish: impl FnOnce(&mut HttpResponse)) -> HttpResponse {
    let mut response = HttpResponse::build(status).content_type("application/json").body(body);
    finish(&mut response);
    response
}

/// The answer with an entity tag.
pub fn tagged(mut response: HttpResponse, tag: &str) -> HttpResponse {
    response.headers_mut().insert(header::ETAG, conditional::quoted(tag));
    response.headers_mut().insert(header::CACHE_CONTROL, conditional::CACHE_CONTROL);
    response
}

/// The answer with a secret, which no cache may keep.
pub fn secret(mut response: HttpResponse) -> HttpResponse {
    response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
    response
}

fn located(state: &HttpState, request: &HttpRequest, mut response: HttpResponse, path: &str) -> HttpResponse {
    let url = resource_url(&state.links.origin(request), path);
    if let Ok(url) = HeaderValue::try_from(url) {
        response.headers_mut().insert(header::LOCATION, url);
    }
    response
}
