//! Translation for clients of DATAGERRY 1.7: `api.compatibility = "datagerry-1.7"`.
//! docs/migrating-from-datagerry.md lists what is translated.
//!
//! Two middlewares translate, and the rest of the service does not know them. [`before`] runs before the router. It
//! translates paths, methods and parameters of DATAGERRY to those of this service. [`around`] runs between the check of
//! the caller's right and the handler. It translates bodies to the form of this service, and answers to that of DATAGERRY.
//!
//! *Invariant:* a translated request is checked like any other. Nothing in this module grants a right.

mod answer;
mod body;
mod date;
mod items;
mod logs;
mod own;
mod pipeline;
mod rendered;
mod request;
mod values;

use std::sync::Arc;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use actix_web::middleware::{Next, from_fn};
use actix_web::{HttpMessage, ResponseError, Route, web};

use self::request::Asked;
use super::call::AsOriginal;
use super::caller::{add_warning, warn_of_accepted};
use super::error::ApiError;
use super::routes::{self, Routes};
use super::state::HttpState;
use crate::domain::Violation;
use crate::service::history::author;
use crate::service::objects::dangling;
use crate::service::{Caller, ErrorCode};

pub use self::own::routes_of_datagerry;

/// The header that names the parameters of a request that have no effect.
const IGNORED: HeaderName = HeaderName::from_static("inventory-ignored-parameters");

/// All routes, each handler wrapped in [`around`], and further ones that only clients of DATAGERRY use.
pub fn routes() -> Routes {
    routes_of_datagerry(routes::all_behind(Some(translated)))
}

fn translated(route: Route) -> Route {
    route.wrap(from_fn(around))
}

/// Turns path, method and parameters of a request into those of this service, before it is routed.
///
/// # Errors
/// None of its own.
pub async fn before(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, actix_web::Error> {
    let asked = request::translate(&mut request);
    let ignored = asked.ignored.join(", ");
    request.extensions_mut().insert(asked);
    request.extensions_mut().insert(AsOriginal);
    let mut response = next.call(request).await?;
    if let Some(names) = HeaderValue::try_from(ignored).ok().filter(|names| !names.is_empty()) {
        response.headers_mut().insert(IGNORED, names);
    }
    Ok(response)
}

/// Turns the body of a permitted request into the form of this service, and the answer into DATAGERRY's.
async fn around(
    mut request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let Some(state) = request.app_data::<web::Data<HttpState>>().cloned() else {
        return Ok(request.into_response(ApiError::of(ErrorCode::Internal).error_response()));
    };
    let asked = request.extensions().get::<Asked>().cloned().unwrap_or_default();
    let pattern = request.match_pattern().unwrap_or_default();
    if let Some(pipeline) = &asked.pipeline
        && let Some(answer) = pipeline::list(&state, request.request(), &pattern, pipeline).await
    {
        let response = answer.unwrap_or_else(|error| error.error_response());
        return answer::translated(&state, request.into_response(response), &pattern, &asked).await;
    }
    let said = match body::translate(&state, &mut request, &pattern).await {
        Ok(said) => said,
        Err(error) => return Ok(request.into_response(error.error_response())),
    };
    let takes_dangling = matches!(
        (request.method(), &*pattern),
        (&Method::POST, "/rest/objects/" | "/rest/types/")
            | (&Method::PUT, "/rest/objects/{public_id}" | "/rest/types/{public_id}")
    );
    let handled = async {
        match said.comment {
            Some(comment) => author::commented(comment, next.call(request)).await,
            None => next.call(request).await,
        }
    };
    let (handled, accepted) =
        if takes_dangling { dangling::accepted(handled).await } else { (handled.await, Vec::new()) };
    let mut response = handled?.map_into_boxed_body();
    if response.status().is_success() {
        warn(response.headers_mut(), said.ignored.into_iter(), &accepted);
    } else if let Some(error) = denial(&state, &response).await {
        return Ok(response.into_response(error.error_response()));
    }
    answer::translated(&state, response, &pattern, &asked).await
}

/// What DATAGERRY's clients get instead of a 404, as [`own::denied`].
async fn denial(state: &HttpState, response: &ServiceResponse) -> Option<ApiError> {
    let error = response.response().extensions().get::<ApiError>()?.clone();
    let caller = response.request().extensions().get::<Arc<Caller>>().cloned()?;
    own::denied(state, &caller, &error).await
}

/// Names what was ignored, and what was accepted although a rule forbids it.
fn warn(headers: &mut HeaderMap, ignored: impl Iterator<Item = String>, accepted: &[Violation]) {
    ignored.for_each(|text| add_warning(headers, &text));
    warn_of_accepted(headers, accepted);
}
