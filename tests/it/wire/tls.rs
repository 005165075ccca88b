//! The listener with TLS, with a certificate made here.

use std::net::TcpListener;
use std::path::Path;

use bson::doc;
use mongodb::{Client, error::Error};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::support::DATABASE;
use crate::edge::tls::make_certificate;
use crate::support::app::ADMIN_PASSWORD;
use crate::support::process::ServiceProcess;

/// A token for tools, made over REST without TLS.
async fn token(directory: &Path) -> String {
    let service = ServiceProcess::start(directory, "embedded:data");
    let client = reqwest::Client::new();
    let post = async |path: &str, body: Value, session: &str| -> Value {
        let request = client.post(format!("{}/rest{path}", service.origin)).bearer_auth(session).json(&body);
        request.send().await.expect("an answer").json().await.expect("JSON")
    };
    let login = json!({"user_name": "admin", "password": ADMIN_PASSWORD});
    let session = post("/auth/login", login, "").await["token"].as_str().expect("a session").to_owned();
    let made = post("/users/1/tokens/", json!({"name": "tools", "mongodb": true}), &session).await;
    assert_eq!(service.terminate(), Some(0));
    made["token"].as_str().expect("a token").to_owned()
}

async fn ask(uri: &str) -> Result<i64, Error> {
    let database = Client::with_uri_str(uri).await?.database(DATABASE);
    let answer = database.run_command(doc! { "count": "management.users" }).await?;
    Ok(answer.get_i32("n").expect("a number").into())
}

#[tokio::test]
async fn tools_speak_tls_with_the_certificate_of_the_service_and_nothing_else() {
    let directory = TempDir::new().expect("a temporary directory");
    let token = token(directory.path()).await;
    make_certificate(directory.path());
    let stranger = TempDir::new().expect("a temporary directory");
    make_certificate(stranger.path());
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let address = format!("127.0.0.1:{port}");
    let service = ServiceProcess::start_with(
        directory.path(),
        "embedded:data",
        &[
            ("INVENTORY__SERVER__TLS__CERTIFICATE", "cert.pem"),
            ("INVENTORY__SERVER__TLS__KEY", "key.pem"),
            ("INVENTORY__WIRE__ADDRESS", &address),
        ],
    );
    let uri = |more: &str, wait: u32| {
        format!("mongodb://admin:{token}@localhost:{port}/?directConnection=true&serverSelectionTimeoutMS={wait}{more}")
    };
    let trusting = |directory: &Path| format!("&tls=true&tlsCAFile={}", directory.join("cert.pem").display());
    assert_eq!(ask(&uri(&trusting(directory.path()), 30_000)).await.expect("an answer"), 1);
    for other in [trusting(stranger.path()), "&tls=true".to_owned(), String::new()] {
        assert!(ask(&uri(&other, 2_000)).await.is_err(), "{other}");
    }
    assert_eq!(service.terminate(), Some(0));
}
