//! The API description: for programs at `/openapi.json`, for people at `/docs/` with Swagger UI, which is part of the
//! binary.

use std::sync::{Arc, LazyLock};

use actix_web::http::header::{self, HeaderValue};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, HttpResponse, web};
use utoipa_swagger_ui::{Config, SwaggerFile};

use super::error::{ApiError, ERRORS_PAGE};
use super::params::Parameters;
use super::schema::{DescriptionVersion, operation};
use super::state::HttpState;
use crate::service::ErrorCode;

/// Without the badge of a validator on the internet.
static PAGE: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    let config = Config::from("../openapi.json").validator_url("none").deep_linking(true).doc_expansion("list");
    let config = config.persist_authorization(true);
    Arc::new(config.display_operation_id(true).display_request_duration(true).filter(true))
});

operation! {
    /// The description of the interface, in OpenAPI.
    openapi: params(DescriptionVersion), responses((status = 200, body = std::collections::BTreeMap<String, serde_json::Value>))
}
pub(super) async fn openapi(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let sent = Parameters::of(&request)?;
    sent.only(&["version"], state.params.unknown)?;
    let description = match sent.one_of("version", &["3.1", "3.2"])? {
        Some("3.1") => &state.older_description,
        _ => &state.description,
    };
    Ok(HttpResponse::Ok().content_type("application/json").body(Bytes::clone(description)))
}

operation! {
    /// The description of the interface as a page, on which routes can be tried.
    page: responses((status = 200, body = String, content_type = "text/html"))
}
pub(super) async fn page() -> Result<HttpResponse, ApiError> {
    file("index.html")
}

operation! {
    /// A part of the page.
    part:
        responses((status = 200, content(
            (String = "text/html"), (String = "text/css"), (String = "text/javascript"), (Vec<u8> = "image/png"),
            (String = "application/json"),
        )))
}
pub(super) async fn part(request: HttpRequest) -> Result<HttpResponse, ApiError> {
    if request.match_info().get("file") == ERRORS_PAGE.rsplit('/').next() {
        return Ok(HttpResponse::Ok().content_type("text/html; charset=utf-8").body(ERRORS.as_str()));
    }
    file(request.match_info().get("file").unwrap_or_default())
}

/// What each code of an error means; `type` of an error leads to its row.
static ERRORS: LazyLock<String> = LazyLock::new(|| {
    let row = |code: &ErrorCode| {
        let (name, status) = (code.pattern(), code.status());
        let anchor = name.split('<').next().unwrap_or_default();
        let (name, meaning) = (name.replace('<', "&lt;").replace('>', "&gt;"), code.meaning());
        format!("<tr id=\"{anchor}\"><td>{status}</td><td><code>{name}</code></td><td>{meaning}</td></tr>\n")
    };
    let rows: String = ErrorCode::ALL.iter().map(row).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Errors of the Inventory Service</title>\n\
         <style>td {{ padding: 0.2em 1em 0.2em 0 }} tr:target {{ background: #ffd }}</style></head>\n\
         <body><h1>Errors</h1>\n<p><a href=\"./\">The routes that answer with them</a></p>\n\
         <table>\n<tr><th>Status</th><th>Code</th><th>Meaning</th></tr>\n{rows}</table></body></html>\n"
    )
});

fn file(name: &str) -> Result<HttpResponse, ApiError> {
    let found = utoipa_swagger_ui::serve(name, Arc::clone(&PAGE)).map_err(|error| {
        log::error!("{name} of Swagger UI: {error}");
        ApiError::of(ErrorCode::Internal)
    })?;
    let SwaggerFile { bytes, content_type, .. } = found.ok_or_else(|| ApiError::of(ErrorCode::NotFound))?;
    Ok(HttpResponse::Ok()
        .content_type(content_type)
        .insert_header((header::CACHE_CONTROL, HeaderValue::from_static("no-cache")))
        .body(bytes.into_owned()))
}
