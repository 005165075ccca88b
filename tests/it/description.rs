//! The description of the interface, against the routes, the rights, the codes and the answers of the service.

use std::collections::BTreeSet;
use std::process::Command;

use inventory_service::http::openapi::{document, examples};
use inventory_service::http::{RouteAccess, routes};
use inventory_service::service::ErrorCode;
use reqwest::Method;
use serde_json::Value;

use crate::support::app::{TestApp, on_each_store, send};

/// The operations of the description: method, path, operation.
fn operations() -> Vec<(String, &'static str, &'static Value)> {
    let paths = document()["paths"].as_object().expect("paths");
    let items = paths.iter().flat_map(|(path, item)| {
        let operations = item.as_object().expect("a path item").iter();
        operations.map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation))
    });
    items.collect()
}

/// Every `$ref` in a value.
fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let described: BTreeSet<(String, &str)> =
        operations().into_iter().map(|(method, path, _)| (method, path)).collect();
    let routes: BTreeSet<(String, &str)> =
        routes::all().infos().iter().map(|route| (route.method.to_string(), route.path)).collect();
    assert_eq!(described, routes);
}

#[test]
fn a_comment_may_be_what_the_service_takes() {
    let all = operations();
    let mut parameters = all.iter().filter_map(|(_, _, operation)| operation["parameters"].as_array()).flatten();
    let comment = parameters.find(|parameter| parameter["name"] == "Inventory-Comment").expect("it is described");
    let pattern =
        fancy_regex::Regex::new(comment["schema"]["pattern"].as_str().expect("a pattern")).expect("a pattern");
    let is_taken = |text: &str| pattern.is_match(text).expect("a comment is matched");
    for text in [
        "", "moved to rack 4", "a%2Fb", "caf%C3%A9", "%c3%a4", "100%25", "%E2%82%AC", "%F0%9F%98%80", "%C2%A0",
        "%EF%BF%BD",
    ] {
        assert!(is_taken(text), "{text}");
    }
    for text in [
        "100%", "%0A", "%7F", "%FF", "%C3", "%C3%28", "%C2%85", "%C0%80", "%E0%80%80", "%ED%A0%80", "%F4%90%80%80",
        "a\tb",
    ] {
        assert!(!is_taken(text), "{text}");
    }
}

#[test]
fn every_operation_says_who_may_use_it() {
    let all = routes::all();
    for (method, path, operation) in operations() {
        let route = all.infos().iter().find(|route| route.method.as_str() == method && route.path == path);
        let (right, is_public) = match route.expect("a route").access {
            RouteAccess::Public => (None, true),
            RouteAccess::SignedIn => (None, false),
            RouteAccess::Right(right) | RouteAccess::OwnOr(right) => (Some(right), false),
        };
        assert_eq!(operation["x-right"].as_str(), right, "{method} {path}");
        assert_eq!(operation["security"].as_array().expect("security").is_empty(), is_public, "{method} {path}");
        let description = operation["description"].as_str().expect("a description");
        assert!(right.is_none_or(|right| description.contains(right)), "{method} {path}: {description}");
    }
}

#[test]
fn every_operation_has_an_id_of_its_own_a_summary_and_explained_parameters() {
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations() {
        assert!(ids.insert(operation["operationId"].as_str().expect("an id")), "{method} {path}");
        assert!(!operation["summary"].as_str().expect("a summary").is_empty(), "{method} {path}");
        let parameters = operation["parameters"].as_array().expect("parameters");
        let silent = parameters.iter().find(|parameter| parameter["description"].as_str().is_none_or(str::is_empty));
        assert_eq!(silent, None, "{method} {path}: a parameter that nobody explains");
        let variables: Vec<String> = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| format!("{{{}}}", parameter["name"].as_str().expect("a name")))
            .collect();
        let expected: Vec<&str> = path.split('/').filter(|segment| segment.starts_with('{')).collect();
        assert_eq!(variables, expected, "{method} {path}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    for reference in references(document()) {
        let pointer = reference.strip_prefix('#').expect("references lead into the document");
        assert!(document().pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn every_code_belongs_to_an_operation() {
    for code in ErrorCode::ALL {
        let pointer = format!("/responses/{}/x-codes", code.status());
        let lists = operations().into_iter().filter_map(|(_, _, operation)| operation.pointer(&pointer));
        let is_listed = lists.filter_map(Value::as_array).flatten().any(|listed| listed == code.pattern());
        // A path answers 405 to the methods that it has no operation for.
        assert!(is_listed || code.status() == 405, "no operation has {}", code.pattern());
    }
}

#[test]
fn the_interface_document_has_the_same_codes() {
    let text = include_str!("../../docs/api.md");
    let missing: Vec<&str> =
        ErrorCode::ALL.iter().map(|code| code.pattern()).filter(|code| !text.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/api.md does not name {missing:?}");
}

#[test]
fn the_command_prints_what_the_service_answers() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_inventory-service")).arg("openapi").output().expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(&printed, document());
}

#[test]
fn the_command_prints_the_description_for_older_tools() {
    let output = Command::new(env!("CARGO_BIN_EXE_inventory-service")).args(["openapi", "--for", "3.1"]).output();
    let printed: Value = serde_json::from_slice(&output.expect("the binary starts").stdout).expect("JSON");
    assert_eq!((&printed["openapi"], &document()["openapi"]), (&"3.1.0".into(), &"3.2.0".into()));
    let types = |document: &Value, member: &str| document["paths"]["/rest/types/"][member].clone();
    assert_eq!(types(&printed, "x-query"), types(document(), "query"));
    assert_eq!(types(&printed, "query"), Value::Null);
}

#[test]
fn every_operation_with_a_body_has_an_example() {
    for (method, path, operation) in operations() {
        let Some(content) = operation["requestBody"]["content"].as_object() else { continue };
        for (kind, body) in content {
            // Nobody types a spreadsheet.
            assert_eq!(body.get("example").is_some(), kind != "application/octet-stream", "{method} {path}: {kind}");
        }
    }
}

#[test]
fn every_tag_is_declared_with_a_sentence_and_used() {
    let declared: BTreeSet<&str> = document()["tags"]
        .as_array()
        .expect("tags")
        .iter()
        .filter(|tag| tag["description"].as_str().is_some_and(|said| !said.is_empty()))
        .map(|tag| tag["name"].as_str().expect("a name"))
        .collect();
    let operations = operations();
    let tags = operations.iter().flat_map(|(_, _, operation)| operation["tags"].as_array().expect("tags"));
    let used: BTreeSet<&str> = tags.map(|tag| tag.as_str().expect("a name")).collect();
    assert_eq!(declared, used);
    assert!(used.contains("auth"), "{used:?}");
}

#[test]
fn a_list_is_described_as_a_list_alone() {
    let mut lists = 0;
    for (method, path, operation) in operations() {
        let json = &operation["responses"]["200"]["content"]["application/json"];
        let Some(explanation) = json.get("x-explain") else { continue };
        assert_eq!(explanation["$ref"], "#/components/schemas/ListExplanation", "{method} {path}");
        let reference = json["schema"]["$ref"].as_str().expect("one schema");
        let schema = document().pointer(reference.trim_start_matches('#')).expect("the list");
        let parts = schema["allOf"].as_array().expect("parts");
        let has_results = parts.iter().any(|part| part["properties"]["results"]["type"] == "array");
        assert!(has_results, "{method} {path}: {schema}");
        lists += 1;
    }
    assert_eq!(lists, 31);
}

#[tokio::test]
async fn the_description_and_its_page_are_served_to_everybody_and_call_no_other_address() {
    let app = TestApp::embedded().await;
    let get = async |path: &str| send(app.anonymous(Method::GET, &format!("{}{path}", app.origin))).await;
    assert_eq!(&get("/openapi.json").await.json(), document());
    let older = get("/openapi.json?version=3.1").await.json();
    assert_eq!(older["openapi"], "3.1.0");
    assert!(
        older["paths"]["/rest/objects/"].get("query").is_none()
            && older["paths"]["/rest/objects/"].get("x-query").is_some()
    );
    assert_eq!(get("/openapi.json?version=3.2").await.json()["openapi"], "3.2.0");
    get("/openapi.json?version=2.0").await.error(400, "parameter_invalid");
    get("/openapi.json?for=3.1").await.error(400, "parameter_invalid");
    let page = get("/docs/").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"), "{page:?}");
    for part in page.text.split(['"', '\'']).filter(|part| [".js", ".css"].iter().any(|end| part.ends_with(end))) {
        assert!(!part.contains("//"), "{part}");
        let answer = get(&format!("/docs/{}", part.trim_start_matches("./"))).await;
        assert_eq!(answer.status, 200, "{part}");
    }
    let script = get("/docs/swagger-initializer.js").await;
    assert!(script.text.contains("../openapi.json"), "{}", script.text);
    // A reload keeps the token.
    assert!(script.text.contains("\"persistAuthorization\": true"), "{}", script.text);
    get("/docs/nothing.js").await.error(404, "not_found");
    assert_eq!(get("/docs").await.header("location"), "/docs/");
}

/// What a value is made of: its type, and those of its members and items.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.iter().map(|(name, member)| (name.clone(), shape(member))).collect(),
        Value::Array(items) => items.iter().map(shape).collect(),
        Value::Null => Value::Null,
        Value::Bool(_) => "boolean".into(),
        Value::Number(_) => "number".into(),
        Value::String(_) => "string".into(),
    }
}

/// Executes all operations as the page fills them in: those that need nothing of others first, then the session.
async fn execute_as_filled_in(app: &TestApp) {
    let place = |id: &str| examples::all().iter().position(|example| example.operation == id);
    let mut operations = operations();
    operations.sort_by_key(|(_, _, operation)| {
        let id = operation["operationId"].as_str().expect("an id").trim_end_matches("_safely");
        let list = id.strip_prefix("query_").map(|list| format!("list_{list}"));
        let id = list.as_deref().filter(|list| place(list).is_some()).unwrap_or(id);
        // An export has no example, because its answer is no JSON.
        place(if id == "export_objects" { "get_object" } else { id })
    });
    for (method, path, operation) in operations {
        // What a revert goes back to, and which request is undone, depends on what was done before, and these objects have no
        // addresses.
        if ["/revert", "/undo", "/free"].iter().any(|end| path.ends_with(end)) {
            continue;
        }
        let (mut filled_in, mut query) = (path.to_owned(), Vec::new());
        for parameter in operation["parameters"].as_array().expect("parameters") {
            let name = parameter["name"].as_str().expect("a name");
            let value = parameter.get("example").or_else(|| parameter["schema"].get("default"));
            let value = value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            match (parameter["in"].as_str(), value) {
                (Some("path"), Some(value)) => filled_in = filled_in.replace(&format!("{{{name}}}"), &value),
                (Some("query"), Some(value)) => query.push((name, value)),
                _ => assert_ne!(parameter["required"], true, "{method} {path}: {name} is not filled in"),
            }
        }
        let bodies = operation["requestBody"]["content"].as_object();
        let bodies: Vec<(Option<&str>, &Value)> = match bodies {
            Some(content) => content.iter().map(|(kind, body)| (Some(kind.as_str()), &body["example"])).collect(),
            None => vec![(None, &Value::Null)],
        };
        for (kind, body) in bodies.into_iter().filter(|(kind, _)| *kind != Some("application/octet-stream")) {
            let verb = Method::from_bytes(method.as_bytes()).expect("a method");
            let request = app.request(verb, &format!("{}{filled_in}", app.origin)).query(&query);
            let answer = send(match (kind, body) {
                (None, _) => request,
                (Some(kind), Value::String(text)) => request.header("Content-Type", kind).body(text.clone()),
                (Some(kind), body) => request.header("Content-Type", kind).body(body.to_string()),
            })
            .await;
            assert!(answer.status.as_u16() < 400, "{method} {filled_in} {query:?} {kind:?}: {}", answer.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_page_fills_in_succeeds_on_an_empty_store() {
    execute_as_filled_in(&TestApp::embedded().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_page_fills_in_succeeds_on_the_demo() {
    let app = TestApp::embedded().await;
    crate::demo::fill(&app).await;
    execute_as_filled_in(&app).await;
}

on_each_store! {
    async fn the_examples_are_a_session_that_goes_as_they_say(app) {
        for example in examples::all() {
            // The examples sign in with a password of their own.
            if example.operation == "login" {
                continue;
            }
            let method = Method::from_bytes(example.method.as_bytes()).expect("a method");
            let request = app.request(method, &format!("{}{}", app.origin, example.path));
            let answer = send(match &example.request {
                Some(Value::String(file)) => {
                    let media_type = example.media_type.as_ref().expect("a text has a media type");
                    request.header("Content-Type", media_type).body(file.clone())
                }
                Some(body) => request.json(body),
                None => request,
            }).await;
            let name = format!("{} {}", example.operation, example.path);
            assert_eq!(answer.status, example.status, "{name}: {}", answer.text);
            assert_eq!(shape(&answer.json()), shape(&example.answer), "{name}: {}", answer.text);
        }
    }
}
