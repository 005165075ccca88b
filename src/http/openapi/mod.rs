//! The description of the interface (OpenAPI 3.1), made from the code: the annotations of the handlers, the tables that
//! check bodies, the structs that answers are written with, the table of routes and the table of error codes.
//!
//! A new route needs `#[utoipa::path(..)]` on its handler and a line in [`Operations`]; a test compares the outcome
//! with [`routes::all`]. What every operation has in common is added in [`finish`].

mod errors;
pub mod examples;
mod finish;

use std::sync::LazyLock;

use actix_web::web::Bytes;
use serde_json::Value;
use utoipa::OpenApi;

use super::{
    auth, bulk, categories, docs, exchange, groups, objects, rights, root, routes, types, user_settings, user_tokens,
    users,
};

/// Every handler that has a route.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Inventory Service",
        description = "An inventory of types, objects and categories. Every GET answers HEAD too. A wrong method is 405 with \
            `Allow`; a collection without its slash at the end is a 308 to the one with it; singular paths \
            (`/rest/object/7`) are aliases. Stored documents can have further members, which other tools gave them.",
    ),
    paths(
        root::home,
        root::live,
        root::ready,
        root::service,
        docs::openapi,
        docs::page,
        docs::part,
        auth::login,
        objects::list_objects,
        objects::query_objects,
        objects::create_object,
        bulk::create_objects,
        bulk::patch_selected_objects,
        bulk::delete_selected_objects,
        objects::list_unclean,
        objects::clean_objects,
        objects::delete_objects,
        objects::render_object,
        objects::update_object,
        objects::patch_object,
        objects::delete_object,
        objects::get_object,
        objects::list_references,
        objects::get_state,
        objects::set_state,
        exchange::export_objects,
        exchange::import_objects,
        types::list_types,
        types::create_type,
        types::get_type,
        types::update_type,
        types::patch_type,
        types::delete_type,
        categories::list_categories,
        categories::create_category,
        categories::get_category,
        categories::update_category,
        categories::patch_category,
        categories::delete_category,
        users::list_users,
        users::create_user,
        users::get_user,
        users::update_user,
        users::patch_user,
        users::delete_user,
        users::change_password,
        user_settings::list_settings,
        user_settings::create_setting,
        user_settings::get_setting,
        user_settings::update_setting,
        user_settings::patch_setting,
        user_settings::delete_setting,
        user_tokens::list_tokens,
        user_tokens::create_token,
        user_tokens::delete_token,
        groups::list_groups,
        groups::create_group,
        groups::get_group,
        groups::update_group,
        groups::patch_group,
        groups::delete_group,
        rights::list_rights,
        rights::list_levels,
        rights::explain_right,
        rights::get_right,
    ),
    components(schemas(super::error::ErrorBody, crate::store::Explanation))
)]
struct Operations;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    let annotated = serde_json::to_value(Operations::openapi()).expect("a description can always be written");
    finish::finished(annotated, routes::infos())
});

/// The description, whole.
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// The same as text.
pub fn text() -> Bytes {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| DOCUMENT.to_string().into());
    TEXT.clone()
}
