//! The routes, all of them on one page, each with the right that it needs: docs/api.md, Routes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use actix_web::dev::Handler;
use actix_web::http::Method;
use actix_web::http::header;
use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, HttpRequest, HttpResponse, Responder, Route};

use serde_json::json;

use super::caller::{Budget, authorize};
use super::route_table::{Access, RouteInfo};
use super::{
    auth, bulk, categories, docs, exchange, groups, objects, rights, root, types, user_settings, user_tokens, users,
};
use Access::{OwnOr, Public, Right, SignedIn};

/// The routes as they are put together.
#[derive(Default)]
pub struct Routes {
    infos: Vec<RouteInfo>,
    routes: BTreeMap<&'static str, Vec<Route>>,
}

/// What is known of all routes.
pub fn infos() -> &'static [RouteInfo] {
    static INFOS: LazyLock<Vec<RouteInfo>> = LazyLock::new(|| all().infos);
    &INFOS
}

/// All routes.
pub fn all() -> Routes {
    let query = Method::from_bytes(b"QUERY").expect("QUERY is a token");
    let mut routes = Routes::default();
    let mut add = Adder(&mut routes);

    add.get("/", Public, root::home);
    add.get("/health/live", Public, root::live);
    add.get("/health/ready", Public, root::ready);
    add.get("/openapi.json", Public, docs::openapi);
    add.get("/docs/", Public, docs::page);
    add.get("/docs/{file}", Public, docs::part);
    add.get("/rest/", Public, root::service);
    add.post("/rest/auth/login", Public, auth::login);

    add.get("/rest/objects/", Right("base.framework.object.view"), objects::list_objects);
    add.on(query, "/rest/objects/", Right("base.framework.object.view"), objects::query_objects);
    add.patch("/rest/objects/", Right("base.framework.object.edit"), bulk::patch_selected_objects);
    add.delete("/rest/objects/", Right("base.framework.object.delete"), bulk::delete_selected_objects);
    add.post("/rest/objects/bulk", Right("base.framework.object.add"), bulk::create_objects);
    add.post("/rest/objects/query", Right("base.framework.object.view"), objects::query_objects);
    add.post("/rest/objects/", Right("base.framework.object.add"), objects::create_object);
    add.get("/rest/objects/clean/{public_id}", Right("base.framework.type.clean"), objects::list_unclean);
    add.put("/rest/objects/clean/{public_id}", Right("base.framework.type.clean"), objects::clean_objects);
    add.delete("/rest/objects/delete/{public_ids}", Right("base.framework.object.delete"), objects::delete_objects);
    add.get("/rest/objects/{public_id}", Right("base.framework.object.view"), objects::render_object);
    add.put("/rest/objects/{public_id}", Right("base.framework.object.edit"), objects::update_object);
    add.patch("/rest/objects/{public_id}", Right("base.framework.object.edit"), objects::patch_object);
    add.delete("/rest/objects/{public_id}", Right("base.framework.object.delete"), objects::delete_object);
    add.get("/rest/objects/{public_id}/native", Right("base.framework.object.view"), objects::get_object);
    add.get("/rest/objects/{public_id}/references", Right("base.framework.object.view"), objects::list_references);
    add.get("/rest/objects/{public_id}/state", Right("base.framework.object.activation"), objects::get_state);
    add.put("/rest/objects/{public_id}/state", Right("base.framework.object.activation"), objects::set_state);

    add.get("/rest/export/objects", Right("base.export.object.*"), exchange::export_objects);
    add.post("/rest/import/objects", Right("base.import.object.*"), exchange::import_objects);

    add.get("/rest/types/", Right("base.framework.type.view"), types::list_types);
    add.post("/rest/types/", Right("base.framework.type.add"), types::create_type);
    add.get("/rest/types/{public_id}", Right("base.framework.type.view"), types::get_type);
    add.put("/rest/types/{public_id}", Right("base.framework.type.edit"), types::update_type);
    add.patch("/rest/types/{public_id}", Right("base.framework.type.edit"), types::patch_type);
    add.delete("/rest/types/{public_id}", Right("base.framework.type.delete"), types::delete_type);

    add.get("/rest/categories/", Right("base.framework.category.view"), categories::list_categories);
    add.post("/rest/categories/", Right("base.framework.category.add"), categories::create_category);
    add.get("/rest/categories/{public_id}", Right("base.framework.category.view"), categories::get_category);
    add.put("/rest/categories/{public_id}", Right("base.framework.category.edit"), categories::update_category);
    add.patch("/rest/categories/{public_id}", Right("base.framework.category.edit"), categories::patch_category);
    add.delete("/rest/categories/{public_id}", Right("base.framework.category.delete"), categories::delete_category);

    add.get("/rest/users/", Right("base.user-management.user.view"), users::list_users);
    add.post("/rest/users/", Right("base.user-management.user.add"), users::create_user);
    add.get("/rest/users/{public_id}", OwnOr("base.user-management.user.view"), users::get_user);
    add.put("/rest/users/{public_id}", OwnOr("base.user-management.user.edit"), users::update_user);
    add.patch("/rest/users/{public_id}", OwnOr("base.user-management.user.edit"), users::patch_user);
    add.delete("/rest/users/{public_id}", Right("base.user-management.user.delete"), users::delete_user);
    add.patch("/rest/users/{public_id}/password", OwnOr("base.user-management.user.edit"), users::change_password);

    add.get("/rest/users/{public_id}/settings/", OwnOr("base.user-management.user.view"), user_settings::list_settings);
    add.post(
        "/rest/users/{public_id}/settings/",
        OwnOr("base.user-management.user.edit"),
        user_settings::create_setting,
    );
    let setting = "/rest/users/{public_id}/settings/{name}";
    add.get(setting, OwnOr("base.user-management.user.view"), user_settings::get_setting);
    add.put(setting, OwnOr("base.user-management.user.edit"), user_settings::update_setting);
    add.patch(setting, OwnOr("base.user-management.user.edit"), user_settings::patch_setting);
    add.delete(setting, OwnOr("base.user-management.user.edit"), user_settings::delete_setting);

    add.get("/rest/users/{public_id}/tokens/", OwnOr("base.user-management.user.view"), user_tokens::list_tokens);
    add.post("/rest/users/{public_id}/tokens/", OwnOr("base.user-management.user.edit"), user_tokens::create_token);
    let token = "/rest/users/{public_id}/tokens/{token_id}";
    add.delete(token, OwnOr("base.user-management.user.edit"), user_tokens::delete_token);

    add.get("/rest/groups/", Right("base.user-management.group.view"), groups::list_groups);
    add.post("/rest/groups/", Right("base.user-management.group.add"), groups::create_group);
    add.get("/rest/groups/{public_id}", Right("base.user-management.group.view"), groups::get_group);
    add.put("/rest/groups/{public_id}", Right("base.user-management.group.edit"), groups::update_group);
    add.patch("/rest/groups/{public_id}", Right("base.user-management.group.edit"), groups::patch_group);
    add.delete("/rest/groups/{public_id}", Right("base.user-management.group.delete"), groups::delete_group);

    add.get("/rest/rights/", SignedIn, rights::list_rights);
    add.get("/rest/rights/levels", SignedIn, rights::list_levels);
    add.get("/rest/rights/explain", SignedIn, rights::explain_right);
    add.get("/rest/rights/{name}", SignedIn, rights::get_right);
    routes
}

impl Routes {
    /// What is known of each route, for documentation and tests.
    pub fn infos(&self) -> &[RouteInfo] {
        &self.infos
    }

    /// One more route: for a process that is measured beside the service, by an answer of its own.
    #[must_use]
    pub fn and_get<F, Args>(mut self, path: &'static str, access: Access, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        Adder(&mut self).get(path, access, handler);
        self
    }

    /// Hands the routes to actix. A collection without its slash at the end is sent on to the one with it.
    pub fn configure(self, config: &mut ServiceConfig) {
        for (path, routes) in self.routes {
            let resource = routes.into_iter().fold(web::resource(path), actix_web::Resource::route);
            config.service(resource);
            if let Some(without_slash) = path.strip_suffix('/').filter(|path| !path.is_empty()) {
                config.service(web::resource(without_slash).to(add_slash));
            }
        }
    }
}

/// Writes a route into both lists.
struct Adder<'a>(&'a mut Routes);

impl Adder<'_> {
    fn get<F, Args>(&mut self, path: &'static str, access: Access, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route(Method::HEAD, path, access, handler.clone());
        self.on(Method::GET, path, access, handler);
    }

    fn post<F, Args>(&mut self, path: &'static str, access: Access, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.on(Method::POST, path, access, handler);
    }

    fn put<F, Args>(&mut self, path: &'static str, access: Access, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.on(Method::PUT, path, access, handler);
    }

    fn patch<F, Args>(&mut self, path: &'static str, access: Access, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.on(Method::PATCH, path, access, handler);
    }

    fn delete<F, Args>(&mut self, path: &'static str, access: Access, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.on(Method::DELETE, path, access, handler);
    }

    fn on<F, Args>(&mut self, method: Method, path: &'static str, access: Access, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.0.infos.push(RouteInfo { method: method.clone(), path, access });
        self.route(method, path, access, handler);
    }

    fn route<F, Args>(&mut self, method: Method, path: &'static str, access: Access, handler: F)
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        // What may take longer than other requests lies below paths of its own.
        let is_transfer = ["/rest/export/", "/rest/import/"].iter().any(|begin| path.starts_with(begin));
        let budget = if is_transfer { Budget::Transfer } else { Budget::Request };
        let check = from_fn(move |request, next| authorize((access, budget), request, next));
        self.0.routes.entry(path).or_default().push(web::method(method).to(handler).wrap(check));
    }
}

/// 308 to the same path with a slash at its end.
async fn add_slash(request: HttpRequest) -> HttpResponse {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("{}/{query}", request.path());
    let body = json!({"message": "the path ends with a slash; ask again there", "location": location});
    HttpResponse::PermanentRedirect().insert_header((header::LOCATION, location)).json(body)
}
