//! Answers to what is no request: the parser before all routes refuses it without a body. Here it gets one.

use actix_web::ResponseError;
use actix_web::http::StatusCode;

use crate::http::error::{ApiError, Occurrence};
use crate::service::ErrorCode;

/// The parser holds no longer URL.
const LONGEST_URI: usize = 65_534;

/// The answer in place of a bodiless refusal, which begins what is written while no request is handled. Answers of
/// handlers never have this form. `line`: how long the first line of the request is.
pub(super) fn refusal(written: &[u8], line: usize) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(written).ok()?.strip_prefix("HTTP/1.1 ")?.strip_suffix("\r\n\r\n")?;
    let is_bodiless = head.lines().any(|line| line.eq_ignore_ascii_case("content-length: 0"));
    let status = StatusCode::from_bytes(head.get(..3)?.as_bytes()).ok().filter(|_| is_bodiless)?;
    let error = match status {
        StatusCode::BAD_REQUEST if line > LONGEST_URI => ApiError::of(ErrorCode::UriTooLong),
        StatusCode::BAD_REQUEST => ApiError::new(
            ErrorCode::BadRequest,
            "the head of the request cannot be read; perhaps the URL has a character that has to be encoded, for \
             instance a quotation mark as %22",
        ),
        StatusCode::REQUEST_TIMEOUT => ApiError::new(ErrorCode::BodyTooSlow, "the head of the request took too long"),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ApiError::new(
            ErrorCode::HeadersTooLarge,
            "the request has 96 headers or more, or a head that is too long; send fewer",
        ),
        _ => return None,
    };
    Some(answer(&error))
}

/// The whole answer, after which the connection ends.
pub(super) fn answer(error: &ApiError) -> Vec<u8> {
    let id = format!("{:032x}", rand::random::<u128>());
    let body = error.body(&Occurrence { request_id: &id, origin: "", path: "" });
    let status = error.status_code();
    let reason = status.canonical_reason().unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\
         cache-control: no-store\r\nx-content-type-options: nosniff\r\nx-api-version: 1.0\r\nx-request-id: {id}\r\n\r\n",
        status.as_u16(),
        body.len(),
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bodiless_refusal_gets_a_body() {
        let refused = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let text = String::from_utf8(refusal(refused, 20).expect("a body")).expect("a text");
        assert!(text.contains("\"code\":\"bad_request\"") && text.contains("%22"), "{text}");
        let too_long = String::from_utf8(refusal(refused, 70_000).expect("a body")).expect("a text");
        assert!(too_long.starts_with("HTTP/1.1 414 ") && too_long.contains("\"code\":\"uri_too_long\""), "{too_long}");
        for other in [
            &b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n{}",
            b"",
        ] {
            assert_eq!(refusal(other, 20), None);
        }
    }
}
