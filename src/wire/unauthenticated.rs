//! Unauthenticated connections. When all slots are taken, the oldest of them is closed for a new one: they cannot keep
//! others out by staying open. Tools watch a server on such connections too, and connect again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Those of a listener, by the number of their connection: lower numbers came first.
#[derive(Default)]
pub(super) struct Unauthenticated(Mutex<BTreeMap<i64, Arc<Notify>>>);

impl Unauthenticated {
    /// A connection was accepted. It has to end when this is notified.
    pub(super) fn enter(&self, connection: i64) -> Arc<Notify> {
        let leave = Arc::new(Notify::new());
        self.lock().insert(connection, Arc::clone(&leave));
        leave
    }

    /// The connection has ended, or is authenticated.
    pub(super) fn remove(&self, connection: i64) {
        self.lock().remove(&connection);
    }

    /// Closes the oldest one. False if there is none.
    pub(super) fn close_oldest(&self) -> bool {
        let oldest = self.lock().pop_first();
        oldest.inspect(|(_, leave)| leave.notify_one()).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<i64, Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
