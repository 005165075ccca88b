//! `inventory-service restore`: replaces the embedded store with a backup.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;

use crate::settings::{Settings, StoreUri};
use crate::store::embedded::maintenance;

use super::Outcome;
use super::backup::STANDARD;
use super::output::say;

/// What to read.
#[derive(Debug, Args)]
pub struct RestoreCommand {
    /// The file that `backup` wrote, or - for the standard input.
    file: PathBuf,
    /// Replace an existing store.
    #[arg(long)]
    force: bool,
}

impl RestoreCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let StoreUri::Embedded(directory) = settings.store.location()? else {
            return Err("MongoDB is restored with its own tool, mongorestore: docs/operation.md shows how".into());
        };
        let options = settings.store.embedded_options();
        let place = directory.display().to_string();
        let file = self.file.clone();
        let restored = tokio::task::spawn_blocking(move || {
            let mut input: Box<dyn Read> = if self.file.as_os_str() == STANDARD {
                Box::new(io::stdin())
            } else {
                Box::new(File::open(&self.file)?)
            };
            Ok::<_, io::Error>(maintenance::restore(&directory, &options, &mut *input, self.force))
        });
        let restored = restored.await?.map_err(|error| format!("{}: {error}", file.display()))??;
        say!(
            "read {} documents and {} keys of indexes, all sound; restored to {place}",
            restored.documents,
            restored.entries
        );
        Ok(())
    }
}
