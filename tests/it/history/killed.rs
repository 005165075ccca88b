//! The service killed while clients write and others read the stream of changes.
//!
//! `INVENTORY_KILLS` sets how often; a release is tried with 200.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::reader::Reader;
use crate::support::app::{fields, send};
use crate::support::process::ServiceProcess;
use crate::support::remote::Client;

const KILLS: &str = "INVENTORY_KILLS";
const WRITERS: usize = 16;
const READERS: usize = 16;

/// What a writer did to one object: the serial number of each change that was acknowledged, in order.
type Acknowledged = Vec<(i64, Vec<u64>)>;

/// An entry of the history, as far as it matters here.
struct Entry {
    public_id: i64,
    number: i64,
    serial: u64,
}

/// The events that a reader has seen: the sequence, and the serial number in the document if there is one.
#[derive(Default)]
struct Seen {
    last: Option<String>,
    events: Vec<(i64, Option<u64>)>,
}

struct Writer {
    client: Arc<Client>,
    type_id: i64,
    serials: Arc<AtomicU64>,
}

impl Writer {
    /// Makes objects, changes each three times and deletes it, until the service is gone.
    async fn write_until_gone(self) -> Acknowledged {
        let mut acknowledged = Acknowledged::new();
        loop {
            let mut serials = Vec::new();
            let made = self.change(Method::POST, "/objects/".to_owned(), &mut serials).await;
            let Some(id) = made.map(|answer| answer["result_id"].as_i64().expect("an id")) else { return acknowledged };
            let path = || format!("/objects/{id}");
            let methods = [Method::PUT, Method::PUT, Method::PUT, Method::DELETE];
            let mut is_gone = false;
            for method in methods {
                is_gone = is_gone || self.change(method, path(), &mut serials).await.is_none();
            }
            acknowledged.push((id, serials));
            if is_gone {
                return acknowledged;
            }
        }
    }

    /// One change with a serial number of its own, which it notes when the change is acknowledged.
    async fn change(&self, method: Method, path: String, serials: &mut Vec<u64>) -> Option<Value> {
        let serial = self.serials.fetch_add(1, Ordering::Relaxed);
        let mut request = self.client.request(method.clone(), &path).header("Inventory-Comment", serial.to_string());
        if method != Method::DELETE {
            let values = json!({"serial": serial, "text": format!("{serial} ").repeat(40)});
            request = request.json(&json!({"type_id": self.type_id, "author_id": 1, "fields": fields(&values)}));
        }
        let answer = Client::answer(request).await?;
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        serials.push(serial);
        Some(answer.json())
    }
}

/// Continues to read after what was seen, until the service is gone or the sequence `last` has come.
async fn read_on(client: Arc<Client>, mut seen: Seen, last: Option<i64>) -> Seen {
    let request = client.request(Method::GET, "/changes/?resource=objects");
    let Some(mut reader) = Reader::open(request, seen.last.as_deref()).await else { return seen };
    while last.is_none_or(|last| seen.events.last().is_none_or(|(sequence, _)| *sequence < last)) {
        let Some((event, id, data)) = reader.event().await else { break };
        assert_eq!(event, "objects", "{data}");
        let serial = data["document"]["fields"][0]["value"].as_u64();
        seen.events.push((data["sequence"].as_i64().expect("a sequence"), serial));
        seen.last = Some(id);
    }
    seen
}

/// All entries of objects, by their sequence.
async fn entries(client: &Client) -> BTreeMap<i64, Entry> {
    let mut entries = BTreeMap::new();
    for page in 1.. {
        let path = format!("/logs/?filter={{\"resource\":\"objects\"}}&sort=sequence&limit=1000&page={page}");
        let answer = send(client.request(Method::GET, &path)).await.json();
        let results = answer["results"].as_array().expect("results");
        for entry in results {
            let number = |name: &str| entry[name].as_i64().unwrap_or_else(|| panic!("no {name}: {entry}"));
            let serial = entry["comment"].as_str().and_then(|text| text.parse().ok()).expect("a serial number");
            let (public_id, number, sequence) = (number("public_id"), number("number"), number("sequence"));
            entries.insert(sequence, Entry { public_id, number, serial });
        }
        if results.len() < 1000 {
            break;
        }
    }
    entries
}

/// Each acknowledged change has one entry, in its place, and nothing has two.
fn assert_complete(entries: &BTreeMap<i64, Entry>, acknowledged: &HashMap<i64, Vec<u64>>) {
    let mut by_object: HashMap<i64, Vec<u64>> = HashMap::new();
    let mut serials = HashSet::new();
    for entry in entries.values() {
        assert!(serials.insert(entry.serial), "the change {} has two entries", entry.serial);
        let of_object = by_object.entry(entry.public_id).or_default();
        of_object.push(entry.serial);
        assert_eq!(usize::try_from(entry.number), Ok(of_object.len()), "object {}", entry.public_id);
    }
    for (id, serials) in acknowledged {
        let known = by_object.get(id).unwrap_or_else(|| panic!("object {id} has no entries"));
        assert!(known.starts_with(serials), "object {id}: {known:?} and not {serials:?}");
        // One change may have been stored when the service was killed before it answered.
        assert!(known.len() <= serials.len() + 1, "object {id}: {known:?} and not {serials:?}");
    }
}

fn assert_sound(directory: &Path) {
    let mut verify = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    let verify = verify.args(["history", "verify", "--set", "store.uri=embedded:data"]).current_dir(directory);
    let verify = verify.output().expect("the binary starts");
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_is_told_once_and_in_order_through_kill_after_kill() {
    let kills = std::env::var_os(KILLS).and_then(|kills| kills.to_str()?.parse().ok()).unwrap_or(5_u64);
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let client = Client::sign_in(&service.origin).await;
    let field = |name: &str, kind: &str| json!({"type": kind, "name": name, "label": name});
    let body = json!({"name": "thing", "author_id": 1, "fields": [field("serial", "number"), field("text", "text")]});
    let type_id = client.post("/types/", &body).await.expect("an answer").json()["result_id"].as_i64().expect("an id");
    let begun = send(client.request(Method::GET, "/changes/")).await.json();
    let begun = begun["next"].as_str().expect("a cursor").to_owned();
    service.kill();
    let serials = Arc::new(AtomicU64::new(1));
    let mut acknowledged = HashMap::new();
    let mut readers: Vec<Seen> = (0..READERS).map(|_| Seen { last: Some(begun.clone()), events: Vec::new() }).collect();
    for round in 0..kills {
        let service = ServiceProcess::start(directory.path(), "embedded:data");
        let client = Arc::new(Client::sign_in(&service.origin).await);
        let writer = || Writer { client: Arc::clone(&client), type_id, serials: Arc::clone(&serials) };
        let writing: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(writer().write_until_gone())).collect();
        let read = |seen| tokio::spawn(read_on(Arc::clone(&client), seen, None));
        let reading: Vec<_> = readers.drain(..).map(read).collect();
        // Kills at many different moments of a group commit.
        tokio::time::sleep(Duration::from_millis(100 + 37 * (round % 11))).await;
        service.kill();
        for writer in writing {
            for (id, serials) in writer.await.expect("the writer ends") {
                assert!(acknowledged.insert(id, serials).is_none(), "the id {id} was given twice");
            }
        }
        for reader in reading {
            readers.push(reader.await.expect("the reader ends"));
        }
    }
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let client = Arc::new(Client::sign_in(&service.origin).await);
    let entries = entries(&client).await;
    assert_complete(&entries, &acknowledged);
    let changes: usize = acknowledged.values().map(Vec::len).sum();
    assert!(changes as u64 > kills, "only {changes} changes were acknowledged");
    let last = *entries.keys().next_back().expect("entries");
    let sequences: Vec<i64> = entries.keys().copied().collect();
    for reader in readers {
        let seen = read_on(Arc::clone(&client), reader, Some(last)).await;
        assert_eq!(seen.events.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), sequences);
        let told = seen.events.iter().filter_map(|(sequence, serial)| Some((entries[sequence].serial, (*serial)?)));
        assert_eq!(told.clone().find(|(stored, told)| stored != told), None);
        // A deletion is reported without a document.
        assert!(told.count() > sequences.len() / 2);
    }
    service.kill();
    assert_sound(directory.path());
    println!(
        "{kills} kills, {changes} acknowledged changes, {} entries, each told to {READERS} readers",
        sequences.len()
    );
}
