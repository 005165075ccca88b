//! `inventory-service export`: writes the inventory into a directory that `import` reads.

use std::path::PathBuf;

use clap::Args;

use crate::clock::{Clock, SystemClock};
use crate::moving::export::export;
use crate::progress;
use crate::settings::Settings;

use super::{Outcome, existing_store, services, there_is_a_store};

/// Where to write to.
#[derive(Debug, Args)]
pub struct ExportCommand {
    /// A new directory.
    directory: PathBuf,
    /// Put it in the place of an earlier export.
    #[arg(long)]
    force: bool,
    /// Write the objects of each type as a table too: objects/TYPE.csv.
    #[arg(long)]
    csv: bool,
}

impl ExportCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let progress = progress::on_stderr();
        let now = SystemClock.now();
        let manifest = if self.csv {
            there_is_a_store(&settings)?;
            let services = services(&settings).await?;
            export(&*services.store, &self.directory, self.force, now, Some(&services), &*progress).await?
        } else {
            let store = existing_store(&settings).await?;
            export(&*store, &self.directory, self.force, now, None, &*progress).await?
        };
        for file in &manifest.files {
            println!("{}: {} documents, {} bytes", file.name, file.documents, file.bytes);
        }
        if !manifest.of_one_moment {
            println!("what others wrote to MongoDB meanwhile may be in it or not");
        }
        println!("exported to {}; what users sign in with is not in it", self.directory.display());
        Ok(())
    }
}
