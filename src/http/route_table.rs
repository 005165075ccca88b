//! What is known of routes beside their handlers: method, path, right and description.

use actix_web::http::Method;
use utoipa::__dev::SchemaReferences;
use utoipa::Path;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{RefOr, Schema};

use super::path::positive;
use crate::service::Caller;

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    /// Everybody, without a token.
    Public,
    /// Everybody who is signed in.
    SignedIn,
    /// Who holds this right.
    Right(&'static str),
    /// The user whom the path names, or who holds this right. A token for machines may only read its own user.
    OwnOr(&'static str),
}

/// Below this everything that needs a token lies.
pub const BASE: &str = "/rest";

/// What is known of a route beside its handler.
#[derive(Debug, Clone)]
pub struct RouteInfo {
    /// GET stands for HEAD too.
    pub method: Method,
    /// The pattern, `{name}` for a variable segment.
    pub path: &'static str,
    /// Who may use it.
    pub access: RouteAccess,
    /// Describes its operation, and adds the schemas that the description names.
    pub operation: fn(&mut Schemas) -> Operation,
}

/// Schemas with their names.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

/// What `operation!` says of a handler. utoipa hides the trait of schemas; its adapters for frameworks collect by it as well.
pub(super) fn described<D: Path + SchemaReferences>(schemas: &mut Schemas) -> Operation {
    D::schemas(schemas);
    D::operation()
}

/// The route that a request takes; the path may leave `/rest` out. HEAD goes where GET goes.
pub fn find(routes: &[RouteInfo], method: &Method, path: &str) -> Option<RouteInfo> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let fitting = routes.iter().filter(|route| route.method == *method && segments(route.path, path).is_some());
    // A segment that is spelled out wins over one that is variable, as in the order of registration.
    fitting.min_by_key(|route| route.path).cloned()
}

/// Whether the `{public_id}` of the route is the caller's own in this path.
pub fn names_own_user(route: &RouteInfo, path: &str, caller: &Caller) -> bool {
    let id = segments(route.path, path).and_then(|pairs| pairs.into_iter().find(|(name, _)| *name == "{public_id}"));
    is_own(caller, &route.method, id.map(|(_, segment)| segment))
}

/// The segments of a pattern with those of a path that fits it.
fn segments<'a>(pattern: &'static str, path: &'a str) -> Option<Vec<(&'static str, &'a str)>> {
    let path = path.split('?').next().unwrap_or_default();
    let (path, pattern) = match path.strip_prefix(BASE).filter(|rest| rest.starts_with('/')) {
        Some(rest) => (rest, pattern.strip_prefix(BASE)?),
        None => (path, pattern.strip_prefix(BASE).unwrap_or(pattern)),
    };
    if pattern.split('/').count() != path.split('/').count() {
        return None;
    }
    let pairs: Vec<(&'static str, &'a str)> = pattern.split('/').zip(path.split('/')).collect();
    let fits = |(name, segment): &(&str, &str)| name == segment || (name.starts_with('{') && !segment.is_empty());
    pairs.iter().all(fits).then_some(pairs)
}

/// Whether this is a request of a user about himself.
pub(super) fn is_own(caller: &Caller, method: &Method, user_id: Option<&str>) -> bool {
    let reads = *method == Method::GET || *method == Method::HEAD;
    user_id.and_then(positive) == Some(caller.user_id) && (reads || !caller.is_machine)
}
