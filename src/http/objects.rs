//! Routes of objects: docs/api.md, Objects.

use std::sync::Arc;
use std::time::Instant;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use bson::Bson;
use bson::raw::RawDocumentBuf;
use serde_json::json;

use super::body::{JsonBody, JsonValue};
use super::call::{Answer, AsOriginal, Call, Edit};
use super::caller::add_warning;
use super::conditional::{self, Precondition};
use super::envelope::{self, Items, Nothing, Wire};
use super::error::ApiError;
use super::history::at;
use super::idempotency::IdempotencyKey;
use super::listing;
use super::params::{AT, ListParams, ListRoute, Parameters};
use super::path::{PathId, PathIds, PathValue};
use super::schema::{
    At, Cleaned, Deleted, DeletedObjects, FreeAddress, IdempotencyHeader, IfMatch, IfNoneMatch, Inserted, ListOf,
    ListedObject, Listing, NewObject, ObjectBody, ObjectListing, ObjectPatch, ObjectQuery, OfAddresses, References,
    RenderedObject, StateBody, StoredObject, Updated, WrittenObject, operation,
};
use super::sent::{Sent, beside_body};
use super::state::HttpState;
use crate::address;
use crate::admission;
use crate::domain::object_input::STATE;
use crate::domain::on_delete::OnDelete;
use crate::json::write::DateStyle;
use crate::query::{Budget, Fields, Filter, Projection, STORED};
use crate::service::history::as_of::AccessLists;
use crate::service::history::revert::deleted_object;
use crate::service::objects::references::Left;
use crate::service::objects::visible::VisibleObject;
use crate::service::objects::{self as service, Unclean, View};
use crate::service::objects::{by_value, field_names, free, joins, references, rendering};
use crate::service::once::Once;
use crate::service::precondition::IfMatch as Condition;
use crate::service::queries::advice;
use crate::service::resource::{self, Listed, Objects};
use crate::service::{Caller, ErrorCode, ServiceError};
use crate::store::{Documents, StoreError};

const VIEWS: &[&str] = &["native", "render"];
pub(super) const LIST: ListRoute = ListRoute { views: VIEWS, objects: true, past: true, ..ListRoute::by("public_id") };
/// The list of unclean objects is complete unless the request has a limit.
const UNCLEAN: ListRoute = ListRoute { views: VIEWS, objects: true, limit: u64::MAX, ..ListRoute::by("public_id") };

impl Wire for Objects {
    const PATH: &'static str = "/objects/";
    const DATES: DateStyle = DateStyle::Millis;
}

operation! {
    /// List objects, as stored or rendered.
    list_objects: params(Listing, ObjectListing, At), responses((status = 200, body = ListOf<ListedObject>))
}
pub(super) async fn list_objects(Call { state, request, caller }: Call) -> Answer {
    let (params, state) = list_params(state, &caller, Parameters::of(&request)?).await?;
    let listed = service::list_objects(&state.services, &caller, params.query.clone(), seen(&params)).await?;
    answer(&state, &request, &caller, Objects::PATH, &params, listed).await
}

operation! {
    /// List objects, with the parameters in a JSON body.
    query_objects: request_body = ObjectQuery, responses((status = 200, body = ListOf<ListedObject>))
}
pub(super) async fn query_objects(Call { state, request, caller }: Call, body: JsonValue) -> Answer {
    let sent = beside_body(&body.0, Parameters::of(&request)?)?;
    let (params, state) = list_params(state, &caller, sent).await?;
    let listed = service::list_objects(&state.services, &caller, params.query.clone(), seen(&params)).await?;
    answer(&state, &request, &caller, Objects::PATH, &params, listed).await
}

operation! {
    /// List the objects that refer to an object.
    list_references: params(Listing, ObjectListing, At), responses((status = 200, body = ListOf<ListedObject>))
}
pub(super) async fn list_references(Call { state, request, caller }: Call, id: PathId, sent: Sent) -> Answer {
    let (params, state) = list_params(state, &caller, sent.0).await?;
    let object = match service::get_object(&state.services, &caller, id.0).await {
        // What was deleted may still be referred to.
        Err(ServiceError::Refused { code: ErrorCode::ObjectNotFound, .. })
            if params.sent.get(AT).is_none() && !AsOriginal::is_asked(&request) =>
        {
            deleted_object(&state.services, &caller, id.0).await?
        }
        object => object?,
    };
    let mut query = params.query.clone();
    query.filter = query.filter.and(references::referring_to(&state.services, std::iter::once(&*object)).await?);
    let listed = service::list_objects(&state.services, &caller, query, seen(&params)).await?;
    let path = format!("/objects/{}/references", id.0);
    answer(&state, &request, &caller, &path, &params, listed).await
}

operation! {
    /// Find the first free address of a network.
    ///
    /// It is the first one that no object of the type has in the field. Of IPv4 networks of more than two addresses neither
    /// the first nor the last one is free. Of a large network the first 65,536 addresses are looked at.
    free_address: params(OfAddresses), responses((status = 200, body = FreeAddress))
}
pub(super) async fn free_address(Call { state, request, caller }: Call) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["type_id", "field", "network"], state.params.unknown)?;
    let needed = |name, what| ApiError::parameter(name, format!("is required: {what}"));
    let type_id = sent.number("type_id")?.ok_or_else(|| needed("type_id", "the type of the objects"))?;
    let type_id = i64::try_from(type_id).unwrap_or(i64::MAX);
    let field = sent.get("field").ok_or_else(|| needed("field", "the name of a field of the kind ip"))?;
    let network = sent.get("network").ok_or_else(|| needed("network", "for instance 10.0.0.0/24"))?;
    let network =
        address::parsed(network).map_err(|expected| ApiError::parameter("network", format!("must be {expected}")))?;
    let address = free::free_address(&state.services, &caller, type_id, field, network).await?;
    Ok(HttpResponse::Ok().json(FreeAddress { address }))
}

operation! {
    /// List the unclean objects of a type.
    list_unclean: params(Listing, ObjectListing), responses((status = 200, body = ListOf<ListedObject>))
}
pub(super) async fn list_unclean(Call { state, request, caller }: Call, type_id: PathId, sent: Sent) -> Answer {
    let sent = sent.0;
    let read = async |fields: Option<Fields>| {
        let fields = fields.map(|fields| fields.of_type(type_id.0));
        state.object_params(&caller, sent.clone(), &UNCLEAN, fields).await
    };
    let params = with_fields(&state, &caller, &sent, read).await?;
    let query = params.query.clone();
    // To the original an object is unclean by the names of its fields alone.
    let by = if AsOriginal::is_asked(&request) { Unclean::Names } else { Unclean::NamesOrValues };
    let listed = service::list_unclean(&state.services, &caller, (type_id.0, by), query, seen(&params)).await?;
    let path = format!("/objects/clean/{}", type_id.0);
    answer(&state, &request, &caller, &path, &params, listed).await
}

/// Reads parameters that may name fields, by those that the caller may know. If a name is refused, they are read again by
/// the types as they are in the store.
pub(super) async fn with_fields<T>(
    state: &HttpState,
    caller: &Caller,
    sent: &Parameters,
    read: impl AsyncFn(Option<Fields>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    if !sent.may_name_fields() {
        return read(None).await;
    }
    with_known_fields(state, caller, read).await
}

/// The same for what may name fields in any case.
///
/// # Errors
/// Those of the reading; errors of the store.
pub async fn with_known_fields<T>(
    state: &HttpState,
    caller: &Caller,
    read: impl AsyncFn(Option<Fields>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let fields = field_names::fields(&state.services, caller).await?;
    let refusal = match looked_up(state, caller, fields.clone(), &read).await {
        Ok(understood) => return Ok(understood),
        Err(refusal) => refusal,
    };
    match field_names::newer(&state.services, caller, &fields).await? {
        Some(newer) => looked_up(state, caller, newer, &read).await,
        None => Err(refusal),
    }
}

/// Reads parameters; once more when it is known which objects their conditions mean by others that these refer to.
async fn looked_up<T>(
    state: &HttpState,
    caller: &Caller,
    fields: Fields,
    read: &impl AsyncFn(Option<Fields>) -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    let fields = fields.looking_up();
    let understood = read(Some(fields.clone())).await?;
    if !field_names::look_up(&state.services, caller, &fields).await? {
        return Ok(understood);
    }
    read(Some(fields)).await
}

/// The parameters of a list, and the state as of the moment that they ask for: its fields are those that they can name.
async fn list_params(
    state: web::Data<HttpState>,
    caller: &Caller,
    sent: Parameters,
) -> Result<(ListParams, web::Data<HttpState>), ApiError> {
    let state = at::past(&state, &sent, AccessLists::OfToday).await?.unwrap_or(state);
    let params = object_params(&state, caller, sent, &LIST).await?;
    at::refuse_beside_others(&params)?;
    Ok((params, state))
}

/// Reads the parameters of a list of objects, which may name fields.
///
/// # Errors
/// As [`ListParams::read`].
pub async fn object_params(
    state: &HttpState,
    caller: &Caller,
    sent: Parameters,
    route: &ListRoute,
) -> Result<ListParams, ApiError> {
    let read = async |fields| state.object_params(caller, sent.clone(), route, fields).await;
    with_fields(state, caller, &sent, read).await
}

pub(super) fn seen(params: &ListParams) -> View {
    if params.view == Some("render") { View::Rendered } else { View::Native }
}

/// The hint about a pipeline that orders where no `sort` does.
const IDLE_SORT: &str = "the list is ordered by public_id; a $sort of the pipeline decides what $skip and $limit leave; \
                         send sort=... for the order of the list";

pub(super) async fn answer(
    state: &web::Data<HttpState>,
    request: &HttpRequest,
    caller: &Caller,
    path: &str,
    params: &ListParams,
    listed: Listed,
) -> Answer {
    let mut advice =
        advice::of(&state.services, caller, &params.query, seen(params) == View::Rendered, listed.is_empty()).await?;
    if params.idle_sort {
        advice.push(IDLE_SORT.to_owned());
    }
    let listed = if advice.is_empty() { listed } else { listed.without_hint() };
    let until = Instant::now().checked_add(state.services.max_time);
    let of = (state.clone(), caller.clone(), Arc::new(params.clone()));
    let write = move |objects: Documents| {
        let (state, caller, params) = of.clone();
        async move { items(&state, &caller, &params, &objects, until).await }
    };
    let response = listing::answer_with::<Objects, _>(state, request, (path, params), listed, write).await?;
    Ok(envelope::advised(response, &advice))
}

/// The answer to a write, with an entity tag only for a caller who sees the object.
pub(super) fn told(mut response: HttpResponse, shown: &VisibleObject) -> HttpResponse {
    if !shown.is_whole {
        response.headers_mut().remove(header::ETAG);
    }
    response
}

/// Objects as they are stored.
fn native(state: &HttpState, objects: &Documents) -> Result<Items, ApiError> {
    let mut items = Items::with_room(objects);
    for object in objects.iter() {
        let write = |out: &mut Vec<u8>| envelope::write_document(object, Objects::DATES, out);
        state.written.append(object.as_bytes(), items.begin(), write)?;
    }
    Ok(items)
}

/// Objects in the requested view; computing the projection ends at `until`.
async fn items(
    state: &HttpState,
    caller: &Caller,
    params: &ListParams,
    objects: &Documents,
    until: Option<Instant>,
) -> Result<Items, ApiError> {
    if params.query.stages.as_ref().is_some_and(|stages| !stages.selects) {
        return Items::of_results(objects);
    }
    let (joins, is_native) = (&params.query.through.projection, seen(params) == View::Native);
    if is_native && joins.is_empty() {
        return native(state, objects);
    }
    let joined = joins::values(&state.services, caller, joins, (objects, !is_native)).await?;
    let views = if is_native {
        None
    } else {
        let before = match &params.types {
            Some(types) => Arc::clone(types),
            None => state.services.current_types().await?,
        };
        Some(rendering::render_objects(&state.services, caller, (objects, before), Items::beginning()).await?)
    };
    match (views, params.query.projection.clone()) {
        (Some(views), None) => Ok(Items::from(views)),
        (None, None) => native(state, objects),
        (views, Some(projection)) => {
            let projection = (projection, params.query.filter.clone());
            projected((objects.clone(), views, joined), projection, until).await
        }
    }
}

/// What a projection leaves of objects or of their views, with what is joined to them. It evaluates expressions of the client
/// on each.
async fn projected(
    (objects, views, joined): (Documents, Option<rendering::Views>, Vec<joins::Joined>),
    (projection, filter): (Projection, Filter),
    until: Option<Instant>,
) -> Result<Items, ApiError> {
    let projected = admission::work(move |means| {
        let mut items = Items::default();
        let budget = Budget::until(until).within(means);
        let wholes: Box<dyn Iterator<Item = Result<RawDocumentBuf, ServiceError>>> = match &views {
            Some(views) => {
                Box::new(views.iter().zip(&joined).map(|(view, joined)| joins::view_with_values(view, joined)))
            }
            None => Box::new(
                objects
                    .iter()
                    .zip(&joined)
                    .map(|(object, joined)| joins::with_values(resource::decode(object)?, STORED, joined)),
            ),
        };
        for whole in wholes {
            let projected = projection.apply_within(&whole?, &filter, &budget).map_err(StoreError::from)?;
            envelope::write_document(&projected, Objects::DATES, items.begin())?;
        }
        Ok(items)
    });
    projected.await?
}

operation! {
    /// Read an object, rendered.
    render_object: params(At, IfNoneMatch), responses((status = 200, body = RenderedObject))
}
pub(super) async fn render_object(Call { state, request, caller }: Call, id: PathId) -> Answer {
    let state = at::of_read::<Objects>(state, &request, (&*caller, id.0), AccessLists::OfToday).await?;
    let (view, tag) = rendering::render_one(&state.services, &caller, id.0).await?;
    if let Some(not_modified) = conditional::not_modified(&request, &tag) {
        return Ok(not_modified);
    }
    Ok(envelope::tagged(envelope::json(StatusCode::OK, view, |_| {}), &tag))
}

operation! {
    /// Read an object as it is stored.
    get_object: params(At, IfNoneMatch), responses((status = 200, body = StoredObject))
}
pub(super) async fn get_object(Call { state, request, caller }: Call, id: PathId) -> Answer {
    let state = at::of_read::<Objects>(state, &request, (&*caller, id.0), AccessLists::OfToday).await?;
    let object = service::get_object(&state.services, &caller, id.0).await?;
    envelope::bare::<Objects>(&request, &object)
}

operation! {
    /// Create an object.
    create_object: params(IdempotencyHeader), request_body = NewObject, responses((status = 200, body = Inserted<WrittenObject>))
}
pub(super) async fn create_object(
    Call { state, request, caller }: Call,
    key: IdempotencyKey,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let work = service::create_object(&state.services, &caller, &body.0);
    let again = async |outcome| VisibleObject::of(&state.services, &caller, resource::encode(&outcome)?).await;
    let created = Once::carry_out(key.creation(&body.0)?, &state.services, work, again).await?;
    Ok(told(envelope::inserted::<Objects>(&state, &request, StatusCode::OK, &created.document)?, &created))
}

operation! {
    /// Replace an object.
    update_object: params(IfMatch), request_body = ObjectBody, responses((status = 200, body = Updated<WrittenObject>))
}
pub(super) async fn update_object(Edit { state, request, caller, id, condition }: Edit, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::update_object(&state.services, &caller, id, &condition, &body.0).await?;
    Ok(told(envelope::updated::<Objects>(&state, &request, StatusCode::OK, &updated.document)?, &updated))
}

operation! {
    /// Write the object that has a value of a unique field.
    write_by_value:
        params(IfMatch),
        request_body = ObjectBody,
        responses((status = 200, body = Updated<WrittenObject>), (status = 201, body = Inserted<WrittenObject>))
}
pub(super) async fn write_by_value(
    Call { state, request, caller }: Call,
    place: PathValue,
    condition: Precondition,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let written = by_value::write_by_value(&state.services, &caller, &place.0, &condition.0, &body.0).await?;
    let object = written.object;
    let response = if written.is_new {
        envelope::inserted::<Objects>(&state, &request, StatusCode::CREATED, &object.document)?
    } else {
        envelope::updated::<Objects>(&state, &request, StatusCode::OK, &object.document)?
    };
    Ok(told(response, &object))
}

operation! {
    /// Merge a patch into an object.
    patch_object:
        params(IfMatch),
        request_body(content((ObjectPatch = "application/json"), (ObjectPatch = "application/merge-patch+json"))),
        responses((status = 202, body = Updated<WrittenObject>))
}
pub(super) async fn patch_object(Edit { state, request, caller, id, condition }: Edit, patch: JsonValue) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::patch_object(&state.services, &caller, id, &condition, &patch.0).await?;
    Ok(told(envelope::updated::<Objects>(&state, &request, StatusCode::ACCEPTED, &updated.document)?, &updated))
}

operation! {
    /// Delete an object, or several with commas between their ids.
    delete_object: params(IfMatch, References), responses((status = 200, body = Deleted<WrittenObject>))
}
pub(super) async fn delete_object(
    Call { state, request, caller }: Call,
    id: Result<PathId, ApiError>,
    ids: Result<PathIds, ApiError>,
    condition: Precondition,
) -> Answer {
    if request.match_info().get("public_id").is_some_and(|segment| segment.contains(',')) {
        return remove_many(&state, &request, &caller, &ids?, &condition.0).await;
    }
    let on_references = on_references(&state, &request)?;
    let (deleted, left) = service::delete_object(&state.services, &caller, id?.0, &condition.0, on_references).await?;
    let response = envelope::deleted::<Objects>(&state, StatusCode::OK, &deleted.document, &Nothing {})?;
    Ok(with_left(response, &left, 1))
}

operation! {
    /// Delete several objects.
    delete_objects: params(References), responses((status = 200, body = DeletedObjects))
}
pub(super) async fn delete_objects(
    Call { state, request, caller }: Call,
    ids: PathIds,
    condition: Precondition,
) -> Answer {
    remove_many(&state, &request, &caller, &ids, &condition.0).await
}

async fn remove_many(
    state: &HttpState,
    request: &HttpRequest,
    caller: &Caller,
    ids: &PathIds,
    condition: &Condition,
) -> Answer {
    refuse_if_match(condition)?;
    let on_references = on_references(state, request)?;
    let outcome = service::delete_objects(&state.services, caller, &ids.0, on_references).await?;
    let items = Items::of::<Objects>(&outcome.removed)?;
    let beside = json!({"not_found": outcome.not_found});
    let response = envelope::collection::<Objects>(state, StatusCode::OK, "deleted_entries", &items, &beside, "DELETE");
    Ok(with_left(response, &outcome.left, items.count))
}

fn on_references(state: &HttpState, request: &HttpRequest) -> Result<OnDelete, ApiError> {
    let sent = Parameters::of(request)?;
    sent.only(&["on_references"], state.params.unknown)?;
    read_on_references(&sent)
}

/// Refuses a condition on one object in a request about several.
pub(super) fn refuse_if_match(condition: &Condition) -> Result<(), ApiError> {
    if *condition == Condition::Absent {
        return Ok(());
    }
    let message = "If-Match speaks of one object; write them one by one, or leave it out";
    Err(ApiError::new(ErrorCode::IfMatchOnSeveral, message))
}

/// What a delete does to references.
pub(super) fn read_on_references(sent: &Parameters) -> Result<OnDelete, ApiError> {
    Ok(sent.one_of("on_references", &OnDelete::NAMES)?.map_or(OnDelete::Keep, OnDelete::named))
}

/// The answer to a delete, with what still refers to the `removed` objects.
pub(super) fn with_left(mut response: HttpResponse, left: &Left, removed: usize) -> HttpResponse {
    if let Some(warning) = left.warning(removed) {
        add_warning(response.headers_mut(), &warning);
    }
    response
}

operation! {
    /// Read whether an object is active.
    get_state: responses((status = 200, body = bool, content_type = "application/json"))
}
pub(super) async fn get_state(Call { state, request, caller }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let object = service::get_object(&state.services, &caller, id.0).await?;
    let active = object.get_bool("active").unwrap_or(true);
    Ok(envelope::json(StatusCode::OK, active.to_string().into_bytes(), |_| {}))
}

operation! {
    /// Set whether an object is active.
    set_state:
        params(IfMatch),
        request_body = StateBody,
        responses((status = 202, body = Updated<WrittenObject>), (status = 204, description = "It was so already."))
}
pub(super) async fn set_state(Edit { state, request, caller, id, condition }: Edit, body: JsonValue) -> Answer {
    state.no_parameters(&request)?;
    let wanted = body.0.as_bool().or_else(|| body.0.get("active")?.as_bool());
    let active = wanted
        .ok_or_else(|| ApiError::new(ErrorCode::StateInvalid, "send true, false, or {\"active\": true or false}"))?;
    let names = body.0.as_object().into_iter().flat_map(|members| members.keys().cloned());
    let unknown = STATE.unknown_members(&names.map(|name| (name, Bson::Null)).collect(), None);
    if !unknown.is_empty() {
        return Err(ServiceError::Violations(unknown).into());
    }
    match service::set_state(&state.services, &caller, id, &condition, active).await? {
        Some(updated) => {
            Ok(told(envelope::updated::<Objects>(&state, &request, StatusCode::ACCEPTED, &updated.document)?, &updated))
        }
        None => Ok(HttpResponse::NoContent().finish()),
    }
}

operation! {
    /// Clean the unclean objects of a type.
    clean_objects: responses((status = 202, body = Cleaned))
}
pub(super) async fn clean_objects(Call { state, request, caller }: Call, type_id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let outcome = service::clean_objects(&state.services, &caller, type_id.0).await?;
    let items = Items::of::<Objects>(&outcome.cleaned)?;
    let beside = json!({"failed": outcome.failed});
    Ok(envelope::collection::<Objects>(&state, StatusCode::ACCEPTED, "results", &items, &beside, "UPDATE"))
}
