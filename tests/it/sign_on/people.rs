//! Which user of the service the bearer of a token is, on each store.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Trusted, ask, get, on_each_trusting_store, user, users};
use crate::api::people::{PASSWORD, Person};
use crate::support::app::{ADMIN_PASSWORD, TestApp, send};
use crate::support::counting::CountingStore;
use crate::support::mongod::{self, Deployment};

/// The name of the group in which a user is.
async fn group_of(app: &TestApp, name: &str) -> String {
    let user = user(app, name).await.expect("a user");
    let group = app.get(&format!("/groups/{}", user["group_id"])).await;
    group.json()["result"]["name"].as_str().expect("a name").to_owned()
}

async fn log_in(app: &TestApp, name: &str, password: &str) -> u16 {
    let body = json!({"user_name": name, "password": password});
    send(app.anonymous(Method::POST, "/auth/login").json(&body)).await.status.as_u16()
}

on_each_trusting_store! {
    async fn a_person_becomes_a_user_at_first_sight(app, trusted) {
        let more = json!({
            "preferred_username": "ada", "email": "ada@example.org", "given_name": "Ada", "family_name": "Lovelace",
            "groups": ["others", "staff"],
        });
        let token = trusted.token("ada-1", &more);
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        get(app, &token, "/objects/").await.error(403, "right_missing");
        let ada = user(app, "ada").await.expect("a user");
        assert_eq!(ada["authenticator"], "OidcAuthenticationProvider");
        assert_eq!((&ada["email"], &ada["active"]), (&json!("ada@example.org"), &json!(true)));
        assert_eq!((&ada["first_name"], &ada["last_name"]), (&json!("Ada"), &json!("Lovelace")));
        assert_eq!(group_of(app, "ada").await, "readers");
        // The user is found again, and is one's own.
        let own = get(app, &token, &format!("/users/{}", ada["public_id"])).await;
        assert_eq!(own.json()["result"], ada);
        assert_eq!(users(app).await, 2);
        // The token alone, as the service takes its own.
        let alone = app.anonymous(Method::GET, "/types/").header("Authorization", &token);
        assert_eq!(send(alone).await.status, 200);
    }

    async fn a_user_of_the_issuer_has_no_password(app, trusted) {
        let token = trusted.token("ada-1", &json!({"preferred_username": "ada", "groups": ["editors"]}));
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        let path = format!("/users/{}", user(app, "ada").await.expect("a user")["public_id"]);
        for password in ["", "null", PASSWORD] {
            assert_ne!(log_in(app, "ada", password).await, 200);
        }
        // Neither an administrator nor the user sets one: it would outlive the account at the issuer.
        let wanted = json!({"password": PASSWORD});
        let refused = app.patch(&path, &wanted).await;
        assert_eq!((refused.error(400, "validation_failed"), refused.pointers()).1, ["/password"]);
        app.patch(&format!("{path}/password"), &wanted).await.error(400, "validation_failed");
        ask(app, &token, Method::PATCH, &format!("{path}/password"), &wanted).await.error(400, "validation_failed");
        assert_eq!(log_in(app, "ada", PASSWORD).await, 401);
        // What was read can be sent back.
        let read = app.get(&path).await.json()["result"].clone();
        assert_eq!(app.put(&path, &read).await.status, 202);
        assert_eq!(get(app, &token, "/types/").await.status, 200);
    }

    async fn an_administrator_turns_a_user_of_the_issuer_into_one_with_a_password(app, trusted) {
        let token = trusted.token("ada-1", &json!({"preferred_username": "ada"}));
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        let path = format!("/users/{}", user(app, "ada").await.expect("a user")["public_id"]);
        let local = json!({"authenticator": "LocalAuthenticationProvider", "password": PASSWORD});
        assert_eq!(app.patch(&path, &local).await.status, 202);
        assert_eq!(log_in(app, "ada", PASSWORD).await, 200);
        // The issuer has no part in it any more.
        get(app, &token, "/types/").await.error(403, "sign_on_refused");
        // Nobody makes a user of the issuer but the issuer.
        for (method, path, body) in [
            (Method::PATCH, path, json!({"authenticator": "OidcAuthenticationProvider"})),
            (Method::POST, "/users/".to_owned(), json!({
                "user_name": "eve", "password": PASSWORD, "authenticator": "OidcAuthenticationProvider",
            })),
        ] {
            let refused = send(app.request(method, &path).json(&body)).await;
            assert_eq!((refused.error(400, "validation_failed"), refused.pointers()).1, ["/authenticator"]);
        }
    }

    async fn the_group_follows_the_claims_of_newer_tokens(app, trusted) {
        let [old, new, newer] = [
            trusted.issued("ada", 30, &["editors"]),
            trusted.issued("ada", 20, &["staff"]),
            trusted.issued("ada", 10, &["nothing", "editors", "staff"]),
        ];
        assert_eq!(get(app, &old, "/users/").await.status, 200);
        assert_eq!(group_of(app, "ada").await, "editors");
        get(app, &new, "/users/").await.error(403, "right_missing");
        assert_eq!(group_of(app, "ada").await, "readers");
        // An older token brings no right back.
        get(app, &old, "/users/").await.error(403, "right_missing");
        assert_eq!(group_of(app, "ada").await, "readers");
        // The first entry of the settings that fits counts, whatever the order of the claim.
        get(app, &newer, "/users/").await.error(403, "right_missing");
        assert_eq!(group_of(app, "ada").await, "readers");
        let newest = trusted.issued("ada", 0, &["editors"]);
        assert_eq!(get(app, &newest, "/users/").await.status, 200);
        assert_eq!(users(app).await, 2);
    }

    async fn who_is_in_no_group_of_the_settings_is_refused(app, trusted) {
        for groups in [json!([]), json!(["others"]), json!(null), json!({"staff": true}), json!(["Staff"]), json!(7)] {
            let token = trusted.token("ada-1", &json!({"preferred_username": "ada", "groups": groups}));
            get(app, &token, "/types/").await.error(403, "sign_on_refused");
        }
        assert_eq!(users(app).await, 1);
        let known = trusted.issued("ada", 10, &["staff"]);
        assert_eq!(get(app, &known, "/types/").await.status, 200);
        get(app, &trusted.issued("ada", 0, &[]), "/types/").await.error(403, "sign_on_refused");
        // A group that an administrator has not made yet.
        let readers = user(app, "ada").await.expect("a user")["group_id"].clone();
        assert_eq!(app.patch(&format!("/groups/{readers}"), &json!({"name": "watchers"})).await.status, 202);
        let refused = get(app, &known, "/types/").await.error(403, "sign_on_refused");
        assert!(refused["message"].as_str().expect("a message").contains("\"readers\""), "{refused}");
    }

    async fn nobody_takes_over_a_user_by_a_name(app, trusted) {
        Person::with_rights(app, "grace", &["base.framework.*"]).await;
        let before = user(app, "grace").await;
        for name in ["grace", "GRACE", "gr\u{430}ce", "admin", "\u{430}dmin"] {
            let token = trusted.token("somebody", &json!({"preferred_username": name}));
            let refused = get(app, &token, "/types/").await.error(403, "sign_on_refused");
            assert!(refused["message"].as_str().expect("a message").contains("another user"), "{refused}");
        }
        assert_eq!(user(app, "grace").await, before);
        assert_eq!(users(app).await, 2);
        // Of two people with one name the first one has it.
        assert_eq!(get(app, &trusted.token("ada-1", &json!({"preferred_username": "ada"})), "/types/").await.status, 200);
        let second = trusted.token("ada-2", &json!({"preferred_username": "ada"}));
        get(app, &second, "/types/").await.error(403, "sign_on_refused");
        // The remedy of the message.
        let path = format!("/users/{}", user(app, "ada").await.expect("a user")["public_id"]);
        assert_eq!(app.patch(&path, &json!({"user_name": "ada.l"})).await.status, 202);
        assert_eq!(get(app, &second, "/types/").await.status, 200);
        assert_eq!(users(app).await, 4);
    }

    async fn a_name_that_changes_at_the_issuer_changes_no_user(app, trusted) {
        assert_eq!(get(app, &trusted.token("1", &json!({"preferred_username": "ada"})), "/types/").await.status, 200);
        let ada = user(app, "ada").await;
        for name in ["byron", "admin", "", "\n"] {
            let token = trusted.token("1", &json!({"preferred_username": name}));
            assert_eq!(get(app, &token, "/types/").await.status, 200);
        }
        assert_eq!((user(app, "ada").await, users(app).await), (ada, json!(2)));
    }

    async fn a_name_that_no_user_can_have_is_refused(app, trusted) {
        for name in ["", " ada", "ada ", "a\nda", "\u{0}", &"a".repeat(257)] {
            let token = trusted.token("1", &json!({"preferred_username": name}));
            get(app, &token, "/types/").await.error(403, "sign_on_refused");
        }
        assert_eq!(users(app).await, 1);
        // Without the claim the subject is the name.
        assert_eq!(get(app, &trusted.token("subject-1", &json!({})), "/types/").await.status, 200);
        assert!(user(app, "subject-1").await.is_some());
    }

    async fn a_user_who_is_not_active_stays_out_and_a_deleted_one_is_new(app, trusted) {
        let token = trusted.issued("ada", 10, &["staff"]);
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        let first = user(app, "ada").await.expect("a user");
        let path = format!("/users/{}", first["public_id"]);
        assert_eq!(app.patch(&path, &json!({"active": false})).await.status, 202);
        for token in [&token, &trusted.issued("ada", 0, &["admins"])] {
            let refused = get(app, token, "/types/").await;
            refused.error(401, "token_invalid");
            assert_eq!(refused.header("www-authenticate"), "Bearer error=\"invalid_token\"");
        }
        assert_eq!(group_of(app, "ada").await, "readers");
        assert_eq!(app.patch(&path, &json!({"active": true})).await.status, 202);
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        assert_eq!(app.delete(&path).await.status, 202);
        assert_eq!(get(app, &token, "/types/").await.status, 200);
        let second = user(app, "ada").await.expect("a user");
        assert_ne!(first["public_id"], second["public_id"]);
    }

    async fn a_program_is_a_machine_and_never_a_person(app, trusted) {
        let person = trusted.token("report", &json!({"preferred_username": "ada"}));
        assert_eq!(get(app, &person, "/types/").await.status, 200);
        // Somebody registered a program with the subject of a person as its id.
        let program = trusted.token("report", &json!({"client_id": "report"}));
        assert_eq!(get(app, &program, "/types/").await.status, 200);
        let (ada, report) = (user(app, "ada").await.expect("a user"), user(app, "report").await.expect("a user"));
        assert_ne!(ada["public_id"], report["public_id"]);
        // A machine does not do what users may do to themselves; a person does.
        for (token, user, status) in [(&program, &report, 403), (&person, &ada, 202)] {
            let path = format!("/users/{}", user["public_id"]);
            let answer = ask(app, token, Method::PATCH, &path, &json!({"user_name": user["user_name"], "image": "x"})).await;
            assert_eq!(answer.status, status, "{}", answer.text);
        }
    }

    async fn the_last_administrator_stays_one_whatever_the_claims(app, trusted) {
        let token = trusted.issued("ada", 30, &["admins"]);
        assert_eq!(get(app, &token, "/users/").await.status, 200);
        assert_eq!(app.patch("/users/1", &json!({"active": false})).await.status, 202);
        let moved = trusted.issued("ada", 20, &["staff"]);
        get(app, &moved, "/types/").await.error(403, "sign_on_refused");
        // Still there, for a token with the claims.
        let path = "/users/1";
        let answer = ask(app, &trusted.issued("ada", 0, &["admins"]), Method::PATCH, path, &json!({"active": true})).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        get(app, &moved, "/users/").await.error(403, "right_missing");
        assert_eq!(group_of(app, "ada").await, "readers");
    }

    async fn what_others_know_of_a_user_ends_when_the_claims_give_rights(app, trusted) {
        let manager = Person::with_rights(app, "manager", &["base.user-management.user.*", "base.framework.type.view"]).await;
        let ada = trusted.issued("ada", 20, &["staff"]);
        assert_eq!(get(app, &ada, "/types/").await.status, 200);
        let path = format!("/users/{}/tokens/", user(app, "ada").await.expect("a user")["public_id"]);
        let rights = json!({"name": "of the manager", "rights": ["base.framework.type.view"]});
        let made = manager.send(app, Method::POST, &path, &rights).await;
        let of_manager = made.json()["token"].as_str().expect("a token").to_owned();
        let made = ask(app, &ada, Method::POST, &path, &json!({"name": "my own"})).await;
        let own = made.json()["token"].as_str().expect("a token").to_owned();
        for token in [&of_manager, &own] {
            assert_eq!(get(app, token, "/types/").await.status, 200);
        }
        assert_eq!(get(app, &trusted.issued("ada", 0, &["admins"]), "/users/").await.status, 200);
        get(app, &of_manager, "/types/").await.error(401, "token_invalid");
        assert_eq!(get(app, &own, "/types/").await.status, 200);
    }

    async fn of_many_first_requests_at_once_one_makes_the_user(app, trusted) {
        let token = trusted.token("ada-1", &json!({"preferred_username": "ada"}));
        let answers = join_all((0..8).map(|_| get(app, &token, "/types/"))).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses, [200; 8], "{:?}", answers.iter().map(|answer| &answer.text).collect::<Vec<_>>());
        assert_eq!(users(app).await, 2);
    }

    async fn of_many_moves_at_once_one_takes_place(app, trusted) {
        assert_eq!(get(app, &trusted.issued("ada", 20, &["staff"]), "/types/").await.status, 200);
        let token = trusted.issued("ada", 0, &["editors"]);
        let answers = join_all((0..8).map(|_| get(app, &token, "/users/"))).await;
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        assert_eq!(statuses, [200; 8], "{:?}", answers.iter().map(|answer| &answer.text).collect::<Vec<_>>());
    }

    async fn passwords_and_tokens_of_the_service_go_on(app, _trusted) {
        let token = app.login("admin", ADMIN_PASSWORD).await;
        assert_eq!(get(app, &token, "/users/").await.status, 200);
        let made = app.post("/users/1/tokens/", &json!({"name": "backup"})).await;
        let machine = made.json()["token"].as_str().expect("a token").to_owned();
        assert_eq!(get(app, &machine, "/users/").await.status, 200);
        get(app, "no-token", "/users/").await.error(401, "token_invalid");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_on_one_store_know_each_others_users_at_once() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    let (trusted, uri) = (Trusted::new(), server.fresh_uri());
    let one = trusted.app_on(Some(&uri), &[]).await;
    let settings = trusted.issuer.settings();
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let other = TestApp::on(&uri, &settings).await;
    for (seconds_ago, group) in [(30, "staff"), (20, "editors"), (10, "staff")] {
        let token = trusted.issued("ada", seconds_ago, &[group]);
        for app in [&one, &other] {
            let answer = get(app, &token, "/types/").await;
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
        assert_eq!(group_of(&one, "ada").await, if group == "staff" { "readers" } else { "editors" });
    }
    assert_eq!(users(&one).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_known_bearer_costs_no_more_than_a_known_user() {
    let trusted = Trusted::new();
    let (counter, settings) = (CountingStore::counter(), trusted.issuer.settings());
    let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let app = TestApp::embedded_around_with(&settings, |store| CountingStore::around(store, &counter)).await;
    app.created("/groups/", &json!({"name": "readers", "rights": []})).await;
    let token = trusted.token("ada-1", &json!({"preferred_username": "ada"}));
    let own = app.login("admin", ADMIN_PASSWORD).await;
    let mut costs = Vec::new();
    for token in [&token, &own] {
        assert_eq!(get(&app, token, "/rights/levels").await.status, 200);
        let before = counter.calls();
        assert_eq!(get(&app, token, "/rights/levels").await.status, 200);
        costs.push(counter.calls() - before);
    }
    assert_eq!(costs, [0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_group_takes_everybody_else() {
    let trusted = Trusted::new();
    let app = trusted.app_on(None, &[("auth.oidc.default_group", "user")]).await;
    for (name, groups, expected) in [("ada", json!(["others"]), "user"), ("eve", json!("editors"), "editors")] {
        let token = trusted.token(name, &json!({"preferred_username": name, "groups": groups}));
        assert_eq!(get(&app, &token, "/rights/levels").await.status, 200);
        assert_eq!(group_of(&app, name).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_are_found_by_name_or_path() {
    let trusted = Trusted::new();
    for (claim, more) in [
        ("realm_access.roles", json!({"realm_access": {"roles": ["staff"]}})),
        ("https://example.org/roles", json!({"https://example.org/roles": ["staff"]})),
    ] {
        let settings = [("auth.oidc.groups_claim", claim), ("auth.oidc.user_claim", "upn")];
        let app = trusted.app_on(None, &settings).await;
        let mut more: Value = more;
        more["upn"] = json!("ada@example.org");
        more["groups"] = json!(["admins"]);
        assert_eq!(get(&app, &trusted.token("1", &more), "/types/").await.status, 200);
        assert_eq!(group_of(&app, "ada@example.org").await, "readers");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_description_names_the_issuer() {
    let trusted = Trusted::new();
    let app = trusted.app_on(None, &[]).await;
    let description = app.get(&format!("{}/openapi.json", app.origin)).await.json();
    let scheme = &description["components"]["securitySchemes"]["issuer"];
    let url = format!("{}/.well-known/openid-configuration", trusted.issuer.name);
    assert_eq!((&scheme["type"], &scheme["openIdConnectUrl"]), (&json!("openIdConnect"), &json!(url)));
    let security = |path: &str| description["paths"][path]["get"]["security"].clone();
    assert_eq!(security("/rest/types/"), json!([{"token": []}, {"issuer": []}]));
    assert_eq!(security("/health/live"), json!([]));
    let plain = TestApp::embedded().await;
    let description = plain.get(&format!("{}/openapi.json", plain.origin)).await.json();
    assert!(description["components"]["securitySchemes"].get("issuer").is_none());
}
