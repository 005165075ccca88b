//! The table of all routes: method, path, right, handler.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_web::dev::Handler;
use actix_web::http::{Method, header};
use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, HttpRequest, HttpResponse, Responder, Route};
use serde_json::json;

use super::caller::{Shown, TimeBudget, authorize, without_body};
use super::history::{changes, diff, entries, restoring};
use super::route_table::{BASE, RouteAccess, RouteInfo, described};
use super::{
    aggregate, auth, bulk, categories, docs, exchange, groups, objects, references, reports, rights, root, search,
    types, user_settings as settings, user_tokens as tokens, users, webhooks,
};
use RouteAccess::{OwnOr, Public, Right, SignedIn};

/// Makes `all` from the table. A handler's name is both the function and, as a type, its description by
/// `operation!`.
macro_rules! routes {
    (@method QUERY) => { Method::from_bytes(b"QUERY").expect("QUERY is a token") };
    (@method $method:ident) => { Method::$method };
    ($($method:ident $path:literal, $access:expr, $($handler:ident)::+;)*) => {
        /// All routes.
        pub fn all() -> Routes {
            all_behind(None)
        }

        /// The same, each handler wrapped in this door, which runs after the check of the caller's right.
        pub fn all_behind(door: Option<fn(Route) -> Route>) -> Routes {
            let mut routes = Routes { door, ..Routes::default() };
            $(
                let operation = described::<$($handler)::+>;
                let info = RouteInfo { method: routes!(@method $method), path: $path, access: $access, operation };
                routes.add(info, $($handler)::+);
            )*
            routes
        }
    };
}

routes! {
    GET "/", Public, root::home;
    GET "/health/live", Public, root::live;
    GET "/health/ready", Public, root::ready;
    GET "/rest/", Public, root::service;
    GET "/openapi.json", Public, docs::openapi;
    GET "/docs/", Public, docs::page;
    GET "/docs/{file}", Public, docs::part;
    POST "/rest/auth/login", Public, auth::login;

    GET "/rest/objects/", Right("base.framework.object.view"), objects::list_objects;
    QUERY "/rest/objects/", Right("base.framework.object.view"), objects::query_objects;
    POST "/rest/objects/aggregate", Right("base.framework.object.view"), aggregate::aggregate_objects;
    POST "/rest/objects/query", Right("base.framework.object.view"), objects::query_objects;
    POST "/rest/objects/", Right("base.framework.object.add"), objects::create_object;
    POST "/rest/objects/bulk", Right("base.framework.object.add"), bulk::create_objects;
    PATCH "/rest/objects/", Right("base.framework.object.edit"), bulk::patch_selected_objects;
    DELETE "/rest/objects/", Right("base.framework.object.delete"), bulk::delete_selected_objects;
    GET "/rest/objects/clean/{public_id}", Right("base.framework.type.clean"), objects::list_unclean;
    QUERY "/rest/objects/clean/{public_id}", Right("base.framework.type.clean"), objects::list_unclean;
    PUT "/rest/objects/by/{type}/{field}/{value}", Right("base.framework.object.edit"), objects::write_by_value;
    PUT "/rest/objects/clean/{public_id}", Right("base.framework.type.clean"), objects::clean_objects;
    GET "/rest/objects/free", Right("base.framework.object.view"), objects::free_address;
    DELETE "/rest/objects/delete/{public_ids}", Right("base.framework.object.delete"), objects::delete_objects;
    GET "/rest/objects/dangling/", Right("base.framework.object.view"), references::list_dangling;
    GET "/rest/objects/{public_id}", Right("base.framework.object.view"), objects::render_object;
    PUT "/rest/objects/{public_id}", Right("base.framework.object.edit"), objects::update_object;
    PATCH "/rest/objects/{public_id}", Right("base.framework.object.edit"), objects::patch_object;
    DELETE "/rest/objects/{public_id}", Right("base.framework.object.delete"), objects::delete_object;
    GET "/rest/objects/{public_id}/native", Right("base.framework.object.view"), objects::get_object;
    GET "/rest/objects/{public_id}/references", Right("base.framework.object.view"), objects::list_references;
    QUERY "/rest/objects/{public_id}/references", Right("base.framework.object.view"), objects::list_references;
    GET "/rest/objects/{public_id}/graph", Right("base.framework.object.view"), references::object_graph;
    GET "/rest/objects/{public_id}/state", Right("base.framework.object.activation"), objects::get_state;
    PUT "/rest/objects/{public_id}/state", Right("base.framework.object.activation"), objects::set_state;

    GET "/rest/reports/", Right("base.framework.object.view"), reports::list_reports;
    GET "/rest/reports/{name}", Right("base.framework.object.view"), reports::read_report;
    PUT "/rest/reports/{name}", Right("base.framework.object.view"), reports::save_report;
    DELETE "/rest/reports/{name}", Right("base.framework.object.view"), reports::delete_report;
    GET "/rest/reports/{name}/definition", Right("base.framework.object.view"), reports::get_report;

    GET "/rest/search/", Right("base.framework.object.view"), search::search_objects;

    GET "/rest/objects/{public_id}/history", Right("base.framework.object.view"), entries::object_history;
    QUERY "/rest/objects/{public_id}/history", Right("base.framework.object.view"), entries::object_history;
    GET "/rest/objects/{public_id}/diff", Right("base.framework.object.view"), diff::diff_object;
    POST "/rest/objects/{public_id}/revert", Right("base.framework.object.edit"), restoring::revert_object;
    POST "/rest/objects/{public_id}/restore", Right("base.framework.object.add"), restoring::restore_object;
    GET "/rest/types/{public_id}/history", Right("base.framework.type.view"), entries::type_history;
    QUERY "/rest/types/{public_id}/history", Right("base.framework.type.view"), entries::type_history;
    POST "/rest/types/{public_id}/revert", Right("base.framework.type.edit"), restoring::revert_type;
    POST "/rest/types/{public_id}/restore", Right("base.framework.type.add"), restoring::restore_type;
    GET "/rest/categories/{public_id}/history", Right("base.framework.category.view"), entries::category_history;
    QUERY "/rest/categories/{public_id}/history", Right("base.framework.category.view"), entries::category_history;
    POST "/rest/categories/{public_id}/revert", Right("base.framework.category.edit"), restoring::revert_category;
    POST "/rest/categories/{public_id}/restore", Right("base.framework.category.add"), restoring::restore_category;
    GET "/rest/changes/", SignedIn, changes::list_changes;
    GET "/rest/logs/", Right("base.framework.log.view"), entries::list_logs;
    QUERY "/rest/logs/", Right("base.framework.log.view"), entries::list_logs;
    POST "/rest/logs/undo", Right("base.framework.log.view"), restoring::undo_request;

    GET "/rest/export/objects", Right("base.export.object.*"), exchange::export_objects;
    POST "/rest/import/objects", Right("base.import.object.*"), exchange::import_objects;

    GET "/rest/types/", Right("base.framework.type.view"), types::list_types;
    QUERY "/rest/types/", Right("base.framework.type.view"), types::list_types;
    POST "/rest/types/", Right("base.framework.type.add"), types::create_type;
    POST "/rest/types/from-file", Right("base.framework.type.add"), exchange::propose_type;
    GET "/rest/types/{public_id}", Right("base.framework.type.view"), types::get_type;
    GET "/rest/types/{public_id}/migration", Right("base.framework.type.view"), types::type_migration;
    PUT "/rest/types/{public_id}", Right("base.framework.type.edit"), types::update_type;
    PATCH "/rest/types/{public_id}", Right("base.framework.type.edit"), types::patch_type;
    DELETE "/rest/types/{public_id}", Right("base.framework.type.delete"), types::delete_type;

    GET "/rest/categories/", Right("base.framework.category.view"), categories::list_categories;
    QUERY "/rest/categories/", Right("base.framework.category.view"), categories::list_categories;
    POST "/rest/categories/", Right("base.framework.category.add"), categories::create_category;
    GET "/rest/categories/{public_id}", Right("base.framework.category.view"), categories::get_category;
    PUT "/rest/categories/{public_id}", Right("base.framework.category.edit"), categories::update_category;
    PATCH "/rest/categories/{public_id}", Right("base.framework.category.edit"), categories::patch_category;
    DELETE "/rest/categories/{public_id}", Right("base.framework.category.delete"), categories::delete_category;

    GET "/rest/users/", Right("base.user-management.user.view"), users::list_users;
    QUERY "/rest/users/", Right("base.user-management.user.view"), users::list_users;
    POST "/rest/users/", Right("base.user-management.user.add"), users::create_user;
    GET "/rest/users/{public_id}", OwnOr("base.user-management.user.view"), users::get_user;
    PUT "/rest/users/{public_id}", OwnOr("base.user-management.user.edit"), users::update_user;
    PATCH "/rest/users/{public_id}", OwnOr("base.user-management.user.edit"), users::patch_user;
    DELETE "/rest/users/{public_id}", Right("base.user-management.user.delete"), users::delete_user;
    PATCH "/rest/users/{public_id}/password", OwnOr("base.user-management.user.edit"), users::change_password;

    GET "/rest/users/{public_id}/settings/", OwnOr("base.user-management.user.view"), settings::list_settings;
    QUERY "/rest/users/{public_id}/settings/", OwnOr("base.user-management.user.view"), settings::list_settings;
    POST "/rest/users/{public_id}/settings/", OwnOr("base.user-management.user.edit"), settings::create_setting;
    GET "/rest/users/{public_id}/settings/{name}", OwnOr("base.user-management.user.view"), settings::get_setting;
    PUT "/rest/users/{public_id}/settings/{name}", OwnOr("base.user-management.user.edit"), settings::update_setting;
    PATCH "/rest/users/{public_id}/settings/{name}", OwnOr("base.user-management.user.edit"), settings::patch_setting;
    DELETE "/rest/users/{public_id}/settings/{name}", OwnOr("base.user-management.user.edit"), settings::delete_setting;

    GET "/rest/users/{public_id}/tokens/", OwnOr("base.user-management.user.view"), tokens::list_tokens;
    POST "/rest/users/{public_id}/tokens/", OwnOr("base.user-management.user.edit"), tokens::create_token;
    DELETE "/rest/users/{public_id}/tokens/{token_id}", OwnOr("base.user-management.user.edit"), tokens::delete_token;

    GET "/rest/groups/", Right("base.user-management.group.view"), groups::list_groups;
    QUERY "/rest/groups/", Right("base.user-management.group.view"), groups::list_groups;
    POST "/rest/groups/", Right("base.user-management.group.add"), groups::create_group;
    GET "/rest/groups/{public_id}", Right("base.user-management.group.view"), groups::get_group;
    PUT "/rest/groups/{public_id}", Right("base.user-management.group.edit"), groups::update_group;
    PATCH "/rest/groups/{public_id}", Right("base.user-management.group.edit"), groups::patch_group;
    DELETE "/rest/groups/{public_id}", Right("base.user-management.group.delete"), groups::delete_group;

    GET "/rest/webhooks/", Right("base.system.view"), webhooks::list_webhooks;
    QUERY "/rest/webhooks/", Right("base.system.view"), webhooks::list_webhooks;
    POST "/rest/webhooks/", Right("base.system.edit"), webhooks::create_webhook;
    GET "/rest/webhooks/{public_id}", Right("base.system.view"), webhooks::get_webhook;
    PUT "/rest/webhooks/{public_id}", Right("base.system.edit"), webhooks::update_webhook;
    PATCH "/rest/webhooks/{public_id}", Right("base.system.edit"), webhooks::patch_webhook;
    DELETE "/rest/webhooks/{public_id}", Right("base.system.edit"), webhooks::delete_webhook;
    POST "/rest/webhooks/{public_id}/test", Right("base.system.edit"), webhooks::test_webhook;
    POST "/rest/webhooks/{public_id}/replay", Right("base.system.edit"), webhooks::replay_webhook;
    GET "/rest/webhooks/{public_id}/deliveries/", Right("base.system.view"), webhooks::list_deliveries;

    GET "/rest/rights/", SignedIn, rights::list_rights;
    QUERY "/rest/rights/", SignedIn, rights::list_rights;
    GET "/rest/rights/levels", SignedIn, rights::list_levels;
    GET "/rest/rights/explain", SignedIn, rights::explain_right;
    GET "/rest/rights/{name}", SignedIn, rights::get_right;
}

/// Whether somebody reads the body of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    Taken,
    Refused,
}

/// The routes as they are put together.
#[derive(Default)]
pub struct Routes {
    door: Option<fn(Route) -> Route>,
    shown: Shown,
    infos: Vec<RouteInfo>,
    undescribed: Vec<(Method, &'static str)>,
    by_path: BTreeMap<&'static str, Vec<Route>>,
}

/// The facts about all routes.
pub fn infos() -> &'static [RouteInfo] {
    static INFOS: LazyLock<Vec<RouteInfo>> = LazyLock::new(|| all().infos);
    &INFOS
}

impl Routes {
    /// The facts about each route, for documentation and tests.
    pub fn infos(&self) -> &[RouteInfo] {
        &self.infos
    }

    /// Routes whose callers have a session of the page, each handler wrapped in this door. The description has none of them.
    pub fn of_sessions(door: fn(Route) -> Route) -> Self {
        Self { door: Some(door), shown: Shown::Session, ..Self::default() }
    }

    /// The paths of a method, of the routes that the description does not have.
    pub fn undescribed(&self, method: &Method) -> Vec<&'static str> {
        self.undescribed.iter().filter(|(known, _)| known == method).map(|(_, path)| *path).collect()
    }

    /// One more route, for the measuring program.
    #[must_use]
    pub fn and_get<F, Args>(self, path: &'static str, access: RouteAccess, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.and(Method::GET, path, access, handler)
    }

    /// One more route, which the description does not have.
    #[must_use]
    pub fn and<F, Args>(mut self, method: Method, path: &'static str, access: RouteAccess, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.undescribed.push((method.clone(), path));
        self.route(method, (path, access, Body::Taken), handler);
        self
    }

    /// Registers the routes with actix. A collection without its slash at the end is redirected to the one with it.
    pub fn configure(self, config: &mut ServiceConfig) {
        for (path, routes) in self.by_path {
            let resource = routes.into_iter().fold(web::resource(path), actix_web::Resource::route);
            config.service(resource);
            if let Some(without_slash) = path.strip_suffix('/').filter(|path| !path.is_empty()) {
                config.service(web::resource(without_slash).to(add_slash));
            }
        }
    }

    fn add<F, Args>(&mut self, info: RouteInfo, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        let takes_body = info.method.as_str() == "QUERY" || (info.operation)(&mut Vec::new()).request_body.is_some();
        let body = if takes_body { Body::Taken } else { Body::Refused };
        self.route(info.method.clone(), (info.path, info.access, body), handler);
        self.infos.push(info);
    }

    /// GET answers HEAD too.
    fn route<F, Args>(&mut self, method: Method, (path, access, body): (&'static str, RouteAccess, Body), handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        if method == Method::GET {
            self.route(Method::HEAD, (path, access, body), handler.clone());
        }
        // Requests that may take longer have their own path prefixes.
        let is_transfer = ["/rest/export/", "/rest/import/", "/rest/types/from-file", "/ui/export/"]
            .iter()
            .any(|begin| path.starts_with(begin));
        let budget = if is_transfer { TimeBudget::Transfer } else { TimeBudget::Request };
        let shown = self.shown;
        let check = from_fn(move |request, next| authorize((access, budget, shown), request, next));
        let refuses = body == Body::Refused && path.starts_with(BASE);
        let route = web::method(method).to(handler);
        let route = match self.door {
            // DATAGERRY ignores a body that nobody reads.
            Some(door) => door(route),
            None if refuses => route.wrap(from_fn(without_body)),
            None => route,
        };
        self.by_path.entry(path).or_default().push(route.wrap(check));
    }
}

/// 308 to the same path with a slash at its end.
async fn add_slash(request: HttpRequest) -> HttpResponse {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("{}/{query}", request.path());
    let body = json!({"message": "the path ends with a slash; ask again there", "location": location});
    HttpResponse::PermanentRedirect().insert_header((header::LOCATION, location)).json(body)
}
