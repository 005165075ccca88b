//! Tokens of an issuer of OpenID Connect, with an issuer made here.

mod hostile;
pub(crate) mod issuer;
mod keys;
mod people;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{Answer, TestApp, send};
use issuer::{Signer, TestIssuer};

/// An issuer with one key.
pub(crate) struct Trusted {
    pub(crate) issuer: TestIssuer,
    pub(crate) signer: Signer,
}

impl Trusted {
    pub(crate) fn new() -> Self {
        let signer = Signer::new("first", jsonwebtoken::Algorithm::ES256);
        Self { issuer: TestIssuer::showing(&[&signer]), signer }
    }

    /// A service on this store that takes the tokens of this issuer, with the groups that the settings name.
    pub(crate) async fn app_on(&self, uri: Option<&str>, more: &[(&str, &str)]) -> TestApp {
        let settings = self.issuer.settings();
        let mut settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        settings.extend_from_slice(more);
        let app = match uri {
            Some(uri) => TestApp::on(uri, &settings).await,
            None => TestApp::embedded_with(&settings).await,
        };
        app.created("/groups/", &json!({"name": "readers", "rights": ["base.framework.type.view"]})).await;
        let rights = json!(["base.framework.type.*", "base.user-management.user.*"]);
        app.created("/groups/", &json!({"name": "editors", "rights": rights})).await;
        app
    }

    /// A token of somebody, with more claims.
    pub(crate) fn token(&self, subject: &str, more: &Value) -> String {
        self.signer.sign(&self.issuer.claims(subject, more))
    }

    /// A token of somebody in these groups, issued `seconds_ago` seconds ago.
    pub(crate) fn issued(&self, subject: &str, seconds_ago: i64, groups: &[&str]) -> String {
        let mut claims = self.issuer.claims(subject, &json!({"preferred_username": subject, "groups": groups}));
        claims["iat"] = json!(claims["exp"].as_i64().expect("a time") - 600 - seconds_ago);
        self.signer.sign(&claims)
    }
}

pub(crate) async fn ask(app: &TestApp, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    send(app.anonymous(method, path).bearer_auth(token).json(body)).await
}

pub(crate) async fn get(app: &TestApp, token: &str, path: &str) -> Answer {
    send(app.anonymous(Method::GET, path).bearer_auth(token)).await
}

/// The user with this name, as an administrator sees it.
pub(crate) async fn user(app: &TestApp, name: &str) -> Option<Value> {
    let filter = json!({"user_name": name}).to_string();
    let list = app.get_with("/users/", &[("filter", &filter)]).await;
    assert_eq!(list.status, 200, "{}", list.text);
    let found = list.json()["results"].as_array().expect("a list").clone();
    assert!(found.len() <= 1, "{found:?}");
    found.into_iter().next()
}

/// How many users there are.
pub(crate) async fn users(app: &TestApp) -> Value {
    app.get("/users/").await.json()["total"].clone()
}

/// Makes of each `async fn name(app, trusted)` two tests of a service that takes the tokens of an issuer.
macro_rules! on_each_trusting_store {
    ($(async fn $name:ident($app:ident, $trusted:ident) $body:block)*) => {
        $(
            async fn $name($app: &$crate::support::app::TestApp, $trusted: &$crate::sign_on::Trusted) $body

            mod $name {
                use $crate::sign_on::Trusted;
                use $crate::support::mongod::{self, Deployment};

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_store() {
                    let trusted = Trusted::new();
                    super::$name(&trusted.app_on(None, &[]).await, &trusted).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_mongodb() {
                    if let Some(server) = mongod::shared(Deployment::ReplicaSet).await {
                        let trusted = Trusted::new();
                        super::$name(&trusted.app_on(Some(&server.fresh_uri()), &[]).await, &trusted).await;
                    }
                }
            }
        )*
    };
}
pub(crate) use on_each_trusting_store;
