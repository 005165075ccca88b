//! Routes that only clients of DATAGERRY use. Each has the right that it has there, or a stricter one.

use std::sync::Arc;

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse, web};
use bson::doc;
use serde_json::{Map, Value, json};

use super::request::{caller, pairs_of};
use super::{date, logs};
use crate::domain::user::{LOCAL_AUTHENTICATOR, OIDC_AUTHENTICATOR};
use crate::http::RouteAccess::{self, Public, Right, SignedIn};
use crate::http::body::JsonValue;
use crate::http::envelope::{self, ISO_TIME, Wire};
use crate::http::error::ApiError;
use crate::http::path::positive;
use crate::http::routes::Routes;
use crate::http::state::HttpState;
use crate::query::Filter;
use crate::service::objects as service;
use crate::service::objects::dangling;
use crate::service::precondition::IfMatch;
use crate::service::resource::{Categories, Objects, Resource, Types};
use crate::service::{Caller, ErrorCode};
use crate::store::FindQuery;

/// The maximum number of objects that one request changes.
const MOST_OBJECTS: usize = 1000;
/// The number of types on the dashboard.
const MOST_GROUPS: usize = 5;

/// The right to see the log.
const LOG: RouteAccess = Right("base.framework.log.view");

/// Adds the routes.
pub fn routes_of_datagerry(routes: Routes) -> Routes {
    routes
        .and(Method::PUT, "/rest/objects/0", Right("base.framework.object.edit"), change_several)
        .and(Method::GET, "/rest/objects/group/{name}", Right("base.framework.object.view"), objects_by_type)
        .and(Method::GET, "/rest/search/quick/count", Right("base.framework.object.view"), count_found)
        .and(Method::GET, "/rest/search/quick/count/", Right("base.framework.object.view"), count_found)
        .and(Method::GET, "/rest/log/object/exists", LOG, logs::of_present)
        .and(Method::GET, "/rest/log/object/notexists", LOG, logs::of_gone)
        .and(Method::GET, "/rest/log/object/deleted", LOG, logs::of_deletions)
        .and(Method::GET, "/rest/log/object/{public_id}", LOG, logs::of_object)
        .and(Method::GET, "/rest/log/{public_id}", LOG, logs::one)
        .and(Method::GET, "/rest/log/{public_id}/corresponding", LOG, logs::corresponding)
        .and(Method::GET, "/rest/date/", Public, date::read)
        .and(Method::POST, "/rest/date/", Right("base.system.edit"), date::save)
        .and(Method::PUT, "/rest/date/", Right("base.system.edit"), date::save)
        .and(Method::GET, "/rest/auth/providers", Right("base.system.view"), providers)
        .and(Method::GET, "/rest/special/intro", SignedIn, intro)
}

fn parameter(request: &HttpRequest, name: &str) -> Option<String> {
    pairs_of(request.query_string())?.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

fn only_active(request: &HttpRequest) -> bool {
    parameter(request, "onlyActiveObjCookie").is_some_and(|value| value == "true" || value == "True")
}

fn answer(value: &Value) -> HttpResponse {
    envelope::json(StatusCode::OK, value.to_string().into_bytes(), |_| {})
}

/// `PUT /rest/object/0?objectIDs=1&objectIDs=2`: merges the body into each of these objects, each on its own.
async fn change_several(
    state: web::Data<HttpState>,
    request: HttpRequest,
    body: JsonValue,
) -> Result<HttpResponse, ApiError> {
    let caller = caller(&request)?;
    let pairs = pairs_of(request.query_string()).unwrap_or_default();
    let named = pairs.iter().filter(|(name, _)| name == "objectIDs").flat_map(|(_, value)| value.split(','));
    let mut ids = Vec::new();
    for text in named {
        let id = positive(text).ok_or_else(|| ApiError::parameter("objectIDs", "must be ids of objects"))?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if ids.is_empty() || ids.len() > MOST_OBJECTS {
        return Err(ApiError::parameter("objectIDs", format!("must name 1 to {MOST_OBJECTS} objects")));
    }
    let patch = patch_of(&body.0)?;
    let (mut results, mut failed, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for id in ids {
        let change = service::patch_object(&state.services, &caller, id, &IfMatch::Absent, &patch);
        let (outcome, dangling) = dangling::accepted(change).await;
        match outcome {
            Ok(shown) => {
                results.push(written(&shown.document)?);
                for wrong in dangling {
                    if !warnings.contains(&wrong) {
                        warnings.push(wrong);
                    }
                }
            }
            Err(error) => {
                let error = ApiError::from(error);
                let mut item = denied(&state, &caller, &error).await.unwrap_or(error).as_item();
                item["public_id"] = json!(id);
                item["error_message"] = item["message"].clone();
                failed.push(item);
            }
        }
    }
    let time = state.services.clock.now().format(ISO_TIME).to_string();
    let body = json!({
        "results": results, "failed": failed, "response_type": "UPDATE", "model": Objects::MODEL, "time": time,
    });
    let mut response = envelope::json(StatusCode::ACCEPTED, body.to_string().into_bytes(), |_| {});
    super::warn(response.headers_mut(), std::iter::empty(), &warnings);
    Ok(response)
}

/// DATAGERRY answers 403 for a hidden object. So an id of nothing gets the same, for a caller from whom some type is hidden.
pub(super) async fn denied(state: &HttpState, caller: &Caller, error: &ApiError) -> Option<ApiError> {
    if error.code() != ErrorCode::ObjectNotFound {
        return None;
    }
    let types = state.services.current_types().await.ok()?;
    let message = "the object does not exist, or the access list of its type hides it from your group";
    types.visible_to(caller).map(|_| ApiError::new(ErrorCode::AclDenied, message))
}

/// The members that a change of several objects may set: fields and whether they are active. All else is of one object.
fn patch_of(body: &Value) -> Result<Value, ApiError> {
    let wrong = || ApiError::new(ErrorCode::PatchNotAnObject, "the body must be an object with fields");
    let members = body.as_object().ok_or_else(wrong)?;
    let kept = members.iter().filter(|(name, value)| matches!(name.as_str(), "fields" | "active") && !value.is_null());
    Ok(Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>()))
}

fn written(document: &bson::raw::RawDocument) -> Result<Value, ApiError> {
    let mut text = Vec::new();
    envelope::write_document(document, Objects::DATES, &mut text)?;
    serde_json::from_slice(&text).map_err(|_| ApiError::of(ErrorCode::Internal))
}

/// `GET /rest/object/group/type_id`: the types with the most objects that the caller may see.
async fn objects_by_type(
    state: web::Data<HttpState>,
    request: HttpRequest,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let (caller, services) = (caller(&request)?, &state.services);
    if name.as_str() != "type_id" {
        return Err(ApiError::new(ErrorCode::NotFound, "objects can be grouped only by type_id"));
    }
    let types = services.current_types().await?;
    let active = only_active(&request);
    let mut groups = Vec::new();
    for entry in types.iter() {
        let of_type = Filter::equals("type_id", entry.object_type.public_id);
        let of_type = if active { of_type.and(Filter::equals("active", true)) } else { of_type };
        let filter = types.scope(&caller, of_type);
        let count = services.store.count(Objects::COLLECTION, &filter, services.max_time).await?;
        if count > 0 {
            groups.push((count, filter, Arc::clone(entry)));
        }
    }
    groups.sort_by_key(|(count, _, _)| std::cmp::Reverse(*count));
    let mut items = Vec::new();
    for (count, filter, entry) in groups.into_iter().take(MOST_GROUPS) {
        let first = services.store.first(Objects::COLLECTION, FindQuery::new(filter, services.max_time)).await?;
        let first = first.as_deref().map(written).transpose()?;
        let of_type = &entry.object_type;
        items.push(json!({"_id": of_type.public_id, "result": first, "count": count, "label": of_type.label}));
    }
    Ok(answer(&Value::Array(items)))
}

/// `GET /rest/search/quick/count/`: how many visible objects have a value that the text matches.
async fn count_found(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (caller, services) = (caller(&request)?, &state.services);
    let text = parameter(&request, "searchValue").filter(|text| !text.is_empty()).unwrap_or_else(|| ".*".to_owned());
    let question = doc! {"fields.value": {"$regex": text, "$options": "ims"}};
    let filter = Filter::parse_at(&question, &state.params.limits, services.now())?;
    let types = services.current_types().await?;
    let count = async |is_active: bool| {
        let state = Filter::equals("active", true);
        let state = if is_active { state } else { Filter::none_of("active", [true]) };
        let filter = types.scope(&caller, filter.clone().and(state));
        services.store.count(Objects::COLLECTION, &filter, services.max_time).await
    };
    let active = count(true).await?;
    let inactive = if only_active(&request) { 0 } else { count(false).await? };
    Ok(answer(&json!({"active": active, "inactive": inactive, "total": active + inactive})))
}

/// `GET /rest/auth/providers`: what a user's `authenticator` may be.
async fn providers(state: web::Data<HttpState>) -> HttpResponse {
    let mut classes = vec![json!({"class_name": LOCAL_AUTHENTICATOR, "external": false})];
    if state.services.identities.is_some() {
        classes.push(json!({"class_name": OIDC_AUTHENTICATOR, "external": true}));
    }
    answer(&Value::Array(classes))
}

/// `GET /rest/special/intro`: whether there are categories, types and objects yet.
async fn intro(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (caller, services) = (caller(&request)?, &state.services);
    let types = services.current_types().await?;
    let is_any = |collection, filter| services.store.has_any(collection, filter, services.max_time);
    let objects = types.scope(&caller, Filter::all());
    let states = [
        ("Category", "/framework/category/add", is_any(Categories::COLLECTION, Filter::all()).await?),
        ("Type", "/framework/type/add", is_any(Types::COLLECTION, Filter::all()).await?),
        ("Object", "/framework/object/add", is_any(Objects::COLLECTION, objects).await?),
    ];
    let execute = states.iter().all(|(_, _, state)| *state);
    let steps: Vec<Value> = states
        .iter()
        .zip(1..)
        .map(|((label, link, state), step)| {
            json!({"step": step, "label": label, "icon": "check-circle", "link": link, "state": state})
        })
        .collect();
    Ok(answer(&json!({"steps": steps, "execute": execute})))
}
