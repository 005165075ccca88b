//! Everything that knows actix: routes, parameters, bodies, envelopes, errors.

pub mod arrivals;
mod auth;
pub mod body;
mod bulk;
mod caller;
mod categories;
mod conditional;
mod docs;
pub mod edge;
pub mod envelope;
pub mod error;
mod exchange;
mod files;
mod groups;
mod idempotency;
pub mod limits;
pub mod links;
pub mod listing;
pub mod metrics;
mod objects;
pub mod openapi;
pub mod outermost;
pub mod params;
mod path;
mod rights;
mod root;
pub mod route_table;
pub mod routes;
pub mod schema;
pub mod state;
mod types;
mod user_settings;
mod user_tokens;
mod users;
pub mod written;

pub use self::route_table::RouteAccess;
