//! The options of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures the service over HTTP, from a second process, and the limits of what is below it.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Arguments {
    /// How many objects; several sizes are compared with each other.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000])]
    pub(crate) sizes: Vec<u32>,
    /// How many connections at a time, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 128])]
    pub(crate) connections: Vec<usize>,
    /// How many measured runs of each, after one that warms up.
    #[arg(long, default_value_t = 5)]
    pub(crate) runs: usize,
    /// How long a run takes.
    #[arg(long, default_value_t = 500)]
    pub(crate) run_ms: u64,
    /// Only rows whose name contains one of these, with semicolons between them.
    #[arg(long, value_delimiter = ';')]
    pub(crate) only: Vec<String>,
    /// Which stores: embedded, mongodb.
    #[arg(long, value_delimiter = ',', default_values_t = ["embedded".to_owned(), "mongodb".to_owned()])]
    pub(crate) stores: Vec<String>,
    /// A minute's run that shows that everything works; the figures say little.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where filled embedded stores are kept for the next time; else they are filled again and removed.
    #[arg(long)]
    pub(crate) keep: Option<PathBuf>,
    /// What is measured.
    #[arg(long, value_enum, default_value_t = What::Rows)]
    pub(crate) what: What,
    /// A program to measure in place of the one that was built: another version of the service.
    #[arg(long)]
    pub(crate) service: Option<PathBuf>,
    /// The name of the file that the figures are written to.
    #[arg(long, default_value = "bench-http.json")]
    pub(crate) output: String,
    /// This process is one that the measuring process started: which server it shall be, and where what it needs is.
    #[arg(long, hide = true, num_args = 3)]
    pub(crate) role: Option<Vec<String>>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Each route, and the limits of what is below it.
    Rows,
    /// The innocent reader while attackers are active.
    Innocent,
    /// The history and the stream of changes.
    History,
}

impl Arguments {
    pub(crate) fn read() -> Self {
        let mut arguments = Self::parse();
        if arguments.quick {
            arguments.sizes = vec![1_000];
            arguments.connections = vec![1, 16];
            arguments.runs = 2;
            arguments.run_ms = 100;
        }
        arguments.sizes.sort_unstable();
        arguments
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| row.contains(only.as_str()))
    }

    pub(crate) fn run(&self) -> Duration {
        Duration::from_millis(self.run_ms)
    }
}
