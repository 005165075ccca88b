//! Routes of types: docs/api.md, Types.

use actix_web::http::StatusCode;
use actix_web::http::header::HeaderValue;
use actix_web::{HttpRequest, HttpResponse};

use super::body::{JsonBody, JsonValue};
use super::call::{Answer, AsOriginal, Call, Edit};
use super::caller::WARNING;
use super::envelope::{self, Wire};
use super::error::ApiError;
use super::history::at;
use super::idempotency::IdempotencyKey;
use super::listing;
use super::objects::with_left;
use super::params::{ListRoute, Parameters};
use super::path::PathId;
use super::plan;
use super::schema::{
    At, Cascade, DeletedWith, DryRun, IdempotencyHeader, IfMatch, IfNoneMatch, Inserted, ListOf, Listing, Single, Type,
    TypeBody, TypeChange, TypeMigration, TypePatch, TypePlan, Updated, operation,
};
use super::sent::Sent;
use super::state::HttpState;
use crate::domain::document::integer;
use crate::domain::migration_input::ENFORCED;
use crate::json::write::DateStyle;
use crate::service::history::as_of::AccessLists;
use crate::service::once::Once;
use crate::service::resource::{self, NewState, Types};
use crate::service::types::warnings::{Changed, warnings};
use crate::service::types::{self as service, carrying};

const LIST: ListRoute = ListRoute { past: true, ..ListRoute::by("public_id") };

impl Wire for Types {
    const PATH: &'static str = "/types/";
    const DATES: DateStyle = DateStyle::Iso;
}

operation! {
    /// List types.
    list_types: params(Listing, At), responses((status = 200, body = ListOf<Type>))
}
pub(super) async fn list_types(Call { state, request, caller }: Call, sent: Sent) -> Answer {
    let params = state.list_params(&caller, sent.0, &LIST).await?;
    let state = at::of_list(state, &params, AccessLists::OfThen).await?;
    let listed = resource::list::<Types>(&state.services, &params.query).await?;
    listing::advised::<Types>(&state, &request, Types::PATH, &params, listed).await
}

operation! {
    /// Read a type.
    get_type: params(At, IfNoneMatch), responses((status = 200, body = Single<Type>))
}
pub(super) async fn get_type(Call { state, request, caller }: Call, id: PathId) -> Answer {
    let state = at::of_read::<Types>(state, &request, (&*caller, id.0), AccessLists::OfThen).await?;
    let found = resource::get::<Types>(&state.services, id.0).await?;
    envelope::single::<Types>(&state, &request, &found)
}

/// The answer with a header for each warning.
pub(super) fn warned(mut response: HttpResponse, warnings: Vec<String>) -> HttpResponse {
    for text in warnings {
        if let Ok(text) = HeaderValue::try_from(text) {
            response.headers_mut().append(WARNING, text);
        }
    }
    response
}

/// The changed type, with its warnings.
pub(super) fn answered(state: &HttpState, request: &HttpRequest, changed: Changed) -> Answer {
    let after = &changed.after;
    let response = match integer(after, "public_id").filter(|_| changed.is_running) {
        Some(id) => {
            let path = format!("{}{id}/migration", Types::PATH);
            envelope::updated_at::<Types>(state, request, (StatusCode::ACCEPTED, &path), after)?
        }
        None => envelope::updated::<Types>(state, request, StatusCode::ACCEPTED, after)?,
    };
    Ok(warned(response, changed.warnings))
}

operation! {
    /// Create a type.
    create_type: params(IdempotencyHeader), request_body = TypeBody, responses((status = 201, body = Inserted<Type>))
}
pub(super) async fn create_type(Call { state, request, caller }: Call, key: IdempotencyKey, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let work = service::create_type(&state.services, &caller, &body.0);
    let again = async |outcome| resource::encode(&outcome);
    let created = Once::carry_out(key.creation(&body.0)?, &state.services, work, again).await?;
    let warnings = warnings(&caller, (None, &created), &body.0)?;
    Ok(warned(envelope::inserted::<Types>(&state, &request, StatusCode::CREATED, &created)?, warnings))
}

/// Whether a change is only planned.
fn is_dry_run(state: &HttpState, request: &HttpRequest) -> Result<bool, ApiError> {
    let sent = Parameters::of(request)?;
    sent.only(&["dry_run"], state.params.unknown)?;
    sent.flag("dry_run")
}

operation! {
    /// Replace a type.
    update_type:
        params(IfMatch, DryRun),
        request_body = TypeChange,
        responses((status = 200, body = Single<TypePlan>), (status = 202, body = Updated<Type>))
}
pub(super) async fn update_type(Edit { state, request, caller, id, condition }: Edit, mut body: JsonBody) -> Answer {
    if AsOriginal::is_asked(&request) {
        // There a change of a type is never refused for its objects.
        body.0.insert("enforce", ENFORCED[0]);
    }
    if is_dry_run(&state, &request)? {
        return plan::shown(
            &state,
            service::plan_change(&state.services, &caller, id, &condition, NewState::Whole(&body.0)).await?,
        );
    }
    let updated = service::change_type(&state.services, &caller, id, &condition, NewState::Whole(&body.0)).await?;
    answered(&state, &request, updated)
}

operation! {
    /// Merge a patch into a type.
    patch_type:
        params(IfMatch, DryRun),
        request_body(content((TypePatch = "application/json"), (TypePatch = "application/merge-patch+json"))),
        responses((status = 200, body = Single<TypePlan>), (status = 202, body = Updated<Type>))
}
pub(super) async fn patch_type(Edit { state, request, caller, id, condition }: Edit, patch: JsonValue) -> Answer {
    if is_dry_run(&state, &request)? {
        return plan::shown(
            &state,
            service::plan_change(&state.services, &caller, id, &condition, NewState::Patch(&patch.0)).await?,
        );
    }
    let updated = service::change_type(&state.services, &caller, id, &condition, NewState::Patch(&patch.0)).await?;
    answered(&state, &request, updated)
}

operation! {
    /// Read what the last migration of a type did.
    type_migration: responses((status = 200, body = Single<TypeMigration>))
}
pub(super) async fn type_migration(Call { state, request, caller }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let noted = carrying::of_type(&state.services, &caller, id.0).await?;
    Ok(envelope::value::<Types>(&state, &plan::noted(&noted)?))
}

operation! {
    /// Delete a type.
    delete_type: params(IfMatch, Cascade), responses((status = 202, body = DeletedWith<Type>))
}
pub(super) async fn delete_type(Edit { state, request, caller, id, condition }: Edit) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["cascade"], state.params.unknown)?;
    let cascade = sent.flag("cascade")?;
    let (deleted, also_changed) = service::delete_type(&state.services, &caller, id, &condition, cascade).await?;
    let beside = serde_json::json!({"also_changed": also_changed});
    let response = envelope::deleted::<Types>(&state, StatusCode::ACCEPTED, &deleted, &beside)?;
    // Their number is not known to a caller who may not count them.
    Ok(with_left(response, &also_changed.left, usize::MAX))
}
