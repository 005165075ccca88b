//! Request bodies: JSON only, compressed or not, bounded in size, values and time.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::http::header::{self, HeaderValue};
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use bson::{Bson, Document, RawDocumentBuf};
use futures::StreamExt;
use futures::future::LocalBoxFuture;
use tokio::time::timeout;

use super::body_quota::Arriving;
use super::edge::coding::{Coding, NAMES, Unpacked};
use super::error::ApiError;
use super::limits::BodyLimits;
use super::params::pairs;
use crate::admission;
use crate::domain::Violation;
use crate::json;
use crate::json::read::{JsonError, ListError, ListLimits, most_values};
use crate::plural::counted;
use crate::service::{Caller, ErrorCode, ServiceError, resource};

/// A body that is a JSON object, as a document: key order kept, `{"$date": ...}` read as a date.
pub(super) struct JsonBody(pub Document);

/// A body that is any JSON value.
pub(super) struct JsonValue(pub serde_json::Value);

impl FromRequest for JsonBody {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = read_text(request, payload);
        let of_lists = match (request.method(), request.match_pattern().as_deref()) {
            (&Method::POST, Some("/rest/objects/")) => Some("several objects go to POST /rest/objects/bulk"),
            (&Method::POST, Some("/rest/objects/aggregate")) => Some("send {\"pipeline\": [...]}"),
            _ => None,
        };
        let read = move |text: &str| match of_lists.filter(|_| text.trim_start().starts_with('[')) {
            Some(meant) => Err(malformed(format!("it is an array; {meant}"))),
            None => document(text),
        };
        Box::pin(async move { Ok(Self(parsed(text.await?, read).await?)) })
    }
}

impl FromRequest for JsonValue {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = read_text(request, payload);
        Box::pin(async move {
            let read = |text: &str| {
                if text.trim_ascii().is_empty() {
                    return Err(malformed("it is empty; send a JSON value".to_owned()));
                }
                // Only this reader counts values and sees duplicate keys.
                json::read::value_from_str(text).map_err(|error| malformed(error.to_string()))?;
                serde_json::from_str(text).map_err(|error| malformed(error.to_string()))
            };
            parsed(text.await?, read).await.map(Self)
        })
    }
}

/// A body that is a form of a browser: names and values, decoded, in order. A name may be there several times.
pub struct FormBody {
    /// Names and values.
    pub pairs: Vec<(String, String)>,
    /// Counts until the form is gone.
    _arriving: Option<Arriving>,
}

impl FromRequest for FormBody {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let is_form = essence(request).is_some_and(|essence| essence.eq_ignore_ascii_case(FORM));
        let sent = Sent::of(request, is_form, |limits| (limits.max_bytes, "server.max_body_bytes"));
        let payload = payload.take();
        Box::pin(async move {
            let text = sent?.read_text(payload).await?;
            let pairs = pairs(&text.text)?;
            Ok(Self { pairs, _arriving: text.arriving })
        })
    }
}

/// The type of a form of a browser.
const FORM: &str = "application/x-www-form-urlencoded";

/// A body that is a list of JSON objects, as an array or one per line. If an item is not an object, only this item is
/// wrong.
pub(super) struct JsonItems {
    pub items: Vec<Result<RawDocumentBuf, ServiceError>>,
    /// The items count as memory as long as they are in use.
    pub arriving: Option<Arriving>,
}

impl FromRequest for JsonItems {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let is_lines = is_lines(request);
        let bound = |limits: &BodyLimits| (limits.max_bulk_bytes, "api.max_bulk_body_bytes");
        let sent = Sent::of(request, is_lines || is_json(request), bound);
        let limits = request.app_data::<web::Data<BodyLimits>>();
        let most = limits.map_or(0, |limits| limits.max_bulk);
        let payload = payload.take();
        Box::pin(async move {
            let mut sent = sent?;
            let bytes = sent.collect(payload).await?;
            let limits = ListLimits { items: most, values: most_values(sent.most) };
            admission::work(move |_| items_of(&bytes, sent, is_lines, limits)).await?
        })
    }
}

/// The types of JSON, one value a line.
pub(super) const LINES: [&str; 3] = ["application/x-ndjson", "application/ndjson", "application/jsonl"];

pub(super) fn is_lines(request: &HttpRequest) -> bool {
    essence(request).is_some_and(|essence| LINES.iter().any(|name| essence.eq_ignore_ascii_case(name)))
}

/// A list of objects, read item by item during decompression.
fn items_of(bytes: &[u8], mut sent: Sent, is_lines: bool, limits: ListLimits) -> Result<JsonItems, ApiError> {
    let mut items = Vec::new();
    let mut arriving = sent.arriving.take();
    let mut push = |item: Result<RawDocumentBuf, ServiceError>| {
        let size = item.as_ref().map_or(0, |item| item.as_bytes().len());
        items.push(item);
        arriving.as_mut().is_none_or(|arriving| arriving.take(size).is_ok())
    };
    let is_over = Cell::new(false);
    let bytes = bytes.strip_prefix(MARK.as_bytes()).unwrap_or(bytes);
    let read = match sent.coding {
        None if is_lines => json::read::line_items(bytes, limits, |line| push(of_line(line))),
        None => json::read::array_items(bytes, limits, |item| push(of_value(item))),
        Some(coding) => coding.reader(bytes).map_err(Into::into).and_then(|unpacked| {
            let unpacked = past_mark(BufReader::new(Bounded { unpacked, left: sent.most, is_over: &is_over }))?;
            if is_lines {
                return json::read::line_items(unpacked, limits, |line| push(of_line(line)));
            }
            json::read::array_items_from(unpacked, limits, |item| push(of_value(item)))
        }),
    };
    match (read, sent.coding) {
        (Ok(()), _) => Ok(JsonItems { items, arriving }),
        (Err(_), _) if is_over.get() => Err(sent.too_large()),
        (Err(ListError::Stopped), _) => Err(ApiError::bodies_busy()),
        (Err(ListError::TooMany(most)), _) => {
            let message =
                format!("more than {} are too many for one request; send at most {most}", counted(most, "object"));
            Err(ApiError::new(ErrorCode::TooManyObjects, message))
        }
        (Err(ListError::Io(error)), Some(coding)) => Err(unreadable(coding, &error)),
        (Err(ListError::Json(error)), _) if error.message.ends_with("found an object") => Err(malformed(format!(
            "{error}; one object goes to POST /rest/objects/, and objects one a line are \
                 application/x-ndjson"
        ))),
        (Err(error), _) => Err(malformed(error.to_string())),
    }
}

/// The mark that some editors and shells write before a text. JSON has none, and readers may ignore it (RFC 8259, section
/// 8.1).
const MARK: &str = "\u{feff}";

fn past_mark<R: BufRead>(mut reader: R) -> io::Result<R> {
    if reader.fill_buf()?.starts_with(MARK.as_bytes()) {
        reader.consume(MARK.len());
    }
    Ok(reader)
}

/// The decompressed body, up to its bound.
struct Bounded<'a> {
    unpacked: Box<dyn Read + 'a>,
    left: usize,
    is_over: &'a Cell<bool>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.unpacked.read(buffer)?;
        let Some(left) = self.left.checked_sub(count) else {
            self.is_over.set(true);
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        Ok(count)
    }
}

/// An item in a compact form.
fn of_value(item: Bson) -> Result<RawDocumentBuf, ServiceError> {
    match item {
        Bson::Document(document) => resource::encode(&document),
        _ => Err(no_item("expected an object")),
    }
}

fn of_line(line: Result<Document, JsonError>) -> Result<RawDocumentBuf, ServiceError> {
    resource::encode(&line.map_err(|error| no_item(&error.to_string()))?)
}

fn no_item(reason: &str) -> ServiceError {
    ServiceError::refused(ErrorCode::JsonMalformed, format!("the item is not as JSON has to be: {reason}"))
}

/// Parses a text; a long one on a separate thread.
async fn parsed<T: Send + 'static>(
    text: Text,
    parse: impl FnOnce(&str) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let parse = |text: &Text| parse(text.text.strip_prefix(MARK).unwrap_or(&text.text));
    if text.text.len() <= SHORT {
        return parse(&text);
    }
    // The whole value moves, so that it counts as memory just as long.
    admission::work(move |_| {
        let text = text;
        parse(&text)
    })
    .await?
}

/// Up to this many bytes are parsed on the thread of the request.
const SHORT: usize = 8 * 1024;

fn document(text: &str) -> Result<Document, ApiError> {
    if text.trim_ascii().is_empty() {
        return Err(malformed("it is empty; send a JSON object".to_owned()));
    }
    json::read::document_from_str(text).map_err(|error| malformed(error.to_string()))
}

fn malformed(reason: String) -> ApiError {
    ApiError::new(ErrorCode::JsonMalformed, format!("the body is not as JSON has to be: {reason}"))
        .at(Violation::new("", reason).into())
}

fn read_text(request: &HttpRequest, payload: &mut Payload) -> LocalBoxFuture<'static, Result<Text, ApiError>> {
    let sent = Sent::of(request, is_json(request), |limits| (limits.max_bytes, "server.max_body_bytes"));
    let payload = payload.take();
    Box::pin(async move { sent?.read_text(payload).await })
}

/// A text, and the count of its bytes.
struct Text {
    text: String,
    /// Counts until the text is gone.
    arriving: Option<Arriving>,
}

/// The maximum number of bytes of a body on a route without a token.
const MOST_WITHOUT_TOKEN: usize = 8 * 1024;

/// The facts about the body in the head of a request.
pub(super) struct Sent {
    most: usize,
    /// Where its bound comes from.
    setting: &'static str,
    timeout: Duration,
    coding: Option<Coding>,
    /// The arrived part. Nothing is counted on routes without a token, because their bodies are short.
    pub(super) arriving: Option<Arriving>,
}

impl Sent {
    pub(super) fn of(
        request: &HttpRequest,
        is_wanted: bool,
        bound: impl Fn(&BodyLimits) -> (usize, &'static str),
    ) -> Result<Self, ApiError> {
        let limits = request.app_data::<web::Data<BodyLimits>>();
        let limits = limits.ok_or_else(|| ApiError::of(ErrorCode::Internal))?;
        if !is_wanted {
            return Err(ApiError::of(ErrorCode::NotJson));
        }
        let caller = request.extensions().get::<Arc<Caller>>().map(|caller| caller.user_id);
        let (most, setting) = match (caller, bound(limits)) {
            (None, (most, _)) if most > MOST_WITHOUT_TOKEN => (MOST_WITHOUT_TOKEN, "8 KiB, the most without a token"),
            (_, bound) => bound,
        };
        let mut sent = Self { most, setting, timeout: limits.timeout, coding: coding(request)?, arriving: None };
        let length =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if length.is_some_and(|length: u64| length > most as u64) {
            return Err(sent.too_large());
        }
        sent.arriving = caller.map(|user_id| limits.body_quota.begin(user_id));
        Ok(sent)
    }

    pub(super) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn too_large(&self) -> ApiError {
        let message = format!("the body is larger than {}", self.setting);
        ApiError::new(ErrorCode::BodyTooLarge, message)
    }

    async fn read_text(mut self, payload: Payload) -> Result<Text, ApiError> {
        let bytes = self.collect(payload).await?;
        let bytes = self.unpack(bytes).await?;
        let text = String::from_utf8(bytes).map_err(|_| malformed("it is not UTF-8".to_owned()))?;
        Ok(Text { text, arriving: self.arriving })
    }

    /// Reads the body to its end, in any number of parts.
    pub(super) async fn collect(&mut self, payload: Payload) -> Result<Vec<u8>, ApiError> {
        let timeout_after = self.timeout;
        let collected = timeout(timeout_after, self.collect_all(payload)).await;
        let late = || {
            let message = "the body took longer to arrive than the service waits; see server.limits.body_timeout_ms";
            ApiError::new(ErrorCode::BodyTooSlow, message)
        };
        collected.map_err(|_| late())?
    }

    async fn collect_all(&mut self, mut payload: Payload) -> Result<Vec<u8>, ApiError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = payload.next().await {
            let chunk =
                chunk.map_err(|_| ApiError::new(ErrorCode::BodyUnreadable, "the body could not be read to its end"))?;
            if bytes.len() + chunk.len() > self.most {
                return Err(self.too_large());
            }
            if let Some(arriving) = &mut self.arriving {
                arriving.take(chunk.len())?;
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// The body, decompressed from its coding.
    pub(super) async fn unpack(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>, ApiError> {
        let (Some(coding), most) = (self.coding, self.most) else { return Ok(bytes) };
        let packed = bytes.len();
        match admission::work(move |_| coding.unpack(&bytes, most)).await? {
            Unpacked::Whole(bytes) => {
                if let Some(arriving) = &mut self.arriving {
                    arriving.give_back(packed);
                    arriving.take(bytes.len())?;
                }
                Ok(bytes)
            }
            Unpacked::TooLarge => Err(self.too_large()),
            Unpacked::Broken(error) => Err(unreadable(coding, &error)),
        }
    }
}

fn unreadable(coding: Coding, error: &io::Error) -> ApiError {
    let message = format!("the body is not as Content-Encoding says: {} cannot be read: {error}", coding.name());
    ApiError::new(ErrorCode::BodyUnreadable, message)
}

/// The coding of the body; at most one.
fn coding(request: &HttpRequest) -> Result<Option<Coding>, ApiError> {
    let named = request.headers().get_all(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or("?"));
    let named: Vec<&str> = named.flat_map(|value| value.split(',')).map(str::trim).collect();
    match *named {
        [] => Ok(None),
        [name] if name.eq_ignore_ascii_case("identity") => Ok(None),
        [name] if Coding::named(name).is_some() => Ok(Coding::named(name)),
        _ => {
            let message = format!("send the body as it is, or with one Content-Encoding of {NAMES}");
            Err(ApiError::new(ErrorCode::ContentEncodingUnknown, message)
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
pub(super) fn essence(request: &HttpRequest) -> Option<&str> {
    let content_type = request.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    content_type.split(';').next().map(str::trim)
}
