//! The header that makes a request repeatable.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest};

use super::error::ApiError;

const NAME: &str = "Idempotency-Key";
const LONGEST: usize = 255;

/// The `Idempotency-Key` of a request, if it has one.
pub(super) struct IdempotencyKey(pub Option<String>);

impl FromRequest for IdempotencyKey {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(key(request).map(Self))
    }
}

fn key(request: &HttpRequest) -> Result<Option<String>, ApiError> {
    let mut sent = request.headers().get_all(NAME);
    let Some(first) = sent.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|text| !text.is_empty() && text.len() <= LONGEST);
    match (text, sent.next()) {
        (Some(text), None) => Ok(Some(text.to_owned())),
        (None, _) => Err(ApiError::parameter(NAME, format!("must be 1 to {LONGEST} characters of ASCII"))),
        (Some(_), Some(_)) => Err(ApiError::parameter(NAME, "is there twice")),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_key_is_one_short_text() {
        let of = |keys: &[&str]| {
            let request = keys.iter().fold(TestRequest::default(), |request, key| request.append_header((NAME, *key)));
            key(&request.to_http_request()).map_err(|error| error.code().name().into_owned())
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["8e03978e-40d5"]), Ok(Some("8e03978e-40d5".to_owned())));
        for refused in [&["a", "b"][..], &[""], &[&"x".repeat(256)]] {
            assert_eq!(of(refused), Err("parameter_invalid".to_owned()));
        }
    }
}
