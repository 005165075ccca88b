//! Receivers that fail.

use std::time::Duration;

use bson::DateTime;
use chrono::TimeDelta;
use inventory_service::clock::Clock;
use inventory_service::service::history::prune::prune;
use reqwest::Method;
use serde_json::json;

use super::receiver::{Receiver, World};

/// Makes a webhook for objects, and an object.
async fn one_event(world: &World, receiver: &Receiver) -> i64 {
    let kind = world.app.create_type("server", &[("hostname", "text")]).await;
    let (hook, _) = world.webhook(receiver, json!({"resources": ["objects"]})).await;
    world.app.create_object(kind, &json!({"hostname": "a"})).await;
    hook
}

with_a_receiver! {
    async fn a_refused_event_comes_again_under_the_same_id(world) {
        let receiver = Receiver::start();
        receiver.answer(&["500 Broken", "503 Away"]);
        let hook = one_event(&world, &receiver).await;
        let first = receiver.next();
        let records = world.deliveries(hook, 1).await;
        assert_eq!((&records[0]["status"], &records[0]["delivered"]), (&json!(500), &json!(false)));
        let failing = world.read(hook).await;
        assert_eq!(failing["state"], "active");
        assert!(failing["reason"].as_str().expect("a reason").starts_with("attempts fail since "), "{failing}");
        assert!(receiver.rest().is_empty(), "it waits");
        world.clock.advance(TimeDelta::seconds(5));
        let second = receiver.next();
        world.deliveries(hook, 2).await;
        world.clock.advance(TimeDelta::seconds(30));
        let third = receiver.next();
        assert_eq!((first.id(), first.id()), (second.id(), third.id()));
        assert_ne!(first.header("webhook-timestamp"), third.header("webhook-timestamp"));
        let records = world.deliveries(hook, 3).await;
        let attempts: Vec<_> = records.iter().map(|record| &record["attempt"]).collect();
        assert_eq!(attempts, [3, 2, 1]);
        assert_eq!(records[0]["delivered"], true);
        let delivers = world.read(hook).await;
        assert_eq!((&delivers["state"], &delivers["reason"]), (&json!("active"), &json!(null)));
    }

    async fn an_event_waits_for_a_receiver_that_was_away(world) {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = closed.local_addr().expect("an address");
        drop(closed);
        let kind = world.app.create_type("server", &[("hostname", "text")]).await;
        let hook = json!({"name": "a", "url": format!("http://{address}/"), "resources": ["objects"]});
        let hook = world.app.created("/webhooks/", &hook).await;
        for name in ["a", "b"] {
            world.app.create_object(kind, &json!({"hostname": name})).await;
        }
        let failed = world.deliveries(hook, 1).await[0].clone();
        assert_eq!((&failed["status"], &failed["delivered"]), (&json!(null), &json!(false)), "{failed}");
        let back = Receiver::at(address);
        world.clock.advance(TimeDelta::seconds(5));
        let came = [back.next(), back.next()];
        assert_eq!(came[0].id(), failed["message_id"]);
        assert_eq!(came.map(|message| message.data("/document/fields/0/value")), ["a", "b"]);
    }

    async fn after_a_day_of_failures_it_is_paused_and_can_go_on(world) {
        let receiver = Receiver::start();
        receiver.answer(&["500 Broken", "500 Broken"]);
        let hook = one_event(&world, &receiver).await;
        let first = receiver.next();
        world.deliveries(hook, 1).await;
        world.clock.advance(TimeDelta::hours(25));
        world.app.sign_in_again().await;
        receiver.next();
        let paused = world.in_state(hook, "paused").await;
        assert_eq!(paused["active"], false);
        assert!(paused["reason"].as_str().expect("a reason").contains("24 hours"), "{paused}");
        assert_eq!(world.app.get("/webhooks/?filter={\"state\":\"paused\"}").await.json()["total"], 1);
        // A new name does not wake it.
        let renamed = world.app.patch(&format!("/webhooks/{hook}"), &json!({"name": "b"})).await.json();
        assert_eq!((&renamed["result"]["state"], &renamed["result"]["reason"]), (&paused["state"], &paused["reason"]));
        let resumed = world.app.patch(&format!("/webhooks/{hook}"), &json!({"active": true})).await.json();
        assert_eq!((&resumed["result"]["state"], &resumed["result"]["reason"]), (&json!("active"), &json!(null)));
        assert_eq!(receiver.next().id(), first.id());
    }

    async fn a_receiver_that_is_gone_pauses_it_at_once(world) {
        let receiver = Receiver::start();
        receiver.answer(&["410 Gone"]);
        let hook = one_event(&world, &receiver).await;
        let paused = world.in_state(hook, "paused").await;
        assert!(paused["reason"].as_str().expect("a reason").contains("410"), "{paused}");
        assert_eq!(world.deliveries(hook, 1).await[0]["status"], 410);
    }

    async fn a_filter_that_takes_too_long_for_a_day_pauses_it(world) {
        let receiver = Receiver::start();
        let kind = world.app.create_type("server", &[("hostname", "text")]).await;
        let slow = json!({"$expr": {"$eq": [0, {"$reduce": {"input": {"$range": [0, 15000]}, "initialValue": 0,
            "in": {"$size": {"$range": [0, {"$add": [500, "$public_id"]}]}}}}]}});
        let asked = json!({"resources": ["objects"], "filter": slow.to_string()});
        let (hook, _) = world.webhook(&receiver, asked).await;
        world.app.create_object(kind, &json!({"hostname": "a"})).await;
        let paused = loop {
            world.clock.advance(TimeDelta::hours(1));
            world.app.sign_in_again().await;
            let webhook = world.read(hook).await;
            if webhook["state"] != "active" {
                break webhook;
            }
        };
        assert_eq!(paused["state"], "paused");
        assert!(paused["reason"].as_str().expect("a reason").contains("too long"), "{paused}");
        assert!(receiver.rest().is_empty());
    }

    async fn a_history_that_ends_behind_skipped_events_pauses_nothing(world) {
        let receivers = [Receiver::start(), Receiver::start()];
        let hook = one_event(&world, &receivers[0]).await;
        receivers[0].next();
        world.webhook(&receivers[1], json!({"resources": ["types"]})).await;
        let kind = world.app.create_type("rack", &[("hostname", "text")]).await;
        // Both had their turns then.
        receivers[1].next();
        world.app.create_type("site", &[("hostname", "text")]).await;
        receivers[1].next();
        world.clock.advance(TimeDelta::minutes(1));
        let limit = DateTime::from_chrono(world.clock.now());
        prune(&*world.app.store, limit, Duration::from_secs(30)).await.expect("pruned");
        world.app.create_object(kind, &json!({"hostname": "b"})).await;
        assert_eq!(receivers[0].next().data("/document/fields/0/value"), "b");
        let delivers = world.read(hook).await;
        assert_eq!((&delivers["state"], &delivers["reason"]), (&json!("active"), &json!(null)));
    }

    async fn tests_that_nobody_waits_for_keep_their_places(world) {
        // It accepts connections and says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", silent.local_addr().expect("an address"));
        let hook = world.app.created("/webhooks/", &json!({"name": "silent", "url": url})).await;
        let path = format!("/webhooks/{hook}/test");
        let mut held = Vec::new();
        for _ in 0..4 {
            let test = world.app.request(Method::POST, &path);
            let test = tokio::spawn(async move { test.send().await });
            held.push(silent.accept().expect("a connection"));
            test.abort();
        }
        // A request whose client has left ends a second later.
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.app.post(&path, &json!({})).await.error(503, "busy");
    }

    async fn a_slow_receiver_delays_no_other(world) {
        // It accepts connections and says nothing.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/", silent.local_addr().expect("an address"));
        let made = world.app.post("/webhooks/", &json!({"name": "silent", "url": url, "resources": ["objects"]})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        let receiver = Receiver::start();
        one_event(&world, &receiver).await;
        let (held, _) = silent.accept().expect("a connection");
        assert_eq!(receiver.next().data("/document/fields/0/value"), "a");
        drop(held);
    }
}
