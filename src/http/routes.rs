//! The routes, all of them on one page, each with the right that it needs (decisions 6).

use std::collections::BTreeMap;

use actix_web::dev::Handler;
use actix_web::http::Method;
use actix_web::http::header;
use actix_web::middleware::from_fn;
use actix_web::web::{self, ServiceConfig};
use actix_web::{FromRequest, HttpRequest, HttpResponse, Responder, Route};

use super::caller::{Access, authorize};
use super::{auth, categories, objects, root, types};
use Access::{Public, Right};

/// Below this everything that needs a token lies.
pub const BASE: &str = "/rest";

/// What is known of a route beside its handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// GET stands for HEAD too.
    pub method: Method,
    /// The pattern, `{name}` for a variable segment.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
}

/// The routes as they are put together.
#[derive(Default)]
pub struct Routes {
    infos: Vec<RouteInfo>,
    routes: BTreeMap<&'static str, Vec<Route>>,
}

/// All routes.
pub fn all() -> Routes {
    let query = Method::from_bytes(b"QUERY").expect("QUERY is a token");
    let mut routes = Routes::default();
    let mut add = Adder(&mut routes);

    add.get("/health/live", Public, root::live);
    add.get("/health/ready", Public, root::ready);
    add.get("/rest/", Public, root::service);
    add.post("/rest/auth/login", Public, auth::login);

    add.get("/rest/objects/", Right("base.framework.object.view"), objects::list_objects);
    add.on(query, "/rest/objects/", Right("base.framework.object.view"), objects::query_objects);
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
    routes
}

impl Routes {
    /// What is known of each route, for documentation and tests.
    pub fn infos(&self) -> &[RouteInfo] {
        &self.infos
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
        let check = from_fn(move |request, next| authorize(access, request, next));
        self.0.routes.entry(path).or_default().push(web::method(method).to(handler).wrap(check));
    }
}

/// 308 to the same path with a slash at its end.
async fn add_slash(request: HttpRequest) -> HttpResponse {
    let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = format!("{}/{query}", request.path());
    HttpResponse::PermanentRedirect().insert_header((header::LOCATION, location)).finish()
}
