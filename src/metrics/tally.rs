//! How often a cache knew the answer.

use std::sync::atomic::{AtomicU64, Ordering};

/// Hits and misses since they were last taken.
#[derive(Debug, Default)]
pub struct Tally {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Tally {
    /// Notes a look-up in the cache.
    pub fn note(&self, hit: bool) {
        let counter = if hit { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes hits and misses, and starts again from zero.
    pub(super) fn take(&self) -> (u64, u64) {
        (self.hits.swap(0, Ordering::Relaxed), self.misses.swap(0, Ordering::Relaxed))
    }
}
