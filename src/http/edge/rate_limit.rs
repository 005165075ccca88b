//! Rate limits in HTTP: headers of answers, and the refusal.

use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::http::error::ApiError;
use crate::rate_limits::{Allowance, TooFast};
use crate::service::ErrorCode;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// The same as structured fields, by the draft "`RateLimit` header fields for HTTP" of the IETF.
const STATE: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Writes the remaining allowance into the headers of an answer.
pub fn write(allowance: Allowance, headers: &mut HeaderMap) {
    for (name, value) in described(allowance) {
        headers.insert(name, value);
    }
}

impl From<TooFast> for ApiError {
    fn from(refused: TooFast) -> Self {
        let wait = HeaderValue::from(refused.wait);
        let error = Self::new(ErrorCode::RateLimited, refused.to_string()).with(header::RETRY_AFTER, wait);
        described(refused.left).into_iter().fold(error, |error, (name, value)| error.with(name, value))
    }
}

fn described(allowance: Allowance) -> [(HeaderName, HeaderValue); 5] {
    let Allowance { limit, remaining, reset, window, policy } = allowance;
    let written = |text: String| HeaderValue::try_from(text).expect("numbers and plain letters");
    [
        (LIMIT, limit.into()),
        (REMAINING, remaining.into()),
        (RESET, reset.into()),
        (STATE, written(format!("\"{policy}\";r={remaining};t={reset}"))),
        (POLICY, written(format!("\"{policy}\";q={limit};w={window}"))),
    ]
}
