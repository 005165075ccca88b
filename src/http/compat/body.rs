//! Bodies of DATAGERRY's clients in the form of this service: members that it does not have are left out, values that mean
//! "nothing" become null, and the values of an object's fields take the kind of their field.

use actix_web::dev::{Payload, ServiceRequest};
use actix_web::http::{Method, header};
use serde_json::{Map, Value};

use super::values;
use crate::admission;
use crate::domain::category_input::CATEGORY;
use crate::domain::document::integer;
use crate::domain::group_input::GROUP;
use crate::domain::object_input::OBJECT;
use crate::domain::schema::Schema;
use crate::domain::type_input::{self, TYPE};
use crate::domain::user_input::USER;
use crate::http::body::Sent;
use crate::http::error::ApiError;
use crate::http::path::positive;
use crate::http::state::HttpState;
use crate::service::resource::{self, Objects};
use crate::service::types::catalog::Types;

/// Up to this many bytes are translated on the thread of the request.
const SHORT: usize = 8 * 1024;

/// Members that the service sets, and that DATAGERRY's clients send back in another form.
const SET_HERE: [&str; 5] = ["creation_time", "last_edit_time", "editor_id", "registration_time", "_id"];

/// Bodies with a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Object,
    Type,
    Category,
    User,
    Group,
    Setting,
}

impl Of {
    fn sent_to(method: &Method, pattern: &str) -> Option<Self> {
        if !matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
            return None;
        }
        Some(match pattern {
            "/rest/objects/{public_id}" => Self::Object,
            "/rest/objects/" if *method == Method::POST => Self::Object,
            "/rest/types/" | "/rest/types/{public_id}" => Self::Type,
            "/rest/categories/" | "/rest/categories/{public_id}" => Self::Category,
            "/rest/users/" | "/rest/users/{public_id}" => Self::User,
            "/rest/groups/" | "/rest/groups/{public_id}" => Self::Group,
            "/rest/users/{public_id}/settings/" | "/rest/users/{public_id}/settings/{name}" => Self::Setting,
            _ => return None,
        })
    }
}

/// The object that a body changes.
#[derive(Debug, Clone, Copy)]
struct Target {
    /// The type that it has.
    type_id: i64,
    /// Whether the body takes its place.
    is_replaced: bool,
}

/// The body in the form of this service.
struct Ours {
    text: Vec<u8>,
    said: Said,
}

/// What a body says in addition to what is stored.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What of it is ignored.
    pub ignored: Option<String>,
    /// About the change of an object.
    pub comment: Option<String>,
}

/// Longer comments are cut.
const LONGEST_COMMENT: usize = 500;

/// Replaces the sent body by the translated one, and returns what else it says. The body is read here as
/// handlers read it: after the check of the caller, within the same bounds. A compressed body, and what is no JSON, is
/// left to the handler.
///
/// # Errors
/// As the handler's own reading.
pub(super) async fn translate(
    state: &HttpState,
    request: &mut ServiceRequest,
    pattern: &str,
) -> Result<Said, ApiError> {
    let Some(of) = Of::sent_to(request.method(), pattern) else { return Ok(Said::default()) };
    if request.headers().contains_key(header::CONTENT_ENCODING) {
        return Ok(Said::default());
    }
    let types = state.services.current_types().await?;
    let mut sent = Sent::of(request.request(), true, |limits| (limits.max_bytes, "server.max_body_bytes"))?;
    let bytes = sent.collect(request.parts_mut().1.take()).await?;
    let target = if of == Of::Object { target(state, request).await? } else { None };
    let ours = if bytes.len() <= SHORT {
        ours(of, &bytes, &types, target)
    } else {
        let (bytes, types) = (bytes.clone(), std::sync::Arc::clone(&types));
        admission::work(move |_| ours(of, &bytes, &types, target)).await?
    };
    let (bytes, said) = ours.map_or((bytes, Said::default()), |ours| (ours.text, ours.said));
    request.set_payload(Payload::from(bytes));
    Ok(said)
}

/// The object that the path names. Whether the caller may see it is not asked: the handler refuses a hidden one as it
/// refuses one that does not exist, and a refusal has no warnings.
async fn target(state: &HttpState, request: &ServiceRequest) -> Result<Option<Target>, ApiError> {
    let Some(id) = request.match_info().get("public_id").and_then(positive) else { return Ok(None) };
    let stored = resource::find::<Objects>(&state.services, id).await?;
    let type_id = stored.and_then(|stored| integer(&stored, "type_id"));
    Ok(type_id.map(|type_id| Target { type_id, is_replaced: *request.method() == Method::PUT }))
}

/// The translated body; nothing for what is no JSON object.
fn ours(of: Of, bytes: &[u8], types: &Types, target: Option<Target>) -> Option<Ours> {
    let mut body: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
    let mut said = Said::default();
    for name in SET_HERE {
        body.remove(name);
    }
    match of {
        Of::Object => {
            said.comment = body.get("comment").and_then(Value::as_str).and_then(comment);
            said.ignored = object(&mut body, bytes, types, target);
        }
        Of::Type => object_type(&mut body),
        Of::Category => {
            keep(&mut body, &CATEGORY);
            without_nulls(&mut body, &["parent"]);
            if let Some(Value::Object(meta)) = body.get_mut("meta") {
                without_nulls(meta, &["order"]);
            }
        }
        Of::User => {
            keep(&mut body, &USER);
            without_nulls(&mut body, &["email", "password", "image", "first_name", "last_name"]);
        }
        Of::Group => {
            keep(&mut body, &GROUP);
            without_nulls(&mut body, &[]);
        }
        Of::Setting => setting(&mut body),
    }
    Some(Ours { text: serde_json::to_vec(&body).ok()?, said })
}

/// What a comment says, in one line; nothing for an empty one.
fn comment(sent: &str) -> Option<String> {
    let line = sent.trim().chars().take(LONGEST_COMMENT);
    let line: String = line.map(|sign| if sign.is_control() { ' ' } else { sign }).collect();
    (!line.is_empty()).then_some(line)
}

/// Leaves out members that the schema does not know.
fn keep(body: &mut Map<String, Value>, schema: &Schema) {
    body.retain(|name, _| schema.members.iter().any(|member| member.name == name));
}

/// Leaves out members that are null, except these.
fn without_nulls(body: &mut Map<String, Value>, except: &[&str]) {
    body.retain(|name, value| !value.is_null() || except.contains(&name.as_str()));
}

/// An object keeps its type, so another `type_id` is ignored. The fields are those of the type that the object has.
fn object(body: &mut Map<String, Value>, bytes: &[u8], types: &Types, target: Option<Target>) -> Option<String> {
    keep(body, &OBJECT);
    without_nulls(body, &[]);
    let sent = body.get("type_id").and_then(Value::as_i64);
    let mut ignored = None;
    if let (Some(sent), Some(target)) = (sent, target.filter(|target| target.is_replaced))
        && sent != target.type_id
    {
        body.insert("type_id".to_owned(), target.type_id.into());
        ignored = Some(format!("type_id: {sent} is ignored; an object keeps its type"));
    }
    let entry = target.map(|target| target.type_id).or(sent).and_then(|id| types.get(id));
    if let Some(Value::Array(fields)) = body.get_mut("fields") {
        values::translate(fields, bytes, entry.map(|entry| &*entry.object_type));
    }
    ignored
}

fn object_type(body: &mut Map<String, Value>) {
    keep(body, &TYPE);
    without_nulls(body, &["description", "fields"]);
    if let Some(Value::Array(fields)) = body.get_mut("fields") {
        fields.iter_mut().filter_map(Value::as_object_mut).for_each(field);
    }
    if let Some(Value::Object(meta)) = body.get_mut("render_meta") {
        without_nulls(meta, &["icon"]);
        for list in ["sections", "externals"] {
            let items = meta.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            items.filter_map(Value::as_object_mut).for_each(|item| without_nulls(item, &[]));
        }
    }
    if let Some(Value::Object(acl)) = body.get_mut("acl") {
        without_nulls(acl, &[]);
        if let Some(Value::Object(groups)) = acl.get_mut("groups") {
            without_nulls(groups, &[]);
        }
    }
}

/// A field of a type: its `value` is text here.
fn field(field: &mut Map<String, Value>) {
    keep(field, &type_input::FIELD);
    without_nulls(field, &["default"]);
    if let Some(value) = field.get_mut("value") {
        let text = match &*value {
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::Object(_) => moment(value),
            _ => None,
        };
        if let Some(text) = text {
            *value = Value::String(text);
        }
    }
    if let Some(id @ Value::Number(_)) = field.get("ref_types").cloned() {
        field.insert("ref_types".to_owned(), Value::Array(vec![id]));
    }
}

/// `{"$date": <milliseconds>}` as ISO 8601.
fn moment(value: &Value) -> Option<String> {
    let millis = value.get("$date")?.as_i64()?;
    bson::DateTime::from_millis(millis).try_to_rfc3339_string().ok()
}

/// DATAGERRY calls the identifier `resource`, and has a list of payloads.
fn setting(body: &mut Map<String, Value>) {
    if let Some(resource) = body.remove("resource") {
        body.entry("identifier").or_insert(resource);
    }
    if let Some(payloads) = body.remove("payloads") {
        let payload = Map::from_iter([("payloads".to_owned(), payloads)]);
        body.entry("payload").or_insert(Value::Object(payload));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changed(mut body: Value, change: impl FnOnce(&mut Map<String, Value>)) -> Value {
        change(body.as_object_mut().expect("an object"));
        body
    }

    #[test]
    fn the_value_of_a_field_becomes_text() {
        let of = |value: Value| changed(json!({"type": "x", "name": "a", "label": "A", "value": value}), field);
        assert_eq!(of(json!(true))["value"], "true");
        assert_eq!(of(json!(42))["value"], "42");
        assert_eq!(of(json!({"$date": 0}))["value"], "1970-01-01T00:00:00Z");
        assert_eq!(of(json!("text"))["value"], "text");
        assert!(of(Value::Null).get("value").is_none());
    }

    #[test]
    fn a_setting_of_theirs_is_one_of_ours() {
        let body = json!({"setting_type": "GLOBAL", "resource": "r", "user_id": 1, "payloads": [{"id": "t"}]});
        let expected =
            json!({"setting_type": "GLOBAL", "user_id": 1, "identifier": "r", "payload": {"payloads": [{"id": "t"}]}});
        assert_eq!(changed(body, setting), expected);
    }

    #[test]
    fn null_and_unknown_members_of_a_type_are_left_out() {
        let body = json!({
            "name": "a", "author_id": 1, "version": null, "colour": "red", "description": null,
            "acl": {"activated": false, "groups": {"includes": null}},
            "fields": [{"type": "ref", "name": "r", "label": "R", "ref_types": 3, "reference": {}, "regex": null}],
        });
        let expected = json!({
            "name": "a", "author_id": 1, "description": null, "acl": {"activated": false, "groups": {}},
            "fields": [{"type": "ref", "name": "r", "label": "R", "ref_types": [3]}],
        });
        assert_eq!(changed(body, object_type), expected);
    }
}
