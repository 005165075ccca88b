//! Entity tags on the wire: `ETag`, `If-Match`, `If-None-Match` (RFC 9110, sections 8.8 and 13).

use actix_web::dev::Payload;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::{FromRequest, HttpRequest, HttpResponse, web};
use std::future::{Ready, ready};

use super::edge::compress::without_coding;
use super::error::ApiError;
use super::state::HttpState;
use crate::service::ErrorCode;
use crate::service::precondition::IfMatch;

/// Answers are private to their caller, and caches must revalidate them.
pub(super) const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");

/// The `If-Match` of a request.
pub(super) struct Precondition(pub IfMatch);

impl FromRequest for Precondition {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(if_match(request).and_then(|condition| required(request, condition)).map(Self))
    }
}

/// Refuses a change of one resource without a condition, where `api.require_if_match` asks for one.
fn required(request: &HttpRequest, condition: IfMatch) -> Result<IfMatch, ApiError> {
    let state = request.app_data::<web::Data<HttpState>>();
    // Requests about several objects take no condition.
    let is_one = request.match_info().get("public_id").is_some_and(|id| !id.contains(','));
    if condition == IfMatch::Absent && is_one && state.is_some_and(|state| state.require_if_match) {
        let message = "send If-Match with the ETag that you read, or * for any; api.require_if_match asks for it";
        return Err(ApiError::new(ErrorCode::PreconditionRequired, message));
    }
    Ok(condition)
}

fn if_match(request: &HttpRequest) -> Result<IfMatch, ApiError> {
    if !request.headers().contains_key(header::IF_MATCH) {
        return Ok(IfMatch::Absent);
    }
    let tags: Vec<String> = tags(request, &header::IF_MATCH).collect();
    if tags.iter().any(|tag| tag == "*") {
        return Ok(IfMatch::Any);
    }
    if tags.iter().any(|tag| opaque(tag.strip_prefix("W/").unwrap_or(tag)).is_none()) {
        return Err(ApiError::parameter("If-Match", "a tag stands in quotes, as in the ETag of an answer, or write *"));
    }
    Ok(IfMatch::Tags(strong(tags)))
}

/// `If-Match` compares strongly: a weak tag never matches.
fn strong(tags: Vec<String>) -> Vec<String> {
    tags.iter().filter_map(|tag| opaque(tag)).map(|tag| without_coding(tag).to_owned()).collect()
}

/// 304 if the client already has the current state, with the client's tag. `If-None-Match` compares weakly, and each
/// coding of an answer has its own tag.
pub(super) fn not_modified(request: &HttpRequest, tag: &str) -> Option<HttpResponse> {
    let known = tags(request, &header::IF_NONE_MATCH).find_map(|known| {
        if known == "*" {
            return Some(tag.to_owned());
        }
        let known = opaque(known.strip_prefix("W/").unwrap_or(&known))?;
        (without_coding(known) == tag).then(|| known.to_owned())
    })?;
    let response = HttpResponse::NotModified()
        .insert_header((header::ETAG, quoted(&known)))
        .insert_header((header::CACHE_CONTROL, CACHE_CONTROL))
        .finish();
    Some(response)
}

/// The text between the quotes of a strong tag.
fn opaque(tag: &str) -> Option<&str> {
    tag.strip_prefix('"')?.strip_suffix('"')
}

/// The tag as a header value.
pub(super) fn quoted(tag: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{tag}\"")).expect("tags are hexadecimal digits, dots and names of codings")
}

fn tags(request: &HttpRequest, name: &HeaderName) -> impl Iterator<Item = String> {
    let values = request.headers().get_all(name).filter_map(|value| value.to_str().ok());
    values.flat_map(parts).map(|tag| tag.trim().to_owned()).filter(|tag| !tag.is_empty())
}

/// The items of a list separated by commas; a comma within quotes belongs to its tag.
fn parts(list: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    list.split(move |letter| {
        is_quoted ^= letter == '"';
        letter == ',' && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn if_match_reads_lists_and_ignores_weak_tags() {
        let request = TestRequest::get().insert_header(("If-Match", "\"a\", W/\"b\" , \"c-gzip\"")).to_http_request();
        assert_eq!(if_match(&request).ok(), Some(IfMatch::Tags(vec!["a".to_owned(), "c".to_owned()])));
        let request = TestRequest::get().insert_header(("If-Match", "*")).to_http_request();
        assert_eq!(if_match(&request).ok(), Some(IfMatch::Any));
        assert_eq!(if_match(&TestRequest::get().to_http_request()).ok(), Some(IfMatch::Absent));
        let request = TestRequest::get().insert_header(("If-Match", "\"a,b\", \"c\"")).to_http_request();
        assert_eq!(if_match(&request).ok(), Some(IfMatch::Tags(vec!["a,b".to_owned(), "c".to_owned()])));
        let request = TestRequest::get().insert_header(("If-Match", "a")).to_http_request();
        assert!(if_match(&request).expect_err("it has no quotes").to_string().contains("quotes"));
    }

    #[test]
    fn if_none_match_knows_weak_tags_and_the_star() {
        for (header, known) in [
            ("W/\"a\"", Some("\"a\"")),
            ("\"b\", \"a\"", Some("\"a\"")),
            ("*", Some("\"a\"")),
            ("\"a-zstd\"", Some("\"a-zstd\"")),
            ("\"a-deflate\"", None),
            ("\"b\"", None),
            ("a", None),
        ] {
            let request = TestRequest::get().insert_header(("If-None-Match", header)).to_http_request();
            let answer = not_modified(&request, "a");
            let tag = answer
                .as_ref()
                .map(|answer| answer.headers().get(header::ETAG).expect("a tag").to_str().expect("a tag"));
            assert_eq!(tag, known, "{header}");
        }
    }
}
