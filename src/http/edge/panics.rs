//! A handler that panics: the client gets a 500 in the standard shape, the log a line, the metrics a count.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use actix_web::body::{BoxBody, EitherBody};
use actix_web::dev::ServiceResponse;
use actix_web::{HttpRequest, ResponseError};
use futures::FutureExt;

use crate::http::error::ApiError;
use crate::http::limits::Panics;
use crate::service::ErrorCode;

/// Waits for the answer to a request; after a panic it makes one.
///
/// The panic drops the handler's values. The shared state of the service is safe after a panic, except locks, whose
/// poisoning is ignored.
pub(in crate::http) async fn caught<B>(
    panics: &Panics,
    request: HttpRequest,
    answering: impl Future<Output = Result<ServiceResponse<B>, actix_web::Error>>,
) -> Result<ServiceResponse<EitherBody<B, BoxBody>>, actix_web::Error> {
    match AssertUnwindSafe(answering).catch_unwind().await {
        Ok(answer) => answer.map(ServiceResponse::map_into_left_body),
        Err(panic) => {
            panics.add();
            log::error!("a handler panicked: {} {}: {}", request.method(), request.path(), message(&*panic));
            let answer = ApiError::of(ErrorCode::Internal).error_response();
            Ok(ServiceResponse::new(request, answer).map_into_right_body())
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
