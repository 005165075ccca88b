//! The gate: what is looked at before a request goes to its route, so that it costs nothing more.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;
use actix_web::{HttpMessage, ResponseError, web};

use super::rate_limit::Allowance;
use crate::http::error::ApiError;
use crate::http::state::HttpState;
use crate::service::ErrorCode;

/// Turns away requests whose head is too large, and clients that are too fast.
///
/// # Errors
/// None of its own; a refusal is an answer.
pub async fn gate(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    match admitted(&request) {
        Ok(allowance) => {
            if let Some(allowance) = allowance {
                request.extensions_mut().insert(allowance);
            }
            Ok(next.call(request).await?.map_into_left_body())
        }
        Err(error) => Ok(request.into_response(error.error_response()).map_into_right_body()),
    }
}

fn admitted(request: &ServiceRequest) -> Result<Option<Allowance>, ApiError> {
    let state = request.app_data::<web::Data<HttpState>>().ok_or_else(|| ApiError::of(ErrorCode::Internal))?;
    let limits = state.head_limits;
    if request.uri().path_and_query().is_some_and(|uri| uri.as_str().len() > limits.uri_bytes) {
        return Err(ApiError::of(ErrorCode::UriTooLong));
    }
    let header_bytes: usize = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if header_bytes > limits.header_bytes {
        return Err(ApiError::of(ErrorCode::HeadersTooLarge));
    }
    // Who asks whether the service is well has to get an answer.
    if request.path().starts_with("/health/") {
        return Ok(None);
    }
    match state.links.client_address(request.request()) {
        Some(address) => state.rate_limits.address(address),
        None => Ok(None),
    }
}
