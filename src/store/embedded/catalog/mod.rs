//! The description of the file: its version and identity, its collections and their indexes. Imports `file`.

pub(super) mod collections;
pub(super) mod meta;
