//! A file becomes a store: paths, recovery, older formats, and the words of each refusal. Knows `write`, which applies records.

pub(super) mod engine;
pub(super) mod format;
pub(super) mod location;
pub(super) mod presence;
pub(super) mod refusal;
