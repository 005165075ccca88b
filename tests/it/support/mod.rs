//! What tests share.

pub(crate) mod app;
pub(crate) mod mongod;
