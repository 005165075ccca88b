//! The server: a listener, connections with their deadlines, plain or TLS, and the application that answers them.
//!
//! `actix_web::HttpServer` would do, but it does not allow to wrap a connection (see [`super::guard`]).

use std::fmt;
use std::future::pending;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix_http::body::MessageBody;
use actix_http::error::DispatchError;
use actix_http::{HttpService, KeepAlive, Request};
use actix_server::Server;
use actix_service::{IntoServiceFactory, Service, ServiceFactory, ServiceFactoryExt, fn_service, map_config};
use actix_web::HttpRequest;
use actix_web::dev::{AppConfig, Response};
use actix_web::error::Error;
use rustls::server::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::guard::{Guarded, Patience, Progress, UnderWay};
use super::refusal;
use crate::http::error::ApiError;
use crate::service::ErrorCode;
use crate::settings::ServerSettings;

/// The time in seconds that running requests have after the signal to stop.
const SHUTDOWN_S: u64 = 10;

/// How long an answer may take after the client has closed its sending direction.
const HUNG_UP: Duration = Duration::from_secs(1);

/// How long a client may take to close after an answer that asks for it.
const CLOSING: Duration = Duration::from_secs(1);

/// How much of a request in plain HTTP is read on a port with TLS.
const MOST_UNREAD: u64 = 64 * 1024;

/// Starts to answer on `listener`, with one application of `factory` for each worker, and with TLS if `tls` is given.
///
/// # Errors
/// When the listener cannot be used.
pub fn start<F, I, S, B>(
    factory: F,
    listener: TcpListener,
    settings: &ServerSettings,
    tls: Option<Arc<ServerConfig>>,
) -> io::Result<Server>
where
    F: Fn() -> I + Send + Clone + 'static,
    I: IntoServiceFactory<S, Request>,
    S: ServiceFactory<Request, Config = AppConfig> + 'static,
    S::Error: Into<Error> + 'static,
    S::InitError: fmt::Debug,
    S::Response: Into<Response<B>> + 'static,
    <S::Service as Service<Request>>::Future: 'static,
    S::Service: 'static,
    B: MessageBody + 'static,
{
    let limits = settings.limits.clone();
    let patience =
        // The dispatcher has its own deadline for the first head, with an answer, so it takes precedence.
        Patience { idle: limits.keep_alive(), head: limits.head_timeout() + CLOSING, write: limits.write_timeout() };
    let workers = worker_count(settings.workers);
    let builder = Server::build()
        .workers(workers)
        .max_concurrent_connections(limits.max_connections.div_ceil(workers))
        .shutdown_timeout(SHUTDOWN_S)
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let listening = builder.listen("http", listener, move || {
        let stopping = stopping.clone();
        let application = factory().into_factory().map_err(|error| error.into().error_response());
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(KeepAlive::Timeout(limits.keep_alive()))
            .client_request_timeout(limits.head_timeout())
            .client_disconnect_timeout(CLOSING)
            .on_connect_ext(|connection: &Guarded, data| drop(data.insert(Rc::clone(connection.progress()))))
            .h1(map_config(application, |()| AppConfig::default()));
        let acceptor = tls.clone().map(TlsAcceptor::from);
        fn_service(move |stream| accept(stream, acceptor.clone(), patience)).and_then(http)
    })?;
    Ok(listening.run())
}

/// Notes on the request's connection that the request is being handled.
pub(in crate::http) fn under_way(request: &HttpRequest) -> Option<impl Drop + use<>> {
    request.conn_data::<Rc<Progress>>().map(|progress| -> UnderWay { progress.begin() })
}

/// Waits until the client has hung up, and a while longer, because it may have closed only one direction. Never ends if
/// nothing is known of the connection.
pub(in crate::http) async fn given_up(request: &HttpRequest) {
    match request.conn_data::<Rc<Progress>>() {
        Some(progress) => {
            progress.hung_up().await;
            sleep(HUNG_UP).await;
        }
        None => pending().await,
    }
}

/// The connection, after the TLS handshake if there is one.
async fn accept(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    patience: Patience,
) -> Result<(Guarded, Option<SocketAddr>), DispatchError> {
    let peer = stream.peer_addr().ok();
    // An answer is written at once; waiting for more would only delay it.
    stream.set_nodelay(true).map_err(DispatchError::Io)?;
    let guarded = match acceptor {
        None => Guarded::new(Box::pin(stream), patience),
        Some(acceptor) => {
            let handshake = timeout(patience.head, encrypted(stream, &acceptor)).await;
            let stream = handshake.map_err(|_| DispatchError::SlowRequestTimeout)?.map_err(DispatchError::Io)?;
            Guarded::new(Box::pin(stream), patience)
        }
    };
    Ok((guarded, peer))
}

/// The connection after the TLS handshake. Plain HTTP gets an answer that says so: no record of TLS begins with a letter.
async fn encrypted(mut stream: TcpStream, acceptor: &TlsAcceptor) -> io::Result<TlsStream<TcpStream>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 || !first[0].is_ascii_alphabetic() {
        return acceptor.accept(stream).await;
    }
    let message = "this port speaks HTTPS; write https:// instead of http://";
    stream.write_all(&refusal::answer(&ApiError::new(ErrorCode::BadRequest, message))).await?;
    stream.shutdown().await?;
    // To close with unread bytes would take the answer away from the client.
    let mut unread = stream.take(MOST_UNREAD);
    let _ = timeout(CLOSING, tokio::io::copy(&mut unread, &mut tokio::io::sink())).await;
    Err(io::Error::new(io::ErrorKind::InvalidData, message))
}

fn worker_count(wanted: usize) -> usize {
    // The library accepts at most 512.
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    if wanted == 0 { cores() } else { wanted }.min(512)
}
