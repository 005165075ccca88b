//! Many objects in one request.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Answer, TestApp, fields, on_each_store, send};
use crate::support::counting::CountingStore;

pub(super) fn body(type_id: i64, values: &Value) -> Value {
    json!({"type_id": type_id, "author_id": 1, "fields": fields(values)})
}

pub(super) async fn total(app: &TestApp) -> i64 {
    app.get("/objects/?limit=1").await.json()["total"].as_i64().expect("a total")
}

async fn by_filter(app: &TestApp, method: Method, filter: &Value, count: u64, more: &[(&str, &str)]) -> Answer {
    let (filter, count) = (filter.to_string(), count.to_string());
    let mut query = vec![("filter", filter.as_str()), ("expected_count", count.as_str())];
    query.extend_from_slice(more);
    let takes_body = method == Method::PATCH;
    let request = app.request(method, "/objects/").query(&query);
    let patch = json!({"fields": [{"name": "state", "value": "live"}]});
    send(if takes_body { request.json(&patch) } else { request }).await
}

on_each_store! {
    async fn what_is_wrong_with_a_map_of_fields_is_at_the_name_of_the_field(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let holder = json!({"name": "server", "author_id": 1, "fields": [
            {"type": "text", "name": "host", "label": "Host", "regex": "[a-z]+"},
            {"type": "ref", "name": "1", "label": "One", "ref_types": [rack]},
            {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack]},
        ]});
        let server = app.created("/types/", &holder).await;
        let id = app.create_object(server, &json!({"host": "a"})).await;
        let map = json!({"host": "A", "rack": 999, "1": 998});
        let item = |fields: &Value| json!({"type_id": server, "author_id": 1, "fields": fields});
        let each = app.post("/objects/bulk", &json!([item(&map)])).await.json();
        let pointers = |errors: &Value| -> Vec<String> {
            let errors = errors.as_array().cloned().unwrap_or_default();
            errors.iter().map(|error| error["pointer"].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(pointers(&each["results"][0]["errors"]), ["/fields/host"]);
        let dangling = json!({"host": "a", "rack": 999, "1": 998});
        let each = app.post("/objects/bulk", &json!([item(&dangling)])).await.json();
        assert_eq!(pointers(&each["results"][0]["errors"]), ["/fields/rack", "/fields/1"]);
        let together = app.post("/objects/bulk?atomic=true", &json!([item(&dangling)])).await;
        assert_eq!(together.pointers(), ["/0/fields/rack", "/0/fields/1"]);
        let path = format!(r#"/objects/?filter={{"public_id":{id}}}&expected_count=1"#);
        let selected = app.patch(&path, &json!({"fields": dangling})).await;
        assert_eq!(selected.pointers(), ["/fields/rack", "/fields/1"]);
        for fields in [json!({"rack": 999}), json!([{"name": "rack", "value": 999}])] {
            let one = app.post("/objects/", &item(&fields)).await.pointers();
            let many = app.post("/objects/bulk", &json!([item(&fields)])).await.json();
            assert_eq!(pointers(&many["results"][0]["errors"]), one);
            assert_eq!(app.patch(&path, &json!({"fields": fields})).await.pointers(), one);
        }
    }

    async fn objects_are_created_in_order_with_ids_in_a_row(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let bodies: Vec<Value> = (0..50).map(|number| body(rack, &json!({"name": format!("r{number}")}))).collect();
        let answer = app.post("/objects/bulk", &bodies.into()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let json = answer.json();
        assert_eq!((&json["count"], &json["created"], &json["failed"]), (&json!(50), &json!(50), &json!(0)));
        let ids = answer.results("/result_id");
        let first = ids[0].as_i64().expect("an id");
        assert_eq!(ids, (first..first + 50).map(Value::from).collect::<Vec<_>>());
        let stored = app.get(&format!("/objects/{}/native", first + 7)).await.json();
        assert_eq!(stored["fields"], json!([{"name": "name", "value": "r7"}]));
        assert_eq!(app.create_object(rack, &json!({"name": "next"})).await, first + 50);
    }

    async fn lines_of_json_are_taken_too(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let line = body(rack, &json!({"name": "a"})).to_string();
        let text = format!("{line}\n\n{line}\r\n{{\"type_id\": \n[1]\n{line}");
        let request = app.request(Method::POST, "/objects/bulk").header("Content-Type", "application/x-ndjson");
        let answer = send(request.body(text)).await;
        assert_eq!(answer.status, 207, "{}", answer.text);
        let json = answer.json();
        let statuses: Vec<&Value> = json["results"].as_array().expect("results").iter().map(|item| &item["status"]).collect();
        assert_eq!(statuses, [200, 200, 400, 400, 200]);
        assert_eq!(json["results"][2]["code"], "json_malformed");
    }

    async fn what_is_wrong_with_an_item_is_its_own_matter(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let server = app.create_type("server", &[("units", "number")]).await;
        let first = app.create_object(rack, &json!({"name": "one"})).await;
        let mut taken = body(rack, &json!({"name": "taken"}));
        taken["public_id"] = json!(first);
        let (mut chosen, mut nobody) = (body(rack, &json!({"name": "chosen"})), body(rack, &json!({"name": "nobody"})));
        chosen["public_id"] = json!(7_000);
        nobody["author_id"] = json!(99);
        let items = json!([
            body(rack, &json!({"name": "good"})),
            body(server, &json!({"units": "many"})),
            taken, nobody, chosen.clone(), chosen, 5,
            body(77, &json!({})),
        ]);
        let before = total(app).await;
        let answer = app.post("/objects/bulk", &items).await;
        assert_eq!(answer.status, 207, "{}", answer.text);
        let results = answer.json()["results"].as_array().cloned().expect("results");
        let codes: Vec<&str> = results.iter().map(|item| item["code"].as_str().unwrap_or("stored")).collect();
        let (invalid, twice) = ("validation_failed", "object_public_id_taken");
        assert_eq!(codes, ["stored", invalid, twice, invalid, "stored", twice, "json_malformed", invalid]);
        assert_eq!(results[1]["errors"][0]["pointer"], "/fields/0/value");
        assert_eq!(results[3]["errors"][0]["pointer"], "/author_id");
        assert_eq!((&results[4]["result_id"], &results[7]["errors"][0]["pointer"]), (&json!(7_000), &json!("/type_id")));
        assert_eq!(total(app).await, before + 2);
    }

    async fn together_means_all_or_none(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let good = body(rack, &json!({"name": "good"}));
        let bad = body(rack, &json!({"name": "bad", "unknown": 1}));
        let refused = app.post("/objects/bulk?atomic=true", &json!([good, bad, good])).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/1/fields/1/name"]);
        assert_eq!(total(app).await, 0);
        let stored = app.post("/objects/bulk?atomic=true", &json!([good, good])).await;
        assert_eq!((stored.status.as_u16(), total(app).await), (200, 2), "{}", stored.text);
        let mut taken = good.clone();
        taken["public_id"] = stored.json()["results"][0]["result_id"].clone();
        app.post("/objects/bulk?atomic=true", &json!([good, taken])).await.error(400, "validation_failed");
        assert_eq!(total(app).await, 2);
    }

    async fn references_are_looked_at_for_all_items(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let holder = json!({"name": "server", "author_id": 1, "fields": [
            {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack]},
            {"type": "text", "name": "state", "label": "State"}]});
        let server = app.created("/types/", &holder).await;
        let rack_id = app.create_object(rack, &json!({"name": "one"})).await;
        let items = json!([body(server, &json!({"rack": rack_id})), body(server, &json!({"rack": 9_999}))]);
        let results = app.post("/objects/bulk", &items).await.json()["results"].clone();
        assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!(200), &json!(400)));
        assert_eq!(results[1]["errors"][0], json!({"pointer": "/fields/0/value", "message": "object 9999 does not exist"}));
        // A patch that sets a reference on many looks at its target once, too.
        let patch = |id: i64| json!({"fields": [{"name": "rack", "value": id}]});
        let request = || app.request(Method::PATCH, "/objects/").query(&[("filter", format!("{{\"type_id\": {server}}}")), ("expected_count", "1".to_owned())]);
        send(request().json(&patch(9_999))).await.error(400, "validation_failed");
        assert_eq!(send(request().json(&patch(rack_id))).await.status, 202);
    }

    async fn nobody_stores_what_he_may_not_store_alone(app) {
        let denied = json!({"name": "closed", "author_id": 1, "acl": {"activated": true, "groups": {"includes": {}}}});
        let closed = app.created("/types/", &denied).await;
        let open = app.create_type("open", &[]).await;
        let items = json!([body(open, &json!({})), body(closed, &json!({}))]);
        let results = app.post("/objects/bulk", &items).await.json()["results"].clone();
        assert_eq!((&results[0]["status"], &results[1]["code"]), (&json!(200), &json!("acl_denied")));
        app.post("/objects/bulk?atomic=true", &items).await.error(403, "acl_denied");
        assert_eq!(total(app).await, 1);
        send(app.anonymous(Method::POST, "/objects/bulk").json(&items)).await.error(401, "token_missing");
        send(app.anonymous(Method::PATCH, "/objects/?filter=%7B%7D&expected_count=1")).await.error(401, "token_missing");
    }

    async fn a_patch_changes_exactly_the_objects_that_are_expected(app) {
        let server = app.create_type("server", &[("name", "text"), ("state", "text")]).await;
        for name in ["a", "b", "c"] {
            app.create_object(server, &json!({"name": name, "state": "spare"})).await;
        }
        let some = json!({"fields": {"$elemMatch": {"name": "name", "value": {"$in": ["a", "b"]}}}});
        by_filter(app, Method::PATCH, &some, 3, &[]).await.error(412, "precondition_failed");
        let spare = json!({"fields": {"$elemMatch": {"name": "state", "value": "spare"}}});
        assert_eq!(app.get_with("/objects/", &[("filter", &spare.to_string())]).await.json()["total"], 3);
        let patched = by_filter(app, Method::PATCH, &some, 2, &[]).await;
        assert_eq!((patched.status.as_u16(), &patched.json()["count"]), (202, &json!(2)), "{}", patched.text);
        assert_eq!(app.get_with("/objects/", &[("filter", &spare.to_string())]).await.json()["total"], 1);
        let id = patched.json()["result_ids"][1].as_i64().expect("an id");
        let stored = app.get(&format!("/objects/{id}/native")).await.json();
        assert_eq!(stored["fields"], json!([{"name": "name", "value": "b"}, {"name": "state", "value": "live"}]));
        assert_eq!((&stored["editor_id"], &stored["version"]), (&json!(1), &json!("1.0.1")));
        assert_eq!(by_filter(app, Method::PATCH, &json!({"type_id": 99}), 0, &[]).await.json()["result_ids"], json!([]));
    }

    async fn one_object_that_cannot_be_patched_keeps_all_others_as_they_are(app) {
        let server = app.create_type("server", &[("state", "text")]).await;
        let rack = app.create_type("rack", &[("name", "text")]).await;
        app.create_object(server, &json!({"state": "spare"})).await;
        let odd = app.create_object(rack, &json!({"name": "odd"})).await;
        let refused = by_filter(app, Method::PATCH, &json!({}), 2, &[]).await;
        let error = refused.error(400, "validation_failed");
        assert!(error["errors"][0]["message"].as_str().expect("a message").starts_with(&format!("object {odd}: ")), "{error}");
        let spare = json!({"fields.value": "spare"}).to_string();
        assert_eq!(app.get_with("/objects/", &[("filter", &spare)]).await.json()["total"], 1);
    }

    async fn a_delete_takes_exactly_the_objects_that_are_expected(app) {
        let server = app.create_type("server", &[("state", "text")]).await;
        for state in ["spare", "spare", "live"] {
            app.create_object(server, &json!({"state": state})).await;
        }
        let spare = json!({"fields.value": "spare"});
        by_filter(app, Method::DELETE, &spare, 1, &[]).await.error(412, "precondition_failed");
        assert_eq!(total(app).await, 3);
        let deleted = by_filter(app, Method::DELETE, &spare, 2, &[]).await;
        assert_eq!((deleted.status.as_u16(), &deleted.json()["count"]), (200, &json!(2)), "{}", deleted.text);
        assert_eq!(total(app).await, 1);
    }

    async fn a_delete_by_filter_heeds_references(app) {
        let rack = app.create_type("rack", &[("name", "text")]).await;
        let holder = json!({"name": "server", "author_id": 1, "fields": [
            {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack]}]});
        let server = app.created("/types/", &holder).await;
        let racks = json!({"type_id": rack});
        let rack = app.create_object(rack, &json!({"name": "one"})).await;
        let id = app.create_object(server, &json!({"rack": rack})).await;
        by_filter(app, Method::DELETE, &racks, 1, &[("on_references", "refuse")]).await.error(400, "object_referenced");
        assert_eq!(by_filter(app, Method::DELETE, &racks, 1, &[("on_references", "clear")]).await.status, 200);
        assert_eq!(app.get(&format!("/objects/{id}/native")).await.json()["fields"][0]["value"], Value::Null);
    }

    async fn a_write_by_filter_says_what_it_means(app) {
        for (path, name) in [
            ("/objects/", "filter"),
            ("/objects/?expected_count=0", "filter"),
            ("/objects/?filter=%7B%7D", "expected_count"),
            ("/objects/?filter=%7B%7D&expected_count=-1", "expected_count"),
            ("/objects/?fliter=%7B%7D&expected_count=0", "fliter"),
        ] {
            for method in [Method::PATCH, Method::DELETE] {
                let answer = send(app.request(method, path).json(&json!({}))).await;
                answer.error(400, "parameter_invalid");
                assert_eq!(answer.pointers(), [name], "{path}");
            }
        }
        let conditional = app.request(Method::DELETE, "/objects/?filter=%7B%7D&expected_count=0").header("If-Match", "\"a\"");
        send(conditional).await.error(400, "if_match_on_several");
        let javascript = json!({"$where": "true"});
        assert_eq!(by_filter(app, Method::DELETE, &javascript, 0, &[]).await.status, 400);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_writes_more_than_the_settings_allow() {
    let app = TestApp::embedded_with(&[("api.max_bulk", "3"), ("api.max_bulk_body_bytes", "2000")]).await;
    let server = app.create_type("server", &[("state", "text")]).await;
    let item = body(server, &json!({"state": "spare"}));
    app.post("/objects/bulk", &json!([item, item, item, item])).await.error(400, "too_many_objects");
    app.post("/objects/bulk", &json!([item, " ".repeat(2000)])).await.error(413, "body_too_large");
    for _ in 0..2 {
        assert_eq!(app.post("/objects/bulk", &json!([item, item])).await.status, 200);
    }
    for method in [Method::PATCH, Method::DELETE] {
        by_filter(&app, method, &json!({}), 4, &[]).await.error(400, "too_many_objects");
    }
    assert_eq!(total(&app).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_is_asked_as_often_for_many_items_as_for_few() {
    use crate::support::counting::CountingStore;

    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let rack = app.create_type("rack", &[("name", "text")]).await;
    let holder = json!({"name": "server", "author_id": 1, "fields": [
        {"type": "ref", "name": "rack", "label": "Rack", "ref_types": [rack]}, {"type": "text", "name": "state", "label": "State"}]});
    let server = app.created("/types/", &holder).await;
    let racks: Vec<Value> = (0..30).map(|_| body(rack, &json!({"name": "r"}))).collect();
    let racks = app.post("/objects/bulk", &racks.into()).await.results("/result_id");
    let mut calls = Vec::new();
    for count in [1, 30] {
        let servers: Vec<Value> = racks[..count].iter().map(|rack| body(server, &json!({"rack": rack}))).collect();
        let before = counter.calls();
        assert_eq!(app.post("/objects/bulk", &servers.into()).await.status, 200);
        let created = counter.calls() - before;
        let servers = json!({"type_id": server});
        let before = counter.calls();
        assert_eq!(by_filter(&app, Method::PATCH, &servers, count as u64, &[]).await.status, 202);
        let patched = counter.calls() - before;
        let before = counter.calls();
        assert_eq!(by_filter(&app, Method::DELETE, &servers, count as u64, &[]).await.status, 200);
        calls.push((created, patched, counter.calls() - before));
    }
    assert_eq!(calls[0], calls[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_end_by_their_bytes() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let kind = app.create_type("kind", &[("note", "text")]).await;
    let large = body(kind, &json!({"note": "x".repeat(900_000)}));
    let stored = app.post("/objects/bulk", &json!(vec![large; 27])).await;
    let results = stored.json()["results"].as_array().expect("results").clone();
    assert!(results.len() == 27 && results.iter().all(|result| result["status"] == 200), "{}", stored.text);
    assert!(counter.largest_unit() < 5 * 1024 * 1024, "{} bytes", counter.largest_unit());
    assert!(counter.largest_unit() > 2 * 900_000, "several at a time");
}
