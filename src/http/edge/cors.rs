//! Cross-origin requests: refused, unless the settings name the origin.

use std::sync::Arc;

use actix_cors::Cors;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::middleware::{Condition, Next};

use crate::http::error::ApiError;
use crate::service::ErrorCode;
use crate::settings::{CorsSettings, SettingsError};

/// Headers that pages may read, in addition to the standard ones.
const EXPOSED: [&str; 19] = [
    "ETag", "Location", "X-Total-Count", "Inventory-Query-Hint", "Inventory-Warning", "X-Request-ID", "X-API-Version",
    "Retry-After", "Allow", "WWW-Authenticate", "Link", "Content-Disposition", "Accept-Patch", "Accept-Query",
    "RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
];

/// Methods that pages may use.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY"];

/// Which origins may do what.
#[derive(Debug, Clone)]
pub struct CorsPolicy {
    origins: Vec<String>,
    /// Names of headers that pages may send; nothing: any.
    headers: Option<Vec<String>>,
    max_age_s: usize,
}

impl CorsPolicy {
    /// Reads the settings.
    ///
    /// # Errors
    /// When a text is not an origin, or not the name of a header.
    pub fn new(settings: &CorsSettings) -> Result<Self, SettingsError> {
        Ok(Self { origins: settings.origins()?, headers: settings.headers()?, max_age_s: settings.max_age_s })
    }

    /// The layer that answers preflights and marks answers. It exists only if an origin is allowed. There are no
    /// cookies.
    pub fn layer(&self) -> Condition<Cors> {
        Condition::new(!self.origins.is_empty(), self.cors())
    }

    fn cors(&self) -> Cors {
        let cors = Cors::default().allowed_methods(METHODS).expose_headers(EXPOSED).max_age(self.max_age_s);
        let cors = match &self.headers {
            Some(headers) => cors.allowed_headers(headers),
            None => cors.allow_any_header(),
        };
        if self.origins.iter().any(|origin| origin == "*") {
            return cors.allow_any_origin().send_wildcard();
        }
        self.origins.iter().fold(cors, |cors, origin| cors.allowed_origin(origin))
    }
}

/// Lets a preflight ask for what is not allowed: the answer names what is, and the browser compares. The next layer
/// would refuse the preflight, and the page would not learn why. A refused origin is named with its setting.
///
/// # Errors
/// Those of the next layers.
pub async fn plain_answers<B: MessageBody>(
    policy: Arc<CorsPolicy>,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<B>, actix_web::Error> {
    let is_preflight = request.method() == Method::OPTIONS;
    if is_preflight {
        policy.ask_for_less(request.headers_mut());
    }
    let mut response = next.call(request).await?;
    // Without any origin none of the next layers answers preflights.
    let is_unknown = policy.origins.is_empty() && response.status() == StatusCode::METHOD_NOT_ALLOWED;
    if is_preflight
        && (is_unknown || response.status() == StatusCode::BAD_REQUEST)
        && response.request().headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && let Some(origin) = policy.foreign_origin(response.request().headers())
    {
        let message = format!("server.cors.allowed_origins does not name the origin {origin}");
        *response.response_mut().status_mut() = StatusCode::BAD_REQUEST;
        response.headers_mut().remove(header::ALLOW);
        response.response_mut().extensions_mut().insert(ApiError::new(ErrorCode::BadRequest, message));
    }
    Ok(response)
}

impl CorsPolicy {
    /// The origin of a request, if it is not allowed.
    fn foreign_origin<'a>(&self, sent: &'a HeaderMap) -> Option<&'a str> {
        let origin = sent.get(header::ORIGIN)?.to_str().ok()?;
        self.origins.iter().all(|known| known != origin && known != "*").then_some(origin)
    }

    /// Takes what is not allowed from the headers of a preflight.
    fn ask_for_less(&self, sent: &mut HeaderMap) {
        let method = sent.get(header::ACCESS_CONTROL_REQUEST_METHOD).and_then(|method| method.to_str().ok());
        if method.is_some_and(|method| !METHODS.contains(&method)) {
            sent.insert(header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("GET"));
        }
        let Some(allowed) = &self.headers else { return };
        let wanted = sent.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).filter_map(|names| names.to_str().ok());
        let is_allowed = |name: &&str| allowed.iter().any(|known| known.eq_ignore_ascii_case(name));
        let kept: Vec<&str> = wanted.flat_map(|names| names.split(',')).map(str::trim).filter(is_allowed).collect();
        let kept = HeaderValue::try_from(kept.join(", ")).ok().filter(|kept| !kept.is_empty());
        sent.remove(header::ACCESS_CONTROL_REQUEST_HEADERS);
        if let Some(kept) = kept {
            sent.insert(header::ACCESS_CONTROL_REQUEST_HEADERS, kept);
        }
    }
}
