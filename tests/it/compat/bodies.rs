//! Bodies as DATAGERRY's clients send them.

use reqwest::Method;
use serde_json::{Value, json};

use super::{COMPATIBLE, get, on_each_compatible_store, send, web_created, web_object, web_type};
use crate::support::app::TestApp;

on_each_compatible_store! {
    async fn empty_dates_selects_and_references_are_null(app) {
        let type_id = web_type(app).await;
        let id = web_created(app, type_id, "x").await;
        let native = get(app, &format!("/object/{id}/native")).await.body;
        let values: Vec<&Value> = native["fields"].as_array().expect("fields").iter().map(|field| &field["value"]).collect();
        assert_eq!(values, [&json!("x"), &Value::Null, &json!(false), &Value::Null, &Value::Null]);
    }

    async fn an_object_is_sent_back_as_it_was_read_with_times_in_any_form(app) {
        let type_id = web_type(app).await;
        let id = web_created(app, type_id, "one").await;
        let mut body = get(app, &format!("/object/{id}/native")).await.body;
        body["status"] = Value::Null;
        body["creation_time"] = json!("Tue, 24 Nov 2026 10:00:00 GMT");
        body["comment"] = json!("changed");
        body["fields"][0]["value"] = json!("edited");
        body["fields"][3]["value"] = json!("");
        let answer = send(app, Method::PUT, &format!("/object/{id}"), &body).await;
        assert_eq!(answer.status, 202, "{}", answer.body);
        assert_eq!(answer.body["failed"], json!([]));
        assert_eq!(answer.body["results"][0]["fields"][0]["value"], "edited");
        let mut unknown = web_object(type_id, "x");
        unknown["fields"][0]["name"] = json!("no-such-field");
        assert_eq!(send(app, Method::POST, "/object/", &unknown).await.status, 400);
    }

    async fn the_value_of_a_field_of_a_type_has_the_kind_of_its_field(app) {
        let type_id = web_type(app).await;
        let mut record = get(app, &format!("/types/{type_id}")).await.body["result"].take();
        assert_eq!(record["fields"][2]["value"], true);
        record["label"] = json!("Web type 2");
        record["creation_time"] = json!("2026-11-22T23:32:33.622000");
        record["version"] = Value::Null;
        let answer = send(app, Method::PUT, &format!("/types/{type_id}"), &record).await;
        assert_eq!((answer.status, &answer.body["result"]["fields"][2]["value"]), (202, &json!(true)));
        assert_eq!(answer.body["failed"], Value::Null);
        let object = json!({"type_id": type_id, "author_id": 1, "fields": [{"name": "text-66398", "value": "a"}]});
        let id = send(app, Method::POST, "/object/", &object).await.body;
        let native = get(app, &format!("/object/{id}/native")).await.body;
        assert_eq!(native["fields"][2], json!({"name": "checkbox-92158", "value": true}));
    }

    async fn a_setting_has_a_resource_and_payloads(app) {
        let body = json!({
            "setting_type": "APPLICATION", "resource": "framework-object", "user_id": 1,
            "payloads": [{"id": "table-objects", "tableStates": []}],
        });
        let answer = send(app, Method::POST, "/users/1/settings/", &body).await;
        assert_eq!((answer.status, &answer.body["result_id"]), (201, &json!("framework-object")));
        assert_eq!(answer.body["raw"]["payloads"], body["payloads"]);
        let list = get(app, "/users/1/settings/").await.body;
        assert_eq!((&list["results"][0]["resource"], &list["results"][0]["payloads"]), (&body["resource"], &body["payloads"]));
        let path = "/users/1/settings/framework-object";
        assert_eq!(get(app, path).await.body["result"]["resource"], "framework-object");
        let mut changed = body.clone();
        changed["payloads"] = json!([]);
        let answer = send(app, Method::PUT, path, &changed).await;
        assert_eq!((answer.status, &answer.body["result"]["payloads"]), (202, &json!([])));
        let answer = super::ask(app.request(Method::DELETE, path)).await;
        assert_eq!((answer.status, &answer.body["raw"]["resource"]), (202, &json!("framework-object")));
    }

    async fn users_groups_and_categories_take_what_was_read(app) {
        let user = json!({
            "user_name": "web-user", "email": "", "password": "web-user-password", "first_name": null,
            "last_name": null, "authenticator": "LocalAuthenticationProvider", "group_id": 2, "image": null,
        });
        let created = send(app, Method::POST, "/users/", &user).await;
        assert_eq!(created.status, 201, "{}", created.body);
        let path = format!("/users/{}", created.body["result_id"]);
        let mut record = get(app, &path).await.body["result"].take();
        record["registration_time"] = json!("2026-11-22T23:32:44.818000");
        record["first_name"] = json!("Web");
        assert_eq!(send(app, Method::PUT, &path, &record).await.status, 202);
        app.login("web-user", "web-user-password").await;
        let category = json!({"name": "web", "label": "", "meta": {"icon": null, "order": null}, "parent": null, "types": []});
        let created = send(app, Method::POST, "/categories/", &category).await;
        assert_eq!(created.status, 201, "{}", created.body);
    }

    async fn broken_bodies_are_refused_as_ever(app) {
        let type_id = web_type(app).await;
        for body in ["", "{", "[1]", "{\"type_id\": 1, \"type_id\": 2}"] {
            let request = app.request(Method::POST, "/object/").header("content-type", "application/json");
            let answer = super::ask(request.body(body)).await;
            assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        }
        let large = web_object(type_id, &"x".repeat(2 * 1024 * 1024));
        assert_eq!(send(app, Method::POST, "/object/", &large).await.status, 413);
        let plain = app.request(Method::POST, "/object/").header("content-type", "text/plain").body("{}");
        assert_eq!(super::ask(plain).await.status, 415);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_may_be_as_short_as_the_setting_says() {
    let app = TestApp::embedded_with(&[COMPATIBLE, ("auth.min_password_length", "4")]).await;
    let user = |name: &str, password: &str| json!({"user_name": name, "group_id": 1, "password": password});
    assert_eq!(send(&app, Method::POST, "/users/", &user("test", "test")).await.status, 201);
    assert_eq!(send(&app, Method::POST, "/users/", &user("other", "abc")).await.status, 400);
    app.login("test", "test").await;
}
