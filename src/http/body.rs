//! Request bodies: JSON only, bounded in size and time, packed or not, read once.

use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{FromRequest, HttpRequest, web};
use bson::{Bson, Document};
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::edge::coding::{Coding, NAMES, Unpacked};
use super::error::ApiError;
use super::state::HttpState;
use crate::domain::Violation;
use crate::json;
use crate::service::ServiceError;

/// A body that is a JSON object, as a document: key order kept, `{"$date": ...}` read as a date.
pub(super) struct JsonBody(pub Document);

/// A body that is any JSON value.
pub(super) struct JsonValue(pub serde_json::Value);

impl FromRequest for JsonBody {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = read_text(request, payload);
        Box::pin(async move { Ok(Self(document(&text.await?)?)) })
    }
}

impl FromRequest for JsonValue {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = read_text(request, payload);
        Box::pin(async move {
            let text = text.await?;
            if text.trim_start().starts_with('{') {
                // Only this reader sees duplicate keys.
                document(&text)?;
            }
            serde_json::from_str(&text).map(Self).map_err(|error| malformed(error.to_string()))
        })
    }
}

/// A body that is a list of JSON objects, as an array or one a line. Something else in the place of an object is the matter
/// of that item.
pub(super) struct JsonItems(pub Vec<Result<Document, ServiceError>>);

impl FromRequest for JsonItems {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let is_lines = is_lines(request);
        let sent = Sent::of(request, is_lines || is_json(request), |limits| limits.max_bulk_bytes);
        let payload = payload.take();
        Box::pin(async move {
            let text = sent?.read_text(payload).await?;
            let items = web::block(move || if is_lines { Ok(lines(&text)) } else { elements(&text) }).await;
            items.map_err(|_| ApiError::of_status(StatusCode::INTERNAL_SERVER_ERROR))?.map(Self)
        })
    }
}

/// A body that is a file of objects.
pub(super) struct File {
    pub bytes: Vec<u8>,
    /// What it says that it is.
    pub said: Said,
    /// Held as long as the file is worked on.
    pub place: OwnedSemaphorePermit,
}

/// What the head of a request says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Lines of JSON.
    Lines,
    /// A table of a spreadsheet.
    Sheet,
    /// A table as text, or nothing in particular.
    Table,
}

/// The type of tables of spreadsheets.
pub(super) const SHEET: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// The types of such files, as programs call them that do not know better, too.
const FILES: [&str; 4] = ["text/csv", SHEET, "text/plain", "application/octet-stream"];

impl FromRequest for File {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let sent = Sent::of(request, true, |limits| limits.max_import_bytes);
        let state = request.app_data::<web::Data<HttpState>>();
        let places = state.map(|state| Arc::clone(&state.import_places));
        let places = places.ok_or_else(|| ApiError::of_status(StatusCode::INTERNAL_SERVER_ERROR));
        let said = said(request);
        let is_file = essence(request)
            .is_some_and(|essence| FILES.iter().chain(&LINES).any(|name| essence.eq_ignore_ascii_case(name)));
        let payload = payload.take();
        Box::pin(async move {
            if !is_file {
                let message =
                    "send the file as it is, with Content-Type: text/csv, application/x-ndjson or that of xlsx";
                return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_a_file", message));
            }
            // The whole request has a time budget of its own.
            let place = places?.try_acquire_owned().map_err(|_| ApiError::busy())?;
            let bytes = sent?.within(Duration::MAX).read(payload).await?;
            Ok(Self { bytes, said, place })
        })
    }
}

fn said(request: &HttpRequest) -> Said {
    match essence(request) {
        Some(essence) if essence.eq_ignore_ascii_case(SHEET) => Said::Sheet,
        _ if is_lines(request) => Said::Lines,
        _ => Said::Table,
    }
}

/// The types of JSON, one value a line.
const LINES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

fn is_lines(request: &HttpRequest) -> bool {
    essence(request).is_some_and(|essence| LINES.iter().any(|name| essence.eq_ignore_ascii_case(name)))
}

fn lines(text: &str) -> Vec<Result<Document, ServiceError>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| json::read::document_from_str(line).map_err(|error| no_item(&error.to_string()))).collect()
}

fn elements(text: &str) -> Result<Vec<Result<Document, ServiceError>>, ApiError> {
    match json::read::value_from_str(text).map_err(|error| malformed(error.to_string()))? {
        Bson::Array(elements) => Ok(elements
            .into_iter()
            .map(|element| match element {
                Bson::Document(document) => Ok(document),
                _ => Err(no_item("expected an object")),
            })
            .collect()),
        _ => Err(malformed("expected an array of objects".to_owned())),
    }
}

fn no_item(reason: &str) -> ServiceError {
    ServiceError::invalid("json_malformed", format!("the item is not as JSON has to be: {reason}"))
}

fn document(text: &str) -> Result<Document, ApiError> {
    json::read::document_from_str(text).map_err(|error| malformed(error.to_string()))
}

fn malformed(reason: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "json_malformed", format!("the body is not as JSON has to be: {reason}"))
        .at(vec![Violation::new("", reason)])
}

/// How large bodies may be, unpacked, and how long they may take to arrive.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// In bytes.
    pub max_bytes: usize,
    /// In bytes, where a body holds many objects.
    pub max_bulk_bytes: usize,
    /// In bytes, where a body is a file.
    pub max_import_bytes: usize,
    /// From the head of the request to the last byte.
    pub timeout: Duration,
}

fn read_text(request: &HttpRequest, payload: &mut Payload) -> LocalBoxFuture<'static, Result<String, ApiError>> {
    let sent = Sent::of(request, is_json(request), |limits| limits.max_bytes);
    let payload = payload.take();
    Box::pin(async move { sent?.read_text(payload).await })
}

/// What the head of a request says of its body.
struct Sent {
    most: usize,
    timeout: Duration,
    coding: Option<Coding>,
}

impl Sent {
    fn of(request: &HttpRequest, is_wanted: bool, most: impl Fn(&BodyLimits) -> usize) -> Result<Self, ApiError> {
        let state = request.app_data::<web::Data<HttpState>>();
        let limits = state.ok_or_else(|| ApiError::of_status(StatusCode::INTERNAL_SERVER_ERROR))?.bodies;
        let most = most(&limits);
        if !is_wanted {
            return Err(ApiError::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > most as u64) {
            return Err(ApiError::of_status(StatusCode::PAYLOAD_TOO_LARGE));
        }
        Ok(Self { most, timeout: limits.timeout, coding: coding(request)? })
    }

    fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    async fn read_text(self, payload: Payload) -> Result<String, ApiError> {
        String::from_utf8(self.read(payload).await?).map_err(|_| malformed("it is not UTF-8".to_owned()))
    }

    /// Reads the body to its end, however the client splits it up, and unpacks it.
    async fn read(self, payload: Payload) -> Result<Vec<u8>, ApiError> {
        let most = self.most;
        let bytes = timeout(self.timeout, collect(payload, most))
            .await
            .map_err(|_| ApiError::of_status(StatusCode::REQUEST_TIMEOUT))??;
        let Some(coding) = self.coding else { return Ok(bytes) };
        match web::block(move || coding.unpack(&bytes, most)).await {
            Ok(Unpacked::Whole(bytes)) => Ok(bytes),
            Ok(Unpacked::TooLarge) => Err(ApiError::of_status(StatusCode::PAYLOAD_TOO_LARGE)),
            Ok(Unpacked::Broken(error)) => {
                let message =
                    format!("the body is not as Content-Encoding says: {} cannot be read: {error}", coding.name());
                Err(ApiError::new(StatusCode::BAD_REQUEST, "body_unreadable", message))
            }
            Err(_) => Err(ApiError::of_status(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }
}

async fn collect(mut payload: Payload, most: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| {
            ApiError::new(StatusCode::BAD_REQUEST, "body_unreadable", "the body could not be read to its end")
        })?;
        if bytes.len() + chunk.len() > most {
            return Err(ApiError::of_status(StatusCode::PAYLOAD_TOO_LARGE));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The coding that the body is in; one at the most.
fn coding(request: &HttpRequest) -> Result<Option<Coding>, ApiError> {
    let named = request.headers().get_all(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    let named: Vec<&str> = named.flat_map(|value| value.split(',')).map(str::trim).collect();
    match *named {
        [] => Ok(None),
        [name] if name.eq_ignore_ascii_case("identity") => Ok(None),
        [name] if Coding::named(name).is_some() => Ok(Coding::named(name)),
        _ => {
            let message = format!("send the body as it is, or with one Content-Encoding of {NAMES}");
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "content_encoding_unknown", message)
                .with(header::ACCEPT_ENCODING, HeaderValue::from_static(NAMES)))
        }
    }
}

/// `application/json`, and on PATCH `application/merge-patch+json`, with any parameters.
fn is_json(request: &HttpRequest) -> bool {
    let essence = essence(request).unwrap_or_default();
    let is_merge_patch =
        request.method() == Method::PATCH && essence.eq_ignore_ascii_case("application/merge-patch+json");
    is_merge_patch || essence.eq_ignore_ascii_case("application/json")
}

/// The type of the body without parameters.
fn essence(request: &HttpRequest) -> Option<&str> {
    let content_type = request.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    content_type.split(';').next().map(str::trim)
}
