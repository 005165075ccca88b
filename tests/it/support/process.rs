//! The service as a process of its own, for tests that kill it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::app::ADMIN_PASSWORD;

/// A running process; killed when this is dropped.
pub(crate) struct ServiceProcess {
    child: Child,
    /// `http://127.0.0.1:<port>`.
    pub(crate) origin: String,
    /// What it logged before it listened.
    pub(crate) first_lines: Vec<String>,
    lines: Receiver<String>,
}

impl ServiceProcess {
    /// Starts the binary in `directory` on this store, and waits until it listens.
    pub(crate) fn start(directory: &Path, store_uri: &str) -> Self {
        Self::start_with(directory, store_uri, &[])
    }

    /// The same with further variables.
    pub(crate) fn start_with(directory: &Path, store_uri: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_inventory-service"))
            .current_dir(directory)
            .env("INVENTORY__SERVER__PORT", "0")
            .env("INVENTORY__STORE__URI", store_uri)
            .env("INVENTORY__AUTH__INITIAL_ADMIN_PASSWORD", ADMIN_PASSWORD)
            .env("INVENTORY__AUTH__ARGON2__MEMORY_KIB", "8")
            .env("INVENTORY__AUTH__ARGON2__ITERATIONS", "1")
            .env("INVENTORY__LOG__LEVEL", "inventory_service=info,inventory_service::http=warn")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("stderr is piped")).lines();
        let mut seen = Vec::new();
        let origin = loop {
            let Some(Ok(line)) = lines.next() else { panic!("the service ended: {}", seen.join("\n")) };
            if let Some((_, origin)) = line.split_once("listening on ") {
                // A line of JSON continues after it.
                break origin.trim_end_matches(['"', '}']).to_owned();
            }
            seen.push(line);
        };
        // The pipe is read on, or the service would stop at a full one.
        let (sender, lines_after) = channel();
        std::thread::spawn(move || lines.for_each(|line| drop(line.map(|line| sender.send(line)))));
        Self { child, origin, first_lines: seen, lines: lines_after }
    }

    /// The number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line of the log with this text in it, after those that were waited for before, and gives it.
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(Duration::from_mins(1)) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("no line says {text}: {}", seen.join("\n"));
    }

    /// Sends a signal, for instance `HUP`.
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().expect("kill runs").success());
    }

    /// SIGKILL: nothing of the process gets a chance to finish.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process has ended");
    }

    /// SIGTERM; gives the exit code.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().expect("the process has ended").code()
    }
}

impl Drop for ServiceProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
