//! The inventory service.

pub mod auth;
pub mod clock;
pub mod domain;
pub mod json;
pub mod query;
pub mod service;
pub mod store;
