//! Kinds of fields that are checked and have one spelling: addresses, lists of references, lists of options.
//! docs/api.md, Fields of an object.

use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, fields, on_each_store, send};

/// A type with one field of each kind of address.
async fn host(app: &TestApp) -> i64 {
    app.create_type("host", &[("name", "text"), ("ip", "ip"), ("network", "network"), ("mac", "mac")]).await
}

async fn value(app: &TestApp, id: i64, field: &str) -> Value {
    let object = app.get(&format!("/objects/{id}/native")).await.json();
    let entries = object["fields"].as_array().cloned().expect("fields");
    entries.into_iter().find(|entry| entry["name"] == field).map_or(Value::Null, |entry| entry["value"].clone())
}

async fn import(app: &TestApp, parameters: &str, media_type: &str, file: &str) -> Answer {
    let request = app.request(Method::POST, &format!("/import/objects?{parameters}"));
    send(request.header("Content-Type", media_type).body(file.to_owned())).await
}

/// The names of the objects that a filter finds, in an order.
async fn names(app: &TestApp, filter: &Value, sort: &str) -> Vec<Value> {
    let (filter, limit) = (filter.to_string(), "100");
    let listed = app.get_with("/objects/", &[("filter", &filter), ("sort", sort), ("limit", limit)]).await;
    assert_eq!(listed.status, 200, "{}", listed.text);
    listed.results("/fields/0/value")
}

on_each_store! {
    async fn addresses_are_stored_in_one_spelling_however_they_come(app) {
        let kind = host(app).await;
        let sent = json!({"ip": "2001:DB8:0::7", "network": "10.0.0.0/24", "mac": "00-1B-44-11-3A-B7"});
        let id = app.create_object(kind, &sent).await;
        for (field, stored) in [("ip", "2001:db8::7"), ("network", "10.0.0.0/24"), ("mac", "00:1b:44:11:3a:b7")] {
            assert_eq!(value(app, id, field).await, stored);
        }
        let path = format!("/objects/{id}");
        let put = json!({"type_id": kind, "author_id": 1, "fields": {"ip": "2001:DB8::8"}});
        assert_eq!(app.put(&path, &put).await.status, 200);
        assert_eq!(value(app, id, "ip").await, "2001:db8::8");
        let patched = app.patch(&path, &json!({"fields": {"mac": "001b.4411.3ab8", "ip": null}})).await;
        assert_eq!(patched.status, 200, "{}", patched.text);
        assert_eq!((value(app, id, "mac").await, value(app, id, "ip").await), (json!("00:1b:44:11:3a:b8"), Value::Null));
        let all = "/objects/?filter=%7B%7D&expected_count=1";
        assert_eq!(app.patch(all, &json!({"fields": [{"name": "network", "value": "2001:DB8::/32"}]})).await.status, 202);
        assert_eq!(value(app, id, "network").await, "2001:db8::/32");
        let bulk = json!([{"type_id": kind, "author_id": 1, "fields": fields(&json!({"mac": "001B44113AB9"}))}]);
        let made = app.post("/objects/bulk", &bulk).await;
        assert!(made.status.is_success(), "{}", made.text);
        assert_eq!(value(app, id + 1, "mac").await, "00:1b:44:11:3a:b9");
        // An address in another spelling is the same key.
        app.patch(&path, &json!({"fields": {"ip": "2001:db8::a"}})).await;
        let table = import(app, &format!("type_id={kind}&key=ip"), "text/csv", "ip,name\n2001:DB8::A,table\n").await;
        assert_eq!(table.json()["updated"], 1, "{}", table.text);
        let line = json!({"fields": {"ip": "2001:DB8:0::A", "name": "line"}}).to_string();
        let lines = import(app, &format!("type_id={kind}&key=ip"), "application/x-ndjson", &line).await;
        assert_eq!(lines.json()["updated"], 1, "{}", lines.text);
        assert_eq!((value(app, id, "name").await, value(app, id, "ip").await), (json!("line"), json!("2001:db8::a")));
    }

    async fn what_is_no_address_is_refused_with_its_place_and_what_it_must_be(app) {
        let kind = host(app).await;
        for (field, sent, told) in [
            ("ip", json!("10.0.0.256"), "must be an IPv4 or IPv6 address (10.0.0.7 or 2001:db8::7), or null"),
            ("ip", json!("10.0.0.7/24"), "without a prefix; a field of the kind network takes prefixes, or null"),
            ("ip", json!(7), "must be an IPv4 or IPv6 address (10.0.0.7 or 2001:db8::7), or null"),
            ("ip", json!(""), "must be an IPv4 or IPv6 address (10.0.0.7 or 2001:db8::7), or null"),
            ("network", json!("10.0.0.0"), "must be a network with the length of its prefix (10.0.0.0/24 or 2001:db8::/32), or null"),
            ("network", json!("10.0.0.7/24"), "this address lies in 10.0.0.0/24"),
            ("mac", json!("00:1b:44"), "must be a MAC address of 12 hexadecimal digits (00:1b:44:11:3a:b7), or null"),
        ] {
            let body = json!({"type_id": kind, "author_id": 1, "fields": {field: sent}});
            let refused = app.post("/objects/", &body).await;
            let error = refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), [format!("/fields/{field}")]);
            let message = error["errors"][0]["message"].as_str().expect("a message").to_owned();
            assert!(message.contains(told), "{message}");
        }
        let refused = import(app, &format!("type_id={kind}"), "text/csv", "ip\n10.0.0\n").await;
        refused.error(400, "import_refused");
        let odd = json!({"name": "odd", "author_id": 1, "fields": [{"type": "ip", "name": "a", "label": "A", "value": "ten"}]});
        let refused = app.post("/types/", &odd).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/fields/0/value"]);
        let default = json!({"name": "even", "author_id": 1, "fields": [{"type": "ip", "name": "a", "label": "A", "value": "2001:DB8::1"}]});
        let even = app.created("/types/", &default).await;
        let id = app.create_object(even, &json!({})).await;
        assert_eq!(value(app, id, "a").await, "2001:db8::1");
    }

    async fn addresses_go_out_and_come_in_again_as_they_are(app) {
        let kind = host(app).await;
        let sent = json!({"name": "a", "ip": "2001:db8::7", "network": "10.0.0.0/8", "mac": "00:1b:44:11:3a:b7"});
        let id = app.create_object(kind, &sent).await;
        for (format, media_type) in [("csv", "text/csv"), ("jsonl", "application/x-ndjson")] {
            let file = app.get(&format!("/export/objects?type_id={kind}&format={format}")).await;
            assert_eq!(file.status, 200, "{}", file.text);
            let back = import(app, &format!("type_id={kind}&again=true"), media_type, &file.text).await;
            assert_eq!(back.json()["unchanged"], 1, "{format}: {}", back.text);
        }
        let rendered = app.get(&format!("/objects/{id}")).await.json();
        assert_eq!(rendered["type_information"]["fields"][1], json!({"type": "ip", "name": "ip", "label": "ip", "value": "2001:db8::7"}));
        // A deleted one comes back as it was.
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        let restored = app.post(&format!("/objects/{id}/restore"), &json!({})).await;
        assert!(restored.status.is_success(), "{}", restored.text);
        assert_eq!(value(app, id, "network").await, "10.0.0.0/8");
    }

    async fn a_list_of_references_is_checked_item_by_item(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let room = app.create_type("room", &[("name", "text")]).await;
        let racks = [app.create_object(rack, &json!({"name": "r1"})).await, app.create_object(rack, &json!({"name": "r2"})).await];
        let other = app.create_object(room, &json!({"name": "cellar"})).await;
        let kind = row_of_racks(app, rack).await;
        let id = app.create_object(kind, &json!({"racks": racks})).await;
        assert_eq!(value(app, id, "racks").await, json!(racks));
        for (sent, place) in [
            (json!([racks[0], other]), "/fields/racks/1"),
            (json!([racks[0], 999]), "/fields/racks/1"),
            (json!([racks[0], "2"]), "/fields/racks/1"),
            (json!([racks[0], null]), "/fields/racks/1"),
            (json!([racks[0], racks[0]]), "/fields/racks/1"),
            (json!(racks[0]), "/fields/racks"),
        ] {
            let body = json!({"type_id": kind, "author_id": 1, "fields": {"racks": sent}});
            let refused = app.post("/objects/", &body).await;
            refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), [place], "{sent}");
            // A list of entries has its own places.
            let entries = json!([{"name": "racks", "value": sent}]);
            let refused = app.post("/objects/", &json!({"type_id": kind, "author_id": 1, "fields": entries})).await;
            assert_eq!(refused.pointers(), [place.replace("/fields/racks", "/fields/0/value")], "{sent}");
        }
        let found = |filter: Value| async move { names(app, &filter, "public_id").await.len() };
        assert_eq!(found(json!({"f.racks": racks[1]})).await, 1);
        assert_eq!(found(json!({"f.racks": {"$all": racks}})).await, 1);
        assert_eq!(found(json!({"f.racks": {"$size": 2}, "type_id": kind})).await, 1);
        assert_eq!(found(json!({"f.racks": {"$ne": racks[1]}, "type_id": kind})).await, 0);
        assert_eq!(found(json!({"f.racks": other})).await, 0);
    }

    async fn a_list_of_references_is_shown_followed_and_cleared(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let racks = [app.create_object(rack, &json!({"name": "r1"})).await, app.create_object(rack, &json!({"name": "r2"})).await];
        let kind = row_of_racks(app, rack).await;
        let id = app.create_object(kind, &json!({"racks": racks})).await;
        let view = app.get(&format!("/objects/{id}")).await.json();
        let field = &view["type_information"]["fields"][0];
        assert_eq!((&field["value"], &field["ref_types"], field.get("reference")), (&json!(racks), &json!([rack]), None));
        let shown: Vec<(&Value, &Value)> =
            field["references"].as_array().expect("a list").iter().map(|it| (&it["object_id"], &it["type_name"])).collect();
        assert_eq!(shown, [(&json!(racks[0]), &json!("rack")), (&json!(racks[1]), &json!("rack"))]);
        let referring = app.get(&format!("/objects/{}/references", racks[1])).await;
        assert_eq!(referring.results("/public_id"), [id]);
        app.delete(&format!("/objects/{}?on_references=refuse", racks[1])).await.error(400, "object_referenced");
        assert_eq!(app.delete(&format!("/objects/{}?on_references=clear", racks[1])).await.status, 200);
        assert_eq!(value(app, id, "racks").await, json!([racks[0]]));
        assert_eq!(app.delete(&format!("/objects/{}", racks[0])).await.status, 200);
        // What leads nowhere may stay, and nothing may be added that leads nowhere.
        let dangling = app.get(&format!("/objects/{id}")).await.json();
        assert_eq!(dangling["type_information"]["fields"][0]["references"][0]["object_id"], 0);
        let third = app.create_object(rack, &json!({"name": "r3"})).await;
        let patched = app.patch(&format!("/objects/{id}"), &json!({"fields": {"racks": [racks[0], third]}})).await;
        assert_eq!(patched.status, 200, "{}", patched.text);
        let patched = app.patch(&format!("/objects/{id}"), &json!({"fields": {"racks": [racks[0], third, 999]}})).await;
        patched.error(400, "validation_failed");
        assert_eq!(patched.pointers(), ["/fields/racks/2"]);
    }

    async fn hidden_objects_in_a_list_of_references_are_protected(app) {
        let person = Person::with_rights(app, "visitor", &["base.framework.object.view", "base.framework.object.add"]).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        let fields = json!([{"type": "text", "name": "name", "label": "Name"}]);
        let vault = app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields, "acl": acl})).await;
        let secret = app.create_object(vault, &json!({"name": "secret"})).await;
        let kind = row_of_racks(app, vault).await;
        let id = app.create_object(kind, &json!({"racks": [secret]})).await;
        let view = person.get(app, &format!("/objects/{id}")).await.json();
        assert_eq!(view["type_information"]["fields"][0]["references"], json!([{"protected": true}]));
        let body = json!({"type_id": kind, "author_id": 1, "fields": {"racks": [secret]}});
        let refused = person.send(app, Method::POST, "/objects/", &body).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/fields/racks/0"]);
    }

    async fn a_select_may_hold_several_options(app) {
        let kind = roles(app).await;
        let id = app.create_object(kind, &json!({"roles": ["web", "db"]})).await;
        assert_eq!(value(app, id, "roles").await, json!(["web", "db"]));
        let without = app.create_object(kind, &json!({})).await;
        assert_eq!(value(app, without, "roles").await, json!(["web", "mail"]), "the default");
        for (sent, place) in [
            (json!(["web", "dns"]), "/fields/roles/1"), (json!(["web", "web"]), "/fields/roles/1"),
            (json!(["web", 1]), "/fields/roles/1"), (json!("web"), "/fields/roles"),
        ] {
            let refused = app.post("/objects/", &json!({"type_id": kind, "author_id": 1, "fields": {"roles": sent}})).await;
            refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), [place], "{sent}");
        }
        let view = app.get(&format!("/objects/{id}")).await.json();
        let field = &view["type_information"]["fields"][0];
        assert_eq!((&field["value"], &field["options"][0]["label"]), (&json!(["web", "db"]), &json!("Web")));
        let found = |filter: Value| async move { names(app, &filter, "public_id").await.len() };
        assert_eq!((found(json!({"f.roles": "web"})).await, found(json!({"f.roles": {"$nin": ["db"]}})).await), (2, 1));
        let elsewhere = json!({"type": "text", "name": "a", "label": "A", "multiple": true});
        let refused = app.post("/types/", &json!({"name": "other", "author_id": 1, "fields": [elsewhere]})).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/fields/0/multiple"]);
    }

    async fn lists_go_out_and_come_in_again_as_they_are(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let racks = [app.create_object(rack, &json!({})).await, app.create_object(rack, &json!({})).await];
        let rows = row_of_racks(app, rack).await;
        let chosen = roles(app).await;
        for values in [json!({"racks": racks}), json!({"racks": [racks[0]]}), json!({"racks": []}), json!({"racks": null})] {
            app.create_object(rows, &values).await;
        }
        for values in [json!({"roles": ["web", "db"]}), json!({"roles": ["a, b", "[x"]}), json!({"roles": []})] {
            app.create_object(chosen, &values).await;
        }
        for (kind, count) in [(rows, 4), (chosen, 3)] {
            for (format, media_type) in [("csv", "text/csv"), ("jsonl", "application/x-ndjson")] {
                let file = app.get(&format!("/export/objects?type_id={kind}&format={format}")).await;
                let back = import(app, &format!("type_id={kind}"), media_type, &file.text).await;
                assert_eq!(back.json()["unchanged"], count, "{format}: {} {}", file.text, back.text);
            }
        }
        let written = app.get(&format!("/export/objects?type_id={rows}&format=csv")).await.text;
        assert!(written.contains(&format!("\"{}, {}\"", racks[0], racks[1])), "{written}");
        let file = format!("racks\n\"{}, {}\"\n{}\n", racks[1], racks[0], racks[1]);
        let made = import(app, &format!("type_id={rows}"), "text/csv", &file).await;
        assert_eq!(made.json()["created"], 2, "{}", made.text);
        import(app, &format!("type_id={rows}"), "text/csv", "racks\n999\n").await.error(400, "import_refused");
        import(app, &format!("type_id={chosen}"), "text/csv", "roles\nweb; db\n").await.error(400, "import_refused");
    }
}

/// A type whose objects refer to several objects of another type.
async fn row_of_racks(app: &TestApp, rack: i64) -> i64 {
    let field = json!({"type": "refs", "name": "racks", "label": "Racks", "ref_types": [rack]});
    app.created("/types/", &json!({"name": "row", "author_id": 1, "fields": [field]})).await
}

/// A type whose objects have several roles.
async fn roles(app: &TestApp) -> i64 {
    let option = |name: &str, label: &str| json!({"name": name, "label": label});
    let options = [
        option("web", "Web"),
        option("db", "Database"),
        option("mail", "Mail"),
        option("a, b", "Both"),
        option("[x", "Odd"),
    ];
    let field = json!({"type": "select", "name": "roles", "label": "Roles", "multiple": true, "options": options, "value": "web, mail"});
    app.created("/types/", &json!({"name": "machine", "author_id": 1, "fields": [field]})).await
}
