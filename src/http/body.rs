//! Request bodies: JSON only, bounded, read once.

use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::Method;
use actix_web::http::StatusCode;
use actix_web::http::header;
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpRequest};
use bson::Document;
use futures::future::LocalBoxFuture;

use super::error::ApiError;
use crate::domain::Violation;
use crate::json;

/// A body that is a JSON object, as a document: key order kept, `{"$date": ...}` read as a date.
pub(super) struct JsonBody(pub Document);

/// A body that is any JSON value.
pub(super) struct JsonValue(pub serde_json::Value);

impl FromRequest for JsonBody {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = read_text(request, payload);
        Box::pin(async move { Ok(Self(document(&text.await?)?)) })
    }
}

impl FromRequest for JsonValue {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let text = read_text(request, payload);
        Box::pin(async move {
            let text = text.await?;
            if text.trim_start().starts_with('{') {
                // Only this reader sees duplicate keys.
                document(&text)?;
            }
            serde_json::from_str(&text).map(Self).map_err(|error| malformed(error.to_string()))
        })
    }
}

fn document(text: &str) -> Result<Document, ApiError> {
    json::read::document_from_str(text).map_err(|error| malformed(error.to_string()))
}

fn malformed(reason: String) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "json_malformed", format!("the body is not as JSON has to be: {reason}"))
        .at(vec![Violation::new("", reason)])
}

fn read_text(request: &HttpRequest, payload: &mut Payload) -> LocalBoxFuture<'static, Result<String, ApiError>> {
    let is_json = is_json(request);
    let bytes = Bytes::from_request(request, payload);
    Box::pin(async move {
        if !is_json {
            return Err(ApiError::of_status(StatusCode::UNSUPPORTED_MEDIA_TYPE));
        }
        let bytes = bytes.await.map_err(|error| unreadable(&error))?;
        String::from_utf8(bytes.into()).map_err(|_| malformed("it is not UTF-8".to_owned()))
    })
}

fn unreadable(error: &actix_web::Error) -> ApiError {
    match error.as_error::<PayloadError>() {
        Some(PayloadError::Overflow) => ApiError::of_status(StatusCode::PAYLOAD_TOO_LARGE),
        _ if error.as_response_error().status_code() == StatusCode::PAYLOAD_TOO_LARGE => {
            ApiError::of_status(StatusCode::PAYLOAD_TOO_LARGE)
        }
        _ => ApiError::new(StatusCode::BAD_REQUEST, "body_unreadable", "the body could not be read to its end"),
    }
}

/// `application/json`, and on PATCH `application/merge-patch+json`, with any parameters.
fn is_json(request: &HttpRequest) -> bool {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_merge_patch =
        request.method() == Method::PATCH && essence.eq_ignore_ascii_case("application/merge-patch+json");
    is_merge_patch || essence.eq_ignore_ascii_case("application/json")
}
