//! What all connections of a listener share.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rustls::server::ServerConfig;

use super::cursors::Cursors;
use super::unauthenticated::Unauthenticated;
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
