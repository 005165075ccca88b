//! Routes about the service itself: what it is, whether it is well.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use serde_json::json;

use super::description::{Health, ServiceInfo};
use super::envelope;
use super::error::ApiError;
use super::state::HttpState;

/// Say what this service is and whether its store can be reached.
#[utoipa::path(
    get, path = "/rest/",
    responses((status = 200, body = ServiceInfo)),
)]
pub(super) async fn service(state: web::Data<HttpState>) -> HttpResponse {
    let store = &state.services.store;
    let reachable = store.ping().await.is_ok();
    let body = json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "store": {"kind": store.kind(), "reachable": reachable},
    });
    envelope::json(StatusCode::OK, body.to_string().into_bytes(), |_| {})
}

/// Say that the process answers.
#[utoipa::path(
    get, path = "/health/live",
    responses((status = 200, body = Health)),
)]
pub(super) async fn live() -> HttpResponse {
    envelope::json(StatusCode::OK, json!({"status": "live"}).to_string().into_bytes(), |_| {})
}

/// Say whether requests can be served: 503 while the store is away.
#[utoipa::path(
    get, path = "/health/ready",
    responses((status = 200, body = Health)),
)]
pub(super) async fn ready(state: web::Data<HttpState>) -> Result<HttpResponse, ApiError> {
    state.services.store.ping().await?;
    Ok(envelope::json(StatusCode::OK, json!({"status": "ready"}).to_string().into_bytes(), |_| {}))
}
