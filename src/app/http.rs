//! What answers requests: listeners, limits, the state of the handlers, and the servers of HTTP and of MongoDB tools.

use std::io;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::middleware::{Condition, from_fn};
use actix_web::web::Bytes;
use actix_web::{App, web};
use tokio::task::AbortHandle;

use super::{Application, StartError, is_compatible};
use crate::clock::Clock;
use crate::http::edge::cors::{CorsPolicy, plain_answers};
use crate::http::edge::gate::{Gate, gate};
use crate::http::edge::headers::strict_transport;
use crate::http::edge::server;
use crate::http::edge::tls::Certificates;
use crate::http::limits::{BodyLimits, KeysUnderWay, Panics};
use crate::http::links::LinkSettings;
use crate::http::outermost::{Outermost, no_such_path, outermost};
use crate::http::params::ParamSettings;
use crate::http::routes;
use crate::http::state::{Description, HttpState};
use crate::http::written::WrittenCache;
use crate::http::{compat, metrics, openapi};
use crate::metrics::Metrics;
use crate::oidc::Issuer;
use crate::page;
use crate::rate_limits::RateLimits;
use crate::service::Services;
use crate::settings::Settings;
use crate::store::FileStore;
use crate::wire::{self, WireParts};

impl Application {
    /// What answers requests with these use cases: listeners, certificates, limits and the state of the handlers.
    pub(super) fn with_services(
        settings: Settings,
        services: Services,
        file: Option<Arc<dyn FileStore>>,
        metrics: Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let (listener, monitor, wire) = listeners(&settings)?;
        let address = settings.server.address();
        let certificates = settings.server.tls.files()?.map(Certificates::load).transpose()?;
        warn_of_its_time(certificates.as_deref(), &*services.clock);
        let cors = Arc::new(CorsPolicy::new(&settings.server.cors)?);
        let rate_limits = Arc::new(RateLimits::new(&settings.server.rate_limit));
        let gate = Arc::new(Gate::new(&settings.server, Arc::clone(&rate_limits))?);
        let links = LinkSettings {
            base_url: settings.api.base_url.clone(),
            trusted_proxies: settings.server.proxies()?,
            tls: certificates.is_some(),
            address,
        };
        let outermost = Arc::new(Outermost {
            metrics: Arc::clone(&metrics),
            routes: routes::infos,
            links: links.clone(),
            compression: settings.server.compression,
            face: if settings.server.page { page::face } else { |_, _| None },
            hsts: certificates.as_ref().and_then(|_| strict_transport(settings.server.tls.hsts_max_age_s)),
        });
        Ok(Self {
            bodies: web::Data::new(BodyLimits::new(&settings)),
            state: web::Data::new(HttpState {
                file: file.clone(),
                ..state(&settings, services, links, metrics, rate_limits)
            }),
            routes: if is_compatible(&settings) { compat::routes } else { routes::all },
            gate,
            outermost,
            settings,
            listener,
            monitor,
            wire,
            certificates,
            file,
            cors,
            first_admin: None,
            pulse: Arc::default(),
        })
    }

    /// The server, and the task that answers MongoDB tools.
    pub(super) fn server(self) -> io::Result<(Server, Option<AbortHandle>)> {
        let Self {
            state,
            gate: at_gate,
            outermost: around,
            bodies,
            settings,
            listener,
            monitor,
            wire,
            certificates,
            cors,
            routes,
            pulse,
            ..
        } = self;
        if let Some(monitor) = monitor {
            log::info!("/metrics is answered on http://{}", monitor.local_addr()?);
            tokio::spawn(metrics::serve(monitor, state.clone())?);
        }
        let tools = wire.map(|wire| serve_tools(wire, &state, &settings, certificates.as_ref())).transpose()?;
        let tls =
            certificates.map(|certificates| certificates.server_config()).transpose().map_err(io::Error::other)?;
        let is_compatible = is_compatible(&settings);
        let application = move || {
            pulse.join();
            let (at_gate, around, policy) = (Arc::clone(&at_gate), Arc::clone(&around), Arc::clone(&cors));
            App::new()
                .app_data(state.clone())
                .app_data(bodies.clone())
                .wrap(Condition::new(is_compatible, from_fn(compat::before)))
                .wrap(from_fn(move |request, next| gate(Arc::clone(&at_gate), request, next)))
                .wrap(cors.layer())
                .wrap(from_fn(move |request, next| plain_answers(Arc::clone(&policy), request, next)))
                .wrap(from_fn(move |request, next| outermost(Arc::clone(&around), request, next)))
                .configure(|config| routes().configure(config))
                .configure(|config| page::configure(config, &state))
                .configure(|config| metrics::configure(config, &state))
                .default_service(web::to(no_such_path))
        };
        Ok((server::start(application, listener, &settings.server, tls)?, tools))
    }
}

/// Signs of life of the threads that answer requests.
#[derive(Default)]
pub(super) struct Pulse(Mutex<Vec<Arc<AtomicU64>>>);

impl Pulse {
    /// The present thread gives a sign each second from now on.
    fn join(&self) {
        let signs = Arc::new(AtomicU64::new(0));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&signs));
        actix_web::rt::spawn(async move {
            loop {
                signs.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    }

    /// How many signs each thread has given.
    pub(super) fn signs(&self) -> Vec<u64> {
        let threads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().map(|signs| signs.load(Ordering::Relaxed)).collect()
    }
}

/// What every handler gets; the store has no file.
fn state(
    settings: &Settings,
    services: Services,
    links: LinkSettings,
    metrics: Arc<Metrics>,
    rate_limits: Arc<RateLimits>,
) -> HttpState {
    let issuer = services.identities.as_ref().map(|identities| Arc::clone(identities.issuer()));
    HttpState {
        services: Arc::new(services),
        params: ParamSettings {
            max_limit: settings.api.max_limit,
            max_bulk: settings.api.max_bulk,
            unknown: settings.api.unknown_parameters,
            limits: settings.query.limits(),
        },
        max_uri_bytes: settings.server.limits.max_uri_bytes,
        require_if_match: settings.api.require_if_match,
        links,
        metrics,
        counted: Arc::default(),
        file: None,
        has_page: settings.server.page,
        metrics_token: settings.metrics.token().cloned(),
        request_timeout: Duration::from_secs(settings.server.request_timeout_s),
        transfer_timeout: Duration::from_secs(settings.api.transfer_timeout_s),
        rate_limits,
        keys_under_way: KeysUnderWay::default(),
        written: Arc::new(WrittenCache::of_bytes(settings.server.json_mib.saturating_mul(1024 * 1024))),
        panics: Arc::new(Panics::default()),
        routes: routes::infos,
        description: described(issuer.clone(), openapi::text),
        older_description: described(issuer, openapi::text_for_3_1),
    }
}

/// A description that is made when it is first asked for.
fn described(issuer: Option<Arc<Issuer>>, text: fn(Option<&str>) -> Bytes) -> Arc<Description> {
    Arc::new(Description::new(Box::new(move || text(issuer.as_deref().map(|issuer| issuer.rules().issuer.as_str())))))
}

/// The listeners of the service, of a monitor and of MongoDB tools.
pub(super) fn listeners(
    settings: &Settings,
) -> Result<(TcpListener, Option<TcpListener>, Option<TcpListener>), StartError> {
    let monitored = Some(&settings.metrics.address).filter(|address| !address.is_empty());
    let monitor = monitored.map(|address| listen(address, "metrics.address")).transpose()?;
    let wire = settings.wire.address().map(|address| listen(address, "wire.address")).transpose()?;
    let address = settings.server.address();
    Ok((listen(&address, "server.port")?, monitor, wire))
}

/// How many connections may wait until they are accepted; the standard library says 128. Clients of a burst that is
/// larger wait for a second and more, as the system drops their packets.
const WAITING: i32 = 1024;

fn listen(address: &str, key: &'static str) -> Result<TcpListener, StartError> {
    let refused = |source| StartError::Listen { key, address: address.to_owned(), source };
    let listener = TcpListener::bind(address).map_err(refused)?;
    rustix::net::listen(&listener, WAITING).map_err(|error| refused(error.into()))?;
    Ok(listener)
}

/// Warns of a certificate that clients refuse, now or soon.
pub(super) fn warn_of_its_time(certificates: Option<&Certificates>, clock: &dyn Clock) {
    if let Some(concern) = certificates.and_then(|certificates| certificates.concern(clock.now())) {
        log::warn!("server.tls.certificate: {}", concern.text);
    }
}

/// Answers MongoDB tools on `listener`, in a task of its own.
fn serve_tools(
    listener: TcpListener,
    state: &HttpState,
    settings: &Settings,
    certificates: Option<&Arc<Certificates>>,
) -> io::Result<AbortHandle> {
    let parts = WireParts {
        services: Arc::clone(&state.services),
        database: settings.wire.database.clone(),
        query_limits: settings.query.limits(),
        limits: settings.server.limits.clone(),
        rate_limits: Arc::clone(&state.rate_limits),
        command_timeout: state.request_timeout,
        tls: certificates.map(Certificates::plain_config).transpose().map_err(io::Error::other)?,
    };
    let tls = if parts.tls.is_some() { "/?tls=true" } else { "" };
    log::info!("wire: listening on mongodb://{}{tls}", listener.local_addr()?);
    let task = tokio::spawn(async move {
        if let Err(error) = wire::serve(listener, parts).await {
            log::error!("wire: the listener for MongoDB tools ended: {error}");
        }
    });
    Ok(task.abort_handle())
}
