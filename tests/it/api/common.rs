//! What holds for every route: docs/api.md, Every route.

use reqwest::Method;
use serde_json::json;

use crate::support::app::{on_each_store, send};

on_each_store! {
    async fn a_path_that_leads_nowhere_is_404(app) {
        app.get("/nothing").await.error(404, "not_found");
        for id in ["0", "-1", "abc", "1.5", "99999999999999999999"] {
            app.get(&format!("/types/{id}")).await.error(404, "not_found");
        }
        app.get("/types/77").await.error(404, "type_not_found");
    }

    async fn a_wrong_method_is_405_and_names_the_right_ones(app) {
        let answer = send(app.request(Method::POST, "/types/1")).await;
        answer.error(405, "method_not_allowed");
        for method in ["GET", "HEAD", "PUT", "PATCH", "DELETE"] {
            assert!(answer.header("allow").contains(method), "{}", answer.header("allow"));
        }
    }

    async fn a_collection_without_its_slash_is_sent_on(app) {
        let answer = app.get("/types?limit=5").await;
        assert_eq!((answer.status.as_u16(), answer.header("location")), (308, "/rest/types/?limit=5"));
    }

    async fn singular_paths_are_aliases(app) {
        let id = app.create_type("rack", &[]).await;
        assert_eq!(app.get(&format!("/type/{id}")).await.json()["result"]["name"], "rack");
        assert_eq!(app.get("/category/").await.status, 200);
        assert_eq!(app.get("/object/?limit=3").await.json()["parameters"]["limit"], 3);
    }

    async fn a_body_must_be_json_and_say_so(app) {
        let plain = send(app.request(Method::POST, "/types/").body("{}")).await;
        plain.error(415, "not_json");
        let broken = app.request(Method::POST, "/types/").header("Content-Type", "application/json");
        send(broken.body("{\"name\": ")).await.error(400, "json_malformed");
        let twice = app.request(Method::POST, "/types/").header("Content-Type", "application/json");
        send(twice.body("{\"name\": \"ab\", \"name\": \"cd\"}")).await.error(400, "json_malformed");
        let large = json!({"name": "x".repeat(2_000_000), "author_id": 1});
        app.post("/types/", &large).await.error(413, "body_too_large");
    }

    async fn without_a_good_token_nothing_is_to_be_had(app) {
        let answer = send(app.anonymous(Method::GET, "/types/")).await;
        answer.error(401, "token_missing");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        send(app.anonymous(Method::GET, "/types/").bearer_auth("x.y.z")).await.error(401, "token_invalid");
        let body = json!({"user_name": "admin", "password": "wrong password"});
        send(app.anonymous(Method::POST, "/auth/login").json(&body)).await.error(401, "credentials_wrong");
        let nobody = json!({"user_name": "nobody", "password": "wrong password"});
        send(app.anonymous(Method::POST, "/auth/login").json(&nobody)).await.error(401, "credentials_wrong");
        let odd = json!({"user_name": {"$ne": ""}, "password": {"$ne": ""}});
        send(app.anonymous(Method::POST, "/auth/login").json(&odd)).await.error(400, "validation_failed");
    }

    async fn the_token_is_taken_with_and_without_its_scheme(app) {
        let token = app.login("admin", crate::support::app::ADMIN_PASSWORD).await;
        for value in [format!("Bearer {token}"), format!("bEARER {token}"), token] {
            let answer = send(app.anonymous(Method::GET, "/types/").header("Authorization", value)).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
    }

    async fn every_answer_has_a_version_and_an_id(app) {
        let answer = send(app.request(Method::GET, "/types/").header("X-Request-ID", "abc-1.2_3")).await;
        assert_eq!((answer.header("x-api-version"), answer.header("x-request-id")), ("1.0", "abc-1.2_3"));
        let odd = send(app.request(Method::GET, "/nothing").header("X-Request-ID", "a b<script>")).await;
        assert_eq!(odd.header("x-request-id").len(), 32);
        odd.error(404, "not_found");
    }

    async fn head_is_get_without_a_body(app) {
        let id = app.create_type("rack", &[]).await;
        for path in ["/types/".to_owned(), format!("/types/{id}"), "/types/99".to_owned(), "/categories/?view=tree".to_owned()] {
            let get = app.get(&path).await;
            let head = send(app.request(Method::HEAD, &path)).await;
            assert_eq!(head.status, get.status, "{path}");
            assert_eq!(head.text, "");
            assert_eq!(head.header("content-length"), get.text.len().to_string(), "{path}");
            assert_eq!(head.header("etag"), get.header("etag"), "{path}");
            assert_eq!(head.header("x-total-count"), get.header("x-total-count"), "{path}");
        }
    }

    async fn the_service_says_what_it_is_to_everybody(app) {
        let answer = send(app.anonymous(Method::GET, "/")).await;
        assert_eq!(answer.json()["name"], "inventory-service");
        assert_eq!(answer.json()["store"]["reachable"], true);
        assert_eq!(answer.json()["query_language"], "MongoDB 6.0.27");
        let ready = send(app.anonymous(Method::GET, &format!("{}/health/ready", app.origin))).await;
        assert_eq!(ready.status, 200, "{}", ready.text);
    }
}
