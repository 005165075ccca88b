//! A handler that panics.

use reqwest::Method;

use crate::support::app::{TestApp, send};
use crate::support::counting::CountingStore;

/// What `/metrics` is read with.
const TOKEN: &str = "0123456789abcdef";

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_answered_in_the_one_shape_and_counted_and_the_service_goes_on() {
    let counter = CountingStore::counter();
    let settings = [("metrics.token", TOKEN)];
    let app = TestApp::embedded_around_with(&settings, |store| CountingStore::around(store, &counter)).await;
    let id = app.create_type("rack", &[]).await;
    for _ in 0..3 {
        counter.panic_next();
        let error = app.get("/types/").await.error(500, "internal");
        assert!(!error["message"].as_str().expect("a message").contains("defect"));
    }
    assert_eq!(app.get(&format!("/types/{id}")).await.status, 200);
    let metrics = app.anonymous(Method::GET, &format!("{}/metrics", app.origin)).bearer_auth(TOKEN);
    let metrics = send(metrics).await.text;
    assert!(metrics.lines().any(|line| line == "inventory_panics_total 3"), "{metrics}");
}
