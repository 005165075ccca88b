//! Lists of objects whose `filter` is a pipeline: docs/filters.md, Pipelines.

use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{Answer, TestApp, on_each_store, send};

/// Three racks, the second of them inactive, and a room that refers to the first.
async fn racks(app: &TestApp) -> (i64, i64) {
    let rack = app.create_type("rack", &[("hostname", "text"), ("units", "number"), ("tags", "text")]).await;
    let fields = json!([
        {"type": "text", "name": "hostname", "label": "Name"}, {"type": "ref", "name": "next", "label": "Next", "ref_types": [rack]},
    ]);
    let room = app.created("/types/", &json!({"name": "room", "author_id": 1, "fields": fields})).await;
    for (name, units) in [("web-1", 3), ("web-2", 1), ("db-1", 2)] {
        app.create_object(rack, &json!({"hostname": name, "units": units})).await;
    }
    app.create_object(room, &json!({"hostname": "web-room", "next": 1})).await;
    assert_eq!(app.put("/objects/2/state", &json!(false)).await.status, 202);
    (rack, room)
}

async fn asked(app: &TestApp, path: &str, stages: &Value, more: &[(&str, &str)]) -> Answer {
    let stages = stages.to_string();
    let mut parameters = vec![("filter", stages.as_str())];
    parameters.extend(more);
    app.get_with(path, &parameters).await
}

async fn listed(app: &TestApp, stages: &Value, more: &[(&str, &str)]) -> Answer {
    let answer = asked(app, "/objects/", stages, more).await;
    assert_eq!(answer.status, 200, "{stages} {more:?}: {}", answer.text);
    answer
}

async fn refused(app: &TestApp, path: &str, stages: &Value, more: &[(&str, &str)], said: &str) {
    let error = asked(app, path, stages, more).await.error(400, "parameter_invalid");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(said)), "{stages}: {error}");
}

fn ids(answer: &Answer) -> Vec<Value> {
    answer.results("/public_id")
}

on_each_store! {
    async fn a_pipeline_of_conditions_is_a_filter(app) {
        let (rack, _) = racks(app).await;
        let stages = json!([{"$match": {"type_id": rack}}, {"$match": {"f.units": {"$gt": 1}}}, {"$sort": {"f.units": 1}}]);
        let answer = listed(app, &stages, &[("sort", "-public_id")]).await;
        assert_eq!((ids(&answer), &answer.json()["total"]), (vec![json!(3), json!(1)], &json!(2)));
        assert_eq!(answer.json()["parameters"]["filter"], stages);
        // Without another one its order is that of the list.
        let rendered = listed(app, &stages, &[("view", "render")]).await;
        assert_eq!(rendered.results("/object_information/object_id"), [3, 1]);
        assert_eq!(ids(&listed(app, &stages, &[("active", "true"), ("after", "")]).await), [3, 1]);
        assert_eq!(listed(app, &stages, &[("explain", "true")]).await.json()["total"], 2);
        assert_eq!(listed(app, &json!([]), &[]).await.json()["total"], 4);
        let first = listed(app, &stages, &[("projection", r#"{"public_id": 1, "f.units": 1}"#), ("limit", "1")]).await;
        assert_eq!(first.results(""), [json!({"public_id": 3, "fields": [{"name": "units", "value": 2}]})]);
    }

    async fn stages_come_before_sort_page_and_total(app) {
        let (rack, _) = racks(app).await;
        let largest = json!([{"$match": {"type_id": rack}}, {"$sort": {"f.units": -1}}, {"$limit": 2}]);
        let answer = listed(app, &largest, &[]).await;
        assert_eq!((ids(&answer), &answer.json()["total"]), (vec![json!(1), json!(3)], &json!(2)));
        let answer = listed(app, &largest, &[("sort", "f.units"), ("limit", "1"), ("page", "2")]).await;
        let body = answer.json();
        assert_eq!((ids(&answer), &body["total"], &body["pager"]["total_pages"]), (vec![json!(1)], &json!(2), &json!(2)));
        assert_eq!(answer.header("x-total-count"), "2");
        // Conditions of the list come first: only active objects enter.
        assert_eq!(ids(&listed(app, &json!([{"$sort": {"public_id": 1}}, {"$limit": 2}]), &[("active", "true")]).await), [1, 3]);
        let rendered = listed(app, &largest, &[("view", "render"), ("sort", "-public_id"), ("projection", "object_information")]).await;
        assert_eq!(rendered.results("/object_information/object_id"), [3, 1]);
        let beyond = listed(app, &largest, &[("page", "7")]).await;
        assert_eq!((ids(&beyond), &beyond.json()["total"]), (vec![], &json!(2)));
    }

    async fn what_a_limit_cuts_without_an_order_is_in_the_order_of_the_list(app) {
        let (rack, _) = racks(app).await;
        let body = |id: i64| json!({"type_id": rack, "author_id": 1, "public_id": id, "fields": []});
        for id in [90, 70, 80] {
            assert_eq!(app.post("/objects/", &body(id)).await.status, 200);
        }
        let last = json!([{"$match": {"public_id": {"$gt": 60}}}, {"$set": {"x": 1}}, {"$limit": 2}]);
        assert_eq!(ids(&listed(app, &last, &[]).await), [70, 80]);
        assert_eq!(ids(&listed(app, &json!([{"$match": {"public_id": {"$gt": 60}}}, {"$skip": 1}]), &[]).await), [80, 90]);
        // What is equal in a $sort is in that order, too.
        let newest = json!([{"$match": {"public_id": {"$gt": 60}}}, {"$sort": {"f.units": -1}}, {"$limit": 2}]);
        assert_eq!(ids(&listed(app, &newest, &[]).await), [70, 80]);
        let typed = json!([{"$match": {"public_id": {"$gt": 60}}}, {"$set": {"x": 1}}, {"$sort": {"x": 1}}, {"$skip": 2}]);
        assert_eq!(ids(&listed(app, &typed, &[]).await), [90]);
    }

    async fn computed_members_show_and_can_be_sorted_by(app) {
        let (rack, _) = racks(app).await;
        let stages = json!([
            {"$match": {"type_id": rack}}, {"$addFields": {"double": {"$multiply": ["$f.units", 2]}, "b": 1}},
            {"$unset": "b"}, {"$project": {"double": 1, "public_id": 1, "name": "$f.hostname"}},
        ]);
        let answer = listed(app, &stages, &[("sort", "double"), ("limit", "2")]).await;
        let expected = [
            json!({"public_id": 2, "double": 2, "name": "web-2"}), json!({"public_id": 3, "double": 4, "name": "db-1"}),
        ];
        assert_eq!((answer.results(""), &answer.json()["total"]), (expected.into(), &json!(3)));
        let projected = listed(app, &stages, &[("projection", "name"), ("sort", "-double")]).await;
        assert_eq!(projected.results("")[0], json!({"name": "web-1"}));
        assert!(projected.headers.get("inventory-query-hint").is_none());
    }

    async fn what_unwinding_makes_is_counted_and_stands_on_one_page_each(app) {
        racks(app).await;
        let stages = json!([{"$unwind": "$fields"}, {"$project": {"type_id": 1, "fields": 1}}]);
        let whole = listed(app, &stages, &[("sort", "type_id")]).await;
        assert_eq!((whole.results("").len(), &whole.json()["total"]), (10, &json!(11)));
        let mut found = Vec::new();
        for page in ["1", "2", "3", "4"] {
            let answer = listed(app, &stages, &[("sort", "type_id"), ("limit", "3"), ("page", page)]).await;
            assert_eq!(answer.json()["total"], 11);
            found.extend(answer.results(""));
        }
        let all = listed(app, &stages, &[("sort", "type_id"), ("limit", "0")]).await.results("");
        assert_eq!(found, all);
    }

    async fn objects_types_and_categories_are_looked_up_as_the_caller_sees_them(app) {
        let (rack, room) = racks(app).await;
        let stages = json!([
            {"$match": {"type_id": room}},
            {"$lookup": {"from": "framework.objects", "localField": "fields.value", "foreignField": "public_id", "as": "next"}},
            {"$lookup": {"from": "framework.types", "localField": "type_id", "foreignField": "public_id", "as": "type"}},
            {"$project": {"public_id": 1, "next.public_id": 1, "type.name": 1, "type._id": 1}},
        ]);
        let seen = json!({"public_id": 4, "next": [{"public_id": 1}], "type": [{"name": "room"}]});
        assert_eq!(listed(app, &stages, &[]).await.results(""), [seen]);
        let rights = ["base.framework.object.view", "base.framework.type.view"];
        let outsider = Person::with_rights(app, "outsider", &rights).await;
        let acl = json!({"acl": {"activated": true, "groups": {"includes": {"1": ["READ"]}}}});
        assert_eq!(app.patch(&format!("/types/{rack}"), &acl).await.status, 202);
        let ask = async |stages: &Value| {
            send(outsider.request(app, Method::GET, "/objects/").query(&[("filter", stages.to_string())])).await
        };
        let hidden = json!({"public_id": 4, "next": [], "type": [{"name": "room"}]});
        assert_eq!(ask(&stages).await.results(""), [hidden]);
        let fails = json!({"$divide": [1, {"$subtract": ["$type_id", rack]}]});
        let answer = ask(&json!([{"$limit": 3}, {"$addFields": {"a": fails}}, {"$project": {"a": 1}}])).await;
        assert_eq!((answer.results(""), &answer.json()["total"]), (vec![json!({"a": 1.0})], &json!(1)));
        let beyond = json!([{"$lookup": {"from": "framework.categories", "localField": "a", "foreignField": "b", "as": "c"}}]);
        ask(&beyond).await.error(400, "query_13");
        let users = json!([{"$lookup": {"from": "management.users", "localField": "a", "foreignField": "b", "as": "c"}}]);
        asked(app, "/objects/", &users, &[]).await.error(400, "query_13");
    }

    async fn every_list_of_objects_takes_a_pipeline(app) {
        let (rack, _) = racks(app).await;
        let stages = json!([{"$addFields": {"a": "$f.hostname"}}, {"$match": {"a": {"$regex": "^web"}}}, {"$project": {"a": 1}}]);
        let answer = asked(app, "/objects/1/references", &stages, &[]).await;
        assert_eq!((answer.results(""), &answer.json()["total"]), (vec![json!({"a": "web-room"})], &json!(1)));
        let body = json!({"filter": stages, "sort": "-a", "limit": 2});
        let queried = app.post("/objects/query", &body).await;
        assert_eq!((queried.results("/a"), &queried.json()["total"]), (vec![json!("web-room"), json!("web-2")], &json!(3)));
        let method = Method::from_bytes(b"QUERY").expect("a method");
        let by_method = send(app.request(method, "/objects/").json(&body)).await;
        assert_eq!(by_method.results(""), queried.results(""));
        let next = by_method.json()["pagination"]["next"].as_str().expect("a link").to_owned();
        assert_eq!(app.get(&next).await.results("/a"), ["web-1"]);
        let unclean = asked(app, &format!("/objects/clean/{rack}"), &stages, &[]).await;
        assert_eq!(unclean.json()["total"], 0);
        let head = send(app.request(Method::HEAD, "/objects/").query(&[("filter", stages.to_string())])).await;
        assert_eq!((head.status.as_u16(), head.header("x-total-count")), (200, "3"));
    }

    async fn what_does_not_go_with_a_pipeline_is_refused_with_the_reason(app) {
        racks(app).await;
        let limit = json!([{"$limit": 2}]);
        let added = json!([{"$set": {"a": 1}}]);
        refused(app, "/objects/", &added, &[("view", "render")], "whole objects").await;
        refused(app, "/objects/", &limit, &[("explain", "true")], "$match alone").await;
        refused(app, "/objects/", &limit, &[("after", "")], "use page").await;
        refused(app, "/objects/", &json!([{"$group": {"_id": 1}}]), &[], "0.$group").await;
        refused(app, "/objects/", &json!([{"$limit": 1}, {"$facet": {"a": []}}]), &[], "POST /rest/objects/aggregate").await;
        refused(app, "/types/", &json!([{"$match": {}}]), &[], "lists of objects").await;
        refused(app, "/export/objects", &json!([{"$match": {}}]), &[("format", "ndjson")], "must be an object here").await;
        for method in [Method::PATCH, Method::DELETE] {
            let body = if method == Method::PATCH { json!({"version": "1.0.1"}) } else { json!({}) };
            let request = app.request(method, "/objects/").query(&[("filter", added.to_string().as_str()), ("expected_count", "1")]);
            send(request.json(&body)).await.error(400, "parameter_invalid");
        }
        for (stages, code, place) in [
            (json!([{"$limit": 1}, {"$out": "x"}]), "query_224", "/1/$out"),
            (json!([{"$mtach": {}}]), "query_40324", "/0/$mtach"),
            (json!([{"$sort": {"a": 3}}]), "query_15975", "/0/$sort/a"),
            (json!([{"$match": {"f.unit": 1}}]), "query_2", "/0/$match/f.unit"),
            (json!([{"$lookup": {"from": "framework.types", "pipeline": [{"$where": 1}], "as": "a"}}]), "query_224", "/0/$lookup/pipeline/0/$where"),
        ] {
            let answer = asked(app, "/objects/", &stages, &[]).await;
            answer.error(400, code);
            assert_eq!(answer.pointers(), [place], "{stages}");
        }
        let message = asked(app, "/objects/", &json!([{"$limit": -1}]), &[]).await.json()["message"].clone();
        assert!(message.as_str().is_some_and(|message| message.starts_with("filter.0.$limit")), "{message}");
    }
}
