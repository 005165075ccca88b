//! The inventory service.

pub mod json;
pub mod query;
pub mod store;
