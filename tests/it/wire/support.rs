//! A service with the listener, and clients of it.

use bson::{Document, doc};
use mongodb::error::{Error, ErrorKind};
use mongodb::{Client, Database};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::app::{TestApp, send};

/// The name that tools see.
pub(crate) const DATABASE: &str = "inventory";

/// A service with the listener.
pub(crate) struct ToolApp {
    pub(crate) app: TestApp,
    /// `HOST:PORT` of the listener.
    pub(crate) address: String,
}

impl ToolApp {
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    pub(crate) async fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut all = vec![("wire.address", "127.0.0.1:0")];
        all.extend_from_slice(settings);
        let app = TestApp::embedded_with(&all).await;
        let address = app.wire.expect("the listener has an address").to_string();
        Self { app, address }
    }

    /// Makes a token for tools and gives it.
    pub(crate) async fn token(&self, user_id: i64, body: &Value) -> String {
        let mut all = json!({"name": "tools", "mongodb": true});
        all.as_object_mut().expect("an object").extend(body.as_object().expect("an object").clone());
        let answer = self.app.post(&format!("/users/{user_id}/tokens/"), &all).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
        answer.json()["token"].as_str().expect("a token").to_owned()
    }

    /// A user of a new group with these rights, and a token of the user's.
    pub(crate) async fn user(&self, name: &str, rights: &[&str]) -> (i64, String) {
        let group = json!({"name": name, "label": name, "rights": rights});
        let group_id = self.app.created("/groups/", &group).await;
        let user = json!({"user_name": name, "password": "a long password", "group_id": group_id});
        let user_id = self.app.created("/users/", &user).await;
        (user_id, self.token(user_id, &json!({})).await)
    }

    /// A client that signs in.
    pub(crate) async fn client(&self, name: &str, token: &str) -> Client {
        self.client_with(name, token, "").await
    }

    /// The same with further options of its URI.
    pub(crate) async fn client_with(&self, name: &str, token: &str, options: &str) -> Client {
        let options = if options.is_empty() { String::new() } else { format!("&{options}") };
        let uri = format!("mongodb://{name}:{token}@{}/?directConnection=true{options}", self.address);
        Client::with_uri_str(uri).await.expect("a well-formed URI")
    }

    /// The database as the first administrator sees it.
    pub(crate) async fn admin(&self) -> Database {
        let token = self.token(1, &json!({})).await;
        self.client("admin", &token).await.database(DATABASE)
    }

    /// Creates a type whose objects only these groups may read, and gives its id.
    pub(crate) async fn hidden_type(&self, name: &str, groups: &[i64]) -> i64 {
        let includes: serde_json::Map<String, Value> =
            groups.iter().map(|group| (group.to_string(), json!(["READ", "CREATE"]))).collect();
        let body = json!({
            "name": name, "author_id": 1, "fields": [],
            "acl": {"activated": true, "groups": {"includes": includes}},
        });
        self.app.created("/types/", &body).await
    }

    pub(crate) async fn delete(&self, path: &str) {
        let answer = send(self.app.request(Method::DELETE, path)).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }
}

/// The number of an error of the server.
pub(crate) fn code_of(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}

/// The number with which a command is refused, and the message.
pub(crate) async fn refused(database: &Database, command: Document) -> (i32, String) {
    match database.run_command(command.clone()).await {
        Ok(answer) => panic!("{command} was answered: {answer}"),
        Err(error) => match &*error.kind {
            ErrorKind::Command(refusal) => (refusal.code, refusal.message.clone()),
            other => panic!("{command}: {other:?}"),
        },
    }
}

/// The first batch of a `find`.
pub(crate) async fn found(database: &Database, command: Document) -> Vec<Document> {
    let answer = database.run_command(command).await.expect("an answer");
    let batch = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).expect("a batch");
    batch.iter().map(|item| item.as_document().expect("a document").clone()).collect()
}

/// The names of types.
pub(crate) async fn type_names(database: &Database) -> Vec<String> {
    let command = doc! { "find": "framework.types", "sort": { "public_id": 1 }, "projection": { "name": 1, "_id": 0 } };
    let types = found(database, command).await;
    types.iter().map(|found| found.get_str("name").expect("a name").to_owned()).collect()
}
