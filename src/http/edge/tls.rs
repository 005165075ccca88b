//! TLS: certificate and key from files, which can be reloaded while connections stay open.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use chrono::{DateTime, Utc};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};

use super::validity::{Standing, Validity};
use crate::settings::TlsFiles;

/// Certificate and key in use; new connections use the last loaded ones.
#[derive(Debug)]
pub struct Certificates {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
}

/// The message about a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concern {
    /// Whether clients refuse it now.
    pub is_refused: bool,
    /// A sentence with the file and the remedy.
    pub text: String,
}

/// Files that cannot be used, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or lacks the certificate or key.
    #[error("{key}: {path} cannot be read as PEM: {reason}")]
    File {
        /// The setting that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Certificate and key do not match, or are of an unknown kind.
    #[error("server.tls: {certificate} and {key} cannot be used together: {reason}")]
    Pair {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The library refuses its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] rustls::Error),
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`], naming the file.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let current = ArcSwap::from_pointee(read(&files, &provider)?);
        Ok(Arc::new(Self { files, provider, current }))
    }

    /// Reloads the files; the old ones stay in use if the new ones are wrong.
    ///
    /// # Errors
    /// As [`Certificates::load`].
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.store(Arc::new(read(&self.files, &self.provider)?));
        Ok(())
    }

    /// What an operator should know about the validity of the certificate in use, with the remedy; nothing of one that is
    /// valid for a while. Clients refuse a certificate outside of its time.
    pub fn concern(&self, now: DateTime<Utc>) -> Option<Concern> {
        let validity = Validity::of(self.current.load().end_entity_cert().ok()?, &self.provider)?;
        let text = format!("{}: {}", self.files.certificate.display(), validity.concern(now)?);
        Some(Concern { is_refused: validity.standing(now) != Standing::EndsSoon, text })
    }

    /// TLS 1.2 and 1.3 with these certificates, for HTTP/1.1.
    ///
    /// # Errors
    /// [`TlsError::Library`].
    pub fn server_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        let mut config = self.config()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// The same for clients that name no protocol, as MongoDB tools.
    ///
    /// # Errors
    /// [`TlsError::Library`].
    pub fn plain_config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        Ok(Arc::new(self.config()?))
    }

    fn config(self: &Arc<Self>) -> Result<ServerConfig, TlsError> {
        let builder =
            ServerConfig::builder_with_provider(Arc::clone(&self.provider)).with_safe_default_protocol_versions()?;
        Ok(builder.with_no_client_auth().with_cert_resolver(Arc::<Self>::clone(self)))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let unreadable = |key, path: &Path, error: pem::Error| TlsError::File {
        key,
        path: path.to_owned(),
        reason: in_words(&error, path),
    };
    let bad_certificate = |error| unreadable("server.tls.certificate", &files.certificate, error);
    let chain: Result<Vec<CertificateDer<'static>>, pem::Error> =
        CertificateDer::pem_file_iter(&files.certificate).map_err(bad_certificate)?.collect();
    let chain = chain.map_err(bad_certificate)?;
    if chain.is_empty() {
        return Err(bad_certificate(pem::Error::NoItemsFound));
    }
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unreadable("server.tls.key", &files.key, error))?;
    CertifiedKey::from_der(chain, key, provider).map_err(|error| TlsError::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        reason: match error {
            rustls::Error::InvalidCertificate(error) if format!("{error:?}").contains(OLD_VERSION) => {
                "the certificate is an X.509 certificate of version 1, which clients refuse; make one of version 3, which has \
                 extensions (openssl x509 makes it with -extfile, req -x509 with -addext subjectAltName=DNS:HOST)"
                    .to_owned()
            }
            error => error.to_string(),
        },
    })
}

/// What the library calls a certificate without extensions.
const OLD_VERSION: &str = "UnsupportedCertVersion";

/// What is wrong with a file, and the remedy where there is one.
fn in_words(error: &pem::Error, path: &Path) -> String {
    let is_encrypted = || fs::read_to_string(path).is_ok_and(|text| text.contains("ENCRYPTED"));
    let line = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match error {
        pem::Error::NoItemsFound | pem::Error::Base64Decode(_) if is_encrypted() => {
            "the key is encrypted, and nobody types its passphrase; write it without one: openssl pkey -in FILE -out NEW"
                .to_owned()
        }
        pem::Error::NoItemsFound => "there is no such item in it".to_owned(),
        pem::Error::MissingSectionEnd { end_marker } => {
            format!("it is cut off, as the line -----END {}----- is missing; copy the whole file", line(end_marker))
        }
        pem::Error::IllegalSectionStart { line: start } => format!("the line {} begins nothing that is known", line(start)),
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// A client for the service on this machine that does not check its certificate. It sends nothing secret. A process
/// that took over the service's port could answer anything, with or without a certificate.
///
/// # Errors
/// [`TlsError::Library`].
pub fn client_of_own_service() -> Result<ClientConnection, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    Ok(ClientConnection::new(Arc::new(config), ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST)))?)
}

/// Accepts every certificate whose owner has the key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
