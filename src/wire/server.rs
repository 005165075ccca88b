//! Accepts connections, and holds what all of them share.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rustls::server::ServerConfig;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::converse;
use super::cursors::Cursors;
use super::strangers::Strangers;
use crate::query::Limits;
use crate::rate_limits::RateLimits;
use crate::service::Services;
use crate::settings::LimitSettings;

/// The maximum number of connections at a time. Another one replaces the oldest unauthenticated connection; without any it
/// is closed at once, as in MongoDB.
pub(super) const MOST_CONNECTIONS: usize = 200;

/// How long the listener rests when the system has no room for another connection.
const REST: Duration = Duration::from_millis(100);

/// The time that an unauthenticated connection has to close when it is replaced.
const LEAVING: Duration = Duration::from_millis(100);

/// The interval of the search for unused cursors.
const SWEEP: Duration = Duration::from_secs(30);

/// The state of the listener.
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
    pub(super) strangers: Strangers,
    pub(super) started: Instant,
    /// Numbers of answers.
    next_answer: AtomicI32,
}

/// The figures of `serverStatus`. They are of this listener alone.
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
    /// The number of the next answer.
    pub(super) fn next_answer(&self) -> i32 {
        self.next_answer.fetch_add(1, Ordering::Relaxed)
    }
}

/// A connection that is open; it is counted until this is dropped.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.counters.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers MongoDB tools until this future is dropped.
///
/// # Errors
/// When the listener cannot be used.
pub async fn serve(listener: TcpListener, parts: WireParts) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let acceptor = parts.tls.clone().map(TlsAcceptor::from);
    let shared = Arc::new(Shared {
        parts,
        cursors: Cursors::default(),
        counters: Counters::default(),
        strangers: Strangers::default(),
        started: Instant::now(),
        next_answer: AtomicI32::new(1),
    });
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // Dropped with this future, it ends all connections.
    let mut connections = JoinSet::new();
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Some(place) = place(&places, &shared.strangers).await else { continue };
                    let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
                    connections.spawn(async move {
                        attend(shared, stream, peer, acceptor).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    log::warn!("wire: no connection can be accepted: {error}");
                    sleep(REST).await;
                }
            },
            Some(ended) = connections.join_next() => if let Err(error) = ended {
                log::error!("wire: a connection ended in a panic: {error}");
            },
            _ = sweep.tick() => shared.cursors.drop_idle(Instant::now()),
        }
    }
}

/// A slot for a connection, that of an unauthenticated one if need be.
async fn place(places: &Arc<Semaphore>, strangers: &Strangers) -> Option<OwnedSemaphorePermit> {
    let free = Arc::clone(places).try_acquire_owned();
    if free.is_ok() || !strangers.send_oldest_away() {
        return free.ok();
    }
    timeout(LEAVING, Arc::clone(places).acquire_owned()).await.ok()?.ok()
}

async fn attend(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, acceptor: Option<TlsAcceptor>) {
    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
    let id = shared.counters.connections_made.fetch_add(1, Ordering::Relaxed) + 1;
    let open = Open(Arc::clone(&shared));
    // An answer is written at once; waiting for more would only delay it.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let leave = shared.strangers.enter(id);
    let ended = tokio::select! {
        ended = conversation(&shared, stream, (id, peer), acceptor) => ended,
        () = leave.notified() => Err(io::ErrorKind::ConnectionAborted.into()),
    };
    shared.strangers.remove(id);
    shared.cursors.drop_connection(id);
    if let Err(error) = ended {
        log::debug!("wire: the connection of {} ended: {error}", address(peer));
    }
    drop(open);
}

async fn conversation(
    shared: &Shared,
    stream: TcpStream,
    client: (i64, SocketAddr),
    acceptor: Option<TlsAcceptor>,
) -> io::Result<()> {
    let Some(acceptor) = acceptor else { return converse(shared, stream, client).await };
    match timeout(shared.parts.limits.head_timeout(), acceptor.accept(stream)).await {
        Ok(stream) => converse(shared, stream?, client).await,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// The address that sign-ins are counted by.
pub(super) fn address(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}
