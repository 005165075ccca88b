//! The author of the changes that a request makes.

use actix_web::HttpMessage;
use actix_web::dev::ServiceRequest;
use actix_web::http::header::HeaderName;
use percent_encoding::percent_decode;

use crate::history::entry::Author;
use crate::http::error::ApiError;
use crate::service::{Caller, ErrorCode};

/// What the caller says about the change, UTF-8 in percent encoding.
const COMMENT: HeaderName = HeaderName::from_static("inventory-comment");

/// How many characters a comment may have.
const LONGEST_COMMENT: usize = 500;

/// The id of a request, among its extensions.
pub(in crate::http) struct RequestId(pub String);

/// The author of what `caller` changes by this request; nobody where its method changes nothing.
///
/// # Errors
/// A comment that cannot be read or is too long.
pub(in crate::http) fn author_of(request: &ServiceRequest, caller: &Caller) -> Result<Option<Author>, ApiError> {
    let comment = request.headers().get(&COMMENT).map(|value| comment(value.as_bytes())).transpose()?;
    if request.method().is_safe() {
        return Ok(None);
    }
    Ok(Some(Author {
        user_id: Some(caller.user_id),
        user_name: Some(caller.user_name.clone()),
        comment: comment.filter(|comment| !comment.is_empty()),
        request_id: request.extensions().get::<RequestId>().map(|id| id.0.clone()),
    }))
}

fn comment(sent: &[u8]) -> Result<String, ApiError> {
    let refused = |message: String| ApiError::new(ErrorCode::BadRequest, message);
    let text = percent_decode(sent).decode_utf8().map_err(|_| {
        refused("Inventory-Comment is no UTF-8 in percent encoding; send for instance caf%C3%A9".to_owned())
    })?;
    if text.chars().count() > LONGEST_COMMENT {
        return Err(refused(format!("Inventory-Comment has more than {LONGEST_COMMENT} characters; shorten it")));
    }
    if let Some(sign) = text.chars().find(|sign| sign.is_control()) {
        return Err(refused(format!("Inventory-Comment has the control character {sign:?}; leave it out")));
    }
    Ok(text.trim().to_owned())
}
