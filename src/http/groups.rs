//! Routes of groups: docs/api.md, Groups.

use actix_web::http::StatusCode;

use super::body::{JsonBody, JsonValue};
use super::call::{Answer, Call, Edit, created};
use super::envelope::{self, Nothing, Wire};
use super::error::ApiError;
use super::idempotency::IdempotencyKey;
use super::listing;
use super::params::{ListRoute, Parameters};
use super::path::PathId;
use super::schema::{
    Deleted, Group, GroupBody, GroupMembers, GroupPatch, IdempotencyHeader, IfMatch, IfNoneMatch, Inserted, ListOf,
    Listing, Single, Updated, operation,
};
use super::sent::Sent;
use crate::json::write::DateStyle;
use crate::service::accounts::groups::{self as service, UsersOfGroup};
use crate::service::resource::{self, Groups, NewState};

const LIST: ListRoute = ListRoute::by("public_id");

impl Wire for Groups {
    const PATH: &'static str = "/groups/";
    const DATES: DateStyle = DateStyle::Spaced;
}

operation! {
    /// List groups.
    list_groups: params(Listing), responses((status = 200, body = ListOf<Group>))
}
pub(super) async fn list_groups(Call { state, request, caller }: Call, sent: Sent) -> Answer {
    let params = state.list_params(&caller, sent.0, &LIST).await?;
    let listed = resource::list::<Groups>(&state.services, &params.query).await?;
    listing::advised::<Groups>(&state, &request, Groups::PATH, &params, listed).await
}

operation! {
    /// Read a group.
    get_group: params(IfNoneMatch), responses((status = 200, body = Single<Group>))
}
pub(super) async fn get_group(Call { state, request, .. }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let found = resource::get::<Groups>(&state.services, id.0).await?;
    envelope::single::<Groups>(&state, &request, &found)
}

operation! {
    /// Create a group.
    create_group: params(IdempotencyHeader), request_body = GroupBody, responses((status = 201, body = Inserted<Group>))
}
pub(super) async fn create_group(Call { state, request, caller }: Call, key: IdempotencyKey, body: JsonBody) -> Answer {
    let work = service::create_group(&state.services, &caller, &body.0);
    created::<Groups>(&state, &request, (&key, &body.0), work).await
}

operation! {
    /// Replace a group.
    update_group: params(IfMatch), request_body = GroupBody, responses((status = 202, body = Updated<Group>))
}
pub(super) async fn update_group(Edit { state, request, caller, id, condition }: Edit, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_group(&state.services, &caller, id, &condition, NewState::Whole(&body.0)).await?;
    envelope::updated::<Groups>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Merge a patch into a group.
    patch_group:
        params(IfMatch),
        request_body(content((GroupPatch = "application/json"), (GroupPatch = "application/merge-patch+json"))),
        responses((status = 202, body = Updated<Group>))
}
pub(super) async fn patch_group(Edit { state, request, caller, id, condition }: Edit, patch: JsonValue) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_group(&state.services, &caller, id, &condition, NewState::Patch(&patch.0)).await?;
    envelope::updated::<Groups>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// Delete a group, and move or delete its users.
    delete_group: params(IfMatch, GroupMembers), responses((status = 202, body = Deleted<Group>))
}
pub(super) async fn delete_group(Edit { state, request, caller, id, condition }: Edit) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["action", "group_id"], state.params.unknown)?;
    let users = users_of_group(&sent)?;
    let deleted = service::delete_group(&state.services, &caller, id, &condition, users).await?;
    envelope::deleted::<Groups>(&state, StatusCode::ACCEPTED, &deleted, &Nothing {})
}

fn users_of_group(sent: &Parameters) -> Result<UsersOfGroup, ApiError> {
    Ok(match sent.one_of("action", &["MOVE", "DELETE"])? {
        None => UsersOfGroup::MustBeNone,
        Some("DELETE") => UsersOfGroup::Delete,
        Some(_) => {
            let number = sent.number("group_id")?.and_then(|number| i64::try_from(number).ok());
            let needed =
                || ApiError::parameter("group_id", "is needed with action=MOVE: the group to move the users to");
            UsersOfGroup::Move { group_id: number.ok_or_else(needed)? }
        }
    })
}
