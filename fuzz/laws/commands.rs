//! Laws of the commands of MongoDB tools: whatever a tool asks, it is answered or refused, learns nothing that is hidden from
//! its user, and changes nothing.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};

use bson::{Document, doc};
use inventory_service::app::{Application, Opened, open};
use inventory_service::clock::SystemClock;
use inventory_service::json::read::document_from_str;
use inventory_service::settings::Settings;
use inventory_service::store::Store;
use mongodb::error::{Error, ErrorKind};
use mongodb::{Client, Database};
use serde_json::{Value, json};

/// A text in every object of the hidden type, and nowhere else.
const SECRET: &str = "zq7-hidden-81b3";

const PASSWORD: &str = "correct horse battery";

/// More lines would make a run slow; what they do is the same.
const MOST_COMMANDS: usize = 4;

/// MongoDB's number of an error in the server itself.
const INTERNAL_ERROR: i32 = 1;

/// A service with objects, some of them hidden from the user who asks.
struct Server {
    runtime: tokio::runtime::Runtime,
    store: Arc<dyn Store>,
    database: Database,
    _directory: tempfile::TempDir,
}

static SERVER: LazyLock<Server> = LazyLock::new(Server::start);

/// Sends each line that is a document of Extended JSON as a command.
pub fn hold(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if text.contains(SECRET) {
        return;
    }
    let commands = text.lines().filter_map(|line| document_from_str(line).ok());
    for command in commands.take(MOST_COMMANDS) {
        // These end the driver's own session.
        if command.keys().next().is_none_or(|name| ["logout", "endSessions", "killSessions"].contains(&name.as_str())) {
            continue;
        }
        ask(&command);
    }
}

fn ask(command: &Document) {
    let server = &*SERVER;
    let revisions = || ["framework.objects", "framework.types"].map(|name| server.store.revision(name));
    let before = revisions();
    match server.runtime.block_on(server.database.run_command(command.clone()).into_future()) {
        Ok(answer) => {
            assert_eq!(answer.get_f64("ok").ok(), Some(1.0), "{command}");
            assert!(!answer.to_string().contains(SECRET), "{command} shows what is hidden");
        }
        Err(error) => refused(command, &error),
    }
    assert_eq!(revisions(), before, "{command} changed something");
}

fn refused(command: &Document, error: &Error) {
    match &*error.kind {
        ErrorKind::Command(refusal) => {
            assert!(refusal.code > INTERNAL_ERROR && !refusal.message.is_empty(), "{command}: {refusal}");
            assert!(!refusal.message.contains(SECRET), "{command}: {refusal}");
        }
        // The driver itself refuses some commands, and does not send them.
        ErrorKind::InvalidArgument { .. } | ErrorKind::BsonSerialization(_) => {}
        other => panic!("{command}: {other:?}"),
    }
}

impl Server {
    fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        let uri = format!("embedded:{}", directory.path().join("data").display());
        let settings = Settings::defaults(&[
            ("server.port", "0"),
            ("server.workers", "1"),
            ("store.uri", &uri),
            ("wire.address", "127.0.0.1:0"),
            ("auth.initial_admin_password", PASSWORD),
            ("auth.argon2.memory_kib", "8"),
            ("auth.argon2.iterations", "1"),
            ("query.max_time_ms", "3000"),
        ]);
        let settings = settings.expect("valid settings");
        let (store, rest, wire) = runtime.block_on(async {
            let Opened { store, file } = open(&settings.store).await.expect("the store opens");
            let clock = Arc::new(SystemClock);
            let application = Application::with_store(settings, Arc::clone(&store) as Arc<dyn Store>, file, clock);
            let application = application.await.expect("the application starts");
            let rest = application.address().expect("an address");
            let wire = application.wire_address().expect("the listener has an address");
            tokio::spawn(application.run_without_signals());
            (store as Arc<dyn Store>, rest, wire)
        });
        let token = fill(rest);
        let uri = format!("mongodb://guest:{token}@{wire}/?directConnection=true&retryReads=false");
        let database = runtime.block_on(async {
            let database = Client::with_uri_str(uri).await.expect("a well-formed URI").database("inventory");
            database.run_command(doc! { "ping": 1 }).await.expect("the listener answers");
            database
        });
        Self { runtime, store, database, _directory: directory }
    }
}

/// Makes types, objects and a user from whom one type is hidden; returns a token of that user.
fn fill(rest: SocketAddr) -> String {
    let login = json!({"user_name": "admin", "password": PASSWORD});
    let session = post(rest, "", "/auth/login", &login)["token"].as_str().expect("a token").to_owned();
    let made = |path: &str, body: &Value| post(rest, &session, path, body)["result_id"].as_i64().expect("an id");
    let rights = ["base.framework.*"];
    let group_id = made("/groups/", &json!({"name": "guests", "label": "Guests", "rights": rights}));
    let user = json!({"user_name": "guest", "password": "a long password", "group_id": group_id});
    let user_id = made("/users/", &user);
    let fields = json!([{"type": "text", "name": "host", "label": "Host"}, {"type": "number", "name": "units", "label": "Units"}]);
    let shown = made("/types/", &json!({"name": "server", "author_id": 1, "fields": fields}));
    let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
    let hidden = made("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields, "acl": acl}));
    for number in 0..40 {
        let of = |type_id: i64, host: String| json!({"type_id": type_id, "author_id": 1, "fields": {"host": host, "units": number}});
        made("/objects/", &of(shown, format!("web-{number}")));
        made("/objects/", &of(hidden, format!("{SECRET}-{number}")));
    }
    let token = post(rest, &session, &format!("/users/{user_id}/tokens/"), &json!({"name": "tools", "mongodb": true}));
    token["token"].as_str().expect("a token").to_owned()
}

fn post(rest: SocketAddr, token: &str, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream = TcpStream::connect(rest).expect("a connection");
    let authorization = if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    write!(
        stream,
        "POST /rest{path} HTTP/1.1\r\nHost: fuzz\r\nContent-Type: application/json\r\nConnection: close\r\n\
         {authorization}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("a request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 2"), "{path}: {answer}");
    serde_json::from_str(body).expect("an answer in JSON")
}
