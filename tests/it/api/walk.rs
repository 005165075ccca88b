//! A walk over all routes: none is open by mistake, and each asks for the right that its entry names.

use inventory_service::http::{RouteAccess, routes};
use reqwest::Method;
use serde_json::json;

use super::people::Person;
use crate::support::app::{on_each_store, send};

/// Routes that need no token, and none else: docs/api.md, Signing in.
const PUBLIC: [&str; 8] =
    ["/", "/health/live", "/health/ready", "/rest/", "/rest/auth/login", "/openapi.json", "/docs/", "/docs/{file}"];

fn path_of(pattern: &str) -> String {
    let path = pattern.replace("{public_id}", "1").replace("{public_ids}", "1,2").replace("{token_id}", "1");
    path.replace("{name}", "base.*").replace("{file}", "index.html")
}

fn method_of(method: &actix_web::http::Method) -> Method {
    Method::from_bytes(method.as_str().as_bytes()).expect("a method")
}

on_each_store! {
    async fn without_a_token_every_route_but_the_public_ones_is_401(app) {
        for route in routes::all().infos() {
            let url = format!("{}{}", app.origin, path_of(route.path));
            let answer = send(app.anonymous(method_of(&route.method), &url).json(&json!({}))).await;
            if route.access == RouteAccess::Public {
                assert!(PUBLIC.contains(&route.path), "{} {}", route.method, route.path);
                assert_ne!(answer.status, 401, "{} {}", route.method, route.path);
            } else {
                answer.error(401, "token_missing");
            }
        }
    }

    async fn without_its_right_every_route_is_403_naming_it_and_with_it_the_route_answers(app) {
        let nobody = Person::with_rights(app, "nobody", &[]).await;
        let mut holders = std::collections::BTreeMap::new();
        for route in routes::all().infos() {
            let (RouteAccess::Right(right) | RouteAccess::OwnOr(right)) = route.access else { continue };
            let url = format!("{}{}", app.origin, path_of(route.path));
            let method = method_of(&route.method);
            let refused = nobody.send(app, method.clone(), &url, &json!({})).await;
            let error = refused.error(403, "right_missing");
            assert!(error["message"].as_str().expect("a message").contains(right), "{error}");
            if !holders.contains_key(right) {
                let name = format!("holder{}", holders.len());
                holders.insert(right, Person::with_rights(app, &name, &[right]).await);
            }
            let answer = holders[right].send(app, method, &url, &json!({})).await;
            let is_refused = answer.status == 401 || answer.status == 403 && answer.json()["code"] == "right_missing";
            assert!(!is_refused && !answer.status.is_server_error(), "{} {}: {}", route.method, route.path, answer.text);
        }
    }
}
