//! What readers of the past and of changes have in memory at a time: a little of each, however much has changed.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use futures::future::join_all;
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::app::{ADMIN_PASSWORD, Answer, send};
use crate::support::mongod::{Deployment, shared};
use crate::support::process::ServiceProcess;

/// How many objects change, and how large each is: together many times what a reader may have.
const OBJECTS: usize = 24;
const BYTES: usize = 900_000;
/// How many read at a time.
const READERS: usize = 16;
/// What all requests may have, in MiB, and the growth of the process that this allows.
const POOL: &str = "64";
const MOST: u64 = 256 << 20;

/// A service of its own: its memory is that of these readers alone.
struct World {
    service: ServiceProcess,
    client: Client,
    token: String,
    /// Its memory when nobody reads, in bytes.
    rest: u64,
}

impl World {
    /// The service on the store as it is, with somebody signed in.
    async fn new(directory: &TempDir, uri: &str) -> Self {
        let variables = [("INVENTORY__ADMISSION__MEMORY_MIB", POOL)];
        let service = ServiceProcess::start_with(directory.path(), uri, &variables);
        let client = Client::builder().timeout(Duration::from_mins(2)).build().expect("a client");
        let mut world = Self { service, client, token: String::new(), rest: 0 };
        let login = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
        let login = send(world.request(Method::POST, "/auth/login").json(&login)).await;
        login.json()["token"].as_str().expect("a token").clone_into(&mut world.token);
        world.rest = world.memory("VmRSS");
        world
    }

    /// Makes large objects and changes each a little. Gives the cursor in between.
    async fn change_large(&self) -> String {
        let fields =
            json!([{"type": "text", "name": "text", "label": "Text"}, {"type": "number", "name": "n", "label": "N"}]);
        let body = json!({"name": "large", "label": "Large", "author_id": 1, "fields": fields});
        let of_type = self.asked(Method::POST, "/types/", &body).await.json()["result_id"].clone();
        let object = json!({"type_id": of_type, "author_id": 1, "fields": {"text": "x".repeat(BYTES), "n": 0}});
        for _ in 0..OBJECTS {
            self.asked(Method::POST, "/objects/", &object).await;
        }
        let begun = send(self.request(Method::GET, "/changes/")).await.json();
        for id in 1..=OBJECTS {
            self.asked(Method::PATCH, &format!("/objects/{id}"), &json!({"fields": {"n": id}})).await;
        }
        begun["next"].as_str().expect("a cursor").to_owned()
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/rest{path}", self.service.origin)).bearer_auth(&self.token)
    }

    async fn asked(&self, method: Method, path: &str, body: &Value) -> Answer {
        let answer = send(self.request(method, path).json(body)).await;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        answer
    }

    /// By how much the process is larger than at rest while `readers` readers ask this at once, and how often each answer
    /// came.
    async fn growth(&self, path: &str, readers: usize) -> (u64, BTreeMap<String, usize>) {
        fs::write(format!("/proc/{}/clear_refs", self.service.id()), "5").expect("the peak so far is forgotten");
        let mut outcomes = BTreeMap::new();
        for outcome in join_all((0..readers).map(|_| self.taken(path))).await {
            *outcomes.entry(outcome).or_default() += 1;
        }
        (self.memory("VmHWM").saturating_sub(self.rest), outcomes)
    }

    /// Takes an answer to its end, a piece at a time; of a stream, which has a fragment, an event for each object.
    async fn taken(&self, path: &str) -> String {
        let mut request = self.request(Method::GET, path);
        let is_stream = path.ends_with("#stream");
        if is_stream {
            request = request.header("Accept", "text/event-stream");
        }
        let mut answer = request.send().await.expect("an answer");
        if answer.status() != StatusCode::OK {
            let refusal: Value = answer.json().await.expect("a refusal");
            return refusal["code"].to_string();
        }
        let mut events = 0;
        while let Some(piece) = answer.chunk().await.expect("the answer goes on") {
            events += piece.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"event: ")).count();
            if piece.starts_with(b"event: error") {
                return String::from_utf8_lossy(&piece).into_owned();
            }
            if is_stream && events >= OBJECTS {
                break;
            }
        }
        "all".to_owned()
    }

    /// A line of the process's status, in bytes.
    fn memory(&self, line: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.service.id())).expect("the status");
        let value = status.lines().find_map(|told| told.strip_prefix(line)?.strip_prefix(':')).expect("the line");
        value.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }
}

async fn little_is_held_at_a_time(uri: &str) {
    let directory = TempDir::new().expect("a temporary directory");
    let world = World::new(&directory, uri).await;
    let since = world.change_large().await;
    // What all this took does not count.
    assert_eq!(world.service.terminate(), Some(0));
    let world = World::new(&directory, uri).await;
    let mut wrong = Vec::new();
    for path in [
        "/objects/?at={since}&limit=1&projection=public_id", "/objects/?at={since}&limit=1000&sort=-fields.value",
        "/objects/?at={since}&limit=1000&view=render", "/changes/?since={since}&limit=1000&view=ids",
        "/changes/?since={since}&limit=1000", "/changes/?resource=objects&since={since}&view=ids#stream",
        "/changes/?resource=objects&since={since}#stream",
    ] {
        let path = path.replace("{since}", &since);
        let (alone, outcome) = world.growth(&path, 1).await;
        let (together, outcomes) = world.growth(&path, READERS).await;
        let line = format!("{path}: {} MiB, {} MiB, {outcome:?}, {outcomes:?}", alone >> 20, together >> 20);
        println!("{line}");
        // A slow machine has no time for all of them, but for one.
        let is_well = outcome.contains_key("all") && alone <= MOST && together <= MOST;
        wrong.extend((!is_well).then_some(line));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_past_hold_little_on_the_embedded_store() {
    little_is_held_at_a_time("embedded:data").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_the_past_hold_little_on_mongodb() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    little_is_held_at_a_time(&server.fresh_uri()).await;
}
