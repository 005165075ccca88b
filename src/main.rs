//! The command line: reads settings, starts logging, and runs the chosen command.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use inventory_service::cli::output::{CLOSED_PIPE, harmless, is_closed_pipe};
use inventory_service::cli::{CommandLine, Outcome, all_settings};
use inventory_service::logging;
use inventory_service::settings::{Overrides, Settings};
use mimalloc::MiMalloc;

/// Requests allocate many small, short-lived pieces of memory: see `docs/performance.md`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let arguments = std::env::args_os().filter_map(|argument| argument.into_string().ok());
    let line = CommandLine { settings: all_settings(arguments), ..CommandLine::parse() };
    match run(line) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_pipe(&*error) => ExitCode::from(CLOSED_PIPE),
        Err(error) => {
            let _ = writeln!(io::stderr(), "inventory-service: {}", harmless(error));
            ExitCode::FAILURE
        }
    }
}

fn run(line: CommandLine) -> Outcome {
    let command = line.command.unwrap_or_default();
    let mut overrides = read_overrides(&line.settings)?;
    overrides.values.extend(command.settings());
    let settings = Settings::load(Path::new("."), &overrides)?;
    logging::start(&settings.log.level, settings.log.format);
    command.run(settings)
}

fn read_overrides(pairs: &[String]) -> Result<Overrides, String> {
    let mut overrides = Overrides::default();
    for pair in pairs {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("--set {pair}: write KEY=VALUE"))?;
        overrides.values.push((key.to_owned(), value.to_owned()));
    }
    Ok(overrides)
}
