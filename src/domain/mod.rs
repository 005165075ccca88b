//! The things the service is about: plain data and the rules it keeps.

pub mod document;
pub mod group;
pub mod user;
