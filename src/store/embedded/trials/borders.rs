//! Files that grow beyond 1 GiB and 4 GiB. They begin with a hole, so that this is fast.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bson::doc;
use bson::raw::RawDocumentBuf;
use redb::StorageBackend;

use super::memory::Memory;
use super::{options, up};
use crate::query::Filter;
use crate::store::embedded::EmbeddedStore;
use crate::store::embedded::file::pages::{Opened, Pages};
use crate::store::embedded::file::storage::{Disk, Storage};
use crate::store::embedded::open::paths::FILE;
use crate::store::embedded::upkeep::repair;
use crate::store::{Change, CollectionSpec, IndexSpec, Store, Unit};

/// The variable with the directory that the second process writes to.
const DIRECTORY: &str = "INVENTORY_BORDER_DIRECTORY";
const THINGS: &str = "things";
const COLLECTIONS: &[CollectionSpec] =
    &[CollectionSpec { name: THINGS, indexes: &[IndexSpec::unique("public_id", &[up("public_id")])] }];
const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
const BUDGET: Duration = Duration::from_mins(1);

async fn insert(store: &EmbeddedStore, id: i64) {
    let document = doc! { "_id": id, "public_id": id, "text": "x".repeat(8_000) };
    let document = RawDocumentBuf::try_from(document).expect("it is BSON");
    store.commit(Unit::of(Change::Insert { collection: THINGS, document })).await.expect("it is written");
}

async fn count(store: &EmbeddedStore, filter: Filter) -> u64 {
    store.count(THINGS, &filter, BUDGET).await.expect("it can be read")
}

/// Makes a store of a few documents whose file has about this length in bytes.
async fn grown(directory: &Path, length: u64) {
    let store = EmbeddedStore::open(directory, &options()).expect("a new store");
    store.prepare(COLLECTIONS).await.expect("it can be declared");
    for id in 0..20 {
        insert(&store, id).await;
    }
    drop(store);
    match Pages::open(Disk.open(&directory.join(FILE)).expect("it is there")).expect("it is sound") {
        Opened::Log(log) => log.leap(length).expect("a hole takes no room"),
        Opened::Plain(_) => panic!("it is a log"),
    }
}

/// Lets another process write, and kills it. Returns the ids of the acknowledged documents.
fn write_until(directory: &Path, is_enough: impl Fn(usize) -> bool) -> Vec<i64> {
    let mut writer = Command::new(std::env::current_exe().expect("this test has a binary"))
        .args(["--exact", "store::embedded::trials::borders::writer", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this binary can be run");
    let (mut acknowledged, begun) = (Vec::new(), Instant::now());
    for line in BufReader::new(writer.stdout.take().expect("it is piped")).lines().map_while(Result::ok) {
        acknowledged.extend(line.strip_prefix("acknowledged ").and_then(|id| id.parse::<i64>().ok()));
        if is_enough(acknowledged.len()) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_mins(4), "after {} documents", acknowledged.len());
    }
    writer.kill().expect("it can be killed");
    let ended = writer.wait().expect("it has ended");
    assert_eq!(ended.code(), None, "it was not killed");
    acknowledged
}

/// Not a test of its own: the process that is killed.
#[tokio::test]
async fn writer() {
    #[expect(clippy::disallowed_methods, reason = "how the two processes of the test speak")]
    let Ok(directory) = std::env::var(DIRECTORY).map(PathBuf::from) else { return };
    let store = EmbeddedStore::open(&directory, &options()).expect("the store can be opened");
    let first = count(&store, Filter::all()).await.cast_signed();
    for id in first.. {
        insert(&store, id).await;
        let mut output = std::io::stdout().lock();
        writeln!(output, "acknowledged {id}").and_then(|()| output.flush()).expect("the other process listens");
    }
}

#[tokio::test]
async fn files_grow_over_1_and_4_gib_while_they_are_written_to() {
    for border in [GIB, 4 * GIB] {
        let directory = tempfile::tempdir().expect("a directory for the test");
        let path = directory.path();
        let length = || std::fs::metadata(path.join(FILE)).expect("it is there").len();
        let is_sound = || repair::check(path, &options()).expect("it can be opened").problems.is_empty();
        grown(path, border - 5 * MIB).await;
        let is_below = |acknowledged: usize| acknowledged >= 40;
        let is_above = |_: usize| length() > border + 24 * MIB;
        for is_enough in [&is_below as &dyn Fn(usize) -> bool, &is_above] {
            let acknowledged = write_until(path, is_enough);
            assert!(is_sound(), "{border}: killed at {}", length());
            let store = EmbeddedStore::open(path, &options()).expect("it is sound");
            for id in &acknowledged {
                assert_eq!(count(&store, Filter::equals("public_id", *id)).await, 1, "{border}: {id} was acknowledged");
            }
            assert_eq!(store.check().await.expect("it can be read"), Vec::<String>::new());
            drop(store);
            assert!(is_sound(), "{border}: closed at {}", length());
            eprintln!("{} acknowledged, the file has {} bytes", acknowledged.len(), length());
        }
        assert!(length() > border);
        let store = EmbeddedStore::open(path, &options()).expect("it is sound");
        let all = count(&store, Filter::all()).await;
        drop(store);
        repair::compact(path, &options()).expect("it is sound");
        assert!(length() < 128 * MIB, "{}", length());
        assert_eq!(count(&EmbeddedStore::open(path, &options()).expect("it is sound"), Filter::all()).await, all);
    }
}

#[test]
fn a_log_has_pages_on_both_sides_of_4_gib() {
    let (name, memory) = (Path::new("/log"), Memory::of(std::collections::BTreeMap::new()));
    memory.create(name).expect("a file");
    let pages = Pages::create(memory.open(name).expect("it is there")).expect("a log");
    pages.set_len(5 * GIB).expect("holes take no room");
    let pieces = [0, GIB - 4096, GIB, 4 * GIB - 8192, 4 * GIB - 4096, 4 * GIB, 5 * GIB - 4096];
    let byte = |number: usize| u8::try_from(number + 1).expect("it is small");
    for (number, at) in pieces.into_iter().enumerate() {
        pages.write(at, &[byte(number); 4096]).expect("it is written");
    }
    pages.sync_data().expect("it is synced");
    let killed = Memory::of(memory.contents());
    pages.close().expect("it is closed");
    for files in [&killed, &memory] {
        let Opened::Log(pages) = Pages::open(files.open(name).expect("it is there")).expect("it is sound") else {
            panic!("it is a log");
        };
        for (number, at) in pieces.into_iter().enumerate() {
            let mut page = vec![0; 4096];
            pages.read(at, &mut page).expect("it is there");
            assert!(page == [byte(number); 4096], "at {at}");
        }
    }
}
