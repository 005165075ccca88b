//! Users' settings: docs/api.md, Settings of users.

use reqwest::Method;
use serde_json::json;

use super::people::Person;
use crate::support::app::{on_each_store, send};

on_each_store! {
    async fn a_setting_is_created_read_changed_and_deleted(app) {
        let body = json!({"identifier": "side bar/1", "setting_type": "APPLICATION", "payload": {"width": 3, "open": [1, null]}});
        let answer = app.post("/users/1/settings/", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let expected = json!({
            "identifier": "side bar/1", "user_id": 1, "payload": {"width": 3, "open": [1, null]}, "setting_type": "APPLICATION",
        });
        assert_eq!(answer.json()["result_id"], "side bar/1");
        assert_eq!((&answer.json()["raw"], &answer.json()["model"]), (&expected, &json!("UserSetting")));
        let place = answer.header("location").to_owned();
        assert!(place.ends_with("/rest/users/1/settings/side%20bar%2F1"), "{place}");
        let read = app.get(&place).await.json();
        assert_eq!((&read["results"], &read["response_type"]), (&json!([expected]), &json!("GET")));
        assert!(read.get("pager").is_none() && read.get("count").is_none());
        assert_eq!(app.get("/users/1/settings/").await.json()["results"], json!([expected]));
        let put = app.put(&place, &json!({"setting_type": "GLOBAL"})).await;
        assert_eq!((put.status.as_u16(), &put.json()["result"]["payload"]), (202, &json!({})));
        let patched = app.patch(&place, &json!({"payload": {"width": 5}})).await;
        assert_eq!(patched.json()["result"]["payload"], json!({"width": 5}));
        assert_eq!(patched.json()["result"]["setting_type"], "GLOBAL");
        let deleted = app.delete(&place).await;
        assert_eq!((deleted.status.as_u16(), &deleted.json()["deleted_entry"]["identifier"]), (202, &json!("side bar/1")));
        app.get(&place).await.error(404, "setting_not_found");
        app.put(&place, &json!({"setting_type": "GLOBAL"})).await.error(404, "setting_not_found");
        app.delete(&place).await.error(404, "setting_not_found");
    }

    async fn the_place_of_a_setting_encodes_no_more_than_it_must(app) {
        for (identifier, place) in [("table-view_1.x~", "table-view_1.x~"), ("a/b c", "a%2Fb%20c")] {
            let answer = app.post("/users/1/settings/", &json!({"identifier": identifier, "setting_type": "GLOBAL"})).await;
            assert_eq!(answer.header("location"), format!("{}/rest/users/1/settings/{place}", app.origin));
        }
    }

    async fn an_identifier_is_unique_per_user(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let body = json!({"identifier": "theme", "setting_type": "GLOBAL"});
        assert_eq!(app.post("/users/1/settings/", &body).await.status, 201);
        app.post("/users/1/settings/", &body).await.error(400, "setting_identifier_taken");
        assert_eq!(app.post(&format!("/users/{}/settings/", ada.id), &body).await.status, 201);
    }

    async fn everything_wrong_with_a_setting_is_named_at_once(app) {
        let answer = app.post("/users/1/settings/", &json!({"setting_type": "OTHER", "user_id": 2})).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/identifier", "/user_id", "/setting_type"]);
        let answer = app.post("/users/1/settings/", &json!({"identifier": "x", "setting_type": "SERVER", "payload": 1})).await;
        assert_eq!((answer.error(400, "validation_failed"), answer.pointers()).1, ["/payload"]);
        let evil = json!({"identifier": "x", "setting_type": "SERVER", "payload": {"a": {"$where": 1}}});
        assert_eq!(app.post("/users/1/settings/", &evil).await.status, 400);
        app.post("/users/1/settings/", &json!({"identifier": "x", "setting_type": "SERVER"})).await;
        app.put("/users/1/settings/x", &json!({"identifier": "y", "setting_type": "SERVER"})).await.error(400, "validation_failed");
    }

    async fn settings_of_an_unknown_user_are_404(app) {
        let body = json!({"identifier": "theme", "setting_type": "GLOBAL"});
        app.get("/users/99/settings/").await.error(404, "user_not_found");
        app.get("/users/99/settings/theme").await.error(404, "user_not_found");
        app.post("/users/99/settings/", &body).await.error(404, "user_not_found");
        app.put("/users/99/settings/theme", &body).await.error(404, "user_not_found");
        app.delete("/users/99/settings/theme").await.error(404, "user_not_found");
    }

    async fn settings_are_for_the_user_himself_or_who_may_manage_users(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let viewer = Person::with_rights(app, "viewer", &["base.user-management.user.view"]).await;
        let own = format!("/users/{}/settings/", ada.id);
        let body = json!({"identifier": "theme", "setting_type": "GLOBAL"});
        assert_eq!(ada.send(app, Method::POST, &own, &body).await.status, 201);
        assert_eq!(ada.get(app, &own).await.results("/identifier"), ["theme"]);
        ada.get(app, "/users/1/settings/").await.error(403, "right_missing");
        assert_eq!(viewer.get(app, &own).await.status, 200);
        viewer.send(app, Method::POST, &own, &body).await.error(403, "right_missing");
        viewer.delete(app, &format!("{own}theme")).await.error(403, "right_missing");
        assert_eq!(send(ada.request(app, Method::HEAD, &own)).await.status, 200);
        assert_eq!(ada.delete(app, &format!("{own}theme")).await.status, 202);
    }
}
