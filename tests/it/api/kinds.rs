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

/// Objects that are called like their addresses.
async fn hosts(app: &TestApp, addresses: &[&str]) -> i64 {
    let kind = host(app).await;
    for address in addresses {
        app.create_object(kind, &json!({"name": address, "ip": address})).await;
    }
    kind
}

/// Addresses in their order.
const ORDERED: [&str; 9] =
    ["9.9.9.9", "10.0.0.0", "10.0.0.9", "10.0.0.10", "10.0.0.255", "10.0.1.0", "::1", "2001:db8::9", "2001:db8::10"];

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
        assert_eq!(patched.status, 202, "{}", patched.text);
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
        for (format, media_type) in [("csv", "text/csv"), ("ndjson", "application/x-ndjson")] {
            let file = app.get(&format!("/export/objects?type_id={kind}&format={format}")).await;
            assert_eq!(file.status, 200, "{}", file.text);
            let back = import(app, &format!("type_id={kind}&again=true"), media_type, &file.text).await;
            assert_eq!(back.json()["unchanged"], 1, "{format}: {}", back.text);
        }
        let rendered = app.get(&format!("/objects/{id}")).await.json();
        assert_eq!(rendered["type_information"]["fields"][1], json!({"type": "ip", "name": "ip", "label": "ip", "value": "2001:db8::7"}));
        // A deleted one comes back as it was.
        assert_eq!(app.delete(&format!("/objects/{id}")).await.status, 200);
        let restored = send(app.request(Method::POST, &format!("/objects/{id}/restore"))).await;
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
        assert_eq!(patched.status, 202, "{}", patched.text);
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
            for (format, media_type) in [("csv", "text/csv"), ("ndjson", "application/x-ndjson")] {
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

    async fn bounds_and_sorts_of_addresses_are_in_the_order_of_addresses(app) {
        let kind = hosts(app, &["10.0.0.10", "2001:db8::10", "10.0.1.0", "9.9.9.9", "::1", "10.0.0.9", "10.0.0.255", "10.0.0.0", "2001:db8::9"]).await;
        let all = json!({"type_id": kind});
        assert_eq!(names(app, &all, "f.ip").await, ORDERED);
        let reversed: Vec<&str> = ORDERED.into_iter().rev().collect();
        assert_eq!(names(app, &all, "-f.ip").await, reversed);
        for (condition, expected) in [
            (json!({"$gte": "10.0.0.0", "$lte": "10.0.0.255"}), &ORDERED[1..5]),
            (json!({"$gt": "10.0.0.0", "$lt": "10.0.0.255"}), &ORDERED[2..4]),
            (json!({"$gte": "10.0.0.0/24", "$lt": "10.0.1.0"}), &ORDERED[2..5]),
            (json!({"$gte": "9.0.0.0", "$lte": "10.255.255.255"}), &ORDERED[..6]),
            (json!({"$gt": "10.0.0.255"}), &ORDERED[5..]),
            (json!({"$lte": "10.0.0.9"}), &ORDERED[..3]),
            (json!({"$gte": "2001:DB8::", "$lte": "2001:db8:0:0:ffff:ffff:ffff:ffff"}), &ORDERED[7..]),
            (json!({"$gte": "::", "$lt": "2001:db8::10"}), &ORDERED[6..8]),
            (json!({"$gte": "10.0.0.255", "$lte": "10.0.0.0"}), &[]),
            (json!({"$not": {"$gte": "10.0.0.9"}}), &ORDERED[..2]),
            (json!({"$gte": "10.0.0.0", "$lte": "10.0.0.255", "$ne": "10.0.0.9"}), &["10.0.0.0", "10.0.0.10", "10.0.0.255"]),
            (json!("2001:DB8:0::9"), &ORDERED[7..8]),
            (json!({"$in": ["0:0::1", "10.0.0.9"]}), &["10.0.0.9", "::1"]),
            (json!({"$regex": "^10\\."}), &ORDERED[1..6]),
        ] {
            assert_eq!(names(app, &json!({"type_id": kind, "f.ip": condition}), "f.ip").await, expected, "{condition}");
        }
        let outside = json!({"type_id": kind, "$nor": [{"f.ip": {"$gte": "10.0.0.0", "$lte": "10.0.1.0"}}]});
        assert_eq!(names(app, &outside, "f.ip").await, ["9.9.9.9", "::1", "2001:db8::9", "2001:db8::10"]);
        // The entries themselves hold texts.
        let text = json!({"type_id": kind, "fields": {"$elemMatch": {"name": "ip", "value": {"$lt": "10.0.0.2"}}}});
        assert_eq!(names(app, &text, "f.ip").await, ["10.0.0.0", "10.0.0.10"]);
        let counted = app.get_with("/objects/", &[("filter", r#"{"f.ip": {"$lt": "10.0.0.10"}}"#), ("limit", "1")]).await;
        assert_eq!(counted.json()["total"], 3);
        let pipeline = json!([{"$match": {"f.ip": {"$gt": "10.0.0.9", "$lt": "::"}}}, {"$sort": {"f.ip": -1}}, {"$project": {"_id": 0, "ip": "$f.ip"}}]);
        let answer = app.post("/objects/aggregate", &json!({"pipeline": pipeline})).await;
        let expected = json!([{"ip": "10.0.1.0"}, {"ip": "10.0.0.255"}, {"ip": "10.0.0.10"}]);
        assert_eq!(answer.json()["results"], expected, "{}", answer.text);
    }

    async fn networks_are_in_the_order_of_their_first_addresses(app) {
        let kind = host(app).await;
        let ordered = ["9.0.0.0/8", "10.0.0.0/8", "10.0.0.0/24", "10.0.9.0/24", "10.0.10.0/24", "2001:db8::/32", "2001:db8:9::/48", "2001:db8:10::/48"];
        for network in ordered.iter().rev() {
            app.create_object(kind, &json!({"name": network, "network": network})).await;
        }
        let nothing = app.create_object(kind, &json!({"name": "nothing"})).await;
        assert!(nothing > 0);
        let sorted = names(app, &json!({"type_id": kind}), "f.network").await;
        assert_eq!((&sorted[0], &sorted[1..]), (&json!("nothing"), &ordered.map(Value::from)[..]));
        let within = json!({"type_id": kind, "f.network": {"$gte": "10.0.0.0/16", "$lte": "10.0.255.255"}});
        assert_eq!(names(app, &within, "f.network").await, &ordered[2..5]);
    }

    async fn pages_by_cursor_go_through_addresses_in_their_order(app) {
        hosts(app, &["10.0.0.10", "2001:db8::10", "10.0.1.0", "9.9.9.9", "::1", "10.0.0.9", "10.0.0.255", "10.0.0.0", "2001:db8::9"]).await;
        for (sort, expected) in [("f.ip", ORDERED.to_vec()), ("-f.ip", ORDERED.into_iter().rev().collect())] {
            let mut path = format!("/objects/?sort={sort}&limit=2&after=");
            let mut seen = Vec::new();
            for _ in 0..6 {
                let page = app.get(&path).await;
                assert_eq!(page.status, 200, "{}", page.text);
                seen.extend(page.results("/fields/0/value"));
                let next = page.header("link").split(", <").find(|part| part.ends_with("rel=\"next\"")).map(str::to_owned);
                let Some(next) = next else { break };
                next.trim_start_matches('<').split('>').next().expect("a link").clone_into(&mut path);
            }
            assert_eq!(seen, expected, "{sort}");
        }
    }

    async fn what_is_no_address_is_no_bound_of_addresses(app) {
        hosts(app, &[]).await;
        let refused = app.get_with("/objects/", &[("filter", r#"{"f.ip": {"$gte": "10.0."}}"#)]).await;
        let error = refused.error(400, "query_2");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("f.ip is in the order of addresses; must be an IPv4 or IPv6 address"), "{message}");
    }

    async fn a_name_that_is_an_address_in_one_type_alone_is_compared_as_text_unless_the_filter_names_the_type(app) {
        let kind = hosts(app, &["10.0.0.9", "10.0.0.10"]).await;
        let other = app.create_type("other", &[("name", "text"), ("ip", "text")]).await;
        app.create_object(other, &json!({"name": "text", "ip": "10.0.0.2"})).await;
        let bounds = json!({"$gte": "10.0.0.9"});
        assert_eq!(names(app, &json!({"f.ip": bounds}), "public_id").await, ["10.0.0.9"]);
        assert_eq!(names(app, &json!({"type_id": kind, "f.ip": bounds}), "f.ip").await, ["10.0.0.9", "10.0.0.10"]);
    }

    async fn a_range_of_addresses_is_read_from_an_index(app) {
        let kind = hosts(app, &[]).await;
        for host in 0..300 {
            let address = format!("10.0.{}.{}", host / 100, host % 100);
            app.create_object(kind, &json!({"name": address, "ip": address})).await;
        }
        let filter = json!({"f.ip": {"$gte": "10.0.1.0", "$lte": "10.0.1.255"}}).to_string();
        let explained = app.get_with("/objects/", &[("filter", &filter), ("explain", "true")]).await.json();
        assert_eq!(explained["total"], 100, "{explained}");
        assert!(explained["documents_examined"].as_i64().is_some_and(|examined| examined <= 100), "{explained}");
        let text = explained.to_string();
        assert!(!text.contains("by_address") && !text.contains("4010000"), "{text}");
        // Several numbers of the second place are several ranges.
        let filter = json!({"f.ip": {"$gte": "10.0.1.0", "$lte": "10.0.2.255"}}).to_string();
        let explained = app.get_with("/objects/", &[("filter", &filter), ("explain", "true")]).await.json();
        assert_eq!(explained["total"], 200, "{explained}");
        assert!(explained["documents_examined"].as_i64().is_some_and(|examined| examined <= 200), "{explained}");
    }

    async fn the_first_free_address_of_a_network_is_named(app) {
        let kind = hosts(app, &["10.0.0.1", "10.0.0.2", "10.0.0.4", "10.0.1.0", "10.0.2.1", "10.0.2.2", "2001:db8::"]).await;
        let free = |network: &'static str| {
            let path = format!("/objects/free?type_id={kind}&field=ip&network={network}");
            async move { app.get(&path).await }
        };
        for (network, expected) in [
            ("10.0.0.0/24", "10.0.0.3"), ("10.0.0.4/30", "10.0.0.5"), ("10.0.1.0/31", "10.0.1.1"), ("10.0.9.9/32", "10.0.9.9"),
            ("2001:DB8::/64", "2001:db8::1"), ("10.0.0.0/8", "10.0.0.3"),
        ] {
            let answer = free(network).await;
            assert_eq!(answer.json()["address"], expected, "{network}: {}", answer.text);
        }
        for full in ["10.0.2.0/30", "10.0.1.0/32"] {
            let message = free(full).await.error(409, "network_full")["message"].clone();
            assert_eq!(message, format!("all addresses of {full} are in use"));
        }
        for wrong in [
            format!("type_id={kind}&field=ip&network=10.0.0.7/24"), format!("type_id={kind}&field=ip&network=10.0.0.0"),
            format!("type_id={kind}&field=name&network=10.0.0.0/24"), format!("type_id={kind}&field=no&network=10.0.0.0/24"),
            format!("type_id={kind}&field=ip"), "field=ip&network=10.0.0.0/24".to_owned(),
        ] {
            app.get(&format!("/objects/free?{wrong}")).await.error(400, "parameter_invalid");
        }
        app.get("/objects/free?type_id=999&field=ip&network=10.0.0.0/24").await.error(404, "type_not_found");
        // An inactive object uses its address, a deleted one does not.
        let third = app.create_object(kind, &json!({"name": "third", "ip": "10.0.0.3"})).await;
        app.put(&format!("/objects/{third}/state"), &json!(false)).await;
        assert_eq!(free("10.0.0.0/24").await.json()["address"], "10.0.0.5");
        app.delete(&format!("/objects/{third}")).await;
        assert_eq!(free("10.0.0.0/24").await.json()["address"], "10.0.0.3");
    }

    async fn the_addresses_of_a_hidden_type_are_not_told(app) {
        let person = Person::with_rights(app, "visitor", &["base.framework.object.view"]).await;
        let acl = json!({"activated": true, "groups": {"includes": {"1": ["READ", "CREATE"]}}});
        let fields = json!([{"type": "ip", "name": "ip", "label": "IP"}]);
        let vault = app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields, "acl": acl})).await;
        app.create_object(vault, &json!({"ip": "10.0.0.1"})).await;
        let path = |kind: i64| format!("/objects/free?type_id={kind}&field=ip&network=10.0.0.0/24");
        assert_eq!(app.get(&path(vault)).await.json()["address"], "10.0.0.2");
        let hidden = person.get(app, &path(vault)).await.error(404, "type_not_found");
        let absent = person.get(app, &path(999)).await.error(404, "type_not_found");
        let blank = |error: &Value, id: i64| error["message"].as_str().expect("a message").replace(&id.to_string(), "");
        assert_eq!(blank(&hidden, vault), blank(&absent, 999));
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
