//! Screens that change: new objects, edits, deletions and the way back.

use serde_json::{Value, json};

use super::browser::Browser;
use crate::support::app::{TestApp, on_each_store};

/// Racks and servers, with a field of each kind.
async fn types(app: &TestApp) -> (i64, i64) {
    let rack_fields = json!([{"type": "text", "name": "name", "label": "Rack name"}]);
    let racks = json!({"name": "rack", "label": "Racks", "author_id": 1, "fields": rack_fields,
        "render_meta": {"summary": {"fields": ["name"]}}});
    let racks = app.created("/types/", &racks).await;
    let options = json!([{"name": "on", "label": "In service"}, {"name": "off", "label": "Switched off"}]);
    let fields = json!([
        {"type": "text", "name": "hostname", "label": "Host name", "required": true, "regex": "[a-z0-9.-]*"},
        {"type": "textarea", "name": "notes", "label": "Notes"},
        {"type": "number", "name": "units", "label": "Units"},
        {"type": "select", "name": "state", "label": "State", "options": options},
        {"type": "radio", "name": "mode", "label": "Mode", "options": options},
        {"type": "select", "name": "tags", "label": "Tags", "options": options, "multiple": true},
        {"type": "checkbox", "name": "spare", "label": "Spare"},
        {"type": "date", "name": "bought", "label": "Bought on"},
        {"type": "ref", "name": "rack", "label": "In rack", "ref_types": [racks]},
        {"type": "refs", "name": "racks", "label": "Other racks", "ref_types": [racks]},
        {"type": "ip", "name": "ip", "label": "Address"},
        {"type": "password", "name": "key", "label": "Key"},
        {"type": "text", "name": "default", "label": "Default", "value": "given"},
    ]);
    let servers = json!({"name": "server", "label": "Servers", "author_id": 1, "fields": fields,
        "render_meta": {"summary": {"fields": ["hostname"]}}});
    (app.created("/types/", &servers).await, racks)
}

/// The stored values of an object, by name.
async fn stored(app: &TestApp, id: i64) -> Value {
    let object = app.get(&format!("/objects/{id}/native")).await.json();
    let fields = object["fields"].as_array().cloned().unwrap_or_default();
    fields.iter().map(|field| (field["name"].as_str().expect("a name").to_owned(), field["value"].clone())).collect()
}

on_each_store! {
    async fn a_new_object_comes_from_a_form_with_a_control_for_each_kind(app) {
        let (servers, racks) = types(app).await;
        let north = app.create_object(racks, &json!({"name": "north"})).await;
        let south = app.create_object(racks, &json!({"name": "south"})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/types/{servers}/new");
        let page = browser.page(&action).await;
        page.shows("New: Servers").shows("Host name (required)").shows("A number, or a part of the name. Racks");
        let form = page.form(&action);
        assert_eq!(form.get("f.default"), "given");
        let form = form.with("f.hostname", "web-1").with("f.notes", "one\r\ntwo").with("f.units", "2.5");
        let form = form.with("f.state", "on").with("f.mode", "off").with("f.tags", "off").with("f.spare", "true");
        let form = form.with("f.bought", "2026-01-31").with("f.rack", "NORTH").with("f.racks", &format!("south\r\n#{north}"));
        let form = form.with("f.ip", "2001:DB8::1").with("f.key", "sesame");
        let page = browser.submitted(&form).await;
        page.shows("Created.").shows("Host name web-1").shows("In rack north").shows("Tags Switched off");
        let id = app.get("/objects/?filter={\"f.hostname\":\"web-1\"}").await.json()["results"][0]["public_id"].as_i64();
        let values = stored(app, id.expect("the object")).await;
        let expected = json!({"hostname": "web-1", "notes": "one\ntwo", "units": 2.5, "state": "on", "mode": "off",
            "tags": ["off"], "spare": true, "bought": {"$date": 1_769_817_600_000_i64}, "rack": north,
            "racks": [south, north], "ip": "2001:db8::1", "key": "sesame", "default": "given"});
        assert_eq!(values, expected);
    }

    async fn an_edit_stores_what_was_changed_and_nothing_else(app) {
        let (servers, racks) = types(app).await;
        let rack = app.create_object(racks, &json!({"name": "north"})).await;
        let values = json!({"hostname": "web-1", "notes": "one\ntwo", "units": 7, "state": "on", "tags": ["on", "off"],
            "bought": {"$date": "2026-01-31T10:20:30.456Z"}, "rack": rack, "racks": [rack], "key": "sesame", "ip": "10.0.0.1"});
        let id = app.create_object(servers, &values).await;
        let before = stored(app, id).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/objects/{id}/edit");
        let form = browser.page(&action).await.form(&action);
        assert_eq!(form.get("f.rack"), format!("north (#{rack})"));
        // Nothing changed: nothing is stored.
        browser.submitted(&form).await.shows("web-1");
        let history = app.get(&format!("/objects/{id}/history")).await.json();
        assert_eq!(history["total"], 1, "{history}");
        browser.submitted(&form.clone().with("f.units", "8").without("f.spare")).await.shows("Saved.").shows("Units 8");
        let mut after = before.clone();
        after["units"] = json!(8);
        assert_eq!(stored(app, id).await, after);
        let form = browser.page(&action).await.form(&action);
        let cleared = form.with("f.notes", "").with("f.state", "").with("f.rack", "").with("f.racks", "").with("clear.key", "true");
        browser.submitted(&cleared.without("f.tags").with("f.bought", "").without("active")).await.shows("Inactive");
        let now = stored(app, id).await;
        for name in ["notes", "state", "rack", "racks", "key", "tags", "bought"] {
            assert_eq!(now[name], Value::Null, "{name}: {now}");
        }
    }

    async fn what_is_wrong_is_said_at_its_field_and_what_was_typed_stays(app) {
        let (servers, racks) = types(app).await;
        for name in ["north-1", "north-2"] {
            app.create_object(racks, &json!({"name": name})).await;
        }
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/types/{servers}/new");
        let form = browser.page(&action).await.form(&action);
        for (name, typed, message) in [
            ("f.units", "many", "Type a number."), ("f.hostname", "UPPER", "must match the pattern"),
            ("f.ip", "10.0.0.300", "must be"), ("f.rack", "west", "No object fits “west”."),
            ("f.rack", "north", "Several objects fit “north”. Which one?"), ("f.rack", "#999", "999"),
            ("f.racks", "north", "north-1 (#"), ("f.bought", "soon", "must be"), ("f.state", "broken", "must be one of"),
        ] {
            let page = browser.submit(&form.clone().with("f.hostname", "web-1").with("f.notes", "kept <i>").with(name, typed)).await;
            assert_eq!(page.status, 400, "{name}: {}", page.text());
            page.shows("There is a problem").shows(message).shows("kept <i>");
            assert!(page.html.contains("class=\"field wrong\""), "{}", page.html);
        }
        let page = browser.submit(&form).await;
        assert_eq!(page.status, 400);
        page.shows("Host name: required");
        let page = browser.submit(&form.with("f.hostname", "web-1").with("f.rack", "north")).await;
        let chosen = page.form(&action);
        assert!(page.html.contains("north-2 (#"), "{}", page.html);
        let id = page.html.split("north-2 (#").nth(1).and_then(|rest| rest.split(')').next()).expect("an id").to_owned();
        browser.submitted(&chosen.with("f.rack", &format!("north-2 (#{id})"))).await.shows("In rack north-2");
    }

    async fn a_change_of_somebody_else_is_shown_and_loses_nothing(app) {
        let (servers, _) = types(app).await;
        let id = app.create_object(servers, &json!({"hostname": "web-1", "notes": "first", "units": 1})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/objects/{id}/edit");
        let form = browser.page(&action).await.form(&action).with("f.notes", "mine");
        let fields = json!([{"name": "notes", "value": "theirs"}, {"name": "units", "value": 9}]);
        app.patch(&format!("/objects/{id}"), &json!({"fields": fields})).await;
        let page = browser.submit(&form).await;
        assert_eq!(page.status, 412);
        page.shows("Somebody changed this object meanwhile").shows("admin changed it on").shows("Meanwhile it became: theirs");
        page.shows("so the new value is taken");
        assert_eq!(stored(app, id).await["notes"], "theirs");
        let form = page.form(&action);
        assert_eq!((form.get("f.notes"), form.get("f.units")), ("mine", "9"));
        browser.submitted(&form).await.shows("Saved.");
        let now = stored(app, id).await;
        assert_eq!((&now["notes"], &now["units"]), (&json!("mine"), &json!(9)));
    }

    async fn a_change_of_somebody_else_to_the_active_flag_is_kept(app) {
        let (servers, _) = types(app).await;
        let id = app.create_object(servers, &json!({"hostname": "web-1", "notes": "first"})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/objects/{id}/edit");
        let form = browser.page(&action).await.form(&action).with("f.notes", "mine");
        assert!(app.patch(&format!("/objects/{id}"), &json!({"active": false})).await.status.is_success());
        let page = browser.submit(&form).await;
        assert_eq!(page.status, 412);
        browser.submitted(&page.form(&action)).await.shows("Saved.");
        let now = app.get(&format!("/objects/{id}/native")).await.json();
        assert_eq!(now["active"], false);
        assert_eq!(stored(app, id).await["notes"], "mine");
    }

    async fn defaults_of_every_kind_are_in_the_form_and_can_be_cleared(app) {
        let fields = json!([
            {"type": "text", "name": "name", "label": "Name", "required": true},
            {"type": "number", "name": "units", "label": "Units", "value": "5"},
            {"type": "number", "name": "slots", "label": "Slots", "value": "7"},
            {"type": "checkbox", "name": "spare", "label": "Spare", "value": "true"},
            {"type": "text", "name": "note", "label": "Note", "value": "given"},
        ]);
        let kind = app.created("/types/", &json!({"name": "box", "label": "Boxes", "author_id": 1, "fields": fields})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/types/{kind}/new");
        let form = browser.page(&action).await.form(&action);
        assert_eq!((form.get("f.units"), form.get("f.slots"), form.get("f.note")), ("5", "7", "given"));
        let form = form.with("f.name", "a").with("f.units", "").with("f.note", "").without("f.spare");
        browser.submitted(&form).await.shows("Created.");
        let id = app.get("/objects/?filter={\"f.name\":\"a\"}").await.json()["results"][0]["public_id"].as_i64();
        let expected = json!({"name": "a", "units": null, "slots": 7, "spare": false, "note": null});
        assert_eq!(stored(app, id.expect("the object")).await, expected);
    }

    async fn a_deletion_says_what_refers_to_the_object_and_can_be_undone(app) {
        let (servers, racks) = types(app).await;
        let rack = app.create_object(racks, &json!({"name": "north"})).await;
        let id = app.create_object(servers, &json!({"hostname": "web-1", "rack": rack})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/objects/{rack}/delete");
        let page = browser.page(&action).await;
        page.shows("1 object refers to it.");
        let form = page.form(&action);
        assert_eq!(form.get("references"), "refuse");
        let refused = browser.submit(&form).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        refused.shows("It was not deleted: objects refer to it.");
        let page = browser.submitted(&form.with("references", "clear")).await;
        page.shows(&format!("Object {rack} was deleted."));
        assert_eq!(stored(app, id).await["rack"], Value::Null);
        let undo = page.form(&format!("/ui/objects/{rack}/restore"));
        browser.submitted(&undo).await.shows("The object is back.").shows("north");
        app.patch(&format!("/objects/{id}"), &json!({"fields": [{"name": "rack", "value": rack}]})).await;
        let form = browser.page(&action).await.form(&action).with("references", "keep");
        browser.submitted(&form).await;
        browser.page(&format!("/ui/objects/{id}")).await.shows(&format!("leads to an object that does not exist ({rack})"));
    }

    async fn a_value_of_a_field_that_is_unique_is_said_at_the_field(app) {
        let fields = json!([{"type": "text", "name": "serial", "label": "Serial", "unique": true}]);
        let type_id = app.created("/types/", &json!({"name": "box", "label": "Boxes", "author_id": 1, "fields": fields})).await;
        app.create_object(type_id, &json!({"serial": "A1"})).await;
        let mut browser = Browser::of_admin(app).await;
        let action = format!("/ui/types/{type_id}/new");
        let form = browser.page(&action).await.form(&action).with("f.serial", "A1");
        let page = browser.submit(&form).await;
        assert_eq!(page.status, 409);
        page.shows("There is a problem");
        assert!(page.html.contains("class=\"field wrong\""), "{}", page.text());
    }
}
