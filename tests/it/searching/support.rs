//! Questions, and waiting for the index of words.

use std::time::Duration;

use inventory_service::service::search::state::{Left, begin_again};
use inventory_service::store::Store;
use reqwest::Method;
use serde_json::Value;

use crate::api::people::Person;
use crate::support::app::{Answer, TestApp, send};

/// The time budget of a query.
pub(super) const MAX_TIME: Duration = Duration::from_secs(30);

/// Asks, with further parameters.
pub(super) async fn asked(app: &TestApp, words: &str, parameters: &[(&str, &str)]) -> Answer {
    app.get_with("/search/", &[&[("q", words)], parameters].concat()).await
}

/// The ids that the words find, in order; the index is complete.
pub(super) async fn found(app: &TestApp, words: &str) -> Vec<i64> {
    let answer = asked(app, words, &[("limit", "100")]).await;
    assert_eq!(answer.header("inventory-warning"), "", "{words}");
    assert_eq!(answer.json()["next"], Value::Null, "{words}: {}", answer.text);
    answer.results("/public_id").iter().filter_map(Value::as_i64).collect()
}

/// All that the words find, page after page: how each object matches, and its id.
pub(super) async fn found_in_pages(
    app: &TestApp,
    person: Option<&Person>,
    words: &str,
    (limit, type_id): (usize, Option<i64>),
) -> Vec<(String, i64)> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    let (limit, type_id) = (limit.to_string(), type_id.map(|id| id.to_string()));
    loop {
        let mut parameters = vec![("q", words), ("limit", &limit)];
        parameters.extend(type_id.as_deref().map(|id| ("type_id", id)));
        parameters.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
        let request = match person {
            Some(person) => person.request(app, Method::GET, "/search/"),
            None => app.request(Method::GET, "/search/"),
        };
        let answer = send(request.query(&parameters)).await;
        assert_eq!(answer.status, 200, "{words}: {}", answer.text);
        let body = answer.json();
        for hit in body["results"].as_array().expect("results") {
            let kind = hit["match"].as_str().expect("how it matches").to_owned();
            all.push((kind, hit["public_id"].as_i64().expect("an id")));
        }
        match body["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => return all,
        }
    }
}

/// Waits until nothing of the index is left to be made.
pub(super) async fn settled(store: &dyn Store) {
    for _ in 0..600 {
        if Left::read(store, MAX_TIME).await.expect("it can be read").is_nothing() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the index of words is not completed");
}

/// Has all of the index made again, and waits for it.
pub(crate) async fn made_again(store: &dyn Store) {
    begin_again(store, MAX_TIME).await.expect("it is noted");
    settled(store).await;
}
