//! Clients of DATAGERRY 1.7, with `api.compatibility`: their requests, as they were observed, on each store.

mod answers;
mod bodies;
mod front_end;
mod guarded;
mod logs;
mod loose;
mod parameters;
mod pipelines;
mod routes;
mod shared;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::app::TestApp;

/// The setting under test.
pub(crate) const COMPATIBLE: (&str, &str) = ("api.compatibility", "datagerry-1.7");

/// An answer in their form, which the description does not have.
pub(crate) struct Theirs {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Value,
}

pub(crate) async fn ask(request: RequestBuilder) -> Theirs {
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("a readable body");
    Theirs { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

pub(crate) async fn get(app: &TestApp, path: &str) -> Theirs {
    ask(app.request(Method::GET, path)).await
}

/// GET with a filter, which must be answered.
pub(crate) async fn filtered(app: &TestApp, path: &str, filter: &Value, more: &[(&str, &str)]) -> Value {
    let request = app.request(Method::GET, path).query(&[("filter", filter.to_string())]).query(more);
    let answer = ask(request).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

pub(crate) async fn send(app: &TestApp, method: Method, path: &str, body: &Value) -> Theirs {
    ask(app.request(method, path).json(body)).await
}

/// The values of a member of a list's items.
pub(crate) fn of(list: &Value, pointer: &str) -> Vec<Value> {
    let results = list["results"].as_array().expect("results");
    results.iter().map(|item| item.pointer(pointer).cloned().unwrap_or(Value::Null)).collect()
}

/// The type of the observed requests, and its id.
pub(crate) async fn web_type(app: &TestApp) -> i64 {
    let location = app.create_type("location", &[("name", "text")]).await;
    let body = json!({
        "fields": [
            {"type": "text", "name": "text-66398", "label": "Text Field", "required": true, "helperText": "Help"},
            {"type": "date", "name": "date-90707", "label": "Date"},
            {"type": "checkbox", "name": "checkbox-92158", "label": "Checkbox Field", "value": true},
            {"type": "select", "name": "select-66771", "label": "Select Field", "options": [
                {"name": "option-1", "label": "Option 1"}, {"name": "option-2", "label": "Option 2"},
            ]},
            {"type": "ref", "name": "ref-33293", "label": "Ref", "ref_types": [location], "summaries": [{
                "type_id": location, "line": "Ref: {}", "label": "Location", "fields": ["name"],
                "icon": "fas fa-building", "prefix": false,
            }]},
        ],
        "active": true, "version": "1.0.0", "author_id": 1, "name": "web-type", "label": "Web type", "description": "",
        "acl": {"activated": false},
        "render_meta": {
            "icon": "fa fa-cube",
            "sections": [{"type": "section", "name": "section-1", "label": "Section", "fields": [
                "text-66398", "date-90707", "checkbox-92158", "select-66771", "ref-33293",
            ]}],
            "externals": [], "summary": {"fields": ["text-66398"]},
        },
    });
    let answer = send(app, Method::POST, "/types/", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    answer.body["result_id"].as_i64().expect("an id")
}

/// The body of an object of that type as the front end sends it.
pub(crate) fn web_object(type_id: i64, text: &str) -> Value {
    json!({"status": true, "type_id": type_id, "version": "1.0.0", "author_id": 1, "fields": [
        {"name": "text-66398", "value": text}, {"name": "date-90707", "value": ""},
        {"name": "checkbox-92158", "value": false}, {"name": "select-66771", "value": ""},
        {"name": "ref-33293", "value": ""},
    ]})
}

/// An object of that type, and its id.
pub(crate) async fn web_created(app: &TestApp, type_id: i64, text: &str) -> i64 {
    let answer = send(app, Method::POST, "/object/", &web_object(type_id, text)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body.as_i64().expect("the bare id")
}

/// Makes of each `async fn name(app)` two tests of a service with the setting: one on the embedded store, one on MongoDB.
macro_rules! on_each_compatible_store {
    ($(async fn $name:ident($app:ident) $body:block)*) => {
        $(
            async fn $name($app: &$crate::support::app::TestApp) $body

            mod $name {
                use $crate::compat::COMPATIBLE;
                use $crate::support::app::TestApp;
                use $crate::support::mongod::{self, Deployment};

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_store() {
                    super::$name(&TestApp::embedded_with(&[COMPATIBLE]).await).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_mongodb() {
                    if let Some(server) = mongod::shared(Deployment::ReplicaSet).await {
                        super::$name(&TestApp::on(&server.fresh_uri(), &[COMPATIBLE]).await).await;
                    }
                }
            }
        )*
    };
}
pub(crate) use on_each_compatible_store;
