//! Routes of types (section 4.6).

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::body::{JsonBody, JsonValue};
use super::caller::Authenticated;
use super::conditional::Precondition;
use super::envelope::{self, ISO_TIME, Wire};
use super::error::ApiError;
use super::listing;
use super::params::{ListParams, ListRoute, Parameters};
use super::path::PathId;
use super::state::HttpState;
use crate::json::write::DateStyle;
use crate::service::resource::{self, Types};
use crate::service::types as service;

const LIST: ListRoute = ListRoute { key: "public_id", views: &[], objects: false, limit: 10 };

impl Wire for Types {
    const PATH: &'static str = "/types/";
    const DATES: DateStyle = DateStyle::Iso;
    const TIME: &'static str = ISO_TIME;
}

/// List types.
pub(super) async fn list_types(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let params = ListParams::read(Parameters::of(&request)?, &LIST, &state.params)?;
    let listed = resource::list::<Types>(&state.services, &params.query).await?;
    listing::answer::<Types>(&state, &request, Types::PATH, &params, listed).await
}

/// Read a type.
pub(super) async fn get_type(
    state: web::Data<HttpState>,
    request: HttpRequest,
    id: PathId,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let found = resource::get::<Types>(&state.services, id.0).await?;
    envelope::single::<Types>(&state, &request, &found)
}

/// Create a type.
pub(super) async fn create_type(
    state: web::Data<HttpState>,
    request: HttpRequest,
    body: JsonBody,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let created = service::create_type(&state.services, &body.0).await?;
    envelope::inserted::<Types>(&state, &request, StatusCode::CREATED, &created)
}

/// Replace a type.
pub(super) async fn update_type(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    id: PathId,
    condition: Precondition,
    body: JsonBody,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let updated = service::update_type(&state.services, &caller.0, id.0, &condition.0, &body.0).await?;
    envelope::updated::<Types>(&state, &request, StatusCode::ACCEPTED, &updated)
}

/// Merge a patch into a type.
pub(super) async fn patch_type(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    id: PathId,
    condition: Precondition,
    patch: JsonValue,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let updated = service::patch_type(&state.services, &caller.0, id.0, &condition.0, &patch.0).await?;
    envelope::updated::<Types>(&state, &request, StatusCode::ACCEPTED, &updated)
}

/// Delete a type.
pub(super) async fn delete_type(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    id: PathId,
    condition: Precondition,
) -> Result<HttpResponse, ApiError> {
    let sent = Parameters::of(&request)?;
    sent.only(&["cascade"], state.params.unknown)?;
    let cascade = sent.flag("cascade")?;
    let (deleted, also_changed) = service::delete_type(&state.services, &caller.0, id.0, &condition.0, cascade).await?;
    envelope::deleted::<Types>(
        &state,
        StatusCode::ACCEPTED,
        &deleted,
        &serde_json::json!({"also_changed": also_changed}),
    )
}
