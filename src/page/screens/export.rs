//! A list as a file.

use actix_web::{HttpRequest, HttpResponse};

use super::list::Question;
use crate::http::error::ApiError;
use crate::http::exchange::file;
use crate::http::params::Parameters;
use crate::page::visitor::Visitor;
use crate::service::ErrorCode;

/// The formats.
const FORMATS: [&str; 2] = ["csv", "xlsx"];

/// Sends the objects of a list as a file.
///
/// # Errors
/// As the list, and as an export over REST.
pub async fn send(visitor: Visitor, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let format = request.match_info().get("format").unwrap_or_default();
    if !FORMATS.contains(&format) {
        return Err(ApiError::of(ErrorCode::NotFound));
    }
    let question = Question::read(&visitor, &request).await?;
    let parameters = Parameters::of_pairs([
        ("type_id".to_owned(), question.type_id().to_string()),
        ("format".to_owned(), format.to_owned()),
        ("filter".to_owned(), question.filter.to_string()),
        ("sort".to_owned(), question.sort.to_string()),
    ]);
    file(&visitor.guest.state, &visitor.caller, &parameters).await
}
