//! Sends messages to addresses that callers name.
//!
//! *Invariant:* a request goes to an address that was checked. The name of the host is looked up once for each request.
//! Every address of it is checked, and the connection goes to one of them. There are no redirects.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use ureq::Agent;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use url::{Host, Url};

use super::{CertificatesError, Networks, config, roots};

/// A message.
#[derive(Debug, Clone)]
pub struct Message {
    /// Where it goes.
    pub url: Url,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body, JSON.
    pub body: Vec<u8>,
}

/// What came of a message. Nothing of the answer but its status is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver answered with this status.
    Answered(u16),
    /// The host has no address, or one that may not be asked. Deliberately indistinguishable.
    NoAddress,
    /// No connection came about, or it ended early.
    Unreachable,
    /// The certificate is not the host's, or no trusted authority has signed it.
    Untrusted,
    /// The time is over.
    Late,
    /// The answer is no HTTP, or its head is too long.
    Unreadable,
}

impl Outcome {
    /// Whether the receiver has the message.
    pub fn is_delivered(self) -> bool {
        matches!(self, Self::Answered(200..300))
    }

    /// The status of the answer.
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Answered(status) => Some(status),
            _ => None,
        }
    }

    /// In a few words, which disclose nothing that the receiver sent.
    pub fn words(self) -> &'static str {
        match self {
            Self::Answered(200..300) => "delivered",
            Self::Answered(300..400) => "redirects are not followed",
            Self::Answered(_) => "the receiver refused it",
            Self::NoAddress => {
                "the name of the host has no address, or none that may be asked: http:// reaches only webhooks.allowed_networks, \
                 https:// public addresses too"
            }
            Self::Unreachable => "no connection, or it ended early",
            Self::Untrusted => "the receiver speaks no TLS, or its certificate is not trusted",
            Self::Late => "no answer within webhooks.timeout_ms",
            Self::Unreadable => "the answer is no HTTP",
        }
    }
}

/// Sends messages. A thread of its own carries each request, so a slow receiver holds up nothing else.
#[derive(Debug, Clone)]
pub struct Sender {
    agent: Agent,
    networks: Arc<Networks>,
}

impl Sender {
    /// Sends to public addresses and to these networks; a request as a whole may take `timeout`. The file has the
    /// authorities for certificates of receivers; an empty path: the public ones.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn new(networks: Networks, timeout: Duration, ca_certificates: &str) -> Result<Self, CertificatesError> {
        let networks = Arc::new(networks);
        Self::with(networks, timeout, ca_certificates, DefaultResolver::default())
    }

    fn with(
        networks: Arc<Networks>,
        timeout: Duration,
        ca_certificates: &str,
        names: impl Resolver,
    ) -> Result<Self, CertificatesError> {
        let config = config(roots(ca_certificates)?).timeout_global(Some(timeout)).build();
        let checked = Checked { names, networks: Arc::clone(&networks) };
        Ok(Self { agent: Agent::with_parts(config, DefaultConnector::default(), checked), networks })
    }

    /// Whether the URL names an address itself, and one that may not be asked.
    pub fn refuses(&self, url: &Url) -> bool {
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::from(address),
            Some(Host::Ipv6(address)) => IpAddr::from(address),
            _ => return false,
        };
        !self.networks.allow(address, url.scheme() == "https")
    }

    /// Whether a URL without TLS can reach nothing at all.
    pub fn sends_nothing_plain(&self, url: &Url) -> bool {
        url.scheme() != "https" && self.networks.is_empty()
    }

    /// Sends a message.
    pub async fn send(&self, message: Message) -> Outcome {
        let (told, outcome) = oneshot::channel();
        let agent = self.agent.clone();
        let started = thread::Builder::new().name("webhook".to_owned()).spawn(move || {
            // Nobody waits any more when the service ends.
            let _ = told.send(sent(&agent, &message));
        });
        if let Err(error) = started {
            log::warn!("webhooks: no thread can be started: {error}");
            return Outcome::Unreachable;
        }
        outcome.await.unwrap_or(Outcome::Unreachable)
    }
}

fn sent(agent: &Agent, message: &Message) -> Outcome {
    let mut request = agent.post(message.url.as_str());
    for (name, value) in &message.headers {
        request = request.header(*name, value);
    }
    match request.send(&message.body[..]) {
        Ok(answer) => Outcome::Answered(answer.status().as_u16()),
        Err(error) => failure(&error),
    }
}

fn failure(error: &ureq::Error) -> Outcome {
    match error {
        ureq::Error::HostNotFound => Outcome::NoAddress,
        ureq::Error::Timeout(_) => Outcome::Late,
        ureq::Error::Tls(_) | ureq::Error::Rustls(_) => Outcome::Untrusted,
        ureq::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut => Outcome::Late,
        ureq::Error::Io(error)
            if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>) =>
        {
            Outcome::Untrusted
        }
        ureq::Error::Protocol(_) | ureq::Error::LargeResponseHeader(..) => Outcome::Unreadable,
        _ => Outcome::Unreachable,
    }
}

/// Looks names up, and refuses hosts with an address that may not be asked. The connection goes to what it gives.
#[derive(Debug)]
struct Checked<R> {
    names: R,
    networks: Arc<Networks>,
}

impl<R: Resolver> Resolver for Checked<R> {
    fn resolve(
        &self,
        uri: &Uri,
        config: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.names.resolve(uri, config, timeout).map_err(|error| match error {
            ureq::Error::Timeout(reason) => ureq::Error::Timeout(reason),
            // Whether a name exists inside is not disclosed.
            _ => ureq::Error::HostNotFound,
        })?;
        let is_encrypted = uri.scheme_str() == Some("https");
        let is_refused = |address: &&SocketAddr| !self.networks.allow(address.ip(), is_encrypted);
        match found.iter().find(is_refused) {
            None => Ok(found),
            Some(address) => {
                let host = uri.host().unwrap_or_default();
                log::warn!(
                    "webhooks: {host} is not asked at {}: webhooks.allowed_networks does not name it",
                    address.ip()
                );
                Err(ureq::Error::HostNotFound)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A name server that gives another address each time.
    #[derive(Debug)]
    struct Rebinding {
        addresses: Mutex<Vec<SocketAddr>>,
        asked: Arc<AtomicUsize>,
    }

    impl Resolver for Rebinding {
        fn resolve(
            &self,
            _: &Uri,
            _: &ureq::config::Config,
            _: NextTimeout,
        ) -> Result<ResolvedSocketAddrs, ureq::Error> {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let mut found = self.empty();
            found.push(self.addresses.lock().expect("the addresses").remove(0));
            Ok(found)
        }
    }

    /// Answers one request, and returns whether one came.
    fn receiver(answer: &'static str) -> (SocketAddr, thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let thread = thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a request");
            let mut head = [0; 1024];
            let _ = connection.read(&mut head).expect("a head");
            connection.write_all(answer.as_bytes()).expect("an answer");
        });
        (address, thread)
    }

    fn message(url: &str) -> Message {
        Message { url: Url::parse(url).expect("a URL"), headers: Vec::new(), body: b"{}".to_vec() }
    }

    fn sender(allowed: &str, addresses: Vec<SocketAddr>) -> (Sender, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let networks = Arc::new(Networks::new(vec![allowed.parse().expect("a network")]));
        let names = Rebinding { addresses: Mutex::new(addresses), asked: Arc::clone(&asked) };
        (Sender::with(networks, Duration::from_secs(10), "", names).expect("no file is named"), asked)
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_and_the_checked_address_is_asked() {
        let (address, thread) = receiver("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        let inside: SocketAddr = "169.254.169.254:80".parse().expect("an address");
        let (sender, asked) = sender("127.0.0.0/8", vec![address, inside]);
        assert_eq!(sender.send(message("http://rebinding.example/")).await, Outcome::Answered(204));
        thread.join().expect("the receiver");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        // The second look-up leads inside, and nothing is sent.
        assert_eq!(sender.send(message("http://rebinding.example/")).await, Outcome::NoAddress);
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let (address, thread) =
            receiver("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
        let (sender, asked) = sender("127.0.0.0/8", vec![address, address]);
        let outcome = sender.send(message("http://redirecting.example/")).await;
        assert_eq!((outcome, outcome.is_delivered()), (Outcome::Answered(307), false));
        thread.join().expect("the receiver");
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn what_is_no_http_is_no_delivery() {
        let (address, thread) = receiver("SSH-2.0-secret\r\n");
        let (sender, _) = sender("127.0.0.0/8", vec![address]);
        assert_eq!(sender.send(message("http://other.example/")).await, Outcome::Unreadable);
        thread.join().expect("the receiver");
    }

    #[test]
    fn an_address_in_a_url_is_checked_in_every_notation() {
        let (sender, _) = sender("10.0.0.0/8", Vec::new());
        for url in
            ["http://0x7f.1/", "https://2130706433/", "https://[::1]/", "https://[::ffff:10.0.0.1]/", "http://8.8.8.8/"]
        {
            assert!(sender.refuses(&Url::parse(url).expect("a URL")), "{url}");
        }
        for url in ["http://10.0.0.1/", "https://8.8.8.8/", "https://hooks.example.org/"] {
            assert!(!sender.refuses(&Url::parse(url).expect("a URL")), "{url}");
        }
    }
}
