//! Undo of a request: docs/api.md, Undo of a request.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store, send};

/// Sends a request under an id.
async fn under(app: &TestApp, request_id: &str, method: Method, path: &str, body: &Value) -> Answer {
    send(app.request(method, path).header("X-Request-ID", request_id).json(body)).await
}

/// The same without a body.
async fn delete_under(app: &TestApp, request_id: &str, path: &str) -> Answer {
    send(app.request(Method::DELETE, path).header("X-Request-ID", request_id)).await
}

/// Undoes a request, under an id of its own.
async fn undo(app: &TestApp, request_id: &str, own_id: &str) -> Answer {
    under(app, own_id, Method::POST, "/logs/undo", &json!({"request_id": request_id})).await
}

/// An undo that works, as the numbers of what was reverted, restored and deleted.
async fn undone(app: &TestApp, request_id: &str, own_id: &str) -> [u64; 3] {
    let answer = undo(app, request_id, own_id).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let body = answer.json();
    ["reverted", "restored", "deleted"].map(|name| body[name].as_u64().expect("a number"))
}

/// What objects, types and categories hold, without what the service counts and stamps.
async fn content(app: &TestApp) -> Value {
    let mut all = Vec::new();
    for path in
        ["/objects/?limit=0&sort=public_id", "/types/?limit=0&sort=public_id", "/categories/?limit=0&sort=public_id"]
    {
        let mut results = app.get(path).await.json()["results"].clone();
        for result in results.as_array_mut().expect("a list") {
            for own in ["version", "last_edit_time", "editor_id"] {
                result.as_object_mut().expect("an object").remove(own);
            }
        }
        all.push(results);
    }
    Value::from(all)
}

on_each_store! {
    async fn an_edit_by_filter_is_undone_as_one_and_so_is_its_undo(app) {
        let kind = app.create_type("server", &[("host", "text"), ("state", "text")]).await;
        for number in 0..5 {
            app.create_object(kind, &json!({"host": format!("web-{number}"), "state": format!("s{number}")})).await;
        }
        let before = content(app).await;
        let patch = json!({"fields": {"state": "gone"}, "active": false});
        let edited = under(app, "edit-1", Method::PATCH, &format!("/objects/?filter={{\"type_id\":{kind}}}&expected_count=5"), &patch).await;
        assert_eq!(edited.status, 202, "{}", edited.text);
        let after = content(app).await;
        let planned = app.post("/logs/undo", &json!({"request_id": "edit-1", "dry_run": true})).await.json();
        assert_eq!((&planned["reverted"], &planned["units"], &planned["dry_run"]), (&json!(5), &json!(0), &json!(true)));
        assert_eq!(content(app).await, after, "a dry run changes nothing");
        let answer = undo(app, "edit-1", "undo-1").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!((&answer.json()["units"], &answer.json()["resources"][0]["action"]), (&json!(1), &json!("reverted")));
        assert_eq!(content(app).await, before);
        let last = app.get("/logs/?sort=-sequence&limit=1").await.json()["results"][0].clone();
        assert_eq!((&last["action"], &last["comment"], &last["request_id"]), (&json!("REVERT"), &json!("undo of edit-1"), &json!("undo-1")));
        // Again there is nothing to do.
        let again = undo(app, "edit-1", "undo-2").await.json();
        assert_eq!((&again["reverted"], &again["unchanged"], &again["units"]), (&json!(0), &json!(5), &json!(0)));
        assert_eq!(undone(app, "undo-1", "undo-3").await, [5, 0, 0]);
        assert_eq!(content(app).await, after);
        assert_eq!(undone(app, "undo-3", "undo-4").await, [5, 0, 0]);
        assert_eq!(content(app).await, before);
    }

    async fn a_cascade_comes_back_whole(app) {
        let kind = app.create_type("rack", &[("name", "text")]).await;
        let other = app.create_type("room", &[]).await;
        app.created("/categories/", &json!({"name": "hardware", "types": [kind, other]})).await;
        let first = app.create_object(kind, &json!({"name": "r1"})).await;
        app.create_object(kind, &json!({"name": "r2"})).await;
        let reference = json!([{"type": "ref", "name": "rack", "label": "Rack", "ref_types": [kind]}]);
        let servers = app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": reference})).await;
        app.create_object(servers, &json!({"rack": first})).await;
        let before = content(app).await;
        let gone = delete_under(app, "cascade-1", &format!("/types/{kind}?cascade=true")).await;
        assert_eq!(gone.status, 202, "{}", gone.text);
        let after = content(app).await;
        assert_eq!(undone(app, "cascade-1", "undo-1").await, [1, 3, 0]);
        assert_eq!(content(app).await, before);
        // The undo of the undo deletes them again.
        assert_eq!(undone(app, "undo-1", "undo-2").await, [1, 0, 3]);
        assert_eq!(content(app).await, after);
        assert_eq!(undone(app, "undo-2", "undo-3").await, [1, 3, 0]);
        assert_eq!(content(app).await, before);
    }

    async fn what_a_request_created_is_deleted(app) {
        let kind = app.create_type("server", &[("host", "text")]).await;
        let kept = app.create_object(kind, &json!({"host": "old"})).await;
        let before = content(app).await;
        let objects: Vec<Value> = (0..3).map(|number| json!({"type_id": kind, "author_id": 1, "fields": {"host": format!("n{number}")}})).collect();
        assert_eq!(under(app, "bulk-1", Method::POST, "/objects/bulk", &Value::from(objects)).await.status, 200);
        assert_eq!(undone(app, "bulk-1", "undo-1").await, [0, 0, 3]);
        assert_eq!(content(app).await, before);
        let file = format!("public_id,host\n{kept},new\n,made\n");
        let import = app.request(Method::POST, &format!("/import/objects?type_id={kind}"));
        let imported = send(import.header("X-Request-ID", "import-1").header("Content-Type", "text/csv").body(file)).await;
        assert!(imported.status.is_success(), "{}", imported.text);
        assert_ne!(content(app).await, before);
        assert_eq!(undone(app, "import-1", "undo-2").await, [1, 0, 1]);
        assert_eq!(content(app).await, before);
    }

    async fn deleted_objects_and_the_references_to_them_come_back(app) {
        let kind = app.create_type("rack", &[]).await;
        let rack = app.create_object(kind, &json!({})).await;
        let reference = json!([{"type": "ref", "name": "rack", "label": "Rack", "ref_types": [kind]}]);
        let servers = app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": reference})).await;
        app.create_object(servers, &json!({"rack": rack})).await;
        let before = content(app).await;
        let gone = delete_under(app, "delete-1", &format!("/objects/{rack}?on_references=clear")).await;
        assert_eq!(gone.status, 200, "{}", gone.text);
        assert_eq!(undone(app, "delete-1", "undo-1").await, [1, 1, 0]);
        assert_eq!(content(app).await, before);
    }

    async fn changes_of_types_and_categories_are_undone(app) {
        let kind = app.create_type("rack", &[("name", "text")]).await;
        let parent = app.created("/categories/", &json!({"name": "all"})).await;
        app.created("/categories/", &json!({"name": "some", "parent": parent, "types": [kind]})).await;
        let before = content(app).await;
        let patch = json!({"label": "Racks", "fields": [], "active": false});
        assert_eq!(under(app, "type-1", Method::PATCH, &format!("/types/{kind}"), &patch).await.status, 202);
        assert_eq!(undone(app, "type-1", "undo-1").await, [1, 0, 0]);
        assert_eq!(content(app).await, before);
        assert_eq!(delete_under(app, "category-1", &format!("/categories/{parent}")).await.status, 202);
        assert_eq!(undone(app, "category-1", "undo-2").await, [1, 1, 0]);
        assert_eq!(content(app).await, before);
        let made = json!({"name": "shelf", "author_id": 1});
        assert_eq!(under(app, "made-1", Method::POST, "/types/", &made).await.status, 201);
        assert_eq!(undone(app, "made-1", "undo-3").await, [0, 0, 1]);
        assert_eq!(content(app).await, before);
    }

    async fn what_was_changed_since_stands_against_an_undo(app) {
        let kind = app.create_type("server", &[("host", "text")]).await;
        let one = app.create_object(kind, &json!({"host": "a"})).await;
        let two = app.create_object(kind, &json!({"host": "b"})).await;
        let path = format!("/objects/?filter={{\"type_id\":{kind}}}&expected_count=2");
        assert_eq!(under(app, "edit-1", Method::PATCH, &path, &json!({"fields": {"host": "c"}})).await.status, 202);
        assert_eq!(app.patch(&format!("/objects/{two}"), &json!({"fields": {"host": "d"}})).await.status, 202);
        let stored = content(app).await;
        let refused = undo(app, "edit-1", "undo-1").await.error(409, "changed_since");
        let conflicts = refused["conflicts"].as_array().expect("a list");
        assert_eq!(conflicts.len(), 1, "{refused}");
        assert_eq!((&conflicts[0]["resource"], &conflicts[0]["public_id"], &conflicts[0]["action"]), (&json!("objects"), &json!(two), &json!("EDIT")));
        assert_eq!(content(app).await, stored, "nothing is undone: {one}");
        // A type that was made has objects by now.
        let made = under(app, "made-1", Method::POST, "/types/", &json!({"name": "shelf", "author_id": 1})).await;
        let shelf = made.json()["result_id"].as_i64().expect("an id");
        app.create_object(shelf, &json!({})).await;
        assert_ne!(undo(app, "made-1", "undo-2").await.status, 200);
        assert_eq!(app.get(&format!("/types/{shelf}")).await.status, 200);
    }

    async fn an_undo_needs_the_rights_of_its_steps_and_sees_what_its_caller_sees(app) {
        let kind = app.create_type("server", &[("host", "text")]).await;
        let id = app.create_object(kind, &json!({"host": "a"})).await;
        assert_eq!(under(app, "edit-1", Method::PATCH, &format!("/objects/{id}"), &json!({"fields": {"host": "b"}})).await.status, 202);
        let ask = json!({"request_id": "edit-1"});
        let stranger = Person::with_rights(app, "stranger", &["base.framework.object.edit"]).await;
        stranger.send(app, Method::POST, "/logs/undo", &ask).await.error(403, "right_missing");
        let reader = Person::with_rights(app, "reader", &["base.framework.log.view", "base.framework.object.view"]).await;
        let refused = reader.send(app, Method::POST, "/logs/undo", &ask).await.error(403, "right_missing");
        assert!(refused["message"].as_str().is_some_and(|text| text.contains("base.framework.object.edit")), "{refused}");
        let acl = |permissions: &[&str]| json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ", "UPDATE", "CREATE", "DELETE"], reader.group_id.to_string(): permissions}}}});
        let editor_rights = json!({"rights": ["base.framework.log.view", "base.framework.object.view", "base.framework.object.edit"]});
        assert_eq!(app.patch(&format!("/groups/{}", reader.group_id), &editor_rights).await.status, 202);
        assert_eq!(app.patch(&format!("/types/{kind}"), &acl(&["READ"])).await.status, 202);
        reader.send(app, Method::POST, "/logs/undo", &ask).await.error(403, "acl_denied");
        assert_eq!(app.patch(&format!("/types/{kind}"), &acl(&[])).await.status, 202);
        let hidden = reader.send(app, Method::POST, "/logs/undo", &ask).await.error(404, "request_not_found");
        let absent = reader.send(app, Method::POST, "/logs/undo", &json!({"request_id": "edit-2"})).await;
        assert_eq!(absent.error(404, "request_not_found")["message"], hidden["message"].as_str().expect("a text").replace("edit-1", "edit-2"));
        assert_eq!(app.patch(&format!("/types/{kind}"), &acl(&["READ", "UPDATE"])).await.status, 202);
        assert_eq!(reader.send(app, Method::POST, "/logs/undo", &ask).await.status, 200);
        for body in [json!({}), json!({"request_id": ""}), json!({"request_id": "a b"}), json!({"request_id": "a", "dry": true})] {
            app.post("/logs/undo", &body).await.error(400, "validation_failed");
        }
    }

    async fn what_does_not_fit_its_type_comes_back_as_it_was(app) {
        let kind = app.create_type("server", &[("host", "text"), ("old", "text")]).await;
        let id = app.create_object(kind, &json!({"host": "web", "old": "x"})).await;
        let fields = json!({"fields": [{"type": "text", "name": "host", "label": "Host", "regex": "[0-9]+"}], "enforce": "new"});
        assert_eq!(app.patch(&format!("/types/{kind}"), &fields).await.status, 202);
        let before = content(app).await;
        assert_eq!(delete_under(app, "delete-1", &format!("/objects/{id}")).await.status, 200);
        assert_eq!(undone(app, "delete-1", "undo-1").await, [0, 1, 0]);
        assert_eq!(content(app).await, before);
    }

    async fn more_than_one_unit_holds_is_undone_in_groups(app) {
        let kind = app.create_type("server", &[("host", "text")]).await;
        let before = content(app).await;
        let objects: Vec<Value> = (0..1100).map(|number| json!({"type_id": kind, "author_id": 1, "fields": {"host": format!("n{number}")}})).collect();
        assert_eq!(under(app, "bulk-1", Method::POST, "/objects/bulk", &Value::from(objects)).await.status, 200);
        let answer = undo(app, "bulk-1", "undo-1").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let (body, largest) = (answer.json(), app.store.largest_unit());
        assert_eq!((&body["deleted"], body["resources"].as_array().map(Vec::len)), (&json!(1100), Some(1000)));
        assert_eq!(body["units"].as_u64(), Some(if largest < 1100 { 3 } else { 1 }));
        assert_eq!(content(app).await, before);
    }
}
