//! What the file says of itself: its version and identity, its collections and their indexes. Knows `file`.

pub(super) mod collections;
pub(super) mod meta;
