//! Copies of an embedded store: made while the service writes, checked, put back.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::doc;
use inventory_service::domain::document::raw;
use inventory_service::store::collections::MIGRATIONS;
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use super::open;
use crate::support::app::{ADMIN_PASSWORD, fields, send};
use crate::support::process::ServiceProcess;

/// Runs a command on the store in `data` of the directory.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    command(directory, arguments).output().expect("the binary starts")
}

pub(crate) fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    command.args(arguments).current_dir(directory).env("INVENTORY__AUTH__INITIAL_ADMIN_PASSWORD", ADMIN_PASSWORD);
    command.env("INVENTORY__AUTH__ARGON2__MEMORY_KIB", "8").env("INVENTORY__AUTH__ARGON2__ITERATIONS", "1");
    command
}

#[track_caller]
pub(crate) fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
pub(crate) fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "it succeeded");
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// A directory with the demo in its store.
pub(super) fn with_demo(objects: &str) -> TempDir {
    let directory = TempDir::new().expect("a temporary directory");
    succeeds(&run(directory.path(), &["demo", "--objects", objects]));
    directory
}

/// Creates objects until the stop flag is set; returns how many.
async fn write(origin: String, stop: Arc<AtomicBool>) -> u64 {
    let client = reqwest::Client::new();
    let body = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
    let login = send(client.post(format!("{origin}/rest/auth/login")).json(&body)).await;
    let token = login.json()["token"].as_str().expect("a token").to_owned();
    let request = |method, path: &str, body| {
        client.request(method, format!("{origin}/rest{path}")).bearer_auth(&token).json(&body)
    };
    let note = json!({"name": "note", "author_id": 1, "fields": [{"type": "text", "name": "text", "label": "Text"}]});
    let made = send(request(Method::POST, "/types/", note)).await;
    let type_id = made.json()["result_id"].as_i64().expect("an id");
    let mut written = 0;
    while !stop.load(Ordering::Relaxed) {
        let object =
            json!({"type_id": type_id, "author_id": 1, "fields": fields(&json!({"text": format!("note {written}")}))});
        assert!(send(request(Method::POST, "/objects/", object)).await.status.is_success());
        written += 1;
    }
    written
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_writes_is_whole_and_comes_back() {
    let directory = with_demo("1000");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..1).map(|_| tokio::spawn(write(service.origin.clone(), Arc::clone(&stop)))).collect();
    let place = directory.path().to_owned();
    let made = tokio::task::spawn_blocking(move || run(&place, &["backup", "backup.redb"])).await.expect("it ends");
    succeeds(&made);
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("all writes succeeded");
    }
    assert!(!directory.path().join("backup.redb.partial").exists());
    assert_eq!(service.terminate(), Some(0));
    // Into an empty place, and checked there.
    let other = TempDir::new().expect("a temporary directory");
    let backup = directory.path().join("backup.redb").display().to_string();
    let said = succeeds(&run(other.path(), &["restore", &backup]));
    assert!(said.ends_with("all sound; restored to data\n"), "{said}");
    succeeds(&run(other.path(), &["check", "--deep"]));
    let restored = ServiceProcess::start(other.path(), "embedded:data");
    let client = reqwest::Client::new();
    let body = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
    let login = send(client.post(format!("{}/rest/auth/login", restored.origin)).json(&body)).await;
    let token = login.json()["token"].as_str().expect("a token").to_owned();
    let list = send(client.get(format!("{}/rest/objects/?limit=1", restored.origin)).bearer_auth(token)).await;
    assert!(list.json()["total"].as_u64() >= Some(1000), "{}", list.text);
}

#[test]
fn a_store_that_nobody_serves_is_backed_up_through_a_pipe() {
    let directory = with_demo("200");
    let made = run(directory.path(), &["backup", "-"]);
    assert!(made.status.success() && made.stdout.len() > 100_000, "{}", String::from_utf8_lossy(&made.stderr));
    let other = TempDir::new().expect("a temporary directory");
    let mut restore = command(other.path(), &["restore", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
    let restore = restore.as_mut().expect("the binary starts");
    std::io::Write::write_all(&mut restore.stdin.take().expect("a pipe"), &made.stdout).expect("it reads");
    assert!(restore.wait().expect("it ends").success());
    for place in [directory.path(), other.path()] {
        succeeds(&run(place, &["export", "package"]));
    }
    assert_eq!(super::content(&other.path().join("package")), super::content(&directory.path().join("package")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_backups_in_a_directory_the_newest_ones_stay() {
    let directory = with_demo("200");
    let kept = directory.path().join("kept");
    let refused = complaint(&run(directory.path(), &["backup", "kept", "--keep", "2"]));
    assert!(refused.contains("kept") && refused.contains("name a directory that is there"), "{refused}");
    fs::create_dir(&kept).expect("a directory");
    let left = "inventory-20200101T000000.000Z.backup.partial";
    for name in ["inventory-20200101T000000.000Z.backup", "inventory-notes-Z.backup", "other.backup", left] {
        fs::write(kept.join(name), "words").expect("a file");
    }
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    for _ in 0..4 {
        succeeds(&run(directory.path(), &["backup", "kept", "--keep", "2"]));
    }
    drop(service);
    let mut names: Vec<_> =
        fs::read_dir(&kept).expect("a directory").map(|it| it.expect("an entry").file_name()).collect();
    names.sort();
    // What is no backup stays, whatever its name is; only what a killed command left goes.
    assert_eq!(names.len(), 3 + 2, "{names:?}");
    let newest = kept.join(&names[2]);
    succeeds(&run(directory.path(), &["restore", newest.to_str().expect("a path"), "--force"]));
}

#[test]
fn what_is_there_gives_way_only_by_force() {
    let directory = with_demo("200");
    succeeds(&run(directory.path(), &["backup", "one"]));
    let refused = complaint(&run(directory.path(), &["backup", "one"]));
    assert!(refused.contains("one is there already; say --force"), "{refused}");
    fs::write(directory.path().join("text"), "words").expect("a file");
    std::os::unix::fs::symlink("one", directory.path().join("link")).expect("a link");
    fs::write(directory.path().join("empty"), "").expect("a file");
    succeeds(&run(directory.path(), &["backup", "empty", "--force"]));
    for other in ["text", "link"] {
        let refused = complaint(&run(directory.path(), &["backup", other, "--force"]));
        assert!(refused.contains("is no backup and stays as it is"), "{other}: {refused}");
    }
    succeeds(&run(directory.path(), &["backup", "one", "--force"]));
    let before = fs::read(directory.path().join("data/inventory.redb")).expect("a store");
    let refused = complaint(&run(directory.path(), &["restore", "one"]));
    assert!(refused.contains("there is a store in data; say --force"), "{refused}");
    assert_eq!(fs::read(directory.path().join("data/inventory.redb")).expect("a store"), before);
    succeeds(&run(directory.path(), &["restore", "one", "--force"]));
    succeeds(&run(directory.path(), &["check", "--deep"]));
}

#[test]
fn what_a_killed_backup_left_gives_way_to_the_next_one() {
    let directory = with_demo("200");
    let left = directory.path().join("one.partial");
    fs::write(&left, "the first pages").expect("a file");
    succeeds(&run(directory.path(), &["backup", "one"]));
    assert!(!left.exists());
    succeeds(&run(directory.path(), &["restore", "one", "--force"]));
}

#[test]
fn a_backup_that_another_one_is_writing_is_left_to_it() {
    let directory = with_demo("200");
    succeeds(&run(directory.path(), &["backup", "one"]));
    let kept = fs::read(directory.path().join("one")).expect("a backup");
    let other = fs::File::create(directory.path().join("one.partial")).expect("a file");
    other.lock().expect("as the other command does");
    let told = complaint(&run(directory.path(), &["backup", "one", "--force"]));
    assert!(told.ends_with("another command is writing one.partial; wait for it, or write to another name"), "{told}");
    assert!(directory.path().join("one.partial").exists(), "it is the other's");
    assert!(fs::read(directory.path().join("one")).expect("a backup") == kept);
    drop(other);
    succeeds(&run(directory.path(), &["backup", "one", "--force"]));
    fs::create_dir(directory.path().join("package.partial")).expect("a directory");
    let other = fs::File::open(directory.path().join("package.partial")).expect("it is there");
    other.lock().expect("as the other command does");
    let told = complaint(&run(directory.path(), &["export", "package"]));
    assert!(
        told.ends_with("another command is writing package.partial; wait for it, or write to another name"),
        "{told}"
    );
    drop(other);
    succeeds(&run(directory.path(), &["export", "package"]));
}

#[tokio::test]
async fn a_copy_that_was_not_completed_is_backed_up_by_nobody() {
    let directory = with_demo("200");
    succeeds(&run(directory.path(), &["backup", "one"]));
    let kept = fs::read(directory.path().join("one")).expect("a backup");
    // As a migration leaves it that was killed.
    let store = open(&format!("embedded:{}", directory.path().join("data").display())).await;
    let mark = raw(&doc! {"_id": "incomplete", "from": "the source"});
    store.commit(Unit::of(Change::Insert { collection: MIGRATIONS, document: mark })).await.expect("a mark");
    drop(store);
    for arguments in [&["backup", "one", "--force"][..], &["backup", "-"], &["check", "--deep"]] {
        let told = complaint(&run(directory.path(), arguments));
        assert!(
            told.contains("was being filled from the source by inventory-service migrate, which did not end"),
            "{told}"
        );
    }
    assert!(fs::read(directory.path().join("one")).expect("a backup") == kept);
}

#[test]
fn a_backup_into_a_directory_or_into_nowhere_says_what_to_name() {
    let directory = with_demo("200");
    for arguments in [&["backup", "data"][..], &["backup", "data", "--force"]] {
        assert!(complaint(&run(directory.path(), arguments)).ends_with("data is a directory; name a file in it"));
    }
    let nowhere = complaint(&run(directory.path(), &["backup", "nowhere/one"]));
    assert!(nowhere.ends_with("there is no directory nowhere; make it first"), "{nowhere}");
    // Where no file can be made.
    let kernel = complaint(&run(directory.path(), &["backup", "/proc/one"]));
    assert!(kernel.contains("/proc/one") && kernel.contains("cannot be written: "), "{kernel}");
    assert!(kernel.ends_with("name a file where you may write and where there is room"), "{kernel}");
    fs::write(directory.path().join("one.csv"), "hostname\nweb-1\n").expect("a file");
    let no_type = complaint(&run(directory.path(), &["import", "one.csv", "--type", "serve"]));
    assert!(no_type.ends_with("there is no type named serve; did you mean server?"), "{no_type}");
    let an_id = complaint(&run(directory.path(), &["import", "one.csv", "--type", "1"]));
    assert!(an_id.contains("--type takes the name of a type; that of type 1 is "), "{an_id}");
}

#[test]
fn a_damaged_backup_changes_nothing() {
    let directory = with_demo("200");
    succeeds(&run(directory.path(), &["backup", "one"]));
    let before = fs::read(directory.path().join("data/inventory.redb")).expect("a store");
    let backup = fs::read(directory.path().join("one")).expect("a backup");
    let mut flipped = backup.clone();
    // In the middle of the pages that are in use.
    let at = backup.windows(8).position(|bytes| bytes == b"hostname").expect("a document");
    flipped[at] ^= 1;
    let damaged = "the backup is damaged; nothing was changed: ";
    let none = "is no backup of this service; nothing was changed: name a file that inventory-service backup wrote";
    for (name, content, said) in [
        ("flipped", &flipped[..], damaged),
        ("short", &backup[..backup.len() / 2], damaged),
        ("text", b"no backup at all", none),
        ("garbage", &[0xa5; 10_000], none),
        ("empty", b"", none),
    ] {
        fs::write(directory.path().join(name), content).expect("a file");
        let refused = complaint(&run(directory.path(), &["restore", name, "--force"]));
        assert!(refused.contains(name) && refused.contains(said), "{name}: {refused}");
        assert!(!refused.contains("inventory.redb.new"), "{refused}");
        assert!(!directory.path().join("data/inventory.redb.new").exists());
        assert_eq!(fs::read(directory.path().join("data/inventory.redb")).expect("a store"), before, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_restored_while_a_service_has_the_store() {
    let directory = with_demo("200");
    succeeds(&run(directory.path(), &["backup", "one"]));
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let refused = complaint(&run(directory.path(), &["restore", "one", "--force"]));
    assert!(refused.contains("is in use by another process"), "{refused}");
    let refused = complaint(&run(directory.path(), &["export", "package"]));
    assert!(refused.contains("is in use by another process"), "{refused}");
    assert_eq!(service.terminate(), Some(0));
    assert!(!directory.path().join("data/inventory.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_a_killed_service_left_is_in_nobodys_way() {
    let directory = with_demo("200");
    ServiceProcess::start(directory.path(), "embedded:data").kill();
    assert!(directory.path().join("data/inventory.sock").exists());
    succeeds(&run(directory.path(), &["backup", "one"]));
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    succeeds(&run(directory.path(), &["backup", "two"]));
    drop(service);
}

#[test]
fn what_root_restores_belongs_to_the_owner_of_the_directory() {
    let directory = with_demo("200");
    let data = directory.path().join("data");
    let owner = |name: &str| fs::metadata(data.join(name)).expect("it is there").uid();
    if owner("inventory.redb") != 0 {
        let _ = writeln!(std::io::stderr(), "SKIPPED what_root_restores_...: only root gives files away");
        return;
    }
    succeeds(&run(directory.path(), &["backup", "one"]));
    chown(&data, Some(12_345), Some(12_345)).expect("root may do this");
    succeeds(&run(directory.path(), &["restore", "one", "--force"]));
    assert_eq!(owner("inventory.redb"), 12_345);
    succeeds(&run(directory.path(), &["compact"]));
    assert_eq!(owner("inventory.redb"), 12_345);
}

#[test]
fn mongodb_has_tools_of_its_own() {
    let directory = TempDir::new().expect("a temporary directory");
    for (command, tool) in [("backup", "mongodump"), ("restore", "mongorestore")] {
        let refused = complaint(&run(directory.path(), &["--set", "store.uri=mongodb://127.0.0.1/x", command, "file"]));
        assert!(refused.contains(tool) && refused.contains("docs/operation.md"), "{refused}");
    }
}
