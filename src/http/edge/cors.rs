//! Cross-origin requests: refused, unless the settings name the origin.

use actix_cors::Cors;
use actix_web::http::{Method, header};
use actix_web::middleware::Condition;

use crate::settings::{CorsSettings, SettingsError};

/// Headers that pages may read, in addition to the standard ones.
const EXPOSED: [&str; 13] = [
    "ETag",
    "Location",
    "X-Total-Count",
    "Inventory-Query-Hint",
    "Inventory-Warning",
    "X-Request-ID",
    "X-API-Version",
    "Retry-After",
    "Allow",
    "WWW-Authenticate",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
];

/// Headers that pages may send, in addition to the standard ones.
const ALLOWED: [header::HeaderName; 8] = [
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::HeaderName::from_static("idempotency-key"),
    header::HeaderName::from_static("x-request-id"),
    header::HeaderName::from_static("traceparent"),
];

/// Which origins may do what.
#[derive(Debug, Clone)]
pub struct CorsPolicy {
    origins: Vec<String>,
    max_age_s: usize,
}

impl CorsPolicy {
    /// Reads the settings.
    ///
    /// # Errors
    /// When an origin is none.
    pub fn new(settings: &CorsSettings) -> Result<Self, SettingsError> {
        Ok(Self { origins: settings.origins()?, max_age_s: settings.max_age_s })
    }

    /// The layer that answers preflights and marks answers. It exists only if an origin is allowed. There are no
    /// cookies.
    pub fn layer(&self) -> Condition<Cors> {
        Condition::new(!self.origins.is_empty(), self.cors())
    }

    fn cors(&self) -> Cors {
        let query = Method::from_bytes(b"QUERY").expect("QUERY is a token");
        let methods = [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, query];
        let cors = Cors::default()
            .allowed_methods(methods)
            .allowed_headers(ALLOWED)
            .expose_headers(EXPOSED)
            .max_age(self.max_age_s);
        if self.origins.iter().any(|origin| origin == "*") {
            return cors.allow_any_origin().send_wildcard();
        }
        self.origins.iter().fold(cors, |cors, origin| cors.allowed_origin(origin))
    }
}
