//! Routes about references: docs/api.md, References.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use serde_json::json;

use super::call::{Answer, Call};
use super::envelope::{self, Items};
use super::error::ApiError;
use super::params::Parameters;
use super::path::{PathId, positive};
use super::schema::{DanglingParameters, DanglingReferences, GraphParameters, operation};
use crate::exchange::graph::{Graph, GraphFormat};
use crate::service::objects::graph::{self, Direction, GraphQuery};
use crate::service::objects::nowhere::{self, Place};
use crate::service::resource::Objects;

/// How many references a page of those that lead nowhere has, without `limit` and at most.
const DANGLING: (u64, u64) = (100, 1000);
/// The depth of a graph, and its number of nodes, by default and at most.
const DEPTH: (u64, u64) = (2, 8);
const NODES: (u64, u64) = (200, 1000);
/// How many types a graph can be limited to.
const MOST_TYPES: usize = 100;

operation! {
    /// List references that lead nowhere.
    list_dangling: params(DanglingParameters), responses((status = 200, body = DanglingReferences))
}
pub(super) async fn list_dangling(Call { state, request, caller }: Call) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["type_id", "limit", "after"], state.params.unknown)?;
    let type_id = sent.number("type_id")?.map(|id| i64::try_from(id).unwrap_or(i64::MAX));
    let most = sent.within("limit", DANGLING)?;
    let after = place(sent.get("after"))?;
    let page = nowhere::page(&state.services, &caller, type_id, after, most).await?;
    let mut items = Items::default();
    for reference in &page.references {
        serde_json::to_writer(items.begin(), reference)
            .map_err(|error| ApiError::parameter("limit", error.to_string()))?;
    }
    let beside = json!({"count": items.count, "next": page.next.map(|next| next.to_string())});
    Ok(envelope::collection::<Objects>(&state, StatusCode::OK, "results", &items, &beside, "GET"))
}

operation! {
    /// Read the objects around an object, as a graph.
    object_graph:
        params(GraphParameters),
        responses((status = 200, description = "The graph.", content(
            (Graph = "application/json"),
            (String = "text/vnd.graphviz"),
            (String = "text/plain"),
            (String = "application/graphml+xml"),
        )))
}
pub(super) async fn object_graph(Call { state, request, caller }: Call, id: PathId) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["direction", "depth", "types", "max_nodes", "format"], state.params.unknown)?;
    let direction = match sent.one_of("direction", &["in", "out", "both"])? {
        Some("in") => Direction::In,
        Some("out") => Direction::Out,
        _ => Direction::Both,
    };
    let format = sent.one_of("format", &["json", "dot", "mermaid", "graphml"])?.unwrap_or("json");
    let format = GraphFormat::named(format);
    let types = sent.get("types").map(types).transpose()?;
    let (depth, most) = (sent.within("depth", DEPTH)?, sent.within("max_nodes", NODES)?);
    let query = GraphQuery { direction, depth, types, most };
    let text = graph::text_around(&state.services, &caller, id.0, query, format).await?;
    Ok(HttpResponse::Ok().content_type(format.media_type()).body(text))
}

/// The ids of types, with commas between them.
fn types(sent: &str) -> Result<Vec<i64>, ApiError> {
    let ids: Option<Vec<i64>> = sent.split(',').map(positive).collect();
    ids.filter(|ids| ids.len() <= MOST_TYPES).ok_or_else(|| {
        ApiError::parameter("types", format!("must be ids of types with commas between them, at most {MOST_TYPES}"))
    })
}

/// The place that a cursor stands for; the beginning without one.
fn place(cursor: Option<&str>) -> Result<Place, ApiError> {
    let Some(cursor) = cursor else { return Ok(Place::default()) };
    let number = |text: &str| {
        let is_number = (1..20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(i64::MAX))
    };
    let place = cursor.split_once('-').and_then(|(type_id, id)| Some((number(type_id)?, number(id)?)));
    let (type_id, public_id) = place.ok_or_else(|| {
        ApiError::parameter("after", "is no place in this list; send next of the page before, or leave it out")
    })?;
    Ok(Place { type_id, public_id })
}
