//! The bytes on disk: the log of pages, the files beside it, and what is only looked at. Knows nothing of documents.

pub(super) mod acknowledged;
pub(super) mod names;
pub(super) mod overlay;
pub(super) mod pages;
pub(super) mod storage;
