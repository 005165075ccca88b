//! The options of the command line.

use std::path::PathBuf;

use clap::Parser;
use inventory_service::store::embedded::Options;

/// Measures the embedded store through its port, and bare redb and a real MongoDB server for comparison.
#[derive(Debug, Clone, Parser)]
pub(crate) struct Arguments {
    /// How many objects; several sizes are compared with each other.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 1_000_000])]
    pub(crate) sizes: Vec<u32>,
    /// How many measured runs of each.
    #[arg(long, default_value_t = 7)]
    pub(crate) runs: usize,
    /// Small and short: shows that everything works, the figures say little.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only rows whose name contains this.
    #[arg(long)]
    pub(crate) only: Option<String>,
    /// Where the stores are kept for the next time; else they are filled again and removed.
    #[arg(long)]
    pub(crate) keep: Option<PathBuf>,
    /// The cache of the store and of bare redb, in MiB.
    #[arg(long, default_value_t = 64)]
    pub(crate) cache_mib: usize,
    /// From which size of its file on the store makes opening after a kill quick, in MiB.
    #[arg(long)]
    quick_repair_from_mib: Option<u64>,
    /// For how many seconds memory is watched under load.
    #[arg(long, default_value_t = 20)]
    pub(crate) memory_seconds: u64,
    /// This process is one that the measuring process started: what it shall do, in which directory.
    #[arg(long, hide = true, num_args = 2)]
    pub(crate) role: Option<Vec<String>>,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    pub(crate) fn read() -> Self {
        let mut arguments = Self::parse();
        if arguments.quick {
            arguments.sizes = vec![500, 2_000];
            arguments.runs = 3;
            arguments.memory_seconds = 1;
        }
        arguments.sizes.sort_unstable();
        arguments
    }

    pub(crate) fn options(&self) -> Options {
        let usual = Options { cache_bytes: self.cache_mib << 20, ..Options::default() };
        let quick_repair_from_bytes = self.quick_repair_from_mib.map(|mib| mib << 20);
        Options { quick_repair_from_bytes: quick_repair_from_bytes.unwrap_or(usual.quick_repair_from_bytes), ..usual }
    }

    /// Those that say how a store is opened, for a process of its own.
    pub(crate) fn of_the_store(&self) -> Vec<String> {
        let quick_repair = self.quick_repair_from_mib.map(|mib| format!("--quick-repair-from-mib={mib}"));
        [format!("--cache-mib={}", self.cache_mib)].into_iter().chain(quick_repair).collect()
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        self.only.as_ref().is_none_or(|only| row.contains(only.as_str()))
    }
}
