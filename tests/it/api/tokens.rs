//! Tokens for machines.

use inventory_service::query::{Filter, Update};
use inventory_service::store::collections::TOKENS;
use inventory_service::store::{Change, FindQuery, Unit};
use reqwest::Method;
use serde_json::json;

use super::people::{PASSWORD, Person};
use crate::support::app::{Answer, TestApp, on_each_store, send};

async fn get(app: &TestApp, token: &str, path: &str) -> Answer {
    send(app.anonymous(Method::GET, path).bearer_auth(token)).await
}

async fn create(app: &TestApp, person: &Person, body: &serde_json::Value) -> (i64, String) {
    let answer = person.send(app, Method::POST, &format!("/users/{}/tokens/", person.id), body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let body = answer.json();
    (body["result_id"].as_i64().expect("an id"), body["token"].as_str().expect("a token").to_owned())
}

on_each_store! {
    async fn a_token_is_shown_once_and_opens_what_it_was_given(app) {
        let ada = Person::with_rights(app, "ada", &["base.framework.*"]).await;
        let body = json!({"name": "backup", "rights": ["base.framework.type.view"]});
        let (id, token) = create(app, &ada, &body).await;
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        let refused = get(app, &token, "/objects/").await.error(403, "right_missing");
        let told = "this needs the right base.framework.object.view, which your group holds, but this token was made without it";
        assert_eq!(refused["message"], told);
        let list = ada.get(app, &format!("/users/{}/tokens/", ada.id)).await;
        assert_eq!(list.results("/public_id"), [id]);
        assert_eq!(list.results("/name"), ["backup"]);
        assert!(list.results("/last_used_at")[0].is_string() && list.results("/expires_at")[0].is_string());
        assert!(!list.text.contains(&token) && !list.text.contains("hash"), "{}", list.text);
        let stored = app.store.find(TOKENS, &FindQuery::new(Filter::all(), std::time::Duration::from_secs(10))).await;
        assert!(!format!("{:?}", stored.expect("documents").first()).contains(&token));
    }

    async fn a_token_never_has_more_rights_than_its_user(app) {
        let ada = Person::with_rights(app, "ada", &["base.framework.type.view"]).await;
        let path = format!("/users/{}/tokens/", ada.id);
        let more = json!({"name": "more", "rights": ["base.framework.type.edit"]});
        ada.send(app, Method::POST, &path, &more).await.error(403, "rights_exceeded");
        let (_, token) = create(app, &ada, &json!({"name": "all of mine"})).await;
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        app.patch(&format!("/groups/{}", ada.group_id), &json!({"rights": []})).await;
        let refused = get(app, &token, "/types/").await.error(403, "right_missing");
        assert_eq!(refused["message"], "this needs the right base.framework.type.view, which your group does not hold");
    }

    async fn a_token_does_not_do_what_users_may_do_to_themselves(app) {
        let ada = Person::with_rights(app, "ada", &["base.framework.type.view"]).await;
        let (_, token) = create(app, &ada, &json!({"name": "backup"})).await;
        let own = format!("/users/{}", ada.id);
        assert_eq!(get(app, &token, &own).await.status, 200);
        for (method, path, body) in [
            (Method::PATCH, own.clone(), json!({"email": "a@b.c"})),
            (Method::PATCH, format!("{own}/password"), json!({"password": "taken over"})),
            (Method::POST, format!("{own}/tokens/"), json!({"name": "another"})),
            (Method::POST, format!("{own}/settings/"), json!({"identifier": "a", "setting_type": "GLOBAL"})),
        ] {
            let request = app.anonymous(method, &path).bearer_auth(&token).json(&body);
            send(request).await.error(403, "right_missing");
        }
    }

    async fn a_revoked_token_is_out_at_once(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let (id, token) = create(app, &ada, &json!({"name": "backup"})).await;
        assert_eq!(get(app, &token, "/rights/levels").await.status, 200);
        let path = format!("/users/{}/tokens/{id}", ada.id);
        let deleted = ada.delete(app, &path).await;
        assert_eq!((deleted.status.as_u16(), &deleted.json()["deleted_entry"]["name"]), (202, &json!("backup")));
        get(app, &token, "/rights/levels").await.error(401, "token_invalid");
        ada.delete(app, &path).await.error(404, "token_not_found");
        let by_name = ada.delete(app, &format!("/users/{}/tokens/backup", ada.id)).await.error(404, "not_found");
        let told = "there is nothing under \"backup\": ids are whole numbers from 1; the list of tokens has them";
        assert_eq!(by_name["message"], told);
    }

    async fn a_token_ends_with_its_time_and_with_its_user(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let (id, short) = create(app, &ada, &json!({"name": "short"})).await;
        let (_, long) = create(app, &ada, &json!({"name": "long", "expires_at": "2999-01-01T00:00:00"})).await;
        assert_eq!(get(app, &short, "/rights/levels").await.status, 200);
        let over = Update::set("expires_at", bson::DateTime::from_millis(0));
        let change = Change::UpdateMany { collection: TOKENS, filter: Filter::equals("public_id", id), update: over };
        app.store.commit(Unit::of(change)).await.expect("a change");
        get(app, &short, "/rights/levels").await.error(401, "token_expired");
        get(app, &short[..short.len() - 1], "/rights/levels").await.error(401, "token_invalid");
        assert_eq!(get(app, &long, "/rights/levels").await.status, 200);
        app.patch(&format!("/users/{}", ada.id), &json!({"active": false})).await;
        get(app, &long, "/rights/levels").await.error(401, "token_invalid");
    }

    async fn a_token_survives_a_new_password(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let (_, token) = create(app, &ada, &json!({"name": "backup"})).await;
        app.patch(&format!("/users/{}/password", ada.id), &json!({"password": "another password"})).await;
        assert_eq!(get(app, &token, "/rights/levels").await.status, 200);
    }

    async fn tokens_are_named_once_per_user_and_end_in_the_future(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let path = format!("/users/{}/tokens/", ada.id);
        create(app, &ada, &json!({"name": "backup"})).await;
        ada.send(app, Method::POST, &path, &json!({"name": "backup"})).await.error(400, "token_name_taken");
        let past = ada.send(app, Method::POST, &path, &json!({"name": "a", "expires_at": "2001-01-01T00:00:00"})).await;
        assert_eq!((past.error(400, "validation_failed"), past.pointers()).1, ["/expires_at"]);
        app.post("/users/99/tokens/", &json!({"name": "a"})).await.error(404, "user_not_found");
        ada.get(app, "/users/1/tokens/").await.error(403, "right_missing");
        get(app, "inventory_nonsense", "/types/").await.error(401, "token_invalid");
        assert_eq!(app.login("ada", PASSWORD).await.split('.').count(), 3);
    }
}
