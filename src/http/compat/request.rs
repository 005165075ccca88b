//! Translates paths, methods and parameters of DATAGERRY's clients to those of this service.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use actix_web::dev::ServiceRequest;
use actix_web::http::Method;
use actix_web::http::uri::{PathAndQuery, Uri};
use actix_web::{HttpMessage, HttpRequest};
use percent_encoding::percent_decode_str;
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::ParameterIn;

use crate::http::error::ApiError;
use crate::http::links::encode_query;
use crate::http::outermost::AsSent;
use crate::http::route_table;
use crate::http::routes;
use crate::service::{Caller, ErrorCode};

/// What the client asked for, as far as the answer depends on it.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    /// Whether the path was a singular one, such as `/rest/object/7`.
    pub is_singular: bool,
    /// A `filter` that is a pipeline of more than conditions.
    pub pipeline: Option<String>,
    /// The `projection` of a list that has no such parameter, or of rendered objects.
    pub projection: Option<String>,
    /// Names of parameters that no route has.
    pub ignored: Vec<String>,
}

/// The lists that a path can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Objects, which have the parameters `active` and `projection`.
    Objects,
    /// Types, which show the active ones unless the request says otherwise.
    Types,
    /// Categories, users and groups.
    Others,
}

/// How often a filter may be JSON in JSON.
const MOST_WRAPPED: usize = 3;
/// The name under which DATAGERRY's front end asks for active objects.
const ACTIVE_COOKIE: &str = "onlyActiveObjCookie";

/// Turns path, method and parameters into those of this service.
pub(super) fn translate(request: &mut ServiceRequest) -> Asked {
    let path = request.path().to_owned();
    let mut asked = Asked::default();
    let Some(inner) = path.strip_prefix("/rest/") else { return asked };
    asked.is_singular = request.extensions().get::<AsSent>().is_some_and(|sent| sent.0.path() != path);
    let segments: Vec<&str> = inner.split('/').collect();
    if request.method() == Method::PATCH && matches!(segments[..], ["objects", "clean", _]) {
        request.head_mut().method = Method::PUT;
    }
    // The ids of a change of several objects are repeated parameters, which only its own handler reads.
    if segments[..] == ["objects", "0"] {
        return asked;
    }
    let Some(mut pairs) = pairs_of(request.query_string()) else { return asked };
    let before = pairs.clone();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if let Some(list) = list_of(&segments).filter(|_| reads) {
        of_list(list, &mut pairs, &mut asked);
    }
    if request.method() == Method::DELETE && matches!(segments[..], ["types", _]) && value(&pairs, "cascade").is_none()
    {
        pairs.push(("cascade".to_owned(), "true".to_owned()));
    }
    if let Some(route) = route_table::find(routes::infos(), request.method(), &path)
        && let Some(known) = known(&route.method, route.path)
    {
        pairs.retain(|(name, _)| {
            let is_known = known.iter().any(|known| known == name);
            if !is_known && name != ACTIVE_COOKIE {
                asked.ignored.push(name.escape_default().to_string());
            }
            is_known
        });
    }
    if pairs != before {
        use_query(request, &path, &pairs);
    }
    asked
}

fn list_of(segments: &[&str]) -> Option<List> {
    match segments {
        ["objects", ""] | ["objects", _, "references"] | ["objects", "clean", _] => Some(List::Objects),
        ["types", ""] => Some(List::Types),
        ["categories" | "users" | "groups", ""] => Some(List::Others),
        _ => None,
    }
}

/// The parameters of a list: DATAGERRY reads an empty one as a missing one.
fn of_list(list: List, pairs: &mut Vec<(String, String)>, asked: &mut Asked) {
    pairs.retain(|(_, value)| !value.is_empty());
    let cookie = taken(pairs, ACTIVE_COOKIE);
    if list == List::Objects {
        let active = taken(pairs, "active").or(cookie).is_some_and(|text| is_true(&text));
        if active {
            pairs.push(("active".to_owned(), "true".to_owned()));
        }
    }
    // Rendered objects are projected as DATAGERRY's clients see them.
    if list != List::Objects || value(pairs, "view") == Some("render") {
        asked.projection = taken(pairs, "projection");
    }
    let only_active = list == List::Types && taken(pairs, "active").is_none_or(|text| is_true(&text));
    let sent = taken(pairs, "filter").map(unwrapped);
    match sent.as_deref().map(Question::of) {
        Some(Question::Pipeline(mut stages)) => {
            if only_active {
                stages.push(r#"{"$match":{"active":true}}"#.to_owned());
            }
            asked.pipeline = Some(format!("[{}]", stages.join(",")));
        }
        Some(Question::Conditions(mut conditions)) => {
            if only_active {
                conditions.push(r#"{"active":true}"#.to_owned());
            }
            pairs.push(("filter".to_owned(), joined(&conditions)));
        }
        None if only_active => pairs.push(("filter".to_owned(), r#"{"active":true}"#.to_owned())),
        None => {}
    }
}

/// A `filter`: conditions that all hold, or the stages of a pipeline, each as JSON.
enum Question {
    Conditions(Vec<String>),
    Pipeline(Vec<String>),
}

impl Question {
    /// What is no JSON stays as it is, so that the service refuses it.
    fn of(text: &str) -> Self {
        let Ok(stages) = serde_json::from_str::<Vec<&RawValue>>(text) else {
            let is_empty = text.trim() == "{}";
            return Self::Conditions(if is_empty { Vec::new() } else { vec![text.to_owned()] });
        };
        let condition = |stage: &&RawValue| {
            let members: HashMap<String, &RawValue> = serde_json::from_str(stage.get()).ok()?;
            let condition = members.get("$match").filter(|_| members.len() == 1)?;
            Some(condition.get().to_owned())
        };
        match stages.iter().map(condition).collect::<Option<Vec<_>>>() {
            Some(conditions) => Self::Conditions(conditions),
            None => Self::Pipeline(stages.iter().map(|stage| stage.get().to_owned()).collect()),
        }
    }
}

fn joined(conditions: &[String]) -> String {
    match conditions {
        [] => "{}".to_owned(),
        [condition] => condition.clone(),
        _ => format!("{{\"$and\":[{}]}}", conditions.join(",")),
    }
}

/// A filter that is JSON text in a JSON string: the text.
fn unwrapped(mut text: String) -> String {
    for _ in 0..MOST_WRAPPED {
        match serde_json::from_str::<String>(&text) {
            Ok(inner) => text = inner,
            Err(_) => break,
        }
    }
    text
}

fn is_true(text: &str) -> bool {
    matches!(text, "true" | "True" | "1")
}

fn value<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn taken(pairs: &mut Vec<(String, String)>, name: &str) -> Option<String> {
    let place = pairs.iter().position(|(known, _)| known == name)?;
    Some(pairs.remove(place).1)
}

/// Who sent a request.
pub(super) fn caller(request: &HttpRequest) -> Result<Arc<Caller>, ApiError> {
    request.extensions().get::<Arc<Caller>>().cloned().ok_or_else(|| ApiError::of(ErrorCode::Internal))
}

/// The parameters of a query string; nothing when one is not UTF-8, which the service refuses.
pub(super) fn pairs_of(query: &str) -> Option<Vec<(String, String)>> {
    let decoded = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8().map(std::borrow::Cow::into_owned).ok()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        })
        .collect()
}

/// The names of a route's parameters, as the description has them.
fn known(method: &Method, pattern: &str) -> Option<&'static [String]> {
    type Names = HashMap<(Method, &'static str), Vec<String>>;
    static KNOWN: LazyLock<Names> = LazyLock::new(|| {
        let names = |route: &route_table::RouteInfo| {
            let parameters = (route.operation)(&mut Vec::new()).parameters.unwrap_or_default();
            let named = parameters.into_iter().filter_map(|parameter| match parameter {
                RefOr::T(parameter) => Some(parameter),
                RefOr::Ref(_) => None,
            });
            named
                .filter(|parameter| parameter.parameter_in == ParameterIn::Query)
                .map(|parameter| parameter.name)
                .collect()
        };
        routes::infos().iter().map(|route| ((route.method.clone(), route.path), names(route))).collect()
    });
    KNOWN.iter().find(|((of, path), _)| of == method && *path == pattern).map(|(_, names)| names.as_slice())
}

fn use_query(request: &mut ServiceRequest, path: &str, pairs: &[(String, String)]) {
    let query = encode_query(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let separator = if query.is_empty() { "" } else { "?" };
    let Ok(path) = PathAndQuery::from_str(&format!("{path}{separator}{query}")) else { return };
    let mut parts = request.uri().clone().into_parts();
    parts.path_and_query = Some(path);
    if let Ok(uri) = Uri::from_parts(parts) {
        if request.extensions().get::<AsSent>().is_none() {
            let sent = AsSent(request.uri().clone());
            request.extensions_mut().insert(sent);
        }
        request.match_info_mut().get_mut().update(&uri);
        request.head_mut().uri = uri;
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    /// The query string in the form of this service, decoded.
    fn ours(uri: &str) -> (String, Asked) {
        let mut request = TestRequest::get().uri(uri).to_srv_request();
        let asked = translate(&mut request);
        (percent_decode_str(request.query_string()).decode_utf8_lossy().into_owned(), asked)
    }

    #[test]
    fn the_cookie_asks_for_active_objects() {
        assert_eq!(ours("/rest/objects/?limit=5&onlyActiveObjCookie=true").0, "limit=5&active=true");
        assert_eq!(ours("/rest/objects/?limit=5&onlyActiveObjCookie=false").0, "limit=5");
        assert_eq!(ours("/rest/objects/7/references?onlyActiveObjCookie=true").0, "active=true");
    }

    #[test]
    fn types_are_active_unless_the_request_says_otherwise() {
        assert_eq!(ours("/rest/types/").0, r#"filter={"active":true}"#);
        assert_eq!(ours("/rest/types/?active=false").0, "");
        assert_eq!(
            ours("/rest/types/?filter=%7B%22name%22:%22a%22%7D").0,
            r#"filter={"$and":[{"name":"a"},{"active":true}]}"#
        );
    }

    #[test]
    fn a_pipeline_of_conditions_is_a_filter() {
        let uri = |filter: &str| format!("/rest/objects/?{}", encode_query(std::iter::once(("filter", filter))));
        assert_eq!(ours(&uri(r#"[{"$match":{"a":1}}]"#)).0, r#"filter={"a":1}"#);
        assert_eq!(ours(&uri("[]")).0, "filter={}");
        assert_eq!(ours(&uri(r#"[{"$match":{"a":1}},{"$match":{"b":2}}]"#)).0, r#"filter={"$and":[{"a":1},{"b":2}]}"#);
        let (query, asked) = ours(&uri(r#"[{"$match":{"a":1}},{"$unset":"b"}]"#));
        assert_eq!((query.as_str(), asked.pipeline.as_deref()), ("", Some(r#"[{"$match":{"a":1}},{"$unset":"b"}]"#)));
    }

    #[test]
    fn json_in_json_is_unwrapped() {
        assert_eq!(ours("/rest/objects/?filter=%22%7B%5C%22a%5C%22:1%7D%22").0, r#"filter={"a":1}"#);
    }

    #[test]
    fn what_no_route_knows_is_named() {
        let (query, asked) = ours("/rest/objects/?limit=5&colour=red&projection=%7B%22a%22:1%7D");
        assert_eq!((query.as_str(), asked.ignored), (r#"limit=5&projection={"a":1}"#, vec!["colour".to_owned()]));
    }
}
