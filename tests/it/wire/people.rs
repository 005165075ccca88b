//! Who may sign in, and what each of them sees.

use std::time::Duration;

use bson::doc;
use inventory_service::service::accounts::scram;
use serde_json::json;

use super::support::{DATABASE, ToolApp, code_of, found, refused, type_names};

const VIEW: &str = "base.framework.object.view";

#[tokio::test]
async fn a_token_for_tools_signs_in_and_no_other_password_does() {
    let tools = ToolApp::start().await;
    let token = tools.token(1, &json!({})).await;
    let rest = json!({"name": "rest"});
    let plain = tools.app.post("/users/1/tokens/", &rest).await.json()["token"].as_str().expect("a token").to_owned();
    let ping = async |name: &str, password: &str, options: &str| {
        let client = tools.client_with(name, password, options).await;
        client.database(DATABASE).run_command(doc! { "ping": 1 }).await.err().map(|error| error.to_string())
    };
    assert_eq!(ping("admin", &token, "").await, None);
    assert_eq!(ping("ADMIN", &token, "").await, None);
    assert_eq!(ping("admin", &token, "authSource=inventory&compressors=zstd").await, None);
    for (name, password, options) in [
        ("admin", plain.as_str(), ""),
        ("admin", "correct%20horse%20battery", ""),
        ("nobody", &token, ""),
        ("admin", &token, "authSource=other"),
    ] {
        let refusal = ping(name, password, options).await.expect("a refusal");
        assert!(refusal.contains("Authentication failed"), "{name} {options}: {refusal}");
    }
}

#[tokio::test]
async fn a_good_token_of_the_other_kind_is_named_to_the_operator_alone() {
    let tools = ToolApp::start().await;
    let (user_id, _) = tools.user("ada", &[VIEW]).await;
    let rest = json!({"name": "nightly report"});
    let made = tools.app.post(&format!("/users/{user_id}/tokens/"), &rest).await.json();
    let named = async || {
        let now = bson::DateTime::from_millis(0);
        scram::refused(&*tools.app.store, now, Duration::from_secs(9)).await.expect("an answer")
    };
    let ping = async |password: &str| {
        let client = tools.client("ada", password).await;
        client.database(DATABASE).run_command(doc! { "ping": 1 }).await.expect_err("a refusal").to_string()
    };
    let wrong = ping("guess").await;
    assert!(named().await.is_empty());
    assert_eq!(ping(made["token"].as_str().expect("a token")).await, wrong);
    let named = named().await;
    assert_eq!(named.len(), 1, "{named:?}");
    for part in [&format!("of user {user_id}"), "\"nightly report\"", "without \"mongodb\": true"] {
        assert!(named[0].contains(part), "{named:?}");
    }
    let listed = tools.app.get(&format!("/users/{user_id}/tokens/")).await;
    assert!(!listed.text.contains("refused") && !listed.text.contains("scram"), "{}", listed.text);
}

#[tokio::test]
async fn guesses_are_braked_as_at_sign_in() {
    let tools =
        ToolApp::start_with(&[("auth.throttle.user_failures", "2"), ("auth.throttle.first_refusal_s", "600")]).await;
    let token = tools.token(1, &json!({})).await;
    for _ in 0..2 {
        let client = tools.client("admin", "guess").await;
        client.database(DATABASE).run_command(doc! { "ping": 1 }).await.expect_err("a wrong password");
    }
    let client = tools.client("admin", &token).await;
    let refusal = client.database(DATABASE).run_command(doc! { "ping": 1 }).await.expect_err("it is held back");
    assert!(refusal.to_string().contains("too many failed attempts"), "{refusal}");
}

#[tokio::test]
async fn a_revoked_token_and_a_locked_user_end_the_session_at_the_next_command() {
    let tools = ToolApp::start().await;
    let (user_id, token) = tools.user("ada", &[VIEW]).await;
    let client = tools.client("ada", &token).await;
    let database = client.database(DATABASE);
    assert!(found(&database, doc! { "find": "framework.objects" }).await.is_empty());
    let tokens = tools.app.get(&format!("/users/{user_id}/tokens/")).await.json();
    assert_eq!(tokens["results"][0]["mongodb"], true);
    assert!(!tokens.to_string().contains("scram"), "{tokens}");
    let id = tokens["results"][0]["public_id"].as_i64().expect("an id");
    tools.delete(&format!("/users/{user_id}/tokens/{id}")).await;
    assert_eq!(refused(&database, doc! { "find": "framework.objects" }).await.0, 18);
    // The driver tries to sign in again.
    database.run_command(doc! { "ping": 1 }).await.expect_err("the token is gone");

    let again = tools.token(user_id, &json!({"name": "again"})).await;
    let client = tools.client("ada", &again).await;
    client.database(DATABASE).run_command(doc! { "ping": 1 }).await.expect("a session");
    let answer = tools.app.patch(&format!("/users/{user_id}"), &json!({"active": false})).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    assert_eq!(refused(&client.database(DATABASE), doc! { "ping": 1 }).await.0, 18);
}

#[tokio::test]
async fn a_user_has_at_most_sixteen_tokens_for_tools() {
    let tools = ToolApp::start().await;
    let mut tokens = Vec::new();
    for number in 0..16 {
        tokens.push(tools.token(1, &json!({"name": format!("tools {number}")})).await);
    }
    let body = json!({"name": "one more", "mongodb": true});
    tools.app.post("/users/1/tokens/", &body).await.error(400, "quota_exceeded");
    for token in [&tokens[0], &tokens[15]] {
        let client = tools.client("admin", token).await;
        client.database(DATABASE).run_command(doc! { "ping": 1 }).await.expect("each of them signs in");
    }
}

#[tokio::test]
async fn a_renamed_user_signs_in_under_the_new_name() {
    let tools = ToolApp::start().await;
    let (user_id, token) = tools.user("ada", &[VIEW]).await;
    let answer = tools.app.patch(&format!("/users/{user_id}"), &json!({"user_name": "lovelace"})).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    let second = tools.token(user_id, &json!({"name": "second"})).await;
    for token in [token, second] {
        let client = tools.client("lovelace", &token).await;
        client.database(DATABASE).run_command(doc! { "ping": 1 }).await.expect("a session");
    }
}

#[tokio::test]
async fn rights_are_those_of_the_token_and_of_its_user() {
    let tools = ToolApp::start().await;
    let (user_id, _) = tools.user("ada", &[VIEW, "base.framework.type.view"]).await;
    let token = tools.token(user_id, &json!({"name": "narrow", "rights": [VIEW]})).await;
    let client = tools.client("ada", &token).await;
    let database = client.database(DATABASE);
    let mut names = database.list_collection_names().await.expect("names");
    names.sort();
    let all = [
        "framework.categories", "framework.objects", "framework.types", "management.groups", "management.users",
        "management.users.settings",
    ];
    assert_eq!(names, all);
    assert!(found(&database, doc! { "find": "framework.objects" }).await.is_empty());
    for collection in ["framework.types", "framework.categories", "management.groups", "management.users"] {
        for command in [
            doc! { "find": collection },
            doc! { "count": collection },
            doc! { "distinct": collection, "key": "name" },
            doc! { "collStats": collection },
            doc! { "listIndexes": collection },
            doc! { "explain": { "find": collection } },
        ] {
            let (code, message) = refused(&database, command).await;
            assert_eq!(code, 13, "{message}");
        }
    }
}

#[tokio::test]
async fn settings_are_shown_to_their_user() {
    let tools = ToolApp::start().await;
    let (user_id, token) = tools.user("ada", &[VIEW]).await;
    for user in [user_id, 1] {
        let body = json!({"identifier": "table", "setting_type": "GLOBAL", "payload": {"of": user}});
        let answer = tools.app.post(&format!("/users/{user}/settings/"), &body).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }
    let ada = tools.client("ada", &token).await.database(DATABASE);
    let own = found(&ada, doc! { "find": "management.users.settings" }).await;
    assert_eq!(own.iter().map(|setting| setting.get_i64("user_id").expect("a user")).collect::<Vec<_>>(), [user_id]);
    let admin = tools.admin().await;
    assert_eq!(found(&admin, doc! { "find": "management.users.settings" }).await.len(), 2);
}

#[tokio::test]
async fn objects_that_an_access_list_hides_are_not_there() {
    let tools = ToolApp::start().await;
    let (_, token) = tools.user("ada", &[VIEW, "base.framework.type.view"]).await;
    let hidden = tools.hidden_type("hidden", &[1]).await;
    let open = tools.app.create_type("open", &[]).await;
    for type_id in [hidden, open, hidden] {
        tools.app.create_object(type_id, &json!({})).await;
    }
    let ada = tools.client("ada", &token).await.database(DATABASE);
    assert_eq!(found(&ada, doc! { "find": "framework.objects" }).await.len(), 1);
    assert_eq!(
        ada.run_command(doc! { "count": "framework.objects" }).await.expect("a number").get_i32("n").ok(),
        Some(1)
    );
    let distinct = ada.run_command(doc! { "distinct": "framework.objects", "key": "type_id" }).await.expect("values");
    assert_eq!(distinct.get_array("values").ok().map(Vec::len), Some(1));
    let stats = ada.run_command(doc! { "collStats": "framework.objects" }).await.expect("figures");
    assert_eq!(stats.get_i64("count").ok(), Some(1));
    let count = doc! { "$count": "n" };
    let pipeline =
        |stages: Vec<bson::Document>| doc! { "aggregate": "framework.objects", "pipeline": stages, "cursor": {} };
    assert_eq!(found(&ada, pipeline(vec![count.clone()])).await, [doc! { "n": 1 }]);
    let union = pipeline(vec![doc! { "$unionWith": "framework.objects" }, count.clone()]);
    assert_eq!(found(&ada, union).await, [doc! { "n": 2 }]);
    let look = doc! { "from": "framework.objects", "pipeline": [count], "as": "all" };
    let looked =
        found(&ada, pipeline(vec![doc! { "$lookup": look }, doc! { "$project": { "_id": 0, "all": 1 } }])).await;
    assert_eq!(looked, [doc! { "all": [{ "n": 1 }] }]);
    for from in ["management.users", "service.tokens", "framework.categories"] {
        let (code, message) = refused(&ada, pipeline(vec![doc! { "$unionWith": from }])).await;
        assert_eq!(code, 13, "{message}");
    }
    // An expression that fails on hidden objects does not fail.
    let failing = doc! { "$expr": { "$divide": [1, { "$subtract": ["$type_id", hidden] }] } };
    assert_eq!(found(&ada, doc! { "find": "framework.objects", "filter": failing }).await.len(), 1);
    let explain = doc! { "explain": { "find": "framework.objects" }, "verbosity": "executionStats" };
    let explained = ada.run_command(explain).await.expect("a plan").to_string();
    assert!(!explained.contains("xamined"), "{explained}");
    assert_eq!(type_names(&ada).await, ["hidden", "open"]);
}

#[tokio::test]
async fn explain_shows_nothing_of_what_hides_objects() {
    let tools = ToolApp::start().await;
    let (_, token) = tools.user("ada", &[VIEW]).await;
    let open = tools.app.create_type("open", &[]).await;
    let hidden = tools.hidden_type("hidden", &[1]).await;
    for type_id in [open, hidden, open] {
        tools.app.create_object(type_id, &json!({})).await;
    }
    let (ada, admin) = (tools.client("ada", &token).await.database(DATABASE), tools.admin().await);
    for filter in [
        doc! {},
        doc! { "type_id": open },
        doc! { "type_id": hidden },
        doc! { "type_id": { "$in": [open, hidden, 987_654] } },
        doc! { "type_id": { "$gt": 0 }, "active": true },
    ] {
        let stages = vec![doc! { "$match": filter.clone() }, doc! { "$group": { "_id": "$author_id" } }];
        for command in [
            doc! { "find": "framework.objects", "filter": filter.clone() },
            doc! { "find": "framework.objects", "filter": filter.clone(), "sort": { "type_id": 1 } },
            doc! { "count": "framework.objects", "query": filter.clone() },
            doc! { "distinct": "framework.objects", "key": "author_id", "query": filter },
            doc! { "aggregate": "framework.objects", "pipeline": stages, "cursor": {} },
        ] {
            let explain = doc! { "explain": command, "verbosity": "queryPlanner" };
            let seen_by_ada = ada.run_command(explain.clone()).await.expect("a plan");
            // From the administrator nothing is hidden.
            assert_eq!(seen_by_ada, admin.run_command(explain).await.expect("a plan"));
        }
    }
}

#[tokio::test]
async fn a_cursor_ends_when_its_user_may_see_less() {
    let tools = ToolApp::start().await;
    let (_, token) = tools.user("ada", &[VIEW]).await;
    let type_id = tools.app.create_type("open", &[]).await;
    for _ in 0..3 {
        tools.app.create_object(type_id, &json!({})).await;
    }
    let ada = tools.client("ada", &token).await.database(DATABASE);
    let answer = ada.run_command(doc! { "find": "framework.objects", "batchSize": 1 }).await.expect("a batch");
    let id = answer.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor");
    let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
    let changed = tools.app.patch(&format!("/types/{type_id}"), &acl).await;
    assert!(changed.status.is_success(), "{}", changed.text);
    let more = doc! { "getMore": id, "collection": "framework.objects" };
    assert_eq!(refused(&ada, more.clone()).await.0, 175);
    assert_eq!(refused(&ada, more).await.0, 43);
}

#[tokio::test]
async fn a_cursor_is_nobody_elses() {
    let tools = ToolApp::start().await;
    let (_, token) = tools.user("ada", &[VIEW]).await;
    let type_id = tools.app.create_type("open", &[]).await;
    for _ in 0..3 {
        tools.app.create_object(type_id, &json!({})).await;
    }
    let admin = tools.admin().await;
    let answer = admin.run_command(doc! { "find": "framework.objects", "batchSize": 1 }).await.expect("a batch");
    let id = answer.get_document("cursor").and_then(|cursor| cursor.get_i64("id")).expect("a cursor");
    let ada = tools.client("ada", &token).await.database(DATABASE);
    let more = doc! { "getMore": id, "collection": "framework.objects" };
    assert_eq!(refused(&ada, more.clone()).await.0, 43);
    let killed =
        ada.run_command(doc! { "killCursors": "framework.objects", "cursors": [id] }).await.expect("an answer");
    assert_eq!(killed.get_array("cursorsNotFound").ok().map(Vec::len), Some(1));
    admin.run_command(more).await.expect("it is still there");
}

#[tokio::test]
async fn users_come_without_passwords_and_secrets_do_not_exist() {
    let tools = ToolApp::start().await;
    let admin = tools.admin().await;
    let users =
        found(&admin, doc! { "find": "management.users", "projection": { "user_name": 1, "password": 1 } }).await;
    assert_eq!(users.len(), 1);
    assert_eq!(users[0].get_str("user_name").ok(), Some("admin"));
    assert!(users[0].get("password").is_none() && users[0].get("_id").is_some());
    let stages = vec![doc! { "$match": { "password": { "$exists": true } } }, doc! { "$count": "n" }];
    assert!(found(&admin, doc! { "aggregate": "management.users", "pipeline": stages, "cursor": {} }).await.is_empty());
    for secret in ["service.credentials", "service.keys", "service.tokens", "service.secrets"] {
        assert!(found(&admin, doc! { "find": secret }).await.is_empty(), "{secret}");
        assert_eq!(refused(&admin, doc! { "listIndexes": secret }).await.0, 26);
    }
}

#[tokio::test]
async fn without_a_sign_in_there_is_only_the_handshake() {
    let tools = ToolApp::start().await;
    let uri = format!("mongodb://{}/?directConnection=true", tools.address);
    let client = mongodb::Client::with_uri_str(uri).await.expect("a well-formed URI");
    let database = client.database(DATABASE);
    database.run_command(doc! { "hello": 1 }).await.expect("everybody may ask");
    for command in [
        doc! { "ping": 1 },
        doc! { "find": "framework.types" },
        doc! { "insert": "framework.types", "documents": [{}] },
        doc! { "noSuchCommand": 1 },
        doc! { "listDatabases": 1 },
    ] {
        let error = database.run_command(command.clone()).await.expect_err("it needs a sign-in");
        assert_eq!(code_of(&error), Some(13), "{command}");
    }
}
