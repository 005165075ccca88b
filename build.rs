//! Tells the program which commit it is made of: `--version` names it.

use std::path::Path;
use std::process::Command;

#[expect(clippy::disallowed_methods, reason = "a build script is told by the environment, and by nothing else")]
fn main() {
    println!("cargo::rerun-if-env-changed=INVENTORY_COMMIT");
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // Developers commit often, and each commit would make every test build compile everything again.
    let commit = match std::env::var("INVENTORY_COMMIT") {
        Ok(given) => given,
        Err(_) if is_release => checkout().unwrap_or_default(),
        Err(_) => String::new(),
    };
    let commit = if commit.is_empty() { commit } else { format!(" ({commit})") };
    println!("cargo::rustc-env=INVENTORY_COMMIT={commit}");
}

/// Number and day of the commit of this checkout, for instance `0f2acd8 2026-11-23`.
fn checkout() -> Option<String> {
    let log = Path::new(".git/logs/HEAD");
    if !log.exists() {
        return None;
    }
    println!("cargo::rerun-if-changed={}", log.display());
    let shown = Command::new("git").args(["show", "--no-patch", "--format=%h %cs", "HEAD"]).output().ok()?;
    let text = String::from_utf8(shown.stdout).ok().filter(|_| shown.status.success())?;
    Some(text.trim().to_owned())
}
