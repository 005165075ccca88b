//! Everything that knows actix: routes, parameters, bodies, envelopes, errors.

mod auth;
mod body;
mod caller;
mod categories;
mod conditional;
pub mod envelope;
pub mod error;
pub mod links;
mod objects;
pub mod outermost;
pub mod params;
mod path;
mod root;
pub mod routes;
pub mod state;
mod types;

pub use self::caller::Access;
