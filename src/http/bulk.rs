//! Routes that write many objects at once.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde_json::json;

use super::body::{JsonItems, JsonValue};
use super::call::{Answer, Call};
use super::conditional::Precondition;
use super::envelope::{self, Items};
use super::error::ApiError;
use super::idempotency::IdempotencyKey;
use super::objects::{read_on_references, refuse_if_match, with_fields, with_left};
use super::params::Parameters;
use super::schema::{
    Atomic, ChangedObjects, CreatedObjects, IdempotencyHeader, NewObject, ObjectPatch, References, RemovedObjects,
    Selected, operation,
};
use super::state::HttpState;
use crate::domain::document::integer;
use crate::query::Sort;
use crate::service::objects::bulk::{self as service, Outcome, Selection};
use crate::service::once::{Hash, Once};
use crate::service::queries::advice;
use crate::service::resource::Objects;
use crate::service::{Caller, ServiceError};

operation! {
    /// Create several objects, each on its own or all together.
    create_objects:
        params(Atomic, IdempotencyHeader),
        request_body(content((Vec<NewObject> = "application/json"), (String = "application/x-ndjson"))),
        responses((status = 200, body = CreatedObjects), (status = 207, body = CreatedObjects))
}
pub(super) async fn create_objects(
    Call { state, request, caller }: Call,
    key: IdempotencyKey,
    body: JsonItems,
) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["atomic"], state.params.unknown)?;
    let atomic = sent.flag("atomic")?;
    let once = key.key.as_deref().map(|key| service::once(&caller, key, atomic, &body.items));
    let outcomes = if atomic {
        let stored = service::create_together(&state.services, &caller, body.items, once.as_ref()).await?;
        stored.into_iter().map(Ok).collect()
    } else {
        service::create_each(&state.services, &caller, body.items, once.as_ref()).await?
    };
    drop(body.arriving);
    Ok(report(&state, outcomes))
}

/// 200 when everything was stored, 207 when something was not; each item says its own status.
fn report(state: &HttpState, outcomes: Vec<Outcome>) -> HttpResponse {
    let (mut items, mut failed) = (Items::default(), 0_usize);
    for outcome in outcomes {
        let item = match outcome {
            Ok(id) => json!({"status": 200, "result_id": id}),
            Err(error) => {
                failed += 1;
                ApiError::from(error).as_item()
            }
        };
        items.begin().extend_from_slice(item.to_string().as_bytes());
    }
    let beside = json!({"count": items.count, "created": items.count - failed, "failed": failed});
    let status = if failed == 0 { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    envelope::collection::<Objects>(state, status, "results", &items, &beside, "INSERT")
}

operation! {
    /// Merge a patch into all objects that a filter selects, or into none of them.
    patch_selected_objects:
        params(Selected, IdempotencyHeader),
        request_body(content((ObjectPatch = "application/json"), (ObjectPatch = "application/merge-patch+json"))),
        responses((status = 202, body = ChangedObjects))
}
pub(super) async fn patch_selected_objects(
    Call { state, request, caller }: Call,
    condition: Precondition,
    key: IdempotencyKey,
    patch: JsonValue,
) -> Answer {
    refuse_if_match(&condition.0)?;
    let sent = Parameters::of(&request)?;
    sent.only(&["filter", "expected_count"], state.params.unknown)?;
    let selection = selection(&state, &caller, &sent).await?;
    let advice = advice_on(&state, &caller, &selection).await?;
    let said =
        sent.iter().fold(Hash::default(), |said, (name, value)| said.with(name.as_bytes()).with(value.as_bytes()));
    let once = key.of(said.with(patch.0.to_string().as_bytes()));
    let work = service::patch_selected(&state.services, &caller, &selection, &patch.0);
    let again = async |outcome| Ok(service::patched_before(&outcome));
    let ids = Once::carry_out(once, &state.services, work, again).await.map_err(|error| advised(error, &advice))?;
    let response = ids_of(&state, StatusCode::ACCEPTED, "result_ids", ids.into_iter(), "UPDATE");
    Ok(envelope::advised(response, &advice))
}

operation! {
    /// Delete all objects that a filter selects, or none of them.
    delete_selected_objects: params(Selected, References), responses((status = 200, body = RemovedObjects))
}
pub(super) async fn delete_selected_objects(Call { state, request, caller }: Call, condition: Precondition) -> Answer {
    refuse_if_match(&condition.0)?;
    let sent = Parameters::of(&request)?;
    sent.only(&["filter", "expected_count", "on_references"], state.params.unknown)?;
    let selection = selection(&state, &caller, &sent).await?;
    let on_references = read_on_references(&sent)?;
    let advice = advice_on(&state, &caller, &selection).await?;
    let removed = service::delete_selected(&state.services, &caller, &selection, on_references).await;
    let (removed, left) = removed.map_err(|error| advised(error, &advice))?;
    let ids = removed.iter().filter_map(|object| integer(object, "public_id"));
    let response = with_left(ids_of(&state, StatusCode::OK, "deleted_ids", ids, "DELETE"), &left, removed.len());
    Ok(envelope::advised(response, &advice))
}

/// The hints about the filter. They are determined before the change, which may leave no object with such a path.
async fn advice_on(state: &HttpState, caller: &Caller, selection: &Selection) -> Result<Vec<String>, ApiError> {
    Ok(advice::of_selection(&state.services, caller, &selection.filter, &Sort::default()).await?)
}

/// The refusal, which may be due to a filter that finds nothing, with the advice.
fn advised(error: ServiceError, advice: &[String]) -> ApiError {
    advice.iter().fold(ApiError::from(error), |error, text| error.with_hint(text))
}

/// Both are required: a missing filter must not mean "everything".
async fn selection(state: &HttpState, caller: &Caller, sent: &Parameters) -> Result<Selection, ApiError> {
    let required = |name: &str, what: &str| ApiError::parameter(name, format!("is required: {what}"));
    let filter = sent.get("filter").filter(|text| !text.trim().is_empty());
    let filter = filter.ok_or_else(|| required("filter", "which objects; {} for all"))?;
    let count = sent.number("expected_count")?;
    let expected_count = count.ok_or_else(|| required("expected_count", "how many objects the filter matches"))?;
    let filter = with_fields(state, caller, sent, async |fields| state.object_filter(filter, fields).await).await?;
    Ok(Selection { filter, expected_count, most: state.params.max_bulk })
}

fn ids_of(
    state: &HttpState,
    status: StatusCode,
    name: &str,
    ids: impl Iterator<Item = i64>,
    response_type: &'static str,
) -> HttpResponse {
    let mut items = Items::default();
    for id in ids {
        items.begin().extend_from_slice(id.to_string().as_bytes());
    }
    let beside = json!({"count": items.count});
    envelope::collection::<Objects>(state, status, name, &items, &beside, response_type)
}
