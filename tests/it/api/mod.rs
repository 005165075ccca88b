//! The REST interface, tested through real requests, on each store.

mod advice;
mod aggregate;
mod bodies;
mod bulk;
mod categories;
mod common;
mod concurrency;
mod cursors;
mod explain;
mod export;
mod field_names;
mod groups;
mod habits;
mod import;
mod lists;
mod malformed;
mod objects;
mod once;
pub(crate) mod people;
mod rendering;
mod rights;
mod sent_back;
mod settings;
mod tokens;
mod types;
mod users;
mod walk;
