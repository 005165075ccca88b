//! Commands that work on the store directly, without a running service.

pub mod user;
