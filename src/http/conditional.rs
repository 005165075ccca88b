//! Entity tags on the wire: `ETag`, `If-Match`, `If-None-Match` (RFC 9110, sections 8.8 and 13).

use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{FromRequest, HttpRequest, HttpResponse};
use std::future::{Ready, ready};

use super::error::ApiError;
use crate::service::precondition::IfMatch;

/// Answers belong to their caller, and have to be asked for again before they are used again.
pub(super) const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");

/// The `If-Match` of a request.
pub(super) struct Precondition(pub IfMatch);

impl FromRequest for Precondition {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self(if_match(request))))
    }
}

fn if_match(request: &HttpRequest) -> IfMatch {
    if !request.headers().contains_key(header::IF_MATCH) {
        return IfMatch::Absent;
    }
    let tags: Vec<String> = tags(request, &header::IF_MATCH).collect();
    if tags.iter().any(|tag| tag == "*") { IfMatch::Any } else { IfMatch::Tags(strong(tags)) }
}

/// `If-Match` compares strongly: a weak tag never matches.
fn strong(tags: Vec<String>) -> Vec<String> {
    let unquoted = |tag: &String| tag.strip_prefix('"')?.strip_suffix('"').map(str::to_owned);
    tags.iter().filter_map(unquoted).collect()
}

/// Whether the client has the current state already: `If-None-Match` compares weakly.
pub(super) fn is_known(request: &HttpRequest, tag: &str) -> bool {
    tags(request, &header::IF_NONE_MATCH).any(|known| {
        let known = known.strip_prefix("W/").unwrap_or(&known);
        known == "*" || known.strip_prefix('"').and_then(|known| known.strip_suffix('"')) == Some(tag)
    })
}

/// The tag as a header value.
pub(super) fn quoted(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{tag}\"")).expect("tags are hexadecimal digits and dots")
}

/// 304 with the tag.
pub(super) fn not_modified(tag: &str) -> HttpResponse {
    HttpResponse::NotModified()
        .insert_header((header::ETAG, quoted(tag)))
        .insert_header((header::CACHE_CONTROL, CACHE_CONTROL))
        .finish()
}

fn tags(request: &HttpRequest, name: &HeaderName) -> impl Iterator<Item = String> {
    let values = request.headers().get_all(name).filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn if_match_reads_lists_and_ignores_weak_tags() {
        let request = TestRequest::get().insert_header(("If-Match", "\"a\", W/\"b\" , \"c\"")).to_http_request();
        assert_eq!(if_match(&request), IfMatch::Tags(vec!["a".to_owned(), "c".to_owned()]));
        let request = TestRequest::get().insert_header(("If-Match", "*")).to_http_request();
        assert_eq!(if_match(&request), IfMatch::Any);
        assert_eq!(if_match(&TestRequest::get().to_http_request()), IfMatch::Absent);
    }

    #[test]
    fn if_none_match_knows_weak_tags_and_the_star() {
        for (header, known) in [("W/\"a\"", true), ("\"b\", \"a\"", true), ("*", true), ("\"b\"", false), ("a", false)]
        {
            let request = TestRequest::get().insert_header(("If-None-Match", header)).to_http_request();
            assert_eq!(is_known(&request, "a"), known, "{header}");
        }
    }
}
