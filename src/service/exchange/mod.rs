//! Import and export of objects: tables, lines of JSON, and lists of hosts for tools.

pub mod export;
pub mod import;
pub mod tables;
pub mod tools;
