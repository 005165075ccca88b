//! The description of the file: its version, its collections and their indexes.

pub(super) mod collections;
pub(super) mod meta;
