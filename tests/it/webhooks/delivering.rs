//! What webhooks deliver.

use reqwest::Method;
use serde_json::{Value, json};

use super::receiver::{Receiver, World};
use crate::support::app::send;

/// A type of servers.
async fn servers(world: &World) -> i64 {
    world.app.create_type("server", &[("hostname", "text"), ("units", "number"), ("login", "password")]).await
}

async fn set(world: &World, id: i64, values: &Value) {
    let answer = world.app.patch(&format!("/objects/{id}"), &json!({"fields": values})).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
}

with_a_receiver! {
    async fn what_comes_changes_and_goes_is_delivered_in_order(world) {
        let receiver = Receiver::start();
        let kind = servers(&world).await;
        let asked = json!({"resources": ["objects"], "filter": "{\"f.units\": {\"$gt\": 3}}", "view": "native"});
        let (hook, secret) = world.webhook(&receiver, asked).await;
        let id = world.app.create_object(kind, &json!({"hostname": "a", "units": 1})).await;
        for units in [5, 6, 1] {
            set(&world, id, &json!({"units": units})).await;
        }
        assert_eq!(world.app.delete(&format!("/objects/{id}")).await.status, 200);
        let came: Vec<_> = (0..3).map(|_| receiver.next()).collect();
        let kinds: Vec<Value> = came.iter().map(|message| message.json()["type"].clone()).collect();
        assert_eq!(kinds, ["objects.enter", "objects.change", "objects.leave"]);
        let values: Vec<Value> = came.iter().map(|message| message.data("/document/fields/1/value")).collect();
        assert_eq!(values, [json!(5), json!(6), Value::Null]);
        for message in &came {
            assert_eq!((message.data("/public_id"), message.data("/resource")), (json!(id), json!("objects")));
            assert_eq!(message.header("webhook-signature"), message.signature(&secret));
            assert_ne!(message.signature(&secret), message.signature("whsec_AAAA"));
            assert!(message.id().starts_with(&format!("evt-{hook}-{}-", message.data("/sequence"))), "{}", message.id());
            assert_eq!(message.header("content-type"), "application/json");
        }
        let records = world.deliveries(hook, 3).await;
        assert!(records.iter().all(|record| record["delivered"] == true && record["status"] == 204), "{records:?}");
        assert_eq!(records[0]["message_id"], came[2].id());
    }

    async fn values_of_password_fields_are_never_delivered(world) {
        let kind = servers(&world).await;
        let receivers = [Receiver::start(), Receiver::start()];
        for (receiver, view) in receivers.iter().zip(["native", "render"]) {
            world.webhook(receiver, json!({"resources": ["objects"], "view": view})).await;
        }
        world.app.create_object(kind, &json!({"hostname": "a", "login": "open sesame"})).await;
        let native = receivers[0].next();
        assert_eq!(native.data("/document/fields/2/value"), "********", "{}", native.text);
        let rendered = receivers[1].next();
        assert_eq!(rendered.data("/document/type_information/type_id"), kind, "{}", rendered.text);
        assert!(!rendered.text.contains("sesame") && !native.text.contains("sesame"), "{}", rendered.text);
    }

    async fn a_view_of_ids_holds_no_document(world) {
        let receiver = Receiver::start();
        world.webhook(&receiver, json!({"view": "ids"})).await;
        servers(&world).await;
        let came = receiver.next();
        assert_eq!((&came.json()["type"], came.data("/kind")), (&json!("types.enter"), json!("enter")));
        assert!(came.json()["data"].get("document").is_none(), "{}", came.text);
    }

    async fn a_replay_sends_again_under_the_same_ids(world) {
        let receiver = Receiver::start();
        let kind = servers(&world).await;
        let (hook, _) = world.webhook(&receiver, json!({"resources": ["objects"]})).await;
        let since = world.app.get("/changes/").await.json()["next"].as_str().expect("a cursor").to_owned();
        for name in ["a", "b"] {
            world.app.create_object(kind, &json!({"hostname": name})).await;
        }
        let first = [receiver.next(), receiver.next()];
        world.deliveries(hook, 2).await;
        let replayed = send(world.app.request(Method::POST, &format!("/webhooks/{hook}/replay?since={since}"))).await;
        assert_eq!(replayed.status, 202, "{}", replayed.text);
        let again = [receiver.next(), receiver.next()];
        assert_eq!(first.map(|message| message.id().to_owned()), again.map(|message| message.id().to_owned()));
    }

    async fn a_test_sends_a_signed_event_and_tells_what_came(world) {
        let receiver = Receiver::start();
        let (hook, secret) = world.webhook(&receiver, json!({"active": false})).await;
        receiver.answer(&["204 No Content", "418 I'm a teapot"]);
        let test = async || send(world.app.request(Method::POST, &format!("/webhooks/{hook}/test"))).await.json();
        let tested = test().await;
        assert_eq!((&tested["delivered"], &tested["status"], &tested["outcome"]), (&json!(true), &json!(204), &json!("delivered")));
        let came = receiver.next();
        assert_eq!((&came.json()["type"], came.header("webhook-signature")), (&json!("webhook.test"), came.signature(&secret).as_str()));
        let tested = test().await;
        assert_eq!((&tested["delivered"], &tested["status"]), (&json!(false), &json!(418)));
    }

    async fn a_webhook_that_is_off_sends_nothing_and_goes_on_where_it_was(world) {
        let receiver = Receiver::start();
        let kind = servers(&world).await;
        let (hook, _) = world.webhook(&receiver, json!({"resources": ["objects"], "active": false})).await;
        world.app.create_object(kind, &json!({"hostname": "a"})).await;
        assert_eq!(receiver.rest().len(), 0);
        assert_eq!(world.app.patch(&format!("/webhooks/{hook}"), &json!({"active": true})).await.status, 202);
        assert_eq!(receiver.next().data("/document/fields/0/value"), "a");
    }

    async fn at_most_two_hundred_attempts_are_on_record(world) {
        let receiver = Receiver::start();
        let kind = servers(&world).await;
        let (hook, _) = world.webhook(&receiver, json!({"resources": ["objects"], "view": "ids"})).await;
        let objects: Vec<Value> = (0..210).map(|_| json!({"type_id": kind, "author_id": 1, "fields": []})).collect();
        assert_eq!(world.app.post("/objects/bulk", &json!(objects)).await.status, 200);
        let ids: Vec<Value> = (0..210).map(|_| receiver.next().data("/public_id")).collect();
        assert!(ids.is_sorted_by_key(Value::as_i64), "{ids:?}");
        let newest = async || world.app.get(&format!("/webhooks/{hook}/deliveries/")).await.results("/number");
        while newest().await.first() != Some(&json!(210)) {}
        let numbers = newest().await;
        assert_eq!((numbers.len(), &numbers[199]), (200, &json!(11)));
        world.clock.advance(chrono::TimeDelta::days(8));
        world.app.sign_in_again().await;
        let shown = world.app.get(&format!("/webhooks/{hook}/deliveries/")).await.results("/number");
        assert!(shown.is_empty(), "records of a week are shown");
    }
}
