//! Keeps other sites from changing anything through the browser of somebody who is signed in.
//!
//! Every request that may change something passes [`own_forms_only`], which looks at where it comes from. The forms of a
//! session also hold a token that only this session has. The token is another one in each answer, so that nobody learns
//! it from the length of compressed answers.

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap};
use actix_web::middleware::{Next, from_fn};
use actix_web::{HttpRequest, ResponseError, Route, web};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::http::error::ApiError;
use crate::http::state::HttpState;
use crate::service::ErrorCode;

/// The name of the token in a form.
pub const TOKEN: &str = "token";

/// How many bytes of a token are random.
const SALT: usize = 16;

/// A token of the session with this secret.
pub fn token(secret: &str) -> String {
    let salt = rand::random::<[u8; SALT]>();
    let mut token = salt.to_vec();
    token.extend_from_slice(&keyed(secret, &salt).finalize().into_bytes());
    hex::encode(token)
}

/// Whether a token is one of the session with this secret.
pub fn fits(secret: &str, token: &str) -> bool {
    let Ok(token) = hex::decode(token) else { return false };
    let Some((salt, proof)) = token.split_at_checked(SALT) else { return false };
    keyed(secret, salt).verify_slice(proof).is_ok()
}

fn keyed(secret: &str, salt: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(b"inventory page form");
    mac.update(salt);
    mac
}

/// The refusal of a form that is not from here.
pub fn forged() -> ApiError {
    ApiError::new(ErrorCode::RightMissing, "the form is too old, or it comes from another site; nothing was changed")
}

/// The door of every route of the page.
pub fn door(route: Route) -> Route {
    route.wrap(from_fn(own_forms_only))
}

/// Refuses what another site sends.
async fn own_forms_only<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, actix_web::Error> {
    if request.method().is_safe() || is_own(request.request()) {
        return Ok(next.call(request).await?.map_into_left_body());
    }
    let refused = forged().error_response();
    Ok(request.into_response(refused).map_into_right_body())
}

/// Whether a browser says that a page of this service sent the request. One that says nothing is refused.
fn is_own(request: &HttpRequest) -> bool {
    let headers = request.headers();
    let named = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = named("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin") {
        return false;
    }
    match named(header::ORIGIN.as_str()) {
        Some(origin) => {
            let state = request.app_data::<web::Data<HttpState>>();
            let own = state.map(|state| state.links.origin(request)).unwrap_or_default();
            authority(origin).is_some_and(|sent| authority(&own).is_some_and(|own| own.eq_ignore_ascii_case(sent)))
        }
        None => site.is_some(),
    }
}

/// Whether the browser comes from another site, so that it held the cookie back.
pub fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// Host and port of an origin. A proxy may have ended TLS, so the schemes may differ.
fn authority(origin: &str) -> Option<&str> {
    origin.split_once("://")?.1.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_fits_its_session_alone() {
        let one = token("secret");
        assert_ne!(one, token("secret"));
        assert!(fits("secret", &one));
        for wrong in ["", "00", &one[2..], &one[..one.len() - 2], &token("other"), "no hexadecimal digits"] {
            assert!(!fits("secret", wrong), "{wrong}");
        }
    }
}
