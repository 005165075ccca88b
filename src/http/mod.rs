//! Everything that knows actix: routes, parameters, bodies, envelopes, errors.

pub mod arrivals;
mod auth;
pub mod body;
mod bulk;
mod caller;
mod categories;
mod conditional;
pub mod description;
mod docs;
pub mod edge;
pub mod envelope;
pub mod error;
mod exchange;
mod files;
mod groups;
mod idempotency;
pub mod links;
pub mod listing;
pub mod metrics;
mod objects;
pub mod outermost;
pub mod params;
mod path;
mod rights;
mod root;
pub mod routes;
pub mod state;
mod types;
mod user_settings;
mod user_tokens;
mod users;
pub mod written;

pub use self::caller::Access;
