//! `check --ready`: asks the service on this machine, with nothing but a socket.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use rustls::StreamOwned;

use crate::http::edge::tls;
use crate::settings::ServerSettings;

/// Longer than the service takes to find out that its store is away.
const PATIENCE: Duration = Duration::from_secs(4);
/// The answer is a line of headers after another and a sentence.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

/// Why the service is not ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotReady {
    /// The settings do not say where it listens.
    #[error("server.port is 0, so nobody knows where the service listens; set it to a fixed port")]
    AnyPort,
    /// Nothing answers.
    #[error("nothing answers on {address}: {source}; is the service running, with these settings?")]
    Silent {
        /// Host and port.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// It is no HTTP that answers.
    #[error(
        "what answers on {address} speaks no {expected}; are these the settings of the service, server.tls among them?"
    )]
    Foreign {
        /// Host and port.
        address: String,
        /// What was spoken.
        expected: &'static str,
    },
    /// The service says no.
    #[error("not ready: {0}")]
    Refused(String),
}

/// The answer of `/health/ready` when it is a good one.
pub(super) fn ask(settings: &ServerSettings) -> Result<String, NotReady> {
    if settings.port == 0 {
        return Err(NotReady::AnyPort);
    }
    let host = reachable(&settings.host);
    let address =
        if host.contains(':') { format!("[{host}]:{}", settings.port) } else { format!("{host}:{}", settings.port) };
    let tls = settings.tls.files().ok().flatten().is_some();
    let silent = |source| NotReady::Silent { address: address.clone(), source };
    let answer = exchange(&address, tls).map_err(silent)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.lines().next().unwrap_or_default();
    if !status.starts_with("HTTP/") {
        return Err(NotReady::Foreign { address, expected: if tls { "HTTP over TLS" } else { "HTTP without TLS" } });
    }
    if status.split(' ').nth(1) == Some("200") {
        return Ok(body.trim().to_owned());
    }
    let told = serde_json::from_str::<serde_json::Value>(body).ok();
    let message = told.as_ref().and_then(|body| body["message"].as_str());
    Err(NotReady::Refused(message.unwrap_or(status).to_owned()))
}

/// An address that listens everywhere is reached here.
fn reachable(host: &str) -> String {
    match host.trim_matches(['[', ']']).parse() {
        Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => Ipv4Addr::LOCALHOST.to_string(),
        Ok(IpAddr::V6(Ipv6Addr::UNSPECIFIED)) => Ipv6Addr::LOCALHOST.to_string(),
        Ok(address) => address.to_string(),
        Err(_) => host.to_owned(),
    }
}

fn exchange(address: &str, tls: bool) -> io::Result<String> {
    let mut outcome = Err(io::ErrorKind::AddrNotAvailable.into());
    for target in address.to_socket_addrs()? {
        outcome = TcpStream::connect_timeout(&target, PATIENCE);
        if outcome.is_ok() {
            break;
        }
    }
    let stream = outcome?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if !tls {
        return question(address, stream);
    }
    let client = tls::client_of_own_service().map_err(io::Error::other)?;
    question(address, StreamOwned::new(client, stream))
}

fn question(address: &str, mut stream: impl Read + Write) -> io::Result<String> {
    let host = format!("Host: {address}\r\n");
    stream.write_all(format!("GET /health/ready HTTP/1.1\r\n{host}Connection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_listens_everywhere_is_asked_here() {
        assert_eq!(reachable("0.0.0.0"), "127.0.0.1");
        assert_eq!(reachable("::"), "::1");
        assert_eq!(reachable("[::]"), "::1");
        assert_eq!(reachable("192.0.2.7"), "192.0.2.7");
        assert_eq!(reachable("inventory"), "inventory");
    }
}
