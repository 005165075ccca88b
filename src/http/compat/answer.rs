//! Answers of this service in the form that DATAGERRY's clients read. Members that only this service has are kept.

use std::future::poll_fn;
use std::pin::Pin;
use std::str;

use actix_web::body::{BodySize, BodyStream, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::{Method, StatusCode};
use actix_web::web::Bytes;
use actix_web::{HttpRequest, ResponseError};
use futures::{Stream, StreamExt, stream};
use serde_json::{Map, Value, json};

use super::items::Splitter;
use super::rendered::{Lifting, of_kind};
use super::request::{Asked, pairs_of};
use crate::http::envelope::{Wire, write_document};
use crate::http::error::ApiError;
use crate::http::history::at;
use crate::http::state::HttpState;
use crate::json::write::{DateStyle, write_date};
use crate::query::{Filter, Projection};
use crate::service::objects::joins;
use crate::service::resource::Types;
use crate::{admission, json};

/// What clients of DATAGERRY take the service for.
const TITLE: &str = "DATAGERRY";

/// Objects.
const OBJECTS: &str = "/rest/objects/";

/// Where clients of DATAGERRY change objects.
const WRITES: [&str; 3] = ["/rest/objects/0", "/rest/objects/{public_id}", "/rest/objects/{public_id}/state"];

/// Longer answers count as memory of their request while they are translated.
const LONG: usize = 64 * 1024;

/// How the items of a list change.
#[derive(Clone)]
enum Change {
    Rendered(Lifting),
    Object,
    Type,
    User,
    Setting,
    Same,
}

/// What changes the items of one list.
#[derive(Clone)]
struct Items {
    change: Change,
    projection: Option<Projection>,
}

/// The answer in DATAGERRY's form. Refusals stay as they are.
///
/// A list that is sent while it is read is translated item by item. Everything else is in memory already, and has the
/// bounds of the handler that made it.
///
/// # Errors
/// None of its own.
pub(super) async fn translated(
    state: &HttpState,
    response: ServiceResponse<BoxBody>,
    pattern: &str,
    asked: &Asked,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    if !response.status().is_success() {
        return Ok(response);
    }
    let items = match items(state, &response, pattern, asked).await {
        Ok(items) => items,
        Err(error) => return Ok(response.into_response(error.error_response())),
    };
    let (request, answer) = response.into_parts();
    let (mut head, body) = answer.into_parts();
    if matches!(body.size(), BodySize::Stream) {
        let body = match items {
            Some(items) => BoxBody::new(BodyStream::new(admission::kept(streamed(body, items).boxed_local()))),
            None => body,
        };
        return Ok(ServiceResponse::new(request, head.set_body(body)));
    }
    let bytes = match body.try_into_bytes() {
        Ok(bytes) => bytes,
        Err(body) => return Ok(ServiceResponse::new(request, head.set_body(body))),
    };
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let theirs = if let Some(items) = items {
        listed(bytes, items).await
    } else if is_read && pattern == "/rest/objects/{public_id}" {
        lifting(state, &request).await.map(|lifting| lifting.lift(&bytes).into())
    } else {
        let method = if is_read { &Method::GET } else { request.method() };
        Ok(one(&bytes, method, pattern, asked).map_or(bytes, Bytes::from))
    };
    let is_dated = !is_read && WRITES.contains(&pattern);
    let theirs = theirs.map(|theirs| if is_dated { dated(&theirs).into() } else { theirs });
    let theirs = match theirs {
        Ok(theirs) => theirs,
        Err(error) => return Ok(ServiceResponse::new(request, error.error_response())),
    };
    if !is_read && *request.method() != Method::DELETE && pattern == "/rest/objects/{public_id}" {
        *head.status_mut() = StatusCode::ACCEPTED;
    }
    Ok(ServiceResponse::new(request, head.set_body(BoxBody::new(theirs))))
}

async fn lifting(state: &HttpState, request: &HttpRequest) -> Result<Lifting, ApiError> {
    Ok(Lifting::new(at::types(state, request).await?))
}

/// What changes the items of this answer, if it is a list with a translation.
async fn items(
    state: &HttpState,
    response: &ServiceResponse<BoxBody>,
    pattern: &str,
    asked: &Asked,
) -> Result<Option<Items>, ApiError> {
    let request = response.request();
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(None);
    }
    let projection = asked.projection.as_deref().map(|text| projection(state, text)).transpose()?;
    let change = match pattern {
        "/rest/objects/" | "/rest/objects/{public_id}/references" | "/rest/objects/clean/{public_id}" => {
            let pairs = pairs_of(request.query_string()).unwrap_or_default();
            if pairs.iter().any(|(name, value)| name == "view" && value == "render") {
                Change::Rendered(lifting(state, request).await?)
            } else {
                Change::Object
            }
        }
        "/rest/types/" => Change::Type,
        "/rest/users/" => Change::User,
        "/rest/users/{public_id}/settings/" => Change::Setting,
        _ if projection.is_some() => Change::Same,
        _ => return Ok(None),
    };
    Ok(Some(Items { change, projection }))
}

/// The projection of a list that has none in the interface of this service: names of members alone.
fn projection(state: &HttpState, text: &str) -> Result<Projection, ApiError> {
    let document = json::read::document_from_str(text);
    let document = document.map_err(|error| ApiError::parameter("projection", error.to_string()))?;
    let projection = Projection::parse_within(&document, &Filter::all(), &state.params.limits)?;
    if projection.is_computed() {
        return Err(ApiError::parameter("projection", "takes names of members only here, no expressions"));
    }
    Ok(projection)
}

impl Items {
    fn change(&self, item: &[u8]) -> Vec<u8> {
        let changed = match &self.change {
            Change::Rendered(lifting) => dated(&lifting.lift(item)),
            Change::Object => dated(item),
            Change::User => edited(item, user).unwrap_or_else(|| item.to_vec()),
            Change::Type => edited(item, object_type).unwrap_or_else(|| item.to_vec()),
            Change::Setting => edited(item, setting).unwrap_or_else(|| item.to_vec()),
            Change::Same => item.to_vec(),
        };
        let Some(projection) = &self.projection else { return changed };
        let Ok(document) = joins::view_with_values(&changed, &[]) else { return changed };
        let Ok(projected) = projection.apply(&document, &Filter::all()) else { return changed };
        let mut out = Vec::with_capacity(changed.len());
        match write_document(&projected, Types::DATES, &mut out) {
            Ok(()) => out,
            Err(_) => changed,
        }
    }
}

/// A list in memory, with its items changed. The work on a long one is admitted.
async fn listed(bytes: Bytes, items: Items) -> Result<Bytes, ApiError> {
    let length = bytes.len();
    let work = move || {
        let mut splitter = Splitter::default();
        let mut out = splitter.feed(&bytes, |item| items.change(item));
        out.extend(splitter.end());
        Bytes::from(out)
    };
    if length <= LONG {
        return Ok(work());
    }
    admission::current().hold(length)?;
    Ok(admission::work(move |_| work()).await?)
}

type Failure = Box<dyn std::error::Error>;

/// A list that is sent while it is read, with its items changed. It takes the memory of one chunk and one item.
fn streamed(body: BoxBody, items: Items) -> impl Stream<Item = Result<Bytes, Failure>> {
    stream::unfold(Some((body, Splitter::default(), items)), |state| async move {
        let (mut body, mut splitter, items) = state?;
        match poll_fn(|context| Pin::new(&mut body).poll_next(context)).await {
            Some(Ok(chunk)) => {
                let worked = admission::work(move |_| {
                    let text = splitter.feed(&chunk, |item| items.change(item));
                    (text, splitter, items)
                });
                match worked.await {
                    Ok((text, splitter, items)) => Some((Ok(text.into()), Some((body, splitter, items)))),
                    Err(denied) => Some((Err(denied.into()), None)),
                }
            }
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Ok(splitter.end().into()), None)),
        }
    })
}

/// The body, changed; nothing when it is no JSON object.
fn edited(body: &[u8], edit: impl FnOnce(&mut Map<String, Value>)) -> Option<Vec<u8>> {
    let mut members: Map<String, Value> = serde_json::from_slice(body).ok()?;
    edit(&mut members);
    serde_json::to_vec(&members).ok()
}

/// An answer about one resource, or about several of a bulk request; nothing when it stays as it is.
fn one(body: &[u8], method: &Method, pattern: &str, asked: &Asked) -> Option<Vec<u8>> {
    if *method == Method::POST && pattern == OBJECTS {
        let members: Map<String, Value> = serde_json::from_slice(body).ok()?;
        return Some(members.get("result_id")?.to_string().into_bytes());
    }
    if asked.is_singular && *method == Method::DELETE && pattern == "/rest/objects/{public_id}" {
        return Some(b"true".to_vec());
    }
    edited(body, |members| {
        if pattern == "/rest/" {
            service(members);
        }
        let of_resource = match pattern {
            _ if pattern.starts_with("/rest/types/") => Some(object_type as fn(&mut Map<String, Value>)),
            _ if pattern.starts_with("/rest/users/{public_id}/settings/") => Some(setting as _),
            _ if pattern.starts_with("/rest/users/") => Some(user as _),
            _ => None,
        };
        for name in ["result", "raw", "deleted_entry"] {
            if let (Some(Value::Object(resource)), Some(change)) = (members.get_mut(name), of_resource) {
                change(resource);
            }
        }
        match members.get("response_type").and_then(Value::as_str) {
            Some("UPDATE") => updated(members, pattern),
            Some("DELETE") => deleted(members),
            Some("INSERT") => {}
            _ => single_of_list(members, pattern),
        }
    })
}

/// `GET /rest/`.
fn service(members: &mut Map<String, Value>) {
    let connected =
        members.get("store").and_then(|store| store.get("reachable")).cloned().unwrap_or(Value::Bool(false));
    members.insert("title".to_owned(), json!(TITLE));
    members.insert("connected".to_owned(), connected);
}

/// DATAGERRY's `PUT` of objects answers for several, all others for one.
fn updated(members: &mut Map<String, Value>, pattern: &str) {
    let failed = if pattern == "/rest/objects/{public_id}" {
        let result = members.get("result").cloned().unwrap_or(Value::Null);
        members.insert("results".to_owned(), Value::Array(vec![result]));
        Value::Array(Vec::new())
    } else {
        Value::Null
    };
    members.entry("failed").or_insert(failed);
}

fn deleted(members: &mut Map<String, Value>) {
    if let Some(entry) = members.get("deleted_entry").cloned() {
        members.insert("raw".to_owned(), entry);
    }
    if let Some(Value::Array(entries)) = members.get("deleted_entries") {
        let successfully = vec![Value::Bool(true); entries.len()];
        members.insert("successfully".to_owned(), Value::Array(successfully));
    }
}

/// A setting is read as a list of one here.
fn single_of_list(members: &mut Map<String, Value>, pattern: &str) {
    if pattern != "/rest/users/{public_id}/settings/{name}" {
        return;
    }
    if let Some(Value::Array(results)) = members.get_mut("results")
        && let Some(Value::Object(found)) = results.first_mut()
    {
        setting(found);
        let found = Value::Object(found.clone());
        members.insert("result".to_owned(), found);
    }
}

/// The text with its dates as lists and writes have them.
fn dated(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    as_iso(text, &mut out);
    out
}

fn user(members: &mut Map<String, Value>) {
    if let Some(Value::String(time)) = members.get_mut("registration_time")
        && let Some(joined) = joined(time)
    {
        *time = joined;
    }
}

/// The `value` of each field in the kind of its field. Without an editor it is null there, not missing.
fn object_type(members: &mut Map<String, Value>) {
    for name in ["editor_id", "last_edit_time"] {
        members.entry(name).or_insert(Value::Null);
    }
    let fields = members.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten();
    for field in fields.filter_map(Value::as_object_mut) {
        let kind = field.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(value) = field.get_mut("value") {
            *value = of_kind(&kind, value);
        }
    }
}

/// Identifier and payload by their names there.
fn setting(members: &mut Map<String, Value>) {
    if let Some(identifier) = members.get("identifier").cloned() {
        members.insert("resource".to_owned(), identifier);
    }
    let Some(payload) = members.get("payload").cloned() else { return };
    match payload.get("payloads").filter(|payloads| payloads.is_array()) {
        Some(payloads) => drop(members.insert("payloads".to_owned(), payloads.clone())),
        None => drop(members.entry("payloads").or_insert_with(|| json!([payload]))),
    }
}

/// How a date begins that can be sent back.
const MILLIS: &[u8] = b"{\"$date\":";

/// Appends the JSON text, with each `{"$date": <milliseconds>}` in it as ISO 8601 text. Strings are not changed.
pub(super) fn as_iso(text: &[u8], out: &mut Vec<u8>) {
    let (mut rest, mut in_string) = (text, false);
    while let Some((&byte, after)) = rest.split_first() {
        if !in_string
            && byte == b'{'
            && let Some((millis, behind)) = millis(rest)
        {
            write_date(millis, DateStyle::Iso, out);
            rest = behind;
            continue;
        }
        out.push(byte);
        rest = after;
        match (byte, after.split_first()) {
            (b'"', _) => in_string = !in_string,
            (b'\\', Some((&escaped, behind))) if in_string => {
                out.push(escaped);
                rest = behind;
            }
            _ => {}
        }
    }
}

/// The milliseconds of the date at the beginning of the text, and the rest of the text.
fn millis(text: &[u8]) -> Option<(i64, &[u8])> {
    let digits = text.strip_prefix(MILLIS)?;
    let end = digits.iter().position(|byte| *byte == b'}')?;
    Some((str::from_utf8(&digits[..end]).ok()?.parse().ok()?, &digits[end + 1..]))
}

/// `YYYY-MM-DD HH:MM:SS.ffffff` as ISO 8601 text, the fraction only when there is one. Other texts stay.
pub(super) fn joined(text: &str) -> Option<String> {
    let joined = text.replacen(' ', "T", 1);
    (text.as_bytes().get(10) == Some(&b' ')).then(|| joined.strip_suffix(".000000").unwrap_or(&joined).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &Method, pattern: &str, is_singular: bool, body: &Value) -> Value {
        let asked = Asked { is_singular, ..Asked::default() };
        let text = one(body.to_string().as_bytes(), method, pattern, &asked).expect("a translation");
        serde_json::from_slice(&text).expect("JSON")
    }

    #[test]
    fn a_new_object_answers_the_bare_id() {
        let body = json!({"result_id": 7, "raw": {"public_id": 7}, "response_type": "INSERT"});
        assert_eq!(of(&Method::POST, "/rest/objects/", true, &body), json!(7));
        assert_eq!(of(&Method::POST, "/rest/objects/", false, &body), json!(7));
        assert_eq!(of(&Method::POST, "/rest/groups/", false, &body), body);
    }

    #[test]
    fn updates_of_objects_have_results_and_others_have_none() {
        let body = json!({"result": {"public_id": 7}, "response_type": "UPDATE"});
        let objects = of(&Method::PUT, "/rest/objects/{public_id}", true, &body);
        assert_eq!((&objects["results"], &objects["failed"]), (&json!([{"public_id": 7}]), &json!([])));
        let users = of(&Method::PUT, "/rest/users/{public_id}", true, &body);
        assert_eq!((users.get("results"), &users["failed"]), (None, &Value::Null));
    }

    #[test]
    fn deletes_have_what_is_gone_under_both_names() {
        let body = json!({"deleted_entry": {"public_id": 7}, "response_type": "DELETE"});
        assert_eq!(of(&Method::DELETE, "/rest/users/{public_id}", false, &body)["raw"], json!({"public_id": 7}));
        assert_eq!(of(&Method::DELETE, "/rest/objects/{public_id}", true, &body), json!(true));
        let many = json!({"deleted_entries": [{}, {}], "not_found": [], "response_type": "DELETE"});
        let many = of(&Method::DELETE, "/rest/objects/delete/{public_ids}", true, &many);
        assert_eq!(many["successfully"], json!([true, true]));
    }

    #[test]
    fn a_setting_has_both_names() {
        let body = json!({
            "result": {"identifier": "r", "payload": {"payloads": [{"id": "t"}]}}, "response_type": "UPDATE",
        });
        let answer = of(&Method::PUT, "/rest/users/{public_id}/settings/{name}", false, &body);
        assert_eq!(
            (&answer["result"]["resource"], &answer["result"]["payloads"]),
            (&json!("r"), &json!([{"id": "t"}]))
        );
    }

    fn iso(text: &str) -> String {
        let mut out = Vec::new();
        as_iso(text.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn dates_become_text_wherever_they_stand() {
        assert_eq!(
            iso(r#"{"a":{"$date":0},"b":[{"$date":-1}]}"#),
            r#"{"a":"1970-01-01T00:00:00","b":["1969-12-31T23:59:59.999000"]}"#
        );
    }

    #[test]
    fn what_is_no_date_stays() {
        for text in [
            r#"{"a":"{\"$date\":0}"}"#, r#"{"a\\":"{","b":"\\"}"#, r#"{"$date":"x"}"#,
            r#"{"$date":{"$numberLong":"1"}}"#, r#"{"$date":1"#, r#"{"$date":1,"more":2}"#, "\"\\", "",
        ] {
            assert_eq!(iso(text), text);
        }
    }

    #[test]
    fn a_space_becomes_the_t() {
        assert_eq!(joined("2026-01-31 12:00:00.000000").as_deref(), Some("2026-01-31T12:00:00"));
        assert_eq!(joined("2026-01-31 12:00:00.120000").as_deref(), Some("2026-01-31T12:00:00.120000"));
        assert_eq!(joined("2026-01-31T12:00:00"), None);
    }
}
