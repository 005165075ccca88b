//! What webhooks need in addition to the store.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::metrics::Outcomes;
use crate::outgoing::Sender;
use crate::query::Limits;

/// The maximum number of webhooks: each may hold a thread, a connection and ten events.
pub const MOST_WEBHOOKS: u64 = 100;
/// The maximum number of tests under way at a time.
const MOST_TESTS: usize = 4;

/// One for the whole process.
pub struct Parts {
    /// Sends the messages.
    pub sender: Sender,
    /// The bounds of filters.
    pub limits: Limits,
    /// How attempts ended.
    pub deliveries: Outcomes,
    /// The tests that may begin now.
    pub(super) tests: Arc<Semaphore>,
}

impl Parts {
    /// With this sender, and these bounds of filters.
    pub fn new(sender: Sender, limits: Limits) -> Self {
        Self { sender, limits, deliveries: Outcomes::of_deliveries(), tests: Arc::new(Semaphore::new(MOST_TESTS)) }
    }
}
