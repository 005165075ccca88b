//! References, and what deleting does to them. docs/api.md, References.

use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store};

/// Racks, and servers that are in one: `on_delete` is that of the field.
async fn racks_and_servers(app: &TestApp, on_delete: &str) -> (i64, i64) {
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let server = json!({"name": "server", "author_id": 1, "fields": [
        {"type": "text", "name": "hostname", "label": "Host"},
        {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack], "on_delete": on_delete},
        {"type": "ref", "name": "spare", "label": "Spare", "ref_types": [rack]},
    ], "render_meta": {"summary": {"fields": ["hostname"]}}});
    (rack, app.created("/types/", &server).await)
}

async fn value_of(app: &TestApp, id: i64, name: &str) -> Value {
    let object = app.get(&format!("/objects/{id}/native")).await.json();
    let entries = object["fields"].as_array().expect("fields").clone();
    entries.into_iter().find(|entry| entry["name"] == name).expect("the field is there")["value"].take()
}

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("inventory-warning").iter().filter_map(|told| told.to_str().ok()).collect()
}

async fn set_acl(app: &TestApp, type_id: i64, groups: Value) {
    let acl = json!({"acl": {"activated": true, "groups": {"includes": groups}}});
    assert_eq!(app.patch(&format!("/types/{type_id}"), &acl).await.status, 202);
}

on_each_store! {
    async fn a_field_that_clears_does_so_whatever_the_request_says(app) {
        let (rack, server) = racks_and_servers(app, "clear").await;
        for wish in ["", "?on_references=keep", "?on_references=clear"] {
            let target = app.create_object(rack, &json!({"name": "r1"})).await;
            let other = app.create_object(rack, &json!({"name": "r2"})).await;
            let cleared = app.create_object(server, &json!({"rack": target, "spare": other})).await;
            let gone = app.delete(&format!("/objects/{target}{wish}")).await;
            assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec![]), "{}", gone.text);
            assert_eq!(value_of(app, cleared, "rack").await, json!(null));
            assert_eq!(value_of(app, cleared, "spare").await, json!(other), "another reference stays");
        }
        let target = app.create_object(rack, &json!({})).await;
        app.create_object(server, &json!({"rack": target})).await;
        app.delete(&format!("/objects/{target}?on_references=refuse")).await.error(400, "object_referenced");
    }

    async fn a_field_that_refuses_does_so_whatever_the_request_says(app) {
        let (rack, server) = racks_and_servers(app, "refuse").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        let told = format!("objects refer to this (1: {in_it}); a field with on_delete \"refuse\" keeps it; set its references to null first");
        for wish in ["", "?on_references=keep", "?on_references=clear", "?on_references=refuse"] {
            let refused = app.delete(&format!("/objects/{target}{wish}")).await.error(400, "object_referenced");
            assert_eq!(refused["message"], told, "{wish}");
        }
        app.delete(&format!("/objects/{target},{in_it},99")).await;
        assert_eq!(app.get("/objects/").await.json()["total"], 0, "references among those that go do not count");
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        app.delete(&format!("/objects/?filter={{\"type_id\":{rack}}}&expected_count=1")).await.error(400, "object_referenced");
        app.patch(&format!("/objects/{in_it}"), &json!({"fields": {"rack": null, "spare": target}})).await;
        let gone = app.delete(&format!("/objects/{target}")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec!["1 object refers to it"]));
    }

    async fn a_refusal_names_the_first_hundred(app) {
        let (rack, server) = racks_and_servers(app, "refuse").await;
        let target = app.create_object(rack, &json!({})).await;
        let body = json!({"type_id": server, "author_id": 1, "fields": {"rack": target}});
        assert_eq!(app.post("/objects/bulk", &json!(vec![body; 101])).await.status, 200);
        let refused = app.delete(&format!("/objects/{target}")).await.error(400, "object_referenced");
        let named: Vec<String> = (target + 1..=target + 100).map(|id| id.to_string()).collect();
        let told = refused["message"].as_str().expect("a message").to_owned();
        assert!(told.starts_with(&format!("objects refer to this (101: {}, ...);", named.join(", "))), "{told}");
    }

    async fn what_still_refers_to_a_deleted_object_is_counted(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let mut racks = Vec::new();
        for _ in 0..4 {
            racks.push(app.create_object(rack, &json!({})).await);
        }
        for place in [0, 0, 1, 2, 3] {
            app.create_object(server, &json!({"rack": racks[place], "spare": racks[3]})).await;
        }
        let one = app.delete(&format!("/objects/{}", racks[0])).await;
        assert_eq!(warnings(&one), ["2 objects refer to it"]);
        let several = app.delete(&format!("/objects/{},{}", racks[1], racks[2])).await;
        assert_eq!(warnings(&several), ["2 objects refer to them"]);
        let filter = format!("/objects/?filter={{\"type_id\":{rack}}}&expected_count=1&on_references=clear");
        assert_eq!(warnings(&app.delete(&filter).await), [""; 0]);
    }

    async fn deleting_a_type_with_its_objects_heeds_references_to_them(app) {
        let (rack, server) = racks_and_servers(app, "refuse").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        let refused = app.delete(&format!("/types/{rack}?cascade=true")).await.error(400, "object_referenced");
        assert!(refused["message"].as_str().expect("a message").contains(&format!("(1: {in_it})")), "{refused}");
        assert_eq!(app.get(&format!("/objects/{target}")).await.status, 200, "nothing went");
        let gone = app.delete(&format!("/types/{server}?cascade=true")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (202, vec![]), "its own references go with it");
        let other = app.create_object(rack, &json!({})).await;
        let kinds = json!({"name": "host", "author_id": 1, "fields": [
            {"type": "ref", "name": "cleared", "label": "C", "ref_types": [rack], "on_delete": "clear"},
            {"type": "ref", "name": "kept", "label": "K", "ref_types": [rack]},
        ]});
        let host = app.created("/types/", &kinds).await;
        let host = app.create_object(host, &json!({"cleared": target, "kept": other})).await;
        let gone = app.delete(&format!("/types/{rack}?cascade=true")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (202, vec!["1 object refers to them"]), "{}", gone.text);
        assert_eq!(gone.json()["also_changed"], json!({"objects": 2, "categories": 0}));
        assert_eq!(value_of(app, host, "cleared").await, json!(null));
        assert_eq!(value_of(app, host, "kept").await, json!(other));
    }

    async fn on_delete_is_for_references_to_known_types(app) {
        let field = |kind: &str, types: Value, word: &str| {
            json!({"type": kind, "name": format!("{kind}-{word}"), "label": "L", "ref_types": types, "on_delete": word})
        };
        let body = |fields: Value| json!({"name": "kind", "author_id": 1, "fields": fields});
        let wrong = json!([field("text", json!([]), "clear"), field("ref", json!([]), "refuse"), field("ref", json!([1]), "cascade"),
            field("text", json!([]), "keep")]);
        let answer = app.post("/types/", &body(wrong)).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/fields/2/on_delete", "/fields/0/on_delete", "/fields/1/on_delete"]);
        let right = app.post("/types/", &body(json!([field("ref", json!([1]), "clear")]))).await;
        assert_eq!(right.json()["raw"]["fields"][0]["on_delete"], "clear", "{}", right.text);
    }

    async fn a_field_that_clears_decides_for_objects_that_the_caller_may_not_change(app) {
        let (rack, server) = racks_and_servers(app, "clear").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"hostname": "hidden", "rack": target})).await;
        let person = Person::with_rights(app, "mover", &["base.framework.object.*"]).await;
        set_acl(app, server, json!({"1": ["READ"]})).await;
        let gone = person.delete(app, &format!("/objects/{target}")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec![]), "{}", gone.text);
        assert_eq!(value_of(app, in_it, "rack").await, json!(null));
        // What only the request wants needs the permission.
        let target = app.create_object(rack, &json!({})).await;
        set_acl(app, server, json!({"1": ["CREATE", "READ"]})).await;
        app.create_object(server, &json!({"spare": target})).await;
        person.delete(app, &format!("/objects/{target}?on_references=clear")).await.error(403, "acl_denied");
        let gone = person.delete(app, &format!("/objects/{target}")).await;
        assert_eq!((gone.status.as_u16(), warnings(&gone)), (200, vec![]), "hidden objects are not counted");
    }

    async fn references_to_a_deleted_object_are_still_listed(app) {
        let (rack, server) = racks_and_servers(app, "keep").await;
        let target = app.create_object(rack, &json!({})).await;
        let in_it = app.create_object(server, &json!({"rack": target})).await;
        let path = format!("/objects/{target}/references");
        assert_eq!(app.delete(&format!("/objects/{target}")).await.status, 200);
        assert_eq!(app.get(&path).await.results("/public_id"), [json!(in_it)]);
        app.get(&format!("/objects/{}/references", in_it + 1)).await.error(404, "object_not_found");
        let person = Person::with_rights(app, "reader", &["base.framework.object.view"]).await;
        assert_eq!(person.get(app, &path).await.results("/public_id"), [json!(in_it)]);
        set_acl(app, rack, json!({"1": ["READ", "CREATE"]})).await;
        person.get(app, &path).await.error(404, "object_not_found");
    }
}
