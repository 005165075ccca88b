//! What tests share.

pub(crate) mod app;
pub(crate) mod counting;
pub(crate) mod described;
pub(crate) mod mongod;
pub(crate) mod plain;
pub(crate) mod process;
pub(crate) mod remote;
pub(crate) mod watched;
pub(crate) mod wire;
