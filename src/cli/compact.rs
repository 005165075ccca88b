//! `inventory-service compact`: frees the unused space of an embedded store.

use clap::Args;

use crate::settings::{Settings, StoreUri};
use crate::store::embedded::maintenance;

use super::Outcome;
use super::output::say;

/// Compacts the embedded store; the service must not run on it.
#[derive(Debug, Args)]
pub struct CompactCommand {}

impl CompactCommand {
    pub(super) async fn run(self, settings: Settings) -> Outcome {
        let StoreUri::Embedded(directory) = settings.store.location()? else {
            return Err("only an embedded store is compacted; ask mongosh for the command compact".into());
        };
        let options = settings.store.embedded_options();
        let done = tokio::task::spawn_blocking(move || maintenance::compact(&directory, &options)).await??;
        say!("{done}");
        Ok(())
    }
}
