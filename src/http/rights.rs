//! Routes of rights, and which right a route needs: docs/api.md, Rights.

use actix_web::http::Method;
use actix_web::{HttpRequest, web};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::call::{Answer, Call};
use super::envelope::{self, Items, Wire};
use super::error::ApiError;
use super::listing;
use super::params::{ListParams, ListRoute, Parameters};
use super::path::PathText;
use super::route_table::{self, RouteAccess};
use super::schema::{
    IfNoneMatch, ListOf, Listing, RightListing, RightOrBranch, RouteInQuestion, SecurityLevels, Single, operation,
};
use super::sent::Sent;
use super::state::HttpState;
use crate::auth::rights::{LEVELS, Right};
use crate::json::write::DateStyle;
use crate::service::ErrorCode;
use crate::service::accounts::rights as service;
use crate::service::resource::Resource;

const LIST: ListRoute = ListRoute { views: &["list", "tree"], ..ListRoute::by("name") };

/// The rights: compiled in, so they have a wire format but no collection.
struct Rights;

impl Resource for Rights {
    const COLLECTION: &'static str = "rights";
    const MODEL: &'static str = "Right";
    const NAME: &'static str = "right";
    const NOT_FOUND: ErrorCode = ErrorCode::RightNotFound;
}

impl Wire for Rights {
    const PATH: &'static str = "/rights/";
    const DATES: DateStyle = DateStyle::Spaced;
}

/// The security levels as an answer of their own model.
struct Levels;

impl Resource for Levels {
    const COLLECTION: &'static str = "rights";
    const MODEL: &'static str = "Security-Level";
    const NAME: &'static str = "security level";
    const NOT_FOUND: ErrorCode = ErrorCode::NotFound;
}

impl Wire for Levels {
    const PATH: &'static str = "/rights/levels";
    const DATES: DateStyle = DateStyle::Spaced;
}

/// Which right a route needs, and whether the caller holds it.
#[derive(Serialize, ToSchema)]
#[schema(as = RightExplanation)]
struct RightsOfUser<'a> {
    method: &'a str,
    path: &'a str,
    route: &'static str,
    /// `public`, `signed_in`, `right`, or `own_or_right`: one's own user needs no right.
    access: &'static str,
    right: Option<&'static str>,
    granted: bool,
    granted_by: Option<&'a str>,
}

operation! {
    /// List rights, flat or as a tree.
    list_rights: params(Listing, RightListing), responses((status = 200, body = ListOf<RightOrBranch>))
}
pub(super) async fn list_rights(Call { state, request, caller }: Call, sent: Sent) -> Answer {
    // The interface document calls the view `optional` here.
    let sent = sent.0;
    if sent.get("view").is_some() && sent.get("optional").is_some() {
        return Err(ApiError::parameter("optional", "is another name of view, which is there too; send one of them"));
    }
    let sent = sent.with_alias("optional", "view");
    let params = state.list_params(&caller, sent, &LIST).await?;
    if params.after.is_some() {
        return Err(ApiError::parameter("after", "is not offered for rights, which do not change; use page"));
    }
    if params.view != Some("tree") || params.query.explain {
        let listed = service::list_rights(&state.services, params.query.clone()).await?;
        return listing::answer::<Rights>(&state, &request, Rights::PATH, &params, listed).await;
    }
    let (items, total) = tree(&params)?;
    envelope::list::<Rights>(&state, &request, Rights::PATH, &params, items, total)
}

/// The whole tree, without filter, sort or pages.
fn tree(params: &ListParams) -> Result<(Items, u64), ApiError> {
    if params.filter != "{}" {
        return Err(ApiError::parameter("filter", "cannot be used with the view tree, which shows all rights"));
    }
    if params.sort != LIST.key || params.order != 1 {
        return Err(ApiError::parameter("sort", "cannot be used with the view tree, which has an order of its own"));
    }
    let nodes = service::right_tree();
    let mut items = Items::default();
    for node in nodes.iter().filter(|_| params.query.page == 1) {
        let text = serde_json::to_vec(node).expect("strings, numbers and lists can always be written");
        items.begin().extend_from_slice(&text);
    }
    // All on one page, whatever the limit says.
    Ok((items, params.query.limit.min(nodes.len() as u64)))
}

operation! {
    /// Read a right.
    get_right: params(IfNoneMatch), responses((status = 200, body = Single<Right>))
}
pub(super) async fn get_right(state: web::Data<HttpState>, request: HttpRequest, name: PathText) -> Answer {
    state.no_parameters(&request)?;
    envelope::single::<Rights>(&state, &request, service::get_right(&name.0)?)
}

operation! {
    /// List security levels.
    list_levels: responses((status = 200, body = Single<SecurityLevels>))
}
pub(super) async fn list_levels(state: web::Data<HttpState>, request: HttpRequest) -> Answer {
    state.no_parameters(&request)?;
    let levels: Map<String, Value> =
        LEVELS.iter().map(|(name, level)| ((*name).to_owned(), Value::from(*level))).collect();
    Ok(envelope::value::<Levels>(&state, &levels))
}

operation! {
    /// Say which right a route needs, and whether the caller holds it.
    explain_right: params(RouteInQuestion), responses((status = 200, body = Single<RightsOfUser>))
}
pub(super) async fn explain_right(Call { state, request, caller }: Call) -> Answer {
    let sent = Parameters::of(&request)?;
    sent.only(&["method", "path"], state.params.unknown)?;
    let needed = |name: &str| sent.get(name).ok_or_else(|| ApiError::parameter(name, "is needed"));
    let (method, path) = (needed("method")?, needed("path")?);
    let method_sent = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
        .map_err(|_| ApiError::parameter("method", "is no method"))?;
    let find = |path: &str| route_table::find((state.routes)(), &method_sent, path);
    // Such a request is sent on to the path with its slash.
    let route = find(path)
        .or_else(|| find(&format!("{path}/")))
        .ok_or_else(|| ApiError::new(ErrorCode::RouteNotFound, format!("there is no {method} {path}")))?;
    let rights = &caller.rights;
    let (access, right) = match route.access {
        RouteAccess::Public => ("public", None),
        RouteAccess::SignedIn => ("signed_in", None),
        RouteAccess::Right(right) => ("right", Some(right)),
        RouteAccess::OwnOr(right) => ("own_or_right", Some(right)),
    };
    let granted_by = right.and_then(|right| rights.granted_by(right));
    let is_own = matches!(route.access, RouteAccess::OwnOr(_)) && route_table::names_own_user(&route, path, &caller);
    let granted = right.is_none() || is_own || granted_by.is_some();
    let explanation = RightsOfUser { method, path, route: route.path, access, right, granted, granted_by };
    Ok(envelope::value::<Rights>(&state, &explanation))
}
