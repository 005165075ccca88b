//! The parameter `at`: a moment of the past at which single reads and lists look.

use std::sync::Arc;

use actix_web::{HttpRequest, web};

use crate::http::error::ApiError;
use crate::http::params::{AT, EXPLAIN, ListParams, Parameters};
use crate::http::state::HttpState;
use crate::service::history::as_of::AccessLists;
use crate::service::history::moments::{as_of_read, moment};
use crate::service::resource::Resource;
use crate::service::types::catalog::Types;
use crate::service::{Caller, Services};

/// The state as of the moment that a list asks for; the present one without `at`.
///
/// # Errors
/// 400 for what is no moment of the past, and together with `explain`; 410 for what is too long ago.
pub(in crate::http) async fn of_list(
    state: web::Data<HttpState>,
    params: &ListParams,
    access: AccessLists,
) -> Result<web::Data<HttpState>, ApiError> {
    refuse_beside_others(params)?;
    Ok(past(&state, &params.sent, access).await?.unwrap_or(state))
}

/// Refuses a moment of the past together with parameters that are only for the present.
///
/// # Errors
/// 400 for `explain` and for a pipeline.
pub(in crate::http) fn refuse_beside_others(params: &ListParams) -> Result<(), ApiError> {
    if params.query.explain && params.sent.get(AT).is_some() {
        return Err(ApiError::parameter(EXPLAIN, "explains lists of the present; leave out at"));
    }
    if params.query.stages.is_some() { refuse_beside_pipeline(&params.sent) } else { Ok(()) }
}

/// The same for a single read, which has no other parameter.
///
/// # Errors
/// As [`of_list`], and 400 for any other parameter.
pub(in crate::http) async fn of_read<R: Resource>(
    state: web::Data<HttpState>,
    request: &HttpRequest,
    (caller, id): (&Caller, i64),
    access: AccessLists,
) -> Result<web::Data<HttpState>, ApiError> {
    if request.query_string().is_empty() {
        return Ok(state);
    }
    let sent = Parameters::of(request)?;
    sent.only(&[AT], state.params.unknown)?;
    let Some(at) = sent.get(AT) else { return Ok(state) };
    let moment = moment(&state.services, AT, at).await?;
    let services = as_of_read::<R>(&state.services, (caller, id), moment, access).await?;
    Ok(with_services(&state, services))
}

/// Refuses a moment of the past together with a pipeline.
///
/// # Errors
/// 400 if there is one.
pub(in crate::http) fn refuse_beside_pipeline(sent: &Parameters) -> Result<(), ApiError> {
    match sent.get(AT) {
        Some(_) => Err(ApiError::parameter(AT, "a pipeline reads the present; send a filter")),
        None => Ok(()),
    }
}

/// The state as of the moment that a permitted request asks for; nothing without `at`.
///
/// # Errors
/// As [`of_list`]; errors of the store.
pub(in crate::http) async fn past(
    state: &HttpState,
    sent: &Parameters,
    access: AccessLists,
) -> Result<Option<web::Data<HttpState>>, ApiError> {
    let Some(at) = sent.get(AT) else { return Ok(None) };
    let moment = moment(&state.services, AT, at).await?;
    Ok(Some(with_services(state, state.services.as_of(moment, access).await?)))
}

/// The types as of the moment that a permitted request asks for; the present ones without `at`.
///
/// # Errors
/// As [`past`].
pub(in crate::http) async fn types(state: &HttpState, request: &HttpRequest) -> Result<Arc<Types>, ApiError> {
    let past = past(state, &Parameters::of(request)?, AccessLists::OfThen).await?;
    let services = past.as_ref().map_or(&state.services, |past| &past.services);
    Ok(services.current_types().await?)
}

fn with_services(state: &HttpState, services: Services) -> web::Data<HttpState> {
    web::Data::new(HttpState { services: services.into(), ..state.clone() })
}
