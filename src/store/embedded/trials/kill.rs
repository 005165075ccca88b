//! Kills a writing process repeatedly: all acknowledged writes must be there, none of them half, and the store intact.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::workload::{self, CLIENTS, COLLECTIONS, Documents, Journal, Known, stored};
use super::{Random, options, rounds};
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::options::Options;

/// The variable with the directory that the second process, which is this binary with this one test, writes to.
const DIRECTORY: &str = "INVENTORY_CRASH_DIRECTORY";
/// How many times a process is killed.
const ROUNDS: &str = "INVENTORY_CRASH_ROUNDS";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_outlive_kill_9() {
    let directory = tempfile::tempdir().expect("a directory for the test");
    let rounds = rounds(ROUNDS, 20);
    let mut random = Random(std::process::id().into());
    let (mut known, mut acknowledged) = (BTreeMap::<usize, Known>::new(), 0);
    for round in 0..rounds {
        // Some are killed before they have opened the store.
        let delay = Duration::from_millis(20 + random.next() % 600);
        for line in write_until_killed(directory.path(), delay) {
            let (sign, client, documents) = read(&line);
            let known = known.entry(client).or_default();
            if sign == "B" {
                known.begun(documents);
            } else {
                known.settled(documents);
                acknowledged += 1;
            }
        }
        let store = EmbeddedStore::open(directory.path(), &options()).expect("the store can be opened again");
        assert_eq!(store.check().await.expect("the store can be read"), Vec::<String>::new(), "round {round}");
        let mut found = stored(&store).await.expect("the store can be read");
        for client in 0..CLIENTS {
            let found = found.remove(&client).unwrap_or_default();
            let known = known.entry(client).or_default();
            known.check(&found).unwrap_or_else(|error| panic!("round {round}, client {client}: {error}"));
            known.settled(found);
        }
    }
    eprintln!("{rounds} rounds, {acknowledged} acknowledged operations, none lost, none by half");
    assert!(acknowledged > 16 * rounds, "the clients hardly got to write");
}

/// What the writer printed before it was killed.
fn write_until_killed(directory: &Path, delay: Duration) -> Vec<String> {
    let mut writer = Command::new(std::env::current_exe().expect("this test has a binary"))
        .args(["--exact", "store::embedded::trials::kill::writer", "--nocapture"])
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
        lines.filter(|line| line.starts_with(['B', 'S']) && line.ends_with('.')).collect::<Vec<_>>()
    });
    std::thread::sleep(delay);
    writer.kill().expect("it can be killed");
    writer.wait().expect("it has ended");
    reader.join().expect("the reader does not panic")
}

/// Not a test of its own: the process that [`acknowledged_writes_outlive_kill_9`] kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writer() {
    #[expect(clippy::disallowed_methods, reason = "how the two processes of the test speak")]
    let Ok(directory) = std::env::var(DIRECTORY).map(PathBuf::from) else { return };
    // Every other process saves what makes opening quick.
    let quick_repair_from_bytes = if std::process::id().is_multiple_of(2) { 0 } else { u64::MAX };
    let options = Options { quick_repair_from_bytes, ..options() };
    let store = Arc::new(EmbeddedStore::open(&directory, &options).expect("the store can be opened"));
    store.prepare(COLLECTIONS).await.expect("it can be prepared");
    workload::run(&store, &Arc::new(Output), usize::MAX, u64::from(std::process::id())).await;
}

/// Notifies the other process.
struct Output;

impl Journal for Output {
    fn begun(&self, client: usize, attempted: &Documents) {
        say('B', client, attempted);
    }

    fn settled(&self, client: usize, documents: &Documents) {
        say('S', client, documents);
    }
}

fn say(sign: char, client: usize, documents: &Documents) {
    let documents = documents.iter().map(|((name, id), (version, made))| format!("{name}:{id}:{version}:{made}"));
    let line = format!("{sign} {client} {}.\n", documents.collect::<Vec<_>>().join(","));
    let mut output = std::io::stdout().lock();
    output.write_all(line.as_bytes()).and_then(|()| output.flush()).expect("the other process listens");
}

/// Reads what [`say`] wrote.
fn read(line: &str) -> (&str, usize, Documents) {
    let mut parts = line.trim_end_matches('.').splitn(3, ' ');
    let (sign, client) = (parts.next().expect("a sign"), parts.next().expect("a client"));
    let documents = parts.next().expect("documents").split(',').filter(|document| !document.is_empty());
    let documents = documents.map(|document| {
        let mut members = document.split(':');
        let name = members.next().expect("a name").to_owned();
        let mut number = || members.next().and_then(|number| number.parse().ok()).expect("a number");
        ((name, number()), (number(), number()))
    });
    (sign, client.parse().expect("a number"), documents.collect())
}
