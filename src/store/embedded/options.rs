//! How a store is opened.

use std::time::Duration;

/// How a store is opened.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How much memory may hold pages of the file.
    pub cache_bytes: usize,
    /// How many units may wait for the writer; more are refused as unavailable.
    pub queue_length: usize,
    /// How long the filters of one unit may search for documents, while all other writes wait.
    pub filter_budget: Duration,
    /// From this size of the file on, each table commit also saves the list of free pages, so that opening after a kill
    /// is fast.
    pub quick_repair_from_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 64 * 1024 * 1024,
            queue_length: 4096,
            filter_budget: Duration::from_secs(10),
            quick_repair_from_bytes: 1024 * 1024 * 1024,
        }
    }
}
