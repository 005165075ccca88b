//! Accepts connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connection::converse;
use super::shared::{MOST_CONNECTIONS, Shared, Unauthenticated, WireParts, address};

/// How long the listener rests when the system has no room for another connection.
const REST: Duration = Duration::from_millis(100);

/// The time that an unauthenticated connection has to close when it is replaced.
const LEAVING: Duration = Duration::from_millis(100);

/// The interval of the search for unused cursors.
const SWEEP: Duration = Duration::from_secs(30);

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
    let shared = Arc::new(Shared::new(parts));
    let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    // Dropped with this future, it ends all connections.
    let mut connections = JoinSet::new();
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Some(slot) = slot(&slots, &shared.unauthenticated).await else { continue };
                    let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
                    connections.spawn(async move {
                        attend(shared, stream, peer, acceptor).await;
                        drop(slot);
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

/// A slot for a connection: a free one, else that of the oldest connection on which nobody has signed in.
async fn slot(slots: &Arc<Semaphore>, unauthenticated: &Unauthenticated) -> Option<OwnedSemaphorePermit> {
    let free = Arc::clone(slots).try_acquire_owned();
    if free.is_ok() || !unauthenticated.close_oldest() {
        return free.ok();
    }
    timeout(LEAVING, Arc::clone(slots).acquire_owned()).await.ok()?.ok()
}

async fn attend(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr, acceptor: Option<TlsAcceptor>) {
    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
    let id = shared.counters.connections_made.fetch_add(1, Ordering::Relaxed) + 1;
    let open = Open(Arc::clone(&shared));
    // An answer is written at once; waiting for more would only delay it.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let leave = shared.unauthenticated.enter(id);
    let ended = tokio::select! {
        ended = conversation(&shared, stream, (id, peer), acceptor) => ended,
        () = leave.notified() => Err(io::ErrorKind::ConnectionAborted.into()),
    };
    shared.unauthenticated.remove(id);
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
