//! The parameters of a list, from the URL or from the body of a QUERY (RFC 10008).

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};
use futures::future::LocalBoxFuture;

use super::body::JsonValue;
use super::error::ApiError;
use super::params::Parameters;

/// The list parameters of a request. Those in the URL of a QUERY take the place of those in its body: the URL of another
/// page is used with the same body.
pub(super) struct Sent(pub Parameters);

/// The parameters of pages that the URL of a request with a body may have.
const OF_PAGES: [&str; 3] = ["page", "limit", "after"];

impl FromRequest for Sent {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let in_url = Parameters::of(request);
        if request.method().as_str() != "QUERY" {
            return Box::pin(async move { in_url.map(Self) });
        }
        let body = JsonValue::from_request(request, payload);
        Box::pin(async move { beside_body(&body.await?.0, in_url?).map(Self) })
    }
}

/// The parameters of a body, with those of pages in the URL.
///
/// # Errors
/// 400 for another parameter in the URL, and for members of a wrong kind.
pub(super) fn beside_body(body: &serde_json::Value, in_url: Parameters) -> Result<Parameters, ApiError> {
    if let Some((name, _)) = in_url.iter().find(|(name, _)| !OF_PAGES.contains(name)) {
        let message = format!("must be in the body here; the URL may have {}", OF_PAGES.join(", "));
        return Err(ApiError::parameter(name, message));
    }
    Ok(Parameters::from_body(body)?.overridden_by(in_url))
}
