//! Webhooks as a resource.

use reqwest::Method;
use serde_json::{Value, json};

use crate::api::people::Person;
use crate::support::app::{on_each_store, send};

/// A body that is right.
fn body() -> Value {
    json!({"name": "chat", "url": "https://hooks.example.org/inventory", "active": false})
}

on_each_store! {
    async fn a_webhook_is_made_listed_changed_and_deleted(app) {
        let made = app.post("/webhooks/", &body()).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let raw = &made.json()["raw"];
        assert_eq!(raw["resources"], json!(["objects", "types", "categories"]));
        assert_eq!((&raw["state"], &raw["view"], &raw["author_id"]), (&json!("off"), &json!("native"), &json!(1)));
        assert!(made.header("location").ends_with("/rest/webhooks/1"), "{made:?}");
        assert_eq!(app.get("/webhooks/?filter={\"state\":\"off\"}&sort=name").await.results("/name"), ["chat"]);
        let mut read = app.get("/webhooks/1").await.json()["result"].clone();
        read["name"] = json!("alerts");
        // What was read can be sent back.
        let put = app.put("/webhooks/1", &read).await;
        assert_eq!((put.status.as_u16(), &put.json()["result"]["name"]), (202, &json!("alerts")), "{}", put.text);
        let patch = app.patch("/webhooks/1", &json!({"view": "ids", "resources": ["objects"], "filter": "{\"type_id\": 1}"})).await;
        assert_eq!(patch.json()["result"]["filter"], "{\"type_id\": 1}", "{}", patch.text);
        assert_eq!(app.delete("/webhooks/1").await.status, 202);
        for path in ["/webhooks/1", "/webhooks/1/deliveries/"] {
            app.get(path).await.error(404, "webhook_not_found");
        }
        for path in ["/webhooks/1/test", "/webhooks/1/replay?since=0"] {
            send(app.request(Method::POST, path)).await.error(404, "webhook_not_found");
        }
    }

    async fn the_secret_is_shown_once_and_nobody_can_ask_for_it(app) {
        let made = app.post("/webhooks/", &body()).await;
        let secret = made.json()["secret"].as_str().expect("a secret").to_owned();
        assert!(secret.starts_with("whsec_") && secret.len() == 50, "{secret}");
        assert_eq!(made.header("cache-control"), "no-store");
        for answer in [
            app.get("/webhooks/1").await,
            app.get("/webhooks/").await,
            app.put("/webhooks/1", &body()).await,
            app.patch("/webhooks/1", &json!({"name": "b"})).await,
            app.get("/webhooks/1/deliveries/").await,
            app.delete("/webhooks/1").await,
        ] {
            assert!(!answer.text.contains("secret") && !answer.text.contains(&secret), "{}", answer.text);
        }
        app.post("/webhooks/", &body()).await;
        assert_eq!(app.get("/webhooks/?filter={\"secret\":{\"$exists\":true}}").await.json()["total"], 0);
    }

    async fn a_filter_that_finds_nothing_as_it_stands_is_told(app) {
        app.create_type("server", &[("hostname", "text")]).await;
        let hook = |filter: &str| json!({"name": "a", "url": "https://hooks.example.org/", "resources": ["objects"], "filter": filter, "active": false});
        let told = "no object has \"hostname\"; a field is asked for as f.hostname";
        let wrong = hook(r#"{"hostname": "x"}"#);
        for answer in [
            app.post("/webhooks/", &wrong).await,
            app.put("/webhooks/1", &wrong).await,
            app.patch("/webhooks/1", &json!({"view": "ids"})).await,
        ] {
            assert!(answer.status.is_success(), "{}", answer.text);
            assert_eq!(answer.header("inventory-query-hint"), told);
        }
        let right = app.put("/webhooks/1", &hook(r#"{"f.hostname": "x"}"#)).await;
        assert!(!right.headers.contains_key("inventory-query-hint"), "{right:?}");
    }

    async fn a_state_is_no_way_to_turn_a_webhook_on_or_off(app) {
        app.post("/webhooks/", &body()).await;
        for (sent, is_active) in [("active", false), ("off", true), ("paused", true), ("paused", false)] {
            app.patch("/webhooks/1", &json!({"active": is_active})).await;
            let answer = app.patch("/webhooks/1", &json!({"state": sent})).await;
            let told = answer.error(400, "validation_failed");
            assert_eq!(answer.pointers(), ["/state"]);
            let message = "is set by the service; \"active\": true has the webhook deliver, \"active\": false stops it";
            assert_eq!(told["errors"][0]["message"], message);
        }
        app.patch("/webhooks/1", &json!({"active": false})).await;
        let both = app.patch("/webhooks/1", &json!({"state": "active", "active": true})).await;
        assert_eq!((both.status.as_u16(), &both.json()["result"]["state"]), (202, &json!("active")), "{}", both.text);
    }

    async fn a_repeated_creation_makes_one_webhook(app) {
        let post = async || send(app.request(Method::POST, "/webhooks/").header("Idempotency-Key", "one").json(&body())).await;
        assert_eq!(post().await.status, 201);
        post().await.error(409, "webhook_made_before");
        assert_eq!(app.get("/webhooks/").await.json()["total"], 1);
    }

    async fn everything_wrong_with_a_body_is_named_with_its_place(app) {
        let wrong = json!({"name": "", "url": "https://user:word@h/", "resources": ["users"], "view": "all", "activ": true});
        let answer = app.post("/webhooks/", &wrong).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/name", "/url", "/view", "/resources/0", "/activ"], "{}", answer.text);
        assert!(answer.text.contains("did you mean active?"), "{}", answer.text);
        for (members, place) in [
            (json!({"url": "http://10.0.0.1/"}), "/url"),
            (json!({"resources": []}), "/resources"),
            (json!({"url": "https://[::1]/"}), "/url"),
            (json!({"url": "https://169.254.169.254/"}), "/url"),
            (json!({"resources": ["objects"], "filter": {"type_id": 1}}), "/filter"),
            (json!({"filter": "{}"}), "/filter"),
            (json!({"resources": ["objects"], "filter": "{\"$x\": 1}"}), "/filter"),
            (json!({"resources": ["objects"], "filter": "type 7"}), "/filter"),
            (json!({"resources": ["objects"], "filter": "{\"f.nobody\": 1}"}), "/filter"),
        ] {
            let mut wrong = body();
            wrong.as_object_mut().expect("an object").extend(members.as_object().expect("an object").clone());
            let answer = app.post("/webhooks/", &wrong).await;
            answer.error(400, "validation_failed");
            assert_eq!(answer.pointers(), [place], "{}", answer.text);
        }
        app.post("/webhooks/", &body()).await;
        assert_eq!(app.put("/webhooks/1", &json!({"public_id": 2, "name": "a", "url": "https://h/"})).await.pointers(), ["/public_id"]);
        for path in ["/webhooks/1/replay", "/webhooks/1/replay?since=x", "/webhooks/1/replay?since=999999"] {
            send(app.request(Method::POST, path)).await.error(400, "parameter_invalid");
        }
    }

    async fn a_change_can_depend_on_what_was_read(app) {
        app.post("/webhooks/", &body()).await;
        let tag = app.get("/webhooks/1").await.header("etag").to_owned();
        let change = async |tag: &str| send(app.request(Method::PATCH, "/webhooks/1").header("If-Match", tag).json(&json!({"name": "b"}))).await;
        assert_eq!(change(&tag).await.status, 202);
        change(&tag).await.error(412, "precondition_failed");
    }

    async fn there_are_at_most_a_hundred_webhooks(app) {
        for _ in 0..100 {
            assert_eq!(app.post("/webhooks/", &body()).await.status, 201);
        }
        app.post("/webhooks/", &body()).await.error(400, "quota_exceeded");
        assert_eq!(app.delete("/webhooks/7").await.status, 202);
        assert_eq!(app.post("/webhooks/", &body()).await.status, 201);
    }

    async fn only_holders_of_the_rights_see_and_change_webhooks(app) {
        app.post("/webhooks/", &body()).await;
        let reader = Person::with_rights(app, "reader", &["base.system.view", "base.framework.object.view"]).await;
        assert_eq!(reader.get(app, "/webhooks/1").await.status, 200);
        for (method, path) in [(Method::POST, "/webhooks/"), (Method::PUT, "/webhooks/1"), (Method::POST, "/webhooks/1/test")] {
            reader.send(app, method, path, &body()).await.error(403, "right_missing");
        }
        let other = Person::with_rights(app, "other", &["base.framework.object.view"]).await;
        other.get(app, "/webhooks/").await.error(403, "right_missing");
    }
}
