//! Requests of one client to one service.

use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use crate::client::{Connection, header, request};
use crate::harness::timing::Error;
use crate::servers::PASSWORD;

/// Longer than any request may take: what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(90);

/// A signed-in client with a connection of its own, which is opened again when it breaks.
pub(crate) struct Api {
    port: u16,
    pub(crate) token: String,
    connection: Option<Connection>,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was answered.
    Answer(u16, Value),
    /// There was no connection to send it over.
    Refused,
    /// Unknown: the connection broke.
    Unknown,
}

impl Api {
    /// Signs the first administrator in.
    pub(crate) async fn sign_in(port: u16) -> Result<Self, Error> {
        let mut api = Self::with_token(port, "");
        let body = json!({"user_name": "admin", "password": PASSWORD});
        match api.send("POST", "/auth/login", Some(&body)).await? {
            Outcome::Answer(200, said) => said["token"].as_str().unwrap_or_default().clone_into(&mut api.token),
            other => return Err(format!("nobody was signed in: {other:?}").into()),
        }
        Ok(api)
    }

    pub(crate) fn with_token(port: u16, token: &str) -> Self {
        Self { port, token: token.to_owned(), connection: None }
    }

    /// Another client of the same user.
    pub(crate) fn again(&self) -> Self {
        Self::with_token(self.port, &self.token)
    }

    /// Sends a request; `path` is below `/rest`.
    ///
    /// # Errors
    /// When the service neither answers nor closes the connection.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Outcome, Error> {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str())];
        let headers = if self.token.is_empty() { &headers[..0] } else { &headers[..] };
        let body = body.map(Value::to_string);
        let request = request(method, &format!("/rest{path}"), headers, body.as_deref());
        if self.connection.is_none() {
            self.connection = Connection::open(self.port).await.ok();
        }
        // Put back when it can be used again.
        let Some(mut connection) = self.connection.take() else { return Ok(Outcome::Refused) };
        let asked = timeout(PATIENCE, async {
            let answer = connection.ask(&request).await?;
            let said = if answer.body.is_empty() { Value::Null } else { serde_json::from_slice(answer.body)? };
            let is_last = header(answer.head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
            Ok::<_, Error>((answer.status, said, is_last))
        });
        match asked.await {
            Err(_) => Err(format!("{method} {path}: no answer in {PATIENCE:?}").into()),
            Ok(Ok((status, said, is_last))) => {
                self.connection = (!is_last).then_some(connection);
                Ok(Outcome::Answer(status, said))
            }
            Ok(Err(_)) => Ok(Outcome::Unknown),
        }
    }

    /// Sends a request that has to succeed.
    pub(crate) async fn expect(&mut self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Error> {
        match self.send(method, path, body).await? {
            Outcome::Answer(200..=299, said) => Ok(said),
            other => Err(format!("{method} {path}: {other:?}").into()),
        }
    }

    /// Makes a type with a text field `key` and a text field `value`, and gives its id.
    pub(crate) async fn create_type(&mut self, name: &str) -> Result<i64, Error> {
        let text = |name: &str| json!({"type": "text", "name": name, "label": name});
        let body = json!({"name": name, "author_id": 1, "fields": [text("key"), text("value")]});
        let made = self.expect("POST", "/types/", Some(&body)).await?;
        made["result_id"].as_i64().ok_or_else(|| format!("no id: {made}").into())
    }
}

/// An object of such a type.
pub(crate) fn object(type_id: i64, key: &str, value: &str) -> Value {
    let fields = json!([{"name": "key", "value": key}, {"name": "value", "value": value}]);
    json!({"type_id": type_id, "author_id": 1, "fields": fields})
}
