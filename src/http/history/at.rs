//! The parameter `at`: a moment of the past at which single reads and lists look.

use actix_web::{HttpRequest, web};

use crate::http::error::ApiError;
use crate::http::params::{AT, EXPLAIN, ListParams, Parameters};
use crate::http::state::HttpState;
use crate::service::history::{AccessLists, moment};

/// The state as of the moment that a list asks for; the present one without `at`.
///
/// # Errors
/// 400 for what is no moment of the past, and beside `explain`; 410 for what is too long ago.
pub(in crate::http) async fn of_list(
    state: web::Data<HttpState>,
    params: &ListParams,
    access: AccessLists,
) -> Result<web::Data<HttpState>, ApiError> {
    if params.query.explain && params.sent.get(AT).is_some() {
        return Err(ApiError::parameter(EXPLAIN, "explains lists of the present; leave out at"));
    }
    as_of(state, params.sent.get(AT), access).await
}

/// The same for a single read, which knows no other parameter.
///
/// # Errors
/// As [`of_list`], and 400 for any other parameter.
pub(in crate::http) async fn of_read(
    state: web::Data<HttpState>,
    request: &HttpRequest,
    access: AccessLists,
) -> Result<web::Data<HttpState>, ApiError> {
    if request.query_string().is_empty() {
        return Ok(state);
    }
    let sent = Parameters::of(request)?;
    sent.only(&[AT], state.params.unknown)?;
    as_of(state, sent.get(AT), access).await
}

async fn as_of(
    state: web::Data<HttpState>,
    at: Option<&str>,
    access: AccessLists,
) -> Result<web::Data<HttpState>, ApiError> {
    let Some(at) = at else { return Ok(state) };
    let moment = moment(&state.services, AT, at).await?;
    let services = state.services.as_of(moment, access).into();
    Ok(web::Data::new(HttpState { services, ..HttpState::clone(&state) }))
}
