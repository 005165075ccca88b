//! Routes of users: docs/api.md, Users.

use actix_web::http::StatusCode;

use super::body::{JsonBody, JsonValue};
use super::call::{Answer, Call, Edit, created};
use super::envelope::{self, Nothing, Wire};
use super::idempotency::IdempotencyKey;
use super::listing;
use super::params::{ListRoute, Parameters};
use super::path::PathId;
use super::schema::{
    Deleted, Forget, IdempotencyHeader, IfMatch, IfNoneMatch, Inserted, ListOf, Listing, NewUser, PasswordBody, Single,
    Updated, User, UserBody, UserPatch, operation,
};
use super::sent::Sent;
use crate::json::write::DateStyle;
use crate::service::accounts::users as service;
use crate::service::resource::{self, NewState, Users};

const LIST: ListRoute = ListRoute::by("public_id");

impl Wire for Users {
    const PATH: &'static str = "/users/";
    const DATES: DateStyle = DateStyle::Spaced;
}

operation! {
    /// List users.
    list_users: params(Listing), responses((status = 200, body = ListOf<User>))
}
pub(super) async fn list_users(Call { state, request, caller }: Call, sent: Sent) -> Answer {
    let params = state.list_params(&caller, sent.0, &LIST).await?;
    let listed = service::list_users(&state.services, &params.query).await?;
    listing::advised::<Users>(&state, &request, Users::PATH, &params, listed).await
}

operation! {
    /// Read a user.
    get_user: params(IfNoneMatch), responses((status = 200, body = Single<User>))
}
pub(super) async fn get_user(Call { state, request, .. }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let found = resource::get::<Users>(&state.services, id.0).await?;
    envelope::single::<Users>(&state, &request, &found)
}

operation! {
    /// Create a user.
    create_user: params(IdempotencyHeader), request_body = NewUser, responses((status = 201, body = Inserted<User>))
}
pub(super) async fn create_user(Call { state, request, caller }: Call, key: IdempotencyKey, body: JsonBody) -> Answer {
    let work = service::create_user(&state.services, &caller, &body.0);
    created::<Users>(&state, &request, (&key, &body.0), work).await
}

operation! {
    /// Replace a user.
    update_user: params(IfMatch), request_body = UserBody, responses((status = 202, body = Updated<User>))
}
pub(super) async fn update_user(Edit { state, request, caller, id, condition }: Edit, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_user(&state.services, &caller, id, &condition, NewState::Whole(&body.0)).await?;
    envelope::updated::<Users>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Merge a patch into a user.
    patch_user:
        params(IfMatch),
        request_body(content((UserPatch = "application/json"), (UserPatch = "application/merge-patch+json"))),
        responses((status = 202, body = Updated<User>))
}
pub(super) async fn patch_user(Edit { state, request, caller, id, condition }: Edit, patch: JsonValue) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_user(&state.services, &caller, id, &condition, NewState::Patch(&patch.0)).await?;
    envelope::updated::<Users>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Give a user another password.
    change_password: params(IfMatch), request_body = PasswordBody, responses((status = 202, body = Updated<User>))
}
pub(super) async fn change_password(Edit { state, request, caller, id, condition }: Edit, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_password(&state.services, &caller, id, &condition, &body.0).await?;
    envelope::updated::<Users>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Delete a user.
    delete_user: params(IfMatch, Forget), responses((status = 202, body = Deleted<User>))
}
pub(super) async fn delete_user(Edit { state, request, caller, id, condition }: Edit) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["forget"], state.params.unknown)?;
    let forget = sent.flag("forget")?;
    let deleted = service::delete_user(&state.services, &caller, id, &condition, forget).await?;
    envelope::deleted::<Users>(&state, StatusCode::ACCEPTED, &deleted, &Nothing {})
}
