//! Objects: docs/api.md, Objects.

use reqwest::Method;
use serde_json::{Value, json};

use super::migrations::of as values;
use crate::support::app::{TestApp, fields, on_each_store, send};

async fn server_type(app: &TestApp) -> i64 {
    let body = json!({
        "name": "server", "author_id": 1,
        "fields": [
            {"type": "text", "name": "hostname", "label": "Host", "required": true, "regex": "[a-z]+[0-9]*"},
            {"type": "select", "name": "state", "label": "State", "value": "spare",
             "options": [{"name": "spare", "label": "Spare"}, {"name": "live", "label": "Live"}]},
            {"type": "number", "name": "units", "label": "Units"},
            {"type": "checkbox", "name": "virtual", "label": "Virtual"},
            {"type": "date", "name": "bought", "label": "Bought"},
            {"type": "ref", "name": "host", "label": "On", "ref_types": [1]},
        ],
    });
    app.created("/types/", &body).await
}

on_each_store! {
    async fn a_created_object_is_filled_in_and_read_back(app) {
        let kind = server_type(app).await;
        let body = json!({
            "type_id": kind, "author_id": 1, "views": 3, "creation_time": {"$date": 5}, "editor_id": 9,
            "fields": fields(&json!({"hostname": "web1", "bought": "2024-05-06"})),
        });
        let answer = app.post("/objects/", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.header("location"), format!("{}/rest/objects/1", app.origin));
        let envelope = answer.json();
        assert_eq!((&envelope["result_id"], &envelope["response_type"]), (&json!(1), &json!("INSERT")));
        let native = app.get("/objects/1/native").await.json();
        assert_eq!(native, envelope["raw"]);
        assert!(native.get("_id").is_none());
        let expected = json!({
            "hostname": "web1", "state": "spare", "units": null, "virtual": null,
            "bought": {"$date": 1_714_953_600_000_i64}, "host": null,
        });
        assert_eq!(values(&native), expected);
        assert_eq!((&native["views"], &native["editor_id"], &native["version"]), (&json!(3), &json!(null), &json!("1.0.0")));
        assert!(native["creation_time"]["$date"].as_i64().expect("a moment") > 1_700_000_000_000);
        assert_eq!(native["last_edit_time"], json!(null));
    }

    async fn values_are_checked_against_the_type_all_at_once(app) {
        let kind = server_type(app).await;
        let wrong = json!([
            {"name": "hostname", "value": "Web 1"}, {"name": "state", "value": "dead"}, {"name": "units", "value": "2"},
            {"name": "virtual", "value": 1}, {"name": "bought", "value": "yesterday"}, {"name": "host", "value": 77},
            {"name": "colour", "value": 1}, {"name": "units", "value": 3},
        ]);
        let answer = app.post("/objects/", &json!({"type_id": kind, "author_id": 99, "fields": wrong})).await;
        answer.error(400, "validation_failed");
        let expected = [
            "/fields/0/value", "/fields/1/value", "/fields/2/value", "/fields/3/value", "/fields/4/value",
            "/fields/6/name", "/fields/7/name", "/author_id",
        ];
        assert_eq!(answer.pointers(), expected);
        let missing = app.post("/objects/", &json!({"type_id": kind, "author_id": 1})).await;
        assert_eq!((missing.error(400, "validation_failed"), missing.pointers()).1, ["/fields"]);
        let dangling = json!({"type_id": kind, "author_id": 1, "fields": fields(&json!({"hostname": "a", "host": 77}))});
        let dangling = app.post("/objects/", &dangling).await;
        assert_eq!((dangling.error(400, "validation_failed"), dangling.pointers()).1, ["/fields/1/value"]);
        let no_type = app.post("/objects/", &json!({"type_id": 99, "author_id": 1})).await;
        assert_eq!((no_type.error(400, "validation_failed"), no_type.pointers()).1, ["/type_id"]);
        assert_eq!(app.get("/objects/").await.json()["total"], 0);
    }

    async fn put_keeps_unsent_fields_and_counts_the_version(app) {
        let kind = server_type(app).await;
        let id = app.create_object(kind, &json!({"hostname": "web", "units": 1})).await;
        let path = format!("/objects/{id}");
        let put = |values: Value| {
            let body = json!({"type_id": kind, "author_id": 1, "public_id": id, "fields": fields(&values)});
            send(app.request(Method::PUT, &path).json(&body))
        };
        let answer = put(json!({"units": 2})).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.header("location"), format!("{}/rest/objects/{id}", app.origin));
        let result = answer.json()["result"].clone();
        assert_eq!((&values(&result)["hostname"], &values(&result)["units"]), (&json!("web"), &json!(2)));
        assert_eq!((&result["version"], &result["editor_id"]), (&json!("1.0.1"), &json!(1)));
        assert!(result["last_edit_time"]["$date"].is_i64());
        assert_eq!(put(json!({"units": 2})).await.json()["result"]["version"], "1.0.1");
        let most = json!({"units": 3, "state": "live", "virtual": true, "hostname": "db"});
        assert_eq!(put(most).await.json()["result"]["version"], "1.1.0");
        let all = json!({"units": 4, "state": "spare", "virtual": false, "hostname": "x", "bought": "2020-01-01", "host": id});
        assert_eq!(put(all).await.json()["result"]["version"], "2.0.0");
        let own = json!({"author_id": 1, "version": "7.0.0"});
        assert_eq!(app.put(&path, &own).await.json()["result"]["version"], "7.0.0");
        let other_type = app.put(&path, &json!({"author_id": 1, "type_id": kind + 1})).await;
        assert_eq!((other_type.error(400, "validation_failed"), other_type.pointers()).1, ["/type_id"]);
    }

    async fn what_is_read_can_be_sent_back(app) {
        let kind = server_type(app).await;
        let id = app.create_object(kind, &json!({"hostname": "web", "bought": {"$date": 1_000}})).await;
        let before = app.get(&format!("/objects/{id}/native")).await.json();
        let after = app.put(&format!("/objects/{id}"), &before).await;
        assert_eq!(after.status, 200, "{}", after.text);
        assert_eq!(after.json()["result"]["fields"], before["fields"]);
        assert_eq!(after.json()["result"]["version"], "1.0.0");
    }

    async fn patch_merges_fields_by_name(app) {
        let kind = server_type(app).await;
        let id = app.create_object(kind, &json!({"hostname": "web", "units": 1})).await;
        let patch = json!({"fields": [{"name": "units", "value": null}], "active": false});
        let answer = app.patch(&format!("/objects/{id}"), &patch).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        let result = answer.json()["result"].clone();
        assert_eq!((&values(&result)["hostname"], &values(&result)["units"]), (&json!("web"), &json!(null)));
        assert_eq!(result["active"], false);
    }

    async fn the_state_is_read_and_set(app) {
        let kind = app.create_type("kind", &[]).await;
        let id = app.create_object(kind, &json!({})).await;
        let path = format!("/objects/{id}/state");
        assert_eq!(app.get(&path).await.text, "true");
        assert_eq!(app.put(&path, &json!(true)).await.status, 204);
        let changed = app.put(&path, &json!({"active": false})).await;
        assert_eq!((changed.status.as_u16(), &changed.json()["result"]["active"]), (202, &json!(false)));
        assert_eq!(app.get(&path).await.text, "false");
        app.put(&path, &json!("off")).await.error(400, "state_invalid");
    }

    async fn several_objects_go_at_once(app) {
        let kind = app.create_type("kind", &[]).await;
        for _ in 0..4 {
            app.create_object(kind, &json!({})).await;
        }
        let answer = app.delete("/objects/1,3,9").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let body = answer.json();
        let ids: Vec<&Value> = body["deleted_entries"].as_array().expect("entries").iter().map(|entry| &entry["public_id"]).collect();
        assert_eq!(ids, [1, 3]);
        assert_eq!((&body["not_found"], &body["response_type"], &body["model"]), (&json!([9]), &json!("DELETE"), &json!("Object")));
        app.delete("/objects/delete/1,3").await.error(404, "object_not_found");
        app.delete("/objects/2,x").await.error(400, "id_invalid");
        let many: Vec<String> = (1..=1001).map(|id: i32| id.to_string()).collect();
        app.delete(&format!("/objects/{}", many.join(","))).await.error(400, "too_many_ids");
        assert_eq!(app.get("/objects/").await.results("/public_id"), [json!(2), json!(4)]);
        let one = app.delete("/objects/2").await;
        assert_eq!((one.status.as_u16(), &one.json()["deleted_entry"]["public_id"]), (200, &json!(2)));
        app.delete("/objects/2").await.error(404, "object_not_found");
    }

    async fn references_are_found_refused_and_cleared(app) {
        let kind = server_type(app).await;
        let host = app.create_object(kind, &json!({"hostname": "host"})).await;
        let guest = app.create_object(kind, &json!({"hostname": "guest", "host": host})).await;
        // Its number of units is the id of the host, which is no reference.
        app.create_object(kind, &json!({"hostname": "other", "units": host})).await;
        let answer = app.get(&format!("/objects/{host}/references")).await;
        assert_eq!(answer.results("/public_id"), [json!(guest)]);
        assert_eq!(answer.json()["model"], "Object");
        let refused = app.delete(&format!("/objects/{host}?on_references=refuse")).await.error(400, "object_referenced");
        let message = format!("objects refer to this (1: {guest}); on_references=clear sets their references to null");
        assert_eq!(refused["message"], message);
        app.delete(&format!("/objects/{host}?on_references=never")).await.error(400, "parameter_invalid");
        let gone = app.delete(&format!("/objects/{host}?on_references=clear")).await;
        assert_eq!(gone.status, 200, "{}", gone.text);
        assert_eq!(values(&app.get(&format!("/objects/{guest}/native")).await.json())["host"], json!(null));
    }

    async fn all_that_is_wrong_with_a_new_object_is_said_at_once(app) {
        let nothing = app.post("/objects/", &json!({})).await;
        assert_eq!((nothing.error(400, "validation_failed"), nothing.pointers()).1, ["/author_id", "/type_id"]);
        let strangers = app.post("/objects/", &json!({"type_id": 99, "author_id": 99})).await;
        assert_eq!((strangers.error(400, "validation_failed"), strangers.pointers()).1, ["/type_id", "/author_id"]);
        let kind = server_type(app).await;
        let body = json!({"type_id": kind, "fields": fields(&json!({"hostname": "Web 1"}))});
        let mixed = app.post("/objects/", &body).await;
        assert_eq!((mixed.error(400, "validation_failed"), mixed.pointers()).1, ["/author_id", "/fields/0/value"]);
    }

    async fn a_reference_that_dangles_already_can_be_sent_back(app) {
        let kind = server_type(app).await;
        let host = app.create_object(kind, &json!({"hostname": "host"})).await;
        let guest = app.create_object(kind, &json!({"hostname": "guest", "host": host})).await;
        app.delete(&format!("/objects/{host}")).await;
        let native = app.get(&format!("/objects/{guest}/native")).await.json();
        let answer = app.put(&format!("/objects/{guest}"), &native).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let other = app.patch(&format!("/objects/{guest}"), &json!({"fields": [{"name": "host", "value": 98}]})).await;
        assert_eq!((other.error(400, "validation_failed"), other.pointers()).1, ["/fields/0/value"]);
    }

    async fn an_object_outlives_its_author(app) {
        let user = app.created("/users/", &json!({"user_name": "maker", "password": "long enough"})).await;
        let kind = app.create_type("kind", &[("colour", "text")]).await;
        let body = json!({"type_id": kind, "author_id": user});
        let id = app.created("/objects/", &body).await;
        assert_eq!(app.delete(&format!("/users/{user}")).await.status, 202);
        let patch = json!({"fields": [{"name": "colour", "value": "red"}]});
        let answer = app.patch(&format!("/objects/{id}"), &patch).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["result"]["author_id"]), (202, &json!(user)));
        let native = app.get(&format!("/objects/{id}/native")).await.json();
        assert_eq!(app.put(&format!("/objects/{id}"), &native).await.status, 200);
    }

    async fn null_in_a_patch_takes_a_member_back_to_its_default(app) {
        let kind = app.create_type("kind", &[]).await;
        let id = app.create_object(kind, &json!({})).await;
        app.put(&format!("/objects/{id}/state"), &json!(false)).await;
        let answer = app.patch(&format!("/objects/{id}"), &json!({"active": null, "status": null, "version": null})).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["result"]["active"]), (202, &json!(true)));
    }

    async fn several_objects_go_all_or_none(app) {
        let kind = server_type(app).await;
        let host = app.create_object(kind, &json!({"hostname": "host"})).await;
        let guest = app.create_object(kind, &json!({"hostname": "guest", "host": host})).await;
        let free = app.create_object(kind, &json!({"hostname": "free"})).await;
        app.delete(&format!("/objects/{free},{host}?on_references=refuse")).await.error(400, "object_referenced");
        assert_eq!(app.get("/objects/").await.json()["total"], 3);
        let request = app.request(Method::DELETE, &format!("/objects/{free},{host}")).header("If-Match", "\"x\"");
        send(request).await.error(400, "if_match_on_several");
        // References among those that go do not count.
        let both = app.delete(&format!("/objects/{host},{guest}?on_references=refuse")).await;
        assert_eq!(both.status, 200, "{}", both.text);
        assert_eq!(app.get("/objects/").await.results("/public_id"), [json!(free)]);
    }

    async fn references_are_cleared_only_where_the_caller_may_write(app) {
        let kind = server_type(app).await;
        let host = app.create_object(kind, &json!({"hostname": "host"})).await;
        let other = json!({"name": "other", "author_id": 1, "fields": [{"type": "ref", "name": "on", "label": "On", "ref_types": [kind]}]});
        let other = app.created("/types/", &other).await;
        let guest = app.create_object(other, &json!({"on": host})).await;
        let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
        app.patch(&format!("/types/{other}"), &acl).await;
        app.delete(&format!("/objects/{host}?on_references=clear")).await.error(403, "acl_denied");
        app.delete(&format!("/types/{other}?cascade=true")).await.error(403, "acl_denied");
        assert_eq!(app.get(&format!("/objects/{host}")).await.status, 200);
        assert_eq!(values(&app.get(&format!("/objects/{guest}/native")).await.json())["on"], json!(host));
    }

    async fn references_of_an_inactive_type_are_not_cleared_and_the_refusal_names_the_referring_object(app) {
        let kind = server_type(app).await;
        let host = app.create_object(kind, &json!({"hostname": "host"})).await;
        let other = json!({"name": "other", "author_id": 1, "fields": [{"type": "ref", "name": "on", "label": "On", "ref_types": [kind]}]});
        let other = app.created("/types/", &other).await;
        let guest = app.create_object(other, &json!({"on": host})).await;
        assert_eq!(app.patch(&format!("/types/{other}"), &json!({"active": false})).await.status, 202);
        let refused = app.delete(&format!("/objects/{host}?on_references=clear")).await.error(403, "type_inactive");
        let told = format!("object {guest} refers to this, and its type {other} is inactive; its objects can only be read");
        assert_eq!(refused["message"], told);
    }

    async fn unclean_objects_are_listed_and_cleaned(app) {
        let kind = app.create_type("kind", &[("old", "text"), ("kept", "text")]).await;
        let unclean = app.create_object(kind, &json!({"old": "x", "kept": "y"})).await;
        let changed = json!({
            "name": "kind", "author_id": 1,
            "fields": [{"type": "text", "name": "kept", "label": "K"}, {"type": "text", "name": "new", "label": "N", "value": "v"}],
        });
        app.put(&format!("/types/{kind}"), &changed).await;
        app.create_object(kind, &json!({"kept": "clean"})).await;
        let list = app.get(&format!("/objects/clean/{kind}")).await;
        assert_eq!(list.results("/public_id"), [json!(unclean)]);
        assert_eq!(list.json()["parameters"]["limit"], 10_000);
        let before = app.get(&format!("/objects/{unclean}/native")).await.json();
        let cleaned = app.put(&format!("/objects/clean/{kind}"), &json!({})).await;
        assert_eq!(cleaned.status, 202, "{}", cleaned.text);
        let body = cleaned.json();
        assert_eq!(values(&body["results"][0]), json!({"kept": "y", "new": "v"}));
        assert_eq!((&body["failed"], &body["response_type"]), (&json!([]), &json!("UPDATE")));
        let after = app.get(&format!("/objects/{unclean}/native")).await.json();
        assert_eq!((&after["version"], &after["last_edit_time"]), (&before["version"], &before["last_edit_time"]));
        assert_eq!(app.get(&format!("/objects/clean/{kind}")).await.json()["total"], 0);
        app.get("/objects/clean/99").await.error(404, "type_not_found");
    }

    async fn a_type_that_is_written_as_a_text_hides_no_other_error(app) {
        let kind = app.create_type("server", &[("units", "number")]).await;
        let body = json!({"type_id": kind.to_string(), "author_id": 77, "fields": [
            {"name": "unit", "value": 1}, {"name": "units", "value": "2"}]});
        let all = ["/type_id", "/fields/0/name", "/fields/1/value", "/author_id"];
        let answer = app.post("/objects/", &body).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), all);
        let of_bulk = app.post("/objects/bulk", &json!([body])).await.json()["results"][0].clone();
        assert_eq!(of_bulk["errors"].as_array().map(Vec::len), Some(all.len()), "{of_bulk}");
    }

    async fn objects_of_an_inactive_type_can_only_be_read(app) {
        let kind = app.create_type("kind", &[]).await;
        let id = app.create_object(kind, &json!({})).await;
        app.patch(&format!("/types/{kind}"), &json!({"active": false})).await;
        app.post("/objects/", &json!({"type_id": kind, "author_id": 1})).await.error(403, "type_inactive");
        app.put(&format!("/objects/{id}"), &json!({"author_id": 1})).await.error(403, "type_inactive");
        app.delete(&format!("/objects/{id}")).await.error(403, "type_inactive");
        assert_eq!(app.get(&format!("/objects/{id}")).await.status, 200);
    }

    async fn an_access_list_holds_for_administrators_too(app) {
        let open = app.create_type("open", &[]).await;
        let seen = app.create_object(open, &json!({})).await;
        let closed = app.create_type("closed", &[]).await;
        let hidden = app.create_object(closed, &json!({})).await;
        let acl = |permissions: Value| json!({"acl": {"activated": true, "groups": {"includes": {"1": permissions}}}});
        app.patch(&format!("/types/{closed}"), &acl(json!(["CREATE"]))).await;
        for path in [format!("/objects/{hidden}"), format!("/objects/{hidden}/native"), format!("/objects/{hidden}/references")] {
            app.get(&path).await.error(404, "object_not_found");
        }
        let list = app.get("/objects/").await;
        assert_eq!((list.results("/public_id"), &list.json()["total"]), (vec![json!(seen)], &json!(1)));
        assert_eq!(app.post("/objects/", &json!({"type_id": closed, "author_id": 1})).await.status, 200);
        app.put(&format!("/objects/{hidden}"), &json!({"author_id": 1})).await.error(404, "object_not_found");
        app.delete(&format!("/objects/{hidden}")).await.error(404, "object_not_found");
        let some = app.delete(&format!("/objects/{seen},{hidden}")).await;
        assert_eq!((some.status.as_u16(), &some.json()["not_found"]), (200, &json!([hidden])), "{}", some.text);
        app.patch(&format!("/types/{closed}"), &acl(json!(["READ"]))).await;
        assert_eq!(app.get(&format!("/objects/{hidden}")).await.status, 200);
        app.put(&format!("/objects/{hidden}"), &json!({"author_id": 1})).await.error(403, "acl_denied");
        app.delete(&format!("/objects/{hidden}")).await.error(403, "acl_denied");
        app.put(&format!("/objects/{hidden}/state"), &json!(true)).await.error(403, "acl_denied");
        let create = app.post("/objects/", &json!({"type_id": closed, "author_id": 1})).await;
        let message = create.error(403, "acl_denied")["message"].as_str().expect("a message").to_owned();
        assert!(message.contains("CREATE") && message.contains("closed"), "{message}");
    }

    async fn the_tags_of_both_views_guard_a_change(app) {
        let kind = app.create_type("kind", &[("colour", "text")]).await;
        let id = app.create_object(kind, &json!({"colour": "red"})).await;
        let path = format!("/objects/{id}");
        for view in [path.clone(), format!("{path}/native")] {
            let tag = app.get(&view).await.header("etag").to_owned();
            let known = send(app.request(Method::GET, &view).header("If-None-Match", &tag)).await;
            assert_eq!(known.status, 304, "{view}");
            let body = json!({"author_id": 1, "fields": fields(&json!({"colour": view}))});
            let first = send(app.request(Method::PUT, &path).header("If-Match", &tag).json(&body)).await;
            assert_eq!(first.status, 200, "{}", first.text);
            let second = send(app.request(Method::PUT, &path).header("If-Match", &tag).json(&body)).await;
            second.error(412, "precondition_failed");
            let other = send(app.request(Method::GET, &view).header("If-None-Match", &tag)).await;
            assert_eq!(other.status, 200, "{view}");
        }
    }

    async fn the_tag_of_a_rendered_view_changes_with_its_type(app) {
        let kind = app.create_type("kind", &[]).await;
        let id = app.create_object(kind, &json!({})).await;
        let before = app.get(&format!("/objects/{id}")).await.header("etag").to_owned();
        app.patch(&format!("/types/{kind}"), &json!({"label": "Another"})).await;
        let after = send(app.request(Method::GET, &format!("/objects/{id}")).header("If-None-Match", before)).await;
        assert_eq!(after.status, 200);
    }
}
