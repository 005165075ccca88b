//! The line of a request in the log.

use tempfile::TempDir;

use crate::support::process::ServiceProcess;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Asks with values that no log has to show, and with a line end on the way.
async fn ask(service: &ServiceProcess) {
    let client = reqwest::Client::new();
    let url = format!("{}/rest/types/?filter=%7B%22name%22%3A%22confidential%22%7D%0A", service.origin);
    let request = client
        .get(url)
        .bearer_auth("no-good-token")
        .header("x-request-id", "probe-1")
        .header("traceparent", format!("00-{TRACE}-b7ad6b7169203331-01"));
    assert_eq!(request.send().await.expect("an answer").status(), 401);
}

fn service(directory: &TempDir, format: &str) -> ServiceProcess {
    let variables = [("INVENTORY__LOG__FORMAT", format), ("INVENTORY__LOG__LEVEL", "info")];
    ServiceProcess::start_with(directory.path(), "embedded:data", &variables)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_line_of_a_request_names_id_route_status_and_trace_and_nothing_of_its_query() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = service(&directory, "text");
    ask(&service).await;
    let line = service.wait_for_line("probe-1");
    let (_, message) = line.split_once("] ").expect("a message");
    assert!(message.starts_with("probe-1 user=- GET /rest/types/ 401 "), "{line}");
    assert!(message.ends_with(&format!(" ms trace={TRACE} parent=b7ad6b7169203331")), "{line}");
    assert!(!line.contains("confidential") && !line.contains("no-good-token"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_json_when_a_setting_says_so() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = service(&directory, "json");
    ask(&service).await;
    let line: serde_json::Value = serde_json::from_str(&service.wait_for_line("probe-1")).expect("a line of JSON");
    let request = line["request"].as_object().expect("members");
    let names: Vec<&str> = request.keys().map(String::as_str).collect();
    assert_eq!(names, ["id", "method", "route", "status", "ms", "trace_id", "parent_id"]);
    assert_eq!(
        (&line["level"], &request["route"], &request["status"]),
        (&"INFO".into(), &"/rest/types/".into(), &401.into())
    );
    assert_eq!(request["trace_id"], TRACE);
}
