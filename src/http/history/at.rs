//! The parameter `at`: a moment of the past at which single reads and lists look.

use std::sync::Arc;

use actix_web::{HttpRequest, web};

use crate::http::error::ApiError;
use crate::http::params::{AT, EXPLAIN, ListParams, Parameters};
use crate::http::state::HttpState;
use crate::service::Caller;
use crate::service::history::as_of::AccessLists;
use crate::service::history::moments::{moment, require_known};
use crate::service::history::past::Moment;
use crate::service::resource::Resource;
use crate::service::type_catalog::Types;

/// The state as of the moment that a list asks for; the present one without `at`.
///
/// # Errors
/// 400 for what is no moment of the past, and beside `explain`; 410 for what is too long ago.
pub(in crate::http) async fn of_list(
    state: web::Data<HttpState>,
    params: &ListParams,
    access: AccessLists,
) -> Result<web::Data<HttpState>, ApiError> {
    let Some(at) = params.sent.get(AT) else { return Ok(state) };
    if params.query.explain {
        return Err(ApiError::parameter(EXPLAIN, "explains lists of the present; leave out at"));
    }
    if params.query.stages.is_some() {
        refuse_beside_pipeline(&params.sent)?;
    }
    let moment = moment(&state.services, AT, at).await?;
    Ok(as_of(&state, moment, access))
}

/// The same for a single read, which knows no other parameter.
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
    require_known::<R>(&state.services, caller, id, moment).await?;
    Ok(as_of(&state, moment, access))
}

/// Refuses a moment of the past beside a pipeline.
///
/// # Errors
/// 400 if there is one.
pub(in crate::http) fn refuse_beside_pipeline(sent: &Parameters) -> Result<(), ApiError> {
    match sent.get(AT) {
        Some(_) => Err(ApiError::parameter(AT, "a pipeline reads the present; send a filter")),
        None => Ok(()),
    }
}

/// The types as of the moment that a permitted request asks for; the present ones without `at`.
///
/// # Errors
/// As [`of_list`]; errors of the store.
pub(in crate::http) async fn types(state: &HttpState, request: &HttpRequest) -> Result<Arc<Types>, ApiError> {
    let sent = Parameters::of(request)?;
    let past = match sent.get(AT) {
        Some(at) => Some(as_of(state, moment(&state.services, AT, at).await?, AccessLists::OfThen)),
        None => None,
    };
    let services = past.as_ref().map_or(&state.services, |past| &past.services);
    Ok(services.types.current(&*services.store, services.max_time).await?)
}

fn as_of(state: &HttpState, moment: Moment, access: AccessLists) -> web::Data<HttpState> {
    let services = state.services.as_of(moment, access).into();
    web::Data::new(HttpState { services, ..state.clone() })
}
