//! What was read can be sent back, although a rule forbids it for new values.

use bson::{Bson, doc};
use inventory_service::domain::document::raw;
use inventory_service::store::collections::{OBJECTS, TYPES};
use inventory_service::store::{Change, Unit};
use serde_json::json;

use super::people::Person;
use crate::support::app::{TestApp, on_each_store, send};

/// Stores a document as another tool would.
async fn store(app: &TestApp, collection: &'static str, document: bson::Document) {
    let unit = Unit::of(Change::Insert { collection, document: raw(&document) });
    app.store.commit(unit).await.expect("stored");
}

on_each_store! {
    async fn an_object_whose_type_lost_a_field_can_be_sent_back(app) {
        let rack = app.create_type("rack", &[("units", "number"), ("city", "text")]).await;
        let id = app.create_object(rack, &json!({"units": 3, "city": "Oslo"})).await;
        let without = json!({"name": "rack", "author_id": 1, "fields": [{"type": "text", "name": "city", "label": "City"}]});
        assert_eq!(app.put(&format!("/types/{rack}"), &without).await.status, 202);
        let path = format!("/objects/{id}");
        let mut read = app.get(&format!("{path}/native")).await.json();
        let put = app.put(&path, &read).await;
        assert_eq!(put.status, 200, "{}", put.text);
        assert_eq!(put.json()["result"]["version"], "1.0.0", "nothing changed");
        // Another field may change, and the lost one stays; it may not.
        read["fields"] = json!([{"name": "units", "value": 3}, {"name": "city", "value": "Bergen"}]);
        let put = app.put(&path, &read).await;
        let expected = json!([{"name": "city", "value": "Bergen"}, {"name": "units", "value": 3}]);
        assert_eq!((put.status.as_u16(), &put.json()["result"]["fields"]), (200, &expected));
        read["fields"][0]["value"] = json!(4);
        let put = app.put(&path, &read).await;
        put.error(400, "validation_failed");
        assert_eq!(put.pointers(), ["/fields/0/name"]);
        let patch = app.patch(&path, &json!({"fields": {"units": 3, "city": "Oslo"}})).await;
        assert_eq!(patch.status, 202, "{}", patch.text);
    }

    async fn a_required_field_without_a_stored_value_may_stay_so(app) {
        let host = app.create_type("host", &[("name", "text")]).await;
        let fields = |required: &[&str]| {
            let field = |kind: &str, name: &str| json!({"type": kind, "name": name, "label": name, "required": required.contains(&name), "ref_types": [host]});
            json!({"name": "machine", "label": "Machine", "author_id": 1, "fields": [field("text", "purpose"), field("text", "note"), field("ref", "host")]})
        };
        let kind = app.created("/types/", &fields(&["host"])).await;
        let target = app.create_object(host, &json!({"name": "h"})).await;
        let id = app.create_object(kind, &json!({"purpose": "a", "note": "", "host": target})).await;
        assert_eq!(app.delete(&format!("/objects/{target}?on_references=clear")).await.status, 200);
        let mut stricter = fields(&["host", "note"]);
        stricter["enforce"] = json!("new");
        assert_eq!(app.put(&format!("/types/{kind}"), &stricter).await.status, 202);
        let path = format!("/objects/{id}");
        let read = app.get(&format!("{path}/native")).await.json();
        assert_eq!(app.put(&path, &read).await.status, 200);
        assert_eq!(app.patch(&path, &json!({"fields": {"purpose": "b"}})).await.status, 202);
        assert_eq!(app.patch(&path, &json!({"fields": {"host": null, "note": ""}})).await.status, 202);
        app.patch(&path, &json!({"fields": {"note": null}})).await.error(400, "validation_failed");
        let export = app.get(&format!("/export/objects?type_id={kind}")).await.text;
        let request = app.request(reqwest::Method::POST, &format!("/import/objects?type_id={kind}&dry_run=true"));
        let report = send(request.header("Content-Type", "text/csv").body(export)).await;
        assert_eq!(report.status, 200, "{}", report.text);
        // A value that is there must stay, and a new object needs one.
        let other = app.create_object(host, &json!({"name": "i"})).await;
        assert_eq!(app.patch(&path, &json!({"fields": {"host": other, "note": "n"}})).await.status, 202);
        for name in ["host", "note"] {
            let refused = app.patch(&path, &json!({"fields": {name: null}})).await;
            refused.error(400, "validation_failed");
        }
        app.post("/objects/", &json!({"type_id": kind, "author_id": 1, "fields": {"purpose": "c"}})).await.error(400, "validation_failed");
    }

    async fn an_object_of_another_tool_can_be_sent_back(app) {
        let rack = app.create_type("rack", &[("city", "text")]).await;
        let entry = |name: &str, value: Bson| Bson::from(doc! { "name": name, "value": value });
        let fields = vec![
            entry("city", Bson::Int64(7)), entry("city", "again".into()), entry("gone", Bson::Int64(5)),
            entry("deep", doc! { "a": [1_i64, { "b": 2_i64 }] }.into()),
        ];
        store(app, OBJECTS, doc! {
            "_id": "x", "public_id": 50_i64, "type_id": rack, "version": "by hand", "author_id": Bson::Null, "active": true,
            "fields": fields, "note": { "of": "a tool" },
        }).await;
        let read = app.get("/objects/50/native").await.json();
        let put = app.put("/objects/50", &read).await;
        assert_eq!(put.status, 200, "{}", put.text);
        // The repetition is gone, as after every change.
        let mut changed = app.get("/objects/50/native").await.json();
        changed["version"] = json!("by foot");
        let put = app.put("/objects/50", &changed).await;
        put.error(400, "validation_failed");
        assert_eq!(put.pointers(), ["/version"]);
    }

    async fn an_object_without_a_type_can_be_deleted_by_those_who_see_everything(app) {
        for (id, type_id) in [(50, Bson::from("rack")), (51, 4_711_i64.into()), (52, Bson::Null)] {
            store(app, OBJECTS, doc! { "_id": id, "public_id": i64::from(id), "type_id": type_id, "fields": [] }).await;
        }
        app.patch("/objects/50", &json!({"active": false})).await.error(400, "type_missing");
        let rights = ["base.framework.object.view", "base.framework.object.delete"];
        let person = Person::with_rights(app, "ada", &rights).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ"]}}});
        let hidden = app.created("/types/", &json!({"name": "vault", "author_id": 1, "acl": acl})).await;
        person.delete(app, "/objects/50").await.error(400, "type_missing");
        let reader = Person::with_rights(app, "eve", &rights[..1]).await;
        reader.delete(app, "/objects/50").await.error(403, "right_missing");
        assert_eq!(app.delete("/objects/50").await.status, 200);
        assert_eq!(app.patch(&format!("/types/{hidden}"), &json!({"acl": {"activated": false}})).await.status, 202);
        let deleted = person.delete(app, "/objects/51,52").await;
        assert_eq!(deleted.status, 200, "{}", deleted.text);
        assert_eq!(app.get("/objects/").await.json()["total"], 0);
    }

    async fn a_type_whose_time_another_tool_wrote_as_a_text_takes_objects(app) {
        store(app, TYPES, doc! {
            "_id": "t", "public_id": 60_i64, "name": "rack", "label": "Rack", "author_id": 1_i64, "active": true,
            "fields": [{ "type": "text", "name": "city", "label": "City" }], "version": "1.0.0", "last_edit_time": "yesterday",
            "render_meta": { "icon": "", "sections": [], "externals": [], "summary": { "fields": ["city"] } },
            "acl": { "activated": false, "groups": { "includes": {} } },
        }).await;
        let id = app.create_object(60, &json!({"city": "Bergen"})).await;
        let patch = app.patch(&format!("/objects/{id}"), &json!({"fields": {"city": "Oslo"}})).await;
        assert_eq!(patch.status, 202, "{}", patch.text);
    }

    async fn a_type_of_another_tool_can_be_sent_back(app) {
        let checkbox = doc! { "type": "checkbox", "name": "on", "label": "On", "value": true };
        let number = doc! { "type": "number", "name": "units", "label": "Units", "value": 3_i64, "default": "" };
        let section = doc! { "type": "section", "name": "s", "label": "S", "fields": ["on", "lost"], "hidden": true };
        store(app, TYPES, doc! {
            "_id": "x", "public_id": 50_i64, "name": "rack", "label": "Rack", "author_id": 1_i64, "active": true,
            "fields": [number, checkbox], "version": "1.0.0",
            "render_meta": { "icon": "", "sections": [section], "externals": [], "summary": { "fields": [] }, "own": 1_i64 },
            "acl": { "activated": false, "groups": { "includes": {} } },
        }).await;
        let read = app.get("/types/50").await.json()["result"].clone();
        let put = app.put("/types/50", &read).await;
        assert_eq!(put.status, 202, "{}", put.text);
        for member in ["fields", "render_meta"] {
            assert_eq!(put.json()["result"][member], read[member], "{member}");
        }
        let patch = app.patch("/types/50", &json!({"label": "Racks"})).await;
        assert_eq!(patch.status, 202, "{}", patch.text);
        // The rule holds for what changes, at any position of the entry.
        let mut changed = read.clone();
        changed["fields"] = json!([read["fields"][1]]);
        changed["render_meta"]["sections"][0]["fields"] = json!(["on"]);
        assert_eq!(app.put("/types/50", &changed).await.status, 202);
        let mut other = changed.clone();
        other["fields"][0]["value"] = json!(false);
        changed["render_meta"]["sections"][0]["fields"] = json!(["on", "other"]);
        for (body, place) in [(other, "/fields/0/value"), (changed, "/render_meta/sections/0/fields/1")] {
            let put = app.put("/types/50", &body).await;
            put.error(400, "validation_failed");
            assert_eq!(put.pointers(), [place]);
        }
    }

    async fn a_default_of_another_tool_can_be_sent_back(app) {
        let options = vec![Bson::from(doc! { "name": "x", "label": "X" })];
        let select = doc! { "type": "select", "name": "size", "label": "Size", "value": "q", "options": options };
        store(app, TYPES, doc! {
            "_id": "x", "public_id": 50_i64, "name": "rack", "label": "Rack", "author_id": 1_i64, "active": true,
            "fields": [select], "version": "1.0.0",
        }).await;
        let mut read = app.get("/types/50").await.json()["result"].clone();
        read["label"] = json!("Racks");
        // At any position, and whatever else changes.
        let fields = read["fields"].as_array_mut().expect("fields");
        fields[0]["options"].as_array_mut().expect("options").push(json!({"name": "y", "label": "Y"}));
        fields.insert(0, json!({"type": "text", "name": "city", "label": "City"}));
        let put = app.put("/types/50", &read).await;
        assert_eq!(put.status, 202, "{}", put.text);
        read["fields"][1]["value"] = json!("r");
        assert_eq!(app.put("/types/50", &read).await.pointers(), ["/fields/1/value"]);
    }

    async fn a_section_keeps_no_field_that_its_type_loses_now(app) {
        let rack = app.create_type("rack", &[("units", "number"), ("city", "text")]).await;
        let path = format!("/types/{rack}");
        let section = json!({"type": "section", "name": "s", "label": "S", "fields": ["units"]});
        assert_eq!(app.patch(&path, &json!({"render_meta": {"sections": [section]}})).await.status, 202);
        let mut read = app.get(&path).await.json()["result"].clone();
        read["fields"].as_array_mut().expect("fields").remove(0);
        let put = app.put(&path, &read).await;
        let told = put.error(400, "validation_failed")["errors"][0]["message"].clone();
        assert_eq!(told, "the type has no field units; fields is the whole list of its fields");
        assert_eq!(put.pointers(), ["/render_meta/sections/0/fields/0"]);
        let only = app.patch(&path, &json!({"fields": [{"type": "text", "name": "new", "label": "New"}]})).await;
        assert_eq!(only.error(400, "validation_failed")["errors"][0]["message"], told);
    }
}
