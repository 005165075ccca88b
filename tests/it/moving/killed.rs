//! The commands that move data, killed on the way: what is left can be used or completed, never mistaken for whole.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;

use super::backup::{command, complaint, run, succeeds, with_demo};
use super::content;
use crate::support::mongod::{self, Deployment};

/// How long after its start the command is killed, in milliseconds: from before it begins to after its end.
const MOMENTS: [u64; 6] = [5, 25, 60, 120, 250, 500];

/// Starts the command and kills it after a while.
fn kill_after(directory: &Path, arguments: &[&str], moment: u64) {
    let mut child =
        command(directory, arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    std::thread::sleep(Duration::from_millis(moment));
    child.kill().expect("it can be killed");
    child.wait().expect("it has ended");
}

/// A package of 3,000 objects.
fn package() -> TempDir {
    let directory = with_demo("3000");
    succeeds(&run(directory.path(), &["export", "package"]));
    directory
}

/// Says how many objects an import left that was killed; on a store with units of any size, all of its file or none.
fn left(directory: &Path, store: &str, is_whole: bool) {
    let exported = run(directory, &["--set", store, "export", "left", "--force"]);
    if !exported.status.success() {
        let said = String::from_utf8_lossy(&exported.stderr).into_owned();
        let is_too_early = ["there is no store in", "start this version on the store once"];
        assert!(is_too_early.iter().any(|expected| said.contains(expected)), "{said}");
        return;
    }
    let objects = fs::read_to_string(directory.join("left/objects.ndjson")).expect("a file").lines().count();
    println!("{store}: {objects} of 3000 objects are left");
    assert!(!is_whole || [0, 3000].contains(&objects), "{objects}");
}

fn import_is_completed(uri: &str, source: &TempDir, is_whole: bool) {
    let package = source.path().join("package").display().to_string();
    let directory = TempDir::new().expect("a temporary directory");
    let store = format!("store.uri={uri}");
    for moment in MOMENTS {
        kill_after(directory.path(), &["--set", &store, "import", &package], moment);
        left(directory.path(), &store, is_whole);
    }
    succeeds(&run(directory.path(), &["--set", &store, "import", &package]));
    succeeds(&run(directory.path(), &["--set", &store, "export", "after"]));
    assert_eq!(content(&directory.path().join("after")), content(&source.path().join("package")));
}

#[test]
fn an_import_that_was_killed_is_completed_by_repeating_on_the_embedded_store() {
    import_is_completed("embedded:data", &package(), true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_that_was_killed_is_completed_by_repeating_on_mongodb() {
    if let Some(server) = mongod::shared(Deployment::ReplicaSet).await {
        import_is_completed(&server.fresh_uri(), &package(), false);
    }
}

/// Kills a migration at each moment. A service refuses what is left unless it is whole, and repeating completes it.
fn migration_is_completed(to: &str, source: &TempDir) {
    let directory = source.path();
    let arguments = ["migrate", "--from", "embedded:data", "--to", to];
    for moment in MOMENTS {
        kill_after(directory, &arguments, moment);
    }
    succeeds(&run(directory, &arguments));
    let store = format!("store.uri={to}");
    succeeds(&run(directory, &["--set", &store, "export", "after", "--force"]));
    assert_eq!(content(&directory.join("after")), content(&directory.join("package")));
}

#[test]
fn a_migration_that_was_killed_is_completed_by_repeating_on_the_embedded_store() {
    migration_is_completed("embedded:target", &package());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_was_killed_is_completed_by_repeating_on_mongodb() {
    if let Some(server) = mongod::shared(Deployment::ReplicaSet).await {
        migration_is_completed(&server.fresh_uri(), &package());
    }
}

#[test]
fn a_restore_that_was_killed_leaves_the_old_store_or_the_new_one() {
    let source = package();
    succeeds(&run(source.path(), &["backup", "backup.redb"]));
    let backup = source.path().join("backup.redb").display().to_string();
    let directory = with_demo("200");
    succeeds(&run(directory.path(), &["export", "old"]));
    for moment in MOMENTS {
        kill_after(directory.path(), &["restore", &backup, "--force"], moment);
        succeeds(&run(directory.path(), &["check", "--deep"]));
        succeeds(&run(directory.path(), &["export", "found", "--force"]));
        let found = content(&directory.path().join("found"));
        let is_old = found == content(&directory.path().join("old"));
        assert!(is_old || found == content(&source.path().join("package")), "after {moment} ms it is neither");
    }
    succeeds(&run(directory.path(), &["restore", &backup, "--force"]));
    succeeds(&run(directory.path(), &["export", "found", "--force"]));
    assert_eq!(content(&directory.path().join("found")), content(&source.path().join("package")));
}

#[test]
fn a_compaction_that_was_killed_leaves_a_whole_store() {
    let source = package();
    for moment in MOMENTS {
        kill_after(source.path(), &["compact"], moment);
        let is_half = source.path().join("data/inventory.redb.new").exists();
        println!("killed after {moment} ms, with {} file beside the store", if is_half { "a new" } else { "no" });
        succeeds(&run(source.path(), &["check", "--deep"]));
        succeeds(&run(source.path(), &["export", "found", "--force"]));
        assert_eq!(content(&source.path().join("found")), content(&source.path().join("package")));
    }
    let said = succeeds(&run(source.path(), &["compact"]));
    // A kill may have come too late to stop one.
    let is_done = ["compacted from ", "nothing was unused: "].iter().any(|words| said.starts_with(words));
    assert!(is_done, "{said}");
    assert!(!source.path().join("data/inventory.redb.new").exists());
    succeeds(&run(source.path(), &["check", "--deep"]));
}

#[test]
fn an_export_that_was_killed_leaves_no_package() {
    let source = package();
    for moment in MOMENTS {
        kill_after(source.path(), &["export", "again"], moment);
        let place = source.path().join("again");
        if place.exists() {
            assert_eq!(content(&place), content(&source.path().join("package")), "it is there by half");
            fs::remove_dir_all(place).expect("it can be removed");
        }
    }
    succeeds(&run(source.path(), &["export", "again"]));
    assert!(!source.path().join("again.partial").exists());
}

#[test]
fn a_table_that_was_exported_is_imported_by_the_command() {
    let source = with_demo("300");
    succeeds(&run(source.path(), &["export", "package", "--csv"]));
    let table = fs::read_dir(source.path().join("package/objects")).expect("tables").next().expect("a table");
    let table = table.expect("a table").path();
    let name = table.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
    let file = table.display().to_string();
    let said = succeeds(&run(source.path(), &["import", &file, "--type", &name]));
    assert!(said.starts_with("objects: 0 created"), "{said}");
    let refused = complaint(&run(source.path(), &["import", &file]));
    assert!(refused.contains("say of which --type its objects are"), "{refused}");
}

#[test]
fn a_table_without_ids_is_imported_once_unless_it_is_said_again() {
    let source = with_demo("300");
    let types = succeeds(&run(source.path(), &["export", "package", "--csv"]));
    assert!(types.contains("300 documents"), "{types}");
    let table = source.path().join("package/objects").join("rack.csv");
    let text = fs::read_to_string(&table).expect("the table of racks");
    let rows = text.lines().map(|line| line.split_once(',').expect("cells").1.to_owned() + "\n");
    fs::write(source.path().join("new.csv"), rows.collect::<String>()).expect("a table without ids");
    let count = text.lines().count() - 1;
    let import = |more: &[&str]| {
        let said = succeeds(&run(source.path(), &[&["import", "new.csv", "--type", "rack"][..], more].concat()));
        succeeds(&run(source.path(), &["export", "after", "--force"]));
        (said, fs::read_to_string(source.path().join("after/objects.ndjson")).expect("objects").lines().count())
    };
    let (said, objects) = import(&[]);
    assert_eq!(
        (said.as_str(), objects),
        (format!("objects: {count} created, 0 updated, 0 unchanged\n").as_str(), 300 + count)
    );
    let (said, objects) = import(&[]);
    assert!(said.starts_with("this file was imported at "), "{said}");
    assert!(said.contains("nothing was written now; say --again"), "{said}");
    assert_eq!(objects, 300 + count);
    assert_eq!(import(&["--again"]).1, 300 + 2 * count);
}

#[test]
fn the_source_of_a_migration_has_to_be_there() {
    let directory = TempDir::new().expect("a temporary directory");
    let refused =
        complaint(&run(directory.path(), &["migrate", "--from", "embedded:nowhere", "--to", "embedded:target"]));
    assert!(refused.contains("there is no store in nowhere"), "{refused}");
    assert!(!directory.path().join("target").exists());
}
