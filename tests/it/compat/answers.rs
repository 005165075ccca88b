//! Answers as DATAGERRY's clients read them.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, filtered, get, of, on_each_compatible_store, send, web_created, web_object, web_type};

on_each_compatible_store! {
    async fn a_moment_of_the_past_has_the_fields_of_its_types(app) {
        let type_id = web_type(app).await;
        let id = web_created(app, type_id, "a").await;
        let then = get(app, "/logs/?sort=-sequence&limit=1").await.body["results"][0]["sequence"].clone();
        let mut changed = get(app, &format!("/types/{type_id}")).await.body["result"].clone();
        changed["fields"][0]["helperText"] = json!("Other help");
        changed["fields"][2]["value"] = json!(false);
        let answer = send(app, Method::PUT, &format!("/types/{type_id}"), &changed).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        for (at, help, default) in [(String::new(), "Other help", false), (format!("&at={then}"), "Help", true)] {
            let list = get(app, &format!("/objects/?view=render&filter={{\"public_id\":{id}}}{at}")).await.body;
            let one = get(app, &format!("/object/{id}{}", at.replace('&', "?"))).await.body;
            for view in [&list["results"][0], &one] {
                assert_eq!((&view["fields"][0]["helperText"], &view["fields"][2]["default"]), (&json!(help), &json!(default)));
            }
        }
        // Conditions are a filter, and so look at any moment; other stages read the present alone.
        let renamed = json!({"fields": [{"name": "text-66398", "value": "b"}]});
        assert_eq!(send(app, Method::PATCH, &format!("/object/{id}"), &renamed).await.status, 202);
        let text = json!({"fields": {"$elemMatch": {"name": "text-66398", "value": "a"}}});
        let then = then.to_string();
        let at = ("at", then.as_str());
        let found = filtered(app, "/objects/", &json!([{"$match": text}]), &[at]).await;
        assert_eq!(found["total"], 1);
        for path in ["/objects/", "/types/", "/categories/", "/objects/1/references"] {
            let stages = json!([{"$match": {}}, {"$addFields": {"a": 1}}]).to_string();
            let refused = ask(app.request(Method::GET, path).query(&[("filter", stages.as_str()), at])).await;
            assert_eq!((refused.status, &refused.body["code"]), (400, &json!("parameter_invalid")), "{path}: {}", refused.body);
            let told = refused.body["message"].as_str().expect("a message");
            assert!(told.contains("a pipeline reads the present"), "{path}: {told}");
        }
    }

    async fn the_service_says_what_it_is(app) {
        let answer = get(app, "/").await.body;
        assert_eq!((&answer["title"], &answer["connected"]), (&json!("DATAGERRY"), &json!(true)));
        assert_eq!(answer["name"], "inventory-service");
    }

    async fn rendered_objects_have_their_parts_at_the_top(app) {
        let type_id = web_type(app).await;
        let id = web_created(app, type_id, "one").await;
        let single = get(app, &format!("/object/{id}")).await.body;
        let list = get(app, "/objects/?view=render").await.body["results"][0].take();
        for view in [single, list] {
            assert_eq!(view["summary_line"], "one");
            assert_eq!(view["sections"], view["type_information"]["sections"]);
            assert_eq!((view["summaries"].as_array().map(Vec::len), &view["externals"]), (Some(1), &json!([])));
            let fields = view["fields"].as_array().expect("fields");
            assert_eq!((&fields[0]["required"], &fields[0]["helperText"]), (&json!(true), &json!("Help")));
            assert_eq!((&fields[2]["default"], &fields[2]["value"]), (&json!(true), &json!(false)));
            assert_eq!(fields[3]["options"].as_array().map(Vec::len), Some(2));
            assert_eq!(fields[4]["summaries"][0]["line"], "Ref: {}");
            assert_eq!((&view["summaries"][0]["required"], &view["summaries"][0]["helperText"]), (&json!(true), &json!("Help")));
        }
        let native = get(app, "/objects/?view=native").await.body["results"][0].take();
        assert!(native.get("summary_line").is_none());
    }

    async fn dates_are_text_in_lists_and_can_be_sent_back_from_one_object(app) {
        let type_id = web_type(app).await;
        let mut body = web_object(type_id, "one");
        body["fields"][1]["value"] = json!({"$date": 1_600_000_000_000_i64});
        let id = send(app, Method::POST, "/objects/", &body).await.body.as_i64().expect("the bare id");
        let text = "2020-09-13T12:26:40";
        for (path, time, value) in [
            ("/objects/?view=native", "/results/0/creation_time", "/results/0/fields/1/value"),
            ("/objects/?view=render", "/results/0/object_information/creation_time", "/results/0/fields/1/value"),
            ("/objects/?view=render&limit=0", "/results/0/type_information/creation_time", "/results/0/type_information/fields/1/value"),
        ] {
            let list = get(app, path).await.body;
            assert_eq!(list.pointer(value), Some(&json!(text)), "{path}: {list}");
            assert!(list.pointer(time).and_then(Value::as_str).is_some_and(|time| time.contains('T')), "{path}: {list}");
        }
        for (path, time) in [("", "/object_information/creation_time/$date"), ("/native", "/creation_time/$date")] {
            let one = get(app, &format!("/object/{id}{path}")).await.body;
            assert_eq!(one["fields"][1]["value"]["$date"], 1_600_000_000_000_i64);
            assert!(one.pointer(time).is_some_and(Value::is_i64), "{one}");
        }
        // What lists show is taken, too.
        let listed = get(app, "/objects/?view=native").await.body["results"][0].clone();
        let changed = send(app, Method::PUT, &format!("/object/{id}"), &listed).await;
        assert_eq!((changed.status, &changed.body["result"]["fields"][1]["value"]), (202, &json!(text)), "{}", changed.body);
        assert_eq!(get(app, &format!("/object/{id}")).await.body["fields"][1]["value"]["$date"], 1_600_000_000_000_i64);
        let users = get(app, "/users/").await.body;
        assert!(users["results"][0]["registration_time"].as_str().is_some_and(|time| time.as_bytes()[10] == b'T'), "{users}");
    }

    async fn types_name_nobody_as_null(app) {
        let type_id = app.create_type("location", &[("name", "text")]).await;
        let one = get(app, &format!("/types/{type_id}")).await.body["result"].clone();
        let list = get(app, "/types/").await.body["results"][0].clone();
        for object_type in [one, list] {
            assert_eq!((object_type.get("editor_id"), object_type.get("last_edit_time")), (Some(&Value::Null), Some(&Value::Null)));
        }
    }

    async fn sections_of_other_objects_are_at_their_field(app) {
        let place = json!({
            "name": "place", "author_id": 1,
            "fields": [{"type": "text", "name": "city", "label": "City"}, {"type": "text", "name": "room", "label": "Room"}],
            "render_meta": {"sections": [{"type": "section", "name": "address", "label": "Address", "fields": ["city", "room"]}]},
        });
        let place = app.created("/types/", &place).await;
        let desk = json!({
            "name": "desk", "author_id": 1,
            "fields": [{"type": "ref-section-field", "name": "place-field", "label": "Place", "ref_types": [place]}],
            "render_meta": {"sections": [{
                "type": "ref-section", "name": "place", "label": "Place", "fields": ["place-field"],
                "reference": {"type_id": place, "section_name": "address", "selected_fields": ["city"]},
            }]},
        });
        let desk = app.created("/types/", &desk).await;
        let berlin = app.create_object(place, &json!({"city": "Berlin", "room": "7"})).await;
        let ids = [app.create_object(desk, &json!({"place-field": berlin})).await, app.create_object(desk, &json!({})).await];
        for (id, value) in ids.into_iter().zip([json!("Berlin"), Value::Null]) {
            let references = get(app, &format!("/object/{id}")).await.body["fields"][0]["references"].take();
            assert_eq!((&references["type_id"], &references["type_label"]), (&json!(place), &json!("Place")));
            assert_eq!(references["fields"], json!([{"type": "text", "name": "city", "label": "City", "value": value}]));
        }
    }

    async fn a_projection_of_rendered_objects_sees_what_clients_see(app) {
        let type_id = web_type(app).await;
        web_created(app, type_id, "one").await;
        let projection = "projection=%7B%22summary_line%22:1,%22object_information.object_id%22:1%7D";
        let list = get(app, &format!("/objects/?view=render&{projection}")).await.body;
        assert_eq!(list["results"], json!([{"object_information": {"object_id": 1}, "summary_line": "one"}]));
        assert_eq!(get(app, "/objects/?view=render&projection=%7B").await.status, 400);
    }

    async fn a_long_list_is_translated_while_it_is_sent(app) {
        let type_id = web_type(app).await;
        let objects: Vec<Value> = (0..1200)
            .map(|number| json!({"type_id": type_id, "author_id": 1, "fields": [{"name": "text-66398", "value": format!("}}\"{number}")}]}))
            .collect();
        assert_eq!(send(app, Method::POST, "/objects/bulk", &json!(objects)).await.status, 200);
        let list = get(app, "/objects/?view=render&limit=0").await.body;
        let lines: Vec<Value> = (0..1200).map(|number| json!(format!("}}\"{number}"))).collect();
        assert_eq!(of(&list, "/summary_line"), lines);
        assert_eq!((&list["count"], &list["total"]), (&json!(1200), &json!(1200)));
    }

    async fn writes_of_objects_answer_in_their_shapes(app) {
        let type_id = web_type(app).await;
        let ids = [web_created(app, type_id, "a").await, web_created(app, type_id, "b").await, web_created(app, type_id, "c").await];
        let deleted = ask(app.request(Method::DELETE, &format!("/object/{}", ids[0]))).await;
        assert_eq!((deleted.status, deleted.body), (200, json!(true)));
        let deleted = ask(app.request(Method::DELETE, &format!("/object/delete/{},{}", ids[1], ids[2]))).await;
        assert_eq!((deleted.status, &deleted.body["successfully"]), (200, &json!([true, true])));
        let id = web_created(app, type_id, "d").await;
        let state = send(app, Method::PUT, &format!("/object/{id}/state"), &json!(false)).await;
        assert_eq!((state.status, &state.body["failed"], &state.body["result"]["active"]), (202, &Value::Null, &json!(false)));
        let same = send(app, Method::PUT, &format!("/object/{id}/state"), &json!(false)).await;
        assert_eq!((same.status, same.body), (204, json!("")));
        let plural = ask(app.request(Method::DELETE, &format!("/objects/{id}"))).await;
        assert_eq!((plural.status, &plural.body["raw"]["public_id"]), (200, &json!(id)));
        assert_eq!(plural.body["deleted_entry"], plural.body["raw"]);
    }

    async fn a_type_goes_with_its_objects(app) {
        let type_id = web_type(app).await;
        let id = web_created(app, type_id, "a").await;
        let deleted = ask(app.request(Method::DELETE, &format!("/types/{type_id}"))).await;
        assert_eq!((deleted.status, &deleted.body["raw"]["name"]), (202, &json!("web-type")));
        assert_eq!(get(app, &format!("/object/{id}")).await.status, 404);
    }

    async fn a_group_goes_with_its_name(app) {
        let body = json!({"name": "web-group", "label": "Web", "rights": ["base.framework.object.view"]});
        let id = send(app, Method::POST, "/groups/", &body).await.body["result_id"].clone();
        let change = json!({"public_id": id, "name": "web-group", "label": "Web 2", "rights": ["base.framework.object.view"]});
        let changed = send(app, Method::PUT, &format!("/groups/{id}"), &change).await;
        assert_eq!((changed.status, changed.body.get("failed")), (202, Some(&Value::Null)));
        let deleted = ask(app.request(Method::DELETE, &format!("/groups/{id}?action=MOVE&group_id=2"))).await;
        assert_eq!((deleted.status, &deleted.body["raw"]["name"]), (202, &json!("web-group")));
    }
}
