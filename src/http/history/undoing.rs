//! The route that undoes a request: docs/api.md, Undo of a request.

use actix_web::HttpResponse;

use crate::domain::undo_input::Undo;
use crate::http::body::JsonBody;
use crate::http::call::{Answer, Call};
use crate::http::schema::{UndoBody, UndoneRequest, UndoneResource, operation};
use crate::service::ServiceError;
use crate::service::history::undo::{self as history, Done};

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
    let undone = history::undo(&state.services, &caller, &request_id, dry_run).await?;
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
