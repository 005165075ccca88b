//! Rights, and which route needs which: docs/api.md, Rights.

use reqwest::Method;
use serde_json::{Value, json};

use super::people::Person;
use crate::support::app::{on_each_store, send};

on_each_store! {
    async fn rights_are_listed_like_anything_else(app) {
        let list = app.get("/rights/").await;
        let body = list.json();
        assert_eq!((&body["total"], &body["count"], &body["model"]), (&json!(62), &json!(10), &json!("Right")));
        assert_eq!(body["parameters"]["sort"], "name");
        assert_eq!(body["parameters"]["optional"], json!({"view": "list"}));
        let expected = json!({
            "level": 0, "name": "base.*", "label": "base.*", "description": "Everything.", "is_master": true,
        });
        assert_eq!(body["results"][0], expected);
        let filter = r#"{"level": {"$gte": 80}, "is_master": false}"#;
        let grave = app.get_with("/rights/", &[("filter", filter), ("sort", "-name"), ("limit", "2")]).await;
        assert_eq!(grave.results("/name"), ["base.user-management.group.edit", "base.user-management.group.add"]);
        assert_eq!(grave.json()["total"], 4);
        assert_eq!(app.get_with("/rights/", &[("page", "7")]).await.results("/name").len(), 2);
        assert!(app.get_with("/rights/", &[("page", "8")]).await.results("/name").is_empty());
        app.get_with("/rights/", &[("filter", r#"{"$text": {"$search": "x"}}"#)]).await
            .error(400, "unsupported_by_embedded_store");
    }

    async fn every_list_of_the_tree_begins_with_its_master(app) {
        fn check(nodes: &Value, seen: &mut usize) {
            let nodes = nodes.as_array().expect("a list");
            assert_eq!(nodes[0]["is_master"], true);
            for node in nodes {
                if node.is_array() { check(node, seen) } else { *seen += 1 }
            }
        }
        for parameter in ["view", "optional"] {
            let tree = app.get_with("/rights/", &[(parameter, "tree")]).await;
            let mut seen = 0;
            check(&tree.json()["results"], &mut seen);
            assert_eq!(seen, 62);
            assert_eq!(tree.json()["parameters"]["optional"]["view"], "tree");
        }
        app.get_with("/rights/", &[("view", "tree"), ("filter", r#"{"level": 0}"#)]).await.error(400, "parameter_invalid");
        app.get_with("/rights/", &[("view", "round")]).await.error(400, "parameter_invalid");
    }

    async fn one_right_and_the_levels_are_read(app) {
        let one = app.get("/rights/base.framework.object.view").await;
        assert_eq!(one.json()["result"]["label"], "object.view");
        assert_eq!(app.get("/rights/base.framework.*").await.json()["result"]["is_master"], true);
        app.get("/rights/base.nothing").await.error(404, "right_not_found");
        let levels = app.get("/rights/levels").await.json();
        let expected = json!({"CRITICAL": 100, "DANGER": 80, "SECURE": 50, "PROTECTED": 30, "PERMISSION": 10, "NOTSET": 0});
        assert_eq!((&levels["result"], &levels["model"]), (&expected, &json!("Security-Level")));
        for path in ["/rights/", "/rights/levels", "/rights/base.*"] {
            assert_eq!(send(app.request(Method::HEAD, path)).await.status, 200);
        }
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            assert_eq!(send(app.request(method, "/rights/base.*").json(&json!({}))).await.status, 405);
        }
    }

    async fn every_signed_in_user_reads_the_rights(app) {
        let ada = Person::with_rights(app, "ada", &[]).await;
        for path in ["/rights/", "/rights/levels", "/rights/base.*"] {
            assert_eq!(ada.get(app, path).await.status, 200);
        }
        send(app.anonymous(Method::GET, "/rights/")).await.error(401, "token_missing");
    }

    async fn a_route_explains_which_right_it_needs(app) {
        let ada = Person::with_rights(app, "ada", &["base.framework.object.*"]).await;
        let explain = async |method: &str, path: &str| {
            let request = ada.request(app, Method::GET, "/rights/explain").query(&[("method", method), ("path", path)]);
            send(request).await.json()["result"].clone()
        };
        let expected = json!({
            "method": "put", "path": "/rest/objects/7?x=1", "route": "/rest/objects/{public_id}", "access": "right",
            "right": "base.framework.object.edit", "granted": true, "granted_by": "base.framework.object.*",
        });
        assert_eq!(explain("put", "/rest/objects/7?x=1").await, expected);
        let missing = explain("DELETE", "/types/7").await;
        assert_eq!((&missing["granted"], &missing["granted_by"]), (&json!(false), &Value::Null));
        assert_eq!(missing["right"], "base.framework.type.delete");
        let own = explain("PATCH", &format!("/users/{}", ada.id)).await;
        assert_eq!((&own["access"], &own["granted"]), (&json!("own_or_right"), &json!(true)));
        assert_eq!(explain("PATCH", "/users/1").await["granted"], false);
        assert_eq!(explain("HEAD", "/rights/levels").await["route"], "/rest/rights/levels");
        assert_eq!(explain("GET", "/objects").await["route"], "/rest/objects/");
        app.get_with("/rights/explain", &[("method", "GET")]).await.error(400, "parameter_invalid");
        app.get_with("/rights/explain", &[("method", "GET"), ("path", "/nowhere")]).await.error(404, "route_not_found");
    }
}
