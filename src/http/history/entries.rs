//! Routes of log entries: docs/api.md, History.

use bson::{Bson, Document};

use crate::http::call::{Answer, Call};
use crate::http::envelope::Wire;
use crate::http::error::ApiError;
use crate::http::listing;
use crate::http::params::{ListParams, ListRoute};
use crate::http::path::PathId;
use crate::http::schema::{ListOf, Listing, LogEntry, operation};
use crate::http::sent::Sent;
use crate::http::state::HttpState;
use crate::json::write::DateStyle;
use crate::service::Caller;
use crate::service::history::entries::{self as history, KNOWN, Logs};
use crate::service::resource::{Categories, Objects, Resource, Types};
use crate::suggest;

const LIST: ListRoute = ListRoute { key_follows: true, ..ListRoute::by("sequence") };

/// The operators of filters on entries: those that compare, and those that join.
const JOINS: [&str; 3] = ["$and", "$or", "$nor"];

impl Wire for Logs {
    const PATH: &'static str = "/logs/";
    const DATES: DateStyle = DateStyle::Iso;
}

operation! {
    /// List log entries: what was changed, by whom.
    list_logs: params(Listing), responses((status = 200, body = ListOf<LogEntry>))
}
pub(in crate::http) async fn list_logs(Call { state, request, caller }: Call, sent: Sent) -> Answer {
    let params = params(&state, &caller, sent).await?;
    let listed = history::list_entries(&state.services, &caller, params.query.clone()).await?;
    listing::advised::<Logs>(&state, &request, Logs::PATH, &params, listed).await
}

operation! {
    /// List the history of an object.
    object_history: params(Listing), responses((status = 200, body = ListOf<LogEntry>))
}
pub(in crate::http) async fn object_history(call: Call, id: PathId, sent: Sent) -> Answer {
    history_of::<Objects>(call, id.0, sent).await
}

operation! {
    /// List the history of a type.
    type_history: params(Listing), responses((status = 200, body = ListOf<LogEntry>))
}
pub(in crate::http) async fn type_history(call: Call, id: PathId, sent: Sent) -> Answer {
    history_of::<Types>(call, id.0, sent).await
}

operation! {
    /// List the history of a category.
    category_history: params(Listing), responses((status = 200, body = ListOf<LogEntry>))
}
pub(in crate::http) async fn category_history(call: Call, id: PathId, sent: Sent) -> Answer {
    history_of::<Categories>(call, id.0, sent).await
}

async fn history_of<R: Resource + Wire>(Call { state, request, caller }: Call, id: i64, sent: Sent) -> Answer {
    let params = params(&state, &caller, sent).await?;
    let listed = history::history_of::<R>(&state.services, &caller, id, params.query.clone()).await?;
    listing::advised::<Logs>(&state, &request, &format!("{}{id}/history", R::PATH), &params, listed).await
}

async fn params(state: &HttpState, caller: &Caller, sent: Sent) -> Result<ListParams, ApiError> {
    let params = state.list_params(caller, sent.0, &LIST).await?;
    allowed(params.query.filter.document())?;
    for key in params.query.sort.keys() {
        known("sort", key.path.as_str())?;
    }
    Ok(params)
}

/// Refuses filters that reach the old values in entries: who may list entries may not ask for what is hidden in them.
fn allowed(filter: &Document) -> Result<(), ApiError> {
    for (name, condition) in filter {
        if JOINS.contains(&name.as_str()) {
            condition.as_array().into_iter().flatten().filter_map(Bson::as_document).try_for_each(allowed)?;
        } else if name.starts_with('$') {
            let message =
                format!("{name} is not known for log entries; compare their members, and join with $and, $or, $nor");
            return Err(ApiError::parameter("filter", message));
        } else {
            known("filter", name)?;
        }
    }
    Ok(())
}

fn known(parameter: &str, path: &str) -> Result<(), ApiError> {
    if KNOWN.contains(&path) {
        return Ok(());
    }
    let hint = suggest::hint(path, &KNOWN);
    Err(ApiError::parameter(
        parameter,
        format!("{path} is no member by which log entries are found{hint}; those are {}", KNOWN.join(", ")),
    ))
}
