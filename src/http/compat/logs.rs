//! `/rest/log/`: the history of objects as DATAGERRY's log shows it.
//!
//! Entries of this service have ids after [`OWN`], so they differ from those that DATAGERRY wrote to the same database.

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse, web};
use bson::raw::RawDocument;
use bson::{Bson, Document, doc};
use futures::TryStreamExt;

use super::rendered::Lifting;
use super::request::{caller, pairs_of};
use crate::domain::document::{raw, text};
use crate::history::entry::Action;
use crate::http::envelope::{self, Wire};
use crate::http::error::ApiError;
use crate::http::links::encode_query;
use crate::http::listing;
use crate::http::params::{ListParams, ListRoute, Parameters};
use crate::http::path::positive;
use crate::http::state::HttpState;
use crate::json::write::DateStyle;
use crate::service::history::as_of::AccessLists;
use crate::service::history::logged::{self, OBJECT_LOG, Of};
use crate::service::history::moments::as_of_read;
use crate::service::history::past::Moment;
use crate::service::objects::rendering;
use crate::service::resource::{self, Listed, Objects, Resource};
use crate::service::{Caller, ErrorCode, Services};
use crate::store::collections::LOGS;
use crate::store::{Documents, StoreError};

/// The id of an entry of this service is its sequence and this.
const OWN: i64 = 1_000_000_000;

/// The maximum number of entries of a list whose changes are shown, and of entries compared with one.
const MOST_COMPARED: usize = 50;

/// Entries in the shape of DATAGERRY.
struct Log;

impl Resource for Log {
    const COLLECTION: &'static str = LOGS;
    const MODEL: &'static str = "CmdbLog";
    const NAME: &'static str = "log";
    const NOT_FOUND: ErrorCode = ErrorCode::NotFound;
    const TAKEN: &[(&'static str, ErrorCode)] = &[];
}

impl Wire for Log {
    const PATH: &'static str = "/log/";
    const DATES: DateStyle = DateStyle::Iso;
}

const LIST: ListRoute = ListRoute::by("public_id");

/// `GET /rest/log/object/7`.
pub(super) async fn of_object(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (caller, id) = (caller(&request)?, id(&request)?);
    let params = params(&state, &caller, &request).await?;
    let listed = logged::of_object(&state.services, &caller, id, params.query.clone()).await?;
    answer(&state, &request, (&caller, &format!("/log/object/{id}")), &params, listed).await
}

/// `GET /rest/log/object/exists`.
pub(super) async fn of_present(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    of_objects(&state, &request, Of::Present, "/log/object/exists").await
}

/// `GET /rest/log/object/notexists`.
pub(super) async fn of_gone(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    of_objects(&state, &request, Of::Gone, "/log/object/notexists").await
}

/// `GET /rest/log/object/deleted`.
pub(super) async fn of_deletions(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    of_objects(&state, &request, Of::Deletions, "/log/object/deleted").await
}

async fn of_objects(state: &HttpState, request: &HttpRequest, of: Of, path: &str) -> Result<HttpResponse, ApiError> {
    let caller = caller(request)?;
    let params = params(state, &caller, request).await?;
    let of = (of, state.params.max_limit);
    let listed = logged::of_objects(&state.services, &caller, of, params.query.clone()).await?;
    answer(state, request, (&caller, path), &params, listed).await
}

/// `GET /rest/log/7`: an entry with the object as it was then.
pub(super) async fn one(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (caller, id, services) = (caller(&request)?, id(&request)?, &state.services);
    let shown = match sequence(id) {
        Some(sequence) => with_state(services, &caller, &logged::entry(services, &caller, sequence).await?).await?,
        None => theirs(&resource::decode(&logged::entry_of_datagerry(services, &caller, id).await?)?),
    };
    Ok(envelope::json(StatusCode::OK, written(&shown)?, |_| {}))
}

/// `GET /rest/log/7/corresponding`: other changes of the object, to be compared with an entry.
pub(super) async fn corresponding(state: web::Data<HttpState>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let (caller, id, services) = (caller(&request)?, id(&request)?, &state.services);
    let mut items = Vec::new();
    if let Some(sequence) = sequence(id) {
        let entry = resource::decode(&logged::entry(services, &caller, sequence).await?)?;
        let object = entry.get_i64("public_id").unwrap_or_default();
        for other in logged::edits(services, &caller, object, MOST_COMPARED as u64).await? {
            if other.get_i64("sequence").is_ok_and(|other| other != sequence) {
                items.push(written(&with_state(services, &caller, &other).await?)?);
            }
        }
    } else {
        logged::entry_of_datagerry(services, &caller, id).await?;
    }
    if items.is_empty() {
        return Ok(HttpResponse::NoContent().finish());
    }
    Ok(envelope::json(StatusCode::OK, [b"[".as_slice(), &items.join(&b','), b"]"].concat(), |_| {}))
}

fn id(request: &HttpRequest) -> Result<i64, ApiError> {
    let id = request.match_info().get("public_id").and_then(positive);
    id.ok_or_else(|| ApiError::of(ErrorCode::NotFound))
}

fn sequence(id: i64) -> Option<i64> {
    id.checked_sub(OWN).filter(|sequence| *sequence > 0)
}

/// The parameters of a list. A filter has no effect, and no order by what may hold passwords has one.
async fn params(state: &HttpState, caller: &Caller, request: &HttpRequest) -> Result<ListParams, ApiError> {
    let sent = pairs_of(request.query_string()).unwrap_or_default();
    let value =
        |name: &str| sent.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value);
    let order = match value("order").map_or("1", String::as_str) {
        "1" => 1,
        "-1" => -1,
        _ => return Err(ApiError::parameter("order", "must be 1 or -1")),
    };
    let member = match value("sort").map_or("", String::as_str) {
        "action_name" => "action",
        "object_id" => "public_id",
        member @ ("user_name" | "user_id" | "version" | "comment") => member,
        _ => "sequence",
    };
    // Entries of DATAGERRY have no sequence: they come before those of this service, by their ids.
    let mut sort = doc! { member: order };
    for member in ["sequence", "public_id"] {
        sort.entry(member.to_owned()).or_insert(order.into());
    }
    let sort = sort.to_string();
    let paged = ["page", "limit"].into_iter().filter_map(|name| Some((name, value(name)?.as_str())));
    let query = encode_query(paged.chain([("sort", sort.as_str())]));
    let mut params = state.list_params(caller, Parameters::from_query(&query)?, &LIST).await?;
    params.sent = Parameters::of(request)?;
    Ok(params)
}

async fn answer(
    state: &HttpState,
    request: &HttpRequest,
    (caller, path): (&Caller, &str),
    params: &ListParams,
    listed: Listed,
) -> Result<HttpResponse, ApiError> {
    let listed = match listed {
        Listed::Page(mut page) => {
            page.documents = shown(&state.services, caller, &page.documents).await?;
            Listed::Page(page)
        }
        Listed::Chunked(mut chunks) => {
            let documents = chunks.documents.and_then(|chunk| std::future::ready(without_changes(&chunk)));
            chunks.documents = Box::pin(documents);
            Listed::Chunked(chunks)
        }
        listed => listed,
    };
    listing::answer::<Log>(state, request, path, params, listed).await
}

/// The entries of a page. The first ones have their changes.
async fn shown(services: &Services, caller: &Caller, entries: &Documents) -> Result<Documents, ApiError> {
    let mut all = Documents::new();
    for (index, entry) in entries.iter().enumerate() {
        let document = resource::decode(entry)?;
        let shown = if !is_own(entry) {
            theirs(&document)
        } else if index < MOST_COMPARED {
            own(&document, changes(services, caller, &document).await?)
        } else {
            own(&document, nothing())
        };
        all.push(&raw(&shown));
    }
    Ok(all)
}

fn without_changes(entries: &Documents) -> Result<Documents, StoreError> {
    let mut all = Documents::new();
    for entry in entries.iter() {
        let document = Document::try_from(entry).map_err(StoreError::backend)?;
        all.push(&raw(&if is_own(entry) { own(&document, nothing()) } else { theirs(&document) }));
    }
    Ok(all)
}

fn is_own(entry: &RawDocument) -> bool {
    text(entry, "resource").is_some()
}

/// The number of an action, its name, and what DATAGERRY says about it.
fn action(entry: &Document) -> (i32, &'static str, &'static str) {
    let name = entry.get_str("action").unwrap_or_default();
    let is_new = entry.get_document("changes").is_ok_and(|changes| changes.get_bool("created").unwrap_or(false));
    if is_new {
        (0, "CREATE", "Object was created")
    } else if name == Action::Delete.name() {
        (3, "DELETE", "Object was deleted")
    } else if name == Action::ActiveChange.name() {
        (2, "ACTIVE_CHANGE", "Active status has changed")
    } else {
        (1, "EDIT", "")
    }
}

/// The changes of an entry without a change.
fn nothing() -> Bson {
    Bson::Array(Vec::new())
}

/// The `changes` of an entry: the values before and after.
async fn changes(services: &Services, caller: &Caller, entry: &Document) -> Result<Bson, ApiError> {
    let (number, _, _) = action(entry);
    if matches!(number, 0 | 3) {
        return Ok(nothing());
    }
    let place = (entry.get_i64("public_id").unwrap_or_default(), entry.get_i64("sequence").unwrap_or_default());
    let Some(change) = logged::change(services, caller, place).await? else { return Ok(nothing()) };
    if number == 2 {
        return Ok(change.active.map_or_else(nothing, |active| doc! { "old": !active, "new": active }.into()));
    }
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for (name, before, after) in change.fields {
        old.push(Bson::from(doc! { "name": &name, "value": before }));
        new.push(Bson::from(doc! { "name": name, "value": after }));
    }
    Ok(doc! { "old": old, "new": new }.into())
}

/// An entry of this service in the shape of DATAGERRY.
fn own(entry: &Document, changes: Bson) -> Document {
    let (number, name, comment) = action(entry);
    let member = |name: &str| entry.get(name).cloned().unwrap_or(Bson::Null);
    doc! {
        "public_id": entry.get_i64("sequence").unwrap_or_default() + OWN,
        "log_time": member("time"),
        "log_type": OBJECT_LOG,
        "action": number,
        "object_id": member("public_id"),
        "version": member("version"),
        "user_name": entry.get_str("user_name").unwrap_or("Unknown"),
        "user_id": member("user_id"),
        "render_state": Bson::Null,
        "changes": changes,
        "comment": entry.get_str("comment").unwrap_or(comment),
        "action_name": name,
    }
}

/// An entry of DATAGERRY without the state of the object, and without old and new values: they may hold passwords.
fn theirs(entry: &Document) -> Document {
    let members = ["public_id", "log_time", "log_type", "action", "object_id", "version", "user_name", "user_id"];
    let mut shown = Document::new();
    for name in members.into_iter().chain(["comment", "action_name"]) {
        shown.insert(name, entry.get(name).cloned().unwrap_or(Bson::Null));
    }
    shown.insert("render_state", Bson::Null);
    shown.insert("changes", nothing());
    shown
}

/// An entry of this service with its changes, and with the rendered object as it was then, as JSON in a text. A deletion has the
/// object as it was before.
async fn with_state(services: &Services, caller: &Caller, entry: &RawDocument) -> Result<Document, ApiError> {
    let entry = resource::decode(entry)?;
    let (id, sequence) =
        (entry.get_i64("public_id").unwrap_or_default(), entry.get_i64("sequence").unwrap_or_default());
    let is_deletion = action(&entry).0 == 3;
    let moment = Moment::Sequence(if is_deletion { sequence - 1 } else { sequence });
    let then = as_of_read::<Objects>(services, (caller, id), moment, AccessLists::OfToday).await;
    let view = match then {
        Ok(then) => match rendering::render_one(&then, caller, id).await {
            Ok((view, _)) => {
                let types = then.current_types().await?;
                String::from_utf8(Lifting::new(types).lift(&view)).ok()
            }
            // Unknown changes, and those that the caller may not see.
            Err(_) => None,
        },
        Err(_) => None,
    };
    let mut shown = own(&entry, changes(services, caller, &entry).await?);
    shown.insert("render_state", view.map_or(Bson::Null, Bson::from));
    Ok(shown)
}

fn written(shown: &Document) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    envelope::write_document(&raw(shown), DateStyle::Millis, &mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_this_service_has_the_members_of_theirs() {
        let entry = doc! { "sequence": 5_i64, "resource": "objects", "public_id": 7_i64, "action": "CLEAN" };
        let (own, theirs) = (own(&entry, nothing()), theirs(&doc! { "public_id": 5_i64 }));
        let names = |document: &Document| document.keys().cloned().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(names(&own), names(&theirs));
        let told = ["public_id", "action", "action_name"].map(|name| own.get(name).cloned());
        assert_eq!(told, [Some((OWN + 5).into()), Some(1.into()), Some("EDIT".into())]);
    }
}
