//! Who only reads makes nothing; and what a newer version left is refused before anything is made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bson::{DateTime, doc};
use inventory_service::app::{build_services, open_aside, open_store, open_to_read};
use inventory_service::clock::SystemClock;
use inventory_service::domain::document::raw;
use inventory_service::moving::import::ImportOptions;
use inventory_service::moving::migrate::migrate;
use inventory_service::progress::Silent;
use inventory_service::service::upkeep::migrations;
use inventory_service::store::collections::{self, MIGRATIONS, OBJECTS};
use inventory_service::store::inspection::Verdict;
use inventory_service::store::{Change, Unit};

use super::backup::{complaint, run, succeeds, with_demo};
use super::{Place, on_each_kind, settings};

/// A store with one document and without any index.
async fn bare(place: &Place, collection: &'static str, document: bson::Document) -> String {
    let uri = place.new_uri();
    let store = open_store(&settings(&uri).store).await.expect("a store");
    let insert = Change::Insert { collection, document: raw(&document) };
    store.commit(Unit::of(insert)).await.expect("a document");
    uri
}

async fn has_indexes(uri: &str) -> bool {
    let store = open_store(&settings(uri).store).await.expect("the store opens");
    let findings = store.inspect(collections::ALL, DateTime::from_millis(0)).await.expect("findings");
    findings.iter().any(|finding| finding.subject == "indexes" && finding.verdict == Verdict::Good)
}

/// Every file below a directory with its content.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.map(|path| (path.display().to_string(), fs::read(&path).expect("a file"))).collect()
}

on_each_kind! {
    async fn a_store_of_a_newer_version_is_refused_before_anything_is_made_in_it(place) {
        let uri = bare(place, MIGRATIONS, doc! {"_id": 99_i64, "name": "of the future"}).await;
        let settings = settings(&uri);
        let store = open_store(&settings.store).await.expect("it opens");
        let refused = build_services(&settings, store, Arc::new(SystemClock)).await.err().expect("a refusal");
        assert!(refused.to_string().contains("newer version of this service (migration 99)"), "{refused}");
        assert!(!has_indexes(&uri).await);
        let refused = open_to_read(&settings).await.err().expect("a refusal");
        assert!(refused.to_string().contains("newer version of this service (migration 99)"), "{refused}");
    }

    async fn who_only_reads_says_that_there_is_no_store_and_makes_none(place) {
        let uri = place.new_uri();
        let refused = open_to_read(&settings(&uri)).await.err().expect("there is none").to_string();
        assert!(refused.starts_with("there is no store in "), "{refused}");
        let store = open_store(&settings(&uri).store).await.expect("it opens");
        let dump = store.dump().await.expect("a dump");
        assert!(dump.collections().iter().all(|name| name == "service.counters"), "{:?}", dump.collections());
    }

    async fn an_export_a_dry_run_and_a_migration_make_no_indexes_in_what_they_read(place) {
        let uri = bare(place, OBJECTS, doc! {"_id": 1, "public_id": 1_i64}).await;
        let settings = settings(&uri);
        let old = open_store(&settings.store).await.expect("it opens");
        migrations::run(&*old, migrations::ALL, DateTime::from_millis(0), Duration::from_secs(10)).await.expect("migrated");
        drop(old);
        let store = open_to_read(&settings).await.expect("it can be read");
        place.exported(&*store, "package").await;
        let options = ImportOptions { dry_run: true, ..ImportOptions::default() };
        let unchanged = place.imported(&*store, "package", options).await.0.expect("all is there")[4].unchanged;
        assert_eq!(unchanged, 1);
        drop(store);
        let source = open_aside(&settings.store).await.expect("it can be read");
        let target = place.empty().await;
        migrate(&*source, &*target, "the source", false, &Silent).await.expect("a migration");
        drop(source);
        assert!(!has_indexes(&uri).await);
        let target = target.inspect(collections::ALL, DateTime::from_millis(0)).await.expect("findings");
        assert!(target.iter().any(|finding| finding.subject == "indexes" && finding.verdict == Verdict::Good));
    }
}

#[test]
fn commands_that_only_read_leave_every_file_of_an_embedded_store_as_it_is() {
    let directory = with_demo("300");
    let data = directory.path().join("data");
    succeeds(&run(directory.path(), &["export", "package", "--csv"]));
    let table = fs::read_dir(directory.path().join("package/objects")).expect("tables").next().expect("a table");
    let table = table.expect("a table").path();
    let type_name = table.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
    let table = table.display().to_string();
    let before = files(&data);
    for arguments in [
        &["export", "again"][..],
        &["export", "with-tables", "--csv"],
        &["import", "package", "--dry-run"],
        &["import", &table, "--type", &type_name, "--dry-run"],
        &["migrate", "--from", "embedded:data", "--to", "embedded:target"],
        &["migrate", "--status"],
    ] {
        succeeds(&run(directory.path(), arguments));
        assert_eq!(files(&data), before, "{arguments:?}");
    }
}

#[test]
fn commands_that_only_read_make_no_directory() {
    let directory = with_demo("200");
    succeeds(&run(directory.path(), &["export", "exported"]));
    fs::remove_dir_all(directory.path().join("data")).expect("it is there");
    fs::write(directory.path().join("table.csv"), "hostname\nweb-1\n").expect("a file");
    for arguments in [
        &["export", "package"][..],
        &["export", "package", "--csv"],
        &["import", "exported", "--dry-run"],
        &["import", "table.csv", "--type", "server", "--dry-run"],
        &["migrate", "--status"],
    ] {
        let refused = complaint(&run(directory.path(), arguments));
        assert!(refused.contains("there is no store in data; the first start of the service makes one"), "{refused}");
    }
    assert!(!directory.path().join("data").exists() && !directory.path().join("package").exists());
}

#[test]
fn tables_are_written_with_the_style_that_is_asked_for_and_read_back() {
    let directory = with_demo("300");
    let style = ["--delimiter", "semicolon", "--quoting", "all", "--encoding", "utf-16le", "--bom"];
    succeeds(&run(directory.path(), &[&["export", "package", "--csv"][..], &style].concat()));
    for entry in fs::read_dir(directory.path().join("package/objects")).expect("tables") {
        let path = entry.expect("a table").path();
        let head = "\u{feff}\"public_id\";\"active\"".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        assert!(fs::read(&path).expect("a table").starts_with(&head), "{}", path.display());
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        let said = succeeds(&run(directory.path(), &["import", &path.display().to_string(), "--type", name]));
        assert!(said.starts_with("objects: 0 created, 0 updated"), "{name}: {said}");
    }
    let refused = run(directory.path(), &["export", "other", "--delimiter", "tab"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--csv"), "it goes with tables only");
    let refused = complaint(&run(directory.path(), &["export", "other", "--csv", "--encoding", "ebcdic"]));
    assert!(refused.contains("write one of utf-8, utf-16le"), "{refused}");
    let narrow = ["export", "other", "--csv", "--encoding", "windows-1252", "--bom"];
    let refused = complaint(&run(directory.path(), &narrow));
    assert!(refused.contains("--bom: windows-1252 has no byte-order mark"), "{refused}");
    assert!(!directory.path().join("other").exists(), "nothing is written");
}
