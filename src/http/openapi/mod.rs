//! The API description (OpenAPI 3.2), made from the code. Its sources are the table of routes, `operation!` at the
//! handlers, the tables of bodies, the structs of answers, and the table of error codes.
//!
//! [`finish`] adds the parts that all operations share.

mod errors;
pub mod examples;
mod finish;

use std::sync::LazyLock;

use actix_web::web::Bytes;
use serde_json::Value;
use utoipa::{OpenApi, openapi};

use super::route_table::{RouteInfo, Schemas};
use super::routes;

/// What belongs to no operation.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Inventory Service",
        description = include_str!("introduction.md"),
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    components(schemas(super::error::ErrorBody, crate::store::Explanation))
)]
struct Frame;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let routes = routes::infos();
    let annotated = serde_json::to_value(annotated(routes)).expect("a description can always be written");
    finish::finished(annotated, routes)
});

/// The descriptions at the handlers, by method and path.
fn annotated(routes: &[RouteInfo]) -> openapi::OpenApi {
    let mut document = Frame::openapi();
    document.openapi = openapi::OpenApiVersion::Version32;
    let mut schemas = Schemas::new();
    for route in routes {
        let mut operation = (route.operation)(&mut schemas);
        operation.tags = Some(vec![finish::tag(route.path).to_owned()]);
        let item = document.paths.paths.entry(route.path.to_owned()).or_default();
        match route.method.as_str() {
            "GET" => item.get = Some(operation),
            "PUT" => item.put = Some(operation),
            "POST" => item.post = Some(operation),
            "DELETE" => item.delete = Some(operation),
            "PATCH" => item.patch = Some(operation),
            // The handler has a second route, and an operation id must be unique.
            "QUERY" => {
                operation.operation_id = operation.operation_id.map(|id| finish::id_of_query(&id));
                item.query = Some(operation);
            }
            other => unreachable!("no route has the method {other}"),
        }
    }
    document.components.get_or_insert_default().schemas.extend(schemas);
    document
}

/// The description, whole.
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// The same in OpenAPI 3.1, for generators that know no later version: the method QUERY is under `x-query`.
pub fn document_for_3_1() -> Value {
    older(DOCUMENT.clone())
}

fn older(mut document: Value) -> Value {
    document["openapi"] = "3.1.0".into();
    for item in document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut()) {
        if let Some(query) = item.as_object_mut().and_then(|item| item.remove("query")) {
            item["x-query"] = query;
        }
    }
    document
}

/// The same as text. With an issuer of OpenID Connect its tokens open what those of the service open.
pub fn text(issuer: Option<&str>) -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| DOCUMENT.to_string().into());
    issuer.map_or_else(|| TEXT.clone(), |issuer| finish::with_issuer(DOCUMENT.clone(), issuer).to_string().into())
}

/// As [`text`], in OpenAPI 3.1.
pub fn text_for_3_1(issuer: Option<&str>) -> Bytes {
    let document = match issuer {
        Some(issuer) => finish::with_issuer(DOCUMENT.clone(), issuer),
        None => DOCUMENT.clone(),
    };
    older(document).to_string().into()
}
