//! What a stage keeps in memory.

use super::{Budget, EvalError};
use crate::admission::Share;

/// How much a stage may keep, as in MongoDB.
const MAX_HELD: usize = 100 * 1024 * 1024;
/// `QueryExceededMemoryLimitNoDiskUseAllowed`.
const EXCEEDED_MEMORY_LIMIT: i32 = 292;

/// The bytes that a stage keeps, taken from the memory of all requests.
pub(super) struct Held {
    share: Share,
    bytes: usize,
    covered: usize,
}

impl Held {
    /// Nothing yet.
    pub(super) fn new(budget: &Budget) -> Self {
        Self { share: budget.share(), bytes: 0, covered: 0 }
    }

    /// Takes this number of bytes in addition.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.set(self.bytes.saturating_add(bytes))
    }

    /// Frees `before` bytes, and takes `now` bytes.
    pub(super) fn exchange(&mut self, before: usize, now: usize) -> Result<(), EvalError> {
        self.set(self.bytes.saturating_add(now).saturating_sub(before))
    }

    /// Sets the number of bytes held in all.
    pub(super) fn set(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.bytes = bytes;
        if bytes > MAX_HELD {
            let message = "a stage needs more than 100 MiB of memory; ask for less with $match, $project or $limit";
            return Err(EvalError::new(EXCEEDED_MEMORY_LIMIT, message));
        }
        if bytes > self.covered {
            self.covered = self.share.cover(bytes).map_err(|denied| EvalError::denied(&denied))?;
        }
        Ok(())
    }

    /// How many there are.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
