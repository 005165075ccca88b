//! The real server on a free port, and requests to it named after what they ask.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use inventory_service::admission::Admission;
use inventory_service::app::{Application, Opened, open};
use inventory_service::clock::{Clock, SystemClock};
use inventory_service::settings::Settings;
use inventory_service::store::Store;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::described::assert_described;
use super::mongod::{self, Deployment};

/// The password of the first administrator in tests.
pub(crate) const ADMIN_PASSWORD: &str = "correct horse battery";

/// A running service of a test's own, with the first administrator signed in.
pub(crate) struct TestApp {
    pub(crate) origin: String,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) admission: Arc<Admission>,
    /// Where MongoDB tools are answered.
    pub(crate) wire: Option<SocketAddr>,
    client: reqwest::Client,
    token: String,
    _directory: TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl TestApp {
    /// On an embedded store in a temporary directory.
    pub(crate) async fn embedded() -> Self {
        Self::embedded_with(&[]).await
    }

    /// On an embedded store, with settings of the test's own.
    pub(crate) async fn embedded_with(settings: &[(&str, &str)]) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let uri = format!("embedded:{}", directory.path().join("data").display());
        Self::start(directory, &uri, settings, |store| store).await
    }

    /// On a database of its own on the MongoDB server that the tests share; `None` where there is no server.
    pub(crate) async fn mongodb() -> Option<Self> {
        let server = mongod::shared(Deployment::ReplicaSet).await?;
        let directory = TempDir::new().expect("a temporary directory");
        Some(Self::start(directory, &server.fresh_uri(), &[], |store| store).await)
    }

    /// On a store of the test's own, with settings of its own.
    pub(crate) async fn on(uri: &str, settings: &[(&str, &str)]) -> Self {
        Self::start(TempDir::new().expect("a temporary directory"), uri, settings, |store| store).await
    }

    /// On an embedded store that `wrap` puts something around.
    pub(crate) async fn embedded_around(wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        Self::embedded_around_with(&[], wrap).await
    }

    /// The same, with settings of the test's own.
    pub(crate) async fn embedded_around_with(
        settings: &[(&str, &str)],
        wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let uri = format!("embedded:{}", directory.path().join("data").display());
        Self::start(directory, &uri, settings, wrap).await
    }

    /// On a store of the test's own that `wrap` puts something around.
    pub(crate) async fn around(uri: &str, wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        Self::start(TempDir::new().expect("a temporary directory"), uri, &[], wrap).await
    }

    /// On a store of the test's own, with settings and a clock of its own.
    pub(crate) async fn on_with_clock(uri: &str, settings: &[(&str, &str)], clock: Arc<dyn Clock>) -> Self {
        Self::start_with(TempDir::new().expect("a temporary directory"), uri, settings, |store| store, clock).await
    }

    async fn start(
        directory: TempDir,
        uri: &str,
        settings: &[(&str, &str)],
        wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        Self::start_with(directory, uri, settings, wrap, Arc::new(SystemClock)).await
    }

    async fn start_with(
        directory: TempDir,
        uri: &str,
        settings: &[(&str, &str)],
        wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let mut pairs = vec![
            ("server.port", "0"),
            ("server.workers", "1"),
            ("store.uri", uri),
            ("auth.initial_admin_password", ADMIN_PASSWORD),
            // Hashing at full cost would be most of the time of the tests.
            ("auth.argon2.memory_kib", "8"),
            ("auth.argon2.iterations", "1"),
        ];
        pairs.extend_from_slice(settings);
        let settings = Settings::defaults(&pairs).expect("valid settings");
        let Opened { store, file } = open(&settings.store).await.expect("the store opens");
        let store = wrap(store);
        let application =
            Application::with_store(settings, Arc::clone(&store), file, clock).await.expect("the application starts");
        let origin = format!("http://{}", application.address().expect("an address"));
        let admission = Arc::clone(&application.services().admission);
        let wire = application.wire_address();
        tokio::spawn(application.run_without_signals());
        let client = reqwest::Client::builder()
            .timeout(Duration::from_mins(1))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("a client");
        let mut app = Self { origin, store, admission, wire, client, token: String::new(), _directory: directory };
        app.token = app.login("admin", ADMIN_PASSWORD).await;
        app
    }

    /// Signs the first administrator in again, for tests that let much time pass.
    pub(crate) async fn sign_in_again(&mut self) {
        self.token = self.login("admin", ADMIN_PASSWORD).await;
    }

    /// Signs in and gives the token.
    pub(crate) async fn login(&self, user_name: &str, password: &str) -> String {
        let body = json!({"user_name": user_name, "password": password});
        let answer = send(self.anonymous(Method::POST, "/auth/login").json(&body)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()["token"].as_str().expect("a token").to_owned()
    }

    /// A request without a token; `path` is below `/rest`, or absolute.
    pub(crate) fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}/rest{path}", self.origin) };
        self.client.request(method, url)
    }

    /// A request of the first administrator.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.anonymous(method, path).bearer_auth(&self.token)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path)).await
    }

    /// GET with parameters, percent-encoded.
    pub(crate) async fn get_with(&self, path: &str, parameters: &[(&str, &str)]) -> Answer {
        send(self.request(Method::GET, path).query(parameters)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        send(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        send(self.request(Method::PUT, path).json(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        send(self.request(Method::PATCH, path).json(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        send(self.request(Method::DELETE, path)).await
    }

    /// Creates a type with these fields (`name` and `kind`) and gives its id.
    pub(crate) async fn create_type(&self, name: &str, fields: &[(&str, &str)]) -> i64 {
        let fields: Vec<Value> =
            fields.iter().map(|(name, kind)| json!({"type": kind, "name": name, "label": name})).collect();
        self.created("/types/", &json!({"name": name, "author_id": 1, "fields": fields})).await
    }

    /// Creates an object with these values and gives its id.
    pub(crate) async fn create_object(&self, type_id: i64, values: &Value) -> i64 {
        self.created("/objects/", &json!({"type_id": type_id, "author_id": 1, "fields": fields(values)})).await
    }

    /// Posts the body, which must be accepted, and gives the new id.
    pub(crate) async fn created(&self, path: &str, body: &Value) -> i64 {
        let answer = self.post(path, body).await;
        assert!(answer.status.is_success(), "{}", answer.text);
        let told = answer.json();
        // With `api.compatibility` a new object answers its id alone.
        told.as_i64().or(told["result_id"].as_i64()).expect("an id")
    }
}

/// `{"a": 1}` as the `fields` of an object.
pub(crate) fn fields(values: &Value) -> Value {
    let members = values.as_object().expect("an object of values");
    members.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

/// Sends the request and reads the answer, which has to be as the description says.
pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let (client, request) = request.build_split();
    let request = request.expect("a request");
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let response = client.execute(request).await.expect("an answer");
    let (status, headers) = (response.status(), response.headers().clone());
    let answer = Answer { status, headers, text: response.text().await.expect("a readable body") };
    assert_described(&method, &path, &answer);
    answer
}

impl Answer {
    /// The body.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// A header, empty when it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("a readable header"))
    }

    /// Asserts that this is an error of the one shape, and gives its body.
    #[track_caller]
    pub(crate) fn error(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        let body = self.json();
        assert_eq!(body["status"], status);
        assert_eq!(body["code"], code, "{body}");
        assert!(body["message"].is_string() && body["response"].is_string(), "{body}");
        assert_eq!(body["request_id"], self.header("x-request-id"));
        assert_eq!(self.header("x-api-version"), "1.0");
        body
    }

    /// The pointers of the violations in an error.
    pub(crate) fn pointers(&self) -> Vec<String> {
        let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
    }

    /// A value of each result of a list.
    pub(crate) fn results(&self, pointer: &str) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text);
        let results = self.json()["results"].as_array().cloned().expect("results");
        results.iter().map(|result| result.pointer(pointer).cloned().unwrap_or(Value::Null)).collect()
    }
}

/// Makes of each `async fn name(app)` two tests: one on the embedded store, one on MongoDB.
macro_rules! on_each_store {
    ($($(#[$attribute:meta])* async fn $name:ident($app:ident) $body:block)*) => {
        $(
            $(#[$attribute])*
            async fn $name($app: &$crate::support::app::TestApp) $body

            mod $name {
                use $crate::support::app::TestApp;

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_the_embedded_store() {
                    super::$name(&TestApp::embedded().await).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn on_mongodb() {
                    if let Some(app) = TestApp::mongodb().await {
                        super::$name(&app).await;
                    }
                }
            }
        )*
    };
}
pub(crate) use on_each_store;
