//! Lists whose `filter` is an aggregation pipeline: the pipeline says which resources are on the list, and the list is
//! then made as any other.

use std::sync::Arc;

use actix_web::http::Method;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};

use super::request::Asked;
use super::stages::{self, Subject};
use crate::http::envelope::Wire;
use crate::http::error::ApiError;
use crate::http::objects;
use crate::http::outermost::AsSent;
use crate::http::params::{ListParams, ListRoute, Parameters};
use crate::http::state::HttpState;
use crate::http::{listing, path};
use crate::query::Filter;
use crate::service::objects as service;
use crate::service::resource::{self, Categories, Groups, Objects, Types, Users};
use crate::service::{Caller, ErrorCode, references};

/// Lists other than those of objects.
const PLAIN: ListRoute = ListRoute { key: "public_id", views: &[], objects: false, limit: 10, past: false };

/// The list that the pipeline selects, if this is a route of a list. The right of the route is checked already.
pub(super) async fn list(
    state: &web::Data<HttpState>,
    request: &HttpRequest,
    pattern: &str,
    asked: &Asked,
    pipeline: &str,
) -> Option<Result<HttpResponse, ApiError>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    debug_assert!(asked.pipeline.is_some(), "only a pipeline leads here");
    Some(match pattern {
        "/rest/objects/" => of_objects(state, request, pipeline, None).await,
        "/rest/objects/{public_id}/references" => {
            let id = request.match_info().get("public_id").and_then(path::positive);
            of_objects(state, request, pipeline, id).await
        }
        "/rest/types/" => of::<Types>(state, request, pipeline).await,
        "/rest/categories/" => of::<Categories>(state, request, pipeline).await,
        "/rest/users/" => of::<Users>(state, request, pipeline).await,
        "/rest/groups/" => of::<Groups>(state, request, pipeline).await,
        _ => Err(ApiError::parameter("filter", "must be an object here; a pipeline is not offered on this list")),
    })
}

fn caller(request: &HttpRequest) -> Result<Arc<Caller>, ApiError> {
    request.extensions().get::<Arc<Caller>>().cloned().ok_or_else(|| ApiError::of(ErrorCode::Internal))
}

/// Objects; with an id those that refer to it.
async fn of_objects(
    state: &web::Data<HttpState>,
    request: &HttpRequest,
    pipeline: &str,
    target: Option<i64>,
) -> Result<HttpResponse, ApiError> {
    let (caller, services) = (caller(request)?, &state.services);
    said_once(request)?;
    let params = objects::object_params(state, &caller, Parameters::of(request)?, &objects::LIST).await?;
    let mut among = params.query.filter.clone();
    let mut path = Objects::PATH.to_owned();
    if let Some(id) = target {
        let object = service::get_object(services, &caller, id).await?;
        among = among.and(references::referring_to(services, std::iter::once(&*object)).await?);
        path = format!("/objects/{id}/references");
    }
    let selected = stages::select(state, &caller, Subject::of::<Objects>(), among, pipeline).await?;
    let params = chosen(request, params, selected, pipeline)?;
    let listed = service::list_objects(services, &caller, params.query.clone(), objects::seen(&params)).await?;
    objects::answer(state, request, &caller, &path, &params, listed).await
}

async fn of<W: Wire + 'static>(
    state: &web::Data<HttpState>,
    request: &HttpRequest,
    pipeline: &str,
) -> Result<HttpResponse, ApiError> {
    let caller = caller(request)?;
    let params = state.list_params(&caller, Parameters::of(request)?, &PLAIN).await?;
    said_once(request)?;
    if W::COLLECTION == <Users as crate::service::resource::Resource>::COLLECTION {
        crate::service::users::refuse_password(params.query.filter.document(), &params.query.sort)?;
    }
    let selected = stages::select(state, &caller, Subject::of::<W>(), params.query.filter.clone(), pipeline).await?;
    let params = chosen(request, params, selected, pipeline)?;
    let listed = resource::list::<W>(&state.services, &params.query).await?;
    listing::answer::<W>(state, request, W::PATH, &params, listed).await
}

/// Refuses a parameter that was sent twice: the pipeline was taken out of the first, and the second is no condition beside it.
fn said_once(request: &HttpRequest) -> Result<(), ApiError> {
    let sent = request.extensions().get::<AsSent>().and_then(|sent| sent.0.query().map(str::to_owned));
    sent.map_or(Ok(()), |sent| Parameters::from_query(&sent).map(drop))
}

/// The parameters of a list of what was selected, which echo and link what was sent.
fn chosen(
    request: &HttpRequest,
    mut params: ListParams,
    selected: Vec<bson::Bson>,
    pipeline: &str,
) -> Result<ListParams, ApiError> {
    params.query.filter = Filter::one_of("public_id", selected);
    pipeline.clone_into(&mut params.filter);
    let sent = request.extensions().get::<AsSent>().and_then(|sent| sent.0.query().map(str::to_owned));
    if let Some(sent) = sent {
        params.sent = Parameters::from_query(&sent)?;
    }
    Ok(params)
}
