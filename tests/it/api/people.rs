//! People for tests: users in groups of their own, signed in.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::support::app::{Answer, TestApp, send};

/// A signed-in user.
pub(crate) struct Person {
    pub(crate) id: i64,
    pub(crate) group_id: i64,
    pub(crate) token: String,
}

pub(crate) const PASSWORD: &str = "a long password";

impl Person {
    /// A new user in a new group that holds these rights, signed in.
    pub(crate) async fn with_rights(app: &TestApp, name: &str, rights: &[&str]) -> Self {
        let group_id = app.created("/groups/", &json!({"name": format!("{name}s"), "rights": rights})).await;
        let user = json!({"user_name": name, "password": PASSWORD, "group_id": group_id});
        let id = app.created("/users/", &user).await;
        Self { id, group_id, token: app.login(name, PASSWORD).await }
    }

    /// A request of this user.
    pub(crate) fn request(&self, app: &TestApp, method: Method, path: &str) -> RequestBuilder {
        app.anonymous(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, app: &TestApp, path: &str) -> Answer {
        send(self.request(app, Method::GET, path)).await
    }

    pub(crate) async fn send(&self, app: &TestApp, method: Method, path: &str, body: &Value) -> Answer {
        send(self.request(app, method, path).json(body)).await
    }

    pub(crate) async fn delete(&self, app: &TestApp, path: &str) -> Answer {
        send(self.request(app, Method::DELETE, path)).await
    }
}
