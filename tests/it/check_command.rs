//! `inventory-service check`, as a process of its own.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::process::ServiceProcess;

/// What the command says in `directory` under these variables.
fn check(directory: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inventory-service"));
    command.arg("check").args(flags).current_dir(directory).envs(variables.iter().copied());
    command.output().expect("the binary starts")
}

/// The one line that a command in trouble says.
fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "the check passed");
    String::from_utf8_lossy(&output.stderr).trim().to_owned()
}

#[test]
fn a_running_service_is_ready_and_one_that_ended_is_not() {
    let directory = TempDir::new().expect("a temporary directory");
    let service = ServiceProcess::start(directory.path(), "embedded:data");
    let port = service.origin.rsplit(':').next().expect("a port").to_owned();
    let variables = [("INVENTORY__SERVER__HOST", "0.0.0.0"), ("INVENTORY__SERVER__PORT", port.as_str())];
    let answer = check(directory.path(), &["--ready"], &variables);
    assert!(answer.status.success(), "{}", complaint(&answer));
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "{\"status\":\"ready\"}\n");
    service.terminate();
    let complaint = complaint(&check(directory.path(), &["--ready"], &variables));
    assert!(complaint.contains(&format!("nothing answers on 127.0.0.1:{port}")), "{complaint}");
}

#[test]
fn nobody_can_ask_a_service_on_any_port() {
    let directory = TempDir::new().expect("a temporary directory");
    let complaint = complaint(&check(directory.path(), &["--ready"], &[("INVENTORY__SERVER__PORT", "0")]));
    assert!(complaint.contains("set it to a fixed port"), "{complaint}");
}
