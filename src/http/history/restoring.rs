//! Routes that bring back what was: docs/api.md, History.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;

use crate::domain::revert_input::{self, Undo};
use crate::http::body::JsonBody;
use crate::http::call::{Answer, Call, Edit};
use crate::http::caller::warn_of_accepted;
use crate::http::error::ApiError;
use crate::http::objects::told;
use crate::http::path::PathId;
use crate::http::schema::{
    Category, IfMatch, Inserted, RevertBody, Type, UndoBody, UndoneRequest, UndoneResource, Updated, WrittenObject,
    operation,
};
use crate::http::state::HttpState;
use crate::http::{envelope, types};
use crate::service::ServiceError;
use crate::service::history::moments::moment;
use crate::service::history::revert::Revert;
use crate::service::history::undo::Done;
use crate::service::history::{revert as history, undo};
use crate::service::precondition::IfMatch as Condition;
use crate::service::resource::{Categories, Objects, Types};
use crate::service::types::warnings::warnings;

/// The revert that a body asks for.
async fn revert<'a>(state: &HttpState, body: &JsonBody, if_match: &'a Condition) -> Result<Revert<'a>, ApiError> {
    let asked = revert_input::Revert::read(&body.0).map_err(ServiceError::from)?;
    let to = moment(&state.services, "to", &asked.to).await?;
    Ok(Revert { to, dry_run: asked.dry_run, if_match })
}

operation! {
    /// Bring an object back to what it was.
    revert_object:
        params(IfMatch), request_body = RevertBody, responses((status = 200, body = Updated<WrittenObject>))
}
pub(in crate::http) async fn revert_object(
    Edit { state, request, caller, id, condition }: Edit,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let revert = revert(&state, &body, &condition).await?;
    let reverted = history::revert_object(&state.services, &caller, id, revert).await?;
    Ok(told(envelope::updated::<Objects>(&state, &request, StatusCode::OK, &reverted.document)?, &reverted))
}

operation! {
    /// Bring a type back to what it was.
    revert_type: params(IfMatch), request_body = RevertBody, responses((status = 202, body = Updated<Type>))
}
pub(in crate::http) async fn revert_type(
    Edit { state, request, caller, id, condition }: Edit,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let revert = revert(&state, &body, &condition).await?;
    let reverted = history::revert_type(&state.services, &caller, id, revert).await?;
    types::answered(&state, &request, reverted)
}

operation! {
    /// Bring a category back to what it was.
    revert_category: params(IfMatch), request_body = RevertBody, responses((status = 202, body = Updated<Category>))
}
pub(in crate::http) async fn revert_category(
    Edit { state, request, caller, id, condition }: Edit,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let revert = revert(&state, &body, &condition).await?;
    let reverted = history::revert_category(&state.services, &caller, id, revert).await?;
    envelope::updated::<Categories>(&state, &request, StatusCode::ACCEPTED, &reverted)
}

operation! {
    /// Bring a deleted type back.
    restore_type: responses((status = 201, body = Inserted<Type>))
}
pub(in crate::http) async fn restore_type(Call { state, request, caller }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let restored = history::restore_type(&state.services, &caller, id.0).await?;
    let warnings = warnings(&caller, (None, &restored), &bson::Document::new())?;
    Ok(types::warned(envelope::inserted::<Types>(&state, &request, StatusCode::CREATED, &restored)?, warnings))
}

operation! {
    /// Bring a deleted category back.
    restore_category: responses((status = 201, body = Inserted<Category>))
}
pub(in crate::http) async fn restore_category(Call { state, request, .. }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let restored = history::restore_category(&state.services, id.0).await?;
    envelope::inserted::<Categories>(&state, &request, StatusCode::CREATED, &restored)
}

operation! {
    /// Bring a deleted object back.
    restore_object: responses((status = 200, body = Inserted<WrittenObject>))
}
pub(in crate::http) async fn restore_object(Call { state, request, caller }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let (restored, dangling) = history::restore_object(&state.services, &caller, id.0).await?;
    let mut response =
        told(envelope::inserted::<Objects>(&state, &request, StatusCode::OK, &restored.document)?, &restored);
    warn_of_accepted(response.headers_mut(), &dangling);
    Ok(response)
}

/// How many resources the answer names.
const MOST_NAMED: usize = 1000;

operation! {
    /// Undo all that a request changed.
    undo_request:
        request_body(content = UndoBody, example = json!({"request_id": "4f8b5c05"})),
        responses((status = 200, body = UndoneRequest))
}
pub(in crate::http) async fn undo_request(Call { state, request, caller }: Call, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let Undo { request_id, dry_run } = Undo::read(&body.0).map_err(ServiceError::from)?;
    let undone = undo::undo(&state.services, &caller, &request_id, dry_run).await?;
    let count = |action: &str| undone.done.iter().filter(|done| done.action == action).count() as u64;
    let shown = |done: &Done| UndoneResource {
        resource: done.resource.to_owned(),
        public_id: done.public_id,
        action: done.action.to_owned(),
    };
    let answer = UndoneRequest {
        request_id,
        dry_run,
        reverted: count("reverted"),
        restored: count("restored"),
        deleted: count("deleted"),
        unchanged: undone.unchanged,
        units: undone.units,
        resources: undone.done.iter().take(MOST_NAMED).map(shown).collect(),
    };
    Ok(HttpResponse::Ok().json(answer))
}
