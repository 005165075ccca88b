//! A program that receives webhooks, and a service that may send to it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver as Channel, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use inventory_service::clock::{Clock, ManualClock, SystemClock};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;

use crate::support::app::TestApp;
use crate::support::mongod::{self, Deployment};

/// Receivers of tests are on this machine.
pub(crate) const ALLOWED: (&str, &str) = ("webhooks.allowed_networks", "127.0.0.0/8");
/// No test takes as long.
const PATIENCE: Duration = Duration::from_mins(2);

/// A message that came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    headers: BTreeMap<String, String>,
    pub(super) text: String,
}

impl Received {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(super) fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    /// A value of the event.
    pub(super) fn data(&self, pointer: &str) -> Value {
        self.json()["data"].pointer(pointer).cloned().unwrap_or_default()
    }

    /// The signature of this message by the convention, computed here.
    pub(super) fn signature(&self, secret: &str) -> String {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").expect("a secret")).expect("base64");
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("a key");
        mac.update(format!("{}.{}.{}", self.id(), self.header("webhook-timestamp"), self.text).as_bytes());
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// A program that receives webhooks. It answers 204, or the status that the test sets.
pub(crate) struct Receiver {
    pub(super) address: SocketAddr,
    answers: Arc<Mutex<Vec<String>>>,
    came: Channel<Received>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        Self::at("127.0.0.1:0".parse().expect("an address"))
    }

    pub(super) fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("an address");
        let answers: Arc<Mutex<Vec<String>>> = Arc::default();
        let (sender, came) = channel();
        let told = Arc::clone(&answers);
        thread::spawn(move || {
            for connection in listener.incoming() {
                let Ok(connection) = connection else { continue };
                if serve(connection, &sender, &told).is_none() {
                    return;
                }
            }
        });
        Self { address, answers, came }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// The next requests get these answers, each a status and perhaps headers.
    pub(super) fn answer(&self, answers: &[&str]) {
        self.answers.lock().expect("the answers").extend(answers.iter().map(|answer| (*answer).to_owned()));
    }

    /// The next message.
    pub(crate) fn next(&self) -> Received {
        self.came.recv_timeout(PATIENCE).expect("a message")
    }

    /// What came and was not taken yet.
    pub(super) fn rest(&self) -> Vec<Received> {
        self.came.try_iter().collect()
    }
}

/// Takes one request; nothing when nobody wants to know of more.
fn serve(connection: TcpStream, sender: &Sender<Received>, answers: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(connection);
    let (mut headers, mut line) = (BTreeMap::new(), String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return Some(());
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ") {
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = {
        let mut answers = answers.lock().expect("the answers");
        if answers.is_empty() { "204 No Content".to_owned() } else { answers.remove(0) }
    };
    let received = Received { headers, text: String::from_utf8(body).expect("UTF-8") };
    let is_wanted = sender.send(received).is_ok();
    let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = reader.get_mut().write_all(answer.as_bytes());
    is_wanted.then_some(())
}

/// A service that may send to receivers on this machine, with a clock that does not advance.
pub(super) struct World {
    pub(super) app: TestApp,
    pub(super) clock: Arc<ManualClock>,
    _directory: TempDir,
}

impl World {
    pub(super) async fn embedded() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let uri = format!("embedded:{}", directory.path().join("data").display());
        Self::on(&uri, directory).await
    }

    pub(super) async fn mongodb() -> Option<Self> {
        let server = mongod::shared(Deployment::ReplicaSet).await?;
        Some(Self::on(&server.fresh_uri(), TempDir::new().expect("a temporary directory")).await)
    }

    async fn on(uri: &str, directory: TempDir) -> Self {
        let clock = Arc::new(ManualClock::new(SystemClock.now()));
        let app = TestApp::on_with_clock(uri, &[ALLOWED], Arc::clone(&clock) as Arc<dyn Clock>).await;
        Self { app, clock, _directory: directory }
    }

    /// Makes a webhook of the administrator with these members, and gives its id and its secret.
    pub(super) async fn webhook(&self, receiver: &Receiver, members: Value) -> (i64, String) {
        let mut body = json!({"name": "hook", "url": receiver.url()});
        body.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
        let made = self.app.post("/webhooks/", &body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let made = made.json();
        (made["result_id"].as_i64().expect("an id"), made["secret"].as_str().expect("a secret").to_owned())
    }

    pub(super) async fn read(&self, id: i64) -> Value {
        self.app.get(&format!("/webhooks/{id}")).await.json()["result"].clone()
    }

    /// Waits until the webhook is in this state, and gives it.
    pub(super) async fn in_state(&self, id: i64, state: &str) -> Value {
        loop {
            let webhook = self.read(id).await;
            if webhook["state"] == state {
                return webhook;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until this many attempts are on record, and gives them, newest first.
    pub(super) async fn deliveries(&self, id: i64, count: usize) -> Vec<Value> {
        loop {
            let found = self.app.get(&format!("/webhooks/{id}/deliveries/")).await.results("");
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Makes of each `async fn name(world)` two tests: one on the embedded store, one on MongoDB.
macro_rules! with_a_receiver {
    ($($(#[$attribute:meta])* async fn $name:ident($world:ident) $body:block)*) => {
        $(
            $(#[$attribute])*
            async fn $name(mut $world: $crate::webhooks::receiver::World) {
                // Most tests leave it as it is.
                let _ = &mut $world;
                $body
            }

            mod $name {
                use $crate::webhooks::receiver::World;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_store() {
                    super::$name(World::embedded().await).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_mongodb() {
                    if let Some(world) = World::mongodb().await {
                        super::$name(world).await;
                    }
                }
            }
        )*
    };
}
