//! What all connections of a listener share, and those of them that are unauthenticated.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::ServerConfig;
use tokio::sync::Notify;

use super::cursors::Cursors;
use crate::query::Limits;
use crate::rate_limits::RateLimits;
use crate::service::Services;
use crate::settings::LimitSettings;

/// Most connections at a time. Another one takes the slot of the oldest on which nobody has signed in. If there is none it is
/// closed at once, as in MongoDB.
pub(super) const MOST_CONNECTIONS: usize = 200;

/// What the listener is made of.
pub struct WireParts {
    /// The use cases.
    pub services: Arc<Services>,
    /// The name of the database that tools see.
    pub database: String,
    /// The bounds on filters.
    pub query_limits: Limits,
    /// The deadlines of connections.
    pub limits: LimitSettings,
    /// How fast clients may be, over HTTP and here together.
    pub rate_limits: Arc<RateLimits>,
    /// The time budget of a command as a whole.
    pub command_timeout: Duration,
    /// TLS, if there is a certificate.
    pub tls: Option<Arc<ServerConfig>>,
}

/// What all connections share.
pub(super) struct Shared {
    pub(super) parts: WireParts,
    pub(super) cursors: Cursors,
    pub(super) counters: Counters,
    pub(super) unauthenticated: Unauthenticated,
    pub(super) started: Instant,
    /// Numbers of answers.
    next_answer: AtomicI32,
}

/// What `serverStatus` tells. The numbers are of this listener alone.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicI64,
    pub(super) connections_made: AtomicI64,
    pub(super) bytes_in: AtomicI64,
    pub(super) bytes_out: AtomicI64,
    pub(super) queries: AtomicI64,
    pub(super) get_mores: AtomicI64,
    pub(super) commands: AtomicI64,
}

impl Shared {
    /// Of a listener that begins now.
    pub(super) fn new(parts: WireParts) -> Self {
        Self {
            parts,
            cursors: Cursors::default(),
            counters: Counters::default(),
            unauthenticated: Unauthenticated::default(),
            started: Instant::now(),
            next_answer: AtomicI32::new(1),
        }
    }

    /// The number of the next answer.
    pub(super) fn next_answer(&self) -> i32 {
        self.next_answer.fetch_add(1, Ordering::Relaxed)
    }
}

/// The address that sign-ins are counted by.
pub(super) fn address(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

// Unauthenticated connections. When all slots are taken, the oldest of them is closed for a new one: they cannot keep
// others out by staying open. Tools watch a server on such connections too, and connect again.

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
