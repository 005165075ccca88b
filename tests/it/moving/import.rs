//! Packages read into a store: what comes back, what is refused, and how an interrupted import continues.

use std::collections::BTreeMap;
use std::fs;

use bson::doc;
use inventory_service::domain::document::raw;
use inventory_service::moving::MovingError;
use inventory_service::moving::import::{BadLine, ImportOptions, Summary};
use inventory_service::moving::package::PackagePart;
use inventory_service::query::{Filter, Sort, Update};
use inventory_service::service::accounts::credentials::{self, NewPassword};
use inventory_service::service::history::verify;
use inventory_service::service::search::state;
use inventory_service::store::collections::{CATEGORIES, CREDENTIALS, GROUPS, LOGS, OBJECTS, TYPES, USERS};
use inventory_service::store::{Change, FindQuery, Store, Unit};

use super::backup::{complaint, run, succeeds};
use super::migrate::count;
use super::{Place, content, on_each_kind, open, rewrite, services, user};

const PLAIN: ImportOptions = ImportOptions { update: false, accept_unclean: false, dry_run: false };
const UPDATE: ImportOptions = ImportOptions { update: true, accept_unclean: false, dry_run: false };
const DRY: ImportOptions = ImportOptions { update: false, accept_unclean: false, dry_run: true };
const LAX: ImportOptions = ImportOptions { update: false, accept_unclean: true, dry_run: false };
const BUDGET: std::time::Duration = std::time::Duration::from_secs(20);

fn of(summaries: &[Summary], part: PackagePart) -> [u64; 3] {
    let found = summaries.iter().find(|summary| summary.part == part).expect("a summary");
    [found.created, found.updated, found.unchanged]
}

fn said(findings: &[BadLine]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

async fn change(store: &dyn Store, change: Change) {
    store.commit(Unit::of(change)).await.expect("a change");
}

/// Imports the package by the command, and gives what it says.
fn by_command(place: &Place, uri: &str, more: &[&str]) -> String {
    let setting = format!("store.uri={uri}");
    let arguments = [&["--set", &setting, "import", "package"], more].concat();
    succeeds(&run(&place.path(""), &arguments))
}

on_each_kind! {
    async fn what_was_exported_comes_back_byte_for_byte(place) {
        let services = place.demo().await;
        let first = place.exported(&*services.store, "before").await;
        let store = place.empty().await;
        state::begin(&*store, BUDGET).await.expect("a state");
        let (outcome, findings) = place.imported(&*store, "before", PLAIN).await;
        let (is_complete, words) = state::in_words(&*store, BUDGET).await.expect("a state");
        assert!(!is_complete, "search has these objects to learn: {words}");
        let summaries = outcome.expect("an import");
        assert_eq!(said(&findings), Vec::<String>::new());
        assert_eq!((of(&summaries, PackagePart::Objects), of(&summaries, PackagePart::Users)), ([300, 0, 0], [1, 0, 0]));
        let second = place.exported(&*store, "after").await;
        assert_eq!(content(&place.path("after")), content(&place.path("before")));
        assert_eq!(first.files, second.files);
        assert_eq!(count(&*store, CREDENTIALS).await, 0);
        // New objects get ids after the imported ones.
        assert_eq!(store.reserve_ids(OBJECTS, 1).await.expect("an id"), 301);
    }

    async fn what_is_there_already_is_passed_over(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "package").await;
        let store = place.empty().await;
        place.imported(&*store, "package", PLAIN).await.0.expect("an import");
        let removal = Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("public_id", 7_i64) };
        change(&*store, removal).await;
        let (outcome, _) = place.imported(&*store, "package", PLAIN).await;
        let summaries = outcome.expect("the same import again");
        assert_eq!(of(&summaries, PackagePart::Objects), [1, 0, 299]);
        assert_eq!(of(&summaries, PackagePart::Groups), [0, 0, 2]);
        place.exported(&*store, "after").await;
        assert_eq!(content(&place.path("after")), content(&place.path("package")));
    }

    async fn what_is_there_with_another_content_is_replaced_only_by_update(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "package").await;
        let store = place.empty().await;
        place.imported(&*store, "package", PLAIN).await.0.expect("an import");
        let edit = |collection, id: i64, name: &'static str, value: &'static str| Change::UpdateMany {
            collection,
            filter: Filter::equals("public_id", id),
            update: Update::set(name, value),
        };
        change(&*store, edit(OBJECTS, 7, "version", "9.9.9")).await;
        change(&*store, edit(TYPES, 1, "label", "Another")).await;
        let (outcome, findings) = place.imported(&*store, "package", PLAIN).await;
        assert!(matches!(outcome, Err(MovingError::Refused { lines: 2, .. })), "{outcome:?}");
        assert_eq!(
            said(&findings),
            [
                "types.ndjson, line 1: /label: is another one in the store; say --update to replace what is there",
                "objects.ndjson, line 7: /version: is another one in the store; say --update to replace what is there",
            ]
        );
        let (outcome, _) = place.imported(&*store, "package", UPDATE).await;
        let summaries = outcome.expect("an update");
        assert_eq!((of(&summaries, PackagePart::Types)[1], of(&summaries, PackagePart::Objects)), (1, [0, 1, 299]));
        place.exported(&*store, "after").await;
        assert_eq!(content(&place.path("after")), content(&place.path("package")));
    }

    async fn the_history_comes_along_into_a_store_that_has_no_other(place) {
        let source = place.demo().await;
        place.exported(&*source.store, "package").await;
        let uri = place.new_uri();
        let import = |more: &[&str]| by_command(place, &uri, more);
        let entries = async |store: &dyn Store, action| {
            store.count(LOGS, &Filter::equals("action", action), BUDGET).await.expect("a number")
        };
        let all = count(&*source.store, LOGS).await;
        assert!(import(&[]).contains(&format!("history: {all} created")));
        let store = open(&uri).await;
        assert_eq!((count(&*store, LOGS).await, entries(&*store, "IMPORT").await), (all, entries(&*source.store, "IMPORT").await));
        place.exported(&*store, "after").await;
        assert_eq!(content(&place.path("after")), content(&place.path("package")));
        let verified = verify::verify(&*store, None).await.expect("it can be read");
        assert_eq!(verified.root, verify::verify(&*source.store, None).await.expect("it can be read").root);
    }

    async fn a_package_over_other_changes_leaves_an_entry_of_each(place) {
        let source = place.demo().await;
        place.exported(&*source.store, "package").await;
        let uri = place.new_uri();
        let import = |more: &[&str]| by_command(place, &uri, more);
        let before = import(&[]);
        assert!(before.contains("objects: 300 created"), "{before}");
        let all = count(&*source.store, LOGS).await;
        {
            let services = services(&uri).await;
            let update = Update::set("version", "9.9.9");
            let filter = Filter::equals("public_id", 7_i64);
            change(&*services.store, Change::UpdateMany { collection: OBJECTS, filter, update }).await;
        }
        assert!(import(&["--update"]).contains("objects: 0 created, 1 updated"));
        let store = open(&uri).await;
        assert_eq!(count(&*store, LOGS).await, all + 2);
        let last = FindQuery::new(Filter::equals("public_id", 7_i64), BUDGET).sorted(Sort::by("sequence", true)).limited(1);
        let found = store.find(LOGS, &last).await.expect("entries");
        assert_eq!(found.first().expect("an entry").get_str("action").ok(), Some("IMPORT"));
    }

    async fn a_dry_run_says_what_would_change_and_changes_nothing(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "package").await;
        let store = place.empty().await;
        let (outcome, findings) = place.imported(&*store, "package", DRY).await;
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(of(&outcome.expect("a dry run"), PackagePart::Objects), [300, 0, 0]);
        for collection in [TYPES, GROUPS, USERS, OBJECTS] {
            assert_eq!(count(&*store, collection).await, 0, "{collection}");
        }
    }

    async fn every_bad_line_is_named_and_nothing_is_written(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "package").await;
        rewrite(&place.path("package"), "types.ndjson", |mut lines| {
            lines[1] = lines[1].replacen(r#""name":""#, r#""name":"a name!"#, 1);
            lines
        });
        rewrite(&place.path("package"), "users.ndjson", |mut lines| {
            lines.push(r#"{"public_id": 5, "user_name": "Admin", "group_id": 77, "password": "secret of ada"}"#.to_owned());
            lines
        });
        rewrite(&place.path("package"), "objects.ndjson", |mut lines| {
            "{no json".clone_into(&mut lines[2]);
            lines[3] = lines[3].replacen(r#""type_id":{"$numberLong":""#, r#""type_id":{"$numberLong":"99"#, 1);
            lines.push(lines[9].clone());
            lines
        });
        let store = place.empty().await;
        let (outcome, findings) = place.imported(&*store, "package", PLAIN).await;
        assert!(matches!(outcome, Err(MovingError::Refused { .. })), "{outcome:?}");
        let said = said(&findings);
        for (start, end) in [
            ("types.ndjson, line 2: /name: must be a name in kebab case", ""),
            ("users.ndjson, line 2: /password: passwords are not imported", "user passwd"),
            ("users.ndjson, line 2: /group_id: group 77 does not exist", ""),
            ("objects.ndjson, line 3: expected the name of a member in double quotes at column 2", ""),
            ("objects.ndjson, line 4: /type_id: type 99", "does not exist"),
            ("objects.ndjson, line 301: /public_id: another line is about object 10, too", ""),
        ] {
            assert!(said.iter().any(|line| line.starts_with(start) && line.ends_with(end)), "{start} in {said:#?}");
        }
        for collection in [TYPES, GROUPS, USERS, OBJECTS] {
            assert_eq!(count(&*store, collection).await, 0, "{collection}");
        }
    }

    async fn a_file_that_is_not_what_the_manifest_says_is_refused(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "package").await;
        let store = place.empty().await;
        let file = place.path("package/objects.ndjson");
        let text = fs::read_to_string(&file).expect("a file");
        for (changed, reason) in [
            (text.replacen("active", "actjve", 1), "its checksum is another one"),
            (text[..text.len() - 1].to_owned(), "bytes instead of"),
        ] {
            fs::write(&file, changed).expect("it can be written");
            let refused = place.imported(&*store, "package", PLAIN).await.0.expect_err("a refusal").to_string();
            assert!(refused.contains(reason) && refused.ends_with("nothing was imported"), "{refused}");
        }
        fs::remove_file(&file).expect("it is there");
        let refused = place.imported(&*store, "package", PLAIN).await.0.expect_err("a refusal").to_string();
        assert!(refused.contains("it has no objects.ndjson; a package is manifest.json and the files that it names"), "{refused}");
        fs::remove_file(place.path("package/manifest.json")).expect("it is there");
        let refused = place.imported(&*store, "package", PLAIN).await.0.expect_err("a refusal").to_string();
        assert!(refused.contains("is no package of this service: it has no manifest.json"), "{refused}");
        assert_eq!(count(&*store, OBJECTS).await, 0);
    }

    async fn names_are_unique_with_what_is_stored(place) {
        let store = place.empty().await;
        place.exported(&*store, "package").await;
        let group = doc! {"_id": 1, "public_id": 2_i64, "name": "user", "label": "", "rights": []};
        change(&*store, Change::Insert { collection: GROUPS, document: raw(&group) }).await;
        change(&*store, Change::Insert { collection: USERS, document: raw(&user(4, "Ada")) }).await;
        rewrite(&place.path("package"), "groups.ndjson", |_| vec![r#"{"public_id": 3, "name": "user"}"#.to_owned()]);
        rewrite(&place.path("package"), "users.ndjson", |_| vec![r#"{"public_id": 5, "user_name": "ada"}"#.to_owned()]);
        let (outcome, findings) = place.imported(&*store, "package", PLAIN).await;
        assert!(matches!(outcome, Err(MovingError::Refused { lines: 2, .. })), "{outcome:?}");
        assert_eq!(
            said(&findings),
            ["groups.ndjson, line 1: /name: 2 has the same", "users.ndjson, line 1: /user_name: 4 has the same"]
        );
    }

    async fn a_line_written_by_hand_gets_what_a_request_would(place) {
        let store = place.empty().await;
        place.exported(&*store, "package").await;
        let package = place.path("package");
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        rewrite(&package, "groups.ndjson", |_| lines(&[r#"{"public_id": 2, "name": "user"}"#]));
        rewrite(&package, "users.ndjson", |_| lines(&[r#"{"public_id": 1, "user_name": "ada"}"#]));
        rewrite(&package, "types.ndjson", |_| {
            lines(&[r#"{"public_id": 1, "name": "rack", "author_id": 1,
                "fields": [{"type": "date", "name": "bought", "label": "Bought"}, {"type": "ref", "name": "next", "label": "Next", "ref_types": [1]}]}"#
                .replace('\n', " ").as_str()])
        });
        rewrite(&package, "objects.ndjson", |_| {
            lines(&[
                r#"{"public_id": 1, "type_id": 1, "author_id": 1, "fields": [{"name": "bought", "value": "2024-05-06"}, {"name": "next", "value": 2}]}"#,
                r#"{"public_id": 2, "type_id": 1, "author_id": 1, "fields": [{"name": "bought", "value": null}, {"name": "next", "value": 1}]}"#,
            ])
        });
        for expected in [[2, 0, 0], [0, 0, 2]] {
            let (outcome, findings) = place.imported(&*store, "package", PLAIN).await;
            assert_eq!(said(&findings), Vec::<String>::new());
            assert_eq!(of(&outcome.expect("an import"), PackagePart::Objects), expected);
        }
        let found = store.find(OBJECTS, &FindQuery::new(Filter::equals("public_id", 1_i64), BUDGET)).await.expect("it");
        let object = bson::Document::try_from(found.first().expect("object 1")).expect("a document");
        let bought = object.get_array("fields").expect("fields")[0].as_document().expect("an entry").get_datetime("value");
        assert_eq!(bought.expect("a time").timestamp_millis(), 1_714_953_600_000);
        assert_eq!(object.get_str("version").expect("a version"), "1.0.0");
        assert_eq!(object.get_datetime("creation_time").expect("a time").timestamp_millis(), 1_000_000);
    }

    async fn references_that_lead_nowhere_are_taken_only_when_asked(place) {
        let services = place.demo().await;
        // A rack that servers refer to.
        let removal = Change::DeleteMany { collection: OBJECTS, filter: Filter::equals("public_id", 5_i64) };
        change(&*services.store, removal).await;
        place.exported(&*services.store, "package").await;
        let store = place.empty().await;
        let (outcome, findings) = place.imported(&*store, "package", PLAIN).await;
        let refused = outcome.expect_err("references that lead nowhere").to_string();
        assert!(refused.ends_with("; nothing was changed; --accept-unclean takes them as they are"), "{refused}");
        assert!(said(&findings)[0].ends_with("/value: object 5 does not exist"), "{findings:?}");
        let (outcome, accepted) = place.imported(&*store, "package", LAX).await;
        assert_eq!(of(&outcome.expect("an import"), PackagePart::Objects), [299, 0, 0]);
        assert_eq!(accepted.len(), findings.len());
        assert!(accepted.iter().all(|finding| finding.is_accepted));
        place.exported(&*store, "after").await;
        assert_eq!(content(&place.path("after")), content(&place.path("package")));
    }

    async fn the_last_administrator_stays_one(place) {
        let services = place.demo().await;
        place.exported(&*services.store, "package").await;
        rewrite(&place.path("package"), "users.ndjson", |lines| {
            lines.into_iter().map(|line| line.replace(r#""active":true"#, r#""active":false"#)).collect()
        });
        let (outcome, findings) = place.imported(&*services.store, "package", UPDATE).await;
        assert!(matches!(outcome, Err(MovingError::Refused { lines: 1, .. })), "{outcome:?}");
        assert_eq!(said(&findings), ["users.ndjson, line 1: user 1 is the last active administrator and stays one"]);
    }

    async fn the_id_of_a_user_is_never_given_to_another_one(place) {
        let services = place.demo().await;
        change(&*services.store, Change::Insert { collection: USERS, document: raw(&user(9, "ada")) }).await;
        place.exported(&*services.store, "package").await;
        let store = place.empty().await;
        change(&*store, Change::Insert { collection: USERS, document: raw(&user(9, "Bob")) }).await;
        let (outcome, findings) = place.imported(&*store, "package", UPDATE).await;
        assert!(matches!(outcome, Err(MovingError::Refused { lines: 1, .. })), "{outcome:?}");
        let reason = "/user_name: this id belongs to Bob, and so do password and tokens";
        assert!(said(&findings)[0].ends_with(reason), "{:?}", said(&findings));
    }

    async fn an_id_that_was_given_before_the_export_is_not_given_again(place) {
        let services = place.demo().await;
        let from = &*services.store;
        let mut gone = BTreeMap::new();
        for collection in [OBJECTS, TYPES, CATEGORIES, USERS, GROUPS] {
            gone.insert(collection, from.reserve_ids(collection, 3).await.expect("ids") + 2);
        }
        let manifest = place.exported(from, "package").await;
        let store = place.empty().await;
        for _ in 0..2 {
            assert!(place.imported(&*store, "package", PLAIN).await.0.is_ok());
        }
        for (collection, last) in gone {
            assert_eq!(manifest.ids.get(collection), Some(&last), "{collection}");
            assert_eq!(store.reserve_ids(collection, 1).await.expect("an id"), last + 1, "{collection}");
        }
    }

    async fn an_imported_user_signs_in_once_he_has_a_password(place) {
        let services = place.demo().await;
        change(&*services.store, Change::Insert { collection: USERS, document: raw(&user(9, "ada")) }).await;
        place.exported(&*services.store, "package").await;
        let store = place.empty().await;
        place.imported(&*store, "package", PLAIN).await.0.expect("an import");
        assert!(!store.has_any(CREDENTIALS, Filter::all(), BUDGET).await.expect("an answer"));
        change(&*store, credentials::insert(9, "ada", NewPassword { hash: "a hash", set_by: 9 })).await;
        assert!(credentials::of_login(&*store, "ADA", BUDGET).await.expect("an answer").is_some());
    }
}

#[test]
fn a_refused_import_makes_neither_a_store_nor_a_user() {
    let source = super::backup::with_demo("200");
    succeeds(&run(source.path(), &["export", "package"]));
    let into = |name: &str, arguments: &[&str]| {
        let setting = format!("store.uri=embedded:{name}");
        run(source.path(), &[&["--set", &setting, "import"], arguments].concat())
    };
    fs::write(source.path().join("table.csv"), "hostname\nweb-1\n").expect("a file");
    let refused = complaint(&into("new", &["table.csv", "--type", "server"]));
    assert!(refused.contains("there is no store in new"), "{refused}");
    succeeds(&into("filled", &["package"]));
    let refused = complaint(&into("filled", &["table.csv", "--type", "servr"]));
    assert!(refused.contains("did you mean server?"), "{refused}");
    assert!(!source.path().join("filled/initial-admin-password.txt").exists());
    let users = succeeds(&run(source.path(), &["--set", "store.uri=embedded:filled", "check"]));
    assert!(users.contains("nobody can sign in yet"), "{users}");
    let file = source.path().join("package/objects.ndjson");
    let mut content = fs::read(&file).expect("a file");
    content.extend_from_slice(b"\n");
    fs::write(&file, content).expect("a file");
    let refused = complaint(&into("new", &["package"]));
    assert!(refused.contains("nothing was imported"), "{refused}");
    assert!(!source.path().join("new").exists());
}

#[test]
fn a_history_that_ends_before_the_sequence_that_is_asked_for_is_told() {
    let directory = super::backup::with_demo("200");
    succeeds(&run(directory.path(), &["history", "verify"]));
    let refused = complaint(&run(directory.path(), &["history", "verify", "--upto", "999999"]));
    assert!(refused.contains("before --upto 999999: later entries are gone"), "{refused}");
}
