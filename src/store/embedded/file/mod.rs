//! The bytes on disk: the log of pages, the files next to it, and read-only views. It does not know what documents are.

pub(super) mod acknowledged;
pub(super) mod overlay;
pub(super) mod pages;
pub(super) mod storage;
