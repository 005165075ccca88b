//! What a package is, and how it comes to its place.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use inventory_service::domain::document::raw;
use inventory_service::exchange::csv::CsvStyle;
use inventory_service::moving::MovingError;
use inventory_service::moving::export::{Tables, export};
use inventory_service::progress::Silent;
use inventory_service::store::collections::USERS;
use inventory_service::store::{Change, Unit};
use serde_json::Value;

use super::{content, on_each_kind, user};

const EPOCH: chrono::DateTime<chrono::Utc> = chrono::DateTime::UNIX_EPOCH;

on_each_kind! {
    async fn a_package_lists_its_files_with_lengths_and_checksums(place) {
        let services = place.demo().await;
        let manifest = place.exported(&*services.store, "package").await;
        let counts: Vec<(&str, u64)> =
            manifest.files.iter().map(|entry| (entry.name.as_str(), entry.documents)).collect();
        let types = counts[0].1;
        assert_eq!(
            counts,
            [
                ("types.ndjson", types), ("categories.ndjson", 7), ("groups.ndjson", 2), ("users.ndjson", 1),
                ("objects.ndjson", 300), ("settings.ndjson", 0), ("history.ndjson", types + 7 + 300),
            ]
        );
        assert!(types > 5);
        assert!(manifest.of_one_moment);
        let read = inventory_service::moving::package::Manifest::read(&place.path("package")).expect("a manifest");
        assert_eq!(read, manifest);
        read.verify(&place.path("package")).expect("every file is what the manifest says");
    }

    async fn objects_stand_in_the_order_of_their_ids_with_all_that_is_stored(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "package").await;
        let text = fs::read_to_string(place.path("package/objects.ndjson")).expect("a file");
        let ids: Vec<i64> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("a line is JSON"))
            .map(|line| line["public_id"]["$numberLong"].as_str().expect("a long").parse().expect("a number"))
            .collect();
        assert_eq!(ids, (1..=300).collect::<Vec<_>>());
        assert!(text.lines().all(|line| line.starts_with(r#"{"_id":{"$oid":""#) && line.contains("creation_time")));
    }

    async fn what_users_sign_in_with_is_never_exported(place) {
        let services = place.demo().await;
        let mut foreign = user(9, "ada");
        foreign.insert("password", "a hash of another tool");
        let insert = Change::Insert { collection: USERS, document: raw(&foreign) };
        services.store.commit(Unit::of(insert)).await.expect("a user");
        place.exported(&*services.store, "package").await;
        let all: String = content(&place.path("package"))
            .into_iter()
            .map(|(_, bytes)| String::from_utf8(bytes).expect("text"))
            .collect();
        assert!(all.contains(r#""user_name":"ada""#));
        assert!(!all.contains("$argon2") && !all.contains("a hash of another tool") && !all.contains("login"));
    }

    async fn two_exports_of_one_store_are_equal(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "one").await;
        place.exported(&*services.store, "two").await;
        assert_eq!(content(&place.path("one")), content(&place.path("two")));
    }

    async fn a_package_gives_way_to_a_new_one_only_by_force(place) {
        let store = place.empty().await;
        place.exported(&*store, "package").await;
        let refused = export(&*store, &place.path("package"), false, EPOCH, None, &Silent).await.expect_err("it is there");
        assert!(matches!(refused, MovingError::Exists(_)), "{refused}");
        fs::write(place.path("package/note"), "mine").expect("a file");
        let force = async || export(&*store, &place.path("package"), true, EPOCH, None, &Silent).await;
        let refused = force().await.expect_err("a file of somebody's is in it");
        assert!(matches!(refused, MovingError::NoPackage { .. }), "{refused}");
        assert!(place.path("package/note").exists());
        fs::remove_file(place.path("package/note")).expect("it is there");
        force().await.expect("a new one");
        fs::create_dir(place.path("package.partial")).expect("a directory");
        fs::write(place.path("package.partial/note"), "mine").expect("a file");
        force().await.expect_err("a file of somebody's is in the way");
        assert!(place.path("package.partial/note").exists());
    }

    async fn a_directory_that_is_no_package_is_left_alone(place) {
        let store = place.empty().await;
        fs::create_dir(place.path("mine")).expect("a directory");
        fs::write(place.path("mine/note"), "mine").expect("a file");
        let refused = export(&*store, &place.path("mine"), true, EPOCH, None, &Silent).await.expect_err("not a package");
        assert!(refused.to_string().contains("the directory has other things in it"), "{refused}");
        assert_eq!(fs::read_dir(place.path("mine")).expect("it is there").count(), 1);
    }

    async fn tables_stand_beside_the_package_when_they_are_wanted(place) {
        let services = place.demo().await;
        let package = place.path("package");
        export(&*services.store, &package, false, EPOCH, Some(Tables { services: &services, style: CsvStyle::default() }), &Silent).await.expect("an export");
        let types = fs::read_to_string(package.join("types.ndjson")).expect("a file").lines().count();
        let tables: Vec<String> = fs::read_dir(package.join("objects"))
            .expect("tables")
            .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("a table"))
            .collect();
        assert_eq!(tables.len(), types);
        assert!(tables.iter().all(|table| table.starts_with("public_id,active,")), "{tables:?}");
        let rows: usize = tables.iter().map(|table| table.lines().count() - 1).sum();
        assert!(rows >= 300, "{rows}");
        // They do not prevent an import.
        let store = place.empty().await;
        place.imported(&*store, "package", inventory_service::moving::import::ImportOptions::default()).await.0.expect("an import");
    }

    async fn only_the_owner_reads_a_package(place) {
        let store = place.empty().await;
        place.exported(&*store, "package").await;
        let mode = |path: &str| fs::metadata(place.path(path)).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode("package"), mode("package/users.ndjson"), mode("package/manifest.json")), (0o700, 0o600, 0o600));
    }
}
