//! Where webhooks may go.

use reqwest::Method;
use serde_json::json;

use super::receiver::Receiver;
use crate::support::app::{on_each_store, send};

on_each_store! {
    async fn a_name_that_leads_inside_is_refused_without_a_word_of_what_is_there(app) {
        let receiver = Receiver::start();
        let port = receiver.address.port();
        let mut outcomes = Vec::new();
        let plain = app.post("/webhooks/", &json!({"name": "a", "url": format!("http://localhost:{port}/")})).await;
        let told = plain.error(400, "validation_failed")["errors"].to_string();
        assert!(told.contains("http:// reaches only the networks of the setting webhooks.allowed_networks, which names none"), "{told}");
        for url in [format!("https://localhost:{port}/"), "https://no.such.invalid/".to_owned()] {
            let id = app.created("/webhooks/", &json!({"name": "a", "url": url, "active": false})).await;
            let tested = send(app.request(Method::POST, &format!("/webhooks/{id}/test"))).await.json();
            assert_eq!((&tested["delivered"], &tested["status"]), (&json!(false), &json!(null)), "{tested}");
            outcomes.push(tested["outcome"].clone());
        }
        assert!(outcomes[0].as_str().expect("words").contains("webhooks.allowed_networks"), "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{outcomes:?}");
        assert!(receiver.rest().is_empty());
        let refused = app.post("/webhooks/", &json!({"name": "a", "url": receiver.url()})).await;
        refused.error(400, "validation_failed");
        assert_eq!(refused.pointers(), ["/url"]);
    }
}

with_a_receiver! {
    async fn a_redirect_is_a_failure_and_nothing_follows_it(world) {
        let (receiver, inside) = (Receiver::start(), Receiver::start());
        receiver.answer(&[&format!("307 Temporary Redirect\r\nLocation: {}", inside.url())]);
        let (hook, _) = world.webhook(&receiver, json!({"active": false})).await;
        let tested = send(world.app.request(Method::POST, &format!("/webhooks/{hook}/test"))).await.json();
        assert_eq!((&tested["status"], &tested["outcome"]), (&json!(307), &json!("redirects are not followed")));
        assert!(inside.rest().is_empty());
    }
}
