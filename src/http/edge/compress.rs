//! Compressed answers.
//!
//! A compressed answer is another representation, so it needs another strong entity tag (RFC 9110, section 8.8.3.3).
//! The tag ends in the name of the coding: `"<tag>-gzip"`. `http::conditional` removes the end again, so `If-Match` and
//! `If-None-Match` take each form. Answers that must not be stored are sent plain: they contain passwords and tokens,
//! and the length of a compressed text reveals something about its content.

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::web::Bytes;

use super::coding::{CODINGS, Coding};
use crate::admission;
use crate::settings::CompressionSettings;

/// Compression that takes longer than some hundred microseconds runs on a separate thread.
const IN_PLACE_BYTES: usize = 32 * 1024;

const ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("accept-encoding");

/// The answer, compressed if the client accepts a coding, the settings allow it, and it is a text of some length.
pub(in crate::http) async fn compressed(
    response: ServiceResponse<BoxBody>,
    settings: CompressionSettings,
) -> ServiceResponse<BoxBody> {
    if !settings.enabled || !may_be_coded(&response) {
        return response;
    }
    let mut response = response;
    // A plain answer also depends on what the client accepts.
    response.headers_mut().append(header::VARY, ACCEPT_ENCODING);
    let coding = Coding::accepted(response.request().headers());
    let (Some(coding), BodySize::Sized(size)) = (coding, response.response().body().size()) else { return response };
    if size < settings.min_bytes as u64 {
        return response;
    }
    let (request, answer) = response.into_parts();
    let (mut answer, body) = answer.into_parts();
    let body = match body.try_into_bytes() {
        Err(stream) => stream,
        Ok(bytes) => match pack(coding, bytes.clone()).await {
            None => BoxBody::new(bytes),
            Some(packed) => {
                answer.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
                if matches!(*request.method(), Method::GET | Method::HEAD) {
                    mark_tag(answer.headers_mut(), coding);
                }
                BoxBody::new(packed)
            }
        },
    };
    ServiceResponse::new(request, answer.set_body(body))
}

/// An opaque tag without the coding at its end.
pub(in crate::http) fn without_coding(tag: &str) -> &str {
    let end = CODINGS.iter().find_map(|coding| tag.strip_suffix(coding.name())?.strip_suffix('-'));
    end.unwrap_or(tag)
}

fn may_be_coded(response: &ServiceResponse<BoxBody>) -> bool {
    let headers = response.headers();
    if response.status() == StatusCode::NOT_MODIFIED {
        return true;
    }
    let has = |name: HeaderName, piece: &str| {
        headers.get(name).and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains(piece))
    };
    let is_text = has(header::CONTENT_TYPE, "json") || has(header::CONTENT_TYPE, "text/");
    is_text && !headers.contains_key(header::CONTENT_ENCODING) && !has(header::CACHE_CONTROL, "no-store")
}

async fn pack(coding: Coding, bytes: Bytes) -> Option<Vec<u8>> {
    let packed = if bytes.len() <= IN_PLACE_BYTES {
        coding.pack(&bytes)
    } else {
        // Without a turn the answer is sent uncompressed.
        admission::work(move |_| coding.pack(&bytes)).await.ok()?
    };
    packed.inspect_err(|error| log::warn!("an answer is sent as it is, {} failed: {error}", coding.name())).ok()
}

fn mark_tag(headers: &mut HeaderMap, coding: Coding) {
    let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let Some(opaque) = tag.and_then(|tag| tag.strip_suffix('"')) else { return };
    if let Ok(marked) = HeaderValue::try_from(format!("{opaque}-{}\"", coding.name())) {
        headers.insert(header::ETAG, marked);
    }
}
