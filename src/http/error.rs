//! Errors on the wire: one shape, and the only place that knows status codes (decisions 2).

use std::borrow::Cow;
use std::fmt;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::codes;
use crate::admission::Denied;
use crate::auth::AuthError;
use crate::domain::violation::clipped;
use crate::domain::{Violation, Violations};
use crate::query::QueryError;
use crate::service::ServiceError;
use crate::service::accounts::AccountError;
use crate::service::import::ImportReport;
use crate::store::StoreError;

/// Seconds after which asking again makes sense when the store is away.
const RETRY_AFTER_S: &str = "2";

/// The code of a parse that was given up; see [`QueryError::is_unfinished`].
const UNFINISHED: &str = "query_262";

/// An answer that is an error.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: Cow<'static, str>,
    message: String,
    errors: Violations,
    report: Option<Box<serde_json::Value>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The body of every error.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorBody<'a> {
    /// The status of the answer.
    status: u16,
    /// The name of the status.
    response: &'a str,
    /// What went wrong, as a stable name; each answer lists those that it can have as `x-codes`.
    code: &'a str,
    /// What went wrong, for people.
    message: &'a str,
    /// The places of the body, or the parameters, that are wrong.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(required = false)]
    errors: &'a [Violation],
    /// How many more places are wrong; 100 are listed.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    errors_left_out: usize,
    /// What an import found, where it is one that was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = ImportReport)]
    report: Option<&'a serde_json::Value>,
    /// As in the header `X-Request-ID`.
    request_id: &'a str,
}

impl ApiError {
    /// An error with a stable code, one of [`codes::CODES`], and a sentence.
    pub fn new(status: StatusCode, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let code = code.into();
        debug_assert!(codes::is_known(status.as_u16(), &code), "http/codes.rs has no {code} with {status}");
        let message = clipped(message.into());
        Self { status, code, message, errors: Violations::new(), report: None, headers: Vec::new() }
    }

    /// 400 for a query parameter.
    pub fn parameter(name: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let mut error = Self::new(StatusCode::BAD_REQUEST, "parameter_invalid", format!("{name}: {message}"));
        error.errors.push(Violation::new(name, message));
        error
    }

    /// 404 for a path that leads nowhere.
    pub fn no_such_path() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "there is nothing under this path")
    }

    /// 401 with the challenge that RFC 6750 asks for.
    pub fn unauthorized(code: &'static str, message: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, code, message)
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 503 for a request that took longer than all of it may take; the setting says how long that is.
    pub fn out_of_time(setting: &str) -> Self {
        unavailable("request_timeout", format!("the request took longer than {setting}; it may have taken effect"))
    }

    /// 503 while there is no memory or no turn for what was asked.
    pub fn too_much() -> Self {
        unavailable("busy", "too much is under way for this request; try again")
    }

    /// Whether a question could not be read in the time that there is at once.
    pub(super) fn is_unfinished(&self) -> bool {
        self.code == UNFINISHED
    }

    /// 503 while a user sends as many files as one may.
    pub fn imports_busy() -> Self {
        unavailable("imports_busy", "other imports of yours are under way; try again when one of them is done")
    }

    /// 503 while as many bytes of bodies are on their way in as there may be.
    pub fn bodies_busy() -> Self {
        unavailable("bodies_busy", "other large bodies are on their way in; try again when one of them is done")
    }

    /// 503 while documents are not stored as this version needs them.
    pub fn not_migrated(reason: &str) -> Self {
        unavailable("store_not_migrated", format!("the store cannot be used: {reason}"))
    }

    /// The generic error for a status that something below produced without a body of ours.
    pub fn of_status(status: StatusCode) -> Self {
        let (code, message) = match status {
            StatusCode::NOT_FOUND => return Self::no_such_path(),
            StatusCode::METHOD_NOT_ALLOWED => ("method_not_allowed", "this path does not know the method; see Allow"),
            StatusCode::URI_TOO_LONG => (
                "uri_too_long",
                "path and query are longer than server.limits.max_uri_bytes; send the parameters of a list in a body to \
                 POST /rest/objects/query",
            ),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
                ("headers_too_large", "the headers are larger than server.limits.max_header_bytes")
            }
            StatusCode::REQUEST_TIMEOUT => {
                ("body_too_slow", "the body took longer to arrive than server.limits.body_timeout_ms")
            }
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ("not_json", "send JSON with Content-Type: application/json"),
            status if status.is_client_error() => ("bad_request", "the request cannot be understood"),
            _ => ("internal", "something went wrong here; the log names the cause"),
        };
        Self::new(status, code, message)
    }

    /// Its stable code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The same error with a further header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same error with the places that are wrong.
    #[must_use]
    pub fn at(mut self, errors: Violations) -> Self {
        self.errors = errors;
        self
    }

    /// The same error with the report of an import.
    #[must_use]
    pub fn reporting(mut self, report: serde_json::Value) -> Self {
        self.report = Some(Box::new(report));
        self
    }

    /// The error as one of several outcomes of a request.
    pub fn as_item(&self) -> serde_json::Value {
        let mut item = json!({"status": self.status.as_u16(), "code": self.code, "message": self.message});
        if !self.errors.listed().is_empty() {
            item["errors"] = json!(self.errors.listed());
        }
        if self.errors.left_out() > 0 {
            item["errors_left_out"] = json!(self.errors.left_out());
        }
        item
    }

    /// The body with the request's id.
    pub fn body(&self, request_id: &str) -> String {
        let body = ErrorBody {
            status: self.status.as_u16(),
            response: self.status.canonical_reason().unwrap_or("Error"),
            code: &self.code,
            message: &self.message,
            errors: self.errors.listed(),
            errors_left_out: self.errors.left_out(),
            report: self.report.as_deref(),
            request_id,
        };
        serde_json::to_string(&body).expect("strings and numbers can always be written")
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.status.as_u16(), self.code, self.message)
    }
}

/// The response carries the error itself; the outermost layer writes the body, because it knows the request's id.
impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.status
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::new(self.status);
        for (name, value) in &self.headers {
            response.headers_mut().append(name.clone(), value.clone());
        }
        response.extensions_mut().insert(self.clone());
        response
    }
}

impl From<QueryError> for ApiError {
    fn from(error: QueryError) -> Self {
        if let Some(interruption) = error.interruption() {
            return StoreError::from(interruption).into();
        }
        let code = format!("query_{}", error.code);
        let pointer = if error.pointer.is_empty() { error.path.clone() } else { error.pointer.clone() };
        let violation = Violation::new(pointer, error.message.clone());
        Self::new(StatusCode::BAD_REQUEST, code, error.to_string()).at(violation.into())
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        let message = error.to_string();
        match error {
            ServiceError::NotFound { code, .. } => Self::new(StatusCode::NOT_FOUND, code, message),
            ServiceError::Invalid { code, .. } => Self::new(StatusCode::BAD_REQUEST, code, message),
            ServiceError::Violations(errors) => {
                Self::new(StatusCode::BAD_REQUEST, "validation_failed", message).at(errors)
            }
            ServiceError::Query(error) => error.into(),
            ServiceError::Forbidden { code, .. } => Self::new(StatusCode::FORBIDDEN, code, message),
            ServiceError::PreconditionFailed(_) => {
                Self::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", message)
            }
            ServiceError::KeyReused => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_reused", message),
            ServiceError::Contended(_) => unavailable("contended", message),
            ServiceError::Password(error) => AuthError::from(error).into(),
            ServiceError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Query { code, message } => Self::new(StatusCode::BAD_REQUEST, format!("query_{code}"), message),
            StoreError::Unsupported { what } => Self::new(
                StatusCode::BAD_REQUEST,
                "unsupported_by_embedded_store",
                format!("{what} needs a MongoDB server; the embedded store cannot do it"),
            ),
            StoreError::Timeout => {
                unavailable("query_timeout", "the query took longer than query.max_time_ms; narrow its filter")
            }
            StoreError::Busy => Self::too_much(),
            StoreError::Unavailable { reason } => {
                log::warn!("the store is not available: {reason}");
                unavailable("store_unavailable", "the store cannot be reached now; try again")
            }
            error @ StoreError::NoRoom { .. } => {
                log::warn!("{error}");
                unavailable("store_unavailable", "there is no room left to store this; reading and deleting go on")
            }
            error => {
                log::error!(
                    "{error}: {}",
                    std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
                );
                Self::of_status(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl From<AccountError> for ApiError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Store(error) => error.into(),
            AccountError::Auth(error) => error.into(),
            error @ AccountError::PasswordFile { .. } => {
                log::error!("{error}");
                Self::of_status(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let message = error.to_string();
        match error {
            AuthError::Missing => Self::unauthorized("token_missing", &message),
            AuthError::WrongCredentials => Self::unauthorized("credentials_wrong", &message),
            AuthError::InvalidToken => Self::unauthorized("token_invalid", &message),
            AuthError::ExpiredToken => Self::unauthorized("token_expired", &message),
            AuthError::TooManyAttempts { retry_after } | AuthError::Busy { retry_after } => {
                Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", message)
                    .with(header::RETRY_AFTER, HeaderValue::from(retry_after.as_secs().max(1)))
            }
            AuthError::Internal { reason } => {
                log::error!("{reason}");
                Self::of_status(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn unavailable(code: &'static str, message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
        .with(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S))
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        StoreError::from(denied).into()
    }
}
