//! The bytes on disk: the log of pages, the files beside it, and read-only views. Knows nothing of documents.

pub(super) mod acknowledged;
pub(super) mod names;
pub(super) mod overlay;
pub(super) mod pages;
pub(super) mod storage;
