//! TLS with certificates made here.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use chrono::Datelike;
use inventory_service::app::Application;
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::http::edge::tls::Certificates;
use inventory_service::settings::{Settings, TlsFiles};
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
fn plain_http_on_its_port_is_answered_with_what_to_write() {
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let service = start(directory.path());
    let mut wire = Wire::connect(&service.origin);
    wire.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let answer = wire.expect_answer();
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(answer.body.contains("write https:// instead of http://"), "{}", answer.body);
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

/// Writes a certificate for `localhost` with its key, valid between these days from now.
fn make_certificate_valid(directory: &Path, days: [i64; 2]) {
    let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let today = SystemClock.now().timestamp() / 86_400;
    [params.not_before, params.not_after] = days.map(|day| {
        let day = chrono::DateTime::from_timestamp((today + day) * 86_400, 0).expect("a day");
        let number = |value: u32| u8::try_from(value).expect("a number");
        rcgen::date_time_ymd(day.year(), number(day.month()), number(day.day()))
    });
    let key = rcgen::KeyPair::generate().expect("a key");
    let made = params.self_signed(&key).expect("a certificate");
    fs::write(directory.join("cert.pem"), made.pem()).expect("a file");
    fs::write(directory.join("key.pem"), key.serialize_pem()).expect("a file");
}

#[test]
fn a_certificate_outside_of_its_time_is_told_by_the_check_the_start_and_the_hangup() {
    let directory = TempDir::new().expect("a temporary directory");
    let check = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
        let flags = ["check", "--set", "server.tls.certificate=cert.pem", "--set", "server.tls.key=key.pem"];
        let output = command.args(flags).current_dir(directory.path()).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), said.lines().find(|line| line.contains("server.tls")).expect("a line").to_owned())
    };
    for (days, passes, verdict, said) in [
        ([-9, 90], true, "ok", "certificate and key can be used"),
        ([-9, 9], true, "note", "cert.pem: the certificate is valid until 20"),
        ([-9, -1], false, "WRONG", "cert.pem: the certificate is over since 20"),
        ([0, -2], false, "WRONG", "cert.pem: the certificate ends before it begins"),
        ([2, 90], false, "WRONG", "cert.pem: the certificate is valid from 20"),
    ] {
        make_certificate_valid(directory.path(), days);
        let (passed, line) = check();
        assert_eq!(passed, passes, "{line}");
        assert!(line.starts_with(verdict) && line.contains(said), "{line}");
    }
    let service = start(directory.path());
    let early = "server.tls.certificate: cert.pem: the certificate is valid from 20";
    assert!(service.first_lines.iter().any(|line| line.contains(early)), "{:?}", service.first_lines);
    make_certificate_valid(directory.path(), [-9, -1]);
    service.signal("HUP");
    service.wait_for_line("server.tls.certificate: cert.pem: the certificate is over since 20");
}

#[test]
fn files_that_other_tools_make_otherwise_are_told_of_in_words() {
    let directory = TempDir::new().expect("a temporary directory");
    make_certificate(directory.path());
    let path = |name: &str| directory.path().join(name);
    let read = |name: &str| fs::read_to_string(path(name)).expect("a file");
    let (certificate, key) = (read("cert.pem"), read("key.pem"));
    let end = certificate.find("-----END").expect("an end");
    fs::write(path("cut.pem"), &certificate[..end]).expect("a file");
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    fs::write(path("encrypted.pem"), encrypted).expect("a file");
    let legacy = key.replacen("KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", 1);
    fs::write(path("legacy.pem"), legacy).expect("a file");
    for (certificate, key, said) in [
        ("cut.pem", "key.pem", "it is cut off, as the line -----END CERTIFICATE----- is missing"),
        ("cert.pem", "encrypted.pem", "the key is encrypted, and nobody types its passphrase; write it without one"),
        ("cert.pem", "legacy.pem", "the key is encrypted, and nobody types its passphrase; write it without one"),
    ] {
        let files = TlsFiles { certificate: path(certificate), key: path(key) };
        let error = Certificates::load(files).expect_err("a refusal").to_string();
        assert!(error.contains(said), "{error}");
    }
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
