//! How long a large store takes to open after a kill, and what saving the list of free pages costs each commit. It is
//! not part of the gate, and runs only with a number of documents. It prints the figures that support the default of
//! `quick_repair_from_bytes`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::rounds;
use super::space::filled;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::open::files::StoreFiles;
use crate::store::embedded::options::Options;
use crate::store::embedded::upkeep::repair;
use crate::store::{Change, Store, Unit};

/// How many documents of 1 KB; none: no measurement.
const DOCUMENTS: &str = "INVENTORY_LARGE_DOCUMENTS";
/// The variable with the directory that the second process writes to.
const DIRECTORY: &str = "INVENTORY_LARGE_DIRECTORY";
const QUICK: &str = "INVENTORY_LARGE_QUICK";
const THINGS: &str = "things";

fn large_options(quick: bool) -> Options {
    Options { quick_repair_from_bytes: if quick { 0 } else { u64::MAX }, ..Options::default() }
}

fn millis(work: impl FnOnce()) -> u128 {
    let start = Instant::now();
    work();
    start.elapsed().as_millis()
}

#[test]
fn large_stores_open_quickly() {
    let documents = rounds(DOCUMENTS, 0);
    if documents == 0 {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory for the test");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let open = |quick: bool| EmbeddedStore::open(directory.path(), &large_options(quick)).expect("it can be opened");
    let store = open(false);
    let loading = millis(|| runtime.block_on(filled(&store, documents)));
    drop(store);
    let bytes = std::fs::metadata(directory.path().join("inventory.redb")).expect("it is there").len();
    eprintln!("{documents} documents, {} MiB, loaded in {loading} ms", bytes >> 20);
    eprintln!("opened after it was closed: {} ms", millis(|| drop(open(false))));
    for quick in [false, true] {
        write_until_killed(directory.path(), quick);
        let start = Instant::now();
        let store = open(quick);
        eprintln!("quick repair {quick}: opened after a kill in {} ms", start.elapsed().as_millis());
        let store = Arc::new(store);
        for writers in [1, 16, 128] {
            let rate = runtime.block_on(rate(&store, documents, writers));
            eprintln!("quick repair {quick}: {writers} writers, {rate} updates/s");
        }
    }
    let options = Options::default();
    let files = StoreFiles::prepare(directory.path(), &options).expect("it is there");
    eprintln!("checked completely in {} ms", millis(|| drop(repair::check_at(&files).expect("sound"))));
    let start = Instant::now();
    let done = repair::compact(directory.path(), &options).expect("it is sound");
    eprintln!("compacted in {} ms: {done:?}", start.elapsed().as_millis());
}

fn write_until_killed(directory: &Path, quick: bool) {
    let mut writer = Command::new(std::env::current_exe().expect("this test has a binary"))
        .args(["--exact", "store::embedded::trials::large::writer", "--nocapture"])
        .env(DIRECTORY, directory)
        .env(QUICK, quick.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this binary can be run");
    std::thread::sleep(Duration::from_secs(4));
    writer.kill().expect("it can be killed");
    writer.wait().expect("it has ended");
}

/// Not a test of its own: the process that is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::disallowed_methods, reason = "how the two processes of the measurement speak")]
async fn writer() {
    let Ok(directory) = std::env::var(DIRECTORY).map(PathBuf::from) else { return };
    let quick = std::env::var(QUICK).is_ok_and(|quick| quick == "true");
    let store = Arc::new(EmbeddedStore::open(&directory, &large_options(quick)).expect("it can be opened"));
    loop {
        rate(&store, 1_000, 16).await;
    }
}

/// Updates a second, over three seconds.
async fn rate(store: &Arc<EmbeddedStore>, documents: usize, writers: usize) -> u128 {
    let mut tasks = tokio::task::JoinSet::new();
    let start = Instant::now();
    for writer in 0..writers {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let (mut done, mut random) = (0_u128, super::Random(writer as u64));
            while start.elapsed() < Duration::from_secs(3) {
                let id = super::stored_number(random.below(documents / writers) * writers + writer);
                let filter = crate::query::Filter::equals("public_id", id);
                let update = crate::query::Update::set("rank", super::stored_number(random.below(1_000_000)));
                let unit = Unit::of(Change::UpdateMany { collection: THINGS, filter, update });
                store.commit(unit).await.expect("it is there");
                done += 1;
            }
            done
        });
    }
    let done: u128 = tasks.join_all().await.into_iter().sum();
    done * 1000 / start.elapsed().as_millis()
}
