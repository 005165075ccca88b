//! Routes of users' settings: docs/api.md, Settings of users.

use actix_web::http::StatusCode;
use bson::Document;
use bson::raw::RawDocument;

use super::body::{JsonBody, JsonValue};
use super::call::{Answer, Call};
use super::conditional::Precondition;
use super::envelope::{self, Items, Nothing, Wire};
use super::error::ApiError;
use super::idempotency::IdempotencyKey;
use super::links::encode_segment;
use super::listing;
use super::params::ListRoute;
use super::path::{PathId, PathText};
use super::schema::{
    Deleted, IdempotencyHeader, IfMatch, InsertedSetting, NewSetting, Paging, Results, SettingBody, SettingPatch,
    Updated, UserSetting, operation,
};
use super::sent::Sent;
use super::state::HttpState;
use crate::json::write::DateStyle;
use crate::service::accounts::user_settings as service;
use crate::service::once::Once;
use crate::service::resource::{NewState, UserSettings};
use crate::store::Documents;

impl Wire for UserSettings {
    const PATH: &'static str = "/users/";
    const DATES: DateStyle = DateStyle::Spaced;
}

/// How settings are listed on pages.
const LIST: ListRoute = ListRoute { limit: 0, ..ListRoute::by("identifier") };
/// With one of these parameters the list has pages; without them it is complete. There is no `filter`, because it would
/// be evaluated on the settings of other users.
const PAGED: [&str; 5] = ["page", "limit", "sort", "order", "after"];

operation! {
    /// List the settings of a user: all, or with `page` or `limit` a page with its pager.
    list_settings: params(Paging), responses((status = 200, body = Results<UserSetting>))
}
pub(super) async fn list_settings(Call { state, request, caller }: Call, user: PathId, sent: Sent) -> Answer {
    let sent = sent.0;
    if sent.get("filter").is_some() {
        return Err(ApiError::parameter("filter", "is not known here; known are page, limit, sort, order and explain"));
    }
    if sent.iter().any(|(name, _)| PAGED.contains(&name)) {
        let params = state.list_params(&caller, sent, &LIST).await?;
        let listed = service::list_settings(&state.services, user.0, &params.query).await?;
        let path = format!("/users/{}/settings/", user.0);
        return listing::answer::<UserSettings>(&state, &request, &path, &params, listed).await;
    }
    if state.only_explain_in(&sent)? {
        return Ok(envelope::explained(&service::explain_settings(&state.services, user.0).await?));
    }
    listing::results::<UserSettings>(&state, service::all_settings(&state.services, user.0).await?).await
}

operation! {
    /// Read a setting of a user, as a list of one.
    get_setting: responses((status = 200, body = Results<UserSetting>))
}
pub(super) async fn get_setting(Call { state, request, .. }: Call, user: PathId, identifier: PathText) -> Answer {
    state.no_parameters(&request)?;
    let found = service::get_setting(&state.services, user.0, &identifier.0).await?;
    results(&state, &[&*found].into_iter().collect())
}

operation! {
    /// Create a setting of a user.
    create_setting: params(IdempotencyHeader), request_body = NewSetting, responses((status = 201, body = InsertedSetting))
}
pub(super) async fn create_setting(
    Call { state, request, caller }: Call,
    user: PathId,
    key: IdempotencyKey,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let work = service::create_setting(&state.services, (&*caller, user.0), &body.0);
    let again = async |outcome: Document| {
        let identifier = outcome.get_str("identifier").unwrap_or_default();
        service::get_setting(&state.services, user.0, identifier).await
    };
    let created = Once::carry_out(key.creation(&body.0)?, &state.services, work, again).await?;
    let (identifier, path) = place(user.0, &created);
    let place = (StatusCode::CREATED, path.as_str());
    envelope::inserted_at::<UserSettings>(&state, &request, place, &identifier, &created, &Nothing {})
}

operation! {
    /// Replace a setting of a user.
    update_setting: params(IfMatch), request_body = SettingBody, responses((status = 202, body = Updated<UserSetting>))
}
pub(super) async fn update_setting(
    call: Call,
    user: PathId,
    identifier: PathText,
    condition: Precondition,
    body: JsonBody,
) -> Answer {
    changed(call, user, (identifier, condition), NewState::Whole(&body.0)).await
}

operation! {
    /// Merge a patch into a setting of a user.
    patch_setting:
        params(IfMatch),
        request_body(content((SettingPatch = "application/json"), (SettingPatch = "application/merge-patch+json"))),
        responses((status = 202, body = Updated<UserSetting>))
}
pub(super) async fn patch_setting(
    call: Call,
    user: PathId,
    identifier: PathText,
    condition: Precondition,
    patch: JsonValue,
) -> Answer {
    changed(call, user, (identifier, condition), NewState::Patch(&patch.0)).await
}

async fn changed(
    Call { state, request, caller }: Call,
    user: PathId,
    (identifier, condition): (PathText, Precondition),
    sent: NewState<'_>,
) -> Answer {
    state.no_parameters(&request)?;
    let whose = (&*caller, user.0);
    let updated = service::change_setting(&state.services, whose, &identifier.0, &condition.0, sent).await?;
    let place = (StatusCode::ACCEPTED, &*place(user.0, &updated).1);
    envelope::updated_at::<UserSettings>(&state, &request, place, &updated)
}

operation! {
    /// Delete a setting of a user.
    delete_setting: params(IfMatch), responses((status = 202, body = Deleted<UserSetting>))
}
pub(super) async fn delete_setting(
    Call { state, request, caller }: Call,
    user: PathId,
    identifier: PathText,
    condition: Precondition,
) -> Answer {
    state.no_parameters(&request)?;
    let deleted = service::delete_setting(&state.services, (&*caller, user.0), &identifier.0, &condition.0).await?;
    envelope::deleted::<UserSettings>(&state, StatusCode::ACCEPTED, &deleted, &Nothing {})
}

fn results(state: &HttpState, documents: &Documents) -> Answer {
    let items = Items::of::<UserSettings>(documents)?;
    Ok(envelope::collection::<UserSettings>(state, StatusCode::OK, "results", &items, &Nothing {}, "GET"))
}

fn place(user_id: i64, setting: &RawDocument) -> (String, String) {
    let identifier = setting.get_str("identifier").unwrap_or_default().to_owned();
    let path = format!("/users/{user_id}/settings/{}", encode_segment(&identifier));
    (identifier, path)
}
