//! Changes of types together with their objects, and rules for new values alone: docs/api.md, Migrations.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Map, Value, json};

use super::people::Person;
use crate::differential::number;
use crate::differential::random::Random;
use crate::support::app::{Answer, TestApp, on_each_store, send};

pub(super) fn field(kind: &str, name: &str) -> Value {
    json!({"type": kind, "name": name, "label": name})
}

pub(super) fn with(mut field: Value, member: &str, value: Value) -> Value {
    field[member] = value;
    field
}

/// A patch of a type: its fields, the steps, and other members.
async fn change(app: &TestApp, id: i64, fields: Value, steps: Value, beside: Value) -> Answer {
    app.patch(&format!("/types/{id}"), &body(fields, steps, beside)).await
}

fn body(fields: Value, steps: Value, beside: Value) -> Value {
    let mut body = json!({"fields": fields, "migration": steps});
    for (name, value) in beside.as_object().expect("an object") {
        body[name] = value.clone();
    }
    body
}

/// The values of an object by their names.
async fn values(app: &TestApp, id: i64) -> Value {
    of(&app.get(&format!("/objects/{id}/native")).await.json())
}

pub(crate) fn of(object: &Value) -> Value {
    let fields = object["fields"].as_array().expect("fields").iter();
    fields
        .map(|entry| (entry["name"].as_str().expect("a name").to_owned(), entry["value"].clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// The newest entries of the log.
async fn newest(app: &TestApp, count: usize) -> Vec<Value> {
    app.get(&format!("/logs/?sort=-sequence&limit={count}")).await.json()["results"].as_array().expect("a list").clone()
}

on_each_store! {
    async fn objects_change_together_with_their_type(app) {
        let fields = json!([field("text", "host"), field("text", "size"), field("text", "old"),
            with(field("select", "state"), "options", json!([{"name": "up", "label": "Up"}, {"name": "down", "label": "Down"}]))]);
        let id = app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": fields})).await;
        let one = app.create_object(id, &json!({"host": "web-1", "size": "12", "old": "x", "state": "up"})).await;
        let two = app.create_object(id, &json!({"host": "web-2", "size": null, "old": null, "state": "down"})).await;
        let before = newest(app, 1).await[0]["sequence"].as_i64().expect("a sequence");
        let rendered = app.get(&format!("/objects/{one}")).await.json()["type_information"]["fields"].clone();
        assert!(rendered.is_array());
        let new = json!([field("text", "hostname"), field("number", "size"), with(field("checkbox", "watched"), "required", json!(true)),
            with(field("select", "state"), "options", json!([{"name": "on", "label": "On"}, {"name": "off", "label": "Off"}]))]);
        let steps = json!([
            {"rename": {"from": "host", "to": "hostname"}}, {"convert": {"field": "size", "to": "number"}},
            {"set_default": {"field": "watched", "value": true}}, {"map_options": {"field": "state", "map": {"up": "on", "down": null}}},
            {"drop": {"field": "old"}},
        ]);
        // The plan says what would be.
        let planned = app.patch(&format!("/types/{id}?dry_run=true"), &body(new.clone(), steps.clone(), json!({}))).await.json()["result"].clone();
        assert_eq!(planned["migration"]["objects"], 2, "{planned}");
        let counts: Vec<&Value> = planned["migration"]["steps"].as_array().expect("steps").iter().map(|step| &step["objects"]).collect();
        assert_eq!(counts, [2, 1, 2, 2, 2], "{planned}");
        assert_eq!(planned["objects"], json!({"total": 2, "unfit": 0}), "{planned}");
        let changed = change(app, id, new, steps, json!({"expected_count": 2})).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        assert_eq!(changed.json()["result"].get("migration"), None);
        assert_eq!(changed.header("inventory-warning"), "");
        assert_eq!(values(app, one).await, json!({"hostname": "web-1", "size": 12, "watched": true, "state": "on"}));
        assert_eq!(values(app, two).await, json!({"hostname": "web-2", "size": null, "watched": true, "state": null}));
        assert_eq!(app.get(&format!("/objects/clean/{id}")).await.json()["total"], 0);
        // Filters, and the past.
        let found = app.get("/objects/?filter={\"f.hostname\":\"web-1\",\"f.size\":{\"$gt\":3}}").await.results("/public_id");
        assert_eq!(found, [json!(one)]);
        let then = app.get(&format!("/objects/{one}?at={before}")).await.json()["type_information"]["fields"].clone();
        assert_eq!(then, rendered);
        // One entry each, with the entry of the type as the cause.
        let entries = newest(app, 3).await;
        let of_type = &entries[2];
        assert_eq!((&of_type["resource"], &of_type["action"], &of_type["cause"]), (&json!("types"), &json!("MIGRATE"), &Value::Null));
        for (entry, object) in entries.iter().zip([two, one]) {
            let said = (&entry["resource"], &entry["public_id"], &entry["action"], &entry["cause"]);
            assert_eq!(said, (&json!("objects"), &json!(object), &json!("MIGRATE"), &of_type["sequence"]));
        }
        let caused = app.get(&format!("/logs/?filter={{\"cause\":{}}}", of_type["sequence"])).await;
        assert_eq!(caused.json()["total"], 2);
        let noted = app.get(&format!("/types/{id}/migration")).await.json()["result"].clone();
        assert_eq!((&noted["state"], &noted["objects"], &noted["done"]), (&json!("done"), &json!(2), &json!(2)), "{noted}");
        assert_eq!(noted["steps"][0], json!({"step": "rename", "field": "host"}));
    }

    async fn a_step_that_cannot_be_made_changes_nothing(app) {
        let id = app.create_type("server", &[("size", "text")]).await;
        let good = app.create_object(id, &json!({"size": "12"})).await;
        let bad = app.create_object(id, &json!({"size": "big"})).await;
        let new = || json!([field("number", "size")]);
        let convert = |on_error: &str| json!([{"convert": {"field": "size", "to": "number", "on_error": on_error}}]);
        let planned = app.patch(&format!("/types/{id}?dry_run=true"), &body(new(), convert("refuse"), json!({}))).await.json()["result"].clone();
        let step = &planned["migration"]["steps"][0];
        assert_eq!((&step["objects"], &step["refused"]), (&json!(1), &json!(1)), "{planned}");
        assert_eq!(step["first"][0], json!({"public_id": bad, "value": "big", "reason": "must be a number or null"}));
        let refused = change(app, id, new(), convert("refuse"), json!({})).await;
        refused.error(400, "migration_refused");
        let place = refused.json()["errors"][0].clone();
        assert_eq!(place["pointer"], "/migration/0/convert");
        assert!(place["message"].as_str().is_some_and(|it| it.contains(&format!("{bad}"))), "{place}");
        change(app, id, new(), convert("null"), json!({"expected_count": 3})).await.error(412, "precondition_failed");
        assert_eq!((values(app, good).await, values(app, bad).await), (json!({"size": "12"}), json!({"size": "big"})));
        assert_eq!(app.get(&format!("/types/{id}/history")).await.json()["total"], 1);
        app.get(&format!("/types/{id}/migration")).await.error(404, "migration_not_found");
        assert_eq!(change(app, id, new(), convert("keep"), json!({"expected_count": 1})).await.status, 202);
        assert_eq!((values(app, good).await, values(app, bad).await), (json!({"size": 12}), json!({"size": "big"})));
    }

    async fn steps_that_do_not_fit_are_refused_with_their_places(app) {
        let id = app.create_type("server", &[("host", "text")]).await;
        let new = || json!([field("text", "hostname")]);
        let places = async |steps: Value| -> Vec<Value> {
            let refused = change(app, id, new(), steps, json!({})).await;
            refused.error(400, "validation_failed");
            refused.json()["errors"].as_array().expect("places").iter().map(|it| it["pointer"].clone()).collect()
        };
        assert_eq!(places(json!([{"rename": {"from": "hots", "to": "hostname"}}])).await, ["/migration/0/rename/from"]);
        assert_eq!(places(json!([{"rename": {"from": "host", "to": "name"}}, {}])).await, ["/migration/1"]);
        assert_eq!(places(json!([{"rename": {"from": "host", "to": "name"}}])).await, ["/migration/0/rename/to"]);
        assert_eq!(places(json!([{"convert": {"field": "hostname", "to": "integer"}}])).await, ["/migration/0/convert/to"]);
        assert_eq!(places(json!("rename")).await, ["/migration"]);
        let misspelt = app.patch(&format!("/types/{id}"), &json!({"migrations": []})).await;
        misspelt.error(400, "validation_failed");
        app.patch(&format!("/types/{id}"), &json!({"enforce": "all"})).await.error(400, "validation_failed");
        app.patch(&format!("/types/{id}"), &json!({"expected_count": 1})).await.error(412, "precondition_failed");
        app.get("/types/99/migration").await.error(404, "type_not_found");
        let put = app.get(&format!("/types/{id}")).await.json()["result"].clone();
        let mut put = with(put, "migration", json!([{"rename": {"from": "host", "to": "hostname"}}]));
        put["fields"] = new();
        assert_eq!(app.put(&format!("/types/{id}"), &put).await.status, 202);
    }

    async fn a_new_rule_needs_objects_that_obey_or_is_for_new_values(app) {
        let id = app.create_type("server", &[("host", "text"), ("size", "number")]).await;
        let one = app.create_object(id, &json!({"host": "WEB", "size": 1})).await;
        let two = app.create_object(id, &json!({"host": "web", "size": null})).await;
        let path = format!("/types/{id}");
        let new = |required: bool, regex: &str| {
            let size = with(field("number", "size"), "required", json!(required));
            json!([if regex.is_empty() { field("text", "host") } else { with(field("text", "host"), "regex", json!(regex)) }, size])
        };
        let refused = app.patch(&path, &json!({"fields": new(true, "[a-z]+")})).await;
        refused.error(400, "values_break_rules");
        let errors = refused.json()["errors"].clone();
        let said: BTreeSet<(&str, bool)> = errors.as_array().expect("places").iter()
            .map(|it| (it["pointer"].as_str().expect("a place"), it["message"].as_str().is_some_and(|text| text.contains("enforce"))))
            .collect();
        assert_eq!(said, BTreeSet::from([("/fields/0/regex", true), ("/fields/1/required", true)]), "{errors}");
        assert!(errors[0]["message"].as_str().is_some_and(|text| text.ends_with(&format!(": {one}"))), "{errors}");
        assert_eq!(app.get(&format!("{path}/history")).await.json()["total"], 1);
        // A new field that needs a value, too.
        let added = json!([field("text", "host"), field("number", "size"), with(field("text", "owner"), "required", json!(true))]);
        app.patch(&path, &json!({"fields": added})).await.error(400, "values_break_rules");
        let default = json!([field("text", "host"), field("number", "size"), with(with(field("text", "owner"), "required", json!(true)), "value", json!("me"))]);
        assert_eq!(app.patch(&path, &json!({"fields": default})).await.status, 202);
        assert_eq!(app.patch(&path, &json!({"fields": new(false, "")})).await.status, 202);
        // For new values alone.
        let eased = app.patch(&path, &json!({"fields": new(true, "[a-z]+"), "enforce": "new"})).await;
        assert_eq!(eased.status, 202, "{}", eased.text);
        assert!(eased.header("inventory-warning").contains("do not fit"), "{:?}", eased.headers);
        let unclean = app.get(&format!("/objects/clean/{id}")).await.results("/public_id");
        assert_eq!(unclean, [json!(one), json!(two)]);
        app.post("/objects/", &json!({"type_id": id, "author_id": 1, "fields": {"host": "WEB", "size": 1}})).await.error(400, "validation_failed");
        // The same rule again is no new one.
        assert_eq!(app.patch(&path, &json!({"fields": new(true, "[a-z]+"), "label": "Servers"})).await.status, 202);
        // Steps can make objects obey.
        assert_eq!(app.patch(&path, &json!({"fields": new(false, "")})).await.status, 202);
        let steps = json!([{"set_default": {"field": "size", "value": 0, "where": "null"}}]);
        let made = change(app, id, new(true, ""), steps, json!({"expected_count": 1})).await;
        assert_eq!(made.status, 202, "{}", made.text);
        assert_eq!(values(app, two).await["size"], 0);
    }

    async fn changing_objects_with_a_type_needs_what_changing_objects_needs(app) {
        let fields = json!([field("password", "pin"), field("text", "note")]);
        let id = app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields})).await;
        let object = app.create_object(id, &json!({"pin": "secret-pin", "note": "a"})).await;
        let new = || json!([field("password", "code"), field("text", "note")]);
        let steps = || json!([{"rename": {"from": "pin", "to": "code"}}]);
        let ask = async |person: &Person, query: &str, body: &Value| person.send(app, Method::PATCH, &format!("/types/{id}{query}"), body).await;
        let editor = Person::with_rights(app, "editor", &["base.framework.type.*", "base.framework.object.view"]).await;
        ask(&editor, "", &body(new(), steps(), json!({}))).await.error(403, "right_missing");
        let full = Person::with_rights(app, "keeper", &["base.framework.type.*", "base.framework.object.*"]).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "UPDATE", "CREATE"], full.group_id.to_string(): ["READ"]}}});
        assert_eq!(app.patch(&format!("/types/{id}"), &json!({"acl": acl})).await.status, 202);
        ask(&full, "", &body(new(), steps(), json!({}))).await.error(403, "acl_denied");
        // Who may not read the objects learns nothing of them.
        let planned = ask(&editor, "?dry_run=true", &body(new(), steps(), json!({}))).await.json()["result"].clone();
        assert_eq!((&planned["migration"], &planned["objects"]), (&Value::Null, &Value::Null), "{planned}");
        let strict = json!({"fields": [field("password", "pin"), with(field("text", "note"), "regex", json!("a"))]});
        let lax = json!({"fields": [field("password", "pin"), with(field("text", "note"), "regex", json!("b"))]});
        let (one, other) = (ask(&editor, "", &strict).await, ask(&editor, "", &lax).await);
        one.error(400, "values_break_rules");
        assert_eq!(one.json()["errors"], other.json()["errors"]);
        // No password shows.
        let wrong = json!([{"rename": {"from": "pin", "to": "code"}}, {"convert": {"field": "code", "to": "number"}}]);
        let numbers = || json!([field("number", "code"), field("text", "note")]);
        let planned = app.patch(&format!("/types/{id}?dry_run=true"), &body(numbers(), wrong.clone(), json!({}))).await;
        assert_eq!(planned.json()["result"]["migration"]["steps"][1]["refused"], 1, "{}", planned.text);
        assert!(!planned.text.contains("secret-pin"), "{}", planned.text);
        let refused = change(app, id, numbers(), wrong, json!({})).await;
        refused.error(400, "migration_refused");
        assert!(!refused.text.contains("secret-pin"), "{}", refused.text);
        let noted = change(app, id, new(), steps(), json!({})).await;
        assert_eq!(noted.status, 202, "{}", noted.text);
        assert_eq!(values(app, object).await, json!({"code": "secret-pin", "note": "a"}));
        assert!(!app.get("/logs/?limit=0").await.text.contains("secret-pin"));
        let seen = editor.get(app, &format!("/types/{id}/migration")).await.json()["result"].clone();
        assert_eq!((&seen["state"], &seen["objects"], &seen["done"]), (&json!("done"), &Value::Null, &Value::Null));
        app.patch(&format!("/types/{id}"), &json!({"active": false})).await;
        change(app, id, numbers(), json!([{"drop": {"field": "note"}}]), json!({})).await.error(403, "type_inactive");
    }

    async fn unique_values_move_with_their_field(app) {
        let fields = json!([with(field("text", "host"), "unique", json!(true))]);
        let id = app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": fields})).await;
        let one = app.create_object(id, &json!({"host": "1"})).await;
        app.create_object(id, &json!({"host": "2"})).await;
        let new = || json!([with(field("number", "number"), "unique", json!(true))]);
        let steps = json!([{"rename": {"from": "host", "to": "number"}}, {"convert": {"field": "number", "to": "number"}}]);
        let changed = change(app, id, new(), steps, json!({})).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        let taken = app.post("/objects/", &json!({"type_id": id, "author_id": 1, "fields": {"number": 1}})).await;
        taken.error(409, "object_value_taken");
        let by_value = app.put(&format!("/objects/by/{id}/number/1"), &json!({"author_id": 1, "fields": {}})).await;
        assert_eq!((by_value.status.as_u16(), &by_value.json()["result"]["public_id"]), (200, &json!(one)));
        app.create_object(id, &json!({"number": 3})).await;
        // Steps that would give two objects one value change nothing.
        let same = json!([with(field("text", "number"), "unique", json!(true))]);
        let steps = json!([{"convert": {"field": "number", "to": "text"}}, {"drop": {"field": "number"}}, {"set_default": {"field": "number", "value": "x"}}]);
        change(app, id, same, steps, json!({})).await.error(400, "values_not_unique");
        assert_eq!(values(app, one).await, json!({"number": 1}));
    }

    async fn references_are_made_of_texts_if_they_lead_somewhere(app) {
        let racks = app.create_type("rack", &[]).await;
        let rack = app.create_object(racks, &json!({})).await;
        let id = app.create_type("server", &[("rack", "text")]).await;
        let one = app.create_object(id, &json!({"rack": rack.to_string()})).await;
        let two = app.create_object(id, &json!({"rack": one.to_string()})).await;
        let three = app.create_object(id, &json!({"rack": "9999"})).await;
        let new = || json!([with(field("ref", "rack"), "ref_types", json!([racks]))]);
        let convert = |on_error: &str| json!([{"convert": {"field": "rack", "to": "ref", "on_error": on_error}}]);
        let planned = app.patch(&format!("/types/{id}?dry_run=true"), &body(new(), convert("refuse"), json!({}))).await.json()["result"].clone();
        let first = &planned["migration"]["steps"][0]["first"];
        assert_eq!(first[0]["reason"], format!("object {one} is of none of the types [{racks}]"), "{planned}");
        assert_eq!(first[1]["reason"], "object 9999 does not exist", "{planned}");
        assert_eq!(change(app, id, new(), convert("null"), json!({})).await.status, 202);
        for (object, value) in [(one, json!(rack)), (two, Value::Null), (three, Value::Null)] {
            assert_eq!(values(app, object).await["rack"], value);
        }
        let referring = app.get(&format!("/objects/{rack}/references")).await.results("/public_id");
        assert_eq!(referring, [json!(one)]);
    }

    async fn a_revert_of_the_type_takes_its_objects_back(app) {
        let id = app.create_type("server", &[("host", "text"), ("size", "text")]).await;
        let mut objects = Vec::new();
        for number in 0..4 {
            objects.push(app.create_object(id, &json!({"host": format!("web-{number}"), "size": number.to_string()})).await);
        }
        let before = newest(app, 1).await[0]["sequence"].as_i64().expect("a sequence");
        let new = || json!([field("text", "hostname"), field("number", "size")]);
        let steps = || json!([{"rename": {"from": "host", "to": "hostname"}}, {"convert": {"field": "size", "to": "number"}}]);
        let path = format!("/types/{id}");
        let changed = send(app.request(Method::PATCH, &path).header("X-Request-ID", "step-1").json(&body(new(), steps(), json!({})))).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        let revert = async |to: i64| app.post(&format!("{path}/revert"), &json!({"to": to})).await;
        let middle = newest(app, 1).await[0]["sequence"].as_i64().expect("a sequence");
        // What was deleted since does not come back, and does not stand in the way.
        assert_eq!(app.delete(&format!("/objects/{}", objects[3])).await.status, 200);
        let back = revert(before).await;
        assert_eq!(back.status, 202, "{}", back.text);
        for (number, object) in objects.iter().take(3).enumerate() {
            assert_eq!(values(app, *object).await, json!({"host": format!("web-{number}"), "size": number.to_string()}));
        }
        let entries = newest(app, 4).await;
        assert!(entries[..3].iter().all(|entry| entry["action"] == "REVERT" && entry["cause"] == entries[3]["sequence"]), "{entries:?}");
        assert_eq!(app.get(&format!("/objects/clean/{id}")).await.json()["total"], 0);
        // A revert of the revert brings the changes again.
        let again = revert(middle).await;
        assert_eq!(again.status, 202, "{}", again.text);
        assert_eq!(values(app, objects[1]).await, json!({"hostname": "web-1", "size": 1}));
        // Another change of an object since stands in the way of the first revert.
        assert_eq!(app.patch(&format!("/objects/{}", objects[0]), &json!({"fields": {"size": 77}})).await.status, 202);
        let refused = revert(before).await;
        refused.error(409, "changed_since");
        assert_eq!(refused.json()["conflicts"][0]["public_id"], objects[0], "{}", refused.text);
        assert_eq!(values(app, objects[1]).await, json!({"hostname": "web-1", "size": 1}));
    }

    async fn an_undo_of_the_request_takes_type_and_objects_back(app) {
        let id = app.create_type("server", &[("host", "text")]).await;
        let object = app.create_object(id, &json!({"host": "web-1"})).await;
        let asked = body(json!([field("text", "hostname")]), json!([{"rename": {"from": "host", "to": "hostname"}}]), json!({}));
        let changed = send(app.request(Method::PATCH, &format!("/types/{id}")).header("X-Request-ID", "rename-1").json(&asked)).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        let undone = app.post("/logs/undo", &json!({"request_id": "rename-1"})).await;
        assert_eq!((undone.status.as_u16(), &undone.json()["reverted"]), (200, &json!(2)), "{}", undone.text);
        assert_eq!(values(app, object).await, json!({"host": "web-1"}));
        assert_eq!(app.get(&format!("/objects/clean/{id}")).await.json()["total"], 0);
    }

    async fn an_object_that_was_deleted_before_comes_back_with_its_old_fields(app) {
        let id = app.create_type("server", &[("host", "text")]).await;
        let object = app.create_object(id, &json!({"host": "web-1"})).await;
        app.create_object(id, &json!({"host": "web-2"})).await;
        assert_eq!(app.delete(&format!("/objects/{object}")).await.status, 200);
        let fields = json!([with(field("text", "hostname"), "required", json!(true))]);
        let changed = change(app, id, fields, json!([{"rename": {"from": "host", "to": "hostname"}}]), json!({})).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        let restored = app.post(&format!("/objects/{object}/restore"), &json!({})).await;
        assert_eq!(restored.status, 200, "{}", restored.text);
        assert_eq!(values(app, object).await, json!({"hostname": null, "host": "web-1"}));
        assert_eq!(app.get(&format!("/objects/clean/{id}")).await.results("/public_id"), [json!(object)]);
    }

    async fn writers_meanwhile_leave_no_object_that_its_type_does_not_explain(app) {
        let id = app.create_type("server", &[("a", "text"), ("n", "number")]).await;
        let mut objects = Vec::new();
        for number in 0..20 {
            objects.push(app.create_object(id, &json!({"a": format!("v{number}"), "n": 0})).await);
        }
        let (objects, path) = (&objects, &format!("/types/{id}"));
        let turn = async {
            for round in 0..6 {
                let (from, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
                let steps = json!([{"rename": {"from": from, "to": to}}]);
                loop {
                    let changed = app.patch(path, &body(json!([field("text", to), field("number", "n")]), steps.clone(), json!({}))).await;
                    match changed.status.as_u16() {
                        202 => break,
                        503 => {}
                        _ => panic!("{}", changed.text),
                    }
                }
            }
        };
        let write = async |start: usize| {
            for step in 0..40 {
                let name = if step % 2 == 0 { "a" } else { "b" };
                let object = objects[(start * 7 + step) % objects.len()];
                let said = app.patch(&format!("/objects/{object}"), &json!({"fields": {name: format!("w{step}"), "n": step}})).await;
                assert!([202, 400, 503].contains(&said.status.as_u16()), "{}", said.text);
                let made = app.post("/objects/", &json!({"type_id": id, "author_id": 1, "fields": {name: "new", "n": 1}})).await;
                assert!([200, 400, 503].contains(&made.status.as_u16()), "{}", made.text);
            }
        };
        tokio::join!(turn, write(0), write(1), write(2));
        let all = app.get(&format!("/objects/?limit=0&filter={{\"type_id\":{id}}}")).await.json()["results"].clone();
        for object in all.as_array().expect("objects") {
            let names: Vec<String> = of(object).as_object().expect("values").keys().cloned().collect();
            assert_eq!(names, ["a", "n"], "{object}");
        }
        assert_eq!(app.get(&format!("/objects/clean/{id}")).await.json()["total"], 0);
    }

    async fn plan_and_outcome_agree_for_types_and_changes_by_chance(app) {
        let rounds = number("INVENTORY_MIGRATION_ROUNDS").unwrap_or(12);
        let seed = number("INVENTORY_MIGRATION_SEED").unwrap_or(0x5eed_0044);
        let mut random = Random::new(seed, 0);
        for round in 0..rounds {
            let told = one_round(app, &mut random, round).await;
            assert!(told.is_empty(), "seed {seed}, round {round}: {told}");
        }
    }
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn any_fields(random: &mut Random) -> Vec<Value> {
    let mut fields = Vec::new();
    for name in NAMES {
        if random.below(4) == 0 {
            continue;
        }
        let kind = *random.pick(&["text", "number", "checkbox", "date", "select", "json", "ip", "refs"]);
        let mut made = field(kind, name);
        if kind == "select" {
            made["options"] = json!([{"name": "x", "label": "x"}, {"name": "1", "label": "1"}]);
        }
        if random.below(5) == 0 {
            made["required"] = true.into();
        }
        if kind == "text" && random.below(4) == 0 {
            made["regex"] = (*random.pick(&["[a-z]+", "[0-9x]*"])).into();
        }
        fields.push(made);
    }
    fields
}

fn any_steps(random: &mut Random, new: &[Value]) -> Vec<Value> {
    let mut steps = Vec::new();
    for _ in 0..=random.below(3) {
        let name = *random.pick(&NAMES);
        let kind = new.iter().find(|field| field["name"] == name).map_or(json!("text"), |field| field["type"].clone());
        steps.push(match random.below(6) {
            0 => json!({"rename": {"from": name, "to": random.pick(&NAMES)}}),
            1 | 2 => json!({"convert": {"field": name, "to": kind, "on_error": random.pick(&["refuse", "null", "keep"])}}),
            3 => json!({"set_default": {"field": name, "value": random.pick(&[json!("x"), json!(1), json!(true)]), "where": random.pick(&["missing", "null"])}}),
            4 => json!({"map_options": {"field": name, "map": {"x": "1", "y": null}}}),
            _ => json!({"drop": {"field": name}}),
        });
    }
    steps
}

/// A type, its objects, and one change of both. Says what is wrong; nothing if all is as it should be.
async fn one_round(app: &TestApp, random: &mut Random, round: u64) -> String {
    let free: Vec<Value> = NAMES.iter().map(|name| field("json", name)).collect();
    let id = app.created("/types/", &json!({"name": format!("thing-{round}"), "author_id": 1, "fields": free})).await;
    let values = [
        json!(null),
        json!("x"),
        json!("y"),
        json!("1"),
        json!("2026-01-31"),
        json!(1),
        json!(2.5),
        json!(true),
        json!("10.0.0.1"),
        json!(["x"]),
    ];
    for _ in 0..6 {
        let fields: Map<String, Value> =
            NAMES.iter().map(|name| ((*name).to_owned(), random.pick(&values).clone())).collect();
        app.create_object(id, &fields.into()).await;
    }
    // A first change leaves values that the type does not explain.
    let first = json!({"fields": any_fields(random), "enforce": "new"});
    assert_eq!(app.patch(&format!("/types/{id}"), &first).await.status, 202, "{first}");
    let list = format!("/objects/?limit=0&sort=public_id&filter={{\"type_id\":{id}}}");
    let stored = app.get(&list).await.json()["results"].clone();
    let rendered = app.get(&format!("{list}&view=render")).await.results("/type_information/fields");
    let moment = newest(app, 1).await[0]["sequence"].as_i64().expect("a sequence");
    let new = any_fields(random);
    let mut asked = json!({"fields": new, "migration": any_steps(random, &new)});
    if random.below(2) == 0 {
        asked["enforce"] = "new".into();
    }
    let path = format!("/types/{id}");
    let told = format!("{asked} on {stored}");
    let planned = app.patch(&format!("{path}?dry_run=true"), &asked).await;
    let changed = app.patch(&path, &asked).await;
    if planned.status != 200 {
        return if changed.status == planned.status {
            String::new()
        } else {
            format!("{told}: {} but {}", planned.text, changed.text)
        };
    }
    let plan = planned.json()["result"].clone();
    let refused = plan["migration"]["steps"].as_array().expect("steps").iter().any(|step| step["refused"] != 0);
    let after = app.get(&list).await.json()["results"].clone();
    if changed.status != 202 {
        let code = changed.json()["code"].clone();
        let right = if refused {
            code == "migration_refused"
        } else {
            code == "values_break_rules" && asked.get("enforce").is_none()
        };
        return if right && after == stored { String::new() } else { format!("{told}: {plan}, but {}", changed.text) };
    }
    let (old, new) = (stored.as_array().expect("objects"), after.as_array().expect("objects"));
    let differ = old.iter().zip(new).filter(|(old, new)| old != new).count();
    if refused || plan["migration"]["objects"] != json!(differ) {
        return format!("{told}: {differ} changed, {plan}");
    }
    // The plan of no change counts what is left.
    let left = app.patch(&format!("{path}?dry_run=true"), &json!({})).await.json()["result"].clone();
    if left["objects"] != plan["objects"] {
        return format!("{told}: {plan} but {left}");
    }
    let then = app.get(&format!("{list}&view=render&at={moment}")).await.results("/type_information/fields");
    let now = app.get(&format!("{list}&at={moment}")).await.json()["results"].clone();
    if then != rendered || now != stored {
        return format!("{told}: the past has changed: {then:?}, {rendered:?}");
    }
    // And back.
    let back = app.post(&format!("{path}/revert"), &json!({"to": moment})).await;
    let again = app.get(&list).await.json()["results"].clone();
    let same = old.iter().zip(again.as_array().expect("objects")).all(|(one, other)| of(one) == of(other));
    if back.status != 202 || !same {
        return format!("{told}: {} {again}", back.text);
    }
    String::new()
}
