//! What is kept, for how long, and how it is checked.

use std::time::Duration;

use bson::raw::cstr;
use bson::{DateTime, Document};
use inventory_service::domain::document::raw;
use inventory_service::history::entry::{Action, After, Author, Changes, Draft, with_sequences};
use inventory_service::query::Filter;
use inventory_service::service::history::prune::prune;
use inventory_service::service::history::verify::verify;
use inventory_service::store::collections::{LOGS, OBJECTS};
use inventory_service::store::{Change, FindQuery, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, on_each_store, send};

const MAX_TIME: Duration = Duration::from_secs(30);

/// The stored documents that match.
pub(super) async fn stored(app: &TestApp, collection: &str, filter: Filter) -> Vec<Document> {
    let found = app.store.find(collection, &FindQuery::new(filter, MAX_TIME)).await.expect("documents");
    found.iter().map(|document| Document::try_from(document).expect("BSON")).collect()
}

/// The last sequence; 0 without entries.
async fn last_sequence(app: &TestApp) -> i64 {
    let found = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence");
    found.first().and_then(Value::as_i64).unwrap_or_default()
}

/// Changes a document as another tool would: past the service.
pub(super) async fn changed_outside(app: &TestApp, collection: &'static str, before: &Document, after: &Document) {
    let change = Change::Replace { collection, before: raw(before), after: raw(after) };
    app.store.commit(Unit::of(change)).await.expect("stored");
}

on_each_store! {
    async fn a_comment_stands_in_the_entry(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        let patch = |comment: &str| {
            let request = app.request(Method::PATCH, &format!("/objects/{id}")).header("Inventory-Comment", comment);
            request.json(&json!({"fields": {"hostname": comment}}))
        };
        assert_eq!(send(patch("moved to the caf%C3%A9")).await.status, 202);
        let last = app.get(&format!("/objects/{id}/history?sort=-number&limit=1")).await;
        assert_eq!(last.results("/comment"), ["moved to the caf\u{e9}"]);
        for wrong in ["%FF", "%0A", &"x".repeat(501)] {
            send(patch(wrong)).await.error(400, "bad_request");
        }
    }

    async fn a_change_by_another_tool_is_an_entry_of_its_own_and_a_gap(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        let path = format!("/objects/{id}");
        let before = stored(app, OBJECTS, Filter::equals("public_id", id)).await.remove(0);
        let mut after = before.clone();
        after.insert("views", 7_i64);
        changed_outside(app, OBJECTS, &before, &after).await;
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "b"}})).await.status, 202);
        let history = app.get(&format!("{path}/history?limit=0")).await;
        assert_eq!(history.results("/action"), ["CREATE", "OUTSIDE", "EDIT"]);
        let sequences = history.results("/sequence");
        app.get(&format!("{path}?at={}", sequences[0])).await.error(410, "history_unknown");
        assert_eq!(app.get(&format!("{path}/native?at={}", sequences[1])).await.json()["views"], 7);
        assert!(verify(&*app.store, None).await.expect("a check").broken.is_empty());
    }

    async fn a_changed_and_a_removed_entry_are_found(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        for name in ["b", "c", "d"] {
            assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": name}})).await.status, 202);
        }
        let sound = verify(&*app.store, None).await.expect("a check");
        assert_eq!((sound.broken.len(), sound.entries, sound.resources, sound.pruned), (0, 5, 2, 0));
        let mut entries = stored(app, LOGS, Filter::equals("resource", "objects")).await;
        entries.sort_by_key(|entry| entry.get_i32("number").expect("a number"));
        let mut forged = entries[1].clone();
        forged.insert("user_id", 99_i64);
        changed_outside(app, LOGS, &entries[1], &forged).await;
        let found = verify(&*app.store, None).await.expect("a check");
        assert_eq!(found.broken.iter().map(|it| it.sequence).collect::<Vec<_>>(), [entries[1].get_i64("sequence").expect("a number")]);
        assert_eq!(found.root, sound.root);
        changed_outside(app, LOGS, &forged, &entries[1]).await;
        let delete = |entry: &Document| Unit::of(Change::Delete { collection: LOGS, before: raw(entry) });
        app.store.commit(delete(&entries[2])).await.expect("removed");
        assert_eq!(verify(&*app.store, None).await.expect("a check").broken.len(), 1);
        // The newest entry is missed by the root alone.
        let upto = Some(sound.last);
        app.store.commit(delete(&entries[3])).await.expect("removed");
        app.store.commit(delete(&entries[1])).await.expect("removed");
        let cut = verify(&*app.store, upto).await.expect("a check");
        assert!(cut.broken.is_empty(), "{:?}", cut.broken);
        assert_ne!(cut.root, sound.root);
    }

    async fn a_forged_note_of_pruning_does_not_hide_removed_entries(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        for removed in [0..2, 1..2] {
            let id = app.create_object(kind, &json!({"hostname": "a"})).await;
            for name in ["b", "c"] {
                assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": name}})).await.status, 202);
            }
            let own = Filter::equals("resource", "objects").and(Filter::equals("public_id", id));
            let mut entries = stored(app, LOGS, own).await;
            entries.sort_by_key(|entry| entry.get_i32("number").expect("a number"));
            let mut forged = entries[removed.end].clone();
            forged.insert("previous", entries[removed.end - 1].get("hash").expect("a hash").clone());
            changed_outside(app, LOGS, &entries[removed.end], &forged).await;
            for entry in &entries[removed] {
                app.store.commit(Unit::of(Change::Delete { collection: LOGS, before: raw(entry) })).await.expect("removed");
            }
        }
        let found = verify(&*app.store, None).await.expect("a check");
        assert_eq!(found.broken.len(), 2, "{:?}", found.broken);
    }

    async fn a_single_read_does_not_take_what_another_tool_stored_for_the_past(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        let sequence = last_sequence(app).await;
        let before = stored(app, OBJECTS, Filter::equals("public_id", id)).await.remove(0);
        let mut after = before.clone();
        after.insert("views", 7_i64);
        changed_outside(app, OBJECTS, &before, &after).await;
        for path in ["native?at=", "?at="] {
            app.get(&format!("/objects/{id}/{path}{sequence}").replace("/?", "?")).await.error(410, "history_unknown");
        }
        let revert = json!({"to": sequence, "dry_run": true});
        app.post(&format!("/objects/{id}/revert"), &revert).await.error(410, "history_unknown");
        assert_eq!(app.get(&format!("/objects/{id}/native")).await.json()["views"], 7);
    }

    async fn what_is_no_longer_kept_is_gone_and_the_rest_is_checked_as_before(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let kept = app.create_object(kind, &json!({"hostname": "a"})).await;
        let gone = app.create_object(kind, &json!({"hostname": "x"})).await;
        assert_eq!(app.patch(&format!("/objects/{kept}"), &json!({"fields": {"hostname": "b"}})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{gone}")).await.status, 200);
        let last = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].as_i64().expect("a number");
        let newest = stored(app, LOGS, Filter::equals("sequence", last)).await.remove(0);
        let limit = DateTime::from_millis(newest.get_datetime("time").expect("a time").timestamp_millis() + 1);
        // What comes now is later than the limit.
        tokio::time::sleep(Duration::from_millis(5)).await;
        for name in ["c", "d"] {
            assert_eq!(app.patch(&format!("/objects/{kept}"), &json!({"fields": {"hostname": name}})).await.status, 202);
        }
        let removed = prune(&*app.store, limit, MAX_TIME).await.expect("pruned");
        assert_eq!(removed, 4);
        assert_eq!(prune(&*app.store, limit, MAX_TIME).await.expect("pruned"), 0);
        let path = format!("/objects/{kept}");
        assert_eq!(app.get(&format!("{path}/history?limit=0")).await.results("/number"), [3, 4]);
        app.get(&format!("{path}?at={}", last - 1)).await.error(410, "history_gone");
        let fields = app.get(&format!("{path}/native?at={last}")).await.json()["fields"].clone();
        assert_eq!(fields[0]["value"], "b");
        assert_eq!(app.get(&format!("/objects/{gone}/history")).await.status, 404);
        app.get(&format!("/changes/?since={}", last - 1)).await.error(410, "history_gone");
        let check = verify(&*app.store, None).await.expect("a check");
        assert!(check.broken.is_empty(), "{:?}", check.broken);
        assert_eq!(check.pruned, last, "a root from before cannot be compared");
        // The next change continues the history.
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "e"}})).await.status, 202);
        assert!(verify(&*app.store, None).await.expect("a check").broken.is_empty());
    }

    async fn entries_of_one_moment_go_together_however_many_they_are(app) {
        let (then, author) = (DateTime::from_millis(1_600_000_000_000), Author::default());
        let first = last_sequence(app).await + 1;
        let old = (0..1_200).map(|number| {
            let (resource, after, changes) = ("objects", After::default(), Changes::Created);
            let draft = Draft { resource, public_id: 5_000 + number, type_id: Some(1), action: Action::Create, author: &author, cause: None, changes, after };
            Change::Insert { collection: LOGS, document: with_sequences(&[draft.pending(None, then)], first + number).remove(0) }
        });
        app.store.commit(Unit { conditions: Vec::new(), changes: old.collect() }).await.expect("stored");
        app.store.reserve_ids("service.history", 1_200).await.expect("sequences");
        app.create_type("server", &[]).await;
        let limit = DateTime::from_millis(1_700_000_000_000);
        assert_eq!(prune(&*app.store, limit, MAX_TIME).await.expect("pruned"), 1_200);
        assert_eq!(app.get("/logs/?limit=0").await.results("/resource"), ["types"]);
    }

    async fn a_person_can_be_forgotten_and_the_chain_stays_sound(app) {
        let body = json!({"user_name": "somebody", "password": "a-long-password", "group_id": 1});
        let user = app.created("/users/", &body).await;
        let token = app.login("somebody", "a-long-password").await;
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        let by = app.anonymous(Method::PATCH, &format!("/objects/{id}")).bearer_auth(token);
        assert_eq!(send(by.json(&json!({"fields": {"hostname": "b"}}))).await.status, 202);
        let named = format!("/objects/{id}/history?limit=0");
        assert!(app.get(&named).await.text.contains("somebody"));
        assert_eq!(app.delete(&format!("/users/{user}?forget=true")).await.status, 202);
        let history = app.get(&named).await;
        assert!(!history.text.contains("somebody"), "{}", history.text);
        assert_eq!(history.results("/user_id"), [json!(1), json!(user)]);
        assert!(verify(&*app.store, None).await.expect("a check").broken.is_empty());
    }

    async fn a_large_type_goes_with_all_its_objects_and_each_has_its_entry(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        for _ in 0..3 {
            let many: Vec<_> = (0..500).map(|number| json!({"type_id": kind, "author_id": 1, "fields": {"hostname": number.to_string()}})).collect();
            assert_eq!(app.post("/objects/bulk", &json!(many)).await.json()["created"], 500);
        }
        let deleted = app.delete(&format!("/types/{kind}?cascade=true")).await;
        assert_eq!(deleted.status, 202, "{}", deleted.text);
        assert!(deleted.text.contains("1500"), "{}", deleted.text);
        let entries = app.get_with("/logs/", &[("filter", r#"{"resource": "objects", "action": "DELETE"}"#), ("limit", "1")]).await;
        assert_eq!(entries.json()["total"], 1500);
    }
}

/// On the embedded store alone: MongoDB does not find such a document again by its content.
#[tokio::test]
async fn what_another_tool_stored_with_a_name_twice_can_still_be_changed() {
    let app = &TestApp::embedded().await;
    let kind = app.create_type("server", &[("hostname", "text")]).await;
    let id = app.create_object(kind, &json!({"hostname": "a"})).await;
    let path = format!("/objects/{id}");
    let before = raw(&stored(app, OBJECTS, Filter::equals("public_id", id)).await.remove(0));
    let mut after = before.clone();
    after.append(cstr!("note"), 1);
    after.append(cstr!("note"), 2);
    let change = Change::Replace { collection: OBJECTS, before, after };
    app.store.commit(Unit::of(change)).await.expect("stored");
    let patched = app.patch(&path, &json!({"fields": {"hostname": "b"}})).await;
    assert_eq!(patched.status, 202, "{}", patched.text);
    assert_eq!(app.delete(&path).await.status, 200);
    let history = app.get(&format!("{path}/history?limit=0")).await;
    assert_eq!(history.results("/action"), ["CREATE", "OUTSIDE", "EDIT", "DELETE"]);
    assert_eq!(history.results("/changes/unknown"), [Value::Null, true.into(), true.into(), Value::Null]);
}
