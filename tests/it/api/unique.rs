//! Unique values: docs/api.md, Unique values.

use std::collections::BTreeSet;

use bson::doc;
use futures::future::join_all;
use inventory_service::domain::document::raw;
use inventory_service::query::Filter;
use inventory_service::service::claims::building::settle;
use inventory_service::store::collections::{CLAIMS, UNIQUE};
use inventory_service::store::{Change, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use super::bulk::body;
use super::people::Person;
use crate::support::app::{Answer, TestApp, fields, on_each_store, send};
use crate::support::mongod::{self, Deployment};

const MAX_TIME: std::time::Duration = std::time::Duration::from_secs(10);
const WRITERS: usize = 32;
/// `INVENTORY_UNIQUE_ROUNDS` makes more.
const ROUNDS: usize = 5;

fn definition(name: &str, kind: &str, unique: Value) -> Value {
    json!({"type": kind, "name": name, "label": name, "unique": unique})
}

/// A type with a unique `host`, a `serial` that is unique without case, and a note.
async fn server(app: &TestApp) -> i64 {
    let fields = json!([
        definition("host", "text", json!(true)),
        definition("serial", "text", json!("fold")),
        definition("note", "text", json!(false)),
    ]);
    app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": fields})).await
}

async fn make(app: &TestApp, type_id: i64, values: &Value) -> Answer {
    app.post("/objects/", &body(type_id, values)).await
}

#[track_caller]
fn taken(answer: &Answer, pointer: &str) -> String {
    answer.error(409, "object_value_taken");
    assert_eq!(answer.pointers(), [pointer]);
    answer.json()["errors"][0]["message"].as_str().expect("a message").to_owned()
}

async fn claims(app: &TestApp) -> u64 {
    app.store.count(CLAIMS, &Filter::all(), MAX_TIME).await.expect("a number")
}

/// Claims of rules that are gone are removed beside the request.
async fn claims_become(app: &TestApp, wanted: u64) {
    for _ in 0..500 {
        if claims(app).await == wanted {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(claims(app).await, wanted);
}

async fn turn(app: &TestApp, type_id: i64, unique: Value) -> Answer {
    let fields = json!([definition("host", "text", unique)]);
    app.patch(&format!("/types/{type_id}"), &json!({"fields": fields})).await
}

fn rounds() -> usize {
    std::env::var_os("INVENTORY_UNIQUE_ROUNDS").and_then(|rounds| rounds.to_str()?.parse().ok()).unwrap_or(ROUNDS)
}

on_each_store! {
    async fn a_value_is_that_of_one_object_until_it_gives_it_up(app) {
        let server = server(app).await;
        let first = app.create_object(server, &json!({"host": "web-1", "serial": "Ä1"})).await;
        let second = app.create_object(server, &json!({"host": "WEB-1", "serial": null})).await;
        app.create_object(server, &json!({})).await;
        app.create_object(server, &json!({"note": "a"})).await;
        let said = taken(&make(app, server, &json!({"note": "a", "host": "web-1"})).await, "/fields/1/value");
        assert_eq!(said, format!("object {first} has this value of host, which is unique; choose another one"));
        taken(&make(app, server, &json!({"serial": "ä1"})).await, "/fields/0/value");
        let map = json!({"author_id": 1, "fields": {"host": "web-1"}});
        taken(&app.put(&format!("/objects/{second}"), &map).await, "/fields/host");
        taken(&app.patch(&format!("/objects/{second}"), &json!({"fields": {"host": "web-1"}})).await, "/fields/host");
        let kept = app.put(&format!("/objects/{first}"), &json!({"author_id": 1, "fields": {"note": "b"}})).await;
        assert_eq!(kept.status, 200, "{}", kept.text);
        let moved = app.patch(&format!("/objects/{first}"), &json!({"fields": {"host": "web-2"}})).await;
        assert_eq!(moved.status, 202, "{}", moved.text);
        assert_eq!(make(app, server, &json!({"host": "web-1"})).await.status, 200);
        assert_eq!(app.delete(&format!("/objects/{first}")).await.status, 200);
        assert_eq!(make(app, server, &json!({"host": "web-2", "serial": "a1"})).await.status, 200);
        let other = app.created("/types/", &json!({"name": "other", "author_id": 1, "fields": [definition("host", "text", json!(true))]})).await;
        assert_eq!(make(app, other, &json!({"host": "web-2"})).await.status, 200);
    }

    async fn numbers_are_equal_as_mongodb_compares_them(app) {
        let fields = json!([definition("number", "number", json!(true)), definition("any", "json", json!(true))]);
        let kind = app.created("/types/", &json!({"name": "kind", "author_id": 1, "fields": fields})).await;
        app.create_object(kind, &json!({"number": 1, "any": [1, {"a": 2}]})).await;
        taken(&make(app, kind, &json!({"number": 1.0})).await, "/fields/0/value");
        taken(&make(app, kind, &json!({"number": {"$numberDecimal": "1.00"}})).await, "/fields/0/value");
        taken(&make(app, kind, &json!({"any": [1.0, {"a": 2}]})).await, "/fields/0/value");
        assert_eq!(make(app, kind, &json!({"number": 1.5, "any": "1"})).await.status, 200);
        let long = "x".repeat(100_000);
        assert_eq!(make(app, kind, &json!({"any": long})).await.status, 200);
        taken(&make(app, kind, &json!({"any": long})).await, "/fields/0/value");
    }

    async fn values_are_swapped_in_one_edit_and_not_shared_by_one(app) {
        let server = server(app).await;
        for number in 0..3 {
            app.create_object(server, &json!({"host": format!("h{number}")})).await;
        }
        let path = format!(r#"/objects/?filter={{"type_id":{server}}}&expected_count=3"#);
        let shared = app.patch(&path, &json!({"fields": {"host": "same"}})).await;
        shared.error(409, "object_value_taken");
        let unshared = app.patch(&path, &json!({"fields": {"host": null}})).await;
        assert_eq!(unshared.status, 202, "{}", unshared.text);
        assert_eq!(make(app, server, &json!({"host": "h0"})).await.status, 200);
    }

    async fn of_many_items_the_later_ones_are_refused(app) {
        let server = server(app).await;
        let first = app.create_object(server, &json!({"host": "a"})).await;
        let items = json!(["b", "a", "b", "c"].map(|host| body(server, &json!({"host": host}))));
        let together = app.post("/objects/bulk?atomic=true", &items).await;
        together.error(409, "object_value_taken");
        let mut places = together.pointers();
        places.sort_unstable();
        assert_eq!(places, ["/1/fields/0/value", "/2/fields/0/value"]);
        let each = app.post("/objects/bulk", &items).await.json();
        let results = each["results"].as_array().expect("results");
        let statuses: Vec<&Value> = results.iter().map(|result| &result["status"]).collect();
        assert_eq!(statuses, [200, 409, 409, 200]);
        let said = |index: usize| results[index]["errors"][0]["message"].as_str().expect("a message");
        assert!(said(1).starts_with(&format!("object {first} has")), "{}", said(1));
        assert!(said(2).starts_with("another item"), "{}", said(2));
    }

    async fn a_field_becomes_unique_and_stops_being_so(app) {
        let kind = app.create_type("kind", &[("host", "text")]).await;
        let mut ids = Vec::new();
        for host in ["a", "b", "a", "B", "b", "a"] {
            ids.push(app.create_object(kind, &json!({"host": host})).await);
        }
        app.create_object(kind, &json!({})).await;
        let refused = turn(app, kind, json!(true)).await;
        refused.error(400, "values_not_unique");
        assert_eq!(refused.pointers(), ["/fields/0/unique", "/fields/0/unique"]);
        let said: BTreeSet<String> =
            refused.json()["errors"].as_array().expect("errors").iter().map(|it| it["message"].to_string()).collect();
        for group in [[ids[0], ids[2], ids[5]].as_slice(), &[ids[1], ids[4]]] {
            let named = group.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
            assert!(said.iter().any(|said| said.contains(&format!(": {named};"))), "{said:?}");
        }
        assert_eq!((claims(app).await, make(app, kind, &json!({"host": "a"})).await.status.as_u16()), (0, 200));
        let list = app.get(&format!(r#"/objects/?filter={{"f.host":{{"$ne":null}},"type_id":{kind}}}&limit=0"#)).await;
        for (number, id) in list.results("/public_id").iter().enumerate() {
            app.patch(&format!("/objects/{id}"), &json!({"fields": {"host": format!("Host {number}")}})).await;
        }
        assert_eq!(turn(app, kind, json!(true)).await.status, 202);
        assert_eq!((claims(app).await, app.get(&format!("/types/{kind}")).await.json()["result"]["fields"][0]["unique"].clone()), (7, json!(true)));
        taken(&make(app, kind, &json!({"host": "Host 3"})).await, "/fields/0/value");
        app.create_object(kind, &json!({"host": "host 3"})).await;
        turn(app, kind, json!("fold")).await.error(400, "values_not_unique");
        taken(&make(app, kind, &json!({"host": "Host 3"})).await, "/fields/0/value");
        assert_eq!(turn(app, kind, json!(false)).await.status, 202);
        assert_eq!(make(app, kind, &json!({"host": "Host 3"})).await.status, 200);
        claims_become(app, 0).await;
    }

    async fn a_deleted_type_leaves_no_claims(app) {
        let server = server(app).await;
        for host in ["a", "b"] {
            app.create_object(server, &json!({"host": host})).await;
        }
        assert_eq!(claims(app).await, 2);
        assert_eq!(app.delete(&format!("/types/{server}?cascade=true")).await.status, 202);
        claims_become(app, 0).await;
        let restored = app.post(&format!("/types/{server}/restore"), &json!({})).await;
        assert!(restored.status.is_success(), "{}", restored.text);
        app.create_object(server, &json!({"host": "a"})).await;
        taken(&make(app, server, &json!({"host": "a"})).await, "/fields/0/value");
    }

    async fn nothing_comes_back_with_a_value_that_another_one_has(app) {
        let server = server(app).await;
        let first = app.create_object(server, &json!({"host": "a"})).await;
        let then = app.get("/logs/?limit=1&sort=sequence&order=-1").await.results("/sequence")[0].clone();
        app.patch(&format!("/objects/{first}"), &json!({"fields": {"host": "b"}})).await;
        let second = app.create_object(server, &json!({"host": "a"})).await;
        let path = format!("/objects/{first}/revert");
        for dry_run in [true, false] {
            app.post(&path, &json!({"to": then, "dry_run": dry_run})).await.error(409, "object_value_taken");
        }
        assert_eq!(app.delete(&format!("/objects/{second}")).await.status, 200);
        app.create_object(server, &json!({"host": "a"})).await;
        app.post(&format!("/objects/{second}/restore"), &json!({})).await.error(409, "object_value_taken");
    }

    async fn kinds_and_defaults_that_make_no_sense_are_refused(app) {
        for kind in ["password", "checkbox", "ref-section-field"] {
            let field = definition("a", kind, json!(true));
            let refused = app.post("/types/", &json!({"name": "kind", "author_id": 1, "fields": [field]})).await;
            refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), ["/fields/0/unique"], "{kind}");
        }
        let mut field = definition("a", "text", json!(true));
        field["value"] = json!("x");
        let folded = definition("a", "number", json!("fold"));
        for field in [field, folded, definition("a", "text", json!("yes"))] {
            let refused = app.post("/types/", &json!({"name": "kind", "author_id": 1, "fields": [field]})).await;
            refused.error(400, "validation_failed");
            assert_eq!(refused.pointers(), ["/fields/0/unique"]);
        }
    }

    async fn an_object_that_is_hidden_is_not_named(app) {
        let acl = |group: i64| json!({"activated": true, "groups": {"includes": {
            "1": ["CREATE", "READ", "UPDATE", "DELETE"], group.to_string(): ["CREATE", "UPDATE"],
        }}});
        let rights = ["base.framework.object.*", "base.framework.type.*"];
        let person = Person::with_rights(app, "writer", &rights).await;
        let fields = [definition("host", "text", json!(true))];
        let kind = app.created("/types/", &json!({"name": "vault", "author_id": 1, "fields": fields, "acl": acl(person.group_id)})).await;
        let first = app.create_object(kind, &json!({"host": "a"})).await;
        let said = taken(&person.send(app, Method::POST, "/objects/", &body(kind, &json!({"host": "a"}))).await, "/fields/0/value");
        assert!(said.starts_with("another object has") && !said.contains(&first.to_string()), "{said}");
        let put = json!({"author_id": 1});
        person.send(app, Method::PUT, &format!("/objects/by/{kind}/host/a"), &put).await.error(404, "type_not_found");
        person.send(app, Method::PUT, "/objects/by/vault/host/z", &put).await.error(404, "type_not_found");
    }

    async fn the_object_with_a_value_is_written_whether_it_is_there_or_not(app) {
        let server = server(app).await;
        let note = |note: &str| json!({"author_id": 1, "fields": {"note": note}});
        let made = app.put("/objects/by/server/host/web%2F1", &note("a")).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let id = made.json()["result_id"].as_i64().expect("an id");
        let changed = app.put(&format!("/objects/by/{server}/host/web%2F1"), &note("b")).await;
        assert_eq!((changed.status.as_u16(), changed.json()["result"]["public_id"].as_i64()), (200, Some(id)));
        let own = json!({"author_id": 1, "fields": [{"name": "host", "value": "web/1"}, {"name": "serial", "value": "X"}]});
        assert_eq!(app.put("/objects/by/server/host/web%2F1", &own).await.status, 200);
        assert_eq!(app.put("/objects/by/server/serial/x", &note("c")).await.json()["result"]["public_id"], id);
        let stored = app.get(&format!("/objects/{id}/native")).await.json();
        assert_eq!(stored["fields"], fields(&json!({"host": "web/1", "note": "c", "serial": "X"})).as_array().map(|all| {
            json!([all[0], all[2], all[1]])
        }).expect("fields"));
        let other = json!({"author_id": 1, "fields": {"host": "web-2"}});
        let refused = app.put("/objects/by/server/host/web%2F1", &other).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/fields/host"]);
        app.put("/objects/by/server/note/a", &note("a")).await.error(400, "field_not_unique");
        app.put("/objects/by/server/nots/a", &note("a")).await.error(400, "field_not_unique");
        app.put("/objects/by/rack/host/a", &note("a")).await.error(404, "type_not_found");
        let matching = |path: &str, tag: &str| send(app.request(Method::PUT, path).header("If-Match", tag).json(&note("d")));
        matching("/objects/by/server/host/none", "*").await.error(412, "precondition_failed");
        matching("/objects/by/server/host/web%2F1", "\"0\"").await.error(412, "precondition_failed");
        let tag = app.get(&format!("/objects/{id}/native")).await.header("etag").to_owned();
        assert_eq!(matching("/objects/by/server/host/web%2F1", &tag).await.status, 200);
    }

    async fn of_many_who_write_one_value_one_makes_the_object(app) {
        server(app).await;
        let path = "/objects/by/server/host/a";
        let body = json!({"author_id": 1, "fields": {"note": "a"}});
        let answers = join_all((0..8).map(|_| app.put(path, &body))).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
    }

    async fn of_many_writers_of_one_value_one_succeeds(app) {
        let server = server(app).await;
        for round in 0..rounds() {
            let item = json!({"host": format!("h{round}")});
            let answers = join_all((0..WRITERS).map(|_| make(app, server, &item))).await;
            let stored = answers.iter().filter(|answer| answer.status == 200).count();
            let refused = answers.iter().filter(|answer| answer.status == 409).count();
            assert_eq!((stored, refused), (1, WRITERS - 1));
        }
        assert_eq!(claims(app).await, rounds() as u64);
    }

    async fn nobody_slips_by_while_a_field_becomes_unique(app) {
        for round in 0..rounds() {
            let kind = app.create_type(&format!("kind-{round}"), &[("host", "text")]).await;
            let writer = |writer: usize| async move {
                for turn in 0..10 {
                    make(app, kind, &json!({"host": format!("h{}", (writer + turn) % 12)})).await;
                }
            };
            let (turned, _) = tokio::join!(turn(app, kind, json!(true)), join_all((0..6).map(writer)));
            let filter = format!(r#"/objects/?filter={{"type_id":{kind}}}&limit=0"#);
            let hosts: Vec<String> = app.get(&filter).await.results("/fields/0/value").iter().map(Value::to_string).collect();
            let different: BTreeSet<&String> = hosts.iter().collect();
            if turned.status == 202 {
                assert_eq!(hosts.len(), different.len(), "{hosts:?}");
            } else {
                turned.error(400, "values_not_unique");
            }
        }
    }

    async fn an_import_finds_by_claims_and_says_what_is_taken(app) {
        let server = server(app).await;
        let first = app.create_object(server, &json!({"host": "a", "serial": "S1"})).await;
        let import = |parameters: &str, file: &str| {
            let request = app.request(Method::POST, &format!("/import/objects?type_id={server}&{parameters}"));
            send(request.header("Content-Type", "text/csv").body(file.to_owned()))
        };
        let found = import("key=serial", "serial,note\ns1,found\n").await;
        assert_eq!((found.status.as_u16(), &found.json()["updated"]), (200, &json!(1)));
        assert_eq!(app.get(&format!("/objects/{first}/native")).await.json()["fields"][2]["value"], "found");
        for dry in ["true", "false"] {
            let refused = import(&format!("dry_run={dry}"), "host\na\nb\nb\n").await;
            let errors = refused.error(400, "import_refused")["report"]["errors"].clone();
            let lines: BTreeSet<u64> = errors.as_array().expect("errors").iter().filter_map(|it| it["line"].as_u64()).collect();
            assert_eq!(lines, [2, 4].into(), "{errors}");
            let said = errors.to_string();
            assert!(said.contains(&format!("object {first} has")) && said.contains("line 3 has"), "{said}");
        }
        app.create_object(server, &json!({"note": "twin"})).await;
        let twin = app.create_object(server, &json!({"note": "twin"})).await;
        let several = import("key=note", "note\ntwin\n").await.error(400, "import_refused");
        let reason = several["report"]["errors"][0]["reason"].as_str().expect("a reason").to_owned();
        assert!(reason.contains(&twin.to_string()), "{reason}");
    }

    async fn a_start_makes_what_types_ask_for_and_removes_what_was_interrupted(app) {
        let server = server(app).await;
        app.create_object(server, &json!({"host": "a", "note": "b"})).await;
        let emptied = |collection| Unit::of(Change::DeleteMany { collection, filter: Filter::all() });
        let half = doc! {"_id": "rules", "public_id": 7_i64, "rules": [
            {"type_id": server, "field": "note", "unique": true, "epoch": "0", "is_building": true},
        ]};
        let half = Change::Insert { collection: UNIQUE, document: raw(&half) };
        app.store.commit(emptied(UNIQUE).and(half)).await.expect("another tool writes it");
        assert_eq!(settle(&*app.store, MAX_TIME).await.expect("claims"), [""; 0]);
        assert_eq!(claims(app).await, 1);
        taken(&make(app, server, &json!({"host": "a"})).await, "/fields/0/value");
        app.create_object(server, &json!({"note": "b"})).await;
    }

    async fn a_claim_whose_object_lost_the_value_elsewhere_is_free(app) {
        let server = server(app).await;
        let first = app.create_object(server, &json!({"host": "a"})).await;
        let own = Filter::equals("public_id", first);
        let lost = Unit::of(Change::DeleteMany { collection: "framework.objects", filter: own });
        app.store.commit(lost).await.expect("another tool deletes it");
        app.create_object(server, &json!({"host": "a"})).await;
        taken(&make(app, server, &json!({"host": "a"})).await, "/fields/0/value");
    }
}

/// Two instances write one value at once, and one of them makes the field unique.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_keep_values_apart_together() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let uri = server.fresh_uri();
    let (one, other) = (TestApp::on(&uri, &[]).await, TestApp::on(&uri, &[]).await);
    let kind = one.create_type("kind", &[("host", "text")]).await;
    other.create_object(kind, &json!({"host": "first"})).await;
    assert_eq!(turn(&one, kind, json!(true)).await.status, 202);
    // The other instance may not know of it yet.
    taken(&make(&other, kind, &json!({"host": "first"})).await, "/fields/0/value");
    for round in 0..rounds() {
        let item = json!({"host": format!("h{round}")});
        let writers = (0..WRITERS).map(|writer| make(if writer % 2 == 0 { &one } else { &other }, kind, &item));
        let statuses: Vec<u16> = join_all(writers).await.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 409).count(), WRITERS - 1, "{statuses:?}");
    }
}
