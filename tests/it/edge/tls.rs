//! TLS with certificates made here.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use inventory_service::app::Application;
use inventory_service::settings::Settings;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::support::process::ServiceProcess;
use crate::support::wire::Wire;

type TlsWire = Wire<StreamOwned<ClientConnection, TcpStream>>;

/// Writes a new certificate for `localhost` with its key, and gives the certificate.
pub(crate) fn make_certificate(directory: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    fs::write(directory.join("cert.pem"), made.cert.pem()).expect("a file");
    fs::write(directory.join("key.pem"), made.signing_key.serialize_pem()).expect("a file");
    CertificateDer::from_pem_slice(made.cert.pem().as_bytes()).expect("a certificate")
}

fn start(directory: &Path) -> ServiceProcess {
    let variables = [("INVENTORY__SERVER__TLS__CERTIFICATE", "cert.pem"), ("INVENTORY__SERVER__TLS__KEY", "key.pem")];
    ServiceProcess::start_with(directory, "embedded:data", &variables)
}

/// A connection of a client that trusts this certificate alone; the error when it is shown another one.
fn connect(service: &ServiceProcess, trusted: &CertificateDer<'static>) -> Result<TlsWire, String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).expect("a certificate");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let config = Arc::new(builder.with_root_certificates(roots).with_no_client_auth());
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(config, name).expect("a client");
    let address = service.origin.strip_prefix("https://").expect("an origin with TLS");
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_mins(1))).expect("a time limit");
    while client.is_handshaking() {
        client.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    Ok(Wire::over(StreamOwned::new(client, stream)))
}

fn ask(wire: &mut TlsWire) -> String {
    wire.send("GET /rest/ HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = wire.expect_answer();
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.head
}

#[test]
fn the_service_speaks_tls_and_tells_browsers_to_keep_to_it() {
    let directory = TempDir::new().expect("a temporary directory");
    let certificate = make_certificate(directory.path());
    let service = start(directory.path());
    let mut wire = connect(&service, &certificate).expect("a connection");
    assert!(ask(&mut wire).contains("strict-transport-security: max-age=31536000"));
    assert!(ask(&mut wire).contains("x-api-version: 1.0"));
    let stranger = make_certificate(TempDir::new().expect("a temporary directory").path());
    assert!(connect(&service, &stranger).is_err());
    assert_eq!(service.terminate(), Some(0));
}

#[test]
fn a_hangup_brings_the_new_certificate_and_leaves_connections_alone() {
    let directory = TempDir::new().expect("a temporary directory");
    let old = make_certificate(directory.path());
    let service = start(directory.path());
    let mut wire = connect(&service, &old).expect("a connection");
    ask(&mut wire);

    let new = make_certificate(directory.path());
    service.signal("HUP");
    service.wait_for_line("SIGHUP: new connections get the certificate that was read now");
    ask(&mut wire);
    ask(&mut connect(&service, &new).expect("a connection"));
    assert!(connect(&service, &old).is_err());

    fs::write(directory.path().join("key.pem"), "no key").expect("a file");
    service.signal("HUP");
    service.wait_for_line("SIGHUP: the certificate in use stays: server.tls.key: key.pem cannot be read as PEM");
    ask(&mut wire);
    ask(&mut connect(&service, &new).expect("a connection"));
}

#[test]
fn the_service_finds_itself_ready_over_tls() {
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let service = start(directory.path());
    let port = service.origin.rsplit(':').next().expect("a port");
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    let settings = ["server.tls.certificate=cert.pem", "server.tls.key=key.pem", &format!("server.port={port}")];
    let flags = settings.iter().flat_map(|setting| ["--set", setting]);
    let output =
        command.args(["check", "--ready"]).args(flags).current_dir(directory.path()).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"status\":\"ready\"}\n");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_at_the_start() {
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let other = TempDir::new().expect("a temporary directory");
    make_certificate(other.path());
    fs::write(directory.path().join("empty.pem"), "").expect("a file");
    let foreign = other.path().join("key.pem").display().to_string();
    for (certificate, key, message) in [
        (
            path("none.pem"),
            path("key.pem"),
            format!("server.tls.certificate: {} cannot be read as PEM", path("none.pem")),
        ),
        (
            path("empty.pem"),
            path("key.pem"),
            format!("{} cannot be read as PEM: there is no such item", path("empty.pem")),
        ),
        (
            path("key.pem"),
            path("key.pem"),
            format!("server.tls.certificate: {} cannot be read as PEM", path("key.pem")),
        ),
        (path("cert.pem"), path("cert.pem"), format!("server.tls.key: {} cannot be read as PEM", path("cert.pem"))),
        (path("cert.pem"), foreign.clone(), "cannot be used together".to_owned()),
    ] {
        let uri = format!("embedded:{}", TempDir::new().expect("a directory").path().join("data").display());
        let pairs = [
            ("store.uri", uri.as_str()),
            ("server.port", "0"),
            ("auth.argon2.memory_kib", "8"),
            ("server.tls.certificate", certificate.as_str()),
            ("server.tls.key", key.as_str()),
        ];
        let settings = Settings::defaults(&pairs).expect("valid settings");
        let error = Application::build(settings).await.err().expect("the start fails").to_string();
        assert!(error.contains(&message), "{error}");
    }
}
