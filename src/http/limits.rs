//! Bounds on requests, and what is counted beside them: the part of the state that is looked at before any route.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long URIs and headers may be.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// Path and query.
    pub uri_bytes: usize,
    /// Names and values of all headers.
    pub header_bytes: usize,
}

/// How large bodies may be, unpacked, and how long they may take to arrive.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// In bytes.
    pub max_bytes: usize,
    /// In bytes, where a body holds many objects.
    pub max_bulk_bytes: usize,
    /// In bytes, where a body is a file.
    pub max_import_bytes: usize,
    /// From the head of the request to the last byte.
    pub timeout: Duration,
}

/// How many panics of handlers were caught since the start.
#[derive(Debug, Default)]
pub struct Panics(AtomicU64);

impl Panics {
    /// There is one more.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
