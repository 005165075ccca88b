//! Filters that are none, as `?filter=` to the service on both stores: the same 400, with MongoDB's own number.
//!
//! `tests/malformed/filters.json` says which: operators with wrong operands at several places, unknown names, whole filters,
//! texts that are no JSON, filters that are good and fail on a document.

use std::path::Path;

use bson::{Bson, Document, doc};
use futures::{StreamExt, stream};
use inventory_service::json::read::document_from_str;
use mongodb::error::ErrorKind;
use serde_json::Value;

use crate::filters::read;
use crate::support::app::{Answer, TestApp};
use crate::support::mongod::{Deployment, shared};

/// How many requests are under way at once.
const AT_ONCE: usize = 8;

fn table() -> Document {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/malformed/filters.json"))
}

fn documents(table: &Document, name: &str) -> Vec<String> {
    let filters = table.get_array(name).expect("a list of filters").iter();
    filters.map(text).collect()
}

fn text(value: &Bson) -> String {
    value.clone().into_canonical_extjson().to_string()
}

/// Each operator and each unknown name at each place.
fn at_places(table: &Document) -> Vec<String> {
    let operators = table.get_document("operators").expect("operators").iter();
    let mut tests: Vec<Bson> = operators
        .flat_map(|(name, operands)| {
            operands.as_array().expect("a list").iter().map(move |operand| doc! { name: operand }.into())
        })
        .collect();
    tests.extend(
        table.get_array("unknown").expect("names").iter().map(|name| doc! { name.as_str().expect("a name"): 1 }.into()),
    );
    let places = table.get_document("places").expect("places").values();
    places
        .flat_map(|place| tests.iter().map(|test| place.as_str().expect("a text").replace('@', &text(test))))
        .collect()
}

async fn ask(app: &TestApp, filters: &[String]) -> Vec<Answer> {
    stream::iter(filters)
        .map(|filter| async move { app.get_with("/objects/", &[("filter", filter.as_str())]).await })
        .buffered(AT_ONCE)
        .collect()
        .await
}

/// What has to be the same: everything but the number of the request.
fn body(answer: &Answer) -> Value {
    let mut body = answer.json();
    let members = body.as_object_mut().expect("a body");
    // These have the id of the request, and the port of the service.
    for name in ["request_id", "instance", "type"] {
        members.remove(name);
    }
    body
}

/// Both stores, each with an object, and all that is asked of them.
async fn asked(filters: &[String]) -> Option<Vec<(Answer, Answer)>> {
    let mongodb = TestApp::mongodb().await?;
    let embedded = TestApp::embedded().await;
    for app in [&embedded, &mongodb] {
        let kind = app.create_type("thing", &[("x", "text")]).await;
        app.create_object(kind, &serde_json::json!({"x": "a"})).await;
    }
    let (embedded, mongodb) = (ask(&embedded, filters).await, ask(&mongodb, filters).await);
    Some(embedded.into_iter().zip(mongodb).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_filters_have_the_same_answer_on_both_stores() {
    let table = table();
    let mut filters = at_places(&table);
    for name in ["whole", "refused here"] {
        filters.extend(documents(&table, name));
    }
    let texts = table.get_array("texts").expect("texts").iter();
    filters.extend(texts.map(|text| text.as_str().expect("a text").to_owned()));
    assert!(filters.len() >= 500, "{} filters", filters.len());
    let Some(answers) = asked(&filters).await else { return };
    let mut wrong = Vec::new();
    for (filter, (embedded, mongodb)) in filters.iter().zip(&answers) {
        let (left, right) = (body(embedded), body(mongodb));
        let has_place = left["errors"].as_array().is_some_and(|errors| errors.iter().all(|e| e["pointer"].is_string()));
        if embedded.status != 400 || mongodb.status != 400 || left != right || !has_place {
            wrong.push(format!("{filter}\n  embedded {left}\n  MongoDB  {right}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), filters.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_filters_are_refused_with_the_number_of_mongodb() {
    let Some(server) = shared(Deployment::ReplicaSet).await else { return };
    let table = table();
    let mut filters = at_places(&table);
    filters.extend(documents(&table, "whole"));
    let app = TestApp::embedded().await;
    let answers = ask(&app, &filters).await;
    let database = server.client().await.database("malformed");
    let mut wrong = Vec::new();
    for (filter, answer) in filters.iter().zip(answers) {
        let document = document_from_str(filter).expect("JSON");
        let refused = match database.run_command(doc! { "find": "none", "filter": document }).await {
            Ok(_) => "answered".to_owned(),
            Err(error) => match *error.kind {
                ErrorKind::Command(refused) => format!("query_{}", refused.code),
                other => other.to_string(),
            },
        };
        if answer.json()["code"] != refused {
            wrong.push(format!("{filter}\n  MongoDB {refused}, here {}", answer.text));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), filters.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_that_fail_on_an_object_have_the_same_status_and_code_on_both_stores() {
    let filters = documents(&table(), "failing");
    let Some(answers) = asked(&filters).await else { return };
    for (filter, (embedded, mongodb)) in filters.iter().zip(&answers) {
        assert_eq!((embedded.status.as_u16(), mongodb.status.as_u16()), (400, 400), "{filter}: {}", mongodb.text);
        assert_eq!(embedded.json()["code"], mongodb.json()["code"], "{filter}");
    }
}
