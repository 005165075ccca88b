//! The description of the file: its version and identity, its collections and their indexes. Knows `file`.

pub(super) mod collections;
pub(super) mod meta;
