//! The settings of the edge: limits of connections, requests and clients, TLS, other origins, webhooks, and the listener
//! for MongoDB tools.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;

use super::{SettingsError, StoreUri, invalid, networks, positive};

/// The HTTP parser holds the whole head of a request in this many bytes, which is fixed.
const LARGEST_HEAD: usize = 128 * 1024;

/// With fewer bytes no client could sign in.
const LEAST_HEAD: usize = 256;

/// The longest URI that the HTTP parser takes.
const LONGEST_URI: usize = 65_534;

/// `server.limits.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitSettings {
    /// The maximum number of connections at a time; more wait until one ends.
    pub max_connections: usize,
    /// Longest path and query of a request in bytes, as sent; over it the answer is 414.
    pub max_uri_bytes: usize,
    /// The maximum number of bytes in the names and values of a request's headers; over it the answer is 431.
    pub max_header_bytes: usize,
    /// How long the head of a request may take, in milliseconds.
    pub head_timeout_ms: u64,
    /// How long the body of a request may take, in milliseconds; over it the answer is 408.
    pub body_timeout_ms: u64,
    /// How long a client may take nothing of an answer that waits for it, in milliseconds.
    pub write_timeout_ms: u64,
    /// How long a connection may wait for its next request, in milliseconds.
    pub keep_alive_ms: u64,
}

/// `server.compression.*`
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompressionSettings {
    /// Whether answers are compressed for clients that take it.
    pub enabled: bool,
    /// Answers of fewer bytes are sent as they are.
    pub min_bytes: usize,
}

/// `server.tls.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// File with the certificate and those that lead to its authority, PEM; empty: no TLS.
    pub certificate: String,
    /// File with the private key, PEM.
    pub key: String,
    /// How long browsers remember to use TLS only, in seconds; 0: the header is not sent.
    pub hsts_max_age_s: u64,
}

/// Where certificate and key lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// `server.cors.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CorsSettings {
    /// Origins whose pages may use the interface, separated by commas; `*`: all; empty: none but the service's own.
    pub allowed_origins: String,
    /// Headers that these pages may send, separated by commas; `*`: all.
    pub allowed_headers: String,
    /// How long a browser may remember a permission, in seconds.
    pub max_age_s: usize,
}

/// `server.rate_limit.*`
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimitSettings {
    /// Requests a minute of one user; 0: no limit.
    pub user_per_minute: u32,
    /// How many of them may come at once; 0: those of a minute.
    pub user_burst: u32,
    /// Requests a minute from one address, with or without a user; 0: no limit.
    pub address_per_minute: u32,
    /// How many of them may come at once; 0: those of a minute.
    pub address_burst: u32,
    /// How many users, and how many addresses, are remembered one by one.
    pub max_keys: usize,
}

/// A pace that a client is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The number of requests a minute.
    pub per_minute: NonZeroU32,
    /// The maximum number of them at once.
    pub burst: NonZeroU32,
}

impl LimitSettings {
    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        positive("server.limits.max_connections", self.max_connections as u64)?;
        positive("server.limits.head_timeout_ms", self.head_timeout_ms)?;
        positive("server.limits.body_timeout_ms", self.body_timeout_ms)?;
        positive("server.limits.write_timeout_ms", self.write_timeout_ms)?;
        positive("server.limits.keep_alive_ms", self.keep_alive_ms)?;
        within("server.limits.max_uri_bytes", self.max_uri_bytes, LONGEST_URI)?;
        within("server.limits.max_header_bytes", self.max_header_bytes, LARGEST_HEAD)
    }

    /// See [`LimitSettings::head_timeout_ms`].
    pub fn head_timeout(&self) -> Duration {
        Duration::from_millis(self.head_timeout_ms)
    }

    /// See [`LimitSettings::body_timeout_ms`].
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// See [`LimitSettings::write_timeout_ms`].
    pub fn write_timeout(&self) -> Duration {
        Duration::from_millis(self.write_timeout_ms)
    }

    /// See [`LimitSettings::keep_alive_ms`].
    pub fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.keep_alive_ms)
    }
}

impl TlsSettings {
    /// The files, if the service is to use TLS.
    ///
    /// # Errors
    /// When one of the two is missing.
    pub fn files(&self) -> Result<Option<TlsFiles>, SettingsError> {
        match (self.certificate.as_str(), self.key.as_str()) {
            ("", "") => Ok(None),
            ("", _) => Err(invalid("server.tls.certificate", "is needed, because server.tls.key is given")),
            (_, "") => Err(invalid("server.tls.key", "is needed, because server.tls.certificate is given")),
            (certificate, key) => Ok(Some(TlsFiles { certificate: certificate.into(), key: key.into() })),
        }
    }
}

impl CorsSettings {
    /// The origins one by one.
    ///
    /// # Errors
    /// When one of them is no origin: a scheme, a host and perhaps a port, without a path.
    pub fn origins(&self) -> Result<Vec<String>, SettingsError> {
        let names = self.allowed_origins.split(',').map(str::trim).filter(|name| !name.is_empty());
        let origins: Vec<String> = names.map(str::to_owned).collect();
        match origins.iter().find(|origin| origin.as_str() != "*" && !is_origin(origin)) {
            None => Ok(origins),
            Some(wrong) => {
                let message =
                    format!("{wrong} is no origin; write for instance https://app.example.org, without a path");
                Err(invalid("server.cors.allowed_origins", &message))
            }
        }
    }
}

impl CorsSettings {
    /// The names of the headers; nothing for all.
    ///
    /// # Errors
    /// When one of them cannot be the name of a header.
    pub fn headers(&self) -> Result<Option<Vec<String>>, SettingsError> {
        let names = self.allowed_headers.split(',').map(str::trim).filter(|name| !name.is_empty());
        let names: Vec<String> = names.map(str::to_ascii_lowercase).collect();
        match names.iter().find(|name| !name.bytes().all(is_of_token)) {
            Some(wrong) => {
                let message = format!("{wrong} is no name of a header; write names with commas between them, or *");
                Err(invalid("server.cors.allowed_headers", &message))
            }
            None if names.iter().any(|name| name == "*") => Ok(None),
            None => Ok(Some(names)),
        }
    }
}

/// Whether a byte may occur in the name of a header (RFC 9110, section 5.6.2).
fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

impl RateLimitSettings {
    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        positive("server.rate_limit.max_keys", self.max_keys as u64)?;
        if self.user_burst > 0 && self.user_per_minute == 0 {
            return Err(without_pace("server.rate_limit.user_per_minute", "server.rate_limit.user_burst"));
        }
        if self.address_burst > 0 && self.address_per_minute == 0 {
            return Err(without_pace("server.rate_limit.address_per_minute", "server.rate_limit.address_burst"));
        }
        Ok(())
    }

    /// What one user is held to.
    pub fn user(&self) -> Option<Pace> {
        pace(self.user_per_minute, self.user_burst)
    }

    /// What one address is held to.
    pub fn address(&self) -> Option<Pace> {
        pace(self.address_per_minute, self.address_burst)
    }
}

fn without_pace(key: &'static str, burst: &str) -> SettingsError {
    invalid(key, &format!("is needed, because {burst} is given"))
}

fn pace(per_minute: u32, burst: u32) -> Option<Pace> {
    let per_minute = NonZeroU32::new(per_minute)?;
    Some(Pace { per_minute, burst: NonZeroU32::new(burst).unwrap_or(per_minute) })
}

/// As browsers send it: lower case, no slash at the end.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
    };
    host.is_some_and(|host| !host.is_empty() && host.bytes().all(plain))
}

fn within(key: &'static str, value: usize, most: usize) -> Result<(), SettingsError> {
    if (LEAST_HEAD..=most).contains(&value) {
        return Ok(());
    }
    Err(invalid(key, &format!("must be between {LEAST_HEAD} and {most}")))
}

/// `webhooks.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// Networks that webhooks may go to in addition to the public addresses, separated by commas.
    pub allowed_networks: String,
    /// How long a receiver may take to answer, in milliseconds.
    pub timeout_ms: u64,
    /// File with certificates of the authorities that receivers are checked with; empty: the public ones.
    pub ca_certificates: String,
}

/// A shorter time would be over before a connection is there.
const SHORTEST_MS: u64 = 100;
/// A receiver that takes longer should take the message and work later.
const LONGEST_MS: u64 = 30_000;

impl WebhookSettings {
    /// How long a receiver may take to answer.
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.timeout_ms)
    }

    /// The networks that webhooks may go to; an address is a network of one.
    ///
    /// # Errors
    /// When one of them is neither.
    pub fn networks(&self) -> Result<Vec<IpNet>, SettingsError> {
        networks("webhooks.allowed_networks", &self.allowed_networks)
    }

    pub(super) fn validate(&self) -> Result<(), SettingsError> {
        self.networks()?;
        if !(SHORTEST_MS..=LONGEST_MS).contains(&self.timeout_ms) {
            let message = format!("must be from {SHORTEST_MS} to {LONGEST_MS}");
            return Err(invalid("webhooks.timeout_ms", &message));
        }
        Ok(())
    }
}

/// `wire.*`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WireSettings {
    /// Host and port; empty: no listener.
    pub address: String,
    /// The name of the database that tools see.
    pub database: String,
}

/// Names that tools use for databases of the server's own.
pub(super) const RESERVED: [&str; 3] = ["admin", "config", "local"];

/// The longest name of a database in MongoDB.
const LONGEST: usize = 63;

impl WireSettings {
    /// Where to listen, if anywhere.
    pub fn address(&self) -> Option<&str> {
        Some(self.address.as_str()).filter(|address| !address.is_empty())
    }

    pub(super) fn validate(&self, store: &StoreUri, is_encrypted: bool) -> Result<(), SettingsError> {
        let name = &self.database;
        let is_wrong = |letter: char| letter.is_whitespace() || "/\\.\"$*<>:|?\0".contains(letter);
        if name.is_empty() || name.len() > LONGEST || name.contains(is_wrong) || RESERVED.contains(&name.as_str()) {
            let message = "must be a name of a MongoDB database, of 1 to 63 bytes, and not admin, config or local";
            return Err(invalid("wire.database", message));
        }
        let Some(address) = self.address() else { return Ok(()) };
        if matches!(store, StoreUri::MongoDb(_)) {
            let message = "is for the embedded store alone; with store.uri at MongoDB, tools connect to that server";
            return Err(invalid("wire.address", message));
        }
        let Some((host, _)) = address.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()) else {
            return Err(invalid("wire.address", "must be an address and a port, for instance 127.0.0.1:27017"));
        };
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let is_here = host == "localhost" || ip.is_ok_and(|ip| ip.to_canonical().is_loopback());
        if !is_here && !is_encrypted {
            let message = "reaches beyond this machine, which needs TLS; set server.tls.certificate and server.tls.key, \
                           or use 127.0.0.1";
            return Err(invalid("wire.address", message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Settings;

    fn refused(key: &str, value: &str) -> String {
        Settings::defaults(&[(key, value)]).expect_err("the setting must be refused").to_string()
    }

    #[test]
    fn a_refusal_names_the_key_and_what_to_write() {
        assert_eq!(
            refused("server.limits.max_uri_bytes", "0"),
            "server.limits.max_uri_bytes: must be between 256 and 65534"
        );
        assert_eq!(
            refused("server.tls.certificate", "cert.pem"),
            "server.tls.key: is needed, because server.tls.certificate is given"
        );
        for wrong in ["app.example.org", "https://app.example.org/", "https://", "https://App.example.org"] {
            assert!(refused("server.cors.allowed_origins", wrong).contains("is no origin"), "{wrong}");
        }
        for wrong in ["X Own", "Accept; Pragma", "X-Größe"] {
            assert!(refused("server.cors.allowed_headers", wrong).contains("is no name of a header"), "{wrong}");
        }
    }

    #[test]
    fn origins_are_a_list() {
        let listed = "https://a.example, http://localhost:3000";
        let settings = Settings::defaults(&[("server.cors.allowed_origins", listed)]).expect("valid settings");
        assert_eq!(settings.server.cors.origins().expect("origins"), ["https://a.example", "http://localhost:3000"]);
        let none = Settings::defaults(&[]).expect("valid settings").server.cors.origins();
        assert!(none.expect("no origins").is_empty());
    }

    #[test]
    fn a_burst_that_is_not_given_is_the_requests_of_a_minute() {
        let settings = Settings::defaults(&[("server.rate_limit.user_per_minute", "30")]).expect("valid settings");
        let pace = settings.server.rate_limit.user().expect("a pace");
        assert_eq!((pace.per_minute.get(), pace.burst.get()), (30, 30));
        assert_eq!(settings.server.rate_limit.address(), None);
    }

    fn refused_pairs(pairs: &[(&str, &str)]) -> String {
        Settings::defaults(pairs).expect_err("the setting must be refused").to_string()
    }

    #[test]
    fn an_address_beyond_this_machine_needs_tls() {
        for outside in ["0.0.0.0:27017", "[::]:27017", "inventory.example.org:27017", "192.0.2.1:0"] {
            assert!(refused_pairs(&[("wire.address", outside)]).contains("needs TLS"), "{outside}");
            let tls = [("server.tls.certificate", "a.pem"), ("server.tls.key", "b.pem"), ("wire.address", outside)];
            assert!(Settings::defaults(&tls).is_ok(), "{outside}");
        }
        for inside in ["127.0.0.1:27017", "[::1]:27017", "localhost:0", "127.0.0.2:1", ""] {
            assert!(Settings::defaults(&[("wire.address", inside)]).is_ok(), "{inside}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_pairs() {
        for wrong in ["127.0.0.1", "27017", "127.0.0.1:", "127.0.0.1:70000"] {
            assert!(refused_pairs(&[("wire.address", wrong)]).contains("an address and a port"), "{wrong}");
        }
    }

    #[test]
    fn a_store_on_mongodb_has_its_own_server_for_tools() {
        let pairs = [("store.uri", "mongodb://127.0.0.1/inventory"), ("wire.address", "127.0.0.1:27017")];
        assert!(refused_pairs(&pairs).contains("tools connect to that server"));
    }

    #[test]
    fn a_name_of_a_database_is_one_in_mongodb() {
        for wrong in ["", "admin", "a b", "a.b", "a$b", &"x".repeat(64)] {
            assert!(refused_pairs(&[("wire.database", wrong)]).contains("wire.database"), "{wrong}");
        }
    }
}
