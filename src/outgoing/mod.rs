//! Requests of the service to other machines: what all of them have in common, and those to addresses that callers name.
//!
//! [`config()`] has the rules of every request. [`Sender`] alone sends requests to addresses that callers name: only to
//! public addresses, and to those of networks that the operator names.

mod networks;
mod sender;

use std::io;
use std::sync::Arc;

use ureq::Agent;
use ureq::config::ConfigBuilder;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::AgentScope;

pub use self::networks::Networks;
pub use self::sender::{Message, Outcome, Sender};

/// The maximum number of bytes of the head of an answer.
const MOST_HEAD_BYTES: usize = 16 * 1024;

/// Why certificates of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file holds no certificate.
    #[error("{0} has no certificate in PEM")]
    Empty(String),
}

/// The rules of every request: no redirects, no proxy, a short head, and certificates that one of `roots` signed.
pub fn config(roots: RootCerts) -> ConfigBuilder<AgentScope> {
    let tls = TlsConfig::builder()
        .root_certs(roots)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .build();
    Agent::config_builder()
        .tls_config(tls)
        // The environment is no source of settings.
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .max_response_header_size(MOST_HEAD_BYTES)
        // Requests are rare: a kept connection would only be found closed.
        .max_idle_connections(0)
        .user_agent("inventory-service")
}

/// The authorities in a file of certificates; an empty path: the public ones.
///
/// # Errors
/// When the file cannot be read, or has no certificate.
pub fn roots(path: &str) -> Result<RootCerts, CertificatesError> {
    if path.is_empty() {
        return Ok(RootCerts::WebPki);
    }
    let text = std::fs::read(path).map_err(|source| CertificatesError::Unreadable { path: path.to_owned(), source })?;
    let found: Vec<Certificate<'static>> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if found.is_empty() { Err(CertificatesError::Empty(path.to_owned())) } else { Ok(RootCerts::from(found)) }
}
