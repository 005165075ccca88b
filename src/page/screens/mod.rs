//! The screens, one file each.

pub mod changes;
pub mod definition;
pub mod delete;
pub mod edit;
pub mod error;
pub mod export;
pub mod graph;
pub mod import;
pub mod list;
pub mod object;
pub mod overview;
pub mod people;
pub mod search;
pub mod several;
pub mod sign_in;
