//! What is hidden from a caller has no past.

use std::time::{Duration, Instant};

use inventory_service::domain::document::raw;
use inventory_service::query::Filter;
use inventory_service::store::collections::TYPES;
use inventory_service::store::{Change, Unit};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::kept::{changed_outside, stored};
use crate::api::people::Person;
use crate::support::app::{on_each_store, send};

on_each_store! {
    async fn a_hidden_object_has_no_past_and_no_events(app) {
        let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        let body = json!({"name": "secret", "label": "Secret", "author_id": 1, "fields": [{"type": "text", "name": "note", "label": "Note"}],
            "acl": {"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}}});
        let kind = app.created("/types/", &body).await;
        let id = app.create_object(kind, &json!({"note": "treasure-one"})).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"note": "treasure-two"}})).await.status, 202);
        let user = json!({"user_name": "reader", "password": "a-long-password", "group_id": 2});
        app.created("/users/", &user).await;
        let rights = json!({"rights": ["base.framework.*"]});
        assert_eq!(app.patch("/groups/2", &rights).await.status, 202);
        let token = app.login("reader", "a-long-password").await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let ask = async |path: &str| send(app.anonymous(Method::GET, path).bearer_auth(&token)).await;
        let all = [
            format!("/objects/{id}/history"),
            format!("/objects/{id}?at={sequence}"),
            format!("/objects/{id}/native?at={sequence}"),
            format!("/objects/{id}/diff?from={sequence}"),
        ];
        let look = async || {
            for path in &all {
                let (hidden, unknown) = (ask(path).await, ask(&path.replace(&format!("/{id}"), "/4711")).await);
                assert_eq!((hidden.status, unknown.status), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND), "{path}: {} {}", hidden.text, unknown.text);
            }
            for path in ["/logs/?limit=0".to_owned(), format!("/changes/?since={since}&limit=100"), format!("/objects/?limit=0&at={sequence}")] {
                let answer = ask(&path).await;
                assert_eq!(answer.status, 200, "{path}: {}", answer.text);
                assert!(!answer.text.contains("treasure"), "{path}: {}", answer.text);
                let results = answer.json()["results"].as_array().expect("a list").clone();
                let of_objects = results.iter().filter(|it| it["resource"] == "objects" || it["type_id"] == kind);
                assert_eq!(of_objects.collect::<Vec<&Value>>(), Vec::<&Value>::new(), "{path}");
            }
        };
        look().await;
        // Nor when the type is gone.
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        for path in ["/logs/?limit=0".to_owned(), format!("/changes/?since={since}&limit=100")] {
            let answer = ask(&path).await;
            let results = answer.json()["results"].as_array().expect("a list").clone();
            assert!(results.iter().all(|it| it["resource"] != "objects"), "{path}: {}", answer.text);
            assert!(!answer.text.contains("treasure"), "{path}: {}", answer.text);
        }
    }

    async fn a_type_that_another_tool_changed_hides_its_objects_at_earlier_moments_too(app) {
        let body = json!({"name": "secret", "label": "Secret", "author_id": 1, "fields": [{"type": "text", "name": "note", "label": "Note"}],
            "acl": {"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}}});
        let kind = app.created("/types/", &body).await;
        let id = app.create_object(kind, &json!({"note": "treasure-one"})).await;
        let gone = app.create_object(kind, &json!({"note": "treasure-two"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let before = stored(app, TYPES, Filter::equals("public_id", kind)).await.remove(0);
        let mut after = before.clone();
        after.insert("description", "by another tool");
        changed_outside(app, TYPES, &before, &after).await;
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"label": "Secrets"})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{gone}")).await.status, 200);
        let reader = Person::with_rights(app, "reader", &["base.framework.*"]).await;
        let look = async || {
            let list = reader.get(app, &format!("/objects/?limit=0&at={sequence}")).await;
            assert_eq!((list.status, &list.json()["total"]), (StatusCode::OK, &json!(0)), "{}", list.text);
            for path in ["native?at=AT", "native", "diff?from=AT", "restore"] {
                let said = async |id: i64| {
                    let path = format!("/objects/{id}/{}", path.replace("AT", &sequence.to_string()));
                    let method = if path.ends_with("restore") { Method::POST } else { Method::GET };
                    let answer = send(reader.request(app, method, &path)).await;
                    assert!([403, 404].contains(&answer.status.as_u16()), "{path}: {}", answer.text);
                    (answer.status, answer.json()["message"].to_string().replacen(&id.to_string(), "ID", 1))
                };
                assert_eq!(said(gone).await, said(4711).await, "{path}");
                assert_eq!(said(id).await, said(4711).await, "{path}");
            }
        };
        look().await;
        // Nor when the type is gone.
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        look().await;
    }

    async fn a_new_type_under_the_id_of_a_deleted_one_does_not_open_its_past(app) {
        let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        let type_of = |name: &str, acl: Value, password: &str| {
            let fields = json!([{"type": "text", "name": "name", "label": "Name"}, {"type": password, "name": "pw", "label": "Password"}]);
            json!({"name": name, "label": name, "author_id": 1, "fields": fields, "acl": acl})
        };
        let closed = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
        let open = json!({"activated": false});
        let hidden = app.created("/types/", &type_of("hidden", closed, "password")).await;
        let shown = app.created("/types/", &type_of("shown", open.clone(), "password")).await;
        let secret = app.create_object(hidden, &json!({"name": "treasure", "pw": "treasure"})).await;
        let plain = app.create_object(shown, &json!({"name": "visible", "pw": "treasure"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        for id in [secret, plain] {
            assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"pw": "treasure-two"}})).await.status, 202);
        }
        for kind in [hidden, shown] {
            assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        }
        let rights = ["base.framework.object.view", "base.framework.object.add", "base.framework.type.view", "base.framework.type.add", "base.framework.log.view"];
        let reader = Person::with_rights(app, "reader", &rights).await;
        for kind in [hidden, shown] {
            let mut body = type_of(&format!("mine-{kind}"), open.clone(), "text");
            body["public_id"] = json!(kind);
            assert_eq!(reader.send(app, Method::POST, "/types/", &body).await.status, 201);
        }
        let paths = ["/logs/?limit=0", "/changes/?limit=1000&since=SINCE", "/changes/?limit=1000&view=render&since=SINCE", "/objects/SECRET/history",
            "/objects/PLAIN/history", "/objects/SECRET/native?at=AT", "/objects/SECRET/diff?from=AT", "/objects/PLAIN/diff?from=AT"];
        for path in paths {
            let path = path.replace("SINCE", &since).replace("SECRET", &secret.to_string()).replace("PLAIN", &plain.to_string());
            let answer = reader.get(app, &path.replace("AT", &sequence.to_string())).await;
            assert!(!answer.text.contains("treasure"), "{path}: {}", answer.text);
        }
        let entries = reader.get(app, "/logs/?limit=0&filter={\"resource\":\"objects\"}").await;
        assert!(entries.results("/public_id").iter().all(|id| *id == json!(plain)), "{}", entries.text);
        let then = reader.get(app, &format!("/objects/?limit=0&at={sequence}")).await;
        assert_eq!(then.results("/public_id"), [json!(plain)], "{}", then.text);
        let restored = send(reader.request(app, Method::POST, &format!("/objects/{secret}/restore"))).await;
        assert_eq!(restored.status, StatusCode::NOT_FOUND, "{}", restored.text);
    }

    async fn a_restored_type_has_its_past_again(app) {
        let kind = app.create_type("server", &[("hostname", "text")]).await;
        let id = app.create_object(kind, &json!({"hostname": "a"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        assert_eq!(send(app.request(Method::POST, &format!("/types/{kind}/restore"))).await.status, 201);
        assert_eq!(app.get(&format!("/objects/{id}/native?at={sequence}")).await.json()["fields"][0]["value"], "a");
        let deleted = app.get(&format!("/objects/{id}/history?sort=-number&limit=1")).await;
        assert_eq!(deleted.results("/changes/deleted/fields/0/value"), ["a"]);
    }

    async fn an_object_under_the_id_of_a_hidden_one_does_not_tell_of_it(app) {
        let closed = json!({"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}});
        let fields = json!([{"type": "text", "name": "note", "label": "Note"}]);
        let hidden = app.created("/types/", &json!({"name": "hidden", "label": "Hidden", "author_id": 1, "fields": fields, "acl": closed})).await;
        let shown = app.create_type("shown", &[("note", "text")]).await;
        let before = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let id = app.create_object(hidden, &json!({"note": "treasure"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        let reader = Person::with_rights(app, "reader", &["base.framework.*"]).await;
        let body = json!({"public_id": id, "type_id": shown, "author_id": 1, "fields": {"note": "mine"}});
        assert_eq!(reader.send(app, Method::POST, "/objects/", &body).await.status, 200);
        for path in [format!("/objects/{id}?at="), format!("/objects/{id}/native?at=")] {
            let never = reader.get(app, &format!("{path}{before}")).await;
            let then = reader.get(app, &format!("{path}{sequence}")).await;
            assert_eq!((then.status, &then.json()["message"]), (never.status, &never.json()["message"]), "{path}");
            assert_eq!(never.status, StatusCode::NOT_FOUND);
        }
        let revert = async |to: &Value| reader.send(app, Method::POST, &format!("/objects/{id}/revert"), &json!({"to": to})).await;
        let (never, then) = (revert(&before).await, revert(&sequence).await);
        assert_eq!((then.status, &then.json()["message"]), (never.status, &never.json()["message"]));
    }

    async fn no_entry_has_a_digest_to_compare_guesses_with(app) {
        let kind = app.create_type("account", &[("name", "text"), ("pw", "password")]).await;
        let id = app.create_object(kind, &json!({"name": "a", "pw": "treasure"})).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"name": "b"}})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        for path in [format!("/objects/{id}/history?limit=0"), "/logs/?limit=0".to_owned()] {
            let entries = app.get(&path).await.json()["results"].as_array().expect("a list").clone();
            assert!(entries.len() >= 3, "{entries:?}");
            for digest in ["hash", "state", "previous"] {
                assert!(entries.iter().all(|entry| entry.get(digest).is_none()), "{path}: {digest}");
            }
        }
    }

    async fn what_was_of_a_deleted_type_does_not_come_back_under_another_with_its_id(app) {
        let kind = app.create_type("account", &[("pw", "password")]).await;
        let gone = app.create_object(kind, &json!({"pw": "treasure"})).await;
        let again = app.create_object(kind, &json!({"pw": "treasure"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let time = app.get("/logs/?sort=-sequence&limit=1").await.results("/time")[0].clone();
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        let restored = send(app.request(Method::POST, &format!("/objects/{gone}/restore"))).await;
        assert!(restored.text.contains("was deleted since; restore it first"), "{}", restored.text);
        let fields = json!([{"type": "text", "name": "pw", "label": "Password"}]);
        app.created("/types/", &json!({"public_id": kind, "name": "mine", "label": "Mine", "author_id": 1, "fields": fields})).await;
        let body = json!({"public_id": again, "type_id": kind, "author_id": 1, "fields": {"pw": "mine"}});
        assert_eq!(app.post("/objects/", &body).await.status, 200);
        let refused = |answer: &crate::support::app::Answer| answer.json()["errors"][0]["pointer"] == "/type_id";
        let restored = send(app.request(Method::POST, &format!("/objects/{gone}/restore"))).await;
        assert!(restored.status == 400 && refused(&restored), "{}", restored.text);
        assert!(restored.text.contains("another type has its id; this object cannot come back"), "{}", restored.text);
        for to in [sequence, time] {
            let reverted = app.post(&format!("/objects/{again}/revert"), &json!({"to": to})).await;
            assert!(reverted.status == 400 && refused(&reverted), "{}", reverted.text);
        }
        // The type itself brings them back.
        assert_eq!(app.delete(&format!("/types/{kind}?cascade=true")).await.status, 202);
        assert_eq!(send(app.request(Method::POST, &format!("/types/{kind}/restore"))).await.status, 201);
        assert_eq!(send(app.request(Method::POST, &format!("/objects/{again}/restore"))).await.status, 200);
    }

    async fn what_was_a_password_stays_hidden_whatever_its_field_is_today(app) {
        let since = app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        let kind = app.create_type("account", &[("note", "text"), ("pw", "password")]).await;
        let path = format!("/types/{kind}");
        let note = json!({"type": "text", "name": "note", "label": "note"});
        let pw = |kind: &str| json!({"type": kind, "name": "pw", "label": "pw"});
        let with_fields = async |fields: Value| {
            let patched = app.patch(&path, &json!({"fields": fields})).await;
            assert_eq!(patched.status, StatusCode::ACCEPTED, "{}", patched.text);
        };
        let values = json!({"note": "a-note", "pw": "treasure"});
        let [id, gone] = [app.create_object(kind, &values).await, app.create_object(kind, &values).await];
        let first = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        let change = json!({"fields": {"note": "b-note", "pw": "open"}});
        assert_eq!(app.patch(&format!("/objects/{id}"), &change).await.status, 202);
        let cleaned = app.create_object(kind, &values).await;
        assert_eq!(app.delete(&format!("/objects/{gone}")).await.status, 200);
        let before = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        // Who reads logs and changes types need not see objects.
        let reader = Person::with_rights(app, "reader", &["base.framework.log.view", "base.framework.object.view"]).await;
        let paths = [
            "/logs/?limit=0&filter={\"sequence\":{\"$lte\":BEFORE}}",
            "/logs/?limit=2&sort=sequence&filter={\"resource\":\"objects\",\"action\":{\"$ne\":\"CREATE\"},\"sequence\":{\"$lte\":BEFORE}}",
            "/objects/ID/history?limit=1&sort=number&filter={\"number\":2}",
            "/objects/GONE/history",
            "/changes/?since=SINCE&limit=9&resource=objects",
            "/changes/?since=SINCE&limit=9&resource=objects&view=render",
            "/objects/ID/diff?from=FIRST&to=BEFORE",
        ];
        let look = async |when: &str| {
            for path in paths {
                let path = path.replace("SINCE", &since).replace("ID", &id.to_string()).replace("GONE", &gone.to_string());
                let path = path.replace("FIRST", &first.to_string()).replace("BEFORE", &before.to_string());
                let answer = reader.get(app, &path).await;
                assert_eq!(answer.status, 200, "{when}, {path}: {}", answer.text);
                assert!(!answer.text.contains("treasure"), "{when}, {path}: {}", answer.text);
                assert!(answer.text.contains("a-note"), "{when}, {path}: {}", answer.text);
            }
        };
        look("as a password").await;
        with_fields(json!([note, pw("text")])).await;
        look("as a text").await;
        for value in ["gold-one", "gold-two"] {
            assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"pw": value}})).await.status, 202);
        }
        let history = async || reader.get(app, &format!("/objects/{id}/history?limit=0")).await.text;
        assert!(history().await.contains("gold-one"), "it was a text then and is one today");
        with_fields(json!([note, pw("password")])).await;
        look("as a password again").await;
        assert!(!history().await.contains("gold-one"));
        with_fields(json!([note])).await;
        assert_eq!(send(app.request(Method::PUT, &format!("/objects/clean/{kind}"))).await.status, 202);
        look("without the field").await;
        with_fields(json!([pw("textarea"), note])).await;
        look("as another field").await;
        let entries = reader.get(app, &format!("/objects/{cleaned}/history?limit=0")).await.text;
        assert!(entries.contains("CLEAN") && !entries.contains("treasure"), "{entries}");
        let shown = history().await;
        assert!(shown.contains("gold-one") && !shown.contains("treasure"), "{shown}");
        // A field that never was a password shows what it was, also after it was away.
        with_fields(json!([pw("textarea")])).await;
        assert!(!history().await.contains("a-note"), "the type has no such field");
        with_fields(json!([pw("textarea"), note])).await;
        look("with the note again").await;
        // The type itself may go and come back.
        assert_eq!(app.delete(&format!("{path}?cascade=true")).await.status, 202);
        assert_eq!(send(app.request(Method::POST, &format!("{path}/restore"))).await.status, 201);
        assert!(!reader.get(app, "/logs/?limit=0").await.text.contains("treasure"));
    }

    async fn what_a_type_was_before_another_tool_changed_it_shows_in_no_entry(app) {
        let kind = app.create_type("account", &[("pw", "password")]).await;
        let id = app.create_object(kind, &json!({"pw": "treasure"})).await;
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"pw": "gold"}})).await.status, 202);
        let before = stored(app, TYPES, Filter::equals("public_id", kind)).await.remove(0);
        let mut after = before.clone();
        after.insert("fields", vec![bson::doc! {"type": "text", "name": "pw", "label": "pw"}]);
        changed_outside(app, TYPES, &before, &after).await;
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"label": "Accounts"})).await.status, 202);
        let history = async || app.get(&format!("/objects/{id}/history?limit=0")).await.text;
        let shown = history().await;
        assert!(!shown.contains("treasure") && shown.contains("********"), "{shown}");
        assert_eq!(app.patch(&format!("/objects/{id}"), &json!({"fields": {"pw": "silver"}})).await.status, 202);
        assert!(history().await.contains("\"gold\""));
    }

    async fn a_type_that_another_tool_deleted_does_not_open_the_past_of_its_objects(app) {
        let body = json!({"name": "secret", "label": "Secret", "author_id": 1, "fields": [{"type": "text", "name": "note", "label": "Note"}],
            "acl": {"activated": true, "groups": {"includes": {"1": ["CREATE", "READ", "UPDATE", "DELETE"]}}}});
        let kind = app.created("/types/", &body).await;
        let id = app.create_object(kind, &json!({"note": "treasure"})).await;
        let sequence = app.get("/logs/?sort=-sequence&limit=1").await.results("/sequence")[0].clone();
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        let document = stored(app, TYPES, Filter::equals("public_id", kind)).await.remove(0);
        let deletion = Change::Delete { collection: TYPES, before: raw(&document) };
        app.store.commit(Unit::of(deletion)).await.expect("removed");
        let reader = Person::with_rights(app, "reader", &["base.framework.*"]).await;
        let entries_of_objects = "/logs/?limit=0&filter={\"resource\":\"objects\"}";
        let look = async || {
            for path in [format!("/objects/{id}/history"), format!("/objects/{id}/native?at={sequence}"), format!("/objects/{id}/diff?from={sequence}"), format!("/objects/?at={sequence}")] {
                let answer = reader.get(app, &path).await;
                assert!(!answer.text.contains("treasure"), "{path}: {}", answer.text);
            }
            assert_eq!(reader.get(app, entries_of_objects).await.json()["total"], 0);
            let restored = send(reader.request(app, Method::POST, &format!("/objects/{id}/restore"))).await;
            assert!(restored.status.is_client_error(), "{}", restored.text);
        };
        // Only MongoDB is open to other tools while the service works, and reports their changes soon.
        if app.store.is_remote() {
            let until = Instant::now() + Duration::from_secs(20);
            while reader.get(app, entries_of_objects).await.json()["total"] != 0 {
                assert!(Instant::now() < until, "the deletion is not noticed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            look().await;
        }
        let open = json!({"public_id": kind, "name": "mine", "label": "Mine", "author_id": 1, "fields": body["fields"]});
        assert_eq!(reader.send(app, Method::POST, "/types/", &open).await.status, 201);
        look().await;
        // Nor when the tool changes the new type.
        let before = stored(app, TYPES, Filter::equals("public_id", kind)).await.remove(0);
        let mut after = before.clone();
        after.insert("description", "by another tool");
        changed_outside(app, TYPES, &before, &after).await;
        assert_eq!(app.patch(&format!("/types/{kind}"), &json!({"label": "Ours"})).await.status, 202);
        look().await;
    }
}
