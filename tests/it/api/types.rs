//! Types: docs/api.md, Types.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use inventory_service::store::Change;
use inventory_service::store::collections::TYPES;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store, send};
use crate::support::counting::CountingStore;

on_each_store! {
    async fn a_created_type_is_answered_whole_with_its_place(app) {
        let answer = app.post("/types/", &json!({"name": "rack-unit", "author_id": 1, "clean_db": true})).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        assert_eq!(answer.header("location"), format!("{}/rest/types/1", app.origin));
        let body = answer.json();
        assert_eq!(body["result_id"], 1);
        assert_eq!((&body["response_type"], &body["model"]), (&json!("INSERT"), &json!("Type")));
        let raw = &body["raw"];
        assert_eq!(raw["label"], "Rack-Unit");
        assert_eq!(raw["version"], "1.0.0");
        assert_eq!(raw["active"], true);
        assert_eq!(raw["acl"], json!({"activated": false, "groups": {"includes": {}}}));
        assert!(raw.get("clean_db").is_none() && raw.get("_id").is_none());
        let created = raw["creation_time"].as_str().expect("an ISO time");
        assert!(created.len() >= 19 && created.contains('T') && !created.ends_with('Z'), "{created}");
        let read = app.get("/types/1").await;
        assert_eq!(read.json()["result"], *raw);
    }

    async fn every_violation_of_a_type_is_named_at_once(app) {
        let body = json!({
            "name": "x", "fields": [{"type": "text", "name": "a"}], "active": 1,
            "render_meta": {"colour": "red", "sections": [{"type": "section"}]},
        });
        let answer = app.post("/types/", &body).await;
        answer.error(400, "validation_failed");
        let expected = [
            "/name", "/author_id", "/active", "/fields/0/label", "/render_meta/sections/0/name",
            "/render_meta/sections/0/label", "/render_meta/colour",
        ];
        assert_eq!(answer.pointers(), expected);
        assert_eq!(app.get("/types/").await.json()["total"], 0);
    }

    async fn a_misspelt_kind_is_named_together_with_what_else_is_wrong(app) {
        let id = app.create_type("rack", &[("city", "text")]).await;
        let patch = json!({
            "fields": [{"type": "txt", "name": "city", "label": "City"}],
            "render_meta": {"sections": [{"type": "section", "name": "s", "label": "S", "fields": ["town"]}]},
        });
        let answer = app.patch(&format!("/types/{id}"), &patch).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/render_meta/sections/0/fields/0", "/fields/0/type"]);
    }

    async fn a_default_is_a_value_that_the_field_takes(app) {
        let field = |kind: &str, value: &str| {
            let options = json!([{"name": "x", "label": "X"}, {"name": "y", "label": "Y"}]);
            json!({"type": kind, "name": kind, "label": "A", "value": value, "options": options})
        };
        let body = |fields: Value| json!({"name": "rack", "author_id": 1, "fields": fields});
        let wrong = [("select", "q"), ("radio", "q"), ("number", "abc"), ("checkbox", "yes"), ("ref", "a"), ("date", "soon")];
        let fields = wrong.iter().map(|(kind, value)| field(kind, value)).collect();
        let answer = app.post("/types/", &body(fields)).await;
        let told = answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), (0..wrong.len()).map(|index| format!("/fields/{index}/value")).collect::<Vec<_>>());
        assert_eq!(told["errors"][0]["message"], "q is no default: it must be one of the options x, y; correct it or leave it out");
        assert_eq!(told["errors"][2]["message"], "abc is no default: it must be a number as text; correct it or leave it out");
        let right = [("select", "y"), ("radio", ""), ("number", "3.5"), ("checkbox", "true"), ("ref", ""), ("date", "2026-01-01")];
        let fields = right.iter().map(|(kind, value)| field(kind, value)).collect();
        let id = app.created("/types/", &body(fields)).await;
        let answer = app.patch(&format!("/types/{id}"), &json!({"fields": [field("select", "z")]})).await;
        assert_eq!((answer.status.as_u16(), answer.pointers()), (400, vec!["/fields/0/value".to_owned()]));
    }

    async fn integers_are_json_integers_only(app) {
        for wrong in [json!(true), json!("1"), json!(1.0), json!(null)] {
            let answer = app.post("/types/", &json!({"name": "rack", "author_id": wrong})).await;
            answer.error(400, "validation_failed");
            assert_eq!(answer.pointers(), ["/author_id"], "{wrong}");
        }
    }

    async fn a_name_or_an_id_that_is_taken_is_refused(app) {
        app.created("/types/", &json!({"name": "rack", "author_id": 1, "public_id": 5})).await;
        app.post("/types/", &json!({"name": "rack", "author_id": 1})).await.error(400, "type_name_taken");
        let same_id = json!({"name": "other", "author_id": 1, "public_id": 5});
        app.post("/types/", &same_id).await.error(400, "type_public_id_taken");
        assert!(app.created("/types/", &json!({"name": "next", "author_id": 1})).await > 5);
    }

    async fn ids_are_never_given_again(app) {
        let first = app.create_type("first", &[]).await;
        assert_eq!(app.delete(&format!("/types/{first}")).await.status, 202);
        assert!(app.create_type("second", &[]).await > first);
    }

    async fn put_replaces_and_keeps_the_creation_time(app) {
        let id = app.create_type("rack", &[("height", "number")]).await;
        let before = app.get(&format!("/types/{id}")).await.json()["result"].clone();
        let answer = app.put(&format!("/types/{id}"), &json!({"name": "rack", "author_id": 1, "label": "Racks"})).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        let after = &answer.json()["result"];
        assert_eq!(after["label"], "Racks");
        assert_eq!(after["fields"], json!([]));
        assert_eq!(after["creation_time"], before["creation_time"]);
        assert!(after["last_edit_time"].is_string());
        let wrong = app.put(&format!("/types/{id}"), &json!({"name": "rack", "author_id": 1, "public_id": id + 1})).await;
        assert_eq!((wrong.error(400, "validation_failed"), wrong.pointers()).1, ["/public_id"]);
    }

    async fn patch_merges_and_null_clears(app) {
        let id = app.create_type("rack", &[("height", "number")]).await;
        let path = format!("/types/{id}");
        let answer = app.patch(&path, &json!({"label": "Racks", "description": "tall", "acl": {"note": 1}})).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        let answer = app.patch(&path, &json!({"description": null, "label": null})).await.json();
        assert_eq!(answer["result"]["description"], json!(null));
        assert_eq!(answer["result"]["label"], "Rack");
        assert_eq!(answer["result"]["fields"][0]["name"], "height");
        assert_eq!(answer["result"]["acl"]["note"], 1);
    }

    async fn a_lost_field_that_objects_still_have_is_told(app) {
        let id = app.create_type("rack", &[("height", "number"), ("city", "text")]).await;
        app.create_object(id, &json!({"height": 42, "city": "Oslo"})).await;
        let empty = app.create_type("shelf", &[("width", "number")]).await;
        let field = json!({"type": "text", "name": "city", "label": "City"});
        let warnings = |answer: &Answer| -> Vec<String> {
            assert_eq!(answer.status, 202, "{}", answer.text);
            answer.headers.get_all("inventory-warning").iter().map(|text| text.to_str().expect("ASCII").to_owned()).collect()
        };
        let none: [&str; 0] = [];
        assert_eq!(warnings(&app.patch(&format!("/types/{id}"), &json!({"label": "Racks"})).await), none);
        assert_eq!(warnings(&app.patch(&format!("/types/{empty}"), &json!({"fields": []})).await), none, "no object has it");
        let told = |names: &str| {
            [format!(
                "fields: the type has lost {names}, and values stay in 1 object; send the whole list to keep them, or PUT \
                 /rest/objects/clean/{id} to remove them"
            )]
        };
        let patched = app.patch(&format!("/types/{id}"), &json!({"fields": [field]})).await;
        assert_eq!(warnings(&patched), told("\"height\""));
        let put = app.put(&format!("/types/{id}"), &json!({"name": "rack", "author_id": 1})).await;
        assert_eq!(warnings(&put), told("\"city\""));
        assert_eq!(warnings(&app.put(&format!("/types/{id}"), &json!({"name": "rack", "author_id": 1})).await), none);
    }

    async fn values_that_a_type_takes_no_more_are_told(app) {
        let fields = |size: Value| json!({"fields": [{"type": "text", "name": "name", "label": "Name"}, size]});
        let size = |kind: &str| json!({"type": kind, "name": "size", "label": "Size"});
        let id = app.create_type("rack", &[("name", "text"), ("size", "text")]).await;
        for (name, size) in [("a", json!("12")), ("b", json!("big")), ("c", json!(null))] {
            app.create_object(id, &json!({"name": name, "size": size})).await;
        }
        let path = format!("/types/{id}");
        let told = async |body: &Value| {
            let mut body = body.clone();
            body["enforce"] = "new".into();
            let answer = app.patch(&path, &body).await;
            assert_eq!(answer.status, 202, "{}", answer.text);
            let told = answer.headers.get_all("inventory-warning").iter();
            told.map(|text| text.to_str().expect("ASCII").to_owned()).collect::<Vec<_>>()
        };
        let odd_in = |objects: &str| {
            [format!(
                "fields: values of \"size\" in {objects} do not fit the type now; they stay until they are changed; PUT \
                 /rest/types/{id}?dry_run=true lists them"
            )]
        };
        let odd = odd_in("1 object");
        let with = |member: &str, value: Value| {
            let mut field = size("text");
            field[member] = value;
            fields(field)
        };
        let none: [&str; 0] = [];
        assert_eq!(told(&with("required", json!(true))).await, odd, "one is null");
        assert_eq!(told(&with("regex", json!("[0-9]+|big"))).await, none, "all match");
        assert_eq!(told(&with("regex", json!("[0-9]+"))).await, odd);
        assert_eq!(told(&fields(size("text"))).await, none);
        // The field goes, and comes back as another one.
        assert_eq!(told(&json!({"fields": [{"type": "text", "name": "name", "label": "Name"}]})).await.len(), 1);
        assert_eq!(told(&fields(size("number"))).await, odd_in("2 objects"));
        assert_eq!(told(&fields(size("text"))).await, none);
    }

    async fn names_alone_are_told_in_which_form_they_belong(app) {
        let field = json!({"type": "select", "name": "state", "label": "State", "options": ["spare", {"name": "live", "label": "Live"}]});
        let refused = app.post("/types/", &json!({"name": "rack", "author_id": 1, "fields": [field]})).await;
        let message = r#"must be an object; write {"name": "spare", "label": "spare"}"#;
        assert_eq!(refused.json()["errors"], json!([{"pointer": "/fields/0/options/0", "message": message}]), "{}", refused.text);
        let refused = app.post("/types/", &json!({"name": "rack", "author_id": 1, "fields": ["state"]})).await;
        let message = r#"must be an object; write {"type": ..., "name": "state", "label": "state"}"#;
        assert_eq!(refused.json()["errors"], json!([{"pointer": "/fields/0", "message": message}]), "{}", refused.text);
    }

    async fn a_default_matches_its_regex_and_refers_to_an_object(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let (there, other) = (app.create_object(rack, &json!({"name": "a"})).await, app.create_type("room", &[]).await);
        let field = |name: &str, value: &str, types: &[i64]| match types {
            [] => json!({"type": "text", "name": name, "label": name, "regex": "[a-z]+", "value": value}),
            types => json!({"type": "ref", "name": name, "label": name, "ref_types": types, "value": value}),
        };
        let body = |fields: Value| json!({"name": "server", "author_id": 1, "fields": fields});
        let at = there.to_string();
        let wrong = json!([field("a", "NOT", &[]), field("b", "99", &[rack]), field("c", &at, &[other]), field("d", &at, &[rack])]);
        let answer = app.post("/types/", &body(wrong)).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/fields/0/value", "/fields/1/value", "/fields/2/value"], "{}", answer.text);
        let right = json!([field("a", "yes", &[]), field("d", &at, &[rack])]);
        let id = app.created("/types/", &body(right.clone())).await;
        app.delete(&format!("/objects/{there}")).await;
        let again = app.patch(&format!("/types/{id}"), &json!({"fields": right})).await;
        assert_eq!(again.status, 202, "what it has stays: {}", again.text);
    }

    async fn an_empty_regex_is_none(app) {
        let field = |value: &str| json!({"type": "text", "name": "a", "label": "A", "regex": "", "value": value});
        let body = |value: &str| json!({"name": "server", "author_id": 1, "fields": [field(value)]});
        let id = app.created("/types/", &body("any default")).await;
        assert_eq!(app.put(&format!("/types/{id}"), &body("another")).await.status, 202);
        let object = app.create_object(id, &json!({"a": "any value"})).await;
        assert_eq!(app.get(&format!("/objects/{object}")).await.json()["type_information"]["fields"][0]["value"], "any value");
    }

    async fn what_has_no_effect_in_a_type_is_told(app) {
        let field = json!({"type": "ref", "name": "any", "label": "Any"});
        let acl = json!({"active": true, "groups": {"2": ["READ"]}});
        let made = app.post("/types/", &json!({"name": "server", "author_id": 1, "fields": [field], "acl": acl})).await;
        let told: Vec<_> = made.headers.get_all("inventory-warning").iter().filter_map(|told| told.to_str().ok()).collect();
        let expected = [
            "fields/0/ref_types: without a type the field takes any object, and neither /references nor on_references knows of it",
            "acl: \"active\" has no effect; activated or groups has",
            "acl/groups: \"2\" has no effect; includes has",
        ];
        assert_eq!(told, expected, "{}", made.text);
    }

    async fn values_that_a_changed_field_takes_no_more_are_told(app) {
        let options = |names: &[&str]| names.iter().map(|name| json!({"name": name, "label": name})).collect::<Vec<_>>();
        let field = |kind: &str, name: &str, names: &[&str]| {
            json!({"type": kind, "name": name, "label": name, "options": options(names)})
        };
        let fields = json!([field("text", "units", &[]), field("select", "state", &["new", "old", "gone"]), field("password", "pin", &[])]);
        let id = app.created("/types/", &json!({"name": "rack", "author_id": 1, "fields": fields})).await;
        let object = app.create_object(id, &json!({"units": "many", "state": "old", "pin": "1234"})).await;
        let warnings = async |fields: Value| -> Vec<String> {
            let answer = app.patch(&format!("/types/{id}"), &json!({"fields": fields})).await;
            assert_eq!(answer.status, 202, "{}", answer.text);
            answer.headers.get_all("inventory-warning").iter().map(|text| text.to_str().expect("ASCII").to_owned()).collect()
        };
        let told_of = |id: i64, names: &str| {
            vec![format!(
                "fields: values of {names} in 1 object do not fit the type now; they stay until they are changed; PUT \
                 /rest/types/{id}?dry_run=true lists them"
            )]
        };
        let told = |names: &str| told_of(id, names);
        let none: Vec<String> = Vec::new();
        let (units, pin) = (field("text", "units", &[]), field("password", "pin", &[]));
        assert_eq!(warnings(json!([units, field("select", "state", &["new", "old"]), pin])).await, none, "no object has it");
        assert_eq!(warnings(json!([units, field("select", "state", &["new"]), pin])).await, told("\"state\""));
        assert_eq!(warnings(json!([field("number", "units", &[]), field("text", "state", &[]), field("select", "pin", &["1"])])).await, told("\"units\", \"pin\""));
        assert_eq!(warnings(json!([field("textarea", "units", &[]), field("text", "state", &[]), pin])).await, none);
        assert_eq!(app.get(&format!("/objects/{object}/native")).await.json()["fields"][0]["value"], "many");
        let free = app.created("/types/", &json!({"name": "free", "author_id": 1, "fields": [field("list", "all", &[])]})).await;
        app.create_object(free, &json!({"all": ["a", "b"]})).await;
        let answer = app.patch(&format!("/types/{free}"), &json!({"fields": [field("text", "all", &[])]})).await;
        assert_eq!(answer.header("inventory-warning"), told_of(free, "\"all\"")[0], "{}", answer.text);
    }

    async fn a_lost_field_of_hidden_objects_is_not_told(app) {
        let rights = ["base.framework.type.edit", "base.framework.object.view"];
        let person = Person::with_rights(app, "editor", &rights).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        let fields = json!([{"type": "text", "name": "secret", "label": "S"}]);
        let id = app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields, "acl": acl})).await;
        app.create_object(id, &json!({"secret": "x"})).await;
        let request = person.request(app, reqwest::Method::PATCH, &format!("/types/{id}"));
        let answer = send(request.json(&json!({"fields": []}))).await;
        assert_eq!((answer.status.as_u16(), answer.header("inventory-warning")), (202, ""), "{}", answer.text);
    }

    async fn an_access_list_that_shuts_its_author_out_is_taken_with_a_warning(app) {
        let shut = "acl: the list gives your group 1 no READ, so it hides the objects of this type from you";
        let list = |id: i64| json!({"activated": true, "groups": {"includes": {id.to_string(): ["READ"]}}});
        let created = app.post("/types/", &json!({"name": "vault", "author_id": 1, "acl": list(2)})).await;
        assert_eq!((created.status.as_u16(), created.header("inventory-warning")), (201, shut), "{}", created.text);
        let id = app.create_type("rack", &[]).await;
        let path = format!("/types/{id}");
        let patched = app.patch(&path, &json!({"acl": list(2)})).await;
        assert_eq!((patched.status.as_u16(), patched.header("inventory-warning")), (202, shut), "{}", patched.text);
        for patch in [json!({"label": "Racks"}), json!({"acl": list(1)}), json!({"acl": {"activated": false}})] {
            let patched = app.patch(&path, &patch).await;
            assert_eq!((patched.status.as_u16(), patched.header("inventory-warning")), (202, ""), "{}", patched.text);
        }
    }

    async fn an_access_list_names_groups_that_exist(app) {
        let list = |id: i64| json!({"groups": {"includes": {id.to_string(): ["READ"]}}});
        let answer = app.post("/types/", &json!({"name": "x", "author_id": 1, "acl": list(99)})).await;
        let told = answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/name", "/acl/groups/includes/99"]);
        assert_eq!(told["errors"][1]["message"], "group 99 does not exist");
        let group = app.created("/groups/", &json!({"name": "people"})).await;
        let id = app.created("/types/", &json!({"name": "rack", "author_id": 1, "acl": list(group)})).await;
        assert_eq!(app.delete(&format!("/groups/{group}")).await.status, 202);
        // A list may keep the group that is gone since.
        let path = format!("/types/{id}");
        let kept = app.put(&path, &app.get(&path).await.json()["result"]).await;
        assert_eq!((kept.status.as_u16(), kept.header("inventory-warning")), (202, ""), "{}", kept.text);
        app.patch(&path, &json!({"acl": list(99)})).await.error(400, "validation_failed");
    }

    async fn a_change_that_changes_nothing_leaves_times_and_tags(app) {
        let id = app.create_type("rack", &[("city", "text")]).await;
        let object = app.create_object(id, &json!({"city": "Oslo"})).await;
        let category = app.created("/categories/", &json!({"name": "hardware", "types": [id]})).await;
        for (path, read) in [
            (format!("/types/{id}"), format!("/types/{id}")),
            (format!("/categories/{category}"), format!("/categories/{category}")),
            (format!("/objects/{object}"), format!("/objects/{object}/native")),
        ] {
            let before = app.get(&read).await;
            let patched = app.patch(&path, &json!({})).await;
            assert_eq!(patched.status, 202, "{}", patched.text);
            assert_eq!(app.get(&read).await.header("etag"), before.header("etag"), "{path}");
        }
        let before = app.get(&format!("/objects/{object}/native")).await;
        let same = json!({"author_id": 1, "fields": {"city": "Oslo"}});
        assert_eq!(app.put(&format!("/objects/{object}"), &same).await.status, 200);
        assert_eq!(app.get(&format!("/objects/{object}/native")).await.text, before.text);
        app.patch(&format!("/objects/{object}"), &json!({"fields": {"city": "Bergen"}})).await;
        assert_ne!(app.get(&format!("/objects/{object}/native")).await.text, before.text);
        let edited = app.patch(&format!("/types/{id}"), &json!({"editor_id": 7})).await;
        assert_eq!(edited.json()["result"]["editor_id"], 7);
    }

    async fn a_type_with_objects_goes_only_with_them(app) {
        let id = app.create_type("rack", &[]).await;
        let category = app.created("/categories/", &json!({"name": "hardware", "types": [id]})).await;
        app.create_object(id, &json!({})).await;
        app.create_object(id, &json!({})).await;
        let refused = app.delete(&format!("/types/{id}")).await;
        let body = refused.error(400, "type_in_use");
        assert!(body["message"].as_str().expect("a message").contains("2 objects"), "{body}");
        assert_eq!(app.get("/objects/").await.json()["total"], 2);
        let gone = app.delete(&format!("/types/{id}?cascade=true")).await;
        assert_eq!(gone.status, 202, "{}", gone.text);
        assert_eq!(gone.json()["deleted_entry"]["public_id"], id);
        assert_eq!(gone.json()["also_changed"], json!({"objects": 2, "categories": 1}));
        assert_eq!(app.get("/objects/").await.json()["total"], 0);
        assert_eq!(app.get(&format!("/categories/{category}")).await.json()["result"]["types"], json!([]));
        app.get(&format!("/types/{id}")).await.error(404, "type_not_found");
    }

    async fn an_inactive_type_keeps_its_objects(app) {
        let id = app.create_type("rack", &[]).await;
        let path = format!("/types/{id}");
        let object = app.create_object(id, &json!({})).await;
        assert_eq!(app.patch(&path, &json!({"active": false})).await.status, 202);
        app.delete(&format!("{path}?cascade=true")).await.error(403, "type_inactive");
        app.delete(&path).await.error(400, "type_in_use");
        assert_eq!(app.get(&format!("/objects/{object}")).await.status, 200);
        assert_eq!(app.patch(&path, &json!({"active": true})).await.status, 202);
        assert_eq!(app.delete(&format!("/objects/{object}")).await.status, 200);
        assert_eq!(app.patch(&path, &json!({"active": false})).await.status, 202);
        assert_eq!(app.delete(&format!("{path}?cascade=true")).await.status, 202);
    }

    async fn an_etag_guards_a_change_and_saves_a_read(app) {
        let id = app.create_type("rack", &[]).await;
        let path = format!("/types/{id}");
        let tag = app.get(&path).await.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.len() > 20, "{tag}");
        let known = send(app.request(reqwest::Method::GET, &path).header("If-None-Match", &tag)).await;
        assert_eq!((known.status.as_u16(), known.text.as_str()), (304, ""));
        let put = |tag: String| {
            let body = json!({"name": "rack", "author_id": 1, "label": "New"});
            send(app.request(reqwest::Method::PUT, &path).header("If-Match", tag).json(&body))
        };
        assert_eq!(put(tag.clone()).await.status, 202);
        put(tag.clone()).await.error(412, "precondition_failed");
        let delete = send(app.request(reqwest::Method::DELETE, &path).header("If-Match", &tag)).await;
        delete.error(412, "precondition_failed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cascade_that_others_defeat_ends_and_says_what_is_left() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let id = app.create_type("rack", &[]).await;
    for _ in 0..3 {
        app.create_object(id, &json!({})).await;
    }
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    counter.be_faster(move |unit| {
        let removes = |change: &Change| matches!(change, Change::Delete { collection, .. } if *collection == TYPES);
        let is_removal = unit.changes.iter().any(removes);
        counted.fetch_add(usize::from(is_removal), Ordering::SeqCst);
        is_removal
    });
    let path = format!("/types/{id}?cascade=true");
    let refused = app.delete(&path).await.error(503, "contended");
    let message =
        format!("type {id}, of which 3 objects were deleted and 0 are left, is being changed by others, try again");
    assert_eq!(refused["message"], message);
    assert_eq!(attempts.load(Ordering::SeqCst), 8);
    counter.be_slower();
    assert_eq!(app.delete(&path).await.status, 202);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cascade_that_cannot_delete_an_object_ends_after_a_bounded_number_of_attempts() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let id = app.create_type("rack", &[]).await;
    for _ in 0..3 {
        app.create_object(id, &json!({})).await;
    }
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    counter.be_faster(move |unit| {
        let removes = |change: &Change| matches!(change, Change::Delete { .. } | Change::DeleteMany { .. });
        counted.fetch_add(usize::from(unit.changes.iter().any(removes)), Ordering::SeqCst);
        unit.changes.iter().any(removes)
    });
    let path = format!("/types/{id}?cascade=true");
    let refused = app.delete(&path).await.error(503, "contended");
    let message =
        format!("type {id}, of which 0 objects were deleted and 3 are left, is being changed by others, try again");
    assert_eq!(refused["message"], message);
    // Eight for the type, and eight for its objects before each but the first.
    assert_eq!(attempts.load(Ordering::SeqCst), 8 + 7 * 8);
    counter.be_slower();
    assert_eq!(app.delete(&path).await.status, 202);
}
