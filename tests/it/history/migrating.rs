//! Changes of types with more objects than one unit holds: readers meanwhile, and the service killed in the middle.
//!
//! `INVENTORY_MIGRATION_KILLS` sets how often; a release is tried with 50.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::app::{TestApp, send};
use crate::support::mongod::{self, Deployment};
use crate::support::process::ServiceProcess;
use crate::support::remote::Client;

const KILLS: &str = "INVENTORY_MIGRATION_KILLS";
/// At most this number of objects change together with their type.
const TOGETHER: &str = "10";
const OBJECTS: i64 = 60;

fn field(kind: &str, name: &str) -> Value {
    json!({"type": kind, "name": name, "label": name})
}

fn old_fields() -> Value {
    json!([field("text", "host"), field("text", "size")])
}

fn change() -> Value {
    json!({
        "fields": [field("text", "hostname"), field("number", "size")],
        "migration": [{"rename": {"from": "host", "to": "hostname"}}, {"convert": {"field": "size", "to": "number"}}],
    })
}

/// The values of an object by their names.
fn values(object: &Value) -> Value {
    let fields = object["fields"].as_array().expect("fields").iter();
    fields
        .map(|it| (it["name"].as_str().expect("a name").to_owned(), it["value"].clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// The same of a view.
fn shown(view: &Value) -> Value {
    values(&view["type_information"])
}

fn old(number: i64) -> Value {
    json!({"host": format!("web-{number}"), "size": number.to_string()})
}

fn new(number: i64) -> Value {
    json!({"hostname": format!("web-{number}"), "size": number})
}

/// A type with its objects, in the order of their ids.
async fn filled(app: &TestApp) -> (i64, Vec<i64>) {
    let id = app.created("/types/", &json!({"name": "server", "author_id": 1, "fields": old_fields()})).await;
    let mut objects = Vec::new();
    for number in 0..OBJECTS {
        objects.push(app.create_object(id, &old(number)).await);
    }
    (id, objects)
}

async fn state(app: &TestApp, id: i64) -> Value {
    app.get(&format!("/types/{id}/migration")).await.json()["result"].clone()
}

/// Waits until the migration has ended.
async fn ended(app: &TestApp, id: i64) -> Value {
    for _ in 0..600 {
        let state = state(app, id).await;
        if state["state"] != "running" {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the migration does not end: {}", state(app, id).await);
}

/// An app on each store whose units are small.
async fn on_small_units() -> Vec<TestApp> {
    let settings = [("api.max_bulk", TOGETHER)];
    let mut apps = vec![TestApp::embedded_with(&settings).await];
    if let Some(server) = mongod::shared(Deployment::ReplicaSet).await {
        apps.push(TestApp::on(&server.fresh_uri(), &settings).await);
    }
    apps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_object_is_shown_by_the_type_under_which_it_is_stored() {
    for app in on_small_units().await {
        let (id, objects) = filled(&app).await;
        let moment = app.get("/logs/?sort=-sequence&limit=1").await.json()["results"][0]["sequence"].clone();
        let list = format!("/objects/?limit=0&view=render&sort=public_id&filter={{\"type_id\":{id}}}");
        let changed = app.patch(&format!("/types/{id}"), &change()).await;
        assert_eq!(changed.status, 202, "{}", changed.text);
        assert!(changed.header("location").ends_with(&format!("/types/{id}/migration")), "{:?}", changed.headers);
        assert!(changed.header("inventory-warning").starts_with("migration: "));
        let mut seen_old = 0;
        loop {
            let before = state(&app, id).await;
            let views = app.get(&list).await.json()["results"].clone();
            for (number, view) in (0..).zip(views.as_array().expect("views")) {
                let seen = shown(view);
                assert!(seen == old(number) || seen == new(number), "{seen} of {number}");
                assert_eq!(view["type_information"]["type_id"], id);
                seen_old += usize::from(seen == old(number));
            }
            let one = app.get(&format!("/objects/{}", objects[59])).await.json();
            assert!([old(59), new(59)].contains(&shown(&one)), "{one}");
            if before["state"] != "running" {
                assert!(
                    views.as_array().is_some_and(|all| all.iter().all(|view| shown(view).get("hostname").is_some()))
                );
                break;
            }
            // Nobody else changes the type or its objects.
            let write = app.patch(&format!("/objects/{}", objects[0]), &json!({"fields": {"size": 0}})).await;
            let again = app.patch(&format!("/types/{id}"), &json!({"label": "Servers"})).await;
            if state(&app, id).await["state"] == "running" {
                write.error(503, "contended");
                again.error(409, "type_migrating");
            }
        }
        let noted = ended(&app, id).await;
        assert_eq!(
            (&noted["state"], &noted["objects"], &noted["done"]),
            (&json!("done"), &json!(OBJECTS), &json!(OBJECTS)),
            "{noted}"
        );
        assert!(seen_old > 0 || !app.store.is_remote(), "the migration waits until all instances know the type");
        assert_eq!(app.get(&format!("/types/{id}")).await.json()["result"]["active"], true);
        assert_eq!(app.get(&format!("/objects/clean/{id}")).await.json()["total"], 0);
        // One entry each, with the same cause; and the past is what it was.
        let begun = app.get(&format!("/types/{id}/history?sort=number")).await.json()["results"][1]["sequence"].clone();
        let caused = app.get(&format!("/logs/?limit=0&filter={{\"cause\":{begun}}}")).await.json();
        assert_eq!(caused["total"], OBJECTS, "{caused}");
        let then = app.get(&format!("{list}&at={moment}")).await.json()["results"].clone();
        assert!((0..).zip(then.as_array().expect("views")).all(|(number, view)| shown(view) == old(number)));
        assert_eq!(app.patch(&format!("/objects/{}", objects[0]), &json!({"fields": {"size": 1}})).await.status, 202);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_change_that_cannot_be_made_is_refused_before_it_begins_and_undone_as_a_request() {
    for app in on_small_units().await {
        let (id, objects) = filled(&app).await;
        let path = format!("/types/{id}");
        assert_eq!(
            app.patch(&format!("/objects/{}", objects[40]), &json!({"fields": {"size": "big"}})).await.status,
            202
        );
        let refused = app.patch(&path, &change()).await;
        refused.error(400, "migration_refused");
        assert!(refused.text.contains(&format!("{}", objects[40])), "{}", refused.text);
        let mut counted = change();
        counted["migration"][1]["convert"]["on_error"] = "null".into();
        counted["expected_count"] = 1.into();
        app.patch(&path, &counted).await.error(412, "precondition_failed");
        app.get(&format!("{path}/migration")).await.error(404, "migration_not_found");
        assert_eq!(app.get(&format!("{path}/history")).await.json()["total"], 1);
        let mut unique = change();
        unique["fields"][0]["unique"] = true.into();
        unique["migration"][1]["convert"]["on_error"] = "keep".into();
        app.patch(&path, &unique).await.error(400, "too_many_objects");
        counted["expected_count"] = OBJECTS.into();
        let made = send(app.request(Method::PATCH, &path).header("X-Request-ID", "large-1").json(&counted)).await;
        assert_eq!(made.status, 202, "{}", made.text);
        assert_eq!(ended(&app, id).await["state"], "done");
        let undone = app.post("/logs/undo", &json!({"request_id": "large-1"})).await;
        assert_eq!((undone.status.as_u16(), &undone.json()["reverted"]), (200, &json!(OBJECTS + 1)), "{}", undone.text);
        let native =
            app.get(&format!("/objects/?limit=0&sort=public_id&filter={{\"type_id\":{id}}}")).await.json()["results"]
                .clone();
        for (number, object) in (0..).zip(native.as_array().expect("objects")) {
            let expected = if number == 40 { json!({"host": "web-40", "size": "big"}) } else { old(number) };
            assert_eq!(values(object), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_field_takes_the_name_of_a_password_while_objects_still_have_the_old_one() {
    for app in on_small_units().await {
        let secret = field("password", "secret");
        let id = app.created("/types/", &json!({"name": "box", "author_id": 1, "fields": [secret]})).await;
        for number in 0..30 {
            app.create_object(id, &json!({"secret": format!("thunder{number}")})).await;
        }
        let steps = json!([{"rename": {"from": "secret", "to": "key"}}]);
        let open = json!([field("password", "key"), field("text", "secret")]);
        let path = format!("/types/{id}");
        let refused = app.patch(&path, &json!({"fields": open, "migration": steps})).await;
        refused.error(400, "too_many_objects");
        let apart = json!([field("password", "key")]);
        let begun = app.patch(&path, &json!({"fields": apart, "migration": steps})).await;
        assert_eq!(begun.status, 202, "{}", begun.text);
        assert_eq!(ended(&app, id).await["state"], "done");
    }
}

/// Kills the service in the middle of a migration, again and again, and starts it again until the migration has ended.
async fn through_kills(uri: &str, round: u64) {
    let directory = TempDir::new().expect("a temporary directory");
    let variables = [("INVENTORY__API__MAX_BULK", TOGETHER)];
    let mut service = ServiceProcess::start_with(directory.path(), uri, &variables);
    let client = Client::sign_in(&service.origin).await;
    let body = json!({"name": "server", "author_id": 1, "fields": old_fields()});
    let id = client.post("/types/", &body).await.expect("an answer").json()["result_id"].as_i64().expect("an id");
    for number in 0..OBJECTS {
        let fields: Vec<Value> = old(number)
            .as_object()
            .expect("values")
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let made = client
            .post("/objects/", &json!({"type_id": id, "author_id": 1, "fields": fields}))
            .await
            .expect("an answer");
        assert!(made.status.is_success(), "{}", made.text);
    }
    let begun = send(client.request(Method::PATCH, &format!("/types/{id}")).json(&change())).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    let list = format!("/objects/?limit=0&view=render&sort=public_id&filter={{\"type_id\":{id}}}");
    for kill in 0.. {
        if kill < 3 {
            tokio::time::sleep(Duration::from_millis(20 + (round * 53 + kill * 31) % 160)).await;
            service.kill();
            service = ServiceProcess::start_with(directory.path(), uri, &variables);
        }
        let client = Client::sign_in(&service.origin).await;
        let note = send(client.request(Method::GET, &format!("/types/{id}/migration"))).await.json()["result"].clone();
        let views = send(client.request(Method::GET, &list)).await.json()["results"].clone();
        for (number, view) in (0..).zip(views.as_array().expect("views")) {
            let seen = shown(view);
            assert!(seen == old(number) || seen == new(number), "{seen} of {number}, {note}");
        }
        if note["state"] == "done" {
            assert_eq!(note["done"], OBJECTS, "{note}");
            assert!(
                (0..).zip(views.as_array().expect("views")).all(|(number, view)| shown(view) == new(number)),
                "{views}"
            );
            break;
        }
        assert!(kill < 600, "{note}");
        tokio::time::sleep(Duration::from_millis(if kill < 3 { 0 } else { 100 })).await;
    }
    let client = Client::sign_in(&service.origin).await;
    let history = send(client.request(Method::GET, &format!("/types/{id}/history?sort=number"))).await.json();
    let entries: Vec<&Value> =
        history["results"].as_array().expect("entries").iter().map(|entry| &entry["action"]).collect();
    assert_eq!(entries, ["CREATE", "MIGRATE", "MIGRATE"], "{history}");
    let cause = &history["results"][1]["sequence"];
    let path = format!("/logs/?limit=0&filter={{\"cause\":{cause}}}");
    let caused = send(client.request(Method::GET, &path)).await.json();
    assert_eq!(caused["total"], OBJECTS, "one entry for each object");
    service.terminate();
}

fn kills() -> u64 {
    std::env::var_os(KILLS).and_then(|kills| kills.to_str()?.parse().ok()).unwrap_or(2)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_ends_through_kill_after_kill_on_the_embedded_store() {
    for round in 0..kills() {
        through_kills("embedded:data", round).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_ends_through_kill_after_kill_on_mongodb() {
    let Some(server) = mongod::shared(Deployment::ReplicaSet).await else { return };
    for round in 0..kills() {
        through_kills(&server.fresh_uri(), round).await;
    }
}
