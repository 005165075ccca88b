//! Remembers which objects the view of an object needed last time, so that one query can fetch them all.
//!
//! If queries go over the network, a second query for references doubles the time of a rendered read. This module
//! remembers only ids. The documents are read each time, and changed references are fetched by another query.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;

/// How many objects are remembered; some 100 bytes each.
const REMEMBERED: u64 = 50_000;
/// An object with more references is fetched alone.
const MOST: usize = 32;
/// How long ids are remembered. A dropped reference is fetched needlessly for at most this long.
const MEMORY: Duration = Duration::from_mins(10);

/// Remembers the ids of objects that are needed together.
pub struct Companions(Cache<i64, Arc<[i64]>>);

impl Default for Companions {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(REMEMBERED).time_to_live(MEMORY).build())
    }
}

impl Companions {
    /// The ids to fetch together with this object; none if that saves no round trip.
    pub(crate) fn of(&self, is_remote: bool, id: i64) -> Option<Arc<[i64]>> {
        if is_remote { self.0.get(&id) } else { None }
    }

    /// Notes the objects that a view needed in addition to the `expected` ones. Wrong expectations are forgotten, and the
    /// next read learns the right ones.
    pub(crate) fn note(&self, is_remote: bool, id: i64, expected: bool, fetched: &[i64]) {
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
