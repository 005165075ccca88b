//! Errors on the wire, in one shape. docs/api.md, Errors.

use std::fmt;

use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, ResponseError};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::admission::Denied;
use crate::auth::AuthError;
use crate::domain::violation::clipped;
use crate::domain::{Violation, Violations};
use crate::query::QueryError;
use crate::service::accounts::AccountError;
use crate::service::accounts::sign_on::SignOnError;
use crate::service::exchange::import::ImportReport;
use crate::service::{ChangedSince, Conflict, ErrorCode, ServiceError};
use crate::store::StoreError;

/// Seconds after which a retry makes sense when the store is unavailable.
const RETRY_AFTER_S: &str = "2";

/// The code of an unfinished parse; see [`QueryError::is_unfinished`].
const UNFINISHED: ErrorCode = ErrorCode::Query(262);

/// The page that explains the codes.
pub const ERRORS_PAGE: &str = "/docs/errors";

/// Advice about a question.
pub const QUERY_HINT: HeaderName = HeaderName::from_static("inventory-query-hint");

/// Longer paths are left out of `instance`.
const LONGEST_PATH: usize = 1000;

/// An answer that is an error.
#[derive(Debug, Clone)]
pub struct ApiError {
    code: ErrorCode,
    message: String,
    errors: Violations,
    report: Option<Box<serde_json::Value>>,
    changed_since: Option<Box<ChangedSince>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// The body of every error.
#[derive(Serialize, ToSchema)]
pub(super) struct ErrorBody<'a> {
    /// The status of the answer.
    status: u16,
    /// The name of the status.
    response: &'a str,
    /// What went wrong, as a stable name; `x-codes` of each answer lists the possible ones.
    code: &'a str,
    /// What went wrong, for people.
    message: &'a str,
    /// The wrong places of the body, or the wrong parameters.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(required = false)]
    errors: &'a [Violation],
    /// How many more places are wrong; 100 are listed.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    errors_left_out: usize,
    /// The report of a refused import.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = ImportReport)]
    report: Option<&'a serde_json::Value>,
    /// The changes that stand against an undo.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(required = false)]
    conflicts: &'a [Conflict],
    /// How many more changes stand against it; 100 are listed.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    conflicts_left_out: usize,
    /// As in the header `X-Request-ID`.
    request_id: &'a str,
    /// RFC 9457: a page that explains the code.
    r#type: &'a str,
    /// RFC 9457: what the code means; the same for all errors of the code.
    title: &'a str,
    /// RFC 9457: as `message`.
    detail: &'a str,
    /// RFC 9457: this occurrence, as the path of the request and its id.
    instance: &'a str,
}

/// Where an error occurred, for its body.
pub struct Occurrence<'a> {
    /// The id of the request.
    pub request_id: &'a str,
    /// Scheme and host as the client sees them.
    pub origin: &'a str,
    /// The path of the request.
    pub path: &'a str,
}

impl ApiError {
    /// An error with its code, which knows the status, and a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let message = clipped(message.into());
        Self { code, message, errors: Violations::new(), report: None, changed_since: None, headers: Vec::new() }
    }

    /// 400 for a query parameter.
    pub fn parameter(name: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        let mut error = Self::new(ErrorCode::ParameterInvalid, format!("{name}: {message}"));
        error.errors.push(Violation::new(name, message));
        error
    }

    /// 401 with the challenge that RFC 6750 asks for.
    pub fn unauthorized(code: ErrorCode, message: &str) -> Self {
        Self::new(code, message).with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    /// 401 for a token that is wrong or over (RFC 6750, section 3.1).
    fn refused_token(code: ErrorCode, message: &str) -> Self {
        Self::new(code, message)
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""))
    }

    /// 503 for a request that exceeded its time budget, with the name of the setting.
    pub fn out_of_time(setting: &str) -> Self {
        unavailable(
            ErrorCode::RequestTimeout,
            format!("the request took longer than {setting}; it may have taken effect"),
        )
    }

    /// 503 while there is no memory or no turn for the request.
    pub fn too_much() -> Self {
        unavailable(ErrorCode::Busy, "too much is under way for this request; try again")
    }

    /// Whether a query could not be parsed in the time on the thread of the request.
    pub(super) fn is_unfinished(&self) -> bool {
        self.code == UNFINISHED
    }

    /// 503 while a user already sends the maximum number of files.
    pub fn imports_busy() -> Self {
        unavailable(ErrorCode::ImportsBusy, "other imports of yours are under way; try again when one of them is done")
    }

    /// 503 while the arriving bodies have reached their bound.
    pub fn bodies_busy() -> Self {
        unavailable(ErrorCode::BodiesBusy, "other large bodies are on their way in; try again when one of them is done")
    }

    /// 503 while documents are not migrated to this version.
    pub fn not_migrated(reason: &str) -> Self {
        unavailable(ErrorCode::StoreNotMigrated, format!("the store cannot be used: {reason}"))
    }

    /// 503 while the store lacks a unique index.
    pub fn incomplete(lack: &str) -> Self {
        unavailable(ErrorCode::StoreIncomplete, format!("the store cannot take writes: {lack}"))
    }

    /// The error without more than its code.
    pub fn of(code: ErrorCode) -> Self {
        let message = match code {
            ErrorCode::NotFound => "there is nothing under this path; /docs/ lists the routes".to_owned(),
            ErrorCode::UriTooLong => {
                "path and query are longer than server.limits.max_uri_bytes; send the parameters of \
                a list in a body to POST /rest/objects/query"
                    .to_owned()
            }
            ErrorCode::NotJson => "send JSON with Content-Type: application/json".to_owned(),
            ErrorCode::Internal => "something went wrong here; the log names the cause".to_owned(),
            code => code.meaning().replace('`', ""),
        };
        Self::new(code, message)
    }

    /// 405 that names the methods which the path takes, and ends with the remedy.
    pub fn method_not_allowed(method: &Method, allowed: &str, remedy: &str) -> Self {
        // A client can make up methods of any length.
        let method: String = method.as_str().chars().take(20).collect();
        Self::new(ErrorCode::MethodNotAllowed, format!("this path does not take {method}; it takes {allowed}{remedy}"))
    }

    /// The error for a status without a standard body, from a lower layer.
    pub fn of_status(status: StatusCode) -> Self {
        Self::of(match status {
            StatusCode::NOT_FOUND => ErrorCode::NotFound,
            StatusCode::METHOD_NOT_ALLOWED => ErrorCode::MethodNotAllowed,
            StatusCode::URI_TOO_LONG => ErrorCode::UriTooLong,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ErrorCode::HeadersTooLarge,
            StatusCode::REQUEST_TIMEOUT => ErrorCode::BodyTooSlow,
            StatusCode::UNSUPPORTED_MEDIA_TYPE => ErrorCode::NotJson,
            status if status.is_client_error() => ErrorCode::BadRequest,
            _ => ErrorCode::Internal,
        })
    }

    /// What went wrong, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The wrong places of the body.
    pub fn places(&self) -> &[Violation] {
        self.errors.listed()
    }

    /// Its stable code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The status that the code has.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).expect("the table of codes has statuses")
    }

    /// The same error with a further header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same error with advice about the question.
    #[must_use]
    pub fn with_hint(self, advice: &str) -> Self {
        match HeaderValue::try_from(advice) {
            Ok(text) => self.with(QUERY_HINT, text),
            Err(_) => self,
        }
    }

    /// The same error with the wrong places.
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
        let mut item = json!({"status": self.code.status(), "code": self.code.name(), "message": self.message});
        if !self.errors.listed().is_empty() {
            item["errors"] = json!(self.errors.listed());
        }
        if self.errors.left_out() > 0 {
            item["errors_left_out"] = json!(self.errors.left_out());
        }
        item
    }

    /// The body of an error that occurred there.
    pub fn body(&self, at: &Occurrence<'_>) -> String {
        let (code, request_id) = (self.code.name(), at.request_id);
        let path = Some(at.path).filter(|path| path.len() <= LONGEST_PATH).unwrap_or_default();
        let body = ErrorBody {
            status: self.code.status(),
            response: self.status().canonical_reason().unwrap_or("Error"),
            code: &code,
            message: &self.message,
            errors: self.errors.listed(),
            errors_left_out: self.errors.left_out(),
            report: self.report.as_deref(),
            conflicts: self.changed_since.as_deref().map_or(&[], |since| &since.conflicts),
            conflicts_left_out: self.changed_since.as_deref().map_or(0, |since| since.left_out),
            request_id,
            r#type: &format!(
                "{}{ERRORS_PAGE}#{}",
                at.origin,
                self.code.pattern().split('<').next().unwrap_or_default()
            ),
            title: self.code.meaning(),
            detail: &self.message,
            instance: &format!("{path}#{request_id}"),
        };
        serde_json::to_string(&body).expect("strings and numbers can always be written")
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}: {}", self.code.status(), self.code.name(), self.message)
    }
}

/// The response carries the error itself; the outermost layer writes the body, because it knows the request's id.
impl ResponseError for ApiError {
    fn status_code(&self) -> StatusCode {
        self.status()
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::new(self.status());
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
        let code = ErrorCode::Query(error.code);
        let pointer = if error.pointer.is_empty() { error.path.clone() } else { error.pointer.clone() };
        let violation = Violation::new(pointer, error.message.clone());
        Self::new(code, error.to_string()).at(violation.into())
    }
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        let message = error.to_string();
        match error {
            ServiceError::Refused { code, .. } => Self::new(code, message),
            ServiceError::Violations(errors) => Self::new(ErrorCode::ValidationFailed, message).at(errors),
            ServiceError::Clash { code, places } => Self::new(code, message).at(places),
            ServiceError::Query(error) => error.into(),
            ServiceError::PreconditionFailed(_) => Self::new(ErrorCode::PreconditionFailed, message),
            ServiceError::ChangedSince(since) => {
                Self { changed_since: Some(Box::new(since)), ..Self::new(ErrorCode::ChangedSince, message) }
            }
            ServiceError::KeyReused => Self::new(ErrorCode::IdempotencyKeyReused, message),
            ServiceError::Contended(_) => unavailable(ErrorCode::Contended, message),
            ServiceError::Password(error) => AuthError::from(error).into(),
            ServiceError::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Query { code, message } => Self::new(ErrorCode::Query(code), message),
            StoreError::Unsupported { what } => Self::new(
                ErrorCode::UnsupportedByEmbeddedStore,
                format!("{what} needs a MongoDB server; the embedded store cannot do it"),
            ),
            StoreError::Shared(_) => {
                Self::new(ErrorCode::ObjectValueTaken, "another object has the same value of a unique field")
            }
            StoreError::Timeout => {
                unavailable(ErrorCode::QueryTimeout, "the query took longer than query.max_time_ms; narrow its filter")
            }
            StoreError::Busy => Self::too_much(),
            StoreError::Unavailable { reason } => {
                log::warn!("the store is not available: {reason}");
                unavailable(
                    ErrorCode::StoreUnavailable,
                    "the store is not ready for this now; try again, and see the log of the service for the reason",
                )
            }
            error @ StoreError::UnitTooLarge => {
                log::warn!(
                    "{error}; a larger cache takes more (storage.wiredTiger.engineConfig.cacheSizeGB of mongod)"
                );
                unavailable(
                    ErrorCode::StoreUnavailable,
                    "these changes are too large for one transaction of the MongoDB server, and nothing was stored; change \
                     fewer objects at once, or objects of fewer bytes",
                )
            }
            error @ StoreError::NoRoom { .. } => {
                log::warn!("{error}");
                unavailable(
                    ErrorCode::StoreUnavailable,
                    "there is no room left to store this; you can still read, and delete a few objects at a time",
                )
            }
            error => {
                log::error!("{error}");
                Self::of(ErrorCode::Internal)
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
                Self::of(ErrorCode::Internal)
            }
        }
    }
}

impl From<SignOnError> for ApiError {
    fn from(error: SignOnError) -> Self {
        match error {
            SignOnError::Account(error) => error.into(),
            SignOnError::Service(error) => error.into(),
        }
    }
}

impl From<AuthError> for ApiError {
    fn from(error: AuthError) -> Self {
        let message = error.to_string();
        match error {
            AuthError::Missing => Self::unauthorized(ErrorCode::TokenMissing, &message),
            AuthError::WrongCredentials => Self::unauthorized(ErrorCode::CredentialsWrong, &message),
            AuthError::InvalidToken => Self::refused_token(ErrorCode::TokenInvalid, &message),
            AuthError::UnfitToken { .. } => Self::refused_token(ErrorCode::TokenInvalid, &message),
            AuthError::IssuerUnavailable => unavailable(ErrorCode::IssuerUnavailable, message),
            AuthError::ExpiredToken => Self::refused_token(ErrorCode::TokenExpired, &message),
            AuthError::TooManyAttempts { retry_after } | AuthError::Busy { retry_after } => {
                Self::new(ErrorCode::TooManyAttempts, message)
                    .with(header::RETRY_AFTER, HeaderValue::from(retry_after.as_secs().max(1)))
            }
            AuthError::Internal { reason } => {
                log::error!("{reason}");
                Self::of(ErrorCode::Internal)
            }
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn unavailable(code: ErrorCode, message: impl Into<String>) -> ApiError {
    ApiError::new(code, message).with(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S))
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> Self {
        StoreError::from(denied).into()
    }
}
