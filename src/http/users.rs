//! Routes of users: docs/api.md, Users.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};

use super::body::{JsonBody, JsonValue};
use super::caller::Authenticated;
use super::conditional::Precondition;
use super::envelope::{self, Nothing, SPACED_TIME, Wire};
use super::error::ApiError;
use super::idempotency::IdempotencyKey;
use super::listing;
use super::params::{ListRoute, Parameters};
use super::path::PathId;
use super::schema::{
    Deleted, Forget, IdempotencyHeader, IfMatch, IfNoneMatch, Inserted, ListOf, Listing, NewUser, PasswordBody, Single,
    Updated, User, UserBody, UserPatch, operation,
};
use super::sent::Sent;
use super::state::HttpState;
use crate::json::write::DateStyle;
use crate::service::once::Once;
use crate::service::resource::{self, Users};
use crate::service::users as service;

const LIST: ListRoute = ListRoute { key: "public_id", views: &[], objects: false, limit: 10, past: false };

impl Wire for Users {
    const PATH: &'static str = "/users/";
    const DATES: DateStyle = DateStyle::Spaced;
    const TIME: &'static str = SPACED_TIME;
}

operation! {
    /// List users.
    list_users: params(Listing), responses((status = 200, body = ListOf<User>))
}
pub(super) async fn list_users(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    sent: Sent,
) -> Result<HttpResponse, ApiError> {
    let params = state.list_params(&caller.0, sent.0, &LIST).await?;
    let listed = service::list_users(&state.services, &params.query).await?;
    listing::advised::<Users>(&state, &request, Users::PATH, &params, listed).await
}

operation! {
    /// Read a user.
    get_user: params(IfNoneMatch), responses((status = 200, body = Single<User>))
}
pub(super) async fn get_user(
    state: web::Data<HttpState>,
    request: HttpRequest,
    id: PathId,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let found = resource::get::<Users>(&state.services, id.0).await?;
    envelope::single::<Users>(&state, &request, &found)
}

operation! {
    /// Create a user.
    create_user: params(IdempotencyHeader), request_body = NewUser, responses((status = 201, body = Inserted<User>))
}
pub(super) async fn create_user(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    key: IdempotencyKey,
    body: JsonBody,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let work = service::create_user(&state.services, &caller.0, &body.0);
    let again = async |outcome| resource::encode(&outcome);
    let created = Once::carry_out(key.creation(&body.0)?, &state.services, work, again).await?;
    envelope::inserted::<Users>(&state, &request, StatusCode::CREATED, &created)
}

operation! {
    /// Replace a user.
    update_user: params(IfMatch), request_body = UserBody, responses((status = 202, body = Updated<User>))
}
pub(super) async fn update_user(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    id: PathId,
    condition: Precondition,
    body: JsonBody,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let updated = service::update_user(&state.services, &caller.0, id.0, &condition.0, &body.0).await?;
    envelope::updated::<Users>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Merge a patch into a user.
    patch_user:
        params(IfMatch),
        request_body(content((UserPatch = "application/json"), (UserPatch = "application/merge-patch+json"))),
        responses((status = 202, body = Updated<User>))
}
pub(super) async fn patch_user(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    id: PathId,
    condition: Precondition,
    patch: JsonValue,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let updated = service::patch_user(&state.services, &caller.0, id.0, &condition.0, &patch.0).await?;
    envelope::updated::<Users>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Give a user another password.
    change_password: params(IfMatch), request_body = PasswordBody, responses((status = 202, body = Updated<User>))
}
pub(super) async fn change_password(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    id: PathId,
    condition: Precondition,
    body: JsonBody,
) -> Result<HttpResponse, ApiError> {
    state.no_parameters(&request)?;
    let updated = service::change_password(&state.services, &caller.0, id.0, &condition.0, &body.0).await?;
    envelope::updated::<Users>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Delete a user.
    delete_user: params(IfMatch, Forget), responses((status = 202, body = Deleted<User>))
}
pub(super) async fn delete_user(
    state: web::Data<HttpState>,
    request: HttpRequest,
    caller: Authenticated,
    id: PathId,
    condition: Precondition,
) -> Result<HttpResponse, ApiError> {
    let sent = Parameters::of(&request)?;
    sent.only(&["forget"], state.params.unknown)?;
    let forget = sent.flag("forget")?;
    let deleted = service::delete_user(&state.services, &caller.0, id.0, &condition.0, forget).await?;
    envelope::deleted::<Users>(&state, StatusCode::ACCEPTED, &deleted, &Nothing {})
}
