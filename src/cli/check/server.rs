//! Whether the server can listen as it is set up: its addresses, certificate and key.

use std::io;
use std::net::{TcpListener, ToSocketAddrs};

use crate::clock::Clock;
use crate::http::edge::tls::Certificates;
use crate::settings::Settings;
use crate::store::inspection::Finding;

/// Finds problems that would stop the start.
pub(super) async fn look(
    settings: &Settings,
    clock: &dyn Clock,
) -> Result<Vec<Finding>, Box<dyn std::error::Error + Send + Sync>> {
    let now = clock.now();
    let address = settings.server.address();
    let others = [("metrics.address", &settings.metrics.address), ("wire.address", &settings.wire.address)];
    let others = others.map(|(key, address)| (key, address.clone()));
    let files = settings.server.tls.files()?;
    let findings = move || {
        let mut findings = vec![listening("server.host", &address)];
        let given = others.iter().filter(|(_, address)| !address.is_empty());
        findings.extend(given.map(|(key, address)| listening(key, address)));
        findings.extend(files.map(|files| match Certificates::load(files) {
            Ok(certificates) => match certificates.concern(now) {
                None => Finding::good("server.tls", "certificate and key can be used"),
                Some(concern) if concern.is_refused => Finding::wrong("server.tls", concern.text),
                Some(concern) => Finding::note("server.tls", concern.text),
            },
            Err(error) => Finding::wrong("server.tls", error.to_string()),
        }));
        findings
    };
    Ok(tokio::task::spawn_blocking(findings).await?)
}

/// Whether the service could listen there. A port that is taken is no fault: the service may run already.
fn listening(key: &'static str, address: &str) -> Finding {
    let found = match address.to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(found)) => found,
        Ok(None) => return Finding::wrong(key, format!("{address} is no address; write HOST:PORT")),
        Err(error) => {
            let remedy = "write an IP address or a host's name";
            return Finding::wrong(key, format!("{address} is no address: {error}; {remedy}"));
        }
    };
    match TcpListener::bind(found).map_err(|error| (error.kind(), error)) {
        Ok(_) => Finding::good(key, format!("{address} is {found}")),
        Err((io::ErrorKind::AddrInUse, _)) => Finding::note(
            key,
            format!(
                "{found} is taken; if not by this service, which check --ready asks, stop the other program or take \
                 another port"
            ),
        ),
        Err((io::ErrorKind::PermissionDenied, _)) => {
            Finding::wrong(key, format!("this user may not listen on {found}; take a port from 1024 on"))
        }
        Err((_, error)) => Finding::wrong(key, format!("the service cannot listen on {found}: {error}")),
    }
}
