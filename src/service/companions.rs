//! Which objects an object's view needed the last time, so that it can be asked for together with them.
//!
//! Where a question goes over the network, a second one for what the object refers to doubles the time of a rendered
//! read. What is remembered here is only which ids to ask for; the documents are read anew each time, and references that
//! have changed meanwhile are asked for as if nothing had been remembered.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

/// How many objects are remembered; some 100 bytes each.
const REMEMBERED: u64 = 50_000;
/// An object with more references is asked for alone.
const MOST: usize = 32;
/// What an object no longer refers to is asked for in vain no longer than this.
const MEMORY: Duration = Duration::from_mins(10);

/// Remembers ids of objects that are needed together.
pub struct Companions(Cache<i64, Arc<[i64]>>);

impl Default for Companions {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(REMEMBERED).time_to_live(MEMORY).build())
    }
}

impl Companions {
    /// What to ask for beside this object; nothing where that saves no way over the network.
    pub(super) fn of(&self, is_remote: bool, id: i64) -> Option<Arc<[i64]>> {
        if is_remote { self.0.get(&id) } else { None }
    }

    /// Notes what had to be fetched for an object beside what was `expected`. Expectations that were wrong are forgotten;
    /// the next read finds out what is right.
    pub(super) fn note(&self, is_remote: bool, id: i64, expected: bool, fetched: &[i64]) {
        if !is_remote || fetched.is_empty() {
            return;
        }
        if expected || fetched.len() > MOST {
            self.0.invalidate(&id);
        } else {
            self.0.insert(id, fetched.into());
        }
    }
}
