//! Assembles the parts and runs them.
//!
//! [`stores`] opens the store that the settings name, and is the only file that names both kinds. [`start`] prepares it
//! and makes the use cases on it. [`serve`] answers requests until the end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use actix_web::web;

use crate::auth::PasswordError;
use crate::http::edge::cors::CorsPolicy;
use crate::http::edge::gate::Gate;
use crate::http::edge::tls::{Certificates, TlsError};
use crate::http::limits::BodyLimits;
use crate::http::outermost::Outermost;
use crate::http::routes::Routes;
use crate::http::state::HttpState;
use crate::service::Services;
use crate::service::accounts::AccountError;
use crate::service::accounts::first_start::FirstAdmin;
use crate::service::upkeep::migrations::MigrationError;
use crate::settings::{Compatibility, Settings, SettingsError, StoreSettings};
use crate::store::embedded::OpenError;
use crate::store::{FileStore, StoreError};

mod http;
mod serve;
mod start;
mod stores;

pub(crate) use start::webhook_sender;
pub use start::{build_services, password_directory, services_on};
pub use stores::{
    Opened, full_name, make_ready, open, open_aside, open_existing, open_store, open_to_read, replace_views,
    require_whole, without_password,
};

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
    pulse: Arc<http::Pulse>,
}

impl Application {
    /// The same with other routes than [`routes::all`](crate::http::routes::all).
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
}

/// Whether clients of DATAGERRY are answered in their way.
fn is_compatible(settings: &Settings) -> bool {
    settings.api.compatibility == Compatibility::Datagerry17
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
    /// Names the store that failed.
    fn of_store(settings: &StoreSettings) -> impl Fn(StoreError) -> Self {
        |source| Self::Store { uri: without_password(settings), source }
    }

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
