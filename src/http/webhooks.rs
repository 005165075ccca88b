//! Routes of webhooks: docs/api.md, Webhooks.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde_json::json;

use super::body::{JsonBody, JsonValue};
use super::call::{Answer, Call, Edit};
use super::envelope::{self, Items, Nothing, Wire};
use super::error::ApiError;
use super::idempotency::IdempotencyKey;
use super::listing;
use super::params::{ListRoute, Parameters};
use super::path::PathId;
use super::schema::{
    Deleted, Delivery, Explain, IdempotencyHeader, IfMatch, IfNoneMatch, InsertedWebhook, ListOf, Listing, Replay,
    Results, Single, Tested, Updated, Webhook, WebhookBody, WebhookPatch, operation,
};
use super::sent::Sent;
use crate::domain::document::integer;
use crate::json::write::DateStyle;
use crate::service::once::Once;
use crate::service::resource::{self, Deliveries, NewState, Webhooks};
use crate::service::webhooks::manage as service;
use crate::service::{ErrorCode, ServiceError};

const LIST: ListRoute = ListRoute::by("public_id");

impl Wire for Webhooks {
    const PATH: &'static str = "/webhooks/";
    const DATES: DateStyle = DateStyle::Iso;
}

impl Wire for Deliveries {
    const PATH: &'static str = "/webhooks/";
    const DATES: DateStyle = DateStyle::Iso;
}

operation! {
    /// List webhooks.
    list_webhooks: params(Listing), responses((status = 200, body = ListOf<Webhook>))
}
pub(super) async fn list_webhooks(Call { state, request, caller }: Call, sent: Sent) -> Answer {
    let params = state.list_params(&caller, sent.0, &LIST).await?;
    let listed = resource::list::<Webhooks>(&state.services, &params.query).await?;
    listing::advised::<Webhooks>(&state, &request, Webhooks::PATH, &params, listed).await
}

operation! {
    /// Read a webhook.
    get_webhook: params(IfNoneMatch), responses((status = 200, body = Single<Webhook>))
}
pub(super) async fn get_webhook(Call { state, request, .. }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let found = resource::get::<Webhooks>(&state.services, id.0).await?;
    envelope::single::<Webhooks>(&state, &request, &found)
}

operation! {
    /// Create a webhook; the answer shows its secret this once.
    create_webhook: params(IdempotencyHeader), request_body = WebhookBody, responses((status = 201, body = InsertedWebhook))
}
pub(super) async fn create_webhook(
    Call { state, request, caller }: Call,
    key: IdempotencyKey,
    body: JsonBody,
) -> Answer {
    state.no_parameters(&request)?;
    let work = service::create_webhook(&state.services, &caller, &body.0);
    let again = async |_| {
        let message =
            "the webhook was made under this key, and its secret shown then; delete it, and make one under another key";
        Err(ServiceError::refused(ErrorCode::WebhookMadeBefore, message))
    };
    let created = Once::carry_out(key.creation(&body.0)?, &state.services, work, again).await?;
    let id = integer(&created.stored, "public_id").unwrap_or_default();
    let path = format!("/webhooks/{id}");
    let secret = json!({"secret": created.secret.expose()});
    let place = (StatusCode::CREATED, path.as_str());
    let inserted = envelope::inserted_at::<Webhooks>(&state, &request, place, &id, &created.stored, &secret)?;
    let advice = service::advice(&state.services, &caller, &created.stored).await;
    Ok(envelope::advised(envelope::secret(inserted), &advice))
}

operation! {
    /// Replace a webhook; the caller becomes its author. `"active": true` resumes a paused one.
    update_webhook: params(IfMatch), request_body = WebhookBody, responses((status = 202, body = Updated<Webhook>))
}
pub(super) async fn update_webhook(Edit { state, request, caller, id, condition }: Edit, body: JsonBody) -> Answer {
    state.no_parameters(&request)?;
    let updated = service::change_webhook(&state.services, &caller, (id, &condition), NewState::Whole(&body.0)).await?;
    let advice = service::advice(&state.services, &caller, &updated).await;
    let response = envelope::updated::<Webhooks>(&state, &request, StatusCode::ACCEPTED, &updated)?;
    Ok(envelope::advised(response, &advice))
}

operation! {
    /// Merge a patch into a webhook; the caller becomes its author. `{"active": true}` resumes a paused one.
    patch_webhook:
        params(IfMatch),
        request_body(content((WebhookPatch = "application/json"), (WebhookPatch = "application/merge-patch+json"))),
        responses((status = 202, body = Updated<Webhook>))
}
pub(super) async fn patch_webhook(Edit { state, request, caller, id, condition }: Edit, patch: JsonValue) -> Answer {
    state.no_parameters(&request)?;
    let updated =
        service::change_webhook(&state.services, &caller, (id, &condition), NewState::Patch(&patch.0)).await?;
    let advice = service::advice(&state.services, &caller, &updated).await;
    let response = envelope::updated::<Webhooks>(&state, &request, StatusCode::ACCEPTED, &updated)?;
    Ok(envelope::advised(response, &advice))
}

operation! {
    /// Delete a webhook with its secret and the records of its deliveries.
    delete_webhook: params(IfMatch), responses((status = 202, body = Deleted<Webhook>))
}
pub(super) async fn delete_webhook(Edit { state, request, id, condition, .. }: Edit) -> Answer {
    state.no_parameters(&request)?;
    let deleted = service::delete_webhook(&state.services, id, &condition).await?;
    envelope::deleted::<Webhooks>(&state, StatusCode::ACCEPTED, &deleted, &Nothing {})
}

operation! {
    /// Send a test event to a webhook now, and say what came of it.
    test_webhook: responses((status = 200, body = Tested))
}
pub(super) async fn test_webhook(Call { state, request, .. }: Call, id: PathId) -> Answer {
    state.no_parameters(&request)?;
    let tested = service::test_webhook(&state.services, id.0).await?;
    let body = json!({
        "delivered": tested.outcome.is_delivered(),
        "status": tested.outcome.status(),
        "outcome": tested.outcome.words(),
        "duration_ms": u64::try_from(tested.duration.as_millis()).unwrap_or(u64::MAX),
    });
    Ok(HttpResponse::Ok().json(body))
}

operation! {
    /// Set the cursor of a webhook back, so that it sends again what changed since.
    replay_webhook: params(Replay), responses((status = 202, body = Updated<Webhook>))
}
pub(super) async fn replay_webhook(Call { state, request, .. }: Call, id: PathId) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["since"], state.params.unknown)?;
    let since = sent.get("since").ok_or_else(|| ApiError::parameter("since", "is needed: a cursor of changes"))?;
    let updated = service::replay_webhook(&state.services, id.0, since).await?;
    envelope::updated::<Webhooks>(&state, &request, StatusCode::ACCEPTED, &updated)
}

operation! {
    /// List the last deliveries of a webhook, newest first: at most 200, of the last 7 days.
    list_deliveries: params(Explain), responses((status = 200, body = Results<Delivery>))
}
pub(super) async fn list_deliveries(Call { state, request, .. }: Call, id: PathId) -> Answer {
    if state.only_explain(&request)? {
        return Ok(envelope::explained(&service::explain_deliveries(&state.services, id.0).await?));
    }
    let items = Items::of::<Deliveries>(&service::list_deliveries(&state.services, id.0).await?)?;
    Ok(envelope::collection::<Deliveries>(&state, StatusCode::OK, "results", &items, &Nothing {}, "GET"))
}
