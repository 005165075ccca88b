//! Categories: docs/api.md, Categories.

use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{TestApp, on_each_store};

async fn create(app: &TestApp, name: &str, parent: Option<i64>, order: Option<i64>) -> i64 {
    let body = json!({"name": name, "parent": parent, "meta": {"order": order}});
    app.created("/categories/", &body).await
}

on_each_store! {
    async fn a_category_gets_its_defaults(app) {
        let answer = app.post("/categories/", &json!({"name": "data-center"})).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        let raw = &answer.json()["raw"];
        assert_eq!((&raw["label"], &raw["parent"], &raw["types"]), (&json!("Data-Center"), &json!(null), &json!([])));
        assert_eq!(raw["meta"], json!({"icon": "", "order": null}));
    }

    async fn parent_and_types_must_exist(app) {
        let answer = app.post("/categories/", &json!({"name": "hardware", "parent": 9, "types": [4]})).await;
        answer.error(400, "validation_failed");
        assert_eq!(answer.pointers(), ["/types/0", "/parent"]);
    }

    async fn a_parent_must_not_close_a_cycle(app) {
        let top = create(app, "top", None, None).await;
        let middle = create(app, "middle", Some(top), None).await;
        let low = create(app, "low", Some(middle), None).await;
        for parent in [top, middle, low] {
            let answer = app.put(&format!("/categories/{top}"), &json!({"name": "top", "parent": parent})).await;
            answer.error(400, "validation_failed");
            assert_eq!(answer.pointers(), ["/parent"], "{parent}");
        }
        let answer = app.patch(&format!("/categories/{low}"), &json!({"parent": top})).await;
        assert_eq!(answer.json()["result"]["parent"], top, "{}", answer.text);
    }

    async fn the_tree_is_ordered_and_holds_whole_types(app) {
        let rack = app.create_type("rack", &[]).await;
        let last = create(app, "aa-last", None, None).await;
        let second = create(app, "zz-second", None, Some(2)).await;
        let first = create(app, "mm-first", None, Some(1)).await;
        let child = app.created("/categories/", &json!({"name": "child", "parent": first, "types": [rack]})).await;
        let answer = app.get("/categories/?view=tree").await;
        assert_eq!(answer.results("/category/public_id"), [json!(first), json!(second), json!(last)]);
        let body = answer.json();
        assert_eq!((&body["total"], &body["parameters"]["optional"]["view"]), (&json!(3), &json!("tree")));
        let node = &body["results"][0];
        assert_eq!(node["node_order"], 1);
        assert_eq!(node["children"][0]["category"]["public_id"], child);
        assert_eq!(node["children"][0]["types"][0]["name"], "rack");
        assert_eq!(node["types"], json!([]));
        // A category is no way round the right to read types.
        let reader = Person::with_rights(app, "reader", &["base.framework.category.view"]).await;
        let answer = reader.get(app, "/categories/?view=tree").await;
        assert_eq!(answer.json()["results"][0]["children"][0]["types"], json!([]), "{}", answer.text);
    }

    async fn children_of_a_deleted_category_move_up(app) {
        let top = create(app, "top", None, None).await;
        let middle = create(app, "middle", Some(top), None).await;
        let low = create(app, "low", Some(middle), None).await;
        let answer = app.delete(&format!("/categories/{middle}")).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        assert_eq!(answer.json()["also_changed"]["categories"], 1);
        let parent: Value = app.get(&format!("/categories/{low}")).await.json()["result"]["parent"].clone();
        assert_eq!(parent, top);
    }
}
