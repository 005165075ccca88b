//! A client of a service that runs as a process, and may go away at any time.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::app::{ADMIN_PASSWORD, Answer, send};

/// The administrator, signed in.
pub(crate) struct Client {
    http: reqwest::Client,
    origin: String,
    token: String,
}

impl Client {
    pub(crate) async fn sign_in(origin: &str) -> Self {
        let http = reqwest::Client::builder().read_timeout(Duration::from_secs(30)).build().expect("a client");
        let mut client = Self { http, origin: origin.to_owned(), token: String::new() };
        let body = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
        let answer = send(client.request(Method::POST, "/auth/login").json(&body)).await;
        answer.json()["token"].as_str().expect("a token").clone_into(&mut client.token);
        client
    }

    /// A request with this path below `/rest`.
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}/rest{path}", self.origin)).bearer_auth(&self.token)
    }

    /// `None` when the service went away before it answered.
    pub(crate) async fn answer(request: reqwest::RequestBuilder) -> Option<Answer> {
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status(), response.headers().clone());
        Some(Answer { status, headers, text: response.text().await.ok()? })
    }

    /// The same for a POST.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Option<Answer> {
        Self::answer(self.request(Method::POST, path).json(body)).await
    }
}
