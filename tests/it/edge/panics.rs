//! A handler that panics.

use crate::support::app::TestApp;
use crate::support::counting::CountingStore;

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_answered_in_the_one_shape_and_the_service_goes_on() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    let id = app.create_type("rack", &[]).await;
    for _ in 0..3 {
        counter.panic_next();
        let error = app.get("/types/").await.error(500, "internal");
        assert!(!error["message"].as_str().expect("a message").contains("defect"));
    }
    assert_eq!(app.get(&format!("/types/{id}")).await.status, 200);
}
