//! Numbers for [`Store::revision`](super::Store::revision), each given out once.
//!
//! *Invariant:* no number repeats: not for two moments of one collection, nor in two stores, nor after a restart.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The first number of a process is random, so that two processes have different numbers. Half of all numbers lie above
/// it.
static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(rand::random::<u64>() >> 1));

/// A number that was never given out.
pub(super) fn fresh() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}
