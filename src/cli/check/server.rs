//! Whether the server can listen as it is set up: its addresses, certificate and key.

use std::net::ToSocketAddrs;

use crate::http::edge::tls::Certificates;
use crate::settings::Settings;
use crate::store::inspection::Finding;

/// Finds problems that would stop the start. Opens no port, because another instance may run.
pub(super) async fn look(settings: &Settings) -> Result<Vec<Finding>, Box<dyn std::error::Error + Send + Sync>> {
    let address = format!("{}:{}", settings.server.host, settings.server.port);
    let monitor = settings.metrics.address.clone();
    let files = settings.server.tls.files()?;
    let findings = move || {
        let mut findings = vec![resolved("server.host", &address)];
        if !monitor.is_empty() {
            findings.push(resolved("metrics.address", &monitor));
        }
        findings.extend(files.map(|files| match Certificates::load(files) {
            Ok(_) => Finding::good("server.tls", "certificate and key can be used"),
            Err(error) => Finding::wrong("server.tls", error.to_string()),
        }));
        findings
    };
    Ok(tokio::task::spawn_blocking(findings).await?)
}

fn resolved(key: &'static str, address: &str) -> Finding {
    match address.to_socket_addrs().map(|mut found| found.next()) {
        Ok(Some(found)) => Finding::good(key, format!("{address} is {found}")),
        Ok(None) => Finding::wrong(key, format!("{address} is no address; write HOST:PORT")),
        Err(error) => {
            Finding::wrong(key, format!("{address} is no address: {error}; write an IP address or a host's name"))
        }
    }
}
