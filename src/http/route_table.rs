//! The facts about routes apart from their handlers: method, path, right and description.

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
    /// The user in the path, or a holder of this right. A machine token may only read its own user.
    OwnOr(&'static str),
}

/// Everything below this path needs a token.
pub const BASE: &str = "/rest";

/// The facts about a route apart from its handler.
#[derive(Debug, Clone)]
pub struct RouteInfo {
    /// GET includes HEAD.
    pub method: Method,
    /// The pattern, `{name}` for a variable segment.
    pub path: &'static str,
    /// Who may use it.
    pub access: RouteAccess,
    /// Describes its operation, and adds the schemas that the description uses.
    pub operation: fn(&mut Schemas) -> Operation,
}

impl RouteInfo {
    /// Whether a path is one of this route.
    pub fn fits(&self, path: &str) -> bool {
        path.starts_with(BASE) == self.path.starts_with(BASE) && segments(self.path, path).is_some()
    }
}

/// Schemas with their names.
pub type Schemas = Vec<(String, RefOr<Schema>)>;

/// The description of a handler by `operation!`. utoipa hides the trait of schemas, but its adapters for frameworks use
/// it too.
pub(super) fn described<D: Path + SchemaReferences>(schemas: &mut Schemas) -> Operation {
    D::schemas(schemas);
    D::operation()
}

/// The route of a request; the path may omit `/rest`. HEAD uses the route of GET.
pub fn find(routes: &[RouteInfo], method: &Method, path: &str) -> Option<RouteInfo> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let fitting = routes.iter().filter(|route| route.method == *method && segments(route.path, path).is_some());
    // A literal segment wins over a variable one, as in the order of registration.
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

/// Whether this is a request about the caller's own user.
pub(super) fn is_own(caller: &Caller, method: &Method, user_id: Option<&str>) -> bool {
    let reads = matches!(method.as_str(), "GET" | "HEAD" | "QUERY");
    user_id.and_then(positive) == Some(caller.user_id) && (reads || !caller.is_machine)
}
