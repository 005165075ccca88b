//! Users: docs/api.md, Users.

use bson::{Document, doc};
use inventory_service::domain::document::raw;
use inventory_service::store::collections::{CREDENTIALS, SETTINGS, USERS};
use inventory_service::store::{Change, FindQuery, Unit};
use reqwest::Method;
use serde_json::{Value, json};

use super::people::{PASSWORD, Person};
use crate::support::app::{ADMIN_PASSWORD, TestApp, on_each_store, send};

const MASK: &str = "{argon2id}********";
const EDIT: &str = "base.user-management.user.edit";

async fn stored(app: &TestApp, collection: &str) -> Vec<Document> {
    let all = FindQuery::new(inventory_service::query::Filter::all(), std::time::Duration::from_secs(10));
    let found = app.store.find(collection, &all).await.expect("documents");
    found.iter().map(|document| Document::try_from(document).expect("a document")).collect()
}

async fn can_sign_in(app: &TestApp, user_name: &str, password: &str) -> bool {
    let body = json!({"user_name": user_name, "password": password});
    send(app.anonymous(Method::POST, "/auth/login").json(&body)).await.status == 200
}

on_each_store! {
    async fn a_created_user_gets_the_defaults_and_a_mask(app) {
        let body = json!({"user_name": "Ada", "password": PASSWORD, "registration_time": "2001-01-01"});
        let answer = app.post("/users/", &body).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let body = answer.json();
        let id = body["result_id"].as_i64().expect("an id");
        assert_eq!(answer.header("location"), format!("{}/rest/users/{id}", app.origin));
        assert_eq!((&body["response_type"], &body["model"]), (&json!("INSERT"), &json!("User")));
        let mut raw = body["raw"].clone();
        let registered = raw["registration_time"].take();
        let registered = registered.as_str().expect("a time");
        assert!(registered.len() == 26 && registered.as_bytes()[10] == b' ' && !registered.starts_with("2001"));
        let expected = json!({
            "public_id": id, "user_name": "Ada", "active": true, "group_id": 2, "registration_time": null,
            "authenticator": "LocalAuthenticationProvider", "email": null, "password": MASK, "image": null,
            "first_name": null, "last_name": null,
        });
        assert_eq!(raw, expected);
        assert_eq!(body["time"].as_str().map(|time| (time.len(), time.as_bytes()[10])), Some((26, b' ')));
    }

    async fn everything_wrong_with_a_user_is_named_at_once(app) {
        let answer = app.post("/users/", &json!({"password": "short", "active": "yes", "authenticator": "Ldap"})).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/user_name", "/active", "/authenticator", "/password"]);
        let no_group = json!({"user_name": "ada", "password": PASSWORD, "group_id": 99});
        let answer = app.post("/users/", &no_group).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/group_id"]);
        let long = json!({"user_name": "ada", "password": "x".repeat(1025)});
        app.post("/users/", &long).await.error(400, "validation_failed");
        assert_eq!(app.get("/users/").await.json()["total"], 1);
    }

    async fn a_user_name_is_taken_in_any_spelling(app) {
        app.created("/users/", &json!({"user_name": "Ada", "password": PASSWORD})).await;
        app.post("/users/", &json!({"user_name": "aDA", "password": PASSWORD})).await.error(400, "user_user_name_taken");
        let grace = app.created("/users/", &json!({"user_name": "Grace", "password": PASSWORD})).await;
        let renamed = app.patch(&format!("/users/{grace}"), &json!({"user_name": "ADA"})).await;
        renamed.error(400, "user_user_name_taken");
        app.post("/users/", &json!({"user_name": "x", "password": PASSWORD, "public_id": 1})).await
            .error(400, "user_public_id_taken");
        assert_eq!(stored(app, USERS).await.len(), stored(app, CREDENTIALS).await.len());
    }

    async fn a_renamed_user_signs_in_by_the_new_name_alone(app) {
        let id = app.created("/users/", &json!({"user_name": "Ada", "password": PASSWORD})).await;
        assert_eq!(app.patch(&format!("/users/{id}"), &json!({"user_name": "Countess"})).await.status, 202);
        assert!(can_sign_in(app, "countess", PASSWORD).await);
        assert!(!can_sign_in(app, "ada", PASSWORD).await);
        app.created("/users/", &json!({"user_name": "ada", "password": PASSWORD})).await;
    }

    async fn put_replaces_and_keeps_what_decides_about_access(app) {
        let body = json!({"user_name": "ada", "password": PASSWORD, "email": "a@b.c", "first_name": "Ada"});
        let id = app.created("/users/", &body).await;
        let path = format!("/users/{id}");
        let before = app.get(&path).await.json()["result"].clone();
        let answer = app.put(&path, &json!({"public_id": id, "user_name": "ada", "active": false, "last_name": "L"})).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        let after = answer.json()["result"].clone();
        let expected = json!([null, null, "L", false, 2, before["registration_time"]]);
        let members = ["email", "first_name", "last_name", "active", "group_id", "registration_time"];
        assert_eq!(Value::Array(members.map(|name| after[name].clone()).to_vec()), expected);
        let kept = app.put(&path, &json!({"user_name": "ada"})).await.json()["result"].clone();
        assert_eq!((&kept["active"], &kept["last_name"]), (&json!(false), &Value::Null));
        let other = app.put(&path, &json!({"public_id": 77, "user_name": "ada"})).await;
        other.error(400, "validation_failed");
        app.put("/users/77", &json!({"user_name": "ada"})).await.error(404, "user_not_found");
    }

    async fn what_was_read_can_be_sent_back_and_keeps_the_password(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let path = format!("/users/{}", ada.id);
        let read = ada.get(app, &path).await.json()["result"].clone();
        assert_eq!(read["password"], MASK);
        let answer = ada.send(app, Method::PUT, &path, &read).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        assert_eq!(answer.json()["result"], read);
        let answer = ada.send(app, Method::PATCH, &path, &json!({"password": null, "first_name": "Ada"})).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        assert_eq!(ada.get(app, &path).await.json()["result"]["first_name"], "Ada");
        assert!(can_sign_in(app, "ada", PASSWORD).await);
    }

    async fn a_new_password_ends_the_tokens_of_the_old_one(app) {
        for (number, (method, suffix)) in
            [(Method::PUT, ""), (Method::PATCH, ""), (Method::PATCH, "/password")].into_iter().enumerate()
        {
            let name = format!("user{number}");
            let user = Person::with_rights(app, &name, &[]).await;
            let path = format!("/users/{}{suffix}", user.id);
            let new = "another password";
            let body = if suffix.is_empty() { json!({"user_name": name, "password": new}) } else { json!({"password": new}) };
            let answer = user.send(app, method, &path, &body).await;
            assert_eq!(answer.status, 202, "{}", answer.text);
            assert!(!answer.text.contains(new) && !answer.text.contains("$argon2"));
            user.get(app, &format!("/users/{}", user.id)).await.error(401, "token_invalid");
            assert!(can_sign_in(app, &name, new).await && !can_sign_in(app, &name, PASSWORD).await);
        }
        let nothing = app.patch("/users/1/password", &json!({"password": MASK})).await;
        assert_eq!((nothing.error(400, "validation_failed"), nothing.pointers()).1, ["/password"]);
        app.patch("/users/1/password", &json!({"password": "short"})).await.error(400, "validation_failed");
    }

    async fn a_locked_user_is_out_at_once_and_back_when_unlocked(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let path = format!("/users/{}", ada.id);
        assert_eq!(ada.get(app, &path).await.status, 200);
        app.patch(&path, &json!({"active": false})).await;
        ada.get(app, &path).await.error(401, "token_invalid");
        assert!(!can_sign_in(app, "ada", PASSWORD).await);
        app.patch(&path, &json!({"active": true})).await;
        assert_eq!(ada.get(app, &path).await.status, 200);
    }

    async fn a_deleted_user_takes_everything_of_his_along(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let setting = json!({"identifier": "theme", "setting_type": "GLOBAL"});
        ada.send(app, Method::POST, &format!("/users/{}/settings/", ada.id), &setting).await;
        let answer = app.delete(&format!("/users/{}", ada.id)).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        assert_eq!(answer.json()["deleted_entry"]["user_name"], "ada");
        ada.get(app, "/rights/levels").await.error(401, "token_invalid");
        assert!(stored(app, SETTINGS).await.is_empty());
        assert_eq!(stored(app, CREDENTIALS).await.len(), 1);
        app.delete(&format!("/users/{}", ada.id)).await.error(404, "user_not_found");
    }

    async fn the_first_user_and_oneself_cannot_be_deleted(app) {
        app.delete("/users/1").await.error(400, "first_user_stays");
        let ada = Person::with_rights(app, "ada", &["base.user-management.user.delete"]).await;
        ada.delete(app, &format!("/users/{}", ada.id)).await.error(400, "own_user_stays");
        assert_eq!(stored(app, USERS).await.len(), 2);
    }

    async fn the_last_active_administrator_stays_one(app) {
        app.patch("/users/1", &json!({"active": false})).await.error(400, "last_administrator");
        app.patch("/users/1", &json!({"group_id": 2})).await.error(400, "last_administrator");
        let second = json!({"user_name": "second", "password": PASSWORD, "group_id": 1, "active": false});
        let second = app.created("/users/", &second).await;
        app.patch("/users/1", &json!({"active": false})).await.error(400, "last_administrator");
        app.patch(&format!("/users/{second}"), &json!({"active": true})).await;
        assert_eq!(app.patch("/users/1", &json!({"group_id": 2})).await.status, 202);
    }

    async fn of_two_administrators_that_step_back_at_once_one_stays(app) {
        for round in 0..5 {
            let second = json!({"user_name": format!("second{round}"), "password": PASSWORD, "group_id": 1});
            let second = app.created("/users/", &second).await;
            let path = format!("/users/{second}");
            let lock = json!({"active": false});
            let other = app.login(&format!("second{round}"), PASSWORD).await;
            let own = app.anonymous(Method::PATCH, "/users/1").bearer_auth(&other).json(&lock);
            let (first, second) = tokio::join!(send(own), app.patch(&path, &lock));
            let done = [&first, &second].into_iter().filter(|answer| answer.status == 202).count();
            assert_eq!(done, 1, "{} {}", first.text, second.text);
            if first.status == 202 {
                let unlock = app.anonymous(Method::PATCH, "/users/1").bearer_auth(&other);
                assert_eq!(send(unlock.json(&json!({"active": true}))).await.status, 202);
                assert_eq!(app.patch(&path, &lock).await.status, 202);
            }
        }
    }

    async fn everyone_reads_and_edits_himself_but_does_not_lift_himself(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let path = format!("/users/{}", ada.id);
        assert_eq!(ada.get(app, &path).await.status, 200);
        ada.get(app, "/users/1").await.error(403, "right_missing");
        ada.get(app, "/users/").await.error(403, "right_missing");
        let edited = ada.send(app, Method::PATCH, &path, &json!({"email": "a@b.c"})).await;
        assert_eq!(edited.status, 202, "{}", edited.text);
        for lift in [
            json!({"group_id": 1}), json!({"active": false}), json!({"registration_time": "2001-01-01 00:00:00.000000"}),
        ] {
            let error = ada.send(app, Method::PATCH, &path, &lift).await.error(403, "right_missing");
            assert!(error["message"].as_str().expect("a message").contains(EDIT), "{error}");
            let mut whole = ada.get(app, &path).await.json()["result"].clone();
            whole.as_object_mut().expect("an object").extend(lift.as_object().expect("an object").clone());
            ada.send(app, Method::PUT, &path, &whole).await.error(403, "right_missing");
        }
        ada.send(app, Method::PATCH, &path, &json!({"public_id": 1})).await.error(400, "validation_failed");
        ada.send(app, Method::PATCH, "/users/1", &json!({"email": "x"})).await.error(403, "right_missing");
        ada.delete(app, &path).await.error(403, "right_missing");
        assert_eq!(app.get(&path).await.json()["result"]["group_id"], ada.group_id);
    }

    async fn nobody_reaches_rights_through_other_users(app) {
        let rights = ["base.user-management.user.*"];
        let clerk = Person::with_rights(app, "clerk", &rights).await;
        let admin = json!({"user_name": "mine", "password": PASSWORD, "group_id": 1});
        let error = clerk.send(app, Method::POST, "/users/", &admin).await.error(403, "rights_exceeded");
        assert!(error["message"].as_str().expect("a message").contains("base.*"), "{error}");
        let path = format!("/users/{}", clerk.id);
        clerk.send(app, Method::PATCH, &path, &json!({"group_id": 1})).await.error(403, "rights_exceeded");
        let taken = json!({"password": "now it is mine"});
        clerk.send(app, Method::PATCH, "/users/1", &taken).await.error(403, "rights_exceeded");
        clerk.send(app, Method::PATCH, "/users/1/password", &taken).await.error(403, "rights_exceeded");
        let tokens = json!({"name": "mine", "rights": ["base.*"]});
        clerk.send(app, Method::POST, "/users/1/tokens/", &tokens).await.error(403, "rights_exceeded");
        assert!(can_sign_in(app, "admin", ADMIN_PASSWORD).await);
        let ordinary = json!({"user_name": "new", "password": PASSWORD});
        assert_eq!(clerk.send(app, Method::POST, "/users/", &ordinary).await.status, 201);
        clerk.send(app, Method::PATCH, "/users/1", &json!({"email": "a@b.c"})).await.error(403, "rights_exceeded");
    }

    async fn a_stale_tag_is_refused_and_the_tag_of_the_read_is_taken(app) {
        let read = app.get("/users/1").await;
        let tag = read.header("etag").to_owned();
        let known = send(app.request(Method::GET, "/users/1").header("If-None-Match", &tag)).await;
        assert_eq!(known.status, 304);
        let patch = |email: &str| app.request(Method::PATCH, "/users/1").header("If-Match", &tag).json(&json!({"email": email}));
        assert_eq!(send(patch("a")).await.status, 202);
        send(patch("b")).await.error(412, "precondition_failed");
    }

    async fn users_are_listed_filtered_and_sorted(app) {
        for name in ["b", "a", "c"] {
            app.created("/users/", &json!({"user_name": name, "password": PASSWORD})).await;
        }
        let list = app.get_with("/users/", &[("sort", "user_name"), ("filter", r#"{"group_id": 2}"#)]).await;
        assert_eq!(list.results("/user_name"), ["a", "b", "c"]);
        assert_eq!((list.header("x-total-count"), list.json()["model"].as_str()), ("3", Some("User")));
        assert!(list.results("/password").iter().all(|password| password == MASK));
        let head = send(app.request(Method::HEAD, "/users/")).await;
        assert_eq!((head.status.as_u16(), head.header("x-total-count"), head.text.as_str()), (200, "4", ""));
    }

    async fn no_way_leads_to_a_password(app) {
        // As another tool may have stored the user.
        let user = doc! {
            "_id": bson::oid::ObjectId::new(), "public_id": 50_i64, "user_name": "old", "active": true,
            "group_id": 2_i64, "password": "5ebe2294ecd0e0f08eab7690d2a6ee69",
        };
        let insert = Change::Insert { collection: USERS, document: raw(&user) };
        app.store.commit(Unit::of(insert)).await.expect("a user");
        for filter in [r#"{"password": {"$regex": "^5"}}"#, r#"{"$and": [{"$or": [{"password": {"$exists": true}}]}]}"#] {
            app.get_with("/users/", &[("filter", filter)]).await.error(400, "password_not_readable");
        }
        for filter in [
            r#"{"$expr": {"$eq": ["$password", "x"]}}"#,
            r#"{"$expr": {"$gt": ["$$ROOT", {}]}}"#,
            r#"{"$jsonSchema": {"properties": {"password": {"pattern": "^5"}}}}"#,
        ] {
            assert_eq!(app.get_with("/users/", &[("filter", filter)]).await.status, 400, "{filter}");
        }
        for sort in ["password", "-password", "user_name,password", "password.x"] {
            app.get_with("/users/", &[("sort", sort)]).await.error(400, "password_not_readable");
        }
        app.get_with("/users/", &[("projection", r#"{"password": 1}"#)]).await.error(400, "parameter_invalid");
        for path in ["/users/", "/users/50", "/users/1"] {
            let text = app.get(path).await.text;
            assert!(!text.contains("5ebe2294") && !text.contains("$argon2"), "{text}");
        }
        let patched = app.patch("/users/50", &json!({"email": "a@b.c"})).await;
        assert_eq!(patched.status, 202, "{}", patched.text);
        assert!(!can_sign_in(app, "old", "5ebe2294ecd0e0f08eab7690d2a6ee69").await);
        let tag = app.get("/users/50").await.header("etag").to_owned();
        let change = inventory_service::query::Update::set("password", "another hash");
        let filter = inventory_service::query::Filter::equals("public_id", 50_i64);
        app.store.commit(Unit::of(Change::UpdateMany { collection: USERS, filter, update: change })).await.expect("a change");
        assert_eq!(app.get("/users/50").await.header("etag"), tag);
    }

    async fn a_user_of_another_tool_signs_in_once_he_has_a_password(app) {
        let user = doc! {"_id": bson::oid::ObjectId::new(), "public_id": 50_i64, "user_name": "Old", "active": true, "group_id": 2_i64};
        app.store.commit(Unit::of(Change::Insert { collection: USERS, document: raw(&user) })).await.expect("a user");
        assert_eq!(app.patch("/users/50/password", &json!({"password": PASSWORD})).await.status, 202);
        assert!(can_sign_in(app, "old", PASSWORD).await);
    }

    async fn a_password_of_somebody_else_ends_with_a_promotion(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.user.*"]).await;
        let body = json!({"user_name": "ada", "password": PASSWORD});
        let ada = clerk.send(app, Method::POST, "/users/", &body).await.json()["result_id"].as_i64().expect("an id");
        let own = format!("/users/{ada}");
        let session = Person { id: ada, group_id: 2, token: app.login("ada", PASSWORD).await };
        let rights = json!({"name": "of the clerk", "rights": []});
        let machine = clerk.send(app, Method::POST, &format!("{own}/tokens/"), &rights).await;
        let machine = Person { token: machine.json()["token"].as_str().expect("a token").to_owned(), ..session };
        // As the clerk could do, who knows the password.
        let own_token = session.send(app, Method::POST, &format!("{own}/tokens/"), &json!({"name": "of ada"})).await;
        let own_token = Person { token: own_token.json()["token"].as_str().expect("a token").to_owned(), ..session };
        let same = app.patch(&own, &json!({"group_id": 2, "email": "a@b.c"})).await;
        assert_eq!((same.status.as_u16(), session.get(app, &own).await.status.as_u16()), (202, 200));
        assert_eq!(app.patch(&own, &json!({"group_id": 1})).await.status, 202);
        for gone in [&session, &machine, &own_token] {
            gone.get(app, &own).await.error(401, "token_invalid");
        }
        assert!(!can_sign_in(app, "ada", PASSWORD).await);
        assert_eq!(app.patch(&format!("{own}/password"), &json!({"password": "a new one"})).await.status, 202);
        assert!(can_sign_in(app, "ada", "a new one").await);
    }

    async fn a_password_of_one_who_could_promote_stays_and_the_sessions_end(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let own = format!("/users/{}", ada.id);
        assert_eq!(app.patch(&own, &json!({"group_id": 1})).await.status, 202);
        ada.get(app, &own).await.error(401, "token_invalid");
        assert!(can_sign_in(app, "ada", PASSWORD).await);
    }

    async fn a_password_of_ones_own_and_its_sessions_survive_a_promotion(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let own = format!("/users/{}", ada.id);
        let chosen = json!({"password": "chosen by ada"});
        assert_eq!(ada.send(app, Method::PATCH, &format!("{own}/password"), &chosen).await.status, 202);
        let ada = Person { token: app.login("ada", "chosen by ada").await, ..ada };
        assert_eq!(app.patch(&own, &json!({"group_id": 1})).await.status, 202);
        assert_eq!(ada.get(app, "/users/").await.status, 200);
    }

    async fn a_password_that_comes_with_the_promotion_is_good(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.user.*"]).await;
        let body = json!({"user_name": "ada", "password": PASSWORD});
        let ada = clerk.send(app, Method::POST, "/users/", &body).await.json()["result_id"].as_i64().expect("an id");
        let lifted = app.patch(&format!("/users/{ada}"), &json!({"group_id": 1, "password": "a new one"})).await;
        assert_eq!(lifted.status, 202, "{}", lifted.text);
        assert!(can_sign_in(app, "ada", "a new one").await && !can_sign_in(app, "ada", PASSWORD).await);
    }

    async fn a_group_that_is_given_rights_ends_what_others_know_of_its_members(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.user.*"]).await;
        let group = app.created("/groups/", &json!({"name": "crew", "rights": []})).await;
        let body = json!({"user_name": "ada", "password": PASSWORD, "group_id": group});
        let id = clerk.send(app, Method::POST, "/users/", &body).await.json()["result_id"].as_i64().expect("an id");
        let ada = Person { id, group_id: group, token: app.login("ada", PASSWORD).await };
        let grace = Person::with_rights(app, "grace", &[]).await;
        let (own, path) = (format!("/users/{id}"), format!("/groups/{group}"));
        let everyone = json!({"rights": ["base.framework.object.view"]});
        assert_eq!(app.patch(&path, &everyone).await.status, 202);
        assert_eq!(ada.get(app, &own).await.status, 200);
        assert_eq!(app.patch(&path, &json!({"rights": ["base.system.view"]})).await.status, 202);
        ada.get(app, &own).await.error(401, "token_invalid");
        assert!(!can_sign_in(app, "ada", PASSWORD).await);
        assert_eq!(grace.get(app, &format!("/users/{}", grace.id)).await.status, 200);
        let moved = app.delete(&format!("/groups/{}?action=MOVE&group_id={group}", grace.group_id)).await;
        assert_eq!(moved.status, 202, "{}", moved.text);
        grace.get(app, &format!("/users/{}", grace.id)).await.error(401, "token_invalid");
        assert!(can_sign_in(app, "grace", PASSWORD).await);
    }

    async fn a_password_is_never_set_across_a_promotion(app) {
        let clerk = Person::with_rights(app, "clerk", &["base.user-management.user.*"]).await;
        for round in 0..8 {
            let name = format!("user{round}");
            let id = app.created("/users/", &json!({"user_name": name, "password": PASSWORD})).await;
            let (own, password) = (format!("/users/{id}"), format!("/users/{id}/password"));
            let (lift, taken) = (json!({"group_id": 1}), json!({"password": "taken over"}));
            let (lifted, set) =
                tokio::join!(app.patch(&own, &lift), clerk.send(app, Method::PATCH, &password, &taken));
            assert_eq!(lifted.status, 202, "{}", lifted.text);
            assert!(set.status == 202 || set.status == 403, "{}", set.text);
            assert!(!can_sign_in(app, &name, "taken over").await, "{}", set.text);
            let token = json!({"name": "mine", "rights": []});
            clerk.send(app, Method::POST, &format!("{own}/tokens/"), &token).await.error(403, "rights_exceeded");
        }
    }

    async fn leftovers_of_a_user_whom_another_tool_removed_do_not_pass_to_the_next(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        let own = format!("/users/{}", ada.id);
        let machine = ada.send(app, Method::POST, &format!("{own}/tokens/"), &json!({"name": "backup"})).await;
        let machine = Person { token: machine.json()["token"].as_str().expect("a token").to_owned(), ..ada };
        let setting = json!({"identifier": "theme", "setting_type": "GLOBAL"});
        assert_eq!(ada.send(app, Method::POST, &format!("{own}/settings/"), &setting).await.status, 201);
        let filter = inventory_service::query::Filter::equals("public_id", ada.id);
        app.store.commit(Unit::of(Change::DeleteMany { collection: USERS, filter })).await.expect("a removal");
        let next = json!({"public_id": ada.id, "user_name": "grace", "password": PASSWORD});
        assert_eq!(app.created("/users/", &next).await, ada.id);
        for gone in [&ada, &machine] {
            gone.get(app, &own).await.error(401, "token_invalid");
        }
        assert!(stored(app, SETTINGS).await.is_empty());
        assert!(can_sign_in(app, "grace", PASSWORD).await);
    }
}
