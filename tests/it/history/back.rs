//! Going back: reverts, restores and differences.

use reqwest::Method;
use serde_json::{Value, json};

use super::now;
use crate::support::app::{TestApp, on_each_store, send};
use crate::support::counting::CountingStore;

/// The value of a field of a native object.
fn value<'a>(object: &'a Value, name: &str) -> &'a Value {
    let entries = object["fields"].as_array().expect("fields");
    entries.iter().find(|entry| entry["name"] == name).map_or(&Value::Null, |entry| &entry["value"])
}

on_each_store! {
    async fn an_object_goes_back_as_a_new_version(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("units", "number")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1", "units": 2})).await;
        let (path, then) = (format!("/objects/{id}"), now(app).await);
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "web-2", "units": 4}})).await.status, 202);
        let tried = app.post(&format!("{path}/revert"), &json!({"to": then, "dry_run": true})).await;
        assert_eq!(tried.status, 200, "{}", tried.text);
        assert_eq!(value(&tried.json()["result"], "hostname"), "web-1");
        assert_eq!(value(&app.get(&format!("{path}/native")).await.json(), "hostname"), "web-2");
        let reverted = app.post(&format!("{path}/revert"), &json!({"to": then})).await;
        assert_eq!(reverted.status, 200, "{}", reverted.text);
        let stored = app.get(&format!("{path}/native")).await.json();
        assert_eq!((value(&stored, "hostname"), value(&stored, "units")), (&json!("web-1"), &json!(2)));
        assert_eq!(stored["version"], "3.0.0");
        let last = app.get(&format!("{path}/history?sort=-number&limit=1")).await.json()["results"][0].clone();
        assert_eq!(last["action"], "REVERT");
        for (body, status) in [(json!({"to": 999_999}), 400), (json!({}), 400), (json!({"to": then, "dryrun": true}), 400), (json!({"to": true}), 400), (json!({"to": 0}), 404)] {
            let answer = app.post(&format!("{path}/revert"), &body).await;
            assert_eq!(answer.status, status, "{body}: {}", answer.text);
        }
    }

    async fn a_moment_before_the_resource_was_there_is_told_as_such(app) {
        app.create_type("first", &[]).await;
        let before = now(app).await;
        let kind = app.create_type("server", &[]).await;
        let object = app.create_object(kind, &json!({})).await;
        let category = app.created("/categories/", &json!({"name": "all"})).await;
        for (path, name) in [("objects", "object"), ("types", "type"), ("categories", "category")] {
            let id = if name == "type" { kind } else if name == "object" { object } else { category };
            let answer = app.post(&format!("/{path}/{id}/revert"), &json!({"to": before})).await;
            let told = answer.error(404, &format!("{name}_not_found"));
            assert_eq!(told["message"], format!("{name} {id} was not there then; its history says since when it is"));
        }
    }

    async fn what_stands_against_a_revert_today_is_listed(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("units", "number")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1", "units": 2})).await;
        let (path, then) = (format!("/objects/{id}"), now(app).await);
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "10"}})).await.status, 202);
        let fields = json!([{"type": "text", "name": "hostname", "label": "Host", "regex": "[0-9]+"}, {"type": "number", "name": "units", "label": "Units"}]);
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"fields": fields, "enforce": "new"})).await.status, 202);
        let answer = app.post(&format!("{path}/revert"), &json!({"to": then})).await;
        assert_eq!(answer.status, 400, "{}", answer.text);
        assert_eq!(answer.pointers(), ["/fields/0/value"], "{}", answer.text);
    }

    async fn types_and_categories_go_back_too(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let made = app.post("/categories/", &json!({"name": "all", "label": "All", "types": [kind]})).await.json();
        let category = made["result_id"].as_i64().expect("an id");
        let then = now(app).await;
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"label": "Machines", "active": false})).await.status, 202);
        assert_eq!(app.patch(&format!("/categories/{category}"), &json!({"label": "Everything", "types": []})).await.status, 202);
        for path in [format!("/types/{kind}"), format!("/categories/{category}")] {
            let was = app.get_with(&path, &[("at", &then.to_string())]).await.json()["result"].clone();
            let reverted = app.post(&format!("{path}/revert"), &json!({"to": then})).await;
            assert_eq!(reverted.status, 202, "{}", reverted.text);
            let is = app.get(&path).await.json()["result"].clone();
            for member in ["name", "label", "active", "types", "fields", "parent", "render_meta"] {
                assert_eq!(was[member], is[member], "{path} {member}");
            }
        }
    }

    async fn a_type_that_goes_back_keeps_the_access_list_of_today(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let then = now(app).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "UPDATE"]}}});
        let path = format!("/types/{kind}");
        let closed = app.patch(&path, &json!({"label": "Machines", "acl": acl})).await;
        assert_eq!(closed.status, 202, "{}", closed.text);
        let list = app.get(&path).await.json()["result"]["acl"].clone();
        let reverted = app.post(&format!("{path}/revert"), &json!({"to": then})).await;
        assert_eq!(reverted.status, 202, "{}", reverted.text);
        let is = app.get(&path).await.json()["result"].clone();
        assert_ne!(is["label"], "Machines");
        assert_eq!(is["acl"], list);
    }

    async fn a_deleted_object_comes_back_under_its_id(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1"})).await;
        let path = format!("/objects/{id}");
        let before = app.get(&format!("{path}/native")).await.json();
        let refused = app.post(&format!("{path}/restore"), &json!({})).await.error(400, "object_public_id_taken");
        assert_eq!(refused["message"], format!("object {id} is not deleted"));
        assert_eq!(app.delete(&path).await.status, 200);
        assert_eq!(app.get(&path).await.status, 404);
        let restored = app.post(&format!("{path}/restore"), &json!({})).await;
        assert_eq!(restored.status, 200, "{}", restored.text);
        let after = app.get(&format!("{path}/native")).await.json();
        for member in ["public_id", "type_id", "author_id", "creation_time", "fields", "active"] {
            assert_eq!(before[member], after[member], "{member}");
        }
        assert_eq!(after["version"], "1.0.1");
        app.post("/objects/4711/restore", &json!({})).await.error(404, "object_not_found");
        let history = app.get(&format!("{path}/history?limit=0")).await;
        assert_eq!(history.results("/action"), ["CREATE", "DELETE", "REVERT"]);
    }

    async fn deleted_objects_that_refer_to_each_other_come_back_in_any_order(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let reference = json!({"type": "ref", "name": "peer", "label": "Peer", "ref_types": [kind]});
        let hostname = json!({"type": "text", "name": "hostname", "label": "Host"});
        app.patch(&format!("/types/{kind}"), &json!({"fields": [hostname, reference]})).await;
        let [one, two, own] = [1, 2, 3];
        for peer in [two, one, own] {
            let id = app.create_object(kind, &json!({"hostname": "a"})).await;
            assert!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"hostname": peer.to_string()}})).await.status.is_success());
        }
        for (id, peer) in [(one, two), (two, one), (own, own)] {
            app.patch(&format!("/objects/{id}"), &json!({"fields": {"peer": peer}})).await;
        }
        for id in [one, two, own] {
            assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        }
        for (id, peer, told) in [(one, two, "fields/1/value: object 2 does not exist"), (two, one, ""), (own, own, "")] {
            let restored = app.post(&format!("/objects/{id}/restore"), &json!({})).await;
            assert_eq!((restored.status.as_u16(), restored.header("inventory-warning")), (200, told), "{}", restored.text);
            assert_eq!(value(&app.get(&format!("/objects/{id}/native")).await.json(), "peer"), &json!(peer));
        }
    }

    async fn what_has_an_id_that_nobody_may_choose_comes_back_under_it(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let object = |id: i64| json!({"public_id": id, "type_id": kind, "author_id": 1, "fields": {"hostname": "a"}});
        let last = 9_000_000_000_000_000_i64;
        app.post("/objects/", &object(last + 1)).await.error(400, "validation_failed");
        assert_eq!(app.post("/objects/", &object(last)).await.status, 200);
        let behind = app.create_object(kind, &json!({"hostname": "b"})).await;
        assert_eq!(behind, last + 1);
        assert_eq!(app.delete(&format!("/objects/{behind}")).await.status, 200);
        let restored = app.post(&format!("/objects/{behind}/restore"), &json!({})).await;
        assert_eq!(restored.status, 200, "{}", restored.text);
    }

    async fn what_stands_for_a_hidden_password_is_none(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("pin", "password")]).await;
        let masked = |name: &str| json!({"type_id": kind, "author_id": 1, "fields": {"hostname": name, "pin": "********"}});
        let refused = app.post("/objects/", &masked("a")).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/fields/pin"], "{}", refused.text);
        let path = format!("/objects/{}", app.create_object(kind, &json!({"hostname": "a", "pin": "1234"})).await);
        let mut shown = app.get("/changes/?since=0&resource=objects").await.json()["results"][0]["document"].clone();
        assert_eq!(value(&shown, "pin"), "********");
        shown["fields"][0]["value"] = json!("b");
        assert_eq!(app.put(&path, &shown).await.status, 200);
        let patched = app.patch(&path, &json!({"fields": {"hostname": "c", "pin": "********"}})).await;
        assert_eq!(patched.status, 202, "{}", patched.text);
        let stored = app.get(&format!("{path}/native")).await.json();
        assert_eq!((value(&stored, "hostname"), value(&stored, "pin")), (&json!("c"), &json!("1234")));
    }

    async fn what_was_stored_in_place_of_a_password_comes_back_too(app) {
        let kind = app.create_type("server", &[("pin", "text")]).await;
        let id = app.create_object(kind, &json!({"pin": "********"})).await;
        let pin = json!({"type": "password", "name": "pin", "label": "Pin"});
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"fields": [pin]})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        let restored = app.post(&format!("/objects/{id}/restore"), &json!({})).await;
        assert_eq!(restored.status, 200, "{}", restored.text);
        assert_eq!(value(&app.get(&format!("/objects/{id}/native")).await.json(), "pin"), "********");
    }

    async fn a_type_goes_back_with_the_access_list_of_the_moment_when_it_is_replaced(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let then = now(app).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"label": "Other", "acl": acl})).await.status, 202);
        let reverted = app.post(&format!("/types/{kind}/revert"), &json!({"to": then})).await;
        assert_eq!(reverted.status, 202, "{}", reverted.text);
        let result = &reverted.json()["result"];
        assert_eq!((&result["label"], &result["acl"]["activated"]), (&json!("Server"), &json!(true)), "{result}");
    }

    async fn a_deleted_type_and_category_come_back_under_their_ids(app) {
        let kind = app.create_type("room", &[("floor", "number")]).await;
        let object = app.create_object(kind, &json!({"floor": 2})).await;
        let parent = app.created("/categories/", &json!({"name": "all"})).await;
        let category = app.created("/categories/", &json!({"name": "rooms", "parent": parent, "types": [kind]})).await;
        let (types, categories) = (format!("/types/{kind}"), format!("/categories/{category}"));
        for (path, code) in [(&types, "type_public_id_taken"), (&categories, "category_public_id_taken")] {
            app.post(&format!("{path}/restore"), &json!({})).await.error(400, code);
        }
        let before = [app.get(&types).await.json()["result"].clone(), app.get(&categories).await.json()["result"].clone()];
        let then = now(app).await;
        assert_eq!(app.delete(&format!("{types}?cascade=true")).await.status, 202);
        assert_eq!(app.delete(&categories).await.status, 202);
        // Somebody has taken the name meanwhile.
        let other = app.create_type("room", &[]).await;
        app.post(&format!("{types}/restore"), &json!({})).await.error(400, "type_name_taken");
        assert_eq!(app.delete(&format!("/types/{other}")).await.status, 202);
        let restored = app.post(&format!("{types}/restore"), &json!({})).await;
        assert_eq!(restored.status, 201, "{}", restored.text);
        assert_eq!(app.post(&format!("{categories}/restore"), &json!({})).await.status, 201);
        assert_eq!(app.post(&format!("/objects/{object}/restore"), &json!({})).await.status, 200);
        // It lost the type before it was deleted.
        assert_eq!(app.get(&categories).await.json()["result"]["types"], json!([]));
        assert_eq!(app.post(&format!("{categories}/revert"), &json!({"to": then})).await.status, 202);
        for (path, before) in [&types, &categories].into_iter().zip(before) {
            let mut after = app.get(path).await.json()["result"].clone();
            for member in ["editor_id", "last_edit_time"] {
                after[member] = before[member].clone();
            }
            if path == &categories {
                after.as_object_mut().expect("an object").remove("editor_id");
            }
            assert_eq!(after, before, "{path}");
        }
        let history = app.get(&format!("{types}/history?limit=0")).await;
        assert_eq!(history.results("/action"), ["CREATE", "DELETE", "REVERT"]);
        app.post("/types/4711/restore", &json!({})).await.error(404, "type_not_found");
        app.post("/categories/4711/restore", &json!({})).await.error(404, "category_not_found");
        // What it depends on is gone.
        assert_eq!(app.delete(&categories).await.status, 202);
        assert_eq!(app.delete(&format!("/categories/{parent}")).await.status, 202);
        let refused = app.post(&format!("{categories}/restore"), &json!({})).await;
        assert_eq!((refused.error(400, "validation_failed"), refused.pointers()).1, ["/parent"]);
    }

    async fn a_rehearsal_is_refused_as_what_it_rehearses(app) {
        let kind = app.create_type("server", &[]).await;
        let category = app.created("/categories/", &json!({"name": "server"})).await;
        let then = now(app).await;
        let resources = [("types", kind, "type_name_taken"), ("categories", category, "category_name_taken")];
        for (name, id, _) in resources {
            assert_eq!(app.patch(&format!("/{name}/{id}"), &json!({"name": "machine"})).await.status, 202);
        }
        app.create_type("server", &[]).await;
        app.created("/categories/", &json!({"name": "server"})).await;
        for (name, id, code) in resources {
            let path = format!("/{name}/{id}/revert");
            let refusals = [json!({"to": then, "dry_run": true}), json!({"to": then})].map(async |body| {
                app.post(&path, &body).await.error(400, code)["message"].clone()
            });
            let [rehearsed, real] = refusals;
            assert_eq!(rehearsed.await, real.await);
            // Its own name is no obstacle.
            let own = app.post(&path, &json!({"to": then + 2, "dry_run": true})).await;
            assert_eq!(own.status, 202, "{}", own.text);
        }
    }

    async fn a_difference_names_fields_and_operations(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("units", "number")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1", "units": 2})).await;
        let (path, then) = (format!("/objects/{id}"), now(app).await);
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "web-2"}})).await.status, 202);
        let middle = now(app).await;
        assert_eq!(app.patch(&path, &json!({"fields": {"units": 3}})).await.status, 202);
        let diff = app.get_with(&format!("{path}/diff"), &[("from", &then.to_string()), ("to", &middle.to_string())]).await;
        assert_eq!(diff.status, 200, "{}", diff.text);
        let fields = &diff.json()["fields"];
        assert_eq!(*fields, json!([{"name": "hostname", "label": "hostname", "from": "web-1", "to": "web-2"}]));
        let patch = diff.json()["patch"].clone();
        assert!(patch.as_array().expect("a list").contains(&json!({"op": "replace", "path": "/fields/0/value", "value": "web-2"})), "{patch}");
        let all = app.get_with(&format!("{path}/diff"), &[("from", &then.to_string())]).await.json();
        assert_eq!(all["fields"].as_array().expect("a list").len(), 2);
        assert_eq!(app.get(&format!("{path}/diff")).await.status, 400);
    }

    async fn what_is_the_same_on_both_sides_is_in_no_difference(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("secret", "password")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1"})).await;
        let (path, then) = (format!("/objects/{id}"), now(app).await);
        let field = |kind: &str, name: &str| json!({"type": kind, "name": name, "label": name});
        let more = json!({"fields": [field("text", "hostname"), field("password", "secret"), field("text", "note")]});
        assert_eq!(app.patch(&format!("/types/{kind}"), &more).await.status, 202);
        assert_eq!(app.patch(&path, &json!({"fields": {"hostname": "web-2"}})).await.status, 202);
        let diff = app.get(&format!("{path}/diff?from={then}")).await;
        let changed = json!([{"name": "hostname", "label": "hostname", "from": "web-1", "to": "web-2"}]);
        assert_eq!(diff.json()["fields"], changed, "{}", diff.text);
        assert!(!diff.text.contains("********"), "no password is set: {}", diff.text);
        // A password that was a text is hidden on both sides, or its value would seem to have changed.
        let middle = now(app).await;
        let open = json!({"fields": [field("password", "hostname"), field("password", "secret"), field("text", "note")]});
        assert_eq!(app.patch(&format!("/types/{kind}"), &open).await.status, 202);
        let diff = app.get(&format!("{path}/diff?from={middle}")).await.json();
        assert_eq!(diff, json!({"fields": [], "patch": []}));
        assert_eq!(app.patch(&path, &json!({"fields": {"secret": "hunter-one"}})).await.status, 202);
        let set = app.get(&format!("{path}/diff?from={middle}")).await.json()["fields"].clone();
        assert_eq!(set, json!([{"name": "secret", "label": "secret", "from": null, "to": "********"}]));
    }

    async fn the_history_of_what_was_deleted_has_no_id_of_the_store(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1"})).await;
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        for path in [format!("/objects/{id}/history"), format!("/types/{kind}/history"), "/logs/?limit=0".to_owned()] {
            let answer = app.get(&path).await;
            assert!(answer.text.contains("\"deleted\"") && !answer.text.contains("_id\":{"), "{path}: {}", answer.text);
            assert!(!answer.text.contains("\"_id\""), "{path}: {}", answer.text);
        }
        let restored = send(app.request(Method::POST, &format!("/types/{kind}/restore"))).await;
        assert_eq!(restored.status, 201, "{}", restored.text);
    }

    async fn passwords_show_in_no_history(app) {
        let kind = app.create_type("server", &[("hostname", "text"), ("secret", "password")]).await;
        let id = app.create_object(kind, &json!({"hostname": "web-1", "secret": "hunter-one"})).await;
        let (path, then) = (format!("/objects/{id}"), now(app).await);
        assert_eq!(app.patch(&path, &json!({"fields": {"secret": "hunter-two"}})).await.status, 202);
        assert_eq!(app.delete(&path).await.status, 200);
        for path in [format!("{path}/history?limit=0"), "/logs/?limit=0".to_owned(), format!("{path}/diff?from={then}&to={}", then + 1)] {
            let answer = app.get(&path).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            assert!(!answer.text.contains("hunter"), "{path}: {}", answer.text);
            assert!(answer.text.contains("********"), "{path}: {}", answer.text);
        }
        assert_eq!(app.delete(&format!("/types/{kind}")).await.status, 202);
        assert!(!app.get("/logs/?limit=0").await.text.contains("hunter"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_objects_are_deleted_without_being_kept_and_the_history_says_so() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[("notes", "textarea")]).await;
    let long = "x".repeat(2_000);
    let id = app.create_object(kind, &json!({"notes": long})).await;
    let other = app.create_object(kind, &json!({"notes": long})).await;
    let (path, then) = (format!("/objects/{id}"), now(&app).await);
    let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
    counter.fill_up();
    app.post("/objects/", &json!({"type_id": kind, "author_id": 1, "fields": {"notes": long}}))
        .await
        .error(503, "store_unavailable");
    assert_eq!(app.patch(&path, &json!({"fields": {"notes": "short"}})).await.status, 503);
    let ready = app.get(&format!("{}/health/ready", app.origin)).await;
    assert_eq!(
        (ready.status.as_u16(), &ready.json()["read_only"]),
        (200, &json!("there is no room left on the disk of the store"))
    );
    for path in [path.clone(), format!("/objects/{other}")] {
        let deleted = app.delete(&path).await;
        let told = deleted.headers.get("inventory-warning").and_then(|told| told.to_str().ok()).unwrap_or_default();
        assert!(deleted.status == 200 && told.contains("cannot be restored"), "{told}: {}", deleted.text);
    }
    let last = app.get(&format!("{path}/history?sort=-number&limit=1")).await.json()["results"][0].clone();
    assert_eq!(
        (&last["action"], &last["changes"], &last["user_name"]),
        (&json!("DELETE"), &json!({"unknown": true}), &json!("admin"))
    );
    for filter in ["", &format!("&filter={{\"type_id\": {kind}}}")] {
        let told = app.get(&format!("/changes/?since={since}&resource=objects{filter}")).await.json();
        let kinds: Vec<(&Value, &Value)> = told["results"]
            .as_array()
            .expect("events")
            .iter()
            .map(|event| (&event["kind"], &event["public_id"]))
            .collect();
        assert_eq!(kinds, [(&json!("leave"), &json!(id)), (&json!("leave"), &json!(other))], "{told}");
    }
    let told = app.post(&format!("{path}/restore"), &json!({})).await.error(410, "history_unknown");
    assert!(told["message"].as_str().is_some_and(|message| message.contains("was deleted on a full disk")), "{told}");
    app.get(&format!("{path}?at={then}")).await.error(410, "history_unknown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_objects_are_not_deleted_where_their_past_has_no_room() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[("notes", "textarea")]).await;
    let mut ids = Vec::new();
    for _ in 0..11 {
        ids.push(app.create_object(kind, &json!({"notes": "x".repeat(2_000)})).await.to_string());
    }
    counter.fill_up();
    let refused = app.delete(&format!("/objects/{}", ids.join(","))).await.error(503, "store_unavailable");
    assert!(refused["message"].as_str().is_some_and(|told| told.contains("a few objects at a time")), "{refused}");
    app.delete(&format!("/types/{kind}?cascade=true")).await.error(503, "store_unavailable");
    counter.make_room();
    assert_eq!(app.delete(&format!("/objects/{}", ids[0])).await.status, 200);
    assert_eq!(app.post(&format!("/objects/{}/restore", ids[0]), &json!({})).await.status, 200);
    counter.fill_up();
    assert_eq!(app.delete(&format!("/objects/{}", ids[1..].join(","))).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_refused_on_a_full_disk_is_kept_when_it_is_deleted_later_and_types_always_are() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("server", &[]).await;
    let empty = app.create_type("empty", &[("notes", "textarea")]).await;
    let small = format!("/objects/{}", app.create_object(kind, &json!({})).await);
    counter.fill_up();
    app.delete(&small).await.error(503, "store_unavailable");
    app.delete(&format!("/types/{empty}")).await.error(503, "store_unavailable");
    counter.make_room();
    assert_eq!(app.delete(&small).await.status, 200);
    assert_eq!(app.delete(&format!("/types/{empty}")).await.status, 202);
    let last = app.get("/logs/?sort=-sequence&limit=2").await;
    assert_eq!(last.results("/action"), ["DELETE", "DELETE"], "{}", last.text);
    assert!(last.results("/changes/deleted").iter().all(Value::is_object), "{}", last.text);
}
