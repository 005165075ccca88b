//! The REST interface, tested through real requests, on each store.

mod advice;
mod aggregate;
mod bodies;
mod bulk;
mod categories;
mod common;
mod concurrency;
mod explain;
mod export;
mod field_names;
mod groups;
mod import;
mod lists;
mod malformed;
mod objects;
mod once;
pub(crate) mod people;
mod rendering;
mod rights;
mod settings;
mod tokens;
mod types;
mod users;
mod walk;
