//! Kills a process that writes, again and again: what it acknowledged must be there, and the store whole.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bson::doc;
use inventory_service::query::Filter;
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{Change, Store, Unit};

use crate::contract::support::{BUDGET, ids, insertion, query, raw, thing};
use crate::contract::{COLLECTIONS, THINGS};

/// Tells the second process, which is this binary with this one test, where to write.
const DIRECTORY: &str = "INVENTORY_CRASH_DIRECTORY";
/// How many times a process is killed, if not the usual number.
const ROUNDS: &str = "INVENTORY_CRASH_ROUNDS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_outlive_kill_9() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let rounds: u32 = std::env::var_os(ROUNDS).and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(4);
    let mut expected = BTreeSet::new();
    for round in 0..rounds {
        let delay = Duration::from_millis(300 + u64::from(round * 7919 % 400));
        let log = write_until_killed(directory.path(), delay);
        let mut pending = BTreeSet::new();
        for line in log {
            let id: i32 = line[1..].parse().expect("the writer writes numbers");
            match &line[..1] {
                "+" => assert!(expected.insert(id), "{id} was given out twice"),
                // Announced, not acknowledged: both is right.
                "?" => drop(pending.insert(id)),
                _ => drop(expected.remove(&id)),
            }
        }
        check(directory.path(), &mut expected, &pending).await;
    }
    eprintln!("{rounds} rounds, {} documents, nothing lost", expected.len());
    assert!(!expected.is_empty(), "the writer never got to write");
}

/// What the writer printed before it was killed.
fn write_until_killed(directory: &Path, delay: Duration) -> Vec<String> {
    let mut writer = Command::new(std::env::current_exe().expect("this test has a binary"))
        .args(["--exact", "embedded_crash::writer", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("this binary can be run");
    let output = writer.stdout.take().expect("it is piped");
    let reader = std::thread::spawn(move || {
        // A line without an end was being written when the process was killed.
        let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
        let lines = lines.filter_map(|line| String::from_utf8(line).ok());
        lines.filter(|line| line.starts_with(['+', '-', '?']) && line.ends_with('.')).collect::<Vec<_>>()
    });
    std::thread::sleep(delay);
    writer.kill().expect("it can be killed");
    writer.wait().expect("it has ended");
    let lines = reader.join().expect("the reader does not panic");
    lines.into_iter().map(|line| line.trim_end_matches('.').to_owned()).collect()
}

async fn check(directory: &Path, expected: &mut BTreeSet<i32>, pending: &BTreeSet<i32>) {
    let store = EmbeddedStore::open(directory, &Options::default()).expect("the store can be opened again");
    assert_eq!(store.check().await.expect("the store can be read"), Vec::<String>::new());
    let found: BTreeSet<i32> =
        ids(&store, THINGS, &query(doc! {})).await.iter().map(|id| id.as_i32().expect("a number")).collect();
    let missing: Vec<&i32> = expected.difference(&found).filter(|id| !pending.contains(id)).collect();
    assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
    let last = found.last().copied().unwrap_or(0);
    assert!(store.reserve_ids(THINGS, 1).await.expect("an id") > i64::from(last));
    // What was stored without being acknowledged is as good as stored from here on.
    *expected = found;
}

/// Not a test by itself: the process that [`acknowledged_writes_outlive_kill_9`] kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer() {
    let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let store = Arc::new(EmbeddedStore::open(&directory, &Options::default()).expect("the store can be opened"));
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..16 {
        tasks.spawn(write_for_ever(Arc::clone(&store)));
    }
    tasks.join_all().await;
}

async fn write_for_ever(store: Arc<EmbeddedStore>) {
    loop {
        let id = i32::try_from(store.reserve_ids(THINGS, 1).await.expect("an id")).expect("small");
        let document =
            thing(id, doc! { "kind": id % 5, "tags": [id, id + 1, "x"], "fields": [{ "name": "id", "value": id }] });
        store.commit(Unit::of(insertion(THINGS, &document))).await.expect("the id is free");
        say('+', id);
        if id % 4 == 0 {
            say('?', id);
            let unit = Unit::of(Change::Delete { collection: THINGS, before: raw(&document) });
            store.commit(unit).await.expect("nobody else changes it");
            say('-', id);
        } else if id % 4 == 1 {
            let after = raw(&thing(id, doc! { "kind": -1, "tags": [] }));
            let unit = Unit::of(Change::Replace { collection: THINGS, before: raw(&document), after });
            store.commit(unit).await.expect("nobody else changes it");
            let found = store.count(THINGS, &Filter::equals("public_id", id), BUDGET).await.expect("an answer");
            assert_eq!(found, 1);
        }
    }
}

fn say(sign: char, id: i32) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{sign}{id}.").and_then(|()| output.flush()).expect("the other process listens");
}
