//! `/metrics`: who gets it, and what is counted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use inventory_service::app::Application;
use inventory_service::settings::Settings;
use reqwest::Method;
use tempfile::TempDir;

use crate::moving::backup::{command, run, succeeds};
use crate::support::app::{ADMIN_PASSWORD, TestApp, send};
use crate::support::process::ServiceProcess;

const TOKEN: &str = "a token for the monitor";

async fn metrics(app: &TestApp) -> String {
    let answer = send(app.anonymous(Method::GET, &format!("{}/metrics", app.origin)).bearer_auth(TOKEN)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4");
    answer.text
}

/// The number at the end of the line that begins like this.
fn number(metrics: &str, beginning: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(beginning));
    let line = line.unwrap_or_else(|| panic!("{beginning} is not in\n{metrics}"));
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test]
async fn without_a_setting_there_are_none() {
    let app = TestApp::embedded().await;
    app.get(&format!("{}/metrics", app.origin)).await.error(404, "not_found");
}

#[tokio::test]
async fn on_the_address_of_the_service_they_need_their_token() {
    let app = TestApp::embedded_with(&[("metrics.token", TOKEN)]).await;
    let url = format!("{}/metrics", app.origin);
    send(app.anonymous(Method::GET, &url)).await.error(401, "token_missing");
    // Nor is the token of a user good for it.
    app.get(&url).await.error(401, "token_invalid");
    assert!(metrics(&app).await.contains("inventory_build_info{version="));
}

#[tokio::test]
async fn requests_store_calls_refusals_and_lookups_are_counted() {
    let app = TestApp::embedded_with(&[("metrics.token", TOKEN)]).await;
    app.create_type("server", &[]).await;
    app.get("/types/1").await;
    app.get("/types/99").await;
    app.get_with("/types/", &[("filter", r#"{"$where": "1"}"#)]).await;
    app.get("/nowhere").await;
    let text = metrics(&app).await;
    let requests = "inventory_http_request_duration_seconds_count";
    for (labels, count) in [
        (r#"{method="POST",route="/rest/types/",status="201"}"#, 1.0),
        (r#"{method="GET",route="/rest/types/{public_id}",status="200"}"#, 1.0),
        (r#"{method="GET",route="/rest/types/{public_id}",status="404"}"#, 1.0),
        (r#"{method="GET",route="-",status="404"}"#, 1.0),
    ] {
        assert!((number(&text, &format!("{requests}{labels}")) - count).abs() < 0.5, "{labels}\n{text}");
    }
    assert!(number(&text, "inventory_refused_queries_total{code=\"query_") >= 1.0);
    assert!(number(&text, r#"inventory_store_call_duration_seconds_count{operation="commit",outcome="ok"}"#) >= 1.0);
    assert!(number(&text, r#"inventory_cache_lookups_total{cache="users",outcome="hit"}"#) >= 1.0);
    assert!(number(&text, "inventory_embedded_commits_total") >= 1.0);
    assert!(number(&text, "inventory_embedded_group_units_count") >= 1.0);
    assert!(number(&text, "inventory_embedded_file_bytes") > 4096.0);
    // The one that asks.
    assert!((number(&text, "inventory_http_requests_under_way") - 1.0).abs() < 0.5);
}

/// The names of metrics in a file of `deploy`.
fn names_in(file: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file);
    let text = fs::read_to_string(path).expect("a readable file");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("inventory_") || word.starts_with("process_")).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_dashboard_and_alerts_name_is_told() {
    let app = TestApp::embedded_with(&[("metrics.token", TOKEN)]).await;
    app.create_type("server", &[]).await;
    let told = metrics(&app).await;
    assert!((number(&told, r#"inventory_objects{type="server"}"#)).abs() < 0.5, "{told}");
    assert!((number(&told, "inventory_store_writable") - 1.0).abs() < 0.5);
    assert!(number(&told, "inventory_embedded_free_bytes") > 4096.0);
    for file in ["grafana/inventory.json", "prometheus/alerts.yml"] {
        let names = names_in(file);
        assert!(names.len() > 8, "{file}: {names:?}");
        for name in names {
            let is_told = |line: &str| line.strip_prefix(&name).is_some_and(|rest| rest.starts_with(['{', ' ']));
            assert!(told.lines().any(is_told), "{file} names {name}, which is not in\n{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_backup_is_told_also_after_a_restart() {
    let directory = TempDir::new().expect("a temporary directory");
    let start =
        || ServiceProcess::start_with(directory.path(), "embedded:data", &[("INVENTORY__METRICS__TOKEN", TOKEN)]);
    let told = async |service: &ServiceProcess| {
        send(reqwest::Client::new().get(format!("{}/metrics", service.origin)).bearer_auth(TOKEN)).await.text
    };
    let last = |told: &str| number(told, "inventory_last_backup_timestamp_seconds");
    let service = start();
    assert!(last(&told(&service).await).abs() < 0.5);
    succeeds(&run(directory.path(), &["backup", "one"]));
    let after = told(&service).await;
    assert!((number(&after, r#"inventory_backups_total{outcome="made"}"#) - 1.0).abs() < 0.5, "{after}");
    assert!(last(&after) > 1_600_000_000.0, "{after}");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let backup = command(directory.path(), &["backup", "-"]).stdout(full).status().expect("it runs");
    assert!(!backup.success());
    service.wait_for_line("a backup was not made");
    let failed = told(&service).await;
    for outcome in ["made", "failed"] {
        let series = format!("inventory_backups_total{{outcome=\"{outcome}\"}}");
        assert!((number(&failed, &series) - 1.0).abs() < 0.5, "{failed}");
    }
    assert!((last(&failed) - last(&after)).abs() < 0.5, "the last one that is kept counts");
    drop(service);
    assert!((last(&told(&start()).await) - last(&after)).abs() < 0.5);
}

#[tokio::test]
async fn sign_ins_are_counted_by_how_they_ended() {
    let app = TestApp::embedded_with(&[("metrics.token", TOKEN)]).await;
    let count = async |outcome: &str| {
        number(&metrics(&app).await, &format!("inventory_sign_ins_total{{outcome=\"{outcome}\"}}"))
    };
    let before = (count("accepted").await, count("refused").await);
    let url = format!("{}/rest/auth/login", app.origin);
    for (password, status) in [(ADMIN_PASSWORD, 200), ("wrong", 401)] {
        let body = serde_json::json!({"user_name": "admin", "password": password});
        assert_eq!(send(app.anonymous(Method::POST, &url).json(&body)).await.status, status);
    }
    let after = (count("accepted").await, count("refused").await);
    assert!(
        ((after.0 - before.0) - 1.0).abs() < 0.5 && ((after.1 - before.1) - 1.0).abs() < 0.5,
        "{before:?} {after:?}"
    );
}

#[tokio::test]
async fn an_address_of_their_own_answers_everybody() {
    let directory = TempDir::new().expect("a temporary directory");
    let uri = format!("embedded:{}", directory.path().join("data").display());
    let settings = Settings::defaults(&[
        ("server.port", "0"),
        ("server.workers", "1"),
        ("metrics.address", "127.0.0.1:0"),
        ("store.uri", &uri),
        ("auth.initial_admin_password", ADMIN_PASSWORD),
        ("auth.argon2.memory_kib", "8"),
    ]);
    let settings = settings.expect("valid settings");
    let application = Application::build(settings).await.expect("an application");
    let monitor = application.monitor_address().expect("an address");
    tokio::spawn(application.run_without_signals());
    let answer = reqwest::get(format!("http://{monitor}/metrics")).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    assert!(answer.text().await.expect("text").contains("inventory_http_requests_under_way 0"));
    assert_eq!(reqwest::get(format!("http://{monitor}/rest/")).await.expect("an answer").status(), 404);
}
