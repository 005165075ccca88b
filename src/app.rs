//! Assembles the parts and runs them; the only file that names both stores.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix_web::dev::Server;
use actix_web::middleware::{Condition, from_fn};
use actix_web::web::Bytes;
use actix_web::{App, web};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::{AbortHandle, LocalSet};

use crate::admission::Admission;
use crate::auth::{PasswordError, Passwords};
use crate::clock::{Clock, SystemClock};
use crate::http::compat;
use crate::http::edge::cors::{CorsPolicy, plain_answers};
use crate::http::edge::gate::{Gate, gate};
use crate::http::edge::headers::strict_transport;
use crate::http::edge::server;
use crate::http::edge::tls::{Certificates, TlsError};
use crate::http::limits::{BodyLimits, KeysUnderWay, Panics};
use crate::http::links::LinkSettings;
use crate::http::metrics;
use crate::http::openapi;
use crate::http::outermost::{Outermost, no_such_path, outermost};
use crate::http::params::ParamSettings;
use crate::http::routes::{self, Routes};
use crate::http::state::{Description, HttpState};
use crate::http::written::WrittenCache;
use crate::metrics::Metrics;
use crate::moving::control::Control;
use crate::oidc::Issuer;
use crate::outgoing::{Networks, Sender};
use crate::plural::counted;
use crate::rate_limits::RateLimits;
use crate::service::accounts::directory::Directory;
use crate::service::accounts::first_start::{FirstAdmin, FirstStart, PASSWORD_FILE};
use crate::service::accounts::identities::Identities;
use crate::service::accounts::{AccountError, AccountParts, Accounts};
use crate::service::accounts::{sign_on, user_settings};
use crate::service::history::kept;
use crate::service::history::prune::prune;
use crate::service::history::recorder::Recorder;
use crate::service::objects::companions::Companions;
use crate::service::types::catalog;
use crate::service::upkeep::migrations::{self, MigrationError};
use crate::service::webhooks::parts::Parts;
use crate::service::webhooks::worker;
use crate::service::{ServiceError, Services};
use crate::settings::{Compatibility, Settings, SettingsError, StoreSettings, StoreUri, in_full};
use crate::store::embedded::{EmbeddedStore, OpenError, Options, has_store};
use crate::store::mongo::MongoStore;
use crate::store::{Copying, FileStore, Measured, Store, StoreError, collections};
use crate::wire::{self, WireParts};

/// Between the first attempts to reach a store.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Between later ones.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The first requests come before old changes are removed.
const BEFORE_PRUNING: Duration = Duration::from_mins(1);
const DAY: Duration = Duration::from_hours(24);

/// How long the end of the service waits for requests to webhooks that are under way.
const LAST_DELIVERIES: Duration = Duration::from_secs(10);

/// A service that is ready to answer.
pub struct Application {
    state: web::Data<HttpState>,
    gate: Arc<Gate>,
    outermost: Arc<Outermost>,
    bodies: web::Data<BodyLimits>,
    settings: Settings,
    listener: TcpListener,
    monitor: Option<TcpListener>,
    wire: Option<TcpListener>,
    certificates: Option<Arc<Certificates>>,
    file: Option<Arc<dyn FileStore>>,
    cors: Arc<CorsPolicy>,
    first_admin: Option<FirstAdmin>,
    routes: fn() -> Routes,
}

/// Why a service could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Passwords cannot be hashed with these settings.
    #[error("auth.argon2: {0}")]
    Passwords(#[from] PasswordError),
    /// The store cannot be opened.
    #[error("the store {uri} cannot be opened: {source}")]
    Store {
        /// `store.uri`, without a password.
        uri: String,
        /// Why not.
        source: StoreError,
    },
    /// There is nothing to read.
    #[error("there is no store in {0}; the first start of the service makes one, or see store.uri")]
    NoStore(String),
    /// The embedded store cannot be opened.
    #[error(transparent)]
    Embedded(#[from] OpenError),
    /// Its documents are not migrated to this version.
    #[error(transparent)]
    Migrations(#[from] MigrationError),
    /// The first users could not be made.
    #[error(transparent)]
    Accounts(#[from] AccountError),
    /// Certificate and key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; {}", to_listen(.source, .key))]
    Listen {
        /// The setting that names it.
        key: &'static str,
        /// Host and port.
        address: String,
        /// What the system says.
        source: io::Error,
    },
}

impl StartError {
    /// Names the store in which an error happened.
    fn at<E: Into<Self>>(settings: &StoreSettings) -> impl FnOnce(E) -> Self {
        |error| match error.into() {
            Self::Migrations(MigrationError::Store(source)) | Self::Accounts(AccountError::Store(source)) => {
                Self::Store { uri: without_password(settings), source }
            }
            other => other,
        }
    }

    /// Whether the store is unavailable and may come back.
    fn may_pass(&self) -> bool {
        let store = match self {
            Self::Store { source, .. } => source,
            Self::Accounts(AccountError::Store(source)) => source,
            Self::Migrations(MigrationError::Store(source) | MigrationError::Failed { source, .. }) => source,
            _ => return false,
        };
        matches!(store, StoreError::Unavailable { .. } | StoreError::NoRoom { .. } | StoreError::Timeout)
    }
}

/// The pauses between attempts to reach a store: each longer than the one before, all within a bound.
struct Patience {
    until: Instant,
    pause: Duration,
}

impl Patience {
    fn new(bound: Duration) -> Self {
        Self { until: Instant::now() + bound, pause: FIRST_PAUSE }
    }

    /// How long to wait before the next attempt; nothing when the time is over.
    fn next(&mut self) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        (!left.is_zero()).then_some(pause)
    }
}

impl Application {
    /// Opens the store and prepares to listen. Waits up to `store.start_wait_s` for an unavailable store.
    ///
    /// # Errors
    /// [`StartError`], with the remedy.
    pub async fn build(settings: Settings) -> Result<Self, StartError> {
        look(&settings)?;
        let mut patience = Patience::new(Duration::from_secs(settings.store.start_wait_s));
        loop {
            let attempt = match open(&settings.store).await {
                Ok(Opened { store, file }) => {
                    Self::with_store(settings.clone(), store, file, Arc::new(SystemClock)).await
                }
                Err(error) => Err(error),
            };
            match attempt {
                Err(error) if error.may_pass() => {
                    let Some(pause) = patience.next() else { return Err(error) };
                    log::warn!("{error}; trying again");
                    tokio::time::sleep(pause).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// The same with any store and clock; `file` is the store's file, if it has one.
    ///
    /// # Errors
    /// As [`Application::build`].
    pub async fn with_store(
        settings: Settings,
        store: Arc<dyn Store>,
        file: Option<Arc<dyn FileStore>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new());
        if let Some(file) = &file {
            file.report_to(&metrics);
        }
        let store = Measured::around(store, Arc::clone(&metrics));
        let (services, first_admin) = build_services(&settings, store, clock).await?;
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
            hsts: certificates.as_ref().and_then(|_| strict_transport(settings.server.tls.hsts_max_age_s)),
        });
        let issuer = services.identities.as_ref().map(|identities| Arc::clone(identities.issuer()));
        if let Some(identities) = &services.identities {
            let missing =
                sign_on::missing_groups(&*services.store, identities.issuer().rules(), services.max_time).await;
            for name in
                missing.map_err(|source| StartError::Store { uri: without_password(&settings.store), source })?
            {
                log::warn!("auth.oidc: {}", sign_on::missing_group(&name));
            }
            identities.issuer().get_ready();
        }
        let bodies = web::Data::new(BodyLimits::new(&settings));
        let state = web::Data::new(HttpState {
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
            file: file.clone(),
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
        });
        let routes = if is_compatible(&settings) { compat::routes } else { routes::all };
        Ok(Self {
            state,
            gate,
            outermost,
            bodies,
            settings,
            listener,
            monitor,
            wire,
            certificates,
            file,
            cors,
            first_admin,
            routes,
        })
    }

    /// The same with other routes than [`routes::all`].
    #[must_use]
    pub fn with_routes(self, routes: fn() -> Routes) -> Self {
        Self { routes, ..self }
    }

    /// The address that is listened on.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The address on which `/metrics` is answered to everybody, if there is one.
    pub fn monitor_address(&self) -> Option<SocketAddr> {
        self.monitor.as_ref().and_then(|monitor| monitor.local_addr().ok())
    }

    /// The address on which MongoDB tools are answered, if there is one.
    pub fn wire_address(&self) -> Option<SocketAddr> {
        self.wire.as_ref().and_then(|wire| wire.local_addr().ok())
    }

    /// The first administrator, when this start made one.
    pub fn first_admin(&self) -> Option<&FirstAdmin> {
        self.first_admin.as_ref()
    }

    /// The use cases, for commands that work without HTTP.
    pub fn services(&self) -> &Arc<Services> {
        &self.state.services
    }

    /// Answers requests until SIGTERM or SIGINT; then finishes running requests, for at most 10 s.
    ///
    /// It logs `listening on http://HOST:PORT` (`https` with TLS) as soon as it accepts requests and signals. With TLS,
    /// SIGHUP reloads certificate and key; without TLS it does nothing.
    ///
    /// # Errors
    /// When the server cannot be started.
    pub async fn run(self) -> io::Result<()> {
        let address = self.address()?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        reload_on_hangup(self.certificates.clone(), Arc::clone(&self.state.services.clock))?;
        let _control = self.control();
        self.prune_daily();
        let webhooks = Deliverer::start(&self.state.services)?;
        let (feed, file) = (Arc::clone(&self.state.services.feed), self.file.clone());
        let (server, tools) = self.server()?;
        let handle = server.handle();
        let no_more_webhooks = webhooks.stop.clone();
        tokio::spawn(async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            log::info!("{name}: finishing what is under way");
            // Tools only read, and begin again.
            tools.inspect(AbortHandle::abort);
            feed.end();
            let _ = no_more_webhooks.send(true);
            handle.stop(true).await;
        });
        log::info!("listening on {scheme}://{address}");
        log::info!("the interface is described on {scheme}://{address}/docs/");
        let ended = server.await;
        webhooks.stop().await;
        // Tasks that were cut off may hold the store until the process has ended.
        let closing = tokio::task::spawn_blocking(move || file.inspect(|file| file.close()));
        ended.and(closing.await.map(drop).map_err(io::Error::other))
    }

    /// Removes old changes from the history as the settings say: soon after the start, and then once a day.
    fn prune_daily(&self) {
        let days = i64::from(self.settings.history.keep_days);
        if days == 0 {
            return;
        }
        let services = Arc::clone(&self.state.services);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(BEFORE_PRUNING).await;
                let limit = services.clock.now() - chrono::TimeDelta::days(days);
                let limit = bson::DateTime::from_chrono(limit);
                match prune(&*services.store, limit, services.max_time).await {
                    Ok(0) => {}
                    Ok(removed) => log::info!("history.keep_days: {} removed", counted(removed, "log line")),
                    Err(error) => log::warn!("old changes were not all removed: {error}"),
                }
                tokio::time::sleep(DAY).await;
            }
        });
    }

    /// Answers `inventory-service backup`, if there is a file to back up.
    fn control(&self) -> Option<Control> {
        let Ok(StoreUri::Embedded(directory)) = self.settings.store.location() else { return None };
        let started = Control::start(Arc::clone(self.file.as_ref()?), &directory);
        started
            .inspect_err(|error| {
                log::warn!("no backups while the service runs: the socket in {}: {error}", directory.display());
            })
            .ok()
    }

    /// The same without signals and log line, for a process with several services.
    ///
    /// # Errors
    /// As [`Application::run`].
    pub async fn run_without_signals(self) -> io::Result<()> {
        let webhooks = Deliverer::start(&self.state.services)?;
        let ended = self.server()?.0.await;
        webhooks.stop().await;
        ended
    }

    /// The server, and the task that answers MongoDB tools.
    fn server(self) -> io::Result<(Server, Option<AbortHandle>)> {
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
                .configure(|config| metrics::configure(config, &state))
                .default_service(web::to(no_such_path))
        };
        Ok((server::start(application, listener, &settings.server, tls)?, tools))
    }
}

/// The thread that delivers to webhooks; without this it ends after what is under way.
struct Deliverer {
    stop: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

impl Deliverer {
    fn start(services: &Arc<Services>) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let services = Arc::clone(services);
        std::thread::Builder::new().name("webhooks".to_owned()).spawn(move || {
            LocalSet::new().block_on(&runtime, worker::run(services, stopped));
            // Look-ups of names that hang do not hold up the end.
            runtime.shutdown_background();
            let _ = end.send(());
        })?;
        Ok(Self { stop, ended })
    }

    /// Waits for the end of what is under way, for at most 10 s.
    async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(LAST_DELIVERIES, &mut self.ended).await;
    }
}

impl Drop for Deliverer {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

/// A description that is made when it is first asked for.
fn described(issuer: Option<Arc<Issuer>>, text: fn(Option<&str>) -> Bytes) -> Arc<Description> {
    Arc::new(Description::new(Box::new(move || text(issuer.as_deref().map(|issuer| issuer.rules().issuer.as_str())))))
}

/// Whether clients of DATAGERRY are answered in their way.
fn is_compatible(settings: &Settings) -> bool {
    settings.api.compatibility == Compatibility::Datagerry17
}

/// What to do where an address cannot be listened on.
fn to_listen(source: &io::Error, key: &str) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => format!("is another instance running? set {key} to another one"),
        io::ErrorKind::PermissionDenied => format!("set {key} to a port from 1024 on"),
        _ => {
            let place = if key == "server.port" { "server.host" } else { key };
            format!("this machine has no such address; set {place} to another one")
        }
    }
}

/// Checks what a start needs apart from its store, so that a start that fails creates no store.
fn look(settings: &Settings) -> Result<(), StartError> {
    listeners(settings)?;
    settings.server.tls.files()?.map(Certificates::load).transpose()?;
    CorsPolicy::new(&settings.server.cors)?;
    webhook_sender(settings)?;
    Ok(())
}

/// The listeners of the service, of a monitor and of MongoDB tools.
fn listeners(settings: &Settings) -> Result<(TcpListener, Option<TcpListener>, Option<TcpListener>), StartError> {
    let monitored = Some(&settings.metrics.address).filter(|address| !address.is_empty());
    let monitor = monitored.map(|address| listen(address, "metrics.address")).transpose()?;
    let wire = settings.wire.address().map(|address| listen(address, "wire.address")).transpose()?;
    let address = settings.server.address();
    Ok((listen(&address, "server.port")?, monitor, wire))
}

fn listen(address: &str, key: &'static str) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).map_err(|source| StartError::Listen { key, address: address.to_owned(), source })
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

/// Reloads certificate and key at each SIGHUP; the old ones stay if the new ones are wrong. Without TLS the signal has
/// no effect, instead of ending the process.
fn reload_on_hangup(certificates: Option<Arc<Certificates>>, clock: Arc<dyn Clock>) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let Some(certificates) = certificates.clone() else {
                log::info!("SIGHUP: there is no certificate to read again");
                continue;
            };
            let reloaded = Arc::clone(&certificates);
            match tokio::task::spawn_blocking(move || reloaded.reload()).await {
                Ok(Ok(())) => {
                    log::info!("SIGHUP: new connections get the certificate that was read now");
                    warn_of_its_time(Some(&certificates), &*clock);
                }
                Ok(Err(error)) => log::error!("SIGHUP: the certificate in use stays: {error}"),
                Err(error) => log::error!("SIGHUP: the certificate in use stays: {error}"),
            }
        }
    });
    Ok(())
}

/// Warns of a certificate that clients refuse, now or soon.
fn warn_of_its_time(certificates: Option<&Certificates>, clock: &dyn Clock) {
    if let Some(concern) = certificates.and_then(|certificates| certificates.concern(clock.now())) {
        log::warn!("server.tls.certificate: {}", concern.text);
    }
}

/// The use cases on a store; creates the first administrator when nobody can sign in yet.
///
/// # Errors
/// As [`Application::build`].
pub async fn build_services(
    settings: &Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<(Services, Option<FirstAdmin>), StartError> {
    make_ready(settings, &*store, &*clock).await?;
    if is_compatible(settings) {
        adopt(settings, &*store).await?;
    }
    let first_admin = first_admin(settings, &*store, &*clock).await.map_err(StartError::at(&settings.store))?;
    Ok((services_on(settings, store, clock).await?, first_admin))
}

/// Takes over the settings of users that DATAGERRY stored.
async fn adopt(settings: &Settings, store: &dyn Store) -> Result<(), StartError> {
    let adopted = user_settings::adopt_settings(store, settings.query.max_time()).await.map_err(|error| {
        let source = match error {
            ServiceError::Store(source) => source,
            error => StoreError::backend(error),
        };
        StartError::Store { uri: without_password(&settings.store), source }
    })?;
    if adopted > 0 {
        log::info!("{} of users that DATAGERRY stored can be found here now", counted(adopted, "setting"));
    }
    Ok(())
}

/// Creates the first administrator when nobody can sign in yet.
async fn first_admin(
    settings: &Settings,
    store: &dyn Store,
    clock: &dyn Clock,
) -> Result<Option<FirstAdmin>, StartError> {
    let passwords = Passwords::new(&settings.auth)?;
    let directory_path = password_directory(settings)?;
    let first_start = FirstStart {
        store,
        passwords: &passwords,
        settings: &settings.auth,
        directory: &directory_path,
        now: clock.now(),
        max_time: settings.query.max_time(),
    };
    let first_admin = first_start.run().await?;
    announce(&first_start, first_admin.as_ref()).await?;
    Ok(first_admin)
}

/// Logs how to sign in: at once, because later steps may fail, and at each start while the file with the password exists.
async fn announce(first_start: &FirstStart<'_>, first_admin: Option<&FirstAdmin>) -> Result<(), StartError> {
    if let Some(FirstAdmin { user_name, password: Some(password), .. }) = first_admin {
        log::info!("first administrator: user {user_name} with password {}", password.expose());
    }
    let file = first_start.directory.join(PASSWORD_FILE);
    match first_start.is_password_of(&file).await? {
        Some(true) => log::info!("the password stands in {}; sign in, change it, remove the file", file.display()),
        Some(false) => log::info!(
            "{} holds another password than the user's; remove the file, unless another store wrote it there",
            file.display()
        ),
        None => {}
    }
    Ok(())
}

/// The use cases on a prepared store. If neither the store nor the settings have a key for tokens, they create one.
///
/// # Errors
/// As [`Application::build`].
pub async fn services_on(
    settings: &Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<Services, StartError> {
    let max_time = settings.query.max_time();
    let (store, feed) = Recorder::around(store, Arc::clone(&clock), max_time);
    let passwords = Passwords::new(&settings.auth)?;
    let directory = Arc::new(Directory::new(Arc::clone(&store), max_time));
    let parts = AccountParts {
        store: Arc::clone(&store),
        directory: Arc::clone(&directory),
        passwords,
        clock: Arc::clone(&clock),
        max_time,
    };
    let accounts = Accounts::open(parts, &settings.auth).await;
    let accounts = Arc::new(accounts.map_err(StartError::at(&settings.store))?);
    let issuer = issuer(settings, Arc::clone(&clock))?;
    let identities = issuer.map(|issuer| Arc::new(Identities::new(issuer, Arc::clone(&store), max_time)));
    let types = catalog::TypeCatalog::default();
    let companions = Arc::new(Companions::default());
    let admission = Admission::new(settings.admission.bounds(store.is_remote()));
    let webhooks = Arc::new(Parts::new(webhook_sender(settings)?, settings.query.limits()));
    Ok(Services {
        store,
        feed,
        types,
        companions,
        directory,
        accounts,
        identities,
        webhooks,
        admission,
        clock,
        max_time,
    })
}

/// What sends the messages of webhooks.
///
/// # Errors
/// A certificate authority cannot be read.
pub(crate) fn webhook_sender(settings: &Settings) -> Result<Sender, SettingsError> {
    let (networks, settings) = (Networks::new(settings.webhooks.networks()?), &settings.webhooks);
    Sender::new(networks, settings.timeout(), &settings.ca_certificates)
        .map_err(|error| SettingsError::Invalid { key: "webhooks.ca_certificates", message: error.to_string() })
}

/// The issuer of OpenID Connect that the settings name, if they do.
fn issuer(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Option<Arc<Issuer>>, StartError> {
    let settings = &settings.auth;
    let invalid = |key, message| SettingsError::Invalid { key, message };
    let rules = settings.oidc.rules().map_err(|error| invalid(error.key, error.message))?;
    let Some(rules) = rules else { return Ok(None) };
    let issuer = Issuer::new(rules, &settings.oidc, settings.token_cache, clock)
        .map_err(|error| invalid("auth.oidc.ca_certificates", error.to_string()))?;
    Ok(Some(issuer))
}

/// Prepares a store for every command: collections, indexes and migrations. It refuses a store of a newer version
/// before it changes anything, and a store into which another one is being copied.
///
/// # Errors
/// As [`Application::build`].
pub async fn make_ready(settings: &Settings, store: &dyn Store, clock: &dyn Clock) -> Result<(), StartError> {
    let known = migrations::require_known(store, migrations::ALL, settings.query.max_time()).await;
    known.map_err(StartError::at(&settings.store))?;
    let uri = without_password(&settings.store);
    store.prepare(collections::ALL).await.map_err(|source| StartError::Store { uri, source })?;
    let now = bson::DateTime::from_chrono(clock.now());
    let migrated = migrations::run(store, migrations::ALL, now, settings.query.max_time()).await;
    migrated.map_err(StartError::at(&settings.store))?;
    let uri = without_password(&settings.store);
    let begun = async {
        if let Some(warning) = kept::behind_entries(store, now, settings.query.max_time()).await? {
            log::warn!("{warning}");
        }
        kept::begin(store, now, settings.query.max_time()).await
    };
    begun.await.map_err(|source| StartError::Store { uri, source })
}

/// A store that is open.
pub struct Opened {
    /// The store.
    pub store: Arc<dyn Copying>,
    /// The same one, where it is a file.
    pub file: Option<Arc<dyn FileStore>>,
}

/// Opens the store that the settings name; creates an embedded one if there is none.
///
/// # Errors
/// [`StartError::Store`] with the error and the remedy.
pub async fn open(settings: &StoreSettings) -> Result<Opened, StartError> {
    let failed = |source| StartError::Store { uri: without_password(settings), source };
    match settings.location()? {
        StoreUri::Embedded(directory) => {
            let store = open_embedded(settings, directory, EmbeddedStore::open).await?;
            Ok(Opened { store: Arc::clone(&store) as Arc<dyn Copying>, file: Some(store) })
        }
        StoreUri::MongoDb(uri) => {
            let store = MongoStore::connect(&uri, settings.mongo_options()).await.map_err(failed)?;
            Ok(Opened { store: Arc::new(store), file: None })
        }
    }
}

/// The same for commands, which need only the store.
///
/// # Errors
/// As [`open`].
pub async fn open_store(settings: &StoreSettings) -> Result<Arc<dyn Copying>, StartError> {
    Ok(open(settings).await?.store)
}

/// Opens an embedded store in a thread that may block.
async fn open_embedded(
    settings: &StoreSettings,
    directory: PathBuf,
    open: fn(&Path, &Options) -> Result<EmbeddedStore, OpenError>,
) -> Result<Arc<EmbeddedStore>, StartError> {
    let options = settings.embedded_options();
    match tokio::task::spawn_blocking(move || open(&directory, &options)).await {
        Ok(opened) => Ok(Arc::new(opened?)),
        Err(error) => {
            let uri = without_password(settings);
            Err(StartError::Store { uri, source: StoreError::backend(error) })
        }
    }
}

/// Opens the store that the settings name for changes; creates none.
///
/// # Errors
/// As [`open_store`]; when there is no store, or its documents are not migrated to this version.
pub async fn open_existing(settings: &Settings) -> Result<Arc<dyn Copying>, StartError> {
    let store = match settings.store.location()? {
        StoreUri::Embedded(directory) if !has_store(&directory)? => return Err(OpenError::NoStore(directory).into()),
        StoreUri::Embedded(_) => open_store(&settings.store).await?,
        StoreUri::MongoDb(_) => open_aside(&settings.store).await?,
    };
    let done = migrations::require_done(&*store, migrations::ALL, settings.query.max_time()).await;
    done.map_err(StartError::at(&settings.store))?;
    Ok(store)
}

/// Opens the store that the settings name for reading. An embedded store is opened in an overlay: its file does not
/// change, and writes stay in memory.
///
/// # Errors
/// As [`open_store`]; when there is no store.
pub async fn open_aside(settings: &StoreSettings) -> Result<Arc<dyn Copying>, StartError> {
    let failed = |source| StartError::Store { uri: without_password(settings), source };
    match settings.location()? {
        StoreUri::Embedded(directory) => Ok(open_embedded(settings, directory, EmbeddedStore::open_aside).await?),
        StoreUri::MongoDb(uri) => {
            let store = MongoStore::connect(&uri, settings.mongo_options()).await.map_err(failed)?;
            if store.has_any(collections::ALL).await.map_err(failed)? {
                Ok(Arc::new(store))
            } else {
                Err(StartError::NoStore(without_password(settings)))
            }
        }
    }
}

/// The same for commands that need documents of this version. Missing indexes of an embedded store are created in
/// memory; on MongoDB they stay missing.
///
/// # Errors
/// As [`open_aside`]; when the documents are not migrated to this version.
pub async fn open_to_read(settings: &Settings) -> Result<Arc<dyn Copying>, StartError> {
    let store = open_aside(&settings.store).await?;
    let done = migrations::require_done(&*store, migrations::ALL, settings.query.max_time()).await;
    done.map_err(StartError::at(&settings.store))?;
    if matches!(settings.store.location()?, StoreUri::Embedded(_)) {
        let failed = |source| StartError::Store { uri: without_password(&settings.store), source };
        store.prepare(collections::ALL).await.map_err(failed)?;
    }
    Ok(store)
}

/// Refuses a store that `migrate` began to fill and did not complete. Other faults of a store are reported elsewhere.
///
/// # Errors
/// [`MigrationError::Incomplete`], with the store.
pub async fn require_whole(settings: &Settings) -> Result<(), StartError> {
    let Ok(store) = open_aside(&settings.store).await else { return Ok(()) };
    match migrations::require_known(&*store, migrations::ALL, settings.query.max_time()).await {
        Err(half @ migrations::MigrationError::Incomplete(_)) => Err(StartError::at(&settings.store)(half)),
        _ => Ok(()),
    }
}

/// Where a made-up first password is written.
///
/// # Errors
/// When `store.uri` is not one.
pub fn password_directory(settings: &Settings) -> Result<PathBuf, SettingsError> {
    let chosen = &settings.auth.initial_admin_password_directory;
    if !chosen.is_empty() {
        return Ok(PathBuf::from(chosen));
    }
    Ok(match settings.store.location()? {
        StoreUri::Embedded(directory) => directory,
        StoreUri::MongoDb(_) => Path::new(".").to_owned(),
    })
}

/// `store.uri` without the part between `//` and `@`.
pub fn without_password(settings: &StoreSettings) -> String {
    // Options can be secret, too.
    let uri = settings.uri.expose().split('?').next().unwrap_or_default();
    match (uri.split_once("://"), uri.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        _ => uri.to_owned(),
    }
}

/// `store.uri` without a password, and with the full path of a directory.
pub fn full_name(settings: &StoreSettings) -> String {
    match settings.location() {
        Ok(StoreUri::Embedded(directory)) => format!("embedded:{}", in_full(&directory).display()),
        _ => without_password(settings),
    }
}
