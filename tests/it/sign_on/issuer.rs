//! An issuer of OpenID Connect for tests: it shows keys, well or badly, and signs whatever a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use aws_lc_rs::signature::Ed25519KeyPair;
use inventory_service::clock::{Clock, SystemClock};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

/// What tokens for the service name as their audience.
pub(crate) const AUDIENCE: &str = "inventory";

/// The path of the document about the issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// A key of an issuer.
pub(crate) struct Signer {
    pub(crate) id: String,
    algorithm: Algorithm,
    key: EncodingKey,
    /// The public half, as key sets have it.
    pub(crate) public: Value,
}

impl Signer {
    pub(crate) fn new(id: &str, algorithm: Algorithm) -> Self {
        let key = match algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_der(&generated(&PKCS_ECDSA_P256_SHA256)),
            Algorithm::ES384 => EncodingKey::from_ec_der(&generated(&PKCS_ECDSA_P384_SHA384)),
            Algorithm::EdDSA => {
                let made = Ed25519KeyPair::generate().and_then(|made| made.to_pkcs8v1()).expect("a key");
                EncodingKey::from_ed_der(made.as_ref())
            }
            _ => {
                let made = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
                // The frame of PKCS #8 around a key of 2048 bits has 26 bytes.
                EncodingKey::from_rsa_der(&made.serialize_der()[26..])
            }
        };
        let mut public = serde_json::to_value(Jwk::from_encoding_key(&key, algorithm).expect("a key")).expect("JSON");
        public["kid"] = json!(id);
        public["use"] = json!("sig");
        Self { id: id.to_owned(), algorithm, key, public }
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        self.sign_with(|_| {}, claims)
    }

    /// The same with another header.
    pub(crate) fn sign_with(&self, change: impl FnOnce(&mut Header), claims: &Value) -> String {
        let mut header = Header { kid: Some(self.id.clone()), ..Header::new(self.algorithm) };
        change(&mut header);
        jsonwebtoken::encode(&header, claims, &self.key).expect("a token")
    }
}

fn generated(algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
    KeyPair::generate_for(algorithm).expect("a key").serialize_der()
}

/// What the issuer answers.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A document.
    Json(Value),
    /// Nothing: the connection is closed.
    Away,
    /// A status without a document.
    Status(u16),
    /// Another place.
    Redirect(String),
    /// A document that never ends.
    Endless,
    /// A document that comes byte by byte.
    Trickling,
}

struct Plan {
    discovery: Reply,
    keys: Reply,
}

/// A running issuer; it stops with the tests.
#[derive(Clone)]
pub(crate) struct TestIssuer {
    /// What its tokens name.
    pub(crate) name: String,
    plan: Arc<Mutex<Plan>>,
    asked: Arc<AtomicUsize>,
}

impl TestIssuer {
    /// Shows the public halves of these keys.
    pub(crate) fn showing(signers: &[&Signer]) -> Self {
        Self::start("http", "127.0.0.1", signers, None)
    }

    /// The same over TLS, as `localhost`.
    pub(crate) fn over_tls(signers: &[&Signer], tls: ServerConfig) -> Self {
        Self::start("https", "localhost", signers, Some(Arc::new(tls)))
    }

    fn start(scheme: &str, host: &str, signers: &[&Signer], tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let name = format!("{scheme}://{host}:{}", listener.local_addr().expect("an address").port());
        let discovery = json!({"issuer": name, "jwks_uri": format!("{name}/keys"), "token_endpoint": name});
        let plan = Plan { discovery: Reply::Json(discovery), keys: Reply::Json(key_set(signers)) };
        let issuer = Self { name, plan: Arc::new(Mutex::new(plan)), asked: Arc::default() };
        let answering = issuer.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let (issuer, tls) = (answering.clone(), tls.clone());
                thread::spawn(move || issuer.serve(connection, tls));
            }
        });
        issuer
    }

    /// From now on it shows these keys.
    pub(crate) fn show(&self, signers: &[&Signer]) {
        self.answer_keys(Reply::Json(key_set(signers)));
    }

    /// From now on it answers this when it is asked for its keys.
    pub(crate) fn answer_keys(&self, reply: Reply) {
        self.plan.lock().expect("a plan").keys = reply;
    }

    /// From now on it answers this when it is asked who it is.
    pub(crate) fn answer_discovery(&self, reply: Reply) {
        self.plan.lock().expect("a plan").discovery = reply;
    }

    /// How often it was asked who it is.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Claims that are right, with more or others.
    pub(crate) fn claims(&self, subject: &str, more: &Value) -> Value {
        let now = SystemClock.now().timestamp();
        let mut claims = json!({
            "iss": self.name, "aud": AUDIENCE, "sub": subject, "iat": now - 10, "exp": now + 600, "groups": ["staff"],
        });
        for (name, value) in more.as_object().expect("an object") {
            claims[name] = value.clone();
        }
        claims
    }

    /// Settings of a service that takes its tokens.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("auth.oidc.issuer", self.name.clone()),
            ("auth.oidc.audience", AUDIENCE.to_owned()),
            ("auth.oidc.groups", "admins = admin; staff = readers; editors = editors".to_owned()),
        ]
    }

    fn serve(&self, connection: TcpStream, tls: Option<Arc<ServerConfig>>) {
        connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a time limit");
        match tls {
            Some(config) => {
                let Ok(session) = ServerConnection::new(config) else { return };
                self.answer(StreamOwned::new(session, connection));
            }
            None => self.answer(connection),
        }
    }

    fn answer(&self, stream: impl Read + Write) {
        let mut stream = BufReader::new(stream);
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if !stream.read_until(b'\n', &mut head).is_ok_and(|count| count > 0) {
                return;
            }
        }
        let is_discovery = String::from_utf8_lossy(&head).contains(DISCOVERY);
        let reply = {
            let plan = self.plan.lock().expect("a plan");
            if is_discovery { plan.discovery.clone() } else { plan.keys.clone() }
        };
        if is_discovery {
            self.asked.fetch_add(1, Ordering::SeqCst);
        }
        // The service may have gone.
        let _ = send(stream.get_mut(), reply);
    }
}

fn key_set(signers: &[&Signer]) -> Value {
    json!({"keys": signers.iter().map(|signer| signer.public.clone()).collect::<Vec<_>>()})
}

fn send(stream: &mut (impl Read + Write), reply: Reply) -> std::io::Result<()> {
    match reply {
        Reply::Away => Ok(()),
        Reply::Json(value) => {
            let body = value.to_string();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            )
        }
        Reply::Status(status) => write!(stream, "HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n"),
        Reply::Redirect(place) => {
            write!(stream, "HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n")
        }
        Reply::Endless => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{{\"keys\": [], \"more\": \"")?;
            loop {
                stream.write_all(&[b'a'; 4096])?;
            }
        }
        Reply::Trickling => {
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
            loop {
                stream.write_all(b" ")?;
                stream.flush()?;
                thread::sleep(Duration::from_millis(100));
            }
        }
    }?;
    stream.flush()
}
