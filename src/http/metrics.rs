//! `/metrics` for a monitor: on a separate address or with a token, otherwise not at all.

use std::io;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use actix_web::dev::Server;
use actix_web::http::header;
use actix_web::web::ServiceConfig;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, web};
use sha2::{Digest, Sha256};

use super::error::ApiError;
use super::state::HttpState;
use crate::auth::Authorization;
use crate::metrics::Moment;
use crate::service::{ErrorCode, ServiceError, Services};

/// How old the numbers of objects may be.
const RECENT: Duration = Duration::from_mins(1);
/// How long counting may take: a monitor waits for some seconds alone.
const COUNTING: Duration = Duration::from_secs(2);

/// How long the service waits for a monitor when it stops.
const SHUTDOWN_S: u64 = 1;
/// Of how many types the objects are counted.
const MOST_TYPES: usize = 1000;

/// Adds `/metrics` to the service if the setting `metrics.token` has a token. It is not in the table of routes, because
/// it is not part of the interface.
pub fn configure(config: &mut ServiceConfig, state: &HttpState) {
    if state.metrics_token.is_some() {
        config.route("/metrics", web::get().to(tell));
    }
}

/// Answers a monitor that has the token.
async fn tell(request: HttpRequest, state: web::Data<HttpState>) -> Result<HttpResponse, ApiError> {
    let Some(token) = &state.metrics_token else { return Err(ApiError::of(ErrorCode::NotFound)) };
    let header = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    match header.and_then(Authorization::parse) {
        Some(Authorization::Token(shown)) if is_same(shown.expose(), token.expose()) => Ok(text(&state).await),
        Some(_) => Err(ApiError::unauthorized(ErrorCode::TokenInvalid, "this is not the token of metrics.token")),
        None => Err(ApiError::unauthorized(ErrorCode::TokenMissing, "this needs the token of metrics.token")),
    }
}

/// Answers everybody on an address that only the monitor can reach.
///
/// # Errors
/// When the listener cannot be used.
pub fn serve(listener: TcpListener, state: web::Data<HttpState>) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        App::new()
            .app_data(state.clone())
            .route("/metrics", web::get().to(async |state: web::Data<HttpState>| text(&state).await))
    });
    Ok(server.workers(1).shutdown_timeout(SHUTDOWN_S).disable_signals().listen(listener)?.run())
}

async fn text(state: &HttpState) -> HttpResponse {
    let services = &state.services;
    let caches = [
        ("users", services.directory.lookups()),
        ("user_names", services.directory.name_lookups()),
        ("types", services.types.lookups()),
    ];
    let (sign_ins, deliveries) = (services.accounts.sign_ins(), &services.webhooks.deliveries);
    let moment = Moment {
        panics: state.panics.count(),
        search_pending: services.searched.last().map(|left| left.parts()),
        search_looked_at: services.searched.looked_at(),
        embedded: state.file.as_ref().map(|file| file.figures()),
        is_writable: services.store.health().await.is_ok_and(|health| health.is_writable()),
        objects: counted_objects(state).await,
        streams: services.feed.streams(),
        behind: services.feed.behind(),
    };
    let text = state.metrics.text(&caches, sign_ins, deliveries, moment);
    HttpResponse::Ok().content_type(prometheus::TEXT_FORMAT).body(text)
}

/// The numbers of [`objects_by_type`], counted at most once a minute; the last ones where counting takes too long.
async fn counted_objects(state: &HttpState) -> Option<Vec<(String, u64)>> {
    let mut last = state.counted.lock().await;
    if last.as_ref().is_none_or(|(at, _)| at.elapsed() >= RECENT)
        && let Ok(Ok(counted)) = tokio::time::timeout(COUNTING, objects_by_type(&state.services)).await
    {
        *last = Some((Instant::now(), counted));
    }
    last.as_ref().map(|(_, counted)| counted.clone())
}

/// The number of objects of each type, also of those that access lists hide: a monitor is the operator's.
async fn objects_by_type(services: &Services) -> Result<Vec<(String, u64)>, ServiceError> {
    let types = services.current_types().await?;
    let mut numbers = Vec::new();
    for of in types.iter().map(|entry| &entry.object_type).take(MOST_TYPES) {
        let count = services.count_of(of.public_id).await?;
        numbers.push((of.name.clone(), count));
    }
    Ok(numbers)
}

/// Compares hashes, so that the time reveals nothing about the token.
fn is_same(shown: &str, token: &str) -> bool {
    Sha256::digest(shown) == Sha256::digest(token)
}
