//! `inventory-service check --deep`, `check --repair`, `reindex` and `compact`, each as a process of its own.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bson::doc;
use bson::raw::RawDocumentBuf;
use inventory_service::query::Filter;
use inventory_service::store::embedded::{EmbeddedStore, Options};
use inventory_service::store::{Change, Store, Unit, collections};
use tempfile::TempDir;

use crate::check_command::{check, complaint};
use crate::support::plain::made_plain;

/// A closed store of the service in `directory`, with some documents.
async fn store_with_types(directory: &Path) {
    let store = EmbeddedStore::open(&directory.join("data"), &Options::default()).expect("a new store");
    store.prepare(collections::ALL).await.expect("it can be prepared");
    for id in 1..=50_i64 {
        let document = doc! { "_id": id, "public_id": id, "name": format!("type {id}") };
        let document = RawDocumentBuf::try_from(document).expect("it is BSON");
        let unit = Unit::of(Change::Insert { collection: collections::TYPES, document });
        store.commit(unit).await.expect("the id is free");
    }
}

/// Takes a key out of the index on `name`, as no one but a fault would.
fn lose_a_key(directory: &Path) {
    let database = made_plain(&directory.join("data"));
    let transaction = database.begin_write().expect("a transaction");
    let index: redb::TableDefinition<&[u8], u64> = redb::TableDefinition::new("x1.2");
    transaction.open_table(index).expect("the index").pop_first().expect("it can be read").expect("a key");
    transaction.commit().expect("committed");
}

#[tokio::test]
async fn a_sound_store_is_said_to_be_sound() {
    let directory = TempDir::new().expect("a temporary directory");
    store_with_types(directory.path()).await;
    for flags in [&["--deep"][..], &["--repair"]] {
        let checked = check(directory.path(), flags, &[]);
        assert!(checked.status.success(), "{}", complaint(&checked));
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(said.starts_with("read 50 documents and 150 keys of indexes"), "{said}");
    }
}

#[test]
fn an_export_that_does_not_fit_names_the_file_and_the_remedy() {
    let directory = TempDir::new().expect("a temporary directory");
    let program = env!("CARGO_BIN_EXE_inventory-service");
    let demo = Command::new(program).args(["demo", "--objects", "500"]).current_dir(directory.path()).output();
    assert!(demo.expect("the binary starts").status.success(), "the demo is not loaded");
    // A file may have 64 KiB, as on a disk that fills.
    let script = "trap '' XFSZ; ulimit -f 128; exec \"$0\" export out";
    let output = Command::new("sh").args(["-c", script, program]).current_dir(directory.path()).output();
    let said = complaint(&output.expect("a shell starts"));
    let said = said.lines().last().expect("it complains");
    assert_eq!(
        said,
        "inventory-service: out.partial/objects.ndjson: File too large (os error 27); make room there, or name a place on \
         another disk"
    );
    assert!(!directory.path().join("out.partial").exists(), "what is incomplete is removed");
}

#[tokio::test]
async fn an_index_that_lacks_a_key_is_found_and_repaired() {
    let directory = TempDir::new().expect("a temporary directory");
    store_with_types(directory.path()).await;
    lose_a_key(directory.path());
    let found = check(directory.path(), &["--deep"], &[]);
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(said.contains("framework.types: the index name lacks a key of row 0"), "{said}");
    let complaint = complaint(&found);
    assert!(complaint.contains("its documents are whole: inventory-service check --repair"), "{complaint}");
    let repaired = check(directory.path(), &["--repair"], &[]);
    assert!(repaired.status.success(), "{}", String::from_utf8_lossy(&repaired.stderr));
    assert!(directory.path().join("data/inventory.redb.damaged-1").exists());
    assert!(check(directory.path(), &["--deep"], &[]).status.success());
}

#[tokio::test]
async fn a_damaged_store_names_the_remedy_and_stays_as_it_is() {
    let directory = TempDir::new().expect("a temporary directory");
    store_with_types(directory.path()).await;
    let file = directory.path().join("data/inventory.redb");
    let mut bytes = std::fs::read(&file).expect("it can be read");
    // After the bytes that the file begins with.
    bytes.truncate(8 * 4096);
    std::fs::write(&file, &bytes).expect("it can be written");
    for flags in [&["--deep"][..], &["--repair"]] {
        let complaint = complaint(&check(directory.path(), flags, &[]));
        assert!(complaint.contains("restore a backup with inventory-service restore"), "{complaint}");
        assert!(!complaint.contains("check --deep"), "{flags:?} sends back: {complaint}");
    }
    assert_eq!(std::fs::read(&file).expect("it can be read"), bytes);
}

#[tokio::test]
async fn words_that_do_not_fit_their_objects_are_found() {
    let directory = TempDir::new().expect("a temporary directory");
    said(directory.path(), &["demo", "--objects", "300"]);
    assert!(check(directory.path(), &["--deep"], &[]).status.success());
    let store = EmbeddedStore::open(&directory.path().join("data"), &Options::default()).expect("the store");
    store.prepare(collections::ALL).await.expect("it can be prepared");
    let filter = Filter::equals("terms", "production\u{1}");
    let removal = Change::DeleteMany { collection: collections::SEARCH, filter };
    let removed = store.commit(Unit::of(removal)).await.expect("it is removed")[0];
    drop(store);
    let found = check(directory.path(), &["--deep"], &[]);
    let told = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(!found.status.success() && removed > 1, "{told}");
    assert!(
        told.contains(&format!("service.search: the words of {removed} objects are not those of their values")),
        "{told}"
    );
    assert!(told.contains("inventory-service reindex makes them again"), "{told}");
    said(directory.path(), &["reindex"]);
    let now = check(directory.path(), &["--deep"], &[]);
    let told = String::from_utf8_lossy(&now.stdout).into_owned();
    assert!(now.status.success() && told.contains("the index of words is not complete yet"), "{told}");
}

/// What a command says that succeeds.
fn said(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    let done = command.args(arguments).current_dir(directory).output().expect("the binary starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[tokio::test]
async fn a_store_is_compacted() {
    let directory = TempDir::new().expect("a temporary directory");
    said(directory.path(), &["demo", "--objects", "200"]);
    let store = EmbeddedStore::open(&directory.path().join("data"), &Options::default()).expect("the store");
    let mut unit = Unit::default();
    for id in 1..=3_000_i64 {
        let document = doc! { "_id": id, "public_id": 10_000 + id, "text": "x".repeat(2_000) };
        let document = RawDocumentBuf::try_from(document).expect("it is BSON");
        unit = unit.and(Change::Insert { collection: collections::OBJECTS, document });
    }
    store.commit(unit).await.expect("the documents are stored");
    let filter = Filter::equals("text", "x".repeat(2_000));
    store.commit(Unit::of(Change::DeleteMany { collection: collections::OBJECTS, filter })).await.expect("and removed");
    drop(store);
    let first = said(directory.path(), &["compact"]);
    assert!(first.starts_with("compacted from "), "{first}");
    let second = said(directory.path(), &["compact"]);
    assert!(second.starts_with("nothing was unused: the file has "), "{second}");
    assert!(check(directory.path(), &["--deep"], &[]).status.success());
}

#[tokio::test]
async fn a_store_that_grows_when_it_is_compacted_says_why() {
    let directory = TempDir::new().expect("a temporary directory");
    store_with_types(directory.path()).await;
    said(directory.path(), &["backup", "copy"]);
    said(directory.path(), &["restore", "copy", "--force"]);
    let grown = said(directory.path(), &["compact"]);
    assert!(grown.starts_with("nothing was unused: the file grew from "), "{grown}");
    let why = "because a store is written in steps of 1 MiB and keeps about 5242880 bytes free for its next writes";
    assert!(grown.contains(why), "{grown}");
}

#[tokio::test]
async fn documents_that_cannot_be_shown_are_named_and_counted() {
    let directory = TempDir::new().expect("a temporary directory");
    store_with_types(directory.path()).await;
    let store = EmbeddedStore::open(&directory.path().join("data"), &Options::default()).expect("the store");
    let wrong = (101..=250_i64).map(|id| doc! { "_id": id, "public_id": id, "type_id": "1", "fields": {} });
    let right = doc! { "_id": 1, "public_id": 1, "type_id": 1, "fields": [{ "name": "a", "value": 1 }] };
    let of_no_type = doc! { "_id": 2, "public_id": 2, "type_id": 77 };
    for document in wrong.chain([right, of_no_type, doc! { "_id": 3, "type_id": 1 }]) {
        let document = RawDocumentBuf::try_from(document).expect("it is BSON");
        let unit = Unit::of(Change::Insert { collection: collections::OBJECTS, document });
        store.commit(unit).await.expect("the store takes any document");
    }
    drop(store);
    let found = check(directory.path(), &["--deep"], &[]);
    assert_eq!(
        complaint(&found),
        "inventory-service: 151 documents cannot be shown as meant, see above; replace or delete what is wrong there"
    );
    let said = String::from_utf8_lossy(&found.stdout).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[1], "the store is sound");
    assert_eq!(
        lines[2],
        "framework.objects: _id 101, public_id 101: type_id must be a whole number; fields must be an array"
    );
    let last = [
        "and 51 documents more",
        "note: framework.objects: 1 document of a type that does not exist: 77",
        "note: service.search: the index of words is not complete yet, and was not compared",
        "looked at 203 documents",
    ];
    assert_eq!(lines[102..], last);
}

#[test]
fn a_command_that_has_nothing_to_read_makes_no_store() {
    let directory = TempDir::new().expect("a directory for the test");
    std::fs::create_dir(directory.path().join("empty")).expect("a directory");
    for (arguments, told) in [
        (["import", "nowhere"].as_slice(), "nowhere: there is no such directory"),
        (&["import", "empty"], "empty is no package of this service: it has no manifest.json"),
        (&["import", "nowhere.csv", "--type", "rack"], "nowhere.csv: there is no such file"),
        (&["import", "empty", "--type", "rack"], "empty: this is a directory, and a file is needed"),
        (&["restore", "nowhere"], "nowhere: there is no such file"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
        let output = command.args(arguments).current_dir(directory.path()).output().expect("the binary starts");
        assert_eq!(complaint(&output), format!("inventory-service: {told}"));
        assert!(!directory.path().join("data").exists(), "{arguments:?} made a store");
    }
}

/// Opens the store, writes to it and closes it.
async fn write_once_more(directory: &Path) {
    let store = EmbeddedStore::open(&directory.join("data"), &Options::default()).expect("the store");
    let document =
        RawDocumentBuf::try_from(doc! { "_id": 0, "public_id": 100_000, "name": "late" }).expect("it is BSON");
    let unit = Unit::of(Change::Insert { collection: collections::TYPES, document });
    store.commit(unit).await.expect("the id is free");
}

/// The error of each command that must not run without the last writes.
fn refusals(directory: &Path) -> Vec<(String, String)> {
    let commands: [&[&str]; 8] = [
        &["check"],
        &["check", "--deep"],
        &["check", "--repair"],
        &["backup", "copy", "--force"],
        &["compact"],
        &["user", "list"],
        &["export", "exported"],
        &["history", "verify"],
    ];
    let run = |arguments: &&[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
        let done = command.args(*arguments).current_dir(directory).output().expect("the binary starts");
        assert!(!done.status.success(), "{arguments:?} passed");
        let told = [done.stdout, done.stderr].concat();
        (arguments.join(" "), String::from_utf8_lossy(&told).into_owned())
    };
    commands.iter().map(run).collect()
}

#[tokio::test]
async fn a_store_without_its_last_writes_is_refused_by_each_command_and_a_backup_sets_it_right() {
    let directory = TempDir::new().expect("a temporary directory");
    let (file, note) = (directory.path().join("data/inventory.redb"), "data/inventory.redb.acknowledged");
    said(directory.path(), &["demo", "--objects", "200"]);
    said(directory.path(), &["backup", "copy"]);
    let (older, kept) = (fs::read(&file).expect("the store"), fs::read(directory.path().join("copy")).expect("it"));
    write_once_more(directory.path()).await;
    for place in [None, Some(Vec::new()), Some(older)] {
        let _ = fs::remove_file(&file);
        if let Some(bytes) = &place {
            fs::write(&file, bytes).expect("it can be written");
        }
        for (command, told) in refusals(directory.path()) {
            let named = told.rsplit_once("remove ").and_then(|(_, rest)| rest.split(')').next());
            assert!(named.is_some_and(|named| named.ends_with(note)), "{command}: {told}");
        }
        if place.as_ref().is_none_or(Vec::is_empty) {
            assert_eq!(fs::read(&file).ok(), place, "nothing is made in its place");
        }
        assert_eq!(fs::read(directory.path().join("copy")).expect("it is there"), kept, "the last backup is kept");
    }
    said(directory.path(), &["restore", "copy", "--force"]);
    assert!(check(directory.path(), &["--deep"], &[]).status.success());
    assert!(check(directory.path(), &[], &[]).status.success());
}

#[tokio::test]
async fn an_older_copy_of_the_file_is_restored_like_a_backup() {
    let directory = TempDir::new().expect("a temporary directory");
    said(directory.path(), &["demo", "--objects", "200"]);
    fs::copy(directory.path().join("data/inventory.redb"), directory.path().join("copy")).expect("it is there");
    write_once_more(directory.path()).await;
    said(directory.path(), &["restore", "copy", "--force"]);
    assert!(check(directory.path(), &["--deep"], &[]).status.success());
}

#[test]
fn a_check_of_an_empty_file_makes_no_store() {
    let directory = TempDir::new().expect("a temporary directory");
    let file = directory.path().join("data/inventory.redb");
    fs::create_dir(directory.path().join("data")).expect("a directory");
    fs::write(&file, "").expect("a file");
    let found = check(directory.path(), &[], &[]);
    assert!(String::from_utf8_lossy(&found.stdout).contains("there is none yet"), "{found:?}");
    assert!(complaint(&check(directory.path(), &["--deep"], &[])).contains("there is no store in "));
    assert_eq!(fs::read(&file).expect("it is there"), b"");
}

/// Changes each page of the data that holds this text.
fn damage(directory: &Path, needle: &str) {
    let file = directory.join("data/inventory.redb");
    let mut bytes = fs::read(&file).expect("the store");
    let is_there = |at: &usize| bytes[*at..].starts_with(needle.as_bytes());
    let places: Vec<usize> = (0..bytes.len() - needle.len()).filter(is_there).collect();
    assert!(!places.is_empty(), "{needle} is not there");
    for at in places {
        bytes[at] ^= 1;
    }
    fs::write(&file, bytes).expect("it can be written");
}

#[test]
fn a_check_that_meets_a_damaged_page_fails_and_shows_no_defect_of_the_program() {
    let directory = TempDir::new().expect("a temporary directory");
    said(directory.path(), &["demo", "--objects", "200"]);
    // What says whether somebody can sign in.
    damage(directory.path(), "$argon2id$");
    for flags in [&[][..], &["--deep"]] {
        let checked = check(directory.path(), flags, &[]);
        assert_eq!(checked.status.code(), Some(1), "{checked:?}");
        let told = String::from_utf8_lossy(&[checked.stdout, checked.stderr].concat()).into_owned();
        assert!(told.contains("check --deep") || flags == ["--deep"], "{told}");
        assert!(told.contains("damaged"), "{told}");
        for unwanted in ["panicked", "RUST_BACKTRACE", ".cargo"] {
            assert!(!told.contains(unwanted), "{unwanted}: {told}");
        }
    }
}

/// The file of a new store gets its name before anybody can lock it.
#[test]
fn of_several_first_starts_at_once_one_gets_the_store_and_the_others_say_so() {
    for _ in 0..5 {
        let directory = TempDir::new().expect("a temporary directory");
        let mut services: Vec<Child> = (0..4).map(|_| first_start(directory.path())).collect();
        let has_ended = |service: &mut Child| service.try_wait().expect("its state").is_some();
        while services.iter_mut().map(has_ended).filter(|ended| *ended).count() < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        for mut service in services {
            if has_ended(&mut service) {
                let said = service.wait_with_output().expect("it ended").stderr;
                let said = String::from_utf8_lossy(&said).into_owned();
                assert!(said.contains("is in use by another process"), "{said}");
            } else {
                service.kill().expect("it runs");
                service.wait().expect("it ends");
            }
        }
    }
}

fn first_start(directory: &Path) -> Child {
    let mut service = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    service.args(["--set", "store.uri=embedded:data", "--set", "server.port=0"]).current_dir(directory);
    service.env("INVENTORY__AUTH__ARGON2__MEMORY_KIB", "8").stdout(Stdio::null()).stderr(Stdio::piped());
    service.spawn().expect("the binary starts")
}
