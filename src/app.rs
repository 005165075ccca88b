//! Puts the parts together and runs them; the only file that names both stores.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_web::dev::Server;
use actix_web::middleware::from_fn;
use actix_web::{App, web};
use tokio::signal::unix::{SignalKind, signal};

use crate::auth::{PasswordError, Passwords};
use crate::clock::{Clock, SystemClock};
use crate::http::body::BodyLimits;
use crate::http::edge::cors::CorsPolicy;
use crate::http::edge::gate::{HeadLimits, gate};
use crate::http::edge::headers::strict_transport;
use crate::http::edge::panics::Panics;
use crate::http::edge::rate_limit::RateLimits;
use crate::http::edge::server;
use crate::http::edge::tls::{Certificates, TlsError};
use crate::http::links::LinkSettings;
use crate::http::outermost::{no_such_path, outermost};
use crate::http::params::ParamSettings;
use crate::http::routes;
use crate::http::state::HttpState;
use crate::service::accounts::{AccountError, AccountParts, Accounts};
use crate::service::directory::Directory;
use crate::service::first_start::{FirstAdmin, FirstStart};
use crate::service::{Services, type_catalog};
use crate::settings::{Settings, SettingsError, StoreSettings, StoreUri};
use crate::store::embedded::{EmbeddedStore, OpenError};
use crate::store::mongo::MongoStore;
use crate::store::{Store, StoreError, collections};

/// A service that is ready to answer.
pub struct Application {
    state: web::Data<HttpState>,
    settings: Settings,
    listener: TcpListener,
    certificates: Option<Arc<Certificates>>,
    cors: CorsPolicy,
    first_admin: Option<FirstAdmin>,
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
    /// The embedded store cannot be opened.
    #[error(transparent)]
    Embedded(#[from] OpenError),
    /// The first users could not be made.
    #[error(transparent)]
    Accounts(#[from] AccountError),
    /// Certificate and key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; is another instance running? set server.port to another one")]
    Listen {
        /// Host and port.
        address: String,
        /// What the system says.
        source: io::Error,
    },
}

impl Application {
    /// Opens the store and gets ready to listen.
    ///
    /// # Errors
    /// [`StartError`], with the remedy.
    pub async fn build(settings: Settings) -> Result<Self, StartError> {
        let store = open_store(&settings.store).await?;
        Self::with_store(settings, store, Arc::new(SystemClock)).await
    }

    /// The same with any store and clock.
    ///
    /// # Errors
    /// As [`Application::build`].
    pub async fn with_store(
        settings: Settings,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let (services, first_admin) = build_services(&settings, store, clock).await?;
        let address = format!("{}:{}", settings.server.host, settings.server.port);
        let certificates = settings.server.tls.files()?.map(Certificates::load).transpose()?;
        let cors = CorsPolicy::new(&settings.server.cors)?;
        let listener =
            TcpListener::bind(&address).map_err(|source| StartError::Listen { address: address.clone(), source })?;
        let state = web::Data::new(HttpState {
            services: Arc::new(services),
            params: ParamSettings {
                max_limit: settings.api.max_limit,
                unknown: settings.api.unknown_parameters,
                limits: settings.query.limits(),
            },
            links: LinkSettings {
                base_url: settings.api.base_url.clone(),
                trusted_proxies: settings.server.proxies()?,
                tls: certificates.is_some(),
                address,
            },
            head_limits: HeadLimits {
                uri_bytes: settings.server.limits.max_uri_bytes,
                header_bytes: settings.server.limits.max_header_bytes,
            },
            bodies: BodyLimits {
                max_bytes: settings.server.max_body_bytes,
                timeout: settings.server.limits.body_timeout(),
            },
            rate_limits: RateLimits::new(&settings.server.rate_limit),
            compression: settings.server.compression,
            hsts: certificates.as_ref().and_then(|_| strict_transport(settings.server.tls.hsts_max_age_s)),
            panics: Panics::default(),
        });
        Ok(Self { state, settings, listener, certificates, cors, first_admin })
    }

    /// The address that is listened on.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The first administrator, when this start made one.
    pub fn first_admin(&self) -> Option<&FirstAdmin> {
        self.first_admin.as_ref()
    }

    /// The use cases, for commands that work without HTTP.
    pub fn services(&self) -> &Arc<Services> {
        &self.state.services
    }

    /// Answers requests until SIGTERM or SIGINT; then finishes what is under way, for 10 s at most.
    ///
    /// The line `listening on http://HOST:PORT` (`https` with TLS) is logged once requests and signals are heard. With
    /// TLS, SIGHUP reads certificate and key again.
    ///
    /// # Errors
    /// When the server cannot be started.
    pub async fn run(self) -> io::Result<()> {
        let address = self.address()?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        if let Some(certificates) = self.certificates.clone() {
            reload_on_hangup(certificates)?;
        }
        let server = self.server()?;
        let handle = server.handle();
        tokio::spawn(async move {
            let name = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            log::info!("{name}: finishing what is under way");
            handle.stop(true).await;
        });
        log::info!("listening on {scheme}://{address}");
        server.await
    }

    /// The same without an ear for signals and without a log line, for a process that has more than one service in it.
    ///
    /// # Errors
    /// As [`Application::run`].
    pub async fn run_without_signals(self) -> io::Result<()> {
        self.server()?.await
    }

    fn server(self) -> io::Result<Server> {
        let Self { state, settings, listener, certificates, cors, .. } = self;
        let tls =
            certificates.map(|certificates| certificates.server_config()).transpose().map_err(io::Error::other)?;
        let application = move || {
            App::new()
                .app_data(state.clone())
                .wrap(from_fn(gate))
                .wrap(cors.layer())
                .wrap(from_fn(outermost))
                .configure(|config| routes::all().configure(config))
                .default_service(web::to(no_such_path))
        };
        server::start(application, listener, &settings.server, tls)
    }
}

/// Reads certificate and key again with each SIGHUP; the old ones stay when the new ones are no good.
fn reload_on_hangup(certificates: Arc<Certificates>) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let certificates = Arc::clone(&certificates);
            match tokio::task::spawn_blocking(move || certificates.reload()).await {
                Ok(Ok(())) => log::info!("SIGHUP: new connections get the certificate that was read now"),
                Ok(Err(error)) => log::error!("SIGHUP: the certificate in use stays: {error}"),
                Err(error) => log::error!("SIGHUP: the certificate in use stays: {error}"),
            }
        }
    });
    Ok(())
}

/// The use cases on a store; makes the first administrator when nobody can sign in yet.
///
/// # Errors
/// As [`Application::build`].
pub async fn build_services(
    settings: &Settings,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> Result<(Services, Option<FirstAdmin>), StartError> {
    let uri = without_password(settings.store.uri.expose());
    store.prepare(collections::ALL).await.map_err(|source| StartError::Store { uri, source })?;
    let max_time = settings.query.max_time();
    let passwords = Passwords::new(&settings.auth)?;
    let directory_path = password_directory(&settings.store)?;
    let first_start = FirstStart {
        store: &*store,
        passwords: &passwords,
        settings: &settings.auth,
        directory: &directory_path,
        now: clock.now(),
        max_time,
    };
    let first_admin = first_start.run().await?;
    let directory = Arc::new(Directory::new(Arc::clone(&store), max_time));
    let parts = AccountParts {
        store: Arc::clone(&store),
        directory: Arc::clone(&directory),
        passwords,
        clock: Arc::clone(&clock),
        max_time,
    };
    let accounts = Accounts::open(parts, &settings.auth).await?;
    let types = type_catalog::TypeCatalog::default();
    Ok((Services { store, types, directory, accounts, clock, max_time }, first_admin))
}

/// Opens the store that the settings name.
///
/// # Errors
/// [`StartError::Store`] with what is wrong and what to do.
pub async fn open_store(settings: &StoreSettings) -> Result<Arc<dyn Store>, StartError> {
    let failed = |source| StartError::Store { uri: without_password(settings.uri.expose()), source };
    match settings.location()? {
        StoreUri::Embedded(directory) => {
            let options = settings.embedded_options();
            let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&directory, &options)).await;
            Ok(Arc::new(opened.map_err(|error| failed(StoreError::backend(error)))??))
        }
        StoreUri::MongoDb(uri) => {
            Ok(Arc::new(MongoStore::connect(&uri, settings.mongo_options()).await.map_err(failed)?))
        }
    }
}

fn password_directory(settings: &StoreSettings) -> Result<PathBuf, SettingsError> {
    Ok(match settings.location()? {
        StoreUri::Embedded(directory) => directory,
        StoreUri::MongoDb(_) => Path::new(".").to_owned(),
    })
}

/// A store URI without what stands between `//` and `@`.
fn without_password(uri: &str) -> String {
    match (uri.split_once("://"), uri.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://***@{rest}"),
        _ => uri.to_owned(),
    }
}
