//! Rendered views over REST (docs/api.md, Rendered objects); the views themselves are tested in `render`.

use serde_json::json;

use crate::support::app::{TestApp, on_each_store};
use crate::support::counting::CountingStore;

/// Racks in rooms, by a `ref` field, with a summary line for the reference.
async fn racks(app: &TestApp, count: i64) -> (i64, i64) {
    let room = app
        .created(
            "/types/",
            &json!({
                "name": "room", "author_id": 1, "fields": [{"type": "text", "name": "name", "label": "Name"}],
                "render_meta": {"summary": {"fields": ["name"]}},
            }),
        )
        .await;
    let summary = json!([{"type_id": room, "line": "room {}", "label": "Room", "fields": ["name"], "icon": "door"}]);
    let rack = app.created("/types/", &json!({
        "name": "rack", "author_id": 1,
        "fields": [
            {"type": "text", "name": "label", "label": "Label"},
            {"type": "ref", "name": "room", "label": "Room", "ref_types": [room], "summaries": summary},
        ],
        "render_meta": {
            "icon": "rack", "summary": {"fields": ["label"]},
            "sections": [{"type": "section", "name": "main", "label": "Main", "fields": ["label", "room"]}],
            "externals": [{"name": "wiki", "href": "https://wiki.example/{}", "label": "Wiki", "icon": "", "fields": ["label"]}],
        },
    })).await;
    for index in 0..count {
        let target = app.create_object(room, &json!({"name": format!("R{index}")})).await;
        app.create_object(rack, &json!({"label": format!("rack {index}"), "room": target})).await;
    }
    (room, rack)
}

on_each_store! {
    async fn a_rendered_object_is_joined_with_its_type(app) {
        let (_, rack) = racks(app, 1).await;
        let view = app.get("/objects/2").await.json();
        assert!(view["current_render_time"]["$date"].is_i64());
        let object = &view["object_information"];
        assert_eq!((&object["object_id"], &object["author_name"], &object["editor_name"]), (&json!(2), &json!("admin"), &json!(null)));
        let of_type = &view["type_information"];
        assert_eq!((&of_type["type_id"], &of_type["type_label"], &of_type["icon"]), (&json!(rack), &json!("Rack"), &json!("rack")));
        assert_eq!(of_type["summary_line"], "rack 0");
        assert_eq!(of_type["externals"][0]["href"], "https://wiki.example/rack%200");
        let room = &of_type["fields"][1];
        assert_eq!((&room["name"], &room["value"]), (&json!("room"), &json!(1)));
        assert_eq!((&room["reference"]["line"], &room["reference"]["object_id"]), (&json!("room R0"), &json!(1)));
    }

    async fn a_list_can_be_rendered(app) {
        let (room, _) = racks(app, 2).await;
        let answer = app.get("/objects/?view=render&sort=-public_id&limit=2").await;
        assert_eq!(answer.results("/object_information/object_id"), [json!(4), json!(3)]);
        assert_eq!(answer.json()["parameters"]["optional"]["view"], "render");
        let filter = json!({"type_id": room}).to_string();
        let rooms = app.get_with("/objects/", &[("view", "render"), ("filter", &filter)]).await;
        assert_eq!(rooms.results("/type_information/summary_line"), [json!("R0"), json!("R1")]);
    }

    async fn a_changed_type_shows_in_the_next_view(app) {
        let (_, rack) = racks(app, 1).await;
        app.patch(&format!("/types/{rack}"), &json!({"label": "Cabinet"})).await;
        assert_eq!(app.get("/objects/2").await.json()["type_information"]["type_label"], "Cabinet");
    }

    async fn a_dangling_reference_is_a_value_in_the_view(app) {
        racks(app, 1).await;
        app.delete("/objects/1").await;
        let reference = app.get("/objects/2").await.json()["type_information"]["fields"][1]["reference"].clone();
        assert_eq!((&reference["object_id"], &reference["type_id"], &reference["line"]), (&json!(0), &json!(0), &json!("")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_rendered_objects_costs_the_same_store_calls_whatever_its_size() {
    let mut counts = Vec::new();
    for size in [1, 10, 40] {
        let counter = CountingStore::counter();
        let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
        let (_, rack) = racks(&app, size).await;
        let filter = json!({"type_id": rack}).to_string();
        let page = [("view", "render"), ("limit", "100"), ("filter", filter.as_str())];
        assert_eq!(app.get_with("/objects/", &page).await.json()["count"], size);
        let before = counter.calls();
        let view = app.get_with("/objects/", &page).await.json();
        assert_eq!(view["results"][0]["type_information"]["fields"][1]["reference"]["line"], "room R0");
        counts.push(counter.calls() - before);
    }
    // One for the page with its total, one for the objects referred to.
    assert_eq!(counts, [2, 2, 2]);
}

#[tokio::test]
async fn a_rendered_read_over_the_network_asks_once_when_its_references_are_as_they_were() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    racks(&app, 2).await;
    // Types and names are known from here on.
    assert_eq!(app.get("/objects/4").await.status, 200);
    let mut calls = Vec::new();
    for _ in 0..3 {
        let before = counter.calls();
        let view = app.get("/objects/2").await.json();
        assert_eq!(view["type_information"]["fields"][1]["reference"]["line"], "room R0");
        calls.push(counter.calls() - before);
    }
    assert_eq!(calls, [2, 1, 1]);
}

#[tokio::test]
async fn what_is_remembered_of_references_never_shows() {
    let counter = CountingStore::counter();
    let app = TestApp::embedded_around(|store| CountingStore::around(store, &counter)).await;
    racks(&app, 2).await;
    let line = async || {
        let view = app.get("/objects/2").await.json();
        view["type_information"]["fields"][1]["reference"]["line"].clone()
    };
    assert_eq!((line().await, line().await), (json!("room R0"), json!("room R0")));
    let renamed = app.patch("/objects/1", &json!({"fields": [{"name": "name", "value": "R9"}]})).await;
    assert_eq!(renamed.status, 202, "{}", renamed.text);
    assert_eq!(line().await, "room R9");
    let moved = app.patch("/objects/2", &json!({"fields": [{"name": "room", "value": 3}]})).await;
    assert_eq!(moved.status, 202, "{}", moved.text);
    assert_eq!((line().await, line().await, line().await), (json!("room R1"), json!("room R1"), json!("room R1")));
    assert_eq!(app.delete("/objects/2").await.status, 200);
    assert_eq!(app.get("/objects/2").await.status, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_computes_on_views_keeps_nobody_else_from_being_answered() {
    // One worker: were the views made on it, nothing else would be answered until their time is over.
    let app = TestApp::embedded_with(&[("query.max_time_ms", "1500")]).await;
    racks(&app, 1).await;
    let round = |inner| json!({"$size": {"$map": {"input": {"$range": [0, 4_000]}, "in": inner}}});
    let endless = round(round(json!({"$add": ["$$this", 1]})));
    let projection = json!({"n": endless}).to_string();
    let parameters = [("view", "render"), ("projection", projection.as_str())];
    let slow = app.get_with("/objects/", &parameters);
    let others = async {
        for _ in 0..5 {
            assert_eq!(app.get(&format!("{}/health/live", app.origin)).await.status, 200);
        }
    };
    let (mut slow, mut others) = (std::pin::pin!(slow), std::pin::pin!(others));
    tokio::select! {
        biased;
        answer = &mut slow => panic!("it was answered first: {} {}", answer.status, answer.text),
        () = &mut others => {}
    }
    slow.await.error(503, "query_timeout");
}
