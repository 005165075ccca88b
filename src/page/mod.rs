//! The page for people, under `/ui/`: rendered here, without scripts, with the rights of the person who signed in.
//!
//! The life of a click:
//!
//! 1. `http` treats it as any request: edge, gate, request id. `http::caller` finds the session by the cookie, checks the
//!    right of the route, and gives the request its ticket and its time budget.
//! 2. [`guard`] refuses what another site sends. A [`Form`](visitor::Form) has a token of its session, too.
//! 3. A screen reads the address or the form, and calls functions of `service`, as a handler of REST does.
//! 4. Views, types and entries become HTML by the functions of [`parts`]. Templates escape; nothing is marked as safe.
//! 5. A change leads the browser to the page that shows it. What is refused is shown in the form, with what was typed.
//! 6. An error becomes a page in [`screens::error`]. Without a session it leads to the sign-in and back.
//!
//! The page adds no rule of its own: what it shows and changes is what the same user can do over REST.

pub mod address;
pub mod answer;
pub mod files;
pub mod found;
pub mod guard;
pub mod parts;
pub mod saved;
pub mod screens;
pub mod texts;
pub mod view;
pub mod visitor;

use actix_web::http::Method;
use actix_web::web::ServiceConfig;

use self::screens::{
    changes, definition, delete, edit, export, graph, import, list, object, overview, people, search, several, sign_in,
};
use crate::http::route_table::RouteAccess::{Public, Right, SignedIn};
use crate::http::routes::Routes;
use crate::http::state::HttpState;

pub use self::screens::error::face;

/// The right to see objects. Screens that show values need it in addition to the right of what they do.
pub const VIEW: &str = "base.framework.object.view";
pub(crate) const ADD: &str = "base.framework.object.add";
pub(crate) const EDIT: &str = "base.framework.object.edit";
pub(crate) const DELETE: &str = "base.framework.object.delete";
pub(crate) const IMPORT: &str = "base.import.object.*";
pub(crate) const ADD_TYPES: &str = "base.framework.type.add";
pub(crate) const EDIT_TYPES: &str = "base.framework.type.edit";

/// All routes of the page, each with its right.
pub fn routes() -> Routes {
    let get = Method::GET;
    let post = Method::POST;
    Routes::of_sessions(guard::door)
        .and(get.clone(), "/ui/", SignedIn, overview::show)
        .and(get.clone(), "/ui/sign-in", Public, sign_in::show)
        .and(post.clone(), "/ui/sign-in", Public, sign_in::submit)
        .and(post.clone(), "/ui/sign-out", SignedIn, sign_in::leave)
        .and(get.clone(), "/ui/files/{name}", Public, files::serve)
        .and(get.clone(), "/ui/search", Right(VIEW), search::show)
        .and(get.clone(), "/ui/types/{id}", Right(VIEW), list::show)
        .and(get.clone(), "/ui/types/{id}/new", Right(ADD), edit::blank)
        .and(post.clone(), "/ui/types/{id}/new", Right(ADD), edit::create)
        .and(get.clone(), "/ui/people/", Right(people::VIEW_USERS), people::list)
        .and(post.clone(), "/ui/people/", Right(people::VIEW_USERS), people::create)
        .and(get.clone(), "/ui/people/{id}", Right(people::VIEW_USERS), people::show)
        .and(post.clone(), "/ui/people/{id}", Right(people::VIEW_USERS), people::save)
        .and(get.clone(), "/ui/new-type", Right(ADD_TYPES), definition::blank)
        .and(post.clone(), "/ui/new-type", Right(ADD_TYPES), definition::create)
        .and(get.clone(), "/ui/types/{id}/definition", Right(EDIT_TYPES), definition::show)
        .and(post.clone(), "/ui/types/{id}/definition", Right(EDIT_TYPES), definition::save)
        .and(post.clone(), "/ui/types/{id}/saved", Right(VIEW), list::save)
        .and(get.clone(), "/ui/types/{id}/several", Right(VIEW), several::ask)
        .and(post.clone(), "/ui/types/{id}/several", Right(VIEW), several::carry_out)
        .and(get.clone(), "/ui/types/{id}/import", Right(IMPORT), import::blank)
        .and(post.clone(), "/ui/types/{id}/import", Right(IMPORT), import::carry_out)
        .and(get.clone(), "/ui/export/{id}/{format}", Right("base.export.object.*"), export::send)
        .and(get.clone(), "/ui/objects/{id}", Right(VIEW), object::show)
        .and(get.clone(), "/ui/objects/{id}/graph", Right(VIEW), graph::show)
        .and(get.clone(), "/ui/objects/{id}/graph.svg", Right(VIEW), graph::file)
        .and(get.clone(), "/ui/objects/{id}/edit", Right(EDIT), edit::show)
        .and(post.clone(), "/ui/objects/{id}/edit", Right(EDIT), edit::save)
        .and(get.clone(), "/ui/objects/{id}/delete", Right(DELETE), delete::ask)
        .and(post.clone(), "/ui/objects/{id}/delete", Right(DELETE), delete::carry_out)
        .and(post.clone(), "/ui/objects/{id}/restore", Right(ADD), delete::undo)
        .and(post, "/ui/objects/{id}/revert", Right(EDIT), object::revert)
        .and(get, "/ui/changes/", Right("base.framework.log.view"), changes::show)
}

/// The paths of all forms.
pub fn posts() -> Vec<&'static str> {
    routes().undescribed(&Method::POST)
}

/// Registers the routes, unless the settings turn the page off.
pub fn configure(config: &mut ServiceConfig, state: &HttpState) {
    if state.has_page {
        routes().configure(config);
    }
}
