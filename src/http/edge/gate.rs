//! The gate: checks before a request goes to its route, so that a refused one costs nothing more.

use std::sync::Arc;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, ResponseError};
use ipnet::IpNet;

use super::forwarded::client_address;
use crate::http::error::ApiError;
use crate::rate_limits::{Allowance, RateLimits};
use crate::service::ErrorCode;
use crate::settings::{ServerSettings, SettingsError};

/// What the gate goes by.
pub struct Gate {
    /// Path and query.
    max_uri_bytes: usize,
    /// Names and values of all headers.
    max_header_bytes: usize,
    trusted_proxies: Vec<IpNet>,
    rate_limits: Arc<RateLimits>,
}

impl Gate {
    /// As the settings say.
    ///
    /// # Errors
    /// When a trusted proxy is no network.
    pub fn new(settings: &ServerSettings, rate_limits: Arc<RateLimits>) -> Result<Self, SettingsError> {
        Ok(Self {
            max_uri_bytes: settings.limits.max_uri_bytes,
            max_header_bytes: settings.limits.max_header_bytes,
            trusted_proxies: settings.proxies()?,
            rate_limits,
        })
    }

    fn admitted(&self, request: &ServiceRequest) -> Result<Option<Allowance>, ApiError> {
        if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > self.max_uri_bytes) {
            return Err(ApiError::of(ErrorCode::UriTooLong));
        }
        let header_bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if header_bytes > self.max_header_bytes {
            return Err(ApiError::of(ErrorCode::HeadersTooLarge));
        }
        // Health checks must always get an answer.
        if request.path().starts_with("/health/") {
            return Ok(None);
        }
        match request.peer_addr() {
            Some(peer) => {
                let address = client_address(request.headers(), peer.ip(), &self.trusted_proxies);
                Ok(self.rate_limits.address(address)?)
            }
            None => Ok(None),
        }
    }
}

/// Refuses requests with too large a head, and clients that are too fast.
///
/// # Errors
/// None of its own; a refusal is an answer.
pub async fn gate(
    gate: Arc<Gate>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    match gate.admitted(&request) {
        Ok(allowance) => {
            if let Some(allowance) = allowance {
                request.extensions_mut().insert(allowance);
            }
            Ok(next.call(request).await?.map_into_left_body())
        }
        Err(error) => Ok(request.into_response(error.error_response()).map_into_right_body()),
    }
}
