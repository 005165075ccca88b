//! Lists whose `filter` is an aggregation pipeline: the pipeline says which resources are on the list, and the list is
//! then made as any other.

use actix_web::http::Method;
use actix_web::{HttpMessage, HttpRequest, HttpResponse, web};
use bson::raw::RawDocument;
use bson::{Bson, doc};
use futures::TryStreamExt;

use super::request::caller;
use crate::admission;
use crate::http::envelope::Wire;
use crate::http::error::ApiError;
use crate::http::history::at;
use crate::http::objects;
use crate::http::outermost::AsSent;
use crate::http::params::{ListParams, ListRoute, Parameters, understood};
use crate::http::state::HttpState;
use crate::http::{listing, path, stages};
use crate::json;
use crate::query::pipeline::Terms;
use crate::query::{Effort, Filter, Limits, Pipeline};
use crate::service::exchange::tools::{self, ToolCollection};
use crate::service::objects as service;
use crate::service::objects::references;
use crate::service::resource::{self, Categories, Groups, Objects, Resource, Types, Users};
use crate::service::{Caller, ErrorCode};

/// What `$lookup` reads.
const LOOKED_UP: [&str; 5] =
    [Objects::COLLECTION, Types::COLLECTION, Categories::COLLECTION, Users::COLLECTION, Groups::COLLECTION];

/// Lists other than those of objects.
const PLAIN: ListRoute = ListRoute::by("public_id");

/// The list that the pipeline selects, if this is a route of a list. The right of the route is checked already.
pub(super) async fn list(
    state: &web::Data<HttpState>,
    request: &HttpRequest,
    pattern: &str,
    pipeline: &str,
) -> Option<Result<HttpResponse, ApiError>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    if let Err(error) = Parameters::of(request).and_then(|sent| at::refuse_beside_pipeline(&sent)) {
        return Some(Err(error));
    }
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
    let selected = select(state, &caller, Objects::COLLECTION, among, pipeline).await?;
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
    if W::COLLECTION == Users::COLLECTION {
        crate::service::accounts::users::refuse_password(params.query.filter.document(), &params.query.sort)?;
    }
    let selected = select(state, &caller, W::COLLECTION, params.query.filter.clone(), pipeline).await?;
    let params = chosen(request, params, selected, pipeline)?;
    let listed = resource::list::<W>(&state.services, &params.query).await?;
    listing::answer::<W>(state, request, W::PATH, &params, listed).await
}

/// Refuses a parameter that was sent twice: the pipeline was taken out of the first, and the second adds no condition.
fn said_once(request: &HttpRequest) -> Result<(), ApiError> {
    let sent = request.extensions().get::<AsSent>().and_then(|sent| sent.0.query().map(str::to_owned));
    sent.map_or(Ok(()), |sent| Parameters::from_query(&sent).map(drop))
}

/// The parameters of the list of the selected documents. Its echo and its links repeat what the client sent.
fn chosen(
    request: &HttpRequest,
    mut params: ListParams,
    selected: Filter,
    pipeline: &str,
) -> Result<ListParams, ApiError> {
    params.query.filter = selected;
    pipeline.clone_into(&mut params.filter);
    let sent = request.extensions().get::<AsSent>().and_then(|sent| sent.0.query().map(str::to_owned));
    if let Some(sent) = sent {
        params.sent = Parameters::from_query(&sent)?;
    }
    Ok(params)
}

/// The condition on the documents that a pipeline leaves among those that match. Stages may take out `public_id`, or `_id`, but
/// not both.
///
/// # Errors
/// 400 naming what the pipeline cannot have, 403 for a join with what the caller may not see.
async fn select(
    state: &HttpState,
    caller: &Caller,
    collection: &'static str,
    among: Filter,
    pipeline: &str,
) -> Result<Filter, ApiError> {
    let (services, most) = (&state.services, state.params.max_limit);
    let reach = ToolCollection::named(collection).ok_or_else(|| ApiError::of(ErrorCode::Internal))?;
    let reach = reach.reach(services, caller).await?;
    let terms = Terms { place: "filter", ..tools::terms(collection, state.params.limits, services.now()) };
    let text = pipeline.to_owned();
    let read = move |effort: &Effort| read(&text, &terms, effort);
    let pipeline = understood(pipeline.len(), services.max_time, read).await?;
    let limit = i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1);
    let ids = [doc! { "$project": { "public_id": 1 } }.into(), doc! { "$limit": limit }.into()];
    let ids = Pipeline::parse(&ids, &Limits::NONE, services.now())?;
    let pipeline = Pipeline::matching(among).then(pipeline).then(ids);
    let (mut chunks, _) = reach.aggregate(services, caller, pipeline, services.max_time, &LOOKED_UP).await?;
    let (mut ids, mut keys) = (Vec::new(), Vec::new());
    while let Some(chunk) = chunks.try_next().await? {
        for left in chunk.iter() {
            match (id_of(left), left.get("_id").ok().flatten()) {
                (Some(id), _) => ids.push(Bson::Int64(id)),
                (None, Some(key)) => keys.extend(Bson::try_from(key)),
                (None, None) => {
                    return Err(wrong("the stages leave neither public_id nor _id to choose by; keep one".to_owned()));
                }
            }
        }
        // The ids, and the condition of the list that they become.
        admission::current().hold(chunk.len() * 2 * size_of::<Bson>())?;
        if (ids.len() + keys.len()) as u64 > most {
            return Err(wrong(format!("the pipeline selects more than {most}; select fewer")));
        }
    }
    if keys.is_empty() {
        return Ok(Filter::one_of("public_id", ids));
    }
    let either = doc! { "$or": [{ "public_id": { "$in": ids } }, { "_id": { "$in": keys } }] };
    Filter::parse(&either, &Limits::NONE).map_err(|error| wrong(error.to_string()))
}

fn wrong(message: String) -> ApiError {
    ApiError::parameter("filter", message)
}

/// The stages of lists, and a `$group` that leaves each document alone.
fn read(text: &str, terms: &Terms, effort: &Effort) -> Result<Pipeline, ApiError> {
    let Bson::Array(sent) = json::read::value_from_str(text).map_err(|error| wrong(error.to_string()))? else {
        return Err(wrong("must be an object or a pipeline".to_owned()));
    };
    let pipeline = Pipeline::read_with(&sent, terms, effort)?;
    let is_alone = |stage: &Bson| {
        let group = stage.as_document().and_then(|stage| stage.get_document("$group").ok());
        group.is_some_and(|group| group.get_str("_id").is_ok_and(|id| id == "$_id"))
    };
    stages::refuse_others(&sent, is_alone)?;
    Ok(pipeline)
}

/// The id of a document; a pipeline may have made it a text.
fn id_of(document: &RawDocument) -> Option<i64> {
    match Bson::try_from(document.get("public_id").ok()??).ok()? {
        Bson::Int64(id) => Some(id),
        Bson::Int32(id) => Some(i64::from(id)),
        Bson::String(text) => text.parse().ok(),
        _ => None,
    }
}
