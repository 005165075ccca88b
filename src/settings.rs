//! The settings: typed sections, their sources, and their checks.
//!
//! Later sources win: compiled-in `config/base.toml`, `config/base.toml` and `config/<environment>.toml` in the working
//! directory (the environment is named by `INVENTORY_ENVIRONMENT`), variables `INVENTORY__SECTION__KEY`, flags. A
//! secret can also be in a file that `<key>_file` names. An unknown key is an error in every source.

mod edge;
mod most;
pub mod reference;
mod sources;

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::ConfigError;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use self::sources::Layer;
use crate::admission::Bounds;
use crate::auth::{AuthSettings, Secret};
use crate::logging::Format;
use crate::query::Limits;
use crate::store::embedded::Options;
use crate::store::mongo::MongoOptions;

pub use self::edge::{
    CompressionSettings, CorsSettings, LimitSettings, Pace, RateLimitSettings, TlsFiles, TlsSettings, WebhookSettings,
    WireSettings,
};

/// The file that is compiled in, so that the binary alone starts.
const BASE: &str = include_str!("../config/base.toml");

/// All settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The HTTP side.
    pub server: ServerSettings,
    /// Where the data is.
    pub store: StoreSettings,
    /// Where MongoDB tools read the embedded store.
    pub wire: WireSettings,
    /// How long changes are kept.
    pub history: HistorySettings,
    /// Where webhooks may go.
    pub webhooks: WebhookSettings,
    /// Who may come in.
    pub auth: AuthSettings,
    /// What the REST interface allows.
    pub api: ApiSettings,
    /// What a filter may cost.
    pub query: QuerySettings,
    /// What all requests may take together.
    pub admission: AdmissionSettings,
    /// What is logged.
    pub log: LogSettings,
    /// What a monitor can ask.
    pub metrics: MetricsSettings,
    /// The files that were read, and those that were looked for.
    #[serde(skip)]
    pub files: SettingsFiles,
}

/// Files of settings, with their full paths.
#[derive(Debug, Clone, Default)]
pub struct SettingsFiles {
    /// Those that were read, the last of which wins.
    pub read: Vec<PathBuf>,
    /// Those that are not there.
    pub missing: Vec<PathBuf>,
}

impl fmt::Display for SettingsFiles {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |files: &[PathBuf], word: &str| {
            let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            names.join(word)
        };
        if self.read.is_empty() {
            write!(formatter, "no settings file was read, there is no {}", list(&self.missing, " and no "))
        } else {
            write!(formatter, "read from {}", list(&self.read, " and "))
        }
    }
}

/// `server.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerSettings {
    /// Address to listen on.
    pub host: String,
    /// Port to listen on; 0 picks a free one.
    pub port: u16,
    /// Threads that answer requests; 0: one a core.
    pub workers: usize,
    /// Largest request body in bytes.
    pub max_body_bytes: usize,
    /// Time budget of a request as a whole, in seconds.
    pub request_timeout_s: u64,
    /// Whether there is a page for people under `/ui/`.
    pub page: bool,
    /// Memory for JSON of objects that lists show again and again, in MiB; 0: none.
    pub json_mib: usize,
    /// Addresses and networks (`10.0.0.0/8`) of proxies with trusted `Forwarded` and `X-Forwarded-*` headers, separated
    /// by commas.
    pub trusted_proxies: String,
    /// What a connection and a request may cost.
    pub limits: LimitSettings,
    /// When answers are compressed.
    pub compression: CompressionSettings,
    /// Certificate and key.
    pub tls: TlsSettings,
    /// Pages of which other origins may use the interface.
    pub cors: CorsSettings,
    /// How many requests one client may send.
    pub rate_limit: RateLimitSettings,
}

/// `store.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSettings {
    /// `embedded:<directory>`, or a `mongodb://` or `mongodb+srv://` URI with the database in its path.
    /// It may hold a password.
    pub uri: Secret,
    /// How long the start waits for a MongoDB server that does not answer, in seconds.
    pub start_wait_s: u64,
    /// Memory for pages of the embedded store, in MiB.
    pub cache_mib: usize,
    /// How long to wait for a MongoDB server, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long a majority of MongoDB servers may take to confirm a write, in milliseconds.
    pub write_timeout_ms: u64,
    /// The maximum number of connections to MongoDB.
    pub max_connections: u32,
    /// Connections to MongoDB that are kept open.
    pub min_connections: u32,
    /// Whether DATAGERRY may share the database: what `api.compatibility` says.
    #[serde(skip)]
    pub leads_datagerry: bool,
}

/// `api.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiSettings {
    /// The largest `limit` of a list.
    pub max_limit: u64,
    /// The maximum number of objects that one request writes.
    pub max_bulk: u64,
    /// Largest body of a request that writes many objects, in bytes.
    pub max_bulk_body_bytes: usize,
    /// Largest file that an import takes, in bytes.
    pub max_import_bytes: usize,
    /// Time budget of an export until its first byte and of an import as a whole, in seconds.
    pub transfer_timeout_s: u64,
    /// Scheme, host and path prefix for absolute URLs; empty: those of the request.
    pub base_url: String,
    /// Whether changes of one resource need `If-Match`.
    pub require_if_match: bool,
    /// `refuse` or `ignore` query parameters that a route does not know.
    pub unknown_parameters: UnknownParameters,
    /// Whose clients are answered in their way.
    pub compatibility: Compatibility,
}

/// Another service whose clients are answered in their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Compatibility {
    /// None: the interface is as its description says.
    None,
    /// DATAGERRY 1.7.
    Datagerry17,
}

/// The `limit` that clients of DATAGERRY send for everything.
const DATAGERRY_LIMIT: u64 = 100_000;

impl TryFrom<String> for Compatibility {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        match name.as_str() {
            "none" => Ok(Self::None),
            "datagerry-1.7" => Ok(Self::Datagerry17),
            _ => Err("none or datagerry-1.7"),
        }
    }
}

/// What happens to a query parameter that a route does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum UnknownParameters {
    /// 400 naming it and the nearest known one.
    Refuse,
    /// It has no effect.
    Ignore,
}

impl TryFrom<String> for UnknownParameters {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        match name.as_str() {
            "refuse" => Ok(Self::Refuse),
            "ignore" => Ok(Self::Ignore),
            _ => Err("refuse or ignore"),
        }
    }
}

/// `query.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuerySettings {
    /// Time budget of one query, in milliseconds.
    pub max_time_ms: u64,
    /// How deep a filter may nest.
    pub max_depth: usize,
    /// How many conditions and values a filter may have.
    pub max_nodes: usize,
    /// How many items `$in`, `$nin` and `$all` may have.
    pub max_in_items: usize,
    /// How long a regular expression may be, in characters.
    pub max_regex_chars: usize,
}

/// `admission.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionSettings {
    /// Memory for what requests compute, sort and wait with, in MiB.
    pub memory_mib: usize,
    /// How much work of requests runs at a time; 0: one a core, two at least, and eight at least on MongoDB.
    pub at_once: usize,
    /// How long a request waits for its first turn, in milliseconds.
    pub wait_ms: u64,
}

/// `log.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogSettings {
    /// A filter in `env_logger`'s notation, for instance `info` or `info,inventory_service=debug`.
    pub level: String,
    /// `text` or `json`.
    pub format: Format,
}

/// `metrics.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricsSettings {
    /// Where `/metrics` is answered to everybody, for instance `127.0.0.1:9090`; empty: nowhere.
    pub address: String,
    /// With this token `/metrics` is answered on the address of the service, too; empty: it is not.
    pub token: Secret,
}

/// With less, not even one query has enough memory.
const LEAST_ADMISSION_MIB: usize = 64;
/// More threads than this do not help any machine.
const MOST_AT_ONCE: usize = 512;

/// A token that could be guessed protects nothing.
const SHORTEST_METRICS_TOKEN: usize = 16;

impl LogSettings {
    /// A misspelt level would read as the name of a module, and the log would be silent.
    fn validate(&self) -> Result<(), SettingsError> {
        let directives = self.level.split('/').next().unwrap_or_default().split(',').map(str::trim);
        let is_level = |name: &str| name.parse::<log::LevelFilter>().is_ok();
        for directive in directives {
            let level = directive.split_once('=').map_or(directive, |(_, level)| level.trim());
            if !is_level(level) {
                let message = format!("{level:?} is no level; write error, warn, info, debug, trace or off");
                return Err(invalid("log.level", &message));
            }
        }
        Ok(())
    }
}

impl MetricsSettings {
    /// The token, if there is one.
    pub fn token(&self) -> Option<&Secret> {
        Some(&self.token).filter(|token| !token.expose().is_empty())
    }

    fn validate(&self) -> Result<(), SettingsError> {
        if self.token().is_some_and(|token| token.expose().len() < SHORTEST_METRICS_TOKEN) {
            return Err(invalid("metrics.token", "must have at least 16 characters, or be empty"));
        }
        Ok(())
    }
}

/// Where a store URI leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUri {
    /// The embedded store in this directory.
    Embedded(PathBuf),
    /// A MongoDB deployment.
    MongoDb(String),
}

/// Settings that cannot be used, with the key and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file or a variable cannot be read as settings.
    #[error("the settings cannot be read: {0}")]
    Unreadable(#[from] ConfigError),
    /// Keys that do not exist, and files of secrets that cannot be read: a sentence each.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// A value is out of its range.
    #[error("{key}: {message}")]
    Invalid {
        /// The key, for instance `api.max_limit`.
        key: &'static str,
        /// What it has to be.
        message: String,
    },
}

/// What the command line sets, over everything else.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Pairs of a key and a value, for instance `("server.port", "0")`.
    pub values: Vec<(String, String)>,
}

impl Settings {
    /// Reads the settings of a process: files below `directory`, the environment, then `overrides`.
    ///
    /// # Errors
    /// When a source cannot be read, a key is unknown, or a value is out of its range.
    pub fn load(directory: &Path, overrides: &Overrides) -> Result<Self, SettingsError> {
        Self::from_sources(directory, &variables(), overrides)
    }

    /// The same with these variables instead of the process's own.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn from_sources(
        directory: &Path,
        variables: &[(String, String)],
        overrides: &Overrides,
    ) -> Result<Self, SettingsError> {
        let environment = variables.iter().find(|(name, _)| name == sources::ENVIRONMENT);
        let environment = environment.filter(|(_, value)| !value.is_empty());
        let named = environment.map(|(_, value)| format!("config/{value}.toml"));
        if let Some(missing) = named.as_ref().filter(|file| !directory.join(file).is_file()) {
            let message = format!("{} asks for {missing}, which is not there", sources::ENVIRONMENT);
            return Err(SettingsError::Refused(vec![message]));
        }
        let chosen = named.unwrap_or_else(|| "config/local.toml".to_owned());
        let (mut layers, mut files) = (vec![Layer::defaults()?], SettingsFiles::default());
        for file in ["config/base.toml", &chosen].map(|name| directory.join(name)) {
            let layer = Layer::file(&file)?;
            let list = if layer.is_some() { &mut files.read } else { &mut files.missing };
            list.push(in_full(&file));
            layers.extend(layer);
        }
        layers.push(Layer::variables(variables));
        layers.push(Layer::pairs(overrides.values.iter().map(|(key, value)| (key.as_str(), value.as_str()))));
        Ok(Self { files, ..Self::finish(layers, sources::misspelt(variables))? })
    }

    /// The compiled-in defaults with `overrides`; the environment has no part in it.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn defaults(overrides: &[(&str, &str)]) -> Result<Self, SettingsError> {
        Self::finish(vec![Layer::defaults()?, Layer::pairs(overrides.iter().copied())], Vec::new())
    }

    fn finish(layers: Vec<Layer>, problems: Vec<String>) -> Result<Self, SettingsError> {
        let merged = sources::merge(layers, problems)?;
        let settings: Self = merged.config.clone().try_deserialize().map_err(|error| merged.explained(error))?;
        settings.validate().map_err(|error| merged.located(error))?;
        Ok(settings.with_compatibility())
    }

    /// The settings with those that `api.compatibility` implies.
    fn with_compatibility(mut self) -> Self {
        if self.api.compatibility == Compatibility::Datagerry17 {
            self.auth.basic = true;
            self.store.leads_datagerry = true;
            self.api.max_limit = self.api.max_limit.max(DATAGERRY_LIMIT);
        }
        self
    }

    /// The largest body that any route takes, in bytes.
    pub fn largest_body(&self) -> usize {
        self.server.max_body_bytes.max(self.api.max_bulk_body_bytes).max(self.api.max_import_bytes)
    }

    /// Each address is listened on once.
    fn addresses(&self) -> Result<(), SettingsError> {
        let mut taken = vec![("server.port", self.server.address())];
        let further = [
            ("metrics.address", &self.metrics.address, "127.0.0.1:9090"),
            ("wire.address", &self.wire.address, "127.0.0.1:27017"),
        ];
        for (key, address, instance) in further {
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            if address.is_empty() || port == Some(0) {
                continue;
            }
            if port.is_none() {
                return Err(invalid(key, &format!("must be an address and a port, for instance {instance}")));
            }
            if let Some((other, _)) = taken.iter().find(|(_, other)| other == address) {
                return Err(invalid(key, &format!("is the address of {other} too; give one of them another port")));
            }
            taken.push((key, address.clone()));
        }
        Ok(())
    }

    fn validate(&self) -> Result<(), SettingsError> {
        positive("api.max_limit", self.api.max_limit)?;
        positive("api.max_bulk", self.api.max_bulk)?;
        positive("api.max_bulk_body_bytes", self.api.max_bulk_body_bytes as u64)?;
        positive("api.max_import_bytes", self.api.max_import_bytes as u64)?;
        positive("api.transfer_timeout_s", self.api.transfer_timeout_s)?;
        positive("query.max_time_ms", self.query.max_time_ms)?;
        positive("query.max_depth", self.query.max_depth as u64)?;
        positive("query.max_nodes", self.query.max_nodes as u64)?;
        positive("query.max_in_items", self.query.max_in_items as u64)?;
        positive("query.max_regex_chars", self.query.max_regex_chars as u64)?;
        positive("server.max_body_bytes", self.server.max_body_bytes as u64)?;
        positive("server.request_timeout_s", self.server.request_timeout_s)?;
        if self.store.max_connections < 2 {
            return Err(invalid(
                "store.max_connections", "must be at least 2, because the stream of changes holds one",
            ));
        }
        positive("store.connect_timeout_ms", self.store.connect_timeout_ms)?;
        positive("store.write_timeout_ms", self.store.write_timeout_ms)?;
        most::validate(self)?;
        let base_url = &self.api.base_url;
        if !(base_url.is_empty() || base_url.starts_with("http://") || base_url.starts_with("https://")) {
            return Err(invalid("api.base_url", "must start with http:// or https://, or be empty"));
        }
        if base_url.contains(['?', '#']) {
            return Err(invalid(
                "api.base_url",
                "must end with its path, as paths are put behind it; leave out ? and #",
            ));
        }
        self.store.location()?;
        self.server.proxies()?;
        self.metrics.validate()?;
        self.addresses()?;
        self.admission.validate()?;
        self.log.validate()?;
        self.server.limits.validate()?;
        let is_encrypted = self.server.tls.files()?.is_some();
        self.wire.validate(&self.store.location()?, is_encrypted)?;
        self.history.validate()?;
        self.webhooks.validate()?;
        self.server.cors.origins()?;
        self.server.cors.headers()?;
        self.server.rate_limit.validate()?;
        self.auth.validate().map_err(|error| SettingsError::Invalid { key: error.key, message: error.message })
    }
}

impl StoreSettings {
    /// How to open an embedded store.
    pub fn embedded_options(&self) -> Options {
        Options { cache_bytes: self.cache_mib.saturating_mul(1024 * 1024), ..Options::default() }
    }

    /// How to reach a MongoDB deployment.
    pub fn mongo_options(&self) -> MongoOptions {
        MongoOptions {
            connect_timeout: Duration::from_millis(self.connect_timeout_ms),
            server_selection_timeout: Duration::from_millis(self.connect_timeout_ms),
            write_timeout: Duration::from_millis(self.write_timeout_ms),
            min_pool_size: self.min_connections,
            max_pool_size: self.max_connections,
            leads_datagerry: self.leads_datagerry,
            ..MongoOptions::default()
        }
    }

    /// Reads `store.uri`.
    ///
    /// # Errors
    /// When it is neither of the two kinds.
    pub fn location(&self) -> Result<StoreUri, SettingsError> {
        let uri = self.uri.expose();
        if let Some(directory) = uri.strip_prefix("embedded:") {
            if directory.is_empty() {
                return Err(invalid("store.uri", "names no directory; write for instance embedded:data"));
            }
            return Ok(StoreUri::Embedded(PathBuf::from(directory)));
        }
        if let Some(rest) = uri.strip_prefix("mongodb://").or_else(|| uri.strip_prefix("mongodb+srv://")) {
            return match database_in(rest) {
                Some(name) if edge::RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) => {
                    let message = format!(
                        "names the database {name}, which is MongoDB's own; name another one, for instance /inventory, \
                         and where {name} was meant as the place of users, append ?authSource={name}"
                    );
                    Err(invalid("store.uri", &message))
                }
                _ => Ok(StoreUri::MongoDb(uri.to_owned())),
            };
        }
        Err(invalid("store.uri", "must start with embedded:, mongodb:// or mongodb+srv://"))
    }
}

impl ServerSettings {
    /// Where the service listens: host and port.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The networks in `server.trusted_proxies`; an address is a network of one.
    ///
    /// # Errors
    /// When one of them is neither.
    pub fn proxies(&self) -> Result<Vec<IpNet>, SettingsError> {
        networks("server.trusted_proxies", &self.trusted_proxies)
    }
}

impl AdmissionSettings {
    /// The bounds of the governor, for a store in this process or a remote one.
    pub fn bounds(&self, is_remote: bool) -> Bounds {
        Bounds {
            memory: self.memory_mib.saturating_mul(1024 * 1024),
            at_once: if self.at_once == 0 { Bounds::at_once_here(is_remote) } else { self.at_once },
            wait: Duration::from_millis(self.wait_ms),
        }
    }

    fn validate(&self) -> Result<(), SettingsError> {
        if self.memory_mib < LEAST_ADMISSION_MIB {
            return Err(invalid("admission.memory_mib", "must be at least 64: one query may need as much"));
        }
        if self.at_once > MOST_AT_ONCE {
            return Err(invalid("admission.at_once", "must be at most 512, or 0 for one a core"));
        }
        positive("admission.wait_ms", self.wait_ms)
    }
}

impl QuerySettings {
    /// The bounds for filters of clients.
    pub fn limits(&self) -> Limits {
        Limits {
            max_depth: self.max_depth,
            max_nodes: self.max_nodes,
            max_in_items: self.max_in_items,
            max_regex_chars: self.max_regex_chars,
            ..Limits::default()
        }
    }

    /// The time budget of one query.
    pub fn max_time(&self) -> Duration {
        Duration::from_millis(self.max_time_ms)
    }
}

/// The path from the root on, for people who may be in another directory.
pub fn in_full(path: &Path) -> PathBuf {
    let full = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    full.components().collect()
}

/// The variables of the process that belong to the service and are text.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
fn variables() -> Vec<(String, String)> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    std::env::vars_os().filter_map(text).filter(|(name, _)| name.starts_with("INVENTORY")).collect()
}

/// The database in the path of a MongoDB URI without its scheme.
fn database_in(rest: &str) -> Option<String> {
    let servers_and_path = rest.split('?').next()?.rsplit('@').next()?;
    let (_, path) = servers_and_path.split_once('/')?;
    Some(percent_decode_str(path).decode_utf8_lossy().into_owned())
}

/// The networks in a list with commas; an address is a network of one.
fn networks(key: &'static str, list: &str) -> Result<Vec<IpNet>, SettingsError> {
    let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
    let network = |name: &str| name.parse().or_else(|_| name.parse::<IpAddr>().map(IpNet::from));
    names
        .map(|name| {
            let message = format!("{name} is neither an IP address nor a network such as 10.0.0.0/8");
            network(name).map_err(|_| invalid(key, &message))
        })
        .collect()
}

fn positive(key: &'static str, value: u64) -> Result<(), SettingsError> {
    if value == 0 { Err(invalid(key, "must be at least 1")) } else { Ok(()) }
}

fn invalid(key: &'static str, message: &str) -> SettingsError {
    SettingsError::Invalid { key, message: message.to_owned() }
}

/// `history.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistorySettings {
    /// For how many days changes are kept; 0: forever.
    pub keep_days: u32,
}

/// A hundred years.
const MOST_DAYS: u32 = 36_500;

impl HistorySettings {
    fn validate(&self) -> Result<(), SettingsError> {
        if self.keep_days > MOST_DAYS {
            return Err(invalid("history.keep_days", "must be a number of days up to 36500, or 0 for ever"));
        }
        Ok(())
    }
}
