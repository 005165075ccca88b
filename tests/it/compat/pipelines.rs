//! Lists with a pipeline as their filter, as the front end sends them.

use reqwest::Method;
use serde_json::{Value, json};

use super::{ask, filtered, of, on_each_compatible_store, web_created, web_type};
use crate::support::app::TestApp;

/// What the search field above a table of objects sends.
fn search(text: &str) -> Value {
    let first = |name: &str| json!({"$first": format!("${name}")});
    let iso = |date: &str| json!({"$dateToString": {"format": "%Y-%m-%dT%H:%M:%S.%LZ", "date": date}});
    let regex = json!({"$regex": text, "$options": "ism"});
    json!([
        {"$lookup": {"from": "framework.objects", "localField": "fields.value", "foreignField": "public_id", "as": "data"}},
        {"$project": {
            "_id": 1, "public_id": 1, "type_id": 1, "active": 1, "creation_time": 1, "last_edit_time": 1, "fields": 1,
            "simple": {"$reduce": {"input": "$data.fields", "initialValue": [], "in": {"$setUnion": ["$$value", "$$this"]}}},
        }},
        {"$group": {
            "_id": "$_id", "public_id": first("public_id"), "type_id": first("type_id"), "active": first("active"),
            "creation_time": first("creation_time"), "last_edit_time": first("last_edit_time"),
            "fields": first("fields"), "simple": first("simple"),
        }},
        {"$project": {
            "_id": "$_id", "public_id": 1, "type_id": 1, "active": 1, "creation_time": 1, "last_edit_time": 1,
            "fields": 1, "references": {"$setUnion": ["$fields", "$simple"]},
        }},
        {"$addFields": {"creationString": iso("$creation_time")}},
        {"$addFields": {"references": {"$map": {"input": "$references", "as": "new_fields", "in": {"$cond": [
            {"$eq": [{"$type": "$$new_fields.value"}, "date"]},
            {"name": "$$new_fields.name", "value": iso("$$new_fields.value")},
            {"name": "$$new_fields.name", "value": "$$new_fields.value"},
        ]}}}}},
        {"$addFields": {"public_id": {"$toString": "$public_id"}}},
        {"$match": {"$or": [{"creationString": regex}, {"references": {"$elemMatch": {"value": regex}}}]}},
    ])
}

async fn types_in_a_category(app: &TestApp) -> (i64, i64, i64) {
    let (inside, outside) = (app.create_type("inside", &[]).await, app.create_type("outside", &[]).await);
    let category = app.created("/categories/", &json!({"name": "sites", "types": [inside]})).await;
    (inside, outside, category)
}

on_each_compatible_store! {
    async fn objects_are_searched_with_what_they_refer_to(app) {
        let type_id = web_type(app).await;
        let location = app.create_object(type_id - 1, &json!({"name": "Berlin"})).await;
        let near = web_created(app, type_id, "near").await;
        let far = web_created(app, type_id, "far").await;
        let refers = json!({"fields": [{"name": "ref-33293", "value": location}]});
        assert_eq!(super::send(app, Method::PATCH, &format!("/object/{near}"), &refers).await.status, 202);
        for view in ["render", "native"] {
            let more = [("view", view), ("sort", "public_id"), ("order", "-1"), ("onlyActiveObjCookie", "true")];
            let id = if view == "render" { "/object_information/object_id" } else { "/public_id" };
            let found = filtered(app, "/objects/", &search("berlin"), &more).await;
            assert_eq!((of(&found, id), &found["total"]), (vec![json!(near), json!(location)], &json!(2)));
            let found = filtered(app, "/objects/", &search("^20"), &more).await;
            assert_eq!(of(&found, id), [far, near, location]);
            assert_eq!(filtered(app, "/objects/", &search("no such text"), &more).await["results"], json!([]));
        }
        let first = filtered(app, "/objects/", &search("^20"), &[("limit", "2")]).await;
        let next = ask(app.request(Method::GET, first["pagination"]["next"].as_str().expect("a link"))).await.body;
        assert_eq!(of(&next, "/public_id"), [far]);
        let references = format!("/objects/{location}/references");
        assert_eq!(of(&filtered(app, &references, &search("near"), &[]).await, "/public_id"), [near]);
        let of_type = json!([{"$match": {"type_id": type_id}}]);
        assert_eq!(of(&filtered(app, &references, &of_type, &[]).await, "/public_id"), [near]);
    }

    async fn types_are_found_by_their_categories(app) {
        let (inside, outside, category) = types_in_a_category(app).await;
        let uncategorized = json!([
            {"$lookup": {"from": "framework.categories", "localField": "public_id", "foreignField": "types", "as": "categories"}},
            {"$match": {"categories": {"$size": 0}}},
            {"$project": {"categories": 0}},
        ]);
        assert_eq!(of(&filtered(app, "/types/", &uncategorized, &[("active", "true")]).await, "/public_id"), [outside]);
        let in_category = json!([
            {"$lookup": {
                "from": "framework.categories", "let": {"type_id": {"$toInt": "$public_id"}}, "as": "category",
                "pipeline": [{"$match": {"public_id": category}}, {"$match": {"$expr": {"$in": ["$$type_id", "$types"]}}}],
            }},
            {"$match": {"category": {"$gt": {"$size": 0}}}},
            {"$project": {"category": 0}},
        ]);
        let found = filtered(app, "/types/", &in_category, &[("active", "false")]).await;
        assert_eq!((of(&found, "/public_id"), of(&found, "/name")), (vec![json!(inside)], vec![json!("inside")]));
    }

    async fn tables_are_searched_by_name_and_id(app) {
        let (inside, _, _) = types_in_a_category(app).await;
        let table = |names: &[&str], text: &str| {
            let regex = json!({"$regex": text, "$options": "ismx"});
            let mut any: Vec<Value> = names.iter().map(|name| json!({*name: regex})).collect();
            any.push(json!({"public_id": {"$elemMatch": {"value": regex}}}));
            json!([{"$addFields": {"public_id": {"$toString": "$public_id"}}}, {"$match": {"$or": any}}])
        };
        let list = filtered(app, "/types/", &table(&["name", "label"], "insi"), &[("active", "false")]).await;
        assert_eq!(of(&list, "/public_id"), [inside]);
        let list = filtered(app, "/users/", &table(&["public_id", "user_name"], "adm"), &[]).await;
        assert_eq!(of(&list, "/user_name"), ["admin"]);
        let list = filtered(app, "/groups/", &table(&["name", "label"], "adm"), &[]).await;
        assert_eq!(of(&list, "/public_id"), [1]);
        for stage in [json!({"$project": {"name": 1}}), json!({"$unset": "public_id"}), json!({"$group": {"_id": "$_id"}}), json!({"$project": {"public_id": 1, "_id": 0}})] {
            let list = filtered(app, "/groups/", &json!([{"$match": {"name": "admin"}}, stage]), &[]).await;
            assert_eq!((of(&list, "/public_id"), &list["total"]), (vec![json!(1)], &json!(1)), "{stage}");
        }
        let chart = json!([{"$lookup": {"from": "management.users", "localField": "public_id", "foreignField": "group_id", "as": "users"}}]);
        let list = filtered(app, "/groups/", &chart, &[("limit", "5")]).await;
        assert_eq!((of(&list, "/public_id"), list["results"][0].get("users")), (vec![json!(1), json!(2)], None));
    }

    async fn a_pipeline_that_is_not_offered_is_refused(app) {
        for stages in [
            json!([{"$out": "x"}]), json!([{"$match": {"a": {"$where": "1"}}}, {"$unset": "a"}]),
            json!([{"$group": {"_id": "$type_id"}}]), json!([{"$lookup": {"from": "service.credentials", "localField": "a", "foreignField": "b", "as": "c"}}]),
            json!([{"$unset": 1}]), json!([7]), json!([{"$match": {}, "$unset": "a"}]), json!([{"$facet": {"a": []}}]),
            json!([{"$lookup": {"from": "management.users", "localField": "a", "foreignField": "password", "as": "c"}}]),
        ] {
            let request = app.request(Method::GET, "/objects/").query(&[("filter", stages.to_string())]);
            let answer = ask(request).await;
            assert_eq!(answer.status, 400, "{stages}: {}", answer.body);
            assert!(answer.body["code"].is_string(), "{}", answer.body);
        }
    }
}
