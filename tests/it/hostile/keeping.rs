//! What a user without rights stores for that user alone: it has bounds, also with requests on many connections at once.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, on_each_store, send};

/// A user of the group of users, who holds no right, and the user's token.
async fn user(app: &TestApp) -> (i64, String) {
    let body = json!({"user_name": "eve", "password": "correct horse battery"});
    (app.created("/users/", &body).await, app.login("eve", "correct horse battery").await)
}

fn setting(identifier: &str, bytes: usize) -> Value {
    json!({"identifier": identifier, "setting_type": "APPLICATION", "payload": {"a": "x".repeat(bytes)}})
}

on_each_store! {
    async fn settings_of_a_user_have_a_bounded_number(app) {
        let (id, token) = user(app).await;
        let path = format!("/users/{id}/settings/");
        let post = async |name: String| {
            send(app.anonymous(Method::POST, &path).bearer_auth(&token).json(&setting(&name, 10))).await
        };
        for name in 0..196 {
            assert_eq!(post(name.to_string()).await.status, 201);
        }
        // Four more fit, however many are sent at once.
        let answers = join_all((196..212).map(|name| post(name.to_string()))).await;
        let created = answers.iter().filter(|answer| answer.status == 201).count();
        assert!(created <= 4, "{created}");
        for name in 212..216 {
            post(name.to_string()).await;
        }
        post("more".to_owned()).await.error(400, "quota_exceeded");
        let all = app.get(&path).await.json();
        assert_eq!(all["results"].as_array().map(Vec::len), Some(200));
        // A change that adds nothing, another user and reading are as before; deleting makes room.
        let put = app.anonymous(Method::PUT, &format!("{path}0")).bearer_auth(&token);
        assert_eq!(send(put.json(&setting("0", 5))).await.status, 202);
        assert_eq!(app.post("/users/1/settings/", &setting("mine", 10)).await.status, 201);
        assert_eq!(app.delete(&format!("{path}0")).await.status, 202);
        assert_eq!(post("more".to_owned()).await.status, 201);
    }

    async fn settings_of_a_user_have_a_bounded_size(app) {
        let (id, _) = user(app).await;
        let path = format!("/users/{id}/settings/");
        app.post(&path, &setting("large", 300_000)).await.error(400, "quota_exceeded");
        for name in 0..20 {
            assert_eq!(app.post(&path, &setting(&name.to_string(), 200_000)).await.status, 201);
        }
        app.post(&path, &setting("more", 200_000)).await.error(400, "quota_exceeded");
        assert_eq!(app.post(&path, &setting("small", 10)).await.status, 201);
        app.put(&format!("{path}small"), &setting("small", 260_000)).await.error(400, "quota_exceeded");
        app.patch(&format!("{path}small"), &json!({"payload": {"b": "x".repeat(250_000)}})).await.error(400, "quota_exceeded");
        assert_eq!(app.get(&format!("{path}small")).await.json()["results"][0]["payload"], json!({"a": "x".repeat(10)}));
        assert_eq!(app.put(&format!("{path}0"), &setting("0", 10)).await.status, 202);
        assert_eq!(app.put(&format!("{path}small"), &setting("small", 150_000)).await.status, 202);
        let long = setting(&"i".repeat(257), 1);
        app.post(&path, &long).await.error(400, "validation_failed");
        let all = app.get(&path).await.json();
        assert_eq!(all["results"].as_array().map(Vec::len), Some(21));
        assert!(all.get("pager").is_none() && all["response_type"] == "GET", "{all}");
    }

    async fn settings_are_listed_on_pages(app) {
        for name in ["a", "b", "c", "d", "e"] {
            assert_eq!(app.post("/users/1/settings/", &setting(name, 1)).await.status, 201);
        }
        let (id, _) = user(app).await;
        assert_eq!(app.post(&format!("/users/{id}/settings/"), &setting("other", 1)).await.status, 201);
        let page = app.get("/users/1/settings/?limit=2&page=2").await.json();
        let names: Vec<&Value> = page["results"].as_array().expect("results").iter().map(|it| &it["identifier"]).collect();
        assert_eq!(names, ["c", "d"]);
        assert_eq!(page["pager"], json!({"page": 2, "page_size": 2, "total_pages": 3}));
        assert_eq!((&page["count"], &page["total"], &page["model"]), (&json!(2), &json!(5), &json!("UserSetting")));
        assert!(page["pagination"]["next"].as_str().is_some_and(|url| url.contains("/users/1/settings/")), "{page}");
        // It would be evaluated on the settings of others.
        app.get_with("/users/1/settings/", &[("filter", "{}"), ("limit", "2")]).await.error(400, "parameter_invalid");
        app.get("/users/1/settings/?size=2").await.error(400, "parameter_invalid");
        app.get("/users/99/settings/?limit=2").await.error(404, "user_not_found");
    }

    async fn tokens_of_a_user_have_a_bounded_number(app) {
        let many: Vec<&str> = std::iter::repeat_n("base.framework.object.view", 5000).collect();
        let token = app.post("/users/1/tokens/", &json!({"name": "t", "rights": many})).await;
        assert_eq!(token.json()["raw"]["rights"], json!(["base.framework.object.view"]), "{}", token.text);
        for name in 1..198 {
            assert_eq!(app.post("/users/1/tokens/", &json!({"name": name.to_string()})).await.status, 201);
        }
        let bodies: Vec<Value> = (198..210).map(|name| json!({"name": name.to_string()})).collect();
        let answers = join_all(bodies.iter().map(|body| app.post("/users/1/tokens/", body))).await;
        assert!(answers.iter().filter(|answer| answer.status == 201).count() <= 2);
        for name in 210..212 {
            app.post("/users/1/tokens/", &json!({"name": name.to_string()})).await;
        }
        app.post("/users/1/tokens/", &json!({"name": "more"})).await.error(400, "quota_exceeded");
        let all = app.get("/users/1/tokens/").await.json();
        let all = all["results"].as_array().expect("results");
        assert_eq!(all.len(), 200);
        assert_eq!(app.delete(&format!("/users/1/tokens/{}", all[0]["public_id"])).await.status, 202);
        assert_eq!(app.post("/users/1/tokens/", &json!({"name": "more"})).await.status, 201);
    }
}
