//! Routes about the service itself: its name and its health.

use std::time::Duration;

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Map, Value, json};

use super::envelope;
use super::error::ApiError;
use super::schema::{Health, ServiceInfo, operation};
use super::session::PAGE;
use super::state::HttpState;
use crate::query::FOLLOWS;
use crate::service::ErrorCode;
use crate::service::upkeep::migrations::{self, MigrationState};

/// How long a readiness check may take.
const READY_BUDGET: Duration = Duration::from_secs(2);

/// The links of the first page.
const LINKS: [(&str, &str); 14] = [
    ("categories", "/rest/categories/"),
    ("changes", "/rest/changes/"),
    ("docs", "/docs/"),
    ("export", "/rest/export/objects"),
    ("groups", "/rest/groups/"),
    ("import", "/rest/import/objects"),
    ("login", "/rest/auth/login"),
    ("logs", "/rest/logs/"),
    ("objects", "/rest/objects/"),
    ("openapi", "/openapi.json"),
    ("rights", "/rest/rights/"),
    ("types", "/rest/types/"),
    ("users", "/rest/users/"),
    ("webhooks", "/rest/webhooks/"),
];

operation! {
    /// Lead browsers to the page for people, and others to the page that describes the interface.
    home: responses((status = 302, description = "The page is at `Location`."))
}
pub(super) async fn home(state: web::Data<HttpState>, request: HttpRequest) -> HttpResponse {
    let accepted = request.headers().get_all(header::ACCEPT).filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    let is_browser = kinds.any(|kind| kind.trim().split(';').next() == Some("text/html"));
    let page = if is_browser && state.has_page { PAGE } else { "/docs/" };
    HttpResponse::Found().insert_header((header::LOCATION, page)).insert_header((header::VARY, "accept")).finish()
}

operation! {
    /// Say what this service is and whether its store can be reached.
    service: responses((status = 200, body = ServiceInfo))
}
pub(super) async fn service(state: web::Data<HttpState>, request: HttpRequest) -> HttpResponse {
    let store = &state.services.store;
    let reachable = store.health().await.is_ok();
    let origin = state.links.origin(&request);
    let links: Map<String, Value> =
        LINKS.iter().map(|(name, path)| ((*name).to_owned(), format!("{origin}{path}").into())).collect();
    let body = json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "query_language": format!("MongoDB {FOLLOWS}"),
        "store": {"kind": store.kind(), "reachable": reachable},
        "links": links,
    });
    envelope::json(StatusCode::OK, body.to_string().into_bytes(), |_| {})
}

operation! {
    /// Say that the process answers.
    live: responses((status = 200, body = Health))
}
pub(super) async fn live() -> HttpResponse {
    envelope::json(StatusCode::OK, json!({"status": "live"}).to_string().into_bytes(), |_| {})
}

operation! {
    /// Say whether requests can be served: 503 with the reason while the store is away, or not as this version needs it.
    ready: responses((status = 200, body = Health))
}
pub(super) async fn ready(state: web::Data<HttpState>) -> Result<HttpResponse, ApiError> {
    let services = &state.services;
    let health = services.store.health().await?;
    if health.is_damaged {
        return Err(ApiError::of(ErrorCode::StoreDamaged));
    }
    if let Some(lack) = health.lacks.into_iter().next() {
        return Err(ApiError::incomplete(&lack));
    }
    match migrations::state(&*services.store, migrations::ALL, READY_BUDGET).await? {
        MigrationState::Done => {}
        MigrationState::Pending(_) => {
            return Err(ApiError::not_migrated("it is to be migrated first: start this version anew"));
        }
        MigrationState::Incomplete(_) => {
            return Err(ApiError::not_migrated(
                "another store is being copied into it: repeat inventory-service migrate",
            ));
        }
        MigrationState::Newer(_) => {
            return Err(ApiError::not_migrated("a newer version of this service migrated it: start that one"));
        }
    }
    let mut body = json!({"status": "ready"});
    if health.is_full {
        body["read_only"] = "there is no room left on the disk of the store".into();
    }
    Ok(envelope::json(StatusCode::OK, body.to_string().into_bytes(), |_| {}))
}
