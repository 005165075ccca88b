//! The parameter `at`: a moment of the past at which single reads and lists look.

use actix_web::{HttpRequest, web};

use crate::http::error::ApiError;
use crate::http::params::{AT, EXPLAIN, ListParams, Parameters};
use crate::http::state::HttpState;
use crate::service::Caller;
use crate::service::history::as_of::AccessLists;
use crate::service::history::moments::{moment, require_known};
use crate::service::history::past::Moment;
use crate::service::resource::Resource;

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
        return Err(ApiError::parameter(AT, "a pipeline reads the present; send a filter"));
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

fn as_of(state: &HttpState, moment: Moment, access: AccessLists) -> web::Data<HttpState> {
    let services = state.services.as_of(moment, access).into();
    web::Data::new(HttpState { services, ..state.clone() })
}
