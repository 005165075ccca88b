//! The REST interface, tested through real requests, on each store.

mod categories;
mod common;
mod concurrency;
mod lists;
mod objects;
mod rendering;
mod types;
