//! Groups: docs/api.md, Groups.

use reqwest::Method;
use serde_json::json;

use super::people::{PASSWORD, Person};
use crate::support::app::{on_each_store, send};

on_each_store! {
    async fn a_created_group_has_its_rights_expanded_everywhere(app) {
        let rights = json!(["base.system.view", "base.framework.object.*"]);
        let answer = app.post("/groups/", &json!({"name": "night shift", "rights": rights})).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let id = answer.json()["result_id"].as_i64().expect("an id");
        assert_eq!(answer.header("location"), format!("{}/rest/groups/{id}", app.origin));
        let record = json!({
            "level": 50, "name": "base.system.view", "label": "system.view",
            "description": "Read the state and the settings of the service.", "is_master": false,
        });
        let path = format!("/groups/{id}");
        let raw = answer.json()["raw"].clone();
        assert_eq!((&raw["label"], &raw["rights"][0]), (&json!("Night Shift"), &record));
        assert_eq!(app.get(&path).await.json()["result"], raw);
        assert_eq!(app.get("/groups/").await.json()["results"][2], raw);
        let updated = app.patch(&path, &json!({"label": "Night"})).await;
        assert_eq!((updated.status.as_u16(), &updated.json()["result"]["rights"]), (202, &raw["rights"]));
        assert_eq!(app.delete(&path).await.json()["deleted_entry"]["rights"], raw["rights"]);
    }

    async fn what_was_read_can_be_sent_back(app) {
        let read = app.get("/groups/2").await.json()["result"].clone();
        let answer = app.put("/groups/2", &read).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["result"]), (202, &read));
    }

    async fn everything_wrong_with_a_group_is_named_at_once(app) {
        let answer = app.post("/groups/", &json!({"name": "", "rights": ["base.system.view", "base.nothing"]})).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/name", "/rights/1"]);
        app.post("/groups/", &json!({"rights": []})).await.error(400, "validation_failed");
        app.post("/groups/", &json!({"name": "admin"})).await.error(400, "group_name_taken");
    }

    async fn nobody_gives_rights_that_he_does_not_hold(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.group.*", "base.system.view"]).await;
        let body = json!({"name": "lifted", "rights": ["base.system.view", "base.system.edit", "base.*"]});
        let error = clerk.send(app, Method::POST, "/groups/", &body).await.error(403, "rights_exceeded");
        let message = error["message"].as_str().expect("a message");
        assert!(message.ends_with("base.system.edit, base.*"), "{message}");
        let own = format!("/groups/{}", clerk.group_id);
        let lift = json!({"rights": ["base.*"]});
        clerk.send(app, Method::PATCH, &own, &lift).await.error(403, "rights_exceeded");
        clerk.send(app, Method::PATCH, "/groups/2", &json!({"rights": ["base.system.*"]})).await.error(403, "rights_exceeded");
        let label = clerk.send(app, Method::PATCH, "/groups/1", &json!({"label": "The few"})).await;
        assert_eq!(label.status, 202, "{}", label.text);
        let fewer = clerk.send(app, Method::PATCH, "/groups/2", &json!({"rights": ["base.framework.object.view"]})).await;
        assert_eq!(fewer.status, 202, "{}", fewer.text);
    }

    async fn the_administrators_keep_every_right(app) {
        app.patch("/groups/1", &json!({"rights": ["base.framework.*"]})).await.error(400, "validation_failed");
    }

    async fn a_change_of_rights_counts_at_the_next_request(app) {
        let ada = Person::with_rights(app, "ada", &["base.framework.type.view"]).await;
        assert_eq!(ada.get(app, "/types/").await.status, 200);
        app.patch(&format!("/groups/{}", ada.group_id), &json!({"rights": []})).await;
        let error = ada.get(app, "/types/").await.error(403, "right_missing");
        assert!(error["message"].as_str().expect("a message").contains("base.framework.type.view"));
    }

    async fn the_first_two_groups_cannot_be_deleted(app) {
        for id in [1, 2] {
            app.delete(&format!("/groups/{id}?action=MOVE&group_id=1")).await.error(400, "group_stays");
        }
    }

    async fn a_group_with_users_needs_an_action_that_can_be_carried_out(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let path = format!("/groups/{}", ada.group_id);
        let refused = app.delete(&path).await.error(400, "group_has_users");
        let expected = format!("group {} has 1 user; say action=MOVE with group_id, or action=DELETE", ada.group_id);
        assert_eq!(refused["message"], expected.as_str());
        app.delete(&format!("{path}?action=MOVE")).await.error(400, "parameter_invalid");
        app.delete(&format!("{path}?action=MOVE&group_id={}", ada.group_id)).await.error(400, "group_to_move_to");
        app.delete(&format!("{path}?action=MOVE&group_id=99")).await.error(400, "group_to_move_to");
        app.delete(&format!("{path}?action=FORGET")).await.error(400, "parameter_invalid");
        app.delete(&format!("{path}?act=MOVE")).await.error(400, "parameter_invalid");
        assert_eq!(app.get(&format!("/users/{}", ada.id)).await.json()["result"]["group_id"], ada.group_id);
        app.delete("/groups/99?action=DELETE").await.error(404, "group_not_found");
    }

    async fn users_move_with_the_deletion(app) {
        let ada = Person::with_rights(app, "ada", &["base.system.view"]).await;
        let answer = app.delete(&format!("/groups/{}?action=MOVE&group_id=2", ada.group_id)).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        assert_eq!(ada.get(app, &format!("/users/{}", ada.id)).await.json()["result"]["group_id"], 2);
        app.get(&format!("/groups/{}", ada.group_id)).await.error(404, "group_not_found");
    }

    async fn users_are_deleted_with_the_group(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let answer = app.delete(&format!("/groups/{}?action=DELETE", ada.group_id)).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        app.get(&format!("/users/{}", ada.id)).await.error(404, "user_not_found");
        ada.get(app, "/rights/levels").await.error(401, "token_invalid");
        app.created("/users/", &json!({"user_name": "ADA", "password": PASSWORD})).await;
    }

    async fn nobody_deletes_himself_with_his_group_or_moves_users_above_himself(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.*"]).await;
        let own = format!("/groups/{}", clerk.group_id);
        clerk.delete(app, &format!("{own}?action=DELETE")).await.error(400, "own_user_stays");
        clerk.delete(app, &format!("{own}?action=MOVE&group_id=1")).await.error(403, "rights_exceeded");
        assert_eq!(clerk.get(app, "/groups/").await.status, 200);
    }

    async fn users_and_their_group_never_part(app) {
        for round in 0..5 {
            let group = app.created("/groups/", &json!({"name": format!("group{round}")})).await;
            let path = format!("/groups/{group}");
            let joins = (0..4).map(|number| {
                let user = json!({"user_name": format!("u{round}-{number}"), "password": PASSWORD, "group_id": group});
                async move { app.post("/users/", &user).await }
            });
            let (joined, deleted) = tokio::join!(futures::future::join_all(joins), app.delete(&path));
            let members = app.get_with("/users/", &[("filter", &format!(r#"{{"group_id": {group}}}"#))]).await;
            let there = app.get(&path).await.status == 200;
            let accepted = joined.iter().filter(|answer| answer.status == 201).count() as u64;
            assert_eq!(members.json()["total"], accepted);
            assert!(there || accepted == 0, "{} {}", deleted.text, members.text);
        }
    }

    async fn a_stale_tag_is_refused(app) {
        let tag = app.get("/groups/2").await.header("etag").to_owned();
        let patch = |label: &str| app.request(Method::PATCH, "/groups/2").header("If-Match", &tag).json(&json!({"label": label}));
        assert_eq!(send(patch("a")).await.status, 202);
        send(patch("b")).await.error(412, "precondition_failed");
    }

    async fn a_group_above_the_caller_keeps_its_rights(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.group.*"]).await;
        let auditors = app.created("/groups/", &json!({"name": "auditors", "rights": ["base.system.*"]})).await;
        let path = format!("/groups/{auditors}");
        for rights in [json!([]), json!(["base.user-management.group.view"])] {
            clerk.send(app, Method::PATCH, &path, &json!({"rights": rights})).await.error(403, "rights_exceeded");
        }
        let label = json!({"label": "Auditors of the house", "rights": ["base.system.*"]});
        assert_eq!(clerk.send(app, Method::PATCH, &path, &label).await.status, 202);
        // Settings and commands place users by the name of a group.
        let name = json!({"name": "clerks-of-the-house"});
        clerk.send(app, Method::PATCH, &path, &name).await.error(403, "rights_exceeded");
        let own = format!("/groups/{}", clerk.group_id);
        assert_eq!(clerk.send(app, Method::PATCH, &own, &name).await.status, 202);
    }
}
