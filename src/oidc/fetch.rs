//! Asks the issuer for its keys, within bounds of time and size.

use std::io;
use std::time::{Duration, Instant};

use serde::Deserialize;
use ureq::Agent;
use ureq::http::header;
use url::Url;

use crate::auth::oidc::{IssuerKeys, KeysError, may_be_asked};
use crate::outgoing::{self, CertificatesError};

/// The time for both documents together.
const TIME: Duration = Duration::from_secs(5);
/// The maximum number of bytes of each document.
const MOST_BYTES: u64 = 256 * 1024;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The issuer did not answer.
    #[error("{url}: {source}")]
    Unanswered {
        url: String,
        #[source]
        source: Box<ureq::Error>,
    },
    /// The issuer answered something else than a document.
    #[error("{url}: the answer has status {status}{}", if matches!(.status, 300..400) { "; redirects are not followed" } else { "" })]
    Status { url: String, status: u16 },
    /// The answer is not a document about an issuer.
    #[error("{url}: the answer is no JSON object with issuer and jwks_uri")]
    NoDiscovery { url: String },
    /// It is about another issuer.
    #[error("{url}: the answer is about the issuer {named:?}; auth.oidc.issuer has to be the same text")]
    OtherIssuer { url: String, named: String },
    /// The keys must not come from there.
    #[error("{url}: jwks_uri {place:?} has to start with https://")]
    Place { url: String, place: String },
    /// What came is no set of keys.
    #[error("{url}: {source}")]
    Keys {
        url: String,
        #[source]
        source: KeysError,
    },
    /// The time is over.
    #[error("the issuer took longer than {} s", TIME.as_secs())]
    Late,
    /// The machine has no thread for it.
    #[error("no thread can be started: {0}")]
    NoThread(io::Error),
}

/// Keys that were just fetched.
pub(super) struct Fetched {
    pub(super) keys: IssuerKeys,
    /// As they came.
    pub(super) text: Vec<u8>,
}

/// What the document about an issuer says (OpenID Connect Discovery).
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    jwks_uri: String,
}

/// Asks one issuer.
pub(super) struct Fetcher {
    agent: Agent,
    issuer: String,
}

impl Fetcher {
    /// For this issuer, whose certificate is checked with those in the file; an empty path: with the public ones.
    pub(super) fn new(issuer: &str, ca_certificates: &str) -> Result<Self, CertificatesError> {
        let config =
            outgoing::config(outgoing::roots(ca_certificates)?).https_only(issuer.starts_with("https:")).build();
        Ok(Self { agent: config.new_agent(), issuer: issuer.to_owned() })
    }

    /// The keys of the issuer. Blocks.
    pub(super) fn fetch(&self) -> Result<Fetched, FetchError> {
        let until = Instant::now() + TIME;
        let url = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let text = self.get(&url, until)?;
        let Ok(Discovery { issuer, jwks_uri }) = serde_json::from_slice(&text) else {
            return Err(FetchError::NoDiscovery { url });
        };
        if issuer != self.issuer {
            return Err(FetchError::OtherIssuer { url, named: issuer.chars().take(200).collect() });
        }
        let is_allowed =
            |place: &Url| may_be_asked(place) && (place.scheme() == "https" || self.issuer.starts_with("http:"));
        if !Url::parse(&jwks_uri).is_ok_and(|place| is_allowed(&place)) {
            return Err(FetchError::Place { url, place: jwks_uri.chars().take(200).collect() });
        }
        let text = self.get(&jwks_uri, until)?;
        let keys = IssuerKeys::read(&text).map_err(|source| FetchError::Keys { url: jwks_uri, source })?;
        Ok(Fetched { keys, text })
    }

    fn get(&self, url: &str, until: Instant) -> Result<Vec<u8>, FetchError> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(FetchError::Late);
        }
        let failed = |source| match source {
            ureq::Error::Timeout(_) => FetchError::Late,
            source => FetchError::Unanswered { url: url.to_owned(), source: Box::new(source) },
        };
        let request = self.agent.get(url).header(header::ACCEPT, "application/json");
        let mut response = request.config().timeout_global(Some(left)).build().call().map_err(failed)?;
        if response.status() != 200 {
            return Err(FetchError::Status { url: url.to_owned(), status: response.status().as_u16() });
        }
        response.body_mut().with_config().limit(MOST_BYTES).read_to_vec().map_err(failed)
    }
}
