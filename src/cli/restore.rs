//! `inventory-service restore`: replaces the embedded store with a backup.

use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;

use crate::plural::counted;
use crate::settings::{Settings, StoreUri};
use crate::store::embedded::maintenance::{self, RestoreError};

use super::Outcome;
use super::backup::STANDARD;
use super::input::{in_words, opened};
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
        let is_standard = self.file.as_os_str() == STANDARD;
        let file = if is_standard { "the standard input".to_owned() } else { self.file.display().to_string() };
        let restored = tokio::task::spawn_blocking(move || {
            let mut input: Box<dyn Read> =
                if is_standard { Box::new(io::stdin()) } else { Box::new(opened(&self.file)?) };
            Ok::<_, io::Error>(maintenance::restore(&directory, &options, &mut *input, self.force))
        });
        let restored = restored.await?.map_err(|error| format!("{file}: {}", in_words(&error)))?;
        let restored = restored.map_err(|error| match error {
            RestoreError::NoBackup => format!("{file} {error}"),
            RestoreError::Unusable(_) | RestoreError::Damaged(_) => format!("{file}: {error}"),
            error => error.to_string(),
        })?;
        let (documents, keys) = (counted(restored.documents, "document"), counted(restored.entries, "key"));
        say!("read {documents} and {keys} of indexes, all sound; restored to {place}");
        Ok(())
    }
}
